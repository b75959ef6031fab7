"""Measured or computed wind: a field on a grid, and the replay of a log.

Files: `WindField` reads an `.npz` with arrays x (nx), y (ny), z (nz) [m] and wind (nx, ny, nz, 3) [m/s], or a `.csv` with the
columns x, y, z, wind_x, wind_y, wind_z and one row for every corner; `RecordedWind` a `.csv` with time, wind_x, wind_y, wind_z.
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
from samara.core.budget import load_npz, read_bytes, require_cells
from samara.core.quantity import Scalar, Tree
from samara.core.sanitise import quote_value
from samara.core.tree import float_array
from samara.core.types import Array
from samara.wind.validation import require_vector

WindType = TypeVar("WindType")


@dataclass(frozen=True, eq=False)
class WindField:
    """w(p), linear along x, y and z between the corners of a grid; constant outside it

    A moving field is w(p − c t): a frozen pattern that drifts with the mean wind c = `carried_W` [m/s] and repeats
    along the axes in which c is not 0; there, the last plane should equal the first. `sample`, the wind of a whole
    fleet, is the wind at the grid's centre.
    """

    x: Array
    y: Array
    z: Array
    wind_W: Array
    carried_W: Vec3 = ZERO
    normals_needed: ClassVar[int] = 0

    def __post_init__(self) -> None:
        require_vector(self, "carried_W")
        for name in "xyz":
            axis = float_array(getattr(self, name), f"WindField.{name}")
            if axis.ndim != 1 or not len(axis) or not np.isfinite(axis).all() or not (np.diff(axis) > 0.0).all():
                raise ValueError(
                    f"WindField.{name} is {quote_value(axis.tolist())}; expected finite numbers that increase"
                )
            object.__setattr__(self, name, axis)
        wind, expected_shape = float_array(self.wind_W, "WindField.wind_W"), (len(self.x), len(self.y), len(self.z), 3)
        if wind.shape != expected_shape:
            raise ValueError(f"WindField.wind_W has shape {wind.shape}; expected {expected_shape}")
        _require_finite("WindField.wind_W", wind)
        object.__setattr__(self, "wind_W", wind)

    @staticmethod
    def from_file(path: str | Path, *, carried_W: Vec3 = ZERO) -> "WindField":
        """Read an `.npz` or a `.csv` file."""
        return WindField.from_bytes(read_bytes(Path(path)), str(path), carried_W=carried_W)

    @staticmethod
    def from_bytes(data: bytes, name: str, *, carried_W: Vec3 = ZERO) -> "WindField":
        """Parse the content of an `.npz` or a `.csv` file; the suffix of `name` decides."""
        if name.endswith(".npz"):
            x, y, z, wind_array = load_npz(data, name, ("x", "y", "z", "wind"))
            return _prefix_errors(name, lambda: WindField(x, y, z, wind_array, carried_W))
        rows = _read_columns(data, name, ("x", "y", "z", "wind_x", "wind_y", "wind_z"))
        axes = [np.unique(rows[:, i]) for i in range(3)]
        indices = tuple(np.searchsorted(axis, rows[:, i]) for i, axis in enumerate(axes))
        shape = tuple(len(axis) for axis in axes)
        is_set = np.zeros(len(rows) if math.prod(shape) == len(rows) else 0, dtype=bool)
        if len(is_set):
            is_set[np.ravel_multi_index(indices, shape)] = True
        if (
            not is_set.any() or not is_set.all()
        ):  # checked before the grid is allocated: scattered rows would make a grid of up to their count cubed
            sizes = " × ".join(map(str, shape))
            raise ValueError(f"{name}: {len(rows)} rows; expected one for each of the {sizes} corners of the grid")
        wind = np.empty((*shape, 3))
        wind[indices] = rows[:, 3:]
        return _prefix_errors(name, lambda: WindField(axes[0], axes[1], axes[2], wind, carried_W))

    def initial(self) -> tuple[()]:
        """Return the empty state."""
        return ()

    def sample(self, time: Scalar, dt: Scalar, normals: Sequence[Scalar], wind_state: Tree) -> tuple[Vec3, Tree]:
        """Wind at the grid's centre."""
        centre = Vec3(*(0.5 * float(axis[0] + axis[-1]) for axis in (self.x, self.y, self.z)))
        return self.sample_at(time, dt, normals, wind_state, centre, ZERO)

    def sample_at(
        self, time: Scalar, dt: Scalar, normals: Sequence[Scalar], wind_state: Tree, p_W: Vec3, v_W: Vec3
    ) -> tuple[Vec3, Tree]:
        """Trilinear interpolation over the eight corners around p."""
        xp = _array_namespace(time, *p_W)
        grid = xp.asarray(self.wind_W)
        axes = zip(p_W, (self.x, self.y, self.z), self.carried_W, strict=True)
        cells = [_locate_cell(_wrap_position(p, axis, c * time, xp) if c else p, axis, xp) for p, axis, c in axes]
        total: Scalar = 0.0
        for corner in np.ndindex(2, 2, 2):
            index = tuple(low + side * step for (low, step, _), side in zip(cells, corner, strict=True))
            weight = 1.0
            for (_, _, fraction), side in zip(cells, corner, strict=True):
                weight = weight * (fraction if side else 1.0 - fraction)
            total = total + weight * xp.moveaxis(grid[index], -1, 0)
        return Vec3(*(_unwrap_scalar(total[i]) for i in range(3))), wind_state


