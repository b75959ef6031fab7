"""Whether it may fly: armed, not crashed, not locked; the firmware's own rules, by its names and numbers.

    ready ⇄ flying ⇄ levelling out            locked: for the rest of the flight, as on the aircraft until it is switched off
              ↓            ↓
           crashed      locked

It flies while its motors turn, and for two seconds after. Where setpoints stop coming it levels out after half a second and is
locked after two. Tumbled is f_z < 0.5 g for a second, or f_z < −0.2 g a tenth of a second after it began to lean; in free fall
neither counts. Who tumbles in flight has crashed, and flies again when it stands upright and a client has asked for it.
"""

import math
from enum import Enum

from samara.core.algebra import ZERO, Vec3

G = 9.81  # [m/s²]: the firmware's unit of acceleration, GRAVITY_MAGNITUDE there
FALLING = 0.1  # [g]: below it on all axes it falls freely
LEANING, UPSIDE_DOWN = 0.5, -0.2  # [g]
LEANS_FOR, UPSIDE_DOWN_FOR = 1.0, 0.1  # [s]
STILL_FLYING = 2.0  # [s] after the motors turned last
LEVEL_AFTER, LOCK_AFTER = 0.5, 2.0  # [s] without a setpoint
WATCHDOG = 1.0  # [s]: within this a client that has asked for the watchdog must ask again


class Condition(Enum):
    """What it may do"""

    READY = "ready"
    FLYING = "flying"
    LEVEL = "levelling out"
    CRASHED = "crashed"
    LOCKED = "locked"


class Supervisor:
    """`update` at every instant; `may_fly` is the answer."""

    def __init__(self) -> None:
        self.condition, self.armed, self.tumbled = Condition.READY, True, False
        self._now, self._leans_since, self._turned_at = 0.0, math.inf, -math.inf
        self._halted, self._recovers, self._watched_until = False, False, math.inf

    @property
    def may_fly(self) -> bool:
        """Whether setpoints and orders count"""
        if self.condition is Condition.READY and self.tumbled:
            return False
        return self.armed and self.condition in (Condition.READY, Condition.FLYING, Condition.LEVEL)

    # What a client asks for ------------------------------------------------------------------------------------------

    def halt(self) -> None:
        """The emergency stop"""
        self._halted = True

    def watch(self) -> None:
        """From now on it stops unless it is told so again and again"""
        self._watched_until = self._now + WATCHDOG

    def recover(self) -> bool:
        """Ready again after a crash, where it lies no longer on its side or its back"""
        self._recovers = self.condition is Condition.CRASHED and not self.tumbled
        return self._recovers or self.condition is not Condition.CRASHED

    # Instants --------------------------------------------------------------------------------------------------------

    def update(self, now: float, specific_force_B: Vec3 = ZERO, age: float = 0.0, turning: bool = False) -> Condition:
        """The condition now [s]: of an IMU [m/s²], the age of the setpoint [s], and whether the motors turn"""
        self._now = now
        self.tumbled = self._tumbles(now, specific_force_B / G)
        if turning:
            self._turned_at = now
        self.condition = self._next(age, flies=now - self._turned_at < STILL_FLYING)
        self._recovers = False
        return self.condition

    def _next(self, age: float, *, flies: bool) -> Condition:
        own = self.condition
        if own is Condition.LOCKED or self._halted or self._now > self._watched_until:
            return Condition.LOCKED
        if own is Condition.CRASHED:
            return Condition.READY if self._recovers else own
        if own is Condition.LEVEL:
            if age > LOCK_AFTER or self.tumbled:
                return Condition.LOCKED
            return own if age > LEVEL_AFTER else Condition.FLYING
        if own is Condition.FLYING:
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
        leans_for = now - self._leans_since
        return leans_for > LEANS_FOR or (force.z < UPSIDE_DOWN and leans_for > UPSIDE_DOWN_FOR)
