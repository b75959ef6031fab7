"""What needs floats is called in each lane: the same numbers as by itself, and lanes in which it fails have no way."""

import math
from dataclasses import replace

import numpy as np
import pytest

import samara
from samara.core.number import Number
from samara.core.number_tape import Tape, in_each_lane
from samara.physics.multirotor import at_rest
from samara.physics.rotors.battery import Thevenin
from samara.physics.types import CALM
from samara.vehicles.build import with_effects
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


def on_a_battery() -> samara.Vehicle:
    """A Crazyflie, whose motors have a lag, on a cell that gives way under them"""
    cell = Thevenin(864.0, (0.0, 0.5, 1.0), (3.0, 3.8, 4.2), 0.1, 0.02, 500.0)
    return with_effects(samara.vehicle("crazyflie_documented"), {"battery": {"model": "thevenin", **cell._asdict()}})


@pytest.mark.parametrize("own", [samara.vehicle("iris"), on_a_battery()], ids=["dc", "lag"])
def test_the_fastest_that_motors_turn_is_found_in_all_lanes_at_once_with_the_bits_of_each(own):
    """kF, R of the battery and what is a motor's own, each lane as if it were alone: iterations stop where they would there"""
    paths = ["rotors.k_thrust", "battery.resistance", "rotors.1.k_torque", "rotors.motor.efficiency"]
    at_first = [own.rotors[0].k_thrust, 0.1, own.rotors[1].k_torque, 0.8]
    tape = Tape()
    varied = own.replace(dict(zip(paths, tape.inputs(at_first), strict=True)))
    limits = thrust_limits(varied)
    lanes = np.array(at_first)[:, None] * np.random.default_rng(3).uniform(0.7, 1.25, (4, 9))
    played = tape.play(lanes)
    for k, numbers in enumerate(lanes.T.tolist()):
        alone = thrust_limits(own.replace(dict(zip(paths, numbers, strict=True))))
        assert [played[limit.high.at][k] for limit in limits] == [limit.high for limit in alone]


def test_at_the_fastest_that_dc_motors_turn_nothing_accelerates_at_full_duty():
    """Ω̇ = 0 there on a full battery, and it is steep: a thousandth slower they gain, a thousandth faster they lose"""
    own = samara.vehicle("iris")
    own = own.without_effect("actuator") if own.has("actuator") else own
    fastest = [
        math.sqrt(limit.high / rotor.k_thrust) for limit, rotor in zip(thrust_limits(own), own.rotors, strict=True)
    ]

    def rates(share):
        state = at_rest(own)._replace(rotor_speed=tuple(share * speed for speed in fastest))
        return np.array(own.structure.actuation.rotor_acceleration(state, (1.0,) * own.command_size, own, CALM))

    steep = 0.5 * (rates(0.999) - rates(1.001))
    assert (steep > 1.0).all() and (np.abs(rates(1.0)) < 1e-6 * steep).all()
