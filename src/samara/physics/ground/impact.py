"""Impacts of a rigid body with a wall or another body: a normal impulse, then a tangential impulse by friction.

All vectors are in one frame; r is from the body's centre of mass to the contact point. With friction, the normal impulse acts
only when the points approach. The friction impulse opposes the remaining slip; it is at most the impulse that stops the slip,
and at most μ times the normal impulse. Neither part adds energy, so an impact never adds any, for every
restitution from 0 to 1, every friction and every shape of the bodies.
"""

from typing import Annotated, NamedTuple, TypeAlias

from samara.core.algebra import (
    ZERO,
    Attitude,
    Vec3,
    Vector,
    cross,
    direction,
    dot,
    norm,
    rotate,
    rotate_inverse,
    solve_definite,
)
from samara.core.ops import minimum, safe_divide, where
from samara.core.quantity import Mass, Quantity, Scalar, Unit
from samara.physics.motion.body import AngularVelocity, Inertia, Velocity
from samara.physics.types import State, Vehicle

Impulse: TypeAlias = Annotated[Vec3, Quantity("N s", -5.0, 5.0)]
ContactArm: TypeAlias = Annotated[Vec3, Quantity("m", -0.5, 0.5)]
Restitution: TypeAlias = Annotated[Scalar, Quantity("1", 0.0, 1.0)]


class Collider(NamedTuple):
    """A body before an impact: its motion in the common frame W, the contact point, and its mass and inertia."""

    v_W: Velocity
    omega_W: AngularVelocity
    r_W: ContactArm
    q_WB: Attitude
    mass: Mass
    inertia_B: Inertia


def velocity_after_bounce(v: Velocity, normal: Vector, restitution: Restitution) -> Vec3:
    """v' = v − (1 + e)(v·n) n,  n = normal/|normal|: the tangential part stays, for either sign of v·n  [m/s]"""
    n = direction(normal)
    return v - n * ((1.0 + restitution) * dot(v, n))


def contact_velocity(body: Collider) -> Vec3:
    """v + ω × r  [m/s]"""
    return body.v_W + cross(body.omega_W, body.r_W)


def angular_velocity_change(impulse: Impulse, body: Collider) -> Vec3:
    """Δω = J⁻¹ (r × p), the inertia J rotated with the body  [rad/s]"""
    twist_B = rotate_inverse(body.q_WB, cross(body.r_W, impulse))
    return rotate(body.q_WB, solve_definite(body.inertia_B, twist_B))


def velocity_change(impulse: Impulse, *, mass: Mass) -> Vec3:
    """Δv = p / m  [m/s]"""
    return impulse / mass


def compliance(body: Collider, normal: Vector) -> Scalar:
    """1/m + (r × n)·J⁻¹(r × n): the velocity of the contact point along n per unit impulse along n  [1/kg]"""
    return 1.0 / body.mass + dot(cross(body.r_W, normal), angular_velocity_change(normal, body))


def collision_impulse(body: Collider, other: Collider, normal: Vector, restitution: Restitution) -> Vec3:
    """p = −(1 + e)(v_rel·n) n / (c₁ + c₂),  c the `compliance`: on the first body; −p acts on the other  [N·s]

    The contact points separate at e times their approach speed along the normal; n and −n give the same result.
    """
    n = direction(normal)
    approach_velocity = dot(contact_velocity(body) - contact_velocity(other), n)
    return n * (-(1.0 + restitution) * approach_velocity / (compliance(body, n) + compliance(other, n)))


def wall_impulse(body: Collider, v_wall_W: Velocity, normal: Vector, restitution: Restitution) -> Vec3:
    """p = −(1 + e)(v_rel·n) n / c: against an immovable wall whose surface moves at v_wall  [N·s]"""
    n = direction(normal)
    approach_velocity = dot(contact_velocity(body) - v_wall_W, n)
    return n * (-(1.0 + restitution) * approach_velocity / compliance(body, n))


Normal: TypeAlias = Annotated[Vec3, Unit()]


class Material(NamedTuple):
    """Restitution (1 bounces fully, 0 not at all) and Coulomb friction coefficient of two surfaces."""

    restitution: Annotated[Scalar, Quantity("1", 0.0, 1.0)] = 0.3
    friction: Annotated[Scalar, Quantity("1", 0.0, 1.5)] = 0.4


