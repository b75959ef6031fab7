"""CRTP over UDP: one client at a time, scans are answered, garbage and floods change nothing, and flights with cflib."""

import importlib.util
import math
import mmap
import os
import random
import re
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from support.autopilot_peers import one_at_a_time  # noqa: F401 - a fixture
from support.children import child
from support.repository import REPOSITORY

import samara
from samara.core.algebra import IDENTITY, ZERO, Vec3
from samara.link.crazyflie.crtp import Packet
from samara.link.crazyflie.crtp_server import CrtpServer
from samara.link.crazyflie.udp_link import MAX_DATAGRAMS, PORT
from samara.link.link import AutopilotLostError
from samara.link.registry import open_link
from samara.link.sensor_snapshot import Readings
from samara.physics.types import State
from samara.scenario.autopilot import Autopilot
from samara.scenario.autopilot_sensors import assign_autopilot
from samara.scenario.file import parse_scenario
from samara.sim.simulation import Simulation

RUNNER = Path(__file__).parents[1] / "support" / "crazyflie_script.py"
CONNECT, VERSION = b"\xf1\0", b"\xd1\0"
REST_READINGS = Readings(
    0, Vec3(0.0, 0.0, 9.8), ZERO, None, None, None, State(ZERO, ZERO, IDENTITY, ZERO), rotor_speed=(0.0,) * 4
)
TWO_DRONES = """
name = "scripts"
duration = 60.0
[[drones]]
name = "cf"
vehicle = "crazyflie"
count = 2
spacing = [1.0, 1.0, 0.0]
"""


@pytest.fixture
def link(one_at_a_time):  # noqa: F811 - the fixture
    messages = []
    crazyflie_link = open_link(
        Autopilot("crazyflie", wait=0.3), samara.vehicle("crazyflie"), lambda level, text: messages.append(text)
    )
    crazyflie_link.said = messages
    yield crazyflie_link
    crazyflie_link.close()


@pytest.fixture
def clients():
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
    for sock in sockets:
        sock.connect(("127.0.0.1", PORT))
        sock.settimeout(60.0)
    yield sockets
    for sock in sockets:
        sock.close()


def receive_all(client):
    """Receive all packets except the console's."""
    client.setblocking(False)
    packets = []
    while True:
        try:
            packets.append(client.recv(64))
        except OSError:
            return [packet for packet in packets if packet[0] >> 4]


def test_nothing_is_bound_beyond_loopback(link):
    assert link._socket.getsockname() == ("127.0.0.1", PORT)


def test_a_missing_client_is_reported(link):
    with pytest.raises(AutopilotLostError, match=r"no client connected to udp://127.0.0.1:19850 within 0\.3 s"):
        link.exchange(REST_READINGS)


@pytest.mark.parametrize("data", [
    b"\xff", b"", b"\0" * 40, b"\xd1\x63", b"\xf0echo", b"\x30" + bytes(14), b"\x70\0", b"\x80\3\0", b"\x91\1\1",
])  # fmt: skip
def test_only_a_client_starts_a_flight(link, clients, data):
    """Not a scan, garbage, an echo, nor setpoints and orders of a sender that has not connected."""
    clients[0].send(data)
    with pytest.raises(AutopilotLostError, match="no client connected"):
        link.exchange(REST_READINGS)
    assert link.server.commander.planner.planned_curve is None
    assert link.server.commander._setpoint is None


def test_a_cflib_that_is_too_old_is_reported(link, clients):
    clients[0].send("\xff\x01\x01\x01".encode())  # its driver before 0.1.32 connects with this, as UTF-8
    with pytest.raises(AutopilotLostError):
        link.exchange(REST_READINGS)
    assert sum("expected cflib 0.1.32 or newer" in text for text in link.said) == 1


def test_a_flight_starts_with_any_of_its_drones_and_no_other_flight(link, clients):
    """A client of another flight's second drone starts that flight, and this one still waits."""
    other_links = []
    for instance in (1, 2):
        autopilot = Autopilot("crazyflie", wait=0.3, instance=instance)
        other_links.append(open_link(autopilot, samara.vehicle("crazyflie"), lambda level, text: None, other_links))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.sendto(CONNECT, ("127.0.0.1", PORT + 2))
        try:
            other_links[0].exchange(REST_READINGS)
            with pytest.raises(AutopilotLostError, match="no client connected"):
                link.exchange(REST_READINGS)
        finally:
            for other_link in other_links:
                other_link.close()


def test_a_port_that_is_taken_is_named(link):
    with pytest.raises(ValueError, match=r"UDP 127\.0\.0\.1:19850 cannot be used"):
        open_link(Autopilot("crazyflie"), samara.vehicle("crazyflie"), lambda level, text: None)


