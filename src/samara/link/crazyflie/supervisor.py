"""Whether the drone may fly: armed, not crashed, not locked; the rules, names and codes are those of the firmware.

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
FALLING = 0.1  # [g]: free fall if all axes are below it
LEANING, UPSIDE_DOWN = 0.5, -0.2  # [g]
LEANS_FOR, UPSIDE_DOWN_FOR = 1.0, 0.1  # [s]
STILL_FLYING = 2.0  # [s] after the motors have stopped
LEVEL_AFTER, LOCK_AFTER = 0.5, 2.0  # [s] without a setpoint
WATCHDOG = 1.0  # [s]: a client that has started the watchdog must reset it within this time


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
        self._now, self._leans_since, self._turned_at = 0.0, math.inf, -math.inf
        self._halted, self._recovers, self._watched_until = False, False, math.inf

    @property
    def may_fly(self) -> bool:
        """Whether setpoints and orders are executed."""
        if self.condition is Condition.READY and self.tumbled:
            return False
        return self.armed and self.condition in (Condition.READY, Condition.FLYING, Condition.LEVEL)

    # Requests of the client ------------------------------------------------------------------------------------------

    def halt(self) -> None:
        """Stop in an emergency."""
        self._halted = True

    def watch(self) -> None:
        """Start or reset the watchdog, which locks the drone when it expires."""
        self._watched_until = self._now + WATCHDOG

    def recover(self) -> bool:
        """Request recovery after a crash, which succeeds if the drone stands upright; return whether it is ready."""
        self._recovers = self.condition is Condition.CRASHED and not self.tumbled
        return self._recovers or self.condition is not Condition.CRASHED

    # Instants --------------------------------------------------------------------------------------------------------

    def update(self, now: float, specific_force_B: Vec3 = ZERO, age: float = 0.0, turning: bool = False) -> Condition:
        """Return the condition at `now` [s].

        Args:
            now: time of the simulation [s].
            specific_force_B: reading of the accelerometer [m/s²].
            age: age of the setpoint [s].
            turning: whether the motors turn.
        """
        self._now = now
        self.tumbled = self._tumbles(now, specific_force_B / G)
        if turning:
            self._turned_at = now
        self.condition = self._next(age, flies=now - self._turned_at < STILL_FLYING)
        self._recovers = False
        return self.condition

    def _next(self, age: float, *, flies: bool) -> Condition:
        condition = self.condition
        if condition is Condition.LOCKED or self._halted or self._now > self._watched_until:
            return Condition.LOCKED
        if condition is Condition.CRASHED:
            return Condition.READY if self._recovers else condition
        if condition is Condition.LEVEL:
            if age > LOCK_AFTER or self.tumbled:
                return Condition.LOCKED
            return condition if age > LEVEL_AFTER else Condition.FLYING
        if condition is Condition.FLYING:
            if age > LOCK_AFTER:
                return Condition.LOCKED
            if self.tumbled:
                return Condition.CRASHED
            if age > LEVEL_AFTER:
                return Condition.LEVEL
        return Condition.FLYING if flies and self.armed else Condition.READY

    def _tumbles(self, now: float, force: Vec3) -> bool:
        if force.z >= LEANING:
            self._leans_since = math.inf
            return False
        if max(map(abs, force)) < FALLING or self._leans_since == math.inf:
            self._leans_since = now
        tilted_for = now - self._leans_since
        return tilted_for > LEANS_FOR or (force.z < UPSIDE_DOWN and tilted_for > UPSIDE_DOWN_FOR)
