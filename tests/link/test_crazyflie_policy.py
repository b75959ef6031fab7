"""A policy in the Crazyflie's firmware: its controller, compiled and called as in the firmware, against Samara."""

import ctypes
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from support.firmware_headers import CRAZYFLIE, real_header_options, write_headers
from support.networks import random_tensors
from support.trained_policies import trained_policy
from typer.testing import CliRunner

import samara
from samara.cli import app
from samara.control.crazyflie_firmware.controller import command_from_thrusts
from samara.control.policy import PolicyController, bundled_policy
from samara.control.policy_c import compile_library
from samara.control.policy_file import LayerSpec, Policy, mlp_layers, save_policy
from samara.control.registry import controller_spec
from samara.core.algebra import Quat, Vec3
from samara.link.deploy.crazyflie import FILES, crazyflie_boundary, steps_per_action, write_crazyflie_policy
from samara.physics.multirotor import state_at_rest
from samara.physics.types import Reference, State, Vehicle

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
STRICT = ("-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Wdouble-promotion", "-Wno-unused-parameter")
THRUST_MAX = 0.12  # [N], legacy propellers
CORNERS = ((1, -1), (-1, -1), (-1, 1), (1, 1))  # of M1 to M4: signs of x and y
TICK = """#include <string.h>
#include "controller.h"
void boot(void) { controllerOutOfTreeInit(); }
void tick(const float *in, const int *modes, unsigned step, float *forces) {
    static control_t control;
    state_t state;
    sensorData_t sensors;
    setpoint_t setpoint;
    memset(&state, 0, sizeof state);
    memset(&sensors, 0, sizeof sensors);
    memset(&setpoint, 0, sizeof setpoint);
    state.position.x = in[0], state.position.y = in[1], state.position.z = in[2];
    state.velocity.x = in[3], state.velocity.y = in[4], state.velocity.z = in[5];
    state.attitudeQuaternion.x = in[6], state.attitudeQuaternion.y = in[7];
    state.attitudeQuaternion.z = in[8], state.attitudeQuaternion.w = in[9];
    sensors.gyro.x = in[10], sensors.gyro.y = in[11], sensors.gyro.z = in[12];
    setpoint.position.x = in[13], setpoint.position.y = in[14], setpoint.position.z = in[15];
    setpoint.velocity.x = in[16], setpoint.velocity.y = in[17], setpoint.velocity.z = in[18];
    setpoint.acceleration.x = in[19], setpoint.acceleration.y = in[20], setpoint.acceleration.z = in[21];
    setpoint.jerk.x = in[22], setpoint.jerk.y = in[23], setpoint.jerk.z = in[24];
    setpoint.attitude.yaw = in[25];
    state.attitude.yaw = in[26];
    setpoint.mode.x = modes[0], setpoint.mode.y = modes[1], setpoint.mode.z = modes[2], setpoint.mode.yaw = modes[3];
    controllerOutOfTree(&control, &setpoint, &sensors, &state, step);
    for (int k = 0; k < 4; k++) forces[k] = control.controlMode == controlModeForce ? control.normalizedForces[k] : -1.0f;
}
"""
DISABLED, ABSOLUTE, VELOCITY = range(3)


class FirmwareController:
    """Controller that calls the generated C at 1 kHz, as the firmware would."""

    initial_state = 0  # step of the stabilizer: it acts at the same instants as at 100 Hz
    look_ahead = ()

    def __init__(self, policy: Policy, vehicle: Vehicle, folder: Path) -> None:
        write_crazyflie_policy(policy, vehicle, folder)
        (folder / "all.c").write_text('#include "samara_policy.c"\n#include "samara_controller.c"\n' + TICK)
        headers = (write_headers(CRAZYFLIE, folder / "headers"),)
        if real_header_options("CRAZYFLIE"):
            autoconf = {"autoconf.h": CRAZYFLIE["autoconf.h"]}
            headers = (write_headers(autoconf, folder / "configured"), *real_header_options("CRAZYFLIE"))
        self.library = compile_library(folder / "all.c", folder / "all.so", *STRICT, *headers)
        self.library.boot()
        self.modes = [ABSOLUTE] * 4

    def forces(self, numbers: Any, step: int) -> np.ndarray:
        inputs, modes, forces = (ctypes.c_float * 27)(*numbers), (ctypes.c_int * 4)(*self.modes), (ctypes.c_float * 4)()
        self.library.tick(inputs, modes, step, forces)
        return np.array(forces)

    def __call__(self, state: State, reference: Reference, vehicle: Vehicle, step: Any) -> tuple[Any, int]:
        w, x, y, z = state.q_WB
        reference_vectors = (reference.p_W, reference.v_W, reference.a_W, reference.j_W)
        numbers = [
            *state.p_W,
            *state.v_W,
            x,
            y,
            z,
            w,
            *(math.degrees(vector) for vector in state.omega_B),
            *(k for vector in reference_vectors for k in vector),
        ]
        fractions = self.forces([*numbers, math.degrees(reference.yaw), 0.0], step)
        thrusts = [0.0] * 4
        for motor, rotor in enumerate(corner_rotors(vehicle)):
            thrusts[rotor] = float(fractions[motor]) * THRUST_MAX
        return command_from_thrusts(tuple(thrusts), state, vehicle), step + 1


