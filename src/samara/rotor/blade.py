"""A propeller's blade: chord and twist along the radius, from a file or from the tables of the UIUC Propeller Data Site."""

import csv
import math
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from samara.core.named_files import read_text
from samara.core.packed import text_inside
from samara.core.printable import shown, shown_key
from samara.core.quantity import LARGEST

INCH = 0.0254
_GEOMETRY = "volume1_geom.csv"
_PERFORMANCE = "volume1_exp.csv"


class BladeError(ValueError):
    """One sentence: which file, which field, which value, what was expected."""


class Measurement(NamedTuple):
    """A wind-tunnel run: advance ratio J = V/(nD), speed in rpm, CT = T/(ρ n² D⁴), CP = P/(ρ n³ D⁵)."""

    advance: Any
    rpm: Any
    thrust: Any
    power: Any


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
        _check(self)

    def at(self, station: Any) -> tuple[Any, Any]:
        """c/R and twist at r/R: a monotone cubic through the stations (Fritsch and Carlson, 1980)"""
        chord, twist = (monotone_cubic(station, self.stations, each) for each in (self.chord, self.twist))
        return chord, twist

    @property
    def solidity(self) -> float:
        """σ = B ∫c dr / (π R²), the blades' part of the disc; inside the first station the chord goes on as it is there"""
        inside = self.stations[0] * self.chord[0]
        return self.blades * (inside + float(np.trapezoid(self.chord, self.stations))) / math.pi


def monotone_cubic(at: Any, x: Sequence[float], y: Sequence[float]) -> Any:
    """Hermite's cubic through (x, y), with slopes that let it rise and fall only where the points do (Fritsch, Butland 1984)

    Within, the slope is the weighted harmonic mean of its neighbours' where both have one sign, else 0; at an end that of the
    parabola through three points, held to the sign and three times the size of the last. Beyond the ends the cubic goes on.
    """
    places, values = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    h = np.diff(places)
    steep = np.diff(values) / h
    left, right = 2.0 * h[1:] + h[:-1], h[1:] + 2.0 * h[:-1]
    alike = steep[:-1] * steep[1:] > 0.0
    divisor = np.where(alike, left * steep[1:] + right * steep[:-1], 1.0)
    inner = np.where(alike, (left + right) * steep[:-1] * steep[1:] / divisor, 0.0)
    ends = _end_slope(h[0], h[1], steep[0], steep[1]), _end_slope(h[-1], h[-2], steep[-1], steep[-2])
    slope = np.array([ends[0], *inner, ends[1]])
    k = np.clip(np.searchsorted(places, at, side="right") - 1, 0, len(h) - 1)
    t = (at - places[k]) / h[k]
    bend = slope[k] + slope[k + 1] - 2.0 * steep[k]
    return values[k] + h[k] * t * (slope[k] + t * (steep[k] - slope[k] + (t - 1.0) * bend))


def _end_slope(h: float, next_h: float, steep: float, next_steep: float) -> float:
    slope = ((2.0 * h + next_h) * steep - h * next_steep) / (h + next_h)
    if slope * steep <= 0.0:
        return 0.0
    return 3.0 * steep if steep * next_steep <= 0.0 and abs(slope) > 3.0 * abs(steep) else slope


def _check(blade: Blade) -> None:
    lists = {"stations": blade.stations, "chord": blade.chord, "twist": blade.twist}
    for key, values in lists.items():
        if len(values) != len(blade.stations) or len(values) < 3:
            raise BladeError(f"{blade.name}: {key} has {len(values)} numbers: expected as many as stations, at least 3")
        if not all(math.isfinite(x) for x in values):
            raise BladeError(f"{blade.name}: {key} = {shown(values)}: expected finite numbers")
    steps = np.diff(blade.stations)
    if not (steps > 0.0).all() or not 0.0 < blade.stations[0] < 1.0 or abs(blade.stations[-1] - 1.0) > 1e-9:
        raise BladeError(f"{blade.name}: stations = {shown(blade.stations)}: expected r/R that grow from above 0 to 1")
    if min(blade.chord) < 0.0:
        raise BladeError(f"{blade.name}: chord = {min(blade.chord)}: expected c/R that is not negative")
    if blade.blades < 1:
        raise BladeError(f"{blade.name}: blades = {blade.blades}: expected at least 1")
    if not 0.0 < blade.radius < 100.0:
        raise BladeError(f"{blade.name}: radius = {blade.radius} m: expected a positive number")


# Files -------------------------------------------------------------------------------------------------------------


def blade_names() -> list[str]:
    """The names of the blades that come with Samara."""
    return sorted(
        entry.name[:-5] for entry in resources.files("samara.rotor").iterdir() if entry.name.endswith(".toml")
    )


def blade(name_or_path: str | Path) -> tuple[Blade, Measurement | None]:
    """A blade by its shipped name or from a .toml file, and what was measured on it where the file says so."""
    path = Path(name_or_path)
    if path.suffix == ".toml":
        try:
            text = read_text(path)
        except (OSError, UnicodeDecodeError) as error:
            raise BladeError(f"{path}: cannot be read ({error}); expected a blade file") from None
        return parse_blade(text, path.name)
    if str(name_or_path) in blade_names():
        entry = resources.files("samara.rotor").joinpath(f"{name_or_path}.toml")
        return parse_blade(entry.read_text(encoding="utf-8"), f"{name_or_path}.toml")
    raise BladeError(f"no blade {str(name_or_path)!r}; expected a .toml file or one of {', '.join(blade_names())}")


