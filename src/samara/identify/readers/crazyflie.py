"""Logs of the Crazyflie's firmware: its µSD card's, and CSV under the same names (`motor.m1`, or `motor_m1`).

A µSD log is the byte 0xBC; the version and the number of event types (uint16 each); for each type its id (uint16), its name,
the number of its variables (uint16) and each as `name(x)`, x a letter of Python's `struct`, all names closed by a zero byte.
Then come records: the id of the type, the time (version 1: uint32 in ms, version 2: uint64 in µs), the packed variables. The
CRC-32 of all that ends the file.

Flights of a brushed Crazyflie 2.1 from NanoBench (S. I. Ullah, J. Baca, arXiv 2603.09908) are 100 Hz CSV, often gzipped.
Position and attitude are from Vicon: z up, quaternion (x, y, z, w) from body to world. Velocity is the derivative of position,
fitted over 11 samples, and the rate that of the attitude. The motors' PWM is the ratio at the transistor, after the firmware
has made up for the battery's voltage. The accelerometer is in g, the gyroscope in rad/s.
"""

import math
import re
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from samara.core.algebra import Quat, Vec3, conjugate, euler_from_quat, normalize, quat_from_euler, rotate
from samara.core.ops import piecewise_linear
from samara.core.quantity import Scalar
from samara.core.sanitise import shown
from samara.core.types import Array
from samara.identify.flight_log import ESTIMATE, MOTION_CAPTURE, FlightLog, Signal
from samara.identify.readers.csv_mapping import heading_of, read_columns
from samara.identify.readers.registry import DEGREE, RPM, G, records, signal

FULL = 65535.0  # PWM that is all of the battery's voltage
MAGIC = 0xBC
_CLOCKS = {1: ("<u4", 1e-3), 2: ("<u8", 1e-6)}  # by version: how a time is written, and its unit [s]
_LETTERS = "bBhHiIlLqQefd?"
_TIMES = ("timestamp", "time", "tick", "timeTick")  # what a CSV calls the time [ms]

Find = Callable[[Sequence[str]], Signal | None]  # variables of one record, by the firmware's names


class Source(NamedTuple):
    """Variables that together are a signal, and the factor to our unit"""

    names: tuple[str, ...]
    factor: float = 1.0


def _axes(group: str, factor: float = 1.0, letters: Sequence[str] = "xyz") -> Source:
    return Source(tuple(f"{group}.{letter}" for letter in letters), factor)


_MOTORS = ("m1", "m2", "m3", "m4")
_QUATERNION = ("qw", "qx", "qy", "qz")
_COMMAND = _axes("motor", 1.0 / FULL, _MOTORS)
_SOURCES = {  # the first that a log has
    "rotor_speed": (_axes("rpm", RPM, _MOTORS),),
    "rate": (_axes("gyro", DEGREE),),
    "specific_force": (_axes("acc", G),),
    "voltage": (Source(("pm.vbat",)), Source(("pm.vbatMV",), 1e-3)),
}
_POSES: dict[
    str, dict[str, tuple[Source, ...]]
] = {  # motion capture that was sent to the vehicle; else its own estimate
    MOTION_CAPTURE: {"position": (_axes("locSrv"),), "attitude": (_axes("locSrv", 1.0, _QUATERNION),)},
    ESTIMATE: {
        "position": (_axes("stateEstimate"), _axes("kalman", 1.0, ("stateX", "stateY", "stateZ"))),
        "velocity": (_axes("stateEstimate", 1.0, ("vx", "vy", "vz")),),
        "attitude": (
            _axes("stateEstimate", 1.0, _QUATERNION),
            _axes("kalman", 1.0, ("q0", "q1", "q2", "q3")),
        ),
    },
}
_EULER = _axes("stateEstimate", DEGREE, ("roll", "pitch", "yaw"))  # the firmware's pitch is positive nose up


def read(path: Path, columns: object = None) -> list[FlightLog]:
    """The one flight of a log"""
    with path.open("rb") as file:
        packed = file.read(1) == bytes([MAGIC])
    return [_read_card(path) if packed else _read_csv(path)]


