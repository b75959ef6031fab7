"""Another process controls the drone, as a plain DDS participant with separate types; others are silent, wrong or flooding."""

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
FLY = """
ticks, commands = reader("rt/clock", Clock), writer("rt/drone/command/twist", TwistStamped)
while True:
    for tick in ticks.take(10):
        commands.write(twist(tick.clock))
    time.sleep(0.0002)
"""
FLOOD = """
commands, message = writer("rt/drone/command/twist", TwistStamped), twist(Time(0, 0))
while True:
    commands.write(message)
"""
WRONG = """
commands = writer("rt/drone/command/pose", TwistStamped)
while True:
    commands.write(twist(Time(0, 0)))
    time.sleep(0.01)
"""


@pytest.fixture
def node():
    """A node on loopback; requires Cyclone DDS."""
    require_cyclonedds()
    from samara.link.ros2.node import Ros2Node

    with Ros2Node(DOMAIN) as ros_node:
        yield ros_node


def create_bridge(node, seconds, **options):
    """Return a bridge, and the list of its messages."""
    from samara.sim.ros2.bridge import Bridge

    messages = []
    return Bridge(load_scenario("hover", {"duration": seconds}), node, on_message=messages.append, **options), messages


def test_lockstep_with_another_process(node):
    """One velocity per tick, and no extra waiting: the reference is v t, to the last digit of a sum."""
    bridge, _ = create_bridge(node, 1.0, lockstep=True, rate=50.0, lockstep_timeout=60.0)
    start_W = np.array(bridge.simulation.scenario.drones[0].task.evaluate(0.0).p_W, dtype=float)
    with peer(TWIST + FLY, DOMAIN):
        assert bridge.run(realtime=False) == "in the air"
    assert bridge.commands.message_count >= 51 and not bridge.simulation.end_reason
    reference = bridge.simulation.groups[0].reference[:, 0]
    assert np.allclose(reference[:3], start_W + np.array([0.4, 0.0, 0.1]), atol=1e-9)
    assert np.allclose(reference[3:6], [0.4, 0.0, 0.1])


def test_lockstep_without_a_publisher(node):
    """The flight ends with a sentence that explains it."""
    bridge, messages = create_bridge(node, 1.0, lockstep=True, lockstep_timeout=0.2)
    bridge.run(realtime=False)
    assert "there are no publishers; in lockstep each tick of /clock needs one" in bridge.simulation.end_reason
    assert any("there are no publishers" in message for message in messages)


def test_lockstep_with_a_silent_publisher(node):
    """A silent publisher is distinguished from none."""
    bridge, _ = create_bridge(node, 1.0, lockstep=True, lockstep_timeout=0.2)
    silent = node.create_publisher("/drone/command/pose", "geometry_msgs/PoseStamped")
    bridge.run(realtime=False)
    assert silent.published == 0 and "a publisher exists but sends nothing" in bridge.simulation.end_reason


def test_a_flood(node):
    """Of tens of thousands of messages per second, the newest of each tick is followed, and the flight continues."""
    bridge, _ = create_bridge(node, 1.5)
    with peer(TWIST + FLOOD, DOMAIN):
        bridge.run(realtime=True)
    ticks = 1 + round(1.5 * 250)
    assert 0 < bridge.commands.message_count <= ticks and bridge.commands.malformed_count == 0
    assert not bridge.simulation.crashed.any() and not bridge.simulation.end_reason


def test_another_type_under_the_same_name(node):
    """A publisher of another type is never received, and is reported."""
    bridge, messages = create_bridge(node, 60.0)
    with peer(TWIST + WRONG, DOMAIN):
        simulation, warnings = bridge.simulation, []
        while not warnings and simulation.time_us < 60_000_000:
            simulation.advance()
            warnings = node.type_mismatches()
        simulation.close()
    assert warnings == [
        "someone publishes /drone/command/pose as 'geometry_msgs::msg::dds_::TwistStamped_'; "
        "expected geometry_msgs::msg::dds_::PoseStamped_"
    ]
    assert bridge.commands.message_count == bridge.commands.malformed_count == 0 and not messages


def test_invalid_datagrams_are_ignored(node):
    """Invalid datagrams to the ports of DDS are ignored, and the flight continues."""
    bridge, messages = create_bridge(node, 0.4)
    rng, first_port = np.random.default_rng(0), 7400 + 250 * DOMAIN
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        while bridge.simulation.advance():
            head = rng.choice([b"", b"RTPS\x02\x01\x01\x10", b"RTPS\x02\x05" + bytes(14) + b"\x15\x05"])
            for port in range(first_port + 10, first_port + 14):
                sender.sendto(head + rng.bytes(int(rng.integers(300))), ("127.0.0.1", port))
    assert bridge.commands.message_count == bridge.commands.malformed_count == bridge.controls.message_count == 0
    assert not bridge.simulation.crashed.any() and not bridge.simulation.end_reason
    assert messages == []
