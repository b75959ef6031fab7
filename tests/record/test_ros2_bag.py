"""ROS 2 bags: bytes against hand-written CDR, types against ROS's, and the readings of two independent libraries."""

import re
import sys
from contextlib import suppress

import numpy as np
import pytest
from mcap.reader import make_reader
from mcap_ros2.reader import read_ros2_messages
from rosbags.highlevel import AnyReader
from rosbags.typesys import Stores, get_typestore
from support.command import call
from support.repository import RECORDINGS

import samara
from samara.core.algebra import Quat, Vec3, rotate
from samara.core.extras import MissingExtraError, install_hint
from samara.core.tree import flatten
from samara.physics.multirotor import complete_environment, state_at_rest, zero_command
from samara.record.load import load_run
from samara.record.ros2 import messages as ros2_messages
from samara.record.ros2.bag import write_bag, write_ros2_bag
from samara.record.ros2.messages import (
    CdrError,
    CdrTemplate,
    Ros2Topic,
    cdr_layout,
    parse_message,
    ros_name,
    schema_name,
    type_hash,
)
from samara.record.ros2.sensor_topics import reading_variances, sensor_topics
from samara.record.ros2.topics import run_topics
from samara.record.streams import RecordedStream, RecordingError
from samara.sensors.registry import part

FLIGHT = RECORDINGS / "flights" / "sensors.mcap"
CDR_HEADER_HEX = "00 01 00 00"


@pytest.fixture(scope="module")
def run():
    return load_run(FLIGHT)


@pytest.fixture(scope="module")
def bag(run, tmp_path_factory):
    return write_ros2_bag(run, tmp_path_factory.mktemp("bag") / "run.ros2.mcap")


@pytest.fixture(scope="module")
def rosbags_messages(bag):
    """Times [ns] and messages by topic, as rosbags reads them."""
    messages = {}
    with AnyReader([bag]) as reader:
        for connection, time, data in reader.messages():
            messages.setdefault(connection.topic, []).append((time, reader.deserialize(data, connection.msgtype)))
    return messages


@pytest.fixture(scope="module")
def mcap_messages(bag):
    """The same, as mcap-ros2-support reads them."""
    messages = {}
    for message in read_ros2_messages(str(bag)):
        time_and_message = message.log_time_ns, message.ros_msg
        messages.setdefault(message.channel.topic, []).append(time_and_message)
    return messages


# Bytes by hand: a number is at a multiple of its size after the header, a string has its length with the terminating zero


def single_message(message_type, columns=None, **constants):
    return cdr_layout(message_type, **constants).pack(1, columns or {})[0].tobytes()


def hex_bytes(text):
    return bytes.fromhex(text.replace("|", ""))


def test_bytes_of_a_clock():
    """1.5 s: an int32 and a uint32."""
    assert single_message("rosgraph_msgs/Clock", clock={"sec": 1, "nanosec": 500_000_000}) == hex_bytes(
        f"{CDR_HEADER_HEX} | 01 00 00 00 | 00 65 cd 1d"
    )


def test_bytes_of_a_pose():
    """The string 'map' ends at byte 16 of the message, where doubles may begin at once."""
    data = single_message(
        "geometry_msgs/PoseStamped",
        {"pose.position": [[1.0, -2.0, 0.5]], "pose.orientation": [[0.0, 0.0, 0.0, 1.0]]},
        header={"stamp": {"sec": 2, "nanosec": 3}, "frame_id": "map"},
    )
    assert data == hex_bytes(
        f"{CDR_HEADER_HEX} | 02 00 00 00 | 03 00 00 00 | 04 00 00 00  6d 61 70 00"
        "| 00 00 00 00 00 00 f0 3f | 00 00 00 00 00 00 00 c0 | 00 00 00 00 00 00 e0 3f"
        "| 00 00 00 00 00 00 00 00 | 00 00 00 00 00 00 00 00 | 00 00 00 00 00 00 00 00 | 00 00 00 00 00 00 f0 3f"
    )


