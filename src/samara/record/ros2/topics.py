"""The ROS 2 topics of a run: standard types, and those of PX4 1.17 (px4_msgs, NED and FRD, in floats) under its names."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from samara.core.algebra import Quat, Vec3, rotate
from samara.core.types import Array
from samara.physics.frames import attitude_ned_frd_from_enu_flu, frd_from_flu, ned_from_enu
from samara.record.recording import RecordingError
from samara.record.ros2.image_topics import camera_of, image_topics
from samara.record.ros2.messages import MAP_FRAME, CdrLayout, Ros2Topic, cdr_layout, ros_name, stamp_columns
from samara.record.ros2.pose_topics import estimated_odometry, extract_odometry, motion_topics, setpoint_topics
from samara.record.ros2.sensor_topics import battery_topics, sensor_mounting, sensor_topics
from samara.record.run import DroneRecord, Run
from samara.record.streams import LEVELS, LogLine, RecordedStream
from samara.sensors.depth_camera import OPTICAL, optical_frame
from samara.sensors.sensor import AT_CENTRE, Mounting, Sensor


def run_topics(run: Run, sensors: Mapping[str, Sequence[Sensor]] | None = None) -> list[Ros2Topic]:
    """Return the clock, the log, and each drone's topics below its name; `sensors` are those of each drone, if known.

    PX4's messages are below '/fmu' for one drone, and below '/px4_1/fmu', '/px4_2/fmu' … for several, as with PX4.
    """
    names: dict[str, str] = {}
    for drone_record in run.drone_records:
        other = names.setdefault(ros_name(drone_record.name), drone_record.name)
        if other != drone_record.name:
            raise RecordingError(
                f"drones {other!r} and {drone_record.name!r} have the same name in ROS 2; expected different names"
            )
    topics = [_clock(run), *_log(run.logs)]
    for index, drone_record in enumerate(run.drone_records, start=1):
        drone_sensors = (sensors or {}).get(drone_record.name, ())
        prefix = "" if len(run.drone_records) == 1 else f"/px4_{index}"
        topics += [*drone_topics(drone_record, drone_sensors), *px4_topics(drone_record.tables, prefix, drone_sensors)]
    return [*topics, *_static_transform_topics(run, sensors or {})]


def drone_topics(drone_record: DroneRecord, sensors: Sequence[Sensor]) -> list[Ros2Topic]:
    """Return the topics of one drone with standard types."""
    drone, tables = ros_name(drone_record.name), drone_record.tables
    topics = [
        *motion_topics(tables, drone),
        *sensor_topics(tables, drone, sensors),
        *image_topics(tables, drone, sensors),
    ]
    names = {topic.name for topic in topics}
    topics += [topic for topic in battery_topics(tables, drone) if topic.name not in names]
    if "reference" in tables and len(tables["reference"].rows):
        topics += setpoint_topics(tables["reference"], drone)
    if drone_record.vehicle.rotors:
        topics += _multi_array_topics(f"/{drone}/rotor_speed", "rotor", tables["state"], "rotor_speed")
        topics += _multi_array_topics(f"/{drone}/motors", "motor", tables.get("command"), "motor")
    status = tables.get("status")
    if status is not None and len(status.rows):
        for field in status.fields:
            columns = {"data": status[field] > 0.5}
            topics.append(
                Ros2Topic(f"/{drone}/{field}", cdr_layout("std_msgs/Bool"), status.times_us, columns, latched=True)
            )
    return topics


def _multi_array_topics(name: str, label: str, table: RecordedStream | None, field: str) -> list[Ros2Topic]:
    """std_msgs/Float64MultiArray with a number for each rotor."""
    if table is None or not len(table.rows):
        return []
    try:
        values = table[field]
    except KeyError:
        return []
    return [Ros2Topic(name, numbers_layout(label, values.shape[1]), table.times_us, {"data": values})]


def numbers_layout(label: str, count: int) -> CdrLayout:
    """Return the layout of std_msgs/Float64MultiArray with `count` numbers."""
    shape = {"dim": [{"label": label, "size": count, "stride": count}]}
    return cdr_layout("std_msgs/Float64MultiArray", layout=shape, data=[0.0] * count)


def _clock(run: Run) -> Ros2Topic:
    times_us = np.unique(np.concatenate([drone_record.tables["state"].times_us for drone_record in run.drone_records]))
    return Ros2Topic("/clock", cdr_layout("rosgraph_msgs/Clock"), times_us, stamp_columns(times_us, "clock"))


def _log(lines: Sequence[LogLine]) -> list[Ros2Topic]:
    return [Ros2Topic("/rosout", log_layout(line), np.array([line.time_us]), {}, latched=True) for line in lines]


def log_layout(line: LogLine) -> CdrLayout:
    """rcl_interfaces/Log, whose levels are ten times those of Samara: debug 10, info 20 …."""
    seconds, micros = divmod(line.time_us, 1_000_000)
    return cdr_layout(
        "rcl_interfaces/Log",
        stamp={"sec": seconds, "nanosec": 1000 * micros},
        level=10 * (LEVELS.index(line.level) + 1),
        name=line.name,
        msg=line.message,
    )


def _static_transform_topics(run: Run, sensors: Mapping[str, Sequence[Sensor]]) -> list[Ros2Topic]:
    estimated = {
        drone_record.name: estimated_odometry(drone_record.tables) is not None for drone_record in run.drone_records
    }
    layout = static_transforms(estimated, sensors)
    return [Ros2Topic("/tf_static", layout, np.array([0]), {}, latched=True)] if layout else []


def static_transforms(estimated: Mapping[str, bool], sensors: Mapping[str, Sequence[Sensor]]) -> CdrLayout | None:
    """Return all static transforms in one message: `odom` of drones without an estimator, and the sensors' mountings.

    `estimated` is whether each drone has an estimator. Return None if there are no static transforms.
    """
    transforms = []
    for name, has_estimate in estimated.items():
        drone = ros_name(name)
        if not has_estimate:
            transforms.append(_static_transform(MAP_FRAME, f"{drone}/odom", AT_CENTRE))
        for sensor in sensors.get(name, ()):
            mounting = sensor_mounting(sensor)
            if mounting is not None:
                frame = f"{drone}/{ros_name(sensor.name)}"
                transforms.append(_static_transform(f"{drone}/base_link", frame, mounting))
                if camera_of(sensor) is not None:
                    optical = optical_frame(drone, ros_name(sensor.name))
                    transforms.append(_static_transform(frame, optical, Mounting(q_BS=OPTICAL)))
    return cdr_layout("tf2_msgs/TFMessage", transforms=transforms) if transforms else None


def _static_transform(parent: str, child: str, mounting: Mounting) -> dict[str, object]:
    transform = {"translation": mounting.r_B._asdict(), "rotation": mounting.q_BS._asdict()}
    return {"header": {"frame_id": parent}, "child_frame_id": child, "transform": transform}


NED_FRAME = 1  # a pose's or a velocity's frame
MAX_MOTORS = 12
NAN3 = [float("nan")] * 3


def px4_topics(tables: Mapping[str, RecordedStream], prefix: str, sensors: Sequence[Sensor]) -> list[Ros2Topic]:
    """VehicleOdometry and VehicleAttitude of the estimate, SensorCombined of the first IMU, and ActuatorMotors."""
    odometry_data = estimated_odometry(tables) or extract_odometry(tables["state"])
    q = np.stack(attitude_ned_frd_from_enu_flu(Quat(*odometry_data.q_WB.T)), axis=1)
    times = {"timestamp": odometry_data.times_us, "timestamp_sample": odometry_data.times_us}
    pose = {
        "position": _convert_vectors(ned_from_enu, odometry_data.p_W),
        "q": q,
        "velocity": _convert_vectors(ned_from_enu, odometry_data.v_W),
        "angular_velocity": _convert_vectors(frd_from_flu, odometry_data.omega_B),
    }
    if odometry_data.variances is not None:  # a variance has no sign: the axes are only reordered
        p, theta, v = (odometry_data.variances[:, k : k + 3] for k in (0, 3, 6))
        pose |= {
            "position_variance": p[:, [1, 0, 2]],
            "orientation_variance": theta,
            "velocity_variance": v[:, [1, 0, 2]],
        }
    unknown = {"position_variance": NAN3, "orientation_variance": NAN3, "velocity_variance": NAN3}
    odometry = cdr_layout("px4_msgs/VehicleOdometry", pose_frame=NED_FRAME, velocity_frame=NED_FRAME, **unknown)
    attitude = cdr_layout("px4_msgs/VehicleAttitude", delta_q_reset=[1.0, 0.0, 0.0, 0.0])
    return [
        Ros2Topic(f"{prefix}/fmu/out/vehicle_odometry", odometry, odometry_data.times_us, {**times, **pose}),
        Ros2Topic(f"{prefix}/fmu/out/vehicle_attitude", attitude, odometry_data.times_us, {**times, "q": q}),
        *_sensor_combined_topics(tables, prefix, sensors),
        *_motors(tables, prefix),
    ]


def _sensor_combined_topics(
    tables: Mapping[str, RecordedStream], prefix: str, sensors: Sequence[Sensor]
) -> list[Ros2Topic]:
    """The readings of an IMU with a known mounting, in body axes."""
    imus = [(sensor, tables[sensor.name]) for sensor in sensors if sensor.type_name == "imu" and sensor.name in tables]
    if not imus or not len(imus[0][1].rows):
        return []
    sensor, table = imus[0]
    mounting = sensor_mounting(sensor)
    if mounting is None:
        return []
    intervals = np.diff(table.times_us, prepend=0)

    def body(rows: Array) -> Array:
        return np.stack(frd_from_flu(rotate(mounting.q_BS, Vec3(*rows.T))), axis=1)

    columns = {
        "timestamp": table.times_us,
        "gyro_rad": body(table["omega_B"]),
        "gyro_integral_dt": intervals,
        "accelerometer_m_s2": body(table["specific_force_B"]),
        "accelerometer_integral_dt": intervals,
    }
    layout = cdr_layout("px4_msgs/SensorCombined")
    return [Ros2Topic(f"{prefix}/fmu/out/sensor_combined", layout, table.times_us, columns)]


def _motors(tables: Mapping[str, RecordedStream], prefix: str) -> list[Ros2Topic]:
    """The motor commands in the vehicle's order; NaN for motors that it does not have."""
    table = tables.get("command")
    motors = [name for name in table.fields if name.startswith("motor[")] if table else []
    if table is None or not len(table.rows) or not 0 < len(motors) <= MAX_MOTORS:
        return []
    control = np.full((len(table.rows), MAX_MOTORS), np.nan)
    control[:, : len(motors)] = np.stack([table[name] for name in motors], axis=1)
    columns = {"timestamp": table.times_us, "timestamp_sample": table.times_us, "control": control}
    layout = cdr_layout("px4_msgs/ActuatorMotors")
    return [Ros2Topic(f"{prefix}/fmu/out/actuator_motors", layout, table.times_us, columns)]


def _convert_vectors(into: Callable[[Vec3], Vec3], rows: Array) -> Array:
    return np.stack(into(Vec3(*rows.T)), axis=1)
