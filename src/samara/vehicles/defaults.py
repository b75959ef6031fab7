"""Parameters that a vehicle file leaves out (contact, arms, slung load), and the physics step at which RK4 is stable with them.

Standing on n points of stiffness k in every direction, the body obeys M ẍ + c K ẋ + k K x = 0 with M = diag(m, m, m, J)
and K = Σ GᵢᵀGᵢ, Gᵢ = [1 | −rᵢ×]. Its modes λ = eig(M⁻¹K) determine everything below.
"""

import cmath
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache, reduce

import numpy as np

from samara.core.algebra import ZERO, Mat3, Vec3, cross, dot, norm
from samara.core.ops import maximum, where
from samara.core.portable_linalg import generalised_eigenvalues, product
from samara.core.quantity import Quantity, Scalar, Tree
from samara.core.types import Array
from samara.physics.effect import Wrench
from samara.physics.ground.contact import Contact, Ground, Surface
from samara.physics.rotors.rotor import Rotor
from samara.physics.structure.arms import (
    Arms,
    ArmState,
    arm_modes,
    bending_spring,
    modal_mass,
    rotor_arm,
    twisting_spring,
)
from samara.physics.structure.slung_load import SlungLoad, load_position, load_surface
from samara.physics.types import Environment, State, Vehicle

DEFAULT_STEP = 1e-3  # [s]: physics step at which every shipped vehicle is stable
FASTEST_MODE = 500.0  # [rad/s]: half a radian per default step, which RK4 follows to 1e-4
DAMPING_RATIO = 0.7  # of the fastest mode
MIN_AIRBORNE_CLEARANCE = 1e-3  # [m]: a foot at least this high is off the ground


def standing_stiffness(points: tuple[Vec3, ...]) -> Array:
    """K = Σ GᵢᵀGᵢ, Gᵢ = [1 | −rᵢ×]: forces and torques against displacement and rotation, on springs of unit stiffness"""
    stiffness = np.zeros((6, 6))
    for x, y, z in points:
        lever = np.array([[0.0, z, -y], [-z, 0.0, x], [y, -x, 0.0]])
        point_jacobian = np.hstack([np.eye(3), lever])
        stiffness += product(point_jacobian.T, point_jacobian)
    return stiffness


def standing_modes(mass: float, inertia_B: Mat3, points_B: tuple[Vec3, ...]) -> Array:
    """eig(M⁻¹ Σ GᵢᵀGᵢ): the squared frequencies [1/s² per N/m] of a body on springs of unit stiffness"""
    stiffness = standing_stiffness(points_B)
    masses = np.zeros((6, 6))
    masses[:3, :3], masses[3:, 3:] = mass * np.eye(3), np.array(inertia_B, dtype=float).reshape(3, 3)
    return generalised_eigenvalues(stiffness, masses)


def derived_feet(rotors: Sequence[Rotor]) -> tuple[Vec3, ...]:
    """Four feet in a square, at the mean arm length from the centre, half an arm below the lowest hub  [m, body]

    A vehicle without arms stands as wide as its rotors, or 10 cm.
    """
    arms = [math.hypot(rotor.r_B.x, rotor.r_B.y) for rotor in rotors]
    arm = sum(arms) / len(arms) or max(rotor.radius for rotor in rotors) or 0.1
    half_width, height = arm / math.sqrt(2.0), min(0.0, *(rotor.r_B.z for rotor in rotors)) - 0.5 * arm
    return tuple(
        Vec3(x * half_width, y * half_width, height) for x, y in ((1.0, 1.0), (1.0, -1.0), (-1.0, -1.0), (-1.0, 1.0))
    )


