"""Waypoints in a CSV file: x, y, z in metres, and optionally a yaw in degrees and a time in seconds.

The first line may name the columns, in any order: x,y,z[,yaw][,time]. Without names they are x, y, z, then yaw, then time.
"""

import csv
import math
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from samara.core.algebra import Vec3
from samara.core.budget import Budget, read_bytes
from samara.core.sanitise import escape_control_characters, quote_value

MAX_FILE_BYTES = 1 << 20
MAX_WAYPOINTS = 1000
MAX_PATH_M = 10_000.0  # along straight lines
MAX_DURATION_S = 3600.0  # a plan is checked at every millisecond
COLUMNS = ("x", "y", "z", "yaw", "time")


class WaypointFile(NamedTuple):
    """Positions [m] and, if the file has them, a yaw [rad] and a time [s] for each."""

    points: tuple[Vec3, ...]
    yaws: tuple[float, ...] = ()
    times: tuple[float, ...] = ()


def read_waypoints(path: str | Path) -> WaypointFile:
    """Read the waypoints of a file; messages of ValueError contain the line number."""
    budget = Budget(path, max_bytes=MAX_FILE_BYTES, max_nodes=MAX_WAYPOINTS)
    try:
        data = read_bytes(Path(path))
        budget.spend_bytes(len(data))
        text = data.decode("utf-8-sig")
        lines = [
            (number, [cell.strip() for cell in row])
            for number, row in enumerate(csv.reader(text.splitlines()), start=1)
            if row and any(cell.strip() for cell in row) and not row[0].lstrip().startswith("#")
        ]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path}: cannot be read ({error}); expected lines of x,y,z[,yaw][,time]") from None
    if not lines:
        raise ValueError(f"{path}: has no waypoints; expected lines of x,y,z[,yaw][,time]")
    names = [cell.lower() for cell in lines[0][1]]
    if any(name.isidentifier() and name not in ("nan", "inf", "infinity") for name in names):
        unknown = [name for name in names if name not in COLUMNS]
        if unknown or len(set(names)) < len(names) or not {"x", "y", "z"} <= set(names):
            given_names = escape_control_characters(", ".join(names))[:120]
            raise ValueError(
                f"{path}: line {lines[0][0]} names the columns {given_names}; expected x, y, z and optionally yaw, time"
            )
        lines = lines[1:]
    else:
        names = list(COLUMNS[: len(names)])
    budget.spend_nodes(len(lines), "waypoints")
    rows = [_row(path, number, cells, names) for number, cells in lines]
    if len(rows) < 2:
        raise ValueError(f"{path}: has {len(rows)} waypoints; expected at least 2")
    path_length = sum(math.dist([a[axis] for axis in "xyz"], [b[axis] for axis in "xyz"]) for a, b in pairwise(rows))
    if not path_length <= MAX_PATH_M:
        raise ValueError(f"{path}: has a path of {path_length:g} m; expected at most {MAX_PATH_M:g} m")
    for (number, _), previous, current in zip(lines[1:], rows, rows[1:], strict=False):
        if "time" not in names and all(previous[axis] == current[axis] for axis in "xyz"):
            raise ValueError(f"{path}: line {number} repeats the previous position; expected another one, or times")
        if "time" in names and not current["time"] > previous["time"]:
            raise ValueError(
                f"{path}: line {number} has time {current['time']:g}; expected a time after {previous['time']:g}"
            )
    if "time" in names and rows[-1]["time"] - rows[0]["time"] > MAX_DURATION_S:
        raise ValueError(
            f"{path}: lasts {rows[-1]['time'] - rows[0]['time']:g} s; expected at most {MAX_DURATION_S:g} s"
        )
    return WaypointFile(
        tuple(Vec3(row["x"], row["y"], row["z"]) for row in rows),
        tuple(math.radians(row["yaw"]) for row in rows) if "yaw" in names else (),
        tuple(row["time"] for row in rows) if "time" in names else (),
    )


def leg_durations(file: WaypointFile) -> list[float]:
    """Durations from each waypoint to the next  [s]"""
    return [end - start for start, end in pairwise(file.times)]


def _row(path: str | Path, number: int, cells: list[str], names: list[str]) -> dict[str, float]:
    if len(cells) != len(names) or len(cells) < 3:
        raise ValueError(f"{path}: line {number} has {len(cells)} values; expected {max(len(names), 3)}")
    row = {}
    for name, cell in zip(names, cells, strict=True):
        try:
            row[name] = float(cell)
        except ValueError:
            row[name] = math.nan
        if not math.isfinite(row[name]):
            raise ValueError(f"{path}: line {number} has {name} = {quote_value(cell)}; expected a finite number")
    return row
