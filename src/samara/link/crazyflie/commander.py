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
from samara.link.crazyflie.controller import ATTITUDE, ATTITUDE_AT_HEIGHT, OFF, POSITION, RATES, ControllerSetpoint
from samara.link.crazyflie.high_level_commander import Planner
from samara.link.crazyflie.setpoints import (
    FULL_THRUST,
    MIN_THRUST,
    AttitudeSetpoint,
    FullStateSetpoint,
    MotorsOff,
    PositionSetpoint,
    RateSetpoint,
    Setpoint,
    VelocitySetpoint,
)
from samara.link.crazyflie.supervisor import Condition, Supervisor
from samara.physics.types import Reference, State
from samara.plan.trajectory import Trajectory, transfer

VELOCITY_TIME_CONSTANT = 0.25  # [s]: time constant of a velocity setpoint
CLIMB_TIME_CONSTANT = 0.15  # [s]: time constant of a climb
MAX_CLIMB_RATE = 1.0  # [m/s]: speed at which a height is flown to
POSITION_SPEED = 1.0  # [m/s]: speed at which a position is flown to
MAX_POSITION_LEAD = 0.5  # [m]: largest distance of the reference from the drone
MAX_YAW_RATE = math.pi  # [rad/s]: rate at which a yaw is flown to
MAX_YAW_LEAD = 0.5  # [rad]: largest difference between the reference yaw and the drone's


