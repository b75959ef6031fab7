"""Bags of ROS 2: bytes against CDR by hand, types against ROS's own, and what two other libraries read back."""

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
from samara.core.lazy_import import MissingExtraError
from samara.core.tree import flatten
from samara.physics.multirotor import at_rest, empty_command, environment_of
from samara.record.load import load_run
from samara.record.ros2 import messages as ros2_messages
from samara.record.ros2.bag import write_bag, write_ros2_bag
from samara.record.ros2.messages import (
    CdrError,
    Form,
    Topic,
    layout_of,
    parsed,
    ros_name,
    schema_name,
    type_hash,
)
from samara.record.ros2.sensor_topics import readings, variances_of
from samara.record.ros2.topics import topics_of
from samara.record.streams import RecordingError, Table
from samara.sensors.registry import part

FLIGHT = RECORDINGS / "flights" / "sensors.mcap"
HEAD = "00 01 00 00"


@pytest.fixture(scope="module")
def run():
    return load_run(FLIGHT)


@pytest.fixture(scope="module")
def bag(run, tmp_path_factory):
    return write_ros2_bag(run, tmp_path_factory.mktemp("bag") / "run.ros2.mcap")


@pytest.fixture(scope="module")
def by_rosbags(bag):
    """Times [ns] and messages by topic, as rosbags reads them"""
    found = {}
    with AnyReader([bag]) as reader:
        for connection, time, data in reader.messages():
            found.setdefault(connection.topic, []).append((time, reader.deserialize(data, connection.msgtype)))
    return found


@pytest.fixture(scope="module")
def by_mcap(bag):
    """The same, as mcap-ros2-support reads them"""
    found = {}
    for message in read_ros2_messages(str(bag)):
        own = message.log_time_ns, message.ros_msg
        found.setdefault(message.channel.topic, []).append(own)
    return found


# Bytes by hand: a number stands at a multiple of its size after the head, a text has its length with the zero it ends with


def one(kind, columns=None, **constants):
    return layout_of(kind, **constants).packed(1, columns or {})[0].tobytes()


def by_hand(text):
    return bytes.fromhex(text.replace("|", ""))


def test_bytes_of_a_clock():
    """1.5 s: an int32 and a uint32"""
    assert one("rosgraph_msgs/Clock", clock={"sec": 1, "nanosec": 500_000_000}) == by_hand(
        f"{HEAD} | 01 00 00 00 | 00 65 cd 1d"
    )


def test_bytes_of_a_pose():
    """The text 'map' ends at byte 16 of the message, where doubles may begin at once"""
    data = one(
        "geometry_msgs/PoseStamped",
        {"pose.position": [[1.0, -2.0, 0.5]], "pose.orientation": [[0.0, 0.0, 0.0, 1.0]]},
        header={"stamp": {"sec": 2, "nanosec": 3}, "frame_id": "map"},
    )
    assert data == by_hand(
        f"{HEAD} | 02 00 00 00 | 03 00 00 00 | 04 00 00 00  6d 61 70 00"
        "| 00 00 00 00 00 00 f0 3f | 00 00 00 00 00 00 00 c0 | 00 00 00 00 00 00 e0 3f"
        "| 00 00 00 00 00 00 00 00 | 00 00 00 00 00 00 00 00 | 00 00 00 00 00 00 00 00 | 00 00 00 00 00 00 f0 3f"
    )


def test_bytes_of_a_fix():
    """'gps' ends at 16; the status at 16, its service at 18, and the latitude not before 24; a byte comes last"""
    data = one(
        "sensor_msgs/NavSatFix",
        {"status.status": [-1], "latitude": [47.5], "longitude": [8.5], "altitude": [-0.5]},
        header={"frame_id": "gps"},
        status={"service": 1},
        position_covariance_type=3,
    )
    assert data == by_hand(
        f"{HEAD} | 00 00 00 00 | 00 00 00 00 | 04 00 00 00  67 70 73 00 | ff | 00 | 01 00 | 00 00 00 00"
        "| 00 00 00 00 00 c0 47 40 | 00 00 00 00 00 00 21 40 | 00 00 00 00 00 00 e0 bf"
        f"| {'00 ' * 72} | 03"
    )


