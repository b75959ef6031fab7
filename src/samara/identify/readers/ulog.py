"""PX4's ULog, by pyulog: FRD and NED, µs since boot.

Motors are `actuator_motors` (PX4 1.13 and newer), else the pulses of `actuator_outputs`. The motion is PX4's estimate, or the
motion capture sent to it. Attitude has the time at which it was sampled. Rates and specific force are those of
`sensor_combined`, means over a few milliseconds that belong to the middle of their interval; if the filtered signals are logged
more often, those are used, shifted by the delay of PX4's low pass.
"""

import contextlib
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from samara.core.budget import Budget, decompressed_limit, read_bounded
from samara.core.extras import missing_extra
from samara.core.types import Array
from samara.identify.flight_log import ESTIMATE, MOTION_CAPTURE, FlightLog, Signal
from samara.identify.readers.registry import (
    NO_COMMAND,
    RPM,
    enu_attitude,
    enu_rows,
    file_stem,
    flu_rows,
    low_pass_delay,
    signal,
)

MOTOR1_FUNCTION = 101  # PX4's output function of the first motor
MAX_COMMAND_PERIOD_S = 0.05  # [s] between motor commands
MIN_RAW_FRACTION = 0.9  # raw samples are used if their count is at least this fraction of the filtered samples
DEFAULT_PULSES_US = (1000.0, 2000.0)  # [µs]: zero and full thrust, unless the log's parameters differ
_MOTORS = {2: 4, 13: 6, 14: 8, 15: 3}  # by MAV_TYPE: quadrotor, hexarotor, octorotor, tricopter
MAX_MESSAGES = 20_000_000  # an hour at the highest rate
OBJECT_COST = 20  # cost of a message that becomes an object, in data messages
MAX_FIELDS = 200_000  # of all topics; PX4 has some ten thousand
NED_FRAME = 1  # of `pose_frame` and `velocity_frame`; 2 is FRD, which differs in heading only
_EXTERNAL = ("vehicle_mocap_odometry", "vehicle_visual_odometry")
_TOPICS = (
    *("actuator_motors", "actuator_outputs", "esc_status", "vehicle_attitude", "vehicle_local_position", *_EXTERNAL),
    *("vehicle_angular_velocity", "sensor_combined", "vehicle_acceleration", "battery_status"),
)


class UlogTopic(NamedTuple):
    """The columns of a topic by name, as pyulog flattens them: `xyz[0]`, `esc[1].esc_rpm`."""

    columns: dict[str, Array]

    def has(self, names: Sequence[str]) -> bool:
        return all(name in self.columns for name in names)

    def rows(self, name: str, count: int, suffix: str = "") -> list[Array]:
        return [self.columns[f"{name}[{i}]{suffix}"] for i in range(count)]

    def time(self) -> Array:
        """Return the sample times, or the message times if those are missing  [s]."""
        sample_stamps = self.columns.get("timestamp_sample")
        stamps = sample_stamps if sample_stamps is not None and sample_stamps.all() else self.columns["timestamp"]
        return 1e-6 * stamps.astype(float)


def read(path: Path, columns: object = None) -> list[FlightLog]:
    """Read the one flight of a log."""
    try:
        from pyulog import ULog  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError as error:
        raise missing_extra("reading PX4's logs", "pyulog", "logs") from error
    budget = Budget(
        path,
        _UlogLimitError,
        max_bytes=decompressed_limit(path.stat().st_size),
        max_nodes=MAX_MESSAGES,
        max_expansions=MAX_FIELDS,
    )
    is_gzipped = path.suffix == ".gz"
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            with io.BytesIO(read_bounded(path, budget)) if is_gzipped else path.open("rb") as opened:
                file = _bounded_ulog(ULog, budget)(opened, list(_TOPICS))
        except _UlogLimitError as error:
            raise ValueError(str(error)) from None
        except Exception as error:  # pyulog's exceptions, and Python's for invalid bytes
            raise ValueError(f"{path}: cannot be read ({error}); expected a whole ULog file") from None
    topics = {
        dataset.name: UlogTopic(dataset.data) for dataset in reversed(file.data_list)
    }  # of several instances the first
    command, notes = _command(path, topics, file.initial_parameters)
    if len(command.time) > 1 and np.median(np.diff(command.time)) > MAX_COMMAND_PERIOD_S:
        notes.append("PX4 logs its motors rarely; set SDLOG_PROFILE to system identification or high rate to log all")
    if file.file_corruption:
        notes.append("some of its bytes are damaged: their contents are left out")
    poses, truth = _poses(topics)
    speed = _rotor_speed(topics, len(command.values) or _esc_count(topics))
    if speed is not None and _is_simulated(topics["esc_status"]):
        speed = None
        notes.append("its rotor speeds are made up by PX4's simulator: they are left out")
    signals: dict[str, Any] = {
        "rotor_speed": speed,
        "rate": _imu_signal(topics, _GYROSCOPE, file.initial_parameters),
        "specific_force": _imu_signal(topics, _ACCELEROMETER, file.initial_parameters),
        "voltage": _voltage(topics),
        **poses,
    }
    return [FlightLog(file_stem(path), "px4", "px4", command, truth=truth, notes=tuple(notes), **signals)]


