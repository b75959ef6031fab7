"""Mellinger's controller: the force from the place, the torque from the attitude's vee map, ω from the trajectory.

D. Mellinger, V. Kumar, "Minimum snap trajectory generation and control for quadrotors", ICRA 2011. Beside `geometric` it
leaves out ω × Jω and ω̇_d, and does not put the tilt before the yaw: where the nose points elsewhere, the yaw steers too.
"""

from collections.abc import Sequence
from typing import Any

from samara.control.controller_type import FLAG, LIMITS, LOOPS, ControllerType
from samara.control.default_gains import Gains
from samara.control.disturbance_torque import Turned, modelled_acceleration
from samara.control.geometric import (
    Deviation,
    Geometric,
    chosen_limits,
    chosen_loops,
    geometric,
    leads,
    led_error,
    lift_along,
    turning_along,
)
from samara.core.algebra import ZERO, Mat3, Vec3, matrix_from_quat, scale
from samara.core.ops import atan2
from samara.core.quantity import Scalar
from samara.physics.types import Reference, State, Vehicle
from samara.plan.flatness import attitude_along


class Mellinger(Geometric):
    """`controller(state, reference, vehicle, memory) → command, memory`; the first memory is `initial_memory`"""

    def wrench(
        self, pull_W: Vec3, state: State, reference: Reference, vehicle: Vehicle, turned: Turned | None
    ) -> tuple[Scalar, Vec3]:
        keeps_yaw = self.allocation.keeps_yaw
        tau_B = mellinger_torque(pull_W, state, reference, vehicle, self.gains, keeps_yaw, turned)
        return lift_along(pull_W, state, vehicle), tau_B


def mellinger(vehicle: Vehicle, *arguments: Any, **options: Any) -> Mellinger:
    """Mellinger's controller for a vehicle; the arguments are those of `geometric`"""
    own = geometric(vehicle, *arguments, **options)
    return Mellinger(own.gains, own.limits, own.allocation, own.integral_period, own.period, own.unseen)


def mellinger_torque(
    pull_W: Vec3,
    state: State,
    reference: Reference,
    vehicle: Vehicle,
    gains: Gains,
    keeps_yaw: bool = True,
    turned: Turned | None = None,
) -> Vec3:
    """τ = −J (k_R e_R + k_ω e_ω),  e_R = ½ (R_dᵀR − RᵀR_d)^∨,  e_ω = ω − RᵀR_d ω_d  [N·m]"""
    R_WB = matrix_from_quat(state.q_WB)
    yaw = reference.yaw if keeps_yaw else atan2(R_WB.yx, R_WB.xx)  # one given up must not steer the tilt
    R_WD = attitude_along(pull_W, yaw)
    turn: Mat3 = R_WD.transpose @ R_WB
    e_R = Vec3(turn.zy - turn.yz, turn.xz - turn.zx, turn.yx - turn.xy) * 0.5
    wanted = turning_along(pull_W, reference, R_WD, keeps_yaw)
    e_omega = state.omega_B - turn.transpose @ wanted.omega
    if leads(gains):
        error = Deviation(e_R, e_omega, ZERO, turn.transpose @ wanted.alpha)
        e_R, e_omega, _, _ = led_error(error, modelled_acceleration(state, vehicle, turned), gains)
    stiff = scale(gains.attitude, gains.attitude)
    return -(vehicle.inertia_B @ (scale(stiff, e_R) + scale(gains.attitude, e_omega) * 2.0))


def _build(vehicle: Vehicle, *, healthy: Sequence[bool], period: float, **chosen: Any) -> Mellinger:
    gains, limits = chosen_loops(vehicle, chosen), chosen_limits(chosen)
    return mellinger(vehicle, gains, healthy, limits, period=period, **chosen)


TYPES = (ControllerType("mellinger", _build, {**LOOPS, **LIMITS, "integral": FLAG}),)