def _log(path: Path, kind: str, find: Find, notes: tuple[str, ...] = ()) -> FlightLog:
    command = _first(find, (_COMMAND,))
    if command is None:
        raise ValueError(f"{path}: holds no motors; expected motor.m1 … motor.m4 among its variables")
    found: dict[str, Signal | None] = {name: _first(find, sources) for name, sources in _SOURCES.items()}
    for truth, poses in _POSES.items():
        found |= {name: _first(find, sources) for name, sources in poses.items()}
        if truth == ESTIMATE and found["attitude"] is None:
            found["attitude"] = _from_angles(find)
        if any(found[name] for name in poses):
            break
    held: dict[str, Any] = {name: own for name, own in found.items() if own is not None}
    known = truth if {"position", "attitude"} & held.keys() else ""
    return FlightLog(path.name.partition(".")[0], kind, "crazyflie", command, truth=known, notes=notes, **held)


def _first(find: Find, sources: Sequence[Source]) -> Signal | None:
    for source in sources:
        found = find(source.names)
        if found is not None:
            return Signal(found.time, source.factor * found.values)
    return None


def _from_angles(find: Find) -> Signal | None:
    found = _first(find, (_EULER,))
    if found is None:
        return None
    roll, pitch, yaw = found.values
    return signal(found.time, quat_from_euler(roll, -pitch, yaw))


# CSV ---------------------------------------------------------------------------------------------------------------


def _read_csv(path: Path) -> FlightLog:
    called = {name.replace("_", ".", 1): name for name in heading_of(path)}
    clock = next((called[name] for name in _TIMES if name in called), None)
    if clock is None:
        raise ValueError(f"{path}: has no time; expected a column {', '.join(_TIMES[:-1])} or {_TIMES[-1]} in ms")
    every = [*_SOURCES.values(), *(own for poses in _POSES.values() for own in poses.values()), (_COMMAND, _EULER)]
    wanted = {name for sources in every for source in sources for name in source.names} & called.keys()
    table = read_columns(path, [clock, *(called[name] for name in sorted(wanted))], "a Crazyflie's log")

    def find(names: Sequence[str]) -> Signal | None:
        if not set(names) <= wanted:
            return None
        time, values = table.signal(clock, [called[name] for name in names])
        return Signal(1e-3 * time, values)

    return _log(path, "crazyflie_csv", find)


# The µSD card's -----------------------------------------------------------------------------------------------------


def _read_card(path: Path) -> FlightLog:
    data = path.read_bytes()
    try:
        version, types, at = _head(data)
    except (struct.error, ValueError, IndexError) as error:
        raise ValueError(f"{path}: its head makes no sense ({error}); expected a whole Crazyflie µSD log") from None
    offsets, end = _offsets(data, types, at)
    notes: tuple[str, ...] = ()
    left = data[end:]
    if len(left) != 4:
        notes = (f"it ends within a record or is damaged: {len(left)} bytes after byte {end} are left out",)
    elif zlib.crc32(data[:end]) != struct.unpack("<I", left)[0]:
        notes = ("its checksum is not that of its bytes: some of them may be wrong",)
    unit = _CLOCKS[version][1]
    tables = [records(data, own, types[number]) for number, own in offsets.items() if own]

    def find(names: Sequence[str]) -> Signal | None:
        for table in tables:
            if set(names) <= set(table.dtype.names or ()):
                return signal(unit * table["time"], [table[name] for name in names])
        return None

    return _log(path, "crazyflie", find, notes)


def _head(data: bytes) -> tuple[int, Mapping[int, np.dtype[np.void]], int]:
    """The version, the record of each event type, and where records begin"""
    version, count = struct.unpack_from("<HH", data, 1)
    if version not in _CLOCKS:
        raise ValueError(f"version {version}, not 1 or 2")
    at, types = 5, {}
    for _ in range(count):
        (number,) = struct.unpack_from("<H", data, at)
        _, at = _name(data, at + 2)
        (variables,) = struct.unpack_from("<H", data, at)
        at += 2
        fields = [("event", "<u2"), ("time", _CLOCKS[version][0])]
        for _ in range(variables):
            text, at = _name(data, at)
            parts = re.fullmatch(rf"(.+)\(([{_LETTERS}])\)", text)
            if parts is None:
                raise ValueError(f"a variable {shown(text)}, not name(type)")
            fields.append((parts[1], "<" + parts[2].replace("l", "i").replace("L", "I")))
        types[number] = np.dtype(fields)
    return version, types, at


def _name(data: bytes, at: int) -> tuple[str, int]:
    """The text that a zero byte closes, and where the next begins"""
    end = data.index(0, at, at + 256)
    return data[at:end].decode("ascii"), end + 1