def parse_blade(text: str, origin: str) -> tuple[Blade, Measurement | None]:
    """A blade from the text of a file; `origin` is what errors call it."""
    try:
        entries = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise BladeError(f"{origin}: is not TOML ({error})") from None
    known = {"name", "family", "source", "blades", "radius", "stations", "chord", "twist", "measured"}
    for key in entries:
        if key not in known:
            only = ", ".join(sorted(known))
            raise BladeError(f"{origin}: {shown_key(key)} = {shown(entries[key])}: expected only the keys {only}")
    read = _Reader(entries, origin, "")
    own = Blade(
        name=read.text("name"),
        family=read.text("family"),
        blades=int(read.number("blades")),
        radius=read.number("radius"),
        stations=read.numbers("stations"),
        chord=read.numbers("chord"),
        twist=tuple(math.radians(x) for x in read.numbers("twist")),
        source=read.text("source"),
    )
    if "measured" not in entries:
        return own, None
    measured = _Reader(entries["measured"], origin, "measured.")
    columns = [np.array(measured.numbers(key)) for key in ("J", "rpm", "CT", "CP")]
    if len({len(column) for column in columns}) != 1:
        raise BladeError(f"{origin}: measured has columns of different lengths: expected J, rpm, CT, CP alike")
    return own, Measurement(*columns)


class _Reader(NamedTuple):
    entries: Any
    origin: str
    path: str

    def value(self, key: str, kind: str) -> Any:
        if not isinstance(self.entries, dict) or key not in self.entries:
            raise BladeError(f"{self.origin}: {self.path}{key} is missing: expected {kind}")
        return self.entries[key]

    def text(self, key: str) -> str:
        value = self.value(key, "a text")
        if not isinstance(value, str):
            raise BladeError(f"{self.origin}: {self.path}{key} = {shown(value)}: expected a text")
        return value

    def number(self, key: str) -> float:
        return _number(self.value(key, "a number"), f"{self.origin}: {self.path}{key}")

    def numbers(self, key: str) -> tuple[float, ...]:
        value = self.value(key, "a list of numbers")
        if not isinstance(value, list):
            raise BladeError(f"{self.origin}: {self.path}{key} = {shown(value)}: expected a list of numbers")
        return tuple(_number(each, f"{self.origin}: {self.path}{key}") for each in value)


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= LARGEST:
        raise BladeError(f"{where} = {shown(value)}: expected a finite number, at most {LARGEST:g} in size")
    return float(value)


def read_uiuc(folder: str | Path) -> dict[str, tuple[Blade, Measurement]]:
    """Every propeller of a folder with both geometry and measurements: volume1_geom.csv and volume1_exp.csv, or .csv.gz."""
    shapes: dict[str, list[tuple[float, float, float]]] = {}
    for row in _rows(Path(folder), _GEOMETRY, ("BladeName", "r/R", "c/R", "beta")):
        numbers = (_cell(row, "r/R"), _cell(row, "c/R"), math.radians(_cell(row, "beta")))
        shapes.setdefault(row["BladeName"], []).append(numbers)
    runs: dict[str, list[tuple[float, ...]]] = {}
    about: dict[str, tuple[str, str, int, float]] = {}
    for row in _rows(Path(folder), _PERFORMANCE, ("PropName", "BladeName", "Family", "B", "D", "J", "N", "CT", "CP")):
        if row["BladeName"] in shapes:
            about[row["PropName"]] = (row["BladeName"], row["Family"], int(_cell(row, "B")), _cell(row, "D"))
            runs.setdefault(row["PropName"], []).append(tuple(_cell(row, key) for key in ("J", "N", "CT", "CP")))
    found = {}
    for name, (shape, family, blades, diameter) in about.items():
        stations, chord, twist = zip(*sorted(shapes[shape]), strict=True)
        own = Blade(shape, family, blades, 0.5 * INCH * diameter, stations, chord, twist, "UIUC Propeller Data Site")
        found[shape if shape not in found else name] = (own, Measurement(*np.array(runs[name]).T))
    return found


def _rows(folder: Path, name: str, columns: tuple[str, ...]) -> Iterator[dict[str, str]]:
    path = next((p for p in (folder / name, folder / f"{name}.gz") if p.is_file()), None)
    if path is None:
        raise BladeError(f"{folder}: has no {name} or {name}.gz; expected the tables of the UIUC Propeller Data Site")
    reader = csv.DictReader(text_inside(path).splitlines())
    missing = set(columns) - set(reader.fieldnames or ())
    if missing:
        raise BladeError(f"{path}: has no column {', '.join(sorted(missing))}; expected {', '.join(columns)}")
    yield from reader


def _cell(row: dict[str, str], key: str) -> float:
    try:
        value = float(row[key])
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise BladeError(f"{row.get('BladeName')}: {key} = {row[key]!r}: expected a finite number")
    return value
