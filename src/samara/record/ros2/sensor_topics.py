"""What sensors read, as sensor_msgs has it; which messages a stream becomes is told by its fields.

Each sensor has a frame of its own below the body's, `NAME/imu`. Variances are those of the part's noise; where no part is known
they are 0, which means unknown in ROS. A message is stamped with the time of the sample, and comes when the delay has passed.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from samara.core.types import Array
from samara.record.flight_streams import is_reading
from samara.record.ros2.messages import MAP, Layout, Topic, layout_of, ros_name, stamped
from samara.record.ros2.pose_topics import held
from samara.record.streams import Table
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
UNKNOWN = dict.fromkeys(("temperature", "charge", "capacity", "design_capacity", "percentage"), float("nan"))


class Reading(NamedTuple):
    """A message of a sensor, below its topic at `place`: its layout, and its numbers by path in rows of the sensor's stream

    `columns` takes the rows as a table; it is said where `valid` is true of them, always where that is None.
    """

    place: str
    layout: Layout
    columns: Callable[[Table], Mapping[str, Array]]
    valid: Callable[[Table], Array] | None = None


def imu(frame: str, sensor: Sensor | None) -> list[Reading]:
    """sensor_msgs/Imu: rates and specific force, without an attitude: its covariance begins with −1"""
    variances = variances_of(sensor)
    layout = layout_of(
        "sensor_msgs/Imu",
        header={"frame_id": frame},
        orientation_covariance=[-1.0, *[0.0] * 8],
        angular_velocity_covariance=_diagonal(variances.get("omega_B")),
        linear_acceleration_covariance=_diagonal(variances.get("specific_force_B")),
    )
    return [
        Reading(
            "",
            layout,
            lambda own: {"angular_velocity": own["omega_B"], "linear_acceleration": own["specific_force_B"]},
        )
    ]


def magnetometer(frame: str, sensor: Sensor | None) -> list[Reading]:
    """sensor_msgs/MagneticField  [T]"""
    covariance = _diagonal(variances_of(sensor).get("field_B"))
    layout = layout_of("sensor_msgs/MagneticField", header={"frame_id": frame}, magnetic_field_covariance=covariance)
    return [Reading("", layout, lambda own: {"magnetic_field": own["field_B"]})]


def barometer(frame: str, sensor: Sensor | None) -> list[Reading]:
    """sensor_msgs/FluidPressure  [Pa]"""
    (variance,) = variances_of(sensor).get("pressure", (0.0,))
    layout = layout_of("sensor_msgs/FluidPressure", header={"frame_id": frame}, variance=variance)
    return [Reading("", layout, lambda own: {"fluid_pressure": own["pressure"]})]


def gps(frame: str, sensor: Sensor | None) -> list[Reading]:
    """sensor_msgs/NavSatFix [deg, m], not a number without a fix; and the velocity with one, in the map"""
    variances = variances_of(sensor).get("place")
    layout = layout_of(
        "sensor_msgs/NavSatFix",
        header={"frame_id": frame},
        status={"service": GPS},
        position_covariance=_diagonal(variances),
        position_covariance_type=DIAGONAL_KNOWN if variances else UNKNOWN_COVARIANCE,
    )

    def fix(own: Table) -> Mapping[str, Array]:
        valid = _valid(own)
        return {
            "status.status": np.where(valid, FIX, NO_FIX),
            "latitude": np.where(valid, np.degrees(own["place.latitude"]), np.nan),
            "longitude": np.where(valid, np.degrees(own["place.longitude"]), np.nan),
            "altitude": np.where(valid, own["place.altitude"], np.nan),
        }

    moving = layout_of("geometry_msgs/TwistStamped", header={"frame_id": MAP})
    return [
        Reading("/fix", layout, fix),
        Reading("/velocity", moving, lambda own: {"twist.linear": own["v_W"]}, _valid),
    ]


def range_finder(frame: str, sensor: Sensor | None) -> list[Reading]:
    """sensor_msgs/Range  [m]; by REP 117 −∞ where it is nearer than the sensor sees, ∞ where farther"""
    own_part = getattr(sensor.about, "part", None) if sensor else None
    part = own_part if isinstance(own_part, RangeFinderPart) else None
    near, far = (part.nearest, part.farthest) if part else (0.0, np.inf)
    constants = {"radiation_type": INFRARED, "min_range": near, "max_range": far}
    layout = layout_of("sensor_msgs/Range", header={"frame_id": frame}, **constants)

    def columns(own: Table) -> Mapping[str, Array]:
        distance = own["distance"]
        beyond = np.where(distance <= near, -np.inf, np.inf)
        deviation = part.noise + part.noise_growth * distance if part else np.zeros_like(distance)
        return {"range": np.where(_valid(own), distance, beyond), "variance": deviation**2}

    return [Reading("", layout, columns)]


def battery(frame: str, sensor: Sensor | None) -> list[Reading]:
    """sensor_msgs/BatteryState: current is negative while it discharges"""
    layout = layout_of(
        "sensor_msgs/BatteryState",
        header={"frame_id": frame},
        present=True,
        power_supply_status=DISCHARGING,
        **UNKNOWN,
    )
    return [Reading("", layout, lambda own: {"voltage": own["voltage"], "current": -own["current"]})]


def supply(tables: Mapping[str, Table], drone: str) -> list[Topic]:
    """The battery as it is, with what is left in it, of a vehicle that has one"""
    outputs, state = tables.get("outputs"), tables["state"]
    if outputs is None or not {"voltage", "current"} <= set(outputs.fields) or not len(outputs.rows):
        return []
    (reading,) = battery(f"{drone}/base_link", None)
    columns = dict(reading.columns(outputs))
    if "battery.charge" in state.fields:
        columns["percentage"] = state["battery.charge"][held(state.times_us, outputs.times_us)]
    return [Topic(f"/{drone}/battery", reading.layout, outputs.times_us, {**stamped(outputs.times_us), **columns})]


BY_FIELDS: tuple[tuple[set[str], Callable[[str, Sensor | None], list[Reading]]], ...] = (
    ({"specific_force_B.x", "omega_B.x"}, imu),
    ({"field_B.x"}, magnetometer),
    ({"pressure"}, barometer),
    ({"place.latitude", "v_W.x", "valid"}, gps),
    ({"distance", "valid"}, range_finder),
    ({"voltage", "current"}, battery),
)


def readings_of(fields: Sequence[str], frame: str, sensor: Sensor | None) -> list[Reading]:
    """The messages of a sensor with these fields; none where ROS knows no such kind"""
    found = next((read for needed, read in BY_FIELDS if needed <= set(fields)), None)
    return found(frame, sensor) if found else []


def readings(tables: Mapping[str, Table], drone: str, sensors: Sequence[Sensor]) -> list[Topic]:
    """What every sensor of a kind that ROS knows has read"""
    named = {sensor.name: sensor for sensor in sensors}
    found = []
    for name, table in tables.items():
        if not is_reading(table) or not len(table.rows):
            continue
        own, sensor = ros_name(name), named.get(name)
        delay_us = round(MICROSECONDS * sensor.delay) if sensor else 0
        for reading in readings_of(table.fields, f"{drone}/{own}", sensor):
            times_us, columns = table.times_us, reading.columns(table)
            if reading.valid is not None:
                some = reading.valid(table)
                times_us, columns = times_us[some], {path: values[some] for path, values in columns.items()}
            stamp = stamped(times_us - delay_us)
            found.append(Topic(f"/{drone}/{own}{reading.place}", reading.layout, times_us, {**stamp, **columns}))
    return found


def mounting_of(sensor: Sensor | None) -> Mounting | None:
    """Where a sensor sits, where it says so"""
    mounting = getattr(sensor.about, "mounting", None) if sensor else None
    return mounting if isinstance(mounting, Mounting) else None


def _valid(own: Table) -> Array:
    valid: Array = own["valid"] > 0.5
    return valid


def _diagonal(variances: Sequence[float] | None) -> list[float]:
    """A covariance (3, 3) by rows, of three variances; 0 where they are not known"""
    found = np.diag(variances) if variances is not None else np.zeros((3, 3))
    return [float(x) for x in found.ravel()]


def variances_of(sensor: Sensor | None) -> Mapping[str, tuple[float, ...]]:
    """σ² of one reading by its fields, from the noise of the sensor's part; empty where it is not made of a part

    White noise of density N has the variance N² f at f samples a second, and rounding to steps of Δ adds Δ²/12. The slow wander
    of a GPS fix or of a pressure is included. Turn-on bias, scale and misalignment are not noise and are left out.
    """
    part = getattr(sensor.about, "part", None) if sensor else None
    if isinstance(part, ImuPart):
        return {
            "omega_B": _sampled(part.gyroscope, part.rate),
            "specific_force_B": _sampled(part.accelerometer, part.rate),
        }
    if isinstance(part, MagnetometerPart):
        return {"field_B": (part.noise**2 + _rounding(part.resolution),) * 3}
    if isinstance(part, BarometerPart):
        return {"pressure": (part.noise**2 + part.drift**2 + _rounding(part.resolution),)}
    if isinstance(part, GpsPart):
        horizontal = part.horizontal_noise**2 + part.horizontal_wander**2
        return {"place": (horizontal, horizontal, part.vertical_noise**2 + part.vertical_wander**2)}
    return {}


def _sampled(triad: Gyroscope | Accelerometer, rate: float) -> tuple[float, ...]:
    """N² f + Δ²/12 of each axis"""
    return tuple(density**2 * rate + _rounding(triad.resolution) for density in triad.noise_density)


def _rounding(step: float) -> float:
    """Δ²/12"""
    return step**2 / 12.0
