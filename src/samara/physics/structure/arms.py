"""Flexible arms: each rotor on a clamped beam that bends and twists, coupled to the body.

An arm extends from its clamp along e to the hub at r, normal to the rotor's axis a. Its tip is displaced by w = δ a + ε b with
b = a × e, and a point at the fraction ξ = s/L of its length by φ(ξ) w, with the static shape of a beam loaded at its tip,
φ = (3ξ² − ξ³)/2. The tip rotates by ψ = (3/2L) e × w + θ e, with θ the twist. With that shape, 33/140 of the beam's mass count
in the motion of the arm, and 3/8 of it in the coupling to the body.

Position and velocity of the state are those of the body-fixed point that is the centre of mass while the arms are straight;
mass and inertia are those of the complete vehicle with straight arms. The motion of these masses is not approximated: linear
and angular momentum of body and arms together are conserved at any deflection. Only the tip rotation is assumed small: the
thrust turns with it to first order. Gravity accelerates every mass equally, so it acts only on the vehicle as a unit.
"""

from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeAlias

from samara.core.algebra import ZERO, Mat3, Vec3, cross, diagonal, direction, dot, norm, outer, skew, solve_definite
from samara.core.ops import sqrt, where
from samara.core.quantity import Quantity, Scalar, Tree, Unit
from samara.physics.effect import Effect, Role, Wrench, add_wrenches, wrench_in_body_axes
from samara.physics.motion.body import AngularVelocity, Force, Inertia, Torque, required_torque
from samara.physics.rotors.imbalance import vibration_force
from samara.physics.rotors.propulsion import rotor_loads
from samara.physics.rotors.rotor import Rotor, rotor_momentum_torque, rotor_wrench

if TYPE_CHECKING:
    from samara.physics.types import Command, Environment, State, Vehicle

Length: TypeAlias = Annotated[Scalar, Quantity("m", 0.05, 1.0)]
Stiffness: TypeAlias = Annotated[Scalar, Quantity("N m^2", 0.1, 100.0)]
Lever: TypeAlias = Annotated[Vec3, Quantity("m", -1.0, 1.0)]
FirstMoment: TypeAlias = Annotated[Vec3, Quantity("kg m", -0.002, 0.002)]

SHAPE_SQUARE_INTEGRAL = 33.0 / 140.0  # ∫φ² dξ
SHAPE_INTEGRAL = 3.0 / 8.0  # ∫φ dξ
SHAPE_INWARD_INTEGRAL = 1.0 / 10.0  # ∫φ (1 − ξ) dξ
TIP_SLOPE = 3.0 / 2.0  # φ'(1)
_STEADY_ITERATIONS = 12


class Arms(NamedTuple):
    """Material and masses of all arms. Length 0 means the hub's distance from the centre, normal to the rotor's axis.

    The tip is motor and propeller; its inertia is about the arm. Stiffness is EI along the rotor's axis and in the plane of
    the rotors, and GJ; the damping ratio is that of each mode of an arm with a fixed root.
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
    """Deflection of the tip along the rotor's axis (δ) and in the plane (ε), its twist (θ), and their rates."""

    axial: Annotated[Scalar, Quantity("m", -0.02, 0.02)]
    plane: Annotated[Scalar, Quantity("m", -0.02, 0.02)]
    twist: Annotated[Scalar, Quantity("rad", -0.1, 0.1)]
    axial_rate: Annotated[Scalar, Quantity("m/s", -2.0, 2.0)]
    plane_rate: Annotated[Scalar, Quantity("m/s", -2.0, 2.0)]
    twist_rate: Annotated[Scalar, Quantity("rad/s", -10.0, 10.0)]


class Arm(NamedTuple):
    """Geometry of an arm: hub, the rotor's axis a, outward along the arm e, in the plane b = a × e, and its length."""

    r_B: Lever
    axis_B: Annotated[Vec3, Unit()]
    outward_B: Annotated[Vec3, Unit()]
    plane_B: Annotated[Vec3, Unit()]
    length: Length


