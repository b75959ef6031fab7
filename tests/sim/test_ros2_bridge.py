"""A flight on ROS 2 topics: published messages equal those of the exported bag, and received commands are executed."""

import os
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest
from mcap.reader import make_reader
from support.repository import skip_or_fail

from samara.core.algebra import quat_from_euler
from samara.record.load import load_run
from samara.record.ros2.bag import write_ros2_bag
from samara.record.ros2.messages import cdr_layout, parse_message
from samara.scenario.file import load_scenario, parse_scenario
from samara.sim.replay import replay

DOMAIN = 20 + os.getpid() % 75  # separate domains for tests in several processes


@pytest.fixture
def node():
    """A node on loopback; requires Cyclone DDS."""
    if find_spec("cyclonedds") is None:
        skip_or_fail("Cyclone DDS is not installed")
    from samara.link.ros2.node import Ros2Node

    with Ros2Node(DOMAIN) as ros_node:
        yield ros_node


STATES = {
    "/drone/odom": "nav_msgs/Odometry",
    "/drone/ground_truth": "nav_msgs/Odometry",
    "/drone/pose": "geometry_msgs/PoseStamped",
    "/drone/twist": "geometry_msgs/TwistStamped",
}
SENSORS = {
    "/drone/imu": "sensor_msgs/Imu",
    "/drone/magnetometer": "sensor_msgs/MagneticField",
    "/drone/barometer": "sensor_msgs/FluidPressure",
    "/drone/gps/fix": "sensor_msgs/NavSatFix",
    "/drone/gps/velocity": "geometry_msgs/TwistStamped",
}
OTHERS = {
    "/clock": "rosgraph_msgs/Clock",
    "/tf": "tf2_msgs/TFMessage",
    "/tf_static": "tf2_msgs/TFMessage",
    "/drone/battery": "sensor_msgs/BatteryState",
    "/drone/rotor_speed": "std_msgs/Float64MultiArray",
}


def read_bag(path):
    """Return the messages of a bag by topic, in order."""
    messages_by_topic = {}
    with path.open("rb") as file:
        for schema, channel, message in make_reader(file).iter_messages():
            parsed_message = parse_message(schema.name.replace("/msg/", "/"), message.data)
            messages_by_topic.setdefault(channel.topic, []).append(parsed_message)
    return messages_by_topic


def stamp(message):
    return message.header.stamp.sec, message.header.stamp.nanosec


def test_published_messages_equal_the_recording(node, tmp_path):
    """A flight with sensors and an estimator, bit for bit; states are published more often than they are recorded."""
    from samara.sim.ros2.bridge import Bridge

    bridge = Bridge(load_scenario("sensors", {"duration": 0.4}), node, out=tmp_path / "run.mcap")
    topics = {**STATES, **SENSORS, **OTHERS}
    listeners = {topic: node.create_subscription(topic, kind, depth=2000) for topic, kind in topics.items()}
    bridge.run(realtime=False)
    published = {topic: listener.take() for topic, listener in listeners.items()}
    bag = read_bag(write_ros2_bag(load_run(tmp_path / "run.mcap"), tmp_path / "bag.mcap"))
    for topic in SENSORS:
        assert repr(published[topic]) == repr(bag[topic]), topic
    for topic in STATES:
        recorded = {stamp(message): message for message in bag[topic]}
        pairs = [(message, recorded[stamp(message)]) for message in published[topic] if stamp(message) in recorded]
        assert len(published[topic]) == 101 and len(pairs) == 21  # 250 Hz, and every other one of the log's 100
        assert all(repr(message) == repr(expected) for message, expected in pairs), topic
    frames = {repr(frame) for message in bag["/tf"] for frame in message.transforms}
    published_frames = [repr(frame) for message in published["/tf"] for frame in message.transforms]
    assert len(published_frames) == 202 and len(frames.intersection(published_frames)) == 42
    assert repr(published["/tf_static"]) == repr(bag["/tf_static"])
    assert published["/clock"][-1].clock.nanosec == 400_000_000 and len(published["/clock"]) == 101
    assert repr(published["/drone/rotor_speed"][-1]) == repr(bag["/drone/rotor_speed"][-1])
    last_published, last_recorded = published["/drone/battery"][-1], bag["/drone/battery"][-1]
    assert (
        last_published.percentage == last_recorded.percentage
        and abs(last_published.voltage - last_recorded.voltage) < 0.01 * last_recorded.voltage
    )
    assert bridge.stage.publishers.dropped_count == 0