def test_bytes_of_numbers_of_motors():
    """Sequences have their lengths; the text 'm' ends at 10, so two bytes pass before its size"""
    dim = [{"label": "m", "size": 2, "stride": 2}]
    data = one("std_msgs/Float64MultiArray", {"data": [[1.0, 2.0]]}, layout={"dim": dim}, data=[0.0, 0.0])
    assert data == by_hand(
        f"{HEAD} | 01 00 00 00 | 02 00 00 00  6d 00 | 00 00 | 02 00 00 00 | 02 00 00 00 | 00 00 00 00 | 02 00 00 00"
        "| 00 00 00 00 | 00 00 00 00 00 00 f0 3f | 00 00 00 00 00 00 00 40"
    )


def test_bytes_of_a_battery():
    """Of floats, bytes, two empty sequences and two empty texts, of which only the zero is there"""
    data = one(
        "sensor_msgs/BatteryState",
        {"voltage": [16.0], "current": [-2.0]},
        header={"frame_id": "b"},
        power_supply_status=2,
        present=True,
    )
    assert data == by_hand(
        f"{HEAD} | 00 00 00 00 | 00 00 00 00 | 02 00 00 00  62 00 | 00 00 | 00 00 80 41 | 00 00 00 00 | 00 00 00 c0"
        f"| {'00 ' * 16} | 02 00 00 01 | 00 00 00 00 | 00 00 00 00 | 01 00 00 00  00 | 00 00 00 | 01 00 00 00  00"
    )


def test_bytes_of_an_attitude_of_px4():
    """Two uint64, eight floats and a byte, with nothing between them"""
    data = one(
        "px4_msgs/VehicleAttitude",
        {"timestamp": [258], "q": [[0.5, 0.5, -0.5, 0.5]]},
        delta_q_reset=[1.0, 0.0, 0.0, 0.0],
        quat_reset_counter=7,
    )
    assert data == by_hand(
        f"{HEAD} | 02 01 00 00 00 00 00 00 | 00 00 00 00 00 00 00 00 | 00 00 00 3f 00 00 00 3f 00 00 00 bf 00 00 00 3f"
        "| 00 00 80 3f 00 00 00 00 00 00 00 00 00 00 00 00 | 07"
    )


@pytest.mark.parametrize(
    "kind", ["nav_msgs/Odometry", "px4_msgs/VehicleOdometry", "sensor_msgs/Range", "std_msgs/Bool"]
)
def test_a_form_fills_in_what_columns_do(kind):
    """Every number of a message, whole ones from 0 on, which any type holds"""
    layout = layout_of(kind)
    numbers, columns = [], {}
    for path, (own, _) in layout.places.items():
        count = own.shape[0] if own.shape else 1
        columns[path] = [np.arange(len(numbers), len(numbers) + count) % 2 if own.shape else len(numbers) % 2]
        numbers += np.ravel(columns[path]).tolist()
    form = Form(layout, list(layout.places))
    assert form.filled(numbers) == layout.packed(1, columns)[0].tobytes()
    with pytest.raises(ValueError, match="numbers for a message with"):
        form.filled([*numbers, 0])


@pytest.mark.parametrize("store", [Stores.ROS2_IRON, Stores.ROS2_KILTED])
def test_the_types_are_those_of_other_distributions(run, store):
    """Every standard type of a bag has the hash that another distribution gives it."""
    own = get_typestore(store)
    empty = own.types["std_msgs/msg/Empty"]()  # of no fields in its .msg, and of one byte on the wire
    assert bytes(own.serialize_cdr(empty, "std_msgs/msg/Empty")).rstrip(b"\0") == one("std_msgs/Empty").rstrip(b"\0")
    standard = {topic.layout.kind for topic in topics_of(run) if not topic.layout.kind.startswith("px4_msgs")}
    for kind in standard:
        assert type_hash(kind) == own.hash_rihs01(schema_name(kind)), kind
    assert len(standard) > 12


def test_status_of_a_fall():
    """A drone that falls has crashed where its motion is stopped by the ground, at more than 3 m/s, and never landed"""
    fall = load_run(RECORDINGS / "fall.mcap")
    topics, state = {topic.name: topic for topic in topics_of(fall)}, fall.tracks[0].tables["state"]
    before, after = (state["v_W"][state.times_us == time_us, 2].item() for time_us in (700_000, 800_000))
    assert before < -3.0 < 0.0 < after
    crashed, landed = topics["/first/crashed"], topics["/first/landed"]
    assert crashed.times_us.tolist() == landed.times_us.tolist() == [0, 760_000]
    assert crashed.columns["data"].tolist() == [False, True] and not landed.columns["data"].any()


