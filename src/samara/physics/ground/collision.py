"""Impacts: what a rigid body does when it hits a wall or another body, without friction.

All vectors are in one frame, whichever; r is from the body's centre of mass to where it is hit.
"""

from typing import Annotated, NamedTuple, TypeAlias

from samara.core.algebra import Attitude, Vec3, Vector, cross, direction, dot, rotate, rotate_inverse, solve_definite
from samara.core.quantity import Mass, Quantity, Scalar
from samara.physics.motion.body import AngularVelocity, Inertia, Velocity

Impulse: TypeAlias = Annotated[Vec3, Quantity("N s", -5.0, 5.0)]
ContactArm: TypeAlias = Annotated[Vec3, Quantity("m", -0.5, 0.5)]
Restitution: TypeAlias = Annotated[Scalar, Quantity("1", 0.0, 1.0)]


class Collider(NamedTuple):
    """A body about to be hit: its motion in the common frame W, where it is hit, and what resists."""

    v_W: Velocity
    omega_W: AngularVelocity
    r_W: ContactArm
    q_WB: Attitude
    mass: Mass
    inertia_B: Inertia


def velocity_after_bounce(v: Velocity, normal: Vector, restitution: Restitution) -> Vec3:
    """v' = v − (1 + e)(v·n) n,  n = normal/|normal|: the tangential part stays, whichever way v points  [m/s]"""
    n = direction(normal)
    return v - n * ((1.0 + restitution) * dot(v, n))


def contact_velocity(body: Collider) -> Vec3:
    """v + ω × r  [m/s]"""
    return body.v_W + cross(body.omega_W, body.r_W)


def angular_velocity_change(impulse: Impulse, body: Collider) -> Vec3:
    """Δω = J⁻¹ (r × p), the inertia J turned with the body  [rad/s]"""
    twist_B = rotate_inverse(body.q_WB, cross(body.r_W, impulse))
    return rotate(body.q_WB, solve_definite(body.inertia_B, twist_B))


def velocity_change(impulse: Impulse, *, mass: Mass) -> Vec3:
    """Δv = p / m  [m/s]"""
    return impulse / mass


def compliance(body: Collider, normal: Vector) -> Scalar:
    """1/m + (r × n)·J⁻¹(r × n): how fast a unit impulse along n makes the point it hits  [1/kg]"""
    return 1.0 / body.mass + dot(cross(body.r_W, normal), angular_velocity_change(normal, body))


def collision_impulse(body: Collider, other: Collider, normal: Vector, restitution: Restitution) -> Vec3:
    """p = −(1 + e)(v_rel·n) n / (c₁ + c₂),  c the `compliance`: on the first body; the other feels −p  [N·s]

    The points that touch part at e times the speed they met with, along the normal; n and −n give the same.
    """
    n = direction(normal)
    meeting = dot(contact_velocity(body) - contact_velocity(other), n)
    return n * (-(1.0 + restitution) * meeting / (compliance(body, n) + compliance(other, n)))


def wall_impulse(body: Collider, v_wall_W: Velocity, normal: Vector, restitution: Restitution) -> Vec3:
    """p = −(1 + e)(v_rel·n) n / c: against what nothing can move, where its surface moves at v_wall  [N·s]"""
    n = direction(normal)
    meeting = dot(contact_velocity(body) - v_wall_W, n)
    return n * (-(1.0 + restitution) * meeting / compliance(body, n))
