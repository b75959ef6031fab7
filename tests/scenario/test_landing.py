"""The depth that a landing aims at: the default, or deep enough that the feet of a tricopter resist its tail's thrust."""

import math
from dataclasses import replace

import pytest
from support.tricopter import ARM, LEVER, tricopter

import samara
from samara.control.default_gains import default_gains
from samara.physics.rotors.actuator import Lag
from samara.scenario.landing import DEFAULT_LANDING_DEPTH, landing_depth
from samara.sim.fly import fly
from samara.vehicles.build import ContactShape
from samara.vehicles.defaults import derived_feet

SLOW = Lag(100.0, 1000.0, 0.12, 0.12)


def slow_tricopter(friction=0.3):
    """A tricopter with such slow loops that a landing to 0.3 m below the ground leaves 97 % of its weight to the rotors."""
    base = tricopter()
    rotors = tuple(rotor._replace(motor=SLOW) for rotor in base.rotors)
    return samara.build_vehicle(
        "slow tricopter",
        mass=base.mass,
        inertia=(base.inertia_B.xx, base.inertia_B.yy, base.inertia_B.zz),
        rotors=rotors,
        actuation="normalized",
        contact=ContactShape(derived_feet(rotors), friction=friction),
    )


@pytest.mark.parametrize("name", samara.vehicle_names())
def test_rotors_that_do_not_tilt_have_the_default_depth(name):
    assert landing_depth(samara.vehicle(name)) == DEFAULT_LANDING_DEPTH


@pytest.mark.parametrize("friction", [0.15, 0.2])
def test_the_feet_resist_twice_the_thrust_of_the_tail(friction):
    """F = W/3 tan δ, tan δ = κ/L, reduced to 1 − λ by the thrust; friction is μ λ W: both are equal at half the load."""
    vehicle = slow_tricopter(friction)
    g, bandwidth = vehicle["gravity"].acceleration, default_gains(vehicle).position
    load_fraction = 0.5 * landing_depth(vehicle) * bandwidth * bandwidth / g
    side_force = LEVER / ARM / 3.0
    assert side_force * (1.0 - load_fraction) == pytest.approx(friction * load_fraction, rel=0.01)


def test_without_friction_the_load_is_half_of_the_weight():
    vehicle = slow_tricopter(friction=0.0)
    bandwidth = default_gains(vehicle).position
    assert landing_depth(vehicle) == pytest.approx(0.5 * vehicle["gravity"].acceleration / (bandwidth * bandwidth))


def test_a_slow_tricopter_lands_and_stands_still():
    """Aiming at 0.3 m below the ground, its tail would push it 5 m to the side."""
    scenario = samara.load_scenario("hover", {"duration": 24.0})
    (drone,) = scenario.drones
    tricopter_scenario = replace(scenario, drones=(replace(drone, vehicle=slow_tricopter()),))
    run = fly(tricopter_scenario, controller="geometric")
    (track,) = run.drone_records
    assert track.landed and float(abs(track.velocity[-250:]).max()) < 1e-3
    assert math.hypot(*track.position[-1, :2]) < 0.3 and track.position[-1, 2] == pytest.approx(0.125, abs=0.01)