class _UlogLimitError(Exception):
    """A limit was exceeded; not a ValueError, because pyulog takes that for damage and continues."""


def _bounded_ulog(ulog: Any, budget: Budget) -> Any:
    """Return pyulog's class with a budget that every message and every field of a nested format draws on."""

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


def _command(path: Path, topics: dict[str, UlogTopic], parameters: dict[str, float]) -> tuple[Signal, list[str]]:
    """Return the commands of the motors in use; a stopped motor (NaN) among them has the command 0."""
    if "actuator_motors" in topics:
        topic = topics["actuator_motors"]
        rows = np.stack([values for name, values in topic.columns.items() if name.startswith("control[")])
        thrusts = np.nan_to_num(rows[np.isfinite(rows).any(axis=1)], nan=0.0)
        commands = command_from_thrust(thrusts, float(parameters.get("THR_MDL_FAC", 0.0)))
        return signal(1e-6 * topic.columns["timestamp"].astype(float), commands), []
    if "actuator_outputs" in topics:
        topic = topics["actuator_outputs"]
        count = int(topic.columns["noutputs"].max())
        pulses = signal(1e-6 * topic.columns["timestamp"].astype(float), topic.rows("output", count))
        low, high = (
            float(parameters.get(f"PWM_{end}", default))
            for end, default in zip(("MIN", "MAX"), DEFAULT_PULSES_US, strict=True)
        )
        motors = _MOTORS.get(int(parameters.get("MAV_TYPE", 0)), count)
        is_running = (pulses.values[:motors] > 0.5 * low).any(axis=1) & (pulses.values[:motors].std(axis=1) > 0.0)
        if not is_running.any():
            raise ValueError(f"{path}: holds no motors that turn; expected a flight")
        values = np.maximum((pulses.values[:motors][is_running] - low) / (high - low), 0.0)
        note = f"motors from pulses of {low:g} … {high:g} µs: the outputs that vary are used"
        return Signal(pulses.time, values), [note]
    if "esc_status" in topics:
        return NO_COMMAND, []
    raise ValueError(f"{path}: holds no motors; expected the topic actuator_motors or actuator_outputs")


def command_from_thrust(thrust: Array, factor: float) -> Array:
    """u with T = f u² + (1 − f) u, f = THR_MDL_FAC: convert the thrusts in `actuator_motors` to ESC commands."""
    if not 0.0 < factor <= 1.0:
        return thrust
    half = 0.5 * (1.0 - factor) / factor
    return np.sqrt(half * half + np.maximum(thrust, 0.0) / factor) - half


def _esc_count(topics: dict[str, UlogTopic]) -> int:
    """Return the number of ESCs, up to the last that turns."""
    topic = topics.get("esc_status")
    names = [f"esc[{i}].esc_rpm" for i in range(12)]
    return max(
        (i + 1 for i, name in enumerate(names) if topic and name in topic.columns and topic.columns[name].any()),
        default=0,
    )


def _rotor_speed(topics: dict[str, UlogTopic], motors: int) -> Signal | None:
    """Return the rotor speeds of the ESCs in the order of the motors they report to drive."""
    topic = topics.get("esc_status")
    if topic is None or not topic.has([f"esc[{motors - 1}].esc_rpm"]):
        return None
    slots = [i for i in range(12) if topic.has([f"esc[{i}].esc_rpm"])]
    rpm = {i: topic.columns[f"esc[{i}].esc_rpm"] for i in slots}
    esc_by_motor = {
        int(topic.columns[f"esc[{i}].actuator_function"][-1]) - MOTOR1_FUNCTION: i
        for i in slots
        if topic.has([f"esc[{i}].actuator_function"])
    }
    order = (
        [esc_by_motor.get(i, i) for i in range(motors)] if set(range(motors)) <= esc_by_motor.keys() else range(motors)
    )
    speed = signal(topic.time(), [np.abs(rpm[i].astype(float)) for i in order])
    return Signal(speed.time, RPM * speed.values) if speed.values.any() else None


