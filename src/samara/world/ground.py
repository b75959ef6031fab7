"""The ground plane below one drone: terrain, or the top of a solid that all of its feet are over.

`ground_below` is a pure function of one drone's position and attitude. Solids of one type are the rows of a table
(`samara.core.block_ops`) and a loop folds them one after the other, so that compiled code does not grow with their number.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from samara.core.algebra import Quat, Vec3, dot, rotate
from samara.core.block_ops import Grid, loop, select
from samara.core.ops import absolute, logical_and, lookup, where
from samara.core.quantity import Scalar, Tree
from samara.core.tree import flatten, unflatten
from samara.physics.ground.contact import Ground
from samara.world.obstacles import TEMPLATES, HeightMap, Solid, kind_of, plane_below, touch

MIN_NORMAL_Z = 0.5  # of a face that drones stand on: at most 60° steep
FACE_TOLERANCE = 1e-3  # [m]: a foot is over a face when its distance from the solid is its height over the face's plane
MAX_DEPTH = 0.05  # [m]: a drone whose centre is deeper inside a solid does not stand on it
MAX_HEIGHT = 5.0  # [m]: a top that is further below is not felt


class GroundBelow(NamedTuple):
    """A plane, and its distance straight below the drone [m]."""

    plane: Ground
    depth: Scalar


def ground_below(
    p_W: Vec3, q_WB: Quat, *, ground: Ground | HeightMap, tops: Sequence[Solid] = (), feet_B: Sequence[Vec3] = ()
) -> Ground:
    """The plane below a drone: the ground's, or the top of the solid nearest below that all feet are over

    `tops` are the solids a drone may stand on, in the order in which the first of two equal ones is taken.
    """
    below = terrain_below(p_W, ground)
    for kind, run in groupby(tops, kind_of):
        solids = tuple(run)
        if kind == "height_map":
            for solid in solids:
                below = nearer_top(below, solid, p_W, q_WB, feet_B)
        else:
            below = _nearest_top(below, kind, table_of(solids), p_W, q_WB, feet_B)
    return below.plane


def terrain_below(p_W: Vec3, ground: Ground | HeightMap) -> GroundBelow:
    """The ground's own plane, or the one that touches a height map below"""
    plane = plane_below(ground, p_W)
    return GroundBelow(plane, _height(plane, p_W) / plane.normal_W.z)


def _nearest_top(
    below: GroundBelow, kind: str, table: Grid, p_W: Vec3, q_WB: Quat, feet_B: Sequence[Vec3]
) -> GroundBelow:
    """`nearer_top` for every solid of a table"""

    def body(row: Scalar, nearest: GroundBelow, inputs: Tree) -> GroundBelow:
        p_W, q_WB = inputs
        return nearer_top(nearest, solid_at(table, row, kind), p_W, q_WB, feet_B)

    return GroundBelow(*loop(body, below, (p_W, q_WB), count=len(table.values)))


def nearer_top(below: GroundBelow, solid: Solid, p_W: Vec3, q_WB: Quat, feet_B: Sequence[Vec3]) -> GroundBelow:
    """The top of a solid where all feet are over it and it is nearer than the plane below, else that plane"""
    distance, normal_W = touch(solid, p_W)
    over = logical_and(normal_W.z > MIN_NORMAL_Z, logical_and(distance > -MAX_DEPTH, distance < MAX_HEIGHT))
    top = Ground(p_W - normal_W * distance, normal_W)
    depth = distance / where(over, normal_W.z, 1.0)
    over = logical_and(over, depth < below.depth)
    for foot_B in feet_B:
        foot_W = p_W + rotate(q_WB, foot_B)
        over = logical_and(over, absolute(touch(solid, foot_W).distance - _height(top, foot_W)) < FACE_TOLERANCE)
    return select(over, GroundBelow(top, depth), below)


def _height(plane: Ground, p_W: Vec3) -> Scalar:
    return dot(p_W - plane.point_W, plane.normal_W)


@lru_cache(maxsize=256)
def table_of(solids: tuple[Solid, ...]) -> Grid:
    """The parameters of solids of one type, a row for each"""
    return Grid([flatten(solid) for solid in solids])


def solid_at(table: Grid, row: Scalar, kind: str) -> Solid:
    """The solid in a row of a table, of a type that `TEMPLATES` has"""
    template = TEMPLATES[kind]
    columns = (lookup(table, row, float(column)) for column in range(table.values.shape[1]))
    solid: Solid = unflatten(template, columns)
    return solid
