"""ArduPilot's JSON backend: its packets, our lines, and flights through the protocol."""

import json
import math
import socket
import struct
from dataclasses import replace

import numpy as np
import pytest
from support.ardupilot_line import LINE, ground_readings
from support.autopilot_peers import ArduPilotPeer, one_at_a_time  # noqa: F401 - a fixture

import samara
from samara.core.algebra import ZERO, Vec3, quat_from_euler
from samara.link.ardupilot import Servos, ardupilot_parameters, output_from_pulse, parse_servos, state_line
from samara.link.motor_outputs import outputs_by_rotor, rotor_order
from samara.link.registry import open_link
from samara.physics.types import State
from samara.scenario.autopilot import Autopilot
from samara.scenario.autopilot_sensors import assign_autopilot
from samara.scenario.file import parse_scenario

SCENARIO = """
name = "hover"
duration = {duration}
[[drones]]
name = "drone"
vehicle = "{vehicle}"
yaw_deg = 90.0
"""


def scenario(duration, vehicle="hakoniwa", **options):
    mission = parse_scenario(SCENARIO.format(duration=duration, vehicle=vehicle), "hover.toml")
    return assign_autopilot(mission, Autopilot("ardupilot", **options))


def test_a_line_equals_the_one_that_was_observed_to_work_byte_for_byte():
    """A line that ArduCopter accepted, written in FRD, from the same motion in FLU: facing north."""
    readings = ground_readings()._replace(
        specific_force_B=Vec3(0.0025, 0.0026, 9.7938), omega_B=Vec3(0.0001, 0.0005, -0.0004)
    )
    assert state_line(readings, 0.001) == LINE


def test_keys_have_no_space_and_come_in_an_order_that_its_search_understands():
    """It searches for `"velocity":` as a text: longer keys with that prefix must come later."""
    text = state_line(ground_readings(), 1.0).decode()
    for key in ("timestamp", "imu", "gyro", "accel_body", "position", "quaternion", "velocity"):
        assert text.count(f'"{key}":') == 1


def test_position_is_north_east_down_from_home():
    moved = ground_readings()._replace(
        state=State(Vec3(2.0, 3.0, 4.1), Vec3(0.2, 0.3, 0.4), quat_from_euler(0, 0, 0), ZERO)
    )
    line = json.loads(state_line(moved, 1.0, home_height=0.1))
    assert line["position"] == pytest.approx([3.0, 2.0, -4.0])
    assert line["velocity"] == pytest.approx([0.3, 0.2, -0.4])
    assert line["quaternion"] == pytest.approx([math.sqrt(0.5), 0.0, 0.0, math.sqrt(0.5)])  # east: yaw +90°


@pytest.mark.parametrize(("magic", "outputs", "size"), [(18458, 16, 40), (29569, 32, 72)])
def test_servo_packets_of_sixteen_and_thirty_two_outputs(magic, outputs, size):
    packet = struct.pack(f"<HHI{outputs}H", magic, 1000, 77, *range(1000, 1000 + outputs))
    assert len(packet) == size
    assert parse_servos(packet) == Servos(1000, 77, tuple(range(1000, 1000 + outputs)))
    assert parse_servos(packet[:-1]) is None and parse_servos(packet + b"\0") is None and parse_servos(b"") is None


def test_pulses_are_outputs():
    assert [output_from_pulse(pulse) for pulse in (0, 900, 1000, 1500, 2000, 2200)] == [0.0, 0.0, 0.0, 0.5, 1.0, 1.0]


@pytest.mark.parametrize("vehicle", ["iris_documented", "crazyflie_documented", "hexarotor_x", "octorotor_x"])
def test_each_output_drives_the_rotor_at_its_place(vehicle):
    """ArduPilot's first output is front right and its second on the other side of the centre, in every frame."""
    model = samara.vehicle(vehicle)
    order = rotor_order(model, "ardupilot")
    assert sorted(order) == list(range(len(model.rotors)))
    first, second = (model.rotors[i].r_B for i in order[:2])
    assert (first.x * second.x + first.y * second.y) < 0.0 and first.y < 0.0
    values = [0.1 * k for k in range(len(order))]
    assert [outputs_by_rotor(values, order)[rotor] for rotor in order] == values


def test_a_frame_that_ardupilot_lacks_is_one_sentence():
    with pytest.raises(ValueError, match="has 0 rotors; ardupilot is wired for 4, 6, 8"):
        open_link(Autopilot("ardupilot"), samara.vehicle("rigid_body_quadrotor"), print)
    vehicle = samara.vehicle("iris_documented")
    reversed_spins = replace(vehicle, rotors=tuple(rotor._replace(spin=-rotor.spin) for rotor in vehicle.rotors))
    with pytest.raises(ValueError, match="turns the other way than ardupilot's; expected counter-clockwise"):
        rotor_order(reversed_spins, "ardupilot")