class Mode(NamedTuple):
    """One mode of the arms: its coupling to the body, its modal mass, and the generalised force on it.

    p and h are the force and torque on the body per unit of modal acceleration, μ its mass or inertia, Q the force or torque.
    """

    linear_coupling_B: Annotated[Vec3, Quantity("kg", -0.05, 0.05)]
    angular_coupling_B: Annotated[Vec3, Quantity("kg m", -0.005, 0.005)]
    mass: Annotated[Scalar, Quantity("kg", 0.1, 0.5)]
    generalised_force: Annotated[Scalar, Quantity("N", -20.0, 20.0)]


class ArmMotion(NamedTuple):
    """Accelerations of body and modes: specific force at the body's reference point, ω̇, and η̈ of every mode."""

    f_B: Vec3
    alpha_B: Vec3
    modes: tuple[Scalar, ...]


# One arm -----------------------------------------------------------------------------------------------------------


def modal_mass(arms: Arms) -> Scalar:
    """μ = ∫φ² dm = m_t + (33/140) m_b  [kg]"""
    return arms.tip_mass + SHAPE_SQUARE_INTEGRAL * arms.arm_mass


def coupling_mass(arms: Arms) -> Scalar:
    """∫φ dm = m_t + (3/8) m_b: the force on the body per unit of tip acceleration  [kg]"""
    return arms.tip_mass + SHAPE_INTEGRAL * arms.arm_mass


def coupling_moment(arm: Arm, arms: Arms) -> Vec3:
    """s = ∫φ x dm = (m_t + (3/8) m_b) r − (m_b L/10) e  [kg·m]"""
    return arm.r_B * coupling_mass(arms) - arm.outward_B * (SHAPE_INWARD_INTEGRAL * arms.arm_mass * arm.length)


def bending_spring(stiffness: Stiffness, length: Length) -> Scalar:
    """k = 3 EI / L³  [N/m]"""
    return 3.0 * stiffness / (length * length * length)


def twisting_spring(stiffness: Stiffness, length: Length) -> Scalar:
    """k = GJ / L  [N·m/rad]"""
    return stiffness / length


def bending_frequency(stiffness: Stiffness, length: Length, arms: Arms) -> Scalar:
    """ω = √(3 EI / (L³ (m_t + (33/140) m_b))): the first bending frequency of an arm with a fixed root  [rad/s]"""
    return sqrt(bending_spring(stiffness, length) / modal_mass(arms))


def tip_displacement(arm_state: ArmState, arm: Arm) -> Vec3:
    """w = δ a + ε b  [m]"""
    return arm.axis_B * arm_state.axial + arm.plane_B * arm_state.plane


def tip_rotation(arm_state: ArmState, arm: Arm) -> Vec3:
    """ψ = (3/2L) e × w + θ e: the small rotation of the hub  [rad]"""
    return (
        cross(arm.outward_B, tip_displacement(arm_state, arm)) * (TIP_SLOPE / arm.length)
        + arm.outward_B * arm_state.twist
    )


def tip_rates(arm_state: ArmState) -> ArmState:
    """Return (δ̇, ε̇, θ̇) in place of (δ, ε, θ), so that `tip_displacement` gives ẇ and `tip_rotation` gives ψ̇."""
    return ArmState(arm_state.axial_rate, arm_state.plane_rate, arm_state.twist_rate, 0.0, 0.0, 0.0)


def displaced_rotor(arm_state: ArmState, arm: Arm, rotor: Rotor) -> Rotor:
    """r + w,  a + ψ × a: position and axis of the rotor on the bent arm"""
    return rotor._replace(
        r_B=rotor.r_B + tip_displacement(arm_state, arm),
        axis_B=rotor.axis_B + cross(tip_rotation(arm_state, arm), rotor.axis_B),
    )