def test_bytes_of_a_fix():
    """'gps' ends at 16; the status at 16, its service at 18, and the latitude not before 24; a byte comes last."""
    data = single_message(
        "sensor_msgs/NavSatFix",
        {"status.status": [-1], "latitude": [47.5], "longitude": [8.5], "altitude": [-0.5]},
        header={"frame_id": "gps"},
        status={"service": 1},
        position_covariance_type=3,
    )
    assert data == hex_bytes(
        f"{CDR_HEADER_HEX} | 00 00 00 00 | 00 00 00 00 | 04 00 00 00  67 70 73 00 | ff | 00 | 01 00 | 00 00 00 00"
        "| 00 00 00 00 00 c0 47 40 | 00 00 00 00 00 00 21 40 | 00 00 00 00 00 00 e0 bf"
        f"| {'00 ' * 72} | 03"
    )


def test_bytes_of_motor_commands():
    """Sequences have their lengths; the string 'm' ends at 10, so two padding bytes precede its size."""
    dim = [{"label": "m", "size": 2, "stride": 2}]
    data = single_message("std_msgs/Float64MultiArray", {"data": [[1.0, 2.0]]}, layout={"dim": dim}, data=[0.0, 0.0])
    assert data == hex_bytes(
        f"{CDR_HEADER_HEX} | 01 00 00 00 | 02 00 00 00  6d 00 | 00 00 | 02 00 00 00 | 02 00 00 00 | 00 00 00 00 | 02 00 00 00"
        "| 00 00 00 00 | 00 00 00 00 00 00 f0 3f | 00 00 00 00 00 00 00 40"
    )


def test_bytes_of_a_battery():
    """Floats, bytes, two empty sequences and two empty strings, of which only the zero is present."""
    data = single_message(
        "sensor_msgs/BatteryState",
        {"voltage": [16.0], "current": [-2.0]},
        header={"frame_id": "b"},
        power_supply_status=2,
        present=True,
    )
    assert data == hex_bytes(
        f"{CDR_HEADER_HEX} | 00 00 00 00 | 00 00 00 00 | 02 00 00 00  62 00 | 00 00 | 00 00 80 41 | 00 00 00 00 | 00 00 00 c0"
        f"| {'00 ' * 16} | 02 00 00 01 | 00 00 00 00 | 00 00 00 00 | 01 00 00 00  00 | 00 00 00 | 01 00 00 00  00"
    )


def test_bytes_of_an_attitude_of_px4():
    """Two uint64, eight floats and a byte, without padding."""
    data = single_message(
        "px4_msgs/VehicleAttitude",
        {"timestamp": [258], "q": [[0.5, 0.5, -0.5, 0.5]]},
        delta_q_reset=[1.0, 0.0, 0.0, 0.0],
        quat_reset_counter=7,
    )
    assert data == hex_bytes(
        f"{CDR_HEADER_HEX} | 02 01 00 00 00 00 00 00 | 00 00 00 00 00 00 00 00"
        "| 00 00 00 3f 00 00 00 3f 00 00 00 bf 00 00 00 3f"
        "| 00 00 80 3f 00 00 00 00 00 00 00 00 00 00 00 00 | 07"
    )


@pytest.mark.parametrize(
    "message_type", ["nav_msgs/Odometry", "px4_msgs/VehicleOdometry", "sensor_msgs/Range", "std_msgs/Bool"]
)
def test_a_template_gives_the_same_bytes_as_columns(message_type):
    """All values of a message are 0 or 1, which any type holds."""
    layout = cdr_layout(message_type)
    numbers, columns = [], {}
    for path, (number_type, _) in layout.offsets.items():
        count = number_type.shape[0] if number_type.shape else 1
        columns[path] = [np.arange(len(numbers), len(numbers) + count) % 2 if number_type.shape else len(numbers) % 2]
        numbers += np.ravel(columns[path]).tolist()
    template = CdrTemplate(layout, list(layout.offsets))
    assert template.fill(numbers) == layout.pack(1, columns)[0].tobytes()
    with pytest.raises(ValueError, match="numbers for a message with"):
        template.fill([*numbers, 0])


