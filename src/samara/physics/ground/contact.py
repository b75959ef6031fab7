"""Ground contact: compliant contact points with stick-slip friction.

Each point is a spring and damper against the plane. Its grip is a second spring and damper along the plane, anchored where
the point touched down; the stretch of this spring is the state of the effect. While the force stays below μN the anchor holds:
nothing slips and nothing creeps. Above it the anchor is dragged along and the point slides.

An upright vehicle touches the ground with its feet. The structure above a foot, up to the propellers, is an edge along body z,
and its lower end touches: the foot, or the upper end when upside down. A vehicle without a `top_height` has feet only.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeAlias

from samara.core.algebra import UP, ZERO, Quat, Vec3, cross, dot, norm, rotate, rotate_inverse
from samara.core.ops import clamp, equal, logical_and, logical_or, maximum, where
from samara.core.quantity import Quantity, Scalar, Unit
from samara.physics.effect import Effect, Role, Wrench
from samara.physics.motion.body import AngularVelocity, Velocity

if TYPE_CHECKING:
    from samara.physics.types import Command, Environment, State, Vehicle

Position: TypeAlias = Annotated[Vec3, Quantity("m", -0.01, 0.01)]
Point: TypeAlias = Annotated[Vec3, Quantity("m", -0.3, 0.3)]
Lever: TypeAlias = Annotated[Vec3, Quantity("m", -0.3, 0.3)]
Grip: TypeAlias = Annotated[Vec3, Quantity("m", -0.001, 0.001)]
NormalForce: TypeAlias = Annotated[Scalar, Quantity("N", 0.0, 20.0)]
Height: TypeAlias = Annotated[Scalar, Quantity("m", -0.3, 0.3)]
Upright: TypeAlias = Annotated[Scalar, Quantity("1", -1.0, 1.0)]


_NEGLIGIBLE_GRIP_SQUARED = 1e-40  # [m²]
EDGE_BLEND_RAD = 0.05  # [rad]: an edge closer to horizontal than this touches between its ends
CLEARANCE = 1e-3  # [m]: margin of the height bound for rounding errors
MAX_QUATERNION_NORM_SQUARED = 1.1  # |q|² of an attitude between two stages of a step, before it is normalised


class Ground(NamedTuple):
    """The plane below: any point of it, and its upward unit normal."""

    point_W: Annotated[Vec3, Quantity("m", -0.001, 0.001)] = ZERO
    normal_W: Annotated[Vec3, Unit()] = Vec3(0.0, 0.0, 1.0)


class Surface(NamedTuple):
    """One contact point's spring, damper and friction coefficient."""

    stiffness: Annotated[Scalar, Quantity("N/m", 100.0, 5000.0)]
    damping: Annotated[Scalar, Quantity("N s/m", 1.0, 100.0)]
    friction: Annotated[Scalar, Quantity("1", 0.0, 1.5)]