def test_another_client_is_accepted_only_when_it_connects(link, clients):
    first, second = clients
    first.send(CONNECT)
    first.send(VERSION)
    link.exchange(REST_READINGS)
    assert receive_all(first) == [b"\xf1Bitcraze Crazyflie", b"\xd1\0\x0c"]
    second.send(VERSION)
    second.send(b"\xff")  # a scan
    link.exchange(REST_READINGS)
    assert receive_all(second) == [b"\xff"]
    assert sum("a second client sends" in text for text in link.said) == 1
    second.send(CONNECT)
    second.send(VERSION)
    first.send(VERSION)
    link.exchange(REST_READINGS)
    assert receive_all(second) == [b"\xf1Bitcraze Crazyflie", b"\xd1\0\x0c"]
    assert receive_all(first) == []


def test_garbage_and_floods_change_nothing(link, clients):
    client, other = clients
    client.send(CONNECT)
    link.exchange(REST_READINGS)
    state_before = dict(link.server.parameters.values), bytes(link.server.memory.content), link.server.status
    rng = random.Random(1)
    for _ in range(50):
        other.send(rng.randbytes(rng.randrange(1, 200)))
    for size in (32, 64, 1400):
        client.send(b"\x30" * size)
    client.send(b"")
    for _ in range(MAX_DATAGRAMS):
        other.send(b"\x30" + struct.pack("<3fH", 0.0, 0.0, 0.0, 65535))
    for _ in range(4):
        assert list(link.exchange(REST_READINGS)) == [0.0] * 4
    assert state_before == (dict(link.server.parameters.values), bytes(link.server.memory.content), link.server.status)
    client.send(VERSION)
    link.exchange(REST_READINGS)
    assert receive_all(client)[-1] == b"\xd1\0\x0c"


def test_any_packet_leaves_the_rotor_outputs_in_range():
    """Twenty thousand random packets and mutated valid ones are answered within 30 bytes or not at all."""
    server, rng = CrtpServer(samara.vehicle("crazyflie"), 0.5, 4e-3), random.Random(2)
    valid = [
        Packet(7, 0, b"\x0a" + struct.pack("<4f", 0.1, 0.0, 0.0, 0.5)),
        Packet(8, 0, struct.pack("<BBff?f", 7, 0, 1.0, 0.0, True, 2.0)),
        Packet(5, 1, b"\6\1\7\0\0"), Packet(5, 1, b"\3\1\1"), Packet(2, 2, b"\1\0\1"), Packet(4, 2, bytes(20)),
        Packet(6, 0, struct.pack("<3f", 1.0, 2.0, 3.0)), Packet(3, 0, struct.pack("<3fH", 1.0, 2.0, 3.0, 40000)),
        Packet(7, 0, b"\x0b" + struct.pack("<3fHB", 1.0, 2.0, 3.0, 40000, 1)), Packet(7, 1, struct.pack("<BI", 0, 0)),
        Packet(7, 0, b"\x04" + struct.pack("<4f", 1.0, 2.0, 3.0, 0.1)),
        Packet(8, 0, struct.pack("<BBf?f?f", 9, 0, 1.0, True, 0.0, True, 0.5)),
        Packet(8, 0, struct.pack("<BBBB5f", 11, 0, 0, 1, 3.0, 1.0, 2.0, 0.1, 3.0)),
        Packet(8, 0, struct.pack("<BBBB5f", 12, 0, 1, 1, 1.0, 1.0, 0.1, 1.0, 3.0)),
        Packet(8, 0, struct.pack("<BBBBIB", 6, 1, 1, 0, 0, 1)), Packet(8, 0, struct.pack("<BBBBBBf", 13, 0, 1, 1, 0, 1, 1.0)),
        Packet(4, 2, struct.pack("<BI", 0, 128) + struct.pack("<f", 2.0)),
    ]  # fmt: skip
    flying_count = planned_count = 0
    for number in range(20_000):
        packet = Packet(rng.randrange(16), rng.randrange(4), rng.randbytes(rng.randrange(31)))
        if number % 2:
            packet = rng.choice(valid)
            data = bytearray(packet.data)
            data[rng.randrange(len(data))] = rng.randrange(256)
            packet = packet._replace(data=bytes(data))
        assert all(len(answer.data) <= 30 for answer in server.answer_packet(packet))
        if number % 20 == 0:
            outputs = server.fly(REST_READINGS._replace(time_us=number * 200))
            assert all(0.0 <= u <= 1.0 for u in outputs)
            assert all(len(packet_sent.data) <= 30 for packet_sent in server.due_packets())
            flying_count += any(outputs)
            planned_count += server.commander.planner.planned_curve is not None
            if not server.commander.supervisor.may_fly:  # stopped, disarmed or crashed: start another one
                server = CrtpServer(samara.vehicle("crazyflie"), 0.5, 4e-3)
    assert flying_count > 300
    assert planned_count > 50


