"""Flights of a brushed Crazyflie 2.1 from NanoBench (S. I. Ullah, J. Baca, arXiv 2603.09908): 100 Hz CSV, often gzipped.

Position and attitude are from Vicon: z up, quaternion (x, y, z, w) from body to world. Its velocity is the position's
derivative, fitted over 11 samples, and its rate that of the attitude. The motors' PWM is the ratio at the transistor, after the
firmware has made up for the battery's voltage. The accelerometer is in g, the gyroscope in rad/s.
(`att_stateEstimate_pitch` is in degrees and negated; nothing here reads it.)
"""

import math
from pathlib import Path
from typing import Any

import numpy as np

from samara.core.algebra import Quat, Vec3, conjugate, euler_from_quat, normalize, quat_from_euler, rotate
from samara.core.ops import piecewise_linear
from samara.core.types import Array
from samara.identify.flight_log import MOTION_CAPTURE, FlightLog, Signal
from samara.identify.readers.crazyflie import FULL
from samara.identify.readers.csv_columns import read_columns
from samara.identify.readers.log_signals import G, signal

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


def _name(path: Path) -> str:
    return path.name.partition(".")[0]


def read(path: Path, columns: object = None) -> list[FlightLog]:
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


def rotor_speed_from_pwm(pwm: Any, voltage: Any) -> Any:
    """Ω(V_m), V_m = V_bat PWM / 65535: the speed a motor settles at, after Bitcraze's table of 2015  [rad/s]"""
    return piecewise_linear(voltage * pwm / FULL, MOTOR_VOLTS, SPEEDS)
