"""Frame conversion: vectors, angular velocities, Euler angles and quaternions between body and ground."""

from functools import partial

from samara.core.algebra import Euler, Quat, Vec3, euler_from_quat, quat_from_euler, rotate, rotate_inverse
from samara.core.algebra import cross as cross_product
from samara.core.algebra import dot as dot_product
from samara.core.algebra import normalize as unit_quaternion
from samara.documents.drone_physics.arguments import document
from samara.documents.drone_physics.types import (
    Angles,
    AngularVelocity,
    EulerRate,
    EulerType,
    Number,
    Quaternion,
    QuaternionVelocity,
    Vector,
)
from samara.physics.motion.body import angular_velocity_from_euler_rates, attitude_rate, euler_rates


def attitude(angle: EulerType) -> Quat:
    """q = qz(ψ) ⊗ qy(θ) ⊗ qx(φ), body to ground"""
    return quat_from_euler(angle.phi, angle.theta, angle.psi)


def euler_angles(angle: EulerType) -> Euler:
    """The same angles under our names"""
    return Euler(angle.phi, angle.theta, angle.psi)


@document
def cross(u: Vector, v: Vector) -> Vector:
    """u × v"""
    return cross_product(u, v)


@document
def dot(u: Vector, v: Vector) -> Number:
    """u · v"""
    return dot_product(u, v)


@document
def ground_vector_from_body(body: Vector, angle: Angles) -> Vector:
    """v_e = Rz(ψ) Ry(θ) Rx(φ) v, eq. (1.71), (1.124)"""
    return rotate(attitude(angle), body)


@document
def body_vector_from_ground(ground: Vector, angle: Angles) -> Vector:
    """v = (Rz(ψ) Ry(θ) Rx(φ))ᵀ v_e, eq. (1.69), the inverse of (1.124)"""
    return rotate_inverse(attitude(angle), ground)


@partial(document, singular_in="euler")
def euler_rate_from_body_angular_velocity(body_angular_velocity: AngularVelocity, euler: Angles) -> EulerRate:
    """φ̇ = p + tan θ (q sin φ + r cos φ), θ̇ = q cos φ − r sin φ, ψ̇ = sec θ (q sin φ + r cos φ), eq. (1.109)

    Within 0.06° of θ = ±90° the rates of φ and ψ grow without bound: Python warns (`GimbalLockWarning`).
    """
    return EulerType(*euler_rates(euler_angles(euler), body_angular_velocity))


@document
def body_angular_velocity_from_euler_rate(euler_rate: EulerRate, euler: Angles) -> AngularVelocity:
    """p = φ̇ − ψ̇ sin θ, q = θ̇ cos φ + ψ̇ cos θ sin φ, r = −θ̇ sin φ + ψ̇ cos θ cos φ, eq. (1.106)"""
    return angular_velocity_from_euler_rates(euler_angles(euler), Vec3(*euler_rate))


@document
def quaternion_from_euler(euler: Angles) -> Quaternion:
    """q = qz(ψ) ⊗ qy(θ) ⊗ qx(φ)"""
    return attitude(euler)


@document
def euler_from_quaternion(quaternion_wxyz: Quaternion) -> Angles:
    """φ, θ, ψ with qz(ψ) ⊗ qy(θ) ⊗ qx(φ) = ±q; φ = 0 at θ = ±90°"""
    return EulerType(*euler_from_quat(quaternion_wxyz))


@document
def normalize_quaternion(quaternion_wxyz: Quaternion) -> Quaternion:
    """q / |q|"""
    return unit_quaternion(quaternion_wxyz)


normalize = normalize_quaternion


@document
def quaternion_velocity_from_body_angular_velocity(
    body_angular_velocity: AngularVelocity, quaternion_wxyz: Quaternion
) -> QuaternionVelocity:
    """q̇ = ½ q ⊗ (0, p, q, r)"""
    return attitude_rate(quaternion_wxyz, body_angular_velocity)
