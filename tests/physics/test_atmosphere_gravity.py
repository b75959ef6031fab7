"""The standard atmosphere against its published tables and the hydrostatic equation; gravity against Kepler."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from support.traced_flights import make_body

from samara.core.algebra import Vec3
from samara.core.integrate import rk45
from samara.physics.air.atmosphere import air_density, air_pressure, air_temperature
from samara.physics.motion.gravity import EARTH_RADIUS, gravity_acceleration, weight
from samara.physics.multirotor import derivative, state_at_rest
from samara.physics.rotors.rotor import SEA_LEVEL_DENSITY

G = 9.80665
NO_COMMAND = (0.0, 0.0, 0.0, 0.0)

# U.S. Standard Atmosphere 1976, by geopotential altitude: K, Pa, kg/m³ as printed, five digits
PUBLISHED = {
    0: (288.15, 1.01325e5, 1.2250),
    1000: (281.65, 8.9875e4, 1.1116),
    5000: (255.65, 5.4020e4, 0.73612),
    11000: (216.65, 2.2632e4, 0.36392),
    15000: (216.65, 1.2045e4, 0.19367),
    20000: (216.65, 5.4749e3, 0.088035),
}


@pytest.mark.parametrize("altitude", PUBLISHED)
def test_the_standard_atmosphere_is_the_published_one(altitude):
    """To half a unit of the last printed digit."""
    temperature, pressure, density = PUBLISHED[altitude]
    assert air_temperature(float(altitude)) == pytest.approx(temperature, abs=1e-9)
    assert f"{air_pressure(float(altitude)):.4e}" == f"{pressure:.4e}"
    assert f"{air_density(float(altitude)):.4e}" == f"{density:.4e}"


def test_the_tropopause_to_all_the_digits_the_ned_simulator_tests():
    """11 km: 216.65 K, 22632.04 Pa, 0.363918 kg/m³ with R = 287.05287 J/(kg K)."""
    assert air_temperature(11000.0) == pytest.approx(216.65, abs=1e-12)
    assert air_pressure(11000.0) == pytest.approx(22632.04, abs=5e-3)
    assert air_density(11000.0) == pytest.approx(0.363918, abs=5e-7)


def test_rotor_coefficients_are_given_for_sea_level():
    """ρ(0) = p₀ / (R T₀) is the 1.225 kg/m³ the thrust coefficients refer to."""
    assert air_density(0.0) == pytest.approx(SEA_LEVEL_DENSITY, rel=1e-6)
    assert air_density(0.0) == pytest.approx(101325.0 / (287.05287 * 288.15), rel=1e-15)


def test_every_layer_carries_the_one_above():
    """Hydrostatics: dp/dh = −ρ g, by five-point differences, below and above the tropopause and close to it."""
    altitude = np.concatenate([np.linspace(-900.0, 10990.0, 60), np.linspace(11010.0, 19990.0, 40)])
    h = 2.0
    p = [air_pressure(altitude + k * h) for k in (-2, -1, 1, 2)]
    slope = (p[0] - 8.0 * p[1] + 8.0 * p[2] - p[3]) / (12.0 * h)
    assert slope == pytest.approx(-air_density(altitude) * G, rel=1e-10)


def test_air_is_an_ideal_gas():
    """p = ρ R T with R = R*/M = 8.31432 / 0.0289644 J/(kg K), at every altitude; the seven digits of R* and M agree."""
    altitude = np.linspace(-1000.0, 20000.0, 50)
    gas_constant = 8.31432 / 0.0289644
    assert air_density(altitude) * gas_constant * air_temperature(altitude) == pytest.approx(
        air_pressure(altitude), rel=1e-6
    )


def test_pressure_and_density_do_not_jump_at_the_tropopause():
    """Both pieces meet at 11 km; temperature too, with a kink."""
    below, above = 11000.0 - 1e-6, 11000.0 + 1e-6
    for quantity in (air_temperature, air_pressure, air_density):
        assert quantity(below) == pytest.approx(quantity(above), rel=1e-9)
    assert (air_temperature(11000.0) - air_temperature(10999.0)) == pytest.approx(-0.0065, rel=1e-9)
    assert air_temperature(11001.0) == air_temperature(11000.0)


def test_weight_points_down():
    """f = −m g e₃"""
    assert weight(1.5, G) == (0.0, 0.0, -1.5 * G)


@pytest.mark.parametrize(("altitude", "published"), [(0, 9.8066), (1000, 9.8036), (10000, 9.7759), (20000, 9.7452)])
def test_gravity_falls_off_as_the_standard_atmosphere_tabulates_it(altitude, published):
    """U.S. Standard Atmosphere 1976, by geometric altitude, as printed."""
    assert gravity_acceleration(float(altitude), G) == pytest.approx(published, abs=6e-5)


@pytest.mark.parametrize("height", [500.0, 8000.0, 50000.0])
def test_lifting_against_gravity_defines_the_geopotential_altitude(height):
    """∫₀ʰ g(z) dz = g₀ H with H = R h / (R + h), the altitude the atmosphere's tables are given for."""
    work, _ = quad(gravity_acceleration, 0.0, height, args=(G,), epsabs=0.0, epsrel=1e-13)
    assert work == pytest.approx(G * EARTH_RADIUS * height / (EARTH_RADIUS + height), rel=1e-13)


