"""Whether drag, damping and actuators can be followed at the default step: one sentence where RK4 would blow up."""

from collections.abc import Sequence

import numpy as np

from samara.physics.types import Vehicle
from samara.vehicles.ground import DEFAULT_STEP, oscillation, stable_step


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
