"""Obstacles: one set of questions to every kind of solid.

    touch(solid, p_W)            how far a point is, and which way is out
    distance_to(solid, p_W)      how far [m], negative inside
    distance_along(ray, solid)   how far along a ray its surface is [m], 1e9 if it is not met
    time_to_reach(solid, p_W, v_W, clearance)    when a ball that moves straight touches it [s]

Solids are `Ground` (a plane), `Sphere`, `Capsule`, `Box` and `HeightMap`. All but the last are convex, so the distance of
what moves straight is a convex function of time, and Newton's method reaches its first zero from before and never passes it:
that is how nothing tunnels, at any speed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from samara.algebra import Vec3, dot, norm
from samara.ops import absolute, logical_and, logical_or, minimum, where
from samara.physics.contact import Ground
from samara.physics.solids import (
    Box,
    Capsule,
    Sphere,
    Touch,
    disc_point,
    touch_box,
    touch_capsule,
    touch_plane,
    touch_sphere,
)
from samara.quantity import Scalar

NEVER = 1e9  # [s] or [m]: to what is not met
_NEWTON = 24  # steps; a sphere that is all but missed takes the most
_MARCH = 400  # steps over a height map
_PARALLEL = 1e-9  # of the speed: what approaches slower than that does not approach


@dataclass(frozen=True, eq=False)
class HeightMap:
    """z = h(x, y): ground by its heights at the corners of a grid, between them bilinear, outside as at the edge"""

    x: Any
    y: Any
    z: Any

    def __post_init__(self) -> None:
        for name in "xy":
            axis = np.asarray(getattr(self, name), dtype=float)
            if axis.ndim != 1 or len(axis) < 2 or not np.isfinite(axis).all() or not (np.diff(axis) > 0.0).all():
                raise ValueError(
                    f"HeightMap.{name} is {axis.tolist()}; expected two or more finite numbers that increase"
                )
            object.__setattr__(self, name, axis)
        heights = np.asarray(self.z, dtype=float)
        if heights.shape != (len(self.x), len(self.y)):
            raise ValueError(f"HeightMap.z has shape {heights.shape}; expected {(len(self.x), len(self.y))}")
        if not np.isfinite(heights).all():
            at = tuple(int(i) for i in np.argwhere(~np.isfinite(heights))[0])
            raise ValueError(f"HeightMap.z{list(at)} is {heights[at]}; expected a finite number")
        object.__setattr__(self, "z", heights)

    @staticmethod
    def from_file(path: str | Path) -> "HeightMap":
        """From an `.npz` with arrays x, y and z (nx, ny)  [m]"""
        with np.load(path) as arrays:
            missing = [name for name in "xyz" if name not in arrays]
            if missing:
                raise ValueError(f"{path}: {missing[0]} is missing; expected arrays x, y and z")
            try:
                return HeightMap(arrays["x"], arrays["y"], arrays["z"])
            except ValueError as error:
                raise ValueError(f"{path}: {error}") from None

    @property
    def steepest(self) -> float:
        """No slope is larger"""
        along_x = np.abs(np.diff(self.z, axis=0) / np.diff(self.x)[:, None]).max()
        along_y = np.abs(np.diff(self.z, axis=1) / np.diff(self.y)[None, :]).max()
        return float(np.hypot(along_x, along_y))

    def below(self, p_W: Vec3) -> Ground:
        """The plane that touches the map under a point"""
        x, y = np.asarray(p_W.x, dtype=float), np.asarray(p_W.y, dtype=float)
        i = np.clip(np.searchsorted(self.x, x, side="right") - 1, 0, len(self.x) - 2)
        j = np.clip(np.searchsorted(self.y, y, side="right") - 1, 0, len(self.y) - 2)
        dx, dy = self.x[i + 1] - self.x[i], self.y[j + 1] - self.y[j]
        s, t = np.clip((x - self.x[i]) / dx, 0.0, 1.0), np.clip((y - self.y[j]) / dy, 0.0, 1.0)
        z00, z10, z01, z11 = self.z[i, j], self.z[i + 1, j], self.z[i, j + 1], self.z[i + 1, j + 1]
        height = z00 * (1 - s) * (1 - t) + z10 * s * (1 - t) + z01 * (1 - s) * t + z11 * s * t
        inside_x = (x >= self.x[0]) & (x <= self.x[-1])
        inside_y = (y >= self.y[0]) & (y <= self.y[-1])
        slope_x = np.where(inside_x, ((z10 - z00) * (1 - t) + (z11 - z01) * t) / dx, 0.0)
        slope_y = np.where(inside_y, ((z01 - z00) * (1 - s) + (z11 - z10) * s) / dy, 0.0)
        size = np.sqrt(1.0 + slope_x**2 + slope_y**2)
        normal = (_plain(-slope_x / size), _plain(-slope_y / size), _plain(1.0 / size))
        return Ground(Vec3(p_W.x, p_W.y, _plain(height)), Vec3(*normal))


Solid: TypeAlias = Ground | Sphere | Capsule | Box | HeightMap


class Ray(NamedTuple):
    """A half line: from a point along a unit vector."""

    p_W: Vec3
    direction_W: Vec3


def touch(solid: Solid, p_W: Vec3) -> Touch:
    """Distance and outward normal; over a height map those of the plane that touches it below"""
    if isinstance(solid, Sphere):
        return touch_sphere(p_W, sphere=solid)
    if isinstance(solid, Capsule):
        return touch_capsule(p_W, capsule=solid)
    if isinstance(solid, Box):
        return touch_box(p_W, box=solid)
    return touch_plane(p_W, plane=solid.below(p_W) if isinstance(solid, HeightMap) else solid)


def distance_to(solid: Solid, p_W: Vec3) -> Scalar:
    """How far a point is from a solid, negative inside  [m]"""
    return touch(solid, p_W).distance


def plane_below(solid: Ground | HeightMap, p_W: Vec3) -> Ground:
    """The plane a drone stands on or hovers over, for `Environment.ground`"""
    return solid.below(p_W) if isinstance(solid, HeightMap) else solid


def distance_along(ray: Any, solid: Solid) -> Scalar:
    """How far along a ray a solid is, 0 from inside, 1e9 if it is not met  [m]"""
    return time_to_reach(solid, ray.p_W, ray.direction_W)


def nearest_along(ray: Any, solids: Sequence[Solid]) -> Scalar:
    """The least `distance_along` of all  [m]"""
    nearest: Scalar = NEVER
    for solid in solids:
        nearest = minimum(nearest, distance_along(ray, solid))
    return nearest


def time_to_reach(solid: Solid, p_W: Vec3, v_W: Vec3, clearance: Scalar = 0.0) -> Scalar:
    """t with d(p + v t) = clearance, the first; 0 if it is that near, 1e9 if it never is  [s]"""
    if isinstance(solid, HeightMap):
        return _march(solid, p_W, v_W, clearance)
    return _first_zero(lambda place: touch(solid, place), p_W, v_W, clearance)


def disc_touch(solid: Solid, center_W: Vec3, axis_W: Vec3, radius: Scalar) -> tuple[Touch, Vec3]:
    """Distance, normal and the nearest point of a disc (a propeller): back and forth between nearest points of both"""
    own = touch(solid, center_W)
    point_W = disc_point(
        center_W, axis_W, center_W - own.normal_W * (2.0 * radius + absolute(own.distance)), radius=radius
    )
    for _ in range(8):
        own = touch(solid, point_W)
        point_W = disc_point(center_W, axis_W, point_W - own.normal_W * own.distance, radius=radius)
    return touch(solid, point_W), point_W


def disc_time_to_reach(solid: Solid, center_W: Vec3, v_W: Vec3, axis_W: Vec3, radius: Scalar) -> Scalar:
    """When a disc that moves straight touches a solid  [s]"""
    return _first_zero(lambda place: disc_touch(solid, place, axis_W, radius)[0], center_W, v_W, 0.0)


def _first_zero(near: Callable[[Vec3], Touch], p_W: Vec3, v_W: Vec3, clearance: Scalar) -> Scalar:
    """Newton from t = 0 on a convex function: always short of its first zero, or past its minimum, and then there is none"""
    speed = norm(v_W)
    time: Scalar = 0.0
    missed: Any = False
    for _ in range(_NEWTON):
        own = near(p_W + v_W * time)
        gap, closing = own.distance - clearance, -dot(v_W, own.normal_W)
        apart, approaching = gap > 0.0, closing > _PARALLEL * speed
        missed = logical_or(missed, logical_and(apart, closing <= _PARALLEL * speed))
        met = where(gap <= 0.0, 0.0, gap)  # a gap that is no number stays none
        step = where(logical_and(apart, approaching), gap / where(approaching, closing, 1.0), met)
        time = where(missed, time, time + step)
    return where(missed, NEVER, minimum(time, NEVER))


def _march(ground: HeightMap, p_W: Vec3, v_W: Vec3, clearance: Scalar) -> Scalar:
    """Steps that the steepest slope cannot catch up with; the gap is measured straight down"""
    slope = ground.steepest
    reserve = clearance * np.sqrt(1.0 + slope * slope)
    fastest = absolute(v_W.z) + slope * np.hypot(v_W.x, v_W.y)
    moving = fastest > 0.0
    time: Any = np.zeros(np.broadcast_shapes(*(np.shape(x) for x in (*p_W, *v_W))))

    def gap(at: Any) -> Any:
        place = p_W + v_W * at
        return place.z - ground.below(place).point_W.z - reserve

    for _ in range(_MARCH):
        step = np.where(moving, np.maximum(gap(time), 0.0) / np.where(moving, fastest, 1.0), 0.0)
        time = np.minimum(time + step, NEVER)
    return _plain(np.where(gap(time) > 1e-3, NEVER, time))


def _plain(x: Any) -> Any:
    return float(x) if np.ndim(x) == 0 else x
