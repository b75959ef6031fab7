"""Flights of a brushed Crazyflie 2.1 from NanoBench (S. I. Ullah, J. Baca, arXiv 2603.09908): 100 Hz CSV, often gzipped.

Position and attitude are from Vicon: z up, quaternion (x, y, z, w) from body to world. Its velocity is the position's
derivative, fitted over 11 samples, and its rate that of the attitude. The motors' PWM is the ratio at the transistor, after the
firmware has made up for the battery's voltage. The accelerometer is in g, the gyroscope in rad/s.
(`att_stateEstimate_pitch` is in degrees and negated; nothing here reads it.)
"""

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from samara.core.algebra import Quat, Vec3, conjugate, euler_from_quat, normalize, quat_from_euler, rotate
from samara.core.ops import piecewise_linear
from samara.core.tree import flatten
from samara.identify.log import MOTION_CAPTURE, FlightLog, Signal
from samara.identify.readers.crazyflie import FULL
from samara.identify.readers.csv_columns import read_columns
from samara.identify.readers.signals import G, signal
from samara.physics.rotors.actuator import Lag, command_from_speed
from samara.physics.types import Command, Vehicle

PERIOD = 0.01  # [s]
FIRMWARE_ORDER = ((1.0, -1.0), (-1.0, -1.0), (-1.0, 1.0), (1.0, 1.0))  # m1 FR, m2 BR, m3 BL, m4 FL: signs of x and y

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
_UNIT = 1e-3  # how far a quaternion's length may be from 1: it is written with few digits

Array = np.ndarray[Any, Any]


class Flight(NamedTuple):
    """A measured flight: times (n,) [s], body (13, n) in the order of `State`, PWM (4, n) as m1 … m4, battery (n,) [V]"""

    name: str
    time: Array
    body: Array
    pwm: Array
    voltage: Array


def read_flights(folder: str | Path) -> list[Flight]:
    """All flights of a folder, by name"""
    files = sorted(path for path in Path(folder).iterdir() if path.name.endswith((".csv", ".csv.gz")))
    if not files:
        raise ValueError(f"{folder}: holds no .csv or .csv.gz; expected flights of NanoBench")
    return [read_flight(path) for path in files]


def read_flight(path: str | Path) -> Flight:
    """One flight; the body's axes are those in which it stood level before take-off

    The markers' own frame leans by up to 2.5° against the floor the vehicle stands on; the accelerometer in flight agrees
    with the floor.
    """
    rows = _columns(Path(path))
    _require_plausible(Path(path), rows)
    if np.abs(rows[4:7, :_REST_SAMPLES]).max() > _AT_REST:
        raise ValueError(f"{path}: moves in its first {_REST_SAMPLES} samples; expected it to stand before take-off")
    q_MB = _markers_lean(rows)
    omega_B = rotate(conjugate(q_MB), Vec3(*rows[11:14]))
    body = np.stack([*rows[1:7], *(normalize(Quat(*rows[7:11])) * q_MB), *omega_B])
    return Flight(_name(Path(path)), rows[0] - rows[0, 0], body, rows[14:18], rows[18])


def _markers_lean(rows: Array) -> Quat:
    """q_MB: from the axes of the vehicle as it stood level before take-off to those of its markers"""
    q_WM = normalize(Quat(*rows[7:11, :_REST_SAMPLES]))
    standing = normalize(Quat(*(float(np.mean(component)) for component in q_WM)))
    return conjugate(conjugate(quat_from_euler(0.0, 0.0, euler_from_quat(standing).yaw)) * standing)


def _name(path: Path) -> str:
    return path.name.partition(".")[0]


def read(path: Path, columns: object = None) -> list[FlightLog]:
    """One flight as it is in the file, whatever its numbers: judging them is for the log check

    The rate is motion capture's, on the clock of the positions, as the benchmark scores it: the gyroscope's clock is another.
    The body's axes are those in which it stood level, as in `read_flight`, where it stood.
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
            _name(path),
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


def _columns(path: Path, names: tuple[str, ...] = _COLUMNS) -> Array:
    table = read_columns(path, names, "a NanoBench flight").values
    if table.shape[1] <= _REST_SAMPLES:
        raise ValueError(f"{path}: {table.shape[1]} rows; expected more than {_REST_SAMPLES}")
    return table


def _require_plausible(path: Path, table: Array) -> None:
    """ValueError naming the line, the column and the value of the first number that no flight can have."""
    for name, values in zip(_COLUMNS, table, strict=True):
        _require(path, np.isfinite(values), name, values, "a finite number")
    steps = np.diff(table[0], prepend=-math.inf)
    _require(path, steps > 0.0, "t", table[0], "a time after that of the line before")
    norms = np.sqrt((table[7:11] ** 2).sum(axis=0))
    _require(path, np.abs(norms - 1.0) <= _UNIT, "|q|", norms, "a quaternion of length 1")
    for name, values in zip(_COLUMNS[14:18], table[14:18], strict=True):
        _require(path, (values >= 0.0) & (values <= FULL), name, values, f"a PWM from 0 to {FULL:.0f}")
    _require(path, table[18] > 0.0, "pwr_pm_vbat", table[18], "a voltage above 0")


def _require(path: Path, fine: Array, name: str, values: Array, expected: str) -> None:
    if not fine.all():
        at = int(np.argmin(fine))
        raise ValueError(f"{path}: line {at + 2}: {name} is {values[at]:g}; expected {expected}")


def rotor_speed_from_pwm(pwm: Any, voltage: Any) -> Any:
    """Ω(V_m), V_m = V_bat PWM / 65535: the speed a motor settles at, after Bitcraze's table of 2015  [rad/s]"""
    return piecewise_linear(voltage * pwm / FULL, MOTOR_VOLTS, SPEEDS)


def commands_from_pwm(flight: Flight, vehicle: Vehicle) -> Command:
    """From each sample to the next, per rotor of the vehicle: the command that settles at the speed of the mean PWM

    Motors are matched by their place: m1 front right, m2 back right, m3 back left, m4 front left.
    """
    commands = []
    for i, rotor in enumerate(vehicle.rotors):
        if vehicle.structure.actuation.name != "normalized" or not isinstance(rotor.motor, Lag):
            raise ValueError(
                f"vehicle {vehicle.name!r}: rotor {i} is not driven by a normalized command; expected it so"
            )
        side = (math.copysign(1.0, rotor.r_B.x), math.copysign(1.0, rotor.r_B.y))
        speed = rotor_speed_from_pwm(flight.pwm[FIRMWARE_ORDER.index(side)], flight.voltage)
        commands.append(command_from_speed(0.5 * (speed[:-1] + speed[1:]), rotor.motor))
    return tuple(flatten(tuple(commands)))