def corner_rotors(vehicle: Vehicle) -> list[int]:
    """Return the rotor at each motor's corner."""
    signs = [tuple(int(np.sign(x)) for x in rotor.r_B[:2]) for rotor in vehicle.rotors]
    return [signs.index(corner) for corner in CORNERS]


def recurrent_policy(folder: Path) -> Policy:
    layer_kinds = (LayerSpec("dense", 16, "relu"), LayerSpec("gru", 16), *mlp_layers((), 4))
    vehicle = samara.vehicle("crazyflie")
    return save_policy(
        folder, vehicle, layer_kinds, random_tensors(layer_kinds, 22), task="hover", observation="raptor", period=0.01
    )


def tracking_policy(folder: Path) -> Policy:
    layer_kinds = mlp_layers((24,), 4)
    vehicle = samara.vehicle("crazyflie")
    return save_policy(
        folder,
        vehicle,
        layer_kinds,
        random_tensors(layer_kinds, 28),
        task="follow",
        observation="tracking",
        period=0.004,
    )


POLICIES = {
    "full state": lambda folder: trained_policy(),
    "recurrent": recurrent_policy,
    "tracking": tracking_policy,
    "universal": lambda folder: bundled_policy("universal"),
}


@needs_cc
@pytest.mark.parametrize("name", POLICIES)
def test_motors_get_the_commands_of_the_policy(name: str, tmp_path: Path) -> None:
    """Random states in the firmware's units; converted by SciPy, rotor speeds by the closed form of their lag."""
    vehicle, rng = samara.vehicle("crazyflie"), np.random.default_rng(4)
    policy = POLICIES[name](tmp_path / "policy")
    firmware, steps = FirmwareController(policy, vehicle, tmp_path), steps_per_action(policy.period)
    controller = PolicyController(policy.adapt(vehicle), policy.period)
    motor, controller_state, worst = vehicle.rotors[0].motor, controller.initial_state, 0.0
    speeds = commanded_speeds = np.zeros(4)
    for action in range(1, 40):
        p, v, gyro, reference_p, reference_v, a, j = np.float32(rng.normal(size=(7, 3)))
        gyro = np.float32(60.0 * gyro)
        rotation = Rotation.from_rotvec(0.5 * rng.normal(size=3))
        yaw = np.float32(rng.uniform(-180.0, 180.0))
        numbers = [*p, *v, *rotation.as_quat(), *gyro, *reference_p, *reference_v, *a, *j, yaw, 0.0]
        fractions = firmware.forces(numbers, action * steps)
        speeds = commanded_speeds + (speeds - commanded_speeds) * np.exp(-steps * 1e-3 / motor.time_constant_up)
        x, y, z, w = np.float32(rotation.as_quat()).astype(float)
        state = state_at_rest(vehicle)._replace(
            p_W=Vec3(*map(float, p)),
            v_W=Vec3(*map(float, v)),
            q_WB=Quat(w, x, y, z),
            omega_B=Vec3(*map(float, np.deg2rad(gyro.astype(float)))),
            rotor_speed=tuple(map(float, speeds)),
        )
        reference_vectors = [Vec3(*map(float, vector)) for vector in (reference_p, reference_v, a, j)]
        reference = Reference(*reference_vectors[:3], j_W=reference_vectors[3], yaw=float(np.deg2rad(float(yaw))))
        command, controller_state = controller(state, reference, vehicle, controller_state)
        commanded_speeds = motor.speed_min + np.clip(command, 0.0, 1.0) * (motor.speed_max - motor.speed_min)
        thrusts = vehicle.rotors[0].k_thrust * commanded_speeds**2
        worst = max(worst, float(np.abs(fractions - thrusts[corner_rotors(vehicle)] / THRUST_MAX).max()))
        np.testing.assert_array_equal(
            firmware.forces(np.zeros(27), action * steps + 1), fractions
        )  # until the next action
    assert worst < 5e-6