@pytest.mark.parametrize("store", [Stores.ROS2_IRON, Stores.ROS2_KILTED])
def test_the_types_are_those_of_other_distributions(run, store):
    """Every standard type of a bag has the hash that another distribution gives it."""
    other_store = get_typestore(store)
    empty = other_store.types["std_msgs/msg/Empty"]()  # no fields in its .msg, one byte in CDR
    assert bytes(other_store.serialize_cdr(empty, "std_msgs/msg/Empty")).rstrip(b"\0") == single_message(
        "std_msgs/Empty"
    ).rstrip(b"\0")
    standard = {
        topic.layout.message_type for topic in run_topics(run) if not topic.layout.message_type.startswith("px4_msgs")
    }
    for message_type in standard:
        assert type_hash(message_type) == other_store.hash_rihs01(schema_name(message_type)), message_type
    assert len(standard) > 12


def test_status_of_a_fall():
    """A falling drone has crashed when the ground stops its motion at more than 3 m/s, and has not landed."""
    fall = load_run(RECORDINGS / "fall.mcap")
    topics, state = {topic.name: topic for topic in run_topics(fall)}, fall.drone_records[0].tables["state"]
    speed_before, speed_after = (state["v_W"][state.times_us == time_us, 2].item() for time_us in (700_000, 800_000))
    assert speed_before < -3.0 < 0.0 < speed_after
    crashed, landed = topics["/first/crashed"], topics["/first/landed"]
    assert crashed.times_us.tolist() == landed.times_us.tolist() == [0, 760_000]
    assert crashed.columns["data"].tolist() == [False, True] and not landed.columns["data"].any()


def test_status_of_a_drone_that_stands(rosbags_messages):
    """It has landed, and has not crashed."""
    assert rosbags_messages["/drone/landed"][0][1].data and not rosbags_messages["/drone/crashed"][0][1].data


PUBLISHED_HASHES = {
    "std_msgs/Empty": "20b625256f32d5dbc0d04fee44f43c41e51c70d3502f84b4a08e7a9c26a96312",
    "std_msgs/String": "df668c740482bbd48fb39d76a70dfd4bd59db1288021743503259e948f6b1a18",
    "std_msgs/Header": "f49fb3ae2cf070f793645ff749683ac6b06203e41c891e17701b1cb597ce6a01",
    "rosgraph_msgs/Clock": "692f7a66e93a3c83e71765d033b60349ba68023a8c689a79e48078bcb5c58564",
    "rmw_dds_common/ParticipantEntitiesInfo": "91a0593bacdcc50ea9bdcf849a938b128412cc1ea821245c663bcd26f83c295e",
    "trajectory_msgs/MultiDOFJointTrajectory": "3a18fd095292a65cfde8833c72985a30af981f3ec44494655c6267262b443a4a",
    "sensor_msgs/Imu": "7d9a00ff131080897a5ec7e26e315954b8eae3353c3f995c55faf71574000b5b",
    "sensor_msgs/BatteryState": "4bee5dfce981c98faa6828b868307a0a73f992ed0789f374ee96c8f840e69741",
    "nav_msgs/Odometry": "3cc97dc7fb7502f8714462c526d369e35b603cfc34d946e3f2eda2766dfec6e0",
    "tf2_msgs/TFMessage": "e369d0f05a23ae52508854b66f6aa0437f3449d652e8cbf22d5abe85d020f087",
}
"""RIHS01 hashes in the JSON that `rosidl_generator_type_description` of ROS 2 Jazzy installs with each message."""


@pytest.mark.parametrize("message_type", PUBLISHED_HASHES)
def test_published_type_hashes(message_type):
    """REP 2016: arrays, sequences, bounded strings, nested types and an empty message."""
    assert type_hash(message_type) == f"RIHS01_{PUBLISHED_HASHES[message_type]}"


def test_channels_of_a_bag_have_the_hashes_of_their_types(bag):
    """Under the key that rosbag2 reads."""
    with bag.open("rb") as file:
        channels = {channel.topic: channel for channel in make_reader(file).get_summary().channels.values()}
    for topic, message_type in {"/clock": "rosgraph_msgs/Clock", "/drone/imu": "sensor_msgs/Imu"}.items():
        assert channels[topic].metadata["topic_type_hash"] == f"RIHS01_{PUBLISHED_HASHES[message_type]}"


