"""The pinhole with distortion (Brown–Conrady): from where a ray goes to where its picture is, and back.

A camera looks along its x axis, y is to the left and z is up. A picture has columns to the right and rows downwards, counted
from 0 at the top left; the middle of a pixel is half a pixel further. Beside the lens, (right, down) are the tangents of the
angles from its axis.
"""

import math
from typing import NamedTuple

from samara.core.algebra import Vec3, direction
from samara.core.quantity import Scalar

ROUNDS = 12  # of Newton's method; a lens that turns pictures over (k₁ r² < −1/3) has no inverse there


class Lens(NamedTuple):
    """Radial (k₁, k₂) and tangential (p₁, p₂) distortion, of tangents."""

    k1: Scalar = 0.0
    k2: Scalar = 0.0
    p1: Scalar = 0.0
    p2: Scalar = 0.0


CLEAR = Lens()


class Pinhole(NamedTuple):
    """A picture of so many pixels: focal lengths and where the axis meets it, in pixels, and the lens before it."""

    width: int
    height: int
    focal_x: float
    focal_y: float
    center_x: float
    center_y: float
    lens: Lens = CLEAR


def pinhole(width: int, height: int, view_x: float, view_y: float, lens: Lens = CLEAR) -> Pinhole:
    """f = ½ n / tan ½α, for the angles of view of a lens without distortion  [rad]"""
    return Pinhole(
        width,
        height,
        0.5 * width / math.tan(0.5 * view_x),
        0.5 * height / math.tan(0.5 * view_y),
        0.5 * width,
        0.5 * height,
        lens,
    )


def distorted(right: Scalar, down: Scalar, lens: Lens) -> tuple[Scalar, Scalar]:
    """x' = x (1 + k₁ r² + k₂ r⁴) + 2 p₁ x y + p₂ (r² + 2x²),  y' = y (…) + p₁ (r² + 2y²) + 2 p₂ x y"""
    x, y = right, down
    square = x * x + y * y
    radial = 1.0 + square * (lens.k1 + lens.k2 * square)
    return (
        x * radial + 2.0 * lens.p1 * x * y + lens.p2 * (square + 2.0 * x * x),
        y * radial + lens.p1 * (square + 2.0 * y * y) + 2.0 * lens.p2 * x * y,
    )


def undistorted(right: Scalar, down: Scalar, lens: Lens) -> tuple[Scalar, Scalar]:
    """(x, y) whose `distorted` is this: Newton's method from where it would be without a lens"""
    x, y = right, down
    for _ in range(ROUNDS if any(lens) else 0):
        square = x * x + y * y
        radial, slope = 1.0 + square * (lens.k1 + lens.k2 * square), 2.0 * lens.k1 + 4.0 * lens.k2 * square
        xx = radial + slope * x * x + 2.0 * lens.p1 * y + 6.0 * lens.p2 * x
        xy = slope * x * y + 2.0 * lens.p1 * x + 2.0 * lens.p2 * y
        yy = radial + slope * y * y + 6.0 * lens.p1 * y + 2.0 * lens.p2 * x
        there = distorted(x, y, lens)
        off_x, off_y, area = there[0] - right, there[1] - down, xx * yy - xy * xy
        x, y = x - (yy * off_x - xy * off_y) / area, y - (xx * off_y - xy * off_x) / area
    return x, y


def pixel_ray(column: Scalar, row: Scalar, camera: Pinhole) -> Vec3:
    """direction_S ∝ (1, −x, −y) through the middle of a pixel, (x, y) = undistorted((u + ½ − c)/f)"""
    right = (column + 0.5 - camera.center_x) / camera.focal_x
    down = (row + 0.5 - camera.center_y) / camera.focal_y
    x, y = undistorted(right, down, camera.lens)
    return direction(Vec3(1.0 + 0.0 * x, -x, -y))


def pixel_of(direction_S: Vec3, camera: Pinhole) -> tuple[Scalar, Scalar]:
    """(u, v): the column and row that see a direction before the lens, as `pixel_ray` counts them"""
    right, down = distorted(-direction_S.y / direction_S.x, -direction_S.z / direction_S.x, camera.lens)
    return (
        camera.focal_x * right + camera.center_x - 0.5,
        camera.focal_y * down + camera.center_y - 0.5,
    )
