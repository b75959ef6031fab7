"""Flights from blackbox logs (`.bbl`, `.bfl`, `.txt`) of Betaflight and its relatives; a file may contain several.

Gyro and accelerometer are already in FLU: roll to the right, nose down and counter-clockwise are positive, and at rest the
accelerometer shows +1 g along z. (Betaflight's simulator connected to Samara confirms it. Real aircraft that were rotated about
the vertical by hand while tilted have ω parallel to the accelerometer, and aircraft in flight roll and pitch away from the side
with the stronger motors.) Commands are the ESC signals, idle included: 48 … 2047 for DShot, else 1000 … 2000 µs. Most logs
contain no attitude; if there is one, its world has x to the north before the conversion.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from samara.core.algebra import Quat
from samara.core.budget import BudgetError
from samara.core.types import Array
from samara.identify.flight_log import ESTIMATE, FlightLog, Signal
from samara.identify.readers.blackbox_frames import (
    BlackboxTables,
    Header,
    decode_frames,
    frames_budget,
    header_spans,
    parse_header,
)
from samara.identify.readers.registry import DEGREE, NO_COMMAND, RPM, G, enu_attitude, signal
from samara.link.betaflight import CONVENTIONS, LAST_OLDEST_VERSION, NEWEST_CONVENTION, OLDEST_CONVENTION
from samara.physics.frames import attitude_ned_frd_from_nwu_flu
from samara.vehicles.rotor_numbering import NUMBERINGS

DSHOT = (48.0, 2047.0)
PULSE = (1000.0, 2000.0)  # [µs]
DEFAULT_POLES = 14.0  # of most motors for propellers of 5 inches
QUATERNION_SCALE = 32767.0  # encoding of a quaternion component of 1
CENTIVOLT_VERSIONS = {"Betaflight": (4, 0), "INAV": (2, 0)}
"""From these versions on the battery voltage is in 0.01 V; before, it is the raw reading of the converter."""
INWARDS, OUTWARDS = "betaflight", "betaflight_props_out"
MIN_CORRELATION = 0.15  # smaller correlations are inconclusive
BLOCK_DURATION_S = 0.03  # [s]: longer than the response of a motor, shorter than a rotation


class Session(NamedTuple):
    """One log of a file: its index from 1, its header, and all of its frames in the units of the header."""

    number: int
    header: Header
    frames: BlackboxTables


def read(path: Path, columns: object = None) -> list[FlightLog]:
    """Read the flights of a file; logs without motors or frames are skipped, unless no other exists."""
    sessions, problems = read_sessions(path)
    several = len(sessions) + len(problems) > 1
    logs = []
    for session in sessions:
        try:
            logs.append(_flight(f"{path.stem}-{session.number}" if several else path.stem, session))
        except ValueError as error:
            problems.append(f"log {session.number}: {error}")
    if not logs:
        raise ValueError("; ".join(problems[:1]) or "holds no blackbox log; expected one")
    logs[0] = replace(logs[0], notes=(*logs[0].notes, *(f"{problem}: skipped" for problem in problems)))
    return logs


def read_sessions(path: Path) -> tuple[list[Session], list[str]]:
    """Return all readable logs of a file, and the problems of the others."""
    data = path.read_bytes()
    sessions, problems = [], []
    budget = frames_budget(path, len(data))
    for number, (start, end) in enumerate(header_spans(data), start=1):
        try:
            header = parse_header(data, start, end)
            sessions.append(Session(number, header, decode_frames(data, header, budget)))
        except BudgetError:
            raise
        except ValueError as error:
            problems.append(f"log {number}: {error}")
    return sessions, problems


def _flight(name: str, session: Session) -> FlightLog:
    _, header, frames = session
    main = frames.tables["main"]
    if len(main["time"]) < 2:
        raise ValueError(f"holds {len(main['time'])} main frames; expected 2 or more")
    notes: list[str] = []
    time = _seconds(main["time"])
    firmware, version = _firmware(header)
    motors = _rows(main, "motor")
    speeds = _rotor_speed(time, _rows(main, "eRPM"), header, notes)
    if not motors and speeds is None:
        raise ValueError("has no field 'motor[0]'; expected motors in the log")
    command = signal(time, _commands(motors, header)) if motors else NO_COMMAND
    rate = _vector_signal(time, _rows(main, "gyroADC"), _gyro_unit(header))
    if frames.rejected or frames.dropped:
        notes.append(f"damaged: {frames.rejected} frames rejected, {frames.dropped} that build on them dropped")
    if not frames.ended:
        notes.append("has no end: its last frames may be missing")
    simulated = "SITL" in header.values.get("Firmware revision", "") and version <= LAST_OLDEST_VERSION
    world_up = CONVENTIONS[OLDEST_CONVENTION if simulated else NEWEST_CONVENTION].quaternion_flu
    attitude = _attitude(time, _rows(main, "imuQuaternion"), world_up)
    return FlightLog(
        name=name,
        format="betaflight",
        numbering=_numbering(header, speeds if speeds is not None and not motors else command, rate, notes),
        command=command,
        rotor_speed=speeds,
        attitude=attitude,
        rate=rate,
        specific_force=_specific_force(time, _rows(main, "accSmooth"), header, notes),
        voltage=_voltage(time, main, firmware, version, notes),
        truth=ESTIMATE if attitude is not None else "",
        notes=tuple(notes),
    )


def _seconds(time_us: Array) -> Array:
    """Convert a 32-bit clock to seconds; it wraps after 71 minutes."""
    steps = np.diff(time_us).astype(np.uint32).astype(np.int64)
    return (int(time_us[0]) + np.concatenate([[0], np.cumsum(steps)])) * 1e-6


def _firmware(header: Header) -> tuple[str, tuple[int, int]]:
    """Return name and version, (4, 5) or (year − 2000, month), of a text like "Betaflight 4.5.1 (77d01ba3b) STM32F7X2"."""
    match = re.match(r"(\w+) v?(\d{1,4})\.(\d{1,2})", header.values.get("Firmware revision", ""))
    return (match[1], (int(match[2]) % 2000, int(match[3]))) if match else ("", (0, 0))


def _numbering(header: Header, command: Signal, rate: Signal | None, notes: list[str]) -> str:
    """Return the motor order from the header, or else from the flight: ω̇_z correlates with the clockwise motors."""
    reversed_flag = header.values.get("yaw_motors_reversed")
    if reversed_flag is not None or len(command.values) != 4:
        return OUTWARDS if reversed_flag == "1" and len(command.values) == 4 else INWARDS
    spins = np.array([motor.spin for motor in NUMBERINGS["quad_x"][INWARDS].rotors])
    starts = np.searchsorted(command.time, np.arange(command.time[0], command.time[-1], BLOCK_DURATION_S))
    starts = np.unique(starts[starts < len(command.time)])
    if rate is not None and len(starts) > 2:
        counts = np.diff(np.append(starts, len(command.time)))
        torque, yaw = (
            np.add.reduceat(signal_rows, starts) / counts for signal_rows in (-spins @ command.values, rate.values[2])
        )
        correlation = (
            np.corrcoef(torque[:-1], np.diff(yaw))[0, 1] if torque.std() > 0.0 and np.diff(yaw).std() > 0.0 else 0.0
        )
    else:
        correlation = 0.0
    if abs(correlation) < max(MIN_CORRELATION, 3.0 / math.sqrt(len(starts))):
        notes.append(
            "has no header yaw_motors_reversed, and its yaw is inconclusive: propellers are assumed to turn inwards"
        )
        return INWARDS
    direction = "inwards" if correlation > 0.0 else "outwards"
    notes.append(f"has no header yaw_motors_reversed: its yaw response shows propellers that turn {direction}")
    return INWARDS if correlation > 0.0 else OUTWARDS


def _rows(table: Mapping[str, Array], name: str) -> list[Array]:
    """Return name[0], name[1] … up to the last that exists."""
    rows: list[Array] = []
    while (field := f"{name}[{len(rows)}]") in table:
        rows.append(table[field])
    return rows


def _positive(header: Header, name: str, default: float) -> float:
    value = header.number(name, default)
    if not 1e-6 <= value <= 1e6:
        raise ValueError(f"header {name!r} is {header.values[name][:40]!r}; expected 1e-6 to 1e6")
    return value


def _commands(motors: list[Array], header: Header) -> Array:
    """Return commands from 0 to 1 of the protocol's range; a stopped motor has 0."""
    lowest = header.numbers("motorOutput", (1000,))[0]
    low, high = DSHOT if lowest < PULSE[0] else PULSE
    return np.clip((np.stack(motors).astype(np.int32) - low) / (high - low), 0.0, 1.0)


