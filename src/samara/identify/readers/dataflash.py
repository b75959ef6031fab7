"""ArduPilot's DataFlash logs, binary or text: FRD and NED, µs since boot.

A binary message is the bytes A3 95, its type, and packed values. Type 128, FMT, defines every type: its ID, its length, its
name, one letter for the type of each field, and the names of the fields; a text log has the same, a line each.

Motors are the pulses of `RCOU` on the outputs whose `SERVOn_FUNCTION` is a motor's; ArduCopter logs them ten times a second,
and if `RATE` is faster they are computed from it as the mixer does (`mixer_outputs`). The motion is the EKF's estimate
(`XKF1`, `XKQ`), or GPS and `ATT` if the log lacks it. Rates and specific force are the raw `GYR` and `ACC`, else those
of `IMU`, shifted by the delay of the driver's low pass.

pymavlink's DFReader is not used: it takes 19 times as long (95 ms for a log of 560 kB), rejects a log for one damaged letter in
a format, and without its compiled index never ends on a format of length 0.
"""

from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from samara.core.algebra import quat_from_euler
from samara.core.budget import Budget, bounded_lines, decompressed_limit, open_bounded, read_bounded
from samara.core.types import Array
from samara.identify.flight_log import ESTIMATE, FlightLog, Signal
from samara.identify.readers.registry import (
    DEGREE,
    NO_COMMAND,
    RPM,
    enu_attitude,
    enu_rows,
    file_stem,
    flu_rows,
    low_pass_delay,
    records,
    signal,
)
from samara.physics.frames import Geodetic, enu_from_geodetic
from samara.vehicles.rotor_numbering import NUMBERINGS

DEFAULT_PULSES_US = (1000.0, 2000.0)  # [µs]: zero and full thrust, unless the log's parameters differ
CHANNELS = 14
MESSAGE_HEAD, FMT = b"\xa3\x95", 128
MAX_MESSAGE_VALUES = 30_000_000  # binary messages, or cells of a text log
LETTERS = {  # NumPy's type of a field, and the factor implied by its letter
    **{"a": ("S64", 1.0), "b": ("i1", 1.0), "B": ("u1", 1.0), "h": ("<i2", 1.0), "H": ("<u2", 1.0), "i": ("<i4", 1.0)},
    **{"I": ("<u4", 1.0), "f": ("<f4", 1.0), "d": ("<f8", 1.0), "g": ("<f2", 1.0), "n": ("S4", 1.0), "N": ("S16", 1.0)},
    **{"Z": ("S64", 1.0), "c": ("<i2", 1e-2), "C": ("<u2", 1e-2), "e": ("<i4", 1e-2), "E": ("<u4", 1e-2)},
    **{"L": ("<i4", 1e-7), "M": ("u1", 1.0), "q": ("<i8", 1.0), "Q": ("<u8", 1.0)},
}
_FMT_FIELDS = np.dtype([("kind", "u1"), ("length", "u1"), ("name", "S4"), ("format", "S16"), ("columns", "S64")])
_MOTOR_FUNCTIONS = (*range(33, 41), *range(82, 86))  # SERVOn_FUNCTION of motors 1 … 12
_MESSAGES = (
    "PARM",
    "RCOU",
    "ESC",
    "XKF1",
    "NKF1",
    "XKQ",
    "NKQ1",
    "ATT",
    "IMU",
    "GYR",
    "ACC",
    "RATE",
    "GPS",
    "BAT",
    "CURR",
)
MAX_COMMAND_PERIOD_S = 0.05  # [s] between motor commands
DEFAULT_LOW_PASS_HZ = 20.0  # [Hz] of gyroscopes and accelerometers, unless the log's parameters differ
_INSTANCE = ("C", "I", "Inst", "Instance")  # names of the field with the index of the core or sensor


class DataflashMessages(NamedTuple):
    """All messages of one type: columns by name, of numbers or texts."""

    columns: dict[str, Array]

    @property
    def time(self) -> Array:
        """[s]"""
        return 1e-6 * self.columns["TimeUS"]

    def rows(self, names: Sequence[str]) -> list[Array]:
        return [self.columns[name] for name in names]

    def has(self, names: Sequence[str]) -> bool:
        return all(name in self.columns and self.columns[name].dtype.kind == "f" for name in (*names, "TimeUS"))

    def select_instance(self, number: int) -> "DataflashMessages":
        """Return the messages of one core or sensor, if they carry an index."""
        for name in _INSTANCE:
            if name in self.columns:
                mask = self.columns[name] == number
                return DataflashMessages({key: values[mask] for key, values in self.columns.items()})
        return self


