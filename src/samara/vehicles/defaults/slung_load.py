"""A load on a cable: how hard the cable may be, and what is left when it is cut.

loaded = samara.switch_on(samara.vehicle("iris"), "slung_load", mass=0.3, length=1.0)
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from samara.core.algebra import ZERO, Vec3
from samara.core.ops import where
from samara.core.quantity import Scalar
from samara.physics.structure.slung_load import SlungLoad, load_place, load_surface
from samara.physics.types import State, Vehicle
from samara.vehicles.defaults.ground import DAMPING_RATIO, DEFAULT_STEP, FASTEST_MODE, stable_step, standing_modes


def _mobility(vehicle: Vehicle, mass: float, attachment_B: Vec3) -> float:
    """λ = 1/m_L + the largest eigenvalue of 1/m − r× J⁻¹ r×: how easily load and body part along the cable  [1/kg]"""
    return 1.0 / mass + float(standing_modes(vehicle.mass, vehicle.inertia_B, (attachment_B,)).max())


def load_numbers(vehicle: Vehicle, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """k = ω² / λ,  c = 2 ζ k / ω unless given: the spring between load and body at ω = 500 rad/s, damped with ζ = 0.7"""
    mass, attachment_B = given.get("mass"), given.get("attachment_B", ZERO)
    numbers = (mass, *attachment_B) if isinstance(attachment_B, (tuple, list)) else (mass, math.nan)
    if not all(isinstance(x, (int, float)) and math.isfinite(x) for x in numbers) or not mass or len(numbers) != 4:
        return {"stiffness": 1.0, "damping": 1.0, **given}  # the check of those numbers says what is wrong with them
    stiffness = given.get("stiffness", FASTEST_MODE**2 / _mobility(vehicle, mass, Vec3(*attachment_B)))
    return {"stiffness": stiffness, "damping": 2.0 * DAMPING_RATIO * stiffness / FASTEST_MODE, **given}


def largest_load_step(vehicle: Vehicle) -> float:
    """The largest step that RK4 is stable with while the load hangs, and while it is on the ground with the cable taut  [s]"""
    load: SlungLoad = vehicle["slung_load"]
    surface = load_surface(load.mass, load.friction)
    body = 1.0 / (_mobility(vehicle, load.mass, load.attachment_B) - 1.0 / load.mass)
    masses, coupling, lying = np.array([load.mass, body]), np.array([[1.0, -1.0], [-1.0, 1.0]]), np.diag([1.0, 0.0])
    roots: list[complex] = [complex(-surface.stiffness / surface.damping)]
    for ground in (0.0, 1.0):
        k = load.stiffness * coupling + ground * surface.stiffness * lying
        c = load.damping * coupling + ground * surface.damping * lying
        rates = np.block([[np.zeros((2, 2)), np.eye(2)], [-k / masses[:, None], -c / masses[:, None]]])
        roots += [complex(root) for root in np.linalg.eigvals(rates) if abs(root) > 1e-3]
    return stable_step(roots)


def check_load(vehicle: Vehicle) -> str | None:
    """A sentence about a cable that is not stable at the default step"""
    load: SlungLoad = vehicle["slung_load"]
    step = largest_load_step(vehicle)
    if step >= DEFAULT_STEP:
        return None
    fine = load_numbers(vehicle, {"mass": load.mass, "attachment_B": load.attachment_B})
    return (
        f"slung_load.stiffness = {load.stiffness:.6g} N/m with damping {load.damping:.6g} N s/m: expected values stable "
        f"at the default step {DEFAULT_STEP:g} s, these need dt <= {step:.3g} s; "
        f"{fine['stiffness']:.4g} N/m and {fine['damping']:.4g} N s/m would do"
    )


def cable_ends(state: State, vehicle: Vehicle, holds: Scalar = True) -> tuple[Vec3, Vec3]:
    """The hook and the load, in the world; a cable that was let go is seen no more, and both ends are the load  [m]"""
    hook_B, own = vehicle["slung_load"].attachment_B, state.effects[vehicle.index("slung_load")]
    load_W = load_place(state.p_W, state.q_WB, own.cable_W, attachment_B=hook_B)
    return load_W - Vec3(*(where(holds, s, 0.0) for s in own.cable_W)), load_W


def cut(vehicle: Vehicle) -> Vehicle:
    """The vehicle whose cable holds nothing: the load flies on by itself, and is where its state says"""
    return vehicle.replace({"slung_load.stiffness": 0.0, "slung_load.damping": 0.0})