def test_bytes_are_those_that_rosbags_writes(bag):
    """The first and the last message of every topic of a standard type, serialised again by rosbags."""
    store = get_typestore(Stores.ROS2_JAZZY)
    data_by_topic = {}
    with AnyReader([bag]) as reader:
        for connection, _, data in reader.messages():
            if connection.msgtype in store.types:
                data_by_topic.setdefault((connection.topic, connection.msgtype), []).append(data)
    assert len(data_by_topic) > 18
    for (topic, message_type), messages in data_by_topic.items():
        for data in (messages[0], messages[-1]):
            assert bytes(store.serialize_cdr(store.deserialize_cdr(data, message_type), message_type)) == data, topic


# Messages read back


def test_two_libraries_read_the_same(rosbags_messages, mcap_messages):
    """Every number and string of every message."""
    assert set(rosbags_messages) == set(mcap_messages) and len(mcap_messages) > 20
    for topic, messages in rosbags_messages.items():
        assert len(messages) == len(mcap_messages[topic])
        for (time, message), (other_time, other_message) in zip(messages, mcap_messages[topic], strict=True):
            assert time == other_time
            _require_same(message, other_message, topic)


def _require_same(first, second, path):
    fields = [name for name in getattr(first, "__dataclass_fields__", ()) if name.islower() and name != "__msgtype__"]
    for name in fields:
        _require_same(getattr(first, name), getattr(second, name), f"{path}.{name}")
    if isinstance(first, list) and first and hasattr(first[0], "__msgtype__"):
        assert len(first) == len(second), path
        for k, (element, other_element) in enumerate(zip(first, second, strict=True)):
            _require_same(element, other_element, f"{path}[{k}]")
    elif not fields:
        assert np.array_equal(np.asarray(first), np.asarray(second), equal_nan=not isinstance(first, str | list)), path


def test_truth_and_odometry(run, rosbags_messages):
    """Poses as recorded, velocities in body axes; map → odom → base_link is the truth."""
    state, estimate = run.drone_records[0].tables["state"], run.drone_records[0].tables["estimate"]
    truth = [message for _, message in rosbags_messages["/drone/ground_truth"]]
    assert [time for time, _ in rosbags_messages["/drone/ground_truth"]] == (1000 * state.times_us).tolist()
    assert np.array_equal([_xyz(message.pose.pose.position) for message in truth], state["p_W"])
    assert np.array_equal([_wxyz(message.pose.pose.orientation) for message in truth], state["q_WB"])
    velocities_W = [
        rotate(Quat(*q), Vec3(*_xyz(message.twist.twist.linear)))
        for q, message in zip(state["q_WB"], truth, strict=True)
    ]
    assert np.abs(np.array(velocities_W) - state["v_W"]).max() < 1e-14
    odometry = [message for _, message in rosbags_messages["/drone/odom"]]
    assert np.array_equal([_xyz(message.pose.pose.position) for message in odometry], estimate["p_W"])
    assert (odometry[0].header.frame_id, odometry[0].child_frame_id) == ("drone/odom", "drone/base_link")
    for time, position in zip(state.times_us * 1000, state["p_W"], strict=True):
        transforms = {
            message.transforms[0].child_frame_id: message.transforms[0]
            for message_time, message in rosbags_messages["/tf"]
            if message_time == time
        }
        p = Vec3(0.0, 0.0, 0.0)
        for child in ("drone/base_link", "drone/odom"):
            transform = transforms[child].transform
            p = rotate(Quat(*_wxyz(transform.rotation)), p) + Vec3(*_xyz(transform.translation))
        assert transforms["drone/odom"].header.frame_id == "map"
        assert np.abs(np.array(p) - position).max() < 1e-12


def test_covariance_is_rotated(run, rosbags_messages):
    """R diag(σ²) Rᵀ has the variances as eigenvalues, and those of the position are unchanged."""
    table = run.drone_records[0].tables["variance"]
    for row, (_, message) in enumerate(rosbags_messages["/drone/odom"]):
        pose, twist = (np.reshape(part.covariance, (6, 6)) for part in (message.pose, message.twist))
        assert np.array_equal(np.diag(pose)[:3], table["p_W"][row])
        assert np.allclose(np.linalg.eigvalsh(pose[3:, 3:]), np.sort(table["theta_B"][row]), rtol=1e-9, atol=0.0)
        assert np.allclose(np.linalg.eigvalsh(twist[:3, :3]), np.sort(table["v_W"][row]), rtol=1e-9, atol=0.0)


