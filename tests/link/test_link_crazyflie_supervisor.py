"""The supervisor by the firmware's rules: crashed, levelling out, locked, recovered; and the commander after setpoints end."""

import errno
import struct

import pytest

import samara
from samara.core.algebra import IDENTITY, ZERO, Vec3
from samara.link.crazyflie.crtp import Packet, Port
from samara.link.crazyflie.crtp_server import CrtpServer
from samara.link.crazyflie.supervisor import Condition, G, Supervisor
from samara.link.sensor_snapshot import Readings
from samara.physics.types import State

UPRIGHT, ON_ITS_SIDE, UPSIDE_DOWN = Vec3(0.0, 0.0, G), Vec3(G, 0.0, 0.1 * G), Vec3(0.0, 0.0, -G)
PERIOD = 4e-3
STANDING = Readings(
    0, Vec3(0.0, 0.0, 9.8), ZERO, None, None, None, State(ZERO, ZERO, IDENTITY, ZERO), rotor_speed=(0.0,) * 4
)
HOVER = Packet(Port.SETPOINTS, 0, b"\x0a" + struct.pack("<4f", 0.0, 0.0, 0.0, 0.5))
TAKE_OFF = Packet(Port.HIGH_LEVEL, 0, struct.pack("<BBff?f", 7, 0, 0.5, 0.0, True, 2.0))
NO_MORE_SETPOINTS = Packet(Port.SETPOINTS, 1, struct.pack("<BI", 0, 0))
ARMED, MAY_FLY, FLYING, TUMBLED, LOCKED, CRASHED = (1 << bit for bit in (1, 3, 4, 5, 6, 7))


class Instants:
    """A supervisor advanced in steps of 10 ms."""

    def __init__(self):
        self.supervisor, self.now = Supervisor(), 0.0

    def advance(self, seconds, force_B=UPRIGHT, age=0.0, turning=True):
        for _ in range(round(seconds / 0.01)):
            self.now += 0.01
            self.supervisor.update(self.now, force_B, age, turning)
        return self.supervisor.condition


def test_it_flies_while_its_motors_turn_and_two_seconds_longer():
    instants = Instants()
    assert instants.advance(1.0, turning=False) is Condition.READY
    assert instants.advance(1.0) is Condition.FLYING
    assert instants.advance(1.9, turning=False) is Condition.FLYING
    assert instants.advance(0.2, turning=False) is Condition.READY


@pytest.mark.parametrize("force_B, seconds", [(ON_ITS_SIDE, 1.0), (UPSIDE_DOWN, 0.1)])
def test_a_drone_that_tumbles_in_flight_has_crashed_and_recovers_upright(force_B, seconds):
    instants = Instants()
    instants.advance(1.0)
    assert instants.advance(seconds - 0.02, force_B) is Condition.FLYING
    assert instants.advance(0.05, force_B) is Condition.CRASHED
    assert not instants.supervisor.may_fly
    assert not instants.supervisor.recover()  # it still lies there
    assert instants.advance(0.1, UPRIGHT, turning=False) is Condition.CRASHED
    assert instants.supervisor.recover()
    assert instants.advance(0.01, UPRIGHT, turning=False) is not Condition.CRASHED
    assert instants.supervisor.may_fly


def test_in_free_fall_it_has_not_tumbled():
    instants = Instants()
    instants.advance(1.0)
    assert instants.advance(2.0, ZERO) is Condition.FLYING
    assert not instants.supervisor.tumbled


def test_on_its_side_on_the_ground_it_may_not_fly_and_has_not_crashed():
    instants = Instants()
    assert instants.advance(2.0, ON_ITS_SIDE, turning=False) is Condition.READY
    assert not instants.supervisor.may_fly
    assert instants.advance(0.1, UPRIGHT, turning=False) is Condition.READY
    assert instants.supervisor.may_fly


def test_without_setpoints_it_levels_out_and_is_locked():
    instants = Instants()
    instants.advance(1.0)
    assert instants.advance(0.1, age=0.6) is Condition.LEVEL
    assert instants.advance(0.1) is Condition.FLYING
    assert instants.advance(0.1, age=1.9) is Condition.LEVEL
    assert instants.advance(0.1, age=2.1) is Condition.LOCKED
    assert instants.advance(5.0) is Condition.LOCKED


def test_a_drone_that_tumbles_without_setpoints_is_locked():
    instants = Instants()
    instants.advance(1.0)
    instants.advance(0.1, age=0.6)
    assert instants.advance(0.2, UPSIDE_DOWN, age=0.6) is Condition.LOCKED


def test_old_setpoints_lock_nothing_that_stands():
    assert Instants().advance(5.0, age=10.0, turning=False) is Condition.READY


@pytest.mark.parametrize(("share", "tumbled"), [(0.499, True), (0.501, False)])
def test_half_of_the_firmwares_g_is_upright(share, tumbled):
    """f_z < 0.5 · 9.81 m/s² for a second (GRAVITY_MAGNITUDE of its physicalConstants.h) is tumbled."""
    supervisor = Supervisor()
    for k in range(15):
        supervisor.update(0.1 * k, Vec3(5.0, 0.0, share * 9.81), 0.0, motors_running=False)
    assert supervisor.tumbled is tumbled


# On the wire --------------------------------------------------------------------------------------------------------


@pytest.fixture
def endpoint():
    return CrtpServer(samara.vehicle("crazyflie"), 0.5, PERIOD)


def status(server):
    (answer,) = server.answer_packet(Packet(Port.SUPERVISOR, 0, b"\x0c"))
    assert answer.data[0] == 0x8C
    return int.from_bytes(answer.data[1:], "little")


