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
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

from samara.core.algebra import UP, ZERO, Vec3, dot, norm
from samara.core.block_ops import Grid, loop
from samara.core.budget import array_inside, arrays_inside, read_bytes, require_cells
from samara.core.ops import absolute, clamp, logical_and, logical_or, lookup, maximum, minimum, safe_norm, where
from samara.core.quantity import Scalar, Tree
from samara.core.sanitise import shown
from samara.core.tree import numbers_in
from samara.core.types import Array
from samara.physics.ground.contact import Ground
from samara.physics.ground.solids import (
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

NEVER = 1e9  # [s] or [m]: to what is not met
NEWTON = 24  # steps; a sphere that is all but missed takes the most, and a plane one
_MARCH = 400  # steps over a height map
_FAR = 1e4  # radii: seen from so far even a rim that all but faces a solid has a nearest point
_PARALLEL = 1e-9  # of the speed: what approaches slower than that does not approach


@dataclass(frozen=True, eq=False)
class HeightMap:
    """z = h(x, y): ground by its heights at the corners of a grid, between them bilinear, outside as at the edge

    The cell under a point is looked up (`samara.core.ops.lookup`). CasADi and SymPy have no lookups: there every cell becomes
    part of the expression, which is for small maps.
    """

    x: Tree
    y: Tree
    z: Tree

    def __post_init__(self) -> None:
        for name in "xy":
            axis = numbers_in(getattr(self, name), f"HeightMap.{name}")
            if axis.ndim != 1 or len(axis) < 2 or not np.isfinite(axis).all() or not (np.diff(axis) > 0.0).all():
                raise ValueError(
                    f"HeightMap.{name} is {shown(axis.tolist())}; expected two or more finite numbers that increase"
                )
            object.__setattr__(self, name, axis)
        heights = numbers_in(self.z, "HeightMap.z")
        if heights.shape != (len(self.x), len(self.y)):
            raise ValueError(f"HeightMap.z has shape {heights.shape}; expected {(len(self.x), len(self.y))}")
        if not np.isfinite(heights).all():
            at = tuple(int(i) for i in np.argwhere(~np.isfinite(heights))[0])
            raise ValueError(f"HeightMap.z{list(at)} is {heights[at]}; expected a finite number")
        object.__setattr__(self, "z", heights)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HeightMap) and self._bytes() == other._bytes()

    def __hash__(self) -> int:
        return hash(self._bytes())

    def _bytes(self) -> tuple[bytes, ...]:
        return self.x.tobytes(), self.y.tobytes(), self.z.tobytes()

    @staticmethod
    def from_grid(rows: object, spacing: float, origin: Sequence[float] = (0.0, 0.0)) -> "HeightMap":
        """From heights `z[i][j]` at x = x₀ + i·spacing, y = y₀ + j·spacing  [m]"""
        heights = numbers_in(rows, "HeightMap")
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
        """From an `.npz` with arrays x, y and z (nx, ny), or with a spacing from an `.npy` or `.csv` of heights  [m]

        `data` is what the file holds, where it has been read already.
        """
        ending = Path(path).suffix.lower()
        if ending not in (".npz", ".npy", ".csv"):
            raise ValueError(f"{path}: is no height map; expected .npz, .npy or .csv")
        if ending != ".npz" and spacing is None:
            raise ValueError(f"{path}: has heights and no places; expected a spacing [m] with it")
        if ending == ".npz" and spacing is not None:
            raise ValueError(f"{path}: has its own x and y; expected no spacing with it")
        try:
            held = read_bytes(Path(path)) if data is None else data
            if ending != ".npz":
                rows = array_inside(held, str(path)) if ending == ".npy" else _rows(held, path)
                return HeightMap.from_grid(rows, float(spacing or 0.0), origin)
            x, y, z = arrays_inside(held, str(path), "xyz")
        except (OSError, EOFError, MemoryError) as error:
            raise ValueError(f"{path}: cannot be read ({error}); expected a height map") from None
        except ValueError as error:
            raise ValueError(f"{path}: {str(error).removeprefix(f'{path}: ')}") from None
        return HeightMap(x, y, z)

    @cached_property
    def steepest(self) -> float:
        """No slope is larger"""
        along_x = np.abs(np.diff(self.z, axis=0) / np.diff(self.x)[:, None]).max()
        along_y = np.abs(np.diff(self.z, axis=1) / np.diff(self.y)[None, :]).max()
        return float(np.hypot(along_x, along_y))

    @cached_property
    def _grids(self) -> tuple[Grid, Grid, Grid]:
        """x and y as one row each, and the heights"""
        return Grid(self.x[None]), Grid(self.y[None]), Grid(self.z)

    def below(self, p_W: Vec3) -> Ground:
        """The plane that touches the map under a point: h = Σ zᵢⱼ of the four corners around, bilinear, and its slopes

        A trace does not see into it: simplified together with what uses it, it would round differently.
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
        size = safe_norm(1.0, slope_x, slope_y)
        return height, Vec3(-slope_x / size, -slope_y / size, 1.0 / size)


def _cell(knots: Grid, x: Scalar) -> tuple[Scalar, Scalar, Scalar, Scalar]:
    """Index of the interval around x, the fraction of it below x, its length, and whether x is within the knots"""
    i = _interval(knots, x)
    low = lookup(knots, 0.0, i)
    length = lookup(knots, 0.0, i + 1.0) - low
    first, end = float(knots.values[0, 0]), float(knots.values[0, -1])
    return i, clamp((x - low) / length, 0.0, 1.0), length, logical_and(x >= first, x <= end)


def _interval(knots: Grid, x: Scalar) -> Scalar:
    """The largest i with knotᵢ ≤ x, between 0 and that of the last interval; by bisection"""
    last = knots.values.shape[1] - 2
    if isinstance(x, (float, np.ndarray)):
        return np.clip(np.searchsorted(knots.values[0], x, side="right") - 1.0, 0.0, last)
    i: Scalar = 0.0
    for step in (2**k for k in range(last.bit_length() - 1, -1, -1)):
        i = where(logical_and(i + step <= last, x >= lookup(knots, 0.0, i + step)), i + step, i)
    return i


def _rows(data: bytes, path: str | Path) -> Array:
    """The numbers of a table separated by commas"""
    require_cells(data, path)
    lines = data.decode("utf-8-sig").splitlines()
    if not any(line.strip() for line in lines):
        raise ValueError("has no rows; expected heights separated by commas")
    try:
        return np.loadtxt(lines, delimiter=",", ndmin=2)
    except ValueError as error:
        raise ValueError(shown(str(error))) from None


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


def at_least(solid: Solid, p_W: Vec3) -> Scalar:
    """No point of a solid is nearer than this: its distance, and of a map (z − h)/√(1 + steepest²)  [m]"""
    if isinstance(solid, HeightMap):
        return (p_W.z - solid.below(p_W).point_W.z) / (1.0 + solid.steepest**2) ** 0.5
    return distance_to(solid, p_W)


def plane_below(solid: Ground | HeightMap, p_W: Vec3) -> Ground:
    """The plane a drone stands on or hovers over, for `Environment.ground`"""
    return solid.below(p_W) if isinstance(solid, HeightMap) else solid


def distance_along(ray: Ray, solid: Solid) -> Scalar:
    """How far along a ray a solid is, 0 from inside, 1e9 if it is not met  [m]"""
    return time_to_reach(solid, ray.p_W, ray.direction_W)


def nearest_along(ray: Ray, solids: Sequence[Solid]) -> Scalar:
    """The least `distance_along` of all  [m]"""
    nearest: Scalar = NEVER
    for solid in solids:
        nearest = minimum(nearest, distance_along(ray, solid))
    return nearest


def time_to_reach(solid: Solid, p_W: Vec3, v_W: Vec3, clearance: Scalar = 0.0, until: float = NEVER) -> Scalar:
    """t with d(p + v t) = clearance, the first; 0 if it is that near, 1e9 if it never is  [s]

    Over a map nobody has to look further than `until`.
    """
    if isinstance(solid, HeightMap):
        return _march(solid, p_W, v_W, clearance, until)
    steps = 1 if isinstance(solid, Ground) else NEWTON
    return _first_zero(lambda place: touch(solid, place), p_W, v_W, clearance, steps)


def disc_touch(solid: Solid, center_W: Vec3, axis_W: Vec3, radius: Scalar) -> tuple[Touch, Vec3]:
    """Distance, normal and the nearest point of a disc (a propeller): back and forth between nearest points of both

    Where they intersect that ends at a point of both, and where they are all but parallel it takes long: the point of the rim
    that lies furthest against the normal is tried too.
    """
    own = touch(solid, center_W)
    point_W = disc_point(
        center_W, axis_W, center_W - own.normal_W * (2.0 * radius + absolute(own.distance)), radius=radius
    )

    def closer(_: Scalar, point_W: Vec3, inputs: Tree) -> Vec3:
        surface, center_W, axis_W, radius = inputs
        near = touch(solid if isinstance(solid, HeightMap) else surface, point_W)
        return disc_point(center_W, axis_W, point_W - near.normal_W * near.distance, radius=radius)

    surface = () if isinstance(solid, HeightMap) else solid
    point_W = loop(closer, point_W, (surface, center_W, axis_W, radius), count=8)
    own = touch(solid, point_W)
    deepest_W = disc_point(center_W, axis_W, center_W - own.normal_W * (_FAR * radius), radius=radius)
    deeper = touch(solid, deepest_W)
    further = deeper.distance < own.distance
    normal_W = Vec3(*(where(further, a, b) for a, b in zip(deeper.normal_W, own.normal_W, strict=True)))
    nearest_W = Vec3(*(where(further, a, b) for a, b in zip(deepest_W, point_W, strict=True)))
    return Touch(where(further, deeper.distance, own.distance), normal_W), nearest_W


def _first_zero(near: Callable[[Vec3], Touch], p_W: Vec3, v_W: Vec3, clearance: Scalar, steps: int = NEWTON) -> Scalar:
    """Newton from t = 0 on a convex function: always short of its first zero, or past its minimum, and then there is none"""
    time: Scalar = 0.0
    missed: Scalar = False
    for _ in range(steps):
        before = time
        time, missed = nearer(near, time, missed, p_W, v_W, clearance)
        if missed is True or (isinstance(time, float) and time == before):  # one drone alone need not wait for others
            break
    return where(missed, NEVER, minimum(time, NEVER))


def nearer(
    near: Callable[[Vec3], Touch], time: Scalar, missed: Scalar, p_W: Vec3, v_W: Vec3, clearance: Scalar
) -> tuple[Scalar, Scalar]:
    """t + (d − clearance)/(−v·n), Newton's step towards a touch; missed, as soon as it leads away"""
    speed, own = norm(v_W), near(p_W + v_W * time)
    gap, closing = own.distance - clearance, -dot(v_W, own.normal_W)
    apart, approaching = gap > 0.0, closing > _PARALLEL * speed
    missed = logical_or(missed, logical_and(apart, closing <= _PARALLEL * speed))
    met = where(gap <= 0.0, 0.0, gap)  # a gap that is not a number stays none
    step = where(logical_and(apart, approaching), gap / where(approaching, closing, 1.0), met)
    return where(missed, time, time + step), missed


