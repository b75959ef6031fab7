"""Drones whose vehicles, controllers and winds differ in numbers, computed together: each flies as it does by itself."""

from dataclasses import replace
from random import Random

import pytest

import samara
from samara.control.default_gains import gains_for
from samara.control.pid import pid_gains
from samara.control.registry import tuned
from samara.core.algebra import Vec3
from samara.core.number import is_distinct
from samara.core.tree import flatten
from samara.record.streams import tables
from samara.sim.simulation import Simulation
from samara.wind.sources import NoWind
from samara.wind.turbulence import Dryden

LANES = 8


def scattered(record, random):
    """A record of tuples with every float by up to 20 % another"""
    if isinstance(record, float):
        return record * random.uniform(0.8, 1.2)
    if not isinstance(record, tuple):
        return record
    parts = [scattered(each, random) for each in record]
    return type(record)(*parts) if hasattr(record, "_fields") else tuple(parts)


def varied(vehicle, random):
    """Another mass, inertia, drag, ground, battery; other rotors at other places"""
    rotors = [
        rotor._replace(
            r_B=scattered(rotor.r_B, random),
            k_thrust=scattered(rotor.k_thrust, random),
            k_torque=scattered(rotor.k_torque, random),
            inertia=scattered(rotor.inertia, random),
            motor=scattered(rotor.motor, random)._replace(efficiency=rotor.motor.efficiency),
        )
        for rotor in vehicle.rotors
    ]
    changes = {"mass": scattered(vehicle.mass, random), "rotors": tuple(rotors)}
    changes["inertia_B"] = vehicle.inertia_B * random.uniform(0.8, 1.2)
    changes["drag.linear"] = scattered(vehicle["drag"].linear, random)
    changes["contact.surface"] = scattered(vehicle["contact"].surface, random)
    if vehicle.has("battery"):
        changes["battery.resistance"] = 0.02 * random.uniform(0.8, 1.2)
    return vehicle.replace(changes)


def batch(vehicle, controllers, duration, seed=1):
    """A scenario of drones that differ, and their winds"""
    random, one = Random(seed), samara.load_scenario("hover", {"drones.vehicle": vehicle, "duration": duration})
    drones = tuple(
        replace(
            one.drones[0],
            name=f"drone{k}",
            vehicle=varied(one.drones[0].vehicle, random),
            controller=controllers(random),
            start_W=Vec3(3.0 * k, 0.0, 0.0),
        )
        for k in range(LANES)
    )
    winds = tuple(
        Dryden.from_direction(random.uniform(1.1, 3.9), random.uniform(0.1, 3.0), sigma_aloft=random.uniform(1.1, 1.9))
        for _ in drones
    )
    return replace(one, drones=drones, wind=winds[0]), winds


def flown(scenario, **options):
    """The groups at the end, and all streams"""
    blocks = []
    simulation = Simulation(scenario, lambda rows, logs: blocks.extend(rows), **options)
    simulation.run()
    return simulation.fleet.groups, tables(blocks)


def assert_same(one, other):
    assert one.keys() == other.keys()
    for topic, (times, rows) in one.items():
        assert times.tobytes() == other[topic][0].tobytes(), topic
        assert rows.tobytes() == other[topic][1].tobytes(), topic


CONTROLLERS = {
    "geometric": lambda random: tuned("geometric", position=random.uniform(1.6, 2.4), tilt=random.uniform(0.4, 0.8)),
    "pid": lambda random: tuned("pid", speed=random.uniform(1.1, 1.9)),
}

GAINS = {"geometric": gains_for, "pid": pid_gains}


def alike(gains, drones):
    """The drones in groups with the same special gains: no lead for quick motors, k_d = 0.5 where rotors do not kick hard"""
    groups = {}
    for k, drone in enumerate(drones):
        special = tuple(gain if is_distinct(gain) else None for gain in flatten(gains(drone.vehicle)))
        groups.setdefault(special, []).append(k)
    return [tuple(group) for group in groups.values()]


@pytest.mark.long
@pytest.mark.parametrize(("vehicle", "controller"), [("crazyflie", "geometric"), ("iris", "pid")])
def test_drones_that_differ_in_numbers_fly_together_as_they_fly_apart(vehicle, controller):
    scenario, winds = batch(vehicle, CONTROLLERS[controller], duration=2.0)
    together, streams = flown(scenario, lifts=True, winds=winds)
    apart, expected = flown(scenario, winds=winds)
    assert [group.drones for group in together] == alike(GAINS[controller], scenario.drones)
    assert len(together) < LANES == len(apart)
    assert_same(streams, expected)


def test_the_first_of_them_flies_as_samara_fly_does():
    scenario, winds = batch("crazyflie", CONTROLLERS["geometric"], duration=0.3)
    scenario, winds = replace(scenario, drones=scenario.drones[:2]), winds[:2]
    groups, streams = flown(scenario, lifts=True, winds=winds)
    assert len(groups) == 1
    alone = samara.fly(replace(scenario, drones=scenario.drones[:1], wind=winds[0]))
    known = alone.tracks[0].tables
    assert {"state", "command", "reference", "environment", "outputs"} <= known.keys()
    for name in known.keys() - {"event", "status"}:  # of which all drones have a row whenever one changes
        assert known[name].rows.tobytes() == streams[f"/drone0/{name}"][1].tobytes(), name


def test_plain_flights_never_share_the_code_of_another_vehicle():
    scenario, _ = batch("crazyflie", lambda random: "geometric", duration=0.1)
    simulation = Simulation(replace(scenario, drones=scenario.drones[:2]))
    assert len(simulation.fleet.groups) == 2


def test_a_number_that_is_special_leaves_a_drone_in_a_group_of_its_own():
    scenario, winds = batch("crazyflie", lambda random: "geometric", duration=0.1)
    one = scenario.drones[0].vehicle
    scenario = replace(scenario, drones=tuple(replace(own, vehicle=one) for own in scenario.drones[:3]))
    groups, _ = flown(scenario, lifts=True, winds=(winds[0], replace(winds[1], sigma_aloft=1.0), winds[2]))
    assert [group.drones for group in groups] == [(0, 2), (1,)]


def test_the_wind_on_a_drone_differs_in_numbers_alone():
    scenario, winds = batch("crazyflie", lambda random: "geometric", duration=0.1)
    with pytest.raises(ValueError, match="the wind on one drone is NoWind"):
        Simulation(scenario, lifts=True, winds=(*winds[1:], NoWind()))
