"""Another process flies the drone, a plain participant of DDS with types of its own; others are silent, wrong or too many."""

import os
import socket
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from support.children import child
from support.repository import do_without

from samara.link.ros2 import dds
from samara.scenario.scenario_file import load_scenario

DOMAIN = 20 + (os.getpid() + 37) % 75
TYPES = """
import sys, time
from dataclasses import dataclass
from cyclonedds.domain import Domain, DomainParticipant
from cyclonedds.idl import IdlStruct
from cyclonedds.idl.types import float64, int32, uint32
from cyclonedds.pub import DataWriter
from cyclonedds.qos import Policy, Qos
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic

@dataclass
class Time(IdlStruct, typename="builtin_interfaces::msg::dds_::Time_"):
    sec: int32
    nanosec: uint32

@dataclass
class Clock(IdlStruct, typename="rosgraph_msgs::msg::dds_::Clock_"):
    clock: Time

@dataclass
class Header(IdlStruct, typename="std_msgs::msg::dds_::Header_"):
    stamp: Time
    frame_id: str

@dataclass
class Vector3(IdlStruct, typename="geometry_msgs::msg::dds_::Vector3_"):
    x: float64
    y: float64
    z: float64

@dataclass
class Twist(IdlStruct, typename="geometry_msgs::msg::dds_::Twist_"):
    linear: Vector3
    angular: Vector3

@dataclass
class TwistStamped(IdlStruct, typename="geometry_msgs::msg::dds_::TwistStamped_"):
    header: Header
    twist: Twist

domain = Domain(int(sys.argv[1]), sys.argv[2])
participant = DomainParticipant(int(sys.argv[1]))
quality = Qos(Policy.Reliability.Reliable(10**9), Policy.History.KeepLast(10))

def twist(clock):
    return TwistStamped(Header(clock, "map"), Twist(Vector3(0.4, 0.0, 0.1), Vector3(0.0, 0.0, 0.0)))
"""
FLIES = """
reader = DataReader(participant, Topic(participant, "rt/clock", Clock, qos=quality), qos=quality)
writer = DataWriter(participant, Topic(participant, "rt/drone/command/twist", TwistStamped, qos=quality), qos=quality)
while True:
    for own in reader.take(10):
        writer.write(twist(own.clock))
    time.sleep(0.0002)
"""
FLOODS = """
writer = DataWriter(participant, Topic(participant, "rt/drone/command/twist", TwistStamped, qos=quality), qos=quality)
message = twist(Time(0, 0))
while True:
    writer.write(message)
"""
WRONG = """
writer = DataWriter(participant, Topic(participant, "rt/drone/command/pose", TwistStamped, qos=quality), qos=quality)
while True:
    writer.write(twist(Time(0, 0)))
    time.sleep(0.01)
"""


@pytest.fixture
def node():
    """A node on loopback, where Cyclone DDS is installed"""
    if find_spec("cyclonedds") is None:
        do_without("Cyclone DDS is not installed")
    from samara.link.ros2.node import Node

    with Node(DOMAIN) as own:
        yield own


def peer(program):
    """Another process that runs it"""
    return child([sys.executable, "-c", TYPES + program, str(DOMAIN), dds.configuration()])


def bridge_of(node, seconds, **options):
    """A bridge, and the list of what it tells"""
    from samara.sim.ros2.bridge import Bridge

    told = []
    return Bridge(load_scenario("hover", {"duration": seconds}), node, tell=told.append, **options), told


def test_lockstep_with_another_process(node):
    """One velocity for each tick, and no more time than it takes: what was asked is v t, to the last digit of a sum"""
    bridge, _ = bridge_of(node, 1.0, lockstep=True, rate=50.0, patience=60.0)
    begin = np.array(bridge.simulation.scenario.drones[0].task.at(0.0).p_W, dtype=float)
    with peer(FLIES):
        assert bridge.run(realtime=False) == "in the air"
    assert bridge.commands.heard >= 51 and not bridge.simulation.ended
    asked = bridge.simulation.groups[0].reference[:, 0]
    assert np.allclose(asked[:3], begin + np.array([0.4, 0.0, 0.1]), atol=1e-9)
    assert np.allclose(asked[3:6], [0.4, 0.0, 0.1])


def test_lockstep_without_anybody(node):
    """Ends in a sentence that says so"""
    bridge, told = bridge_of(node, 1.0, lockstep=True, patience=0.2)
    bridge.run(realtime=False)
    assert "nobody publishes; in lockstep each tick of /clock needs one" in bridge.simulation.ended
    assert any("nobody publishes" in own for own in told)


def test_lockstep_with_somebody_who_is_silent(node):
    """Is told from nobody"""
    bridge, _ = bridge_of(node, 1.0, lockstep=True, patience=0.2)
    silent = node.speaker("/drone/command/pose", "geometry_msgs/PoseStamped")
    bridge.run(realtime=False)
    assert silent.said == 0 and "somebody publishes there, and says nothing" in bridge.simulation.ended


def test_a_flood(node):
    """Of tens of thousands of messages a second the newest is followed, one a tick at most, and the flight goes on"""
    bridge, _ = bridge_of(node, 1.5)
    with peer(FLOODS):
        bridge.run(realtime=True)
    ticks = 1 + round(1.5 * 250)
    assert 0 < bridge.commands.heard <= ticks and bridge.commands.malformed == 0
    assert not bridge.simulation.crashed.any() and not bridge.simulation.ended


def test_another_type_under_the_same_name(node):
    """Never arrives, and is told of"""
    bridge, told = bridge_of(node, 60.0)
    with peer(WRONG):
        simulation, end = bridge.simulation, []
        while not end and simulation.time_us < 60_000_000:
            simulation.advance()
            end = node.strangers()
        simulation.close()
    assert end == [
        "someone publishes /drone/command/pose as 'geometry_msgs::msg::dds_::TwistStamped_'; "
        "expected geometry_msgs::msg::dds_::PoseStamped_"
    ]
    assert bridge.commands.heard == bridge.commands.malformed == 0 and not told


def test_datagrams_that_make_no_sense(node):
    """To the ports of DDS: nothing is heard of them, and the flight goes on"""
    bridge, told = bridge_of(node, 0.4)
    random, first = np.random.default_rng(0), 7400 + 250 * DOMAIN
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        while bridge.simulation.advance():
            head = random.choice([b"", b"RTPS\x02\x01\x01\x10", b"RTPS\x02\x05" + bytes(14) + b"\x15\x05"])
            for port in range(first + 10, first + 14):
                stranger.sendto(head + random.bytes(int(random.integers(300))), ("127.0.0.1", port))
    assert bridge.commands.heard == bridge.commands.malformed == bridge.controls.heard == 0
    assert not bridge.simulation.crashed.any() and not bridge.simulation.ended
    assert told == []
