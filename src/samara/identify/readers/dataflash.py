"""ArduPilot's DataFlash logs, binary or text: FRD and NED, µs since boot.

A binary message is the bytes A3 95, the number of its kind, and packed numbers. Kind 128, FMT, tells of every kind its number,
its length, its name, one letter for the type of each field, and the names of the fields; a text log has the same, a line each.

Motors are the pulses of `RCOU` on the outputs whose `SERVOn_FUNCTION` is a motor's; ArduCopter logs them ten times a second,
and where `RATE` comes faster they are what its mixer makes of that (`mixed`). What the
aircraft did is the EKF's estimate (`XKF1`, `XKQ`), or GPS and `ATT` where the log has no more. Rates and specific force are the
raw ones of `GYR` and `ACC`, else those of `IMU`, as much earlier as the low pass of its driver makes them late.

pymavlink's DFReader is not used: it takes 19 times as long (95 ms for a log of 560 kB), refuses a log for one damaged letter in
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
    RPM,
    enu,
    enu_attitude,
    flu,
    low_pass_delay,
    records,
    signal,
    stem_of,
)
from samara.physics.frames import Geodetic, enu_from_geodetic
from samara.vehicles.rotor_numbering import NUMBERINGS

PULSES = (1000.0, 2000.0)  # [µs]: no thrust and all, where the log's parameters say nothing else
CHANNELS = 14
HEAD, FMT = b"\xa3\x95", 128
MAX_MESSAGE_VALUES = 30_000_000  # binary messages, or cells of a text log
LETTERS = {  # NumPy's type of a field, and the factor that its letter stands for
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
RARE = 0.05  # [s] between motor commands
LOW_PASS = 20.0  # [Hz] of gyroscopes and accelerometers, where the log's parameters say nothing else
_INSTANCE = ("C", "I", "Inst", "Instance")  # what messages call the number of the core or the sensor they are of


class Messages(NamedTuple):
    """All messages of one kind: columns by name, of numbers or of texts"""

    columns: dict[str, Array]

    @property
    def time(self) -> Array:
        """[s]"""
        return 1e-6 * self.columns["TimeUS"]

    def rows(self, names: Sequence[str]) -> list[Array]:
        return [self.columns[name] for name in names]

    def has(self, names: Sequence[str]) -> bool:
        return all(name in self.columns and self.columns[name].dtype.kind == "f" for name in (*names, "TimeUS"))

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
    budget = Budget(path, max_bytes=decompressed_limit(path.stat().st_size), max_nodes=MAX_MESSAGE_VALUES)
    with open_bounded(path, Budget(path)) as stream:
        binary = stream.read(len(HEAD)) == HEAD
    log, skipped = _binary(read_bounded(path, budget), budget) if binary else _text_log(path, budget)
    parameters = _parameters(log)
    channels = _motor_channels(parameters)
    held: dict[str, Any] = {
        "rotor_speed": _rotor_speed(log, channels),
        "rate": _felt(log, "GYR", ("GyrX", "GyrY", "GyrZ"), parameters.get("INS_GYRO_FILTER", LOW_PASS)),
        "specific_force": _felt(log, "ACC", ("AccX", "AccY", "AccZ"), parameters.get("INS_ACCEL_FILTER", LOW_PASS)),
        "voltage": _voltage(log),
        "attitude": _attitude(log),
        **_place(log),
    }
    truth = ESTIMATE if any(held.get(name) for name in ("position", "attitude")) else ""
    command, notes = _command(path, log, channels, parameters)
    if skipped:
        notes.append(f"{skipped} bytes make no sense: they are left out")
    return [FlightLog(stem_of(path), "ardupilot", "ardupilot", command, truth=truth, notes=tuple(notes), **held)]


# Messages ----------------------------------------------------------------------------------------------------------


def _binary(data: bytes, budget: Budget) -> tuple[Log, int]:
    """The messages that are wanted, and how many bytes were passed over to come from one message to the next"""
    formats: dict[int, tuple[str, np.dtype[np.void], list[float]]] = {}
    lengths = {FMT: 3 + _FMT_FIELDS.itemsize}
    offsets: dict[int, array[int]] = {}
    at, skipped, last = 0, 0, len(data)
    while at + 3 <= last:
        kind = data[at + 2]
        length = lengths.get(kind)
        if data[at] != HEAD[0] or data[at + 1] != HEAD[1] or length is None:
            after = data.find(HEAD, at + 1)
            skipped += (after if after >= 0 else last) - at
            at = after if after >= 0 else last
            continue
        if at + length > last:
            skipped += last - at
            break
        if kind == FMT:
            _add_format(np.frombuffer(data, _FMT_FIELDS, 1, at + 3)[0], lengths, formats)
        elif kind in formats:
            budget.spend_nodes(1, "messages")
            offsets.setdefault(kind, array("q")).append(at + 3)
        at += length
    found = {}
    for kind, own in offsets.items():
        name, dtype, factors = formats[kind]
        table = records(data, own, dtype)
        columns = zip(dtype.names or (), factors, strict=True)
        found[name] = Messages({column: _numbers(table[column], factor) for column, factor in columns})
    return found, skipped


def _add_format(
    own: np.void, lengths: dict[int, int], formats: dict[int, tuple[str, np.dtype[np.void], list[float]]]
) -> None:
    """What a message FMT tells, where it makes sense: fields as long as it says, with a name each"""
    kind, length = int(own["kind"]), int(own["length"])
    name, letters, columns = (own[key].decode("ascii", "replace") for key in ("name", "format", "columns"))
    if kind == FMT or length < 3:
        return
    lengths[kind] = length
    formats.pop(kind, None)
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
        formats[kind] = (name, dtype, [LETTERS[letter][1] for letter in letters])


def _numbers(values: Array, factor: float) -> Array:
    return values if values.dtype.kind == "S" else factor * values.astype(float)


def _text_log(path: Path, budget: Budget) -> tuple[Log, int]:
    """The same of a text log, whose numbers are written in their units already"""
    names: dict[str, list[str]] = {}
    found: dict[str, list[_Column]] = {}
    skipped = 0
    with open_bounded(path, budget) as stream:
        for line in bounded_lines(stream, budget):
            kind, *cells = (cell.strip() for cell in line.decode("utf-8", "replace").split(","))
            if kind == "FMT" and len(cells) > 4:
                if names.get(cells[2]) != cells[4:]:
                    found.pop(cells[2], None)  # only messages of the last format count
                names[cells[2]] = cells[4:]
            elif kind in _MESSAGES and len(cells) == len(names.get(kind, ())):
                columns = found.setdefault(kind, [_Column() for _ in cells])
                budget.spend_nodes(sum(column.cost for column in columns), "values")
                for column, cell in zip(columns, cells, strict=True):
                    column.append(cell)
            elif kind in _MESSAGES:
                skipped += len(line)
    return {
        kind: Messages({name: column.values() for name, column in zip(names[kind], columns, strict=True)})
        for kind, columns in found.items()
    }, skipped


class _Column:
    """Cells of one field: eight bytes each while they are numbers, texts from the first that is none."""

    def __init__(self) -> None:
        self._numbers = array("d")
        self._texts: list[str] | None = None

    @property
    def cost(self) -> int:
        """Of a cell, in numbers."""
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
    own = log.get("PARM")
    if own is None or not own.has(("Value",)) or "Name" not in own.columns:
        return {}
    names = (name.decode("ascii", "replace") if isinstance(name, bytes) else str(name) for name in own.columns["Name"])
    return {name: float(value) for name, value in zip(names, own.columns["Value"], strict=True)}


# Signals -----------------------------------------------------------------------------------------------------------


def _motor_channels(parameters: dict[str, float]) -> list[int]:
    """The outputs, counted from 1, that drive motor 1, 2, …; the first four where no parameter says so"""
    function = {parameters.get(f"SERVO{n}_FUNCTION"): n for n in range(CHANNELS, 0, -1)}
    found = [function[own] for own in _MOTOR_FUNCTIONS if own in function]
    return found or [1, 2, 3, 4]


def _command(path: Path, log: Log, channels: list[int], parameters: dict[str, float]) -> tuple[Signal, list[str]]:
    """(pulse − MOT_PWM_MIN) / (MOT_PWM_MAX − MOT_PWM_MIN); no pulse at all is no thrust"""
    names = [f"C{n}" for n in channels]
    own, rate = log.get("RCOU"), log.get("RATE")
    if own is None or not own.has(names):
        raise ValueError(f"{path}: holds no motors; expected messages RCOU with {', '.join(names)}")
    ends = zip(("MOT_PWM_MIN", "MOT_PWM_MAX"), PULSES, strict=True)
    low, high = (parameters.get(name, 0.0) or default for name, default in ends)
    if not low < high:
        raise ValueError(f"{path}: MOT_PWM_MIN is {low:g} and MOT_PWM_MAX {high:g}; expected the first to be less")
    pulses = np.stack(own.rows(names))
    rarely = Signal(own.time, np.where(pulses > 0.0, (pulses - low) / (high - low), 0.0))
    if len(own.time) < 2 or np.median(np.diff(own.time)) <= RARE:
        return rarely, []
    often = None
    if rate is not None and rate.has(OUTPUTS) and len(rate.time) > 2 * len(own.time):
        often = mixed(signal(rate.time, rate.rows(OUTPUTS)), rarely, parameters)
    if often is not None:
        return often, ["its motors are what the mixer makes of RATE: RCOU, which says the same, is logged rarely"]
    return rarely, ["ArduPilot logs its motors rarely; LOG_BITMASK with fast attitude has them in RATE"]


def _rotor_speed(log: Log, channels: list[int]) -> Signal | None:
    """`ESC` numbers its messages by output, from 0; those of all motors are put at the times of the first's"""
    own = log.get("ESC")
    if own is None or not own.has(("Instance", "RPM")):
        return None
    each = [own.of(n - 1) for n in channels]
    if not all(len(messages.time) > 1 for messages in each):
        return None
    time = each[0].time
    return signal(time, [RPM * np.interp(time, messages.time, messages.columns["RPM"]) for messages in each])


