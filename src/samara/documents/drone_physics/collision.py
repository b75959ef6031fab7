"""Walls and impacts: velocities after contact, impulses, and what an impulse does."""

from samara.core.algebra import IDENTITY, ZERO, Vec3, diagonal
from samara.core.algebra import cross as cross_product
from samara.core.algebra import dot as dot_product
from samara.core.ops import where
from samara.core.quantity import Scalar
from samara.documents.drone_physics.arguments import document, either
from samara.documents.drone_physics.frames import attitude
from samara.documents.drone_physics.types import (
    Acceleration,
    Angles,
    AngularAcceleration,
    AngularVelocity,
    EulerType,
    Force,
    Impulse,
    InertiaDiag,
    Mass,
    Number,
    Position,
    Time,
    Torque,
    Vector,
    Velocity,
)
from samara.physics.ground.collision import (
    Collider,
    angular_velocity_change,
    collision_impulse,
    velocity_after_bounce,
    velocity_change,
    wall_impulse,
)


@document
def _velocity_after_contact_with_wall(velocity_before: Velocity, normal: Vector, restitution: Number) -> Velocity:
    """v' = v − (1 + e)(v·n) n, whatever the sign of v·n; 0 when the normal vanishes"""
    after = velocity_after_bounce(velocity_before, normal, restitution)
    there = dot_product(normal, normal) > 0.0
    return Vec3(*(where(there, component, 0.0) for component in after))


@document
def _velocity_after_contact_with_wall__points(
    velocity_before: Velocity, center: Position, contact: Position, restitution: Number
) -> Velocity:
    """v' = v − (1 + e)(v·n) n, n along contact − center; 0 when they are closer than 10 µm"""
    arm = contact - center
    after = velocity_after_bounce(velocity_before, arm, restitution)
    apart = dot_product(arm, arm) > 1e-10
    return Vec3(*(where(apart, component, 0.0) for component in after))


velocity_after_contact_with_wall = either(
    "velocity_after_contact_with_wall",
    _velocity_after_contact_with_wall,
    _velocity_after_contact_with_wall__points,
)


def _collider(v: Vec3, omega: Vec3, euler: EulerType, r: Vec3, mass: Scalar, inertia: Vec3) -> Collider:
    return Collider(v, omega, r, attitude(euler), mass, diagonal(inertia))


@document
def _impulse_by_collision(
    self_velocity: Velocity,
    self_angular_velocity: AngularVelocity,
    self_euler: Angles,
    target_velocity: Velocity,
    target_angular_velocity: AngularVelocity,
    target_euler: Angles,
    self_contact: Position,
    target_contact: Position,
    self_mass: Mass,
    target_mass: Mass,
    self_inertia: InertiaDiag,
    target_inertia: InertiaDiag,
    normal: Vector,
    restitution_coefficient: Number,
) -> Impulse:
    """J = −(1 + e)(v_rel·n) n / (1/m₁ + 1/m₂ + (r₁×n)·I₁⁻¹(r₁×n) + (r₂×n)·I₂⁻¹(r₂×n)), on the self

    All vectors are in one frame; the angles turn each body's inertia into it. n and −n give the same.
    """
    own = _collider(self_velocity, self_angular_velocity, self_euler, self_contact, self_mass, self_inertia)
    other = _collider(
        target_velocity, target_angular_velocity, target_euler, target_contact, target_mass, target_inertia
    )
    return collision_impulse(own, other, normal, restitution_coefficient)


@document
def _impulse_by_collision__wall(
    self_velocity: Velocity,
    self_angular_velocity: AngularVelocity,
    self_euler: Angles,
    target_velocity: Velocity,
    self_contact: Position,
    self_mass: Mass,
    self_inertia: InertiaDiag,
    normal: Vector,
    restitution_coefficient: Number,
) -> Impulse:
    """J = −(1 + e)(v_rel·n) n / (1/m + (r×n)·I⁻¹(r×n)): the target's mass and inertia are without bound"""
    own = _collider(self_velocity, self_angular_velocity, self_euler, self_contact, self_mass, self_inertia)
    return wall_impulse(own, target_velocity, normal, restitution_coefficient)


impulse_by_collision = either("impulse_by_collision", _impulse_by_collision, _impulse_by_collision__wall)


@document
def delta_velocity_from_impulse(impulse: Impulse, mass: Mass) -> Velocity:
    """Δv = J / m"""
    return velocity_change(impulse, mass=mass)


@document
def acceleration_from_impulse(impulse: Impulse, mass: Mass, delta_time: Time) -> Acceleration:
    """a = J / (m Δt)"""
    return velocity_change(impulse, mass=mass) / delta_time


@document
def force_from_impulse(impulse: Impulse, delta_time: Time) -> Force:
    """F = J / Δt"""
    return impulse / delta_time


def _twist(impulse: Vec3, r1: Vec3, inertia: Vec3) -> Vec3:
    return angular_velocity_change(impulse, Collider(ZERO, ZERO, r1, IDENTITY, 1.0, diagonal(inertia)))


@document
def delta_angular_velocity_from_impulse(impulse: Impulse, r1: Position, inertia_diag: InertiaDiag) -> AngularVelocity:
    """Δω = I⁻¹ (r₁ × J), in body axes"""
    return _twist(impulse, r1, inertia_diag)


@document
def angular_acceleration_from_impulse(
    impulse: Impulse, r1: Position, inertia_diag: InertiaDiag, delta_time: Time
) -> AngularAcceleration:
    """α = I⁻¹ (r₁ × J) / Δt, in body axes"""
    return _twist(impulse, r1, inertia_diag) / delta_time


@document
def torque_from_impulse(impulse: Impulse, r1: Position, delta_time: Time) -> Torque:
    """τ = (r₁ × J) / Δt"""
    return cross_product(r1, impulse) / delta_time
