"""A ROS 2 node, and another process that is a plain DDS participant with independent types."""

import json
import os
import re
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
from support.children import child
from support.command import call
from support.repository import skip_or_fail
from support.ros2_peer import peer, require_cyclonedds

from samara.core.extras import MissingExtraError, install_hint
from samara.link.ros2 import dds
from samara.link.ros2.dds import wildcard_sockets
from samara.record.load import load_run
from samara.record.ros2.messages import cdr_layout

DOMAIN = 20 + os.getpid() % 75  # separate domains for tests in several processes
PEER = """
import time
imus, answers = reader("rt/drone/imu", Imu), writer("rt/drone/heard", Text)
while True:
    for message in imus.take(10):
        head, first = message.header, message.orientation_covariance[0]
        answers.write(Text(f"{head.stamp.sec} {head.frame_id} {message.angular_velocity.z!r} {first}"))
    time.sleep(0.005)
"""

GRAPH = """
import json, time
from cyclonedds.builtin import BuiltinDataReader, BuiltinTopicDcpsParticipant as Participants
from cyclonedds.builtin import BuiltinTopicDcpsPublication as Publications, BuiltinTopicDcpsSubscription as Subscriptions

def user_data(sample):
    return sample.qos[Policy.Userdata].data.decode() if Policy.Userdata in sample.qos else ""

builtin = [BuiltinDataReader(PARTICIPANT, topic) for topic in (Participants, Publications, Subscriptions)]
graph, infos, until = reader("ros_discovery_info", ParticipantEntitiesInfo, LATCHED), [], time.monotonic() + 60.0
participants, publications, subscriptions = samples = {}, {}, {}
writers = readers = ()
while not (writers and readers and publications.keys() >= {*writers} and subscriptions.keys() >= {*readers}):
    time.sleep(0.01 if time.monotonic() < until else "too late")
    for found, source in zip(samples, builtin):
        found |= {sample.key.hex: sample for sample in source.take(100) if hasattr(sample, "qos")}
    infos += graph.take(10)
    if infos:
        (node,) = infos[-1].node_entities_info_seq
        writers, readers = ([bytes(gid.data).hex() for gid in gids] for gids in (node.writer_gid_seq, node.reader_gid_seq))
print(json.dumps({
    "gid": bytes(infos[-1].gid.data).hex(), "node": node.node_namespace + node.node_name,
    "participants": {key: user_data(sample) for key, sample in participants.items()}, "writers": writers, "readers": readers,
    "endpoints": [{key: [sample.topic_name, sample.type_name, user_data(sample), sample.participant_key.hex]
                   for key, sample in endpoints.items()} for endpoints in (publications, subscriptions)],
}))
"""


@pytest.fixture
def wire():
    """Skip the test without Cyclone DDS."""
    require_cyclonedds()


def test_another_process_receives_and_answers(wire):
    """It repeats the received message as text, with types that it declared itself."""
    from samara.link.ros2.node import Ros2Node

    layout = cdr_layout("sensor_msgs/Imu", header={"frame_id": "drone/imu"}, orientation_covariance=[-1.0] + [0.0] * 8)
    columns = {"header.stamp.sec": [7], "angular_velocity": np.array([[0.0, 0.0, 0.1]])}
    data = layout.pack(1, columns)[0].tobytes()
    with peer(PEER, DOMAIN), Ros2Node(DOMAIN) as node:
        imu = node.create_publisher("/drone/imu", "sensor_msgs/Imu")
        answers = node.create_subscription("/drone/heard", "std_msgs/String")
        replies, deadline = [], time.monotonic() + 60.0
        while not replies and time.monotonic() < deadline:
            imu.publish(data)
            replies = answers.take()
            time.sleep(0.02)
        assert replies and replies[0].data == "7 drone/imu 0.1 -1.0"
        assert imu.subscription_count == 1 and imu.dropped == 0


def test_ros2_graph_as_another_participant_discovers_it(wire):
    """Node, endpoints and type hashes: identifiers in `ros_discovery_info` are those of DDS discovery.

    The hashes are the ones ROS 2 Jazzy publishes for these types (docs.ros.org, zenoh-plugin-ros2dds).
    """
    from samara.link.ros2.node import Ros2Node

    with Ros2Node(DOMAIN + 6, name="sim") as node, peer(GRAPH, DOMAIN + 6, stdout=subprocess.PIPE) as process:
        publisher, subscription = (
            node.create_publisher("/drone/text", "std_msgs/String"),
            node.create_subscription("/clock", "rosgraph_msgs/Clock"),
        )
        node.announce()
        graph_report = json.loads(process.communicate(timeout=90)[0])
        assert [publisher.gid.hex(), subscription.gid.hex()] == graph_report["writers"] + graph_report["readers"]
    publications, subscriptions = graph_report["endpoints"]
    (writer,), (reader,) = graph_report["writers"], graph_report["readers"]
    assert graph_report["node"] == "/sim" and graph_report["participants"][graph_report["gid"]] == "enclave=/;"
    text = "typehash=RIHS01_df668c740482bbd48fb39d76a70dfd4bd59db1288021743503259e948f6b1a18;"
    clock = "typehash=RIHS01_692f7a66e93a3c83e71765d033b60349ba68023a8c689a79e48078bcb5c58564;"
    graph = "typehash=RIHS01_91a0593bacdcc50ea9bdcf849a938b128412cc1ea821245c663bcd26f83c295e;"
    assert publications[writer] == ["rt/drone/text", "std_msgs::msg::dds_::String_", text, graph_report["gid"]]
    assert subscriptions[reader] == ["rt/clock", "rosgraph_msgs::msg::dds_::Clock_", clock, graph_report["gid"]]
    info = "ros_discovery_info", "rmw_dds_common::msg::dds_::ParticipantEntitiesInfo_", graph, graph_report["gid"]
    assert list(info) in publications.values()


