"""A CSV of anybody's, with a map that says which column is what, in TOML or as a dictionary:

    time = "t"
    time_unit = "s"                  # s, ms, us or ns
    motors = ["m1", "m2", "m3", "m4"]
    motor_range = [1000, 2000]       # the values of no thrust and of all of it; 0 and 1 by default
    numbering = "px4"                # whose order the motors have; "samara": that of the vehicle's file
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
    axes = "flu/enu"                 # body and world; "frd/ned" is turned
    truth = "motion capture"         # or "estimate": what position, velocity and attitude are from

Only `time` and `motors` must be there. Cells may be empty: a signal has the rows in which it has a value, so that signals may
have their own rates. The map of a ROS 2 bag has topics in the place of columns.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from samara.core.referenced_files import read_text
from samara.core.toml import File, Table, document
from samara.identify.flight_log import ESTIMATE, MOTION_CAPTURE, FlightLog, Signal
from samara.identify.readers.csv_columns import read_columns
from samara.identify.readers.log_signals import DEGREE, RPM, G, enu, enu_attitude, flu
from samara.vehicles.rotor_numbering import NUMBERINGS

_VECTORS = {"position": 3, "velocity": 3, "attitude": 4, "rate": 3, "specific_force": 3}
_UNITS = {
    "time": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9},
    "rotor_speed": {"rad/s": 1.0, "rpm": RPM},
    "rate": {"rad/s": 1.0, "deg/s": DEGREE},
    "specific_force": {"m/s^2": 1.0, "g": G},
}
_TURNED = {"position": enu, "velocity": enu, "attitude": enu_attitude, "rate": flu, "specific_force": flu}
SYSTEMS = tuple(dict.fromkeys(["samara", *(own for frame in NUMBERINGS.values() for own in frame)]))


class ColumnMap(NamedTuple):
    """Which columns are what; the factor of each signal to SI; the motors' range and order; whether axes are to be turned"""

    columns: dict[str, tuple[str, ...]]
    factors: dict[str, float]
    motor_range: tuple[float, float]
    numbering: str
    xyzw: bool
    turned: bool
    truth: str


def read(path: Path, columns: str | Path | Mapping[str, Any]) -> list[FlightLog]:
    """The one flight of a CSV, by the map of its columns"""
    own = column_map(columns)
    wanted = dict.fromkeys(name for names in own.columns.values() for name in names)
    table = read_columns(path, tuple(wanted), "the columns that the map names")
    (clock,) = own.columns["time"]
    found = {name: table.signal(clock, names) for name, names in own.columns.items() if name != "time"}
    return [flight(path.name.partition(".")[0], "csv", found, own)]


def flight(name: str, kind: str, found: dict[str, Signal], own: ColumnMap) -> FlightLog:
    """A log from the columns as they are in the file"""
    low, high = own.motor_range
    signals: dict[str, Any] = {}
    for key, (time, values) in found.items():
        values = own.factors.get(key, 1.0) * values
        if key == "motors":
            values = (values - low) / (high - low)
        if key == "attitude" and own.xyzw:
            values = values[[3, 0, 1, 2]]
        if own.turned and key in _TURNED:
            values = _TURNED[key](values)
        signals["command" if key == "motors" else key] = Signal(own.factors["time"] * time, values)
    truth = own.truth if {"position", "attitude"} & signals.keys() else ""
    return FlightLog(name, kind, own.numbering, truth=truth, **signals)


def column_map(given: str | Path | Mapping[str, Any]) -> ColumnMap:
    """The map of a TOML file or a dictionary; ValueError naming the key that is wrong"""
    table = given_table(given, "columns")
    columns = {"time": _names(table, "time", 1), "motors": _names(table, "motors", 0)}
    columns |= {key: _names(table, key, count) for key, count in _VECTORS.items() if key in table}
    if "rotor_speed" in table:
        columns["rotor_speed"] = _names(table, "rotor_speed", len(columns["motors"]))
    if "voltage" in table:
        columns["voltage"] = _names(table, "voltage", 1)
    factors = {key: units[table.text(f"{key}_unit", next(iter(units)), units)] for key, units in _UNITS.items()}
    own = ColumnMap(
        columns,
        factors,
        range_of(table),
        table.text("numbering", "samara", SYSTEMS),
        table.text("quaternion", "wxyz", ("wxyz", "xyzw")) == "xyzw",
        table.text("axes", "flu/enu", ("flu/enu", "frd/ned")) == "frd/ned",
        table.text("truth", MOTION_CAPTURE, (MOTION_CAPTURE, ESTIMATE)),
    )
    table.finish()
    return own


def _names(table: Table, key: str, count: int) -> tuple[str, ...]:
    """The columns of a key: so many, any number for 0; one may be written without brackets"""
    expected = "a list of columns" if count == 0 else "a column" if count == 1 else f"a list of {count} columns"
    value = table.take(key, expected)
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not names or not all(isinstance(own, str) for own in names):
        raise table.error(key, value, expected)
    if count and len(names) != count:
        raise table.error(key, value, expected)
    return tuple(names)


def given_table(given: str | Path | Mapping[str, Any], name: str) -> Table:
    """The map of a TOML file, or of a dictionary that errors call `name`"""
    if isinstance(given, Mapping):
        return Table(dict(given), File(name, ValueError))
    try:
        return Table(document(read_text(Path(given)), str(given)), File(str(given), ValueError))
    except UnicodeDecodeError:
        raise ValueError(f"{given}: is no text; expected TOML in UTF-8") from None


def range_of(table: Table) -> tuple[float, float]:
    """The values of a motor's command that are no thrust and all of it; 0 and 1 where the map says nothing"""
    given = table.numbers("motor_range") if "motor_range" in table else (0.0, 1.0)
    if len(given) != 2 or given[0] == given[1]:
        raise table.error("motor_range", list(given), "two different numbers: those of no thrust and of all")
    return given[0], given[1]