Log = dict[str, DataflashMessages]


def read(path: Path, columns: object = None) -> list[FlightLog]:
    """Read the one flight of a log."""
    budget = Budget(path, max_bytes=decompressed_limit(path.stat().st_size), max_nodes=MAX_MESSAGE_VALUES)
    with open_bounded(path, Budget(path)) as stream:
        is_binary = stream.read(len(MESSAGE_HEAD)) == MESSAGE_HEAD
    log, skipped = _parse_binary(read_bounded(path, budget), budget) if is_binary else _parse_text(path, budget)
    parameters = _parameters(log)
    channels = _motor_channels(parameters)
    signals: dict[str, Any] = {
        "rotor_speed": _rotor_speed(log, channels),
        "rate": _imu_signal(
            log, "GYR", ("GyrX", "GyrY", "GyrZ"), parameters.get("INS_GYRO_FILTER", DEFAULT_LOW_PASS_HZ)
        ),
        "specific_force": _imu_signal(
            log, "ACC", ("AccX", "AccY", "AccZ"), parameters.get("INS_ACCEL_FILTER", DEFAULT_LOW_PASS_HZ)
        ),
        "voltage": _voltage(log),
        "attitude": _attitude(log),
        **_position_and_velocity(log),
    }
    truth = ESTIMATE if any(signals.get(name) for name in ("position", "attitude")) else ""
    command, notes = _command(path, log, channels, parameters)
    if skipped:
        notes.append(f"{skipped} bytes cannot be decoded: they are left out")
    return [FlightLog(file_stem(path), "ardupilot", "ardupilot", command, truth=truth, notes=tuple(notes), **signals)]


# Messages ----------------------------------------------------------------------------------------------------------


def _parse_binary(data: bytes, budget: Budget) -> tuple[Log, int]:
    """Return the messages of interest, and the count of bytes skipped between messages."""
    formats: dict[int, tuple[str, np.dtype[np.void], list[float]]] = {}
    lengths = {FMT: 3 + _FMT_FIELDS.itemsize}
    offsets: dict[int, array[int]] = {}
    at, skipped, last = 0, 0, len(data)
    while at + 3 <= last:
        message_type = data[at + 2]
        length = lengths.get(message_type)
        if data[at] != MESSAGE_HEAD[0] or data[at + 1] != MESSAGE_HEAD[1] or length is None:
            next_head = data.find(MESSAGE_HEAD, at + 1)
            skipped += (next_head if next_head >= 0 else last) - at
            at = next_head if next_head >= 0 else last
            continue
        if at + length > last:
            skipped += last - at
            break
        if message_type == FMT:
            _add_format(np.frombuffer(data, _FMT_FIELDS, 1, at + 3)[0], lengths, formats)
        elif message_type in formats:
            budget.spend_nodes(1, "messages")
            offsets.setdefault(message_type, array("q")).append(at + 3)
        at += length
    messages = {}
    for message_type, type_offsets in offsets.items():
        name, dtype, factors = formats[message_type]
        table = records(data, type_offsets, dtype)
        columns = zip(dtype.names or (), factors, strict=True)
        messages[name] = DataflashMessages({column: _numbers(table[column], factor) for column, factor in columns})
    return messages, skipped


def _add_format(
    message: np.void, lengths: dict[int, int], formats: dict[int, tuple[str, np.dtype[np.void], list[float]]]
) -> None:
    """Register the format of an FMT message if it is consistent: one name for each field, and the length of its fields."""
    message_type, length = int(message["kind"]), int(message["length"])
    name, letters, columns = (message[key].decode("ascii", "replace") for key in ("name", "format", "columns"))
    if message_type == FMT or length < 3:
        return
    lengths[message_type] = length
    formats.pop(message_type, None)
    names = columns.split(",")
    if (
        name not in _MESSAGES
        or len(names) != len(letters)
        or len(set(names)) < len(names)
        or not set(letters) <= LETTERS.keys()
    ):
        return
    dtype = np.dtype([(column, LETTERS[letter][0]) for column, letter in zip(names, letters, strict=True)])
    if dtype.itemsize == length - 3:
        formats[message_type] = (name, dtype, [LETTERS[letter][1] for letter in letters])


