"""A person flies: sticks to rotor commands by the built-in stick modes, or to the radio channels of an autopilot.

When the device disappears the failsafe takes over: the drone stops, holds its position, and descends to the ground.
"""

import math
from collections.abc import Callable
from typing import Any

from samara.control.stick_modes import MODES, PilotMemory, StickPilot, Sticks, stick_pilot
from samara.core.algebra import ZERO, Vec3, norm, rotate_inverse, scale
from samara.core.ops import wrap_angle
from samara.link.joystick import Hands
from samara.link.sensor_snapshot import Readings
from samara.physics.frames import yaw_from_quat
from samara.physics.types import Command, Reference, State, Vehicle
from samara.vehicles.exchange.throttle import hover_output

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


class AutomaticPilot:
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


HOLD_S = 1.0  # [s] from the loss of the device to the descent
DESCENT = 0.5  # [m/s]
LANDED_BELOW = 1.0  # [m]: with the setpoint this far below it, a drone at rest stands on the ground
STANDING = 0.05  # [m/s]
LOST = "the sticks are gone: failsafe, it holds its position and descends"

Tell = Callable[[str], None]


class StickController:
    """`controller(state, reference, vehicle, memory, time, dt)`: the command of a person at the sticks

    The mode is one of `samara.control.stick_modes.MODES`. The scenario's reference is not used. Recordings hold the commands.
    """

    def __init__(self, hands: Hands, mode: str = "hold", tell: Tell = lambda sentence: None) -> None:
        if mode not in MODES:
            raise ValueError(f"--sticks-mode {mode}: expected one of {', '.join(MODES)}")
        self.__name__ = f"sticks ({mode})"
        self.hands, self.mode, self._tell = hands, mode, tell
        self._lost_at: float | None = None
        self._pilots: dict[str, tuple[Vehicle, StickPilot]] = {}

    initial_memory: Any = None

    def __call__(
        self, state: State, reference: Reference, vehicle: Vehicle, memory: PilotMemory | None, time: float, dt: float
    ) -> tuple[Command, PilotMemory]:
        """The command for where the sticks are now"""
        sticks = self.hands.read()
        pilot = self._pilot(self.mode if sticks is not None else "hold", vehicle, dt)
        if sticks is None:
            sticks = self._failsafe(time, pilot.limits.climb)
        if memory is None:
            memory = pilot.initial_memory(state)
        wrench, memory = pilot.asked(state, sticks, vehicle, memory)
        return pilot.command(wrench, state, vehicle), memory

    def _pilot(self, mode: str, vehicle: Vehicle, period: float) -> StickPilot:
        """Made once for each mode: making one solves for the allocation of the rotors"""
        cached = self._pilots.get(mode)
        if cached is None or cached[0] is not vehicle or cached[1].period != period:
            self._pilots[mode] = cached = vehicle, stick_pilot(vehicle, mode, period=period)
        return cached[1]

    def _failsafe(self, time: float, climb: float) -> Sticks:
        if self._lost_at is None:
            self._lost_at = time
            self._tell(LOST)
        sinks = -DESCENT / climb if time - self._lost_at > HOLD_S else 0.0
        return Sticks(roll=0.0, pitch=0.0, yaw=0.0, throttle=max(sinks, -1.0))

    def radio(self, vehicle: Vehicle, hover: float) -> "RadioSticks":
        """The same hands on a radio, for an autopilot that takes channels"""
        return RadioSticks(self.hands, self.mode, vehicle, hover, self._tell)


class RadioSticks:
    """Sixteen radio channels from a person's sticks, in place of the automatic pilot of `samara.link.stick_controller`.

    Roll, pitch, throttle, yaw, then the arm switch and the angle mode. A throttle that springs back is at hover in its middle.
    """

    def __init__(self, hands: Hands, mode: str, vehicle: Vehicle, hover: float, tell: Tell) -> None:
        if mode not in ("rate", "angle"):
            raise ValueError(f"--sticks-mode {mode}: Betaflight has no such mode; expected rate or angle")
        self._hands, self._angle, self._tell = hands, mode == "angle", tell
        self._hover, self._rescue = hover_output(vehicle, hover), AutomaticPilot(vehicle, hover)
        self._lost: Readings | None = None
        self.armed = False

    def channels(self, readings: Readings, turning: bool) -> list[int]:
        """Channels [µs]; `turning` tells whether the motors turn"""
        sticks = self._hands.read()
        if sticks is None:
            return self._failsafe(readings, turning)
        self.armed = self._hands.armed
        throttle = LOW + round((HIGH - LOW) * self._throttle(float(sticks.throttle)))
        aetr = (channel(float(sticks.roll)), channel(float(sticks.pitch)), throttle, channel(float(sticks.yaw)))
        switches = (HIGH if self.armed else LOW, HIGH if self._angle else LOW)
        return [*aetr, *switches, *(LOW,) * (CHANNELS - 6)]

    def _throttle(self, stick: float) -> float:
        """0 … 1"""
        if not self._hands.stick_map.springs:
            return (stick + 1.0) / 2.0
        return self._hover * (1.0 + stick) if stick < 0.0 else self._hover + (1.0 - self._hover) * stick

    def _failsafe(self, readings: Readings, turning: bool) -> list[int]:
        """The automatic pilot holds the position of the loss, descends, and disarms when the drone stands on the ground"""
        if self._lost is None:
            self._lost, self._rescue.armed = readings, self.armed and turning
            self._tell(LOST)
        since = (readings.time_us - self._lost.time_us) / 1e6
        sink = DESCENT * max(since - HOLD_S, 0.0)
        target = self._lost.state.p_W - Vec3(0.0, 0.0, sink)
        speed = Vec3(0.0, 0.0, -DESCENT if sink > 0.0 else 0.0)
        state = readings.state
        if state.p_W.z - target.z > LANDED_BELOW and norm(state.v_W) < STANDING:
            self._rescue.armed = False
        self.armed = self._rescue.armed
        reference = Reference(target, speed, yaw=float(yaw_from_quat(self._lost.state.q_WB)))
        return self._rescue.channels(readings._replace(wanted=reference), turning)