CAMERAS = """
name = "cameras"
duration = 0.2
[[drones]]
name = "drone"
vehicle = "crazyflie"
start = [0.0, 0.0, 1.5]
airborne = true
sensors = [
  { part = "ov9281", name = "eye", width = 24, height = 16, delay = 0.02, outputs = ["rgb", "depth", "optical_flow"] },
  { part = "d435", name = "stereo", width = 8, height = 6 },
]
[[obstacles]]
shape = "sphere"
centre = [3.0, 0.0, 1.5]
radius = 0.5
"""


def test_published_images_equal_the_recording(node, tmp_path):
    """A camera and a depth camera, with their calibration, bit for bit."""
    from samara.sim.ros2.bridge import Bridge

    bridge = Bridge(parse_scenario(CAMERAS, "cameras.toml"), node, out=tmp_path / "run.mcap")
    images = [*(f"/drone/eye/{name}" for name in ("rgb", "depth", "optical_flow")), "/drone/stereo/depth"]
    topics = dict.fromkeys(images, "sensor_msgs/Image") | {
        "/drone/eye/camera_info": "sensor_msgs/CameraInfo",
        "/drone/stereo/camera_info": "sensor_msgs/CameraInfo",
    }
    listeners = {topic: node.create_subscription(topic, kind, depth=100) for topic, kind in topics.items()}
    bridge.run(realtime=False)
    bag = read_bag(write_ros2_bag(load_run(tmp_path / "run.mcap"), tmp_path / "bag.mcap"))
    for topic, listener in listeners.items():
        published = listener.take()
        assert len(published) == len(bag[topic]) > 3, topic
        for message, expected in zip(published, bag[topic], strict=True):
            assert stamp(message) == stamp(expected)
            assert repr(message) == repr(expected)
            if topic in images:
                assert message.data.tobytes() == expected.data.tobytes()


AIRBORNE = {"drones.start": [0.0, 0.0, 1.4], "drones.airborne": True}


@pytest.mark.long
def test_landed_changes_once_per_flight(node):
    """`hover` takes off and lands: three messages of /drone/landed, at heights and times that match its motion

    At touchdown it bounces by 1 mm, then hops by 3 cm: without hysteresis that made nine messages.
    """
    landed = node.create_subscription("/drone/landed", "std_msgs/Bool", depth=100)
    truth = node.create_subscription("/drone/ground_truth", "nav_msgs/Odometry", depth=2000)
    changes = []

    def watch(bridge):
        advance = bridge.simulation.advance

        def advance_and_watch():
            is_flying = advance()
            changes.extend((message.data, bridge.simulation.time_us / 1e6) for message in landed.take())
            return is_flying

        bridge.simulation.advance = advance_and_watch

    fly_bridge(node, seconds=16.0, before=watch, rate=25.0)
    assert [value for value, _ in changes] == [True, False, True]
    (_, takeoff), (_, landing) = changes[1:]
    messages = truth.take()
    times = np.array([message.header.stamp.sec + 1e-9 * message.header.stamp.nanosec for message in messages])
    height = np.array([message.pose.pose.position.z for message in messages])
    height -= height[0]  # it stands at the start
    assert len(times) == 401 and height[(times > takeoff + 0.1) & (times < landing - 0.5)].min() > 0.05
    assert np.abs(height[(times < takeoff - 0.1) | (times > landing)]).max() < 0.05


def test_a_fall_is_published_as_a_crash(node):
    """All motors fail 1.4 m up: it hits the ground at about √(2 g h) = 5.2 m/s, has crashed, and has not landed"""

    def fail_all(bridge):
        for motor in range(4):
            publish(node, "/drone/fail_motor", "std_msgs/Int32", data=motor)

    statuses = {
        name: node.create_subscription(f"/drone/{name}", "std_msgs/Bool", depth=100) for name in ("landed", "crashed")
    }
    fly_bridge(node, seconds=0.8, before=fail_all, rate=25.0, settings=AIRBORNE)
    reports = {name: [message.data for message in listener.take()] for name, listener in statuses.items()}
    assert reports == {"landed": [False], "crashed": [False, True]}


