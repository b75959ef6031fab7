"""Multi-step prediction error: its derivatives, and fits to flights of known vehicles."""

import numpy as np
import pytest
from studies.synthetic import prior_vehicle, random_vehicle
from support.measured_flights import PERIOD, exact_samples, lively_trajectory

from samara.identify.identification import identify_resampled
from samara.identify.parameters import apply_gains, identifiable_parameters, prepare_vehicle
from samara.identify.prediction_error_fit import (
    HORIZON,
    RECORD_PERIOD,
    Predictor,
    fit_by_prediction_error,
    select_windows,
    state_error,
)
from samara.identify.scores import (
    FlightPrediction,
    ScoredModel,
    cross_validate,
    error_ratios,
    fit_gains,
    pool_scores,
    predict_flight,
    scored_windows,
    thrust_fade,
)

EVEN = (1.0,) * 4


@pytest.fixture(scope="module")
def flown():
    truth = random_vehicle(5, 4)
    return truth, prior_vehicle(truth, 5, 4), exact_samples(truth, lively_trajectory(truth), 25.0)


@pytest.fixture(scope="module")
def predictor(flown):
    return Predictor.build(prepare_vehicle(flown[0]))


def test_windows_are_half_a_second_and_lie_where_all_is_usable(flown):
    _, _, samples = flown
    usable = np.ones(samples.body.shape[1], dtype=bool)
    usable[1000:1010] = False
    windows = select_windows(samples._replace(usable=usable), max_count=None)
    assert windows.samples == 120 and abs(windows.samples * PERIOD - HORIZON) < 0.025  # ten records of 48 ms
    assert not any(start <= k <= start + windows.samples for start in windows.starts for k in (1000, 1009))
    assert (np.diff(windows.starts) >= round(0.05 / PERIOD)).all()
    few = select_windows(samples, max_count=7, earliest=2.0)
    assert len(few.starts) == 7 and samples.time[few.starts].min() >= 2.0


@pytest.mark.parametrize("period", [0.004, 0.008, 0.01, 0.0143, 0.015, 0.02])
def test_windows_hold_ten_records_at_any_sample_rate(flown, period):
    """The table and the picture of a validation have ten instants, whether or not the period divides 0.05 s."""
    windows = select_windows(flown[2]._replace(period=period))
    assert windows.samples // round(RECORD_PERIOD / period) == 10


def test_a_vehicle_predicts_its_own_flight(flown, predictor):
    """The equations that generated the flight predict it, up to the coarser step of the prediction."""
    truth, _, samples = flown
    bare = prepare_vehicle(truth)
    windows = scored_windows(samples)
    predicted_states = predictor.window_batch([samples], [windows], bare, EVEN).predict()
    score = FlightPrediction(samples, windows, {"itself": predicted_states}).score()
    for quantity, ratio in error_ratios(score, "itself").items():
        assert ratio < 2e-3, quantity


def test_derivatives_are_those_of_differences(flown, predictor):
    """With respect to every parameter and every gain: tangents of the rollout against central differences."""
    _, start, samples = flown
    vehicle = prepare_vehicle(start)
    windows = [select_windows(samples, max_count=5)]
    parameters = identifiable_parameters(vehicle)
    gains = (1.02, 0.97, 1.0, 1.01)
    compiled = Predictor.build(vehicle)

    def predict(candidate, gains=gains):
        return compiled.window_batch([samples], windows, candidate, gains).predict()

    lanes = compiled.window_batch([samples], windows, vehicle, gains)
    states, slopes = lanes.predict_with_derivatives(parameters)
    assert np.array_equal(states, lanes.predict()) and len(slopes) == len(parameters) + 4
    step = 1e-4
    for j, parameter in enumerate(parameters):
        difference = (
            predict(parameter.displace_vehicle(vehicle, step)) - predict(parameter.displace_vehicle(vehicle, -step))
        ) / (2.0 * step)
        assert slopes[j] == pytest.approx(difference, abs=2e-3 * np.abs(difference).max() + 1e-9), parameter.name
    for rotor in range(4):
        up, down = (tuple(g * np.exp(s * step * (i == rotor)) for i, g in enumerate(gains)) for s in (1.0, -1.0))
        difference = (predict(vehicle, up) - predict(vehicle, down)) / (2.0 * step)
        assert slopes[len(parameters) + rotor] == pytest.approx(difference, abs=1e-5 * np.abs(difference).max())


