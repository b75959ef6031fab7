"""The client's setpoints, decoded from packets: SI units, FLU, a pitch that is positive nose down.

A packet with a non-finite or implausibly large number is ignored.
"""

import math
import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

from samara.core.algebra import Quat, Vec3, euler_from_quat
from samara.physics.types import Reference

LARGEST = 1e4  # of any number in a setpoint: m, m/s, degrees, degrees/s
FULL_THRUST = 65535
LEAST_THRUST, MOST_THRUST = (
    1000,
    60000,
)  # of FULL_THRUST, in the RPYT setpoint: below the minimum the motors stand still


class Off(NamedTuple):
    """Motors off."""


class Tilt(NamedTuple):
    """Attitude [rad] and yaw rate [rad/s], with a fraction of the full thrust, a `height` to hold [m] or a `climb` [m/s]."""

    roll: float
    pitch: float
    yaw_rate: float
    thrust: float = 0.0
    height: float | None = None
    climb: float | None = None


class Turn(NamedTuple):
    """Angular velocity [rad/s] and a fraction of the full thrust."""

    omega_B: Vec3
    thrust: float


class Drift(NamedTuple):
    """A velocity [m/s] in the world or in the heading frame, a yaw rate [rad/s], and optionally a height to hold [m]."""

    v: Vec3
    yaw_rate: float
    along_nose: bool
    height: float | None = None


class Place(NamedTuple):
    """A position [m] and a yaw [rad]."""

    p_W: Vec3
    yaw: float


class Full(NamedTuple):
    """A full-state setpoint, as an external planner sends it."""

    reference: Reference


Setpoint = Off | Tilt | Turn | Drift | Place | Full

_FOUR = struct.Struct("<4f")
_RPYT, _MANUAL = struct.Struct("<3fH"), struct.Struct("<3fHB")
_FULL = struct.Struct("<9hI3h")


def roll_pitch_yaw_thrust(data: bytes) -> Tilt | None:
    """Decode the legacy RPYT setpoint: degrees, pitch nose up, yaw rate positive clockwise, thrust 0 … 65535."""
    numbers = _read(_RPYT, data)
    if numbers is None:
        return None
    roll, pitch, clockwise_rate, thrust = numbers
    thrust_fraction = min(thrust, MOST_THRUST) / FULL_THRUST
    return Tilt(math.radians(roll), -math.radians(pitch), -math.radians(clockwise_rate), thrust_fraction)


def setpoint(data: bytes) -> Setpoint | None:
    """Decode a generic setpoint by its type byte; return None for any other packet."""
    decode = _DECODERS.get(data[0]) if data else None
    return decode(data[1:]) if decode else None


def _read(layout: struct.Struct, data: bytes) -> Sequence[float] | None:
    if len(data) != layout.size:
        return None
    numbers = layout.unpack(data)
    return numbers if all(abs(x) <= LARGEST for x in numbers[:3]) and all(map(math.isfinite, numbers)) else None


def _four(data: bytes) -> Sequence[float] | None:
    numbers = _read(_FOUR, data)
    return numbers if numbers is not None and abs(numbers[3]) <= LARGEST else None


def _off(data: bytes) -> Off | None:
    return None if data else Off()


def _velocity(sign: float) -> Callable[[bytes], Drift | None]:
    def decode(data: bytes) -> Drift | None:
        numbers = _four(data)
        return None if numbers is None else Drift(Vec3(*numbers[:3]), sign * math.radians(numbers[3]), False)

    return decode


def _hover(sign: float) -> Callable[[bytes], Drift | None]:
    def decode(data: bytes) -> Drift | None:
        numbers = _four(data)
        return (
            None
            if numbers is None
            else Drift(Vec3(numbers[0], numbers[1], 0.0), sign * math.radians(numbers[2]), True, numbers[3])
        )

    return decode


def _height(sign: float) -> Callable[[bytes], Tilt | None]:
    def decode(data: bytes) -> Tilt | None:
        numbers = _four(data)
        if numbers is None:
            return None
        return Tilt(
            math.radians(numbers[0]), -math.radians(numbers[1]), sign * math.radians(numbers[2]), height=numbers[3]
        )

    return decode


def _climb(data: bytes) -> Tilt | None:
    numbers = _four(data)
    if numbers is None:
        return None
    return Tilt(math.radians(numbers[0]), -math.radians(numbers[1]), math.radians(numbers[2]), climb=numbers[3])


def _place(data: bytes) -> Place | None:
    numbers = _four(data)
    return None if numbers is None else Place(Vec3(*numbers[:3]), math.radians(numbers[3]))


def _manual(data: bytes) -> Tilt | Turn | None:
    numbers = _read(_MANUAL, data)
    if numbers is None:
        return None
    roll, pitch, yaw = math.radians(numbers[0]), -math.radians(numbers[1]), math.radians(numbers[2])
    thrust = numbers[3] / FULL_THRUST
    return Turn(Vec3(roll, pitch, yaw), thrust) if numbers[4] else Tilt(roll, pitch, yaw, thrust)


def _full(data: bytes) -> Full | None:
    if len(data) != _FULL.size:
        return None
    *motion, quaternion, _, _, yaw_rate = _FULL.unpack(data)
    p, v, a = (Vec3(*(1e-3 * x for x in motion[k : k + 3])) for k in (0, 3, 6))
    return Full(Reference(p, v, a, yaw=euler_from_quat(unpacked(quaternion)).yaw, yaw_rate=1e-3 * yaw_rate))


def unpacked(bits: int) -> Quat:
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
    0: _off,
    1: _velocity(-1.0),  # 1, 2 and 5 are older than 8, 9 and 10, and have the opposite sign of the yaw rate
    2: _height(-1.0),
    4: _climb,
    5: _hover(-1.0),
    6: _full,
    7: _place,
    8: _velocity(1.0),
    9: _height(1.0),
    10: _hover(1.0),
    11: _manual,
}