def test_standing_is_published_as_landed(node):
    """A drone on its feet has landed, and has not crashed"""
    statuses = {
        name: node.create_subscription(f"/drone/{name}", "std_msgs/Bool", depth=100) for name in ("landed", "crashed")
    }
    fly_bridge(node, seconds=0.1)
    reports = {name: [message.data for message in listener.take()] for name, listener in statuses.items()}
    assert reports == {"landed": [True], "crashed": [False]}


def test_lockstep_waits_at_each_tick_of_the_clock(node, monkeypatch):
    """One command after each of the first three ticks of 50 Hz: the flight waits at the fourth, at 60 ms, and ends there"""
    from samara.sim.stages.ros2 import Ros2Stage

    tick, commands = Ros2Stage.publish_clock, node.create_publisher("/drone/command/pose", "geometry_msgs/PoseStamped")
    pose = cdr_layout("geometry_msgs/PoseStamped").pack(1, POSE)[0].tobytes()
    ticks = []

    def answer(stage, time_us):
        tick(stage, time_us)
        ticks.append(time_us)
        if time_us <= 40_000:
            commands.publish(pose)

    monkeypatch.setattr(Ros2Stage, "publish_clock", answer)
    bridge, _ = fly_bridge(node, seconds=1.0, lockstep=True, rate=50.0, lockstep_timeout=0.2)
    assert ticks == [0, 20_000, 40_000, 60_000] and bridge.commands.message_count == 3
    assert bridge.simulation.time_us == 60_000 and "no command on /drone/command" in bridge.simulation.end_reason


def test_wind_from_a_topic_blows_along_its_axes(node):
    """3 m/s to the north, 1 m/s down, in `map`: this is the wind around the drone, and it is blown north"""
    wind = {"y": 3.0, "z": -1.0}
    bridge, _ = fly_bridge(
        node,
        seconds=0.5,
        before=lambda _: publish(node, "/samara/wind", "geometry_msgs/Vector3", **wind),
        settings=AIRBORNE,
    )
    x, y, _ = bridge.simulation.fleet.p_W[:, 0]
    assert bridge.simulation.groups[0].environment.wind_W[:, 0].tolist() == [0.0, 3.0, -1.0]
    assert y > 3.0 * abs(x) and y > 5e-3, (x, y)


# Commands


def fly_bridge(node, name="hover", seconds=3.0, before=lambda bridge: None, settings=None, **options):
    """Fly a bridge to its end and return it with its messages; `before` is called with the new bridge."""
    from samara.sim.ros2.bridge import Bridge

    messages = []
    scenario = load_scenario(name, {"duration": seconds, **(settings or {})})
    bridge = Bridge(scenario, node, on_message=messages.append, **options)
    before(bridge)
    bridge.run(realtime=False)
    return bridge, messages


def publish(node, topic, kind, columns=None, **constants):
    """Publish one message from this process."""
    node.create_publisher(topic, kind).publish(cdr_layout(kind, **constants).pack(1, columns or {})[0].tobytes())


POSE = {"pose.position": [[0.5, -0.3, 1.2]], "pose.orientation": [[0.0, 0.0, np.sin(0.25), np.cos(0.25)]]}


def test_a_pose_is_followed_immediately(node):
    """From the present reference towards the pose."""
    bridge, _ = fly_bridge(
        node, seconds=0.2, before=lambda _: publish(node, "/drone/command/pose", "geometry_msgs/PoseStamped", POSE)
    )
    start_W = bridge.simulation.scenario.drones[0].task.evaluate(0.0).p_W
    path_W = np.array([0.5, -0.3, 1.2]) - np.array(start_W, dtype=float)
    shift_W = bridge.simulation.groups[0].reference[:3, 0] - np.array(start_W, dtype=float)
    assert np.allclose(shift_W, 2.0 * 0.2 * path_W / np.linalg.norm(path_W), atol=1e-9)