def test_status_of_a_drone_that_stands(by_rosbags):
    """It has landed, and has not crashed"""
    assert by_rosbags["/drone/landed"][0][1].data and not by_rosbags["/drone/crashed"][0][1].data


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


@pytest.mark.parametrize("kind", PUBLISHED_HASHES)
def test_published_type_hashes(kind):
    """REP 2016: arrays, sequences, bounded strings, nested types and an empty message"""
    assert type_hash(kind) == f"RIHS01_{PUBLISHED_HASHES[kind]}"


def test_channels_of_a_bag_have_the_hashes_of_their_types(bag):
    """Under the key that rosbag2 reads them from"""
    with bag.open("rb") as file:
        channels = {own.topic: own for own in make_reader(file).get_summary().channels.values()}
    for topic, kind in {"/clock": "rosgraph_msgs/Clock", "/drone/imu": "sensor_msgs/Imu"}.items():
        assert channels[topic].metadata["topic_type_hash"] == f"RIHS01_{PUBLISHED_HASHES[kind]}"


def test_bytes_are_those_that_rosbags_writes(bag):
    """The first and the last message of every topic of a standard type, written anew from what was read"""
    store = get_typestore(Stores.ROS2_JAZZY)
    ends = {}
    with AnyReader([bag]) as reader:
        for connection, _, data in reader.messages():
            if connection.msgtype in store.types:
                ends.setdefault((connection.topic, connection.msgtype), []).append(data)
    assert len(ends) > 18
    for (topic, kind), messages in ends.items():
        for data in (messages[0], messages[-1]):
            assert bytes(store.serialize_cdr(store.deserialize_cdr(data, kind), kind)) == data, topic


# What is read back


def test_two_libraries_read_the_same(by_rosbags, by_mcap):
    """Every number and text of every message"""
    assert set(by_rosbags) == set(by_mcap) and len(by_mcap) > 20
    for topic, messages in by_rosbags.items():
        assert len(messages) == len(by_mcap[topic])
        for (time, one_says), (other_time, other_says) in zip(messages, by_mcap[topic], strict=True):
            assert time == other_time
            _require_same(one_says, other_says, topic)


def _require_same(ours, theirs, where):
    fields = [name for name in getattr(ours, "__dataclass_fields__", ()) if name.islower() and name != "__msgtype__"]
    for name in fields:
        _require_same(getattr(ours, name), getattr(theirs, name), f"{where}.{name}")
    if isinstance(ours, list) and ours and hasattr(ours[0], "__msgtype__"):
        assert len(ours) == len(theirs), where
        for k, (own, other) in enumerate(zip(ours, theirs, strict=True)):
            _require_same(own, other, f"{where}[{k}]")
    elif not fields:
        assert np.array_equal(np.asarray(ours), np.asarray(theirs), equal_nan=not isinstance(ours, str | list)), where


def test_truth_and_odometry(run, by_rosbags):
    """Poses as recorded, velocities in the body's axes; odom → base_link after map → odom is the truth"""
    state, estimate = run.tracks[0].tables["state"], run.tracks[0].tables["estimate"]
    truth = [own for _, own in by_rosbags["/drone/ground_truth"]]
    assert [time for time, _ in by_rosbags["/drone/ground_truth"]] == (1000 * state.times_us).tolist()
    assert np.array_equal([_xyz(own.pose.pose.position) for own in truth], state["p_W"])
    assert np.array_equal([_wxyz(own.pose.pose.orientation) for own in truth], state["q_WB"])
    turned = [
        rotate(Quat(*q), Vec3(*_xyz(own.twist.twist.linear))) for q, own in zip(state["q_WB"], truth, strict=True)
    ]
    assert np.abs(np.array(turned) - state["v_W"]).max() < 1e-14
    said = [own for _, own in by_rosbags["/drone/odom"]]
    assert np.array_equal([_xyz(own.pose.pose.position) for own in said], estimate["p_W"])
    assert (said[0].header.frame_id, said[0].child_frame_id) == ("drone/odom", "drone/base_link")
    for time, position in zip(state.times_us * 1000, state["p_W"], strict=True):
        now = {own.transforms[0].child_frame_id: own.transforms[0] for at, own in by_rosbags["/tf"] if at == time}
        p = Vec3(0.0, 0.0, 0.0)
        for child in ("drone/base_link", "drone/odom"):
            own = now[child].transform
            p = rotate(Quat(*_wxyz(own.rotation)), p) + Vec3(*_xyz(own.translation))
        assert now["drone/odom"].header.frame_id == "map"
        assert np.abs(np.array(p) - position).max() < 1e-12


