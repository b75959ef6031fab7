"""The table of supported log formats: how a file is recognised, and its contents, units and axes.

    from samara.identify.readers import read_log
    (flight,) = read_log("log10")

A file is recognised by its first bytes, whatever its name; only a CSV with a column map is read as the map describes. Every
log is returned in FLU and z up, in SI units, with seconds from its first sample.
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
from samara.core.extras import DISTRIBUTION, MissingExtraError
from samara.core.sanitise import escape_control_characters
from samara.core.types import Array
from samara.core.units import CONVERSIONS
from samara.identify.flight_log import FlightLog, Signal
from samara.physics.frames import attitude_enu_flu_from_ned_frd, enu_from_ned, flu_from_frd

BLOCK_RECORDS = 1 << 16  # records
RPM = CONVERSIONS["rpm", "rad/s"](1.0)
DEGREE = CONVERSIONS["deg", "rad"](1.0)
G = CONVERSIONS["g", "m/s^2"](1.0)
NO_COMMAND = Signal(np.empty(0), np.empty((0, 0)))


def signal(time: ArrayLike, rows: Sequence[ArrayLike] | Array) -> Signal:
    """Create a signal from times and one row per component, as doubles."""
    return Signal(np.asarray(time, dtype=float), np.stack([np.asarray(row, dtype=float) for row in rows]))


def file_stem(path: Path) -> str:
    """Return the file name without its suffix, also of a gzipped file."""
    return Path(path.name.removesuffix(".gz")).stem


def low_pass_delay(cutoff: float) -> float:
    """√2 / (2π f): the delay of a second-order Butterworth low pass for slow signals; 0 without a filter  [s]"""
    return math.sqrt(2.0) / (2.0 * math.pi * cutoff) if 0.0 < cutoff < math.inf else 0.0


def flu_rows(rows: Sequence[Array] | Array) -> Array:
    """Convert body vectors from FRD to FLU, (3, n)."""
    return np.stack(flu_from_frd(Vec3(*rows)))


def enu_rows(rows: Sequence[Array] | Array) -> Array:
    """Convert world vectors from NED to ENU, (3, n)."""
    return np.stack(enu_from_ned(Vec3(*rows)))


def enu_attitude(rows: Sequence[Array] | Array) -> Array:
    """Convert quaternions (w, x, y, z) from FRD → NED to FLU → ENU, (4, n)."""
    return np.stack(attitude_enu_flu_from_ned_frd(Quat(*rows)))


def records(data: bytes, offsets: ArrayLike, dtype: np.dtype[np.void]) -> Array:
    """Return the packed records at these byte offsets of a file."""
    starts = np.asarray(offsets, dtype=np.int64)[:, None]
    source, table = np.frombuffer(data, dtype=np.uint8), np.empty(len(starts), dtype=dtype)
    packed = table.view(np.uint8).reshape(len(starts), dtype.itemsize)
    for block in range(0, len(starts), BLOCK_RECORDS):  # indices take eight bytes per byte read: work in blocks
        packed[block : block + BLOCK_RECORDS] = source[
            starts[block : block + BLOCK_RECORDS] + np.arange(dtype.itemsize)
        ]
    return table


def signal_names() -> tuple[str, ...]:
    """Return the names of the fields of a log that are signals."""
    return tuple(field.name for field in fields(FlightLog) if "Signal" in str(field.type))


def present_signals(log: FlightLog) -> dict[str, Signal]:
    """Return the signals present in a log, by name."""
    values = {name: getattr(log, name) for name in signal_names()}
    return {name: log_signal for name, log_signal in values.items() if log_signal is not None}


def shift_to_first_sample(log: FlightLog) -> FlightLog:
    """Return the log with times counted from its first sample; signals without samples become None."""
    present = {
        name: log_signal
        for name, log_signal in present_signals(log).items()
        if log_signal.values.size or name == "command"
    }
    start = min(
        (float(np.nanmin(log_signal.time)) for log_signal in present.values() if np.isfinite(log_signal.time).any()),
        default=0.0,
    )
    shifted: dict[str, Any] = dict.fromkeys(signal_names())
    shifted |= {name: Signal(log_signal.time - start, log_signal.values) for name, log_signal in present.items()}
    return replace(log, start=start, **shifted)


def complete_command(log: FlightLog) -> FlightLog:
    """Return a log without motor commands with rotor speeds over the fastest in their place."""
    if len(log.command.values) or log.rotor_speed is None:
        return log
    speeds = np.abs(log.rotor_speed.values)
    fastest = float(np.nanmax(speeds, initial=0.0))
    note = "holds rotor speeds but no motor commands: motor lag and the speed of a command cannot be identified"
    command = Signal(log.rotor_speed.time, speeds / (fastest or 1.0))
    return replace(log, command=command, has_command=False, notes=(*log.notes, note))


MAX_FILE_BYTES = 2 << 30  # [bytes]: hours of flight in any of these formats
HEAD_BYTES = 4096  # [bytes] read to recognise a file
MAX_MESSAGE_LENGTH = 600  # characters of an error message
MCAP = b"\x89MCAP0\r\n"

Columns = str | Path | Mapping[str, object] | None


class LogFormat(NamedTuple):
    """A log format: how a file begins, its reader, and its units and axes before conversion."""

    name: str
    title: str
    endings: tuple[str, ...]
    matches: Callable[[bytes], bool]
    reader: str  # 'module.function' of this package; function(path, columns) returns the flights
    contents: str
    units: str
    frames: str
    numbering: str
    time_base: str
    extra: str = ""


def _has_columns(*columns: str) -> Callable[[bytes], bool]:
    """Return a predicate: whether the first line of a text has these columns."""
    required = {column.encode() for column in columns}

    def begins(head: bytes) -> bool:
        line = head.removeprefix(b"\xef\xbb\xbf").partition(b"\n")[0]
        return required <= {cell.strip(b" \r\"'") for cell in line.split(b",")}

    return begins


def _crazyflie_csv(head: bytes) -> bool:
    names = ("motor{}m1", "motor{}m1req", "pwm{}m1_pwm", "pwm{}m1", "rpm{}m1")
    return any(_has_columns(name.format(point))(head) for name in names for point in "._")


FORMATS = (
    LogFormat(
        "px4",
        "PX4 ULog",
        (".ulg", ".ulg.gz"),
        lambda head: head.startswith(b"ULog\x01\x12\x35"),
        "ulog.read",
        "motors, rotor speeds of ESCs with telemetry, estimate or motion capture, IMU, battery",
        "SI; motors 0 … 1, or µs of pulse; rpm",
        "FRD, NED",
        "px4",
        "µs since boot, when sampled; filtered rates shifted by the delay of their low pass",
        "logs",
    ),
    LogFormat(
        "ardupilot",
        "ArduPilot DataFlash",
        (".bin", ".log", ".bin.gz"),
        lambda head: head.startswith((b"\xa3\x95\x80", b"FMT,")),
        "dataflash.read",
        "motors, rotor speeds of ESCs with telemetry, estimate or GPS, IMU, battery",
        "SI; motors in µs of pulse, or as the mixer computes them from `RATE`; rpm; °",
        "FRD, NED",
        "ardupilot",
        "µs since boot; filtered rates shifted by the delay of their low pass",
    ),
    LogFormat(
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
    LogFormat(
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
    LogFormat(
        "nanobench",
        "NanoBench CSV",
        (".csv", ".csv.gz"),
        _has_columns("t", "px", "qw", "wx_vicon", "motor_motor_m1"),
        "crazyflie.read_nanobench",
        "motors, motion capture, IMU, battery",
        "g, rad/s, m, V; motors 0 … 65535",
        "FLU, z up",
        "crazyflie",
        "s (Unix), 100 Hz, resampled by its authors",
    ),
    LogFormat(
        "crazyflie_csv",
        "Crazyflie CSV",
        (".csv", ".csv.gz"),
        _crazyflie_csv,
        "crazyflie.read",
        "as the µSD log, under the firmware's names: `motor.m1` or `pwm.m1_pwm`, `acc.x`, `stateEstimate.x` …",
        "as the µSD log",
        "FLU, z up",
        "crazyflie",
        "ms, a column `timestamp`, `time` or `tick`",
    ),
    LogFormat(
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
    LogFormat(
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
    LogFormat(
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
"""All supported formats; a file has the first format whose beginning it matches."""

_LIBRARY_ERRORS = (
    *(ArithmeticError, AttributeError, LookupError, TypeError, RuntimeError, MemoryError, EOFError),
    *(AssertionError, struct.error, zlib.error),
)


def read_log(path: str | Path, columns: Columns = None) -> list[FlightLog]:
    """Read the flights of a log file, one or several, in any supported format.

    Args:
        path: the log file, or the folder of a ROS 2 bag.
        columns: for a CSV the map of its columns (`samara.identify.readers.csv_mapping`), for a ROS 2 bag that of its topics: a
            TOML file or a dictionary.

    Raises:
        ValueError: the file cannot be read or contains no motors; the message is one sentence.
    """
    log_path = Path(path)
    shown = escape_control_characters(str(path))
    log_format = detect_format(log_path, columns)
    try:
        module, _, function = log_format.reader.partition(".")
        read = getattr(import_module(f"samara.identify.readers.{module}"), function)
        logs = [complete_command(shift_to_first_sample(log)) for log in read(log_path, columns)]
    except (MissingExtraError, OSError):
        raise
    except ValueError as error:
        is_named = str(error).startswith((str(log_path), "columns:" if isinstance(columns, Mapping) else f"{columns}:"))
        raise ValueError(_sentence(f"{error}" if is_named else f"{log_path}: {error}")) from None
    except _LIBRARY_ERRORS as error:
        problem = f"{type(error).__name__}: {error}"
        raise ValueError(
            _sentence(f"{log_path}: cannot be read ({problem}); expected a whole {log_format.title} file")
        ) from error
    if not logs:
        raise ValueError(f"{shown}: holds no flight; expected a {log_format.title} file with motors")
    for log in logs:
        if not len(log.command.values) or not len(log.command.time):
            raise ValueError(f"{shown}: holds no motors; expected the motor signals of a {log_format.title} file")
    return logs


def read_logs(
    paths: Iterable[str | Path], columns: Columns = None, on_skip: Callable[[str], None] | None = None
) -> list[FlightLog]:
    """Read the flights of several files, and of all log files in folders; flights of equal name get a number.

    A folder with a `metadata.yaml` is a ROS 2 bag, as is one with `.db3` files only.

    Args:
        paths: files and folders.
        columns: as in `read_log`.
        on_skip: called with a sentence about each file that cannot be read, if others can; without it, such a file is an error.

    Raises:
        ValueError: no file can be read, or one cannot and there is no `on_skip`.
    """
    logs: list[FlightLog] = []
    problems: list[ValueError] = []
    files = [file for path in paths for file in _log_paths(Path(path))]
    for file in files:
        try:
            logs += read_log(file, columns)
        except ValueError as error:
            problems.append(error)
            if on_skip is None or len(problems) == len(files):
                raise
    if on_skip is not None:
        for problem in problems:
            on_skip(f"skipped {problem}")
    counts: dict[str, int] = {}
    renamed = []
    for log in logs:
        counts[log.name] = counts.get(log.name, 0) + 1
        renamed.append(log if counts[log.name] == 1 else replace(log, name=f"{log.name} ({counts[log.name]})"))
    return renamed


def _log_paths(path: Path) -> list[Path]:
    if not path.is_dir() or (path / "metadata.yaml").exists():
        return [path]
    entries = sorted(entry for entry in path.iterdir() if not entry.name.startswith("."))
    if any(entry.suffix == ".db3" for entry in entries):
        return [path]
    log_paths = [entry for entry in entries if entry.is_file() and entry.stat().st_size and _is_log(entry)]
    log_paths += [entry for entry in entries if entry.is_dir() and (entry / "metadata.yaml").exists()]
    if not log_paths:
        raise ValueError(
            f"{escape_control_characters(str(path))}: holds no flight log; expected at least one in a supported format"
        )
    return sorted(log_paths)


def _is_log(path: Path) -> bool:
    endings = {ending for log_format in FORMATS for ending in log_format.endings if ending.startswith(".")}
    return path.name.endswith(tuple(endings)) or (
        not path.suffix and any(log_format.matches(_head(path)) for log_format in FORMATS)
    )


def _sentence(text: str) -> str:
    """Return a library's error about an untrusted file as one printable line."""
    line = escape_control_characters(" ".join(text.split()))
    return line if len(line) <= MAX_MESSAGE_LENGTH else f"{line[: MAX_MESSAGE_LENGTH - 3]}..."


