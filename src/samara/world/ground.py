"""The ground plane below one drone: terrain, or the top of a solid that is below all of its feet.

`ground_below` is a pure function of one drone's position and attitude. Solids of one type are the rows of a table
(`samara.core.block_ops`) that a loop folds one after the other, so that compiled code does not grow with their count.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from samara.core.algebra import Quat, Vec3, dot, rotate
from samara.core.block_ops import ConstantTable, loop, select
from samara.core.ops import absolute, logical_and, lookup, where
from samara.core.quantity import Scalar, Tree
from samara.core.tree import flatten, unflatten
from samara.physics.ground.contact import Ground
from samara.world.obstacles import TEMPLATES, HeightMap, Solid, classify_solid, plane_below, touch

MIN_NORMAL_Z = 0.5  # of a face that a drone can stand on: a slope of at most 60°
FACE_TOLERANCE = (
    1e-3  # [m]: a foot is over a face if its distance from the solid equals its height over the face's plane
)
MAX_DEPTH = 0.05  # [m]: a drone whose centre is deeper inside a solid does not stand on it
MAX_HEIGHT = 5.0  # [m]: a top further below has no ground effect


class GroundBelow(NamedTuple):
    """A plane, and its distance straight below the drone [m]."""

    plane: Ground
    depth: Scalar


def ground_below(
    p_W: Vec3, q_WB: Quat, *, ground: Ground | HeightMap, tops: Sequence[Solid] = (), feet_B: Sequence[Vec3] = ()
) -> Ground:
    """Return the plane below a drone: the ground, or the nearest top of a solid that is below all feet.

    Args:
        p_W: position of the drone.
        q_WB: attitude of the drone.
        ground: the terrain.
        tops: solids that a drone may stand on; of two at equal depth the first is used.
        feet_B: positions of the feet.
    """
    below = terrain_below(p_W, ground)
    for solid_type, run in groupby(tops, classify_solid):
        solids = tuple(run)
        if solid_type == "height_map":
            for solid in solids:
                below = nearer_ground(below, solid, p_W, q_WB, feet_B)
        else:
            below = _nearest_top(below, solid_type, solid_table(solids), p_W, q_WB, feet_B)
    return below.plane


def terrain_below(p_W: Vec3, ground: Ground | HeightMap) -> GroundBelow:
    """Return the ground plane, or the tangent plane of a height map below the drone."""
    plane = plane_below(ground, p_W)
    return GroundBelow(plane, _height(plane, p_W) / plane.normal_W.z)


def _nearest_top(
    below: GroundBelow, solid_type: str, table: ConstantTable, p_W: Vec3, q_WB: Quat, feet_B: Sequence[Vec3]
) -> GroundBelow:
    """Fold `nearer_ground` over every solid of a table."""

    def body(row: Scalar, nearest: GroundBelow, inputs: Tree) -> GroundBelow:
        p_W, q_WB = inputs
        return nearer_ground(nearest, read_solid(table, row, solid_type), p_W, q_WB, feet_B)

    return GroundBelow(*loop(body, below, (p_W, q_WB), count=len(table.values)))


def nearer_ground(below: GroundBelow, solid: Solid, p_W: Vec3, q_WB: Quat, feet_B: Sequence[Vec3]) -> GroundBelow:
    """Return the top of a solid if all feet are over it and it is nearer than `below`, else `below`."""
    distance, normal_W = touch(solid, p_W)
    is_over = logical_and(normal_W.z > MIN_NORMAL_Z, logical_and(distance > -MAX_DEPTH, distance < MAX_HEIGHT))
    top = Ground(p_W - normal_W * distance, normal_W)
    depth = distance / where(is_over, normal_W.z, 1.0)
    is_over = logical_and(is_over, depth < below.depth)
    for foot_B in feet_B:
        foot_W = p_W + rotate(q_WB, foot_B)
        is_over = logical_and(is_over, absolute(touch(solid, foot_W).distance - _height(top, foot_W)) < FACE_TOLERANCE)
    return select(is_over, GroundBelow(top, depth), below)


def _height(plane: Ground, p_W: Vec3) -> Scalar:
    return dot(p_W - plane.point_W, plane.normal_W)


@lru_cache(maxsize=256)
def solid_table(solids: tuple[Solid, ...]) -> ConstantTable:
    """Return the parameters of solids of one type, one row each."""
    return ConstantTable([flatten(solid) for solid in solids])


def read_solid(table: ConstantTable, row: Scalar, solid_type: str) -> Solid:
    """Return the solid in a row of a table, of a type listed in `TEMPLATES`."""
    template = TEMPLATES[solid_type]
    columns = (lookup(table, row, float(column)) for column in range(table.values.shape[1]))
    solid: Solid = unflatten(template, columns)
    return solid
