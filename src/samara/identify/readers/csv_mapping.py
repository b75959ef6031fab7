"""Read a CSV of any layout with a map of its columns, in TOML or as a dictionary:

    time = "t"
    time_unit = "s"                  # s, ms, us or ns
    motors = ["m1", "m2", "m3", "m4"]
    motor_range = [1000, 2000]       # the values of zero and full thrust; 0 and 1 by default
    numbering = "px4"                # the order of the motors; "samara": that of the vehicle file
    rotor_speed = ["w1", "w2", "w3", "w4"]
    rotor_speed_unit = "rpm"         # rpm or rad/s
    position = ["x", "y", "z"]       # m
    velocity = ["vx", "vy", "vz"]    # m/s, in world axes
    attitude = ["qw", "qx", "qy", "qz"]
    quaternion = "wxyz"              # or "xyzw": the order of these columns
    rate = ["gx", "gy", "gz"]
    rate_unit = "deg/s"              # deg/s or rad/s
    specific_force = ["ax", "ay", "az"]
    specific_force_unit = "g"        # g or m/s^2
    voltage = "vbat"
    voltage_unit = "V"               # V or mV
    axes = "flu/enu"                 # body and world; "frd/ned" is converted
    truth = "motion capture"         # or "estimate": the source of position, velocity and attitude

Only `time` and one of `motors` and `rotor_speed` are required. Cells may be empty: a signal has the rows in which it has a
value, so that signals may have different rates. The map of a ROS 2 bag has topics instead of columns.
"""

import csv
import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from samara.core.budget import (
    MAX_LINE_BYTES,
    Budget,
    bounded_lines,
    decompressed_limit,
    format_byte_count,
    open_bounded,
    read_text,
)
from samara.core.sanitise import quote_value
from samara.core.toml import TomlFile, TomlTable, parse_document
from samara.core.types import Array
from samara.identify.flight_log import ESTIMATE, MOTION_CAPTURE, FlightLog, Signal
from samara.identify.readers.registry import DEGREE, NO_COMMAND, RPM, G, enu_attitude, enu_rows, flu_rows
from samara.vehicles.rotor_numbering import NUMBERINGS

MAX_CELLS = 20_000_000  # of the columns read: two hours of 25 columns at 100 Hz


class CsvColumns(NamedTuple):
    """The selected columns (columns, n), NaN for an empty cell, and the mask of cells that are not empty."""

    names: tuple[str, ...]
    values: Array
    is_present: Array

    def signal(self, time: str, names: Sequence[str], scale: float = 1.0) -> Signal:
        """Return the rows in which any of these columns has a value, with their times."""
        indices = [self.names.index(name) for name in names]
        rows = self.is_present[indices].any(axis=0)
        return Signal(self.values[self.names.index(time), rows], scale * self.values[indices][:, rows])


def read_heading(path: Path) -> list[str]:
    """Return the names of the columns."""
    return next(_lines(path, _budget(path)), [])


def _budget(path: Path) -> Budget:
    return Budget(path, max_bytes=decompressed_limit(path.stat().st_size), max_nodes=MAX_CELLS)


def read_columns(path: Path, names: Sequence[str], expected: str) -> CsvColumns:
    """Read these columns; raise ValueError naming the file and the column or line that is missing or not a number."""
    budget = _budget(path)
    lines = _lines(path, budget)
    heading: list[str] = next(lines, [])
    missing = [name for name in names if heading.count(name) != 1]
    if missing:
        problem = "has more than one" if missing[0] in heading else "has no"
        raise ValueError(f"{path}: {problem} column {quote_value(missing[0])}; expected {expected}")
    indices = [heading.index(name) for name in names]
    cells, is_present = array("d"), bytearray()
    last = 1  # the line of the last row that is not blank
    for number, line in enumerate(lines, start=2):
        if not line:
            continue
        try:
            row = [line[index] for index in indices] if number == last + 1 else []
            cells.extend([float(cell or math.nan) for cell in row])
        except (ValueError, IndexError):
            row = []
        if not row:
            raise ValueError(f"{path}: line {last + 1} is not a row of numbers; expected one for each column") from None
        is_present.extend([cell != "" for cell in row])
        budget.spend_nodes(len(row), "cells")
        last = number
    shape = (-1, len(indices))
    table = np.frombuffer(cells, dtype=float).reshape(shape).T
    return CsvColumns(tuple(names), table, np.frombuffer(is_present, dtype=bool).reshape(shape).T)


def _lines(path: Path, budget: Budget) -> Iterator[list[str]]:
    """Yield the rows of cells, [] for a blank line; one row may span several lines of text."""
    with open_bounded(path, budget) as stream:
        pending = 0  # bytes of the row that is being read

        def texts() -> Iterator[str]:
            nonlocal pending
            for number, line in enumerate(bounded_lines(stream, budget), start=1):
                pending += len(line)
                if pending > MAX_LINE_BYTES:
                    raise budget.overrun(f"line {number} has a row that is too long", format_byte_count(MAX_LINE_BYTES))
                try:
                    yield line.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    raise ValueError(f"{path}: line {number} is not UTF-8 text ({error}); expected a CSV") from None

        reader = csv.reader(texts())
        while True:
            try:
                cells = [cell.strip() for cell in next(reader)]
            except StopIteration:
                return
            except csv.Error as error:
                raise ValueError(f"{path}: line {reader.line_num} is not CSV ({error})") from None
            pending = 0
            yield cells if cells != [""] else []


