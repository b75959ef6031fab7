"""What a user of PX4 1.17 subscribes to, under its names: px4_msgs, north-east-down and forward-right-down, in floats."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from samara.core.algebra import Quat, Vec3, rotate
from samara.core.types import Array
from samara.physics.frames import attitude_ned_frd_from_enu_flu, frd_from_flu, ned_from_enu
from samara.record.ros2.cdr import layout_of
from samara.record.ros2.pose_topics import estimate_in, said_by
from samara.record.ros2.sensor_topics import mounting_of
from samara.record.ros2.topic import Topic
from samara.record.table import Table
from samara.sensors.sensor import Sensor

NED = 1  # a pose's or a velocity's frame
MOTORS = 12
NAN3 = [float("nan")] * 3


def px4_topics(tables: Mapping[str, Table], prefix: str, sensors: Sequence[Sensor]) -> list[Topic]:
    """VehicleOdometry and VehicleAttitude of what the estimator says, SensorCombined of the first IMU, ActuatorMotors"""
    own = estimate_in(tables) or said_by(tables["state"])
    q = np.stack(attitude_ned_frd_from_enu_flu(Quat(*own.q_WB.T)), axis=1)
    times = {"timestamp": own.times_us, "timestamp_sample": own.times_us}
    pose = {
        "position": _turned(ned_from_enu, own.p_W),
        "q": q,
        "velocity": _turned(ned_from_enu, own.v_W),
        "angular_velocity": _turned(frd_from_flu, own.omega_B),
    }
    if own.variances is not None:  # a variance has no sign: only the axes change places
        p, theta, v = (own.variances[:, k : k + 3] for k in (0, 3, 6))
        pose |= {
            "position_variance": p[:, [1, 0, 2]],
            "orientation_variance": theta,
            "velocity_variance": v[:, [1, 0, 2]],
        }
    unknown = {"position_variance": NAN3, "orientation_variance": NAN3, "velocity_variance": NAN3}
    odometry = layout_of("px4_msgs/VehicleOdometry", pose_frame=NED, velocity_frame=NED, **unknown)
    attitude = layout_of("px4_msgs/VehicleAttitude", delta_q_reset=[1.0, 0.0, 0.0, 0.0])
    return [
        Topic(f"{prefix}/fmu/out/vehicle_odometry", odometry, own.times_us, {**times, **pose}),
        Topic(f"{prefix}/fmu/out/vehicle_attitude", attitude, own.times_us, {**times, "q": q}),
        *_combined(tables, prefix, sensors),
        *_motors(tables, prefix),
    ]


def _combined(tables: Mapping[str, Table], prefix: str, sensors: Sequence[Sensor]) -> list[Topic]:
    """The IMU's readings along the body's axes: only of one of which it is known how it is turned"""
    found = [(sensor, tables[sensor.name]) for sensor in sensors if sensor.kind == "imu" and sensor.name in tables]
    if not found or not len(found[0][1].rows):
        return []
    sensor, table = found[0]
    mounting = mounting_of(sensor)
    if mounting is None:
        return []
    between = np.diff(table.times_us, prepend=0)

    def body(rows: Array) -> Array:
        return np.stack(frd_from_flu(rotate(mounting.q_BS, Vec3(*rows.T))), axis=1)

    columns = {
        "timestamp": table.times_us,
        "gyro_rad": body(table["omega_B"]),
        "gyro_integral_dt": between,
        "accelerometer_m_s2": body(table["specific_force_B"]),
        "accelerometer_integral_dt": between,
    }
    layout = layout_of("px4_msgs/SensorCombined")
    return [Topic(f"{prefix}/fmu/out/sensor_combined", layout, table.times_us, columns)]


def _motors(tables: Mapping[str, Table], prefix: str) -> list[Topic]:
    """What each motor was told, in the vehicle's own order; those that it has not are not a number"""
    table = tables.get("command")
    motors = [name for name in table.fields if name.startswith("motor[")] if table else []
    if table is None or not len(table.rows) or not 0 < len(motors) <= MOTORS:
        return []
    control = np.full((len(table.rows), MOTORS), np.nan)
    control[:, : len(motors)] = np.stack([table[name] for name in motors], axis=1)
    columns = {"timestamp": table.times_us, "timestamp_sample": table.times_us, "control": control}
    layout = layout_of("px4_msgs/ActuatorMotors")
    return [Topic(f"{prefix}/fmu/out/actuator_motors", layout, table.times_us, columns)]


def _turned(into: Callable[[Vec3], Vec3], rows: Array) -> Array:
    return np.stack(into(Vec3(*rows.T)), axis=1)
