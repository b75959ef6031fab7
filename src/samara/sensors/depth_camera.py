"""The depth camera: an image of distances along its axis, through a pinhole with lens distortion."""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, NamedTuple

import numpy as np

from samara.core.algebra import Vec3, direction
from samara.core.picklable import picklable_factory
from samara.core.quantity import Quantity, Scalar
from samara.sensors.ray_sensors import (
    MILLIMETRE,
    Beam,
    RaySensor,
    build_ray_sensor,
    range_reading,
    require_count,
    require_range,
)
from samara.sensors.sensor import AT_CENTRE, ONLY_GROUND, Mounting, RayScene, Sensor, SensorType

NEWTON_ITERATIONS = 12  # of Newton's method; a lens that folds the image (k₁ r² < −1/3) has no inverse there


class Lens(NamedTuple):
    """Radial (k₁, k₂) and tangential (p₁, p₂) distortion, for tangents of angles."""

    k1: Scalar = 0.0
    k2: Scalar = 0.0
    p1: Scalar = 0.0
    p2: Scalar = 0.0


NO_DISTORTION = Lens()


class Pinhole(NamedTuple):
    """A pinhole camera: image size, focal lengths and principal point, in pixels, and the distortion of its lens."""

    width: int
    height: int
    focal_x: float
    focal_y: float
    center_x: float
    center_y: float
    lens: Lens = NO_DISTORTION


def pinhole(width: int, height: int, fov_x: float, fov_y: float, lens: Lens = NO_DISTORTION) -> Pinhole:
    """f = ½ n / tan ½α, for the fields of view α without distortion  [rad]"""
    return Pinhole(
        width,
        height,
        0.5 * width / math.tan(0.5 * fov_x),
        0.5 * height / math.tan(0.5 * fov_y),
        0.5 * width,
        0.5 * height,
        lens,
    )


def distort(right: Scalar, down: Scalar, lens: Lens) -> tuple[Scalar, Scalar]:
    """x' = x (1 + k₁ r² + k₂ r⁴) + 2 p₁ x y + p₂ (r² + 2x²),  y' = y (…) + p₁ (r² + 2y²) + 2 p₂ x y"""
    x, y = right, down
    radius_squared = x * x + y * y
    radial = 1.0 + radius_squared * (lens.k1 + lens.k2 * radius_squared)
    return (
        x * radial + 2.0 * lens.p1 * x * y + lens.p2 * (radius_squared + 2.0 * x * x),
        y * radial + lens.p1 * (radius_squared + 2.0 * y * y) + 2.0 * lens.p2 * x * y,
    )


def distortion_jacobian(x: Scalar, y: Scalar, lens: Lens) -> tuple[Scalar, Scalar, Scalar]:
    """(∂x'/∂x, ∂x'/∂y = ∂y'/∂x, ∂y'/∂y) of `distort`"""
    radius_squared = x * x + y * y
    radial, slope = (
        1.0 + radius_squared * (lens.k1 + lens.k2 * radius_squared),
        2.0 * lens.k1 + 4.0 * lens.k2 * radius_squared,
    )
    xx = radial + slope * x * x + 2.0 * lens.p1 * y + 6.0 * lens.p2 * x
    xy = slope * x * y + 2.0 * lens.p1 * x + 2.0 * lens.p2 * y
    yy = radial + slope * y * y + 6.0 * lens.p1 * y + 2.0 * lens.p2 * x
    return xx, xy, yy


def undistort(right: Scalar, down: Scalar, lens: Lens) -> tuple[Scalar, Scalar]:
    """Invert `distort` by Newton's method, starting at the distorted point."""
    x, y = right, down
    for _ in range(NEWTON_ITERATIONS if any(lens) else 0):
        xx, xy, yy = distortion_jacobian(x, y, lens)
        distorted_point = distort(x, y, lens)
        error_x, error_y, determinant = distorted_point[0] - right, distorted_point[1] - down, xx * yy - xy * xy
        x, y = x - (yy * error_x - xy * error_y) / determinant, y - (xx * error_y - xy * error_x) / determinant
    return x, y


def pixel_ray(column: Scalar, row: Scalar, camera: Pinhole) -> Vec3:
    """direction_S ∝ (1, −x, −y) through the middle of a pixel, (x, y) = undistort((u + ½ − c)/f)"""
    right = (column + 0.5 - camera.center_x) / camera.focal_x
    down = (row + 0.5 - camera.center_y) / camera.focal_y
    x, y = undistort(right, down, camera.lens)
    return direction(Vec3(1.0 + 0.0 * x, -x, -y))


