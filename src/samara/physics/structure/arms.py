"""Arms that bend and twist: each rotor on a clamped beam, and the body that feels every arm's motion.

An arm runs from its clamp along e to the hub at r, normal to the rotor's axis a. Its tip is displaced by w = δ a + ε b with
b = a × e, a point at ξ = s/L of the way by φ(ξ) w with the static shape of a beam loaded at its tip, φ = (3ξ² − ξ³)/2; the
tip leans by ψ = (3/2L) e × w + θ e, with θ the twist. That shape makes the mass of the beam count as 33/140 of itself in the
arm's own motion, and as 3/8 of itself where it pulls at the body.

Position and velocity of the state are those of the point of the body that is the centre of mass while the arms are straight;
mass and inertia are the whole vehicle's then. Nothing is left out of the motion of these masses: linear and angular
momentum of body and arms together are conserved at any deflection. What is small is the lean: the thrust turns with it to
first order. Gravity pulls on every mass alike, so it drops out of all but the motion of the whole.
"""

from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeAlias

from samara.core.algebra import ZERO, Mat3, Vec3, cross, diagonal, direction, dot, norm, outer, skew, solve_definite
from samara.core.ops import sqrt, where
from samara.core.quantity import Quantity, Scalar, Tree, Unit
from samara.physics.effect import Effect, Role, Wrench, add_wrenches, wrench_in_body_axes
from samara.physics.motion.body import AngularVelocity, Force, Inertia, Torque, required_torque
from samara.physics.rotors.imbalance import shaking_force
from samara.physics.rotors.propulsion import rotor_loads
from samara.physics.rotors.rotor import Rotor, rotor_momentum_torque, rotor_wrench

if TYPE_CHECKING:
    from samara.physics.types import Command, Environment, State, Vehicle

Length: TypeAlias = Annotated[Scalar, Quantity("m", 0.05, 1.0)]
Stiffness: TypeAlias = Annotated[Scalar, Quantity("N m^2", 0.1, 100.0)]
Lever: TypeAlias = Annotated[Vec3, Quantity("m", -1.0, 1.0)]
FirstMoment: TypeAlias = Annotated[Vec3, Quantity("kg m", -0.002, 0.002)]

LOADED_BEAM = 33.0 / 140.0  # ∫φ² dξ
HANGING_BEAM = 3.0 / 8.0  # ∫φ dξ
INWARD_BEAM = 1.0 / 10.0  # ∫φ (1 − ξ) dξ
LEAN_OF_TIP = 3.0 / 2.0  # φ'(1)
_SETTLING_ROUNDS = 12


class Arms(NamedTuple):
    """What all arms are made of. Length 0 is the hub's distance from the centre, across the rotor's axis.

    The tip is motor and propeller; its inertia is about the arm. Stiffness is EI along the rotor's axis and in the plane of
    the rotors, and GJ; the damping ratio is of each mode of an arm whose root is held.
    """

    tip_mass: Annotated[Scalar, Quantity("kg", 1e-3, 0.2)]
    arm_mass: Annotated[Scalar, Quantity("kg", 0.0, 0.1)]
    tip_inertia: Annotated[Scalar, Quantity("kg m^2", 1e-6, 1e-4)]
    axial_stiffness: Stiffness
    plane_stiffness: Stiffness
    twist_stiffness: Stiffness
    damping_ratio: Annotated[Scalar, Quantity("1", 0.0, 0.2)] = 0.02
    length: Annotated[Scalar, Quantity("m", 0.0, 1.0)] = 0.0


class ArmState(NamedTuple):
    """How far the tip is bent along the rotor's axis (δ) and in the plane (ε), how far twisted (θ), and their rates."""

    axial: Annotated[Scalar, Quantity("m", -0.02, 0.02)]
    plane: Annotated[Scalar, Quantity("m", -0.02, 0.02)]
    twist: Annotated[Scalar, Quantity("rad", -0.1, 0.1)]
    axial_rate: Annotated[Scalar, Quantity("m/s", -2.0, 2.0)]
    plane_rate: Annotated[Scalar, Quantity("m/s", -2.0, 2.0)]
    twist_rate: Annotated[Scalar, Quantity("rad/s", -10.0, 10.0)]


