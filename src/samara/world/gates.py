"""Gates to be flown through in their order, and poles to be flown around: pure functions of scalars of any kind.

A gate has axes of its own: x is the way it is flown through, y to the left and z up. Its frame fills what lies between two
rectangles about its centre. A drone is a sphere here: `reach` [m] is how far its rotors' hubs are from its centre.
"""

import math
from typing import NamedTuple

from samara.core.algebra import Vec3
from samara.core.ops import absolute, clamp, cos, logical_and, logical_or, safe_divide, safe_norm, sin, where
from samara.core.quantity import Scalar
from samara.physics.types import Vehicle


class Gate(NamedTuple):
    """Its centre [m], and the heading in which it is flown through [rad]"""

    p_W: Vec3
    yaw: Scalar


class Sizes(NamedTuple):
    """Width and height of a gate's opening and of its frame [m]"""

    opening: tuple[float, float]
    frame: tuple[float, float]


class Course(NamedTuple):
    """Where gates are, in their order, and poles, by the middle of their tops"""

    gates: tuple[Gate, ...]
    poles: tuple[Vec3, ...] = ()


class Crossing(NamedTuple):
    """Whether a straight way goes through the plane of a gate, forwards or backwards; where, from its centre [m]; and which
    share of the way that is."""

    forwards: Scalar
    backwards: Scalar
    y: Scalar
    z: Scalar
    share: Scalar


def reach_of(vehicle: Vehicle) -> float:
    """max |r| of its rotors' hubs  [m]"""
    return max(math.hypot(*rotor.r_B) for rotor in vehicle.rotors)


def in_gate(p_W: Vec3, gate: Gate) -> Vec3:
    """R_z(ψ)ᵀ (p − p_gate)"""
    r_W, c, s = p_W - gate.p_W, cos(gate.yaw), sin(gate.yaw)
    return Vec3(c * r_W.x + s * r_W.y, c * r_W.y - s * r_W.x, r_W.z)


def crossing(here_W: Vec3, there_W: Vec3, gate: Gate) -> Crossing:
    """x(λ) = x₀ + λ (x₁ − x₀) = 0 at λ = −x₀ / (x₁ − x₀); a way that ends in the plane has gone through, one that begins there
    has not"""
    one, other = in_gate(here_W, gate), in_gate(there_W, gate)
    share = safe_divide(-one.x, other.x - one.x)
    return Crossing(
        logical_and(one.x < 0.0, other.x >= 0.0),
        logical_and(one.x > 0.0, other.x <= 0.0),
        one.y + share * (other.y - one.y),
        one.z + share * (other.z - one.z),
        share,
    )


def is_clear(found: Crossing, sizes: Sizes, reach: Scalar) -> Scalar:
    """|y| < w/2 − reach and |z| < h/2 − reach: within the opening, with room for the drone"""
    return _within(found, sizes.opening, -reach)


def strikes_frame(found: Crossing, sizes: Sizes, reach: Scalar) -> Scalar:
    """Through the plane, either way, where the frame is in the way"""
    crossed = logical_or(found.forwards, found.backwards)
    width, height = sizes.opening
    beside = logical_or(absolute(found.y) >= 0.5 * width - reach, absolute(found.z) >= 0.5 * height - reach)
    return logical_and(crossed, logical_and(beside, _within(found, sizes.frame, reach)))


def passes(here_W: Vec3, there_W: Vec3, gate: Gate, sizes: Sizes, reach: Scalar) -> Scalar:
    """Through the opening, forwards"""
    found = crossing(here_W, there_W, gate)
    return logical_and(found.forwards, is_clear(found, sizes, reach))


def strikes_pole(here_W: Vec3, there_W: Vec3, top_W: Vec3, radius: Scalar) -> Scalar:
    """Whether a straight way comes nearer to an upright line than a radius [m], where it is nearest, below its top"""
    way, aside = there_W - here_W, here_W - top_W
    share = clamp(safe_divide(-(way.x * aside.x + way.y * aside.y), way.x * way.x + way.y * way.y), 0.0, 1.0)
    near = safe_norm(aside.x + share * way.x, aside.y + share * way.y) < radius
    return logical_and(near, aside.z + share * way.z < 0.0)


def is_outside(p_W: Vec3, low_W: Vec3, high_W: Vec3) -> Scalar:
    """Beyond the walls, the floor or the ceiling"""
    beyond: Scalar = p_W.x < low_W.x
    for value, low, high in zip(p_W, low_W, high_W, strict=True):
        beyond = logical_or(beyond, logical_or(value < low, value > high))
    return beyond


# What is known ------------------------------------------------------------------------------------------------------


def is_next(passed: Scalar, k: int) -> Scalar:
    """Whether so many gates are passed, and gate k is due"""
    return logical_and(passed > k - 0.5, passed < k + 0.5)


def chosen(gates: tuple[Gate, ...], passed: Scalar) -> Gate:
    """The gate that is next; after the last one, that"""
    found = gates[-1]
    for k in range(len(gates) - 2, -1, -1):
        found = _either(passed < k + 0.5, gates[k], found)
    return found


def seen_from(p_W: Vec3, course: Course, seen: tuple[Scalar, ...], within: float) -> tuple[Scalar, ...]:
    """Of each gate and then each pole 1 where it has come within a distance [m] by now, else 0; poles from above"""
    gates = (safe_norm(*(p_W - gate.p_W)) for gate in course.gates)
    poles = (safe_norm(p_W.x - pole.x, p_W.y - pole.y) for pole in course.poles)
    return tuple(where(away < within, 1.0, old) for away, old in zip((*gates, *poles), seen, strict=True))


def known(true: Course, said: Course, seen: tuple[Scalar, ...]) -> Course:
    """What has been seen where it is, the rest where it was said to be"""
    gates = tuple(_either(own > 0.5, a, b) for a, b, own in zip(true.gates, said.gates, seen, strict=False))
    poles = seen[len(gates) :]
    return Course(
        gates, tuple(_place(own > 0.5, a, b) for a, b, own in zip(true.poles, said.poles, poles, strict=True))
    )


def _within(found: Crossing, size: tuple[float, float], more: Scalar) -> Scalar:
    width, height = size
    return logical_and(absolute(found.y) < 0.5 * width + more, absolute(found.z) < 0.5 * height + more)


def _either(condition: Scalar, one: Gate, other: Gate) -> Gate:
    return Gate(_place(condition, one.p_W, other.p_W), where(condition, one.yaw, other.yaw))


def _place(condition: Scalar, one_W: Vec3, other_W: Vec3) -> Vec3:
    return Vec3(*(where(condition, a, b) for a, b in zip(one_W, other_W, strict=True)))
