"""PX4's ULog, by pyulog: FRD and NED, µs since boot.

Motors are `actuator_motors` (PX4 1.13 and newer), else the pulses of `actuator_outputs`. What the aircraft did is its own
estimate, or the motion capture that was sent to it. Attitude has the time at which it was sampled. Rates and specific force are
those of `sensor_combined`, means over a few milliseconds that belong to their middle; where these are logged more rarely than
the filtered ones, those, as much earlier as PX4's low pass makes them late.
"""

import contextlib
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from samara.core.budget import Budget, decompressed_limit, read_bounded
from samara.core.lazy_import import MissingExtraError
from samara.core.types import Array
from samara.identify.flight_log import ESTIMATE, MOTION_CAPTURE, FlightLog, Signal
from samara.identify.readers.registry import RPM, enu, enu_attitude, flu, low_pass_delay, signal, stem_of

MOTOR1 = 101  # what PX4 numbers the output function of the first motor
RARE = 0.05  # [s] between motor commands
OFTEN = 0.9  # of the filtered samples: so many raw ones are as good as all
PULSES = (1000.0, 2000.0)  # [µs]: no thrust and all, where the log's parameters say nothing else
_MOTORS = {2: 4, 13: 6, 14: 8, 15: 3}  # by MAV_TYPE: quadrotor, hexarotor, octorotor, tricopter
MAX_MESSAGES = 20_000_000  # an hour at the highest rate
OBJECT_COST = 20  # of a message that becomes an object, in data messages
MAX_FIELDS = 200_000  # of all topics; PX4 has some ten thousand
NED = 1  # of `pose_frame` and `velocity_frame`; 2 is FRD, the same but for its heading
_EXTERNAL = ("vehicle_mocap_odometry", "vehicle_visual_odometry")
_TOPICS = (
    *("actuator_motors", "actuator_outputs", "esc_status", "vehicle_attitude", "vehicle_local_position", *_EXTERNAL),
    *("vehicle_angular_velocity", "sensor_combined", "vehicle_acceleration", "battery_status"),
)


class Topic(NamedTuple):
    """The columns of a topic by name, as pyulog flattens them: `xyz[0]`, `esc[1].esc_rpm`"""

    columns: dict[str, Array]

    def has(self, names: Sequence[str]) -> bool:
        return all(name in self.columns for name in names)

    def rows(self, name: str, count: int, last: str = "") -> list[Array]:
        return [self.columns[f"{name}[{i}]{last}"] for i in range(count)]

    def time(self) -> Array:
        """When it was sampled, else when it was said  [s]"""
        own = self.columns.get("timestamp_sample")
        stamps = own if own is not None and own.all() else self.columns["timestamp"]
        return 1e-6 * stamps.astype(float)


def read(path: Path, columns: object = None) -> list[FlightLog]:
    """The one flight of a log"""
    try:
        from pyulog import ULog  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError:
        raise MissingExtraError("PX4's logs are read by pyulog: pip install 'samara[logs]'") from None
    budget = Budget(
        path,
        _OverrunError,
        max_bytes=decompressed_limit(path.stat().st_size),
        max_nodes=MAX_MESSAGES,
        max_expansions=MAX_FIELDS,
    )
    packed = path.suffix == ".gz"
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            with io.BytesIO(read_bounded(path, budget)) if packed else path.open("rb") as opened:
                file = _bounded(ULog, budget)(opened, list(_TOPICS))
        except _OverrunError as error:
            raise ValueError(str(error)) from None
        except Exception as error:  # pyulog's own, and Python's where the bytes mean nothing
            raise ValueError(f"{path}: cannot be read ({error}); expected a whole ULog file") from None
    topics = {own.name: Topic(own.data) for own in reversed(file.data_list)}  # of several instances the first
    command, notes = _command(path, topics, file.initial_parameters)
    if len(command.time) > 1 and np.median(np.diff(command.time)) > RARE:
        notes.append("PX4 logs its motors rarely; SDLOG_PROFILE with system identification or high rate asks for all")
    if file.file_corruption:
        notes.append("some of its bytes are damaged: what they held is left out")
    poses, truth = _poses(topics)
    speed = _rotor_speed(topics, len(command.values))
    if speed is not None and _invented(topics["esc_status"]):
        speed = None
        notes.append("its rotor speeds are those that PX4's simulator invents: they are left out")
    held: dict[str, Any] = {
        "rotor_speed": speed,
        "rate": _felt(topics, _GYROSCOPE, file.initial_parameters),
        "specific_force": _felt(topics, _ACCELEROMETER, file.initial_parameters),
        "voltage": _voltage(topics),
        **poses,
    }
    return [FlightLog(stem_of(path), "px4", "px4", command, truth=truth, notes=tuple(notes), **held)]


