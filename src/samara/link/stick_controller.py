"""A person flies: sticks to rotor commands by the built-in stick modes, or to the radio channels of an autopilot.

When the device disappears the failsafe takes over: the drone stops, holds its position, and descends to the ground.
"""

from collections.abc import Callable
from typing import Any

from samara.control.stick_modes import MODES, PilotMemory, StickPilot, Sticks, stick_pilot
from samara.core.algebra import Vec3, norm
from samara.link.joystick import Hands
from samara.link.rc_pilot import CHANNELS, HIGH, LOW, channel
from samara.link.rc_pilot import Sticks as AutomaticPilot
from samara.link.sensor_snapshot import Readings
from samara.physics.frames import yaw_from_quat
from samara.physics.reference import Reference
from samara.physics.types import Command, State, Vehicle
from samara.vehicles.exchange.thrust_scale import hover_output

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
    """Sixteen radio channels from a person's sticks, in place of the automatic pilot of `samara.link.rc_pilot`.

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
