"""A load on a cable: a point mass that hangs from a point of the body, swings, goes slack, and may lie on the ground.

The cable is a spring and a damper that pull and never push. It has no mass; the load has drag in the wind, not in the air
that the rotors blow down.

Its state is where the load is, seen from the point it hangs from, and how fast it moves over the ground. So a vehicle that
is put anywhere at rest, turned as it may be, has its load hanging at rest below that point; and on a GPU's 24 bits the
stretch of the cable does not suffer when the drone is far from the origin. `samara.hover` and the start of a simulation
settle it: aslant in wind, and on the ground where it would hang below.
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
Place: TypeAlias = Annotated[Vec3, Quantity("m", -0.3, 0.3)]
Wind: TypeAlias = Annotated[Vec3, Quantity("m/s", -10.0, 10.0)]
Hook: TypeAlias = Annotated[Vec3, Quantity("m", -100.0, 100.0)]
Force: TypeAlias = Annotated[Vec3, Quantity("N", -50.0, 50.0)]
Friction: TypeAlias = Annotated[Scalar, Quantity("1", 0.0, 1.5)]

_GROUND_MODE, _GROUND_DAMPING = 500.0, 0.7  # [rad/s]: half a radian in a step of 1 ms, which RK4 follows; ratio


class SlungLoad(NamedTuple):
    """The load, its cable, and the point of the body it hangs from. `drag_area` is C_D A: 0.47 of a ball's cross-section.

    `friction` is that on the ground. A cable with neither stiffness nor damping is one that was cut.
    """

    mass: Mass
    length: Annotated[Scalar, Quantity("m", 0.1, 5.0)]
    stiffness: Annotated[Scalar, Quantity("N/m", 0.0, 1e4)]
    damping: Annotated[Scalar, Quantity("N s/m", 0.0, 100.0)]
    attachment_B: Place = ZERO
    drag_area: Annotated[Scalar, Quantity("m^2", 0.0, 0.1)] = 0.0
    friction: Friction = 0.8


class LoadState(NamedTuple):
    """From the attachment to the load, the load's velocity, and how far its grip on the ground is stretched; world axes."""

    cable_W: Cable
    v_W: Velocity
    grip_W: Annotated[Vec3, Quantity("m", -0.001, 0.001)] = ZERO


def cable_tension(cable_W: Cable, rate_W: Velocity, *, load: SlungLoad) -> Scalar:
    """T = max(0, k e + c ė) where e = |s| − l > 0, else 0;  ė = ṡ·s/|s|: a cable pulls and never pushes  [N]"""
    stretch = norm(cable_W) - load.length
    pull = load.stiffness * stretch + load.damping * dot(rate_W, direction(cable_W))
    return where(stretch <= 0, 0.0, maximum(pull, 0.0))


def cable_rate(
    load_v_W: Velocity, q_WB: Attitude, v_W: Velocity, omega_B: AngularVelocity, *, attachment_B: Place
) -> Vec3:
    """ṡ = v_L − v − R (ω × r)  [m/s]"""
    return load_v_W - v_W - rotate(q_WB, cross(omega_B, attachment_B))


def load_drag(v_W: Velocity, wind_W: Wind, air_density: AirDensity, *, load: SlungLoad) -> Vec3:
    """f = −½ ρ C_D A |u| u,  u = v_L − w  [N]"""
    u_W = v_W - wind_W
    return u_W * (-0.5 * air_density * load.drag_area * norm(u_W))


def load_surface(mass: Mass, friction: Friction) -> Surface:
    """k = m ω²,  c = 2 ζ m ω,  ω = 500 rad/s, ζ = 0.7: how a load meets the ground, as hard as the feet of a vehicle"""
    return Surface(mass * _GROUND_MODE * _GROUND_MODE, 2.0 * _GROUND_DAMPING * _GROUND_MODE * mass, friction)


def hanging_cable(force_W: Force, *, load: SlungLoad) -> Vec3:
    """s = (l + |F|/k) F/|F|: along what pulls at the load, weight and wind  [m]"""
    return direction(force_W) * (load.length + safe_divide(norm(force_W), load.stiffness))


def lying_cable(hook_W: Hook, force_W: Force, *, surface: Surface, ground: Ground) -> Vec3:
    """s = −e₃ ((p − p₀)·n + d)/(n·e₃),  d = −F·n/k: straight down to the ground, and into it by what lies there  [m]"""
    height = dot(hook_W - ground.point_W, ground.normal_W) - dot(force_W, ground.normal_W) / surface.stiffness
    return Vec3(0.0, 0.0, safe_divide(-height, ground.normal_W.z))


