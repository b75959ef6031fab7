"""Impacts with friction: the impulse along the normal, then the one that friction allows across it.

The first part is `collision.py`'s, and only when the points approach. The second is along the slip that is left and never more
than what stops it, nor than μ times the first. Each part alone takes energy or leaves it, so the whole never adds any: not
with any restitution from 0 to 1, any friction, any shape of the bodies.
"""

from typing import Annotated, NamedTuple, TypeAlias

from samara.core.algebra import ZERO, Attitude, Vec3, direction, dot, norm, rotate, rotate_inverse
from samara.core.ops import minimum, safe_divide, where
from samara.core.quantity import Mass, Quantity, Scalar, Unit
from samara.physics.ground.collision import (
    Collider,
    ContactArm,
    Impulse,
    angular_velocity_change,
    collision_impulse,
    compliance,
    contact_velocity,
    velocity_change,
    wall_impulse,
)
from samara.physics.motion.body import AngularVelocity, Inertia, Velocity
from samara.physics.types import State, Vehicle

Normal: TypeAlias = Annotated[Vec3, Unit()]


class Material(NamedTuple):
    """How two surfaces meet: restitution (1 bounces fully, 0 not at all) and Coulomb's friction coefficient."""

    restitution: Annotated[Scalar, Quantity("1", 0.0, 1.0)] = 0.3
    friction: Annotated[Scalar, Quantity("1", 0.0, 1.5)] = 0.4


def after_impulse(body: Collider, impulse: Impulse) -> Collider:
    """v + p/m,  ω + J⁻¹(r × p)"""
    return body._replace(
        v_W=body.v_W + velocity_change(impulse, mass=body.mass),
        omega_W=body.omega_W + angular_velocity_change(impulse, body),
    )


def wall_impact_impulse(body: Collider, v_wall_W: Velocity, normal_W: Normal, *, material: Material) -> Vec3:
    """p = pₙ n − min(μ pₙ, |v_t|/c_t) t: of a wall on a body that approaches it, else 0; n points out of the wall  [N·s]"""
    approach = dot(contact_velocity(body) - v_wall_W, normal_W)
    push = wall_impulse(body, v_wall_W, normal_W, material.restitution) * where(approach < 0.0, 1.0, 0.0)
    slip = _across(contact_velocity(after_impulse(body, push)) - v_wall_W, normal_W)
    along = direction(slip)
    return push - along * _friction(norm(push), norm(slip), compliance(body, along), material)


def impact_impulse(body: Collider, other: Collider, normal_W: Normal, *, material: Material) -> Vec3:
    """p = pₙ n − min(μ pₙ, |v_t|/(c₁ + c₂)) t: on the first body; the other feels −p; n points from it to the first  [N·s]"""
    approach = dot(contact_velocity(body) - contact_velocity(other), normal_W)
    push = collision_impulse(body, other, normal_W, material.restitution) * where(approach < 0.0, 1.0, 0.0)
    met = contact_velocity(after_impulse(body, push)) - contact_velocity(after_impulse(other, -push))
    slip = _across(met, normal_W)
    along = direction(slip)
    total = compliance(body, along) + compliance(other, along)
    return push - along * _friction(norm(push), norm(slip), total, material)


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
    """v and ω_B of a body after the impulse of a wall at rest, at r from its centre of mass  [m/s, rad/s]"""
    before = Collider(v_W, rotate(q_WB, omega_B), r_W, q_WB, mass, inertia_B)
    after = after_impulse(before, wall_impact_impulse(before, ZERO, normal_W, material=material))
    return after.v_W, rotate_inverse(q_WB, after.omega_W)


def _across(v_W: Vec3, normal_W: Vec3) -> Vec3:
    return v_W - normal_W * dot(v_W, normal_W)


def _friction(push: Scalar, slip: Scalar, softness: Scalar, material: Material) -> Scalar:
    return minimum(material.friction * push, safe_divide(slip, softness))


def collider_of(state: State, r_W: Annotated[Vec3, Quantity("m", -0.5, 0.5)], vehicle: Vehicle) -> Collider:
    """A vehicle about to be hit at r_W from its centre of mass"""
    return Collider(state.v_W, rotate(state.q_WB, state.omega_B), r_W, state.q_WB, vehicle.mass, vehicle.inertia_B)


def struck(state: State, impulse: Impulse, r_W: Annotated[Vec3, Quantity("m", -0.5, 0.5)], vehicle: Vehicle) -> State:
    """The state after an impulse p at r_W: v and ω change, nothing else does"""
    after = after_impulse(collider_of(state, r_W, vehicle), impulse)
    return state._replace(v_W=after.v_W, omega_B=rotate_inverse(state.q_WB, after.omega_W))
