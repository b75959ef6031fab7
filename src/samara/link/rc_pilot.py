"""A pilot at the sticks: from where the drone is and should be to sixteen radio channels, for an autopilot that holds angles.

    a = ω² (p_ref − p) + 2 ω (v_ref − v) + ∫ + a_ref,   roll = ∠(g + a_z, −a_left),   pitch = ∠(g + a_z, a_forward),
    throttle = u_hover (1 + a_z/g) / (cos roll cos pitch)

Channels are in µs, 1000 … 2000, in the order roll, pitch, throttle, yaw, then switches: 1 arms, 2 is the angle mode. A stick
above its middle rolls right, pitches the nose down, turns clockwise.
"""

import math

from samara.core.algebra import ZERO, Vec3, norm, rotate_inverse, scale
from samara.core.ops import wrap_angle
from samara.link.sensor_snapshot import Readings
from samara.physics.frames import yaw_from_quat
from samara.physics.types import Vehicle
from samara.vehicles.exchange.thrust_scale import hover_output

CHANNELS = 16
LOW, MIDDLE, HIGH = 1000, 1500, 2000
FREQUENCY = Vec3(
    1.5, 1.5, 2.5
)  # [rad/s], of the position loop: slower than any autopilot's attitude; critically damped
INTEGRAL, MOST_INTEGRAL, NEAR = 0.4, 3.0, 0.3  # [1/s³], [m/s²], [m]: further away it waits
FURTHEST = 1.5  # [m]: what is further away is approached at the speed this gives
FULL_ANGLE, MOST_ANGLE = math.radians(60.0), math.radians(30.0)  # what a full stick asks for, and what is asked at most
FULL_RATE, YAW_GAIN = math.radians(200.0), 1.5  # [rad/s] at a full stick, [1/s]
LEAST_THROTTLE = 0.05
STANDS_US = 500_000  # motors that stand so long are disarmed
TRY_US, SWITCH_DOWN_US = 2_000_000, 500_000  # an arm switch that was up too early must go down first


class Sticks:
    """The pilot's hands. With `armed` the arm switch goes up, throttle down, again and again until the motors turn."""

    def __init__(self, vehicle: Vehicle, hover: float) -> None:
        self._hover = hover_output(vehicle, hover)
        self._gravity = float(vehicle["gravity"].acceleration)
        self._integral, self._last_us, self._turned_us = ZERO, -1, -TRY_US
        self.armed = False

    def channels(self, readings: Readings, turning: bool) -> list[int]:
        """Sixteen channels [µs]; `turning` tells whether the motors turn, and so whether it is armed"""
        if turning:
            self._turned_us = readings.time_us
        if not self.armed or readings.time_us - self._turned_us > STANDS_US:
            self._integral, self._last_us = ZERO, readings.time_us
            up = self.armed and readings.time_us % TRY_US >= SWITCH_DOWN_US
            return [MIDDLE, MIDDLE, LOW, MIDDLE, HIGH if up else LOW, HIGH, *(LOW,) * (CHANNELS - 6)]
        roll, pitch, throttle, turn = self._deflections(readings)
        aetr = (channel(roll), channel(pitch), LOW + round((HIGH - LOW) * throttle), channel(turn))
        return [*aetr, HIGH, HIGH, *(LOW,) * (CHANNELS - 6)]

    def _deflections(self, r: Readings) -> tuple[float, float, float, float]:
        state, wanted = r.state, r.wanted
        dt = max(0.0, (r.time_us - self._last_us) / 1e6) if self._last_us >= 0 else 0.0
        self._last_us = r.time_us
        away = Vec3(*(min(max(x, -FURTHEST), FURTHEST) for x in wanted.p_W - state.p_W))
        if norm(away) < NEAR:
            grown = self._integral + away * (INTEGRAL * dt)
            self._integral = Vec3(*(min(max(x, -MOST_INTEGRAL), MOST_INTEGRAL) for x in grown))
        pull = scale(scale(FREQUENCY, FREQUENCY), away) + scale(FREQUENCY, wanted.v_W - state.v_W) * 2.0
        a_W = pull + self._integral + wanted.a_W
        yaw = float(yaw_from_quat(state.q_WB))
        forward = a_W.x * math.cos(yaw) + a_W.y * math.sin(yaw)
        left = -a_W.x * math.sin(yaw) + a_W.y * math.cos(yaw)
        lift = max(self._gravity + a_W.z, 0.3 * self._gravity)
        roll, pitch = (min(max(math.atan2(a, lift), -MOST_ANGLE), MOST_ANGLE) for a in (-left, forward))
        upright = max(rotate_inverse(state.q_WB, Vec3(0.0, 0.0, 1.0)).z, 0.5)
        throttle = min(max(self._hover * lift / self._gravity / upright, LEAST_THROTTLE), 1.0)
        off = float(wrap_angle(wanted.yaw - yaw))
        turn = -(YAW_GAIN * off + wanted.yaw_rate) / FULL_RATE  # clockwise is the other way round from ours
        return roll / FULL_ANGLE, pitch / FULL_ANGLE, throttle, min(max(turn, -0.5), 0.5)


def channel(deflection: float) -> int:
    """µs of a stick at −1 … 1"""
    return min(max(round(MIDDLE + (HIGH - MIDDLE) * deflection), LOW), HIGH)
