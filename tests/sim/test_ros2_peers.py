"""Another process flies the drone, a plain participant of DDS with types of its own; others are silent, wrong or too many."""

import os
import socket

import numpy as np
import pytest
from support.ros2_peer import peer, require_cyclonedds

from samara.scenario.file import load_scenario

DOMAIN = 20 + (os.getpid() + 37) % 75
TWIST = """
import time

def twist(clock):
    return TwistStamped(Header(clock, "map"), Twist(Vector3(0.4, 0.0, 0.1), Vector3(0.0, 0.0, 0.0)))

"""
FLIES = """
ticks, asked = reader("rt/clock", Clock), writer("rt/drone/command/twist", TwistStamped)
while True:
    for own in ticks.take(10):
        asked.write(twist(own.clock))
    time.sleep(0.0002)
"""
FLOODS = """
asked, message = writer("rt/drone/command/twist", TwistStamped), twist(Time(0, 0))
while True:
    asked.write(message)
"""
WRONG = """
asked = writer("rt/drone/command/pose", TwistStamped)
while True:
    asked.write(twist(Time(0, 0)))
    time.sleep(0.01)
"""


@pytest.fixture
def node():
    """A node on loopback, where Cyclone DDS is installed"""
    require_cyclonedds()
    from samara.link.ros2.node import Node

    with Node(DOMAIN) as own:
        yield own


def bridge_of(node, seconds, **options):
    """A bridge, and the list of what it tells"""
    from samara.sim.ros2.bridge import Bridge

    told = []
    return Bridge(load_scenario("hover", {"duration": seconds}), node, tell=told.append, **options), told


def test_lockstep_with_another_process(node):
    """One velocity for each tick, and no more time than it takes: what was asked is v t, to the last digit of a sum"""
    bridge, _ = bridge_of(node, 1.0, lockstep=True, rate=50.0, patience=60.0)
    begin = np.array(bridge.simulation.scenario.drones[0].task.at(0.0).p_W, dtype=float)
    with peer(TWIST + FLIES, DOMAIN):
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
    with peer(TWIST + FLOODS, DOMAIN):
        bridge.run(realtime=True)
    ticks = 1 + round(1.5 * 250)
    assert 0 < bridge.commands.heard <= ticks and bridge.commands.malformed == 0
    assert not bridge.simulation.crashed.any() and not bridge.simulation.ended


def test_another_type_under_the_same_name(node):
    """Never arrives, and is told of"""
    bridge, told = bridge_of(node, 60.0)
    with peer(TWIST + WRONG, DOMAIN):
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
