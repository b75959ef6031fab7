"""A race track: gates in order, poles, the bounds of the flight volume, and the uncertainty of each difficulty level.

    load_track("hall")
    load_track("my_track.toml")

At level 0 everything is as the file states. From level 1 on, mass and inertia differ from the vehicle file, the start position
varies and there is wind (`[disturbed]`). At level 2 gates and poles are displaced from their nominal poses as well, and
the drone learns their true poses only from close by (`[uncertain]`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from samara.core.algebra import ZERO, Vec3
from samara.core.budget import path_beside
from samara.core.sanitise import shown
from samara.core.toml import File, Shipped, Table, is_file
from samara.core.toml import document as parse_document
from samara.world.gates import Course, Gate, Sizes, is_outside

SCHEMA = 1
LEVELS = (0, 1, 2)
MOST_GATES, MOST_POLES, MOST_VIA = 100, 100, 20
LARGEST = 1e4  # [m]
LARGEST_SHARE = 0.9  # relative change of the mass, and of the inertia


class TrackError(ValueError):
    """A track that cannot be used; the message is one sentence."""


TRACKS = Shipped("track", "samara.tracks", TrackError)


class Disturbed(NamedTuple):
    """Disturbances from level 1 on.

    `mass` and `inertia` are maximum relative changes. `start` is the maximum displacement of the start along each axis [m]
    (upwards only in height). `wind` is the maximum steady horizontal wind, of random direction, and `gusts` the standard
    deviation of the turbulence [m/s].
    """

    mass: float = 0.0
    inertia: float = 0.0
    start: Vec3 = ZERO
    wind: float = 0.0
    gusts: float = 0.0


class Uncertain(NamedTuple):
    """Uncertainty at level 2: maximum displacement of gates and poles along each axis [m], and rotation of gates [rad]."""

    gates: Vec3 = ZERO
    yaw: float = 0.0
    poles: Vec3 = ZERO


CALM, CERTAIN = Disturbed(), Uncertain()


@dataclass(frozen=True)
class Track:
    """Nominal poses of gates and poles, the start, the flight volume and the time limit [m, s].

    `via` holds, for each gate, points that a planner may fly through before it; they are optional hints.
    """

    name: str
    course: Course
    start_W: Vec3
    sizes: Sizes
    low_W: Vec3
    high_W: Vec3
    vehicle: str = "crazyflie"
    seconds: float = 20.0
    pole_radius: float = 0.0
    seen_within: float = 1.0
    disturbed: Disturbed = CALM
    uncertain: Uncertain = CERTAIN
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
    file = Table(parse_document(text, origin, TrackError), File(origin, TrackError))
    file.schema(SCHEMA)
    name, description = file.text("name", Path(origin).stem), file.text("description", "")
    low, high = file.vector("low"), file.vector("high")
    if not all(a < b for a, b in zip(low, high, strict=True)):
        raise file.error("high", list(high), f"more than low, {list(low)}, along every axis")
    sizes = _sizes(file)
    via, gates = _gates(file)
    poles = tuple(_pole(table) for table in _few(file, "poles", MOST_POLES))
    track = Track(
        name,
        Course(gates, poles),
        file.vector("start"),
        sizes,
        low,
        high,
        _vehicle(file, folder),
        file.number("seconds", 20.0, above=0.0, upto=600.0),
        file.number("pole_radius", 0.01, above=0.0, upto=LARGEST),
        file.number("seen_within", 1.0, above=0.0, upto=LARGEST),
        _read_disturbance(file),
        _read_uncertainty(file),
        via,
        description,
    )
    file.finish()
    for key, p_W in (("start", track.start_W), *((f"gates[{k}].at", gate.p_W) for k, gate in enumerate(gates))):
        if is_outside(p_W, low, high):
            raise TrackError(f"{origin}: {key} = {list(p_W)}: expected a position between {list(low)} and {list(high)}")
    return track


def _vehicle(file: Table, folder: Path | None) -> str:
    """Return the name of a shipped vehicle, or the path of a file in the track's folder."""
    name = file.text("vehicle", "crazyflie")
    if not is_file(name):
        return name
    try:
        return str(path_beside(folder, name)) if folder is not None else ""
    except ValueError as error:
        raise file.wrong(f" = {shown(name)}: {error}", "vehicle") from None


def _gates(file: Table) -> tuple[tuple[tuple[Vec3, ...], ...], tuple[Gate, ...]]:
    tables = _few(file, "gates", MOST_GATES)
    if not tables:
        raise file.missing("gates", "at least one [[gates]]")
    via, gates = [], []
    for table in tables:
        points = table.take("via", "a list of points", [])
        if not isinstance(points, list) or len(points) > MOST_VIA:
            raise table.error("via", points, f"a list of up to {MOST_VIA} points of three numbers")
        via.append(tuple(table.three("via", point, i) for i, point in enumerate(points)))
        gates.append(table.call(_gate))
    return tuple(via), tuple(gates)


def _gate(at: Vec3, yaw: float) -> Gate:
    return Gate(Vec3(*at), float(yaw))


def _pole(table: Table) -> Vec3:
    top = table.vector("top")
    table.finish()
    return top


def _few(file: Table, key: str, max_count: int) -> Sequence[Table]:
    tables = file.tables(key)
    if len(tables) > max_count:
        raise file.error(key, f"{len(tables)} tables", f"at most {max_count}")
    return tables


def _sizes(file: Table) -> Sizes:
    opening, frame = (_pair(file, key) for key in ("opening", "frame"))
    if not all(a < b for a, b in zip(opening, frame, strict=True)):
        raise file.error("frame", list(frame), f"more than the opening, {list(opening)}")
    return Sizes(opening, frame)


def _pair(file: Table, key: str) -> tuple[float, float]:
    numbers = file.numbers(key)
    if len(numbers) != 2 or not all(0.0 < x <= LARGEST for x in numbers):
        raise file.error(key, list(numbers), "two positive numbers, width and height")
    return numbers[0], numbers[1]


def _read_disturbance(file: Table) -> Disturbed:
    table = file.optional_table("disturbed")
    if table is None:
        return CALM
    disturbance = Disturbed(
        _size(table, "mass", LARGEST_SHARE),
        _size(table, "inertia", LARGEST_SHARE),
        _spread(table, "start"),
        _size(table, "wind", 100.0),
        _size(table, "gusts", 100.0),
    )
    table.finish()
    return disturbance


def _read_uncertainty(file: Table) -> Uncertain:
    table = file.optional_table("uncertain")
    if table is None:
        return CERTAIN
    uncertainty = Uncertain(_spread(table, "gates"), _size(table, "yaw", 3.2), _spread(table, "poles"))
    table.finish()
    return uncertainty


def _size(table: Table, key: str, max_value: float) -> float:
    value = table.number(key, 0.0)
    if not 0.0 <= value <= max_value:
        raise table.error(key, value, f"a number from 0 to {max_value:g}")
    return value


def _spread(table: Table, key: str) -> Vec3:
    value = table.vector(key, (0.0, 0.0, 0.0))
    if not all(0.0 <= x <= LARGEST for x in value):
        raise table.error(key, list(value), "three numbers that are not negative")
    return value
