"""ROS 2 bags as rosbags writes them, a library that shares nothing with the reader."""

import math
import sqlite3

import numpy as np
import pytest
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from samara.core.algebra import Quat, Vec3, quat_from_euler, rotate
from samara.identify.flight_log import ESTIMATE, MOTION_CAPTURE
from samara.identify.readers import read_log

N = 30
START_NS = 1_700_000_000_000_000_000  # [ns]
PX4 = {  # fields as px4_msgs declares them
    "ActuatorMotors": "uint64 timestamp\nuint64 timestamp_sample\nuint16 reversible_flags\nfloat32[12] control",
    "SensorCombined": "uint64 timestamp\nfloat32[3] gyro_rad\nuint32 gyro_integral_dt\nint32 accelerometer_timestamp_relative\n"
    "float32[3] accelerometer_m_s2\nuint32 accelerometer_integral_dt\nuint8 accelerometer_clipping",
    "VehicleOdometry": "uint64 timestamp\nuint64 timestamp_sample\nuint8 pose_frame\nfloat32[3] position\nfloat32[4] q\n"
    "uint8 velocity_frame\nfloat32[3] velocity\nfloat32[3] angular_velocity\nfloat32[3] position_variance\nuint8 reset_counter",
    "BatteryStatus": "uint64 timestamp\nbool connected\nfloat32 voltage_v\nfloat32 current_a",
}


@pytest.fixture(scope="module")
def store():
    """Types of ROS 2, and those of PX4 and of actuators"""
    typestore = get_typestore(Stores.ROS2_HUMBLE)
    definition = "std_msgs/Header header\nfloat64[] position\nfloat64[] velocity\nfloat64[] normalized"
    typestore.register(get_types_from_msg(definition, "actuator_msgs/msg/Actuators"))
    for name, text in PX4.items():
        typestore.register(get_types_from_msg(text, f"px4_msgs/msg/{name}"))
    return typestore


def bag(path, store, topics, storage=StoragePlugin.MCAP):
    """Write a bag with N messages of each topic, 10 ms apart; `topics` give the type and a function that creates message k."""
    with Writer(path, version=9, storage_plugin=storage) as writer:
        connections = {
            topic: writer.add_connection(topic, message_type, typestore=store)
            for topic, (message_type, _) in topics.items()
        }
        for k in range(N):
            for topic, (message_type, create_message) in topics.items():
                time = START_NS + 10_000_000 * k
                writer.write(
                    connections[topic], time, store.serialize_cdr(create_message(store, k, time), message_type)
                )
    return path


