"""The inputs of the firmware, in its own units: degrees, degrees per second, g, and a pitch that is positive nose up.

Its world is ours, z up, and so is its body: x forward, y left, z up. Its Euler angles are Z-Y-X too, but for the sign of the
pitch, which it calls legacy. Rates of its gyroscope and of its set point have our signs.
"""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

from samara.control.geometric import turning_along
from samara.core.algebra import Quat, Vec3, euler_from_quat, rotate_inverse
from samara.core.ops import wrap_angle
from samara.core.quantity import Scalar
from samara.core.tree import flatten, leaf_names
from samara.physics.types import Reference, State
from samara.plan.flatness import attitude_along


class Angles(NamedTuple):
    """Or their rates: as the firmware names them  [deg, deg/s]"""

    roll: Scalar
    pitch: Scalar
    yaw: Scalar


class FirmwareState(NamedTuple):
    """state_t: `acc` in the world without gravity [g], the attitude with its pitch positive nose up"""

    position: Vec3
    velocity: Vec3
    acc: Vec3
    attitude: Angles
    attitudeQuaternion: Quat


class FirmwareSensors(NamedTuple):
    """sensorData_t: rates [deg/s], and the specific force, 1 g upwards at rest  [g]"""

    gyro: Vec3
    acc: Vec3


class Yaw(NamedTuple):
    """The one angle that a set point of position has  [deg]"""

    yaw: Scalar


class FirmwareSetpoint(NamedTuple):
    """setpoint_t of a place and its derivatives in the world, as its high-level commander fills it"""

    position: Vec3
    velocity: Vec3
    acceleration: Vec3
    jerk: Vec3
    attitude: Yaw
    attitudeRate: Angles


class FirmwareInputs(NamedTuple):
    """The inputs of one tick."""

    state: FirmwareState
    sensors: FirmwareSensors
    setpoint: FirmwareSetpoint


def firmware_state(state: State, a_W: Vec3, gravity: Scalar) -> FirmwareState:
    """p, v, a/g, (φ, −θ, ψ) 180/π and q"""
    angles = euler_from_quat(state.q_WB)
    return FirmwareState(
        state.p_W,
        state.v_W,
        a_W / gravity,
        Angles(math.degrees(angles.roll), -math.degrees(angles.pitch), math.degrees(angles.yaw)),
        state.q_WB,
    )


def firmware_sensors(state: State, a_W: Vec3, gravity: Scalar) -> FirmwareSensors:
    """ω 180/π,  Rᵀ (a + g e₃)/g: an accelerometer that was scaled to 1 g at rest, as the firmware does when it starts"""
    f_B = rotate_inverse(state.q_WB, a_W + Vec3(0.0, 0.0, gravity))
    return FirmwareSensors(_degrees(state.omega_B), f_B / gravity)


def firmware_setpoint(reference: Reference, gravity: Scalar) -> FirmwareSetpoint:
    """p, v, a, j, the yaw within ±180°, and ω of the attitude that a + g e₃ and the yaw ask for"""
    pull_W = reference.a_W + Vec3(0.0, 0.0, gravity)
    omega_D = turning_along(pull_W, reference, attitude_along(pull_W, reference.yaw)).omega
    return FirmwareSetpoint(
        reference.p_W,
        reference.v_W,
        reference.a_W,
        reference.j_W,
        Yaw(math.degrees(wrap_angle(reference.yaw))),
        Angles(*_degrees(omega_D)),
    )


def firmware_inputs(state: State, a_W: Vec3, reference: Reference, gravity: Scalar) -> FirmwareInputs:
    """The whole of a tick: what is known of the motion, and what is asked"""
    return FirmwareInputs(
        firmware_state(state, a_W, gravity),
        firmware_sensors(state, a_W, gravity),
        firmware_setpoint(reference, gravity),
    )


def numbers_of(own: FirmwareInputs) -> list[float]:
    """In the order of `FIELDS`"""
    return [float(x) for x in flatten(own)]


def _degrees(own: Iterable[Any]) -> Vec3:
    return Vec3(*(math.degrees(x) for x in own))


_NONE, _LEVEL = Vec3(0.0, 0.0, 0.0), Angles(0.0, 0.0, 0.0)
FIELDS = tuple(
    leaf_names(
        FirmwareInputs(
            FirmwareState(_NONE, _NONE, _NONE, _LEVEL, Quat(1.0, 0.0, 0.0, 0.0)),
            FirmwareSensors(_NONE, _NONE),
            FirmwareSetpoint(_NONE, _NONE, _NONE, _NONE, Yaw(0.0), _LEVEL),
        )
    )
)
"""The firmware's own names of them, such as state.attitude.pitch."""
