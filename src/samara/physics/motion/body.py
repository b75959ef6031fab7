"""The rigid body: the Newton–Euler equations, also in Euler angles and body-axis velocities.

World W is z-up, body B is forward-left-up; every formula holds unchanged for NED/FRD, because both are right-handed.
"""

from typing import Annotated, TypeAlias

from samara.core.algebra import (
    Attitude,
    Euler,
    Mat3,
    Quat,
    Vec3,
    conjugate,
    cross,
    dot,
    rotate,
    rotate_inverse,
    solve_definite,
)
from samara.core.ops import absolute, cos, sin, where
from samara.core.quantity import Mass, Quantity, Scalar, SymmetricPositive

Velocity: TypeAlias = Annotated[Vec3, Quantity("m/s", -20.0, 20.0)]
Acceleration: TypeAlias = Annotated[Vec3, Quantity("m/s^2", -20.0, 20.0)]
AngularVelocity: TypeAlias = Annotated[Vec3, Quantity("rad/s", -10.0, 10.0)]
AngularAcceleration: TypeAlias = Annotated[Vec3, Quantity("rad/s^2", -50.0, 50.0)]
AttitudeRate: TypeAlias = Annotated[Quat, Quantity("1/s", -10.0, 10.0)]
Force: TypeAlias = Annotated[Vec3, Quantity("N", -20.0, 20.0)]
Torque: TypeAlias = Annotated[Vec3, Quantity("N m", -2.0, 2.0)]
Inertia: TypeAlias = Annotated[Mat3, SymmetricPositive("kg m^2", 0.01, 0.03)]

_GIMBAL_LOCK = 1e-9  # below this |cos pitch| the Euler rates are undefined


def translational_acceleration(q_WB: Attitude, f_B: Force, f_W: Force, *, mass: Mass) -> Vec3:
    """m v̇_W = R f_B + f_W  [m/s²]"""
    return (rotate(q_WB, f_B) + f_W) / mass


def angular_acceleration(omega_B: AngularVelocity, tau_B: Torque, *, inertia_B: Inertia) -> Vec3:
    """J ω̇ = τ − ω × J ω, in the body frame  [rad/s²]"""
    return solve_definite(inertia_B, tau_B - cross(omega_B, inertia_B @ omega_B))


def required_torque(omega_B: AngularVelocity, alpha_B: AngularAcceleration, *, inertia_B: Inertia) -> Vec3:
    """τ = J ω̇ + ω × J ω: the inverse of `angular_acceleration`  [N·m]"""
    return inertia_B @ alpha_B + cross(omega_B, inertia_B @ omega_B)


def attitude_rate(q_WB: Attitude, omega_B: AngularVelocity) -> Quat:
    """q̇ = ½ q ⊗ (0, ω_B)  [1/s]"""
    return q_WB * Quat(0.0, *(omega_B * 0.5))


def angular_velocity_from_attitude_rate(q_WB: Attitude, rate: AttitudeRate) -> Vec3:
    """ω_B = 2 Im(q* ⊗ q̇): the inverse of `attitude_rate`  [rad/s]"""
    return (conjugate(q_WB) * rate).vector * 2.0


def body_velocity_rate(v_B: Velocity, omega_B: AngularVelocity, a_B: Acceleration) -> Vec3:
    """u̇ = a − ω × u: the rate of the body-axis components of the velocity, from the acceleration a in body axes  [m/s²]"""
    return a_B - cross(omega_B, v_B)


def body_velocity(q_WB: Attitude, v_W: Velocity) -> Vec3:
    """u = Rᵀ v_W  [m/s]"""
    return rotate_inverse(q_WB, v_W)


def _secant(angle: Scalar) -> Scalar:
    c = cos(angle)
    locked = absolute(c) < _GIMBAL_LOCK
    return where(locked, 0.0, 1.0 / where(locked, 1.0, c))


def euler_rates(euler: Euler, omega_B: AngularVelocity) -> Vec3:
    """φ̇ = p + tan θ (q sin φ + r cos φ),  θ̇ = q cos φ − r sin φ,  ψ̇ = sec θ (q sin φ + r cos φ)  [rad/s]

    Singular at θ = ±90°, where the unbounded terms are omitted.
    """
    s, c, secant = sin(euler.roll), cos(euler.roll), _secant(euler.pitch)
    yaw_rate = secant * (omega_B.y * s + omega_B.z * c)
    return Vec3(omega_B.x + sin(euler.pitch) * yaw_rate, omega_B.y * c - omega_B.z * s, yaw_rate)


def angular_velocity_from_euler_rates(euler: Euler, rates: AngularVelocity) -> Vec3:
    """p = φ̇ − ψ̇ sin θ,  q = θ̇ cos φ + ψ̇ cos θ sin φ,  r = −θ̇ sin φ + ψ̇ cos θ cos φ  [rad/s]"""
    s, c = sin(euler.roll), cos(euler.roll)
    yaw_component = rates.z * cos(euler.pitch)
    return Vec3(rates.x - rates.z * sin(euler.pitch), rates.y * c + yaw_component * s, yaw_component * c - rates.y * s)


def euler_accelerations(euler: Euler, rates: AngularVelocity, alpha_B: AngularAcceleration) -> Vec3:
    """η̈ = W(η) (ω̇ − Ė(η, η̇) η̇), where ω = E η̇ and W = E⁻¹: the derivative of the Euler rates  [rad/s²]"""
    s, c = sin(euler.roll), cos(euler.roll)
    s_pitch, c_pitch = sin(euler.pitch), cos(euler.pitch)
    roll_rate, pitch_rate, yaw_rate = rates.x, rates.y, rates.z
    bias = Vec3(
        -yaw_rate * pitch_rate * c_pitch,
        -pitch_rate * roll_rate * s + yaw_rate * (roll_rate * c * c_pitch - pitch_rate * s * s_pitch),
        -pitch_rate * roll_rate * c - yaw_rate * (roll_rate * s * c_pitch + pitch_rate * c * s_pitch),
    )
    return euler_rates(euler, alpha_B - bias)


def kinetic_energy(v_W: Velocity, omega_B: AngularVelocity, *, mass: Mass, inertia_B: Inertia) -> Scalar:
    """½ m v·v + ½ ω·Jω  [J]"""
    return 0.5 * (mass * dot(v_W, v_W) + dot(omega_B, inertia_B @ omega_B))


def angular_momentum(q_WB: Attitude, omega_B: AngularVelocity, *, inertia_B: Inertia) -> Vec3:
    """L_W = R J ω, about the centre of mass in world axes: constant without torque  [N·m·s]"""
    return rotate(q_WB, inertia_B @ omega_B)
