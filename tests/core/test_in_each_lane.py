"""What needs floats is called in each lane: the same numbers as by itself, and lanes in which it fails have no way."""

import math
from dataclasses import replace

import numpy as np
import pytest

import samara
from samara.core.number import Number
from samara.core.number_tape import Tape, in_each_lane
from samara.vehicles.limits import thrust_limits
from samara.vehicles.trim import hover


def root(tree):
    """x and how often Newton was at it: math and a loop whose length depends on the number"""
    (x,), rounds = tree, 0.0
    y = x
    while abs(y * y - x) > 1e-12 * x:
        y, rounds = 0.5 * (y + x / y), rounds + 1.0
    if x > 50.0:
        raise ValueError("too large")
    return math.nextafter(y, 0.0), rounds


def test_lanes_are_what_floats_give_and_calls_are_not_repeated():
    tape = Tape()
    (x,) = tape.inputs([2.0])
    found, rounds = in_each_lane("root", root, (x,))
    again, _ = in_each_lane("root", root, (x,))
    assert again is found and type(rounds) is Number
    lanes = np.array([[2.0, 9.0, 49.0, 64.0]])
    played = tape.play(lanes)
    for k, value in enumerate(lanes[0, :3]):
        expected, count = root((value,))
        assert (played[found.at][k], played[rounds.at][k]) == (expected, count)
    assert tape.agreeing(played).tolist() == [True, True, True, False]


def test_floats_alone_are_not_written_down():
    assert in_each_lane("root", root, (9.0,))[0] == root((9.0,))[0]


@pytest.mark.parametrize("name", ["iris", "crazyflie"])
def test_the_hover_and_the_limits_of_lanes_are_those_of_each_vehicle(name):
    own, tape = samara.vehicle(name), Tape()
    (mass,) = tape.inputs([own.mass])
    varied = own.replace({"mass": mass})
    speed, most = hover(varied)[0].rotor_speed[0], thrust_limits(varied)[0].high
    masses = own.mass * np.array([0.9, 1.0, 1.1])
    played = tape.play(masses[None])
    for k, value in enumerate(masses.tolist()):
        alone = own.replace({"mass": value})
        assert played[speed.at][k] == hover(alone)[0].rotor_speed[0]
        assert (played[most.at][k] if type(most) is Number else most) == thrust_limits(alone)[0].high


def test_flights_that_start_in_the_air_elsewhere_are_those_of_scenarios_that_do():
    """`start_W` of airborne drones: each lane begins in the hover of its own place, bit for bit"""
    scenario = samara.load_scenario("wind", {"duration": 0.1, "drones.sensors": []})
    starts = np.array([[0.0, 0.0, 5.0], [1.0, -2.0, 6.0]])
    together = samara.fly_many(scenario, seeds=[3, 4], vary={"start_W": starts})
    for k in range(2):
        (drone,) = scenario.drones
        drone = replace(drone, start_W=samara.Vec3(*starts[k].tolist()))
        alone = samara.fly(replace(scenario, drones=(drone,), seed=3 + k))
        assert together.final.p_W.x[k] == alone.tracks[0].tables["state"].rows[-1][0]