_VECTOR_LENGTHS = {"position": 3, "velocity": 3, "attitude": 4, "rate": 3, "specific_force": 3}
_UNITS = {
    "time": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9},
    "rotor_speed": {"rad/s": 1.0, "rpm": RPM},
    "rate": {"rad/s": 1.0, "deg/s": DEGREE},
    "specific_force": {"m/s^2": 1.0, "g": G},
    "voltage": {"V": 1.0, "mV": 1e-3},
}
_AXIS_CONVERSIONS = {
    "position": enu_rows,
    "velocity": enu_rows,
    "attitude": enu_attitude,
    "rate": flu_rows,
    "specific_force": flu_rows,
}
NUMBERING_NAMES = tuple(dict.fromkeys(["samara", *(name for frame in NUMBERINGS.values() for name in frame)]))


class ColumnMap(NamedTuple):
    """The columns of each signal, the factor of each signal to SI, the motor range and order, and whether to convert axes."""

    columns: dict[str, tuple[str, ...]]
    factors: dict[str, float]
    motor_range: tuple[float, float]
    numbering: str
    xyzw: bool
    convert_axes: bool
    truth: str


def read(path: Path, columns: str | Path | Mapping[str, object]) -> list[FlightLog]:
    """Read the one flight of a CSV with the map of its columns."""
    mapping = column_map(columns)
    names_in_use = dict.fromkeys(name for names in mapping.columns.values() for name in names)
    table = read_columns(path, tuple(names_in_use), "the columns that the map names")
    (clock,) = mapping.columns["time"]
    signals = {name: table.signal(clock, names) for name, names in mapping.columns.items() if name != "time"}
    return [build_log(path.name.partition(".")[0], "csv", signals, mapping)]


def build_log(name: str, format_name: str, raw_signals: dict[str, Signal], mapping: ColumnMap) -> FlightLog:
    """Convert the columns of the file to a log."""
    low, high = mapping.motor_range
    signals: dict[str, Any] = {}
    for key, (time, values) in raw_signals.items():
        values = mapping.factors.get(key, 1.0) * values
        if key == "motors":
            values = (values - low) / (high - low)
        if key == "attitude" and mapping.xyzw:
            values = values[[3, 0, 1, 2]]
        if mapping.convert_axes and key in _AXIS_CONVERSIONS:
            values = _AXIS_CONVERSIONS[key](values)
        signals["command" if key == "motors" else key] = Signal(mapping.factors["time"] * time, values)
    truth = mapping.truth if {"position", "attitude"} & signals.keys() else ""
    return FlightLog(name, format_name, mapping.numbering, truth=truth, **{"command": NO_COMMAND} | signals)


def column_map(source: str | Path | Mapping[str, object]) -> ColumnMap:
    """Read the map from a TOML file or a dictionary; raise ValueError naming an invalid key."""
    table = map_table(source, "columns")
    columns = {"time": _column_names(table, "time", 1)}
    if "motors" in table or "rotor_speed" not in table:
        columns["motors"] = _column_names(table, "motors", 0)
    columns |= {key: _column_names(table, key, count) for key, count in _VECTOR_LENGTHS.items() if key in table}
    if "rotor_speed" in table:
        columns["rotor_speed"] = _column_names(table, "rotor_speed", len(columns.get("motors", ())))
    if "voltage" in table:
        columns["voltage"] = _column_names(table, "voltage", 1)
    factors = {key: units[table.text(f"{key}_unit", next(iter(units)), units)] for key, units in _UNITS.items()}
    mapping = ColumnMap(
        columns,
        factors,
        motor_range(table),
        table.text("numbering", "samara", NUMBERING_NAMES),
        table.text("quaternion", "wxyz", ("wxyz", "xyzw")) == "xyzw",
        table.text("axes", "flu/enu", ("flu/enu", "frd/ned")) == "frd/ned",
        table.text("truth", MOTION_CAPTURE, (MOTION_CAPTURE, ESTIMATE)),
    )
    table.finish()
    return mapping


def _column_names(table: TomlTable, key: str, count: int) -> tuple[str, ...]:
    """Return the column names of a key: `count` of them, any count for 0; a single one may be written without
    brackets."""
    expected = "a list of columns" if count == 0 else "a column" if count == 1 else f"a list of {count} columns"
    value = table.take(key, expected)
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not names or not all(isinstance(name, str) for name in names):
        raise table.error(key, value, expected)
    if count and len(names) != count:
        raise table.error(key, value, expected)
    return tuple(names)


def map_table(source: str | Path | Mapping[str, object], name: str) -> TomlTable:
    """Return the map of a TOML file, or of a dictionary that errors call `name`."""
    if isinstance(source, Mapping):
        return TomlTable(dict(source), TomlFile(name, ValueError))
    try:
        return TomlTable(parse_document(read_text(Path(source)), str(source)), TomlFile(str(source), ValueError))
    except UnicodeDecodeError:
        raise ValueError(f"{source}: is not text; expected TOML in UTF-8") from None


def motor_range(table: TomlTable) -> tuple[float, float]:
    """Return the motor commands of zero and full thrust; 0 and 1 by default."""
    bounds = table.numbers("motor_range") if "motor_range" in table else (0.0, 1.0)
    if len(bounds) != 2 or bounds[0] == bounds[1]:
        raise table.error("motor_range", list(bounds), "two different numbers: those of zero and full thrust")
    return bounds[0], bounds[1]
