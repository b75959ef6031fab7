"""Inputs of the firmware, in its units: degrees, degrees per second, g, and a pitch angle that is positive nose up.

World (z up) and body frame (x forward, y left, z up) are those of Samara. The Euler angles are Z-Y-X, too, except for the sign
of the pitch, which the firmware calls legacy. Rates of the gyroscope and of the set point have Samara's signs.
"""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

from samara.control.geometric import desired_angular_motion
from samara.core.algebra import Quat, Vec3, euler_from_quat, rotate_inverse
from samara.core.ops import wrap_angle
from samara.core.quantity import Scalar
from samara.core.tree import flatten, leaf_names
from samara.physics.types import Reference, State
from samara.plan.flatness import attitude_from_thrust_direction


class Angles(NamedTuple):
    """Euler angles or their rates, as the firmware names them  [deg, deg/s]."""

    roll: Scalar
    pitch: Scalar
    yaw: Scalar


class FirmwareState(NamedTuple):
    """state_t: `acc` in the world without gravity [g], the attitude with its pitch positive nose up."""

    position: Vec3
    velocity: Vec3
    acc: Vec3
    attitude: Angles
    attitudeQuaternion: Quat


class FirmwareSensors(NamedTuple):
    """sensorData_t: rates [deg/s], and the specific force, 1 g upwards at rest  [g]."""

    gyro: Vec3
    acc: Vec3


class Yaw(NamedTuple):
    """The yaw of a position set point  [deg]."""

    yaw: Scalar


class FirmwareSetpoint(NamedTuple):
    """setpoint_t of a position and its derivatives in the world, as the firmware's high-level commander fills it."""

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
    """ω 180/π,  Rᵀ (a + g e₃)/g: an accelerometer that was scaled to 1 g at rest, as the firmware does at start-up"""
    f_B = rotate_inverse(state.q_WB, a_W + Vec3(0.0, 0.0, gravity))
    return FirmwareSensors(_degrees(state.omega_B), f_B / gravity)


def firmware_setpoint(reference: Reference, gravity: Scalar) -> FirmwareSetpoint:
    """p, v, a, j, the yaw within ±180°, and ω of the attitude that a + g e₃ and the yaw require"""
    acceleration_W = reference.a_W + Vec3(0.0, 0.0, gravity)
    omega_D = desired_angular_motion(
        acceleration_W, reference, attitude_from_thrust_direction(acceleration_W, reference.yaw)
    ).omega
    return FirmwareSetpoint(
        reference.p_W,
        reference.v_W,
        reference.a_W,
        reference.j_W,
        Yaw(math.degrees(wrap_angle(reference.yaw))),
        Angles(*_degrees(omega_D)),
    )


def firmware_inputs(state: State, a_W: Vec3, reference: Reference, gravity: Scalar) -> FirmwareInputs:
    """Convert state and reference to the inputs of one tick.

    Args:
        state: estimated state of the vehicle.
        a_W: acceleration of the centre of mass [m/s²].
        reference: desired motion.
        gravity: gravitational acceleration [m/s²].
    """
    return FirmwareInputs(
        firmware_state(state, a_W, gravity),
        firmware_sensors(state, a_W, gravity),
        firmware_setpoint(reference, gravity),
    )


def flatten_inputs(inputs: FirmwareInputs) -> list[float]:
    """Flatten the inputs in the order of `FIELDS`."""
    return [float(x) for x in flatten(inputs)]


def _degrees(radians: Iterable[Any]) -> Vec3:
    return Vec3(*(math.degrees(x) for x in radians))


_ZERO, _ZERO_ANGLES = Vec3(0.0, 0.0, 0.0), Angles(0.0, 0.0, 0.0)
FIELDS = tuple(
    leaf_names(
        FirmwareInputs(
            FirmwareState(_ZERO, _ZERO, _ZERO, _ZERO_ANGLES, Quat(1.0, 0.0, 0.0, 0.0)),
            FirmwareSensors(_ZERO, _ZERO),
            FirmwareSetpoint(_ZERO, _ZERO, _ZERO, _ZERO, Yaw(0.0), _ZERO_ANGLES),
        )
    )
)
"""The firmware's names of the inputs, such as state.attitude.pitch."""
