"""Contact with the ground, and the physics step that contact, drag, damping and actuators are stable at with RK4.

Standing on n points of stiffness k in every direction, the body obeys M ẍ + c K ẋ + k K x = 0 with M = diag(m, m, m, J)
and K = Σ GᵢᵀGᵢ, Gᵢ = [1 | −rᵢ×]. Its modes λ = eig(M⁻¹K) decide everything below.
"""

import cmath
import math
from collections.abc import Sequence
from functools import lru_cache, reduce
from typing import Any

import numpy as np

from samara.core.algebra import Mat3, Vec3, dot
from samara.core.ops import maximum
from samara.core.portable_linalg import product, relative_modes
from samara.core.types import Array
from samara.physics.ground.contact import Contact, Ground, Surface
from samara.physics.rotors.rotor import Rotor
from samara.physics.types import Environment, State, Vehicle

DEFAULT_STEP = 1e-3  # the physics step everything shipped is stable at [s]
FASTEST_MODE = 500.0  # [rad/s]: half a radian per default step, which RK4 follows to 1e-4
DAMPING_RATIO = 0.7  # of the fastest mode
OFF_GROUND = 1e-3  # [m]: a foot that is higher than this does not touch


def standing_stiffness(points: tuple[Vec3, ...]) -> Array:
    """K = Σ GᵢᵀGᵢ, Gᵢ = [1 | −rᵢ×]: the forces and torques against a displacement and a turn, on springs of unit stiffness"""
    stiffness = np.zeros((6, 6))
    for x, y, z in points:
        lever = np.array([[0.0, z, -y], [-z, 0.0, x], [y, -x, 0.0]])
        geometry = np.hstack([np.eye(3), lever])
        stiffness += product(geometry.T, geometry)
    return stiffness


def standing_modes(mass: float, inertia_B: Mat3, points_B: tuple[Vec3, ...]) -> Array:
    """eig(M⁻¹ Σ GᵢᵀGᵢ): the squared frequencies [1/s² per N/m] of a body on springs of unit stiffness"""
    stiffness = standing_stiffness(points_B)
    masses = np.zeros((6, 6))
    masses[:3, :3], masses[3:, 3:] = mass * np.eye(3), np.array(inertia_B, dtype=float).reshape(3, 3)
    return relative_modes(stiffness, masses)


def derived_feet(rotors: Sequence[Rotor]) -> tuple[Vec3, ...]:
    """Four feet in a square, as far out as the arms reach on average, half an arm below the lowest hub  [m, body]

    A vehicle without arms stands as wide as its rotors, or 10 cm.
    """
    arms = [math.hypot(rotor.r_B.x, rotor.r_B.y) for rotor in rotors]
    arm = sum(arms) / len(arms) or max(rotor.radius for rotor in rotors) or 0.1
    out, height = arm / math.sqrt(2.0), min(0.0, *(rotor.r_B.z for rotor in rotors)) - 0.5 * arm
    return tuple(Vec3(x * out, y * out, height) for x, y in ((1.0, 1.0), (1.0, -1.0), (-1.0, -1.0), (-1.0, 1.0)))


def derived_top(points_B: Sequence[Vec3], rotors: Sequence[Rotor], hull: float) -> float | None:
    """How high above the centre of mass the body ends: a tenth of an arm above the highest hub, or at its hull  [m]

    None where contact points reach up there already, or where there is neither a rotor nor a hull.
    """
    arms = [math.hypot(rotor.r_B.x, rotor.r_B.y) for rotor in rotors]
    hubs = [max(0.0, *(rotor.r_B.z for rotor in rotors)) + 0.1 * sum(arms) / len(arms)] if rotors else []
    top = max([*hubs, hull])
    return top if top > max(0.0, *(point.z for point in points_B)) else None


def derived_surface(mass: float, inertia_B: Mat3, points_B: tuple[Vec3, ...], friction: float) -> Surface:
    """k = ω² / λ_max,  c = 2 ζ k / ω: the fastest mode at ω = 500 rad/s, damped with ζ = 0.7"""
    stiffness = FASTEST_MODE**2 / float(standing_modes(mass, inertia_B, points_B).max())
    return Surface(stiffness, 2.0 * DAMPING_RATIO * stiffness / FASTEST_MODE, friction)


