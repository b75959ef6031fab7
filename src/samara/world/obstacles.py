"""Obstacles: one set of distance functions for every type of solid.

    touch(solid, p_W)            distance of a point, and the outward normal
    signed_distance(solid, p_W)  distance [m], negative inside
    ray_distance(ray, solid)     distance of the surface along a ray [m], 1e9 without a hit
    time_to_reach(solid, p_W, v_W, clearance)    time at which a ball in straight motion touches the solid [s]

Solids are `Ground` (a plane), `Sphere`, `Capsule`, `Box` and `HeightMap`. All but the last are convex, so the distance of
a point in straight motion is a convex function of time, and Newton's method converges to its first zero from below without
overshoot. Nothing tunnels through a solid, at any speed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

from samara.core.algebra import UP, ZERO, Vec3, dot, norm
from samara.core.block_ops import ConstantTable, loop
from samara.core.budget import load_npy, load_npz, read_bytes, require_cells
from samara.core.ops import absolute, clamp, logical_and, logical_or, lookup, maximum, minimum, safe_norm, where
from samara.core.quantity import Scalar, Tree
from samara.core.sanitise import quote_value
from samara.core.tree import float_array
from samara.core.types import Array
from samara.physics.ground.contact import Ground
from samara.physics.ground.solids import (
    Box,
    Capsule,
    Sphere,
    SurfaceDistance,
    box_distance,
    capsule_distance,
    nearest_disc_point,
    plane_distance,
    sphere_distance,
)

NEVER = 1e9  # [s] or [m]: the time or distance without a contact
MAX_NEWTON_STEPS = 24  # a near miss of a sphere needs the most, a plane needs one
_MAX_MARCH_STEPS = 400  # steps over a height map
_FAR_RADII = 1e4  # radii: from this distance even a rim nearly parallel to a surface has a unique nearest point
_MIN_APPROACH_RATIO = 1e-9  # fraction of the speed: a slower approach counts as parallel motion


@dataclass(frozen=True, eq=False)
class HeightMap:
    """z = h(x, y): terrain given by heights on a grid, bilinear between grid points and constant beyond the edge.

    The cell under a point is looked up (`samara.core.ops.lookup`). CasADi and SymPy have no lookups: there every cell becomes
    part of the expression, which suits small maps only.
    """

    x: Tree
    y: Tree
    z: Tree

    def __post_init__(self) -> None:
        for name in "xy":
            axis = float_array(getattr(self, name), f"HeightMap.{name}")
            if axis.ndim != 1 or len(axis) < 2 or not np.isfinite(axis).all() or not (np.diff(axis) > 0.0).all():
                raise ValueError(
                    f"HeightMap.{name} is {quote_value(axis.tolist())}; expected two or more finite numbers that increase"
                )
            object.__setattr__(self, name, axis)
        heights = float_array(self.z, "HeightMap.z")
        if heights.shape != (len(self.x), len(self.y)):
            raise ValueError(f"HeightMap.z has shape {heights.shape}; expected {(len(self.x), len(self.y))}")
        if not np.isfinite(heights).all():
            index = tuple(int(i) for i in np.argwhere(~np.isfinite(heights))[0])
            raise ValueError(f"HeightMap.z{list(index)} is {heights[index]}; expected a finite number")
        object.__setattr__(self, "z", heights)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HeightMap) and self._bytes() == other._bytes()

    def __hash__(self) -> int:
        return hash(self._bytes())

    def _bytes(self) -> tuple[bytes, ...]:
        return self.x.tobytes(), self.y.tobytes(), self.z.tobytes()

    @staticmethod
    def from_grid(rows: object, spacing: float, origin: Sequence[float] = (0.0, 0.0)) -> "HeightMap":
        """Create a map from heights `z[i][j]` at x = x₀ + i·spacing, y = y₀ + j·spacing  [m]."""
        heights = float_array(rows, "HeightMap")
        if heights.ndim != 2:
            raise ValueError(f"HeightMap has heights of shape {heights.shape}; expected rows of equal length")
        if not spacing > 0.0:
            raise ValueError(f"HeightMap has a spacing of {spacing!r} m; expected a number above 0")
        x, y = (start + spacing * np.arange(n) for start, n in zip(origin, heights.shape, strict=True))
        return HeightMap(x, y, heights)

    @staticmethod
    def from_file(
        path: str | Path, spacing: float | None = None, origin: Sequence[float] = (0.0, 0.0), data: bytes | None = None
    ) -> "HeightMap":
        """Load a map from an `.npz` with arrays x, y and z (nx, ny), or from an `.npy` or `.csv` of heights  [m].

        Args:
            path: the file.
            spacing: distance of the grid points [m]; required for `.npy` and `.csv`, not allowed for `.npz`.
            origin: x and y of the first height [m].
            data: the contents of the file, if already read.
        """
        suffix = Path(path).suffix.lower()
        if suffix not in (".npz", ".npy", ".csv"):
            raise ValueError(f"{path}: is not a height map; expected .npz, .npy or .csv")
        if suffix != ".npz" and spacing is None:
            raise ValueError(f"{path}: has heights but no coordinates; expected a spacing [m] with it")
        if suffix == ".npz" and spacing is not None:
            raise ValueError(f"{path}: has its own x and y; expected no spacing with it")
        try:
            contents = read_bytes(Path(path)) if data is None else data
            if suffix != ".npz":
                rows = load_npy(contents, str(path)) if suffix == ".npy" else _parse_csv(contents, path)
                return HeightMap.from_grid(rows, float(spacing or 0.0), origin)
            x, y, z = load_npz(contents, str(path), "xyz")
        except (OSError, EOFError, MemoryError) as error:
            raise ValueError(f"{path}: cannot be read ({error}); expected a height map") from None
        except ValueError as error:
            raise ValueError(f"{path}: {str(error).removeprefix(f'{path}: ')}") from None
        return HeightMap(x, y, z)

    @cached_property
    def max_slope(self) -> float:
        """An upper bound of the slope."""
        along_x = np.abs(np.diff(self.z, axis=0) / np.diff(self.x)[:, None]).max()
        along_y = np.abs(np.diff(self.z, axis=1) / np.diff(self.y)[None, :]).max()
        return float(np.hypot(along_x, along_y))

    @cached_property
    def _grids(self) -> tuple[ConstantTable, ConstantTable, ConstantTable]:
        """x and y as one row each, and the heights."""
        return ConstantTable(self.x[None]), ConstantTable(self.y[None]), ConstantTable(self.z)

    def tangent_plane(self, p_W: Vec3) -> Ground:
        """Return the tangent plane of the map under a point: h = Σ zᵢⱼ of the four corners around, bilinear, and its slopes.

        The loop hides the expression from a trace: simplified together with its callers, it would round differently.
        """
        height, normal_W = loop(self._height_and_normal, (0.0, UP), (p_W.x, p_W.y), count=1)
        return Ground(Vec3(p_W.x, p_W.y, height), normal_W)

    def _height_and_normal(self, _: Scalar, start: Tree, inputs: Tree) -> tuple[Scalar, Vec3]:
        (x, y), (xs, ys, zs) = inputs, self._grids
        (i, s, dx, inside_x), (j, t, dy, inside_y) = _cell(xs, x), _cell(ys, y)
        z00, z10 = lookup(zs, i, j), lookup(zs, i + 1.0, j)
        z01, z11 = lookup(zs, i, j + 1.0), lookup(zs, i + 1.0, j + 1.0)
        height = z00 * (1.0 - s) * (1.0 - t) + z10 * s * (1.0 - t) + z01 * (1.0 - s) * t + z11 * s * t
        slope_x = where(inside_x, ((z10 - z00) * (1.0 - t) + (z11 - z01) * t) / dx, 0.0)
        slope_y = where(inside_y, ((z01 - z00) * (1.0 - s) + (z11 - z10) * s) / dy, 0.0)
        length = safe_norm(1.0, slope_x, slope_y)
        return height, Vec3(-slope_x / length, -slope_y / length, 1.0 / length)


def _cell(knots: ConstantTable, x: Scalar) -> tuple[Scalar, Scalar, Scalar, Scalar]:
    """Return the index of the interval around x, the fraction of it below x, its length, and whether x is within the knots."""
    i = _interval(knots, x)
    low = lookup(knots, 0.0, i)
    length = lookup(knots, 0.0, i + 1.0) - low
    first, end = float(knots.values[0, 0]), float(knots.values[0, -1])
    return i, clamp((x - low) / length, 0.0, 1.0), length, logical_and(x >= first, x <= end)


def _interval(knots: ConstantTable, x: Scalar) -> Scalar:
    """Return the largest i with knotᵢ ≤ x, limited to the first and last interval; by bisection."""
    last = knots.values.shape[1] - 2
    if isinstance(x, (float, np.ndarray)):
        return np.clip(np.searchsorted(knots.values[0], x, side="right") - 1.0, 0.0, last)
    i: Scalar = 0.0
    for step in (2**k for k in range(last.bit_length() - 1, -1, -1)):
        i = where(logical_and(i + step <= last, x >= lookup(knots, 0.0, i + step)), i + step, i)
    return i


def _parse_csv(data: bytes, path: str | Path) -> Array:
    """Parse heights separated by commas."""
    require_cells(data, path)
    lines = data.decode("utf-8-sig").splitlines()
    if not any(line.strip() for line in lines):
        raise ValueError("has no rows; expected heights separated by commas")
    try:
        return np.loadtxt(lines, delimiter=",", ndmin=2)
    except ValueError as error:
        raise ValueError(quote_value(str(error))) from None


Solid: TypeAlias = Ground | Sphere | Capsule | Box | HeightMap


class Ray(NamedTuple):
    """A half line: from a point along a unit vector."""

    p_W: Vec3
    direction_W: Vec3


def touch(solid: Solid, p_W: Vec3) -> SurfaceDistance:
    """Return the distance of a point from a solid and the outward normal; for a height map those of its tangent plane."""
    if isinstance(solid, Sphere):
        return sphere_distance(p_W, sphere=solid)
    if isinstance(solid, Capsule):
        return capsule_distance(p_W, capsule=solid)
    if isinstance(solid, Box):
        return box_distance(p_W, box=solid)
    return plane_distance(p_W, plane=solid.tangent_plane(p_W) if isinstance(solid, HeightMap) else solid)


def signed_distance(solid: Solid, p_W: Vec3) -> Scalar:
    """d(p): the distance of a point from a solid, negative inside  [m]"""
    return touch(solid, p_W).distance


def distance_lower_bound(solid: Solid, p_W: Vec3) -> Scalar:
    """A lower bound of the distance: the distance itself, or (z − h)/√(1 + max_slope²) for a height map  [m]"""
    if isinstance(solid, HeightMap):
        return (p_W.z - solid.tangent_plane(p_W).point_W.z) / (1.0 + solid.max_slope**2) ** 0.5
    return signed_distance(solid, p_W)


def plane_below(solid: Ground | HeightMap, p_W: Vec3) -> Ground:
    """Return the plane a drone stands on or hovers over, for `Environment.ground`."""
    return solid.tangent_plane(p_W) if isinstance(solid, HeightMap) else solid


def ray_distance(ray: Ray, solid: Solid) -> Scalar:
    """Return the distance of a solid along a ray: 0 from inside, 1e9 without a hit  [m]."""
    return time_to_reach(solid, ray.p_W, ray.direction_W)


def nearest_ray_distance(ray: Ray, solids: Sequence[Solid]) -> Scalar:
    """Return the least `ray_distance` of all solids  [m]."""
    nearest: Scalar = NEVER
    for solid in solids:
        nearest = minimum(nearest, ray_distance(ray, solid))
    return nearest


def time_to_reach(solid: Solid, p_W: Vec3, v_W: Vec3, clearance: Scalar = 0.0, until: float = NEVER) -> Scalar:
    """The first t with d(p + v t) = clearance: 0 if the point is already that close, 1e9 if it never is  [s].

    Over a height map the search ends at the time `until`.
    """
    if isinstance(solid, HeightMap):
        return _march(solid, p_W, v_W, clearance, until)
    steps = 1 if isinstance(solid, Ground) else MAX_NEWTON_STEPS
    return _first_zero(lambda point_W: touch(solid, point_W), p_W, v_W, clearance, steps)


def disc_touch(solid: Solid, centre_W: Vec3, axis_W: Vec3, radius: Scalar) -> tuple[SurfaceDistance, Vec3]:
    """Return distance and normal of a disc (a propeller) from a solid, and the disc's nearest point.

    The search alternates between the nearest points of disc and solid. It ends at a common point if they intersect, and
    converges slowly if they are nearly parallel: therefore the point of the rim furthest against the normal is tried too.
    """
    nearest = touch(solid, centre_W)
    point_W = nearest_disc_point(
        centre_W, axis_W, centre_W - nearest.normal_W * (2.0 * radius + absolute(nearest.distance)), radius=radius
    )

    def improve(_: Scalar, point_W: Vec3, inputs: Tree) -> Vec3:
        surface, centre_W, axis_W, radius = inputs
        surface_point = touch(solid if isinstance(solid, HeightMap) else surface, point_W)
        return nearest_disc_point(
            centre_W, axis_W, point_W - surface_point.normal_W * surface_point.distance, radius=radius
        )

    surface = () if isinstance(solid, HeightMap) else solid
    point_W = loop(improve, point_W, (surface, centre_W, axis_W, radius), count=8)
    nearest = touch(solid, point_W)
    deepest_W = nearest_disc_point(centre_W, axis_W, centre_W - nearest.normal_W * (_FAR_RADII * radius), radius=radius)
    deeper = touch(solid, deepest_W)
    is_deeper = deeper.distance < nearest.distance
    normal_W = Vec3(*(where(is_deeper, a, b) for a, b in zip(deeper.normal_W, nearest.normal_W, strict=True)))
    nearest_W = Vec3(*(where(is_deeper, a, b) for a, b in zip(deepest_W, point_W, strict=True)))
    return SurfaceDistance(where(is_deeper, deeper.distance, nearest.distance), normal_W), nearest_W


def _first_zero(
    touch_at_point: Callable[[Vec3], SurfaceDistance],
    p_W: Vec3,
    v_W: Vec3,
    clearance: Scalar,
    steps: int = MAX_NEWTON_STEPS,
) -> Scalar:
    """Solve d(p + v t) = clearance by Newton's method from t = 0.

    The distance is convex in time: an iterate is before the first zero, or past the minimum, and then no zero exists.
    """
    time: Scalar = 0.0
    missed: Scalar = False
    for _ in range(steps):
        previous = time
        time, missed = newton_contact_step(touch_at_point, time, missed, p_W, v_W, clearance)
        if missed is True or (isinstance(time, float) and time == previous):  # plain floats: stop once converged
            break
    return where(missed, NEVER, minimum(time, NEVER))


def newton_contact_step(
    touch_at_point: Callable[[Vec3], SurfaceDistance],
    time: Scalar,
    missed: Scalar,
    p_W: Vec3,
    v_W: Vec3,
    clearance: Scalar,
) -> tuple[Scalar, Scalar]:
    """t + (d − clearance)/(−v·n): Newton's step towards contact; `missed` becomes true if the motion leads away."""
    speed, contact = norm(v_W), touch_at_point(p_W + v_W * time)
    gap, closing = contact.distance - clearance, -dot(v_W, contact.normal_W)
    is_apart, approaching = gap > 0.0, closing > _MIN_APPROACH_RATIO * speed
    missed = logical_or(missed, logical_and(is_apart, closing <= _MIN_APPROACH_RATIO * speed))
    fallback_step = where(gap <= 0.0, 0.0, gap)  # a NaN gap stays NaN
    step = where(logical_and(is_apart, approaching), gap / where(approaching, closing, 1.0), fallback_step)
    return where(missed, time, time + step), missed


