"""Gates to fly through in order and poles to avoid: pure functions of scalars of any type.

The gate frame has x along the flight direction, y to the left and z up. The frame of a gate fills the area between two
rectangles about its centre. Here a drone is a sphere whose radius, `drone_radius` [m], is the distance of its rotor hubs from
its centre.
"""

import math
from typing import NamedTuple

from samara.core.algebra import Vec3
from samara.core.ops import absolute, clamp, cos, logical_and, logical_or, safe_divide, safe_norm, sin, where
from samara.core.quantity import Scalar
from samara.physics.types import Vehicle


class Gate(NamedTuple):
    """The centre of a gate [m] and the heading of the flight through it [rad]."""

    p_W: Vec3
    yaw: Scalar


class GateSize(NamedTuple):
    """Width and height of a gate's opening and of its frame [m]."""

    opening_size: tuple[float, float]
    frame_size: tuple[float, float]


class Course(NamedTuple):
    """Poses of the gates in order, and the top centres of the poles."""

    gates: tuple[Gate, ...]
    poles: tuple[Vec3, ...] = ()


class GateCrossing(NamedTuple):
    """The intersection of a straight path with the plane of a gate.

    `forwards` and `backwards` are conditions; `y` and `z` are the position in the gate frame [m] and `fraction` is the
    fraction of the path at which it lies.
    """

    forwards: Scalar
    backwards: Scalar
    y: Scalar
    z: Scalar
    fraction: Scalar


def hub_radius(vehicle: Vehicle) -> float:
    """max |r| of the rotor hubs  [m]"""
    return max(math.hypot(*rotor.r_B) for rotor in vehicle.rotors)


def gate_coordinates(p_W: Vec3, gate: Gate) -> Vec3:
    """R_z(ψ)ᵀ (p − p_gate): a position in the gate frame  [m]"""
    r_W, c, s = p_W - gate.p_W, cos(gate.yaw), sin(gate.yaw)
    return Vec3(c * r_W.x + s * r_W.y, c * r_W.y - s * r_W.x, r_W.z)


def plane_crossing(start_W: Vec3, end_W: Vec3, gate: Gate) -> GateCrossing:
    """x(λ) = x₀ + λ (x₁ − x₀) = 0 at λ = −x₀ / (x₁ − x₀).

    A path that ends in the plane crosses it; a path that begins in the plane does not.
    """
    start, end = gate_coordinates(start_W, gate), gate_coordinates(end_W, gate)
    fraction = safe_divide(-start.x, end.x - start.x)
    return GateCrossing(
        logical_and(start.x < 0.0, end.x >= 0.0),
        logical_and(start.x > 0.0, end.x <= 0.0),
        start.y + fraction * (end.y - start.y),
        start.z + fraction * (end.z - start.z),
        fraction,
    )


def is_clear(gate_crossing: GateCrossing, sizes: GateSize, drone_radius: Scalar) -> Scalar:
    """|y| < w/2 − r and |z| < h/2 − r: the drone fits through the opening."""
    return _is_inside_rectangle(gate_crossing, sizes.opening_size, -drone_radius)


def collides_with_frame(gate_crossing: GateCrossing, sizes: GateSize, drone_radius: Scalar) -> Scalar:
    """Return whether the path crosses the plane of the gate, in either direction, on its frame."""
    crossed = logical_or(gate_crossing.forwards, gate_crossing.backwards)
    width, height = sizes.opening_size
    beyond_opening = logical_or(
        absolute(gate_crossing.y) >= 0.5 * width - drone_radius,
        absolute(gate_crossing.z) >= 0.5 * height - drone_radius,
    )
    return logical_and(
        crossed, logical_and(beyond_opening, _is_inside_rectangle(gate_crossing, sizes.frame_size, drone_radius))
    )


