"""The pilot's sticks: the law in closed form, channel by channel, and each of its limits."""

import math

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import samara
from samara.core.algebra import ZERO, Vec3, quat_from_euler
from samara.link.sensor_snapshot import Readings
from samara.link.stick_controller import AutomaticPilot
from samara.physics.types import Reference, State

W = np.array([1.5, 1.5, 2.5])  # [rad/s]
G, HOVER = 9.81, 0.5
STILL = State(Vec3(0.0, 0.0, 2.0), ZERO, quat_from_euler(0.0, 0.0, 0.0), ZERO)


def readings(state=STILL, wanted=None, time_us=0):
    return Readings(time_us, ZERO, ZERO, None, 101325.0, None, state, wanted or Reference(state.p_W))


def sticks():
    own = AutomaticPilot(samara.vehicle("hakoniwa"), HOVER)
    own.armed = True
    return own


def law(state, wanted, integral=(0.0, 0.0, 0.0)):
    """Roll right, nose down and clockwise of full sticks, and throttle: of g + a seen from the heading, by matrices"""
    attitude = Rotation.from_quat(np.roll(np.array(state.q_WB), -1))
    yaw = attitude.as_euler("ZYX")[0]
    away, slower = (np.array(getattr(wanted, x)) - np.array(getattr(state, x)) for x in ("p_W", "v_W"))
    a = W**2 * away + 2.0 * W * slower + np.array(wanted.a_W) + np.array(integral)
    forward, left, up = Rotation.from_euler("z", -yaw).apply(a + np.array([0.0, 0.0, G]))
    angles = np.degrees([math.atan2(-left, up), math.atan2(forward, up)])
    turn = math.remainder(wanted.yaw - yaw, 2.0 * math.pi)
    return (
        *angles / 60.0,
        HOVER * up / G / attitude.as_matrix()[2, 2],
        -np.degrees(1.5 * turn + wanted.yaw_rate) / 200.0,
    )


def deflections(channels):
    """What the first four channels [µs] say: ±1 of roll, pitch and yaw, 0 … 1 of throttle"""
    roll, pitch, throttle, yaw = channels[:4]
    return (roll - 1500) / 500, (pitch - 1500) / 500, (throttle - 1000) / 1000, (yaw - 1500) / 500


@pytest.mark.parametrize("yaw", [0.0, 0.6, -2.5])
@pytest.mark.parametrize(
    "wanted",
    [
        Reference(Vec3(0.4, 0.3, 2.2)),
        Reference(Vec3(0.0, 0.0, 2.0), v_W=Vec3(0.5, -0.4, 0.3)),
        Reference(Vec3(0.0, 0.0, 2.0), a_W=Vec3(-0.8, 0.6, 0.4), yaw=0.2, yaw_rate=0.3),
    ],
)
def test_sticks_are_the_law(yaw, wanted):
    """Critically damped about the reference, in the heading there is; a lean is paid for by throttle. To 1 µs of a channel."""
    state = STILL._replace(q_WB=quat_from_euler(0.15, -0.1, yaw), v_W=Vec3(0.2, 0.1, -0.1))
    wanted = wanted._replace(yaw=wanted.yaw + yaw)
    channels = sticks().channels(readings(state, wanted), True)
    assert deflections(channels) == pytest.approx(law(state, wanted), abs=1.01e-3)
    assert channels[4:] == [2000, 2000, *(1000,) * 10]


def test_a_place_far_away_is_one_and_a_half_metres_away():
    """Each axis by itself"""
    far, near = Reference(Vec3(0.5, -30.0, 9.0)), Reference(Vec3(0.5, -1.5, 3.5))
    assert sticks().channels(readings(wanted=far), True) == sticks().channels(readings(wanted=near), True)
    assert (
        sticks().channels(readings(wanted=Reference(Vec3(-1.5, 0.0, 2.0))), True)[1]
        == sticks().channels(readings(wanted=Reference(Vec3(-8.0, 0.0, 2.0))), True)[1]
    )


def test_a_lean_is_at_most_thirty_degrees_and_a_turn_half_the_stick():
    hard = Reference(STILL.p_W, a_W=Vec3(9.0, -9.0, 0.0), yaw=3.0, yaw_rate=3.0)
    roll, pitch, _, turn = deflections(sticks().channels(readings(wanted=hard), True))
    assert (roll, pitch, turn) == pytest.approx((0.5, 0.5, -0.5), abs=1.01e-3)
    other = Reference(STILL.p_W, a_W=Vec3(-9.0, 9.0, 0.0), yaw=-3.0, yaw_rate=-3.0)
    roll, pitch, _, turn = deflections(sticks().channels(readings(wanted=other), True))
    assert (roll, pitch, turn) == pytest.approx((-0.5, -0.5, 0.5), abs=1.01e-3)


def test_throttle_stays_between_a_little_and_all():
    """Never less than 0.3 g of lift, on its side no more than for 60°, and never below 5 %, above 100 %"""
    down, up = (Reference(STILL.p_W, a_W=Vec3(0.0, 0.0, a)) for a in (-30.0, 30.0))
    assert deflections(sticks().channels(readings(wanted=down), True))[2] == pytest.approx(0.3 * HOVER, abs=1e-3)
    assert deflections(sticks().channels(readings(wanted=up), True))[2] == 1.0
    side = STILL._replace(q_WB=quat_from_euler(math.radians(85.0), 0.0, 0.0))
    assert deflections(sticks().channels(readings(side), True))[2] == 1.0
    weak = AutomaticPilot(samara.vehicle("hakoniwa"), HOVER)
    weak.armed, weak._hover = True, 0.1
    assert deflections(weak.channels(readings(wanted=down), True))[2] == 0.05


def test_near_the_place_a_lasting_error_is_integrated():
    """∫ 0.4/s³ of an error less than 0.3 m away, at most 3 m/s²; further away it waits, and disarmed it is forgotten."""
    own, near = sticks(), Reference(Vec3(0.0, 0.1, 2.0))
    for k in range(21):
        channels = own.channels(readings(wanted=near, time_us=k * 100_000), True)
    integral = 0.4 * 0.1 * 2.0
    assert deflections(channels) == pytest.approx(law(STILL, near, (0.0, integral, 0.0)), abs=1.01e-3)
    far = Reference(Vec3(0.0, 0.4, 2.0))
    for k in range(21, 41):
        channels = own.channels(readings(wanted=far, time_us=k * 100_000), True)
    assert deflections(channels) == pytest.approx(law(STILL, far, (0.0, integral, 0.0)), abs=1.01e-3)
    for k in range(41, 1200):
        channels = own.channels(readings(wanted=near, time_us=k * 100_000), True)
    assert deflections(channels) == pytest.approx(law(STILL, near, (0.0, 3.0, 0.0)), abs=1.01e-3)
    own.channels(readings(time_us=121_000_000), False)
    channels = own.channels(readings(wanted=near, time_us=121_000_000), True)
    assert deflections(channels) == pytest.approx(law(STILL, near), abs=1.01e-3)


def test_motors_that_stand_for_half_a_second_are_disarmed():
    """Until then the sticks go on; then throttle down, and the switch up again in three quarters of every two seconds"""
    own = sticks()
    own.channels(readings(time_us=10_000_000), True)
    assert own.channels(readings(time_us=10_500_000), False)[2] == 1500
    assert own.channels(readings(time_us=10_500_001), False)[2:5] == [1000, 1500, 2000]
    assert [own.channels(readings(time_us=t), False)[4] for t in (12_000_000, 12_499_999, 12_500_000)] == [
        1000,
        1000,
        2000,
    ]