def test_covariance_is_turned(run, by_rosbags):
    """R diag(σ²) Rᵀ has the variances for its eigenvalues, and the position's are as they were"""
    table = run.tracks[0].tables["covariance"]
    for row, (_, own) in enumerate(by_rosbags["/drone/odom"]):
        pose, twist = (np.reshape(part.covariance, (6, 6)) for part in (own.pose, own.twist))
        assert np.array_equal(np.diag(pose)[:3], table["p_W"][row])
        assert np.allclose(np.linalg.eigvalsh(pose[3:, 3:]), np.sort(table["theta_B"][row]), rtol=1e-9, atol=0.0)
        assert np.allclose(np.linalg.eigvalsh(twist[:3, :3]), np.sort(table["v_W"][row]), rtol=1e-9, atol=0.0)


def test_sensors(run, by_rosbags):
    """Readings as recorded; degrees of latitude; the current of a battery that gives is negative"""
    tables = run.tracks[0].tables
    imu = [own for _, own in by_rosbags["/drone/imu"]]
    assert np.array_equal([_xyz(own.linear_acceleration) for own in imu], tables["imu"]["specific_force_B"])
    assert np.array_equal([_xyz(own.angular_velocity) for own in imu], tables["imu"]["omega_B"])
    assert imu[0].orientation_covariance[0] == -1.0 and imu[0].header.frame_id == "drone/imu"
    fixes = [own for _, own in by_rosbags["/drone/gps/fix"]]
    valid = tables["gps"]["valid"] > 0.5
    assert [own.status.status for own in fixes] == np.where(valid, 0, -1).tolist()
    latitudes = np.array([own.latitude for own in fixes])[valid]
    assert np.array_equal(latitudes, np.degrees(tables["gps"]["place.latitude"][valid]))
    assert 47.0 < latitudes[0] < 48.0
    pressures = [own.fluid_pressure for _, own in by_rosbags["/drone/barometer"]]
    assert np.array_equal(pressures, tables["barometer"]["pressure"])
    fields = [_xyz(own.magnetic_field) for _, own in by_rosbags["/drone/magnetometer"]]
    assert np.array_equal(fields, tables["magnetometer"]["field_B"])
    battery = [own for _, own in by_rosbags["/drone/battery"]]
    assert np.array_equal([own.current for own in battery], -tables["outputs"]["current"].astype(np.float32))
    assert np.array_equal([own.percentage for own in battery], tables["state"]["battery.charge"].astype(np.float32))
    (_, static), = by_rosbags["/tf_static"]  # fmt: skip
    assert {"drone/imu", "drone/gps"} <= {own.child_frame_id for own in static.transforms}


def test_px4_has_north_east_down(run, by_rosbags):
    """Positions (y, x, −z), rates (x, −y, −z); gravity is felt upwards, which is −z; no motor, not a number"""
    estimate, imu = run.tracks[0].tables["estimate"], run.tracks[0].tables["imu"]
    said = [own for _, own in by_rosbags["/fmu/out/vehicle_odometry"]]
    p, omega = estimate["p_W"], estimate["omega_B"]
    assert np.array_equal([own.position for own in said], np.float32(p[:, [1, 0, 2]] * [1, 1, -1]))
    assert np.array_equal([own.angular_velocity for own in said], np.float32(omega * [1, -1, -1]))
    assert np.array_equal([own.velocity for own in said], np.float32(estimate["v_W"][:, [1, 0, 2]] * [1, 1, -1]))
    for q_WB, own in zip(estimate["q_WB"], said, strict=True):  # the body's left in the world, and in PX4's
        x, y, z = rotate(Quat(*q_WB), Vec3(0.0, 1.0, 0.0))
        assert np.abs(np.array(rotate(Quat(*own.q.astype(float)), Vec3(0.0, -1.0, 0.0))) - [y, x, -z]).max() < 1e-6
    assert [int(own.timestamp) for own in said] == estimate.times_us.tolist()
    combined = [own for _, own in by_rosbags["/fmu/out/sensor_combined"]]
    assert np.array_equal(
        [own.accelerometer_m_s2 for own in combined], np.float32(imu["specific_force_B"] * [1, -1, -1])
    )
    assert combined[-1].accelerometer_m_s2[2] < -5.0
    controls = np.array([own.control for _, own in by_rosbags["/fmu/out/actuator_motors"]])
    assert np.array_equal(controls[:, :4], np.float32(run.tracks[0].command)) and np.isnan(controls[:, 4:]).all()