def derived_top_height(points_B: Sequence[Vec3], rotors: Sequence[Rotor], hull_radius: float) -> float | None:
    """Height of the body's top above the centre of mass: a tenth of an arm above the highest hub, or the hull radius  [m]

    None if a contact point is at least as high, or if the vehicle has neither rotors nor a hull.
    """
    arms = [math.hypot(rotor.r_B.x, rotor.r_B.y) for rotor in rotors]
    hub_tops = [max(0.0, *(rotor.r_B.z for rotor in rotors)) + 0.1 * sum(arms) / len(arms)] if rotors else []
    top = max([*hub_tops, hull_radius])
    return top if top > max(0.0, *(point.z for point in points_B)) else None


def derived_surface(mass: float, inertia_B: Mat3, points_B: tuple[Vec3, ...], friction: float) -> Surface:
    """k = ω² / λ_max,  c = 2 ζ k / ω: the fastest mode at ω = 500 rad/s, damped with ζ = 0.7"""
    stiffness = FASTEST_MODE**2 / float(standing_modes(mass, inertia_B, points_B).max())
    return Surface(stiffness, 2.0 * DAMPING_RATIO * stiffness / FASTEST_MODE, friction)


@lru_cache(maxsize=256)
def largest_stable_step(mass: float, inertia_B: Mat3, points_B: tuple[Vec3, ...], surface: Surface) -> float:
    """The largest step at which RK4 is stable, over the roots of s² + cλ s + kλ = 0 and s = −k/c  [s]

    s = −k/c is the relaxation of a contact that slides or has left the ground. Cached: vehicles that differ only in other
    effects have the same contact.
    """
    if surface.damping <= 0.0:
        return 0.0
    roots = [complex(-surface.stiffness / surface.damping)]
    for mode in standing_modes(mass, inertia_B, points_B):
        if mode > 0.0:
            roots += oscillator_roots(surface.stiffness * float(mode), surface.damping * float(mode))
    return stable_step(roots)


def oscillator_roots(stiffness: float, damping: float) -> list[complex]:
    """The roots of s² + c s + k = 0  [1/s]"""
    shift = cmath.sqrt(damping * damping - 4.0 * stiffness)
    return [(-damping + shift) / 2.0, (-damping - shift) / 2.0]


def stable_step(roots: Sequence[complex]) -> float:
    """The largest dt with |1 + z + z²/2 + z³/6 + z⁴/24| ≤ 1 for z = s dt, over the roots s  [s]"""
    low, high = 0.0, min((3.0 / abs(root) for root in roots if root != 0.0), default=cmath.inf)
    for _ in range(60 if high < cmath.inf else 0):
        middle = 0.5 * (low + high)
        low, high = (
            (middle, high) if all(_rk4_growth(root * middle) <= 1.0 + 1e-12 for root in roots) else (low, middle)
        )
    return low if high < cmath.inf else high


def _rk4_growth(z: complex) -> float:
    return abs(1.0 + z * (1.0 + z / 2.0 * (1.0 + z / 3.0 * (1.0 + z / 4.0))))


def clearance(vehicle: Vehicle) -> float:
    """Height of the centre of mass when the lowest feet touch level ground  [m]."""
    return -min((point.z for point in vehicle["contact"].points_B), default=0.0) if vehicle.has("contact") else 0.0


def contact_depths(state: State, vehicle: Vehicle, environment: Environment) -> tuple[Scalar, ...]:
    """Depth of each contact point below the ground  [m]."""
    if not vehicle.has("contact"):
        return ()
    contact: Contact = vehicle["contact"]
    points = contact.contact_points(environment.ground, state.p_W, state.v_W, state.q_WB, state.omega_B)
    return tuple(point.depth for _, point in points)


def ground_clearance(state: State, vehicle: Vehicle, environment: Environment) -> Scalar:
    """Return the height of the lowest contact point above the ground; negative in contact, ∞ without points  [m]."""
    depths = contact_depths(state, vehicle, environment)
    return -reduce(maximum, depths) if depths else math.inf


def is_airborne(state: State, vehicle: Vehicle, ground: Ground) -> Scalar:
    """Return the condition that no contact point touches the ground."""
    return ground_clearance(state, vehicle, Environment(ground=ground)) > MIN_AIRBORNE_CLEARANCE


