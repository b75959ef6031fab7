"""Outcomes and margins of flights with chosen metrics."""

from dataclasses import replace

import numpy as np
import pytest

import samara
from samara.campaigns.outcome import evaluate, margins, metric_columns
from samara.scenario.expectations import ExpectationResult
from samara.scenario.scenario import Expectations

EXPECT = Expectations(max_error=0.5, min_height=2.0, max_tilt_deg=30.0)


@pytest.fixture(scope="module")
def flights():
    """Four flights: within the limits, too large an error, too low, and crashed"""
    batch = samara.fly_many("hover", 4, settings={"duration": 0.1})
    error, lowest = np.array([0.1, 0.6, 0.2, 0.3]), np.array([3.0, 2.5, 1.5, 2.2])
    outcomes = (
        ExpectationResult("no_crash", "", None, np.array([True, True, True, False])),
        ExpectationResult("max_error", "", error, error <= 0.5),
        ExpectationResult("min_height", "", lowest, lowest >= 2.0),
    )
    metrics = batch.metrics._replace(max_error=error, min_height=lowest)
    return replace(batch, outcomes=outcomes, metrics=metrics)


def test_the_first_expectation_that_fails_is_the_reason(flights):
    outcome, reason = evaluate(flights, ())
    assert outcome.tolist() == ["pass", "fail", "fail", "fail"]
    assert reason.tolist() == ["", "expect.max_error", "expect.min_height", "expect.no_crash"]


def test_a_metric_beyond_its_limit_degrades_what_passes(flights):
    """An upper limit on an error, a lower limit on a height"""
    assert evaluate(flights, [("max_error", 0.05)])[0].tolist() == ["degraded", "fail", "fail", "fail"]
    assert evaluate(flights, [("min_height", 3.5)])[1].tolist()[0] == "degraded.min_height"
    assert evaluate(flights, [("min_height", 2.9), ("max_error", 0.15)])[0].tolist()[0] == "pass"


def test_the_margin_is_the_smallest_relative_distance_to_a_limit(flights):
    """(0.5 − 0.1)/0.5 and (3 − 2)/2; 0.1 too far; 0.5 too low; a crash is −1"""
    assert margins(flights, EXPECT) == pytest.approx([0.5, -0.2, -0.25, -1.0])


def test_a_lost_flight_is_invalid_whatever_it_did(flights):
    x = np.array([np.nan, 0.0, 0.0, 0.0])
    lost = replace(flights, final=flights.final._replace(p_W=flights.final.p_W._replace(x=x)))
    outcome, reason = evaluate(lost, [("max_error", 0.05)])
    assert (outcome[0], reason[0], margins(lost, EXPECT)[0]) == ("invalid", "not_finite", -10.0)
    assert metric_columns(lost)["max_error"][1] == 0.6
