"""Who flies: the client's setpoints, as long as they come, or the high-level commander; and when the motors stand still.

A setpoint holds for half a second. Then the drone levels out and keeps its height; after two seconds its motors stop. A
Crazyflie does the same, so that a script that dies does not fly on for ever. A high-level order takes over from setpoints at
once, and the next setpoint takes over from it.
"""

import math

from samara.core.algebra import IDENTITY, UP, ZERO, Vec3, dot, norm, rotate
from samara.core.ops import wrap_angle
from samara.link.crazyflie.pilot import ATTITUDE, ATTITUDE_AT_HEIGHT, OFF, PLACE, RATES, Wanted
from samara.link.crazyflie.planner import Planner
from samara.link.crazyflie.setpoints import FULL_THRUST, LEAST_THRUST, Drift, Full, Off, Place, Setpoint, Tilt, Turn
from samara.physics.reference import Reference
from samara.physics.types import State
from samara.plan.trajectory import Trajectory
from samara.plan.transfer import transfer

LEVEL_AFTER, OFF_AFTER = 0.5, 2.0  # [s] without a setpoint
LEAN = 0.25  # [s]: how soon a velocity of the client's is what is asked
SMOOTH = 0.15  # [s]: how soon a climb is
CLIMB = 1.0  # [m/s]: how fast a height is flown to
LEASH = 0.5  # [m]: what is asked is never farther away
TURN = math.pi  # [rad/s]: how fast a heading is flown to
AHEAD = 0.5  # [rad]: a heading that turns is never farther from the nose
UPRIGHT = 0.5  # cosine of the lean: beyond it the drone lies on its side or its back
TUMBLED_FOR = 1.0  # [s]: upside down for so long, it has crashed
WATCHDOG = 1.0  # [s]: within this a client that has asked for the watchdog must ask again


class Commander:
    """`update` says what is wanted now; `wanted` is what it said last."""

    def __init__(self, memory: bytearray, speed: float = 1.0) -> None:
        """`speed` [m/s] is how fast a place is flown to."""
        self.planner, self._speed = Planner(memory), speed
        self.armed, self.stopped, self.crashed = True, False, False
        self.wanted = Wanted(OFF, Reference(ZERO))
        self.now, self._state, self._nose, self.tumbled = 0.0, State(ZERO, ZERO, IDENTITY, ZERO), 0.0, False
        self._asked: Setpoint | None = None
        self._asked_at = self._upright_at = 0.0
        self._locked = True  # until a thrust of 0 has come
        self._leg: tuple[Place, Trajectory, float] | None = None
        self._watched_until = math.inf

    @property
    def flying(self) -> bool:
        """Whether the motors turn"""
        return self.wanted.mode != OFF

    # What comes from the client --------------------------------------------------------------------------------------

    def ask(self, setpoint: Setpoint) -> None:
        """The newest setpoint: it takes over from the high-level commander"""
        self._asked, self._asked_at = setpoint, self.now
        self.planner.stop()

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
        before = self.planner.way
        answer = self.planner.obey(data, self.now, self._here())
        if answer == 0 and self.planner.way is not before:
            self._asked = None
        return answer

    def halt(self) -> None:
        """The emergency stop: motors off for the rest of the flight, as on the aircraft until it is switched off and on"""
        self.stopped = True

    def watch(self) -> None:
        """From now on it stops unless it is told so again and again"""
        self._watched_until = self.now + WATCHDOG

    def recover(self) -> bool:
        """Ready again after a crash, where it stands upright"""
        if not self.tumbled:
            self.crashed, self._upright_at = False, self.now
        return not self.crashed

    # What is wanted --------------------------------------------------------------------------------------------------

    def update(self, now: float, state: State, nose: float) -> Wanted:
        """What is wanted at this time [s], of a drone in this state and with this yaw [rad]"""
        step, self.now, self._state, self._nose = now - self.now, now, state, nose
        self.tumbled = dot(rotate(state.q_WB, UP), UP) < UPRIGHT
        if not self.tumbled:
            self._upright_at = now
        self.crashed = self.crashed or (self.flying and now - self._upright_at > TUMBLED_FOR)
        self.stopped = self.stopped or now > self._watched_until
        if not self.armed or self.stopped or self.crashed:
            self._asked = None
            self.planner.stop()
        self.wanted = self._choose(step)
        return self.wanted

    def _choose(self, step: float) -> Wanted:
        if self._asked is not None:
            age = self.now - self._asked_at
            if age > OFF_AFTER or isinstance(self._asked, Off):
                self._asked = None
                return self._off()
            if age > LEVEL_AFTER:
                return self._tilt(Tilt(0.0, 0.0, 0.0, height=self._here().p_W.z), step)
            return self._follow(self._asked, step)
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
        """Where the next motion starts: what is asked now, or where the drone is"""
        return self.wanted.reference if self.wanted.mode == PLACE else self._standing()

    def _tilt(self, asked: Tilt, step: float) -> Wanted:
        """An attitude that turns, with a thrust, or with the climb that leads to a height"""
        there = self._standing()._replace(yaw=self._turned(asked.yaw_rate, step), yaw_rate=asked.yaw_rate)
        if asked.height is None:
            return Wanted(ATTITUDE, there, asked.roll, asked.pitch, asked.thrust)
        before = self.wanted.reference if self.flying else there
        a = (_climb_to(asked.height, before.p_W.z) - before.v_W.z) / SMOOTH
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
            self._leg = asked, transfer(here, asked.p_W, speed=self._speed), self.now
        _, leg, since = self._leg
        left = float(wrap_angle(asked.yaw - here.yaw))
        turn = min(max(left, -TURN * step), TURN * step)
        return leg.at(self.now - since)._replace(yaw=here.yaw + turn)


def _climb_to(wanted: float, z: float) -> float:
    """v = (z_d − z)/4T, at most what is allowed: with v̇ = (v − ż)/T the height comes without overshoot"""
    return min(max((wanted - z) / (4.0 * SMOOTH), -CLIMB), CLIMB)