class Arm(NamedTuple):
    """Where an arm lies: hub, the rotor's axis a, outward along the arm e, in the plane b = a × e, and its length."""

    r_B: Lever
    axis_B: Annotated[Vec3, Unit()]
    outward_B: Annotated[Vec3, Unit()]
    plane_B: Annotated[Vec3, Unit()]
    length: Length


class Mode(NamedTuple):
    """One way the arms can move: what a unit of its acceleration asks of the body, its mass, and what drives it.

    p and h are the force and torque it takes, μ its own mass or inertia, Q the force or torque on it.
    """

    push_B: Annotated[Vec3, Quantity("kg", -0.05, 0.05)]
    turn_B: Annotated[Vec3, Quantity("kg m", -0.005, 0.005)]
    mass: Annotated[Scalar, Quantity("kg", 0.1, 0.5)]
    drive: Annotated[Scalar, Quantity("N", -20.0, 20.0)]


class Motion(NamedTuple):
    """What happens to the body and its modes: specific force at the body's point, ω̇, and η̈ of every mode."""

    f_B: Vec3
    alpha_B: Vec3
    modes: tuple[Scalar, ...]


# One arm -----------------------------------------------------------------------------------------------------------


def modal_mass(arms: Arms) -> Scalar:
    """μ = ∫φ² dm = m_t + (33/140) m_b  [kg]"""
    return arms.tip_mass + LOADED_BEAM * arms.arm_mass


def pulling_mass(arms: Arms) -> Scalar:
    """∫φ dm = m_t + (3/8) m_b: what a unit of the tip's acceleration pulls at the body with  [kg]"""
    return arms.tip_mass + HANGING_BEAM * arms.arm_mass


def pulling_moment(arm: Arm, arms: Arms) -> Vec3:
    """s = ∫φ x dm = (m_t + (3/8) m_b) r − (m_b L/10) e  [kg·m]"""
    return arm.r_B * pulling_mass(arms) - arm.outward_B * (INWARD_BEAM * arms.arm_mass * arm.length)


def bending_spring(stiffness: Stiffness, length: Length) -> Scalar:
    """k = 3 EI / L³  [N/m]"""
    return 3.0 * stiffness / (length * length * length)


def twisting_spring(stiffness: Stiffness, length: Length) -> Scalar:
    """k = GJ / L  [N·m/rad]"""
    return stiffness / length


def bending_frequency(stiffness: Stiffness, length: Length, arms: Arms) -> Scalar:
    """ω = √(3 EI / (L³ (m_t + (33/140) m_b))): the first of an arm whose root is held  [rad/s]"""
    return sqrt(bending_spring(stiffness, length) / modal_mass(arms))


def tip_place(own: ArmState, arm: Arm) -> Vec3:
    """w = δ a + ε b  [m]"""
    return arm.axis_B * own.axial + arm.plane_B * own.plane


def tip_lean(own: ArmState, arm: Arm) -> Vec3:
    """ψ = (3/2L) e × w + θ e: a small rotation of the hub  [rad]"""
    return cross(arm.outward_B, tip_place(own, arm)) * (LEAN_OF_TIP / arm.length) + arm.outward_B * own.twist


def tip_rates(own: ArmState) -> ArmState:
    """(δ̇, ε̇, θ̇) as a place, for the two functions above to give ẇ and ψ̇"""
    return ArmState(own.axial_rate, own.plane_rate, own.twist_rate, 0.0, 0.0, 0.0)


def bent_rotor(own: ArmState, arm: Arm, rotor: Rotor) -> Rotor:
    """r + w,  a + ψ × a: where the arm carries its rotor, and where that points"""
    return rotor._replace(
        r_B=rotor.r_B + tip_place(own, arm), axis_B=rotor.axis_B + cross(tip_lean(own, arm), rotor.axis_B)
    )