def _march(ground: HeightMap, p_W: Vec3, v_W: Vec3, clearance: Scalar, until: float) -> Scalar:
    """Steps that the steepest slope cannot catch up with; the gap is measured straight down"""
    slope = ground.steepest
    reserve = clearance * (1.0 + slope * slope) ** 0.5
    fastest = absolute(v_W.z) + slope * safe_norm(v_W.x, v_W.y)
    moving = fastest > 0.0
    inputs = p_W, v_W, where(moving, fastest, 1.0), reserve

    def gap(time: Scalar, inputs: Tree) -> Scalar:
        p_W, v_W, _, reserve = inputs
        place = p_W + v_W * time
        return place.z - ground.below(place).point_W.z - reserve

    def further(_: Scalar, march: Tree, inputs: Tree) -> Tree:
        before = march[0]
        time = minimum(before + maximum(gap(before, inputs), 0.0) / inputs[2], NEVER)
        return time, time - before

    def going(march: Tree, inputs: Tree) -> Scalar:
        time, step = march
        return logical_and(step > 1e-12 * (1.0 + time), time <= until)

    time, _ = loop(further, (0.0, where(moving, 1.0, 0.0)), inputs, count=_MARCH, active=going)
    return where(gap(time, inputs) > 1e-3, NEVER, time)


TEMPLATES: dict[str, Ground | Sphere | Capsule | Box] = {
    "plane": Ground(),
    "sphere": Sphere(ZERO, 1.0),
    "capsule": Capsule(ZERO, UP, 1.0),
    "box": Box(ZERO, Vec3(1.0, 1.0, 1.0)),
}


def kind_of(solid: Solid) -> str:
    """plane, sphere, capsule, box or height_map"""
    return next((kind for kind, own in TEMPLATES.items() if type(own) is type(solid)), "height_map")