class _OverrunError(Exception):
    """A limit was passed; no ValueError, which pyulog takes for damage and reads on."""


def _bounded(ulog: Any, budget: Budget) -> Any:
    """pyulog's class, spending from a budget for every message and every field that it makes of nested formats."""

    class Header(ulog._MessageHeader):  # type: ignore[misc]
        def initialize(self, data: bytes) -> None:
            super().initialize(data)
            budget.spend_nodes(1 if self.msg_type == ulog.MSG_TYPE_DATA else OBJECT_COST, "messages")

    class AddLogged(ulog._MessageAddLogged):  # type: ignore[misc]
        def _parse_nested_type(self, prefix_str: str, type_name: str, message_formats: Any) -> None:
            for _, size, name in message_formats[type_name].fields:
                budget.expand(max(size, 1), "fields")
                budget.spend_bytes(max(size, 1) * len(f"{prefix_str}{name}[0]"), "bytes")
            super()._parse_nested_type(prefix_str, type_name, message_formats)

    return type("BoundedULog", (ulog,), {"_MessageHeader": Header, "_MessageAddLogged": AddLogged})


def _command(path: Path, topics: dict[str, Topic], parameters: dict[str, float]) -> tuple[Signal, list[str]]:
    """The motors that are told anything at all; a motor that is stopped (NaN) among those is told 0"""
    if "actuator_motors" in topics:
        own = topics["actuator_motors"]
        rows = np.stack([values for name, values in own.columns.items() if name.startswith("control[")])
        thrusts = np.nan_to_num(rows[np.isfinite(rows).any(axis=1)], nan=0.0)
        told = told_from_thrust(thrusts, float(parameters.get("THR_MDL_FAC", 0.0)))
        return signal(1e-6 * own.columns["timestamp"].astype(float), told), []
    if "actuator_outputs" in topics:
        own = topics["actuator_outputs"]
        count = int(own.columns["noutputs"].max())
        pulses = signal(1e-6 * own.columns["timestamp"].astype(float), own.rows("output", count))
        low, high = (
            float(parameters.get(f"PWM_{end}", default)) for end, default in zip(("MIN", "MAX"), PULSES, strict=True)
        )
        motors = _MOTORS.get(int(parameters.get("MAV_TYPE", 0)), count)
        moving = (pulses.values[:motors] > 0.5 * low).any(axis=1) & (pulses.values[:motors].std(axis=1) > 0.0)
        if not moving.any():
            raise ValueError(f"{path}: holds no motors that turn; expected a flight")
        values = np.maximum((pulses.values[:motors][moving] - low) / (high - low), 0.0)
        note = f"motors from pulses of {low:g} … {high:g} µs: outputs that move are taken for them"
        return Signal(pulses.time, values), [note]
    raise ValueError(f"{path}: holds no motors; expected the topic actuator_motors or actuator_outputs")


def told_from_thrust(thrust: Array, factor: float) -> Array:
    """u with T = f u² + (1 − f) u, f = THR_MDL_FAC: `actuator_motors` holds thrusts, of which PX4 makes what ESCs are told"""
    if not 0.0 < factor <= 1.0:
        return thrust
    half = 0.5 * (1.0 - factor) / factor
    return np.sqrt(half * half + np.maximum(thrust, 0.0) / factor) - half


def _rotor_speed(topics: dict[str, Topic], motors: int) -> Signal | None:
    """ESCs in the order of the motors that they say they drive"""
    own = topics.get("esc_status")
    if own is None or not own.has([f"esc[{motors - 1}].esc_rpm"]):
        return None
    slots = [i for i in range(12) if own.has([f"esc[{i}].esc_rpm"])]
    rpm = {i: own.columns[f"esc[{i}].esc_rpm"] for i in slots}
    driven = {
        int(own.columns[f"esc[{i}].actuator_function"][-1]) - MOTOR1: i
        for i in slots
        if own.has([f"esc[{i}].actuator_function"])
    }
    order = [driven.get(i, i) for i in range(motors)] if set(range(motors)) <= driven.keys() else range(motors)
    speed = signal(own.time(), [np.abs(rpm[i].astype(float)) for i in order])
    return Signal(speed.time, RPM * speed.values) if speed.values.any() else None