class Contact(NamedTuple):
    """Contact points of a vehicle and the surface they touch; `top_height` is the height of the upper ends, or ()."""

    points_B: tuple[Point, ...]
    surface: Surface
    top_height: Height | tuple[()] = ()

    @property
    def upper_B(self) -> tuple[Vec3, ...]:
        """The upper ends of all edges; () without a top  [m, body]"""
        if isinstance(self.top_height, tuple):
            return ()
        return tuple(Vec3(x, y, maximum(z, self.top_height)) for x, y, z in self.points_B)

    @property
    def bounding_radius(self) -> Scalar:
        """An upper bound of the distance of any contact point from the centre of mass, for attitudes with |q|² ≤ 1.1  [m]

        With |q|² = s, `rotate` gives s R r + (1 − s) r, of length at most (2s − 1) |r|; between its ends an edge bows out
        by at most l ε / 4.
        """
        radius: Scalar = 0.0
        for point_B in (*self.points_B, *self.upper_B):
            radius = maximum(radius, norm(point_B))
        return radius * ((2.0 * MAX_QUATERNION_NORM_SQUARED - 1.0) * (1.0 + 0.5 * EDGE_BLEND_RAD))

    def is_clear(self, p_W: Vec3, q_WB: Quat, ground: Ground) -> Scalar:
        """(p − p₀)·n > r (1 + n·n) / 2, r ≥ |rᵢ|: the condition that no point touches, in any attitude

        (1 + n·n) / 2 ≥ |n| covers a normal that is not of unit length.
        """
        normal_W = ground.normal_W
        min_height = (self.bounding_radius + CLEARANCE) * (0.5 + 0.5 * dot(normal_W, normal_W))
        height = -dot(ground.point_W - p_W, normal_W)
        return logical_and(
            height > min_height, q_WB.w * q_WB.w + dot(q_WB.vector, q_WB.vector) < MAX_QUATERNION_NORM_SQUARED
        )

    def contact_points(
        self, ground: Ground, p_W: Vec3, v_W: Vec3, q_WB: Quat, omega_B: Vec3
    ) -> "Iterator[tuple[Vec3, ContactPoint]]":
        """Yield the lever arm (world axes) and the motion of every possible contact point  [m, m/s]"""
        omega_W = rotate(q_WB, omega_B)
        for foot_B in self.points_B:
            if isinstance(self.top_height, tuple):
                r_W = rotate(q_WB, foot_B)
                yield r_W, contact_point(p_W, v_W, omega_W, r_W, ground=ground)
            else:
                end = lower_end(foot_B, dot(rotate(q_WB, UP), ground.normal_W), top_height=self.top_height)
                r_W = rotate(q_WB, end.point_B)
                point = contact_point(p_W, v_W, omega_W, r_W, ground=ground)
                yield r_W, point._replace(depth=point.depth + end.bow)


class ContactPoint(NamedTuple):
    """One point relative to the plane: penetration depth, penetration rate and slip velocity."""

    depth: Annotated[Scalar, Quantity("m", -0.001, 0.001)]
    penetration_rate: Annotated[Scalar, Quantity("m/s", -0.1, 0.1)]
    v_slip_W: Annotated[Vec3, Quantity("m/s", -0.1, 0.1)]


class LowerEnd(NamedTuple):
    """The contact point of an edge, and the bow of the edge there."""

    point_B: Point
    bow: Annotated[Scalar, Quantity("m", 0.0, 0.01)]


def inversion_weight(up: Upright) -> Scalar:
    """w = ½ (1 − u/ε) in [0, 1]  with  u = n·R e_z: 0 upright, 1 upside down  [1]"""
    return clamp(0.5 - up * (0.5 / EDGE_BLEND_RAD), 0.0, 1.0)


def lower_end(foot_B: Point, up: Upright, *, top_height: Height) -> LowerEnd:
    """z = z_f + l w,  b = l ε w (1 − w)  with  l = max(0, z_t − z_f)  [m]

    min(z_f u, z_t u), the lowest z u of the edge, as a smooth function h(u): z = h′ and b = z u − h. So z u − b is the height
    and the force acts at (x, y, z); turning over neither adds nor removes energy.
    """
    weight = inversion_weight(up)
    length = maximum(top_height - foot_B.z, 0.0)
    return LowerEnd(
        Vec3(foot_B.x, foot_B.y, foot_B.z + length * weight), length * (EDGE_BLEND_RAD * (weight * (1.0 - weight)))
    )


def contact_point(
    p_W: Position, v_W: Velocity, omega_W: AngularVelocity, r_W: Lever, *, ground: Ground
) -> ContactPoint:
    """d = −(p + r − p₀)·n,  ḋ = −ṙ·n,  v_slip = ṙ − (ṙ·n) n  with  ṙ = v + ω × r  [m, m/s]"""
    v_point_W = v_W + cross(omega_W, r_W)
    v_normal = dot(v_point_W, ground.normal_W)
    depth = dot(ground.point_W - p_W - r_W, ground.normal_W)
    return ContactPoint(depth, -v_normal, v_point_W - ground.normal_W * v_normal)


def normal_force(point: ContactPoint, *, surface: Surface) -> Scalar:
    """N = max(0, k d + c ḋ) below the surface, else 0: the ground never pulls  [N]"""
    elastic_force = surface.stiffness * point.depth + surface.damping * point.penetration_rate
    return where(point.depth <= 0, 0.0, maximum(elastic_force, 0.0))