def apply_impulse(body: Collider, impulse: Impulse) -> Collider:
    """v + p/m,  ω + J⁻¹(r × p)"""
    return body._replace(
        v_W=body.v_W + velocity_change(impulse, mass=body.mass),
        omega_W=body.omega_W + angular_velocity_change(impulse, body),
    )


def wall_impact_impulse(body: Collider, v_wall_W: Velocity, normal_W: Normal, *, material: Material) -> Vec3:
    """p = pₙ n − min(μ pₙ, |v_t|/c_t) t: on a body that approaches the wall, else 0; n points out of the wall  [N·s]"""
    approach = dot(contact_velocity(body) - v_wall_W, normal_W)
    normal_impulse = wall_impulse(body, v_wall_W, normal_W, material.restitution) * where(approach < 0.0, 1.0, 0.0)
    slip = _tangential(contact_velocity(apply_impulse(body, normal_impulse)) - v_wall_W, normal_W)
    slip_direction = direction(slip)
    return normal_impulse - slip_direction * _friction_impulse(
        norm(normal_impulse), norm(slip), compliance(body, slip_direction), material
    )


def impact_impulse(body: Collider, other: Collider, normal_W: Normal, *, material: Material) -> Vec3:
    """p = pₙ n − min(μ pₙ, |v_t|/(c₁ + c₂)) t: on the first body; −p acts on the other; n points towards the first  [N·s]"""
    approach = dot(contact_velocity(body) - contact_velocity(other), normal_W)
    normal_impulse = collision_impulse(body, other, normal_W, material.restitution) * where(approach < 0.0, 1.0, 0.0)
    v_relative = contact_velocity(apply_impulse(body, normal_impulse)) - contact_velocity(
        apply_impulse(other, -normal_impulse)
    )
    slip = _tangential(v_relative, normal_W)
    slip_direction = direction(slip)
    total_compliance = compliance(body, slip_direction) + compliance(other, slip_direction)
    return normal_impulse - slip_direction * _friction_impulse(
        norm(normal_impulse), norm(slip), total_compliance, material
    )


def velocities_after_wall_impact(
    v_W: Velocity,
    omega_B: AngularVelocity,
    q_WB: Attitude,
    r_W: ContactArm,
    normal_W: Normal,
    *,
    mass: Mass,
    inertia_B: Inertia,
    material: Material,
) -> tuple[Vec3, Vec3]:
    """Return v and ω_B of a body after an impact with a wall at rest, at r from its centre of mass  [m/s, rad/s]"""
    before = Collider(v_W, rotate(q_WB, omega_B), r_W, q_WB, mass, inertia_B)
    after = apply_impulse(before, wall_impact_impulse(before, ZERO, normal_W, material=material))
    return after.v_W, rotate_inverse(q_WB, after.omega_W)


def _tangential(v_W: Vec3, normal_W: Vec3) -> Vec3:
    return v_W - normal_W * dot(v_W, normal_W)


def _friction_impulse(normal_impulse: Scalar, slip: Scalar, contact_compliance: Scalar, material: Material) -> Scalar:
    return minimum(material.friction * normal_impulse, safe_divide(slip, contact_compliance))


def vehicle_collider(state: State, r_W: Annotated[Vec3, Quantity("m", -0.5, 0.5)], vehicle: Vehicle) -> Collider:
    """Return the collider of a vehicle for an impact at r_W from its centre of mass."""
    return Collider(state.v_W, rotate(state.q_WB, state.omega_B), r_W, state.q_WB, vehicle.mass, vehicle.inertia_B)


def state_after_impulse(
    state: State, impulse: Impulse, r_W: Annotated[Vec3, Quantity("m", -0.5, 0.5)], vehicle: Vehicle
) -> State:
    """Return the state after an impulse p at r_W: only v and ω change."""
    after = apply_impulse(vehicle_collider(state, r_W, vehicle), impulse)
    return state._replace(v_W=after.v_W, omega_B=rotate_inverse(state.q_WB, after.omega_W))
