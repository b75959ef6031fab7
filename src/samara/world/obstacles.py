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
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from samara.core.algebra import UP, ZERO, Vec3, dot, norm
from samara.core.named_files import read_bytes
from samara.core.ops import absolute, logical_and, logical_or, minimum, piecewise_linear, safe_norm, where
from samara.core.packed import array_inside, arrays_inside, require_cells
from samara.core.printable import shown
from samara.core.quantity import Scalar
from samara.core.tree import numbers_in
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

    Places may be floats, NumPy or JAX arrays (the cell is looked up), or CasADi and SymPy symbols: then every cell of the map
    becomes part of the expression, which is for small maps.
    """

    x: Any
    y: Any
    z: Any

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
    def from_grid(rows: Any, spacing: float, origin: Sequence[float] = (0.0, 0.0)) -> "HeightMap":
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

    def below(self, p_W: Vec3) -> Ground:
        """The plane that touches the map under a point"""
        library = _library(p_W)
        looked_up = self._unrolled(p_W) if library is None else self._looked_up(p_W, library)
        height, slope_x, slope_y = looked_up
        size = safe_norm(1.0, slope_x, slope_y)
        return Ground(Vec3(p_W.x, p_W.y, height), Vec3(-slope_x / size, -slope_y / size, 1.0 / size))

    def _looked_up(self, p_W: Vec3, library: Any) -> tuple[Any, Any, Any]:
        """h, ∂h/∂x, ∂h/∂y from the four corners around, on NumPy or JAX."""
        xs, ys, zs = (library.asarray(own) for own in (self.x, self.y, self.z))
        x, y = library.asarray(p_W.x, dtype=float), library.asarray(p_W.y, dtype=float)
        i = library.clip(library.searchsorted(xs, x, side="right") - 1, 0, len(self.x) - 2)
        j = library.clip(library.searchsorted(ys, y, side="right") - 1, 0, len(self.y) - 2)
        dx, dy = xs[i + 1] - xs[i], ys[j + 1] - ys[j]
        s, t = library.clip((x - xs[i]) / dx, 0.0, 1.0), library.clip((y - ys[j]) / dy, 0.0, 1.0)
        z00, z10, z01, z11 = zs[i, j], zs[i + 1, j], zs[i, j + 1], zs[i + 1, j + 1]
        height = z00 * (1 - s) * (1 - t) + z10 * s * (1 - t) + z01 * (1 - s) * t + z11 * s * t
        inside_x, inside_y = (x >= xs[0]) & (x <= xs[-1]), (y >= ys[0]) & (y <= ys[-1])
        slope_x = library.where(inside_x, ((z10 - z00) * (1 - t) + (z11 - z01) * t) / dx, 0.0)
        slope_y = library.where(inside_y, ((z01 - z00) * (1 - s) + (z11 - z10) * s) / dy, 0.0)
        return (_plain(height), _plain(slope_x), _plain(slope_y)) if library is np else (height, slope_x, slope_y)

    def _unrolled(self, p_W: Vec3) -> tuple[Any, Any, Any]:
        """The same without an index: y through every row, then x through what the rows gave."""
        xs, ys, rows = self.x.tolist(), self.y.tolist(), self.z.tolist()
        heights = [piecewise_linear(p_W.y, ys, row) for row in rows]
        slopes = [_slope(p_W.y, ys, row) for row in rows]
        return piecewise_linear(p_W.x, xs, heights), _slope(p_W.x, xs, heights), piecewise_linear(p_W.x, xs, slopes)


def _rows(data: bytes, path: str | Path) -> np.ndarray[Any, Any]:
    """The numbers of a table separated by commas"""
    require_cells(data, path)
    lines = data.decode("utf-8-sig").splitlines()
    if not any(line.strip() for line in lines):
        raise ValueError("has no rows; expected heights separated by commas")
    try:
        return np.loadtxt(lines, delimiter=",", ndmin=2)
    except ValueError as error:
        raise ValueError(shown(str(error))) from None


def _slope(x: Any, knots: Sequence[float], values: Sequence[Any]) -> Any:
    """The slope of `piecewise_linear`, 0 outside; at a knot that of the piece after it, at the last of the one before."""
    slope: Any = 0.0
    for k, (x0, x1, y0, y1) in enumerate(zip(knots[:-1], knots[1:], values[:-1], values[1:], strict=True)):
        until = x <= x1 if k == len(knots) - 2 else x < x1
        slope = slope + where(logical_and(x >= x0, until), 1.0, 0.0) * ((y1 - y0) / (x1 - x0))
    return slope


def _library(p_W: Vec3) -> Any:
    """NumPy or JAX's, or None for symbols."""
    kinds = {type(leaf).__module__.partition(".")[0] for leaf in p_W}
    if kinds & {"jax", "jaxlib"}:
        import jax.numpy

        return jax.numpy
    return np if kinds <= {"builtins", "numpy"} else None


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


