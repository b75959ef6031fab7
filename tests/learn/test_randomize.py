"""Vehicles drawn at random: each hovers, and has the ratios that were drawn."""

import math

import numpy as np
import pytest

import samara
from samara.core.algebra import Vec3
from samara.core.tree import flatten, unflatten
from samara.learn.compiled_episode import episode_keys, random_numbers
from samara.learn.domain_randomization import FOUR_DECADES, L2F, RAPTOR, Drawn, Ranges, grown
from samara.learn.env_config import Setting
from samara.learn.envs.gym import VectorEnv
from samara.learn.episode import reset_draws
from samara.learn.task import Draw, craft_for
from samara.learn.tasks import load_task
from samara.physics.multirotor import derivative
from samara.vehicles.build import switch_on
from samara.vehicles.trim import hover, thrust_to_weight

CRAFT = craft_for("hexarotor_x")


def all_drawn(ranges, seeds, craft=CRAFT):
    """What seeds draw, as arrays"""
    kinds = reset_draws(Setting(load_task("hover"), craft, ranges))
    return ranges.draw(Draw(iter(random_numbers(episode_keys(seeds), np.zeros(len(seeds)), 0, kinds))), craft)


def drawn_by(ranges, seed, craft=CRAFT):
    """What one seed draws, as floats"""
    own = all_drawn(ranges, [seed], craft)
    return unflatten(own, iter([float(np.ravel(x)[0]) for x in flatten(own)]))


@pytest.mark.parametrize("name", ["crazyflie", "hexarotor_x"])
def test_every_drone_hovers_in_its_trim(name):
    """The derivative vanishes but for a push; and the trim is the one that Newton finds for the vehicle"""
    craft = craft_for(name)
    ranges = RAPTOR._replace(force_spare=0.0)
    for seed in range(8):
        own, around = ranges.apply(drawn_by(ranges, seed, craft), craft)
        rates = derivative(own.trim, own.command, own.vehicle, around)
        assert max(map(abs, flatten((rates.v_W, rates.omega_B)))) < 1e-9
        state, command = hover(own.vehicle, p_W=(0.0, 0.0, 0.0))
        assert state.rotor_speed == pytest.approx(own.trim.rotor_speed)
        assert command == pytest.approx(own.command)


def test_ratios_are_within_their_ranges():
    """Measured on the vehicle that comes of them, by other roads"""
    found = []
    for seed in range(40):
        vehicle = RAPTOR.apply(drawn_by(RAPTOR, seed), CRAFT)[0].vehicle
        rotor = vehicle.rotors[0]
        most, reach = rotor.k_thrust * rotor.motor.speed_max**2, math.hypot(rotor.r_B.x, rotor.r_B.y)
        found.append(
            (
                thrust_to_weight(vehicle),
                vehicle.mass,
                most * reach / vehicle.inertia_B.xx,
                rotor.k_torque / rotor.k_thrust,
                rotor.motor.rise,
                rotor.motor.fall,
            )
        )
    least, largest = np.min(found, axis=0), np.max(found, axis=0)
    ranges = np.array([(1.5, 5.0), (0.02, 5.0), (40.0, 1200.0), (0.005, 0.05), (0.03, 0.1), (0.03, 0.3)])
    low, high = ranges.T
    assert (least >= low * (1 - 1e-9)).all() and (largest <= high * (1 + 1e-9)).all()
    assert (largest - least > 0.7 * (high - low)).all()


def test_mass_is_drawn_evenly_in_size():
    """The arm goes with the cube root of the mass, within e^±0.1; the median size is in the middle"""
    own = all_drawn(FOUR_DECADES, range(400))
    size = own.mass ** (1.0 / 3.0)
    assert 0.09 < np.abs(np.log(own.arm / size)).max() <= 0.1 + 1e-12
    low, high = (0.001 / CRAFT.vehicle.mass) ** (1.0 / 3.0), (10.0 / CRAFT.vehicle.mass) ** (1.0 / 3.0)
    assert (np.median(size) - low) / (high - low) == pytest.approx(0.5, abs=0.06)
    assert size.max() ** 3 / size.min() ** 3 > 1e3


def test_nothing_drawn_is_the_vehicle_of_the_file():
    assert drawn_by(Ranges(), 0) == Drawn()
    assert grown(Drawn(), CRAFT.vehicle) == CRAFT.vehicle
    own, around = Ranges().apply(Drawn(), CRAFT)
    assert own.trim == CRAFT.trim and own.command == pytest.approx(CRAFT.command)
    assert around.pushes == ()


def test_drag_and_damping_keep_their_time_constants_but_for_the_factor_of_drag():
    """m/d and J/d of the drawn vehicle are those of the file divided by the factor."""
    vehicle = switch_on(samara.vehicle("crazyflie"), "damping", linear=Vec3(1e-6, 2e-6, 3e-6))
    drawn = grown(Drawn(mass=8.0, inertia=32.0, drag=0.5), vehicle)
    assert list(vehicle["drag"].linear) != [0.0] * 3
    for field in ("linear", "quadratic"):
        before, after = getattr(vehicle["drag"], field), getattr(drawn["drag"], field)
        assert list(after) == pytest.approx([8.0 * 0.5 * component for component in before], rel=1e-14)
    assert list(drawn["damping"].linear) == pytest.approx([16e-6, 32e-6, 48e-6], rel=1e-14)


def test_a_push_is_a_push():
    """a = f/m, ω̇ = J⁻¹ τ in the trim"""
    drawn = drawn_by(L2F, 3)
    own, around = L2F.apply(drawn, CRAFT)
    rates, (force_W, tau_B) = derivative(own.trim, own.command, own.vehicle, around), drawn.push
    assert flatten(rates.v_W) == pytest.approx([f / own.vehicle.mass for f in force_W], abs=1e-12)
    inertia = own.vehicle.inertia_B
    assert flatten(rates.omega_B) == pytest.approx([tau_B.x / inertia.xx, tau_B.y / inertia.yy, tau_B.z / inertia.zz])


def test_drones_of_one_program_have_vehicles_of_their_own():
    """Full throttle from rest: each climbs with its own thrust over weight"""
    env = VectorEnv("hover", 6, "hexarotor_x", randomization=RAPTOR._replace(force_spare=0.0), seconds=1.0)
    env.reset(seed=0)
    drawn = env.episode.parameters
    assert len(set(drawn.mass.tolist())) == 6
    for k in range(6):
        alone = VectorEnv("hover", 1, "hexarotor_x", randomization=RAPTOR._replace(force_spare=0.0), seconds=1.0)
        alone.reset(seed=k)
        assert alone.episode.parameters.mass[0] == drawn.mass[k]
    start = env.state
    env.step(np.ones((6, 6)))
    assert (env.state.rotor_speed[0] > start.rotor_speed[0]).all()


def test_motors_without_a_lag_are_named():
    craft = craft_for("iris")
    with pytest.raises(ValueError, match="vehicle 'iris' has motors without a lag; expected no lag_rise"):
        RAPTOR.apply(drawn_by(RAPTOR, 0, craft), craft)
