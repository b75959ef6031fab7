"""Random vehicles: each hovers, and has the drawn ratios."""

import math

import numpy as np
import pytest

import samara
from samara.core.algebra import Vec3
from samara.core.tree import flatten, unflatten
from samara.learn.compiled_episode import episode_keys, random_numbers
from samara.learn.domain_randomization import (
    FOUR_DECADES,
    L2F,
    RAPTOR,
    ParameterRanges,
    RandomParameters,
    scale_vehicle,
)
from samara.learn.env_config import EnvironmentSetting
from samara.learn.envs.gym import VectorEnv
from samara.learn.episode import reset_draws
from samara.learn.task import Draw, trim_drone
from samara.learn.tasks import load_task
from samara.physics.multirotor import derivative
from samara.vehicles.build import switch_on
from samara.vehicles.trim import hover, thrust_to_weight

DRONE = trim_drone("hexarotor_x")


def draw_batch(ranges, seeds, drone=DRONE):
    """Return the random parameters of seeds, as arrays."""
    distributions = reset_draws(EnvironmentSetting(load_task("hover"), drone, ranges))
    return ranges.draw(Draw(iter(random_numbers(episode_keys(seeds), np.zeros(len(seeds)), 0, distributions))), drone)


def draw_single(ranges, seed, drone=DRONE):
    """Return the random parameters of one seed, as floats."""
    parameters = draw_batch(ranges, [seed], drone)
    return unflatten(parameters, iter([float(np.ravel(x)[0]) for x in flatten(parameters)]))


@pytest.mark.parametrize("name", ["crazyflie", "hexarotor_x"])
def test_every_drone_hovers_in_its_trim(name):
    """The derivative vanishes without a disturbance; and the trim equals the one Newton's method finds."""
    drone = trim_drone(name)
    ranges = RAPTOR._replace(force_headroom=0.0)
    for seed in range(8):
        randomized, environment = ranges.apply(draw_single(ranges, seed, drone), drone)
        rates = derivative(randomized.trim, randomized.command, randomized.vehicle, environment)
        assert max(map(abs, flatten((rates.v_W, rates.omega_B)))) < 1e-9
        state, command = hover(randomized.vehicle, p_W=(0.0, 0.0, 0.0))
        assert state.rotor_speed == pytest.approx(randomized.trim.rotor_speed)
        assert command == pytest.approx(randomized.command)


def test_ratios_are_within_their_ranges():
    """Computed from the resulting vehicle, independently."""
    ratios = []
    for seed in range(40):
        vehicle = RAPTOR.apply(draw_single(RAPTOR, seed), DRONE)[0].vehicle
        rotor = vehicle.rotors[0]
        max_thrust, arm = rotor.k_thrust * rotor.motor.speed_max**2, math.hypot(rotor.r_B.x, rotor.r_B.y)
        ratios.append(
            (
                thrust_to_weight(vehicle),
                vehicle.mass,
                max_thrust * arm / vehicle.inertia_B.xx,
                rotor.k_torque / rotor.k_thrust,
                rotor.motor.time_constant_up,
                rotor.motor.time_constant_down,
            )
        )
    smallest, largest = np.min(ratios, axis=0), np.max(ratios, axis=0)
    ranges = np.array([(1.5, 5.0), (0.02, 5.0), (40.0, 1200.0), (0.005, 0.05), (0.03, 0.1), (0.03, 0.3)])
    low, high = ranges.T
    assert (smallest >= low * (1 - 1e-9)).all() and (largest <= high * (1 + 1e-9)).all()
    assert (largest - smallest > 0.7 * (high - low)).all()


def test_mass_is_drawn_evenly_in_size():
    """The arm scales with the cube root of the mass, within e^±0.1; the median size is in the middle."""
    parameters = draw_batch(FOUR_DECADES, range(400))
    size = parameters.mass ** (1.0 / 3.0)
    assert 0.09 < np.abs(np.log(parameters.arm / size)).max() <= 0.1 + 1e-12
    low, high = (0.001 / DRONE.vehicle.mass) ** (1.0 / 3.0), (10.0 / DRONE.vehicle.mass) ** (1.0 / 3.0)
    assert (np.median(size) - low) / (high - low) == pytest.approx(0.5, abs=0.06)
    assert size.max() ** 3 / size.min() ** 3 > 1e3


def test_nothing_drawn_is_the_vehicle_of_the_file():
    assert draw_single(ParameterRanges(), 0) == RandomParameters()
    assert scale_vehicle(RandomParameters(), DRONE.vehicle) == DRONE.vehicle
    randomized, environment = ParameterRanges().apply(RandomParameters(), DRONE)
    assert randomized.trim == DRONE.trim and randomized.command == pytest.approx(DRONE.command)
    assert environment.external_wrenches == ()


def test_drag_and_damping_keep_their_time_constants_but_for_the_factor_of_drag():
    """m/d and J/d of the random vehicle are those of the file divided by the factor."""
    vehicle = switch_on(samara.vehicle("crazyflie"), "damping", linear=Vec3(1e-6, 2e-6, 3e-6))
    scaled = scale_vehicle(RandomParameters(mass=8.0, inertia=32.0, drag=0.5), vehicle)
    assert list(vehicle["drag"].linear) != [0.0] * 3
    for field in ("linear", "quadratic"):
        original, changed = getattr(vehicle["drag"], field), getattr(scaled["drag"], field)
        assert list(changed) == pytest.approx([8.0 * 0.5 * component for component in original], rel=1e-14)
    assert list(scaled["damping"].linear) == pytest.approx([16e-6, 32e-6, 48e-6], rel=1e-14)


def test_a_push_is_a_push():
    """a = f/m, ω̇ = J⁻¹ τ in the trim"""
    parameters = draw_single(L2F, 3)
    randomized, environment = L2F.apply(parameters, DRONE)
    rates, (force_W, tau_B) = (
        derivative(randomized.trim, randomized.command, randomized.vehicle, environment),
        parameters.disturbance,
    )
    assert flatten(rates.v_W) == pytest.approx([f / randomized.vehicle.mass for f in force_W], abs=1e-12)
    inertia = randomized.vehicle.inertia_B
    assert flatten(rates.omega_B) == pytest.approx([tau_B.x / inertia.xx, tau_B.y / inertia.yy, tau_B.z / inertia.zz])


def test_drones_of_one_program_have_vehicles_of_their_own():
    """Full throttle from rest: each climbs according to its thrust-to-weight ratio."""
    env = VectorEnv("hover", 6, "hexarotor_x", randomization=RAPTOR._replace(force_headroom=0.0), seconds=1.0)
    env.reset(seed=0)
    parameters = env.episode.parameters
    assert len(set(parameters.mass.tolist())) == 6
    for k in range(6):
        single = VectorEnv("hover", 1, "hexarotor_x", randomization=RAPTOR._replace(force_headroom=0.0), seconds=1.0)
        single.reset(seed=k)
        assert single.episode.parameters.mass[0] == parameters.mass[k]
    start = env.state
    env.step(np.ones((6, 6)))
    assert (env.state.rotor_speed[0] > start.rotor_speed[0]).all()


def test_motors_without_a_lag_are_named():
    drone = trim_drone("iris")
    with pytest.raises(ValueError, match="vehicle 'iris' has motors without a lag; expected no lag_rise"):
        RAPTOR.apply(draw_single(RAPTOR, 0, drone), drone)