def _numbers(values: Array, factor: float) -> Array:
    return values if values.dtype.kind == "S" else factor * values.astype(float)


def _parse_text(path: Path, budget: Budget) -> tuple[Log, int]:
    """Return the messages of a text log, whose values are already in their units, and the count of bytes skipped."""
    names: dict[str, list[str]] = {}
    columns_by_type: dict[str, list[_Column]] = {}
    skipped = 0
    with open_bounded(path, budget) as stream:
        for line in bounded_lines(stream, budget):
            message_type, *cells = (cell.strip() for cell in line.decode("utf-8", "replace").split(","))
            if message_type == "FMT" and len(cells) > 4:
                if names.get(cells[2]) != cells[4:]:
                    columns_by_type.pop(cells[2], None)  # only messages of the last format count
                names[cells[2]] = cells[4:]
            elif message_type in _MESSAGES and len(cells) == len(names.get(message_type, ())):
                columns = columns_by_type.setdefault(message_type, [_Column() for _ in cells])
                budget.spend_nodes(sum(column.cost for column in columns), "values")
                for column, cell in zip(columns, cells, strict=True):
                    column.append(cell)
            elif message_type in _MESSAGES:
                skipped += len(line)
    return {
        message_type: DataflashMessages(
            {name: column.values() for name, column in zip(names[message_type], columns, strict=True)}
        )
        for message_type, columns in columns_by_type.items()
    }, skipped


class _Column:
    """Cells of one field: eight bytes each while they are numbers, texts from the first cell that is not a number."""

    def __init__(self) -> None:
        self._numbers = array("d")
        self._texts: list[str] | None = None

    @property
    def cost(self) -> int:
        """Budget of a cell, in numbers."""
        return 1 if self._texts is None else 10

    def append(self, cell: str) -> None:
        if self._texts is None:
            try:
                self._numbers.append(float(cell))
                return
            except ValueError:
                self._texts = [f"{number:g}" for number in self._numbers]
        self._texts.append(cell)

    def values(self) -> Array:
        return np.frombuffer(self._numbers, dtype=float) if self._texts is None else np.array(self._texts, dtype=object)


def _parameters(log: Log) -> dict[str, float]:
    messages = log.get("PARM")
    if messages is None or not messages.has(("Value",)) or "Name" not in messages.columns:
        return {}
    names = (
        name.decode("ascii", "replace") if isinstance(name, bytes) else str(name) for name in messages.columns["Name"]
    )
    return {name: float(value) for name, value in zip(names, messages.columns["Value"], strict=True)}


# Signals -----------------------------------------------------------------------------------------------------------


def _motor_channels(parameters: dict[str, float]) -> list[int]:
    """Return the outputs, counted from 1, of motor 1, 2, …; the first four if no parameter assigns them."""
    function = {parameters.get(f"SERVO{n}_FUNCTION"): n for n in range(CHANNELS, 0, -1)}
    channels = [function[code] for code in _MOTOR_FUNCTIONS if code in function]
    return channels or [1, 2, 3, 4]


