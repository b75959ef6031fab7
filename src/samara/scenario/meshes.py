"""How solids look: the faces of a plane, sphere, capsule, box or height map, as corners in the world, seen from outside.

    faces_of(solid, middle_W, span)          # a list of arrays (corners, 3)

A plane has no end: it is drawn as a square of some span about its point nearest to the middle.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from samara.core.algebra import EAST, UP, Quat, Vec3, cross, direction, dot, norm, rotate
from samara.core.types import Array
from samara.physics.ground.contact import Ground
from samara.physics.ground.solids import Box, Capsule
from samara.scenario.world import Placed, World
from samara.world.obstacles import HeightMap, Solid

SOLID, TERRAIN, CONTOUR = "#9aa5b1", "#b9c4a7", "#6f7d55"  # greys and greens that no curve has
AROUND, ALONG = 20, 6  # corners of a round solid around its axis, and from its middle to its pole
MOST_CELLS = 40  # of a height map, along each side

_CORNERS = np.array([(x, y, z) for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)])
_FACES = ((0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3))


def drawn(world: World) -> list[tuple[str, Solid, str]]:
    """What of a world there is to draw: names, solids, colours"""
    own = [(placed.name, placed.solid, colour_of(placed)) for placed in world.solids]
    return [("ground", world.terrain, TERRAIN), *own] if world.terrain is not None else own


def colour_of(placed: Placed) -> str:
    """Of a map that of the ground, else that of solids"""
    return TERRAIN if isinstance(placed.solid, HeightMap) else SOLID


def faces_of(solid: Solid, middle_W: Sequence[float] | Array = (0.0, 0.0, 0.0), span: float = 10.0) -> list[Array]:
    """Corners of every face, in order around it as seen from outside"""
    if isinstance(solid, HeightMap):
        return _map_faces(solid)
    if isinstance(solid, Box):
        corners = _turned(solid.q_WS, _CORNERS * np.array(solid.half, dtype=float)) + np.array(
            solid.center_W, dtype=float
        )
        return [corners[list(face)] for face in _FACES]
    if isinstance(solid, Ground):
        return [_square(solid, Vec3(*(float(x) for x in middle_W)), span)]
    if isinstance(solid, Capsule):
        return _round_faces(solid.a_W, solid.b_W, float(solid.radius))
    return _round_faces(solid.center_W, solid.center_W, float(solid.radius))


def triangles_of(
    solid: Solid, middle_W: Sequence[float] | Array = (0.0, 0.0, 0.0), span: float = 10.0
) -> tuple[Array, Array]:
    """The same as vertices (n, 3) and triangles (m, 3) of their numbers"""
    vertices: list[Array] = []
    triangles: list[tuple[int, int, int]] = []
    for face in faces_of(solid, middle_W, span):
        first = sum(len(own) for own in vertices)
        triangles += [(first, first + k, first + k + 1) for k in range(1, len(face) - 1)]
        vertices.append(face)
    return np.concatenate(vertices), np.array(triangles, dtype=np.uint32)


def outline(solid: Solid) -> Array | None:
    """Its shape from above, (corners, 2); None where that has no end"""
    if isinstance(solid, (Ground, HeightMap)):
        return None
    return convex_hull(np.concatenate(faces_of(solid))[:, :2])


def convex_hull(points: Array) -> Array:
    """The corners of the smallest convex shape around points (n, 2), counter-clockwise: Andrew's chains, below and above"""
    around: list[Array] = []
    in_order = np.unique(points, axis=0)
    for chain in (in_order, in_order[::-1]):
        side: list[Array] = []
        for point in chain:
            while len(side) > 1 and _turn(side[-2], side[-1], point) <= 0.0:
                side.pop()
            side.append(point)
        around += side[:-1]
    return np.array(around)


def _turn(a: Array, b: Array, c: Array) -> float:
    """(b − a) × (c − b): positive to the left"""
    return float((b[0] - a[0]) * (c[1] - b[1]) - (b[1] - a[1]) * (c[0] - b[0]))


def _turned(q: Quat, points: Array) -> Array:
    return np.stack(np.broadcast_arrays(*rotate(q, Vec3(*points.T))), axis=1)


def _across(axis: Vec3) -> tuple[Vec3, Vec3]:
    beside = direction(cross(axis, EAST if abs(axis.x) < 0.7 else UP))
    return beside, cross(axis, beside)


def _square(plane: Ground, middle_W: Vec3, span: float) -> Array:
    x, y = _across(plane.normal_W)
    foot = middle_W - plane.normal_W * dot(middle_W - plane.point_W, plane.normal_W)
    half = 0.5 * span
    return np.array(
        [foot + x * (half * a) + y * (half * b) for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))], dtype=float
    )


def _round_faces(a_W: Vec3, b_W: Vec3, radius: float) -> list[Array]:
    """Rings around the line from a to b, from pole to pole."""
    along = b_W - a_W
    axis = direction(along) if norm(along) > 0.0 else UP
    x, y = (np.array(own, dtype=float) for own in _across(axis))
    z = np.array(axis, dtype=float)
    turn = np.linspace(0.0, 2.0 * math.pi, AROUND, endpoint=False)[:, None]
    level = np.linspace(-0.5 * math.pi, 0.0, ALONG)
    ends = [(a_W, angle) for angle in level] + [(b_W, -angle) for angle in level[::-1]]
    rings = [
        np.array(end, dtype=float)
        + radius * (math.cos(angle) * (np.cos(turn) * x + np.sin(turn) * y) + math.sin(angle) * z)
        for end, angle in ends
    ]
    faces = []
    for low, high in pairwise(rings):
        for k in range(AROUND):
            after = (k + 1) % AROUND
            faces.append(np.array([low[k], low[after], high[after], high[k]]))
    return faces


def _map_faces(own: HeightMap) -> list[Array]:
    i, j = (
        np.unique(np.linspace(0, len(axis) - 1, min(len(axis), MOST_CELLS + 1)).round().astype(int))
        for axis in (own.x, own.y)
    )
    x, y = np.meshgrid(own.x[i], own.y[j], indexing="ij")
    grid = np.stack([x, y, own.z[np.ix_(i, j)]], axis=-1)
    return [
        np.array([grid[a, b], grid[a + 1, b], grid[a + 1, b + 1], grid[a, b + 1]])
        for a in range(len(i) - 1)
        for b in range(len(j) - 1)
    ]
