"""From samples to a vehicle that flies: intervals, words for what no flight told, and the file it is written to."""

from dataclasses import replace

import numpy as np
import pytest
from studies.synthetic import doubted, random_vehicle
from support.measured_flights import exact_samples, lively

from samara.identify.identification import identified, identify, student
from samara.identify.parameters import parameters_of, ready, size_of
from samara.vehicles.loader import parse_vehicle
from samara.vehicles.trim import hover
from samara.vehicles.writer import vehicle_toml


@pytest.fixture(scope="module")
def found():
    truth = random_vehicle(5, 4)
    samples = exact_samples(truth, lively(truth), 25.0)
    noise = 0.05 * np.random.default_rng(1).standard_normal(samples.specific_force.shape)
    start = doubted(truth, 5, 4)
    own = samples._replace(specific_force=samples.specific_force + noise)
    return truth, start, identified([own], start, predictor=False)


@pytest.mark.parametrize(("freedom", "table"), [(3, 3.182), (5, 2.571), (10, 2.228), (30, 2.042), (120, 1.980)])
def test_students_quantiles_are_those_of_the_tables(freedom, table):
    assert student(0.975, freedom) == pytest.approx(table, abs=4e-3)


def test_the_intervals_hold_the_truth(found):
    truth, _, result = found
    own = ready(truth)
    for each, parameter in zip(result.physical.estimates, parameters_of(own), strict=True):
        assert each.name == parameter.name and each.low <= each.value <= each.high
        assert each.low <= parameter.get(own) <= each.high, each.name
        assert each.error > 0.0


def test_correlations_are_between_minus_one_and_one(found):
    matrix = found[2].physical.correlation
    assert np.diag(matrix) == pytest.approx(1.0)
    assert np.abs(matrix).max() <= 1.0 + 1e-9 and np.array_equal(matrix, matrix.T)


def test_the_vehicle_is_written_read_and_hovers(found):
    """Its file says where each number is from, reads back to the same vehicle, and it hovers at the speeds that were flown"""
    truth, start, result = found
    vehicle = result.physical.vehicle
    text = vehicle_toml(vehicle)
    assert parse_vehicle(text, vehicle.name) == vehicle
    assert text.count("identified by regression from") >= 4 + 5  # of the rotors, all alike, and of the body
    assert "95 %" in text and "(exact)" in text
    speeds, wanted = (hover(own)[0].rotor_speed for own in (vehicle, truth))
    assert np.mean(speeds) == pytest.approx(np.mean(wanted), rel=5e-3)
    assert vehicle.mass == start.mass


def test_a_centre_of_mass_off_the_middle_is_found_where_the_rotors_are_alike():
    """All hubs 3 % of the arm further back, unknown to the start: it is that much further forward"""
    truth = random_vehicle(5, 4)
    own, arm = truth.rotors[0], size_of(truth).arm
    middle = [np.mean([getattr(rotor.r_B, axis) for rotor in truth.rotors]) for axis in "xy"]
    even = tuple(
        rotor._replace(
            r_B=rotor.r_B._replace(x=rotor.r_B.x - middle[0], y=rotor.r_B.y - middle[1]),
            k_thrust=own.k_thrust,
            k_torque=own.k_torque,
        )
        for rotor in truth.rotors
    )
    start = replace(truth, rotors=even)
    moved = tuple(rotor._replace(r_B=rotor.r_B._replace(x=rotor.r_B.x - 0.03 * arm)) for rotor in even)
    flown = exact_samples(replace(truth, rotors=moved), lively(truth), 12.0)
    found = identified([flown], start, predictor=False).physical
    assert found.estimate("centre_of_mass.x").value == pytest.approx(0.03 * arm, rel=0.03)
    assert abs(found.estimate("centre_of_mass.y").value) < 0.001 * arm
    assert found.vehicle.rotors[0].r_B.x == pytest.approx(moved[0].r_B.x, abs=0.001 * arm)


def test_what_hover_does_not_tell_stays_and_is_said_to(found):
    _, start, result = found
    (samples,) = result.flights
    n = samples.body.shape[1]
    body = np.zeros((13, n))
    body[2], body[6] = 2.0, 1.0
    draw = np.random.default_rng(3)
    body[10:] = 0.01 * draw.standard_normal((3, n))
    speed = np.sqrt(start.mass * 9.80665 / 4.0 / start.rotors[0].k_thrust)
    still = samples._replace(
        body=body,
        commanded=speed * (1.0 + 0.005 * draw.standard_normal((4, n))),
        specific_force=np.array([[0.0], [0.0], [9.80665]]) + 0.05 * draw.standard_normal((3, n)),
    )
    told = identified([still], start, predictor=False).physical
    assert [own.name for own in told.estimates if own.excited] == ["k_thrust"]
    bare = ready(start)
    for own, parameter in zip(told.estimates, parameters_of(bare), strict=True):
        if own.name.startswith(("inertia", "drag", "airspeed_moment")):
            assert own.value == parameter.get(bare) and own.manoeuvre
    assert "not excited" in vehicle_toml(told.vehicle)


def test_residuals_go_with_what_they_are_drawn_against(found):
    """Of the vehicle itself there is hardly any force left; height, airspeed and rotor speed are those of the flight"""
    truth, _, result = found
    (own,) = result.residuals
    n = len(own.time)
    assert own.force.shape == own.torque.shape == own.airspeed.shape == (3, n) and own.voltage is None
    assert np.sqrt((own.force**2).mean()) < 0.01 * truth.mass * 9.80665
    assert own.height.mean() == pytest.approx(2.0, abs=0.3)
    assert own.rotor_speed.mean() == pytest.approx(np.mean(hover(truth)[0].rotor_speed), rel=0.05)


def test_no_logs_is_one_sentence():
    with pytest.raises(ValueError, match="no flight logs; expected at least one"):
        identify([], random_vehicle(1, 1))
