"""A policy in Betaflight: the mixer that feeds it compiled and called as Betaflight would, against the policy here."""

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
from support.firmware_headers import BETAFLIGHT, real, written
from support.learnt import trained
from typer.testing import CliRunner

import samara
from samara.cli import app
from samara.control.policy import PolicyController, shipped_policy
from samara.control.policy_c import compiled
from samara.control.policy_file import Policy
from samara.control.registry import tuned
from samara.core.algebra import Quat, Vec3
from samara.link.deploy.betaflight import FILES, betaflight_boundary, write_betaflight_policy
from samara.physics.multirotor import at_rest
from samara.physics.types import Reference, State, Vehicle

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
STRICT = ("-std=gnu17", "-Wall", "-Wextra", "-Werror")
CORNERS = ((-1, -1), (1, -1), (-1, 1), (1, 1))  # of motors 1 to 4: signs of x and y
LEAST, MOST, IDLE = 48.0, 2047.0, 0.055  # of DShot, and Betaflight's motor_idle
ENU_FROM_NWU = Rotation.from_euler("z", 90.0, degrees=True)
STANDS_IN = f"""#include "samara_mixer.h"
#include "flight/imu.h"
uint8_t armingFlags = ARMED;
gyro_t gyro;
quaternion_t imuAttitudeQuaternion;
float motor[8];
static positionEstimate3d_t estimate = {{.isValidXY = true, .isValidZ = true}};
const positionEstimate3d_t *positionEstimatorGetEstimate(void) {{ return &estimate; }}
float motorConvertFromExternal(uint16_t own) {{
    return own == 1000 ? 0.0f : {LEAST}f + (own - 1001) * {MOST - LEAST}f / 999.0f;
}}
float getMotorOutputLow(void) {{ return {LEAST + IDLE * (MOST - LEAST)}f; }}
float getMotorOutputHigh(void) {{ return {MOST}f; }}
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


class InBetaflight:
    """`controller(state, reference, vehicle, memory) → command, memory`: DShot's values as throttles, at 1 kHz"""

    initial_memory = 0  # [µs]

    def __init__(self, policy: Policy, vehicle: Vehicle, folder: Path) -> None:
        write_betaflight_policy(policy, vehicle, folder)
        (folder / "all.c").write_text('#include "samara_policy.c"\n#include "samara_mixer.c"\n' + STANDS_IN)
        headers = written(BETAFLIGHT, folder / "headers")
        self.library = compiled(folder / "all.c", folder / "all.so", *STRICT, headers)

    def motors(self, numbers: Any, time_us: int, armed: bool = True) -> np.ndarray | None:
        given, out = (ctypes.c_float * 20)(*numbers), (ctypes.c_float * 4)()
        return np.array(out) if self.library.mix(given, time_us, int(armed), out) else None

    def __call__(self, state: State, reference: Reference, vehicle: Vehicle, time_us: Any) -> tuple[Any, int]:
        w, x, y, z = state.q_WB
        turn = (ENU_FROM_NWU.inv() * Rotation.from_quat([x, y, z, w])).as_quat()
        cm = [100.0 * k for own in (state.p_W, state.v_W) for k in own]
        asked = [100.0 * k for own in (reference.p_W, reference.v_W) for k in own]
        rates = [math.degrees(own) for own in state.omega_B]
        numbers = [*cm, turn[3], *turn[:3], *rates, *asked, 90.0 - math.degrees(reference.yaw)]
        told = self.motors(numbers, time_us)
        assert told is not None
        command = [0.0] * 4
        for motor, rotor in enumerate(by_corner(vehicle)):
            command[rotor] = (float(told[motor]) - LEAST) / (MOST - LEAST)
        return tuple(command), time_us + 1000


def by_corner(vehicle: Vehicle) -> list[int]:
    """The rotor at each motor's corner"""
    signs = [tuple(int(np.sign(x)) for x in own.r_B[:2]) for own in vehicle.rotors]
    return [signs.index(corner) for corner in CORNERS]