class Commander:
    """Computes the controller's setpoint at each instant by `update`; `controller_setpoint` is the latest."""

    def __init__(self, memory: bytearray, settings: MutableMapping[str, float], standing_height: float = 0.0) -> None:
        """Create a commander; `settings` are parameters by name, `standing_height` [m] that of the centre of mass."""
        self.supervisor, self.planner = Supervisor(), Planner(memory, settings, standing_height)
        self.controller_setpoint = ControllerSetpoint(OFF, Reference(ZERO))
        self.now, self._state, self._yaw = 0.0, State(ZERO, ZERO, IDENTITY, ZERO), 0.0
        self._setpoint: Setpoint | None = None  # None: the high-level commander flies
        self._setpoint_time = 0.0
        self._is_locked = True  # until a setpoint with zero thrust
        self._leg: tuple[PositionSetpoint, Trajectory, float] | None = None

    @property
    def is_flying(self) -> bool:
        """Whether the motors turn."""
        return self.controller_setpoint.mode != OFF

    # Packets of the client -------------------------------------------------------------------------------------------

    def set_setpoint(self, setpoint: Setpoint) -> None:
        """Set the newest setpoint, which takes over from the high-level commander."""
        self._setpoint, self._setpoint_time = setpoint, self.now
        self.planner.stop()

    def release_setpoint(self) -> None:
        """End the setpoints: the high-level commander may fly."""
        self._setpoint = None

    def lock_thrust(self) -> None:
        """Ignore thrust setpoints until one with zero thrust."""
        self._is_locked = True

    def set_rpyt_setpoint(self, rpyt_setpoint: AttitudeSetpoint) -> None:
        """Set a legacy RPYT setpoint, which is ignored until one with zero thrust has been received."""
        self._is_locked = self._is_locked and rpyt_setpoint.thrust > 0.0
        is_stopped = self._is_locked or rpyt_setpoint.thrust * FULL_THRUST < MIN_THRUST
        self.set_setpoint(MotorsOff() if is_stopped else rpyt_setpoint)

    def execute_order(self, data: bytes) -> int:
        """Execute a high-level order; return 0 or an error code."""
        if not self.supervisor.may_fly and self.planner.is_motion_order(data):
            return errno.EBUSY
        return self.planner.execute(data, self.now, self._current_reference())

    # Setpoints -------------------------------------------------------------------------------------------------------

    def update(self, now: float, state: State, yaw: float, specific_force_B: Vec3) -> ControllerSetpoint:
        """Compute the controller's setpoint.

        Args:
            now: time of the simulation [s].
            state: state of the drone.
            yaw: yaw of the drone [rad].
            specific_force_B: reading of the accelerometer [m/s²].
        """
        dt, self.now, self._state, self._yaw = now - self.now, now, state, yaw
        age = 0.0 if self._setpoint is None else now - self._setpoint_time
        condition = self.supervisor.update(now, specific_force_B, age, self.is_flying)
        if not self.supervisor.may_fly:
            self.planner.stop()
            self.controller_setpoint = self._motors_off()
        elif self._setpoint is not None:
            setpoint = self._setpoint if condition is not Condition.LEVEL else level_setpoint(self._setpoint)
            self.controller_setpoint = self._follow_setpoint(setpoint, dt)
        else:
            self.controller_setpoint = self._follow_planner()
        return self.controller_setpoint

    def _follow_planner(self) -> ControllerSetpoint:
        trajectory = self.planner.planned_curve
        if trajectory is None or (trajectory.lands and trajectory.is_finished(self.now)):
            self.planner.stop()
            return self._motors_off()
        return ControllerSetpoint(POSITION, trajectory.reference(self.now))

    def _follow_setpoint(self, setpoint: Setpoint, dt: float) -> ControllerSetpoint:
        if not isinstance(setpoint, PositionSetpoint):
            self._leg = None
        if isinstance(setpoint, AttitudeSetpoint):
            return self._follow_attitude(setpoint, dt)
        if isinstance(setpoint, RateSetpoint):
            return ControllerSetpoint(RATES, self._hold_reference(), thrust=setpoint.thrust, omega_B=setpoint.omega_B)
        if isinstance(setpoint, VelocitySetpoint):
            return ControllerSetpoint(POSITION, self._follow_velocity(setpoint, dt))
        if isinstance(setpoint, PositionSetpoint):
            return ControllerSetpoint(POSITION, self._follow_position(setpoint, dt))
        return (
            ControllerSetpoint(POSITION, setpoint.reference)
            if isinstance(setpoint, FullStateSetpoint)
            else self._motors_off()
        )

    def _motors_off(self) -> ControllerSetpoint:
        self._leg = None
        return ControllerSetpoint(OFF, self._hold_reference())

    def _hold_reference(self) -> Reference:
        return Reference(self._state.p_W, yaw=self._yaw)

    def _current_reference(self) -> Reference:
        """Return the start of the next motion: the current position reference, or the position and velocity of the drone."""
        if self.controller_setpoint.mode == POSITION:
            return self.controller_setpoint.reference
        return self._hold_reference()._replace(v_W=self._state.v_W if self.is_flying else ZERO)

    def _follow_attitude(self, setpoint: AttitudeSetpoint, dt: float) -> ControllerSetpoint:
        """Follow an attitude and a yaw rate, with a thrust, or with the climb that leads to a height."""
        reference = self._hold_reference()._replace(
            yaw=self._integrate_yaw(setpoint.yaw_rate, dt), yaw_rate=setpoint.yaw_rate
        )
        if setpoint.height is None and setpoint.climb is None:
            return ControllerSetpoint(ATTITUDE, reference, setpoint.roll, setpoint.pitch, setpoint.thrust)
        previous = self.controller_setpoint.reference if self.is_flying else reference
        desired_climb = setpoint.climb if setpoint.height is None else _climb_rate(setpoint.height, previous.p_W.z)
        a = ((desired_climb or 0.0) - previous.v_W.z) / CLIMB_TIME_CONSTANT
        climb = previous.v_W.z + a * dt
        z = min(
            max(previous.p_W.z + climb * dt, reference.p_W.z - MAX_POSITION_LEAD), reference.p_W.z + MAX_POSITION_LEAD
        )
        reference = reference._replace(
            p_W=reference.p_W._replace(z=z), v_W=self._state.v_W._replace(z=climb), a_W=Vec3(0.0, 0.0, a)
        )
        return ControllerSetpoint(ATTITUDE_AT_HEIGHT, reference, setpoint.roll, setpoint.pitch)

    def _follow_velocity(self, setpoint: VelocitySetpoint, dt: float) -> Reference:
        """T² j = v_d − v − 2 T a,  a ← a + j dt,  v ← v + a dt,  p ← p + v dt, limited to `MAX_POSITION_LEAD` from the drone.

        A height is approached by a first-order law, a = (v_d − v)/T, which needs no tilt first.
        """
        reference, v = self._current_reference(), setpoint.v
        if setpoint.in_heading_frame:
            c, s = math.cos(reference.yaw), math.sin(reference.yaw)
            v = Vec3(c * v.x - s * v.y, s * v.x + c * v.y, 0.0)
        j_W = ((v - reference.v_W) / VELOCITY_TIME_CONSTANT - reference.a_W * 2.0) / VELOCITY_TIME_CONSTANT
        a_W = reference.a_W + j_W * dt
        if setpoint.height is not None:
            climb = (_climb_rate(setpoint.height, reference.p_W.z) - reference.v_W.z) / CLIMB_TIME_CONSTANT
            j_W, a_W = j_W._replace(z=0.0), a_W._replace(z=climb)
        v_W = reference.v_W + a_W * dt
        offset = reference.p_W + v_W * dt - self._state.p_W
        p_W = self._state.p_W + offset * (MAX_POSITION_LEAD / max(norm(offset), MAX_POSITION_LEAD))
        return Reference(p_W, v_W, a_W, j_W, yaw=self._integrate_yaw(setpoint.yaw_rate, dt), yaw_rate=setpoint.yaw_rate)

    def _integrate_yaw(self, rate: float, dt: float) -> float:
        """ψ ← ψ + r dt, limited to `MAX_YAW_LEAD` from the drone's yaw."""
        previous_yaw = self.controller_setpoint.reference.yaw if self.is_flying else self._yaw
        lead = min(max(float(wrap_angle(previous_yaw + rate * dt - self._yaw)), -MAX_YAW_LEAD), MAX_YAW_LEAD)
        return self._yaw + lead

    def _follow_position(self, setpoint: PositionSetpoint, dt: float) -> Reference:
        """Follow a minimum-jerk trajectory from the current reference to rest; replan when the position changes."""
        reference = self._current_reference()
        if self._leg is None or self._leg[0].p_W != setpoint.p_W:
            self._leg = setpoint, transfer(reference, setpoint.p_W, speed=POSITION_SPEED), self.now
        _, leg, start_time = self._leg
        remaining = float(wrap_angle(setpoint.yaw - reference.yaw))
        yaw_step = min(max(remaining, -MAX_YAW_RATE * dt), MAX_YAW_RATE * dt)
        return leg.evaluate(self.now - start_time)._replace(yaw=reference.yaw + yaw_step)


