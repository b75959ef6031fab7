"""Manual flight: map a person's sticks to rotor commands with the built-in stick modes, or to an autopilot's RC channels.

If the device disconnects, the failsafe takes over: the drone stops, holds its position, and descends to the ground.
"""

import math
from collections.abc import Callable
from typing import Any

from samara.control.stick_modes import MODES, PilotState, StickPilot, Sticks, stick_pilot
from samara.core.algebra import ZERO, Vec3, norm, rotate_inverse, scale
from samara.core.ops import wrap_angle
from samara.link.joystick import StickInput
from samara.link.sensor_snapshot import Readings
from samara.physics.frames import yaw_from_quat
from samara.physics.types import Command, Reference, State, Vehicle
from samara.vehicles.exchange.throttle import hover_output

CHANNEL_COUNT = 16
LOW, MIDDLE, HIGH = 1000, 1500, 2000
FREQUENCY = Vec3(
    1.5, 1.5, 2.5
)  # [rad/s], of the position loop: slower than any autopilot's attitude loop; critically damped
INTEGRAL_GAIN, MAX_INTEGRAL, MAX_INTEGRATION_ERROR = (
    0.4,
    3.0,
    0.3,
)  # [1/s³], [m/s²], [m]: the integral pauses above this position error
MAX_POSITION_ERROR = 1.5  # [m]: limit of the position error per axis, which limits the speed
FULL_STICK_TILT_RAD, MAX_TILT_RAD = (
    math.radians(60.0),
    math.radians(30.0),
)  # tilt at full deflection, and largest commanded tilt
FULL_STICK_YAW_RATE, YAW_GAIN = math.radians(200.0), 1.5  # [rad/s] at full deflection, [1/s]
MIN_THROTTLE = 0.05
MOTORS_STOPPED_US = 500_000  # motors that stand still this long are disarmed
ARMING_PERIOD_US, SWITCH_DOWN_US = (
    2_000_000,
    500_000,
)  # arming period, and time for which the arm switch is low in each period


class AutomaticPilot:
    """Flies an autopilot through RC channels along the reference.

    While `armed` is true and the motors do not turn, it toggles the arm switch with the throttle low.
    """

    def __init__(self, vehicle: Vehicle, hover: float) -> None:
        self._hover = hover_output(vehicle, hover)
        self._gravity = float(vehicle["gravity"].acceleration)
        self._integral, self._last_us, self._motors_running_us = ZERO, -1, -ARMING_PERIOD_US
        self.armed = False

    def channels(self, readings: Readings, motors_running: bool) -> list[int]:
        """Return sixteen RC channels [µs]; `motors_running`: the motors turn, so the autopilot is armed."""
        if motors_running:
            self._motors_running_us = readings.time_us
        if not self.armed or readings.time_us - self._motors_running_us > MOTORS_STOPPED_US:
            self._integral, self._last_us = ZERO, readings.time_us
            switch_high = self.armed and readings.time_us % ARMING_PERIOD_US >= SWITCH_DOWN_US
            return [MIDDLE, MIDDLE, LOW, MIDDLE, HIGH if switch_high else LOW, HIGH, *(LOW,) * (CHANNEL_COUNT - 6)]
        roll, pitch, throttle, yaw_stick = self._deflections(readings)
        aetr = (
            channel_pulse(roll),
            channel_pulse(pitch),
            LOW + round((HIGH - LOW) * throttle),
            channel_pulse(yaw_stick),
        )
        return [*aetr, HIGH, HIGH, *(LOW,) * (CHANNEL_COUNT - 6)]

    def _deflections(self, r: Readings) -> tuple[float, float, float, float]:
        state, reference = r.state, r.reference
        dt = max(0.0, (r.time_us - self._last_us) / 1e6) if self._last_us >= 0 else 0.0
        self._last_us = r.time_us
        position_error = Vec3(
            *(min(max(x, -MAX_POSITION_ERROR), MAX_POSITION_ERROR) for x in reference.p_W - state.p_W)
        )
        if norm(position_error) < MAX_INTEGRATION_ERROR:
            integral = self._integral + position_error * (INTEGRAL_GAIN * dt)
            self._integral = Vec3(*(min(max(x, -MAX_INTEGRAL), MAX_INTEGRAL) for x in integral))
        feedback = (
            scale(scale(FREQUENCY, FREQUENCY), position_error) + scale(FREQUENCY, reference.v_W - state.v_W) * 2.0
        )
        a_W = feedback + self._integral + reference.a_W
        yaw = float(yaw_from_quat(state.q_WB))
        forward = a_W.x * math.cos(yaw) + a_W.y * math.sin(yaw)
        left = -a_W.x * math.sin(yaw) + a_W.y * math.cos(yaw)
        specific_thrust = max(self._gravity + a_W.z, 0.3 * self._gravity)
        roll, pitch = (min(max(math.atan2(a, specific_thrust), -MAX_TILT_RAD), MAX_TILT_RAD) for a in (-left, forward))
        tilt_cosine = max(rotate_inverse(state.q_WB, Vec3(0.0, 0.0, 1.0)).z, 0.5)
        throttle = min(max(self._hover * specific_thrust / self._gravity / tilt_cosine, MIN_THROTTLE), 1.0)
        yaw_error = float(wrap_angle(reference.yaw - yaw))
        yaw_stick = (
            -(YAW_GAIN * yaw_error + reference.yaw_rate) / FULL_STICK_YAW_RATE
        )  # the yaw stick is positive clockwise
        return roll / FULL_STICK_TILT_RAD, pitch / FULL_STICK_TILT_RAD, throttle, min(max(yaw_stick, -0.5), 0.5)


