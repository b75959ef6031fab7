"""Constraints of a plan, g(x, u, t) ≤ 0: limits of the motion, obstacles that stand or move, and functions of your own.

    mpc = MPC(vehicle, constraints=[max_speed(2.0), keep_out_sphere((1.0, 0.0, 1.0), 0.4)])

A hard constraint holds to 1e-3 of its scale when a solution has converged. One with a `weight` is soft: it costs
½ weight max(g, 0)². The values of a constraint are inputs of the compiled code; its function is part of it.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from samara.control.mpc.problem import Scalars, Tree
from samara.core.algebra import IDENTITY, ZERO, Quat, Vec3, dot, matrix_from_quat, rotate_inverse
from samara.core.ops import absolute, clamp, maximum, minimum, safe_norm
from samara.core.quantity import Scalar
from samara.core.tree import finite_vector, flatten, unflatten
from samara.physics.types import Command, State

ConstraintFunction = Callable[[State, Command, Scalar, Tree], Scalar | tuple[Scalar, ...]]


class Constraint(NamedTuple):
    """g(state, command, time, values) / scale ≤ 0, for each g if the function returns several.

    Args:
        name: name in messages and results.
        function: a function of scalars. `command` is the plan's input, `time` that of the controller [s].
        values: nested tuple of numbers for the function; they may change between solutions.
        scale: typical size of g: a violation of 1e-3 scale counts as none.
        weight: cost of a soft constraint; None for a hard one.
        on_inputs: whether g depends on the command; it then holds at every input. Others hold from the second state on.
    """

    name: str
    function: ConstraintFunction
    values: Tree = ()
    scale: float = 1.0
    weight: float | None = None
    on_inputs: bool = False

    @property
    def structure(self) -> "Constraint":
        """The constraint with its values replaced by ones: what determines compiled code."""
        is_hard = self.weight is None
        ones = unflatten(self.values, iter([1.0] * len(flatten(self.values))))
        return self._replace(values=ones, weight=None if is_hard else 1.0)

    def evaluate(self, state: State, command: Command, time: Scalar, values: Tree) -> list[Scalar]:
        """Return every g / scale."""
        g = self.function(state, command, time, values)
        return [x / self.scale for x in (g if isinstance(g, tuple) else (g,))]


class MovingPoint(NamedTuple):
    """A point at time 0 and its velocity."""

    p_W: Vec3
    v_W: Vec3

    def at(self, time: Scalar) -> Vec3:
        """Position at a time  [m]"""
        return self.p_W + self.v_W * time


def _tilt(state: State, command: Command, time: Scalar, values: Tree) -> Scalar:
    return values[0] - matrix_from_quat(state.q_WB).columns[2].z


def max_tilt(angle: float, *, weight: float | None = None) -> Constraint:
    """cos θ_max − b₃·e₃ ≤ 0: the angle between thrust axis and vertical is at most `angle` [rad]."""
    angle = _positive(angle, "max_tilt", math.pi)
    return Constraint("tilt", _tilt, (math.cos(angle),), angle * math.sin(angle), weight)


def _body_rate(state: State, command: Command, time: Scalar, values: Tree) -> tuple[Scalar, ...]:
    return tuple(
        0.5 * (omega * omega / (limit * limit) - 1.0) for omega, limit in zip(state.omega_B, values, strict=True)
    )


def max_body_rate(rate: float | Sequence[float], *, weight: float | None = None) -> Constraint:
    """½ (ω²/ω_max² − 1) ≤ 0 about each body axis: the body turns at most at `rate`, one for all axes or three [rad/s]."""
    rates = [rate] * 3 if isinstance(rate, (int, float)) else [*rate]
    if len(rates) != 3:
        raise ValueError(f"max_body_rate = {rate!r:.60}: expected one positive number or three")
    return Constraint("body rate", _body_rate, Vec3(*(_positive(x, "max_body_rate") for x in rates)), 1.0, weight)


def _speed(state: State, command: Command, time: Scalar, values: Tree) -> Scalar:
    return 0.5 * (dot(state.v_W, state.v_W) / (values[0] * values[0]) - 1.0)


def max_speed(speed: float, *, weight: float | None = None) -> Constraint:
    """½ (|v|²/v_max² − 1) ≤ 0: the speed is at most `speed` [m/s]."""
    return Constraint("speed", _speed, (_positive(speed, "max_speed"),), 1.0, weight)


def _altitude(state: State, command: Command, time: Scalar, values: Tree) -> tuple[Scalar, ...]:
    return values[0] - state.p_W.z, state.p_W.z - values[1]


def altitude_limits(low: float, high: float, *, weight: float | None = None) -> Constraint:
    """z_low ≤ z ≤ z_high  [m]"""
    if not low < high:
        raise ValueError(f"altitude_limits({low}, {high}): expected low < high")
    return Constraint("altitude", _altitude, (float(low), float(high)), 1.0, weight)


def _position_box(state: State, command: Command, time: Scalar, values: Tree) -> tuple[Scalar, ...]:
    low, high = values
    return (
        *(a - p for a, p in zip(low, state.p_W, strict=True)),
        *(p - b for p, b in zip(state.p_W, high, strict=True)),
    )


def position_box(low: Sequence[float], high: Sequence[float], *, weight: float | None = None) -> Constraint:
    """The position is between two corners  [m]"""
    corners = finite_vector(low, "position_box low"), finite_vector(high, "position_box high")
    if not all(a < b for a, b in zip(*corners, strict=True)):
        raise ValueError(f"position_box({tuple(corners[0])}, {tuple(corners[1])}): expected low < high on each axis")
    return Constraint("position box", _position_box, corners, 1.0, weight)


def _half_space(state: State, command: Command, time: Scalar, values: Tree) -> Scalar:
    normal, offset = values
    return offset - dot(normal, state.p_W)


def half_space(normal: Sequence[float], offset: float, *, weight: float | None = None) -> Constraint:
    """n·p ≥ offset, for a normal n of any length, which is normalised  [m]"""
    n_W = finite_vector(normal, "half_space normal")
    length = math.hypot(*n_W)
    if length == 0.0:
        raise ValueError("half_space normal is 0; expected a direction")
    return Constraint("half-space", _half_space, (n_W / length, float(offset)), 1.0, weight)


ASIDE_W = Vec3(1e-6, -2e-6, 3e-6)  # [m], so that no straight path meets an obstacle exactly in the middle: a saddle


def _sphere(state: State, command: Command, time: Scalar, values: Tree) -> Scalar:
    centre, radius = values
    return 1.0 - safe_norm(*(state.p_W - centre.at(time) + ASIDE_W)) / radius


def keep_out_sphere(
    centre: Sequence[float],
    radius: float,
    *,
    velocity: Sequence[float] = ZERO,
    weight: float | None = None,
) -> Constraint:
    """1 − |p − c(t)|/r ≤ 0: stay out of a sphere whose centre moves as c + v t.

    Args:
        centre: centre at time 0 of the controller [m].
        radius: radius, with that of the vehicle and any clearance added [m].
        velocity: velocity of the centre [m/s].
        weight: cost of a soft constraint; None for a hard one.
    """
    point = MovingPoint(finite_vector(centre, "sphere centre"), finite_vector(velocity, "sphere velocity"))
    return Constraint("sphere", _sphere, (point, _positive(radius, "sphere radius")), 1.0, weight)


def _capsule(state: State, command: Command, time: Scalar, values: Tree) -> Scalar:
    end, axis, radius = values
    offset = state.p_W - end.at(time) + ASIDE_W
    fraction = clamp(dot(offset, axis) / dot(axis, axis), 0.0, 1.0)
    return 1.0 - safe_norm(*(offset - axis * fraction)) / radius


def keep_out_capsule(
    start: Sequence[float],
    end: Sequence[float],
    radius: float,
    *,
    velocity: Sequence[float] = ZERO,
    weight: float | None = None,
) -> Constraint:
    """1 − d(p, segment)/r ≤ 0: stay further than a radius from a segment, such as a pole, which moves with a velocity.

    Args:
        start: one end of the segment at time 0 of the controller [m].
        end: the other end [m].
        radius: radius, with that of the vehicle and any clearance added [m].
        velocity: velocity of the segment [m/s].
        weight: cost of a soft constraint; None for a hard one.
    """
    first, last = finite_vector(start, "capsule start"), finite_vector(end, "capsule end")
    if first == last:
        raise ValueError(f"the capsule's ends are both {tuple(first)}; expected two points, or a sphere")
    point = MovingPoint(first, finite_vector(velocity, "capsule velocity"))
    return Constraint("capsule", _capsule, (point, last - first, _positive(radius, "capsule radius")), 1.0, weight)


def _box(state: State, command: Command, time: Scalar, values: Tree) -> Scalar:
    centre, half, q_WS, margin, length = values
    p_S = rotate_inverse(q_WS, state.p_W - centre.at(time))
    excess = [absolute(x) - h for x, h in zip(p_S, half, strict=True)]
    outside = safe_norm(*(maximum(x, 0.0) for x in excess))
    depth = minimum(maximum(maximum(excess[0], excess[1]), excess[2]), 0.0)
    return (margin - outside - depth) / length


def keep_out_box(
    centre: Sequence[float],
    size: Sequence[float],
    margin: float,
    *,
    q_WS: Quat = IDENTITY,
    velocity: Sequence[float] = ZERO,
    weight: float | None = None,
) -> Constraint:
    """(margin − d)/(margin + h_min) ≤ 0: stay further than a margin from a box, d being negative inside.

    Args:
        centre: centre at time 0 of the controller [m].
        size: lengths of the three sides [m].
        margin: radius of the vehicle and any clearance [m].
        q_WS: attitude, box to world.
        velocity: velocity of the box [m/s].
        weight: cost of a soft constraint; None for a hard one.
    """
    half = finite_vector(size, "box size") * 0.5
    for side in half:
        _positive(side, "box size")
    distance = _positive(margin, "box margin")
    point = MovingPoint(finite_vector(centre, "box centre"), finite_vector(velocity, "box velocity"))
    values = point, half, Quat(*map(float, q_WS)), distance, distance + min(half)
    return Constraint("box", _box, values, 1.0, weight)


def _positive(value: float, name: str, limit: float = math.inf) -> float:
    if not 0.0 < value < limit:
        raise ValueError(
            f"{name} = {value!r:.60}: expected a positive number" + (f" below {limit:.4g}" if limit < math.inf else "")
        )
    return float(value)


def count_constraints(constraint: Constraint, state: State, command: Command) -> int:
    """Return the number of g of a constraint; raise ValueError if its function does not return numbers."""
    try:
        g: Scalars = constraint.evaluate(state, command, 0.0, constraint.values)
        if all(isinstance(float(x), float) for x in g) and g:
            return len(g)
    except (TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"constraint {constraint.name!r}: expected g(state, command, time, values); {error}") from None
    raise ValueError(f"constraint {constraint.name!r} returns no number; expected one g or a tuple of them")