def test_several_drones_have_namespaces(tmp_path):
    """Each below its own name, PX4's below px4_1 and on, and frames of their own"""
    path = write_ros2_bag(load_run(FLIGHT.with_name("swarm.mcap")), tmp_path / "swarm.mcap")
    with path.open("rb") as file:
        names = {channel.topic for channel in make_reader(file).get_summary().channels.values()}
    assert {"/cf0/odom", "/cf1/odom", "/px4_1/fmu/out/vehicle_odometry", "/px4_2/fmu/out/vehicle_odometry"} <= names
    assert ros_name("my-drone.2") == "my_drone_2" and ros_name("2nd") == "_2nd"


def test_command_line(tmp_path, monkeypatch, capsys):
    """Beside the recording by default, and never over it"""
    run = tmp_path / "run.mcap"
    run.write_bytes(FLIGHT.read_bytes())
    status, said, _ = call(monkeypatch, capsys, "export", "ros2", str(run))
    assert status == 0 and said.strip().endswith("run.ros2.mcap") and (tmp_path / "run.ros2.mcap").exists()
    status, _, said = call(monkeypatch, capsys, "export", "ros2", str(run), "-o", str(run))
    assert status != 0 and "is the recording itself; expected another file" in said
    assert run.read_bytes() == FLIGHT.read_bytes()


def test_a_name_of_two_types_is_one_sentence(tmp_path):
    """Nothing is left behind"""
    topics = [
        Topic("/a", layout_of("std_msgs/Bool"), np.array([0]), {}),
        Topic("/a", layout_of("std_msgs/Float64"), np.array([0]), {}),
    ]
    with pytest.raises(RecordingError, match="would be both std_msgs/Bool and std_msgs/Float64"):
        write_bag(topics, tmp_path / "a.mcap")
    assert list(tmp_path.iterdir()) == []


def _xyz(own):
    return [own.x, own.y, own.z]


def _wxyz(own):
    return [own.w, own.x, own.y, own.z]


# Sensors that the recording has not


def table(fields, rows, name):
    times_us = np.arange(len(rows)) * 4_000_000
    return Table(tuple(fields), ("1",) * len(fields), f"samara.sensor.{name}", times_us, np.array(rows, dtype=float))


def read_by_rosbags(topics, path):
    found = {}
    with AnyReader([write_bag(topics, path)]) as reader:
        for connection, time, data in reader.messages():
            found.setdefault(connection.topic, []).append((time, reader.deserialize(data, connection.msgtype)))
    return found


def test_ranges_and_batteries_and_lost_fixes(tmp_path):
    """REP 117 for what a range finder does not see; no place without a fix; over more than one span of time"""
    sensor = part("vl53l1x").sensor(r_B=Vec3(0.1, 0.0, 0.0), name="down")
    near, far = sensor.about.part.nearest, sensor.about.part.farthest
    tables = {
        "down": table(["distance", "valid"], [[1.5, 1], [near, 0], [far, 0]], "down"),
        "monitor": table(["voltage", "current"], [[12.0, 3.0], [11.5, 4.0]], "monitor"),
        "gps": table(
            [f"place.{own}" for own in ("latitude", "longitude", "altitude")] + ["v_W.x", "v_W.y", "v_W.z", "valid"],
            [[0.5, 0.25, 10.0, 1.0, 2.0, 3.0, 1.0], [0.5, 0.25, 10.0, 1.0, 2.0, 3.0, 0.0]],
            "gps",
        ),
        "own": table(["something"], [[1.0]], "own"),
    }
    found = read_by_rosbags(readings(tables, "drone", [sensor]), tmp_path / "own.mcap")
    assert set(found) == {"/drone/down", "/drone/monitor", "/drone/gps/fix", "/drone/gps/velocity"}
    assert [float(own.range) for _, own in found["/drone/down"]] == [1.5, -np.inf, np.inf]
    assert [time for time, _ in found["/drone/down"]] == [0, 4_000_000_000, 8_000_000_000]
    assert found["/drone/down"][0][1].max_range == np.float32(far)
    assert [float(own.voltage) for _, own in found["/drone/monitor"]] == [12.0, 11.5]
    assert [float(own.current) for _, own in found["/drone/monitor"]] == [-3.0, -4.0]
    first, lost = (own for _, own in found["/drone/gps/fix"])
    assert np.isclose(first.latitude, 90.0 / np.pi, rtol=1e-15) and first.status.status == 0
    assert np.isnan(lost.latitude) and lost.status.status == -1
    assert len(found["/drone/gps/velocity"]) == 1