def channel_pulse(deflection: float) -> int:
    """Pulse width of a deflection from −1 to 1  [µs]."""
    return min(max(round(MIDDLE + (HIGH - MIDDLE) * deflection), LOW), HIGH)


HOLD_S = 1.0  # [s] from the loss of the device to the descent
DESCENT_SPEED = 0.5  # [m/s]
LANDED_SETPOINT_DEPTH = 1.0  # [m]: a drone at rest this far above its setpoint has landed
MAX_LANDED_SPEED = 0.05  # [m/s]
LOST_MESSAGE = "joystick disconnected: failsafe, the drone holds its position and descends"

LogCallback = Callable[[str], None]


class StickController:
    """Controller that maps a person's sticks to rotor commands, in one of `samara.control.stick_modes.MODES`.

    It ignores the scenario's reference. Recordings contain the commands.

    Args:
        stick_input: the joystick.
        mode: the stick mode.
        log_message: log function for the loss of the joystick.
    """

    def __init__(
        self, stick_input: StickInput, mode: str = "hold", log_message: LogCallback = lambda sentence: None
    ) -> None:
        if mode not in MODES:
            raise ValueError(f"--stick-mode {mode}: expected one of {', '.join(MODES)}")
        self.__name__ = f"sticks ({mode})"
        self.stick_input, self.mode, self._log_message = stick_input, mode, log_message
        self._lost_at: float | None = None
        self._pilots: dict[str, tuple[Vehicle, StickPilot]] = {}

    initial_state: Any = None

    def __call__(
        self,
        state: State,
        reference: Reference,
        vehicle: Vehicle,
        controller_state: PilotState | None,
        time: float,
        dt: float,
    ) -> tuple[Command, PilotState]:
        """Compute the rotor commands for the current stick positions.

        Args:
            state: state of the drone.
            reference: ignored.
            vehicle: the model to fly.
            controller_state: controller state; None at the first call.
            time: time since the start of the flight [s].
            dt: control period [s].

        Returns:
            The command and the next controller state.
        """
        sticks = self.stick_input.read()
        pilot = self._pilot(self.mode if sticks is not None else "hold", vehicle, dt)
        if sticks is None:
            sticks = self._failsafe(time, pilot.limits.climb)
        if controller_state is None:
            controller_state = pilot.initial_state(state)
        wrench, controller_state = pilot.desired_wrench(state, sticks, vehicle, controller_state)
        return pilot.command(wrench, state, vehicle), controller_state

    def _pilot(self, mode: str, vehicle: Vehicle, period: float) -> StickPilot:
        """Return the cached pilot of a mode; building a pilot solves for the rotor allocation."""
        cached = self._pilots.get(mode)
        if cached is None or cached[0] is not vehicle or cached[1].period != period:
            self._pilots[mode] = cached = vehicle, stick_pilot(vehicle, mode, period=period)
        return cached[1]

    def _failsafe(self, time: float, climb: float) -> Sticks:
        if self._lost_at is None:
            self._lost_at = time
            self._log_message(LOST_MESSAGE)
        descent_stick = -DESCENT_SPEED / climb if time - self._lost_at > HOLD_S else 0.0
        return Sticks(roll=0.0, pitch=0.0, yaw=0.0, throttle=max(descent_stick, -1.0))

    def create_radio(self, vehicle: Vehicle, hover: float) -> "RadioSticks":
        """Create the RC channels of the same joystick, for an autopilot."""
        return RadioSticks(self.stick_input, self.mode, vehicle, hover, self._log_message)


