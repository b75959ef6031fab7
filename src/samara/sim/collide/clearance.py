"""How near the parts of a drone are to a solid, and when they reach it: all parts at once, as machine code.

The functions are `part_distance` and `newton_step` of `samara.world.collision`, compiled once for each type of solid. A part
is a disc with a ball around each of its points: a propeller has a ball of 0, a body or a foot a disc of 0.
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
from samara.physics.ground.solids import Touch
from samara.world.collision import PartDistance, newton_step, part_distance, place_part
from samara.world.obstacles import (
    NEVER,
    NEWTON,
    TEMPLATES,
    HeightMap,
    Solid,
    kind_of,
    time_to_reach,
    touch,
)

LANES = 8  # of machine code, in whole vectors: what is less is filled up
RIM = np.append(np.exp(2j * np.pi * np.arange(12) / 12), 0.0).view(float).reshape(-1, 2).T  # of a disc, and its hub


_MEMORY = threading.local()


class Shapes(NamedTuple):
    """The parts of a drone in a row, in body axes."""

    center_B: Vec3
    axis_B: Vec3
    disc: Array
    ball: Array


@lru_cache(maxsize=64)
def shapes_of(parts: tuple[Tree, ...]) -> Shapes:
    """What `parts_of` gives, as arrays"""
    radius = np.array([float(part.radius) for part in parts])
    disc = np.array([part.axis_B is not None for part in parts])
    center, axis = (
        np.array(own, dtype=float).T for own in zip(*((p.center_B, p.axis_B or UP) for p in parts), strict=True)
    )
    return Shapes(Vec3(*center), Vec3(*axis), np.where(disc, radius, 0.0), np.where(disc, 0.0, radius))


def placed(p_W: Vec3, q_WB: Quat, shapes: Shapes) -> tuple[Vec3, Vec3]:
    """p + R r and R a: where each part of one drone is, and which way its axis points"""
    found = run_lanes(_placing_code(), 1, (p_W, q_WB), (*shapes.center_B, *shapes.axis_B))
    return Vec3(*found[:3]), Vec3(*found[3:])


def distances(solid: Solid, center_W: Vec3, axis_W: Vec3, shapes: Shapes) -> PartDistance:
    """How near each part is"""
    if isinstance(solid, HeightMap):
        return part_distance(solid, center_W, axis_W, shapes.disc, shapes.ball)
    found = run_lanes(_distance_code(kind_of(solid)), 1, solid, (*center_W, *axis_W, shapes.disc, shapes.ball))
    return PartDistance(found[0], Vec3(*found[1:4]), Vec3(*found[4:7]))


def touches(solid: Solid, p_W: Vec3) -> Touch:
    """`touch` for points in a row"""
    if isinstance(solid, HeightMap):
        return touch(solid, p_W)
    found = run_lanes(_touch_code(kind_of(solid)), 1, solid, p_W)
    return Touch(found[0], Vec3(*found[1:]))


def times(solid: Solid, center_W: Vec3, move_W: Vec3, axis_W: Vec3, shapes: Shapes) -> Array:
    """When each part reaches it, as a share of its straight move; 1e9 where it does not"""
    if isinstance(solid, HeightMap):
        return _times_over(solid, center_W, move_W, axis_W, shapes)
    rows = (*center_W, *axis_W, *move_W, shapes.disc, shapes.ball)
    time, missed = run_lanes(_time_code(kind_of(solid)), NEWTON, solid, rows)
    return np.where(missed > 0.5, NEVER, time)


def _times_over(ground: HeightMap, center_W: Vec3, move_W: Vec3, axis_W: Vec3, shapes: Shapes) -> Array:
    """Of a disc by points of its rim and its hub: a map has no nearest point to go by."""
    found = []
    for k, (disc, ball) in enumerate(zip(shapes.disc, shapes.ball, strict=True)):
        center, move, axis = (Vec3(*(float(x[k]) for x in own)) for own in (center_W, move_W, axis_W))
        if disc > 0.0:
            beside = direction(cross(axis, EAST if abs(axis.x) < 0.7 else UP))
            center = center + beside * (disc * RIM[0]) + cross(axis, beside) * (disc * RIM[1])
        found.append(np.min(time_to_reach(ground, center, move, float(ball), until=1.0)))
    return np.array(found)


@lru_cache(maxsize=1)
def _placing_code() -> CompiledStep:
    def body(own: Tree, held: Tree) -> Tree:
        (p_W, q_WB), center_B, axis_B = held
        return place_part(p_W, q_WB, center_B, axis_B)

    return CompiledStep(body, (ZERO, ZERO), ((ZERO, IDENTITY), ZERO, ZERO))


@lru_cache(maxsize=len(TEMPLATES))
def _distance_code(kind: str) -> CompiledStep:
    start = PartDistance(0.0, ZERO, ZERO)
    return CompiledStep(lambda own, held: part_distance(*held), start, (TEMPLATES[kind], ZERO, UP, 0.0, 0.0))


@lru_cache(maxsize=len(TEMPLATES))
def _time_code(kind: str) -> CompiledStep:
    """One step of Newton's: run as often as it takes."""

    def body(own: Tree, held: Tree) -> Tree:
        solid, center_W, axis_W, move_W, disc, ball = held
        return newton_step(own[0], own[1], solid, center_W, axis_W, move_W, disc, ball)

    return CompiledStep(body, (0.0, 0.0), (TEMPLATES[kind], ZERO, UP, ZERO, 0.0, 0.0))


@lru_cache(maxsize=len(TEMPLATES))
def _touch_code(kind: str) -> CompiledStep:
    return CompiledStep(lambda own, held: touch(*held), Touch(0.0, ZERO), (TEMPLATES[kind], ZERO))


def run_lanes(code: CompiledStep, steps: int, common: Tree, rows: Sequence[Tree]) -> Array:
    """Run `code` on n lanes and return its carry, (components, n); held is `common` in all lanes, then the rows."""
    n = len(rows[0])
    machine = _machine(code, -(-n // LANES) * LANES)
    machine.carry[:] = 0.0
    numbers = flatten(common)
    machine.held[: len(numbers)] = np.array(numbers, dtype=float)[:, None]
    for k, row in enumerate(rows, len(numbers)):
        machine.held[k, :n] = row
    machine.run(steps)
    return machine.carry[:, :n].copy()


def _machine(code: CompiledStep, n: int) -> Machine:
    """Its memory is used again: what lies against a solid is measured several times a step."""
    kept: dict[tuple[CompiledStep, int], Machine] = _MEMORY.__dict__.setdefault("machines", {})
    if (code, n) not in kept:
        kept[code, n] = code.machine(n)
    return kept[code, n]


def pairs_within(p_W: Array, distance: float) -> Array:
    """The pairs of points (3, n) at most so far from each other, (pairs, 2), each i < j and in rising order  [m]

    Swept along the axis on which they spread the furthest: only those near on it are looked at.
    """
    along = p_W[int(np.argmax(np.ptp(p_W, axis=1)))]
    order = np.argsort(along, kind="stable")
    place = along[order]
    first = np.arange(len(order))
    ahead = np.searchsorted(place, place + distance, side="right") - first - 1
    one = np.repeat(first, ahead)
    other = one + 1 + np.arange(len(one)) - np.repeat(np.cumsum(ahead) - ahead, ahead)
    i, j = order[one], order[other]
    near = ((p_W[:, i] - p_W[:, j]) ** 2).sum(axis=0) <= distance * distance
    found = np.sort(np.stack([i[near], j[near]], axis=1), axis=1)
    return np.asarray(found[np.lexsort(found.T[::-1])])
