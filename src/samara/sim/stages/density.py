"""Density stage: air density at a drone's height above home, updated at the wind's ticks and constant between them.

In the 20 ms between two ticks a climb of 10 m/s changes the density by 2e-5 of itself.
"""

from samara.core.quantity import Scalar
from samara.physics.air.atmosphere import density_at_height
from samara.sim.setup import DroneSetup
from samara.sim.stage import Stage, StageFactory, StageSet


def air_density(height: Scalar, *, home_density: float, home_altitude: float) -> tuple[Scalar]:
    """ρ(h₀ + z)  [kg/m³], by the standard atmosphere"""
    return (density_at_height(height, home_density=home_density, home_altitude=home_altitude),)


def _build(setup: DroneSetup) -> StageSet:
    flight = setup.flight
    parameters = (("home_density", flight.environment.air_density), ("home_altitude", flight.home_altitude))
    return StageSet(
        (Stage("density", "wind", air_density, ("state.p_W.z",), ("environment.air_density",), parameters),)
    )


DENSITY = StageFactory("density", "wind", _build)
