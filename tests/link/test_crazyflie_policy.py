"""A policy in the Crazyflie's firmware: its controller compiled and called as the firmware does, against the policy here."""

import ctypes
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from support.firmware_headers import CRAZYFLIE, real, written
from support.learnt import trained
from support.networks import drawn
from typer.testing import CliRunner

import samara
from samara.cli import app
from samara.control.crazyflie_firmware.controller import command_of_thrusts
from samara.control.policy import PolicyController, shipped_policy
from samara.control.policy_c import compiled
from samara.control.policy_file import LayerKind, Policy, mlp, save_policy
from samara.control.registry import tuned
from samara.core.algebra import Quat, Vec3
from samara.link.deploy.crazyflie import FILES, crazyflie_boundary, steps_of, write_crazyflie_policy
from samara.physics.multirotor import at_rest
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


class InFirmware:
    """`controller(state, reference, vehicle, memory) → command, memory` at 1 kHz, by the C that the firmware would call"""

    initial_memory = 0  # the step of the stabilizer: it acts at the same instants as at 100 Hz
    look_ahead = ()

    def __init__(self, policy: Policy, vehicle: Vehicle, folder: Path) -> None:
        write_crazyflie_policy(policy, vehicle, folder)
        (folder / "all.c").write_text('#include "samara_policy.c"\n#include "samara_controller.c"\n' + TICK)
        headers = (written(CRAZYFLIE, folder / "headers"),)
        if real("CRAZYFLIE"):
            only = {"autoconf.h": CRAZYFLIE["autoconf.h"]}
            headers = (written(only, folder / "configured"), *real("CRAZYFLIE"))
        self.library = compiled(folder / "all.c", folder / "all.so", *STRICT, *headers)
        self.library.boot()
        self.modes = [ABSOLUTE] * 4

    def forces(self, numbers: Any, step: int) -> np.ndarray:
        given, modes, forces = (ctypes.c_float * 27)(*numbers), (ctypes.c_int * 4)(*self.modes), (ctypes.c_float * 4)()
        self.library.tick(given, modes, step, forces)
        return np.array(forces)

    def __call__(self, state: State, reference: Reference, vehicle: Vehicle, step: Any) -> tuple[Any, int]:
        w, x, y, z = state.q_WB
        asked = (reference.p_W, reference.v_W, reference.a_W, reference.j_W)
        numbers = [
            *state.p_W,
            *state.v_W,
            x,
            y,
            z,
            w,
            *(math.degrees(own) for own in state.omega_B),
            *(k for own in asked for k in own),
        ]
        shares = self.forces([*numbers, math.degrees(reference.yaw), 0.0], step)
        thrusts = [0.0] * 4
        for motor, rotor in enumerate(by_corner(vehicle)):
            thrusts[rotor] = float(shares[motor]) * THRUST_MAX
        return command_of_thrusts(tuple(thrusts), state, vehicle), step + 1


def by_corner(vehicle: Vehicle) -> list[int]:
    """The rotor at each motor's corner"""
    signs = [tuple(int(np.sign(x)) for x in own.r_B[:2]) for own in vehicle.rotors]
    return [signs.index(corner) for corner in CORNERS]


def remembers(folder: Path) -> Policy:
    kinds = (LayerKind("dense", 16, "relu"), LayerKind("gru", 16), *mlp((), 4))
    vehicle = samara.vehicle("crazyflie")
    return save_policy(folder, vehicle, kinds, drawn(kinds, 22), task="hover", observation="raptor", period=0.01)


def follows(folder: Path) -> Policy:
    kinds = mlp((24,), 4)
    vehicle = samara.vehicle("crazyflie")
    return save_policy(folder, vehicle, kinds, drawn(kinds, 28), task="follow", observation="tracking", period=0.004)


POLICIES = {
    "full state": lambda folder: trained(),
    "recurrent": remembers,
    "tracking": follows,
    "universal": lambda folder: shipped_policy("universal"),
}