def test_a_pose_is_flown_to(node, tmp_path):
    """At rest there with its yaw; the recorded reference is the one that was followed, and the flight replays."""
    pose = "geometry_msgs/PoseStamped"
    bridge, messages = fly_bridge(
        node,
        seconds=4.0,
        before=lambda _: publish(node, "/drone/command/pose", pose, POSE, header={"frame_id": "map"}),
        rate=25.0,
        out=tmp_path / "run.mcap",
    )
    track = load_run(tmp_path / "run.mcap").drone_records[0]
    state, reference = track.tables["state"], track.tables["reference"]
    assert np.abs(state["p_W"][-1] - [0.5, -0.3, 1.2]).max() < 0.05
    assert np.abs(state["q_WB"][-1] - [np.cos(0.25), 0.0, 0.0, np.sin(0.25)]).max() < 0.02
    assert reference["p_W"][-1].tolist() == [0.5, -0.3, 1.2] and reference["yaw"][-1] == pytest.approx(0.5)
    assert any("follows external setpoints" in message for message in messages)
    assert bridge.commands.message_count == 1
    replayed = replay(load_run(tmp_path / "run.mcap")).drone_records[0].tables["state"]
    assert np.array_equal(replayed.rows, state.rows)


def test_a_trajectory_is_flown_along(node):
    """Passes its points at their times."""
    transforms = [{"translation": {"x": x, "y": 0.0, "z": 1.0}, "rotation": {"w": 1.0}} for x in (0.0, 1.0, 1.0)]
    points = [
        {"transforms": [transform], "velocities": [{}], "time_from_start": {"sec": sec}}
        for transform, sec in zip(transforms, (0, 3, 5), strict=True)
    ]
    kind = "trajectory_msgs/MultiDOFJointTrajectory"
    bridge, _ = fly_bridge(
        node,
        seconds=4.0,
        before=lambda _: publish(node, "/drone/command/trajectory", kind, joint_names=["base"], points=points),
        rate=25.0,
    )
    reference = bridge.simulation.groups[0].reference[:, 0]
    assert reference[:6].tolist() == [1.0, 0.0, 1.0, 0.0, 0.0, 0.0]
    assert np.abs(bridge.simulation.fleet.p_W[:, 0] - reference[:3]).max() < 0.2


def test_motor_commands_are_executed_and_time_out(node):
    """All motors off for half a second: it stays on the ground; after the timeout the controller takes over."""
    motors = {"data": [[0.0] * 4]}
    bridge, messages = fly_bridge(
        node,
        seconds=1.0,
        rate=25.0,
        before=lambda _: publish(node, "/drone/command/motors", "std_msgs/Float64MultiArray", motors, data=[0.0] * 4),
    )
    assert any("no motor command for 0.5 s" in message for message in messages)
    assert bridge.simulation.groups[0].plant.command.any() and not bridge.simulation.crashed.any()


@pytest.mark.parametrize(
    ("command", "kind", "columns", "constants", "reason"),
    [
        ("pose", "geometry_msgs/PoseStamped", POSE, {"header": {"frame_id": "moon"}}, "frame 'moon'; expected 'map'"),
        ("pose", "geometry_msgs/PoseStamped", {}, {}, "expected a quaternion of length 1"),
        (
            "twist",
            "geometry_msgs/TwistStamped",
            {"twist.linear": [[np.nan, 0, 0]]},
            {},
            "expected numbers within ±1000",
        ),
        ("motors", "std_msgs/Float64MultiArray", {}, {"data": [1.0]}, "1 numbers; expected 4, one for each motor"),
        ("motors", "std_msgs/Float64MultiArray", {}, {"data": [np.inf] * 4}, "expected finite numbers"),
        ("trajectory", "trajectory_msgs/MultiDOFJointTrajectory", {}, {}, "expected points that have one transform"),
    ],
)
def test_an_invalid_command_is_rejected_in_one_sentence(node, command, kind, columns, constants, reason):
    """And the drone continues its task."""
    bridge, messages = fly_bridge(
        node, seconds=0.1, before=lambda _: publish(node, f"/drone/command/{command}", kind, columns, **constants)
    )
    assert [message for message in messages if f"/drone/command/{command} is rejected" in message and reason in message]
    assert bridge.commands.rejected_count == 1 and not bridge.simulation.crashed.any()


