"""Where a landing aims: as deep as ever, or deep enough that the feet of a tricopter hold against its tail."""

import math
from dataclasses import replace

import pytest
from support.tricopter import ARM, LEVER, tricopter

import samara
from samara.control.default_gains import gains_for
from samara.physics.rotors.actuator import Lag
from samara.scenario.landing import BELOW_GROUND, landing_depth
from samara.sim.fly import fly
from samara.vehicles.build import ContactShape
from samara.vehicles.defaults import derived_feet

SLOW = Lag(100.0, 1000.0, 0.12, 0.12)


def slow_tricopter(friction=0.3):
    """One whose loops are so slow that a landing to 0.3 m below the ground leaves 97 % of its weight to the rotors"""
    bare = tricopter()
    rotors = tuple(own._replace(motor=SLOW) for own in bare.rotors)
    return samara.build_vehicle(
        "slow tricopter",
        mass=bare.mass,
        inertia=(bare.inertia_B.xx, bare.inertia_B.yy, bare.inertia_B.zz),
        rotors=rotors,
        actuation="normalized",
        contact=ContactShape(derived_feet(rotors), friction=friction),
    )


@pytest.mark.parametrize("name", samara.vehicle_names())
def test_rotors_that_do_not_tilt_land_as_ever(name):
    assert landing_depth(samara.vehicle(name)) == BELOW_GROUND


@pytest.mark.parametrize("friction", [0.15, 0.2])
def test_the_feet_hold_twice_what_the_tail_pushes(friction):
    """F = W/3 tan δ, tan δ = κ/L, of which thrust 1 − λ leaves as much; friction is μ λ W: both are equal at half the load"""
    vehicle = slow_tricopter(friction)
    g, loop = vehicle["gravity"].acceleration, gains_for(vehicle).position
    load = 0.5 * landing_depth(vehicle) * loop * loop / g
    aside = LEVER / ARM / 3.0
    assert aside * (1.0 - load) == pytest.approx(friction * load, rel=0.01)


def test_on_ice_it_asks_for_half_of_the_weight_and_no_more():
    vehicle = slow_tricopter(friction=0.0)
    loop = gains_for(vehicle).position
    assert landing_depth(vehicle) == pytest.approx(0.5 * vehicle["gravity"].acceleration / (loop * loop))


def test_a_slow_tricopter_lands_and_stands_still():
    """Aiming 0.3 m below the ground, its tail pushes it 5 m to the side"""
    scenario = samara.load_scenario("hover", {"duration": 24.0})
    (drone,) = scenario.drones
    own = replace(scenario, drones=(replace(drone, vehicle=slow_tricopter()),))
    run = fly(own, controller="geometric")
    (track,) = run.tracks
    assert track.landed and float(abs(track.velocity[-250:]).max()) < 1e-3
    assert math.hypot(*track.position[-1, :2]) < 0.3 and track.position[-1, 2] == pytest.approx(0.125, abs=0.01)
