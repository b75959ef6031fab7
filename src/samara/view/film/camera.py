"""Pinhole camera: projection of world points to pixels, and construction of viewpoints.

Pixels count from the top left corner, x to the right, y down. Depth is the distance along the line of sight [m].
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from samara.core.types import Array

MIN_DEPTH = 0.02  # [m]: points closer to the eye are not visible
WORLD_UP = np.array([0.0, 0.0, 1.0])


class Camera(NamedTuple):
    """Eye position, three unit vectors in world axes, focal length [px] and picture size [px]."""

    eye_W: Array
    right_W: Array
    up_W: Array
    forward_W: Array
    focal: float
    size: tuple[int, int]


def look_at(
    eye_W: ArrayLike, target_W: ArrayLike, size: tuple[int, int], field_deg: float = 45.0, up_W: ArrayLike = WORLD_UP
) -> Camera:
    """Create an upright camera that looks from the eye to a target; `field_deg` is the vertical field of view."""
    eye, target = np.asarray(eye_W, dtype=float), np.asarray(target_W, dtype=float)
    return camera_along(eye, target - eye, size, field_deg)


def camera_along(
    eye_W: ArrayLike, along_W: ArrayLike, size: tuple[int, int], field_deg: float = 45.0, up_W: ArrayLike = WORLD_UP
) -> Camera:
    """Create a camera that looks along a direction; if that is vertical, north is up in the picture."""
    forward = np.asarray(along_W, dtype=float) / np.linalg.norm(along_W)
    right = np.cross(forward, np.asarray(up_W, dtype=float))
    if np.linalg.norm(right) < 1e-6:
        right = np.cross(forward, (0.0, 1.0, 0.0))
    right = right / np.linalg.norm(right)
    focal = 0.5 * size[1] / math.tan(math.radians(0.5 * field_deg))
    return Camera(np.asarray(eye_W, dtype=float), right, np.cross(right, forward), forward, focal, size)


def to_camera_axes(camera: Camera, points_W: ArrayLike) -> Array:
    """Transform points (…, 3) to camera axes: right, up and depth from the eye [m]."""
    axes = np.stack([camera.right_W, camera.up_W, camera.forward_W], axis=1)
    return (np.asarray(points_W, dtype=float) - camera.eye_W) @ axes


def to_pixels(camera: Camera, points_C: Array) -> Array:
    """x = w/2 + f right/depth,  y = h/2 − f up/depth  [px]"""
    depth = np.maximum(points_C[..., 2], MIN_DEPTH)
    width, height = camera.size
    return np.stack(
        [0.5 * width + camera.focal * points_C[..., 0] / depth, 0.5 * height - camera.focal * points_C[..., 1] / depth],
        axis=-1,
    )


def project(camera: Camera, points_W: ArrayLike) -> tuple[Array, Array]:
    """Return pixels (…, 2) and depths (…,) of points (…, 3); points with a depth below `MIN_DEPTH` are not visible."""
    points_C = to_camera_axes(camera, points_W)
    return to_pixels(camera, points_C), points_C[..., 2]


def visible_lines(camera: Camera, starts_W: ArrayLike, ends_W: ArrayLike) -> Array:
    """Return pixels (k, 2, 2) of the parts of straight lines in front of the eye."""
    a, b = to_camera_axes(camera, starts_W), to_camera_axes(camera, ends_W)
    in_front = (a[:, 2] > MIN_DEPTH) | (b[:, 2] > MIN_DEPTH)
    a, b = a[in_front], b[in_front]
    span = b[:, 2] - a[:, 2]
    fraction = (MIN_DEPTH - a[:, 2]) / np.where(np.abs(span) < 1e-12, 1.0, span)
    cut = a + fraction[:, None] * (b - a)
    a_behind, b_behind = (a[:, 2] < MIN_DEPTH)[:, None], (b[:, 2] < MIN_DEPTH)[:, None]
    clipped = np.where(a_behind, cut, a), np.where(b_behind, cut, b)
    return np.stack([to_pixels(camera, end) for end in clipped], axis=1)


def visible_area(camera: Camera, corners_W: ArrayLike) -> Array:
    """Return pixels (k, 2) of the part of a flat area in front of the eye; empty if the area is behind."""
    corners_C = to_camera_axes(camera, corners_W)
    clipped: list[Array] = []
    for corner, next_corner in zip(corners_C, np.roll(corners_C, -1, axis=0), strict=True):
        if corner[2] >= MIN_DEPTH:
            clipped.append(corner)
        if (corner[2] >= MIN_DEPTH) != (next_corner[2] >= MIN_DEPTH):
            clipped.append(corner + (MIN_DEPTH - corner[2]) / (next_corner[2] - corner[2]) * (next_corner - corner))
    return to_pixels(camera, np.array(clipped)) if clipped else np.empty((0, 2))