def test_pause_reset_wind_and_motors_that_fail(node):
    """As simple topics; an invalid request is one sentence."""

    def publish_requests(bridge):
        publish(node, "/samara/wind", "geometry_msgs/Vector3", x=3.0)
        publish(node, "/samara/reset", "std_msgs/Empty")
        publish(node, "/drone/fail_motor", "std_msgs/Int32", data=9)
        publish(node, "/drone/restore_motor", "std_msgs/Int32", data=1)
        publish(node, "/samara/pause", "std_msgs/Bool", data=False)

    bridge, messages = fly_bridge(node, seconds=0.1, before=publish_requests)
    text = "\n".join(messages)
    assert "restarted" in text and "wind (3, 0, 0) m/s" in text and "restore motor 1" in text
    assert "refused: fail motor 9: drone has no motor 9; expected one of 0 to 3" in text
    assert bridge.controls.message_count == 5


def test_topics_and_setpoints_survive_a_motor_failure(node):
    """From then on the drone is in another group: its topics and its setpoint stay."""
    clock = node.create_subscription("/clock", "rosgraph_msgs/Clock", depth=100)
    odometry = node.create_subscription("/drone/odom", "nav_msgs/Odometry", depth=100)

    def publish_requests(bridge):
        publish(node, "/drone/command/pose", "geometry_msgs/PoseStamped", POSE)
        publish(node, "/drone/fail_motor", "std_msgs/Int32", data=2)

    bridge, messages = fly_bridge(node, seconds=0.2, before=publish_requests)
    assert any("fail motor 2" in message for message in messages)
    assert len(clock.take()) == len(odometry.take()) == 51
    assert bridge.simulation.groups[0].environment.motor_effectiveness[:, 0].tolist() == [1.0, 1.0, 0.0, 1.0]
    assert bridge.simulation.groups[0].reference[3:6, 0].any()  # it still approaches the pose


def test_a_velocity_along_the_heading(node):
    """In base_link, 90° to the left of the map's axes: forward is north; the tilt of the body is ignored."""
    from samara.sim.ros2.setpoint_topics import MessageConverter

    fleet = SimpleNamespace(locate=lambda index: (SimpleNamespace(estimate=estimate), 0))
    yaw, tilt = quat_from_euler(0.0, 0.0, np.pi / 2), quat_from_euler(0.2, 0.3, 0.0)
    estimate = np.array([[0.0]] * 6 + [[x] for x in yaw * tilt])
    data = cdr_layout("geometry_msgs/TwistStamped", header={"frame_id": "drone/base_link"}).pack(
        1, {"twist.linear": [[1.0, 0.0, 0.5]], "twist.angular": [[0.0, 0.0, 0.3]]}
    )
    setpoint = MessageConverter("drone", 0, 4, 2.0).twist(
        parse_message("geometry_msgs/TwistStamped", data[0].tobytes()), fleet
    )
    assert np.hypot(*setpoint.v_W[:2]) == pytest.approx(1.0) and setpoint.v_W[2] == 0.5 and setpoint.yaw_rate == 0.3
    assert setpoint.v_W[1] > 0.95


def test_pause_stops_the_clock(node):
    """Until it is resumed."""
    import threading

    def resume():
        publish(node, "/samara/pause", "std_msgs/Bool", data=False)

    def publish_pause(bridge):
        publish(node, "/samara/pause", "std_msgs/Bool", data=True)
        threading.Timer(0.3, resume).start()

    _, messages = fly_bridge(node, seconds=0.1, before=publish_pause)
    assert messages[:2] == ["paused", "resumed"]


def test_rates_and_names(node):
    """Rates and names that are not possible are errors in one sentence."""
    from samara.sim.ros2.bridge import require_names, ticks_per_message

    assert ticks_per_message(0.0, 4000) == 1 and ticks_per_message(50.0, 4000) == 5
    with pytest.raises(ValueError, match="rate 100 Hz; expected the autopilot's 250 Hz, or a whole fraction"):
        ticks_per_message(100.0, 4000)
    with pytest.raises(ValueError, match=r"'a\.b' has the name of 'a_b' in ROS 2"):
        require_names(["a_b", "a.b"])
