"""The first difference between two runs, and the distances between them."""

from typing import NamedTuple

import numpy as np

from samara.core.types import Array
from samara.record.metrics.recorded import array_sum, distance_between
from samara.record.run import Run
from samara.record.streams import RecordedStream

MAX_NAMED_DRONES = 6  # drones that are named one by one


class Difference(NamedTuple):
    """The first difference of two runs: drone, stream, field, time, and both values (None if one run has no such row)."""

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


def describe_vehicle_differences(a: Run, b: Run) -> str:
    """Describe which drones have different vehicles in the two runs; "" if all are the same.

    Vehicles are compared by their files: vehicles of the same name may have different parameters.
    """
    differences = []
    for record_a, record_b in zip(a.drone_records, b.drone_records, strict=False):
        if record_a.vehicle.name != record_b.vehicle.name:
            differences.append(f"{record_a.name} is {record_a.vehicle.name} and {record_b.vehicle.name}")
        elif _vehicle_file(a, record_a.name) != _vehicle_file(b, record_b.name):
            differences.append(f"{record_a.name} is {record_a.vehicle.name} with other parameters")
    return "; ".join(differences[:MAX_NAMED_DRONES]) + (
        f"; and {len(differences) - MAX_NAMED_DRONES} more" if len(differences) > MAX_NAMED_DRONES else ""
    )


def _vehicle_file(run: Run, drone: str) -> bytes:
    return run.attachments.get(f"vehicle/{drone}.toml", b"")


def first_difference(a: Run, b: Run) -> Difference | None:
    """Return the earliest difference, bit for bit; None if every value of every common stream is the same."""
    names = [[drone_record.name for drone_record in run.drone_records] for run in (a, b)]
    if names[0] != names[1]:
        raise ValueError(f"the runs have different drones: {', '.join(names[0])} and {', '.join(names[1])}")
    differences = [
        difference
        for record_a, record_b in zip(a.drone_records, b.drone_records, strict=True)
        for stream in record_a.tables
        if stream in record_b.tables
        for difference in _stream_differences(record_a.name, stream, record_a.tables[stream], record_b.tables[stream])
    ]
    return min(differences, key=lambda difference: difference.time_us, default=None)


def _stream_differences(drone: str, stream: str, table_a: RecordedStream, table_b: RecordedStream) -> list[Difference]:
    if table_a.fields != table_b.fields or table_a.rows.shape[1] != table_b.rows.shape[1]:
        field = next(
            (x for x in (*table_a.fields, *table_b.fields) if (x in table_a.fields) != (x in table_b.fields)),
            next(iter(table_a.fields), "pixel"),
        )
        return [Difference(drone, stream, f"{field} (only in one)", 0, None, None)]
    rows = min(len(table_a.times_us), len(table_b.times_us))
    different_rows = np.flatnonzero(
        (table_a.times_us[:rows] != table_b.times_us[:rows])
        | (_bits(table_a.rows[:rows]) != _bits(table_b.rows[:rows])).any(axis=1)
    )
    if len(different_rows):
        row = int(different_rows[0])
        columns = np.flatnonzero(_bits(table_a.rows[row]) != _bits(table_b.rows[row]))
        column = int(columns[0]) if len(columns) else 0
        values = float(table_a.rows[row, column]), float(table_b.rows[row, column])
        field = table_a.fields[column] if table_a.fields else f"pixel[{column}]"
        return [Difference(drone, stream, field, int(min(table_a.times_us[row], table_b.times_us[row])), *values)]
    if len(table_a.times_us) != len(table_b.times_us):
        longer = table_a if len(table_a.times_us) > rows else table_b
        return [Difference(drone, stream, "", int(longer.times_us[rows]), None, None)]
    return []


def _bits(rows: Array) -> Array:
    return np.ascontiguousarray(rows, dtype=np.float64).view(np.int64)


class Distance(NamedTuple):
    """The distance between two runs of a drone: RMS and largest difference of position [m] and attitude [deg]."""

    drone: str
    position_rms: float
    position_max: float
    attitude_max_deg: float


def distances(a: Run, b: Run) -> list[Distance]:
    """Compute the distance of each drone, at the times that both runs have logged."""
    result = []
    for record_a, record_b in zip(a.drone_records, b.drone_records, strict=True):
        _, i, j = np.intersect1d(
            record_a.tables["state"].times_us, record_b.tables["state"].times_us, return_indices=True
        )
        distance = distance_between(record_a.position[i], record_b.position[j])
        cosine = np.abs((record_a.attitude[i] * record_b.attitude[j]).sum(axis=1))
        attitude_difference = 2.0 * np.degrees(np.arccos(np.clip(cosine, 0.0, 1.0)))
        result.append(
            Distance(record_a.name, array_sum(distance**2).rms, float(distance.max()), float(attitude_difference.max()))
        )
    return result
