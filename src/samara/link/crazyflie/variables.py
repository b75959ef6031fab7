"""What a Crazyflie can log, by the names its firmware gives it, read from what the simulation knows; in the firmware's units.

The estimate is the truth: a simulated drone has no other. Pitch is positive nose up, as the firmware's logs have it.
"""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from samara.core.algebra import ZERO, Euler, Vec3, rotate
from samara.link.crazyflie.controller import Wanted
from samara.link.crazyflie.logging import Variable
from samara.link.crazyflie.number import FLOAT, I8, U8, U16, U32, Kind
from samara.link.crazyflie.setpoints import FULL_THRUST
from samara.link.crazyflie.supervisor import G
from samara.link.sensor_snapshot import Supply
from samara.physics.types import State

SETTLED = 1e-5  # [m²]: the variance of an estimate that is the truth
MOTORS = 4


class Known(NamedTuple):
    """An instant: the drone, its IMU, what is wanted of it, its rotors' outputs, its battery, the supervisor's bits."""

    time_us: int
    state: State
    euler: Euler
    specific_force_B: Vec3
    wanted: Wanted
    outputs: tuple[float, ...]
    supply: Supply
    status: int
    external_W: Vec3 = ZERO
    tester_errors: int = 0


Read = Callable[[Known], float]


def _vector(group: str, names: tuple[str, str, str], read: Callable[[Known], Vec3]) -> Iterator[Variable]:
    for axis, name in enumerate(names):
        yield Variable(FLOAT, group, name, lambda own, axis=axis: read(own)[axis])  # type: ignore[misc]


def _angles(group: str) -> Iterator[Variable]:
    yield Variable(FLOAT, group, "roll", lambda own: math.degrees(own.euler.roll))
    yield Variable(FLOAT, group, "pitch", lambda own: -math.degrees(own.euler.pitch))
    yield Variable(FLOAT, group, "yaw", lambda own: math.degrees(own.euler.yaw))


def _acceleration(own: Known) -> Vec3:
    """R f − g, in units of g: what the firmware logs beside the velocity"""
    return rotate(own.state.q_WB, own.specific_force_B) / G - Vec3(0.0, 0.0, 1.0)


def _same(group: str, names: tuple[str, ...], kind: Kind, value: float) -> Iterator[Variable]:
    for name in names:
        yield Variable(kind, group, name, lambda own: value)


def _thrust(own: Known) -> float:
    return FULL_THRUST * sum(own.outputs) / max(len(own.outputs), 1)


def _motor(index: int) -> Read:
    return lambda own: FULL_THRUST * own.outputs[index] if index < len(own.outputs) else 0.0


def _bit(number: int) -> Read:
    return lambda own: float(own.status >> number & 1)


XYZ = ("x", "y", "z")
VARIABLES: tuple[Variable, ...] = (
    *_vector("stateEstimate", XYZ, lambda own: own.state.p_W),
    *_vector("stateEstimate", ("vx", "vy", "vz"), lambda own: own.state.v_W),
    *_vector("stateEstimate", ("ax", "ay", "az"), _acceleration),
    *_angles("stateEstimate"),
    *_vector("stateEstimate", ("qx", "qy", "qz"), lambda own: Vec3(*own.state.q_WB[1:])),
    Variable(FLOAT, "stateEstimate", "qw", lambda own: own.state.q_WB.w),
    *_angles("stabilizer"),
    Variable(FLOAT, "stabilizer", "thrust", _thrust),
    *_vector("kalman", ("stateX", "stateY", "stateZ"), lambda own: own.state.p_W),
    *_same("kalman", ("varPX", "varPY", "varPZ"), FLOAT, SETTLED),
    *_vector("gyro", XYZ, lambda own: own.state.omega_B * math.degrees(1.0)),
    *_vector("acc", XYZ, lambda own: own.specific_force_B / G),
    *_vector("ctrltarget", XYZ, lambda own: own.wanted.reference.p_W),
    *_vector("ctrltarget", ("vx", "vy", "vz"), lambda own: own.wanted.reference.v_W),
    Variable(FLOAT, "ctrltarget", "yaw", lambda own: math.degrees(own.wanted.reference.yaw)),
    *_vector("locSrv", XYZ, lambda own: own.external_W),
    Variable(FLOAT, "pm", "vbat", lambda own: own.supply.voltage),
    Variable(U16, "pm", "vbatMV", lambda own: 1000.0 * own.supply.voltage),
    Variable(U8, "pm", "batteryLevel", lambda own: 100.0 * own.supply.charge),
    *_same("pm", ("state",), I8, 0.0),  # on battery
    *(Variable(U32, "motor", f"m{index + 1}", _motor(index)) for index in range(MOTORS)),
    Variable(U8, "sys", "armed", _bit(1)),
    Variable(U8, "sys", "canfly", _bit(3)),
    Variable(U8, "sys", "isFlying", _bit(4)),
    Variable(U8, "sys", "isTumbled", _bit(5)),
    Variable(U16, "supervisor", "info", lambda own: float(own.status)),
    Variable(U16, "range", "zrange", lambda own: 1000.0 * own.state.p_W.z),
    *_same("range", ("front", "back", "left", "right", "up"), U16, 32766.0),  # nothing in sight
    *_same("radio", ("rssi",), U8, 0.0),
    Variable(FLOAT, "controller", "cmd_thrust", _thrust),
    Variable(U32, "memTst", "errCntW", lambda own: float(own.tester_errors)),
)
