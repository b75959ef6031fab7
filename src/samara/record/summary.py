"""What a person asks of a flight first, as numbers with their units: how well it followed, how it ended, how hard it worked.

told = run.summary()
told["tracking error, RMS"].value   # 0.0112, in
told["tracking error, RMS"].unit    # "m"
print(told)                         # the table: tracking error, RMS   1.12 cm
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from samara.core.presentation import present
from samara.record.figures import ORDERED

if TYPE_CHECKING:
    from samara.record.run import Run, Track

PRINTED = 6  # drones that have a line of their own
LENGTHS = ((0.01, 1e3, "mm"), (1.0, 1e2, "cm"), (1e4, 1.0, "m"), (math.inf, 1e-3, "km"))  # below [m], factor, unit
DECIMALS = {"°": 1, "°/s": 0, "rad/s": 0, "%": 1, "s": 2, "m/s": 2, "V": 2, "A": 1}


class Measure(NamedTuple):
    """A number with its name and unit, or a word. `text` is how it is told: a length in mm, cm or m as its size asks for."""

    name: str
    value: Any
    unit: str = ""
    note: str = ""

    @property
    def text(self) -> str:
        return formatted(self.value, self.unit) + self.note


class Summary(Mapping[str, Measure]):
    """Measures by their names, in order; printed as a table."""

    def __init__(self, measures: Iterable[Measure]) -> None:
        self._own = {own.name: own for own in measures}

    def __getitem__(self, name: str) -> Measure:
        if name not in self._own:
            raise KeyError(f"no measure {name!r}; there are {', '.join(map(repr, self._own))}")
        return self._own[name]

    def __contains__(self, name: object) -> bool:
        return name in self._own

    def __iter__(self) -> Iterator[str]:
        return iter(self._own)

    def __len__(self) -> int:
        return len(self._own)

    def __repr__(self) -> str:
        width = max(map(len, self._own), default=0)
        return "\n".join(f"{own.name:{width}s}  {own.text}" for own in self._own.values())

    def _repr_html_(self) -> str:
        return str(present("Summary.html", self))


def table_of(summaries: Iterable[Mapping[str, Measure]], missing: str = "") -> list[tuple[str, ...]]:
    """Rows of several summaries beside each other: the name, then what each tells of it"""
    columns = list(summaries)
    names = dict.fromkeys(name for own in columns for name in own)
    return [(name, *(own[name].text if name in own else missing for own in columns)) for name in names]


def formatted(value: Any, unit: str) -> str:
    """A number with its unit, as a person writes it; a vector in brackets"""
    if isinstance(value, (str, int)):
        return f"{value} {unit}".rstrip()
    if isinstance(value, tuple):
        return "({}) {}".format(", ".join(f"{round(x, 2) + 0.0:.2f}" for x in value), unit)
    if unit == "m":
        return length(value)
    if unit == "J" and abs(value) >= 1e3:
        return formatted(1e-3 * value, "kJ")
    number = f"{value:.{DECIMALS[unit]}f}" if unit in DECIMALS else f"{value:.3g}"
    return f"{number}{unit}" if unit == "°" else f"{number} {unit}" if unit else number


def length(value: float) -> str:
    """In the unit that leaves a few digits before the point: 1.25 mm, 12.5 cm, 1.25 m, 12.5 km"""
    factor, unit = length_unit(value)
    return f"{factor * value:.2f} {unit}"


def length_unit(value: float) -> tuple[float, str]:
    """How many of a unit a metre is, and its name: that of a length so large  [m]"""
    return next((factor, unit) for below, factor, unit in LENGTHS if not abs(value) >= below)


def tracking(track: "Track") -> list[Measure]:
    """The error while it flew, and how it ended: how far beside the spot it landed on, or off its reference in the air"""
    own, found = track.figures, []
    if own.error.number:
        found = [
            Measure("tracking error, RMS", own.error.root, "m"),
            Measure("tracking error, largest", own.worst.value, "m", f" at {own.worst.time:.2f} s"),
        ]
    if not own.in_the_air.total:
        return [*found, Measure("took off", "never")]
    if track.controller in ORDERED and track.landed and own.asked_to_fly.value:
        return found  # its own failsafe brought it down, where it chose
    has_reference = math.isfinite(own.off.value[1])
    return [*found, _ending(track)] if has_reference else found


def _ending(track: "Track") -> Measure:
    off, error = track.figures.off.value
    if track.landed:
        return Measure("landing error, horizontal", float(np.hypot(off[0], off[1])), "m")
    return Measure("final position error", error, "m")


def flight_time(track: "Track") -> Measure:
    """From the first logged state to the last"""
    return Measure("flight time", track.figures.ended.value - track.figures.began.value, "s")


def summary(track: "Track") -> Summary:
    """The measures of one drone that are printed after a flight"""
    own = track.figures
    place = tuple(float(x) for x in own.position.value)
    rows = [
        Measure("vehicle", track.vehicle.name),
        Measure("controller", track.controller),
        flight_time(track),
        Measure("final position", place, "m"),
        *tracking(track),
        Measure("tilt, largest", math.degrees(own.tilt.value), "°"),
    ]
    if track.vehicle.rotors:
        rows.append(Measure("rotor speed, largest", own.rotor_speed.value, "rad/s"))
    if own.charge.value is not None:
        rows.append(Measure("charge left", 100.0 * own.charge.value, "%"))
    if track.commands_cut:
        rows.append(Measure("commands out of range", track.commands_cut))
    return Summary(rows)


def one_line(track: "Track") -> str:
    """What flew, by whom, how well and where to"""
    own = summary(track)
    names = ("tracking error, RMS", "landing error, horizontal", "final position error", "took off")
    found = [f"{name} {own[name].text}" for name in names if name in own]
    place = f"ends at {own['final position'].text}"
    return ", ".join([f"{track.vehicle.name} flown by {track.controller}", place, *found])


def several_lines(run: "Run") -> str:
    """A run as it is printed: what it was, a line for each of its first drones, what happened last"""
    count, time = len(run.tracks), float(run.tracks[0].time[-1])
    many = "1 drone" if count == 1 else f"{count} drones"
    lines = [
        f"Run {run.scenario}: {many}, {time:.1f} s, {len(run.logs)} {'line' if len(run.logs) == 1 else 'lines'} of log"
    ]
    lines += [f"  {track.name}: {one_line(track)}" for track in run.tracks[:PRINTED]]
    if count > PRINTED:
        lines.append(f"  and {count - PRINTED} drones more")
    if run.problem:
        lines.append(f"  {run.problem}")
    return "\n".join(lines)