@needs_cc
@pytest.mark.parametrize("name", POLICIES)
def test_motors_are_told_what_the_policy_commands(name: str, tmp_path: Path) -> None:
    """States drawn at random in the firmware's units; ours by SciPy, rotor speeds by the closed form of their lag"""
    vehicle, draw = samara.vehicle("crazyflie"), np.random.default_rng(4)
    policy = POLICIES[name](tmp_path / "policy")
    firmware, steps = InFirmware(policy, vehicle, tmp_path), steps_of(policy.period)
    own = PolicyController(policy.fitted(vehicle), policy.period)
    motor, memory, worst = vehicle.rotors[0].motor, own.initial_memory, 0.0
    speeds = told = np.zeros(4)
    for action in range(1, 40):
        p, v, gyro, wanted_p, wanted_v, a, j = np.float32(draw.normal(size=(7, 3)))
        gyro = np.float32(60.0 * gyro)
        turn = Rotation.from_rotvec(0.5 * draw.normal(size=3))
        yaw = np.float32(draw.uniform(-180.0, 180.0))
        numbers = [*p, *v, *turn.as_quat(), *gyro, *wanted_p, *wanted_v, *a, *j, yaw, 0.0]
        shares = firmware.forces(numbers, action * steps)
        speeds = told + (speeds - told) * np.exp(-steps * 1e-3 / motor.rise)
        x, y, z, w = np.float32(turn.as_quat()).astype(float)
        state = at_rest(vehicle)._replace(
            p_W=Vec3(*map(float, p)),
            v_W=Vec3(*map(float, v)),
            q_WB=Quat(w, x, y, z),
            omega_B=Vec3(*map(float, np.deg2rad(gyro.astype(float)))),
            rotor_speed=tuple(map(float, speeds)),
        )
        asked = [Vec3(*map(float, own)) for own in (wanted_p, wanted_v, a, j)]
        reference = Reference(*asked[:3], j_W=asked[3], yaw=float(np.deg2rad(float(yaw))))
        command, memory = own(state, reference, vehicle, memory)
        told = motor.speed_min + np.clip(command, 0.0, 1.0) * (motor.speed_max - motor.speed_min)
        thrusts = vehicle.rotors[0].k_thrust * told**2
        worst = max(worst, float(np.abs(shares - thrusts[by_corner(vehicle)] / THRUST_MAX).max()))
        np.testing.assert_array_equal(firmware.forces(np.zeros(27), action * steps + 1), shares)  # until it acts again
    assert worst < 5e-6


@needs_cc
def test_it_flies_in_the_firmware_as_it_does_here(tmp_path: Path) -> None:
    """What differs is float, and rotor speeds that are not measured but followed from the commands"""
    vehicle, policy = samara.vehicle("crazyflie"), trained()
    here = samara.fly(
        "hover", controller=tuned("policy", file=policy), settings={"duration": 4.0, "rates.autopilot": 100}
    )
    there = samara.fly(
        "hover", controller=InFirmware(policy, vehicle, tmp_path), settings={"duration": 4.0, "rates.autopilot": 1000}
    )
    one, two = (run.tracks[0].tables["state"].rows[:, :3] for run in (here, there))
    assert one[-1, 2] > 1.4  # it did take off
    np.testing.assert_allclose(two, one, rtol=0, atol=1e-6)


@needs_cc
def test_set_points_that_are_no_places(tmp_path: Path) -> None:
    """The motors stop without a height; without x, y and yaw it holds the last ones, at first those where it is"""
    firmware = InFirmware(trained(), samara.vehicle("crazyflie"), tmp_path)
    there = np.array([0.3, -0.2, 1.0, *[0.0] * 6, 1.0, *[0.0] * 3, *[0.0] * 2, 1.0, *[0.0] * 11])
    still = firmware.forces(there, 10)
    assert still.min() > 0.1
    firmware.modes = [DISABLED, DISABLED, DISABLED, DISABLED]
    np.testing.assert_array_equal(firmware.forces(there, 11), 0.0)

    def first(modes: list[int], place: Any) -> np.ndarray:
        firmware.modes = [DISABLED] * 4
        firmware.forces(there, 19)
        firmware.modes = modes
        numbers = there.copy()
        numbers[13:16] = place
        return firmware.forces(numbers, 20)

    at_its_place = first([ABSOLUTE] * 4, there[:3])
    np.testing.assert_array_equal(first([VELOCITY, VELOCITY, ABSOLUTE, VELOCITY], [9.0, 9.0, 1.0]), at_its_place)
    assert np.abs(first([ABSOLUTE] * 4, [0.8, 0.3, 1.0]) - at_its_place).max() > 1e-2


def test_vehicles_that_are_no_crazyflies_are_one_sentence(tmp_path: Path) -> None:
    craft = samara.vehicle("crazyflie")
    mirrored = replace(craft, rotors=tuple(own._replace(spin=-own.spin) for own in craft.rotors))
    for vehicle, words in (
        (samara.vehicle("hexarotor_x"), "has 6 rotors; crazyflie is wired for 4"),
        (mirrored, "turns the other way than crazyflie's; expected counter-clockwise"),
        (samara.vehicle("hakoniwa"), r"do more than follow their command \(duty\) with a lag"),
    ):
        with pytest.raises(ValueError, match=words):
            crazyflie_boundary(vehicle)
    with pytest.raises(ValueError, match=r"acts every 0\.5 ms; the Crazyflie's stabilizer runs every 1 ms"):
        write_crazyflie_policy(replace(trained(), period=5e-4), craft, tmp_path)


def test_the_command_line_writes_an_app(tmp_path: Path) -> None:
    policy = str(Path(__file__).parents[1] / "support" / "policies" / "hover")
    run = CliRunner().invoke(app, ["export", "policy", policy, "--crazyflie", "-o", str(tmp_path)])
    assert run.exit_code == 0, run.output
    assert sorted(own.name for own in tmp_path.iterdir()) == sorted(FILES) and "make CRAZYFLIE_BASE=" in run.output
    run = CliRunner().invoke(app, ["export", "policy", policy, "--crazyflie", "--ned"])
    assert run.exit_code != 0 and "expected one of them at most" in str(run.exception)
