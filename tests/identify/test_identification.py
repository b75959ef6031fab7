"""From resampled logs to a vehicle that flies: intervals, unexcited parameters, and the written file."""

from dataclasses import replace

import numpy as np
import pytest
from studies.synthetic import prior_vehicle, random_vehicle
from support.measured_flights import exact_samples, lively_trajectory

from samara.identify.identification import identify, identify_resampled, student_quantile
from samara.identify.parameters import hover_scales, identifiable_parameters, prepare_vehicle
from samara.vehicles.loader import parse_vehicle
from samara.vehicles.trim import hover
from samara.vehicles.writer import vehicle_toml
from samara.view.plot.identify import correlation_figure


@pytest.fixture(scope="module")
def identified_flight():
    truth = random_vehicle(5, 4)
    samples = exact_samples(truth, lively_trajectory(truth), 25.0)
    noise = 0.05 * np.random.default_rng(1).standard_normal(samples.specific_force.shape)
    start = prior_vehicle(truth, 5, 4)
    noisy_samples = samples._replace(specific_force=samples.specific_force + noise)
    return truth, start, identify_resampled([noisy_samples], start, predictor=False)


@pytest.mark.parametrize(("freedom", "table"), [(3, 3.182), (5, 2.571), (10, 2.228), (30, 2.042), (120, 1.980)])
def test_students_quantiles_are_those_of_the_tables(freedom, table):
    assert student_quantile(0.975, freedom) == pytest.approx(table, abs=4e-3)


def test_the_correlation_picture_has_each_number_in_its_cell(identified_flight):
    """The number in a cell is the value its colour shows."""
    (axes, *_) = correlation_figure(identified_flight[2].physical).axes
    cells = axes.images[0].get_array()
    assert axes.texts
    for text in axes.texts:
        column, row = text.get_position()
        assert float(text.get_text()) == pytest.approx(float(cells[row, column]), abs=0.051)


def test_the_intervals_hold_the_truth(identified_flight):
    truth, _, result = identified_flight
    true_vehicle = prepare_vehicle(truth)
    for estimate, parameter in zip(result.physical.estimates, identifiable_parameters(true_vehicle), strict=True):
        assert estimate.name == parameter.name and estimate.low <= estimate.value <= estimate.high
        assert estimate.low <= parameter.get(true_vehicle) <= estimate.high, estimate.name
        assert estimate.error > 0.0


def test_correlations_are_between_minus_one_and_one(identified_flight):
    matrix = identified_flight[2].physical.correlation
    assert np.diag(matrix) == pytest.approx(1.0)
    assert np.abs(matrix).max() <= 1.0 + 1e-9 and np.array_equal(matrix, matrix.T)


def test_the_vehicle_is_written_read_and_hovers(identified_flight):
    """Its file states the source of each value, reads back to the same vehicle, and it hovers at the speeds of the flight."""
    truth, start, result = identified_flight
    vehicle = result.physical.vehicle
    text = vehicle_toml(vehicle)
    assert parse_vehicle(text, vehicle.name) == vehicle
    assert text.count("identified by regression from") >= 4 + 5  # of the rotors, all alike, and of the body
    assert "95 %" in text and "(exact)" in text
    speeds, expected = (hover(model)[0].rotor_speed for model in (vehicle, truth))
    assert np.mean(speeds) == pytest.approx(np.mean(expected), rel=5e-3)
    assert vehicle.mass == start.mass


def test_a_centre_of_mass_off_the_middle_is_found_where_the_rotors_are_alike():
    """All hubs 3 % of the arm further back, unknown to the start: the centre of mass is that much further forward."""
    truth = random_vehicle(5, 4)
    first_rotor, arm = truth.rotors[0], hover_scales(truth).arm
    mean_position = [np.mean([getattr(rotor.r_B, axis) for rotor in truth.rotors]) for axis in "xy"]
    uniform_rotors = tuple(
        rotor._replace(
            r_B=rotor.r_B._replace(x=rotor.r_B.x - mean_position[0], y=rotor.r_B.y - mean_position[1]),
            k_thrust=first_rotor.k_thrust,
            k_torque=first_rotor.k_torque,
        )
        for rotor in truth.rotors
    )
    start = replace(truth, rotors=uniform_rotors)
    shifted_rotors = tuple(
        rotor._replace(r_B=rotor.r_B._replace(x=rotor.r_B.x - 0.03 * arm)) for rotor in uniform_rotors
    )
    samples = exact_samples(replace(truth, rotors=shifted_rotors), lively_trajectory(truth), 12.0)
    identified = identify_resampled([samples], start, predictor=False).physical
    assert identified.estimate("centre_of_mass.x").value == pytest.approx(0.03 * arm, rel=0.03)
    assert abs(identified.estimate("centre_of_mass.y").value) < 0.001 * arm
    assert identified.vehicle.rotors[0].r_B.x == pytest.approx(shifted_rotors[0].r_B.x, abs=0.001 * arm)


def test_parameters_unexcited_in_hover_stay_and_are_marked(identified_flight):
    _, start, result = identified_flight
    (samples,) = result.flights
    n = samples.body.shape[1]
    body = np.zeros((13, n))
    body[2], body[6] = 2.0, 1.0
    draw = np.random.default_rng(3)
    body[10:] = 0.01 * draw.standard_normal((3, n))
    speed = np.sqrt(start.mass * 9.80665 / 4.0 / start.rotors[0].k_thrust)
    hovering = samples._replace(
        body=body,
        commanded=speed * (1.0 + 0.005 * draw.standard_normal((4, n))),
        specific_force=np.array([[0.0], [0.0], [9.80665]]) + 0.05 * draw.standard_normal((3, n)),
    )
    identified = identify_resampled([hovering], start, predictor=False).physical
    assert [estimate.name for estimate in identified.estimates if estimate.excited] == ["k_thrust"]
    bare = prepare_vehicle(start)
    for estimate, parameter in zip(identified.estimates, identifiable_parameters(bare), strict=True):
        if estimate.name.startswith(("inertia", "drag", "airspeed_moment")):
            assert estimate.value == parameter.get(bare) and estimate.manoeuvre
    before, after = (dict(vehicle.structure.sources) for vehicle in (start, identified.vehicle))
    for key in ("body.inertia", "drag.linear", "airspeed_moment.roll"):  # unchanged, and so is the source
        assert after.get(key) == before.get(key)
    assert "identified by regression" in after["rotors[0].k_thrust"]


def test_residuals_go_with_what_they_are_drawn_against(identified_flight):
    """With the true vehicle hardly any force is left; height, airspeed and rotor speed are those of the flight."""
    truth, _, result = identified_flight
    (residuals,) = result.residuals
    n = len(residuals.time)
    assert (
        residuals.force.shape == residuals.torque.shape == residuals.airspeed.shape == (3, n)
        and residuals.voltage is None
    )
    assert np.sqrt((residuals.force**2).mean()) < 0.01 * truth.mass * 9.80665
    assert residuals.height.mean() == pytest.approx(2.0, abs=0.3)
    assert residuals.rotor_speed.mean() == pytest.approx(np.mean(hover(truth)[0].rotor_speed), rel=0.05)


def test_no_logs_is_one_sentence():
    with pytest.raises(ValueError, match="no flight logs; expected at least one"):
        identify([], random_vehicle(1, 1))
