"""Wind that was measured or computed elsewhere: a field on a grid, and a log to blow again.

Files: `Field` reads an `.npz` with arrays x (nx), y (ny), z (nz) [m] and wind (nx, ny, nz, 3) [m/s], or a `.csv` with the
columns x, y, z, wind_x, wind_y, wind_z and one row for every corner; `Replay` a `.csv` with time, wind_x, wind_y, wind_z.
"""

import csv
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np

from samara.core.algebra import ZERO, Vec3
from samara.core.budget import arrays_inside, read_bytes, require_cells
from samara.core.quantity import Scalar, Tree
from samara.core.sanitise import shown
from samara.core.tree import numbers_in
from samara.core.types import Array
from samara.wind.validation import keep_vector

Built = TypeVar("Built")


@dataclass(frozen=True, eq=False)
class Field:
    """w(p), linear along x, y and z between the corners of a grid; outside it as at its edge

    A field that is carried is w(p − c t): a frozen pattern that drifts with the mean wind c = `carried_W` [m/s], and comes
    again and again along the axes it is carried along; its last plane there should be its first. `sample`, for all drones
    alike, is the wind at the grid's middle.
    """

    x: Array
    y: Array
    z: Array
    wind_W: Array
    carried_W: Vec3 = ZERO
    normals_needed: ClassVar[int] = 0

    def __post_init__(self) -> None:
        keep_vector(self, "carried_W")
        for name in "xyz":
            axis = numbers_in(getattr(self, name), f"Field.{name}")
            if axis.ndim != 1 or not len(axis) or not np.isfinite(axis).all() or not (np.diff(axis) > 0.0).all():
                raise ValueError(f"Field.{name} is {shown(axis.tolist())}; expected finite numbers that increase")
            object.__setattr__(self, name, axis)
        wind, wanted = numbers_in(self.wind_W, "Field.wind_W"), (len(self.x), len(self.y), len(self.z), 3)
        if wind.shape != wanted:
            raise ValueError(f"Field.wind_W has shape {wind.shape}; expected {wanted}")
        _require_finite("Field.wind_W", wind)
        object.__setattr__(self, "wind_W", wind)

    @staticmethod
    def from_file(path: str | Path, *, carried_W: Vec3 = ZERO) -> "Field":
        """From an `.npz` or a `.csv`"""
        return Field.from_bytes(read_bytes(Path(path)), str(path), carried_W=carried_W)

    @staticmethod
    def from_bytes(data: bytes, name: str, *, carried_W: Vec3 = ZERO) -> "Field":
        """From what an `.npz` or a `.csv` holds; its name tells which it is"""
        if name.endswith(".npz"):
            x, y, z, winds = arrays_inside(data, name, ("x", "y", "z", "wind"))
            return _named(name, lambda: Field(x, y, z, winds, carried_W))
        rows = _read(data, name, ("x", "y", "z", "wind_x", "wind_y", "wind_z"))
        axes = [np.unique(rows[:, i]) for i in range(3)]
        at = tuple(np.searchsorted(axis, rows[:, i]) for i, axis in enumerate(axes))
        shape = tuple(len(axis) for axis in axes)
        known = np.zeros(len(rows) if math.prod(shape) == len(rows) else 0, dtype=bool)
        if len(known):
            known[np.ravel_multi_index(at, shape)] = True
        if (
            not known.any() or not known.all()
        ):  # looked at first: rows that are no grid would make one of their number cubed
            sizes = " × ".join(map(str, shape))
            raise ValueError(f"{name}: {len(rows)} rows; expected one for each of the {sizes} corners of the grid")
        wind = np.empty((*shape, 3))
        wind[at] = rows[:, 3:]
        return _named(name, lambda: Field(axes[0], axes[1], axes[2], wind, carried_W))

    def initial(self) -> tuple[()]:
        """Nothing to remember."""
        return ()

    def sample(self, time: Scalar, dt: Scalar, normals: Sequence[Scalar], memory: Tree) -> tuple[Vec3, Tree]:
        """The wind at the grid's middle"""
        middle = Vec3(*(0.5 * float(axis[0] + axis[-1]) for axis in (self.x, self.y, self.z)))
        return self.sample_at(time, dt, normals, memory, middle, ZERO)

    def sample_at(
        self, time: Scalar, dt: Scalar, normals: Sequence[Scalar], memory: Tree, p_W: Vec3, v_W: Vec3
    ) -> tuple[Vec3, Tree]:
        """Σ over the eight corners around p of their wind, weighted by how near they are along each axis"""
        numbers = _library(time, *p_W)
        grid = numbers.asarray(self.wind_W)
        ways = zip(p_W, (self.x, self.y, self.z), self.carried_W, strict=True)
        places = [_place(_brought_back(p, axis, c * time, numbers) if c else p, axis, numbers) for p, axis, c in ways]
        total: Scalar = 0.0
        for corner in np.ndindex(2, 2, 2):
            at = tuple(low + side * more for (low, more, _), side in zip(places, corner, strict=True))
            weight = 1.0
            for (_, _, share), side in zip(places, corner, strict=True):
                weight = weight * (share if side else 1.0 - share)
            total = total + weight * numbers.moveaxis(grid[at], -1, 0)
        return Vec3(*(_plain(total[i]) for i in range(3))), memory


