"""The supervisor by the firmware's rules: crashed, levelled out, locked, ready again; and who flies when setpoints end."""

import errno
import struct

import pytest

import samara
from samara.core.algebra import IDENTITY, ZERO, Vec3
from samara.link.crazyflie.crtp import Packet, Port
from samara.link.crazyflie.crtp_server import Endpoint
from samara.link.crazyflie.supervisor import Condition, G, Supervisor
from samara.link.sensor_snapshot import Readings
from samara.physics.types import State

UPRIGHT, ASIDE, UPSIDE_DOWN = Vec3(0.0, 0.0, G), Vec3(G, 0.0, 0.1 * G), Vec3(0.0, 0.0, -G)
PERIOD = 4e-3
STANDING = Readings(
    0, Vec3(0.0, 0.0, 9.8), ZERO, None, None, None, State(ZERO, ZERO, IDENTITY, ZERO), rotor_speed=(0.0,) * 4
)
HOVER = Packet(Port.SETPOINTS, 0, b"\x0a" + struct.pack("<4f", 0.0, 0.0, 0.0, 0.5))
TAKE_OFF = Packet(Port.HIGH_LEVEL, 0, struct.pack("<BBff?f", 7, 0, 0.5, 0.0, True, 2.0))
NO_MORE = Packet(Port.SETPOINTS, 1, struct.pack("<BI", 0, 0))
ARMED, MAY_FLY, FLYING, TUMBLED, LOCKED, CRASHED = (1 << bit for bit in (1, 3, 4, 5, 6, 7))


class Instants:
    """A supervisor moved on in steps of 10 ms"""

    def __init__(self):
        self.own, self.now = Supervisor(), 0.0

    def after(self, seconds, force_B=UPRIGHT, age=0.0, turning=True):
        for _ in range(round(seconds / 0.01)):
            self.now += 0.01
            self.own.update(self.now, force_B, age, turning)
        return self.own.condition


def test_it_flies_while_its_motors_turn_and_two_seconds_longer():
    instants = Instants()
    assert instants.after(1.0, turning=False) is Condition.READY
    assert instants.after(1.0) is Condition.FLYING
    assert instants.after(1.9, turning=False) is Condition.FLYING
    assert instants.after(0.2, turning=False) is Condition.READY


@pytest.mark.parametrize("force_B, seconds", [(ASIDE, 1.0), (UPSIDE_DOWN, 0.1)])
def test_who_tumbles_in_flight_has_crashed_and_recovers_upright(force_B, seconds):
    instants = Instants()
    instants.after(1.0)
    assert instants.after(seconds - 0.02, force_B) is Condition.FLYING
    assert instants.after(0.05, force_B) is Condition.CRASHED
    assert not instants.own.may_fly
    assert not instants.own.recover()  # it still lies there
    assert instants.after(0.1, UPRIGHT, turning=False) is Condition.CRASHED
    assert instants.own.recover()
    assert instants.after(0.01, UPRIGHT, turning=False) is not Condition.CRASHED
    assert instants.own.may_fly


def test_in_free_fall_it_has_not_tumbled():
    instants = Instants()
    instants.after(1.0)
    assert instants.after(2.0, ZERO) is Condition.FLYING
    assert not instants.own.tumbled


def test_on_its_side_on_the_ground_it_may_not_fly_and_has_not_crashed():
    instants = Instants()
    assert instants.after(2.0, ASIDE, turning=False) is Condition.READY
    assert not instants.own.may_fly
    assert instants.after(0.1, UPRIGHT, turning=False) is Condition.READY
    assert instants.own.may_fly


def test_without_setpoints_it_levels_out_and_is_locked():
    instants = Instants()
    instants.after(1.0)
    assert instants.after(0.1, age=0.6) is Condition.LEVEL
    assert instants.after(0.1) is Condition.FLYING
    assert instants.after(0.1, age=1.9) is Condition.LEVEL
    assert instants.after(0.1, age=2.1) is Condition.LOCKED
    assert instants.after(5.0) is Condition.LOCKED


def test_who_tumbles_while_nobody_steers_is_locked():
    instants = Instants()
    instants.after(1.0)
    instants.after(0.1, age=0.6)
    assert instants.after(0.2, UPSIDE_DOWN, age=0.6) is Condition.LOCKED


def test_old_setpoints_lock_nothing_that_stands():
    assert Instants().after(5.0, age=10.0, turning=False) is Condition.READY


@pytest.mark.parametrize(("share", "tumbled"), [(0.499, True), (0.501, False)])
def test_half_of_the_firmwares_g_is_upright(share, tumbled):
    """f_z < 0.5 · 9.81 m/s² for a second (GRAVITY_MAGNITUDE of its physicalConstants.h) is tumbled"""
    own = Supervisor()
    for k in range(15):
        own.update(0.1 * k, Vec3(5.0, 0.0, share * 9.81), 0.0, turning=False)
    assert own.tumbled is tumbled


# On the wire --------------------------------------------------------------------------------------------------------


@pytest.fixture
def endpoint():
    return Endpoint(samara.vehicle("crazyflie"), 0.5, PERIOD)


def status(endpoint):
    (answer,) = endpoint.answers(Packet(Port.SUPERVISOR, 0, b"\x0c"))
    assert answer.data[0] == 0x8C
    return int.from_bytes(answer.data[1:], "little")