def test_sensors(run, rosbags_messages):
    """Readings as recorded; latitude in degrees; the current of a discharging battery is negative."""
    tables = run.drone_records[0].tables
    imu = [message for _, message in rosbags_messages["/drone/imu"]]
    assert np.array_equal([_xyz(message.linear_acceleration) for message in imu], tables["imu"]["specific_force_B"])
    assert np.array_equal([_xyz(message.angular_velocity) for message in imu], tables["imu"]["omega_B"])
    assert imu[0].orientation_covariance[0] == -1.0 and imu[0].header.frame_id == "drone/imu"
    fixes = [message for _, message in rosbags_messages["/drone/gps/fix"]]
    valid = tables["gps"]["valid"] > 0.5
    assert [message.status.status for message in fixes] == np.where(valid, 0, -1).tolist()
    latitudes = np.array([message.latitude for message in fixes])[valid]
    assert np.array_equal(latitudes, np.degrees(tables["gps"]["position.latitude"][valid]))
    assert 47.0 < latitudes[0] < 48.0
    pressures = [message.fluid_pressure for _, message in rosbags_messages["/drone/barometer"]]
    assert np.array_equal(pressures, tables["barometer"]["pressure"])
    fields = [_xyz(message.magnetic_field) for _, message in rosbags_messages["/drone/magnetometer"]]
    assert np.array_equal(fields, tables["magnetometer"]["field_B"])
    battery = [message for _, message in rosbags_messages["/drone/battery"]]
    assert np.array_equal([message.current for message in battery], -tables["derived"]["current"].astype(np.float32))
    assert np.array_equal(
        [message.percentage for message in battery], tables["state"]["battery.charge"].astype(np.float32)
    )
    (_, static), = rosbags_messages["/tf_static"]  # fmt: skip
    assert {"drone/imu", "drone/gps"} <= {message.child_frame_id for message in static.transforms}


def test_px4_has_north_east_down(run, rosbags_messages):
    """Positions (y, x, −z), rates (x, −y, −z); the specific force at rest is −z; NaN for missing motors."""
    estimate, imu = run.drone_records[0].tables["estimate"], run.drone_records[0].tables["imu"]
    odometry = [message for _, message in rosbags_messages["/fmu/out/vehicle_odometry"]]
    p, omega = estimate["p_W"], estimate["omega_B"]
    assert np.array_equal([message.position for message in odometry], np.float32(p[:, [1, 0, 2]] * [1, 1, -1]))
    assert np.array_equal([message.angular_velocity for message in odometry], np.float32(omega * [1, -1, -1]))
    assert np.array_equal(
        [message.velocity for message in odometry], np.float32(estimate["v_W"][:, [1, 0, 2]] * [1, 1, -1])
    )
    for q_WB, message in zip(
        estimate["q_WB"], odometry, strict=True
    ):  # the body's left in the world, and in PX4's frame
        x, y, z = rotate(Quat(*q_WB), Vec3(0.0, 1.0, 0.0))
        assert np.abs(np.array(rotate(Quat(*message.q.astype(float)), Vec3(0.0, -1.0, 0.0))) - [y, x, -z]).max() < 1e-6
    assert [int(message.timestamp) for message in odometry] == estimate.times_us.tolist()
    combined = [message for _, message in rosbags_messages["/fmu/out/sensor_combined"]]
    assert np.array_equal(
        [message.accelerometer_m_s2 for message in combined], np.float32(imu["specific_force_B"] * [1, -1, -1])
    )
    assert combined[-1].accelerometer_m_s2[2] < -5.0
    controls = np.array([message.control for _, message in rosbags_messages["/fmu/out/actuator_motors"]])
    assert np.array_equal(controls[:, :4], np.float32(run.drone_records[0].command)) and np.isnan(controls[:, 4:]).all()


def test_several_drones_have_namespaces(tmp_path):
    """Each below its name, PX4's below px4_1 and so on, with separate frames."""
    path = write_ros2_bag(load_run(FLIGHT.with_name("swarm.mcap")), tmp_path / "swarm.mcap")
    with path.open("rb") as file:
        names = {channel.topic for channel in make_reader(file).get_summary().channels.values()}
    assert {"/cf0/odom", "/cf1/odom", "/px4_1/fmu/out/vehicle_odometry", "/px4_2/fmu/out/vehicle_odometry"} <= names
    assert ros_name("my-drone.2") == "my_drone_2" and ros_name("2nd") == "_2nd"


