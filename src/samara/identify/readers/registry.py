"""The kinds of flight logs that can be read, in one table: how a file is known, what it holds, in which units and axes.

    from samara.identify.readers import read_log
    (flight,) = read_log("log10")

A file is known by how it begins, whatever it is called; only a CSV with a map of its columns is what the map says. Whatever
the file, a log comes back in FLU and z up, in SI units, with seconds from its first sample.
"""

import gzip
import math
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from samara.core.algebra import Quat, Vec3
from samara.core.lazy_import import MissingExtraError
from samara.core.sanitise import printable
from samara.core.types import Array
from samara.core.units import CONVERSIONS
from samara.identify.flight_log import FlightLog, Signal
from samara.physics.frames import attitude_enu_flu_from_ned_frd, enu_from_ned, flu_from_frd

BLOCK = 1 << 16  # records
RPM = CONVERSIONS["rpm", "rad/s"](1.0)
DEGREE = CONVERSIONS["deg", "rad"](1.0)
G = CONVERSIONS["g", "m/s^2"](1.0)


def signal(time: ArrayLike, rows: Sequence[ArrayLike] | Array) -> Signal:
    """Times and one row for each component, as doubles"""
    return Signal(np.asarray(time, dtype=float), np.stack([np.asarray(row, dtype=float) for row in rows]))


def stem_of(path: Path) -> str:
    """The name of a file without its ending, packed or not"""
    return Path(path.name.removesuffix(".gz")).stem


def low_pass_delay(cutoff: float) -> float:
    """√2 / (2π f): how late Butterworth's low pass of second order says what is slow beside it; 0 where there is none  [s]"""
    return math.sqrt(2.0) / (2.0 * math.pi * cutoff) if 0.0 < cutoff < math.inf else 0.0


def flu(rows: Sequence[Array] | Array) -> Array:
    """Vectors in the body's axes FRD as FLU, (3, n)"""
    return np.stack(flu_from_frd(Vec3(*rows)))


def enu(rows: Sequence[Array] | Array) -> Array:
    """Vectors of the world NED as ENU, (3, n)"""
    return np.stack(enu_from_ned(Vec3(*rows)))


def enu_attitude(rows: Sequence[Array] | Array) -> Array:
    """Quaternions (w, x, y, z) from FRD to NED as those from FLU to ENU, (4, n)"""
    return np.stack(attitude_enu_flu_from_ned_frd(Quat(*rows)))


def records(data: bytes, offsets: ArrayLike, dtype: np.dtype[np.void]) -> Array:
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


LARGEST = 2 << 30  # [bytes]: hours of flight in any of these formats
HEAD = 4096  # [bytes] by which a file is known
LONGEST = 600  # letters of a sentence about one
MCAP = b"\x89MCAP0\r\n"

Columns = str | Path | Mapping[str, object] | None


class Format(NamedTuple):
    """A kind of log: how it begins, who reads it, and what its numbers are before they are turned into ours."""

    name: str
    title: str
    endings: tuple[str, ...]
    begins: Callable[[bytes], bool]
    reader: str  # 'module.function' of this package; function(path, columns) returns the flights
    holds: str
    units: str
    frames: str
    numbering: str
    time_base: str
    extra: str = ""


def _heading(*columns: str) -> Callable[[bytes], bool]:
    """Whether the first line of a text has these columns"""
    wanted = {column.encode() for column in columns}

    def begins(head: bytes) -> bool:
        line = head.removeprefix(b"\xef\xbb\xbf").partition(b"\n")[0]
        return wanted <= {cell.strip(b" \r\"'") for cell in line.split(b",")}

    return begins


def _crazyflie_csv(head: bytes) -> bool:
    return any(_heading(f"motor{point}m1")(head) for point in "._")