def turns(endpoint, until, *packets, force_B=STANDING.specific_force_B):
    """Whether the rotors get anything at the last instant, with these packets at every one, 0.1 s from one to the next"""
    now, outputs = endpoint.commander.now, ()
    while now < until - 1e-9:
        now += 0.1
        for packet in packets:
            list(endpoint.answers(packet))
        outputs = endpoint.fly(STANDING._replace(time_us=round(1e6 * now), specific_force_B=force_B))
    return any(outputs)


def said(endpoint):
    return b"".join(own.data for own in endpoint.due() if own.port == Port.CONSOLE).decode()


def test_it_is_disarmed_and_stopped_for_good(endpoint):
    assert turns(endpoint, 0.2, HOVER)
    assert status(endpoint) & (ARMED | FLYING) == ARMED | FLYING
    (answer,) = endpoint.answers(Packet(Port.SUPERVISOR, 1, b"\1\0"))
    assert answer.data == b"\x81\1\0"
    assert not turns(endpoint, 0.3, HOVER)
    assert status(endpoint) & (ARMED | FLYING | MAY_FLY) == 0
    list(endpoint.answers(Packet(Port.PLATFORM, 0, b"\1\1")))  # as older clients arm
    assert turns(endpoint, 0.4, HOVER)
    list(endpoint.answers(Packet(Port.SUPERVISOR, 1, b"\3")))
    assert not turns(endpoint, 0.5, HOVER)
    assert status(endpoint) & LOCKED
    assert [own.data for own in endpoint.answers(Packet(Port.SUPERVISOR, 0, b"\7"))] == [b"\x87\1"]
    assert "Locked" in said(endpoint)
    list(endpoint.answers(Packet(Port.SUPERVISOR, 1, b"\2")))  # recovers from a crash, not from that
    assert not turns(endpoint, 0.6, HOVER)
    assert next(endpoint.answers(TAKE_OFF)).data[-1] == errno.EBUSY


def test_a_crash_stops_it_until_a_client_asks_for_recovery(endpoint):
    assert turns(endpoint, 0.5, HOVER)
    assert not turns(endpoint, 0.9, HOVER, force_B=UPSIDE_DOWN)
    assert status(endpoint) & (TUMBLED | CRASHED) == TUMBLED | CRASHED
    assert "Crashed" in said(endpoint)
    assert [own.data for own in endpoint.answers(Packet(Port.SUPERVISOR, 1, b"\2"))] == [b"\x82\0\0"]
    assert not turns(endpoint, 1.2, HOVER)
    assert [own.data for own in endpoint.answers(Packet(Port.SUPERVISOR, 1, b"\2"))] == [b"\x82\1\1"]
    assert turns(endpoint, 1.4, HOVER)


def test_the_watchdog_stops_what_is_not_asked_for_again(endpoint):
    list(endpoint.answers(Packet(Port.LOCALISATION, 1, b"\4")))
    assert turns(endpoint, 0.9, HOVER)
    list(endpoint.answers(Packet(Port.SUPERVISOR, 1, b"\4")))
    assert turns(endpoint, 1.8, HOVER)
    assert not turns(endpoint, 2.0, HOVER)


def test_a_parameter_stops_it_too(endpoint):
    assert turns(endpoint, 0.2, HOVER)
    list(endpoint.answers(Packet(Port.PARAMETERS, 3, b"\0stabilizer\0stop\0\x08\1")))
    assert not turns(endpoint, 0.3, HOVER)


def test_thrust_counts_only_after_a_thrust_of_nothing(endpoint):
    def asks(thrust):
        return Packet(Port.ROLL_PITCH_YAW_THRUST, 0, struct.pack("<3fH", 0.0, 0.0, 0.0, thrust))

    found = [turns(endpoint, 0.1 * (1 + k), asks(thrust)) for k, thrust in enumerate((40000, 0, 40000, 900))]
    assert found == [False, False, True, False]


def test_orders_count_after_setpoints_when_the_client_has_said_that_no_more_will_come(endpoint):
    """As on the aircraft, where the first script that forgets it falls: the planner plans, and the setpoint flies."""
    assert turns(endpoint, 0.3, HOVER)
    assert next(endpoint.answers(TAKE_OFF)).data[-1] == 0
    turns(endpoint, 0.4)
    assert endpoint.commander.wanted.reference.p_W.z < 0.4
    way = endpoint.commander.planner.way
    assert endpoint.commander.wanted.reference != way.at(endpoint.commander.now)
    list(endpoint.answers(NO_MORE))
    turns(endpoint, 0.5)
    assert endpoint.commander.wanted.reference == way.at(endpoint.commander.now)
    assert turns(endpoint, 3.0)  # and no setpoint grows old


def test_a_new_client_is_greeted_on_the_console(endpoint):
    endpoint.meet()
    packets = [own for own in endpoint.due() if own.port == Port.CONSOLE]
    text = b"".join(own.data for own in packets).decode("ascii")
    assert text == "Samara flies crazyflie, the supervisor is ready\n"
    assert all(len(own.data) <= 30 and own.channel == 0 for own in packets)
    assert said(endpoint) == ""