def test_command_line(tmp_path, monkeypatch, capsys):
    """Beside the recording by default, and never over it."""
    path = tmp_path / "run.mcap"
    path.write_bytes(FLIGHT.read_bytes())
    status, output, _ = call(monkeypatch, capsys, "export", "ros2", str(path))
    assert status == 0 and output.strip().endswith("run.ros2.mcap") and (tmp_path / "run.ros2.mcap").exists()
    status, _, output = call(monkeypatch, capsys, "export", "ros2", str(path), "-o", str(path))
    assert status != 0 and "is the recording itself; expected another file" in output
    assert path.read_bytes() == FLIGHT.read_bytes()


def test_a_name_of_two_types_is_one_sentence(tmp_path):
    """No file is left behind."""
    topics = [
        Ros2Topic("/a", cdr_layout("std_msgs/Bool"), np.array([0]), {}),
        Ros2Topic("/a", cdr_layout("std_msgs/Float64"), np.array([0]), {}),
    ]
    with pytest.raises(RecordingError, match="would be both std_msgs/Bool and std_msgs/Float64"):
        write_bag(topics, tmp_path / "a.mcap")
    assert list(tmp_path.iterdir()) == []


def _xyz(vector):
    return [vector.x, vector.y, vector.z]


def _wxyz(quaternion):
    return [quaternion.w, quaternion.x, quaternion.y, quaternion.z]


# Sensors that the recording lacks


def table(fields, rows, name):
    times_us = np.arange(len(rows)) * 4_000_000
    return RecordedStream(
        tuple(fields), ("1",) * len(fields), f"samara.sensor.{name}", times_us, np.array(rows, dtype=float)
    )


def read_by_rosbags(topics, path):
    messages = {}
    with AnyReader([write_bag(topics, path)]) as reader:
        for connection, time, data in reader.messages():
            messages.setdefault(connection.topic, []).append((time, reader.deserialize(data, connection.msgtype)))
    return messages


def test_ranges_and_batteries_and_lost_fixes(tmp_path):
    """REP 117 for a range finder out of range; no position without a fix; over more than one span of time."""
    sensor = part("vl53l1x").sensor(r_B=Vec3(0.1, 0.0, 0.0), name="down")
    min_range, max_range = sensor.model.part.min_range, sensor.model.part.max_range
    tables = {
        "down": table(["distance", "valid"], [[1.5, 1], [min_range, 0], [max_range, 0]], "down"),
        "monitor": table(["voltage", "current"], [[12.0, 3.0], [11.5, 4.0]], "monitor"),
        "gps": table(
            [f"position.{coordinate}" for coordinate in ("latitude", "longitude", "altitude")]
            + ["v_W.x", "v_W.y", "v_W.z", "valid"],
            [[0.5, 0.25, 10.0, 1.0, 2.0, 3.0, 1.0], [0.5, 0.25, 10.0, 1.0, 2.0, 3.0, 0.0]],
            "gps",
        ),
        "own": table(["something"], [[1.0]], "own"),
    }
    messages = read_by_rosbags(sensor_topics(tables, "drone", [sensor]), tmp_path / "own.mcap")
    assert set(messages) == {"/drone/down", "/drone/monitor", "/drone/gps/fix", "/drone/gps/velocity"}
    assert [float(message.range) for _, message in messages["/drone/down"]] == [1.5, -np.inf, np.inf]
    assert [time for time, _ in messages["/drone/down"]] == [0, 4_000_000_000, 8_000_000_000]
    assert messages["/drone/down"][0][1].max_range == np.float32(max_range)
    assert [float(message.voltage) for _, message in messages["/drone/monitor"]] == [12.0, 11.5]
    assert [float(message.current) for _, message in messages["/drone/monitor"]] == [-3.0, -4.0]
    first, without_fix = (message for _, message in messages["/drone/gps/fix"])
    assert np.isclose(first.latitude, 90.0 / np.pi, rtol=1e-15) and first.status.status == 0
    assert np.isnan(without_fix.latitude) and without_fix.status.status == -1
    assert len(messages["/drone/gps/velocity"]) == 1


