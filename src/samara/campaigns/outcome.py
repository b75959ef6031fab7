"""Outcomes of flights: pass, fail, invalid or degraded, with the reason as a code, and the margin by which they passed."""

from collections.abc import Sequence

import numpy as np

from samara.core.types import Array
from samara.record.metrics import FLIGHT_METRICS, METRICS
from samara.scenario.expectations import relative_margin
from samara.scenario.scenario import Expectations
from samara.sim.batch_result import Flights

PASS, FAIL, INVALID, DEGRADED = "pass", "fail", "invalid", "degraded"
OUTCOMES = (PASS, FAIL, INVALID, DEGRADED)
NOT_FINITE, ERROR = "not_finite", "error"


def metric_columns(flights: Flights) -> dict[str, Array]:
    """The metrics of each flight by name: columns of the campaign's rows."""
    return {name: np.asarray(flights.metrics.metric(name), dtype=float) for name in FLIGHT_METRICS}


def evaluate(flights: Flights, degraded: Sequence[tuple[str, float]]) -> tuple[Array, Array]:
    """(outcome, reason) of each flight: the first expectation that failed, or the first metric beyond its limit"""
    n = len(flights)
    outcome, reason = np.full(n, PASS, dtype=object), np.full(n, "", dtype=object)
    for name, limit in reversed(degraded):
        values = np.asarray(flights.metrics.metric(name))
        beyond = values < limit if METRICS[name].lower_is_worse else values > limit
        outcome[beyond], reason[beyond] = DEGRADED, f"degraded.{name}"
    for expectation in reversed(flights.outcomes):
        failed = ~np.broadcast_to(np.asarray(expectation.satisfied, dtype=bool), (n,))
        outcome[failed], reason[failed] = FAIL, f"expect.{expectation.field}"
    lost = flights.lost
    outcome[lost], reason[lost] = INVALID, NOT_FINITE
    return outcome, reason


def margins(flights: Flights, expect: Expectations) -> Array:
    """min (limit − value)/|limit| over all expectations, at most −1 after a crash: a flight fails below 0

    The margin of a flight whose state is not finite is −10.
    """
    n = len(flights)
    smallest = np.full(n, np.inf)
    for outcome in flights.outcomes:
        margin = relative_margin(outcome, expect)
        if margin is None:
            satisfied = np.broadcast_to(np.asarray(outcome.satisfied, dtype=bool), (n,))
            margin = np.where(satisfied, np.inf, -1.0)
        smallest = np.minimum(smallest, margin)
    return np.where(flights.lost, -10.0, np.where(np.isfinite(smallest), smallest, 1.0))


def badness(values: Array, metric: str) -> Array:
    """Return the metric, negated if lower is worse, so that larger is worse; ∞ for nan."""
    signed = -values if METRICS[metric].lower_is_worse else values
    return np.where(np.isnan(values), np.inf, signed)
