"""What came of flights: pass, fail, invalid or degraded, with the reason as a code; and the margin by which they passed."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from samara.scenario.scenario import Expect
from samara.sim.flights import Flights

Array = np.ndarray[Any, Any]

PASS, FAIL, INVALID, DEGRADED = "pass", "fail", "invalid", "degraded"
OUTCOMES = (PASS, FAIL, INVALID, DEGRADED)
NOT_FINITE, ERROR = "not_finite", "error"
LEAST = ("lowest", "charge", "voltage")  # measures of which the least is the worst


def measures_of(flights: Flights) -> dict[str, Array]:
    """The measures that are written, by name"""
    named = flights.measures._asdict()
    named.pop("followed")
    named.pop("squared_error")
    return {
        "worst_error": flights.worst_error,
        "rms_error": flights.rms_error,
        **{name: np.asarray(own, dtype=float) for name, own in named.items() if name != "worst_error"},
    }


def judged(flights: Flights, degraded: Sequence[tuple[str, float]]) -> tuple[Array, Array]:
    """(outcome, reason) of each flight: the first expectation that did not come true, or the first measure beyond its limit"""
    n = len(flights)
    outcome, reason = np.full(n, PASS, dtype=object), np.full(n, "", dtype=object)
    measures = measures_of(flights)
    for name, limit in reversed(degraded):
        beyond = measures[name] < limit if name in LEAST else measures[name] > limit
        outcome[beyond], reason[beyond] = DEGRADED, f"degraded.{name}"
    for own in reversed(flights.outcomes):
        wrong = ~np.broadcast_to(np.asarray(own.true, dtype=bool), (n,))
        outcome[wrong], reason[wrong] = FAIL, f"expect.{own.what}"
    lost = flights.lost
    outcome[lost], reason[lost] = INVALID, NOT_FINITE
    return outcome, reason


def margins(flights: Flights, expect: Expect) -> Array:
    """min over what is expected of (limit − value)/limit, −1 or less where it crashed: below 0 a flight fails

    A flight that is no longer finite has the margin −10.
    """
    n = len(flights)
    least = np.full(n, np.inf)
    limits = {
        "final_position": expect.within,
        "max_tilt_deg": expect.max_tilt_deg,
        "max_error": expect.max_error,
        "min_height": expect.min_height,
    }
    for own in flights.outcomes:
        limit = limits.get(own.what)
        true = np.broadcast_to(np.asarray(own.true, dtype=bool), (n,))
        if limit is None or own.value is None:
            least = np.where(true, least, np.minimum(least, -1.0))
        else:
            sign = -1.0 if own.what == "min_height" else 1.0
            least = np.minimum(least, sign * (limit - np.asarray(own.value)) / max(abs(limit), 1e-12))
    return np.where(flights.lost, -10.0, np.where(np.isfinite(least), least, 1.0))
