"""Confidence intervals cover: by exact sums over all counts, not by sampling."""

import math

import numpy as np
import pytest
from scipy import stats

from samara.campaigns.confidence import (
    clopper_pearson,
    lower_bound,
    quantile_interval,
    quantile_ranks,
    tail_probability,
    upper_bound,
)

RATES = np.concatenate(
    [np.geomspace(1e-9, 1e-3, 40), np.linspace(1e-3, 0.999, 1999), 1.0 - np.geomspace(1e-3, 1e-9, 40)]
)


@pytest.mark.parametrize("n", [1, 7, 50])
@pytest.mark.parametrize("p", [1e-3, 0.3, 0.5, 0.97])
def test_tails_are_sums_of_the_binomial(n, p):
    terms = [math.comb(n, k) * p**k * (1.0 - p) ** (n - k) for k in range(n + 1)]
    for k in range(n + 1):
        assert tail_probability(k, n, p) == pytest.approx(math.fsum(terms[k:]), rel=1e-12)


@pytest.mark.parametrize("count, n", [(0, 10), (3, 10), (10, 10), (5, 500), (250, 500), (9990, 10000)])
def test_clopper_pearson_is_that_of_scipy(count, n):
    expected = stats.binomtest(count, n).proportion_ci(0.95, method="exact")
    assert clopper_pearson(count, n) == pytest.approx((expected.low, expected.high), abs=1e-10)


@pytest.mark.parametrize("level", [0.9, 0.95, 0.999])
@pytest.mark.parametrize("n", [1, 2, 5, 10, 37, 100, 200])
def test_clopper_pearson_covers_every_rate(n, level):
    """P(p in the interval) = Σ C(n, k) pᵏ (1−p)ⁿ⁻ᵏ over the k whose interval contains p: at least the level, at 2079 rates and
    on both sides of every end of an interval, where coverage jumps."""
    intervals = [clopper_pearson(k, n, level) for k in range(n + 1)]
    ends = np.array([end for interval in intervals for end in interval if 0.0 < end < 1.0])
    p = np.concatenate([RATES, ends * (1.0 - 1e-9), np.minimum(ends * (1.0 + 1e-9), 1.0 - 1e-12)])
    inside = np.array([(interval.low <= p) & (p <= interval.high) for interval in intervals])
    coverage = (stats.binom.pmf(np.arange(n + 1)[:, None], n, p) * inside).sum(axis=0)
    assert coverage.min() >= level - 1e-9  # tolerance of the ends


def test_bounds_of_one_side():
    """0 of n: (1 − p)ⁿ = 5 %, the rule of three; and the mirror image."""
    assert upper_bound(0, 1000) == pytest.approx(1.0 - 0.05 ** (1.0 / 1000.0), rel=1e-12)
    assert lower_bound(1000, 1000) == pytest.approx(0.05 ** (1.0 / 1000.0), rel=1e-12)
    assert (lower_bound(0, 5), upper_bound(5, 5)) == (0.0, 1.0)
    assert clopper_pearson(7, 20, 0.9) == (lower_bound(7, 20, 0.95), upper_bound(7, 20, 0.95))


@pytest.mark.parametrize("q", [0.01, 0.25, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("n", [1, 5, 20, 100, 367, 368, 2000])
def test_intervals_of_a_quantile_cover_and_no_narrower_ranks_do(n, q):
    """P(x₍ᵣ₎ ≤ x_q ≤ x₍ₛ₎) = P(r ≤ X < s) for every continuous distribution, with at most 2.5 % beyond either end."""
    r, s = quantile_ranks(n, q)
    count = stats.binom(n, q)
    assert count.cdf(s - 1) - count.cdf(r - 1) >= 0.95
    assert count.cdf(r - 1) <= 0.025 < count.cdf(r)
    assert count.sf(s - 1) <= 0.025 < count.sf(s - 2)


def test_an_end_that_the_values_cannot_tell_is_infinite():
    """0.99³⁶⁸ = 2.48 % is the first power below 2.5 %."""
    values = np.random.default_rng(0).permutation(368)
    assert quantile_interval(values, 0.99) == (359.0, 367.0)
    assert quantile_interval(values[values != 3], 0.99)[1] == math.inf
    assert quantile_interval([4.0], 0.5) == (-math.inf, math.inf)


def test_bad_input_is_named():
    with pytest.raises(
        ValueError, match=r"^7 of 5 flights; expected at least one flight, and a count from 0 to their number$"
    ):
        clopper_pearson(7, 5)
    with pytest.raises(ValueError, match=r"^0 of 0 flights;"):
        upper_bound(0, 0)
    with pytest.raises(ValueError, match=r"^level 95; expected a number between 0 and 1, such as 0.95$"):
        clopper_pearson(1, 5, 95)
    with pytest.raises(ValueError, match=r"^quantile 1.5;"):
        quantile_interval([1.0, 2.0], 1.5)
    with pytest.raises(ValueError, match=r"^a quantile of 2 values, 1 of them nan; expected numbers$"):
        quantile_interval([1.0, math.nan], 0.5)