def _felt(log: Log, raw: str, names: Sequence[str], cutoff: float) -> Signal | None:
    """What the first sensor felt in body axes, when it did: as it came, or filtered"""
    if raw in log and log[raw].has((*names, "SampleUS")):
        own = log[raw].of(0)
        return signal(1e-6 * own.columns["SampleUS"], flu(own.rows(names)))
    if "IMU" not in log or not log["IMU"].has(names):
        return None
    own = log["IMU"].of(0)
    return signal(own.time - low_pass_delay(cutoff), flu(own.rows(names)))


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


def _place(log: Log) -> dict[str, Signal]:
    """Position and velocity of the first core's EKF, else of GPS"""
    for kind in ("XKF1", "NKF1"):
        if kind in log and log[kind].has(("PN", "PE", "PD", "VN", "VE", "VD")):
            own = log[kind].of(0)
            position, velocity = (enu(own.rows(names)) for names in (("PN", "PE", "PD"), ("VN", "VE", "VD")))
            return {"position": signal(own.time, position), "velocity": signal(own.time, velocity)}
    wanted = ("Lat", "Lng", "Alt", "Spd", "GCrs", "VZ")
    if "GPS" in log and log["GPS"].has(("Status", *wanted)):
        own = log["GPS"].of(0)
        fixed = own.columns["Status"] >= 3
        latitude, longitude, altitude, speed, course, down = (row[fixed] for row in own.rows(wanted))
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


