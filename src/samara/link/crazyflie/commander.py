"""Who flies: the client's setpoints, or the high-level commander.

A setpoint takes over from the high-level commander at once. High-level orders count again when the client says that no more
setpoints will come (`send_notify_setpoint_stop`), as on the aircraft. Until then the last setpoint holds; where it grows old,
the supervisor has the drone level out, and then locks it: a script that dies does not fly on for ever.
"""

import errno
import math
from collections.abc import MutableMapping

from samara.core.algebra import IDENTITY, ZERO, Vec3, norm
from samara.core.ops import wrap_angle
from samara.link.crazyflie.controller import ATTITUDE, ATTITUDE_AT_HEIGHT, OFF, PLACE, RATES, Wanted
from samara.link.crazyflie.high_level_commander import Planner
from samara.link.crazyflie.setpoints import FULL_THRUST, LEAST_THRUST, Drift, Full, Off, Place, Setpoint, Tilt, Turn
from samara.link.crazyflie.supervisor import Condition, Supervisor
from samara.physics.types import Reference, State
from samara.plan.trajectory import Trajectory, transfer

LEAN = 0.25  # [s]: how soon a velocity of the client's is what is asked
SMOOTH = 0.15  # [s]: how soon a climb is
CLIMB = 1.0  # [m/s]: how fast a height is flown to
SPEED = 1.0  # [m/s]: how fast a place is
LEASH = 0.5  # [m]: what is asked is never farther away
TURN = math.pi  # [rad/s]: how fast a heading is flown to
AHEAD = 0.5  # [rad]: a heading that turns is never farther from the nose