def test_its_parameters_say_x_frame_and_linear_thrust():
    parameters = ardupilot_parameters(samara.vehicle("hexarotor_x"), 0.5)
    assert (parameters["FRAME_CLASS"], parameters["FRAME_TYPE"], parameters["MOT_THST_EXPO"]) == (2, 1, 0)


@pytest.mark.parametrize("outputs", [16, 32])
def test_a_whole_flight_through_the_protocol_hovers_within_ten_centimetres(outputs):
    peer = ArduPilotPeer(outputs=outputs, gains=(0.05, 0.05, 0.1))
    run = samara.fly(scenario(4.0))
    peer.stop()
    assert run.problem == ""
    assert np.abs(run.position[run.time > 3.2] - np.array([0.0, 0.0, 1.5])).max() < 0.1
    times = np.array([line["timestamp"] for line in peer.lines])
    assert np.diff(times) == pytest.approx(np.full(len(times) - 1, 1e-3), abs=1e-9)  # 1 kHz, above its 720 Hz
    assert np.array_equal(samara.replay(run).tables["state"].rows, run.tables["state"].rows)


def connect_link(messages, **options):
    options = {"wait": 5.0, "patience": 1.0, **options}
    return open_link(
        Autopilot("ardupilot", **options), samara.vehicle("iris_documented"), lambda level, text: messages.append(text)
    )


def exchange_steps(link, steps):
    return [list(link.exchange(ground_readings(1000 * k))) for k in range(steps)]


def test_pulses_of_zero_and_a_thousand_are_motors_that_stand():
    messages, peer = [], ArduPilotPeer(gains=(0.1, 0.1, 0.1))
    link = connect_link(messages)
    outputs = exchange_steps(link, 150)
    link.close()
    peer.stop()
    assert all(u == [0.0] * 4 for u in outputs[:98]) and max(outputs[-1]) > 0.3
    assert link.sent == 150 and messages == []


def test_a_line_that_was_lost_is_sent_once_more():
    messages, peer = [], ArduPilotPeer(trouble="lost line", trouble_at=60)
    link = connect_link(messages)
    exchange_steps(link, 120)
    link.close()
    peer.stop()
    assert link.resent == 1 and peer.resends >= 1
    assert len({line["timestamp"] for line in peer.lines}) == len(peer.lines) >= 119


def test_a_smaller_count_is_a_restart_and_is_said():
    messages, peer = [], ArduPilotPeer(trouble="restart", trouble_at=60)
    link = connect_link(messages)
    exchange_steps(link, 120)
    link.close()
    peer.stop()
    assert link.restarts == 1
    assert messages == ["ArduPilot restarted: its frame count went from 60 to 1"]


def test_garbage_is_skipped_and_said_once():
    messages, peer = [], ArduPilotPeer(trouble="garbage", trouble_at=60)
    link = connect_link(messages)
    exchange_steps(link, 120)
    link.close()
    peer.stop()
    assert messages == ["a packet of 9 bytes on UDP 127.0.0.1:9002 is not a servo output; it was skipped"]


@pytest.mark.parametrize("count", [1, 10**6])
def test_a_packet_from_another_port_does_not_take_over(count):
    """Neither with a smaller frame count, as after a restart, nor with a larger one."""
    messages, peer = [], ArduPilotPeer()
    link = connect_link(messages)
    exchange_steps(link, 20)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        for k in range(5):
            other.sendto(struct.pack("<HHI16H", 18458, 1000, count + k, *[2000] * 16), ("127.0.0.1", 9002))
        port = other.getsockname()[1]
        outputs = exchange_steps(link, 30)
    report = [message for _, message in link.closing_report()]
    link.close()
    peer.stop()
    assert not np.any(outputs) and link.restarts == 0
    expected = f"a second autopilot sends on UDP 127.0.0.1:9002 from port {port}; its packets are ignored"
    assert messages == [expected] and f"5 times in all: {expected}" in report
    assert report[0] == "ArduPilot answered 50 of 50 packets, 0 missed"


def test_one_that_is_lost_ends_the_flight_with_a_sentence():
    peer = ArduPilotPeer(trouble="dies", trouble_at=300)
    run = samara.fly(scenario(2.0, patience=0.5))
    peer.stop()
    assert "ArduPilot has not answered for 0.5 s" in run.problem
    assert 0.2 < run.time[-1] < 0.4


def test_with_wait_another_takes_over():
    peers = [ArduPilotPeer(trouble="dies", trouble_at=300)]

    def tell(message):
        if "until it is back" in message:
            peers.append(ArduPilotPeer())

    run = samara.fly(scenario(1.0, patience=0.5, on_loss="wait"), on_message=tell)
    for peer in peers:
        peer.stop()
    assert run.problem == "" and run.time[-1] == 1.0 and len(peers) == 2


def test_below_its_rate_it_is_refused():
    with pytest.raises(ValueError, match="expected 720 to 4000 for ardupilot"):
        Autopilot("ardupilot", rate=500.0)
