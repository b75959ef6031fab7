"""The shadow of a drone on the ground straight below it: where it is over the ground, and how high, is seen at a glance."""

import numpy as np

from samara.core.algebra import Vec3
from samara.core.types import Array
from samara.physics.types import Vehicle
from samara.vehicles.shape import Box, Disc, Rod, parts_of

SHADOW = "#c2c9d0"
CORNERS = 28  # of a disc
ABOVE = 0.001  # of a square of the grid, so that the grid does not shine through


def silhouette(vehicle: Vehicle) -> tuple[Array, Array]:
    """The vehicle from above, flat, body axes: vertices (m, 3) at z = 0 and faces that look up  [m]"""
    outlines = [_outline(part) for part in parts_of(vehicle)]
    vertices, faces, count = [], [], 0
    for outline in outlines:
        corners = np.arange(1, len(outline) - 1)
        vertices.append(np.column_stack([outline, np.zeros(len(outline))]))
        faces.append(count + np.stack([np.zeros_like(corners), corners, corners + 1], axis=1))
        count += len(outline)
    return np.concatenate(vertices), np.concatenate(faces)


def _outline(part: Box | Disc | Rod) -> Array:
    """A convex polygon, counter-clockwise, (corners, 2)"""
    if isinstance(part, Disc):
        angle = np.linspace(0.0, 2.0 * np.pi, CORNERS, endpoint=False)
        return _flat(part.centre_B) + part.radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    if isinstance(part, Box):
        half = 0.5 * _flat(part.size_B)
        return _flat(part.centre_B) + half * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
    start, end = _flat(part.start_B), _flat(part.end_B)
    length = float(np.linalg.norm(end - start))
    along = (end - start) / length if length > 0.0 else np.array([1.0, 0.0])  # of an upright rod the square around it
    wide, ahead = part.radius * np.array([-along[1], along[0]]), part.radius * along * (length == 0.0)
    return np.array([start - wide - ahead, end - wide + ahead, end + wide + ahead, start + wide - ahead])


def _flat(v: Vec3) -> Array:
    return np.array([v.x, v.y], dtype=float)


def shadow_poses(p_W: Array, q_WB: Array, height: float) -> tuple[Array, Array]:
    """Where the shadows of drones at p, q lie at a height, (n, 3), and their turns about the vertical, (n, 4)"""
    w, x, y, z = q_WB.T
    half = 0.5 * np.arctan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))  # of the heading of the nose
    still = np.zeros_like(half)
    places = np.column_stack([p_W[:, :2], np.full(len(p_W), height)])
    return places, np.stack([np.cos(half), still, still, np.sin(half)], axis=1)
