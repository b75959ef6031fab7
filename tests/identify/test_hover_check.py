"""A vehicle that is identified flies, or `samara identify` says why not."""

from dataclasses import replace

import pytest
from studies.synthetic import random_vehicle

import samara
from samara.identify.hover_check import hover_problem
from samara.identify.start_vehicle import scaled_vehicle


def with_rotors(vehicle, k_thrust, time_constant_up):
    rotors = zip(vehicle.rotors, k_thrust, strict=True)
    return replace(
        vehicle,
        rotors=tuple(
            rotor._replace(
                k_thrust=k, k_torque=0.00735 * k, motor=rotor.motor._replace(time_constant_up=time_constant_up)
            )
            for rotor, k in rotors
        ),
    )


UNEVEN = (1.59e-8, 2.32e-8, 1.51e-8, 2.24e-8)  # of a Crazyflie, fitted to flights; with a rise of 0.9 s it crashed


@pytest.mark.parametrize(
    ("vehicle", "problem"),
    [
        (scaled_vehicle(4, mass=0.5, diagonal=0.3), ""),
        (random_vehicle(5, 4), ""),
        (with_rotors(samara.vehicle("crazyflie"), UNEVEN, 0.072), ""),
        (with_rotors(samara.vehicle("crazyflie"), UNEVEN, 0.9), "it crashed in a hover of 8 s"),
        (samara.vehicle("crazyflie").replace(mass=0.06), "vehicle 'crazyflie' cannot hover: rotor 0"),
    ],
)
def test_a_vehicle_that_does_not_hover_has_a_sentence(vehicle, problem):
    assert hover_problem(vehicle).startswith(problem) and bool(hover_problem(vehicle)) == bool(problem)