@lru_cache(maxsize=256)
def largest_stable_step(mass: float, inertia_B: Mat3, points_B: tuple[Vec3, ...], surface: Surface) -> float:
    """The largest step that RK4 is stable with, over the roots of s² + cλ s + kλ = 0  [s]

    and over s = −k/c, with which a grip that slides or has left the ground relaxes. Cached: vehicles that differ in other
    effects only have the same contact.
    """
    if surface.damping <= 0.0:
        return 0.0
    roots = [complex(-surface.stiffness / surface.damping)]
    for mode in standing_modes(mass, inertia_B, points_B):
        if mode > 0.0:
            roots += oscillation(surface.stiffness * float(mode), surface.damping * float(mode))
    return stable_step(roots)


def oscillation(stiffness: float, damping: float) -> list[complex]:
    """The roots of s² + c s + k = 0  [1/s]"""
    shift = cmath.sqrt(damping * damping - 4.0 * stiffness)
    return [(-damping + shift) / 2.0, (-damping - shift) / 2.0]


def stable_step(roots: Sequence[complex]) -> float:
    """The largest dt with |1 + z + z²/2 + z³/6 + z⁴/24| ≤ 1 for z = s dt, over the roots s that are given  [s]"""
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
    """How high the centre of mass is when the lowest feet touch level ground  [m]"""
    return -min((point.z for point in vehicle["contact"].points_B), default=0.0) if vehicle.has("contact") else 0.0


def contact_depths(state: State, vehicle: Vehicle, environment: Environment) -> tuple[Any, ...]:
    """How deep each contact point is below the ground  [m]"""
    if not vehicle.has("contact"):
        return ()
    contact: Contact = vehicle["contact"]
    points = contact.against(environment.ground, state.p_W, state.v_W, state.q_WB, state.omega_B)
    return tuple(point.depth for _, point in points)


def ground_clearance(state: State, vehicle: Vehicle, environment: Environment) -> Any:
    """Return the height of the lowest contact point above the ground, negative where it touches; ∞ without points  [m]"""
    depths = contact_depths(state, vehicle, environment)
    return -reduce(maximum, depths) if depths else math.inf


def in_the_air(state: State, vehicle: Vehicle, ground: Ground) -> Any:
    """Whether no part of it touches the ground: a condition"""
    return ground_clearance(state, vehicle, Environment(ground=ground)) > OFF_GROUND


def asked_to_fly(reference_W: Vec3, vehicle: Vehicle, ground: Ground) -> Any:
    """Whether its reference is no lower than its legs allow: a condition"""
    return dot(reference_W - ground.point_W, ground.normal_W) >= clearance(vehicle)


def check_drag(vehicle: Vehicle) -> str | None:
    """v̇ = −(d/m) v along every axis"""
    linear = vehicle["drag"].linear
    return _too_fast(f"drag.linear = {tuple(linear)} N s/m on {vehicle.mass:g} kg", [-d / vehicle.mass for d in linear])


def check_damping(vehicle: Vehicle) -> str | None:
    """ω̇ = −J⁻¹ c ω"""
    linear = vehicle["damping"].linear
    inertia = np.array(vehicle.inertia_B, dtype=float).reshape(3, 3)
    roots = -np.linalg.eigvals(np.linalg.solve(inertia, np.diag(linear)))
    return _too_fast(f"damping.linear = {tuple(linear)} N m s/rad", [complex(root) for root in roots])


def check_actuator(vehicle: Vehicle) -> str | None:
    """ü + 2 ζ ω u̇ + ω² u = 0"""
    own = vehicle["actuator"]
    roots = oscillation(own.natural_frequency**2, 2.0 * own.damping_ratio * own.natural_frequency)
    about = (
        f"actuator.natural_frequency = {own.natural_frequency:g} rad/s with a damping_ratio of {own.damping_ratio:g}"
    )
    return _too_fast(about, roots)


def _too_fast(what: str, roots: Sequence[complex]) -> str | None:
    step = stable_step([root for root in roots if root.real < 0.0])
    if step >= DEFAULT_STEP:
        return None
    return f"{what}: expected values stable at the default step {DEFAULT_STEP:g} s, these need dt <= {step:.3g} s"