def _climb_rate(height: float, z: float) -> float:
    """v = (z_d − z)/4T, limited to ±`MAX_CLIMB_RATE`: with v̇ = (v − ż)/T the height is reached without overshoot."""
    return min(max((height - z) / (4.0 * CLIMB_TIME_CONSTANT), -MAX_CLIMB_RATE), MAX_CLIMB_RATE)


def level_setpoint(setpoint: Setpoint) -> Setpoint:
    """Return a setpoint with the same height, climb or thrust, level and without a yaw rate."""
    if isinstance(setpoint, AttitudeSetpoint):
        return setpoint._replace(roll=0.0, pitch=0.0, yaw_rate=0.0)
    if isinstance(setpoint, RateSetpoint):
        return AttitudeSetpoint(0.0, 0.0, 0.0, setpoint.thrust)
    if isinstance(setpoint, VelocitySetpoint):
        return AttitudeSetpoint(0.0, 0.0, 0.0, height=setpoint.height, climb=setpoint.v.z)
    if isinstance(setpoint, PositionSetpoint):
        return AttitudeSetpoint(0.0, 0.0, 0.0, height=setpoint.p_W.z)
    return (
        AttitudeSetpoint(0.0, 0.0, 0.0, height=setpoint.reference.p_W.z)
        if isinstance(setpoint, FullStateSetpoint)
        else setpoint
    )
