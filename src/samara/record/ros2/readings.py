"""What sensors read, as sensor_msgs has it; which message a stream becomes is told by its fields.

Each sensor has a frame of its own below the body's, `NAME/imu`. Variances that nobody has told are 0, as ROS has it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from samara.record.ros2.cdr import Array, layout_of
from samara.record.ros2.flight import held, twist
from samara.record.ros2.topic import MAP, Topic, ros_name, stamped
from samara.record.streams import is_reading
from samara.record.table import Table
from samara.sensors.range_finder import RangeFinderPart
from samara.sensors.sensor import Mounting, Sensor

NO_FIX, FIX, GPS = -1, 0, 1  # of sensor_msgs/NavSatStatus
INFRARED = 1  # of sensor_msgs/Range
DISCHARGING = 2  # of sensor_msgs/BatteryState
UNKNOWN = dict.fromkeys(("temperature", "charge", "capacity", "design_capacity", "percentage"), float("nan"))

Reading = Callable[[str, str, Table, Sensor | None], list[Topic]]


def imu(name: str, frame: str, table: Table, sensor: Sensor | None) -> list[Topic]:
    """sensor_msgs/Imu: rates and specific force, without an attitude: its covariance begins with −1"""
    no_attitude = [-1.0, *[0.0] * 8]
    layout = layout_of("sensor_msgs/Imu", header={"frame_id": frame}, orientation_covariance=no_attitude)
    columns = {"angular_velocity": table["omega_B"], "linear_acceleration": table["specific_force_B"]}
    return [_topic(name, layout, table, columns)]


def magnetometer(name: str, frame: str, table: Table, sensor: Sensor | None) -> list[Topic]:
    """sensor_msgs/MagneticField  [T]"""
    layout = layout_of("sensor_msgs/MagneticField", header={"frame_id": frame})
    return [_topic(name, layout, table, {"magnetic_field": table["field_B"]})]


def barometer(name: str, frame: str, table: Table, sensor: Sensor | None) -> list[Topic]:
    """sensor_msgs/FluidPressure  [Pa]"""
    layout = layout_of("sensor_msgs/FluidPressure", header={"frame_id": frame})
    return [_topic(name, layout, table, {"fluid_pressure": table["pressure"]})]


def gps(name: str, frame: str, table: Table, sensor: Sensor | None) -> list[Topic]:
    """sensor_msgs/NavSatFix [deg, m], not a number without a fix; and the velocity with one, in the map"""
    valid = table["valid"] > 0.5
    layout = layout_of("sensor_msgs/NavSatFix", header={"frame_id": frame}, status={"service": GPS})
    fix = {
        "status.status": np.where(valid, FIX, NO_FIX),
        "latitude": np.where(valid, np.degrees(table["place.latitude"]), np.nan),
        "longitude": np.where(valid, np.degrees(table["place.longitude"]), np.nan),
        "altitude": np.where(valid, table["place.altitude"], np.nan),
    }
    v_W = table["v_W"][valid]
    return [
        _topic(f"{name}/fix", layout, table, fix),
        twist(f"{name}/velocity", table.times_us[valid], v_W, np.zeros_like(v_W), MAP),
    ]


def range_finder(name: str, frame: str, table: Table, sensor: Sensor | None) -> list[Topic]:
    """sensor_msgs/Range  [m]; by REP 117 −∞ where it is nearer than the sensor sees, ∞ where farther"""
    part = getattr(sensor.about, "part", None) if sensor else None
    near, far = (part.nearest, part.farthest) if isinstance(part, RangeFinderPart) else (0.0, np.inf)
    constants = {"radiation_type": INFRARED, "min_range": near, "max_range": far}
    layout = layout_of("sensor_msgs/Range", header={"frame_id": frame}, **constants)
    beyond = np.where(table["distance"] <= near, -np.inf, np.inf)
    return [_topic(name, layout, table, {"range": np.where(table["valid"] > 0.5, table["distance"], beyond)})]


def battery(name: str, frame: str, table: Table, sensor: Sensor | None) -> list[Topic]:
    """sensor_msgs/BatteryState: current is negative while it discharges"""
    layout = layout_of(
        "sensor_msgs/BatteryState",
        header={"frame_id": frame},
        present=True,
        power_supply_status=DISCHARGING,
        **UNKNOWN,
    )
    return [_topic(name, layout, table, {"voltage": table["voltage"], "current": -table["current"]})]


def supply(tables: Mapping[str, Table], drone: str) -> list[Topic]:
    """The battery as it is, with what is left in it, of a vehicle that has one"""
    outputs, state = tables.get("outputs"), tables["state"]
    if outputs is None or not {"voltage", "current"} <= set(outputs.fields) or not len(outputs.rows):
        return []
    (topic,) = battery(f"/{drone}/battery", f"{drone}/base_link", outputs, None)
    if "battery.charge" not in state.fields:
        return [topic]
    left = state["battery.charge"][held(state.times_us, outputs.times_us)]
    return [topic._replace(columns={**topic.columns, "percentage": left})]


BY_FIELDS: tuple[tuple[set[str], Reading], ...] = (
    ({"specific_force_B.x", "omega_B.x"}, imu),
    ({"field_B.x"}, magnetometer),
    ({"pressure"}, barometer),
    ({"place.latitude", "v_W.x", "valid"}, gps),
    ({"distance", "valid"}, range_finder),
    ({"voltage", "current"}, battery),
)


def readings(tables: Mapping[str, Table], drone: str, sensors: Sequence[Sensor]) -> list[Topic]:
    """What every sensor of a kind that ROS knows has read"""
    named = {sensor.name: sensor for sensor in sensors}
    found = []
    for name, table in tables.items():
        read = next((read for fields, read in BY_FIELDS if fields <= set(table.fields)), None)
        if read is not None and is_reading(table) and len(table.rows):
            own = ros_name(name)
            found += read(f"/{drone}/{own}", f"{drone}/{own}", table, named.get(name))
    return found


def mounting_of(sensor: Sensor | None) -> Mounting | None:
    """Where a sensor sits, where it says so"""
    mounting = getattr(sensor.about, "mounting", None) if sensor else None
    return mounting if isinstance(mounting, Mounting) else None


def _topic(name: str, layout: Any, table: Table, columns: Mapping[str, Array]) -> Topic:
    return Topic(name, layout, table.times_us, {**stamped(table.times_us), **columns})
