"""Air density in flight: the standard atmosphere at the altitude of home plus the height, for all its users."""

import numpy as np
import pytest

import samara
from samara.core.algebra import Vec3
from samara.physics.multirotor import state_at_rest, wrench_breakdown
from samara.physics.types import CALM
from samara.plan.trajectory import hover as hold
from samara.plan.trajectory import line
from samara.scenario.scenario import Drone, Scenario
from samara.sensors.site import site_from_degrees
from samara.vehicles.trim import scale_to_density

PUBLISHED = {
    0: 1.2250,
    500: 1.1673,
    1500: 1.0581,
    3000: 0.90912,
}  # U.S. Standard Atmosphere 1976, geopotential, as printed
CRAZYFLIE = samara.vehicle("crazyflie")


def isa_density(altitude):
    """ρ₀ (1 − L h/T₀)^(g/(LR) − 1), with the constants of the standard"""
    return 1.225 * (1.0 - 0.0065 * altitude / 288.15) ** (9.80665 / (0.0065 * 287.05287) - 1.0)


def home_options(altitude):
    """Return a home at an altitude, and the environment there."""
    home = site_from_degrees(47.0, 8.0, float(altitude))
    return {"home": home, "environment": CALM._replace(air_density=isa_density(altitude))}


def hover_scenario(height, duration=0.05, vehicle=CRAZYFLIE, sensors=(), **options):
    p_W = Vec3(0.0, 0.0, float(height))
    drone = Drone("d", vehicle, hold(p_W, duration=60.0), p_W, airborne=True, sensors=sensors)
    return Scenario("hover", (drone,), duration, **options)


def column(track, table, field):
    recorded = track.tables[table]
    return recorded.rows[:, recorded.fields.index(field)]


@pytest.mark.parametrize("altitude", PUBLISHED)
def test_the_density_at_home_is_the_published_one(altitude):
    scenario = samara.load_scenario("hover", {"environment.altitude": altitude})
    assert f"{scenario.environment.air_density:.4e}" == f"{PUBLISHED[altitude]:.4e}"
    assert scenario.environment_by_height(0.0).air_density == scenario.environment.air_density


@pytest.mark.parametrize("altitude", [0, 488, 1488, 3000])
def test_home_and_height_add_up(altitude):
    """At one altitude the density is the same for every home."""
    for home in (altitude, altitude - 10.0, altitude - 900.0):
        scenario = samara.load_scenario("hover", {"environment.altitude": home})
        density = scenario.environment_by_height(altitude - home).air_density
        assert density == pytest.approx(isa_density(altitude), rel=1e-12)


def test_rotors_turn_faster_in_thin_air():
    """T = kF (ρ/ρ₀) Ω² carries the same weight: Ω ∝ 1/√ρ, in the trim and when the controller has settled."""
    low, high = (samara.fly(hover_scenario(height, 8.0, **home_options(488)))["d"] for height in (10.0, 1010.0))
    expected = np.sqrt(isa_density(498.0) / isa_density(1498.0))
    for row, accuracy in ((0, 1e-7), (-1, 1e-4)):
        ratio = column(high, "state", "rotor_speed[0]")[row] / column(low, "state", "rotor_speed[0]")[row]
        assert ratio == pytest.approx(expected, rel=accuracy)


def test_a_climb_is_recorded_with_the_density_of_every_height():
    """At the ticks of the wind the density is that of the height; it is constant between them."""
    up = line(Vec3(0.0, 0.0, 100.0), Vec3(0.0, 0.0, 110.0), speed=4.0)
    drone = Drone("d", CRAZYFLIE, up, Vec3(0.0, 0.0, 100.0), airborne=True)
    track = samara.fly(Scenario("climb", (drone,), 2.0, **home_options(1388)))["d"]
    state, air = track.tables["state"], track.tables["environment"]
    ticks = np.searchsorted(state.times_us, air.times_us)
    heights = column(track, "state", "p_W.z")[ticks]
    assert heights[-1] > 101.5
    assert column(track, "environment", "air_density") == pytest.approx(isa_density(1388.0 + heights), rel=1e-7)


def test_without_an_environment_everything_is_at_sea_level():
    """Receiver, barometer and density: p = ρ R T(h) at the altitude that the receiver reports."""
    exact = {"part": "bmp388", "noise": 0.0, "drift": 0.0, "resolution": 0.0}
    settings = {"drones.sensors": ["neo-m9n", exact], "drones.estimator": "truth", "duration": 0.3}
    scenario = samara.load_scenario("hover", {**settings, "drones.armed": False, "expect": {}})
    track, gps = samara.fly(scenario)["drone"], scenario.drones[0].sensors[0]
    assert column(track, "environment", "air_density")[0] == pytest.approx(1.225, rel=1e-5)
    density, altitude = column(track, "environment", "air_density"), gps.model.origin.altitude
    pressure = density[-1] * 287.05287 * (288.15 - 0.0065 * altitude)
    assert column(track, "barometer", "pressure")[-1] == pytest.approx(pressure, rel=1e-6)


