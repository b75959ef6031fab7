"""From the arrays of a file to the signals of a log: axes turned, records gathered, time counted from the first sample."""

import math
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from samara.core.algebra import Quat, Vec3
from samara.core.types import Array
from samara.core.units import CONVERSIONS
from samara.identify.flight_log import FlightLog, Signal
from samara.physics.frames import attitude_enu_flu_from_ned_frd, enu_from_ned, flu_from_frd

BLOCK = 1 << 16  # records
RPM = CONVERSIONS["rpm", "rad/s"](1.0)
DEGREE = CONVERSIONS["deg", "rad"](1.0)
G = CONVERSIONS["g", "m/s^2"](1.0)


def signal(time: Any, rows: Sequence[Any] | Array) -> Signal:
    """Times and one row for each component, as doubles"""
    return Signal(np.asarray(time, dtype=float), np.stack([np.asarray(row, dtype=float) for row in rows]))


def stem_of(path: Path) -> str:
    """The name of a file without its ending, packed or not"""
    return Path(path.name.removesuffix(".gz")).stem


def low_pass_delay(cutoff: float) -> float:
    """√2 / (2π f): how late Butterworth's low pass of second order says what is slow beside it; 0 where there is none  [s]"""
    return math.sqrt(2.0) / (2.0 * math.pi * cutoff) if 0.0 < cutoff < math.inf else 0.0


def flu(rows: Sequence[Any] | Array) -> Array:
    """Vectors in the body's axes FRD as FLU, (3, n)"""
    return np.stack(flu_from_frd(Vec3(*rows)))


def enu(rows: Sequence[Any] | Array) -> Array:
    """Vectors of the world NED as ENU, (3, n)"""
    return np.stack(enu_from_ned(Vec3(*rows)))


def enu_attitude(rows: Sequence[Any] | Array) -> Array:
    """Quaternions (w, x, y, z) from FRD to NED as those from FLU to ENU, (4, n)"""
    return np.stack(attitude_enu_flu_from_ned_frd(Quat(*rows)))


def records(data: bytes, offsets: Any, dtype: np.dtype[Any]) -> Array:
    """The packed records that begin at these bytes of a file"""
    first = np.asarray(offsets, dtype=np.int64)[:, None]
    source, found = np.frombuffer(data, dtype=np.uint8), np.empty(len(first), dtype=dtype)
    packed = found.view(np.uint8).reshape(len(first), dtype.itemsize)
    for at in range(0, len(first), BLOCK):  # an index of eight bytes for every byte is made: not of all at once
        packed[at : at + BLOCK] = source[first[at : at + BLOCK] + np.arange(dtype.itemsize)]
    return found


def signal_names() -> tuple[str, ...]:
    """The fields of a log that are signals"""
    return tuple(own.name for own in fields(FlightLog) if "Signal" in str(own.type))


def signals_of(log: FlightLog) -> dict[str, Signal]:
    """The signals that a log holds, by name"""
    found = {name: getattr(log, name) for name in signal_names()}
    return {name: own for name, own in found.items() if own is not None}


def from_first_sample(log: FlightLog) -> FlightLog:
    """The log with its times counted from its first sample; a signal without samples is as one that is not there"""
    there = {name: own for name, own in signals_of(log).items() if own.values.size or name == "command"}
    start = min((float(np.nanmin(own.time)) for own in there.values() if np.isfinite(own.time).any()), default=0.0)
    moved: dict[str, Any] = dict.fromkeys(signal_names())
    moved |= {name: Signal(own.time - start, own.values) for name, own in there.items()}
    return replace(log, start=start, **moved)
