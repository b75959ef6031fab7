"""Confidence sequences cover under optional stopping: summed exactly over all courses of a campaign."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import integrate, special

from samara.campaigns.confidence import (
    Interval,
    clopper_pearson,
    confidence_sequence,
    log_evidence_above,
    log_evidence_below,
    log_mixture,
)

RATES = (1e-4, 0.003, 0.02, 0.1, 0.37, 0.5, 0.9, 0.99, 0.999)
LIMIT = math.log(20.0)


def step(chance: np.ndarray, p: float) -> np.ndarray:
    """P(k successes) for one more flight"""
    more = np.zeros(len(chance) + 1)
    more[:-1] = chance * (1.0 - p)
    more[1:] += chance * p
    return more


def ever(p: float, flights: int, stops: Callable[[int, int], bool]) -> float:
    """The probability that `stops(k, n)` is ever true, for a rule that is true at the ends of 0 … n and false between"""
    chance, stopped, low, high = np.ones(1), 0.0, -1, 1
    for n in range(1, flights + 1):
        chance = step(chance, p)
        low, high = max(low, 0), min(high, n)
        while low <= n and stops(low, n):
            low += 1
        low -= 1  # the last count at which it stops from below; it only grows from flight to flight
        while high < n and not stops(high + 1, n):
            high += 1
        while high > low + 1 and stops(high, n):
            high -= 1
        stopped += chance[: low + 1].sum() + chance[high + 1 :].sum()
        chance[: low + 1] = chance[high + 1 :] = 0.0
    assert stopped + chance.sum() == pytest.approx(1.0, abs=1e-12)
    return stopped


def test_the_mixture_is_a_ratio_of_beta_functions():
    for k, n, p in [(0, 3, 0.2), (3, 3, 0.2), (40, 100, 0.5), (10**6 - 20, 10**6, 0.9999)]:
        expected = (
            special.betaln(k + 0.5, n - k + 0.5) - math.log(math.pi) - special.xlogy(k, p) - special.xlog1py(n - k, -p)
        )
        assert log_mixture(p, k, n) == pytest.approx(expected, abs=1e-7)


def test_the_mixture_of_the_true_rate_has_mean_one():
    """Σ P(k) M(k) = 1 for every flight count: a martingale, on which the coverage rests."""
    for p in RATES:
        for n in (1, 2, 17, 60):
            terms = (math.comb(n, k) * p**k * (1 - p) ** (n - k) * math.exp(log_mixture(p, k, n)) for k in range(n + 1))
            assert math.fsum(terms) == pytest.approx(1.0, rel=1e-11)


@pytest.mark.parametrize("p", RATES)
def test_the_true_rate_ever_leaves_with_less_than_five_percent(p):
    """Over 1500 flights, evaluated after each: the worst possible stopping rule."""
    assert ever(p, 1500, lambda k, n: log_mixture(p, k, n) >= LIMIT) <= 0.05


def test_a_clopper_pearson_interval_does_not_cover_under_optional_stopping():
    """Within 150 flights, one campaign in four has had a Clopper–Pearson interval without the true rate."""
    p, contains_cache = 0.3, {}

    def outside(k: int, n: int) -> bool:
        if (k, n) not in contains_cache:
            contains_cache[k, n] = clopper_pearson(k, n).contains(p)
        return not contains_cache[k, n]

    assert ever(p, 150, outside) > 0.24


@pytest.mark.parametrize("width", [0.5, 0.15])
def test_an_interval_that_was_narrow_enough_covers(width):
    """Batches of 10 until the interval is narrow, or 200 flights: the coverage of the final interval."""
    intervals: dict[tuple[int, int], Interval] = {}
    for n in range(10, 201, 10):
        intervals |= {(k, n): confidence_sequence(k, n) for k in range(n // 2 + 1)}
        intervals |= {
            (n - k, n): Interval(1.0 - intervals[k, n].high, 1.0 - intervals[k, n].low) for k in range((n + 1) // 2)
        }
    for p in (*RATES, *np.linspace(0.05, 0.95, 19)):
        chance, covered, early = np.ones(1), 0.0, 0.0
        for n in range(1, 201):
            chance = step(chance, p)
            for k in range(n + 1) if n % 10 == 0 else ():
                if intervals[k, n].width <= width or n == 200:
                    covered += chance[k] * intervals[k, n].contains(p)
                    early += chance[k] * (n < 200)
                    chance[k] = 0.0
        assert covered >= 0.95
    assert early > 0.5  # at the last rate most campaigns end early


def test_an_interval_is_where_the_mixture_is_below_its_limit():
    for k, n in [(0, 1), (1, 1), (3, 10), (50, 100), (999, 1000), (123456, 10**6)]:
        low, high = confidence_sequence(k, n)
        assert low <= k / n <= high and (low == 0.0) == (k == 0) and (high == 1.0) == (k == n)
        for end in (low, high):
            assert end in (0.0, 1.0) or log_mixture(end, k, n) == pytest.approx(LIMIT, abs=1e-6)
        mirrored = confidence_sequence(n - k, n)
        assert (1.0 - high, 1.0 - low) == pytest.approx(mirrored, abs=1e-14)
        assert confidence_sequence(k, n, 0.99).width > high - low


@pytest.mark.parametrize("rate", [0.01, 0.5, 0.9, 0.99])
def test_evidence_for_more_than_the_rate_is_an_integral(rate):
    """The mean of L(p)/L(rate) over (rate, 1), weighted by Beta(½, ½): uniform in φ with p = sin²φ"""
    start = math.asin(math.sqrt(rate))
    for k, n in [(0, 4), (4, 4), (95, 100), (40, 100)]:

        def ratio(phi: float, k: int = k, n: int = n) -> float:
            return (math.sin(phi) ** 2 / rate) ** k * (math.cos(phi) ** 2 / (1 - rate)) ** (n - k)

        mean = integrate.quad(ratio, start, math.pi / 2, epsabs=0.0, epsrel=1e-10)[0] / (math.pi / 2 - start)
        assert log_evidence_above(rate, k, n) == pytest.approx(math.log(mean), rel=1e-9, abs=1e-9)
        assert log_evidence_below(1.0 - rate, n - k, n) == pytest.approx(log_evidence_above(rate, k, n), rel=1e-9)


@pytest.mark.parametrize("rate", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("fraction", [1.0, 0.98])
def test_evidence_ever_misleads_with_less_than_five_percent(rate, fraction):
    """At the tested rate or a little below, over 1000 flights evaluated one by one"""
    probability = ever(fraction * rate, 1000, lambda k, n: k > 0 and log_evidence_above(rate, k, n) >= LIMIT)
    assert (0.0 if fraction < 1.0 else 0.005) <= probability <= 0.05


def test_evidence_of_hopeless_flights_is_none():
    assert log_evidence_above(0.99, 0, 10**5) == -math.inf
    with pytest.raises(ValueError, match=r"^rate 1.0; expected a number between 0 and 1$"):
        log_evidence_above(1.0, 1, 2)