def test_ideal_barometers_use_the_altitude_of_home():
    scenario = samara.load_scenario("hover", {"environment.altitude": 3000.0, "drones.sensors": ["barometer"]})
    reading = scenario.drones[0].sensors[0].measure(state_at_rest(CRAZYFLIE), (), CRAZYFLIE, CALM, ())
    assert f"{reading[0]:.4e}" == f"{7.0109e4:.4e}"  # the published pressure at 3000 m


def test_a_given_density_is_that_at_home_and_thins_with_height():
    scenario = samara.load_scenario("hover", {"environment.altitude": 500.0, "environment.air_density": 1.1})
    assert scenario.environment_by_height(0.0).air_density == 1.1
    expected = 1.1 * isa_density(1500.0) / isa_density(500.0)
    assert scenario.environment_by_height(1000.0).air_density == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", ["crazyflie", "iris", "rigid_body_quadrotor"])
def test_drag_and_damping_are_linear_in_the_density(name):
    vehicle = samara.vehicle(name)
    speeds = (500.0,) * len(vehicle.rotors)
    state = state_at_rest(vehicle, Vec3(0.0, 0.0, 50.0))
    state = state._replace(v_W=Vec3(3.0, -2.0, 1.0), omega_B=Vec3(0.4, 0.3, -0.2), rotor_speed=speeds)
    command = (0.0,) * vehicle.command_size
    thick, thin = (wrench_breakdown(state, command, vehicle, CALM._replace(air_density=rho)) for rho in (1.225, 0.49))
    effects = {"drag", "damping", "rotor_drag", "rolling_moment"} & set(thick)
    assert effects
    for effect in effects:
        for thick_vector, thin_vector in zip(thick[effect], thin[effect], strict=True):
            assert tuple(thin_vector) == pytest.approx(tuple(0.4 * x for x in thick_vector), rel=1e-12, abs=1e-15)


def test_controllers_use_the_density_at_home():
    """A drone holds its height at 3000 m as at sea level, although its controller has no integral action."""
    low, high = (samara.fly(hover_scenario(2.0, 2.0, **home_options(altitude)))["d"] for altitude in (0, 3000))
    error = column(high, "state", "p_W.z")[-1] - column(low, "state", "p_W.z")[-1]
    assert abs(error) < 2e-4  # 1.6 m with the coefficients at sea level


def test_a_model_at_a_density_gives_the_thrust_there():
    """(T, τ) of every effect at ρ with the vehicle's coefficients is that at ρ₀ with the model's."""
    for name in ("crazyflie", "iris"):
        vehicle = samara.vehicle(name)
        state, command = samara.hover(vehicle, environment=CALM._replace(air_density=0.9))
        state = state._replace(v_W=Vec3(1.0, 0.5, 0.0), omega_B=Vec3(0.1, 0.2, 0.3))
        expected = wrench_breakdown(state, command, vehicle, CALM._replace(air_density=0.9))
        model = wrench_breakdown(state, command, scale_to_density(vehicle, 0.9), CALM)
        for effect in {"rotors", "drag", "damping", "rotor_drag"} & set(expected):
            for model_vector, expected_vector in zip(model[effect], expected[effect], strict=True):
                assert tuple(model_vector) == pytest.approx(tuple(expected_vector), rel=1e-12, abs=1e-15)
    assert scale_to_density(CRAZYFLIE, 1.225) is CRAZYFLIE


@pytest.mark.long
def test_jax_flies_in_the_same_air():
    """A climb from 1388 m on JAX in double precision ends at the position of the compiled flight."""
    from samara.sim.fly_many_jax import fly_batch_jax

    up = line(Vec3(0.0, 0.0, 500.0), Vec3(0.0, 0.0, 510.0), speed=4.0)
    drone = Drone("d", CRAZYFLIE, up, Vec3(0.0, 0.0, 500.0), airborne=True)
    scenario = Scenario("climb", (drone,), 1.0, **home_options(1388))
    track = samara.fly(scenario)["d"]
    flights = fly_batch_jax(scenario, np.zeros(1, dtype=int), dtype="float64", fast=False)
    assert float(flights.final.p_W.z[0]) == pytest.approx(column(track, "state", "p_W.z")[-1], abs=1e-9)
    speed = float(flights.final.rotor_speed[0][0])
    assert speed == pytest.approx(column(track, "state", "rotor_speed[0]")[-1], rel=1e-8)
