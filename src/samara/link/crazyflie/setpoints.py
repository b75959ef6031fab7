"""What a client asks for from one instant to the next, read from the wire: SI units, FLU, a pitch that is positive nose down.

A number that is not finite or beyond all reason makes the packet as good as none.
"""

import math
import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

from samara.core.algebra import Quat, Vec3, euler_from_quat
from samara.physics.types import Reference

LARGEST = 1e4  # of any number that is asked for: m, m/s, degrees, degrees/s
FULL_THRUST = 65535
LEAST_THRUST, MOST_THRUST = 1000, 60000  # of FULL_THRUST, by the oldest setpoint: below the one the motors stand still


class Off(NamedTuple):
    """Motors off."""


class Tilt(NamedTuple):
    """An attitude [rad] that turns [rad/s], with a share of the full thrust, or a `height` [m] to hold or a `climb` [m/s]."""

    roll: float
    pitch: float
    yaw_rate: float
    thrust: float = 0.0
    height: float | None = None
    climb: float | None = None


class Turn(NamedTuple):
    """Rates of turn [rad/s] and a share of the full thrust."""

    omega_B: Vec3
    thrust: float


class Drift(NamedTuple):
    """A velocity [m/s], in the world or along and across the nose, a rate of turn [rad/s], and perhaps a height to hold [m]."""

    v: Vec3
    yaw_rate: float
    along_nose: bool
    height: float | None = None


class Place(NamedTuple):
    """A place to be at [m], and a heading [rad]."""

    p_W: Vec3
    yaw: float


class Full(NamedTuple):
    """All of a reference, as a planner elsewhere has it."""

    reference: Reference


Setpoint = Off | Tilt | Turn | Drift | Place | Full

_FOUR = struct.Struct("<4f")
_RPYT, _MANUAL = struct.Struct("<3fH"), struct.Struct("<3fHB")
_FULL = struct.Struct("<9hI3h")


def roll_pitch_yaw_thrust(data: bytes) -> Tilt | None:
    """The oldest setpoint: degrees, pitch nose up, a yaw rate that is positive clockwise, thrust 0 … 65535"""
    numbers = _read(_RPYT, data)
    if numbers is None:
        return None
    roll, pitch, clockwise, thrust = numbers
    share = min(thrust, MOST_THRUST) / FULL_THRUST
    return Tilt(math.radians(roll), -math.radians(pitch), -math.radians(clockwise), share)


def setpoint(data: bytes) -> Setpoint | None:
    """One of the numbered setpoints; None for anything else"""
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
        own = _four(data)
        return None if own is None else Drift(Vec3(*own[:3]), sign * math.radians(own[3]), False)

    return decode


def _hover(sign: float) -> Callable[[bytes], Drift | None]:
    def decode(data: bytes) -> Drift | None:
        own = _four(data)
        return None if own is None else Drift(Vec3(own[0], own[1], 0.0), sign * math.radians(own[2]), True, own[3])

    return decode


def _height(sign: float) -> Callable[[bytes], Tilt | None]:
    def decode(data: bytes) -> Tilt | None:
        own = _four(data)
        if own is None:
            return None
        return Tilt(math.radians(own[0]), -math.radians(own[1]), sign * math.radians(own[2]), height=own[3])

    return decode


def _climb(data: bytes) -> Tilt | None:
    own = _four(data)
    if own is None:
        return None
    return Tilt(math.radians(own[0]), -math.radians(own[1]), math.radians(own[2]), climb=own[3])


def _place(data: bytes) -> Place | None:
    own = _four(data)
    return None if own is None else Place(Vec3(*own[:3]), math.radians(own[3]))


def _manual(data: bytes) -> Tilt | Turn | None:
    own = _read(_MANUAL, data)
    if own is None:
        return None
    roll, pitch, turn = math.radians(own[0]), -math.radians(own[1]), math.radians(own[2])
    thrust = own[3] / FULL_THRUST
    return Turn(Vec3(roll, pitch, turn), thrust) if own[4] else Tilt(roll, pitch, turn, thrust)


def _full(data: bytes) -> Full | None:
    if len(data) != _FULL.size:
        return None
    *nine, quaternion, _, _, turn = _FULL.unpack(data)
    p, v, a = (Vec3(*(1e-3 * x for x in nine[k : k + 3])) for k in (0, 3, 6))
    return Full(Reference(p, v, a, yaw=euler_from_quat(unpacked(quaternion)).yaw, yaw_rate=1e-3 * turn))


def unpacked(bits: int) -> Quat:
    """The largest of x, y, z, w by its number, of each other a sign and |q| √2 · 511 in nine bits, the last one lowest"""
    largest, parts = bits >> 30, [0.0] * 4
    for index in (i for i in (3, 2, 1, 0) if i != largest):
        size = (bits & 0x1FF) / 511.0 / math.sqrt(2.0)
        parts[index] = -size if bits & 0x200 else size
        bits >>= 10
    parts[largest] = math.sqrt(max(1.0 - sum(x * x for x in parts), 0.0))
    x, y, z, w = parts
    return Quat(w, x, y, z)


_DECODERS: dict[int, Callable[[bytes], Setpoint | None]] = {
    0: _off,
    1: _velocity(-1.0),  # 1, 2 and 5 are older than 8, 9 and 10, and turn the other way
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
