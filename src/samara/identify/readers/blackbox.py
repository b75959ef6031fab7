"""Flights from blackbox logs (`.bbl`, `.bfl`, `.txt`) of Betaflight and its relatives; a file may hold several.

Gyro and accelerometer are in FLU as they are: roll to the right, nose down and counter-clockwise are positive, and at rest the
accelerometer shows +1 g along z. (Betaflight's simulator flown by us says so. Of real aircraft, one that is turned about the
vertical by hand, leaning, has ω parallel to the accelerometer, and those in flight roll and pitch away from the side whose
motors are stronger.) Commands are what the ESCs hear, idle included: 48 … 2047 of DShot, 1000 … 2000 µs else. Most logs hold no
attitude; where there is one its world has x to the north before it is turned to ours.
"""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from samara.core.algebra import Quat
from samara.core.budget import BudgetError
from samara.core.types import Array
from samara.identify.flight_log import ESTIMATE, FlightLog, Signal
from samara.identify.readers.blackbox_frames import (
    Frames,
    Header,
    frames_budget,
    frames_in,
    header_spans,
    parse_header,
)
from samara.identify.readers.registry import DEGREE, RPM, G, enu_attitude, signal
from samara.link.betaflight import CONVENTIONS, LAST_OF_OLDEST, NEWEST, OLDEST
from samara.physics.frames import attitude_ned_frd_from_nwu_flu
from samara.vehicles.rotor_numbering import NUMBERINGS

DSHOT = (48.0, 2047.0)
PULSE = (1000.0, 2000.0)  # [µs]
POLES = 14.0  # of most motors for propellers of 5 inches
TURNS = 32767.0  # what a quaternion's component of 1 is written as
HUNDREDTHS = {"Betaflight": (4, 0), "INAV": (2, 0)}
"""From these versions on the battery is in 0.01 V; before, it was as its converter read"""
INWARDS, OUTWARDS = "betaflight", "betaflight_props_out"
SURE = 0.15  # of a correlation
BLOCK = 0.03  # [s]: longer than a motor takes to follow, shorter than a turn


class Session(NamedTuple):
    """One log of a file as it is written: its number from 1, its header, and all of its frames in the units of the header"""

    number: int
    header: Header
    frames: Frames


def read(path: Path, columns: object = None) -> list[FlightLog]:
    """The flights of a file; logs without motors or frames are passed over, unless there is no other"""
    sessions, problems = sessions_in(path)
    several = len(sessions) + len(problems) > 1
    logs = []
    for own in sessions:
        try:
            logs.append(_flight(f"{path.stem}-{own.number}" if several else path.stem, own))
        except ValueError as error:
            problems.append(f"log {own.number}: {error}")
    if not logs:
        raise ValueError("; ".join(problems[:1]) or "holds no blackbox log; expected one")
    return logs


def sessions_in(path: Path) -> tuple[list[Session], list[str]]:
    """All logs of a file that can be read, and what is wrong with the others"""
    data = path.read_bytes()
    sessions, problems = [], []
    budget = frames_budget(path, len(data))
    for number, (start, end) in enumerate(header_spans(data), start=1):
        try:
            header = parse_header(data, start, end)
            sessions.append(Session(number, header, frames_in(data, header, budget)))
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
    if not motors:
        raise ValueError("has no field 'motor[0]'; expected motors in the log")
    command = signal(time, _commands(motors, header))
    rate = _scaled(time, _rows(main, "gyroADC"), _gyro_unit(header))
    if frames.rejected or frames.dropped:
        notes.append(f"damaged: {frames.rejected} frames rejected, {frames.dropped} that build on them dropped")
    if not frames.ended:
        notes.append("has no end: its last frames may be missing")
    simulated = "SITL" in header.values.get("Firmware revision", "") and version <= LAST_OF_OLDEST
    world_up = CONVENTIONS[OLDEST if simulated else NEWEST].quaternion_flu
    attitude = _attitude(time, _rows(main, "imuQuaternion"), world_up)
    return FlightLog(
        name=name,
        format="betaflight",
        numbering=_numbering(header, command, rate, notes),
        command=command,
        rotor_speed=_rotor_speed(time, _rows(main, "eRPM"), header, notes),
        attitude=attitude,
        rate=rate,
        specific_force=_specific_force(time, _rows(main, "accSmooth"), header, notes),
        voltage=_voltage(time, main, firmware, version, notes),
        truth=ESTIMATE if attitude is not None else "",
        notes=tuple(notes),
    )


def _seconds(time_us: Array) -> Array:
    """The clock has 32 bits: after 71 minutes it starts again"""
    steps = np.diff(time_us).astype(np.uint32).astype(np.int64)
    return (int(time_us[0]) + np.concatenate([[0], np.cumsum(steps)])) * 1e-6


def _firmware(header: Header) -> tuple[str, tuple[int, int]]:
    """Its name and version, (4, 5) or (year − 2000, month), as in "Betaflight 4.5.1 (77d01ba3b) STM32F7X2" """
    found = re.match(r"(\w+) v?(\d{1,4})\.(\d{1,2})", header.values.get("Firmware revision", ""))
    return (found[1], (int(found[2]) % 2000, int(found[3]))) if found else ("", (0, 0))