def is_reference_airborne(reference_W: Vec3, vehicle: Vehicle, ground: Ground) -> Scalar:
    """Return the condition that the reference is at or above the height of a vehicle that stands on its feet."""
    return dot(reference_W - ground.point_W, ground.normal_W) >= clearance(vehicle)


def check_drag(vehicle: Vehicle) -> str | None:
    """v̇ = −(d/m) v along every axis"""
    linear = vehicle["drag"].linear
    return _stability_problem(
        f"drag.linear = {tuple(linear)} N s/m on {vehicle.mass:g} kg", [-d / vehicle.mass for d in linear]
    )


def check_damping(vehicle: Vehicle) -> str | None:
    """ω̇ = −J⁻¹ c ω"""
    linear = vehicle["damping"].linear
    inertia = np.array(vehicle.inertia_B, dtype=float).reshape(3, 3)
    roots = -np.linalg.eigvals(np.linalg.solve(inertia, np.diag(linear)))
    return _stability_problem(f"damping.linear = {tuple(linear)} N m s/rad", [complex(root) for root in roots])


def check_actuator(vehicle: Vehicle) -> str | None:
    """ü + 2 ζ ω u̇ + ω² u = 0"""
    actuator = vehicle["actuator"]
    roots = oscillator_roots(actuator.natural_frequency**2, 2.0 * actuator.damping_ratio * actuator.natural_frequency)
    subject = (
        f"actuator.natural_frequency = {actuator.natural_frequency:g} rad/s "
        f"with a damping_ratio of {actuator.damping_ratio:g}"
    )
    return _stability_problem(subject, roots)


def _stability_problem(subject: str, roots: Sequence[complex]) -> str | None:
    step = stable_step([root for root in roots if root.real < 0.0])
    if step >= DEFAULT_STEP:
        return None
    return f"{subject}: expected values stable at the default step {DEFAULT_STEP:g} s, these need dt <= {step:.3g} s"


ARM_FREQUENCY = Quantity("Hz", 1.0, 200.0)
TYPICAL_ARM_FREQUENCY = (
    60.0  # [Hz], along the rotor's axis with a clamped root: an arm of a quadrotor with 10 inch propellers
)
TIP_MASS_FRACTION, ARM_MASS_FRACTION = (
    0.04,
    0.02,
)  # of the vehicle's mass: 60 g of motor and propeller and 30 g of tube at 1.5 kg
TIP_GYRATION_FRACTION = 0.1  # of the arm's length: radius of gyration of motor and propeller about the arm
TUBE_TWIST_RATIO = 1.0 / 1.3  # GJ/EI = 1/(1 + ν) of any tube of one material, ν = 0.3

