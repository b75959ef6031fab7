"""Mellinger's controller: the force from the place, the torque from the attitude's vee map, ω from the trajectory.

D. Mellinger, V. Kumar, "Minimum snap trajectory generation and control for quadrotors", ICRA 2011. Beside `geometric` it
leaves out ω × Jω and ω̇_d, and does not put the tilt before the yaw: where the nose points elsewhere, the yaw steers too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from samara.control.allocation import Allocation, allocation_for, command_for_wrench
from samara.control.gains import Gains, gains_for
from samara.control.geometric import (
    USUAL_LIMITS,
    FlightLimits,
    lift_along,
    require_memory,
    require_sense,
    steered_pull,
    turning_along,
)
from samara.core.algebra import ZERO, Mat3, Vec3, matrix_from_quat, scale
from samara.core.ops import atan2
from samara.physics.reference import Reference
from samara.physics.types import Command, State, Vehicle
from samara.plan.flatness import attitude_along


@dataclass(frozen=True)
class Mellinger:
    """`controller(state, reference, vehicle, memory) → command, memory`; the first memory is `initial_memory`"""

    gains: Gains
    limits: FlightLimits
    allocation: Allocation
    integral_period: float | None

    @property
    def initial_memory(self) -> Any:
        return () if self.integral_period is None else ZERO

    def __call__(self, state: State, reference: Reference, vehicle: Vehicle, memory: Any) -> tuple[Command, Any]:
        require_memory(memory, self.initial_memory)
        pull_W, memory = steered_pull(
            state, reference, vehicle, memory, self.gains, self.limits, self.allocation, self.integral_period
        )
        tau_B = mellinger_torque(pull_W, state, reference, vehicle, self.gains, self.allocation.keeps_yaw)
        lift = lift_along(pull_W, state, vehicle)
        return command_for_wrench(lift, tau_B, state, vehicle, self.allocation), memory


def mellinger(
    vehicle: Vehicle,
    gains: Gains | None = None,
    healthy: Sequence[bool] | None = None,
    limits: FlightLimits = USUAL_LIMITS,
    integral: bool = False,
    period: float = 4e-3,
) -> Mellinger:
    """Mellinger's controller for a vehicle; the arguments are those of `geometric`"""
    require_sense(period, limits)
    return Mellinger(
        gains or gains_for(vehicle), limits, allocation_for(vehicle, healthy), period if integral else None
    )


def mellinger_torque(
    pull_W: Vec3, state: State, reference: Reference, vehicle: Vehicle, gains: Gains, keeps_yaw: bool = True
) -> Vec3:
    """τ = −J (k_R e_R + k_ω e_ω),  e_R = ½ (R_dᵀR − RᵀR_d)^∨,  e_ω = ω − RᵀR_d ω_d  [N·m]"""
    R_WB = matrix_from_quat(state.q_WB)
    yaw = reference.yaw if keeps_yaw else atan2(R_WB.yx, R_WB.xx)  # one given up must not steer the tilt
    R_WD = attitude_along(pull_W, yaw)
    turn: Mat3 = R_WD.transpose @ R_WB
    e_R = Vec3(turn.zy - turn.yz, turn.xz - turn.zx, turn.yx - turn.xy) * 0.5
    e_omega = state.omega_B - turn.transpose @ turning_along(pull_W, reference, R_WD, keeps_yaw).omega
    stiff = scale(gains.attitude, gains.attitude)
    return -(vehicle.inertia_B @ (scale(stiff, e_R) + scale(gains.attitude, e_omega) * 2.0))