def header(store, time, frame="map"):
    stamp = store.types["builtin_interfaces/msg/Time"](sec=time // 10**9, nanosec=time % 10**9)
    return store.types["std_msgs/msg/Header"](stamp=stamp, frame_id=frame)


def vector(store, *xyz):
    return store.types["geometry_msgs/msg/Vector3"](*map(float, xyz))


def pose_message(store, q):
    point = store.types["geometry_msgs/msg/Point"](1.0, 2.0, 3.0)
    return store.types["geometry_msgs/msg/Pose"](point, store.types["geometry_msgs/msg/Quaternion"](q.x, q.y, q.z, q.w))


TILTED = quat_from_euler(0.1, 0.2, 0.3)


def pose(store, k, time):
    """Stamped 3 ms before its reception."""
    return store.types["geometry_msgs/msg/PoseStamped"](header(store, time - 3_000_000), pose_message(store, TILTED))


def odometry(store, k, time):
    twist = store.types["geometry_msgs/msg/Twist"](vector(store, 1, 0, 0), vector(store, 0.1, 0.2, 0.3))
    covariance = np.zeros(36)
    return store.types["nav_msgs/msg/Odometry"](
        header(store, time), "base_link",
        store.types["geometry_msgs/msg/PoseWithCovariance"](pose_message(store, TILTED), covariance),
        store.types["geometry_msgs/msg/TwistWithCovariance"](twist, covariance),
    )  # fmt: skip


def imu(store, k, time):
    no_covariance = np.zeros(9)
    unit = store.types["geometry_msgs/msg/Quaternion"](0.0, 0.0, 0.0, 1.0)
    imu_header = header(store, time, "imu_link_of_odd_length"[: 3 + k % 7])
    return store.types["sensor_msgs/msg/Imu"](
        imu_header, unit, no_covariance, vector(store, 4, 5, 6), no_covariance, vector(store, 7, 8, 9.8), no_covariance
    )


def motors(store, k, time):
    dimension = store.types["std_msgs/msg/MultiArrayDimension"]("motors", 4, 4)
    layout = store.types["std_msgs/msg/MultiArrayLayout"]([dimension], 0)
    return store.types["std_msgs/msg/Float32MultiArray"](layout, np.array([0, 250, 500, 1000], dtype=np.float32))


def actuators(store, k, time):
    empty = np.zeros(0)
    return store.types["actuator_msgs/msg/Actuators"](
        header(store, time), empty, np.ones(4), np.array([0.1, 0.2, 0.3, 0.4])
    )


@pytest.mark.parametrize("storage", [StoragePlugin.MCAP, StoragePlugin.SQLITE3])
def test_a_bag_by_its_types(tmp_path, store, storage):
    """Poses have their stamps, motors without one their reception; the IMU's rate overrides that of odometry."""
    topics = {
        "/motors": ("std_msgs/msg/Float32MultiArray", motors),
        "/pose": ("geometry_msgs/msg/PoseStamped", pose),
        "/imu": ("sensor_msgs/msg/Imu", imu),
    }
    path = bag(tmp_path / "flight", store, topics, storage)
    (file,) = (entry for entry in path.iterdir() if entry.suffix != ".yaml")
    for source in (path, file):
        (log,) = read_log(source, {"motor_range": [0, 1000], "numbering": "crazyflie"})
        assert (log.format, log.numbering, log.truth) == ("ros2", "crazyflie", MOTION_CAPTURE)
        assert log.command.values[:, 5] == pytest.approx([0.0, 0.25, 0.5, 1.0])
        assert log.command.time == pytest.approx(0.003 + 0.01 * np.arange(N), abs=1e-6)
        assert log.position.time == pytest.approx(0.01 * np.arange(N), abs=1e-6)
        assert log.position.values[:, 0] == pytest.approx([1.0, 2.0, 3.0])
        assert log.attitude.values[:, 0] == pytest.approx(np.array(TILTED))
        assert log.rate.values[:, 9] == pytest.approx([4.0, 5.0, 6.0])
        assert log.specific_force.values[:, 9] == pytest.approx([7.0, 8.0, 9.8])


def test_odometry_and_a_map_of_topics(tmp_path, store):
    """Odometry's velocity is in body axes: rotated into the world it has the same length and the direction of the nose."""
    topics = {
        "/a": ("actuator_msgs/msg/Actuators", actuators),
        "/b": ("std_msgs/msg/Float32MultiArray", motors),
        "/odometry": ("nav_msgs/msg/Odometry", odometry),
    }
    path = bag(tmp_path / "flight", store, topics)
    (log,) = read_log(path, {"motors": "/a"})
    assert (log.truth, log.numbering) == (ESTIMATE, "samara")
    assert log.command.values[:, 0] == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert log.velocity.values[:, 0] == pytest.approx(np.array(rotate(TILTED, Vec3(1.0, 0.0, 0.0))))
    assert log.rate.values[:, 0] == pytest.approx([0.1, 0.2, 0.3])
    for topics, message in (
        ({"motors": "/c"}, "topic '/c' is not in it; expected one of std_msgs/msg/Float32MultiArray"),
        ({"motors": "/odometry"}, "topic '/odometry' is nav_msgs/msg/Odometry; expected one of std_msgs"),
        ({"motor": "/a"}, "topics: motor = '/a': expected only the keys"),
    ):
        with pytest.raises(ValueError, match=message):
            read_log(path, topics)


def test_messages_of_px4_are_turned_and_put_on_one_clock(tmp_path, store):
    """Their stamps count from boot: shifted by the least difference to receptions. Later fields are ignored."""
    q = quat_from_euler(0.0, 0.2, math.pi / 2)
    boot = 60_000_000

    def actuator_motors(store, k, time):
        control = np.array([0.5, 0.25, 1.0, np.nan, *[np.nan] * 8], dtype=np.float32)
        return store.types["px4_msgs/msg/ActuatorMotors"](boot + 10_000 * k, 1, 0, control)

    def sensor_combined(store, k, time):
        gyro, force = (np.array(components, dtype=np.float32) for components in ((0.1, 0.2, 0.3), (0.5, 0.6, -9.8)))
        return store.types["px4_msgs/msg/SensorCombined"](boot + 10_000 * k, gyro, 5000, 0, force, 5000, 0)

    def vehicle_odometry(store, k, time):
        p, v, w, r = (
            np.array(components, dtype=np.float32) for components in ((1, 2, -3), (1, 0, 0), (9, 9, 9), (0, 0, 0))
        )
        attitude = np.array(q, dtype=np.float32)
        return store.types["px4_msgs/msg/VehicleOdometry"](0, boot + 10_000 * k, 1, p, attitude, 3, v, w, r, 0)

    def battery_status(store, k, time):
        return store.types["px4_msgs/msg/BatteryStatus"](boot + 10_000 * k, True, 15.5, 3.0)

    messages = (
        ("ActuatorMotors", actuator_motors),
        ("SensorCombined", sensor_combined),
        ("VehicleOdometry", vehicle_odometry),
        ("BatteryStatus", battery_status),
    )
    (log,) = read_log(
        bag(
            tmp_path / "flight",
            store,
            {f"/fmu/{name}": (f"px4_msgs/msg/{name}", create_message) for name, create_message in messages},
        )
    )
    nose = (math.cos(0.2), 0.0, math.sin(0.2))
    assert (log.numbering, log.truth) == ("px4", ESTIMATE)
    assert log.start == pytest.approx(START_NS / 1e9, abs=1e-5)
    assert log.command.values[:, 0] == pytest.approx([0.5, 0.25, 1.0])
    assert log.position.values[:, 0] == pytest.approx([2.0, 1.0, 3.0])
    assert rotate(Quat(*log.attitude.values[:, 0]), Vec3(1.0, 0.0, 0.0)) == pytest.approx(nose, abs=1e-6)
    assert log.velocity.values[:, 0] == pytest.approx(nose, abs=1e-6)
    assert log.rate.values[:, 0] == pytest.approx([0.1, -0.2, -0.3])
    assert log.specific_force.values[:, 0] == pytest.approx([0.5, -0.6, 9.8])
    assert log.voltage.values[0, 0] == pytest.approx(15.5)


def test_bags_that_are_no_flights(tmp_path, store):
    """Truncated, empty, without motors, or another database: one sentence each."""
    path = bag(tmp_path / "flight", store, {"/imu": ("sensor_msgs/msg/Imu", imu)})
    with pytest.raises(ValueError, match="holds no motors; expected a topic of std_msgs/msg/Float32MultiArray"):
        read_log(path)
    (file,) = (entry for entry in path.iterdir() if entry.suffix == ".mcap")
    data = file.read_bytes()
    for cut in (data[: len(data) // 2], data[:60]):
        file.write_bytes(cut)
        with pytest.raises(ValueError, match="expected a whole ROS 2 bag") as error:
            read_log(file)
        assert "\n" not in str(error.value)
    other = tmp_path / "other.db3"
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE own (x)")
    connection.commit()
    connection.close()
    with pytest.raises(ValueError, match=r"other.db3: has no table 'topics'; expected a whole ROS 2 bag"):
        read_log(other)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"is a folder without \.mcap or \.db3"):
        read_log(tmp_path / "empty")