def rotors_turn_after(server, end_time, *packets, force_B=STANDING.specific_force_B):
    """Whether the rotors get an output at the last instant, with these packets at every instant, 0.1 s apart."""
    now, outputs = server.commander.now, ()
    while now < end_time - 1e-9:
        now += 0.1
        for packet in packets:
            list(server.answer_packet(packet))
        outputs = server.fly(STANDING._replace(time_us=round(1e6 * now), specific_force_B=force_B))
    return any(outputs)


def console_text(server):
    return b"".join(packet.data for packet in server.due_packets() if packet.port == Port.CONSOLE).decode()


def test_it_is_disarmed_and_stopped_permanently(endpoint):
    assert rotors_turn_after(endpoint, 0.2, HOVER)
    assert status(endpoint) & (ARMED | FLYING) == ARMED | FLYING
    (answer,) = endpoint.answer_packet(Packet(Port.SUPERVISOR, 1, b"\1\0"))
    assert answer.data == b"\x81\1\0"
    assert not rotors_turn_after(endpoint, 0.3, HOVER)
    assert status(endpoint) & (ARMED | FLYING | MAY_FLY) == 0
    list(endpoint.answer_packet(Packet(Port.PLATFORM, 0, b"\1\1")))  # as older clients arm
    assert rotors_turn_after(endpoint, 0.4, HOVER)
    list(endpoint.answer_packet(Packet(Port.SUPERVISOR, 1, b"\3")))
    assert not rotors_turn_after(endpoint, 0.5, HOVER)
    assert status(endpoint) & LOCKED
    assert [answer_packet.data for answer_packet in endpoint.answer_packet(Packet(Port.SUPERVISOR, 0, b"\7"))] == [
        b"\x87\1"
    ]
    assert "Locked" in console_text(endpoint)
    list(endpoint.answer_packet(Packet(Port.SUPERVISOR, 1, b"\2")))  # recovers from a crash, not from an emergency stop
    assert not rotors_turn_after(endpoint, 0.6, HOVER)
    assert next(endpoint.answer_packet(TAKE_OFF)).data[-1] == errno.EBUSY


def test_a_crash_stops_it_until_a_client_requests_recovery(endpoint):
    assert rotors_turn_after(endpoint, 0.5, HOVER)
    assert not rotors_turn_after(endpoint, 0.9, HOVER, force_B=UPSIDE_DOWN)
    assert status(endpoint) & (TUMBLED | CRASHED) == TUMBLED | CRASHED
    assert "Crashed" in console_text(endpoint)
    assert [answer_packet.data for answer_packet in endpoint.answer_packet(Packet(Port.SUPERVISOR, 1, b"\2"))] == [
        b"\x82\0\0"
    ]
    assert not rotors_turn_after(endpoint, 1.2, HOVER)
    assert [answer_packet.data for answer_packet in endpoint.answer_packet(Packet(Port.SUPERVISOR, 1, b"\2"))] == [
        b"\x82\1\1"
    ]
    assert rotors_turn_after(endpoint, 1.4, HOVER)


def test_the_watchdog_stops_a_drone_when_it_is_not_reset(endpoint):
    list(endpoint.answer_packet(Packet(Port.LOCALISATION, 1, b"\4")))
    assert rotors_turn_after(endpoint, 0.9, HOVER)
    list(endpoint.answer_packet(Packet(Port.SUPERVISOR, 1, b"\4")))
    assert rotors_turn_after(endpoint, 1.8, HOVER)
    assert not rotors_turn_after(endpoint, 2.0, HOVER)


def test_a_parameter_stops_it_too(endpoint):
    assert rotors_turn_after(endpoint, 0.2, HOVER)
    list(endpoint.answer_packet(Packet(Port.PARAMETERS, 3, b"\0stabilizer\0stop\0\x08\1")))
    assert not rotors_turn_after(endpoint, 0.3, HOVER)


def test_thrust_counts_only_after_zero_thrust(endpoint):
    def rpyt_packet(thrust):
        return Packet(Port.ROLL_PITCH_YAW_THRUST, 0, struct.pack("<3fH", 0.0, 0.0, 0.0, thrust))

    rotors_turn = [
        rotors_turn_after(endpoint, 0.1 * (1 + k), rpyt_packet(thrust))
        for k, thrust in enumerate((40000, 0, 40000, 900))
    ]
    assert rotors_turn == [False, False, True, False]


def test_orders_count_after_setpoints_when_the_client_has_announced_their_end(endpoint):
    """As on the aircraft, where a script that forgets it falls: the planner plans, but the setpoint is flown."""
    assert rotors_turn_after(endpoint, 0.3, HOVER)
    assert next(endpoint.answer_packet(TAKE_OFF)).data[-1] == 0
    rotors_turn_after(endpoint, 0.4)
    assert endpoint.commander.controller_setpoint.reference.p_W.z < 0.4
    planned_curve = endpoint.commander.planner.planned_curve
    assert endpoint.commander.controller_setpoint.reference != planned_curve.reference(endpoint.commander.now)
    list(endpoint.answer_packet(NO_MORE_SETPOINTS))
    rotors_turn_after(endpoint, 0.5)
    assert endpoint.commander.controller_setpoint.reference == planned_curve.reference(endpoint.commander.now)
    assert rotors_turn_after(endpoint, 3.0)  # and no setpoint times out


def test_a_new_client_is_greeted_on_the_console(endpoint):
    endpoint.greet_client()
    packets = [packet for packet in endpoint.due_packets() if packet.port == Port.CONSOLE]
    text = b"".join(packet.data for packet in packets).decode("ascii")
    assert text == "Samara flies crazyflie, the supervisor is ready\n"
    assert all(len(packet.data) <= 30 and packet.channel == 0 for packet in packets)
    assert console_text(endpoint) == ""
