"""Numbers of a vehicle by name: what is written is read again, and nothing else moves."""

import math

import numpy as np
import pytest
from studies.synthetic import random_vehicle

import samara
from samara.identify.parameters import VARIED, parameters_of, ready, size_of, with_gains
from samara.vehicles.build import switch_on

NAMES = [own.name for own in parameters_of(ready(random_vehicle(1, 1)))]


@pytest.mark.parametrize("name", NAMES)
def test_a_number_is_written_and_read_and_no_other_moves(name):
    vehicle = ready(random_vehicle(1, 1))
    every = {own.name: own for own in parameters_of(vehicle)}
    own = every[name]
    value = own.after(own.get(vehicle), 0.4)
    moved = own.put(vehicle, value)
    assert own.get(moved) == pytest.approx(value, rel=1e-14)
    assert own.apart(value, own.get(vehicle)) == pytest.approx(0.4)
    assert own.get(own.moved(vehicle, 0.4)) == pytest.approx(value, rel=1e-14)
    for other in every.values():
        if other.name != name:
            assert other.get(moved) == other.get(vehicle)


def test_a_positive_number_stays_positive():
    vehicle = ready(random_vehicle(1, 1))
    for own in parameters_of(vehicle):
        if own.positive:
            assert own.get(own.moved(vehicle, -5.0)) > 0.0


def test_products_of_inertia_go_with_their_moments():
    """J' = D J D: the principal axes of a body that is heavier about one axis lean as before in its own measure"""
    vehicle = ready(samara.vehicle("crazyflie"))
    (own,) = (each for each in parameters_of(vehicle) if each.name == "inertia.xx")
    before, after = (np.array(each.inertia_B.rows) for each in (vehicle, own.put(vehicle, 4.0 * own.get(vehicle))))
    stretch = np.diag([2.0, 1.0, 1.0])
    assert after == pytest.approx(stretch @ before @ stretch, rel=1e-14)


def test_a_ready_vehicle_has_every_effect_that_is_asked_about():
    vehicle = ready(samara.vehicle("crazyflie_documented"))
    assert all(vehicle.has(path.partition(".")[0]) for path in VARIED if not path.startswith(("rotors", "inertia_B")))
    assert not vehicle.has("contact")
    assert all(rotor.motor.speed_min == 0.0 for rotor in vehicle.rotors)


def test_gains_are_of_thrust_and_torque_alike():
    vehicle = random_vehicle(1, 1)
    stronger = with_gains(vehicle, (1.1, 1.0, 0.9, 1.0))
    for own, was, gain in zip(stronger.rotors, vehicle.rotors, (1.1, 1.0, 0.9, 1.0), strict=True):
        assert own.k_thrust == gain * was.k_thrust and own.k_torque == gain * was.k_torque


def test_a_vehicles_own_units_are_those_of_hover():
    """T = kF Ω² = m g / 4,  v_h = √(T / 2ρA)"""
    vehicle = random_vehicle(1, 1)
    own, rotor = size_of(vehicle), vehicle.rotors[0]
    each = vehicle.mass * 9.80665 / 4.0
    assert own.speed == pytest.approx(math.sqrt(each / rotor.k_thrust))
    assert own.induced == pytest.approx(math.sqrt(each / (2.0 * 1.225 * math.pi * rotor.radius**2)), rel=1e-3)


@pytest.mark.parametrize(
    ("vehicle", "words"),
    [
        (samara.vehicle("rigid_body_quadrotor"), "lag"),
        (switch_on(samara.vehicle("crazyflie_documented"), "rotor_air"), "rotor_air is on"),
    ],
)
def test_a_vehicle_that_cannot_be_identified_is_refused_in_one_sentence(vehicle, words):
    with pytest.raises(ValueError, match=words) as error:
        ready(vehicle)
    assert "\n" not in str(error.value) and "expected" in str(error.value)
