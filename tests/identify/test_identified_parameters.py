"""Parameters by name: a written value is read back, and no other parameter changes."""

import math

import numpy as np
import pytest
from studies.synthetic import random_vehicle

import samara
from samara.identify.parameters import VARIED_PATHS, apply_gains, hover_scales, identifiable_parameters, prepare_vehicle
from samara.vehicles.build import switch_on

NAMES = [parameter.name for parameter in identifiable_parameters(prepare_vehicle(random_vehicle(1, 1)))]


@pytest.mark.parametrize("name", NAMES)
def test_a_number_is_written_and_read_and_no_other_moves(name):
    vehicle = prepare_vehicle(random_vehicle(1, 1))
    by_name = {parameter.name: parameter for parameter in identifiable_parameters(vehicle)}
    changed = by_name[name]
    value = changed.displace_value(changed.get(vehicle), 0.4)
    changed_vehicle = changed.put(vehicle, value)
    assert changed.get(changed_vehicle) == pytest.approx(value, rel=1e-14)
    assert changed.scaled_difference(value, changed.get(vehicle)) == pytest.approx(0.4)
    assert changed.get(changed.displace_vehicle(vehicle, 0.4)) == pytest.approx(value, rel=1e-14)
    for other in by_name.values():
        if other.name != name:
            assert other.get(changed_vehicle) == other.get(vehicle)


def test_a_positive_number_stays_positive():
    vehicle = prepare_vehicle(random_vehicle(1, 1))
    for parameter in identifiable_parameters(vehicle):
        if parameter.positive:
            assert parameter.get(parameter.displace_vehicle(vehicle, -5.0)) > 0.0


def test_products_of_inertia_go_with_their_moments():
    """J' = D J D: a body with a larger moment about one axis keeps its principal axes in scaled coordinates."""
    vehicle = prepare_vehicle(samara.vehicle("crazyflie"))
    (parameter,) = (candidate for candidate in identifiable_parameters(vehicle) if candidate.name == "inertia.xx")
    before, after = (
        np.array(model.inertia_B.rows) for model in (vehicle, parameter.put(vehicle, 4.0 * parameter.get(vehicle)))
    )
    stretch = np.diag([2.0, 1.0, 1.0])
    assert after == pytest.approx(stretch @ before @ stretch, rel=1e-14)


def test_a_ready_vehicle_has_every_effect_that_is_asked_about():
    vehicle = prepare_vehicle(samara.vehicle("crazyflie_documented"))
    assert all(
        vehicle.has(path.partition(".")[0]) for path in VARIED_PATHS if not path.startswith(("rotors", "inertia_B"))
    )
    assert not vehicle.has("contact")
    assert all(rotor.motor.speed_min == 0.0 for rotor in vehicle.rotors)


def test_gains_are_of_thrust_and_torque_alike():
    vehicle = random_vehicle(1, 1)
    stronger = apply_gains(vehicle, (1.1, 1.0, 0.9, 1.0))
    for rotor, original, gain in zip(stronger.rotors, vehicle.rotors, (1.1, 1.0, 0.9, 1.0), strict=True):
        assert rotor.k_thrust == gain * original.k_thrust and rotor.k_torque == gain * original.k_torque


def test_a_vehicles_own_units_are_those_of_hover():
    """T = kF Ω² = m g / 4,  v_h = √(T / 2ρA)"""
    vehicle = random_vehicle(1, 1)
    scales, rotor = hover_scales(vehicle), vehicle.rotors[0]
    thrust_per_rotor = vehicle.mass * 9.80665 / 4.0
    assert scales.rotor_speed == pytest.approx(math.sqrt(thrust_per_rotor / rotor.k_thrust))
    assert scales.induced_speed == pytest.approx(
        math.sqrt(thrust_per_rotor / (2.0 * 1.225 * math.pi * rotor.radius**2)), rel=1e-3
    )


@pytest.mark.parametrize(
    ("vehicle", "words"),
    [
        (samara.vehicle("rigid_body_quadrotor"), "lag"),
        (switch_on(samara.vehicle("crazyflie_documented"), "rotor_air"), "rotor_air is on"),
    ],
)
def test_a_vehicle_that_cannot_be_identified_is_refused_in_one_sentence(vehicle, words):
    with pytest.raises(ValueError, match=words) as error:
        prepare_vehicle(vehicle)
    assert "\n" not in str(error.value) and "expected" in str(error.value)