def project_direction(direction_S: Vec3, camera: Pinhole) -> tuple[Scalar, Scalar]:
    """(u, v): the column and row of a direction, with pixel centres at whole numbers as in `pixel_ray`"""
    right, down = distort(-direction_S.y / direction_S.x, -direction_S.z / direction_S.x, camera.lens)
    return (
        camera.focal_x * right + camera.center_x - 0.5,
        camera.focal_y * down + camera.center_y - 0.5,
    )


MAX_DEPTH = 65.535  # [m]: millimetres in 16 bits
MAX_FOV_RAD = math.radians(170.0)


class DepthCameraPart(NamedTuple):
    """Parameters of a depth camera: the standard deviation of a depth z is noise + noise_growth · z², as for stereo cameras.

    `fov_x` and `fov_y` are the fields of view without distortion, `dropout_rate` the fraction of pixels without a reading.
    """

    rate: Annotated[float, Quantity("Hz", 1.0, 1000.0)]
    delay: Annotated[float, Quantity("s", 0.0, 0.5)]
    width: Annotated[float, Quantity("1", 1.0, 1000.0)]
    height: Annotated[float, Quantity("1", 1.0, 1000.0)]
    fov_x: Annotated[float, Quantity("rad", 0.1, 2.9)]
    fov_y: Annotated[float, Quantity("rad", 0.1, 2.9)]
    min_range: Annotated[float, Quantity("m", 0.0, 10.0)]
    max_range: Annotated[float, Quantity("m", 0.1, MAX_DEPTH)]
    noise: Annotated[float, Quantity("m", 0.0, 1.0)]
    noise_growth: Annotated[float, Quantity("1/m", 0.0, 1.0)]
    dropout_rate: Annotated[float, Quantity("1", 0.0, 1.0)] = 0.0
    k1: Annotated[float, Quantity("1", -1.0, 1.0)] = 0.0
    k2: Annotated[float, Quantity("1", -1.0, 1.0)] = 0.0
    p1: Annotated[float, Quantity("1", -1.0, 1.0)] = 0.0
    p2: Annotated[float, Quantity("1", -1.0, 1.0)] = 0.0
    resolution: Annotated[float, Quantity("m", 1e-6, 0.1)] = MILLIMETRE

    @property
    def camera(self) -> Pinhole:
        """The pinhole model with its lens."""
        lens = Lens(self.k1, self.k2, self.p1, self.p2)
        return pinhole(int(self.width), int(self.height), self.fov_x, self.fov_y, lens)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return int(self.height), int(self.width)

    def beams(self) -> Beam:
        """Return one beam through the centre of each pixel, all emitted at the same instant."""
        row, column = (index.ravel().astype(float) for index in np.indices(self.shape))
        return Beam(pixel_ray(column, row, self.camera))

    def reading(self, distance: Scalar, beam: Beam, normals: Sequence[Scalar]) -> Scalar:
        """z + (σ₀ + σ₁ z²) n,  z = s dₓ: along the axis, not along the ray  [m]"""
        z = distance * beam.direction_S.x
        return range_reading(z, z + (self.noise + self.noise_growth * z * z) * normals[0], normals, self)


class DepthReading(NamedTuple):
    """Depths [m], rows from the top and columns from the left; 0 without a return."""

    depth: tuple[tuple[Scalar, ...], ...]


def has_inverse(camera: Pinhole) -> bool:
    """Return whether the direction of every pixel projects back to that pixel, within 1e-6 pixels."""
    row, column = (index.ravel().astype(float) for index in np.indices((camera.height, camera.width)))
    projected = project_direction(pixel_ray(column, row, camera), camera)
    return bool((np.abs(projected[0] - column) < 1e-6).all() and (np.abs(projected[1] - row) < 1e-6).all())


@lru_cache(maxsize=256)
@picklable_factory
def depth_camera(
    part: DepthCameraPart, mounting: Mounting = AT_CENTRE, name: str = "", scene: RayScene = ONLY_GROUND
) -> Sensor:
    """Create a depth camera that points along its x axis; z is up in its image."""
    require_count("depth_camera", part, "width", "height")
    require_range("depth_camera", part, MAX_DEPTH)
    for view in ("fov_x", "fov_y"):
        if not 0.0 < getattr(part, view) <= MAX_FOV_RAD:
            raise ValueError(
                f"depth_camera.{view} = {getattr(part, view):g}: expected an angle up to {MAX_FOV_RAD:.3f} rad"
            )
    model = RaySensor(part, mounting, scene)
    if not has_inverse(part.camera):
        raise ValueError(
            f"depth_camera: k1, k2, p1, p2 = {', '.join(f'{x:g}' for x in part.camera.lens)}: such a lens "
            "has no inverse within the image; expected less distortion"
        )
    return build_ray_sensor("depth_camera", DepthReading(((0.0,) * part.shape[1],) * part.shape[0]), model, name)


TYPE = SensorType("depth_camera", DepthCameraPart, depth_camera, detects="terrain", has_image=True)