@needs_cc
@pytest.mark.parametrize(("name", "own"), [("crazyflie", trained), ("iris", lambda: shipped_policy("universal"))])
def test_motors_are_told_what_the_policy_commands(name: str, own: Any, tmp_path: Path) -> None:
    """States drawn in Betaflight's axes and units; ours by SciPy, rotor speeds (the other sees none) by the closed form"""
    craft, draw, policy = samara.vehicle(name), np.random.default_rng(6), own()
    betaflight, controller = (
        InBetaflight(policy, craft, tmp_path),
        PolicyController(policy.fitted(craft), policy.period),
    )
    motor, memory, worst = samara.vehicle("crazyflie").rotors[0].motor, controller.initial_memory, 0.0
    period_us = round(policy.period * 1e6)
    speeds = asked_speeds = np.zeros(4)
    for action in range(40):
        p, v, wanted_p, wanted_v = np.float32(100.0 * draw.normal(size=(4, 3)))  # [cm], east, north, up
        gyro, heading = np.float32(60.0 * draw.normal(size=3)), np.float32(draw.uniform(0.0, 360.0))
        turn = Rotation.from_rotvec(0.5 * draw.normal(size=3))
        x, y, z, w = np.float32(turn.as_quat())
        told = betaflight.motors([*p, *v, w, x, y, z, *gyro, *wanted_p, *wanted_v, heading], action * period_us)
        speeds = asked_speeds + (speeds - asked_speeds) * np.exp(-policy.period / motor.rise)
        x, y, z, w = (ENU_FROM_NWU * Rotation.from_quat([x, y, z, w])).as_quat()
        state = at_rest(craft)._replace(
            p_W=Vec3(*(0.01 * p.astype(float)).tolist()),
            v_W=Vec3(*(0.01 * v.astype(float)).tolist()),
            q_WB=Quat(w, x, y, z),
            omega_B=Vec3(*np.deg2rad(gyro.astype(float)).tolist()),
            rotor_speed=tuple(speeds.tolist()),
        )
        asked = [Vec3(*(0.01 * each.astype(float)).tolist()) for each in (wanted_p, wanted_v)]
        command, memory = controller(state, Reference(*asked, yaw=float(np.deg2rad(90.0 - heading))), craft, memory)
        asked_speeds = np.clip(command, 0.0, 1.0) * (motor.speed_max - motor.speed_min) + motor.speed_min
        throttle = np.clip(command, IDLE, 1.0)[by_corner(craft)]
        worst = max(worst, float(np.abs((told - LEAST) / (MOST - LEAST) - throttle).max()))
        held = betaflight.motors(np.zeros(20), action * period_us + period_us // 2)
        np.testing.assert_array_equal(held, told)  # until it acts again
    assert worst < 5e-6


@needs_cc
def test_it_flies_in_betaflight_as_it_does_here(tmp_path: Path) -> None:
    vehicle, policy = samara.vehicle("crazyflie"), trained()
    here = samara.fly(
        "hover", controller=tuned("policy", file=policy), settings={"duration": 3.0, "rates.autopilot": 100}
    )
    there = samara.fly(
        "hover", controller=InBetaflight(policy, vehicle, tmp_path), settings={"duration": 3.0, "rates.autopilot": 1000}
    )
    one, two = (run.tracks[0].tables["state"].rows[:, :3] for run in (here, there))
    assert one[-1, 2] > 1.0  # it did take off
    np.testing.assert_allclose(two, one, rtol=0, atol=1e-4)


@needs_cc
def test_without_arming_the_mixer_keeps_its_own(tmp_path: Path) -> None:
    betaflight = InBetaflight(trained(), samara.vehicle("crazyflie"), tmp_path)
    level = [0.0] * 6 + [1.0] + [0.0] * 13
    assert betaflight.motors(level, 0, armed=False) is None
    first, later = betaflight.motors(level, 1000), betaflight.motors(level, 11000)
    assert betaflight.motors(level, 12000, armed=False) is None
    assert np.any(first != later)  # rotors have begun to turn
    np.testing.assert_array_equal(betaflight.motors(level, 13000), first)  # it has forgotten


@needs_cc
@pytest.mark.skipif(not real("BETAFLIGHT"), reason="SAMARA_BETAFLIGHT_SOURCE does not lead to Betaflight's source")
def test_it_compiles_with_the_real_headers(tmp_path: Path) -> None:
    write_betaflight_policy(trained(), samara.vehicle("crazyflie"), tmp_path)
    target = ("-DSITL", '-D__TARGET__="SITL"', '-D__REVISION__=""', "-c", "samara_mixer.c")
    done = subprocess.run(
        ["cc", *STRICT, *real("BETAFLIGHT"), *target], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_vehicles_that_are_not_its_quadrotor_are_one_sentence(tmp_path: Path) -> None:
    craft = samara.vehicle("crazyflie")
    out = replace(craft, rotors=tuple(own._replace(spin=-own.spin) for own in craft.rotors))
    write_betaflight_policy(replace(trained(), vehicle=""), out, tmp_path)
    assert "yaw_motors_reversed = ON" in (tmp_path / "samara_policy.h").read_text()
    first, *others = craft.rotors
    odd = replace(craft, rotors=(first._replace(spin=-first.spin), *others))
    for vehicle, words in (
        (samara.vehicle("hexarotor_x"), "has 6 rotors; betaflight's QUADX has 4"),
        (odd, "turns the other way than betaflight's; expected"),
    ):
        with pytest.raises(ValueError, match=words):
            betaflight_boundary(vehicle)


def test_the_command_line_writes_it(tmp_path: Path) -> None:
    policy = str(Path(__file__).parents[1] / "support" / "policies" / "hover")
    run = CliRunner().invoke(app, ["export", "policy", policy, "--betaflight", "-o", str(tmp_path)])
    assert run.exit_code == 0, run.output
    assert sorted(own.name for own in tmp_path.iterdir()) == sorted(FILES) and "samara_mixer.h" in run.output
