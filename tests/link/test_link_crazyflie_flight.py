"""A simulated Crazyflie flown packet by packet, without a socket or a clock: it follows setpoints, and stops in time."""

import struct

import numpy as np
import pytest

import samara
from samara.core.algebra import ZERO, Vec3
from samara.link.crazyflie.crtp import Packet, Port
from samara.link.crazyflie.crtp_server import CrtpServer
from samara.link.motor_outputs import compile_thrust_outputs
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


def position_setpoint(x, y, z, yaw=0.0):
    return Packet(Port.SETPOINTS, 0, b"\7" + struct.pack("<4f", x, y, z, yaw))


def take_off(height, duration):
    return Packet(Port.HIGH_LEVEL, 0, struct.pack("<BBff?f", 7, 0, height, 0.0, True, duration))


def land(duration):
    return Packet(Port.HIGH_LEVEL, 0, struct.pack("<BBff?f", 8, 0, 0.0, 0.0, True, duration))


def go_to(x, y, z, yaw, duration, relative):
    return Packet(Port.HIGH_LEVEL, 0, struct.pack("<BBBB5f", 12, 0, relative, 0, x, y, z, yaw, duration))


def fly_script(script, duration, yaw=0.0):
    """Fly a script that yields the packets of an instant; return p (n, 3), yaw, mode and reference position every 4 ms."""
    rows, server_and_machine = [], []

    def controller(state, reference, vehicle, controller_state):
        if not server_and_machine:
            server_and_machine.append(
                (CrtpServer(vehicle, 0.5, PERIOD), compile_thrust_outputs(vehicle, 0.5).machine())
            )
        (server, machine), now_us = server_and_machine[0], len(rows) * 4000
        for packet in script(now_us / 1e6):
            list(server.answer_packet(packet))
        body = State(state.p_W, state.v_W, state.q_WB, state.omega_B)
        readings = Readings(now_us, Vec3(0.0, 0.0, 9.8), ZERO, None, None, None, body, rotor_speed=state.rotor_speed)
        machine.held_inputs[:, 0] = server.fly(readings)
        machine.run()
        snapshot = server.log_snapshot
        rows.append(
            (
                *state.p_W,
                snapshot.euler.yaw,
                snapshot.controller_setpoint.mode,
                *snapshot.controller_setpoint.reference.p_W,
            )
        )
        return tuple(machine.carry[:, 0].tolist()), controller_state

    scenario = parse_scenario(SCENARIO.format(duration=duration, yaw=yaw), "script.toml")
    samara.fly(scenario, controller=controller)
    return np.array(rows)


def row_at_time(rows, time):
    return rows[int(time / PERIOD)]


def is_due(now, period):
    return round(now / PERIOD) % round(period / PERIOD) == 0


def test_hover_setpoints_lift_it_move_it_along_its_nose_and_a_stop_ends_them():
    """Up at 0.5 m for 4 s, then 0.25 m/s ahead for 4 s with the nose to +y: a metre along y."""

    def script(now):
        if now < 11.0 and is_due(now, 0.1):
            forward_speed = 0.25 if 4.0 <= now < 8.0 else 0.0
            yield hover(forward_speed, 0.0, 0.0, 0.5)
        if now >= 11.0 and is_due(now, 0.1):
            yield Packet(Port.SETPOINTS, 0, b"\0")

    rows = fly_script(script, 11.5, yaw=90.0)
    assert row_at_time(rows, 4.0)[:3] == pytest.approx((0.0, 0.0, 0.5), abs=0.05)
    assert row_at_time(rows, 10.9)[:3] == pytest.approx((0.0, 1.0, 0.5), abs=0.05)
    assert row_at_time(rows, 10.9)[4] == 1
    assert row_at_time(rows, 11.1)[4] == 0


def test_without_setpoints_it_levels_out_and_then_its_motors_stop():
    def script(now):
        if now < 3.0 and is_due(now, 0.1):
            yield hover(0.0, 0.0, 0.0, 0.5)

    rows = fly_script(script, 5.5)
    assert row_at_time(rows, 3.2)[4] == 1
    assert row_at_time(rows, 4.0)[4] == 3
    assert row_at_time(rows, 4.0)[2] == pytest.approx(0.5, abs=0.1)
    assert row_at_time(rows, 5.2)[4] == 0
    assert row_at_time(rows, 5.4)[2] < 0.5  # locked, and falling


def test_high_level_orders_are_flown_and_landed():
    orders = {
        0.1: take_off(1.0, 2.0),
        3.0: go_to(0.5, -0.25, 0.0, 1.0, 3.0, True),
        7.0: go_to(0.0, 0.0, 0.75, 0.0, 3.0, False),
        11.0: land(2.0),
    }
    due = {round(time / PERIOD): packet for time, packet in orders.items()}
    rows = fly_script(lambda now: [due[k]] if (k := round(now / PERIOD)) in due else [], 14.0)
    assert row_at_time(rows, 2.9)[:3] == pytest.approx((0.0, 0.0, 1.0), abs=0.06)
    assert row_at_time(rows, 6.9)[:4] == pytest.approx((0.5, -0.25, 1.0, 1.0), abs=0.06)
    assert row_at_time(rows, 10.9)[:4] == pytest.approx((0.0, 0.0, 0.75, 0.0), abs=0.06)
    assert row_at_time(rows, 13.9)[2] == pytest.approx(0.02, abs=0.01)
    assert row_at_time(rows, 13.9)[4] == 0