def _command(path: Path, log: Log, channels: list[int], parameters: dict[str, float]) -> tuple[Signal, list[str]]:
    """(pulse − MOT_PWM_MIN) / (MOT_PWM_MAX − MOT_PWM_MIN); no pulse is zero thrust."""
    names = [f"C{n}" for n in channels]
    outputs, rate = log.get("RCOU"), log.get("RATE")
    if outputs is None or not outputs.has(names):
        if _rotor_speed(log, channels) is not None:
            return NO_COMMAND, []
        raise ValueError(f"{path}: holds no motors; expected messages RCOU with {', '.join(names)}")
    ends = zip(("MOT_PWM_MIN", "MOT_PWM_MAX"), DEFAULT_PULSES_US, strict=True)
    low, high = (parameters.get(name, 0.0) or default for name, default in ends)
    if not low < high:
        raise ValueError(f"{path}: MOT_PWM_MIN is {low:g} and MOT_PWM_MAX {high:g}; expected the first to be less")
    pulses = np.stack(outputs.rows(names))
    from_pulses = Signal(outputs.time, np.where(pulses > 0.0, (pulses - low) / (high - low), 0.0))
    if len(outputs.time) < 2 or np.median(np.diff(outputs.time)) <= MAX_COMMAND_PERIOD_S:
        return from_pulses, []
    from_rates = None
    if rate is not None and rate.has(OUTPUTS) and len(rate.time) > 2 * len(outputs.time):
        from_rates = mixer_outputs(signal(rate.time, rate.rows(OUTPUTS)), from_pulses, parameters)
    if from_rates is not None:
        return from_rates, ["its motors are computed from RATE as the mixer does: RCOU is logged rarely"]
    return from_pulses, ["ArduPilot logs its motors rarely; set fast attitude in LOG_BITMASK to log them in RATE"]


def _rotor_speed(log: Log, channels: list[int]) -> Signal | None:
    """Return the rotor speeds; `ESC` indexes its messages by output, from 0, and all are interpolated at the first's times."""
    telemetry = log.get("ESC")
    if telemetry is None or not telemetry.has(("Instance", "RPM")):
        return None
    by_motor = [telemetry.select_instance(n - 1) for n in channels]
    if not all(len(messages.time) > 1 for messages in by_motor):
        return None
    time = by_motor[0].time
    return signal(time, [RPM * np.interp(time, messages.time, messages.columns["RPM"]) for messages in by_motor])


def _imu_signal(log: Log, raw: str, names: Sequence[str], cutoff: float) -> Signal | None:
    """Return the signal of the first sensor in body axes with its sample times: raw, or filtered."""
    if raw in log and log[raw].has((*names, "SampleUS")):
        messages = log[raw].select_instance(0)
        return signal(1e-6 * messages.columns["SampleUS"], flu_rows(messages.rows(names)))
    if "IMU" not in log or not log["IMU"].has(names):
        return None
    messages = log["IMU"].select_instance(0)
    return signal(messages.time - low_pass_delay(cutoff), flu_rows(messages.rows(names)))


def _attitude(log: Log) -> Signal | None:
    for name in ("XKQ", "NKQ1"):
        if name in log and log[name].has(("Q1", "Q2", "Q3", "Q4")):
            messages = log[name].select_instance(0)
            return signal(messages.time, enu_attitude(messages.rows(("Q1", "Q2", "Q3", "Q4"))))
    if "ATT" in log and log["ATT"].has(("Roll", "Pitch", "Yaw")):
        messages = log["ATT"]
        roll, pitch, yaw = (DEGREE * row for row in messages.rows(("Roll", "Pitch", "Yaw")))
        return signal(messages.time, enu_attitude(quat_from_euler(roll, pitch, yaw)))
    return None


def _position_and_velocity(log: Log) -> dict[str, Signal]:
    """Return position and velocity of the first core's EKF, else of GPS."""
    for name in ("XKF1", "NKF1"):
        if name in log and log[name].has(("PN", "PE", "PD", "VN", "VE", "VD")):
            messages = log[name].select_instance(0)
            position, velocity = (enu_rows(messages.rows(names)) for names in (("PN", "PE", "PD"), ("VN", "VE", "VD")))
            return {"position": signal(messages.time, position), "velocity": signal(messages.time, velocity)}
    fields = ("Lat", "Lng", "Alt", "Spd", "GCrs", "VZ")
    if "GPS" in log and log["GPS"].has(("Status", *fields)):
        messages = log["GPS"].select_instance(0)
        has_fix = messages.columns["Status"] >= 3
        latitude, longitude, altitude, speed, course, down = (row[has_fix] for row in messages.rows(fields))
        if has_fix.any():
            positions = Geodetic(DEGREE * latitude, DEGREE * longitude, altitude)
            origin = Geodetic(*(float(row[0]) for row in positions))
            north, east = speed * np.cos(DEGREE * course), speed * np.sin(DEGREE * course)
            return {
                "position": signal(messages.time[has_fix], enu_from_geodetic(positions, origin)),
                "velocity": signal(messages.time[has_fix], enu_rows([north, east, down])),
            }
    return {}


