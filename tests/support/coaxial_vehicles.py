"""Vehicles with coaxial rotors: an X8 on four arms, a Y6 on three."""

import math

from samara.core.algebra import Vec3
from samara.physics.rotors.actuator import Lag
from samara.physics.rotors.rotor import Rotor
from samara.physics.types import Vehicle
from samara.vehicles.build import build_vehicle, switch_on

RADIUS, ARM = 0.127, 0.25
MOTOR = Lag(100.0, 1000.0, 0.03, 0.05)


def coaxial_vehicle(arms: int, gap: float = 0.1, *, coaxial: bool = True, mass: float = 1.0) -> Vehicle:
    """Build two counter-rotating propellers of 10 inch on each arm, `gap` apart; `mass` per arm  [m, kg]."""
    rotors = []
    for k in range(arms):
        azimuth = 2.0 * math.pi * (k + 0.5) / arms
        for height, spin in ((0.5 * gap, 1.0), (-0.5 * gap, -1.0)):
            rotor_spin = spin if arms % 2 or k % 2 == 0 else -spin
            r_B = Vec3(ARM * math.cos(azimuth), ARM * math.sin(azimuth), height)
            rotors.append(Rotor(r_B, Vec3(0.0, 0.0, 1.0), rotor_spin, 1.5e-5, 2.4e-7, 5e-5, RADIUS, MOTOR))
    name = {3: "y6", 4: "x8"}.get(arms, f"{arms} pairs")
    vehicle = build_vehicle(name, mass=mass * arms, inertia=(0.03, 0.03, 0.05), rotors=rotors)
    return switch_on(vehicle, "coaxial") if coaxial else vehicle