def arm_modes(own: ArmState, omega_B: AngularVelocity, hub: Wrench, arm: Arm, arms: Arms) -> tuple[Mode, Mode, Mode]:
    """μ d·ẅ + d·(∫φ dm y + ω̇ × z + 2μ ω × ẇ + ω × (ω × z)) = d·f + (3/2L)(e × d)·m − k η − 2ζ√(kμ) η̇,  z = s + μ w

    for d = a and d = b, and  J_t (θ̈ + e·ω̇) = e·m − k θ − 2ζ√(k J_t) θ̇  for the twist; force f and moment m act on the hub.
    """
    mass, rates = modal_mass(arms), tip_rates(own)
    z_B = pulling_moment(arm, arms) + tip_place(own, arm) * mass
    turning_B = cross(omega_B, tip_place(rates, arm)) * (2.0 * mass) + cross(omega_B, cross(omega_B, z_B))
    modes = []
    for d_B, bent, rate, stiffness in (
        (arm.axis_B, own.axial, own.axial_rate, arms.axial_stiffness),
        (arm.plane_B, own.plane, own.plane_rate, arms.plane_stiffness),
    ):
        spring = bending_spring(stiffness, arm.length)
        lean_B = cross(arm.outward_B, d_B) * (LEAN_OF_TIP / arm.length)
        drive = dot(d_B, hub.f_B - turning_B) + dot(lean_B, hub.tau_B)
        drive = drive - spring * bent - 2.0 * arms.damping_ratio * sqrt(spring * mass) * rate
        modes.append(Mode(d_B * pulling_mass(arms), cross(z_B, d_B), mass, drive))
    spring = twisting_spring(arms.twist_stiffness, arm.length)
    drive = dot(arm.outward_B, hub.tau_B) - spring * own.twist
    drive = drive - 2.0 * arms.damping_ratio * sqrt(spring * arms.tip_inertia) * own.twist_rate
    return modes[0], modes[1], Mode(ZERO, arm.outward_B * arms.tip_inertia, arms.tip_inertia, drive)


def added_inertia(own: ArmState, arm: Arm, arms: Arms) -> Mat3:
    """J(w) − J(0) = 2 (w·q) 1 − q wᵀ − w qᵀ,  q = s + ½μ w: a bent arm's masses are elsewhere  [kg·m²]"""
    w_B = tip_place(own, arm)
    q_B = pulling_moment(arm, arms) + w_B * (0.5 * modal_mass(arms))
    size = 2.0 * dot(w_B, q_B)
    return diagonal(Vec3(size, size, size)) - outer(q_B, w_B) - outer(w_B, q_B)


def arm_reaction(own: ArmState, omega_B: AngularVelocity, arm: Arm, arms: Arms) -> Wrench:
    """f = −∫φ dm (2ω × ẇ + ω × (ω × w)),  τ = −2 z × (ω × ẇ) − ω × J_t θ̇ e: of a moving arm on a turning body  [N, N·m]"""
    mass, rates = modal_mass(arms), tip_rates(own)
    w_B, swept_B = tip_place(own, arm), cross(omega_B, tip_place(rates, arm))
    z_B = pulling_moment(arm, arms) + w_B * mass
    return Wrench(
        (swept_B * 2.0 + cross(omega_B, cross(omega_B, w_B))) * -pulling_mass(arms),
        cross(z_B, swept_B) * -2.0 - cross(omega_B, arm.outward_B) * (arms.tip_inertia * own.twist_rate),
    )


# All arms and the body ---------------------------------------------------------------------------------------------


