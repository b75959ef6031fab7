"""Sensor readings as sensor_msgs; the fields of a stream determine its messages.

Each sensor has a frame below the body's, `NAME/imu`. Variances are those of the part's noise; 0, which means
unknown in ROS, if the part is unknown. A message is stamped with the time of the sample, and published after the
sensor's delay.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from samara.core.types import Array
from samara.record.flight_streams import is_reading
from samara.record.ros2.messages import MAP_FRAME, CdrLayout, Ros2Topic, cdr_layout, ros_name, stamp_columns
from samara.record.ros2.pose_topics import last_rows
from samara.record.streams import RecordedStream
from samara.scenario.timeline import MICROSECONDS
from samara.sensors.barometer import BarometerPart
from samara.sensors.gps import GpsPart
from samara.sensors.imu import Accelerometer, Gyroscope, ImuPart
from samara.sensors.magnetometer import MagnetometerPart
from samara.sensors.range_finder import RangeFinderPart
from samara.sensors.sensor import Mounting, Sensor

NO_FIX, FIX, GPS = -1, 0, 1  # of sensor_msgs/NavSatStatus
UNKNOWN_COVARIANCE, DIAGONAL_KNOWN = 0, 2  # of sensor_msgs/NavSatFix
INFRARED = 1  # of sensor_msgs/Range
DISCHARGING = 2  # of sensor_msgs/BatteryState
UNKNOWN_BATTERY_FIELDS = dict.fromkeys(
    ("temperature", "charge", "capacity", "design_capacity", "percentage"), float("nan")
)


class SensorMessage(NamedTuple):
    """A message of a sensor: topic suffix, layout, and the function that converts rows of the sensor's stream to columns.

    `columns` takes the rows as a table; `valid` selects the rows to publish, None selects all.
    """

    topic_suffix: str
    layout: CdrLayout
    columns: Callable[[RecordedStream], Mapping[str, Array]]
    valid: Callable[[RecordedStream], Array] | None = None


def imu_messages(frame: str, sensor: Sensor | None) -> list[SensorMessage]:
    """sensor_msgs/Imu: rates and specific force; the orientation covariance begins with −1, which means that it is missing."""
    variances = reading_variances(sensor)
    layout = cdr_layout(
        "sensor_msgs/Imu",
        header={"frame_id": frame},
        orientation_covariance=[-1.0, *[0.0] * 8],
        angular_velocity_covariance=_diagonal(variances.get("omega_B")),
        linear_acceleration_covariance=_diagonal(variances.get("specific_force_B")),
    )
    return [
        SensorMessage(
            "",
            layout,
            lambda table: {"angular_velocity": table["omega_B"], "linear_acceleration": table["specific_force_B"]},
        )
    ]


def magnetometer_messages(frame: str, sensor: Sensor | None) -> list[SensorMessage]:
    """sensor_msgs/MagneticField  [T]."""
    covariance = _diagonal(reading_variances(sensor).get("field_B"))
    layout = cdr_layout("sensor_msgs/MagneticField", header={"frame_id": frame}, magnetic_field_covariance=covariance)
    return [SensorMessage("", layout, lambda table: {"magnetic_field": table["field_B"]})]


def barometer_messages(frame: str, sensor: Sensor | None) -> list[SensorMessage]:
    """sensor_msgs/FluidPressure  [Pa]."""
    (variance,) = reading_variances(sensor).get("pressure", (0.0,))
    layout = cdr_layout("sensor_msgs/FluidPressure", header={"frame_id": frame}, variance=variance)
    return [SensorMessage("", layout, lambda table: {"fluid_pressure": table["pressure"]})]


def gps_messages(frame: str, sensor: Sensor | None) -> list[SensorMessage]:
    """sensor_msgs/NavSatFix [deg, m], NaN without a fix; and the velocity in the map frame, with a fix only."""
    variances = reading_variances(sensor).get("position")
    layout = cdr_layout(
        "sensor_msgs/NavSatFix",
        header={"frame_id": frame},
        status={"service": GPS},
        position_covariance=_diagonal(variances),
        position_covariance_type=DIAGONAL_KNOWN if variances else UNKNOWN_COVARIANCE,
    )

    def fix(table: RecordedStream) -> Mapping[str, Array]:
        valid = _is_valid(table)
        return {
            "status.status": np.where(valid, FIX, NO_FIX),
            "latitude": np.where(valid, np.degrees(table["position.latitude"]), np.nan),
            "longitude": np.where(valid, np.degrees(table["position.longitude"]), np.nan),
            "altitude": np.where(valid, table["position.altitude"], np.nan),
        }

    velocity_layout = cdr_layout("geometry_msgs/TwistStamped", header={"frame_id": MAP_FRAME})
    return [
        SensorMessage("/fix", layout, fix),
        SensorMessage("/velocity", velocity_layout, lambda table: {"twist.linear": table["v_W"]}, _is_valid),
    ]


def range_finder_messages(frame: str, sensor: Sensor | None) -> list[SensorMessage]:
    """sensor_msgs/Range  [m]; by REP 117 −∞ below the sensor's range, ∞ above it."""
    sensor_part = getattr(sensor.model, "part", None) if sensor else None
    part = sensor_part if isinstance(sensor_part, RangeFinderPart) else None
    min_range, max_range = (part.min_range, part.max_range) if part else (0.0, np.inf)
    constants = {"radiation_type": INFRARED, "min_range": min_range, "max_range": max_range}
    layout = cdr_layout("sensor_msgs/Range", header={"frame_id": frame}, **constants)

    def columns(table: RecordedStream) -> Mapping[str, Array]:
        distance = table["distance"]
        out_of_range = np.where(distance <= min_range, -np.inf, np.inf)
        deviation = part.noise + part.noise_growth * distance if part else np.zeros_like(distance)
        return {"range": np.where(_is_valid(table), distance, out_of_range), "variance": deviation**2}

    return [SensorMessage("", layout, columns)]