def arm_modes(
    arm_state: ArmState, omega_B: AngularVelocity, hub: Wrench, arm: Arm, arms: Arms
) -> tuple[Mode, Mode, Mode]:
    """μ d·ẅ + d·(∫φ dm y + ω̇ × z + 2μ ω × ẇ + ω × (ω × z)) = d·f + (3/2L)(e × d)·m − k η − 2ζ√(kμ) η̇,  z = s + μ w

    for d = a and d = b, and  J_t (θ̈ + e·ω̇) = e·m − k θ − 2ζ√(k J_t) θ̇  for the twist; force f and moment m act on the hub.
    """
    mass, rates = modal_mass(arms), tip_rates(arm_state)
    z_B = coupling_moment(arm, arms) + tip_displacement(arm_state, arm) * mass
    rotating_B = cross(omega_B, tip_displacement(rates, arm)) * (2.0 * mass) + cross(omega_B, cross(omega_B, z_B))
    modes = []
    for d_B, deflection, rate, stiffness in (
        (arm.axis_B, arm_state.axial, arm_state.axial_rate, arms.axial_stiffness),
        (arm.plane_B, arm_state.plane, arm_state.plane_rate, arms.plane_stiffness),
    ):
        spring = bending_spring(stiffness, arm.length)
        rotation_B = cross(arm.outward_B, d_B) * (TIP_SLOPE / arm.length)
        generalised_force = dot(d_B, hub.f_B - rotating_B) + dot(rotation_B, hub.tau_B)
        generalised_force = (
            generalised_force - spring * deflection - 2.0 * arms.damping_ratio * sqrt(spring * mass) * rate
        )
        modes.append(Mode(d_B * coupling_mass(arms), cross(z_B, d_B), mass, generalised_force))
    spring = twisting_spring(arms.twist_stiffness, arm.length)
    generalised_force = dot(arm.outward_B, hub.tau_B) - spring * arm_state.twist
    generalised_force = (
        generalised_force - 2.0 * arms.damping_ratio * sqrt(spring * arms.tip_inertia) * arm_state.twist_rate
    )
    return modes[0], modes[1], Mode(ZERO, arm.outward_B * arms.tip_inertia, arms.tip_inertia, generalised_force)


def added_inertia(arm_state: ArmState, arm: Arm, arms: Arms) -> Mat3:
    """J(w) − J(0) = 2 (w·q) 1 − q wᵀ − w qᵀ,  q = s + ½μ w: the displaced masses of a bent arm  [kg·m²]"""
    w_B = tip_displacement(arm_state, arm)
    q_B = coupling_moment(arm, arms) + w_B * (0.5 * modal_mass(arms))
    trace = 2.0 * dot(w_B, q_B)
    return diagonal(Vec3(trace, trace, trace)) - outer(q_B, w_B) - outer(w_B, q_B)


def arm_reaction(arm_state: ArmState, omega_B: AngularVelocity, arm: Arm, arms: Arms) -> Wrench:
    """f = −∫φ dm (2ω × ẇ + ω × (ω × w)),  τ = −2 z × (ω × ẇ) − ω × J_t θ̇ e: a moving arm on a rotating body  [N, N·m]"""
    mass, rates = modal_mass(arms), tip_rates(arm_state)
    w_B, coriolis_B = tip_displacement(arm_state, arm), cross(omega_B, tip_displacement(rates, arm))
    z_B = coupling_moment(arm, arms) + w_B * mass
    return Wrench(
        (coriolis_B * 2.0 + cross(omega_B, cross(omega_B, w_B))) * -coupling_mass(arms),
        cross(z_B, coriolis_B) * -2.0 - cross(omega_B, arm.outward_B) * (arms.tip_inertia * arm_state.twist_rate),
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
) -> ArmMotion:
    """m y + ω̇ × c + Σ p η̈ = f,   c × y + J ω̇ + Σ h η̈ = τ,   p·y + h·ω̇ + μ η̈ = Q for every mode

    Eliminates the modes first, then y: two symmetric 3 × 3 systems remain.
    """
    A, X, D = diagonal(Vec3(mass, mass, mass)), -skew(moment_B), inertia_B
    for p_B, h_B, mu, generalised_force in modes:
        A, X, D = A - outer(p_B, p_B) / mu, X - outer(p_B, h_B) / mu, D - outer(h_B, h_B) / mu
        f_B, tau_B = f_B - p_B * (generalised_force / mu), tau_B - h_B * (generalised_force / mu)
    columns = [solve_definite(A, column) for column in X.columns]
    coupling = Mat3(*(component for column in columns for component in column)).transpose
    alpha_B = solve_definite(D - X.transpose @ coupling, tau_B - X.transpose @ solve_definite(A, f_B))
    y_B = solve_definite(A, f_B - X @ alpha_B)
    rates = tuple(
        (generalised_force - dot(p_B, y_B) - dot(h_B, alpha_B)) / mu for p_B, h_B, mu, generalised_force in modes
    )
    return ArmMotion(y_B, alpha_B, rates)


