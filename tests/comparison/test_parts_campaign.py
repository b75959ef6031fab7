"""Random parts lists: the sampler covers its ranges, and the sampled aircraft fly."""

import pytest
from studies.parts import campaign, describe_result, summary
from studies.random_parts import MIN_THRUST_TO_WEIGHT, random_parts_list, sensible_list

from samara.vehicles.parts.layouts import LAYOUTS


def test_the_sampler_keeps_its_word():
    """10 g to 25 kg, uniform in the logarithm; every layout; list i is independent of all others"""
    lists = [random_parts_list(i) for i in range(0, 200, 4)]
    masses = sorted(parts.mass for parts in lists)
    assert 0.01 <= masses[0] < 0.05 and 5.0 < masses[-1] <= 25.0
    assert 0.2 < masses[len(masses) // 2] < 1.2  # √(0.01 · 25) is 0.5
    assert {parts.layout for parts in lists} <= set(LAYOUTS) and len({parts.layout for parts in lists}) > 6
    assert random_parts_list(8) == lists[2]
    assert random_parts_list(8, attempt=1) != lists[2] and random_parts_list(8, attempt=1).mass == lists[2].mass


def test_a_list_makes_an_aircraft_that_lifts_more_than_it_weighs():
    aircraft = sensible_list(3)
    assert aircraft.vehicle.mass == aircraft.parts.mass
    assert MIN_THRUST_TO_WEIGHT == 1.5


def test_two_aircraft_fly_the_figure_of_eight():
    tried = campaign([9, 9], controllers=["geometric"], hovers=False)
    assert all(flight.passed for flight in tried), "\n".join(describe_result(flight) for flight in tried)
    assert "figure8, geometric: 2 of 2" in summary(tried)


def test_twenty_aircraft_hover_and_fly_the_figure_of_eight():
    """Every twenty-fifth of five hundred."""
    tried = campaign(range(0, 500, 25))
    missed = [flight for flight in tried if not flight.passed]
    assert not missed, "\n".join(describe_result(flight) for flight in missed)


def test_a_tricopter_of_a_light_body_and_large_propellers_flies_and_lands():
    """`geometric` was 1.28 m off before it modelled that a tilted tail rotor climbs in sideways flight; it slid in landing."""
    (flight,) = campaign([59])
    assert flight.parts.layout == "tricopter" and flight.passed, describe_result(flight)


@pytest.mark.parametrize("number", [0, 250])
def test_ilqr_flies_them_too(number):
    (flight,) = campaign([number], controllers=["mpc"], hovers=False)
    assert flight.passed, describe_result(flight)
