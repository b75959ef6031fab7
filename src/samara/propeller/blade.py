"""A propeller's blade: chord and twist along the radius, from a file or from the tables of the UIUC Propeller Data Site."""

import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from samara.core.budget import read_text_or_gzip
from samara.core.sanitise import quote_value
from samara.core.toml import ShippedFiles, TomlFile, TomlTable, parse_document
from samara.core.types import Array

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

INCH = 0.0254
_GEOMETRY = "volume1_geom.csv"
_PERFORMANCE = "volume1_exp.csv"


class BladeError(ValueError):
    """One sentence with file, field, value and expectation."""


class Measurement(NamedTuple):
    """A wind-tunnel run: advance ratio J = V/(nD), speed in rpm, CT = T/(ρ n² D⁴), CP = P/(ρ n³ D⁵)."""

    advance: Array
    rpm: Array
    thrust: Array
    power: Array


@dataclass(frozen=True)
class Blade:
    """A propeller by the shape of its blades: stations r/R from hub to tip, chord c/R, twist [rad], radius [m]."""

    name: str
    family: str
    blades: int
    radius: float
    stations: tuple[float, ...]
    chord: tuple[float, ...]
    twist: tuple[float, ...]
    source: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        _check_blade(self)

    def interpolate(self, station: "ArrayLike") -> tuple[Array, Array]:
        """c/R and twist at r/R: a monotone cubic through the stations (Fritsch and Carlson, 1980)"""
        chord, twist = (monotone_cubic(station, self.stations, values) for values in (self.chord, self.twist))
        return chord, twist

    @property
    def solidity(self) -> float:
        """σ = B ∫c dr / (π R²), the blades' fraction of the disc; inside the first station the chord is constant"""
        hub_area = self.stations[0] * self.chord[0]
        return self.blades * (hub_area + float(np.trapezoid(self.chord, self.stations))) / math.pi


def monotone_cubic(query: "ArrayLike", x: Sequence[float], y: Sequence[float]) -> Array:
    """Hermite cubic through (x, y) that is monotone wherever the data are (Fritsch, Butland 1984)

    The slope at an inner point is the weighted harmonic mean of the neighbouring secants if both have the same sign, else 0. At
    an end it is that of the parabola through three points, limited to the sign and three times the magnitude of the end secant.
    The cubic is extrapolated beyond the ends.
    """
    knots, values = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    h = np.diff(knots)
    secants = np.diff(values) / h
    left, right = 2.0 * h[1:] + h[:-1], h[1:] + 2.0 * h[:-1]
    same_sign = secants[:-1] * secants[1:] > 0.0
    divisor = np.where(same_sign, left * secants[1:] + right * secants[:-1], 1.0)
    inner = np.where(same_sign, (left + right) * secants[:-1] * secants[1:] / divisor, 0.0)
    ends = _end_slope(h[0], h[1], secants[0], secants[1]), _end_slope(h[-1], h[-2], secants[-1], secants[-2])
    slope = np.array([ends[0], *inner, ends[1]])
    k = np.clip(np.searchsorted(knots, query, side="right") - 1, 0, len(h) - 1)
    t = (query - knots[k]) / h[k]
    curvature = slope[k] + slope[k + 1] - 2.0 * secants[k]
    return values[k] + h[k] * t * (slope[k] + t * (secants[k] - slope[k] + (t - 1.0) * curvature))


def _end_slope(h: float, next_h: float, secant: float, next_secant: float) -> float:
    slope = ((2.0 * h + next_h) * secant - h * next_secant) / (h + next_h)
    if slope * secant <= 0.0:
        return 0.0
    return 3.0 * secant if secant * next_secant <= 0.0 and abs(slope) > 3.0 * abs(secant) else slope


def _check_blade(blade: Blade) -> None:
    lists = {"stations": blade.stations, "chord": blade.chord, "twist": blade.twist}
    for key, values in lists.items():
        if len(values) != len(blade.stations) or len(values) < 3:
            raise BladeError(f"{blade.name}: {key} has {len(values)} numbers: expected as many as stations, at least 3")
        if not all(math.isfinite(x) for x in values):
            raise BladeError(f"{blade.name}: {key} = {quote_value(values)}: expected finite numbers")
    steps = np.diff(blade.stations)
    if not (steps > 0.0).all() or not 0.0 < blade.stations[0] < 1.0 or abs(blade.stations[-1] - 1.0) > 1e-9:
        raise BladeError(
            f"{blade.name}: stations = {quote_value(blade.stations)}: expected increasing r/R, from above 0 to 1"
        )
    if min(blade.chord) < 0.0:
        raise BladeError(f"{blade.name}: chord = {min(blade.chord)}: expected c/R that is not negative")
    if blade.blades < 1:
        raise BladeError(f"{blade.name}: blades = {blade.blades}: expected at least 1")
    if not 0.0 < blade.radius < 100.0:
        raise BladeError(f"{blade.name}: radius = {blade.radius} m: expected a positive number")


# Files -------------------------------------------------------------------------------------------------------------


BLADES = ShippedFiles("blade", "samara.propeller", BladeError)