def _voltage(log: Log) -> Signal | None:
    for name in ("BAT", "CURR"):
        if name in log and log[name].has(("Volt",)):
            messages = log[name].select_instance(0)
            return signal(messages.time, messages.rows(("Volt",)))
    return None


OUTPUTS = ("ROut", "POut", "YOut", "AOut")
FRAMES = {(1.0, 4): "quad_x", (2.0, 6): "hexa_x", (3.0, 8): "octo_x"}  # by FRAME_CLASS and motors
X_FRAME_TYPE = 1.0  # FRAME_TYPE
EXPO, SPIN_MIN, SPIN_MAX = 0.65, 0.15, 0.95  # unless the log's parameters differ
MAX_MIXER_ERROR = 0.03  # RMS of the difference to RCOU


def mixer_outputs(rate: Signal, outputs: Signal, parameters: dict[str, float]) -> Signal | None:
    """Compute motors 0 … 1 from `RATE`, which is logged in every cycle, as ArduCopter's mixer does.

        Tᵢ = g (A + sin αᵢ R/2 + cos αᵢ P/2 + sᵢ Y/2),    e u² + (1 − e) u = Tᵢ,    output = spin_min + (spin_max − spin_min) u

    R, P, Y and A are `ROut`, `POut`, `YOut` and `AOut`; α and s are a motor's azimuth and spin, with sines and cosines relative
    to their largest; e is `MOT_THST_EXPO`. g is ArduPilot's compensation of thin air and low voltage, fitted to `RCOU`. Near
    its limits the mixer reduces yaw and thrust: returns None if the result differs from `RCOU`, or the frame is unknown.
    """
    motors = len(outputs.values)
    frame = FRAMES.get((parameters.get("FRAME_CLASS", 1.0), motors))
    is_flying = outputs.values.min(axis=0) > 0.0
    if frame is None or parameters.get("FRAME_TYPE", X_FRAME_TYPE) != X_FRAME_TYPE or is_flying.sum() < 2:
        return None
    motor_positions = NUMBERINGS[frame]["ardupilot"].rotors
    azimuth = np.radians([motor.azimuth_deg for motor in motor_positions])
    factors = np.stack([_relative_to_largest(np.sin(azimuth)), _relative_to_largest(np.cos(azimuth))], axis=1)
    weights = np.column_stack([factors, [0.5 * motor.spin for motor in motor_positions], np.ones(motors)])
    thrust = weights @ rate.values
    expo, low, high = (
        parameters.get(name, default)
        for name, default in (("MOT_THST_EXPO", EXPO), ("MOT_SPIN_MIN", SPIN_MIN), ("MOT_SPIN_MAX", SPIN_MAX))
    )
    output_times = outputs.time[is_flying]
    rate_index = np.clip(np.searchsorted(rate.time, output_times, side="right") - 1, 0, len(rate.time) - 1)
    output_thrust = _thrust((outputs.values[:, is_flying] - low) / max(high - low, 1e-6), expo)
    gain = float(np.median(output_thrust.mean(axis=0) / np.maximum(thrust[:, rate_index].mean(axis=0), 1e-3)))
    values = low + (high - low) * _throttle(np.clip(gain * thrust, 0.0, 1.0), expo)
    if not np.sqrt(np.mean((values[:, rate_index] - outputs.values[:, is_flying]) ** 2)) < MAX_MIXER_ERROR:
        return None
    return Signal(rate.time, values)


def _relative_to_largest(factors: Array) -> Array:
    """Return the factors relative to the largest, which becomes a half."""
    return np.asarray(0.5 * factors / np.abs(factors).max())


def _thrust(u: Array, expo: float) -> Array:
    """e u² + (1 − e) u = T"""
    u = np.clip(u, 0.0, 1.0)
    return np.asarray(expo * u * u + (1.0 - expo) * u)


def _throttle(thrust: Array, expo: float) -> Array:
    """Solve e u² + (1 − e) u = T for u."""
    if abs(expo) < 1e-6:
        return thrust
    return np.asarray((expo - 1.0 + np.sqrt((1.0 - expo) ** 2 + 4.0 * expo * thrust)) / (2.0 * expo))