def test_escaping_from_the_earth_takes_all_the_energy_there_is():
    """At v = √(2 g R) the energy is zero and stays it: (R + h)^{3/2} grows linearly in time, 3/2 √(2gR²) t."""
    vehicle = make_body(effects={"gravity": {"model": "spherical", "acceleration": G}})
    speed = math.sqrt(2.0 * G * EARTH_RADIUS)
    assert speed == pytest.approx(11166.0, abs=1.0)  # m/s, from this radius
    state = state_at_rest(vehicle)._replace(v_W=Vec3(0.0, 0.0, speed))
    for hour in (1, 2):
        state = rk45(lambda s: derivative(s, NO_COMMAND, vehicle), state, 3600.0, rtol=1e-12, atol=1e-9)
        distance = EARTH_RADIUS + state.p_W.z
        closed = (EARTH_RADIUS**1.5 + 1.5 * math.sqrt(2.0 * G * EARTH_RADIUS**2) * 3600.0 * hour) ** (2.0 / 3.0)
        assert distance == pytest.approx(closed, rel=1e-10)
        kinetic, potential = 0.5 * state.v_W.z**2, G * EARTH_RADIUS**2 / distance
        assert kinetic == pytest.approx(potential, rel=1e-10)


def test_thrown_slower_it_turns_round_where_energy_says():
    """½ v² = g R h / (R + h): a throw at 1 km/s turns round at h = v²R / (2gR − v²), higher than in uniform gravity."""
    vehicle = make_body(effects={"gravity": {"model": "spherical", "acceleration": G}})
    state = state_at_rest(vehicle)._replace(v_W=Vec3(0.0, 0.0, 1000.0))
    top = 1e6 * EARTH_RADIUS / (2.0 * G * EARTH_RADIUS - 1e6)
    assert top > 1e6 / (2.0 * G)
    while state.v_W.z > 0.0:
        state = rk45(lambda s: derivative(s, NO_COMMAND, vehicle), state, 0.1, rtol=1e-12, atol=1e-9)
        energy = 0.5 * state.v_W.z**2 - G * EARTH_RADIUS**2 / (EARTH_RADIUS + state.p_W.z)
        assert energy == pytest.approx(0.5e6 - G * EARTH_RADIUS, rel=1e-13)
    # the last step has just passed the top, by the v²/2g it has fallen since
    assert state.p_W.z + state.v_W.z**2 / (2.0 * gravity_acceleration(top, G)) == pytest.approx(top, rel=1e-10)