FORMATS = (
    Format(
        "px4",
        "PX4 ULog",
        (".ulg", ".ulg.gz"),
        lambda head: head.startswith(b"ULog\x01\x12\x35"),
        "ulog.read",
        "motors, rotor speeds of ESCs that tell them, estimate or motion capture, IMU, battery",
        "SI; motors 0 … 1, or µs of pulse; rpm",
        "FRD, NED",
        "px4",
        "µs since boot, when sampled; filtered rates as much earlier as their low pass is late",
        "logs",
    ),
    Format(
        "ardupilot",
        "ArduPilot DataFlash",
        (".bin", ".log", ".bin.gz"),
        lambda head: head.startswith((b"\xa3\x95\x80", b"FMT,")),
        "dataflash.read",
        "motors, rotor speeds of ESCs that tell them, estimate or GPS, IMU, battery",
        "SI; motors in µs of pulse, or as the mixer makes them of `RATE`; rpm; °",
        "FRD, NED",
        "ardupilot",
        "µs since boot; filtered rates as much earlier as their low pass is late",
    ),
    Format(
        "betaflight",
        "Betaflight blackbox",
        (".bbl", ".bfl", ".txt"),
        lambda head: b"H Product:Blackbox flight data recorder" in head,
        "blackbox.read",
        "motors, rotor speeds by bidirectional DShot, IMU, battery; attitude from version 4.6 on; INAV's and EmuFlight's too",
        "g, °/s, 0.01 V by the header; motors in steps of DShot or µs of pulse; electrical rpm / 100",
        "FLU; attitude to north, west, up",
        "betaflight, betaflight_props_out",
        "µs since boot, of the main loop",
    ),
    Format(
        "crazyflie",
        "Crazyflie µSD",
        ("", ".bin", ".usd"),
        lambda head: head[:1] == b"\xbc" and head[1:3] in (b"\x01\x00", b"\x02\x00"),
        "crazyflie.read",
        "motors, rotor speeds of an rpm deck, estimate or the motion capture sent to it, IMU, battery",
        "g, °/s, m, V; motors 0 … 65535; rpm",
        "FLU, z up",
        "crazyflie",
        "µs (version 1: ms) since boot, one for each record",
    ),
    Format(
        "nanobench",
        "NanoBench CSV",
        (".csv", ".csv.gz"),
        _heading("t", "px", "qw", "wx_vicon", "motor_motor_m1"),
        "crazyflie.read_nanobench",
        "motors, motion capture, IMU, battery",
        "g, rad/s, m, V; motors 0 … 65535",
        "FLU, z up",
        "crazyflie",
        "s (Unix), 100 Hz, resampled by its authors",
    ),
    Format(
        "crazyflie_csv",
        "Crazyflie CSV",
        (".csv", ".csv.gz"),
        _crazyflie_csv,
        "crazyflie.read",
        "as the µSD log, under the firmware's names: `motor.m1`, `acc.x`, `stateEstimate.x` …",
        "as the µSD log",
        "FLU, z up",
        "crazyflie",
        "ms, a column `timestamp`, `time` or `tick`",
    ),
    Format(
        "samara",
        "Samara recording",
        (".mcap",),
        lambda head: head.startswith(MCAP) and b"samara.recording" in head[:256],
        "samara_recording.read",
        "every drone: commands, the true state as motion capture, rotor speeds, IMU and battery where it had them",
        "SI",
        "FLU, z up",
        "samara",
        "µs since the start",
    ),
    Format(
        "ros2",
        "ROS 2 bag",
        (".mcap", ".db3", "a folder"),
        lambda head: head.startswith((MCAP, b"SQLite format 3\0")),
        "ros2.read",
        "motors (`px4_msgs/ActuatorMotors`, `actuator_msgs/Actuators`, `std_msgs/Float32MultiArray`), odometry, poses as "
        "motion capture, IMU, battery; topics by type, or by a map",
        "SI; motors 0 … 1",
        "FLU, z up; `px4_msgs` FRD, NED",
        "samara; `px4_msgs` px4",
        "ns: stamp of the message, else of its reception",
    ),
    Format(
        "csv",
        "CSV with a map of its columns",
        (".csv", ".csv.gz"),
        lambda head: False,
        "csv_mapping.read",
        "whatever the map names",
        "as the map says",
        "as the map says",
        "as the map says",
        "as the map says",
    ),
)
"""Every kind of log there is; the first that a file begins like is its kind."""

_FOREIGN = (
    *(ArithmeticError, AttributeError, LookupError, TypeError, RuntimeError, MemoryError, EOFError),
    *(AssertionError, struct.error, zlib.error),
)