@dataclass(frozen=True, eq=False)
class Replay:
    """w(t) from a log: held since the last entry, or along straight lines between them; before and after, its ends"""

    times: Array
    wind_W: Array
    linear: bool = False
    normals_needed: ClassVar[int] = 0

    def __post_init__(self) -> None:
        times, wind = numbers_in(self.times, "Replay.times"), numbers_in(self.wind_W, "Replay.wind_W")
        if times.ndim != 1 or not len(times) or not np.isfinite(times).all() or not (np.diff(times) > 0.0).all():
            raise ValueError("Replay.times do not increase; expected finite times [s], each after the one before")
        if wind.shape != (len(times), 3):
            raise ValueError(f"Replay.wind_W has shape {wind.shape}; expected {(len(times), 3)}")
        _require_finite("Replay.wind_W", wind)
        object.__setattr__(self, "times", times)
        object.__setattr__(self, "wind_W", wind)

    @staticmethod
    def from_file(path: str | Path, *, linear: bool = False) -> "Replay":
        """From a `.csv`"""
        return Replay.from_bytes(read_bytes(Path(path)), str(path), linear=linear)

    @staticmethod
    def from_bytes(data: bytes, name: str, *, linear: bool = False) -> "Replay":
        """From what a `.csv` of that name holds"""
        rows = _read(data, name, ("time", "wind_x", "wind_y", "wind_z"))
        return _named(name, lambda: Replay(rows[:, 0], rows[:, 1:], linear))

    def initial(self) -> tuple[()]:
        """Nothing to remember."""
        return ()

    def sample(self, time: Scalar, dt: Scalar, normals: Sequence[Scalar], memory: Tree) -> tuple[Vec3, Tree]:
        """The wind of that time"""
        numbers = _library(time)
        times, wind = numbers.asarray(self.times), numbers.asarray(self.wind_W)
        if self.linear:
            return Vec3(*(_plain(numbers.interp(time, times, wind[:, i])) for i in range(3))), memory
        at = numbers.clip(numbers.searchsorted(times, time, side="right") - 1, 0, len(self.times) - 1)
        unknown = time * 0.0  # a time that is not a number gives no wind that is one
        return Vec3(*(_plain(wind[at, i] + unknown) for i in range(3))), memory


def _library(*values: Any) -> Any:
    """The namespace of the arrays among them, JAX's or NumPy's: tables are looked up in arrays"""
    spaces = (value.__array_namespace__() for value in values if hasattr(value, "__array_namespace__"))
    return next((space for space in spaces if space is not np), np)


def _place(p: Scalar, axis: Array, numbers: Any) -> tuple[Scalar, int, Scalar]:
    """The corner before p, 1 where there is one after it, and how far p is between the two; NaN stays NaN"""
    if len(axis) == 1:
        return numbers.zeros(numbers.shape(p), dtype=int), 0, p * 0.0
    knots = numbers.asarray(axis)
    low = numbers.clip(numbers.searchsorted(knots, p, side="right") - 1, 0, len(axis) - 2)
    return low, 1, numbers.clip((p - knots[low]) / (knots[low + 1] - knots[low]), 0.0, 1.0)


def _brought_back(p: Scalar, axis: Array, way: Scalar, numbers: Any) -> Scalar:
    """p − c t, within the grid that repeats"""
    return axis[0] + numbers.mod(p - way - axis[0], axis[-1] - axis[0]) if len(axis) > 1 else p


def _plain(x: Scalar) -> Scalar:
    return float(x) if isinstance(x, (np.generic, np.ndarray)) and np.ndim(x) == 0 else x


def _require_finite(name: str, wind: Array) -> None:
    if not np.isfinite(wind).all():
        at = tuple(int(i) for i in np.argwhere(~np.isfinite(wind))[0])
        raise ValueError(f"{name}{list(at)} is {wind[at]}; expected a finite number")


def _named(name: str, build: Callable[[], Built]) -> Built:
    try:
        return build()
    except ValueError as error:
        raise ValueError(str(error) if str(error).startswith(name) else f"{name}: {error}") from None


def _read(data: bytes, name: str, columns: tuple[str, ...]) -> Array:
    """The named columns of a CSV file, as numbers"""
    require_cells(data, name)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{name}: is no text; expected a .csv with {', '.join(columns)}") from None
    table = csv.DictReader(io.StringIO(text, newline=""))
    try:
        names = table.fieldnames or ()
    except csv.Error as error:
        raise ValueError(f"{name}: line 1 cannot be read ({error}); expected {', '.join(columns)}") from None
    for column in columns:
        if column not in names:
            raise ValueError(f"{name}: column {column!r} is missing; expected {', '.join(columns)}")
    rows = []
    try:
        for line in table:
            rows.append([float(line[column]) for column in columns])
    except (TypeError, ValueError):
        raise ValueError(f"{name}: line {table.line_num} is {list(line.values())!s:.120}; expected numbers") from None
    except csv.Error as error:
        raise ValueError(f"{name}: line {table.line_num} cannot be read ({error}); expected numbers") from None
    if not rows:
        raise ValueError(f"{name}: no rows; expected {', '.join(columns)}")
    return np.array(rows)
