"""A pinhole camera: where a point of the world is in a picture, and where to stand to see a flight.

Pixels count from the top left corner, x to the right, y down. Depth is the distance along the line of sight [m].
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from samara.core.types import Array

NEAR = 0.02  # [m]: what is closer to the eye is not seen
WORLD_UP = np.array([0.0, 0.0, 1.0])


class Camera(NamedTuple):
    """An eye, three unit vectors in world axes, the focal length [px] and the size of the picture [px]."""

    eye_W: Array
    right_W: Array
    up_W: Array
    forward_W: Array
    focal: float
    size: tuple[int, int]


def look_at(
    eye_W: ArrayLike, target_W: ArrayLike, size: tuple[int, int], field_deg: float = 45.0, up_W: ArrayLike = WORLD_UP
) -> Camera:
    """From the eye to a target, the picture upright; `field_deg` is the angle that its height takes in"""
    eye, target = np.asarray(eye_W, dtype=float), np.asarray(target_W, dtype=float)
    return looking(eye, target - eye, size, field_deg)


def looking(
    eye_W: ArrayLike, along_W: ArrayLike, size: tuple[int, int], field_deg: float = 45.0, up_W: ArrayLike = WORLD_UP
) -> Camera:
    """From the eye along a direction; where that is straight up or down, north is up in the picture"""
    forward = np.asarray(along_W, dtype=float) / np.linalg.norm(along_W)
    right = np.cross(forward, np.asarray(up_W, dtype=float))
    if np.linalg.norm(right) < 1e-6:
        right = np.cross(forward, (0.0, 1.0, 0.0))
    right = right / np.linalg.norm(right)
    focal = 0.5 * size[1] / math.tan(math.radians(0.5 * field_deg))
    return Camera(np.asarray(eye_W, dtype=float), right, np.cross(right, forward), forward, focal, size)


def in_camera(camera: Camera, points_W: ArrayLike) -> Array:
    """Right, up and depth of points (…, 3) from the eye  [m]"""
    axes = np.stack([camera.right_W, camera.up_W, camera.forward_W], axis=1)
    return (np.asarray(points_W, dtype=float) - camera.eye_W) @ axes


def on_picture(camera: Camera, seen: Array) -> Array:
    """x = w/2 + f right/depth,  y = h/2 − f up/depth  [px]"""
    depth = np.maximum(seen[..., 2], NEAR)
    width, height = camera.size
    return np.stack(
        [0.5 * width + camera.focal * seen[..., 0] / depth, 0.5 * height - camera.focal * seen[..., 1] / depth], axis=-1
    )


def project(camera: Camera, points_W: ArrayLike) -> tuple[Array, Array]:
    """Pixels (…, 2) and depths (…,) of points (…, 3); those with a depth below `NEAR` are not in the picture"""
    seen = in_camera(camera, points_W)
    return on_picture(camera, seen), seen[..., 2]


def lines_seen(camera: Camera, starts_W: ArrayLike, ends_W: ArrayLike) -> Array:
    """Pixels (k, 2, 2) of the parts of straight lines that lie before the eye"""
    a, b = in_camera(camera, starts_W), in_camera(camera, ends_W)
    before = (a[:, 2] > NEAR) | (b[:, 2] > NEAR)
    a, b = a[before], b[before]
    span = b[:, 2] - a[:, 2]
    share = (NEAR - a[:, 2]) / np.where(np.abs(span) < 1e-12, 1.0, span)
    cut = a + share[:, None] * (b - a)
    a_behind, b_behind = (a[:, 2] < NEAR)[:, None], (b[:, 2] < NEAR)[:, None]
    ends = np.where(a_behind, cut, a), np.where(b_behind, cut, b)
    return np.stack([on_picture(camera, own) for own in ends], axis=1)


def area_seen(camera: Camera, corners_W: ArrayLike) -> Array:
    """Pixels (k, 2) of the part of a flat area that lies before the eye; none where all of it is behind"""
    seen = in_camera(camera, corners_W)
    kept: list[Array] = []
    for here, there in zip(seen, np.roll(seen, -1, axis=0), strict=True):
        if here[2] >= NEAR:
            kept.append(here)
        if (here[2] >= NEAR) != (there[2] >= NEAR):
            kept.append(here + (NEAR - here[2]) / (there[2] - here[2]) * (there - here))
    return on_picture(camera, np.array(kept)) if kept else np.empty((0, 2))