def distance_along(ray: Any, solid: Solid) -> Scalar:
    """How far along a ray a solid is, 0 from inside, 1e9 if it is not met  [m]"""
    return time_to_reach(solid, ray.p_W, ray.direction_W)


def nearest_along(ray: Any, solids: Sequence[Solid]) -> Scalar:
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
    for _ in range(8):
        own = touch(solid, point_W)
        point_W = disc_point(center_W, axis_W, point_W - own.normal_W * own.distance, radius=radius)
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
    missed: Any = False
    for _ in range(steps):
        before = time
        time, missed = nearer(near, time, missed, p_W, v_W, clearance)
        if missed is True or (isinstance(time, float) and time == before):  # one drone alone need not wait for others
            break
    return where(missed, NEVER, minimum(time, NEVER))


def nearer(
    near: Callable[[Vec3], Touch], time: Scalar, missed: Any, p_W: Vec3, v_W: Vec3, clearance: Scalar
) -> tuple[Scalar, Any]:
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
    library = _library(Vec3(p_W.x + v_W.x, p_W.y + v_W.y, p_W.z + v_W.z))
    if library is None:
        raise TypeError(
            "a ray over a height map takes as many steps as it needs; expected numbers, NumPy or JAX arrays"
        )
    slope = ground.steepest
    reserve = clearance * (1.0 + slope * slope) ** 0.5
    fastest = absolute(v_W.z) + slope * safe_norm(v_W.x, v_W.y)
    moving = fastest > 0.0
    start = library.zeros(library.broadcast_shapes(*(library.shape(x) for x in (*p_W, *v_W))))

    def gap(at: Any) -> Any:
        place = p_W + v_W * at
        return place.z - ground.below(place).point_W.z - reserve

    def further(_: int, at: Any) -> Any:
        step = library.maximum(gap(at), 0.0) / library.where(moving, fastest, 1.0)
        return library.minimum(at + library.where(moving, step, 0.0), NEVER)

    if library is not np:
        import jax

        at: Any = jax.lax.fori_loop(0, _MARCH, further, start)
        return library.where(gap(at) > 1e-3, NEVER, at)
    at = start
    for k in range(_MARCH):
        before, at = at, further(k, at)
        if ((at - before <= 1e-12 * (1.0 + at)) | (at > until)).all():
            break
    return _plain(np.where(gap(at) > 1e-3, NEVER, at))


def _plain(x: Any) -> Any:
    return float(x) if np.ndim(x) == 0 else x


TEMPLATES: dict[str, Ground | Sphere | Capsule | Box] = {
    "plane": Ground(),
    "sphere": Sphere(ZERO, 1.0),
    "capsule": Capsule(ZERO, UP, 1.0),
    "box": Box(ZERO, Vec3(1.0, 1.0, 1.0)),
}


def kind_of(solid: Solid) -> str:
    """plane, sphere, capsule, box or height_map"""
    return next((kind for kind, own in TEMPLATES.items() if type(own) is type(solid)), "height_map")
