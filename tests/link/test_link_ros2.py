"""A node on the wire, and another process that is a plain participant of DDS with types of its own."""

import os
import socket
import sys
import time

import numpy as np
import pytest
from support.command import call
from support.repository import do_without
from support.ros2_peer import peer, require_cyclonedds

from samara.core.extras import MissingExtraError
from samara.link.ros2 import dds
from samara.link.ros2.loopback import open_to_all
from samara.record.load import load_run
from samara.record.ros2.cdr import layout_of

DOMAIN = 20 + os.getpid() % 75  # tests of several processes do not hear each other
PEER = """
import time
heard, answers = reader("rt/drone/imu", Imu), writer("rt/drone/heard", Text)
while True:
    for own in heard.take(10):
        head, first = own.header, own.orientation_covariance[0]
        answers.write(Text(f"{head.stamp.sec} {head.frame_id} {own.angular_velocity.z!r} {first}"))
    time.sleep(0.005)
"""


@pytest.fixture
def wire():
    """Cyclone DDS, or the test does without"""
    require_cyclonedds()


def test_another_process_hears_and_answers(wire):
    """It repeats in words what it heard, in types that it declared itself"""
    from samara.link.ros2.node import Node

    layout = layout_of("sensor_msgs/Imu", header={"frame_id": "drone/imu"}, orientation_covariance=[-1.0] + [0.0] * 8)
    columns = {"header.stamp.sec": [7], "angular_velocity": np.array([[0.0, 0.0, 0.1]])}
    data = layout.packed(1, columns)[0].tobytes()
    with peer(PEER, DOMAIN), Node(DOMAIN) as node:
        imu = node.speaker("/drone/imu", "sensor_msgs/Imu")
        answers = node.listener("/drone/heard", "std_msgs/String")
        said, until = [], time.monotonic() + 60.0
        while not said and time.monotonic() < until:
            imu.say(data)
            said = answers.heard()
            time.sleep(0.02)
        assert said and said[0].data == "7 drone/imu 0.1 -1.0"
        assert imu.heard_by == 1 and imu.dropped == 0


def test_names_on_the_wire():
    """As ROS 2 has them"""
    assert dds.wire_topic("/drone/imu") == "rt/drone/imu"
    assert dds.wire_type("sensor_msgs/Imu") == "sensor_msgs::msg::dds_::Imu_"


def test_loopback_unless_asked():
    """And what is no interface or domain is one sentence"""
    assert "127.0.0.1" in dds.configuration() and "<AllowMulticast>false" in dds.configuration()
    assert 'name="eth0"' in dds.configuration("eth0")
    with pytest.raises(ValueError, match="expected the name of a network interface"):
        dds.configuration('x"/><Evil')
    with pytest.raises(ValueError, match="expected a number from 0 to 232"):
        dds.require_domain(233)


def test_without_cyclone_dds(monkeypatch):
    """One sentence with the line that installs it"""
    monkeypatch.setitem(sys.modules, "cyclonedds.domain", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'samara\[ros2\]'"):
        dds.cyclonedds("domain")


def test_bytes_that_make_no_sense(wire):
    """Are counted, and what comes between them is heard"""
    from samara.link.ros2.node import Node

    good = layout_of("std_msgs/String", data="here").packed(1, {})[0].tobytes()
    bad = (
        b"",
        b"\x00\x01\x00\x00",
        b"\x00\x01\x00\x00\xff\xff\xff\x7fabcd",
        b"\x00\x01\x00\x00\x02\x00\x00\x00\xff\x00",
    )
    with Node(DOMAIN + 4) as node:
        listener, speaker = node.listener("/a", "std_msgs/String"), node.speaker("/a", "std_msgs/String")
        for data in (*bad, good):
            speaker.say(data)
        heard = listener.heard()
        assert [own.data for own in heard] == ["here"]
        assert listener.malformed + speaker.dropped == len(bad)


def test_command_line(wire, monkeypatch, capsys, tmp_path):
    """Flies, says where and what it said; what cannot be is one sentence"""
    status, said, _ = call(monkeypatch, capsys, "ros2", "hover", "--domain", "233")
    assert status == 2 and not said
    status, _, said = call(monkeypatch, capsys, "ros2", "hover", "--interface", "nosuch0", "--domain", str(DOMAIN + 3))
    assert status == 2 and "ROS 2 on interface 'nosuch0'" in said
    words = "ros2", "hover", "--fast", "--duration", "0.1", "--domain", str(DOMAIN + 2)
    status, _, said = call(monkeypatch, capsys, *words, "--rate", "100")
    assert status == 2 and "expected the autopilot's 250 Hz, or a whole fraction" in said
    run = tmp_path / "run.mcap"
    status, said, _ = call(monkeypatch, capsys, *words, "--rate", "50", "--out", str(run))
    assert status == 0 and f"domain {DOMAIN + 2}, this computer alone" in said
    assert "hover: 0.10 s, landed" in said and "messages said, 0 heard" in said
    assert load_run(run).tracks[0].time[-1] == 0.1


def test_its_sockets_hear_loopback_alone(wire):
    """Those that are bound to every address are bound to the loopback device too"""
    from samara.link.ros2.node import Node

    if sys.platform != "linux":
        do_without("SO_BINDTODEVICE is Linux's")
    before = open_to_all()
    with Node(DOMAIN + 5) as node:
        own = open_to_all() - before
        assert node.is_confined and own
        for number in own:
            with socket.socket(fileno=os.dup(number)) as each:
                assert each.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16) == b"lo\0"
    assert open_to_all() == before
