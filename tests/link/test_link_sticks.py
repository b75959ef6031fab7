"""The automatic pilot's sticks: the control law in closed form, channel by channel, and each of its limits."""

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


def readings(state=STILL, reference=None, time_us=0):
    return Readings(time_us, ZERO, ZERO, None, 101325.0, None, state, reference or Reference(state.p_W))


def armed_pilot():
    pilot = AutomaticPilot(samara.vehicle("hakoniwa"), HOVER)
    pilot.armed = True
    return pilot


def expected_sticks(state, reference, integral=(0.0, 0.0, 0.0)):
    """Roll right, nose down and clockwise deflections, and throttle: from g + a in the heading frame, by matrices."""
    attitude = Rotation.from_quat(np.roll(np.array(state.q_WB), -1))
    yaw = attitude.as_euler("ZYX")[0]
    position_error, velocity_error = (
        np.array(getattr(reference, x)) - np.array(getattr(state, x)) for x in ("p_W", "v_W")
    )
    a = W**2 * position_error + 2.0 * W * velocity_error + np.array(reference.a_W) + np.array(integral)
    forward, left, up = Rotation.from_euler("z", -yaw).apply(a + np.array([0.0, 0.0, G]))
    angles = np.degrees([math.atan2(-left, up), math.atan2(forward, up)])
    yaw_error = math.remainder(reference.yaw - yaw, 2.0 * math.pi)
    return (
        *angles / 60.0,
        HOVER * up / G / attitude.as_matrix()[2, 2],
        -np.degrees(1.5 * yaw_error + reference.yaw_rate) / 200.0,
    )


def deflections(channels):
    """Deflections of the first four channels [µs]: ±1 for roll, pitch and yaw, 0 … 1 for throttle."""
    roll, pitch, throttle, yaw = channels[:4]
    return (roll - 1500) / 500, (pitch - 1500) / 500, (throttle - 1000) / 1000, (yaw - 1500) / 500


@pytest.mark.parametrize("yaw", [0.0, 0.6, -2.5])
@pytest.mark.parametrize(
    "reference",
    [
        Reference(Vec3(0.4, 0.3, 2.2)),
        Reference(Vec3(0.0, 0.0, 2.0), v_W=Vec3(0.5, -0.4, 0.3)),
        Reference(Vec3(0.0, 0.0, 2.0), a_W=Vec3(-0.8, 0.6, 0.4), yaw=0.2, yaw_rate=0.3),
    ],
)
def test_sticks_are_the_law(yaw, reference):
    """Critically damped about the reference, in the current heading; throttle compensates the tilt. To 1 µs of a channel."""
    state = STILL._replace(q_WB=quat_from_euler(0.15, -0.1, yaw), v_W=Vec3(0.2, 0.1, -0.1))
    reference = reference._replace(yaw=reference.yaw + yaw)
    channels = armed_pilot().channels(readings(state, reference), True)
    assert deflections(channels) == pytest.approx(expected_sticks(state, reference), abs=1.01e-3)
    assert channels[4:] == [2000, 2000, *(1000,) * 10]


def test_a_far_position_counts_as_one_and_a_half_metres_away():
    """Each axis separately."""
    far, near = Reference(Vec3(0.5, -30.0, 9.0)), Reference(Vec3(0.5, -1.5, 3.5))
    assert armed_pilot().channels(readings(reference=far), True) == armed_pilot().channels(
        readings(reference=near), True
    )
    assert (
        armed_pilot().channels(readings(reference=Reference(Vec3(-1.5, 0.0, 2.0))), True)[1]
        == armed_pilot().channels(readings(reference=Reference(Vec3(-8.0, 0.0, 2.0))), True)[1]
    )


def test_tilt_is_limited_to_thirty_degrees_and_yaw_to_half_the_stick():
    reference = Reference(STILL.p_W, a_W=Vec3(9.0, -9.0, 0.0), yaw=3.0, yaw_rate=3.0)
    roll, pitch, _, yaw = deflections(armed_pilot().channels(readings(reference=reference), True))
    assert (roll, pitch, yaw) == pytest.approx((0.5, 0.5, -0.5), abs=1.01e-3)
    opposite = Reference(STILL.p_W, a_W=Vec3(-9.0, 9.0, 0.0), yaw=-3.0, yaw_rate=-3.0)
    roll, pitch, _, yaw = deflections(armed_pilot().channels(readings(reference=opposite), True))
    assert (roll, pitch, yaw) == pytest.approx((-0.5, -0.5, 0.5), abs=1.01e-3)


def test_throttle_stays_between_a_little_and_all():
    """At least 0.3 g of thrust, on its side at most that for 60°, and always from 5 % to 100 %."""
    down, up = (Reference(STILL.p_W, a_W=Vec3(0.0, 0.0, a)) for a in (-30.0, 30.0))
    assert deflections(armed_pilot().channels(readings(reference=down), True))[2] == pytest.approx(
        0.3 * HOVER, abs=1e-3
    )
    assert deflections(armed_pilot().channels(readings(reference=up), True))[2] == 1.0
    side = STILL._replace(q_WB=quat_from_euler(math.radians(85.0), 0.0, 0.0))
    assert deflections(armed_pilot().channels(readings(side), True))[2] == 1.0
    weak = AutomaticPilot(samara.vehicle("hakoniwa"), HOVER)
    weak.armed, weak._hover = True, 0.1
    assert deflections(weak.channels(readings(reference=down), True))[2] == 0.05


def test_near_the_place_a_lasting_error_is_integrated():
    """∫ 0.4/s³ of an error below 0.3 m, limited to 3 m/s²; above it the integral pauses, and disarming resets it."""
    pilot, near = armed_pilot(), Reference(Vec3(0.0, 0.1, 2.0))
    for k in range(21):
        channels = pilot.channels(readings(reference=near, time_us=k * 100_000), True)
    integral = 0.4 * 0.1 * 2.0
    assert deflections(channels) == pytest.approx(expected_sticks(STILL, near, (0.0, integral, 0.0)), abs=1.01e-3)
    far = Reference(Vec3(0.0, 0.4, 2.0))
    for k in range(21, 41):
        channels = pilot.channels(readings(reference=far, time_us=k * 100_000), True)
    assert deflections(channels) == pytest.approx(expected_sticks(STILL, far, (0.0, integral, 0.0)), abs=1.01e-3)
    for k in range(41, 1200):
        channels = pilot.channels(readings(reference=near, time_us=k * 100_000), True)
    assert deflections(channels) == pytest.approx(expected_sticks(STILL, near, (0.0, 3.0, 0.0)), abs=1.01e-3)
    pilot.channels(readings(time_us=121_000_000), False)
    channels = pilot.channels(readings(reference=near, time_us=121_000_000), True)
    assert deflections(channels) == pytest.approx(expected_sticks(STILL, near), abs=1.01e-3)


def test_motors_that_stand_for_half_a_second_are_disarmed():
    """Until then the sticks continue; then throttle low, and the arm switch high for three quarters of every two seconds."""
    pilot = armed_pilot()
    pilot.channels(readings(time_us=10_000_000), True)
    assert pilot.channels(readings(time_us=10_500_000), False)[2] == 1500
    assert pilot.channels(readings(time_us=10_500_001), False)[2:5] == [1000, 1500, 2000]
    assert [pilot.channels(readings(time_us=t), False)[4] for t in (12_000_000, 12_499_999, 12_500_000)] == [
        1000,
        1000,
        2000,
    ]