def _gyro_unit(header: Header) -> float:
    """Return the unit of gyroADC  [rad/s]."""
    name = "gyro_scale" if "gyro_scale" in header.values else "gyro.scale"
    is_high_resolution = header.number("blackbox_high_resolution", 0.0) > 0.0
    return _positive(header, name, 1.0) * DEGREE / (10.0 if is_high_resolution else 1.0)


def _vector_signal(time: Array, rows: list[Array], unit: float) -> Signal | None:
    return signal(time, [row * unit for row in rows[:3]]) if len(rows) >= 3 else None


def _specific_force(time: Array, rows: list[Array], header: Header, notes: list[str]) -> Signal | None:
    if rows and "acc_1G" not in header.values:
        notes.append("has no header acc_1G, the scale of 1 g: its accelerometer is left out")
        return None
    return _vector_signal(time, rows, G / _positive(header, "acc_1G", 1.0))


def _rotor_speed(time: Array, rows: list[Array], header: Header, notes: list[str]) -> Signal | None:
    """Ω = 2π/60 · 100 e / (poles/2), e in hundreds of electrical rpm; None if no motor reports its speed."""
    if not rows or not any(row.any() for row in rows):
        return None
    if "motor_poles" not in header.values:
        notes.append(f"has no header motor_poles: {DEFAULT_POLES:.0f} are assumed, and rotor speeds scale with them")
    pairs = _positive(header, "motor_poles", DEFAULT_POLES) / 2.0
    return signal(time, [row * (100.0 * RPM / pairs) for row in rows])