class Commander:
    """`update` says what is wanted now; `wanted` is what it said last."""

    def __init__(self, memory: bytearray, settings: MutableMapping[str, float], stands: float = 0.0) -> None:
        """`settings` are parameters by name; `stands` [m] is how high the centre of mass is on the ground."""
        self.supervisor, self.planner = Supervisor(), Planner(memory, settings, stands)
        self.wanted = Wanted(OFF, Reference(ZERO))
        self.now, self._state, self._nose = 0.0, State(ZERO, ZERO, IDENTITY, ZERO), 0.0
        self._asked: Setpoint | None = None  # none: the high-level commander flies
        self._asked_at = 0.0
        self._locked = True  # until a thrust of 0 has come
        self._leg: tuple[Place, Trajectory, float] | None = None

    @property
    def flying(self) -> bool:
        """Whether the motors turn"""
        return self.wanted.mode != OFF

    # What comes from the client --------------------------------------------------------------------------------------

    def ask(self, setpoint: Setpoint) -> None:
        """The newest setpoint: it takes over from the high-level commander"""
        self._asked, self._asked_at = setpoint, self.now
        self.planner.stop()

    def relax(self) -> None:
        """No more setpoints will come: the high-level commander may fly"""
        self._asked = None

    def lock(self) -> None:
        """Thrust counts again only after one of 0"""
        self._locked = True

    def ask_by_thrust(self, tilt: Tilt) -> None:
        """The oldest setpoint, that counts only after one with a thrust of 0"""
        self._locked = self._locked and tilt.thrust > 0.0
        still = self._locked or tilt.thrust * FULL_THRUST < LEAST_THRUST
        self.ask(Off() if still else tilt)

    def order(self, data: bytes) -> int:
        """A high-level order; 0, or what is wrong with it"""
        if not self.supervisor.may_fly and self.planner.flies(data):
            return errno.EBUSY
        return self.planner.obey(data, self.now, self._here())

    # What is wanted --------------------------------------------------------------------------------------------------

    def update(self, now: float, state: State, nose: float, specific_force_B: Vec3) -> Wanted:
        """What is wanted at this time [s], of a drone in this state, with this yaw [rad] and this IMU [m/s²]"""
        step, self.now, self._state, self._nose = now - self.now, now, state, nose
        age = 0.0 if self._asked is None else now - self._asked_at
        condition = self.supervisor.update(now, specific_force_B, age, self.flying)
        if not self.supervisor.may_fly:
            self.planner.stop()
            self.wanted = self._off()
        elif self._asked is not None:
            asked = self._asked if condition is not Condition.LEVEL else levelled(self._asked)
            self.wanted = self._follow(asked, step)
        else:
            self.wanted = self._fly()
        return self.wanted

    def _fly(self) -> Wanted:
        way = self.planner.way
        if way is None or (way.lands and way.ended(self.now)):
            self.planner.stop()
            return self._off()
        return Wanted(PLACE, way.at(self.now))

    def _follow(self, asked: Setpoint, step: float) -> Wanted:
        if not isinstance(asked, Place):
            self._leg = None
        if isinstance(asked, Tilt):
            return self._tilt(asked, step)
        if isinstance(asked, Turn):
            return Wanted(RATES, self._standing(), thrust=asked.thrust, omega_B=asked.omega_B)
        if isinstance(asked, Drift):
            return Wanted(PLACE, self._drift(asked, step))
        if isinstance(asked, Place):
            return Wanted(PLACE, self._go(asked, step))
        return Wanted(PLACE, asked.reference) if isinstance(asked, Full) else self._off()

    def _off(self) -> Wanted:
        self._leg = None
        return Wanted(OFF, self._standing())

    def _standing(self) -> Reference:
        return Reference(self._state.p_W, yaw=self._nose)

    def _here(self) -> Reference:
        """Where the next motion starts: what is asked now, or where the drone is and as it moves"""
        if self.wanted.mode == PLACE:
            return self.wanted.reference
        return self._standing()._replace(v_W=self._state.v_W if self.flying else ZERO)

    def _tilt(self, asked: Tilt, step: float) -> Wanted:
        """An attitude that turns, with a thrust, or with the climb that leads to a height"""
        there = self._standing()._replace(yaw=self._turned(asked.yaw_rate, step), yaw_rate=asked.yaw_rate)
        if asked.height is None and asked.climb is None:
            return Wanted(ATTITUDE, there, asked.roll, asked.pitch, asked.thrust)
        before = self.wanted.reference if self.flying else there
        wanted = asked.climb if asked.height is None else _climb_to(asked.height, before.p_W.z)
        a = ((wanted or 0.0) - before.v_W.z) / SMOOTH
        climb = before.v_W.z + a * step
        z = min(max(before.p_W.z + climb * step, there.p_W.z - LEASH), there.p_W.z + LEASH)
        there = there._replace(
            p_W=there.p_W._replace(z=z), v_W=self._state.v_W._replace(z=climb), a_W=Vec3(0.0, 0.0, a)
        )
        return Wanted(ATTITUDE_AT_HEIGHT, there, asked.roll, asked.pitch)

    def _drift(self, asked: Drift, step: float) -> Reference:
        """T² j = v_d − v − 2 T a,  a ← a + j dt,  v ← v + a dt,  p ← p + v dt, on a leash to the drone

        A height is climbed to more directly, a = (v_d − v)/T: no lean comes first.
        """
        here, v = self._here(), asked.v
        if asked.along_nose:
            c, s = math.cos(here.yaw), math.sin(here.yaw)
            v = Vec3(c * v.x - s * v.y, s * v.x + c * v.y, 0.0)
        j_W = ((v - here.v_W) / LEAN - here.a_W * 2.0) / LEAN
        a_W = here.a_W + j_W * step
        if asked.height is not None:
            climb = (_climb_to(asked.height, here.p_W.z) - here.v_W.z) / SMOOTH
            j_W, a_W = j_W._replace(z=0.0), a_W._replace(z=climb)
        v_W = here.v_W + a_W * step
        away = here.p_W + v_W * step - self._state.p_W
        p_W = self._state.p_W + away * (LEASH / max(norm(away), LEASH))
        return Reference(p_W, v_W, a_W, j_W, yaw=self._turned(asked.yaw_rate, step), yaw_rate=asked.yaw_rate)

    def _turned(self, rate: float, step: float) -> float:
        """ψ ← ψ + r dt, on a leash to the nose"""
        before = self.wanted.reference.yaw if self.flying else self._nose
        ahead = min(max(float(wrap_angle(before + rate * step - self._nose)), -AHEAD), AHEAD)
        return self._nose + ahead

    def _go(self, asked: Place, step: float) -> Reference:
        """The least jerk from what is asked now to rest there, planned anew when the place is another one"""
        here = self._here()
        if self._leg is None or self._leg[0].p_W != asked.p_W:
            self._leg = asked, transfer(here, asked.p_W, speed=SPEED), self.now
        _, leg, since = self._leg
        left = float(wrap_angle(asked.yaw - here.yaw))
        turn = min(max(left, -TURN * step), TURN * step)
        return leg.at(self.now - since)._replace(yaw=here.yaw + turn)


def _climb_to(wanted: float, z: float) -> float:
    """v = (z_d − z)/4T, at most what is allowed: with v̇ = (v − ż)/T the height comes without overshoot"""
    return min(max((wanted - z) / (4.0 * SMOOTH), -CLIMB), CLIMB)


def levelled(asked: Setpoint) -> Setpoint:
    """The same height, climb or thrust, upright and without a turn"""
    if isinstance(asked, Tilt):
        return asked._replace(roll=0.0, pitch=0.0, yaw_rate=0.0)
    if isinstance(asked, Turn):
        return Tilt(0.0, 0.0, 0.0, asked.thrust)
    if isinstance(asked, Drift):
        return Tilt(0.0, 0.0, 0.0, height=asked.height, climb=asked.v.z)
    if isinstance(asked, Place):
        return Tilt(0.0, 0.0, 0.0, height=asked.p_W.z)
    return Tilt(0.0, 0.0, 0.0, height=asked.reference.p_W.z) if isinstance(asked, Full) else asked
