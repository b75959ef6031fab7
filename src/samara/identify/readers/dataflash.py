"""ArduPilot's DataFlash logs, binary or text, by pymavlink: FRD and NED, µs since boot.

Motors are the pulses of `RCOU` on the outputs whose `SERVOn_FUNCTION` is a motor's. What the aircraft did is the EKF's estimate
(`XKF1`, `XKQ`), or GPS and `ATT` where the log has no more. pymavlink finds the messages and knows their formats; their numbers
are taken from the file all at once.
"""

import contextlib
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from samara.core.algebra import quat_from_euler
from samara.core.extras import MissingExtraError
from samara.identify.log import ESTIMATE, FlightLog, Signal
from samara.identify.readers.signals import DEGREE, RPM, enu, enu_attitude, flu, records, signal
from samara.physics.frames import Geodetic, enu_from_geodetic

PULSES = (1000.0, 2000.0)  # [µs]: no thrust and all, where the log's parameters say nothing else
CHANNELS = 14
_MOTOR_FUNCTIONS = (*range(33, 41), *range(82, 86))  # SERVOn_FUNCTION of motors 1 … 12
_MESSAGES = ("PARM", "RCOU", "ESC", "XKF1", "NKF1", "XKQ", "NKQ1", "ATT", "IMU", "GPS", "BAT", "CURR")
_INSTANCE = ("C", "I", "Inst", "Instance")  # what messages call the number of the core or the sensor they are of
_BINARY = {"b": "i1", "B": "u1", "h": "<i2", "H": "<u2", "i": "<i4", "I": "<u4", "q": "<i8", "Q": "<u8"} | {
    "f": "<f4", "d": "<f8", "e": "<f2",
}  # fmt: skip

Array = np.ndarray[Any, Any]


class Messages(NamedTuple):
    """All messages of one kind: columns of numbers by name, texts for those that are names"""

    columns: dict[str, Array]

    @property
    def time(self) -> Array:
        return 1e-6 * self.columns["TimeUS"].astype(float)

    def rows(self, names: Sequence[str]) -> list[Array]:
        return [self.columns[name].astype(float) for name in names]

    def has(self, names: Sequence[str]) -> bool:
        return all(name in self.columns for name in (*names, "TimeUS"))

    def of(self, number: int) -> "Messages":
        """Those of one core or sensor, where they say of which they are"""
        for name in _INSTANCE:
            if name in self.columns:
                own = self.columns[name] == number
                return Messages({key: values[own] for key, values in self.columns.items()})
        return self


Log = dict[str, Messages]


def read(path: Path, columns: object = None) -> list[FlightLog]:
    """The one flight of a log"""
    with path.open("rb") as file:
        text = file.read(3) == b"FMT"
    silent = io.StringIO()
    with contextlib.redirect_stdout(silent), contextlib.redirect_stderr(silent):
        try:
            log = _text(path) if text else _binary(path)
        except MissingExtraError:
            raise
        except Exception as error:  # pymavlink's own, and Python's where the bytes mean nothing
            raise ValueError(f"{path}: cannot be read ({error}); expected a whole DataFlash log") from None
    parameters = _parameters(log)
    channels = _motor_channels(parameters)
    held = {
        "rotor_speed": _rotor_speed(log, channels),
        "rate": _vector(log, "IMU", ("GyrX", "GyrY", "GyrZ")),
        "specific_force": _vector(log, "IMU", ("AccX", "AccY", "AccZ")),
        "voltage": _voltage(log),
        "attitude": _attitude(log),
        **_place(log),
    }
    truth = ESTIMATE if any(held.get(name) for name in ("position", "attitude")) else ""
    command = _command(path, log, channels, parameters)
    return [FlightLog(path.stem, "ardupilot", "ardupilot", command, truth=truth, **held)]


# Messages ----------------------------------------------------------------------------------------------------------


def _reader() -> Any:
    try:
        from pymavlink import DFReader  # type: ignore[import-untyped]
    except ImportError:
        raise MissingExtraError("ArduPilot's logs are read by pymavlink: pip install 'samara[logs]'") from None
    return DFReader


def _index(kind: Any, path: Path) -> Any:
    """pymavlink's index of a file, without its clock, for which it would read all of it once more"""
    return type("Index", (kind,), {"init_clock": lambda self: None})(str(path))


def _binary(path: Path) -> Log:
    reader = _reader()

    index = _index(reader.DFReader_binary, path)
    try:
        data = bytes(index.data_map)
        found = {}
        for number, own in index.formats.items():
            if own.name not in _MESSAGES:
                continue
            dtype = np.dtype(
                [(name, _field(letter)) for name, letter in zip(own.columns, _letters(reader, own), strict=True)]
            )
            starts = np.array(
                [at for at in index.offsets[number] if at + 3 + dtype.itemsize <= len(data)], dtype=np.int64
            )
            if not starts.size:
                continue
            table = records(data, starts + 3, dtype)
            found[own.name] = Messages(
                {
                    name: table[name] if not factor else factor * table[name]
                    for name, factor in zip(own.columns, own.msg_mults, strict=True)
                }
            )
        return found
    finally:
        index.close()


def _letters(reader: Any, own: Any) -> list[str]:
    return [reader.FORMAT_TO_STRUCT[letter][0] for letter in own.format.rstrip("\0")]


def _field(code: str) -> str:
    """NumPy's type of a field from that of `struct`"""
    return f"S{code[:-1]}" if code.endswith("s") else _BINARY[code]


