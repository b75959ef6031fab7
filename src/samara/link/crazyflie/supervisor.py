"""The supervisor decides whether the drone may fly: armed, not crashed, not locked; rules and names as in the firmware.

    ready ⇄ flying ⇄ levelling out            locked: for the rest of the flight, as on the aircraft until it is switched off
              ↓            ↓
           crashed      locked

The drone counts as flying while its motors turn, and for two seconds after. Without setpoints it levels out after half a second
and is locked after two. Tumbled is f_z < 0.5 g for a second, or f_z < −0.2 g a tenth of a second after f_z fell below 0.5 g;
free fall does not count. A drone that tumbles in flight has crashed; it can fly again when it stands upright and a client has
requested the recovery.
"""

import math
from enum import Enum

from samara.core.algebra import ZERO, Vec3

G = 9.81  # [m/s²]: the firmware's unit of acceleration, GRAVITY_MAGNITUDE there
MAX_FREE_FALL_FORCE = 0.1  # [g]: free fall if all axes are below it
MIN_UPRIGHT_FORCE, MAX_UPSIDE_DOWN_FORCE = 0.5, -0.2  # [g]
TILTED_TIMEOUT, UPSIDE_DOWN_TIMEOUT = 1.0, 0.1  # [s]
FLYING_TIMEOUT = 2.0  # [s] after the motors have stopped
LEVEL_TIMEOUT, LOCK_TIMEOUT = 0.5, 2.0  # [s] without a setpoint
WATCHDOG_TIMEOUT = 1.0  # [s]: a client that has started the watchdog must reset it within this time


class Condition(Enum):
    """The supervisor's state."""

    READY = "ready"
    FLYING = "flying"
    LEVEL = "levelling out"
    CRASHED = "crashed"
    LOCKED = "locked"


class Supervisor:
    """The supervisor's state machine: call `update` at every instant; `may_fly` is the result."""

    def __init__(self) -> None:
        self.condition, self.armed, self.tumbled = Condition.READY, True, False
        self._now, self._tilted_since, self._motors_running_at = 0.0, math.inf, -math.inf
        self._is_halted, self._recovery_requested, self._watchdog_deadline = False, False, math.inf

    @property
    def may_fly(self) -> bool:
        """Whether setpoints and orders are executed."""
        if self.condition is Condition.READY and self.tumbled:
            return False
        return self.armed and self.condition in (Condition.READY, Condition.FLYING, Condition.LEVEL)

    # Requests of the client ------------------------------------------------------------------------------------------

    def halt(self) -> None:
        """Stop in an emergency."""
        self._is_halted = True

    def reset_watchdog(self) -> None:
        """Start or reset the watchdog, which locks the drone when it expires."""
        self._watchdog_deadline = self._now + WATCHDOG_TIMEOUT

    def recover(self) -> bool:
        """Request recovery after a crash, which succeeds if the drone stands upright; return whether it is ready."""
        self._recovery_requested = self.condition is Condition.CRASHED and not self.tumbled
        return self._recovery_requested or self.condition is not Condition.CRASHED

    # Instants --------------------------------------------------------------------------------------------------------

    def update(
        self, now: float, specific_force_B: Vec3 = ZERO, age: float = 0.0, motors_running: bool = False
    ) -> Condition:
        """Return the condition at `now` [s].

        Args:
            now: time of the simulation [s].
            specific_force_B: reading of the accelerometer [m/s²].
            age: age of the setpoint [s].
            motors_running: whether the motors turn.
        """
        self._now = now
        self.tumbled = self._is_tumbled(now, specific_force_B / G)
        if motors_running:
            self._motors_running_at = now
        self.condition = self._next_condition(age, is_flying=now - self._motors_running_at < FLYING_TIMEOUT)
        self._recovery_requested = False
        return self.condition

    def _next_condition(self, age: float, *, is_flying: bool) -> Condition:
        condition = self.condition
        if condition is Condition.LOCKED or self._is_halted or self._now > self._watchdog_deadline:
            return Condition.LOCKED
        if condition is Condition.CRASHED:
            return Condition.READY if self._recovery_requested else condition
        if condition is Condition.LEVEL:
            if age > LOCK_TIMEOUT or self.tumbled:
                return Condition.LOCKED
            return condition if age > LEVEL_TIMEOUT else Condition.FLYING
        if condition is Condition.FLYING:
            if age > LOCK_TIMEOUT:
                return Condition.LOCKED
            if self.tumbled:
                return Condition.CRASHED
            if age > LEVEL_TIMEOUT:
                return Condition.LEVEL
        return Condition.FLYING if is_flying and self.armed else Condition.READY

    def _is_tumbled(self, now: float, force: Vec3) -> bool:
        if force.z >= MIN_UPRIGHT_FORCE:
            self._tilted_since = math.inf
            return False
        if max(map(abs, force)) < MAX_FREE_FALL_FORCE or self._tilted_since == math.inf:
            self._tilted_since = now
        tilted_for = now - self._tilted_since
        return tilted_for > TILTED_TIMEOUT or (force.z < MAX_UPSIDE_DOWN_FORCE and tilted_for > UPSIDE_DOWN_TIMEOUT)