# Untrusted bytes


def test_a_message_is_read_back():
    """Numbers, strings and sequences, in either byte order."""
    points = [{"transforms": [{"rotation": {"w": 1.0}}], "time_from_start": {"sec": 2}}, {}]
    data = single_message(
        "trajectory_msgs/MultiDOFJointTrajectory", header={"frame_id": "map"}, joint_names=["a", ""], points=points
    )
    trajectory = parse_message("trajectory_msgs/MultiDOFJointTrajectory", data)
    assert trajectory.header.frame_id == "map" and trajectory.joint_names == ["a", ""] and len(trajectory.points) == 2
    assert trajectory.points[0].transforms[0].rotation.w == 1.0 and trajectory.points[0].time_from_start.sec == 2
    assert trajectory.points[1].transforms == []
    store = get_typestore(Stores.ROS2_JAZZY)
    message_type = "std_msgs/msg/Float64MultiArray"
    message = store.deserialize_cdr(single_message("std_msgs/Float64MultiArray", data=[1.5, -2.0]), message_type)
    big_endian = bytes(store.serialize_cdr(message, message_type, little_endian=False))
    assert big_endian[:2] == b"\0\0" and list(parse_message("std_msgs/Float64MultiArray", big_endian).data) == [
        1.5,
        -2.0,
    ]


def test_bytes_that_are_not_of_the_type_are_one_sentence():
    """Truncated anywhere, too long, of another encoding, or with lengths beyond all memory."""
    message_type = "trajectory_msgs/MultiDOFJointTrajectory"
    data = single_message(message_type, header={"frame_id": "map"}, joint_names=["a"], points=[{"transforms": [{}]}])
    for cut in range(len(data)):
        with pytest.raises(CdrError, match="expected"):
            parse_message(message_type, data[:cut])
    for invalid in (data + bytes(4), b"\0\x07" + data[2:], data[:12] + b"\xff" * (len(data) - 12)):
        with pytest.raises(CdrError, match="expected"):
            parse_message(message_type, invalid)
    with pytest.raises(CdrError, match="utf-8"):
        parse_message("std_msgs/String", b"\0\1\0\0\2\0\0\0\xff\0")
    rng = np.random.default_rng(0)
    for _ in range(2000):
        damaged = bytearray(data)
        for _ in range(rng.integers(1, 4)):
            damaged[rng.integers(len(damaged))] = rng.integers(256)
        with suppress(CdrError):
            parse_message(message_type, bytes(damaged))


def test_variances_are_those_of_the_readings():
    """σ² of a part, against 2000 of its readings in free fall."""
    vehicle, sensor = samara.vehicle("iris"), part("icm-42688-p").sensor()
    state = state_at_rest(vehicle)._replace(p_W=Vec3(0.0, 0.0, 100.0))
    environment, dt = complete_environment(vehicle), 1.0 / sensor.rate
    rng = np.random.default_rng(0)
    sensor_state = sensor.initial(vehicle, [0.0] * sensor.start_normals)
    readings = []
    for _ in range(2000):
        draws = rng.standard_normal(sensor.normals_needed)
        draws[[3, 4, 5, 9, 10, 11]] = 0.0  # the bias does not wander
        reading, sensor_state = sensor.measure(
            state, zero_command(vehicle), vehicle, environment, draws.tolist(), sensor_state, dt
        )
        readings.append(flatten(reading))
    variances = reading_variances(sensor)
    expected = [*variances["specific_force_B"], *variances["omega_B"]]
    assert np.allclose(np.var(readings, axis=0), expected, rtol=0.1)  # √(2/2000) of it is 3 %
    assert reading_variances(None) == {}


def test_without_rosbags_one_sentence_names_the_extra(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "rosbags.typesys", None)
    ros2_messages.typestore.cache_clear()
    ros2_messages.message_fields.cache_clear()
    with pytest.raises(MissingExtraError, match=f"ROS 2 messages needs rosbags: {re.escape(install_hint('bags'))}$"):
        write_ros2_bag(run, tmp_path / "run.ros2.mcap")
    assert not list(tmp_path.iterdir())