def rotor_arm(rotor: Rotor, arms: Arms) -> Arm:
    """e = direction of r normal to a,  L as given or |r normal to a|"""
    normal_B = rotor.r_B - rotor.axis_B * dot(rotor.r_B, rotor.axis_B)
    outward_B = direction(normal_B)
    length = where(arms.length > 0.0, arms.length, norm(normal_B))
    return Arm(rotor.r_B, rotor.axis_B, outward_B, cross(rotor.axis_B, outward_B), length)


def _hub_loads(
    state: "State",
    command: "Command",
    vehicle: "Vehicle",
    environment: "Environment",
    rotors: tuple[Rotor, ...],
    tip_rates_B: tuple[Vec3, ...],
    with_imbalance: bool = True,
) -> tuple[Wrench, ...]:
    """Return force and moment on every hub, for hubs that rotate at `tip_rates_B` relative to the body."""
    loads = rotor_loads(state, vehicle, environment)
    accelerations = vehicle.structure.actuation.rotor_acceleration(state, command, vehicle, environment)
    hubs = []
    for i, rotor in enumerate(rotors):
        hub, speed = Wrench(), state.rotor_speed[i]
        if vehicle.has("rotors"):
            hub = rotor_wrench(loads[i], rotor._replace(r_B=ZERO))
        if with_imbalance and vehicle.has("imbalance"):
            phase, imbalance = state.effects[vehicle.index("imbalance")][i], vehicle["imbalance"]
            f_B = vibration_force(phase, speed, loads[i].thrust, imbalance.unbalance[i], imbalance.ripple, rotor)
            hub = add_wrenches(hub, Wrench(f_B))
        if vehicle.has("rotor_momentum"):
            omega_B = state.omega_B + tip_rates_B[i]
            hub = add_wrenches(hub, Wrench(tau_B=rotor_momentum_torque(omega_B, speed, accelerations[i], rotor)))
        hubs.append(hub)
    return tuple(hubs)