@dataclass(frozen=True, eq=False)
class RecordedWind:
    """w(t) from a log: held since the last entry, or linear between entries; constant before and after"""

    times: Array
    wind_W: Array
    linear: bool = False
    normals_needed: ClassVar[int] = 0

    def __post_init__(self) -> None:
        times, wind = float_array(self.times, "RecordedWind.times"), float_array(self.wind_W, "RecordedWind.wind_W")
        if times.ndim != 1 or not len(times) or not np.isfinite(times).all() or not (np.diff(times) > 0.0).all():
            raise ValueError("RecordedWind.times do not increase; expected finite times [s], each after the one before")
        if wind.shape != (len(times), 3):
            raise ValueError(f"RecordedWind.wind_W has shape {wind.shape}; expected {(len(times), 3)}")
        _require_finite("RecordedWind.wind_W", wind)
        object.__setattr__(self, "times", times)
        object.__setattr__(self, "wind_W", wind)

    @staticmethod
    def from_file(path: str | Path, *, linear: bool = False) -> "RecordedWind":
        """Read a `.csv` file."""
        return RecordedWind.from_bytes(read_bytes(Path(path)), str(path), linear=linear)

    @staticmethod
    def from_bytes(data: bytes, name: str, *, linear: bool = False) -> "RecordedWind":
        """Parse the content of a `.csv` file called `name`."""
        rows = _read_columns(data, name, ("time", "wind_x", "wind_y", "wind_z"))
        return _prefix_errors(name, lambda: RecordedWind(rows[:, 0], rows[:, 1:], linear))

    def initial(self) -> tuple[()]:
        """Return the empty state."""
        return ()

    def sample(self, time: Scalar, dt: Scalar, normals: Sequence[Scalar], wind_state: Tree) -> tuple[Vec3, Tree]:
        """Wind at that time."""
        xp = _array_namespace(time)
        times, wind = xp.asarray(self.times), xp.asarray(self.wind_W)
        if self.linear:
            return Vec3(*(_unwrap_scalar(xp.interp(time, times, wind[:, i])) for i in range(3))), wind_state
        index = xp.clip(xp.searchsorted(times, time, side="right") - 1, 0, len(self.times) - 1)
        nan_offset = time * 0.0  # NaN for a time that is NaN
        return Vec3(*(_unwrap_scalar(wind[index, i] + nan_offset) for i in range(3))), wind_state


def _array_namespace(*values: Any) -> Any:
    """Return the array namespace of the values: JAX's, else NumPy's."""
    namespaces = (value.__array_namespace__() for value in values if hasattr(value, "__array_namespace__"))
    return next((namespace for namespace in namespaces if namespace is not np), np)


def _locate_cell(p: Scalar, axis: Array, xp: Any) -> tuple[Scalar, int, Scalar]:
    """Return the index of the corner before p, 1 if there is a next corner (else 0), and the fraction between both."""
    if len(axis) == 1:
        return xp.zeros(xp.shape(p), dtype=int), 0, p * 0.0
    knots = xp.asarray(axis)
    low = xp.clip(xp.searchsorted(knots, p, side="right") - 1, 0, len(axis) - 2)
    return low, 1, xp.clip((p - knots[low]) / (knots[low + 1] - knots[low]), 0.0, 1.0)


def _wrap_position(p: Scalar, axis: Array, drift: Scalar, xp: Any) -> Scalar:
    """p − c t, wrapped into the periodic grid"""
    return axis[0] + xp.mod(p - drift - axis[0], axis[-1] - axis[0]) if len(axis) > 1 else p


def _unwrap_scalar(x: Scalar) -> Scalar:
    return float(x) if isinstance(x, (np.generic, np.ndarray)) and np.ndim(x) == 0 else x


def _require_finite(name: str, wind: Array) -> None:
    if not np.isfinite(wind).all():
        index = tuple(int(i) for i in np.argwhere(~np.isfinite(wind))[0])
        raise ValueError(f"{name}{list(index)} is {wind[index]}; expected a finite number")


def _prefix_errors(name: str, build: Callable[[], WindType]) -> WindType:
    try:
        return build()
    except ValueError as error:
        raise ValueError(str(error) if str(error).startswith(name) else f"{name}: {error}") from None


def _read_columns(data: bytes, name: str, columns: tuple[str, ...]) -> Array:
    """Read the named columns of a CSV file as numbers."""
    require_cells(data, name)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{name}: is not text; expected a .csv with {', '.join(columns)}") from None
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
