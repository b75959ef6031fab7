"""The barometer: pressure of the standard atmosphere at its height, with drift, noise, and the pressure of moving air."""

import math
from functools import lru_cache
from typing import Annotated, NamedTuple

from samara.core.algebra import dot, rotate
from samara.core.picklable import picklable_factory
from samara.core.quantity import Quantity, Scalar
from samara.core.random import gauss_markov
from samara.physics.air.atmosphere import air_pressure
from samara.physics.multirotor import tilt_rotors
from samara.physics.rotors.propulsion import rotor_loads
from samara.physics.types import Environment, State, Vehicle
from samara.sensors.error_models import quantise
from samara.sensors.sensor import (
    AT_CENTRE,
    MeasurementInputs,
    Mounting,
    Sensor,
    SensorType,
    exact_barometer,
    reading_sensor,
)
from samara.sensors.site import HOME, Site


class BarometerPart(NamedTuple):
    """Parameters of a barometer. The drift is a Gauss–Markov process of sensor and weather. The two pressure coefficients
    are the fractions of the dynamic pressure of airspeed and of rotor wake that leak into the housing."""

    rate: Annotated[float, Quantity("Hz", 1.0, 1000.0)]
    delay: Annotated[float, Quantity("s", 0.0, 0.5)]
    noise: Annotated[float, Quantity("Pa", 0.0, 100.0)]
    drift: Annotated[float, Quantity("Pa", 0.0, 1000.0)]
    drift_time_constant: Annotated[float, Quantity("s", 1.0, 1e5)]
    resolution: Annotated[float, Quantity("Pa", 0.0, 10.0)]
    airspeed_pressure: Annotated[float, Quantity("1", -2.0, 2.0)]
    rotor_pressure: Annotated[float, Quantity("1", -2.0, 2.0)]


class BarometerReading(NamedTuple):
    """The static pressure [Pa]."""

    pressure: Scalar


class BarometerModel(NamedTuple):
    """A barometer's part and mounting, and the altitude of the world's origin [m]."""

    part: BarometerPart
    mounting: Mounting
    altitude: float


def rotor_dynamic_pressure(state: State, vehicle: Vehicle, environment: Environment) -> Scalar:
    """½ ρ v_i² = T / 4A: dynamic pressure of the induced flow, by momentum theory, over all discs of known radius  [Pa]"""
    thrust: Scalar = 0.0
    area: Scalar = 0.0
    for load, rotor in zip(rotor_loads(state, tilt_rotors(state, vehicle), environment), vehicle.rotors, strict=True):
        if rotor.radius > 0.0:
            thrust, area = thrust + load.thrust, area + math.pi * rotor.radius * rotor.radius
    return thrust / (4.0 * area) if area else 0.0


@lru_cache(maxsize=256)
@picklable_factory
def barometer(part: BarometerPart, mounting: Mounting = AT_CENTRE, where: Site = HOME, name: str = "") -> Sensor:
    """Create a barometer for a site on Earth."""
    altitude = where.origin.altitude

    def equation(inputs: MeasurementInputs) -> tuple[BarometerReading, tuple[Scalar]]:
        """y = Q(p_ISA(h₀ + z) + c_a ½ρ|v_air|² + c_r T/4A + d + σ n)  [Pa]"""
        drift = gauss_markov(
            inputs.sensor_state[0], inputs.normals[1], inputs.dt, sigma=part.drift, tau=part.drift_time_constant
        )
        state, environment = inputs.state, inputs.environment
        height = state.p_W.z + rotate(state.q_WB, mounting.r_B).z
        pressure = air_pressure(altitude + height) + drift + part.noise * inputs.normals[0]
        if part.airspeed_pressure:
            wind = environment.wind_W - state.v_W
            pressure = pressure + part.airspeed_pressure * 0.5 * environment.air_density * dot(wind, wind)
        if part.rotor_pressure:
            pressure = pressure + part.rotor_pressure * rotor_dynamic_pressure(state, inputs.vehicle, environment)
        return BarometerReading(quantise(pressure, part.resolution)), (drift,)

    return reading_sensor(
        "barometer",
        BarometerReading(0.0),
        ("Pa",),
        equation,
        part,
        name=name,
        normals_needed=2,
        initial=lambda vehicle, normals: (part.drift * normals[0],),
        start_normals=1,
        model=BarometerModel(part, mounting, altitude),
    )


TYPE = SensorType(
    "barometer",
    BarometerPart,
    barometer,
    has_site=True,
    exact=lambda site: exact_barometer(site.origin.altitude),
)
