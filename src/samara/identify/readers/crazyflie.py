"""Logs of the Crazyflie firmware: from the µSD card, and CSV with the same names (`motor.m1`, or `motor_m1`).

Motors are `motor.m1`, or `pwm.m1_pwm`, which is the same after the limits; `stateEstimateZ` is the estimate in mm.

A µSD log is the byte 0xBC; the version and the count of event types (uint16 each); for each type its id (uint16), its name,
the count of its variables (uint16) and each as `name(x)`, x a letter of Python's `struct`, all names closed by a zero byte.
Then come records: the id of the type, the time (version 1: uint32 in ms, version 2: uint64 in µs), the packed variables. The
CRC-32 of all these bytes ends the file.

Flights of a brushed Crazyflie 2.1 from NanoBench (S. I. Ullah, J. Baca, arXiv 2603.09908) are 100 Hz CSV, often gzipped.
Position and attitude are from Vicon: z up, quaternion (x, y, z, w) from body to world. Velocity is the derivative of position,
fitted over 11 samples, and the rate that of the attitude. The motors' PWM is the duty at the transistor, after the firmware
has compensated the battery voltage. The accelerometer is in g, the gyroscope in rad/s.
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
from samara.core.sanitise import quote_value
from samara.core.types import Array
from samara.identify.flight_log import ESTIMATE, MOTION_CAPTURE, FlightLog, Signal
from samara.identify.readers.csv_mapping import read_columns, read_heading
from samara.identify.readers.registry import DEGREE, NO_COMMAND, RPM, G, records, signal

MAX_PWM = 65535.0  # PWM of the full battery voltage
MAGIC = 0xBC
_CLOCKS = {1: ("<u4", 1e-3), 2: ("<u8", 1e-6)}  # by version: the type of a time, and its unit [s]
_LETTERS = "bBhHiIlLqQefd?"
_TIMES = ("timestamp", "Timestamp", "time", "tick", "timeTick")  # names of the time column of a CSV [ms]

Find = Callable[[Sequence[str]], Signal | None]  # variables of one record, by the firmware's names


class SignalSource(NamedTuple):
    """Variables that form a signal, and the factor to SI."""

    names: tuple[str, ...]
    factor: float | Array = 1.0


def _axes(group: str, factor: float = 1.0, letters: Sequence[str] = "xyz") -> SignalSource:
    return SignalSource(tuple(f"{group}.{letter}" for letter in letters), factor)


_MOTORS = ("m1", "m2", "m3", "m4")
_QUATERNION = ("qw", "qx", "qy", "qz")
_COMMANDS = (
    _axes("motor", 1.0 / MAX_PWM, _MOTORS),
    _axes("pwm", 1.0 / MAX_PWM, tuple(f"{motor}_pwm" for motor in _MOTORS)),
    _axes("pwm", 1.0 / MAX_PWM, _MOTORS),
    _axes("motor", 1.0 / MAX_PWM, tuple(f"{motor}req" for motor in _MOTORS)),
)
_COMPRESSED_RATES = tuple(f"stateEstimateZ.rate{axis}" for axis in ("Roll", "Pitch", "Yaw"))  # mrad/s, pitch nose down
_SOURCES = {  # in order of preference: the first source that a log has is used
    "rotor_speed": (_axes("rpm", RPM, _MOTORS),),
    "rate": (_axes("gyro", DEGREE), SignalSource(_COMPRESSED_RATES, 1e-3 * np.array([[1.0], [-1.0], [1.0]]))),
    "specific_force": (_axes("acc", G),),
    "voltage": (SignalSource(("pm.vbat",)), SignalSource(("pm.vbatMV",), 1e-3)),
}
_POSES: dict[str, dict[str, tuple[SignalSource, ...]]] = {  # motion capture sent to the vehicle; else its estimate
    MOTION_CAPTURE: {"position": (_axes("locSrv"),), "attitude": (_axes("locSrv", 1.0, _QUATERNION),)},
    ESTIMATE: {
        "position": (
            _axes("stateEstimate"),
            _axes("kalman", 1.0, ("stateX", "stateY", "stateZ")),
            _axes("stateEstimateZ", 1e-3),
        ),
        "velocity": (
            _axes("stateEstimate", 1.0, ("vx", "vy", "vz")),
            _axes("stateEstimateZ", 1e-3, ("vx", "vy", "vz")),
        ),
        "attitude": (
            _axes("stateEstimate", 1.0, _QUATERNION),
            _axes("kalman", 1.0, ("q0", "q1", "q2", "q3")),
        ),
    },
}
_EULER = tuple(
    _axes(group, DEGREE, ("roll", "pitch", "yaw")) for group in ("stateEstimate", "stabilizer")
)  # pitch nose up


def read(path: Path, columns: object = None) -> list[FlightLog]:
    """Read the one flight of a log."""
    with path.open("rb") as file:
        is_binary = file.read(1) == bytes([MAGIC])
    return [_read_card(path) if is_binary else _read_csv(path)]


def _build_log(path: Path, format_name: str, find: Find, notes: tuple[str, ...] = ()) -> FlightLog:
    command = _first_signal(find, _COMMANDS)
    if command is None and _first_signal(find, _SOURCES["rotor_speed"]) is None:
        raise ValueError(
            f"{path}: holds no motors; expected motor.m1 … motor.m4, pwm.m1_pwm … pwm.m4_pwm or rpm.m1 … rpm.m4"
        )
    command = command or NO_COMMAND
    candidates: dict[str, Signal | None] = {name: _first_signal(find, sources) for name, sources in _SOURCES.items()}
    for truth, poses in _POSES.items():
        candidates |= {name: _first_signal(find, sources) for name, sources in poses.items()}
        if truth == ESTIMATE and candidates["attitude"] is None:
            candidates["attitude"] = _euler_attitude(find)
        if any(candidates[name] for name in poses):
            break
    signals: dict[str, Any] = {name: candidate for name, candidate in candidates.items() if candidate is not None}
    signal_truth = truth if {"position", "attitude"} & signals.keys() else ""
    return FlightLog(
        path.name.partition(".")[0], format_name, "crazyflie", command, truth=signal_truth, notes=notes, **signals
    )


def _first_signal(find: Find, sources: Sequence[SignalSource]) -> Signal | None:
    for source in sources:
        variables = find(source.names)
        if variables is not None:
            return Signal(variables.time, source.factor * variables.values)
    return None


def _euler_attitude(find: Find) -> Signal | None:
    angles = _first_signal(find, _EULER)
    if angles is None:
        return None
    roll, pitch, yaw = angles.values
    return signal(angles.time, quat_from_euler(roll, -pitch, yaw))


# CSV ---------------------------------------------------------------------------------------------------------------


def _read_csv(path: Path) -> FlightLog:
    columns = {name if "." in name else name.replace("_", ".", 1): name for name in read_heading(path)}
    clock = next((columns[name] for name in _TIMES if name in columns), None)
    if clock is None:
        raise ValueError(f"{path}: has no time; expected a column {', '.join(_TIMES[:-1])} or {_TIMES[-1]} in ms")
    all_sources = [
        *_SOURCES.values(),
        *(sources for poses in _POSES.values() for sources in poses.values()),
        (*_COMMANDS, *_EULER),
    ]
    available = {name for sources in all_sources for source in sources for name in source.names} & columns.keys()
    table = read_columns(path, [clock, *(columns[name] for name in sorted(available))], "a Crazyflie's log")

    def find(names: Sequence[str]) -> Signal | None:
        if not set(names) <= available:
            return None
        time, values = table.signal(clock, [columns[name] for name in names])
        return Signal(1e-3 * time, values)

    return _build_log(path, "crazyflie_csv", find)


# The µSD card ---------------------------------------------------------------------------------------------------------


def _read_card(path: Path) -> FlightLog:
    data = path.read_bytes()
    try:
        version, types, offset = _parse_head(data)
    except (struct.error, ValueError, IndexError) as error:
        raise ValueError(f"{path}: its head cannot be decoded ({error}); expected a whole Crazyflie µSD log") from None
    offsets, end = _record_offsets(data, types, offset)
    notes: tuple[str, ...] = ()
    trailing = data[end:]
    if len(trailing) != 4:
        notes = (f"it ends within a record or is damaged: {len(trailing)} bytes after byte {end} are left out",)
    elif zlib.crc32(data[:end]) != struct.unpack("<I", trailing)[0]:
        notes = ("its checksum does not match: some of its bytes may be wrong",)
    unit = _CLOCKS[version][1]
    tables = [records(data, type_offsets, types[number]) for number, type_offsets in offsets.items() if type_offsets]

    def find(names: Sequence[str]) -> Signal | None:
        for table in tables:
            if set(names) <= set(table.dtype.names or ()):
                return signal(unit * table["time"], [table[name] for name in names])
        return None

    return _build_log(path, "crazyflie", find, notes)


def _parse_head(data: bytes) -> tuple[int, Mapping[int, np.dtype[np.void]], int]:
    """Return the version, the record type of each event type, and the offset of the first record."""
    version, count = struct.unpack_from("<HH", data, 1)
    if version not in _CLOCKS:
        raise ValueError(f"version {version}, not 1 or 2")
    offset, types = 5, {}
    for _ in range(count):
        (number,) = struct.unpack_from("<H", data, offset)
        _, offset = _parse_name(data, offset + 2)
        (variables,) = struct.unpack_from("<H", data, offset)
        offset += 2
        fields = [("event", "<u2"), ("time", _CLOCKS[version][0])]
        for _ in range(variables):
            text, offset = _parse_name(data, offset)
            parts = re.fullmatch(rf"(.+)\(([{_LETTERS}])\)", text)
            if parts is None:
                raise ValueError(f"a variable {quote_value(text)}, not name(type)")
            fields.append((parts[1], "<" + parts[2].replace("l", "i").replace("L", "I")))
        types[number] = np.dtype(fields)
    return version, types, offset


def _parse_name(data: bytes, offset: int) -> tuple[str, int]:
    """Return the text up to a zero byte, and the offset after it."""
    end = data.index(0, offset, offset + 256)
    return data[offset:end].decode("ascii"), end + 1


def _record_offsets(
    data: bytes, types: Mapping[int, np.dtype[np.void]], offset: int
) -> tuple[dict[int, list[int]], int]:
    """Return the offsets of the records of each type, up to the last complete one, and the offset after it."""
    offsets: dict[int, list[int]] = {number: [] for number in types}
    sizes = {number: record_type.itemsize for number, record_type in types.items()}
    last = len(data) - 4
    while offset < last:
        number = data[offset] | data[offset + 1] << 8
        size = sizes.get(number)
        if size is None or offset + size > last:
            break
        offsets[number].append(offset)
        offset += size
    return offsets, offset


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
ROTOR_SPEEDS = tuple(rpm * math.pi / 30.0 for *_, rpm in THRUST_TABLE)

_COLUMNS = (
    *("t", "px", "py", "pz", "vx", "vy", "vz", "qw", "qx", "qy", "qz", "wx_vicon", "wy_vicon", "wz_vicon"),
    *("motor_motor_m1", "motor_motor_m2", "motor_motor_m3", "motor_motor_m4", "pwr_pm_vbat"),
)
_IMU = tuple(f"imu_{sensor}_{axis}" for sensor in ("acc", "gyro") for axis in "xyz")
_REST_SAMPLES = 50  # at the start, before take-off
_MAX_REST_SPEED = 0.02  # [m/s]


def _marker_tilt(rows: Array) -> Quat:
    """Return q_MB, the rotation from body axes (level before take-off) to marker axes."""
    q_WM = normalize(Quat(*rows[7:11, :_REST_SAMPLES]))
    standing = normalize(Quat(*(float(np.mean(component)) for component in q_WM)))
    return conjugate(conjugate(quat_from_euler(0.0, 0.0, euler_from_quat(standing).yaw)) * standing)


def _nanobench_name(path: Path) -> str:
    return path.name.partition(".")[0]


def read_nanobench(path: Path, columns: object = None) -> list[FlightLog]:
    """Read one flight without evaluating its values, which is the task of the log check.

    The rate is that of motion capture, on the clock of the positions, as in the benchmark: the gyroscope has another clock.
    If the vehicle stands level before take-off, that attitude defines the body axes: the marker frame is tilted by up to
    2.5° relative to the floor, and the accelerometer in flight agrees with the floor.
    """
    table = read_columns(path, (*_COLUMNS, *_IMU), "a NanoBench flight")
    rows, n = table.values, len(_COLUMNS)
    time = rows[0]
    notes: tuple[str, ...] = ()
    q_WB, omega_B = Quat(*rows[7:11]), Vec3(*rows[11:14])
    start_rows = rows[:, :_REST_SAMPLES]
    if np.isfinite(start_rows).all() and np.abs(start_rows[4:7]).max(initial=0.0) <= _MAX_REST_SPEED:
        q_MB = _marker_tilt(rows)
        q_WB, omega_B = q_WB * q_MB, rotate(conjugate(q_MB), omega_B)
    else:
        notes = ("it does not stand at the start: its axes are those of the markers",)
    return [
        FlightLog(
            _nanobench_name(path),
            "nanobench",
            "crazyflie",
            Signal(time, rows[14:18] / MAX_PWM),
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
    """Ω(V_m), V_m = V_bat PWM / 65535: the steady speed of a motor, after Bitcraze's table of 2015  [rad/s]"""
    return piecewise_linear(voltage * pwm / MAX_PWM, MOTOR_VOLTS, ROTOR_SPEEDS)