def coupled_motion(
    f_B: Force,
    tau_B: Torque,
    moment_B: FirstMoment,
    modes: tuple[Mode, ...],
    *,
    mass: Annotated[Scalar, Quantity("kg", 0.5, 5.0)],
    inertia_B: Inertia,
) -> Motion:
    """m y + ω̇ × c + Σ p η̈ = f,   c × y + J ω̇ + Σ h η̈ = τ,   p·y + h·ω̇ + μ η̈ = Q for every mode

    The modes are eliminated first, y next: two symmetric 3 × 3 systems remain.
    """
    A, X, D = diagonal(Vec3(mass, mass, mass)), -skew(moment_B), inertia_B
    for p_B, h_B, mu, drive in modes:
        A, X, D = A - outer(p_B, p_B) / mu, X - outer(p_B, h_B) / mu, D - outer(h_B, h_B) / mu
        f_B, tau_B = f_B - p_B * (drive / mu), tau_B - h_B * (drive / mu)
    columns = [solve_definite(A, column) for column in X.columns]
    solved = Mat3(*(component for column in columns for component in column)).transpose
    alpha_B = solve_definite(D - X.transpose @ solved, tau_B - X.transpose @ solve_definite(A, f_B))
    y_B = solve_definite(A, f_B - X @ alpha_B)
    rates = tuple((drive - dot(p_B, y_B) - dot(h_B, alpha_B)) / mu for p_B, h_B, mu, drive in modes)
    return Motion(y_B, alpha_B, rates)


def arm_of(rotor: Rotor, arms: Arms) -> Arm:
    """e = direction of r across a,  L as given or |r across a|"""
    across_B = rotor.r_B - rotor.axis_B * dot(rotor.r_B, rotor.axis_B)
    outward_B = direction(across_B)
    length = where(arms.length > 0.0, arms.length, norm(across_B))
    return Arm(rotor.r_B, rotor.axis_B, outward_B, cross(rotor.axis_B, outward_B), length)


def _hub_loads(
    state: "State",
    command: "Command",
    vehicle: "Vehicle",
    environment: "Environment",
    rotors: tuple[Rotor, ...],
    leaning: tuple[Vec3, ...],
    shaken: bool = True,
) -> tuple[Wrench, ...]:
    """Force and moment on every hub, with its rotor there and turning with `leaning` more than the body."""
    loads = rotor_loads(state, vehicle, environment)
    accelerations = vehicle.structure.actuation.rotor_acceleration(state, command, vehicle, environment)
    hubs = []
    for i, rotor in enumerate(rotors):
        hub, speed = Wrench(), state.rotor_speed[i]
        if vehicle.has("rotors"):
            hub = rotor_wrench(loads[i], rotor._replace(r_B=ZERO))
        if shaken and vehicle.has("imbalance"):
            phase, numbers = state.effects[vehicle.index("imbalance")][i], vehicle["imbalance"]
            f_B = shaking_force(phase, speed, loads[i].thrust, numbers.unbalance[i], numbers.ripple, rotor)
            hub = add_wrenches(hub, Wrench(f_B))
        if vehicle.has("rotor_momentum"):
            omega_B = state.omega_B + leaning[i]
            hub = add_wrenches(hub, Wrench(tau_B=rotor_momentum_torque(omega_B, speed, accelerations[i], rotor)))
        hubs.append(hub)
    return tuple(hubs)


