"""A simulated Crazyflie flown packet by packet, without a socket or a clock: it goes where it is asked, and stops in time."""

import struct

import numpy as np
import pytest

import samara
from samara.core.algebra import ZERO, Vec3
from samara.link.crazyflie.crtp import Packet, Port
from samara.link.crazyflie.crtp_server import Endpoint
from samara.link.motor_outputs import outputs_code
from samara.link.sensor_snapshot import Readings
from samara.physics.types import State
from samara.plan.min_snap import minimum_derivative
from samara.scenario.file import parse_scenario

PERIOD = 4e-3
SCENARIO = """
name = "script"
duration = {duration}
[[drones]]
name = "cf"
vehicle = "crazyflie"
yaw_deg = {yaw}
"""
ECHO = Packet(Port.LINK, 0, b"")


def hover(vx, vy, yaw_rate, z):
    return Packet(Port.SETPOINTS, 0, b"\x0a" + struct.pack("<4f", vx, vy, yaw_rate, z))


def place(x, y, z, yaw=0.0):
    return Packet(Port.SETPOINTS, 0, b"\7" + struct.pack("<4f", x, y, z, yaw))


def take_off(height, duration):
    return Packet(Port.HIGH_LEVEL, 0, struct.pack("<BBff?f", 7, 0, height, 0.0, True, duration))


def land(duration):
    return Packet(Port.HIGH_LEVEL, 0, struct.pack("<BBff?f", 8, 0, 0.0, 0.0, True, duration))


def go_to(x, y, z, yaw, duration, relative):
    return Packet(Port.HIGH_LEVEL, 0, struct.pack("<BBBB5f", 12, 0, relative, 0, x, y, z, yaw, duration))


def flown(script, duration, yaw=0.0):
    """p (n, 3), yaw, in which mode and where it is wanted every 4 ms; `script(now)` gives the packets of an instant"""
    seen, ends = [], []

    def controller(state, reference, vehicle, memory):
        if not ends:
            ends.append((Endpoint(vehicle, 0.5, PERIOD), outputs_code(vehicle, 0.5).machine()))
        (endpoint, machine), now_us = ends[0], len(seen) * 4000
        for packet in script(now_us / 1e6):
            list(endpoint.answers(packet))
        body = State(state.p_W, state.v_W, state.q_WB, state.omega_B)
        readings = Readings(now_us, Vec3(0.0, 0.0, 9.8), ZERO, None, None, None, body, rotor_speed=state.rotor_speed)
        machine.held[:, 0] = endpoint.fly(readings)
        machine.run()
        known = endpoint.known
        seen.append((*state.p_W, known.euler.yaw, known.wanted.mode, *known.wanted.reference.p_W))
        return tuple(machine.carry[:, 0].tolist()), memory

    own = parse_scenario(SCENARIO.format(duration=duration, yaw=yaw), "script.toml")
    samara.fly(own, controller=controller)
    return np.array(seen)


def at(rows, time):
    return rows[int(time / PERIOD)]


def every(now, period):
    return round(now / PERIOD) % round(period / PERIOD) == 0


def test_hover_setpoints_lift_it_move_it_along_its_nose_and_a_stop_ends_them():
    """Up at 0.5 m for 4 s, then 0.25 m/s ahead for 4 s with the nose to +y: a metre along y."""

    def script(now):
        if now < 11.0 and every(now, 0.1):
            ahead = 0.25 if 4.0 <= now < 8.0 else 0.0
            yield hover(ahead, 0.0, 0.0, 0.5)
        if now >= 11.0 and every(now, 0.1):
            yield Packet(Port.SETPOINTS, 0, b"\0")

    rows = flown(script, 11.5, yaw=90.0)
    assert at(rows, 4.0)[:3] == pytest.approx((0.0, 0.0, 0.5), abs=0.05)
    assert at(rows, 10.9)[:3] == pytest.approx((0.0, 1.0, 0.5), abs=0.05)
    assert at(rows, 10.9)[4] == 1
    assert at(rows, 11.1)[4] == 0


def test_without_setpoints_it_levels_out_and_then_its_motors_stop():
    def script(now):
        if now < 3.0 and every(now, 0.1):
            yield hover(0.0, 0.0, 0.0, 0.5)

    rows = flown(script, 5.5)
    assert at(rows, 3.2)[4] == 1
    assert at(rows, 4.0)[4] == 3
    assert at(rows, 4.0)[2] == pytest.approx(0.5, abs=0.1)
    assert at(rows, 5.2)[4] == 0
    assert at(rows, 5.4)[2] < 0.5  # locked, and falling


def test_high_level_orders_are_flown_and_landed():
    orders = {
        0.1: take_off(1.0, 2.0),
        3.0: go_to(0.5, -0.25, 0.0, 1.0, 3.0, True),
        7.0: go_to(0.0, 0.0, 0.75, 0.0, 3.0, False),
        11.0: land(2.0),
    }
    due = {round(time / PERIOD): packet for time, packet in orders.items()}
    rows = flown(lambda now: [due[k]] if (k := round(now / PERIOD)) in due else [], 14.0)
    assert at(rows, 2.9)[:3] == pytest.approx((0.0, 0.0, 1.0), abs=0.06)
    assert at(rows, 6.9)[:4] == pytest.approx((0.5, -0.25, 1.0, 1.0), abs=0.06)
    assert at(rows, 10.9)[:4] == pytest.approx((0.0, 0.0, 0.75, 0.0), abs=0.06)
    assert at(rows, 13.9)[2] == pytest.approx(0.02, abs=0.01)
    assert at(rows, 13.9)[4] == 0