def _numbering(header: Header, command: Signal, rate: Signal | None, notes: list[str]) -> str:
    """As the header says, or as the flight does where it is silent: ω̇_z goes with the motors that turn clockwise"""
    said = header.values.get("yaw_motors_reversed")
    if said is not None or len(command.values) != 4:
        return OUTWARDS if said == "1" and len(command.values) == 4 else INWARDS
    spins = np.array([place.spin for place in NUMBERINGS["quad_x"][INWARDS].places])
    starts = np.searchsorted(command.time, np.arange(command.time[0], command.time[-1], BLOCK))
    starts = np.unique(starts[starts < len(command.time)])
    if rate is not None and len(starts) > 2:
        counts = np.diff(np.append(starts, len(command.time)))
        torque, yaw = (np.add.reduceat(own, starts) / counts for own in (-spins @ command.values, rate.values[2]))
        both = np.corrcoef(torque[:-1], np.diff(yaw))[0, 1] if torque.std() > 0.0 and np.diff(yaw).std() > 0.0 else 0.0
    else:
        both = 0.0
    if abs(both) < max(SURE, 3.0 / math.sqrt(len(starts))):
        notes.append("does not say yaw_motors_reversed, nor does its yaw: its propellers are taken to turn inwards")
        return INWARDS
    turn = "inwards" if both > 0.0 else "outwards"
    notes.append(f"does not say yaw_motors_reversed: its yaw follows its motors as of propellers that turn {turn}")
    return INWARDS if both > 0.0 else OUTWARDS


def _rows(table: Mapping[str, Array], name: str) -> list[Array]:
    """name[0], name[1] … as many as there are"""
    found: list[Array] = []
    while (field := f"{name}[{len(found)}]") in table:
        found.append(table[field])
    return found


def _positive(header: Header, name: str, default: float) -> float:
    value = header.number(name, default)
    if not 1e-6 <= value <= 1e6:
        raise ValueError(f"header {name!r} is {header.values[name][:40]!r}; expected 1e-6 to 1e6")
    return value


def _commands(motors: list[Array], header: Header) -> Array:
    """0 … 1 of the protocol's range; less is a motor that is stopped"""
    lowest = header.numbers("motorOutput", (1000,))[0]
    low, high = DSHOT if lowest < PULSE[0] else PULSE
    return np.clip((np.stack(motors).astype(np.int32) - low) / (high - low), 0.0, 1.0)


def _gyro_unit(header: Header) -> float:
    """What 1 of gyroADC is  [rad/s]"""
    name = "gyro_scale" if "gyro_scale" in header.values else "gyro.scale"
    fine = header.number("blackbox_high_resolution", 0.0) > 0.0
    return _positive(header, name, 1.0) * DEGREE / (10.0 if fine else 1.0)


def _scaled(time: Array, rows: list[Array], unit: float) -> Signal | None:
    return signal(time, [row * unit for row in rows[:3]]) if len(rows) >= 3 else None


def _specific_force(time: Array, rows: list[Array], header: Header, notes: list[str]) -> Signal | None:
    if rows and "acc_1G" not in header.values:
        notes.append("does not say acc_1G, what 1 g is: its accelerometer is left out")
        return None
    return _scaled(time, rows, G / _positive(header, "acc_1G", 1.0))


def _rotor_speed(time: Array, rows: list[Array], header: Header, notes: list[str]) -> Signal | None:
    """Ω = 2π/60 · 100 e / (poles/2), e in hundreds of electrical turns a minute; None where no motor ever told"""
    if not rows or not any(row.any() for row in rows):
        return None
    if "motor_poles" not in header.values:
        notes.append(f"does not say motor_poles: taken as {POLES:.0f}, and rotor speeds are in proportion")
    pairs = _positive(header, "motor_poles", POLES) / 2.0
    return signal(time, [row * (100.0 * RPM / pairs) for row in rows])


def _voltage(
    time: Array, main: Mapping[str, Array], firmware: str, version: tuple[int, int], notes: list[str]
) -> Signal | None:
    if "vbatLatest" not in main or not main["vbatLatest"].any():
        return None
    if firmware not in HUNDREDTHS or version < HUNDREDTHS[firmware]:
        notes.append(f"the unit of its voltage is not known for {firmware or 'its firmware'}: left out")
        return None
    return signal(time, [main["vbatLatest"] * 0.01])


def _attitude(time: Array, rows: list[Array], world_up: bool) -> Signal | None:
    """(w, x, y, z), w = √(1 − x² − y² − z²), from FLU to north, west, up as it is logged; to east, north, up here

    Simulators up to 2025.12 log what they are sent, from FRD to north, east, down.
    """
    if len(rows) != 3 or not any(row.any() for row in rows):
        return None
    x, y, z = (row / TURNS for row in rows)
    parts = np.stack([np.sqrt(np.maximum(1.0 - x * x - y * y - z * z, 0.0)), x, y, z])
    own = Quat(*(parts / np.sqrt((parts**2).sum(axis=0))))
    q = enu_attitude(attitude_ned_frd_from_nwu_flu(own) if world_up else own)
    turned = np.where((q[:, 1:] * q[:, :-1]).sum(axis=0) < 0.0, -1.0, 1.0)
    first = 1.0 if q[0, 0] >= 0.0 else -1.0
    return signal(time, first * q * np.concatenate([[1.0], np.cumprod(turned)]))