def blade_names() -> list[str]:
    """Return the names of the blades that come with Samara."""
    return BLADES.names()


def blade(name_or_path: str | Path) -> tuple[Blade, Measurement | None]:
    """Load a blade by its shipped name or from a .toml file, with its measurement if the file has one."""
    text, origin, _ = BLADES.find(name_or_path)
    return parse_blade(text, origin)


def parse_blade(text: str, origin: str) -> tuple[Blade, Measurement | None]:
    """Parse the text of a blade file; `origin` is its name in error messages."""
    file = TomlTable(parse_document(text, origin, BladeError), TomlFile(origin, BladeError))
    file.refuse_unknown_keys(("name", "family", "source", "blades", "radius", "stations", "chord", "twist", "measured"))
    parsed = Blade(
        name=file.text("name"),
        family=file.text("family"),
        blades=int(file.number("blades")),
        radius=file.number("radius"),
        stations=file.numbers("stations"),
        chord=file.numbers("chord"),
        twist=tuple(math.radians(x) for x in file.numbers("twist")),
        source=file.text("source"),
    )
    measured = file.optional_table("measured")
    if measured is None:
        return parsed, None
    columns = [np.array(measured.numbers(key)) for key in ("J", "rpm", "CT", "CP")]
    measured.finish()
    if len({len(column) for column in columns}) != 1:
        raise measured.make_error(" has columns of different lengths: expected J, rpm, CT, CP of equal length")
    return parsed, Measurement(*columns)


def read_uiuc(folder: str | Path) -> dict[str, tuple[Blade, Measurement]]:
    """Read the propellers with geometry and measurements in a folder: volume1_geom.csv and volume1_exp.csv, or .csv.gz."""
    shapes: dict[str, list[tuple[float, float, float]]] = {}
    for row in _read_rows(Path(folder), _GEOMETRY, ("BladeName", "r/R", "c/R", "beta")):
        numbers = (_parse_cell(row, "r/R"), _parse_cell(row, "c/R"), math.radians(_parse_cell(row, "beta")))
        shapes.setdefault(row["BladeName"], []).append(numbers)
    propellers = {}
    for name, run in uiuc_runs(folder).items():
        if run.blade in shapes:
            stations, chord, twist = zip(*sorted(shapes[run.blade]), strict=True)
            radius = 0.5 * INCH * run.diameter
            blade_shape = Blade(
                run.blade, run.family, run.blades, radius, stations, chord, twist, "UIUC Propeller Data Site"
            )
            propellers[run.blade if run.blade not in propellers else name] = (blade_shape, run.measurement)
    return propellers


class TunnelRun(NamedTuple):
    """A propeller in the wind tunnel: name and family of its blade, blades, diameter and pitch [in], and the measurement."""

    blade: str
    family: str
    blades: int
    diameter: float
    pitch: float
    measurement: Measurement


def uiuc_runs(folder: str | Path) -> dict[str, TunnelRun]:
    """Read every measured propeller of a folder, by name: volume1_exp.csv or .csv.gz."""
    columns = ("PropName", "BladeName", "Family", "B", "D", "P", "J", "N", "CT", "CP")
    rows: dict[str, list[tuple[float, ...]]] = {}
    geometry: dict[str, tuple[str, str, int, float, float]] = {}
    for row in _read_rows(Path(folder), _PERFORMANCE, columns):
        size = int(_parse_cell(row, "B")), _parse_cell(row, "D"), _parse_cell(row, "P")
        geometry[row["PropName"]] = (row["BladeName"], row["Family"], *size)
        rows.setdefault(row["PropName"], []).append(tuple(_parse_cell(row, key) for key in ("J", "N", "CT", "CP")))
    return {name: TunnelRun(*properties, Measurement(*np.array(rows[name]).T)) for name, properties in geometry.items()}


def _read_rows(folder: Path, name: str, columns: tuple[str, ...]) -> Iterator[dict[str, str]]:
    path = next((p for p in (folder / name, folder / f"{name}.gz") if p.is_file()), None)
    if path is None:
        raise BladeError(f"{folder}: has no {name} or {name}.gz; expected the tables of the UIUC Propeller Data Site")
    reader = csv.DictReader(read_text_or_gzip(path).splitlines())
    missing = set(columns) - set(reader.fieldnames or ())
    if missing:
        raise BladeError(f"{path}: has no column {', '.join(sorted(missing))}; expected {', '.join(columns)}")
    yield from reader


def _parse_cell(row: dict[str, str], key: str) -> float:
    try:
        value = float(row[key])
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise BladeError(f"{row.get('BladeName')}: {key} = {row[key]!r}: expected a finite number")
    return value


def zero_thrust_advance(measured: Measurement) -> float:
    """J at which the line through the measured points with CT < 0.3 max CT reaches 0"""
    near_zero = measured.thrust < 0.3 * measured.thrust.max()
    if near_zero.sum() < 2:
        raise ValueError("the measurement has fewer than two points near zero thrust; expected a run up to zero thrust")
    slope, intercept = np.polyfit(measured.advance[near_zero], measured.thrust[near_zero], 1)
    return float(-intercept / slope)
