"""When and where two runs first differ, and by how much."""

from typing import NamedTuple

import numpy as np

from samara.core.types import Array
from samara.record.metrics.recorded import distance_between, sum_of
from samara.record.run import Run
from samara.record.streams import Table

FEW = 6  # drones that are named one by one


class Difference(NamedTuple):
    """The first difference of two runs: which drone, stream and field, when, and both values (None where one has no more)."""

    drone: str
    stream: str
    field: str
    time_us: int
    first: float | None
    second: float | None

    def __str__(self) -> str:
        time = f"at {self.time_us / 1e6:.6f} s"
        if self.field == "":
            return f"{self.drone} {self.stream}: one run ends {time}"
        return f"{self.drone} {self.stream} {self.field} {time}: {self.first!r} and {self.second!r}"


def different_vehicles(a: Run, b: Run) -> str:
    """Which drones are other vehicles in the two runs, in words; "" when all are the same

    Two vehicles are the same when their files are: the name alone may hide another mass.
    """
    told = []
    for one, two in zip(a.tracks, b.tracks, strict=False):
        if one.vehicle.name != two.vehicle.name:
            told.append(f"{one.name} is {one.vehicle.name} and {two.vehicle.name}")
        elif _file(a, one.name) != _file(b, two.name):
            told.append(f"{one.name} is {one.vehicle.name} with other numbers")
    return "; ".join(told[:FEW]) + (f"; and {len(told) - FEW} more" if len(told) > FEW else "")


def _file(run: Run, drone: str) -> bytes:
    return run.attachments.get(f"vehicle/{drone}.toml", b"")


def first_difference(a: Run, b: Run) -> Difference | None:
    """The earliest difference, bit for bit; None when every number of every common stream is the same"""
    names = [[track.name for track in run.tracks] for run in (a, b)]
    if names[0] != names[1]:
        raise ValueError(f"the runs have other drones: {', '.join(names[0])} and {', '.join(names[1])}")
    found = [
        each
        for one, two in zip(a.tracks, b.tracks, strict=True)
        for stream in one.tables
        if stream in two.tables
        for each in _in_stream(one.name, stream, one.tables[stream], two.tables[stream])
    ]
    return min(found, key=lambda own: own.time_us, default=None)


def _in_stream(drone: str, stream: str, one: Table, two: Table) -> list[Difference]:
    if one.fields != two.fields:
        other = next((x for x in (*one.fields, *two.fields) if (x in one.fields) != (x in two.fields)), one.fields[0])
        return [Difference(drone, stream, f"{other} (only in one)", 0, None, None)]
    rows = min(len(one.times_us), len(two.times_us))
    differs = np.flatnonzero(
        (one.times_us[:rows] != two.times_us[:rows]) | (_bits(one.rows[:rows]) != _bits(two.rows[:rows])).any(axis=1)
    )
    if len(differs):
        row = int(differs[0])
        columns = np.flatnonzero(_bits(one.rows[row]) != _bits(two.rows[row]))
        column = int(columns[0]) if len(columns) else 0
        values = float(one.rows[row, column]), float(two.rows[row, column])
        return [Difference(drone, stream, one.fields[column], int(min(one.times_us[row], two.times_us[row])), *values)]
    if len(one.times_us) != len(two.times_us):
        longer = one if len(one.times_us) > rows else two
        return [Difference(drone, stream, "", int(longer.times_us[rows]), None, None)]
    return []


def _bits(rows: Array) -> Array:
    return np.ascontiguousarray(rows, dtype=np.float64).view(np.int64)


class Distance(NamedTuple):
    """How far apart two runs of a drone are: RMS and largest difference of position [m] and attitude [deg]"""

    drone: str
    position_rms: float
    position_max: float
    attitude_max_deg: float


def distances(a: Run, b: Run) -> list[Distance]:
    """Drone by drone, at the times both have logged"""
    found = []
    for one, two in zip(a.tracks, b.tracks, strict=True):
        _, i, j = np.intersect1d(one.tables["state"].times_us, two.tables["state"].times_us, return_indices=True)
        gap = distance_between(one.position[i], two.position[j])
        cosine = np.abs((one.attitude[i] * two.attitude[j]).sum(axis=1))
        turn = 2.0 * np.degrees(np.arccos(np.clip(cosine, 0.0, 1.0)))
        found.append(Distance(one.name, sum_of(gap**2).rms, float(gap.max()), float(turn.max())))
    return found