def battery_messages(frame: str, sensor: Sensor | None) -> list[SensorMessage]:
    """sensor_msgs/BatteryState: the current is negative while the battery discharges."""
    layout = cdr_layout(
        "sensor_msgs/BatteryState",
        header={"frame_id": frame},
        present=True,
        power_supply_status=DISCHARGING,
        **UNKNOWN_BATTERY_FIELDS,
    )
    return [SensorMessage("", layout, lambda table: {"voltage": table["voltage"], "current": -table["current"]})]


def battery_topics(tables: Mapping[str, RecordedStream], drone: str) -> list[Ros2Topic]:
    """Return the topic of the true battery state, with its charge, of a vehicle with a battery."""
    outputs, state = tables.get("derived"), tables["state"]
    if outputs is None or not {"voltage", "current"} <= set(outputs.fields) or not len(outputs.rows):
        return []
    (reading,) = battery_messages(f"{drone}/base_link", None)
    columns = dict(reading.columns(outputs))
    if "battery.charge" in state.fields:
        columns["percentage"] = state["battery.charge"][last_rows(state.times_us, outputs.times_us)]
    return [
        Ros2Topic(f"/{drone}/battery", reading.layout, outputs.times_us, {**stamp_columns(outputs.times_us), **columns})
    ]


MESSAGES_BY_FIELDS: tuple[tuple[set[str], Callable[[str, Sensor | None], list[SensorMessage]]], ...] = (
    ({"specific_force_B.x", "omega_B.x"}, imu_messages),
    ({"field_B.x"}, magnetometer_messages),
    ({"pressure"}, barometer_messages),
    ({"position.latitude", "v_W.x", "valid"}, gps_messages),
    ({"distance", "valid"}, range_finder_messages),
    ({"voltage", "current"}, battery_messages),
)


def sensor_messages(fields: Sequence[str], frame: str, sensor: Sensor | None) -> list[SensorMessage]:
    """Return the messages of a sensor with these fields; empty if ROS has no such type."""
    factory = next((candidate for required, candidate in MESSAGES_BY_FIELDS if required <= set(fields)), None)
    return factory(frame, sensor) if factory else []


def sensor_topics(tables: Mapping[str, RecordedStream], drone: str, sensors: Sequence[Sensor]) -> list[Ros2Topic]:
    """Return the topics of all sensors for which ROS has a type."""
    sensors_by_name = {sensor.name: sensor for sensor in sensors}
    topics = []
    for name, table in tables.items():
        if not is_reading(table) or not len(table.rows):
            continue
        sensor_topic, sensor = ros_name(name), sensors_by_name.get(name)
        delay_us = round(MICROSECONDS * sensor.delay) if sensor else 0
        for reading in sensor_messages(table.fields, f"{drone}/{sensor_topic}", sensor):
            times_us, columns = table.times_us, reading.columns(table)
            if reading.valid is not None:
                is_valid = reading.valid(table)
                times_us, columns = times_us[is_valid], {path: values[is_valid] for path, values in columns.items()}
            stamp = stamp_columns(times_us - delay_us)
            topics.append(
                Ros2Topic(
                    f"/{drone}/{sensor_topic}{reading.topic_suffix}", reading.layout, times_us, {**stamp, **columns}
                )
            )
    return topics


def sensor_mounting(sensor: Sensor | None) -> Mounting | None:
    """Return the mounting of a sensor, if it has one."""
    mounting = getattr(sensor.model, "mounting", None) if sensor else None
    return mounting if isinstance(mounting, Mounting) else None


def _is_valid(table: RecordedStream) -> Array:
    valid: Array = table["valid"] > 0.5
    return valid


def _diagonal(variances: Sequence[float] | None) -> list[float]:
    """Return a covariance (3, 3) by rows, of three variances; 0 if they are unknown."""
    covariance = np.diag(variances) if variances is not None else np.zeros((3, 3))
    return [float(x) for x in covariance.ravel()]


def reading_variances(sensor: Sensor | None) -> Mapping[str, tuple[float, ...]]:
    """Return σ² of one reading by field, from the noise of the sensor's part; empty without a part.

    White noise of density N has the variance N² f at f samples a second, and rounding to steps of Δ adds Δ²/12. The slow wander
    of a GPS fix or of a pressure is included. Turn-on bias, scale and misalignment are not noise and are left out.
    """
    part = getattr(sensor.model, "part", None) if sensor else None
    if isinstance(part, ImuPart):
        return {
            "omega_B": _white_noise_variances(part.gyroscope, part.rate),
            "specific_force_B": _white_noise_variances(part.accelerometer, part.rate),
        }
    if isinstance(part, MagnetometerPart):
        return {"field_B": (part.noise**2 + _rounding_variance(part.resolution),) * 3}
    if isinstance(part, BarometerPart):
        return {"pressure": (part.noise**2 + part.drift**2 + _rounding_variance(part.resolution),)}
    if isinstance(part, GpsPart):
        horizontal = part.horizontal_noise**2 + part.horizontal_wander**2
        return {"position": (horizontal, horizontal, part.vertical_noise**2 + part.vertical_wander**2)}
    return {}


def _white_noise_variances(triad: Gyroscope | Accelerometer, rate: float) -> tuple[float, ...]:
    """N² f + Δ²/12 of each axis."""
    return tuple(density**2 * rate + _rounding_variance(triad.resolution) for density in triad.noise_density)


def _rounding_variance(step: float) -> float:
    """Δ²/12."""
    return step**2 / 12.0