def _offsets(data: bytes, types: Mapping[int, np.dtype[np.void]], at: int) -> tuple[dict[int, list[int]], int]:
    """Where the records of each type are, up to the last whole one, and where that ends"""
    offsets: dict[int, list[int]] = {number: [] for number in types}
    sizes = {number: own.itemsize for number, own in types.items()}
    last = len(data) - 4
    while at < last:
        number = data[at] | data[at + 1] << 8
        size = sizes.get(number)
        if size is None or at + size > last:
            break
        offsets[number].append(at)
        at += size
    return offsets, at


# Bitcraze, Crazyflie 2.0 thrust measurements (2015): PWM [%], supply [V], rotor speed [rpm]
THRUST_TABLE = (
    (0.0, 4.01, 0.0),
    (6.25, 3.98, 4485.0),
    (12.5, 3.95, 7570.0),
    (18.75, 3.92, 9374.0),
    (25.0, 3.88, 10885.0),
    (31.25, 3.84, 12277.0),
    (37.5, 3.80, 13522.0),
    (43.25, 3.76, 14691.0),
    (50.0, 3.71, 15924.0),
    (56.25, 3.67, 17174.0),
    (62.5, 3.65, 18179.0),
    (68.75, 3.62, 19397.0),
    (75.0, 3.56, 20539.0),
    (81.25, 3.48, 21692.0),
    (87.5, 3.40, 22598.0),
    (93.75, 3.30, 23882.0),
)
MOTOR_VOLTS = tuple(percent / 100.0 * volts for percent, volts, _ in THRUST_TABLE)
SPEEDS = tuple(rpm * math.pi / 30.0 for *_, rpm in THRUST_TABLE)

_COLUMNS = (
    *("t", "px", "py", "pz", "vx", "vy", "vz", "qw", "qx", "qy", "qz", "wx_vicon", "wy_vicon", "wz_vicon"),
    *("motor_motor_m1", "motor_motor_m2", "motor_motor_m3", "motor_motor_m4", "pwr_pm_vbat"),
)
_IMU = tuple(f"imu_{sensor}_{axis}" for sensor in ("acc", "gyro") for axis in "xyz")
_REST_SAMPLES = 50  # at the start, before take-off
_AT_REST = 0.02  # [m/s]


def _markers_lean(rows: Array) -> Quat:
    """q_MB: from the axes of the vehicle as it stood level before take-off to those of its markers"""
    q_WM = normalize(Quat(*rows[7:11, :_REST_SAMPLES]))
    standing = normalize(Quat(*(float(np.mean(component)) for component in q_WM)))
    return conjugate(conjugate(quat_from_euler(0.0, 0.0, euler_from_quat(standing).yaw)) * standing)


def _nanobench_name(path: Path) -> str:
    return path.name.partition(".")[0]


def read_nanobench(path: Path, columns: object = None) -> list[FlightLog]:
    """One flight as it is in the file, whatever its numbers: judging them is for the log check

    The rate is motion capture's, on the clock of the positions, as the benchmark scores it: the gyroscope's clock is another.
    The body's axes are those in which it stood level before take-off, where it stood: the markers' own frame leans by up to
    2.5° against the floor, and the accelerometer in flight agrees with the floor.
    """
    table = read_columns(path, (*_COLUMNS, *_IMU), "a NanoBench flight")
    rows, n = table.values, len(_COLUMNS)
    time = rows[0]
    notes: tuple[str, ...] = ()
    q_WB, omega_B = Quat(*rows[7:11]), Vec3(*rows[11:14])
    before = rows[:, :_REST_SAMPLES]
    if np.isfinite(before).all() and np.abs(before[4:7]).max(initial=0.0) <= _AT_REST:
        q_MB = _markers_lean(rows)
        q_WB, omega_B = q_WB * q_MB, rotate(conjugate(q_MB), omega_B)
    else:
        notes = ("it does not stand at the start: its axes are those of the markers",)
    return [
        FlightLog(
            _nanobench_name(path),
            "nanobench",
            "crazyflie",
            Signal(time, rows[14:18] / FULL),
            position=Signal(time, rows[1:4]),
            velocity=Signal(time, rows[4:7]),
            attitude=signal(time, q_WB),
            rate=signal(time, omega_B),
            specific_force=Signal(time, G * rows[n : n + 3]),
            voltage=Signal(time, rows[18:19]),
            truth=MOTION_CAPTURE,
            notes=notes,
        )
    ]


def rotor_speed_from_pwm(pwm: Scalar, voltage: Scalar) -> Scalar:
    """Ω(V_m), V_m = V_bat PWM / 65535: the speed a motor settles at, after Bitcraze's table of 2015  [rad/s]"""
    return piecewise_linear(voltage * pwm / FULL, MOTOR_VOLTS, SPEEDS)
