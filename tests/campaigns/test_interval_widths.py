"""Approximate intervals have the width of the assumed distribution: each against a closed form of SciPy's."""

import math

import numpy as np
import pytest
from scipy import stats

from samara.campaigns.failure_curve import failure_curve
from samara.campaigns.subset_simulation import RareEvent

LEVEL = 0.95


@pytest.mark.parametrize("variation", [0.02, 0.3, 1.5])
def test_the_interval_of_a_rare_event_is_that_of_a_lognormal_estimate(variation):
    """A lognormal distribution with this coefficient of variation, and the estimate as its median"""
    event = RareEvent(1e-5, variation, 1000, (), np.zeros((1, 2)), True)
    spread = math.sqrt(math.log1p(variation**2))
    estimate = stats.lognorm(spread, scale=1e-5)
    assert estimate.std() / estimate.mean() == pytest.approx(variation, rel=1e-9)
    assert event.interval == pytest.approx(estimate.interval(LEVEL), rel=1e-9)
    assert event._replace(failure_reached=False).interval == pytest.approx((0.0, estimate.interval(LEVEL)[1]), rel=1e-9)


def test_the_band_of_a_failure_curve_is_that_of_a_table_of_two_rows():
    """A parameter of two values is fitted exactly: ln odds ± z/√(n p (1 − p)) at each (A. Agresti, 2013, section 3.1)"""
    n, fails = np.array([50, 70]), np.array([8, 31])
    values = np.repeat([2.0, 5.0], n)
    failed = np.concatenate([np.arange(n[k]) < fails[k] for k in range(2)])
    low, high = failure_curve(values, failed).band([2.0, 5.0])
    p = (fails + 0.5) / (n + 1.0)  # Firth's estimate
    off = stats.norm.ppf(0.5 * (1.0 + LEVEL)) / np.sqrt(n * p * (1.0 - p))
    middle = np.log(p / (1.0 - p))
    assert np.log(low / (1.0 - low)) == pytest.approx(middle - off, rel=1e-8)
    assert np.log(high / (1.0 - high)) == pytest.approx(middle + off, rel=1e-8)
