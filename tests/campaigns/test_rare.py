"""Subset simulation against limit states whose probability is known in closed form, down to one in a thousand million."""

import math

import numpy as np
import pytest
from scipy import stats

from samara.campaigns.subset_simulation import RareEvent, subset_simulation, unit_cube


def linear(p):
    """β − Σ uᵢ/√k: Φ(−β)"""
    beta = stats.norm.isf(p)
    return lambda u: beta - u.sum(axis=1) / math.sqrt(u.shape[1])


def quadratic(p):
    """r² − |u|²: the tail of χ²"""
    square = stats.chi2.isf(p, 10)
    return lambda u: square - (u * u).sum(axis=1)


def two_sided(p):
    """Either of two opposite failures, β − |u₁|: 2 Φ(−β)"""
    beta = stats.norm.isf(0.5 * p)
    return lambda u: beta - np.abs(u[:, 0])


def parallel(p):
    """Two conditions at once, max(β − u₁, β − u₂): Φ(−β)²"""
    beta = stats.norm.isf(math.sqrt(p))
    return lambda u: np.maximum(beta - u[:, 0], beta - u[:, 1])


LIMITS = (linear, quadratic, two_sided, parallel)


@pytest.mark.parametrize("limit", LIMITS)
def test_one_in_a_million_within_a_factor_of_two(limit):
    """In at least 9 of 10 seeds, by fewer than 5e4 flights of 10 factors"""
    results = [subset_simulation(limit(1e-6), 10, seed=seed) for seed in range(1000, 1010)]
    assert all(result.failure_reached and result.flights <= 50_000 for result in results)
    assert sum(0.5e-6 <= result.probability <= 2e-6 for result in results) >= 9


@pytest.mark.parametrize("limit", LIMITS)
def test_one_in_a_thousand_million(limit):
    """In at least 8 of 10 seeds, by fewer than 1e5 flights"""
    results = [subset_simulation(limit(1e-9), 10, seed=seed) for seed in range(1000, 1010)]
    assert all(result.failure_reached and result.flights <= 100_000 for result in results)
    assert sum(0.5e-9 <= result.probability <= 2e-9 for result in results) >= 8


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("p", [0.3, 1e-3, 1e-6])
def test_one_run(limit, p):
    """A factor of four is at least five standard deviations of this small sample."""
    batch_sizes = []

    def margin(u):
        batch_sizes.append(len(u))
        return limit(p)(u)

    result = subset_simulation(margin, 10, seed=7, per_level=2000)
    assert result.failure_reached and 0.25 * p < result.probability < 4.0 * p
    assert result.flights == sum(batch_sizes) <= 15_000
    assert result.interval[0] < result.probability < result.interval[1]
    assert (limit(p)(result.failures) < 0.0).all() and len(result.failures) >= 200
    assert list(result.thresholds) == sorted(result.thresholds, reverse=True) and result.thresholds[-1] == 0.0


def test_what_is_not_rare_is_counted():
    """One level is plain Monte Carlo: the failure rate of its rows, with the error √((1 − p)/(p n))"""
    rows = []

    def margin(u):
        rows.append(u)
        return 0.3 - u[:, 0]

    result = subset_simulation(margin, 2, seed=1, per_level=1000)
    assert result.probability == (rows[0][:, 0] > 0.3).mean() and result.flights == 1000
    assert result.variation == pytest.approx(1.0 / math.sqrt(len(result.failures)))


def test_the_stated_error_is_the_error():
    """Over 60 seeds the spread of ln P equals the estimated variation, to a third; and the interval covers in nine of ten"""
    results = [subset_simulation(linear(1e-5), 3, seed=seed, per_level=2000) for seed in range(2000, 2060)]
    spread = float(np.std([math.log(result.probability) for result in results]))
    assert np.mean([result.variation for result in results]) == pytest.approx(spread, rel=0.33)
    assert sum(result.interval[0] <= 1e-5 <= result.interval[1] for result in results) >= 52


def test_the_same_seed_gives_the_same_bits():
    first, again, other = (subset_simulation(linear(1e-4), 4, seed=seed, per_level=500) for seed in (3, 3, 4))
    assert first.probability == again.probability and first.failures.tobytes() == again.failures.tobytes()
    assert first.failures.tobytes() != other.failures.tobytes()


def test_where_it_ends_without_an_answer():
    """An impossible failure, a spent budget, equal margins without a direction: a bound, and no failure"""
    never = subset_simulation(lambda u: 1.0 + np.exp(-u[:, 0]), 2, per_level=500, min_probability=1e-6)
    assert not never.failure_reached and 1e-8 < never.probability < 1e-5 and never.interval[0] == 0.0
    spent = subset_simulation(linear(1e-9), 2, per_level=500, budget=1000)
    assert not spent.failure_reached and spent.flights <= 1000 and spent.probability == pytest.approx(0.01, abs=0.002)
    flat = subset_simulation(lambda u: np.ones(len(u)), 2, per_level=500)
    assert flat == RareEvent(1.0, flat.variation, 500, (), flat.failures, False) and not len(flat.failures)


def test_bad_input_is_named():
    with pytest.raises(
        ValueError, match=r"^the margin of 500 flights has nan; expected one number for each, also for a broken one$"
    ):
        subset_simulation(lambda u: np.full(len(u), math.nan), 2, per_level=500)
    with pytest.raises(ValueError, match=r"^the margin of 500 flights has shape \(\);"):
        subset_simulation(lambda u: 1.0, 2, per_level=500)
    with pytest.raises(
        ValueError, match=r"^0 factors, 6000 flights per level; expected 1 or more, and a multiple of 10 from 100$"
    ):
        subset_simulation(linear(0.1), 0)
    with pytest.raises(ValueError, match=r"^a budget of 50 flights; expected at least those of one level, 6000$"):
        subset_simulation(linear(0.1), 1, budget=50)


def test_the_unit_cube_is_the_normal_distribution():
    u = np.linspace(-8.0, 8.0, 4001)
    assert unit_cube(u) == pytest.approx(stats.norm.cdf(u), rel=1e-10)
    low, high = unit_cube(np.array([-30.0, 30.0]))
    assert low > 0.0 and high < 1.0
    assert (np.diff(unit_cube(u)) >= 0.0).all() and unit_cube(np.zeros((2, 3))).tolist() == [[0.5] * 3] * 2