def _of_others(state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment") -> Wrench:
    """Σ over all effects but the arms and the weight, in body axes."""
    total = Wrench()
    for effect, own in zip(vehicle.structure.effects, state.effects, strict=True):
        if effect.role not in (Role.STRUCTURE, Role.WEIGHT):
            total = add_wrenches(total, effect.wrench(own, state, command, vehicle, environment))
    return wrench_in_body_axes(total, state.q_WB)


def _motion(
    own: tuple[ArmState, ...],
    others: Wrench,
    state: "State",
    command: "Command",
    vehicle: "Vehicle",
    environment: "Environment",
) -> Motion:
    arms: Arms = vehicle["arms"]
    omega_B, rotors = state.omega_B, vehicle.rotors
    places = tuple(arm_of(rotor, arms) for rotor in rotors)
    bent = tuple(bent_rotor(*each) for each in zip(own, places, rotors, strict=True))
    leaning = tuple(tip_lean(tip_rates(each), arm) for each, arm in zip(own, places, strict=True))
    straight_hubs = _hub_loads(state, command, vehicle, environment, rotors, (ZERO,) * len(rotors))
    bent_hubs = _hub_loads(state, command, vehicle, environment, bent, leaning)

    total, moment_B, inertia_B = others, ZERO, vehicle.inertia_B
    modes: list[Mode] = []
    for i, (each, arm) in enumerate(zip(own, places, strict=True)):
        was, now = straight_hubs[i], bent_hubs[i]
        shift_B = cross(bent[i].r_B, now.f_B) - cross(rotors[i].r_B, was.f_B)
        total = add_wrenches(total, Wrench(now.f_B - was.f_B, shift_B + now.tau_B - was.tau_B))
        total = add_wrenches(total, arm_reaction(each, omega_B, arm, arms))
        moment_B = moment_B + tip_place(each, arm) * pulling_mass(arms)
        inertia_B = inertia_B + added_inertia(each, arm, arms)
        modes += arm_modes(each, omega_B, now, arm, arms)
    tau_B = total.tau_B - cross(omega_B, inertia_B @ omega_B)
    return coupled_motion(total.f_B, tau_B, moment_B, tuple(modes), mass=vehicle.mass, inertia_B=inertia_B)


def _wrench(own: Tree, state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment") -> Wrench:
    """f = m y − f_others,  τ = J ω̇ + ω × J ω − τ_others: what the arms do to the body they would be a rigid part of"""
    others = _of_others(state, command, vehicle, environment)
    motion = _motion(own, others, state, command, vehicle, environment)
    needed_B = required_torque(state.omega_B, motion.alpha_B, inertia_B=vehicle.inertia_B)
    return Wrench(motion.f_B * vehicle.mass - others.f_B, needed_B - others.tau_B)


def _derivative(
    own: tuple[ArmState, ...], state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment"
) -> tuple[ArmState, ...]:
    others = _of_others(state, command, vehicle, environment)
    motion = _motion(own, others, state, command, vehicle, environment)
    return tuple(
        ArmState(each.axial_rate, each.plane_rate, each.twist_rate, *motion.modes[3 * i : 3 * i + 3])
        for i, each in enumerate(own)
    )


def _settled(
    own: object, state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment"
) -> tuple[ArmState, ...]:
    """k η = Q(η) − p·y with y = −g: each arm under its rotor and its own weight, on a body at rest, unshaken

    Q depends on the deflection by the lean of the thrust alone, a hundredth of it: ten rounds leave nothing.
    """
    arms: Arms = vehicle["arms"]
    y_B = ZERO
    if vehicle.has("gravity"):
        at = vehicle.index("gravity")
        weight = vehicle.structure.effects[at].wrench(state.effects[at], state, command, vehicle, environment)
        y_B = wrench_in_body_axes(weight, state.q_WB).f_B / -vehicle.mass
    places = tuple(arm_of(rotor, arms) for rotor in vehicle.rotors)
    bent, at_rest = _straight(vehicle), (ZERO,) * len(places)
    for _ in range(_SETTLING_ROUNDS):
        rotors = tuple(bent_rotor(*each) for each in zip(bent, places, vehicle.rotors, strict=True))
        hubs = _hub_loads(state, command, vehicle, environment, rotors, at_rest, shaken=False)
        bent = tuple(_unloaded(each, hub, y_B, arm, arms) for each, hub, arm in zip(bent, hubs, places, strict=True))
    return bent


def _unloaded(own: ArmState, hub: Wrench, y_B: Vec3, arm: Arm, arms: Arms) -> ArmState:
    """η + (Q − k η − p·y)/k for each mode of an arm"""
    axial, plane, twist = (mode.drive - dot(mode.push_B, y_B) for mode in arm_modes(own, ZERO, hub, arm, arms))
    return own._replace(
        axial=own.axial + axial / bending_spring(arms.axial_stiffness, arm.length),
        plane=own.plane + plane / bending_spring(arms.plane_stiffness, arm.length),
        twist=own.twist + twist / twisting_spring(arms.twist_stiffness, arm.length),
    )


def _straight(vehicle: "Vehicle") -> tuple[ArmState, ...]:
    return tuple(ArmState(0.0, 0.0, 0.0, 0.0, 0.0, 0.0) for _ in vehicle.rotors)


ARMS = Effect("arms", _straight, _derivative, _wrench, _settled, role=Role.STRUCTURE, planned=False, trimmed=False)
"""Bent arms lean unequal rotors by less than 1e-3 of the weight: the trim is that of straight ones."""
