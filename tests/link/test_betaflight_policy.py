"""A policy in Betaflight: its mixer, compiled and called as Betaflight would, against the policy in Samara."""

import ctypes
import math
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from support.firmware_headers import BETAFLIGHT, real_header_options, write_headers
from support.trained_policies import trained_policy
from typer.testing import CliRunner

import samara
from samara.cli import app
from samara.control.policy import PolicyController, bundled_policy
from samara.control.policy_c import compile_library
from samara.control.policy_file import Policy
from samara.control.registry import controller_spec
from samara.core.algebra import Quat, Vec3
from samara.link.deploy.betaflight import FILES, betaflight_boundary, write_betaflight_policy
from samara.physics.multirotor import state_at_rest
from samara.physics.types import Reference, State, Vehicle

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
STRICT = ("-std=gnu17", "-Wall", "-Wextra", "-Werror")
CORNERS = ((-1, -1), (1, -1), (-1, 1), (1, 1))  # of motors 1 to 4: signs of x and y
DSHOT_MIN, DSHOT_MAX, IDLE = 48.0, 2047.0, 0.055  # DShot range, and Betaflight's motor_idle
ENU_FROM_NWU = Rotation.from_euler("z", 90.0, degrees=True)
STAND_IN_SOURCE = f"""#include "samara_mixer.h"
#include "flight/imu.h"
uint8_t armingFlags = ARMED;
gyro_t gyro;
quaternion_t imuAttitudeQuaternion;
float motor[8];
static positionEstimate3d_t estimate = {{.isValidXY = true, .isValidZ = true}};
const positionEstimate3d_t *positionEstimatorGetEstimate(void) {{ return &estimate; }}
float motorConvertFromExternal(uint16_t external) {{
    return external == 1000 ? 0.0f : {DSHOT_MIN}f + (external - 1001) * {DSHOT_MAX - DSHOT_MIN}f / 999.0f;
}}
float getMotorOutputLow(void) {{ return {DSHOT_MIN + IDLE * (DSHOT_MAX - DSHOT_MIN)}f; }}
float getMotorOutputHigh(void) {{ return {DSHOT_MAX}f; }}
int mix(const float *in, unsigned time, int armed, float *out) {{
    samara_policy_reference reference = {{.p = {{in[13], in[14], in[15]}}, .v = {{in[16], in[17], in[18]}}, .yaw = in[19]}};
    estimate.position = (vector3_t){{in[0], in[1], in[2]}};
    estimate.velocity = (vector3_t){{in[3], in[4], in[5]}};
    imuAttitudeQuaternion = (quaternion_t){{in[6], in[7], in[8], in[9]}};
    for (int k = 0; k < 3; k++) gyro.gyroADCf[k] = in[10 + k];
    armingFlags = armed;
    const int flown = samaraMix(time, &reference);
    for (int k = 0; k < 4; k++) out[k] = motor[k];
    return flown;
}}
"""


class BetaflightController:
    """Controller that calls the mixer at 1 kHz and converts DShot values to throttles."""

    initial_state = 0  # [µs]

    def __init__(self, policy: Policy, vehicle: Vehicle, folder: Path) -> None:
        write_betaflight_policy(policy, vehicle, folder)
        (folder / "all.c").write_text('#include "samara_policy.c"\n#include "samara_mixer.c"\n' + STAND_IN_SOURCE)
        headers = write_headers(BETAFLIGHT, folder / "headers")
        self.library = compile_library(folder / "all.c", folder / "all.so", *STRICT, headers)

    def motors(self, numbers: Any, time_us: int, armed: bool = True) -> np.ndarray | None:
        inputs, outputs = (ctypes.c_float * 20)(*numbers), (ctypes.c_float * 4)()
        return np.array(outputs) if self.library.mix(inputs, time_us, int(armed), outputs) else None

    def __call__(self, state: State, reference: Reference, vehicle: Vehicle, time_us: Any) -> tuple[Any, int]:
        w, x, y, z = state.q_WB
        q_nwu = (ENU_FROM_NWU.inv() * Rotation.from_quat([x, y, z, w])).as_quat()
        cm = [100.0 * k for vector in (state.p_W, state.v_W) for k in vector]
        reference_cm = [100.0 * k for vector in (reference.p_W, reference.v_W) for k in vector]
        rates = [math.degrees(vector) for vector in state.omega_B]
        numbers = [*cm, q_nwu[3], *q_nwu[:3], *rates, *reference_cm, 90.0 - math.degrees(reference.yaw)]
        motor_values = self.motors(numbers, time_us)
        assert motor_values is not None
        command = [0.0] * 4
        for motor, rotor in enumerate(corner_rotors(vehicle)):
            command[rotor] = (float(motor_values[motor]) - DSHOT_MIN) / (DSHOT_MAX - DSHOT_MIN)
        return tuple(command), time_us + 1000


def corner_rotors(vehicle: Vehicle) -> list[int]:
    """Return the rotor at each motor's corner."""
    signs = [tuple(int(np.sign(x)) for x in rotor.r_B[:2]) for rotor in vehicle.rotors]
    return [signs.index(corner) for corner in CORNERS]