def _other_wrenches(state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment") -> Wrench:
    """F, τ summed over all effects but the arms and the weight, in body axes  [N, N·m]"""
    total = Wrench()
    for effect, effect_state in zip(vehicle.structure.effects, state.effects, strict=True):
        if effect.role not in (Role.STRUCTURE, Role.WEIGHT):
            total = add_wrenches(total, effect.wrench(effect_state, state, command, vehicle, environment))
    return wrench_in_body_axes(total, state.q_WB)


def _coupled_arm_motion(
    arm_states: tuple[ArmState, ...],
    other_wrench: Wrench,
    state: "State",
    command: "Command",
    vehicle: "Vehicle",
    environment: "Environment",
) -> ArmMotion:
    arms: Arms = vehicle["arms"]
    omega_B, rotors = state.omega_B, vehicle.rotors
    arm_geometry = tuple(rotor_arm(rotor, arms) for rotor in rotors)
    bent_rotors = tuple(displaced_rotor(*fields) for fields in zip(arm_states, arm_geometry, rotors, strict=True))
    tip_rates_B = tuple(
        tip_rotation(tip_rates(arm_state), arm) for arm_state, arm in zip(arm_states, arm_geometry, strict=True)
    )
    straight_hubs = _hub_loads(state, command, vehicle, environment, rotors, (ZERO,) * len(rotors))
    bent_hubs = _hub_loads(state, command, vehicle, environment, bent_rotors, tip_rates_B)

    total, moment_B, inertia_B = other_wrench, ZERO, vehicle.inertia_B
    modes: list[Mode] = []
    for i, (arm_state, arm) in enumerate(zip(arm_states, arm_geometry, strict=True)):
        straight_hub, bent_hub = straight_hubs[i], bent_hubs[i]
        shift_B = cross(bent_rotors[i].r_B, bent_hub.f_B) - cross(rotors[i].r_B, straight_hub.f_B)
        total = add_wrenches(
            total, Wrench(bent_hub.f_B - straight_hub.f_B, shift_B + bent_hub.tau_B - straight_hub.tau_B)
        )
        total = add_wrenches(total, arm_reaction(arm_state, omega_B, arm, arms))
        moment_B = moment_B + tip_displacement(arm_state, arm) * coupling_mass(arms)
        inertia_B = inertia_B + added_inertia(arm_state, arm, arms)
        modes += arm_modes(arm_state, omega_B, bent_hub, arm, arms)
    tau_B = total.tau_B - cross(omega_B, inertia_B @ omega_B)
    return coupled_motion(total.f_B, tau_B, moment_B, tuple(modes), mass=vehicle.mass, inertia_B=inertia_B)


def _wrench(
    arm_states: Tree, state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment"
) -> Wrench:
    """f = m y − f_others,  τ = J ω̇ + ω × J ω − τ_others: the difference between flexible and rigid arms"""
    other_wrench = _other_wrenches(state, command, vehicle, environment)
    motion = _coupled_arm_motion(arm_states, other_wrench, state, command, vehicle, environment)
    torque_B = required_torque(state.omega_B, motion.alpha_B, inertia_B=vehicle.inertia_B)
    return Wrench(motion.f_B * vehicle.mass - other_wrench.f_B, torque_B - other_wrench.tau_B)


def _derivative(
    arm_states: tuple[ArmState, ...], state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment"
) -> tuple[ArmState, ...]:
    other_wrench = _other_wrenches(state, command, vehicle, environment)
    motion = _coupled_arm_motion(arm_states, other_wrench, state, command, vehicle, environment)
    return tuple(
        ArmState(arm_state.axial_rate, arm_state.plane_rate, arm_state.twist_rate, *motion.modes[3 * i : 3 * i + 3])
        for i, arm_state in enumerate(arm_states)
    )


def _steady_arms(
    effect_state: object, state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment"
) -> tuple[ArmState, ...]:
    """k η = Q(η) − p·y with y = −g: each arm under its rotor and its weight, on a body at rest, without vibration

    Q depends on the deflection only by the tilt of the thrust, about a hundredth of it: ten iterations converge to rounding.
    """
    arms: Arms = vehicle["arms"]
    y_B = ZERO
    if vehicle.has("gravity"):
        index = vehicle.index("gravity")
        weight = vehicle.structure.effects[index].wrench(state.effects[index], state, command, vehicle, environment)
        y_B = wrench_in_body_axes(weight, state.q_WB).f_B / -vehicle.mass
    arm_geometry = tuple(rotor_arm(rotor, arms) for rotor in vehicle.rotors)
    arm_states, tip_rates_B = _straight_arms(vehicle), (ZERO,) * len(arm_geometry)
    for _ in range(_STEADY_ITERATIONS):
        rotors = tuple(
            displaced_rotor(*fields) for fields in zip(arm_states, arm_geometry, vehicle.rotors, strict=True)
        )
        hubs = _hub_loads(state, command, vehicle, environment, rotors, tip_rates_B, with_imbalance=False)
        arm_states = tuple(
            _relax_arm(arm_state, hub, y_B, arm, arms)
            for arm_state, hub, arm in zip(arm_states, hubs, arm_geometry, strict=True)
        )
    return arm_states


def _relax_arm(arm_state: ArmState, hub: Wrench, y_B: Vec3, arm: Arm, arms: Arms) -> ArmState:
    """η + (Q − k η − p·y)/k for each mode of an arm"""
    axial, plane, twist = (
        mode.generalised_force - dot(mode.linear_coupling_B, y_B) for mode in arm_modes(arm_state, ZERO, hub, arm, arms)
    )
    return arm_state._replace(
        axial=arm_state.axial + axial / bending_spring(arms.axial_stiffness, arm.length),
        plane=arm_state.plane + plane / bending_spring(arms.plane_stiffness, arm.length),
        twist=arm_state.twist + twist / twisting_spring(arms.twist_stiffness, arm.length),
    )


def _straight_arms(vehicle: "Vehicle") -> tuple[ArmState, ...]:
    return tuple(ArmState(0.0, 0.0, 0.0, 0.0, 0.0, 0.0) for _ in vehicle.rotors)


ARMS = Effect(
    "arms", _straight_arms, _derivative, _wrench, _steady_arms, role=Role.STRUCTURE, planned=False, trimmed=False
)
"""The tilt of unequally bent rotors is below 1e-3 of the weight: trim assumes straight arms."""
