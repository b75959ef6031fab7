"""Multi-step prediction error: its derivatives, and what it finds in flights whose every number is known."""

import numpy as np
import pytest
from studies.synthetic import doubted, random_vehicle
from support.measured_flights import PERIOD, exact_samples, lively

from samara.identify.fit_result import Trim
from samara.identify.identification import identified
from samara.identify.parameters import parameters_of, ready, with_gains
from samara.identify.prediction_error_fit import DIFFERENCE, HORIZON, Predictor, apart, fit, windows_of
from samara.identify.scores import Predicted, held_out, ratios, said_by, scored_windows, together, trimmed

EVEN = Trim((1.0,) * 4, 0.0, (0.0, 0.0))


@pytest.fixture(scope="module")
def flown():
    truth = random_vehicle(5, 4)
    return truth, doubted(truth, 5, 4), exact_samples(truth, lively(truth), 25.0)


@pytest.fixture(scope="module")
def predictor(flown):
    return Predictor.of(ready(flown[0]))


def test_windows_are_half_a_second_and_lie_where_all_is_usable(flown):
    _, _, samples = flown
    usable = np.ones(samples.body.shape[1], dtype=bool)
    usable[1000:1010] = False
    own = windows_of(samples._replace(usable=usable), most=None)
    assert own.samples == round(HORIZON / PERIOD)
    assert not any(start <= at <= start + own.samples for start in own.starts for at in (1000, 1009))
    assert (np.diff(own.starts) >= round(0.05 / PERIOD)).all()
    few = windows_of(samples, most=7, after=2.0)
    assert len(few.starts) == 7 and samples.time[few.starts].min() >= 2.0


def test_a_vehicle_predicts_its_own_flight(flown, predictor):
    """The equations that made the flight say what comes, to what the coarser step of the prediction leaves"""
    truth, _, samples = flown
    bare = ready(truth)
    windows = scored_windows(samples)
    said = said_by(samples, windows, bare, predictor, EVEN)
    own = Predicted(samples, windows, {"itself": said}).score()
    for quantity, ratio in ratios(own, "itself").items():
        assert ratio < 2e-3, quantity


def test_derivatives_are_those_of_differences(flown, predictor):
    """To every parameter, every gain and the delay: the tangents of the rollout beside central differences"""
    _, start, samples = flown
    vehicle = ready(start)
    windows = [windows_of(samples, most=5)]
    parameters = parameters_of(vehicle)
    trim = Trim((1.02, 0.97, 1.0, 1.01), 0.006, (0.5, -0.3))
    own = Predictor.of(vehicle)

    def said(candidate, gains=trim.gains, delay=trim.delay):
        return own.lanes([samples], windows, candidate, [Trim(gains, delay, trim.wind_W)], 0.0).predicted()

    lanes = own.lanes([samples], windows, vehicle, [trim], 0.0)
    here, slopes = lanes.with_slopes(parameters, True)
    assert np.array_equal(here, lanes.predicted())
    step = 1e-4
    for j, each in enumerate(parameters):
        beside = (said(each.moved(vehicle, step)) - said(each.moved(vehicle, -step))) / (2.0 * step)
        assert slopes[j] == pytest.approx(beside, abs=2e-3 * np.abs(beside).max() + 1e-9), each.name
    for rotor in range(4):
        up, down = (tuple(g * np.exp(s * step * (i == rotor)) for i, g in enumerate(trim.gains)) for s in (1.0, -1.0))
        beside = (said(vehicle, up) - said(vehicle, down)) / (2.0 * step)
        assert slopes[len(parameters) + rotor] == pytest.approx(beside, abs=1e-5 * np.abs(beside).max())
    beside = (said(vehicle, delay=trim.delay + DIFFERENCE) - said(vehicle, delay=trim.delay)) / DIFFERENCE
    assert slopes[-1] == pytest.approx(beside, abs=1e-2 * np.abs(beside).max())


@pytest.mark.long
def test_the_prediction_error_is_least_at_the_truth(flown):
    """From numbers that are off by a fifth back to those that flew, within a percent or two; what does not move is left"""
    truth, start, samples = flown
    bare, own = ready(start), ready(truth)
    wanted = {"k_thrust", "inertia.xx", "inertia.yy", "motor.rise", "motor.fall", "drag.linear.x", "drag.linear.y"}
    parameters = [each for each in parameters_of(bare) if not each.name.startswith("damping")]
    found = fit([samples], bare, parameters)
    middle = np.exp(np.mean(np.log(found.trims[0].gains)))
    for each in parameters:
        if each.name in wanted:
            value = each.get(found.vehicle) * (middle if each.name == "k_thrust" else 1.0)
            within = 0.1 if each.name.startswith("drag") else 0.03
            assert value == pytest.approx(each.get(own), rel=within), each.name


def test_a_trim_is_one_gain_for_each_rotor_from_the_first_seconds(flown, predictor):
    truth, _, samples = flown
    gains = (1.05, 0.96, 1.0, 1.02)
    weaker = with_gains(ready(truth), tuple(1.0 / g for g in gains))
    found = trimmed(samples, weaker, predictor, EVEN)
    assert found.gains == pytest.approx(gains, rel=3e-3)
    assert found.delay == EVEN.delay and found.wind_W == EVEN.wind_W


@pytest.mark.long
def test_halves_predict_each_other(flown):
    """Identified on one half, the other is predicted many times better than by constant velocity"""
    _, start, samples = flown
    found = held_out([samples], start)
    assert [own.samples.name for own in found] == ["exact, first half", "exact, second half"]
    for quantity, ratio in ratios(together([own.score() for own in found]), "predictor").items():
        assert ratio < 0.25, quantity


@pytest.mark.long
def test_a_predictor_knows_the_wind_that_forces_told_of(flown):
    """The same flight from air that moves with 1 m/s: without the wind it would be taken for inertia and damping"""
    truth, start, samples = flown
    body = samples.body.copy()
    body[3] += 1.0
    found = identified([samples._replace(body=body)], start)
    assert found.predictor.trims["exact"].wind_W == pytest.approx((1.0, 0.0), abs=0.1)
    for name in ("inertia.xx", "inertia.yy"):
        value = getattr(truth.inertia_B, name[-2:])
        assert found.predictor.estimate(name).value == pytest.approx(value, rel=0.05), name


def test_errors_of_attitude_are_rotation_vectors():
    """2 vec(q⁻¹ ⊗ q̂) is the angle for small ones, whichever sign q̂ has"""
    came = np.zeros((1, 13, 1))
    came[0, 6] = 1.0
    said = came.copy()
    said[0, 6:10, 0] = -np.array([np.cos(0.01), 0.0, np.sin(0.01), 0.0])
    assert apart(said, came)[0, 6:9, 0] == pytest.approx([0.0, 0.02, 0.0], abs=1e-6)