def _march(ground: HeightMap, p_W: Vec3, v_W: Vec3, clearance: Scalar, until: float) -> Scalar:
    """March in steps so short that the path cannot cross even the steepest slope; the gap is measured vertically."""
    slope = ground.max_slope
    reserve = clearance * (1.0 + slope * slope) ** 0.5
    fastest = absolute(v_W.z) + slope * safe_norm(v_W.x, v_W.y)
    is_moving = fastest > 0.0
    inputs = p_W, v_W, where(is_moving, fastest, 1.0), reserve

    def gap(time: Scalar, inputs: Tree) -> Scalar:
        p_W, v_W, _, reserve = inputs
        point_W = p_W + v_W * time
        return point_W.z - ground.tangent_plane(point_W).point_W.z - reserve

    def march_step(_: Scalar, march: Tree, inputs: Tree) -> Tree:
        previous = march[0]
        time = minimum(previous + maximum(gap(previous, inputs), 0.0) / inputs[2], NEVER)
        return time, time - previous

    def is_marching(march: Tree, inputs: Tree) -> Scalar:
        time, step = march
        return logical_and(step > 1e-12 * (1.0 + time), time <= until)

    time, _ = loop(march_step, (0.0, where(is_moving, 1.0, 0.0)), inputs, count=_MAX_MARCH_STEPS, active=is_marching)
    return where(gap(time, inputs) > 1e-3, NEVER, time)


TEMPLATES: dict[str, Ground | Sphere | Capsule | Box] = {
    "plane": Ground(),
    "sphere": Sphere(ZERO, 1.0),
    "capsule": Capsule(ZERO, UP, 1.0),
    "box": Box(ZERO, Vec3(1.0, 1.0, 1.0)),
}


def classify_solid(solid: Solid) -> str:
    """Return "plane", "sphere", "capsule", "box" or "height_map"."""
    return next((name for name, template in TEMPLATES.items() if type(template) is type(solid)), "height_map")