def test_a_landing_ends_at_rest_on_the_ground():
    """From 1 m in 2 s: slow motors brake in time, and once it has touched down it stays there."""
    due = {25: take_off(1.0, 2.0), 875: land(2.0)}
    rows = flown(lambda now: [due[k]] if (k := round(now / PERIOD)) in due else [], 6.5)
    down = int(np.argmax(rows[875:, 2] < 0.025)) + 875
    assert 5.0 < down * PERIOD < 5.6
    assert rows[down:, 2].max() < 0.025
    assert rows[-1, 4] == 0


def test_an_uploaded_eight_is_followed_within_two_centimetres():
    """A metre each way at up to 1.4 m/s, with motors of 72 ms: what is asked of them is asked that much earlier."""
    turns = np.linspace(0.0, 2.0 * np.pi, 9)
    points = np.stack([np.sin(turns), np.sin(2.0 * turns) / 2.0, 0.0 * turns, 0.0 * turns], axis=1)
    curve = minimum_derivative(points, [1.2] * 8)
    rows = [np.append((own / 1.2 ** np.arange(8)[:, None]).T.ravel(), 1.2) for own in curve.coefficients]
    content = np.array(rows, dtype="<f4").tobytes()
    writes = [
        Packet(Port.MEMORY, 2, struct.pack("<BI", 0, at) + content[at : at + 24]) for at in range(0, len(content), 24)
    ]
    define = Packet(Port.HIGH_LEVEL, 0, struct.pack("<BBBBIB", 6, 1, 1, 0, 0, 8))
    start = Packet(Port.HIGH_LEVEL, 0, struct.pack("<BBBBBBf", 13, 0, 1, 0, 0, 1, 1.0))
    due = {0: [*writes, define], 25: [take_off(1.0, 2.0)], 625: [start]}
    flight = flown(lambda now: due.get(round(now / PERIOD), []), 12.2)
    away = np.linalg.norm(flight[625:, :3] - flight[625:, 5:8], axis=1)
    assert np.ptp(flight[625:, 5]) > 2.0
    assert away.max() < 0.02


def test_a_place_is_flown_to_and_held():
    def script(now):
        if every(now, 0.1):
            yield place(0.5, 0.5, 1.0, 45.0)

    rows = flown(script, 6.0)
    assert rows[-1, :4] == pytest.approx((0.5, 0.5, 1.0, np.pi / 4.0), abs=0.05)


def rpyt(roll, pitch, yaw_rate, thrust):
    return Packet(Port.ROLL_PITCH_YAW_THRUST, 0, struct.pack("<3fH", roll, pitch, yaw_rate, thrust))


def z_distance(roll, pitch, yaw_rate, height):
    return Packet(Port.SETPOINTS, 0, b"\x09" + struct.pack("<4f", roll, pitch, yaw_rate, height))


def test_an_attitude_at_a_height_leans_as_the_wire_says():
    """Roll is positive right side down, so to −y, and pitch positive nose up, so to −x; yaw counter-clockwise."""

    def script(now):
        if every(now, 0.1):
            leans = 3.0 <= now < 4.0
            yield z_distance(4.0 * leans, 4.0 * leans, 20.0 * (4.0 <= now < 5.0), 0.5)

    rows = flown(script, 6.0)
    assert at(rows, 3.0)[2] == pytest.approx(0.5, abs=0.05)
    assert at(rows, 5.9)[2] == pytest.approx(0.5, abs=0.08)
    gone = at(rows, 4.5)[:2] - at(rows, 3.0)[:2]
    assert gone[0] < -0.05
    assert gone[1] < -0.05
    assert at(rows, 5.9)[3] == pytest.approx(np.radians(20.0), abs=0.03)


def test_roll_pitch_yaw_and_thrust_fly_it_as_the_wire_says():
    """Thrust over and under the weight, pitch nose up, and a yaw rate that is positive clockwise there."""
    hover_share = 0.5  # of the full thrust, as the endpoint of these tests is set up

    def script(now):
        if every(now, 0.02):
            over = 1.15 if now < 1.0 else 0.85 if now < 2.0 else 1.0
            thrust = 0 if now < 0.1 else round(65535 * hover_share * over)
            yield rpyt(0.0, 4.0 if now > 2.0 else 0.0, 20.0 if 2.0 < now < 3.0 else 0.0, thrust)

    rows = flown(script, 4.5)
    assert at(rows, 2.0)[2] > 0.3
    assert at(rows, 3.4)[0] < -0.05
    assert at(rows, 4.4)[3] == pytest.approx(-np.radians(20.0), abs=0.03)
