"""Lee's geometric tracking control on SE(3): the thrust vector first, then the attitude that points the rotors along it.

T. Lee, M. Leok, N. H. McClamroch, "Geometric tracking control of a quadrotor UAV on SE(3)", CDC 2010.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from samara.algebra import Mat3, Vec3, cross, direction, dot, matrix_from_quat, scale
from samara.control.allocation import command_for_wrench, least_squares_allocation
from samara.ops import cos, maximum, safe_divide, sin
from samara.physics.actuator import Lag
from samara.physics.multirotor import CALM, Command, State, Vehicle
from samara.physics.propulsion import rotor_loads
from samara.plan.reference import Reference
from samara.quantity import Scalar
from samara.trim import hover

Controller = Callable[[State, Reference, Vehicle, Any], tuple[Command, Any]]


class GeometricGains(NamedTuple):
    """Natural frequencies [rad/s] of position and of attitude about the body axes; every loop is critically damped."""

    position: Scalar
    attitude: Vec3


def motor_time_constant(vehicle: Vehicle) -> float:
    """τ = J / (K²/R + b + dQ/dΩ) of a DC motor at hover, or the lag itself; 0 for a body driven by a wrench  [s]"""
    if not vehicle.rotors:
        return 0.0
    motor = vehicle.rotors[0].motor
    if isinstance(motor, Lag):
        return max(float(motor.rise), float(motor.fall))
    state, _ = hover(vehicle)
    load_slope = 2.0 * rotor_loads(state, vehicle, CALM)[0].torque / state.rotor_speed[0]
    stiffness = motor.constant**2 / motor.resistance + motor.damping + load_slope
    return float(vehicle.rotors[0].inertia / stiffness)


def gains_for(vehicle: Vehicle) -> GeometricGains:
    """ω_attitude = 0.35 / (τ + 10 ms), a third of that about z, ω_position = ω_attitude / 4

    A critically damped double integrator behind a lag τ is stable for ω < 2/τ; 0.35/τ keeps its damping near one.
    """
    attitude = 0.35 / (motor_time_constant(vehicle) + 0.01)
    return GeometricGains(attitude / 4.0, Vec3(attitude, attitude, attitude / 3.0))


def geometric(vehicle: Vehicle, gains: GeometricGains | None = None) -> Controller:
    """Lee's controller for a vehicle: `controller(state, reference, vehicle, memory) → command, memory`; it needs no memory"""
    gains = gains or gains_for(vehicle)
    allocation = least_squares_allocation(vehicle)

    def controller(state: State, reference: Reference, vehicle: Vehicle, memory: Any) -> tuple[Command, Any]:
        lift, tau_B = geometric_wrench(state, reference, vehicle, gains)
        return command_for_wrench(lift, tau_B, state, vehicle, allocation), memory

    return controller


def geometric_wrench(
    state: State, reference: Reference, vehicle: Vehicle, gains: GeometricGains
) -> tuple[Scalar, Vec3]:
    """f = m (g e₃ + a_d − kₓ e_p − k_v e_v),  T = f·b₃,  τ = J (−k_R e_R − k_Ω e_Ω) + ω × Jω

    e_R = ½ (R_dᵀR − RᵀR_d)^∨ and e_Ω = ω − RᵀR_d ω_d; R_d points b₃ along f and b₁ as near to the yaw as that allows.
    """
    w = gains.position
    pull_W = (
        reference.a_W
        - (state.p_W - reference.p_W) * (w * w)
        - (state.v_W - reference.v_W) * (2.0 * w)
        + Vec3(0.0, 0.0, vehicle["gravity"].acceleration)
    )
    R_WB = matrix_from_quat(state.q_WB)
    b3_W = R_WB.columns[2]
    R_WD = _attitude_along(pull_W, reference.yaw)
    turn: Mat3 = R_WD.transpose @ R_WB
    e_R = Vec3(turn.zy - turn.yz, turn.xz - turn.zx, turn.yx - turn.xy) * 0.5
    omega_D = _turning_with(pull_W, reference, R_WD)
    e_omega = state.omega_B - turn.transpose @ omega_D
    wanted = -(scale(scale(gains.attitude, gains.attitude), e_R) + scale(gains.attitude, e_omega) * 2.0)
    momentum_B = vehicle.inertia_B @ state.omega_B
    tau_B = vehicle.inertia_B @ wanted + cross(state.omega_B, momentum_B)
    return maximum(vehicle.mass * dot(pull_W, b3_W), 0.0), tau_B


def _attitude_along(pull_W: Vec3, yaw: Scalar) -> Mat3:
    """R_d = [b₂ × b₃, b₂, b₃] with b₃ = f/|f| and b₂ = b₃ × (cos ψ, sin ψ, 0), normalised"""
    b3 = direction(pull_W)
    b2 = direction(cross(b3, Vec3(cos(yaw), sin(yaw), 0.0)))
    b1 = cross(b2, b3)
    return Mat3(b1.x, b2.x, b3.x, b1.y, b2.y, b3.y, b1.z, b2.z, b3.z)


def _turning_with(pull_W: Vec3, reference: Reference, R_WD: Mat3) -> Vec3:
    """ω_d of the wanted attitude: ḃ₃ = (j − (j·b₃) b₃)/|f| gives its tilt rates, the yaw rate its turn about b₃  [rad/s]"""
    b1, b2, b3 = R_WD.columns
    jerk_over_pull = reference.j_W * safe_divide(1.0, dot(pull_W, b3))
    return Vec3(-dot(b2, jerk_over_pull), dot(b1, jerk_over_pull), reference.yaw_rate * b3.z)