def detect_format(path: Path, columns: Columns = None) -> LogFormat:
    """Return the format of a file by its first bytes; raise ValueError if it is unknown, empty, not a file or too large."""
    shown = escape_control_characters(str(path))
    by_name = {log_format.name: log_format for log_format in FORMATS}
    if path.is_dir():
        return by_name["ros2"]
    if path.exists() and not path.is_file():
        raise ValueError(f"{shown}: is not a regular file; expected a flight log")
    size = path.stat().st_size
    if size > MAX_FILE_BYTES:
        raise ValueError(f"{shown}: has {size / 1e9:.1f} GB; expected a log of at most {MAX_FILE_BYTES / 1e9:.1f} GB")
    head = _head(path)
    if not head:
        raise ValueError(f"{shown}: is empty; expected a flight log")
    for log_format in FORMATS:
        if log_format.matches(head):
            return by_name["csv"] if columns is not None and log_format.endings[0] == ".csv" else log_format
    if columns is not None:
        return by_name["csv"]
    titles = ", ".join(log_format.title for log_format in FORMATS)
    if path.suffix.lower() == ".csv":
        raise ValueError(
            f"{shown}: has unknown columns; expected --columns MAP.toml, which names its time, motors and signals"
        )
    raise ValueError(f"{shown}: begins with {head[:16]!r}, which no supported format does; expected {titles}")


def _head(path: Path) -> bytes:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            return file.read(HEAD_BYTES)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(
            f"{escape_control_characters(str(path))}: cannot be unpacked ({error}); expected a gzipped flight log"
        ) from None


def format_table() -> str:
    """Return the table of formats as Markdown."""
    headings = ("log", "files", "holds", "units", "axes", "rotor numbers", "time", "needs")
    lines = [f"| {' | '.join(headings)} |", "|" + "---|" * len(headings)]
    for log_format in FORMATS:
        files = ", ".join(
            f"`{ending}`" if ending.startswith(".") else ending for ending in log_format.endings if ending
        )
        needs = f"`{DISTRIBUTION}[{log_format.extra}]`" if log_format.extra else "–"
        cells = (
            log_format.title,
            files,
            log_format.contents,
            log_format.units,
            log_format.frames,
            log_format.numbering,
            log_format.time_base,
            needs,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