@needs_cc
@pytest.mark.parametrize(
    ("name", "load_policy"), [("crazyflie", trained_policy), ("iris", lambda: bundled_policy("universal"))]
)
def test_motors_get_the_commands_of_the_policy(name: str, load_policy: Any, tmp_path: Path) -> None:
    """States drawn in Betaflight's axes and units; converted by SciPy, rotor speeds by the closed form of their lag."""
    vehicle, rng, policy = samara.vehicle(name), np.random.default_rng(6), load_policy()
    betaflight, controller = (
        BetaflightController(policy, vehicle, tmp_path),
        PolicyController(policy.adapt(vehicle), policy.period),
    )
    motor, controller_state, worst = samara.vehicle("crazyflie").rotors[0].motor, controller.initial_state, 0.0
    period_us = round(policy.period * 1e6)
    speeds = commanded_speeds = np.zeros(4)
    for action in range(40):
        p, v, reference_p, reference_v = np.float32(100.0 * rng.normal(size=(4, 3)))  # [cm], east, north, up
        gyro, heading = np.float32(60.0 * rng.normal(size=3)), np.float32(rng.uniform(0.0, 360.0))
        rotation = Rotation.from_rotvec(0.5 * rng.normal(size=3))
        x, y, z, w = np.float32(rotation.as_quat())
        motor_values = betaflight.motors(
            [*p, *v, w, x, y, z, *gyro, *reference_p, *reference_v, heading], action * period_us
        )
        speeds = commanded_speeds + (speeds - commanded_speeds) * np.exp(-policy.period / motor.time_constant_up)
        x, y, z, w = (ENU_FROM_NWU * Rotation.from_quat([x, y, z, w])).as_quat()
        state = state_at_rest(vehicle)._replace(
            p_W=Vec3(*(0.01 * p.astype(float)).tolist()),
            v_W=Vec3(*(0.01 * v.astype(float)).tolist()),
            q_WB=Quat(w, x, y, z),
            omega_B=Vec3(*np.deg2rad(gyro.astype(float)).tolist()),
            rotor_speed=tuple(speeds.tolist()),
        )
        reference_vectors = [Vec3(*(0.01 * vector.astype(float)).tolist()) for vector in (reference_p, reference_v)]
        command, controller_state = controller(
            state, Reference(*reference_vectors, yaw=float(np.deg2rad(90.0 - heading))), vehicle, controller_state
        )
        commanded_speeds = np.clip(command, 0.0, 1.0) * (motor.speed_max - motor.speed_min) + motor.speed_min
        throttle = np.clip(command, IDLE, 1.0)[corner_rotors(vehicle)]
        worst = max(worst, float(np.abs((motor_values - DSHOT_MIN) / (DSHOT_MAX - DSHOT_MIN) - throttle).max()))
        repeated = betaflight.motors(np.zeros(20), action * period_us + period_us // 2)
        np.testing.assert_array_equal(repeated, motor_values)  # until the next action
    assert worst < 5e-6


@needs_cc
def test_it_flies_in_betaflight_as_in_samara(tmp_path: Path) -> None:
    vehicle, policy = samara.vehicle("crazyflie"), trained_policy()
    samara_run = samara.fly(
        "hover", controller=controller_spec("policy", file=policy), settings={"duration": 3.0, "rates.control": 100}
    )
    betaflight_run = samara.fly(
        "hover",
        controller=BetaflightController(policy, vehicle, tmp_path),
        settings={"duration": 3.0, "rates.control": 1000},
    )
    expected, actual = (run.drone_records[0].tables["state"].rows[:, :3] for run in (samara_run, betaflight_run))
    assert expected[-1, 2] > 1.0  # it did take off
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-4)


@needs_cc
def test_without_arming_the_mixers_values_remain(tmp_path: Path) -> None:
    betaflight = BetaflightController(trained_policy(), samara.vehicle("crazyflie"), tmp_path)
    level = [0.0] * 6 + [1.0] + [0.0] * 13
    assert betaflight.motors(level, 0, armed=False) is None
    first, later = betaflight.motors(level, 1000), betaflight.motors(level, 11000)
    assert betaflight.motors(level, 12000, armed=False) is None
    assert np.any(first != later)  # rotors have begun to turn
    np.testing.assert_array_equal(betaflight.motors(level, 13000), first)  # its state was reset


@needs_cc
@pytest.mark.skipif(
    not real_header_options("BETAFLIGHT"), reason="SAMARA_BETAFLIGHT_SOURCE does not lead to Betaflight's source"
)
def test_it_compiles_with_the_real_headers(tmp_path: Path) -> None:
    write_betaflight_policy(trained_policy(), samara.vehicle("crazyflie"), tmp_path)
    target = ("-DSITL", '-D__TARGET__="SITL"', '-D__REVISION__=""', "-c", "samara_mixer.c")
    process = subprocess.run(
        ["cc", *STRICT, *real_header_options("BETAFLIGHT"), *target],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr


def test_vehicles_that_are_not_its_quadrotor_are_one_sentence(tmp_path: Path) -> None:
    crazyflie = samara.vehicle("crazyflie")
    props_out = replace(crazyflie, rotors=tuple(rotor._replace(spin=-rotor.spin) for rotor in crazyflie.rotors))
    write_betaflight_policy(replace(trained_policy(), vehicle=""), props_out, tmp_path)
    assert "yaw_motors_reversed = ON" in (tmp_path / "samara_policy.h").read_text()
    first, *other_rotors = crazyflie.rotors
    one_reversed = replace(crazyflie, rotors=(first._replace(spin=-first.spin), *other_rotors))
    for vehicle, message in (
        (samara.vehicle("hexarotor_x"), "has 6 rotors; betaflight's QUADX has 4"),
        (one_reversed, "turns the other way than betaflight's; expected"),
    ):
        with pytest.raises(ValueError, match=message):
            betaflight_boundary(vehicle)


def test_the_command_line_writes_it(tmp_path: Path) -> None:
    policy = str(Path(__file__).parents[1] / "support" / "policies" / "hover")
    run = CliRunner().invoke(app, ["export", "policy", policy, "--betaflight", "-o", str(tmp_path)])
    assert run.exit_code == 0, run.output
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(FILES) and "samara_mixer.h" in run.output
