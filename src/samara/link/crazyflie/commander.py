"""The commander: chooses between the client's setpoints and the high-level commander.

A setpoint takes over from the high-level commander at once. High-level orders are executed again after the client announces
that no more setpoints will come (`send_notify_setpoint_stop`), as on the aircraft. Until then the last setpoint holds; when it
is too old, the supervisor makes the drone level out, and then locks it: a script that dies does not leave the drone flying.
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

LEAN = 0.25  # [s]: time constant of a velocity setpoint
SMOOTH = 0.15  # [s]: time constant of a climb
CLIMB = 1.0  # [m/s]: speed at which a height is flown to
SPEED = 1.0  # [m/s]: speed at which a position is flown to
LEASH = 0.5  # [m]: largest distance of the reference from the drone
TURN = math.pi  # [rad/s]: rate at which a yaw is flown to
AHEAD = 0.5  # [rad]: largest difference between the reference yaw and the drone's


class Commander:
    """Computes the controller's setpoint at each instant by `update`; `wanted` is the latest."""

    def __init__(self, memory: bytearray, settings: MutableMapping[str, float], standing_height: float = 0.0) -> None:
        """Create a commander; `settings` are parameters by name, `stands` [m] the centre of mass height on the ground."""
        self.supervisor, self.planner = Supervisor(), Planner(memory, settings, standing_height)
        self.wanted = Wanted(OFF, Reference(ZERO))
        self.now, self._state, self._nose = 0.0, State(ZERO, ZERO, IDENTITY, ZERO), 0.0
        self._asked: Setpoint | None = None  # None: the high-level commander flies
        self._asked_at = 0.0
        self._locked = True  # until a setpoint with zero thrust
        self._leg: tuple[Place, Trajectory, float] | None = None

    @property
    def flying(self) -> bool:
        """Whether the motors turn."""
        return self.wanted.mode != OFF

    # Packets of the client -------------------------------------------------------------------------------------------

    def ask(self, setpoint: Setpoint) -> None:
        """Set the newest setpoint, which takes over from the high-level commander."""
        self._asked, self._asked_at = setpoint, self.now
        self.planner.stop()

    def relax(self) -> None:
        """End the setpoints: the high-level commander may fly."""
        self._asked = None

    def lock(self) -> None:
        """Ignore thrust setpoints until one with zero thrust."""
        self._locked = True

    def ask_by_thrust(self, rpyt_setpoint: Tilt) -> None:
        """Set a legacy RPYT setpoint, which is ignored until one with zero thrust has been received."""
        self._locked = self._locked and rpyt_setpoint.thrust > 0.0
        is_stopped = self._locked or rpyt_setpoint.thrust * FULL_THRUST < LEAST_THRUST
        self.ask(Off() if is_stopped else rpyt_setpoint)

    def order(self, data: bytes) -> int:
        """Execute a high-level order; return 0 or an error code."""
        if not self.supervisor.may_fly and self.planner.flies(data):
            return errno.EBUSY
        return self.planner.obey(data, self.now, self._here())

    # Setpoints -------------------------------------------------------------------------------------------------------

    def update(self, now: float, state: State, yaw: float, specific_force_B: Vec3) -> Wanted:
        """Compute the controller's setpoint.

        Args:
            now: time of the simulation [s].
            state: state of the drone.
            nose: yaw of the drone [rad].
            specific_force_B: reading of the accelerometer [m/s²].
        """
        dt, self.now, self._state, self._nose = now - self.now, now, state, yaw
        age = 0.0 if self._asked is None else now - self._asked_at
        condition = self.supervisor.update(now, specific_force_B, age, self.flying)
        if not self.supervisor.may_fly:
            self.planner.stop()
            self.wanted = self._off()
        elif self._asked is not None:
            setpoint = self._asked if condition is not Condition.LEVEL else levelled(self._asked)
            self.wanted = self._follow(setpoint, dt)
        else:
            self.wanted = self._fly()
        return self.wanted

    def _fly(self) -> Wanted:
        trajectory = self.planner.way
        if trajectory is None or (trajectory.lands and trajectory.ended(self.now)):
            self.planner.stop()
            return self._off()
        return Wanted(PLACE, trajectory.at(self.now))

    def _follow(self, setpoint: Setpoint, dt: float) -> Wanted:
        if not isinstance(setpoint, Place):
            self._leg = None
        if isinstance(setpoint, Tilt):
            return self._tilt(setpoint, dt)
        if isinstance(setpoint, Turn):
            return Wanted(RATES, self._standing(), thrust=setpoint.thrust, omega_B=setpoint.omega_B)
        if isinstance(setpoint, Drift):
            return Wanted(PLACE, self._drift(setpoint, dt))
        if isinstance(setpoint, Place):
            return Wanted(PLACE, self._go(setpoint, dt))
        return Wanted(PLACE, setpoint.reference) if isinstance(setpoint, Full) else self._off()

    def _off(self) -> Wanted:
        self._leg = None
        return Wanted(OFF, self._standing())

    def _standing(self) -> Reference:
        return Reference(self._state.p_W, yaw=self._nose)

    def _here(self) -> Reference:
        """Return the start of the next motion: the current position reference, or the position and velocity of the drone."""
        if self.wanted.mode == PLACE:
            return self.wanted.reference
        return self._standing()._replace(v_W=self._state.v_W if self.flying else ZERO)

    def _tilt(self, setpoint: Tilt, dt: float) -> Wanted:
        """Follow an attitude and a yaw rate, with a thrust, or with the climb that leads to a height."""
        reference = self._standing()._replace(yaw=self._turned(setpoint.yaw_rate, dt), yaw_rate=setpoint.yaw_rate)
        if setpoint.height is None and setpoint.climb is None:
            return Wanted(ATTITUDE, reference, setpoint.roll, setpoint.pitch, setpoint.thrust)
        previous = self.wanted.reference if self.flying else reference
        desired_climb = setpoint.climb if setpoint.height is None else _climb_rate(setpoint.height, previous.p_W.z)
        a = ((desired_climb or 0.0) - previous.v_W.z) / SMOOTH
        climb = previous.v_W.z + a * dt
        z = min(max(previous.p_W.z + climb * dt, reference.p_W.z - LEASH), reference.p_W.z + LEASH)
        reference = reference._replace(
            p_W=reference.p_W._replace(z=z), v_W=self._state.v_W._replace(z=climb), a_W=Vec3(0.0, 0.0, a)
        )
        return Wanted(ATTITUDE_AT_HEIGHT, reference, setpoint.roll, setpoint.pitch)

    def _drift(self, setpoint: Drift, dt: float) -> Reference:
        """T² j = v_d − v − 2 T a,  a ← a + j dt,  v ← v + a dt,  p ← p + v dt, limited to `LEASH` from the drone.

        A height is approached by a first-order law, a = (v_d − v)/T, which needs no tilt first.
        """
        reference, v = self._here(), setpoint.v
        if setpoint.along_nose:
            c, s = math.cos(reference.yaw), math.sin(reference.yaw)
            v = Vec3(c * v.x - s * v.y, s * v.x + c * v.y, 0.0)
        j_W = ((v - reference.v_W) / LEAN - reference.a_W * 2.0) / LEAN
        a_W = reference.a_W + j_W * dt
        if setpoint.height is not None:
            climb = (_climb_rate(setpoint.height, reference.p_W.z) - reference.v_W.z) / SMOOTH
            j_W, a_W = j_W._replace(z=0.0), a_W._replace(z=climb)
        v_W = reference.v_W + a_W * dt
        offset = reference.p_W + v_W * dt - self._state.p_W
        p_W = self._state.p_W + offset * (LEASH / max(norm(offset), LEASH))
        return Reference(p_W, v_W, a_W, j_W, yaw=self._turned(setpoint.yaw_rate, dt), yaw_rate=setpoint.yaw_rate)

    def _turned(self, rate: float, dt: float) -> float:
        """ψ ← ψ + r dt, limited to `AHEAD` from the drone's yaw."""
        previous_yaw = self.wanted.reference.yaw if self.flying else self._nose
        lead = min(max(float(wrap_angle(previous_yaw + rate * dt - self._nose)), -AHEAD), AHEAD)
        return self._nose + lead

    def _go(self, setpoint: Place, dt: float) -> Reference:
        """Follow a minimum-jerk trajectory from the current reference to rest; replan when the position changes."""
        reference = self._here()
        if self._leg is None or self._leg[0].p_W != setpoint.p_W:
            self._leg = setpoint, transfer(reference, setpoint.p_W, speed=SPEED), self.now
        _, leg, start_time = self._leg
        remaining = float(wrap_angle(setpoint.yaw - reference.yaw))
        yaw_step = min(max(remaining, -TURN * dt), TURN * dt)
        return leg.at(self.now - start_time)._replace(yaw=reference.yaw + yaw_step)


def _climb_rate(height: float, z: float) -> float:
    """v = (z_d − z)/4T, limited to ±`CLIMB`: with v̇ = (v − ż)/T the height is reached without overshoot."""
    return min(max((height - z) / (4.0 * SMOOTH), -CLIMB), CLIMB)


def levelled(setpoint: Setpoint) -> Setpoint:
    """Return a setpoint with the same height, climb or thrust, level and without a yaw rate."""
    if isinstance(setpoint, Tilt):
        return setpoint._replace(roll=0.0, pitch=0.0, yaw_rate=0.0)
    if isinstance(setpoint, Turn):
        return Tilt(0.0, 0.0, 0.0, setpoint.thrust)
    if isinstance(setpoint, Drift):
        return Tilt(0.0, 0.0, 0.0, height=setpoint.height, climb=setpoint.v.z)
    if isinstance(setpoint, Place):
        return Tilt(0.0, 0.0, 0.0, height=setpoint.p_W.z)
    return Tilt(0.0, 0.0, 0.0, height=setpoint.reference.p_W.z) if isinstance(setpoint, Full) else setpoint
