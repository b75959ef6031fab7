"""The client's setpoints, decoded from packets: SI units, FLU, a pitch that is positive nose down.

A packet with a non-finite or implausibly large number is ignored.
"""

import math
import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

from samara.core.algebra import Quat, Vec3, euler_from_quat
from samara.physics.types import Reference

MAX_MAGNITUDE = 1e4  # largest magnitude of a number in a setpoint: m, m/s, degrees, degrees/s
FULL_THRUST = 65535
MIN_THRUST, MAX_THRUST = (
    1000,
    60000,
)  # limits of the thrust in the RPYT setpoint; below the minimum the motors stand still


class MotorsOff(NamedTuple):
    """Motors off."""


class AttitudeSetpoint(NamedTuple):
    """Attitude [rad] and yaw rate [rad/s], with a fraction of the full thrust, a `height` to hold [m] or a `climb` [m/s]."""

    roll: float
    pitch: float
    yaw_rate: float
    thrust: float = 0.0
    height: float | None = None
    climb: float | None = None


class RateSetpoint(NamedTuple):
    """Angular velocity [rad/s] and a fraction of the full thrust."""

    omega_B: Vec3
    thrust: float


class VelocitySetpoint(NamedTuple):
    """A velocity [m/s] in the world or in the heading frame, a yaw rate [rad/s], and optionally a height to hold [m]."""

    v: Vec3
    yaw_rate: float
    in_heading_frame: bool
    height: float | None = None


class PositionSetpoint(NamedTuple):
    """A position [m] and a yaw [rad]."""

    p_W: Vec3
    yaw: float


class FullStateSetpoint(NamedTuple):
    """A full-state setpoint, as an external planner sends it."""

    reference: Reference


Setpoint = MotorsOff | AttitudeSetpoint | RateSetpoint | VelocitySetpoint | PositionSetpoint | FullStateSetpoint

_FOUR = struct.Struct("<4f")
_RPYT, _MANUAL = struct.Struct("<3fH"), struct.Struct("<3fHB")
_FULL = struct.Struct("<9hI3h")


def decode_rpyt(data: bytes) -> AttitudeSetpoint | None:
    """Decode the legacy RPYT setpoint: degrees, pitch nose up, yaw rate positive clockwise, thrust 0 … 65535."""
    numbers = _unpack_finite(_RPYT, data)
    if numbers is None:
        return None
    roll, pitch, clockwise_rate, thrust = numbers
    thrust_fraction = min(thrust, MAX_THRUST) / FULL_THRUST
    return AttitudeSetpoint(math.radians(roll), -math.radians(pitch), -math.radians(clockwise_rate), thrust_fraction)


def decode_setpoint(data: bytes) -> Setpoint | None:
    """Decode a generic setpoint by its type byte; return None for any other packet."""
    decode = _DECODERS.get(data[0]) if data else None
    return decode(data[1:]) if decode else None


def _unpack_finite(layout: struct.Struct, data: bytes) -> Sequence[float] | None:
    if len(data) != layout.size:
        return None
    numbers = layout.unpack(data)
    return numbers if all(abs(x) <= MAX_MAGNITUDE for x in numbers[:3]) and all(map(math.isfinite, numbers)) else None


def _unpack_four(data: bytes) -> Sequence[float] | None:
    numbers = _unpack_finite(_FOUR, data)
    return numbers if numbers is not None and abs(numbers[3]) <= MAX_MAGNITUDE else None


def _decode_off(data: bytes) -> MotorsOff | None:
    return None if data else MotorsOff()


def _velocity_decoder(sign: float) -> Callable[[bytes], VelocitySetpoint | None]:
    def decode(data: bytes) -> VelocitySetpoint | None:
        numbers = _unpack_four(data)
        return None if numbers is None else VelocitySetpoint(Vec3(*numbers[:3]), sign * math.radians(numbers[3]), False)

    return decode


def _hover_decoder(sign: float) -> Callable[[bytes], VelocitySetpoint | None]:
    def decode(data: bytes) -> VelocitySetpoint | None:
        numbers = _unpack_four(data)
        return (
            None
            if numbers is None
            else VelocitySetpoint(Vec3(numbers[0], numbers[1], 0.0), sign * math.radians(numbers[2]), True, numbers[3])
        )

    return decode


def _height_decoder(sign: float) -> Callable[[bytes], AttitudeSetpoint | None]:
    def decode(data: bytes) -> AttitudeSetpoint | None:
        numbers = _unpack_four(data)
        if numbers is None:
            return None
        return AttitudeSetpoint(
            math.radians(numbers[0]), -math.radians(numbers[1]), sign * math.radians(numbers[2]), height=numbers[3]
        )

    return decode


def _decode_climb(data: bytes) -> AttitudeSetpoint | None:
    numbers = _unpack_four(data)
    if numbers is None:
        return None
    return AttitudeSetpoint(
        math.radians(numbers[0]), -math.radians(numbers[1]), math.radians(numbers[2]), climb=numbers[3]
    )


def _decode_position(data: bytes) -> PositionSetpoint | None:
    numbers = _unpack_four(data)
    return None if numbers is None else PositionSetpoint(Vec3(*numbers[:3]), math.radians(numbers[3]))


def _decode_manual(data: bytes) -> AttitudeSetpoint | RateSetpoint | None:
    numbers = _unpack_finite(_MANUAL, data)
    if numbers is None:
        return None
    roll, pitch, yaw = math.radians(numbers[0]), -math.radians(numbers[1]), math.radians(numbers[2])
    thrust = numbers[3] / FULL_THRUST
    return RateSetpoint(Vec3(roll, pitch, yaw), thrust) if numbers[4] else AttitudeSetpoint(roll, pitch, yaw, thrust)


def _decode_full_state(data: bytes) -> FullStateSetpoint | None:
    if len(data) != _FULL.size:
        return None
    *motion, quaternion, _, _, yaw_rate = _FULL.unpack(data)
    p, v, a = (Vec3(*(1e-3 * x for x in motion[k : k + 3])) for k in (0, 3, 6))
    return FullStateSetpoint(
        Reference(p, v, a, yaw=euler_from_quat(decompress_quaternion(quaternion)).yaw, yaw_rate=1e-3 * yaw_rate)
    )


def decompress_quaternion(bits: int) -> Quat:
    """Decompress a quaternion: index of the largest of x, y, z, w; the others as a sign and |q| √2 · 511 in nine bits.

    The last component is in the lowest bits.
    """
    largest, components = bits >> 30, [0.0] * 4
    for index in (i for i in (3, 2, 1, 0) if i != largest):
        magnitude = (bits & 0x1FF) / 511.0 / math.sqrt(2.0)
        components[index] = -magnitude if bits & 0x200 else magnitude
        bits >>= 10
    components[largest] = math.sqrt(max(1.0 - sum(x * x for x in components), 0.0))
    x, y, z, w = components
    return Quat(w, x, y, z)


_DECODERS: dict[int, Callable[[bytes], Setpoint | None]] = {
    0: _decode_off,
    1: _velocity_decoder(-1.0),  # 1, 2 and 5 are older than 8, 9 and 10, and have the opposite sign of the yaw rate
    2: _height_decoder(-1.0),
    4: _decode_climb,
    5: _hover_decoder(-1.0),
    6: _decode_full_state,
    7: _decode_position,
    8: _velocity_decoder(1.0),
    9: _height_decoder(1.0),
    10: _hover_decoder(1.0),
    11: _decode_manual,
}