def read_log(path: str | Path, columns: Columns = None) -> list[FlightLog]:
    """The flights of a log file, one or several, whatever wrote it

    `columns` is for a CSV the map of its columns (`samara.identify.readers.csv_mapping`), for a ROS 2 bag that of its topics: a
    TOML file or a dictionary. ValueError, in one sentence, where the file is none that can be read or holds no motors.
    """
    own = Path(path)
    shown = printable(str(path))
    kind = format_of(own, columns)
    try:
        module, _, function = kind.reader.partition(".")
        read = getattr(import_module(f"samara.identify.readers.{module}"), function)
        logs = [from_first_sample(log) for log in read(own, columns)]
    except (MissingExtraError, OSError):
        raise
    except ValueError as error:
        named = str(error).startswith((str(own), "columns:" if isinstance(columns, Mapping) else f"{columns}:"))
        raise ValueError(_sentence(f"{error}" if named else f"{own}: {error}")) from None
    except _FOREIGN as error:
        what = f"{type(error).__name__}: {error}"
        raise ValueError(_sentence(f"{own}: cannot be read ({what}); expected a whole {kind.title} file")) from error
    if not logs:
        raise ValueError(f"{shown}: holds no flight; expected a {kind.title} file with motors in it")
    for log in logs:
        if not len(log.command.values) or not len(log.command.time):
            raise ValueError(f"{shown}: holds no motors; expected what a {kind.title} file has of them")
    return logs


def read_logs(paths: Iterable[str | Path], columns: Columns = None) -> list[FlightLog]:
    """The flights of several files, and of folders of them: every file there that is a log; no two of one name

    A folder with a `metadata.yaml` is a ROS 2 bag, as is one that holds nothing but `.db3`.
    """
    logs = [log for path in paths for file in _logs_at(Path(path)) for log in read_log(file, columns)]
    seen: dict[str, int] = {}
    named = []
    for log in logs:
        seen[log.name] = seen.get(log.name, 0) + 1
        named.append(log if seen[log.name] == 1 else replace(log, name=f"{log.name} ({seen[log.name]})"))
    return named


def _logs_at(path: Path) -> list[Path]:
    if not path.is_dir() or (path / "metadata.yaml").exists():
        return [path]
    inside = sorted(own for own in path.iterdir() if not own.name.startswith("."))
    if any(own.suffix == ".db3" for own in inside):
        return [path]
    found = [own for own in inside if own.is_file() and own.stat().st_size and _is_log(own)]
    found += [own for own in inside if own.is_dir() and (own / "metadata.yaml").exists()]
    if not found:
        raise ValueError(f"{printable(str(path))}: holds no flight log; expected some of the kinds that can be read")
    return sorted(found)


def _is_log(path: Path) -> bool:
    endings = {ending for own in FORMATS for ending in own.endings if ending.startswith(".")}
    return path.name.endswith(tuple(endings)) or (not path.suffix and any(own.begins(_head(path)) for own in FORMATS))


def _sentence(text: str) -> str:
    """What a library said of a stranger's file, on one line, fit to be shown"""
    line = printable(" ".join(text.split()))
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 3]}..."


def format_of(path: Path, columns: Columns = None) -> Format:
    """The kind of a file by how it begins; ValueError where it is none of them, empty, no file at all or too large"""
    shown = printable(str(path))
    by_name = {own.name: own for own in FORMATS}
    if path.is_dir():
        return by_name["ros2"]
    if path.exists() and not path.is_file():
        raise ValueError(f"{shown}: is no plain file; expected a flight log")
    size = path.stat().st_size
    if size > LARGEST:
        raise ValueError(f"{shown}: has {size / 1e9:.1f} GB; expected a log of at most {LARGEST / 1e9:.1f} GB")
    head = _head(path)
    if not head:
        raise ValueError(f"{shown}: is empty; expected a flight log")
    for own in FORMATS:
        if own.begins(head):
            return by_name["csv"] if columns is not None and own.endings[0] == ".csv" else own
    if columns is not None:
        return by_name["csv"]
    known = ", ".join(own.title for own in FORMATS)
    raise ValueError(f"{shown}: begins with {head[:16]!r}, as none of the logs that can be read; expected {known}")


def _head(path: Path) -> bytes:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            return file.read(HEAD)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(
            f"{printable(str(path))}: cannot be unpacked ({error}); expected a gzipped flight log"
        ) from None


def format_table() -> str:
    """The table of formats as Markdown"""
    heads = ("log", "files", "holds", "units", "axes", "rotor numbers", "time", "needs")
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for own in FORMATS:
        files = ", ".join(f"`{ending}`" if ending.startswith(".") else ending for ending in own.endings if ending)
        needs = f"`samara[{own.extra}]`" if own.extra else "–"
        cells = (own.title, files, own.holds, own.units, own.frames, own.numbering, own.time_base, needs)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