@needs_cc
def test_it_flies_in_the_firmware_as_in_samara(tmp_path: Path) -> None:
    """The differences are single precision, and rotor speeds that are simulated instead of measured."""
    vehicle, policy = samara.vehicle("crazyflie"), trained_policy()
    samara_run = samara.fly(
        "hover", controller=controller_spec("policy", file=policy), settings={"duration": 4.0, "rates.control": 100}
    )
    firmware_run = samara.fly(
        "hover",
        controller=FirmwareController(policy, vehicle, tmp_path),
        settings={"duration": 4.0, "rates.control": 1000},
    )
    expected, actual = (run.drone_records[0].tables["state"].rows[:, :3] for run in (samara_run, firmware_run))
    assert expected[-1, 2] > 1.4  # it did take off
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-6)


@needs_cc
def test_setpoints_without_positions(tmp_path: Path) -> None:
    """The motors stop without a height; without x, y and yaw it holds the last ones, at first the initial ones."""
    firmware = FirmwareController(trained_policy(), samara.vehicle("crazyflie"), tmp_path)
    inputs = np.array([0.3, -0.2, 1.0, *[0.0] * 6, 1.0, *[0.0] * 3, *[0.0] * 2, 1.0, *[0.0] * 11])
    hover_forces = firmware.forces(inputs, 10)
    assert hover_forces.min() > 0.1
    firmware.modes = [DISABLED, DISABLED, DISABLED, DISABLED]
    np.testing.assert_array_equal(firmware.forces(inputs, 11), 0.0)

    def first_forces(modes: list[int], position: Any) -> np.ndarray:
        firmware.modes = [DISABLED] * 4
        firmware.forces(inputs, 19)
        firmware.modes = modes
        numbers = inputs.copy()
        numbers[13:16] = position
        return firmware.forces(numbers, 20)

    holding = first_forces([ABSOLUTE] * 4, inputs[:3])
    np.testing.assert_array_equal(first_forces([VELOCITY, VELOCITY, ABSOLUTE, VELOCITY], [9.0, 9.0, 1.0]), holding)
    assert np.abs(first_forces([ABSOLUTE] * 4, [0.8, 0.3, 1.0]) - holding).max() > 1e-2


def test_other_vehicles_are_one_sentence(tmp_path: Path) -> None:
    crazyflie = samara.vehicle("crazyflie")
    mirrored = replace(crazyflie, rotors=tuple(rotor._replace(spin=-rotor.spin) for rotor in crazyflie.rotors))
    for vehicle, message in (
        (samara.vehicle("hexarotor_x"), "has 6 rotors; crazyflie is wired for 4"),
        (mirrored, "turns the other way than crazyflie's; expected counter-clockwise"),
        (samara.vehicle("hakoniwa"), r"do more than follow their command \(duty\) with a lag"),
    ):
        with pytest.raises(ValueError, match=message):
            crazyflie_boundary(vehicle)
    with pytest.raises(ValueError, match=r"acts every 0\.5 ms; the Crazyflie's stabilizer runs every 1 ms"):
        write_crazyflie_policy(replace(trained_policy(), period=5e-4), crazyflie, tmp_path)


def test_the_command_line_writes_an_app(tmp_path: Path) -> None:
    policy = str(Path(__file__).parents[1] / "support" / "policies" / "hover")
    run = CliRunner().invoke(app, ["export", "policy", policy, "--crazyflie", "-o", str(tmp_path)])
    assert run.exit_code == 0, run.output
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(FILES) and "make CRAZYFLIE_BASE=" in run.output
    run = CliRunner().invoke(app, ["export", "policy", policy, "--crazyflie", "--ned"])
    assert run.exit_code != 0 and "expected one of them at most" in str(run.exception)