def test_node_names(wire):
    """A name that ROS 2 rejects is one sentence; without a name there is no entry in the graph."""
    from samara.link.ros2.node import Ros2Node

    for name in ("7up", "a/b", "a b", "x" * 256):
        with pytest.raises(ValueError, match="expected letters, digits and '_'"):
            Ros2Node(DOMAIN + 7, name=name)
    with Ros2Node(DOMAIN + 7, name="") as node:
        node.announce()
        assert node.create_subscription("/a", "std_msgs/String").publisher_count == 0


def test_names_on_the_wire():
    """As in ROS 2."""
    assert dds.dds_topic_name("/drone/imu") == "rt/drone/imu"
    assert dds.dds_type("sensor_msgs/Imu") == "sensor_msgs::msg::dds_::Imu_"


def test_loopback_unless_an_interface_is_given():
    """An invalid interface or domain is one sentence."""
    assert "127.0.0.1" in dds.configuration() and "<AllowMulticast>false" in dds.configuration()
    assert 'name="eth0"' in dds.configuration("eth0")
    with pytest.raises(ValueError, match="expected the name of a network interface"):
        dds.configuration('x"/><Evil')
    with pytest.raises(ValueError, match="expected a number from 0 to 232"):
        dds.require_domain(233)


def test_without_cyclone_dds(monkeypatch):
    """One sentence with the line that installs it"""
    monkeypatch.setitem(sys.modules, "cyclonedds.domain", None)
    with pytest.raises(MissingExtraError, match=re.escape(install_hint("ros2"))):
        dds.cyclonedds("domain")


def test_malformed_messages(wire):
    """They are counted, and valid messages between them are received."""
    from samara.link.ros2.node import Ros2Node

    valid = cdr_layout("std_msgs/String", data="here").pack(1, {})[0].tobytes()
    malformed = (
        b"",
        b"\x00\x01\x00\x00",
        b"\x00\x01\x00\x00\xff\xff\xff\x7fabcd",
        b"\x00\x01\x00\x00\x02\x00\x00\x00\xff\x00",
    )
    with Ros2Node(DOMAIN + 4) as node:
        subscription, publisher = (
            node.create_subscription("/a", "std_msgs/String"),
            node.create_publisher("/a", "std_msgs/String"),
        )
        for data in (*malformed, valid):
            publisher.publish(data)
        messages = subscription.take()
        assert [message.data for message in messages] == ["here"]
        assert subscription.malformed + publisher.dropped == len(malformed)


GARBAGE = """
import sys
from samara.link.ros2.node import Ros2Node
with Ros2Node(int(sys.argv[1])):
    print("ready", flush=True)
    sys.stdin.readline()
"""


def test_malformed_packets_leave_stderr_empty(wire):
    """Cyclone DDS logs a line of 300 bytes for each, at any verbosity of its configuration."""
    domain = DOMAIN + 7
    arguments = [sys.executable, "-c", GARBAGE, str(domain)]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with child(arguments, **pipes) as process, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        assert process.stdout.readline() == b"ready\n"
        for submessage in (0x01, 0x06, 0x07, 0x09, 0x15) * 40:  # submessages that are longer than the packet
            packet = b"RTPS\x02\x01\x01\x10" + bytes(12) + bytes([submessage, 1]) + b"\x10\x00abcd"
            sender.sendto(packet, ("127.0.0.1", 7400 + 250 * domain + 10))
        assert process.communicate(b"\n", timeout=60.0)[1] == b""


def test_command_line(wire, monkeypatch, capsys, tmp_path):
    """Fly, report the network and the message counts; an invalid option is one sentence."""
    status, output, _ = call(monkeypatch, capsys, "ros2", "hover", "--domain", "233")
    assert status == 2 and not output
    status, _, output = call(
        monkeypatch, capsys, "ros2", "hover", "--interface", "nosuch0", "--domain", str(DOMAIN + 3)
    )
    assert status == 2 and "ROS 2 on interface 'nosuch0'" in output
    arguments = "ros2", "hover", "--no-realtime", "--duration", "0.1", "--domain", str(DOMAIN + 2)
    status, _, output = call(monkeypatch, capsys, *arguments, "--rate", "100")
    assert status == 2 and "expected the autopilot's 250 Hz, or a whole fraction" in output
    path = tmp_path / "run.mcap"
    status, output, _ = call(monkeypatch, capsys, *arguments, "--rate", "50", "--out", str(path))
    assert (
        status == 0
        and f"domain {DOMAIN + 2}, this computer only (set ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST" in output
    )
    assert "hover: 0.10 s, landed" in output and "messages published, 0 received" in output
    assert load_run(path).drone_records[0].time[-1] == 0.1


def test_its_sockets_receive_from_loopback_only(wire):
    """Sockets bound to all addresses are also bound to the loopback device."""
    from samara.link.ros2.node import Ros2Node

    if sys.platform != "linux":
        skip_or_fail("SO_BINDTODEVICE is Linux's")
    sockets_before = wildcard_sockets()
    with Ros2Node(DOMAIN + 5) as node:
        node_sockets = wildcard_sockets() - sockets_before
        assert node.is_confined and node_sockets
        for descriptor in node_sockets:
            with socket.socket(fileno=os.dup(descriptor)) as sock:
                assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16) == b"lo\0"
    assert wildcard_sockets() == sockets_before