def is_gate_passed(start_W: Vec3, end_W: Vec3, gate: Gate, sizes: GateSize, drone_radius: Scalar) -> Scalar:
    """Return whether the path crosses the opening forwards."""
    gate_crossing = plane_crossing(start_W, end_W, gate)
    return logical_and(gate_crossing.forwards, is_clear(gate_crossing, sizes, drone_radius))


def collides_with_pole(start_W: Vec3, end_W: Vec3, top_W: Vec3, radius: Scalar) -> Scalar:
    """Return whether the path comes closer to a vertical pole than `radius` [m] at a point below the pole's top."""
    path, offset = end_W - start_W, start_W - top_W
    fraction = clamp(safe_divide(-(path.x * offset.x + path.y * offset.y), path.x * path.x + path.y * path.y), 0.0, 1.0)
    is_close = safe_norm(offset.x + fraction * path.x, offset.y + fraction * path.y) < radius
    return logical_and(is_close, offset.z + fraction * path.z < 0.0)


def is_outside(p_W: Vec3, bounds_min_W: Vec3, bounds_max_W: Vec3) -> Scalar:
    """Return whether a position is beyond the walls, the floor or the ceiling."""
    beyond: Scalar = p_W.x < bounds_min_W.x
    for value, low, high in zip(p_W, bounds_min_W, bounds_max_W, strict=True):
        beyond = logical_or(beyond, logical_or(value < low, value > high))
    return beyond


# Knowledge of the course ----------------------------------------------------------------------------------------------


def is_next(gates_passed: Scalar, k: int) -> Scalar:
    """Return whether exactly k gates are passed, so that gate k is the next one."""
    return logical_and(gates_passed > k - 0.5, gates_passed < k + 0.5)


def select_next_gate(gates: tuple[Gate, ...], gates_passed: Scalar) -> Gate:
    """Return the next gate; the last gate after all have been passed."""
    gate = gates[-1]
    for k in range(len(gates) - 2, -1, -1):
        gate = _select_gate(gates_passed < k + 0.5, gates[k], gate)
    return gate


def update_observed_flags(
    p_W: Vec3, course: Course, observed: tuple[Scalar, ...], detection_range: float
) -> tuple[Scalar, ...]:
    """Return 1 for each gate, then for each pole, that has ever been within the detection range [m], else 0.

    The distance of a pole is horizontal.
    """
    gates = (safe_norm(*(p_W - gate.p_W)) for gate in course.gates)
    poles = (safe_norm(p_W.x - pole.x, p_W.y - pole.y) for pole in course.poles)
    return tuple(
        where(distance < detection_range, 1.0, previous)
        for distance, previous in zip((*gates, *poles), observed, strict=True)
    )


def known_course(true: Course, nominal: Course, observed: tuple[Scalar, ...]) -> Course:
    """Return the course with true poses for observed gates and poles and nominal poses for the rest."""
    gates = tuple(
        _select_gate(flag > 0.5, true_pose, nominal_pose)
        for true_pose, nominal_pose, flag in zip(true.gates, nominal.gates, observed, strict=False)
    )
    pole_flags = observed[len(gates) :]
    return Course(
        gates,
        tuple(
            _select_vector(flag > 0.5, true_pose, nominal_pose)
            for true_pose, nominal_pose, flag in zip(true.poles, nominal.poles, pole_flags, strict=True)
        ),
    )


def _is_inside_rectangle(gate_crossing: GateCrossing, size: tuple[float, float], margin: Scalar) -> Scalar:
    width, height = size
    return logical_and(
        absolute(gate_crossing.y) < 0.5 * width + margin, absolute(gate_crossing.z) < 0.5 * height + margin
    )


def _select_gate(condition: Scalar, a: Gate, b: Gate) -> Gate:
    return Gate(_select_vector(condition, a.p_W, b.p_W), where(condition, a.yaw, b.yaw))


def _select_vector(condition: Scalar, a_W: Vec3, b_W: Vec3) -> Vec3:
    return Vec3(*(where(condition, a, b) for a, b in zip(a_W, b_W, strict=True)))
