"""Distances of a drone's parts to a solid, and the times at which they reach it, compiled and computed for all parts together.

The functions are `part_distance` and `newton_part_step` of `samara.world.collision`, compiled once for each type of solid. A
part is a disc with a ball around each of its points: the ball of a propeller and the disc of a body or a foot have radius 0.
"""

import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from samara.compiler.compiled_step import CompiledStep, Machine
from samara.core.algebra import EAST, IDENTITY, UP, ZERO, Quat, Vec3, cross, direction
from samara.core.quantity import Tree
from samara.core.tree import flatten
from samara.core.types import Array
from samara.physics.ground.solids import SurfaceDistance
from samara.world.collision import PartDistance, newton_part_step, part_distance, part_pose
from samara.world.obstacles import (
    MAX_NEWTON_STEPS,
    NEVER,
    TEMPLATES,
    HeightMap,
    Solid,
    classify_solid,
    time_to_reach,
    touch,
)

LANE_MULTIPLE = 8  # SIMD lanes are allocated in multiples of this, as whole vectors
RIM_POINTS = (
    np.append(np.exp(2j * np.pi * np.arange(12) / 12), 0.0).view(float).reshape(-1, 2).T
)  # points on the rim of a unit disc, and its hub


_THREAD_CACHE = threading.local()


class PartArrays(NamedTuple):
    """The parts of a drone as arrays, in body axes."""

    centre_B: Vec3
    axis_B: Vec3
    disc: Array
    ball: Array


@lru_cache(maxsize=64)
def part_arrays(parts: tuple[Tree, ...]) -> PartArrays:
    """Convert the parts that `collision_parts` returns to arrays."""
    radius = np.array([float(part.radius) for part in parts])
    is_disc = np.array([part.axis_B is not None for part in parts])
    center, axis = (
        np.array(column, dtype=float).T for column in zip(*((p.centre_B, p.axis_B or UP) for p in parts), strict=True)
    )
    return PartArrays(Vec3(*center), Vec3(*axis), np.where(is_disc, radius, 0.0), np.where(is_disc, 0.0, radius))


def place_parts(p_W: Vec3, q_WB: Quat, shapes: PartArrays) -> tuple[Vec3, Vec3]:
    """p + R r and R a: position and axis of each part of one drone."""
    rows = run_lanes(_placing_code(), 1, (p_W, q_WB), (*shapes.centre_B, *shapes.axis_B))
    return Vec3(*rows[:3]), Vec3(*rows[3:])


def part_distances(solid: Solid, centre_W: Vec3, axis_W: Vec3, shapes: PartArrays) -> PartDistance:
    """Return the distance of each part from a solid."""
    if isinstance(solid, HeightMap):
        return part_distance(solid, centre_W, axis_W, shapes.disc, shapes.ball)
    rows = run_lanes(_distance_code(classify_solid(solid)), 1, solid, (*centre_W, *axis_W, shapes.disc, shapes.ball))
    return PartDistance(rows[0], Vec3(*rows[1:4]), Vec3(*rows[4:7]))


def surface_touches(solid: Solid, p_W: Vec3) -> SurfaceDistance:
    """Evaluate `touch` for an array of points."""
    if isinstance(solid, HeightMap):
        return touch(solid, p_W)
    rows = run_lanes(_touch_code(classify_solid(solid)), 1, solid, p_W)
    return SurfaceDistance(rows[0], Vec3(*rows[1:]))


def contact_times(solid: Solid, centre_W: Vec3, move_W: Vec3, axis_W: Vec3, shapes: PartArrays) -> Array:
    """Return when each part reaches a solid, as a fraction of its straight move; 1e9 for parts that do not."""
    if isinstance(solid, HeightMap):
        return _height_map_times(solid, centre_W, move_W, axis_W, shapes)
    rows = (*centre_W, *axis_W, *move_W, shapes.disc, shapes.ball)
    time, misses = run_lanes(_time_code(classify_solid(solid)), MAX_NEWTON_STEPS, solid, rows)
    return np.where(misses > 0.5, NEVER, time)


