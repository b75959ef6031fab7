"""A slung load: a point mass on a cable that swings, goes slack and can rest on the ground.

The cable is a spring and a damper that can only pull. It has no mass; the load has drag in the wind, but not in the downwash of
the rotors.

The state is the position of the load relative to its attachment point, and its velocity over the ground. So the load of a
vehicle at rest, at any position and attitude, hangs at rest below the attachment; and in single precision, as on a GPU, the
stretch of the cable stays accurate far from the origin. `samara.hover` and the start of a simulation settle it: inclined in
wind, and on the ground if it would hang below.
"""

from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeAlias

from samara.core.algebra import ZERO, Attitude, Vec3, cross, direction, dot, norm, rotate, rotate_inverse
from samara.core.ops import maximum, safe_divide, where
from samara.core.quantity import AirDensity, Mass, Quantity, Scalar
from samara.physics.effect import Effect, Wrench
from samara.physics.ground.contact import Ground, Surface, contact_point, friction_force, grip_rate, normal_force
from samara.physics.motion.body import AngularVelocity, Velocity

if TYPE_CHECKING:
    from samara.physics.types import Command, Environment, State, Vehicle

Cable: TypeAlias = Annotated[Vec3, Quantity("m", -2.0, 2.0)]
AttachmentPosition: TypeAlias = Annotated[Vec3, Quantity("m", -0.3, 0.3)]
Wind: TypeAlias = Annotated[Vec3, Quantity("m/s", -10.0, 10.0)]
Hook: TypeAlias = Annotated[Vec3, Quantity("m", -100.0, 100.0)]
Force: TypeAlias = Annotated[Vec3, Quantity("N", -50.0, 50.0)]
Friction: TypeAlias = Annotated[Scalar, Quantity("1", 0.0, 1.5)]

_GROUND_MODE, _GROUND_DAMPING = 500.0, 0.7  # [rad/s], damping ratio: half a radian per step of 1 ms, which RK4 resolves


class SlungLoad(NamedTuple):
    """The load, its cable, and the attachment point on the body. `drag_area` is C_D A: 0.47 of the cross-section of a sphere.

    `friction` is that on the ground. A cable with neither stiffness nor damping has been cut.
    """

    mass: Mass
    length: Annotated[Scalar, Quantity("m", 0.1, 5.0)]
    stiffness: Annotated[Scalar, Quantity("N/m", 0.0, 1e4)]
    damping: Annotated[Scalar, Quantity("N s/m", 0.0, 100.0)]
    attachment_B: AttachmentPosition = ZERO
    drag_area: Annotated[Scalar, Quantity("m^2", 0.0, 0.1)] = 0.0
    friction: Friction = 0.8


class LoadState(NamedTuple):
    """The vector from attachment to load, the load's velocity, and the stretch of its grip on the ground; world axes."""

    cable_W: Cable
    v_W: Velocity
    grip_W: Annotated[Vec3, Quantity("m", -0.001, 0.001)] = ZERO


def cable_tension(cable_W: Cable, rate_W: Velocity, *, load: SlungLoad) -> Scalar:
    """T = max(0, k e + c ė) where e = |s| − l > 0, else 0;  ė = ṡ·s/|s|: a cable can only pull  [N]"""
    stretch = norm(cable_W) - load.length
    tension = load.stiffness * stretch + load.damping * dot(rate_W, direction(cable_W))
    return where(stretch <= 0, 0.0, maximum(tension, 0.0))


def cable_rate(
    load_v_W: Velocity, q_WB: Attitude, v_W: Velocity, omega_B: AngularVelocity, *, attachment_B: AttachmentPosition
) -> Vec3:
    """ṡ = v_L − v − R (ω × r)  [m/s]"""
    return load_v_W - v_W - rotate(q_WB, cross(omega_B, attachment_B))


def load_drag(v_W: Velocity, wind_W: Wind, air_density: AirDensity, *, load: SlungLoad) -> Vec3:
    """f = −½ ρ C_D A |u| u,  u = v_L − w  [N]"""
    u_W = v_W - wind_W
    return u_W * (-0.5 * air_density * load.drag_area * norm(u_W))


def load_surface(mass: Mass, friction: Friction) -> Surface:
    """k = m ω²,  c = 2 ζ m ω,  ω = 500 rad/s, ζ = 0.7: ground contact of a load, as stiff as the feet of a vehicle"""
    return Surface(mass * _GROUND_MODE * _GROUND_MODE, 2.0 * _GROUND_DAMPING * _GROUND_MODE * mass, friction)


def hanging_cable(force_W: Force, *, load: SlungLoad) -> Vec3:
    """s = (l + |F|/k) F/|F|: along the external force F on the load, weight and drag  [m]"""
    return direction(force_W) * (load.length + safe_divide(norm(force_W), load.stiffness))