class RadioSticks:
    """Sixteen RC channels from a person's sticks; replaces `AutomaticPilot`.

    Channels: roll, pitch, throttle, yaw, arm switch, angle mode. The centre of a self-centring throttle is the hover throttle.
    """

    def __init__(
        self, stick_input: StickInput, mode: str, vehicle: Vehicle, hover: float, log_message: LogCallback
    ) -> None:
        if mode not in ("rate", "angle"):
            raise ValueError(f"--stick-mode {mode}: Betaflight has no such mode; expected rate or angle")
        self._stick_input, self._angle, self._log_message = stick_input, mode == "angle", log_message
        self._hover, self._automatic_pilot = hover_output(vehicle, hover), AutomaticPilot(vehicle, hover)
        self._loss_readings: Readings | None = None
        self.armed = False

    def channels(self, readings: Readings, motors_running: bool) -> list[int]:
        """Return sixteen RC channels [µs]; `motors_running`: the motors turn."""
        sticks = self._stick_input.read()
        if sticks is None:
            return self._failsafe(readings, motors_running)
        self.armed = self._stick_input.is_armed
        throttle = LOW + round((HIGH - LOW) * self._throttle(float(sticks.throttle)))
        aetr = (
            channel_pulse(float(sticks.roll)),
            channel_pulse(float(sticks.pitch)),
            throttle,
            channel_pulse(float(sticks.yaw)),
        )
        switches = (HIGH if self.armed else LOW, HIGH if self._angle else LOW)
        return [*aetr, *switches, *(LOW,) * (CHANNEL_COUNT - 6)]

    def _throttle(self, stick: float) -> float:
        """Throttle from 0 to 1."""
        if not self._stick_input.stick_map.springs:
            return (stick + 1.0) / 2.0
        return self._hover * (1.0 + stick) if stick < 0.0 else self._hover + (1.0 - self._hover) * stick

    def _failsafe(self, readings: Readings, motors_running: bool) -> list[int]:
        """Hold the position at the loss, descend, and disarm when the drone stands on the ground."""
        if self._loss_readings is None:
            self._loss_readings, self._automatic_pilot.armed = readings, self.armed and motors_running
            self._log_message(LOST_MESSAGE)
        elapsed = (readings.time_us - self._loss_readings.time_us) / 1e6
        descent = DESCENT_SPEED * max(elapsed - HOLD_S, 0.0)
        target = self._loss_readings.state.p_W - Vec3(0.0, 0.0, descent)
        velocity = Vec3(0.0, 0.0, -DESCENT_SPEED if descent > 0.0 else 0.0)
        state = readings.state
        if state.p_W.z - target.z > LANDED_SETPOINT_DEPTH and norm(state.v_W) < MAX_LANDED_SPEED:
            self._automatic_pilot.armed = False
        self.armed = self._automatic_pilot.armed
        reference = Reference(target, velocity, yaw=float(yaw_from_quat(self._loss_readings.state.q_WB)))
        return self._automatic_pilot.channels(readings._replace(reference=reference), motors_running)