def _invented(own: Topic) -> bool:
    """PX4's simulator says 6000 rpm times the output of every motor, at 20 °C and 1 °C more for 150 rpm"""
    pairs = [(f"esc[{i}].esc_rpm", f"esc[{i}].esc_temperature") for i in range(12)]
    said = [(own.columns[rpm], own.columns[warm]) for rpm, warm in pairs if own.has([rpm, warm])]
    return bool(said) and all(np.allclose(warm, 20.0 + rpm / 150.0, atol=1.0) for rpm, warm in said)


def _poses(topics: dict[str, Topic]) -> tuple[dict[str, Signal], str]:
    """Position, velocity and attitude: motion capture where it was sent, else the estimate"""
    for name in _EXTERNAL:
        own = topics.get(name)
        if own is not None and own.has(["position[0]", "q[0]"]):
            time = own.time()
            found = {
                "position": Signal(time, enu(own.rows("position", 3))),
                "attitude": Signal(time, enu_attitude(own.rows("q", 4))),
            }
            found = {key: pose for key, pose in found.items() if np.isfinite(pose.values).any()}
            frame = own.columns.get("velocity_frame")
            v = np.stack(own.rows("velocity", 3)) if own.has(["velocity[0]"]) else np.empty((3, 0))
            if frame is not None and (frame <= NED + 1).all() and np.isfinite(v).any():
                found["velocity"] = Signal(time, enu(v))
            if found:
                return found, MOTION_CAPTURE
    found = {}
    place, attitude = topics.get("vehicle_local_position"), topics.get("vehicle_attitude")
    if place is not None:
        time = place.time()
        found["position"] = Signal(time, enu([place.columns[name] for name in "xyz"]))
        found["velocity"] = Signal(time, enu([place.columns[f"v{name}"] for name in "xyz"]))
    if attitude is not None:
        found["attitude"] = Signal(attitude.time(), enu_attitude(attitude.rows("q", 4)))
    doubles = {key: signal(*own) for key, own in found.items()}
    return doubles, ESTIMATE if doubles else ""


class Felt(NamedTuple):
    """Where a sensor is: the field of `sensor_combined`, the time it is a mean over [µs], when that ends beside the gyroscope's
    [µs]; the topic that is filtered; and the parameter that has its low pass [Hz], with what it is unless it is said"""

    combined: str
    over: str
    later: str
    filtered: str
    cutoff: tuple[str, float]


_GYROSCOPE = Felt("gyro_rad", "gyro_integral_dt", "", "vehicle_angular_velocity", ("IMU_GYRO_CUTOFF", 40.0))
_ACCELEROMETER = Felt(
    *("accelerometer_m_s2", "accelerometer_integral_dt", "accelerometer_timestamp_relative"),
    *("vehicle_acceleration", ("IMU_ACCEL_CUTOFF", 30.0)),
)


def _felt(topics: dict[str, Topic], sensor: Felt, parameters: dict[str, float]) -> Signal | None:
    """What a sensor felt, in body axes, when it did: the raw means unless the filtered values are logged more often"""
    raw, filtered = topics.get("sensor_combined"), topics.get(sensor.filtered)
    raw = raw if raw is not None and raw.has([f"{sensor.combined}[0]"]) else None
    filtered = filtered if filtered is not None and filtered.has(["xyz[0]"]) else None
    if raw is not None and (filtered is None or len(raw.time()) >= OFTEN * len(filtered.time())):
        later, over = (raw.columns.get(name, np.zeros(1)).astype(float) for name in (sensor.later, sensor.over))
        return signal(raw.time() + 1e-6 * (later - 0.5 * over), flu(raw.rows(sensor.combined, 3)))
    if filtered is None:
        return None
    late = low_pass_delay(float(parameters.get(sensor.cutoff[0], sensor.cutoff[1])))
    return signal(filtered.time() - late, flu(filtered.rows("xyz", 3)))


def _voltage(topics: dict[str, Topic]) -> Signal | None:
    own = topics.get("battery_status")
    return signal(own.time(), [own.columns["voltage_v"]]) if own is not None and own.has(["voltage_v"]) else None