# cflib --------------------------------------------------------------------------------------------------------------

SCRIPT = """
import sys, time
import cflib.crtp
from cflib.crazyflie import Crazyflie
from cflib.crazyflie.log import LogConfig
from cflib.crazyflie.swarm import CachedCfFactory, Swarm
from cflib.positioning.motion_commander import MotionCommander

cflib.crtp.init_drivers()
uris = ["udp://127.0.0.1:19850", "udp://127.0.0.1:19851"]
places = {}

def log(scf):
    own = LogConfig(name="place", period_in_ms=50)
    for name in ("stateEstimate.x", "stateEstimate.y", "stateEstimate.z"):
        own.add_variable(name, "float")
    own.data_received_cb.add_callback(lambda stamp, data, _: places.__setitem__(scf._link_uri, list(data.values())))
    scf.cf.log.add_config(own)
    own.start()

def fly(scf):
    scf.cf.supervisor.send_arming_request(True)
    if scf._link_uri == uris[0]:
        with MotionCommander(scf, default_height=0.4) as motion:
            motion.forward(0.4, velocity=0.4)
            time.sleep(1.0)
            print("motion", *places[scf._link_uri], flush=True)
    else:
        high = scf.cf.high_level_commander
        high.takeoff(0.5, 1.5)
        time.sleep(2.0)
        high.go_to(0.0, 0.5, 0.0, 0.0, 2.0, relative=True)
        time.sleep(3.0)
        print("high", *places[scf._link_uri], flush=True)
        high.land(0.0, 1.5)
        time.sleep(2.0)
        high.stop()

with Swarm(uris, factory=CachedCfFactory(rw_cache=sys.argv[1])) as swarm:
    swarm.parallel_safe(log)
    swarm.parallel_safe(fly)
print("done", flush=True)
"""


def python_with_cflib():
    """Return the Python that has cflib: SAMARA_CFLIB, or the one that runs the tests."""
    return os.environ.get("SAMARA_CFLIB") or (sys.executable if importlib.util.find_spec("cflib") else "")


def fly_with_cflib(script, tmp_path, *arguments):
    """Fly two drones with a script in another process that uses the simulation's clock; return its output."""
    python = python_with_cflib()
    if not python:
        pytest.skip("cflib is not installed: SAMARA_CFLIB names a Python that has it")
    file, clock_file = tmp_path / "script.py", tmp_path / "clock"
    file.write_text(script)
    clock_file.write_bytes(bytes(8))
    scenario = assign_autopilot(parse_scenario(TWO_DRONES, "scripts.toml"), Autopilot("crazyflie"))
    simulation = Simulation(scenario, lambda blocks, lines: None)
    command = [python, str(RUNNER), str(clock_file), str(file), *arguments]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    with (
        open(clock_file, "r+b") as clock_stream,
        mmap.mmap(clock_stream.fileno(), 8) as clock,
        child(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=tmp_path) as process,
    ):
        try:
            while process.poll() is None and simulation.advance():
                clock[:8] = struct.pack("<d", simulation.time_us / 1e6)
        finally:
            simulation.close()
            process.kill()
        output = process.communicate()[0]
    assert process.returncode == 0
    return simulation, output


def test_cflib_flies_two_drones_by_setpoints_and_by_high_level_orders(tmp_path, one_at_a_time):  # noqa: F811
    """In simulated time: a slow machine flies the same."""
    simulation, output = fly_with_cflib(SCRIPT, tmp_path, str(tmp_path / "cache"))
    start = [drone.start_W for drone in simulation.scenario.drones]
    positions = dict(line.split(" ", 1) for line in output.splitlines() if " " in line)
    motion, high = ([float(x) for x in positions[name].split()] for name in ("motion", "high"))
    assert motion == pytest.approx([start[0].x + 0.4, start[0].y, 0.4], abs=0.03)
    assert high == pytest.approx([start[1].x, start[1].y + 0.5, 0.5], abs=0.03)


def test_the_script_of_the_page_flies(tmp_path, one_at_a_time):  # noqa: F811
    """Half a metre ahead, a quarter turn to the left, half a metre ahead."""
    page = (REPOSITORY / "docs" / "howto" / "crazyflie-scripts.md").read_text(encoding="utf-8")
    (script,) = re.findall(r"^```py\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    simulation, _ = fly_with_cflib(script, tmp_path)
    snapshot, start = simulation.fleet.links.by_drone[0].link.server.log_snapshot, simulation.scenario.drones[0].start_W
    assert snapshot.state.p_W == pytest.approx((start.x + 0.5, start.y + 0.5, 0.02), abs=0.05)
    assert snapshot.euler.yaw == pytest.approx(math.pi / 2.0, abs=0.05)
    assert not any(snapshot.outputs)