OUTPUTS = ("ROut", "POut", "YOut", "AOut")
FRAMES = {(1.0, 4): "quad_x", (2.0, 6): "hexa_x", (3.0, 8): "octo_x"}  # by FRAME_CLASS and motors
X = 1.0  # FRAME_TYPE
EXPO, SPIN_MIN, SPIN_MAX = 0.65, 0.15, 0.95  # unless the log's parameters say otherwise
ALIKE = 0.03  # RMS of the difference to RCOU


def mixed(rate: Signal, outputs: Signal, parameters: dict[str, float]) -> Signal | None:
    """Motors 0 … 1 as ArduCopter's mixer makes them of `RATE`, which is logged at every turn of its loop

        Tᵢ = g (A + sin αᵢ R/2 + cos αᵢ P/2 + sᵢ Y/2),    e u² + (1 − e) u = Tᵢ,    output = spin_min + (spin_max − spin_min) u

    R, P, Y and A are `ROut`, `POut`, `YOut` and `AOut`; α and s are a motor's azimuth and spin, sines and cosines over their
    largest; e is `MOT_THST_EXPO`. g is what ArduPilot adds for thin air and a flat battery: the one that matches `RCOU`. Near
    its limits the mixer gives up yaw and thrust: None where the result differs from `RCOU`, or the frame is not known.
    """
    motors = len(outputs.values)
    frame = FRAMES.get((parameters.get("FRAME_CLASS", 1.0), motors))
    flying = outputs.values.min(axis=0) > 0.0
    if frame is None or parameters.get("FRAME_TYPE", X) != X or flying.sum() < 2:
        return None
    places = NUMBERINGS[frame]["ardupilot"].places
    azimuth = np.radians([own.azimuth_deg for own in places])
    factors = np.stack([_of_its_largest(np.sin(azimuth)), _of_its_largest(np.cos(azimuth))], axis=1)
    weights = np.column_stack([factors, [0.5 * own.spin for own in places], np.ones(motors)])
    thrust = weights @ rate.values
    expo, low, high = (
        parameters.get(name, usual)
        for name, usual in (("MOT_THST_EXPO", EXPO), ("MOT_SPIN_MIN", SPIN_MIN), ("MOT_SPIN_MAX", SPIN_MAX))
    )
    told = outputs.time[flying]
    before = np.clip(np.searchsorted(rate.time, told, side="right") - 1, 0, len(rate.time) - 1)
    held = _thrust((outputs.values[:, flying] - low) / max(high - low, 1e-6), expo)
    gain = float(np.median(held.mean(axis=0) / np.maximum(thrust[:, before].mean(axis=0), 1e-3)))
    values = low + (high - low) * _throttle(np.clip(gain * thrust, 0.0, 1.0), expo)
    if not np.sqrt(np.mean((values[:, before] - outputs.values[:, flying]) ** 2)) < ALIKE:
        return None
    return Signal(rate.time, values)


def _of_its_largest(factors: Array) -> Array:
    """Over its largest, which is a half"""
    return np.asarray(0.5 * factors / np.abs(factors).max())


def _thrust(u: Array, expo: float) -> Array:
    u = np.clip(u, 0.0, 1.0)
    return np.asarray(expo * u * u + (1.0 - expo) * u)


def _throttle(thrust: Array, expo: float) -> Array:
    """The u with e u² + (1 − e) u = T"""
    if abs(expo) < 1e-6:
        return thrust
    return np.asarray((expo - 1.0 + np.sqrt((1.0 - expo) ** 2 + 4.0 * expo * thrust)) / (2.0 * expo))