def attached_wrench(pull_W: Force, q_WB: Attitude, attachment_B: Place) -> Wrench:
    """f_W,  τ_B = r × Rᵀ f_W: a force that acts at a point of the body  [N, N·m]"""
    return Wrench(tau_B=cross(attachment_B, rotate_inverse(q_WB, pull_W)), f_W=pull_W)


def load_place(
    p_W: Annotated[Vec3, Quantity("m", -100.0, 100.0)], q_WB: Attitude, cable_W: Cable, *, attachment_B: Place
) -> Vec3:
    """p_L = p + R r + s: where the load is  [m]"""
    return p_W + rotate(q_WB, attachment_B) + cable_W


def _hanging(vehicle: "Vehicle") -> LoadState:
    """At rest in calm air, straight below the attachment, the cable stretched by the weight."""
    load: SlungLoad = vehicle["slung_load"]
    g = vehicle["gravity"].acceleration if vehicle.has("gravity") else 0.0
    return LoadState(Vec3(0.0, 0.0, -load.length - safe_divide(load.mass * g, load.stiffness)), ZERO)


def _pulled(own: LoadState, state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment") -> Vec3:
    """Weight and wind. The load falls as the vehicle does: m_L/m of its weight."""
    load: SlungLoad = vehicle["slung_load"]
    f_W = load_drag(own.v_W, environment.wind_W, environment.air_density, load=load)
    if not vehicle.has("gravity"):
        return f_W
    at = vehicle.index("gravity")
    weight = vehicle.structure.effects[at].wrench(state.effects[at], state, command, vehicle, environment)
    return f_W + weight.f_W * (load.mass / vehicle.mass)


def _tug(own: LoadState, state: "State", load: SlungLoad) -> Vec3:
    """What the cable does to the body, and, turned round, to the load."""
    rate_W = cable_rate(own.v_W, state.q_WB, state.v_W, state.omega_B, attachment_B=load.attachment_B)
    return direction(own.cable_W) * cable_tension(own.cable_W, rate_W, load=load)


def _derivative(
    own: LoadState, state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment"
) -> LoadState:
    load: SlungLoad = vehicle["slung_load"]
    surface, ground = load_surface(load.mass, load.friction), environment.ground
    p_W = load_place(state.p_W, state.q_WB, own.cable_W, attachment_B=load.attachment_B)
    point = contact_point(p_W, own.v_W, ZERO, ZERO, ground=ground)
    normal = normal_force(point, surface=surface)
    f_W = _pulled(own, state, command, vehicle, environment) - _tug(own, state, load)
    f_W = f_W + ground.normal_W * normal + friction_force(point, own.grip_W, normal, surface=surface)
    return LoadState(
        cable_rate(own.v_W, state.q_WB, state.v_W, state.omega_B, attachment_B=load.attachment_B),
        f_W / load.mass,
        grip_rate(point, own.grip_W, normal, surface=surface),
    )


def _wrench(
    own: LoadState, state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment"
) -> Wrench:
    load: SlungLoad = vehicle["slung_load"]
    return attached_wrench(_tug(own, state, load), state.q_WB, load.attachment_B)


def _settled(
    own: LoadState, state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment"
) -> LoadState:
    """Hanging along what pulls at it; where that is below the ground, lying under the attachment with the cable slack."""
    load: SlungLoad = vehicle["slung_load"]
    surface, ground = load_surface(load.mass, load.friction), environment.ground
    force_W = _pulled(own._replace(v_W=ZERO), state, command, vehicle, environment)
    hook_W = state.p_W + rotate(state.q_WB, load.attachment_B)
    hangs_W = hanging_cable(force_W, load=load)
    lies_W = lying_cable(hook_W, force_W, surface=surface, ground=ground)
    on_ground = dot(hook_W + hangs_W - ground.point_W, ground.normal_W) < 0
    along_W = force_W - ground.normal_W * dot(force_W, ground.normal_W)
    cable_W, grip_W = (
        Vec3(*(where(on_ground, a, b) for a, b in zip(lying, hanging, strict=True)))
        for lying, hanging in ((lies_W, hangs_W), (along_W / surface.stiffness, ZERO))
    )
    return LoadState(cable_W, ZERO, grip_W)


SLUNG_LOAD = Effect("slung_load", _hanging, _derivative, _wrench, _settled, planned=False)