def _voltage(
    time: Array, main: Mapping[str, Array], firmware: str, version: tuple[int, int], notes: list[str]
) -> Signal | None:
    if "vbatLatest" not in main or not main["vbatLatest"].any():
        return None
    if firmware not in CENTIVOLT_VERSIONS or version < CENTIVOLT_VERSIONS[firmware]:
        notes.append(f"the unit of its voltage is not known for {firmware or 'its firmware'}: left out")
        return None
    return signal(time, [main["vbatLatest"] * 0.01])


def _attitude(time: Array, rows: list[Array], world_up: bool) -> Signal | None:
    """(w, x, y, z), w = √(1 − x² − y² − z²), logged from FLU to north, west, up; converted to east, north, up.

    Simulators up to 2025.12 log the attitude they receive, from FRD to north, east, down.
    """
    if len(rows) != 3 or not any(row.any() for row in rows):
        return None
    x, y, z = (row / QUATERNION_SCALE for row in rows)
    parts = np.stack([np.sqrt(np.maximum(1.0 - x * x - y * y - z * z, 0.0)), x, y, z])
    logged = Quat(*(parts / np.sqrt((parts**2).sum(axis=0))))
    q = enu_attitude(attitude_ned_frd_from_nwu_flu(logged) if world_up else logged)
    signs = np.where((q[:, 1:] * q[:, :-1]).sum(axis=0) < 0.0, -1.0, 1.0)
    first = 1.0 if q[0, 0] >= 0.0 else -1.0
    return signal(time, first * q * np.concatenate([[1.0], np.cumprod(signs)]))
