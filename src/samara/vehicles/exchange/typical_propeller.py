"""A propeller that a file says too little of: kF from its radius or its radius from kF, and kM, by typical coefficients."""

import math

from samara.physics.rotors.rotor import SEA_LEVEL_DENSITY
from samara.vehicles.parts.uncertain import Estimate

STATIC_CT = Estimate(0.106, 0.20, "static C_T 0.106 ± 20 %, the median of 139 propellers of UIUC's volume 1")
STATIC_CP_CT = Estimate(0.475, 0.26, "static C_P/C_T 0.475 ± 26 %, the median of 139 propellers of UIUC's volume 1")


def typical_k_thrust(radius: float) -> float:
    """kF = C_T ρ₀ D⁴ / (2π)²  [N s²/rad²]"""
    return STATIC_CT.value * SEA_LEVEL_DENSITY * (2.0 * radius) ** 4 / (2.0 * math.pi) ** 2


def typical_torque_ratio(radius: float) -> float:
    """kM/kF = (C_P/C_T) D / (2π)  [m]"""
    return STATIC_CP_CT.value * radius / math.pi


def typical_radius(k_thrust: float) -> Estimate:
    """R = ½ (kF (2π)² / (C_T ρ₀))^¼  [m]"""
    radius = 0.5 * (k_thrust * (2.0 * math.pi) ** 2 / (STATIC_CT.value * SEA_LEVEL_DENSITY)) ** 0.25
    return Estimate(radius, 0.25 * STATIC_CT.spread, f"not in the file; of k_thrust, by {STATIC_CT.how}")