def _text(path: Path) -> Log:
    reader = _reader()

    index = _index(reader.DFReader_text, path)
    try:
        rows: dict[str, list[Any]] = {}
        names: dict[str, list[str]] = {}
        while (message := index.recv_match(type=list(_MESSAGES))) is not None:
            kind = message.get_type()
            names[kind] = message.get_fieldnames()
            rows.setdefault(kind, []).append([getattr(message, name) for name in names[kind]])
        return {
            kind: Messages(
                {name: np.array(values) for name, values in zip(names[kind], zip(*own, strict=True), strict=True)}
            )
            for kind, own in rows.items()
        }
    finally:
        index.close()


def _parameters(log: Log) -> dict[str, float]:
    own = log.get("PARM")
    if own is None:
        return {}
    names = (name.decode("ascii", "replace") if isinstance(name, bytes) else str(name) for name in own.columns["Name"])
    return {name.rstrip("\0"): float(value) for name, value in zip(names, own.columns["Value"], strict=True)}


# Signals -----------------------------------------------------------------------------------------------------------


def _motor_channels(parameters: dict[str, float]) -> list[int]:
    """The outputs, counted from 1, that drive motor 1, 2, …; the first four where no parameter says so"""
    function = {parameters.get(f"SERVO{n}_FUNCTION"): n for n in range(CHANNELS, 0, -1)}
    found = [function[own] for own in _MOTOR_FUNCTIONS if own in function]
    return found or [1, 2, 3, 4]


def _command(path: Path, log: Log, channels: list[int], parameters: dict[str, float]) -> Signal:
    """(pulse − MOT_PWM_MIN) / (MOT_PWM_MAX − MOT_PWM_MIN); no pulse at all is no thrust"""
    names = [f"C{n}" for n in channels]
    own = log.get("RCOU")
    if own is None or not own.has(names) or not len(own.time):
        raise ValueError(f"{path}: holds no motors; expected messages RCOU with {', '.join(names)}")
    ends = zip(("MOT_PWM_MIN", "MOT_PWM_MAX"), PULSES, strict=True)
    low, high = (parameters.get(name, 0.0) or default for name, default in ends)
    pulses = np.stack(own.rows(names))
    return Signal(own.time, np.where(pulses > 0.0, (pulses - low) / (high - low), 0.0))


def _rotor_speed(log: Log, channels: list[int]) -> Signal | None:
    """`ESC` numbers its messages by output, from 0; where those of one came they are taken to hold for all"""
    own = log.get("ESC")
    if own is None or not own.has(("Instance", "RPM")):
        return None
    each = [own.of(n - 1) for n in channels]
    if not all(len(messages.time) > 1 for messages in each):
        return None
    time = each[0].time
    return signal(time, [RPM * np.interp(time, messages.time, messages.columns["RPM"]) for messages in each])


def _vector(log: Log, kind: str, names: Sequence[str]) -> Signal | None:
    """A vector in body axes of the first sensor"""
    if kind not in log or not log[kind].has(names):
        return None
    own = log[kind].of(0)
    return signal(own.time, flu(own.rows(names)))


def _attitude(log: Log) -> Signal | None:
    for kind in ("XKQ", "NKQ1"):
        if kind in log and log[kind].has(("Q1", "Q2", "Q3", "Q4")):
            own = log[kind].of(0)
            return signal(own.time, enu_attitude(own.rows(("Q1", "Q2", "Q3", "Q4"))))
    if "ATT" in log and log["ATT"].has(("Roll", "Pitch", "Yaw")):
        own = log["ATT"]
        roll, pitch, yaw = (DEGREE * row for row in own.rows(("Roll", "Pitch", "Yaw")))
        return signal(own.time, enu_attitude(quat_from_euler(roll, pitch, yaw)))
    return None


def _place(log: Log) -> dict[str, Any]:
    """Position and velocity of the first core's EKF, else of GPS"""
    for kind in ("XKF1", "NKF1"):
        if kind in log and log[kind].has(("PN", "PE", "PD", "VN", "VE", "VD")):
            own = log[kind].of(0)
            position, velocity = (enu(own.rows(names)) for names in (("PN", "PE", "PD"), ("VN", "VE", "VD")))
            return {"position": signal(own.time, position), "velocity": signal(own.time, velocity)}
    if "GPS" in log and log["GPS"].has(("Status", "Lat", "Lng", "Alt", "Spd", "GCrs", "VZ")):
        own = log["GPS"].of(0)
        fixed = own.columns["Status"] >= 3
        latitude, longitude, altitude, speed, course, down = (
            row[fixed] for row in own.rows(("Lat", "Lng", "Alt", "Spd", "GCrs", "VZ"))
        )
        if fixed.any():
            places = Geodetic(DEGREE * latitude, DEGREE * longitude, altitude)
            origin = Geodetic(*(float(row[0]) for row in places))
            north, east = speed * np.cos(DEGREE * course), speed * np.sin(DEGREE * course)
            return {
                "position": signal(own.time[fixed], enu_from_geodetic(places, origin)),
                "velocity": signal(own.time[fixed], enu([north, east, down])),
            }
    return {}


def _voltage(log: Log) -> Signal | None:
    for kind in ("BAT", "CURR"):
        if kind in log and log[kind].has(("Volt",)):
            own = log[kind].of(0)
            return signal(own.time, own.rows(("Volt",)))
    return None
