"""Meshes of solids: the faces of a plane, sphere, capsule, box or height map, as corners in the world, seen from outside.

    solid_faces(solid, middle_W, span)       # a list of arrays (corners, 3)

An infinite plane is drawn as a square with side `span` about its point nearest to the middle.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from samara.core.algebra import EAST, UP, Quat, Vec3, cross, direction, dot, norm, rotate
from samara.core.types import Array
from samara.physics.ground.contact import Ground
from samara.physics.ground.solids import Box, Capsule
from samara.scenario.world import Obstacle, World
from samara.world.obstacles import HeightMap, Solid

SOLID_COLOUR, TERRAIN_COLOUR, CONTOUR_COLOUR = (
    "#9aa5b1",
    "#b9c4a7",
    "#6f7d55",
)  # greys and greens that curves do not use
RING_CORNERS, RINGS_PER_CAP = 20, 6  # corners of a round solid around its axis, and rings from its middle to its pole
MAX_MAP_CELLS = 40  # cells of a height map that are drawn along each side

_CORNERS = np.array([(x, y, z) for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)])
_FACES = ((0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3))


def drawable_solids(world: World) -> list[tuple[str, Solid, str]]:
    """List the solids of a world to draw: names, solids, colours."""
    solids = [(placed.name, placed.solid, solid_colour(placed)) for placed in world.obstacles]
    return [("ground", world.terrain, TERRAIN_COLOUR), *solids] if world.terrain is not None else solids


def solid_colour(placed: Obstacle) -> str:
    """Return the colour of a height map or of another solid."""
    return TERRAIN_COLOUR if isinstance(placed.solid, HeightMap) else SOLID_COLOUR


def solid_faces(solid: Solid, middle_W: Sequence[float] | Array = (0.0, 0.0, 0.0), span: float = 10.0) -> list[Array]:
    """Return the corners of every face, in order around it as seen from outside."""
    if isinstance(solid, HeightMap):
        return _map_faces(solid)
    if isinstance(solid, Box):
        corners = _rotate_points(solid.q_WS, _CORNERS * np.array(solid.half, dtype=float)) + np.array(
            solid.centre_W, dtype=float
        )
        return [corners[list(face)] for face in _FACES]
    if isinstance(solid, Ground):
        return [_square(solid, Vec3(*(float(x) for x in middle_W)), span)]
    if isinstance(solid, Capsule):
        return _round_faces(solid.start_W, solid.end_W, float(solid.radius))
    return _round_faces(solid.centre_W, solid.centre_W, float(solid.radius))


def solid_triangles(
    solid: Solid, middle_W: Sequence[float] | Array = (0.0, 0.0, 0.0), span: float = 10.0
) -> tuple[Array, Array]:
    """Return vertices (n, 3) and triangles (m, 3) of vertex indices."""
    vertices: list[Array] = []
    triangles: list[tuple[int, int, int]] = []
    for face in solid_faces(solid, middle_W, span):
        first = sum(len(block) for block in vertices)
        triangles += [(first, first + k, first + k + 1) for k in range(1, len(face) - 1)]
        vertices.append(face)
    return np.concatenate(vertices), np.array(triangles, dtype=np.uint32)


def outline(solid: Solid) -> Array | None:
    """Return the shape from above, (corners, 2); None for an unbounded solid or a height map."""
    if isinstance(solid, (Ground, HeightMap)):
        return None
    return convex_hull(np.concatenate(solid_faces(solid))[:, :2])


def convex_hull(points: Array) -> Array:
    """Return the corners of the convex hull of points (n, 2), counter-clockwise, by Andrew's monotone chains."""
    hull: list[Array] = []
    sorted_points = np.unique(points, axis=0)
    for chain in (sorted_points, sorted_points[::-1]):
        chain_hull: list[Array] = []
        for point in chain:
            while len(chain_hull) > 1 and _cross_product(chain_hull[-2], chain_hull[-1], point) <= 0.0:
                chain_hull.pop()
            chain_hull.append(point)
        hull += chain_hull[:-1]
    return np.array(hull)


def _cross_product(a: Array, b: Array, c: Array) -> float:
    """(b − a) × (c − b): positive for a left turn."""
    return float((b[0] - a[0]) * (c[1] - b[1]) - (b[1] - a[1]) * (c[0] - b[0]))


def _rotate_points(q: Quat, points: Array) -> Array:
    return np.stack(np.broadcast_arrays(*rotate(q, Vec3(*points.T))), axis=1)


def _tangent_axes(axis: Vec3) -> tuple[Vec3, Vec3]:
    tangent = direction(cross(axis, EAST if abs(axis.x) < 0.7 else UP))
    return tangent, cross(axis, tangent)


def _square(plane: Ground, middle_W: Vec3, span: float) -> Array:
    x, y = _tangent_axes(plane.normal_W)
    foot = middle_W - plane.normal_W * dot(middle_W - plane.point_W, plane.normal_W)
    half = 0.5 * span
    return np.array(
        [foot + x * (half * a) + y * (half * b) for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))], dtype=float
    )


def _round_faces(a_W: Vec3, b_W: Vec3, radius: float) -> list[Array]:
    """Rings around the line from a to b, from pole to pole."""
    axis_vector = b_W - a_W
    axis = direction(axis_vector) if norm(axis_vector) > 0.0 else UP
    x, y = (np.array(vector, dtype=float) for vector in _tangent_axes(axis))
    z = np.array(axis, dtype=float)
    azimuth = np.linspace(0.0, 2.0 * math.pi, RING_CORNERS, endpoint=False)[:, None]
    elevation = np.linspace(-0.5 * math.pi, 0.0, RINGS_PER_CAP)
    ends = [(a_W, angle) for angle in elevation] + [(b_W, -angle) for angle in elevation[::-1]]
    rings = [
        np.array(end, dtype=float)
        + radius * (math.cos(angle) * (np.cos(azimuth) * x + np.sin(azimuth) * y) + math.sin(angle) * z)
        for end, angle in ends
    ]
    faces = []
    for low, high in pairwise(rings):
        for k in range(RING_CORNERS):
            next_k = (k + 1) % RING_CORNERS
            faces.append(np.array([low[k], low[next_k], high[next_k], high[k]]))
    return faces


def _map_faces(height_map: HeightMap) -> list[Array]:
    i, j = (
        np.unique(np.linspace(0, len(axis) - 1, min(len(axis), MAX_MAP_CELLS + 1)).round().astype(int))
        for axis in (height_map.x, height_map.y)
    )
    x, y = np.meshgrid(height_map.x[i], height_map.y[j], indexing="ij")
    grid = np.stack([x, y, height_map.z[np.ix_(i, j)]], axis=-1)
    return [
        np.array([grid[a, b], grid[a + 1, b], grid[a + 1, b + 1], grid[a, b + 1]])
        for a in range(len(i) - 1)
        for b in range(len(j) - 1)
    ]