def test_a_landing_ends_at_rest_on_the_ground():
    """From 1 m in 2 s: slow motors brake in time, and once it has touched down it stays there."""
    due = {25: take_off(1.0, 2.0), 875: land(2.0)}
    rows = fly_script(lambda now: [due[k]] if (k := round(now / PERIOD)) in due else [], 6.5)
    touchdown = int(np.argmax(rows[875:, 2] < 0.025)) + 875
    assert 5.0 < touchdown * PERIOD < 5.6
    assert rows[touchdown:, 2].max() < 0.025
    assert rows[-1, 4] == 0


def test_an_uploaded_eight_is_followed_within_two_centimetres():
    """A metre each way at up to 1.4 m/s, with motor lags of 72 ms: the controller compensates the lag."""
    turns = np.linspace(0.0, 2.0 * np.pi, 9)
    points = np.stack([np.sin(turns), np.sin(2.0 * turns) / 2.0, 0.0 * turns, 0.0 * turns], axis=1)
    curve = minimum_derivative(points, [1.2] * 8)
    rows = [
        np.append((coefficients / 1.2 ** np.arange(8)[:, None]).T.ravel(), 1.2) for coefficients in curve.coefficients
    ]
    content = np.array(rows, dtype="<f4").tobytes()
    writes = [
        Packet(Port.MEMORY, 2, struct.pack("<BI", 0, offset) + content[offset : offset + 24])
        for offset in range(0, len(content), 24)
    ]
    define = Packet(Port.HIGH_LEVEL, 0, struct.pack("<BBBBIB", 6, 1, 1, 0, 0, 8))
    start = Packet(Port.HIGH_LEVEL, 0, struct.pack("<BBBBBBf", 13, 0, 1, 0, 0, 1, 1.0))
    due = {0: [*writes, define], 25: [take_off(1.0, 2.0)], 625: [start]}
    flight = fly_script(lambda now: due.get(round(now / PERIOD), []), 12.2)
    error = np.linalg.norm(flight[625:, :3] - flight[625:, 5:8], axis=1)
    assert np.ptp(flight[625:, 5]) > 2.0
    assert error.max() < 0.02


def test_a_place_is_flown_to_and_held():
    def script(now):
        if is_due(now, 0.1):
            yield position_setpoint(0.5, 0.5, 1.0, 45.0)

    rows = fly_script(script, 6.0)
    assert rows[-1, :4] == pytest.approx((0.5, 0.5, 1.0, np.pi / 4.0), abs=0.05)


def rpyt(roll, pitch, yaw_rate, thrust):
    return Packet(Port.ROLL_PITCH_YAW_THRUST, 0, struct.pack("<3fH", roll, pitch, yaw_rate, thrust))


def z_distance(roll, pitch, yaw_rate, height):
    return Packet(Port.SETPOINTS, 0, b"\x09" + struct.pack("<4f", roll, pitch, yaw_rate, height))


def test_an_attitude_at_a_height_tilts_with_the_signs_of_the_protocol():
    """Roll is positive right side down, so to −y, and pitch positive nose up, so to −x; yaw counter-clockwise."""

    def script(now):
        if is_due(now, 0.1):
            is_tilted = 3.0 <= now < 4.0
            yield z_distance(4.0 * is_tilted, 4.0 * is_tilted, 20.0 * (4.0 <= now < 5.0), 0.5)

    rows = fly_script(script, 6.0)
    assert row_at_time(rows, 3.0)[2] == pytest.approx(0.5, abs=0.05)
    assert row_at_time(rows, 5.9)[2] == pytest.approx(0.5, abs=0.08)
    displacement = row_at_time(rows, 4.5)[:2] - row_at_time(rows, 3.0)[:2]
    assert displacement[0] < -0.05
    assert displacement[1] < -0.05
    assert row_at_time(rows, 5.9)[3] == pytest.approx(np.radians(20.0), abs=0.03)


def test_roll_pitch_yaw_and_thrust_have_the_signs_of_the_protocol():
    """Thrust above and below the weight, pitch nose up, and a yaw rate that is positive clockwise."""
    hover_fraction = 0.5  # of the full thrust, as the server of these tests is configured

    def script(now):
        if is_due(now, 0.02):
            factor = 1.15 if now < 1.0 else 0.85 if now < 2.0 else 1.0
            thrust = 0 if now < 0.1 else round(65535 * hover_fraction * factor)
            yield rpyt(0.0, 4.0 if now > 2.0 else 0.0, 20.0 if 2.0 < now < 3.0 else 0.0, thrust)

    rows = fly_script(script, 4.5)
    assert row_at_time(rows, 2.0)[2] > 0.3
    assert row_at_time(rows, 3.4)[0] < -0.05
    assert row_at_time(rows, 4.4)[3] == pytest.approx(-np.radians(20.0), abs=0.03)
