"""A race track: gates in order, poles, the bounds of the flight volume, and the uncertainty of each difficulty level.

    load_track("hall")
    load_track("my_track.toml")

At level 0 everything is as the file states. From level 1 on, mass and inertia differ from the vehicle file, the start position
varies and there is wind (`[disturbance]`). At level 2 gates and poles are displaced from their nominal poses as well, and
the drone learns their true poses only from close by (`[uncertainty]`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from samara.core.algebra import ZERO, Vec3
from samara.core.budget import resolve_sibling_path
from samara.core.sanitise import quote_value
from samara.core.toml import ShippedFiles, TomlFile, TomlTable, is_toml_path
from samara.core.toml import parse_document as parse_document
from samara.world.gates import Course, Gate, GateSize, is_outside

SCHEMA = 1
LEVELS = (0, 1, 2)
MAX_GATES, MAX_POLES, MAX_VIA_POINTS = 100, 100, 20
MAX_LENGTH = 1e4  # [m]
MAX_RELATIVE_CHANGE = 0.9  # relative change of the mass, and of the inertia


class TrackError(ValueError):
    """A track that cannot be used; the message is one sentence."""


TRACKS = ShippedFiles("track", "samara.tracks", TrackError)


class TrackDisturbance(NamedTuple):
    """Disturbances from level 1 on.

    `mass` and `inertia` are maximum relative changes. `start` is the maximum displacement of the start along
    each axis [m] (upwards only in height). `max_wind_speed` is that of the steady horizontal wind, of random direction, and
    `gust_sigma` the standard deviation of the turbulence [m/s].
    """

    mass: float = 0.0
    inertia: float = 0.0
    start: Vec3 = ZERO
    max_wind_speed: float = 0.0
    gust_sigma: float = 0.0


class TrackUncertainty(NamedTuple):
    """Uncertainty at level 2: maximum displacement of gates and poles along each axis [m], and rotation of gates [rad]."""

    gates: Vec3 = ZERO
    yaw: float = 0.0
    poles: Vec3 = ZERO


CALM, CERTAIN = TrackDisturbance(), TrackUncertainty()


@dataclass(frozen=True)
class Track:
    """Nominal poses of gates and poles, the start, the flight volume and the time limit [m, s].

    `via` holds, for each gate, points that a planner may fly through before it; they are optional hints.
    """

    name: str
    course: Course
    start_W: Vec3
    sizes: GateSize
    bounds_min_W: Vec3
    bounds_max_W: Vec3
    vehicle: str = "crazyflie"
    time_limit: float = 20.0
    pole_radius: float = 0.0
    detection_range: float = 1.0
    disturbance: TrackDisturbance = CALM
    uncertainty: TrackUncertainty = CERTAIN
    via: tuple[tuple[Vec3, ...], ...] = ()
    description: str = field(default="", compare=False)

    def __str__(self) -> str:
        return self.name

    @property
    def gates(self) -> tuple[Gate, ...]:
        return self.course.gates

    @property
    def poles(self) -> tuple[Vec3, ...]:
        return self.course.poles


def require_level(level: int) -> None:
    """Raise ValueError if the level does not exist."""
    if isinstance(level, bool) or level not in LEVELS:
        raise ValueError(f"level is {level!r}; expected one of {', '.join(map(str, LEVELS))}")


def track_names() -> list[str]:
    """Return the names of the tracks shipped with Samara."""
    return TRACKS.names()


def load_track(name_or_path: str | Path) -> Track:
    """Load a shipped track by name or a track from a file; raise TrackError with one sentence if it is invalid."""
    text, origin, folder = TRACKS.find(name_or_path)
    return parse_track(text, origin, folder)


def parse_track(text: str, origin: str, folder: Path | None = None) -> Track:
    """Parse a track from the text of a file.

    Args:
        text: the contents of the file.
        origin: the file name for error messages.
        folder: where the vehicle file named by the track is looked up. Without a folder, a track that names a vehicle file
            gets the vehicle "".
    """
    file = TomlTable(parse_document(text, origin, TrackError), TomlFile(origin, TrackError))
    file.schema(SCHEMA)
    name, description = file.text("name", Path(origin).stem), file.text("description", "")
    bounds_min, bounds_max = file.vector("bounds_min"), file.vector("bounds_max")
    if not all(a < b for a, b in zip(bounds_min, bounds_max, strict=True)):
        raise file.error("bounds_max", list(bounds_max), f"more than bounds_min, {list(bounds_min)}, along every axis")
    sizes = _gate_size(file)
    via, gates = _gates(file)
    poles = tuple(_pole(table) for table in _limited_tables(file, "poles", MAX_POLES))
    track = Track(
        name,
        Course(gates, poles),
        file.vector("start"),
        sizes,
        bounds_min,
        bounds_max,
        _vehicle_name(file, folder),
        file.number("time_limit", 20.0, above=0.0, upto=600.0),
        file.number("pole_radius", 0.01, above=0.0, upto=MAX_LENGTH),
        file.number("detection_range", 1.0, above=0.0, upto=MAX_LENGTH),
        _read_disturbance(file),
        _read_uncertainty(file),
        via,
        description,
    )
    file.finish()
    for key, p_W in (("start", track.start_W), *((f"gates[{k}].position", gate.p_W) for k, gate in enumerate(gates))):
        if is_outside(p_W, bounds_min, bounds_max):
            raise TrackError(
                f"{origin}: {key} = {list(p_W)}: expected a position between {list(bounds_min)} and {list(bounds_max)}"
            )
    return track


def _vehicle_name(file: TomlTable, folder: Path | None) -> str:
    """Return the name of a shipped vehicle, or the path of a file in the track's folder."""
    name = file.text("vehicle", "crazyflie")
    if not is_toml_path(name):
        return name
    try:
        return str(resolve_sibling_path(folder, name)) if folder is not None else ""
    except ValueError as error:
        raise file.make_error(f" = {quote_value(name)}: {error}", "vehicle") from None