_STRAIGHT = ArmState(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def complete_arms(vehicle: Vehicle, values: Mapping[str, Tree]) -> Mapping[str, Tree]:
    """Fill in EI from the frequency [Hz], GJ from EI, and the masses as fractions of the vehicle's."""
    parameters = {"tip_mass": TIP_MASS_FRACTION * vehicle.mass, "arm_mass": ARM_MASS_FRACTION * vehicle.mass, **values}
    omega = 2.0 * math.pi * parameters.pop("frequency", TYPICAL_ARM_FREQUENCY)
    levers = [norm(cross(rotor.r_B, rotor.axis_B)) for rotor in vehicle.rotors]
    length = parameters.get("length") or max(levers, default=0.0) or 1.0  # `check_arms` rejects hubs without an arm
    mass = modal_mass(Arms(parameters["tip_mass"], parameters["arm_mass"], 1.0, 1.0, 1.0, 1.0))
    stiffness = parameters.get("axial_stiffness", omega * omega * mass * length**3 / 3.0)
    return {
        "tip_inertia": parameters["tip_mass"] * (TIP_GYRATION_FRACTION * length) ** 2,
        "axial_stiffness": stiffness,
        "plane_stiffness": stiffness,
        "twist_stiffness": TUBE_TWIST_RATIO * stiffness,
        **parameters,
    }


def free_modes(vehicle: Vehicle) -> tuple[Array, Array, Array]:
    """Return M, C, K of the body (6) and the arms (3 each), straight and at rest: M ẍ + C ẋ + K x = 0."""
    arms: Arms = vehicle["arms"]
    size = 6 + 3 * len(vehicle.rotors)
    mass, damping, spring = (np.zeros((size, size)) for _ in range(3))
    mass[:3, :3] = vehicle.mass * np.eye(3)
    mass[3:6, 3:6] = np.array(vehicle.inertia_B, dtype=float).reshape(3, 3)
    for i, rotor in enumerate(vehicle.rotors):
        arm = rotor_arm(rotor, arms)
        springs = (
            bending_spring(arms.axial_stiffness, arm.length),
            bending_spring(arms.plane_stiffness, arm.length),
            twisting_spring(arms.twist_stiffness, arm.length),
        )
        for j, (mode, k) in enumerate(zip(arm_modes(_STRAIGHT, ZERO, Wrench(), arm, arms), springs, strict=True)):
            row = 6 + 3 * i + j
            mass[row, :6] = mass[:6, row] = [*mode.linear_coupling_B, *mode.angular_coupling_B]
            mass[row, row], spring[row, row] = mode.mass, k
            damping[row, row] = 2.0 * arms.damping_ratio * math.sqrt(k * mode.mass)
    return mass, damping, spring


def largest_arm_step(vehicle: Vehicle) -> float:
    """The largest step at which RK4 is stable, over the modes of the free vehicle  [s]"""
    mass, damping, spring = free_modes(vehicle)
    size = len(mass)
    rates = np.block([[np.zeros((size, size)), np.eye(size)], [-np.linalg.solve(mass, np.hstack([spring, damping]))]])
    roots = np.linalg.eigvals(rates)
    return stable_step([complex(root) for root in roots if abs(root) > 1e-3 * np.abs(roots).max()])


def check_arms(vehicle: Vehicle) -> str | None:
    """Return a sentence if a rotor has no arm, or the arms outweigh the vehicle or are too stiff for the default step."""
    if not vehicle.rotors:
        return "arms is on and rotors has 0 entries: expected at least one"
    arms: Arms = vehicle["arms"]
    for i, rotor in enumerate(vehicle.rotors):
        if norm(rotor.r_B - rotor.axis_B * dot(rotor.r_B, rotor.axis_B)) <= 1e-6:
            return f"rotors[{i}].r_B = {tuple(rotor.r_B)} m: expected a hub on an arm, its axis not through the centre of mass"
    arms_mass = len(vehicle.rotors) * (arms.tip_mass + arms.arm_mass)
    if arms_mass >= vehicle.mass:
        return (
            f"arms.tip_mass + arm_mass = {arms.tip_mass + arms.arm_mass:.6g} kg on {len(vehicle.rotors)} arms: expected "
            f"less than the vehicle's {vehicle.mass:.6g} kg in all"
        )
    if np.linalg.eigvalsh(free_modes(vehicle)[0]).min() <= 0.0:
        return (
            f"arms.tip_mass = {arms.tip_mass:.6g} kg, arm_mass = {arms.arm_mass:.6g} kg: expected arms with less inertia than "
            "the vehicle, body.inertia includes theirs"
        )
    step = largest_arm_step(vehicle)
    if step < DEFAULT_STEP:
        stiffness_factor = (step / DEFAULT_STEP) ** 2
        return (
            f"arms.axial_stiffness = {arms.axial_stiffness:.6g}, plane_stiffness = {arms.plane_stiffness:.6g}, "
            f"twist_stiffness = {arms.twist_stiffness:.6g} N m^2: expected arms that are stable at the default step "
            f"{DEFAULT_STEP:g} s, these need dt <= {step:.3g} s; reduce the stiffest to {stiffness_factor:.2g} of its value"
        )
    return None


def _mobility(vehicle: Vehicle, mass: float, attachment_B: Vec3) -> float:
    """λ = 1/m_L + the largest eigenvalue of 1/m − r× J⁻¹ r×: relative mobility of load and body along the cable  [1/kg]"""
    return 1.0 / mass + float(standing_modes(vehicle.mass, vehicle.inertia_B, (attachment_B,)).max())


def complete_slung_load(vehicle: Vehicle, values: Mapping[str, Tree]) -> Mapping[str, Tree]:
    """k = ω² / λ,  c = 2 ζ k / ω unless set: the spring between load and body at ω = 500 rad/s, damped with ζ = 0.7"""
    mass, attachment_B = values.get("mass"), values.get("attachment_B", ZERO)
    inputs = (mass, *attachment_B) if isinstance(attachment_B, (tuple, list)) else (mass, math.nan)
    if not all(isinstance(x, (int, float)) and math.isfinite(x) for x in inputs) or not mass or len(inputs) != 4:
        return {
            "stiffness": 1.0,
            "damping": 1.0,
            **values,
        }  # placeholders: the check of mass and attachment_B reports the error
    stiffness = values.get("stiffness", FASTEST_MODE**2 / _mobility(vehicle, mass, Vec3(*attachment_B)))
    return {"stiffness": stiffness, "damping": 2.0 * DAMPING_RATIO * stiffness / FASTEST_MODE, **values}


def largest_load_step(vehicle: Vehicle) -> float:
    """The largest step at which RK4 is stable, for a hanging load and for one on the ground with a taut cable  [s]"""
    load: SlungLoad = vehicle["slung_load"]
    surface = load_surface(load.mass, load.friction)
    body_mass = 1.0 / (_mobility(vehicle, load.mass, load.attachment_B) - 1.0 / load.mass)
    masses, coupling, on_ground = (
        np.array([load.mass, body_mass]),
        np.array([[1.0, -1.0], [-1.0, 1.0]]),
        np.diag([1.0, 0.0]),
    )
    roots: list[complex] = [complex(-surface.stiffness / surface.damping)]
    for ground_contact in (0.0, 1.0):
        k = load.stiffness * coupling + ground_contact * surface.stiffness * on_ground
        c = load.damping * coupling + ground_contact * surface.damping * on_ground
        rates = np.block([[np.zeros((2, 2)), np.eye(2)], [-k / masses[:, None], -c / masses[:, None]]])
        roots += [complex(root) for root in np.linalg.eigvals(rates) if abs(root) > 1e-3]
    return stable_step(roots)


def check_load(vehicle: Vehicle) -> str | None:
    """Return a sentence if the cable is not stable at the default step."""
    load: SlungLoad = vehicle["slung_load"]
    step = largest_load_step(vehicle)
    if step >= DEFAULT_STEP:
        return None
    stable = complete_slung_load(vehicle, {"mass": load.mass, "attachment_B": load.attachment_B})
    return (
        f"slung_load.stiffness = {load.stiffness:.6g} N/m with damping {load.damping:.6g} N s/m: expected values stable "
        f"at the default step {DEFAULT_STEP:g} s, these need dt <= {step:.3g} s; "
        f"{stable['stiffness']:.4g} N/m and {stable['damping']:.4g} N s/m are stable"
    )


def cable_ends(state: State, vehicle: Vehicle, is_attached: Scalar = True) -> tuple[Vec3, Vec3]:
    """Return the hook and the load in the world [m]; both are the position of the load once the cable is released."""
    hook_B, load_state = vehicle["slung_load"].attachment_B, state.effects[vehicle.index("slung_load")]
    load_W = load_position(state.p_W, state.q_WB, load_state.cable_W, attachment_B=hook_B)
    return load_W - Vec3(*(where(is_attached, s, 0.0) for s in load_state.cable_W)), load_W


def release_load(vehicle: Vehicle) -> Vehicle:
    """Return the vehicle with a cable of zero stiffness and damping: the load falls freely, and its state remains valid."""
    return vehicle.replace({"slung_load.stiffness": 0.0, "slung_load.damping": 0.0})