def lying_cable(hook_W: Hook, force_W: Force, *, surface: Surface, ground: Ground) -> Vec3:
    """s = −e₃ ((p − p₀)·n + d)/(n·e₃),  d = −F·n/k: vertically down to the ground, and into it by the penetration d  [m]"""
    height = dot(hook_W - ground.point_W, ground.normal_W) - dot(force_W, ground.normal_W) / surface.stiffness
    return Vec3(0.0, 0.0, safe_divide(-height, ground.normal_W.z))


def attachment_wrench(force_W: Force, q_WB: Attitude, attachment_B: AttachmentPosition) -> Wrench:
    """f_W,  τ_B = r × Rᵀ f_W: a force at a point of the body  [N, N·m]"""
    return Wrench(tau_B=cross(attachment_B, rotate_inverse(q_WB, force_W)), f_W=force_W)


def load_position(
    p_W: Annotated[Vec3, Quantity("m", -100.0, 100.0)],
    q_WB: Attitude,
    cable_W: Cable,
    *,
    attachment_B: AttachmentPosition,
) -> Vec3:
    """p_L = p + R r + s: the position of the load  [m]"""
    return p_W + rotate(q_WB, attachment_B) + cable_W


def _initial_load(vehicle: "Vehicle") -> LoadState:
    """Return the load at rest in calm air, vertically below the attachment, with the cable stretched by the weight."""
    load: SlungLoad = vehicle["slung_load"]
    g = vehicle["gravity"].acceleration if vehicle.has("gravity") else 0.0
    return LoadState(Vec3(0.0, 0.0, -load.length - safe_divide(load.mass * g, load.stiffness)), ZERO)


def _external_force(
    load_state: LoadState, state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment"
) -> Vec3:
    """F = m_L/m W + f_drag: W is the weight of the vehicle"""
    load: SlungLoad = vehicle["slung_load"]
    f_W = load_drag(load_state.v_W, environment.wind_W, environment.air_density, load=load)
    if not vehicle.has("gravity"):
        return f_W
    index = vehicle.index("gravity")
    weight = vehicle.structure.effects[index].wrench(state.effects[index], state, command, vehicle, environment)
    return f_W + weight.f_W * (load.mass / vehicle.mass)


def _cable_force(load_state: LoadState, state: "State", load: SlungLoad) -> Vec3:
    """The force of the cable on the body; its negative acts on the load."""
    rate_W = cable_rate(load_state.v_W, state.q_WB, state.v_W, state.omega_B, attachment_B=load.attachment_B)
    return direction(load_state.cable_W) * cable_tension(load_state.cable_W, rate_W, load=load)


def _derivative(
    load_state: LoadState, state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment"
) -> LoadState:
    load: SlungLoad = vehicle["slung_load"]
    surface, ground = load_surface(load.mass, load.friction), environment.ground
    p_W = load_position(state.p_W, state.q_WB, load_state.cable_W, attachment_B=load.attachment_B)
    point = contact_point(p_W, load_state.v_W, ZERO, ZERO, ground=ground)
    normal = normal_force(point, surface=surface)
    f_W = _external_force(load_state, state, command, vehicle, environment) - _cable_force(load_state, state, load)
    f_W = f_W + ground.normal_W * normal + friction_force(point, load_state.grip_W, normal, surface=surface)
    return LoadState(
        cable_rate(load_state.v_W, state.q_WB, state.v_W, state.omega_B, attachment_B=load.attachment_B),
        f_W / load.mass,
        grip_rate(point, load_state.grip_W, normal, surface=surface),
    )


def _wrench(
    load_state: LoadState, state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment"
) -> Wrench:
    load: SlungLoad = vehicle["slung_load"]
    return attachment_wrench(_cable_force(load_state, state, load), state.q_WB, load.attachment_B)


def _steady_load(
    load_state: LoadState, state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment"
) -> LoadState:
    """Return the load hanging along the force on it or, if that is below the ground, lying under the attachment."""
    load: SlungLoad = vehicle["slung_load"]
    surface, ground = load_surface(load.mass, load.friction), environment.ground
    force_W = _external_force(load_state._replace(v_W=ZERO), state, command, vehicle, environment)
    hook_W = state.p_W + rotate(state.q_WB, load.attachment_B)
    hanging_W = hanging_cable(force_W, load=load)
    lying_W = lying_cable(hook_W, force_W, surface=surface, ground=ground)
    on_ground = dot(hook_W + hanging_W - ground.point_W, ground.normal_W) < 0
    tangential_W = force_W - ground.normal_W * dot(force_W, ground.normal_W)
    cable_W, grip_W = (
        Vec3(*(where(on_ground, a, b) for a, b in zip(lying, hanging, strict=True)))
        for lying, hanging in ((lying_W, hanging_W), (tangential_W / surface.stiffness, ZERO))
    )
    return LoadState(cable_W, ZERO, grip_W)


SLUNG_LOAD = Effect("slung_load", _initial_load, _derivative, _wrench, _steady_load, planned=False)