def _gates(file: TomlTable) -> tuple[tuple[tuple[Vec3, ...], ...], tuple[Gate, ...]]:
    tables = _limited_tables(file, "gates", MAX_GATES)
    if not tables:
        raise file.missing_error("gates", "at least one [[gates]]")
    via, gates = [], []
    for table in tables:
        points = table.take("via", "a list of points", [])
        if not isinstance(points, list) or len(points) > MAX_VIA_POINTS:
            raise table.error("via", points, f"a list of up to {MAX_VIA_POINTS} points of three numbers")
        via.append(tuple(table.parse_vector("via", point, i) for i, point in enumerate(points)))
        gates.append(table.call(_gate))
    return tuple(via), tuple(gates)


def _gate(position: Vec3, yaw: float) -> Gate:
    return Gate(Vec3(*position), float(yaw))


def _pole(table: TomlTable) -> Vec3:
    top = table.vector("top")
    table.finish()
    return top


def _limited_tables(file: TomlTable, key: str, max_count: int) -> Sequence[TomlTable]:
    tables = file.tables(key)
    if len(tables) > max_count:
        raise file.error(key, f"{len(tables)} tables", f"at most {max_count}")
    return tables


def _gate_size(file: TomlTable) -> GateSize:
    opening_size, frame_size = (_width_and_height(file, key) for key in ("opening_size", "frame_size"))
    if not all(a < b for a, b in zip(opening_size, frame_size, strict=True)):
        raise file.error("frame_size", list(frame_size), f"more than opening_size, {list(opening_size)}")
    return GateSize(opening_size, frame_size)


def _width_and_height(file: TomlTable, key: str) -> tuple[float, float]:
    numbers = file.numbers(key)
    if len(numbers) != 2 or not all(0.0 < x <= MAX_LENGTH for x in numbers):
        raise file.error(key, list(numbers), "two positive numbers, width and height")
    return numbers[0], numbers[1]


def _read_disturbance(file: TomlTable) -> TrackDisturbance:
    table = file.optional_table("disturbance")
    if table is None:
        return CALM
    disturbance = TrackDisturbance(
        _magnitude(table, "mass", MAX_RELATIVE_CHANGE),
        _magnitude(table, "inertia", MAX_RELATIVE_CHANGE),
        _max_displacement(table, "start"),
        _magnitude(table, "max_wind_speed", 100.0),
        _magnitude(table, "gust_sigma", 100.0),
    )
    table.finish()
    return disturbance


def _read_uncertainty(file: TomlTable) -> TrackUncertainty:
    table = file.optional_table("uncertainty")
    if table is None:
        return CERTAIN
    uncertainty = TrackUncertainty(
        _max_displacement(table, "gates"), _magnitude(table, "yaw", 3.2), _max_displacement(table, "poles")
    )
    table.finish()
    return uncertainty


def _magnitude(table: TomlTable, key: str, max_value: float) -> float:
    value = table.number(key, 0.0)
    if not 0.0 <= value <= max_value:
        raise table.error(key, value, f"a number from 0 to {max_value:g}")
    return value


def _max_displacement(table: TomlTable, key: str) -> Vec3:
    value = table.vector(key, (0.0, 0.0, 0.0))
    if not all(0.0 <= x <= MAX_LENGTH for x in value):
        raise table.error(key, list(value), "three numbers that are not negative")
    return value