# Bytes of strangers


def test_what_is_written_is_read_back():
    """Numbers, texts and sequences, in either order of bytes"""
    points = [{"transforms": [{"rotation": {"w": 1.0}}], "time_from_start": {"sec": 2}}, {}]
    data = one(
        "trajectory_msgs/MultiDOFJointTrajectory", header={"frame_id": "map"}, joint_names=["a", ""], points=points
    )
    own = parsed("trajectory_msgs/MultiDOFJointTrajectory", data)
    assert own.header.frame_id == "map" and own.joint_names == ["a", ""] and len(own.points) == 2
    assert own.points[0].transforms[0].rotation.w == 1.0 and own.points[0].time_from_start.sec == 2
    assert own.points[1].transforms == []
    store = get_typestore(Stores.ROS2_JAZZY)
    kind = "std_msgs/msg/Float64MultiArray"
    message = store.deserialize_cdr(one("std_msgs/Float64MultiArray", data=[1.5, -2.0]), kind)
    big = bytes(store.serialize_cdr(message, kind, little_endian=False))
    assert big[:2] == b"\0\0" and list(parsed("std_msgs/Float64MultiArray", big).data) == [1.5, -2.0]


def test_bytes_that_are_not_of_the_type_are_one_sentence():
    """Cut anywhere, too long, of another encoding, or of lengths beyond all memory"""
    kind = "trajectory_msgs/MultiDOFJointTrajectory"
    data = one(kind, header={"frame_id": "map"}, joint_names=["a"], points=[{"transforms": [{}]}])
    for cut in range(len(data)):
        with pytest.raises(CdrError, match="expected"):
            parsed(kind, data[:cut])
    for bad in (data + bytes(4), b"\0\x07" + data[2:], data[:12] + b"\xff" * (len(data) - 12)):
        with pytest.raises(CdrError, match="expected"):
            parsed(kind, bad)
    with pytest.raises(CdrError, match="utf-8"):
        parsed("std_msgs/String", b"\0\1\0\0\2\0\0\0\xff\0")
    random = np.random.default_rng(0)
    for _ in range(2000):
        damaged = bytearray(data)
        for _ in range(random.integers(1, 4)):
            damaged[random.integers(len(damaged))] = random.integers(256)
        with suppress(CdrError):
            parsed(kind, bytes(damaged))


def test_variances_are_those_of_the_readings():
    """σ² that a part is said to have, against 2000 readings of it in free fall"""
    vehicle, sensor = samara.vehicle("iris"), part("icm-42688-p").sensor()
    state = at_rest(vehicle)._replace(p_W=Vec3(0.0, 0.0, 100.0))
    around, dt = environment_of(vehicle), 1.0 / sensor.rate
    random = np.random.default_rng(0)
    memory = sensor.initial(vehicle, [0.0] * sensor.start_normals)
    said = []
    for _ in range(2000):
        draws = random.standard_normal(sensor.normals_needed)
        draws[[3, 4, 5, 9, 10, 11]] = 0.0  # the bias does not wander
        reading, memory = sensor.measure(state, empty_command(vehicle), vehicle, around, draws.tolist(), memory, dt)
        said.append(flatten(reading))
    variances = variances_of(sensor)
    expected = [*variances["specific_force_B"], *variances["omega_B"]]
    assert np.allclose(np.var(said, axis=0), expected, rtol=0.1)  # √(2/2000) of it is 3 %
    assert variances_of(None) == {}


def test_without_rosbags_one_sentence_names_the_extra(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "rosbags.typesys", None)
    ros2_messages.typestore.cache_clear()
    ros2_messages.fields_of.cache_clear()
    with pytest.raises(MissingExtraError, match=r"^ROS 2 messages need rosbags: pip install 'samara\[bags\]'$"):
        write_ros2_bag(run, tmp_path / "run.ros2.mcap")
    assert not list(tmp_path.iterdir())