@pytest.mark.long
def test_the_prediction_error_is_least_at_the_truth(flown):
    """From values that are a fifth off to the true ones, within a percent or two; unexcited parameters are excluded."""
    truth, start, samples = flown
    bare, true_vehicle = prepare_vehicle(start), prepare_vehicle(truth)
    names = {
        "k_thrust",
        "inertia.xx",
        "inertia.yy",
        "motor.time_constant_up",
        "motor.time_constant_down",
        "drag.linear.x",
        "drag.linear.y",
    }
    parameters = [parameter for parameter in identifiable_parameters(bare) if not parameter.name.startswith("damping")]
    fitted = fit_by_prediction_error([samples], bare, parameters)
    mean_gain = np.exp(np.mean(np.log(fitted.trims[0].gains)))
    for parameter in parameters:
        if parameter.name in names:
            value = parameter.get(fitted.vehicle) * (mean_gain if parameter.name == "k_thrust" else 1.0)
            tolerance = 0.1 if parameter.name.startswith("drag") else 0.03
            assert value == pytest.approx(parameter.get(true_vehicle), rel=tolerance), parameter.name


def test_a_trim_is_one_gain_for_each_rotor_from_the_first_seconds(flown, predictor):
    truth, _, samples = flown
    gains = (1.05, 0.96, 1.0, 1.02)
    weaker = apply_gains(prepare_vehicle(truth), tuple(1.0 / g for g in gains))
    assert fit_gains(samples, weaker, predictor) == pytest.approx(gains, rel=3e-3)


def test_the_fade_of_the_thrust_is_found(flown):
    """Rotors 3 % stronger in the first five seconds: later thrust per speed squared is 1/1.03 of that; without it, 1."""
    truth, _, samples = flown
    bare = prepare_vehicle(truth)
    steady = thrust_fade([samples], bare)
    strong = samples.time < samples.time[np.flatnonzero(samples.usable)[0]] + 5.0
    weaker = samples.commanded / np.sqrt(np.where(strong, 1.03, 1.0))
    assert steady == pytest.approx(1.0, abs=0.02)
    assert thrust_fade([samples._replace(commanded=weaker)], bare) == pytest.approx(steady / 1.03, rel=2e-3)


@pytest.mark.long
def test_the_written_predictor_is_the_one_that_was_fitted(flown, predictor):
    """Two flights of one vehicle with uneven rotors: without any trim the file predicts them as the fit does, but for damping
    of −1e-9 that a file cannot have."""
    _, start, samples = flown
    flights = [samples._replace(name=name) for name in ("a", "b")]
    product = identify_resampled(flights, start).predictor
    (gains,) = {trim.gains for trim in product.trims.values()}
    assert all(trim.delay == 0.0 for trim in product.trims.values())
    windows = [select_windows(samples, max_count=20)]
    fitted = predictor.window_batch([samples], windows, product.bare, gains).predict()
    written = predictor.window_batch([samples], windows, prepare_vehicle(product.vehicle), EVEN).predict()
    assert written == pytest.approx(fitted, abs=1e-3)


@pytest.mark.long
def test_halves_predict_each_other(flown):
    """Identified on one half, the other is predicted many times better than by constant velocity."""
    _, start, samples = flown
    predictions = cross_validate([samples], start)
    assert [prediction.samples.name for prediction in predictions] == ["exact, first half", "exact, second half"]
    for quantity, ratio in error_ratios(
        pool_scores([prediction.score() for prediction in predictions]), "predictor, trimmed"
    ).items():
        assert ratio < 0.25, quantity


@pytest.mark.long
def test_a_predictor_absorbs_a_wind_that_its_file_cannot_have(flown, predictor):
    """The same flight in wind of 1 m/s, which neither file has: the predictor beats the physical vehicle, whose fit has it."""
    _, start, samples = flown
    body = samples.body.copy()
    body[3] += 1.0
    body[0] += samples.time
    windy = samples._replace(body=body)
    identification = identify_resampled([windy], start)
    assert identification.physical.trims["exact"].wind_W == pytest.approx((1.0, 0.0), abs=0.1)
    models = {product.model_type: ScoredModel.build(product.vehicle, False) for product in identification.vehicles}
    score = predict_flight(windy, models).score()
    predicted, physical = (error_ratios(score, name) for name in ("predictor", "physical"))
    for quantity, ratio in predicted.items():
        assert ratio < 0.9 * physical[quantity], quantity


def test_errors_of_attitude_are_rotation_vectors():
    """2 vec(q⁻¹ ⊗ q̂) is the angle for small ones, whichever sign q̂ has"""
    measured_states = np.zeros((1, 13, 1))
    measured_states[0, 6] = 1.0
    predicted_states = measured_states.copy()
    predicted_states[0, 6:10, 0] = -np.array([np.cos(0.01), 0.0, np.sin(0.01), 0.0])
    assert state_error(predicted_states, measured_states)[0, 6:9, 0] == pytest.approx([0.0, 0.02, 0.0], abs=1e-6)
