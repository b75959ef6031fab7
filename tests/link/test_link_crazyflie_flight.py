"""A simulated Crazyflie flown packet by packet, without a socket or a clock: it goes where it is asked, and stops in time."""

import struct

import numpy as np
import pytest

import samara
from samara.core.algebra import IDENTITY, ZERO, Vec3
from samara.link.crazyflie.endpoint import Endpoint
from samara.link.crazyflie.packet import Packet, Port
from samara.link.readings import Readings
from samara.link.thrust import outputs_code
from samara.physics.types import State
from samara.scenario.scenario_file import parse_scenario

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
    """p (n, 3), yaw and what is wanted every 4 ms; `script(now)` gives the packets of an instant"""
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
        seen.append((*state.p_W, endpoint.known.euler.yaw, endpoint.known.wanted.mode))
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


def test_a_place_is_flown_to_and_held():
    def script(now):
        if every(now, 0.1):
            yield place(0.5, 0.5, 1.0, 45.0)

    rows = flown(script, 6.0)
    assert rows[-1, :4] == pytest.approx((0.5, 0.5, 1.0, np.pi / 4.0), abs=0.05)


# The supervisor -----------------------------------------------------------------------------------------------------

STANDING = Readings(
    0, Vec3(0.0, 0.0, 9.8), ZERO, None, None, None, State(ZERO, ZERO, IDENTITY, ZERO), rotor_speed=(0.0,) * 4
)
ARMED, FLYING, LOCKED = 1 << 1, 1 << 4, 1 << 6


def status(endpoint):
    (answer,) = endpoint.answers(Packet(Port.SUPERVISOR, 0, b"\x0c"))
    assert answer.data[0] == 0x8C
    return int.from_bytes(answer.data[1:], "little")


def turning(endpoint, time):
    """Whether the rotors get anything at this time, with a setpoint that asks for it"""
    list(endpoint.answers(hover(0.0, 0.0, 0.0, 0.5)))
    return any(endpoint.fly(STANDING._replace(time_us=round(1e6 * time))))


def test_the_supervisor_disarms_and_stops_for_good():
    endpoint = Endpoint(samara.vehicle("crazyflie"), 0.5, PERIOD)
    assert turning(endpoint, 0.0)
    assert status(endpoint) & (ARMED | FLYING) == ARMED | FLYING
    (answer,) = endpoint.answers(Packet(Port.SUPERVISOR, 1, b"\1\0"))
    assert answer.data == b"\x81\1\0"
    assert not turning(endpoint, 0.1)
    assert status(endpoint) & (ARMED | FLYING) == 0
    list(endpoint.answers(Packet(Port.PLATFORM, 0, b"\1\1")))  # as older clients arm
    assert turning(endpoint, 0.2)
    list(endpoint.answers(Packet(Port.SUPERVISOR, 1, b"\3")))
    assert not turning(endpoint, 0.3)
    assert status(endpoint) & LOCKED
    assert [own.data for own in endpoint.answers(Packet(Port.SUPERVISOR, 0, b"\7"))] == [b"\x87\1"]
    list(endpoint.answers(Packet(Port.SUPERVISOR, 1, b"\2")))  # recovers from a crash, not from that
    assert not turning(endpoint, 0.4)


def test_the_watchdog_stops_what_is_not_asked_for_again():
    endpoint = Endpoint(samara.vehicle("crazyflie"), 0.5, PERIOD)
    list(endpoint.answers(Packet(Port.LOCALISATION, 1, b"\4")))
    assert turning(endpoint, 0.9)
    list(endpoint.answers(Packet(Port.SUPERVISOR, 1, b"\4")))
    assert turning(endpoint, 1.8)
    assert not turning(endpoint, 2.0)


def test_thrust_counts_only_after_a_thrust_of_nothing():
    endpoint = Endpoint(samara.vehicle("crazyflie"), 0.5, PERIOD)

    def turns(thrust, time):
        list(endpoint.answers(Packet(Port.ROLL_PITCH_YAW_THRUST, 0, struct.pack("<3fH", 0.0, 0.0, 0.0, thrust))))
        return any(endpoint.fly(STANDING._replace(time_us=round(1e6 * time))))

    assert [turns(40000, 0.0), turns(0, 0.1), turns(40000, 0.2), turns(900, 0.3)] == [False, False, True, False]