def _is_simulated(topic: UlogTopic) -> bool:
    """Return whether the speeds are those of PX4's simulator: 6000 rpm times the output, at 20 °C plus 1 °C per 150 rpm."""
    pairs = [(f"esc[{i}].esc_rpm", f"esc[{i}].esc_temperature") for i in range(12)]
    readings = [
        (topic.columns[rpm], topic.columns[temperature]) for rpm, temperature in pairs if topic.has([rpm, temperature])
    ]
    return bool(readings) and all(
        np.allclose(temperature, 20.0 + rpm / 150.0, atol=1.0) for rpm, temperature in readings
    )


def _poses(topics: dict[str, UlogTopic]) -> tuple[dict[str, Signal], str]:
    """Return position, velocity and attitude: motion capture if it was sent, else the estimate."""
    for name in _EXTERNAL:
        topic = topics.get(name)
        if topic is not None and topic.has(["position[0]", "q[0]"]):
            time = topic.time()
            signals = {
                "position": Signal(time, enu_rows(topic.rows("position", 3))),
                "attitude": Signal(time, enu_attitude(topic.rows("q", 4))),
            }
            signals = {key: pose for key, pose in signals.items() if np.isfinite(pose.values).any()}
            frame = topic.columns.get("velocity_frame")
            v = np.stack(topic.rows("velocity", 3)) if topic.has(["velocity[0]"]) else np.empty((3, 0))
            if frame is not None and (frame <= NED_FRAME + 1).all() and np.isfinite(v).any():
                signals["velocity"] = Signal(time, enu_rows(v))
            if signals:
                return signals, MOTION_CAPTURE
    signals = {}
    position, attitude = topics.get("vehicle_local_position"), topics.get("vehicle_attitude")
    if position is not None:
        time = position.time()
        signals["position"] = Signal(time, enu_rows([position.columns[name] for name in "xyz"]))
        signals["velocity"] = Signal(time, enu_rows([position.columns[f"v{name}"] for name in "xyz"]))
    if attitude is not None:
        signals["attitude"] = Signal(attitude.time(), enu_attitude(attitude.rows("q", 4)))
    doubles = {key: signal(*pose) for key, pose in signals.items()}
    return doubles, ESTIMATE if doubles else ""


class ImuSource(NamedTuple):
    """The source of an IMU signal.

    `combined` is its field of `sensor_combined`, `averaging_time` the field with its averaging time [µs] and
    `end_offset` that with the end of the averaging relative to the gyroscope [µs]. `filtered` is the topic of the
    filtered signal, `cutoff` the parameter of its low pass [Hz] with its default.
    """

    combined: str
    averaging_time: str
    end_offset: str
    filtered: str
    cutoff: tuple[str, float]


_GYROSCOPE = ImuSource("gyro_rad", "gyro_integral_dt", "", "vehicle_angular_velocity", ("IMU_GYRO_CUTOFF", 40.0))
_ACCELEROMETER = ImuSource(
    *("accelerometer_m_s2", "accelerometer_integral_dt", "accelerometer_timestamp_relative"),
    *("vehicle_acceleration", ("IMU_ACCEL_CUTOFF", 30.0)),
)


def _imu_signal(topics: dict[str, UlogTopic], sensor: ImuSource, parameters: dict[str, float]) -> Signal | None:
    """Return an IMU signal in body axes with its sample times: raw means, or filtered values if those are logged more often."""
    raw, filtered = topics.get("sensor_combined"), topics.get(sensor.filtered)
    raw = raw if raw is not None and raw.has([f"{sensor.combined}[0]"]) else None
    filtered = filtered if filtered is not None and filtered.has(["xyz[0]"]) else None
    if raw is not None and (filtered is None or len(raw.time()) >= MIN_RAW_FRACTION * len(filtered.time())):
        later, over = (
            raw.columns.get(name, np.zeros(1)).astype(float) for name in (sensor.end_offset, sensor.averaging_time)
        )
        return signal(raw.time() + 1e-6 * (later - 0.5 * over), flu_rows(raw.rows(sensor.combined, 3)))
    if filtered is None:
        return None
    delay = low_pass_delay(float(parameters.get(sensor.cutoff[0], sensor.cutoff[1])))
    return signal(filtered.time() - delay, flu_rows(filtered.rows("xyz", 3)))


def _voltage(topics: dict[str, UlogTopic]) -> Signal | None:
    topic = topics.get("battery_status")
    return (
        signal(topic.time(), [topic.columns["voltage_v"]]) if topic is not None and topic.has(["voltage_v"]) else None
    )