def friction_force(point: ContactPoint, grip_W: Grip, normal: NormalForce, *, surface: Surface) -> Vec3:
    """f = −(k s + c v_slip), limited to |f| ≤ μN; 0 off the ground, with slope 0 also at rest  [N]"""
    unlimited_W = grip_W * surface.stiffness + point.v_slip_W * surface.damping
    magnitude, limit = norm(unlimited_W), surface.friction * normal
    slipping = magnitude > limit
    return unlimited_W * -where(slipping, limit / where(slipping, magnitude, 1.0), where(normal > 0, 1.0, 0.0))


def grip_rate(point: ContactPoint, grip_W: Grip, normal: NormalForce, *, surface: Surface) -> Vec3:
    """k s + c ṡ = −f: spring and damper carry the friction; ṡ = v_slip while the anchor holds, and the difference slides  [m/s]

    The sliding velocity v_slip − ṡ is along the friction: spring, damper and slider together only dissipate energy. Off the
    ground f = 0 and the grip decays within c/k. Below 1e-20 m it stops decaying, because denormal floating-point numbers are
    slow.
    """
    square = dot(grip_W, grip_W)
    negligible = logical_and(normal <= 0, logical_and(square > 0, square < _NEGLIGIBLE_GRIP_SQUARED))
    spring = grip_W * where(negligible, 0.0, surface.stiffness)
    return -(friction_force(point, grip_W, normal, surface=surface) + spring) / surface.damping


def _initial(vehicle: "Vehicle") -> tuple[Vec3, ...]:
    return tuple(ZERO for _ in vehicle["contact"].points_B)


def _loaded_points(
    grips_W: tuple[Vec3, ...], state: "State", contact: Contact, ground: Ground
) -> Iterator[tuple[Vec3, ContactPoint, Vec3, Scalar]]:
    """Lever arm, motion, grip and normal force of every contact point."""
    points = contact.contact_points(ground, state.p_W, state.v_W, state.q_WB, state.omega_B)
    for (r_W, point), grip_W in zip(points, grips_W, strict=True):
        yield r_W, point, grip_W, normal_force(point, surface=contact.surface)


def _derivative(
    grips_W: tuple[Vec3, ...], state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment"
) -> tuple[Vec3, ...]:
    contact: Contact = vehicle["contact"]
    return tuple(
        grip_rate(point, grip_W, normal, surface=contact.surface)
        for _, point, grip_W, normal in _loaded_points(grips_W, state, contact, environment.ground)
    )


def _wrench(
    grips_W: tuple[Vec3, ...], state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment"
) -> Wrench:
    contact: Contact = vehicle["contact"]
    f_W, tau_W = ZERO, ZERO
    for r_W, point, grip_W, normal in _loaded_points(grips_W, state, contact, environment.ground):
        friction_W = friction_force(point, grip_W, normal, surface=contact.surface)
        force_W = environment.ground.normal_W * normal + friction_W
        f_W, tau_W = f_W + force_W, tau_W + cross(r_W, force_W)
    return Wrench(tau_B=rotate_inverse(state.q_WB, tau_W), f_W=f_W)


def _is_grip_constant(grip_W: Grip) -> Scalar:
    """s = 0 or 0 < |s|² < 1e-40 m²: the condition that the grip is constant off the ground, ṡ = 0"""
    square = dot(grip_W, grip_W)
    negligible = logical_and(square > 0, square < _NEGLIGIBLE_GRIP_SQUARED)
    zero = logical_and(equal(grip_W.x, 0.0), logical_and(equal(grip_W.y, 0.0), equal(grip_W.z, 0.0)))
    return logical_or(zero, negligible)


def _idle(grips_W: tuple[Vec3, ...], state: "State", vehicle: "Vehicle", environment: "Environment") -> Scalar:
    idle = vehicle["contact"].is_clear(state.p_W, state.q_WB, environment.ground)
    for grip_W in grips_W:
        idle = logical_and(idle, _is_grip_constant(grip_W))
    return idle


COMPLIANT = Effect(
    "contact",
    _initial,
    _derivative,
    _wrench,
    idle=_idle,
    role=Role.CONTACT,
    planned=False,
    state_unit="m",
    state_description="stretch of each contact point's grip, world axes [m]",
)
