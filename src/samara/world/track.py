"""A track of a race: gates in their order, poles, a hall to stay in, and how much of it is uncertain at which level.

    load_track("hall")
    load_track("my_track.toml")

At level 0 all is as the file says. From level 1 on mass and inertia are not those of the vehicle's file, the start not exactly
where it should be, and the air moves (`[disturbed]`). At level 2 gates and poles are not where they were said to be either, and
are seen only from near by (`[uncertain]`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from samara.core.algebra import ZERO, Vec3
from samara.core.budget import path_beside
from samara.core.sanitise import shown
from samara.core.toml import File, Shipped, Table, is_file
from samara.core.toml import document as tables_of
from samara.world.gates import Course, Gate, Sizes, is_outside

SCHEMA = 1
LEVELS = (0, 1, 2)
MOST_GATES, MOST_POLES, MOST_VIA = 100, 100, 20
LARGEST = 1e4  # [m]
LARGEST_SHARE = 0.9  # of the mass, and of the inertia


class TrackError(ValueError):
    """One sentence about a track that cannot be raced on."""


TRACKS = Shipped("track", "samara.tracks", TrackError)


class Disturbed(NamedTuple):
    """From level 1 on: mass and inertia differ by up to these shares, the start by up to `start` [m] along each axis (upwards
    alone in height), a steady wind of up to `wind` comes from anywhere on the horizon, with `gusts` of that deviation [m/s]"""

    mass: float = 0.0
    inertia: float = 0.0
    start: Vec3 = ZERO
    wind: float = 0.0
    gusts: float = 0.0


class Uncertain(NamedTuple):
    """At level 2: gates and poles are off by up to so much along each axis [m], and gates turned by up to `yaw` [rad]"""

    gates: Vec3 = ZERO
    yaw: float = 0.0
    poles: Vec3 = ZERO


CALM, CERTAIN = Disturbed(), Uncertain()


@dataclass(frozen=True)
class Track:
    """Where gates and poles are said to be, where a drone starts, and where it may be until the time is over [m, s].

    `via` has, for each gate, points that a plan flies through before it: a hint, which nobody has to take.
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
    """ValueError where there is no such level"""
    if isinstance(level, bool) or level not in LEVELS:
        raise ValueError(f"level is {level!r}; expected one of {', '.join(map(str, LEVELS))}")


def track_names() -> list[str]:
    """The names of the tracks that come with Samara"""
    return TRACKS.names()


def load_track(name_or_path: str | Path) -> Track:
    """A track by its shipped name or from a file; TrackError with one sentence about what is wrong with it"""
    text, origin, folder = TRACKS.find(name_or_path)
    return parse_track(text, origin, folder)


def parse_track(text: str, origin: str, folder: Path | None = None) -> Track:
    """A track from the text of a file; `origin` is what errors call it, `folder` where the vehicle may be that it names.

    Without a folder a track of a vehicle's file has no vehicle: "".
    """
    file = Table(tables_of(text, origin, TrackError), File(origin, TrackError))
    file.schema(SCHEMA)
    name, description = file.text("name", Path(origin).stem), file.text("description", "")
    low, high = file.vector("low"), file.vector("high")
    if not all(a < b for a, b in zip(low, high, strict=True)):
        raise file.error("high", list(high), f"more than low, {list(low)}, along every axis")
    sizes = _sizes(file)
    via, gates = _gates(file)
    poles = tuple(_pole(own) for own in _few(file, "poles", MOST_POLES))
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
        _disturbed(file),
        _uncertain(file),
        via,
        description,
    )
    file.finish()
    for what, p_W in (("start", track.start_W), *((f"gates[{k}].at", own.p_W) for k, own in enumerate(gates))):
        if is_outside(p_W, low, high):
            raise TrackError(f"{origin}: {what} = {list(p_W)}: expected a place between {list(low)} and {list(high)}")
    return track


def _vehicle(file: Table, folder: Path | None) -> str:
    """A shipped vehicle's name, or the path of a file beside the track."""
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
        raise file.missing("gates", "one [[gates]] at least")
    via, gates = [], []
    for table in tables:
        points = table.take("via", "a list of points", [])
        if not isinstance(points, list) or len(points) > MOST_VIA:
            raise table.error("via", points, f"a list of up to {MOST_VIA} points of three numbers")
        via.append(tuple(table.three("via", each, i) for i, each in enumerate(points)))
        gates.append(table.call(_gate))
    return tuple(via), tuple(gates)


def _gate(at: Vec3, yaw: float) -> Gate:
    return Gate(Vec3(*at), float(yaw))


def _pole(table: Table) -> Vec3:
    top = table.vector("top")
    table.finish()
    return top


def _few(file: Table, key: str, most: int) -> Sequence[Table]:
    tables = file.tables(key)
    if len(tables) > most:
        raise file.error(key, f"{len(tables)} of them", f"at most {most}")
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


def _disturbed(file: Table) -> Disturbed:
    table = file.optional_table("disturbed")
    if table is None:
        return CALM
    own = Disturbed(
        _size(table, "mass", LARGEST_SHARE),
        _size(table, "inertia", LARGEST_SHARE),
        _spread(table, "start"),
        _size(table, "wind", 100.0),
        _size(table, "gusts", 100.0),
    )
    table.finish()
    return own


def _uncertain(file: Table) -> Uncertain:
    table = file.optional_table("uncertain")
    if table is None:
        return CERTAIN
    own = Uncertain(_spread(table, "gates"), _size(table, "yaw", 3.2), _spread(table, "poles"))
    table.finish()
    return own


def _size(table: Table, key: str, most: float) -> float:
    value = table.number(key, 0.0)
    if not 0.0 <= value <= most:
        raise table.error(key, value, f"a number from 0 to {most:g}")
    return value


def _spread(table: Table, key: str) -> Vec3:
    value = table.vector(key, (0.0, 0.0, 0.0))
    if not all(0.0 <= x <= LARGEST for x in value):
        raise table.error(key, list(value), "three numbers that are not negative")
    return value
