"""Mellinger's controller: force from the position error, torque from the vee map of the attitude error, ω from the trajectory.

D. Mellinger, V. Kumar, "Minimum snap trajectory generation and control for quadrotors", ICRA 2011. Unlike `geometric` it
omits ω × Jω and ω̇_d, and gives tilt no priority over yaw: a yaw error also affects roll and pitch.
"""

from collections.abc import Sequence
from typing import Any

from samara.control.controller_type import FLAG, GAIN_OPTIONS, LIMIT_OPTIONS, ControllerType
from samara.control.default_gains import Gains
from samara.control.disturbance_torque import DisturbanceObserver, modelled_acceleration
from samara.control.geometric import (
    AttitudeTrackingError,
    Geometric,
    desired_angular_motion,
    extrapolate_error,
    geometric,
    has_lead,
    pop_gains,
    pop_limits,
    project_on_thrust_axis,
)
from samara.core.algebra import ZERO, Mat3, Vec3, matrix_from_quat, scale
from samara.core.ops import atan2
from samara.core.quantity import Scalar
from samara.physics.types import Reference, State, Vehicle
from samara.plan.flatness import attitude_from_thrust_direction


class Mellinger(Geometric):
    """Mellinger's controller; called as `Geometric`, with the same controller state."""

    def wrench(
        self,
        acceleration_W: Vec3,
        state: State,
        reference: Reference,
        vehicle: Vehicle,
        observer: DisturbanceObserver | None,
    ) -> tuple[Scalar, Vec3]:
        controls_yaw = self.allocation.controls_yaw
        tau_B = mellinger_torque(acceleration_W, state, reference, vehicle, self.gains, controls_yaw, observer)
        return project_on_thrust_axis(acceleration_W, state, vehicle), tau_B


def mellinger(vehicle: Vehicle, *arguments: Any, **options: Any) -> Mellinger:
    """Build Mellinger's controller for a vehicle.

    Args:
        vehicle: model of the vehicle, from which allocation and default gains follow.
        arguments: positional arguments of `geometric` after the vehicle.
        options: keyword arguments of `geometric`.
    """
    base = geometric(vehicle, *arguments, **options)
    return Mellinger(base.gains, base.limits, base.allocation, base.integral_period, base.period, base.initial_observer)


def mellinger_torque(
    acceleration_W: Vec3,
    state: State,
    reference: Reference,
    vehicle: Vehicle,
    gains: Gains,
    controls_yaw: bool = True,
    observer: DisturbanceObserver | None = None,
) -> Vec3:
    """τ = −J (k_R e_R + k_ω e_ω),  e_R = ½ (R_dᵀR − RᵀR_d)^∨,  e_ω = ω − RᵀR_d ω_d  [N·m]"""
    R_WB = matrix_from_quat(state.q_WB)
    yaw = reference.yaw if controls_yaw else atan2(R_WB.yx, R_WB.xx)  # an uncontrolled yaw must not affect the tilt
    R_WD = attitude_from_thrust_direction(acceleration_W, yaw)
    R_DB: Mat3 = R_WD.transpose @ R_WB
    e_R = Vec3(R_DB.zy - R_DB.yz, R_DB.xz - R_DB.zx, R_DB.yx - R_DB.xy) * 0.5
    desired = desired_angular_motion(acceleration_W, reference, R_WD, controls_yaw)
    e_omega = state.omega_B - R_DB.transpose @ desired.omega
    if has_lead(gains):
        error = AttitudeTrackingError(e_R, e_omega, ZERO, R_DB.transpose @ desired.alpha)
        e_R, e_omega, _, _ = extrapolate_error(error, modelled_acceleration(state, vehicle, observer), gains)
    stiffness = scale(gains.attitude, gains.attitude)
    return -(vehicle.inertia_B @ (scale(stiffness, e_R) + scale(gains.attitude, e_omega) * 2.0))


def _build(vehicle: Vehicle, *, healthy: Sequence[bool], period: float, **options: Any) -> Mellinger:
    gains, limits = pop_gains(vehicle, options), pop_limits(options)
    return mellinger(vehicle, gains, healthy, limits, period=period, **options)


TYPES = (
    ControllerType(
        "mellinger",
        "Mellinger's controller for minimum-snap trajectories",
        _build,
        {**GAIN_OPTIONS, **LIMIT_OPTIONS, "integral": FLAG},
    ),
)
