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
    found = [subset_simulation(limit(1e-6), 10, seed=seed) for seed in range(1000, 1010)]
    assert all(own.reached and own.flights <= 50_000 for own in found)
    assert sum(0.5e-6 <= own.probability <= 2e-6 for own in found) >= 9


@pytest.mark.parametrize("limit", LIMITS)
def test_one_in_a_thousand_million(limit):
    """In at least 8 of 10 seeds, by fewer than 1e5 flights"""
    found = [subset_simulation(limit(1e-9), 10, seed=seed) for seed in range(1000, 1010)]
    assert all(own.reached and own.flights <= 100_000 for own in found)
    assert sum(0.5e-9 <= own.probability <= 2e-9 for own in found) >= 8


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("p", [0.3, 1e-3, 1e-6])
def test_one_run(limit, p):
    """A factor of four is five standard deviations and more of so few flights."""
    seen = []

    def margin(u):
        seen.append(len(u))
        return limit(p)(u)

    found = subset_simulation(margin, 10, seed=7, per_level=2000)
    assert found.reached and 0.25 * p < found.probability < 4.0 * p
    assert found.flights == sum(seen) <= 15_000
    assert found.interval[0] < found.probability < found.interval[1]
    assert (limit(p)(found.failures) < 0.0).all() and len(found.failures) >= 200
    assert list(found.thresholds) == sorted(found.thresholds, reverse=True) and found.thresholds[-1] == 0.0


def test_what_is_not_rare_is_counted():
    """One level is plain Monte Carlo: the rate of its rows, with the error √((1 − p)/(p n)) and of no chain"""
    rows = []

    def margin(u):
        rows.append(u)
        return 0.3 - u[:, 0]

    found = subset_simulation(margin, 2, seed=1, per_level=1000)
    assert found.probability == (rows[0][:, 0] > 0.3).mean() and found.flights == 1000
    assert found.variation == pytest.approx(1.0 / math.sqrt(len(found.failures)))


def test_the_stated_error_is_the_error():
    """Over 60 seeds the spread of ln P is what each run says of itself, to a third; and the interval holds in nine of ten"""
    found = [subset_simulation(linear(1e-5), 3, seed=seed, per_level=2000) for seed in range(2000, 2060)]
    spread = float(np.std([math.log(own.probability) for own in found]))
    assert np.mean([own.variation for own in found]) == pytest.approx(spread, rel=0.33)
    assert sum(own.interval[0] <= 1e-5 <= own.interval[1] for own in found) >= 52


def test_the_same_seed_gives_the_same_bits():
    first, again, other = (subset_simulation(linear(1e-4), 4, seed=seed, per_level=500) for seed in (3, 3, 4))
    assert first.probability == again.probability and first.failures.tobytes() == again.failures.tobytes()
    assert first.failures.tobytes() != other.failures.tobytes()


def test_where_it_ends_without_an_answer():
    """What cannot fail, a budget that is spent, margins that do not tell which way is worse: a bound, and no failure"""
    never = subset_simulation(lambda u: 1.0 + np.exp(-u[:, 0]), 2, per_level=500, smallest=1e-6)
    assert not never.reached and 1e-8 < never.probability < 1e-5 and never.interval[0] == 0.0
    spent = subset_simulation(linear(1e-9), 2, per_level=500, budget=1000)
    assert not spent.reached and spent.flights <= 1000 and spent.probability == pytest.approx(0.01, abs=0.002)
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