def _height_map_times(ground: HeightMap, centre_W: Vec3, move_W: Vec3, axis_W: Vec3, shapes: PartArrays) -> Array:
    """Compute the times for a height map, which has no nearest point: a disc is sampled at its rim and its hub."""
    part_times = []
    for k, (disc, ball) in enumerate(zip(shapes.disc, shapes.ball, strict=True)):
        center, move, axis = (Vec3(*(float(x[k]) for x in columns)) for columns in (centre_W, move_W, axis_W))
        if disc > 0.0:
            tangent = direction(cross(axis, EAST if abs(axis.x) < 0.7 else UP))
            center = center + tangent * (disc * RIM_POINTS[0]) + cross(axis, tangent) * (disc * RIM_POINTS[1])
        part_times.append(np.min(time_to_reach(ground, center, move, float(ball), until=1.0)))
    return np.array(part_times)


@lru_cache(maxsize=1)
def _placing_code() -> CompiledStep:
    def body(carry: Tree, constants: Tree) -> Tree:
        (p_W, q_WB), centre_B, axis_B = constants
        return part_pose(p_W, q_WB, centre_B, axis_B)

    return CompiledStep(body, (ZERO, ZERO), ((ZERO, IDENTITY), ZERO, ZERO))


@lru_cache(maxsize=len(TEMPLATES))
def _distance_code(kind: str) -> CompiledStep:
    start = PartDistance(0.0, ZERO, ZERO)
    return CompiledStep(
        lambda carry, constants: part_distance(*constants), start, (TEMPLATES[kind], ZERO, UP, 0.0, 0.0)
    )


@lru_cache(maxsize=len(TEMPLATES))
def _time_code(kind: str) -> CompiledStep:
    """One Newton step, to be run repeatedly."""

    def body(carry: Tree, constants: Tree) -> Tree:
        solid, centre_W, axis_W, move_W, disc, ball = constants
        return newton_part_step(carry[0], carry[1], solid, centre_W, axis_W, move_W, disc, ball)

    return CompiledStep(body, (0.0, 0.0), (TEMPLATES[kind], ZERO, UP, ZERO, 0.0, 0.0))


@lru_cache(maxsize=len(TEMPLATES))
def _touch_code(kind: str) -> CompiledStep:
    return CompiledStep(lambda carry, constants: touch(*constants), SurfaceDistance(0.0, ZERO), (TEMPLATES[kind], ZERO))


def run_lanes(code: CompiledStep, steps: int, common: Tree, rows: Sequence[Tree]) -> Array:
    """Run `code` on n lanes and return its carry, (components, n); its inputs are `common` in all lanes, then the rows."""
    n = len(rows[0])
    machine = _machine(code, -(-n // LANE_MULTIPLE) * LANE_MULTIPLE)
    machine.carry[:] = 0.0
    common_leaves = flatten(common)
    machine.held_inputs[: len(common_leaves)] = np.array(common_leaves, dtype=float)[:, None]
    for k, row in enumerate(rows, len(common_leaves)):
        machine.held_inputs[k, :n] = row
    machine.run(steps)
    return machine.carry[:, :n].copy()


def _machine(code: CompiledStep, n: int) -> Machine:
    """Return the code with memory for n lanes, cached per thread: parts near a solid are measured several times per step."""
    machines: dict[tuple[CompiledStep, int], Machine] = _THREAD_CACHE.__dict__.setdefault("machines", {})
    if (code, n) not in machines:
        machines[code, n] = code.machine(n)
    return machines[code, n]


def close_pairs(p_W: Array, distance: float) -> Array:
    """Return the pairs of points (3, n) within a distance [m], (pairs, 2), each i < j and in increasing order.

    The points are swept along the axis of their largest spread, so that only neighbours on that axis are compared.
    """
    coordinates = p_W[int(np.argmax(np.ptp(p_W, axis=1)))]
    order = np.argsort(coordinates, kind="stable")
    sorted_coordinates = coordinates[order]
    indices = np.arange(len(order))
    neighbour_counts = np.searchsorted(sorted_coordinates, sorted_coordinates + distance, side="right") - indices - 1
    left = np.repeat(indices, neighbour_counts)
    right = (
        left + 1 + np.arange(len(left)) - np.repeat(np.cumsum(neighbour_counts) - neighbour_counts, neighbour_counts)
    )
    i, j = order[left], order[right]
    is_near = ((p_W[:, i] - p_W[:, j]) ** 2).sum(axis=0) <= distance * distance
    pairs = np.sort(np.stack([i[is_near], j[is_near]], axis=1), axis=1)
    return np.asarray(pairs[np.lexsort(pairs.T[::-1])])
