"""Rows of campaigns: the requested distributions, determined by seed and row number alone."""

import numpy as np
import pytest

from samara.campaigns.campaign import Campaign, VariedParameter, require_valid
from samara.campaigns.distributions import (
    DiscreteUniform,
    GridAxis,
    LogUniform,
    MultivariateNormal,
    Normal,
    Uniform,
    distribution,
)
from samara.campaigns.samplers import SAMPLERS, flight_seeds, points, uniforms
from samara.campaigns.samples import RowRange, sample_rows

SCIPY = pytest.importorskip("scipy.stats")
N = 4096


def cube(sampler, rows, count=3, seed=7, total=N):
    return points(sampler, seed, rows, count, block=0, first=0, total=total)


@pytest.mark.parametrize(
    ("how", "law"),
    [
        (Uniform(2.0, 5.0), SCIPY.uniform(2.0, 3.0)),
        (Normal(1.0, 0.2), SCIPY.norm(1.0, 0.2)),
        (LogUniform(0.1, 10.0), SCIPY.loguniform(0.1, 10.0)),
    ],
)
def test_a_factor_has_its_distribution(how, law):
    """Kolmogorov and Smirnov find no difference in 4096 draws, and F(F⁻¹(u)) = u"""
    u = uniforms(3, "test", np.arange(N), 1)[:, 0]
    assert SCIPY.kstest(how.quantile(u), law.cdf).pvalue > 0.01
    assert np.allclose(law.cdf(how.quantile(u)), u, atol=1e-12)


def test_choices_come_equally_often():
    draws = DiscreteUniform((1.0, 2.0, 4.0)).quantile(uniforms(3, "test", np.arange(3000), 1)[:, 0])
    assert all(abs((draws == value).sum() - 1000) < 100 for value in (1.0, 2.0, 4.0))


def test_correlated_factors_have_their_covariance():
    """Of 2¹⁶ draws, within four standard errors of a sample covariance"""
    covariance = ((0.04, -0.03), (-0.03, 0.09))
    distribution = MultivariateNormal.create(("a", "b"), (1.0, -2.0), covariance)
    n = 1 << 16
    draws = distribution.quantiles(uniforms(5, "test", np.arange(n), 2))
    assert np.allclose(draws.mean(axis=0), distribution.mean, atol=4 * 0.3 / np.sqrt(n))
    assert np.allclose(np.cov(draws.T), covariance, atol=4 * 0.09 * np.sqrt(2.0 / n))


@pytest.mark.parametrize("sampler", [name for name in SAMPLERS if name != "grid"])
def test_a_row_is_the_same_in_any_batch(sampler):
    """In batches of 1, of 7, reversed: bit for bit those of one batch"""
    reference = cube(sampler, np.arange(64), total=64)
    for size in (1, 7):
        parts = [cube(sampler, np.arange(k, min(k + size, 64)), total=64) for k in range(0, 64, size)]
        assert np.array_equal(np.concatenate(parts), reference)
    assert np.array_equal(cube(sampler, np.arange(63, -1, -1), total=64)[::-1], reference)
    assert ((reference > 0.0) & (reference < 1.0)).all()
    assert not np.array_equal(cube(sampler, np.arange(64), seed=8, total=64), reference)


def test_a_latin_hypercube_has_one_row_in_every_cell_of_each_factor():
    cells = np.floor(cube("latin", np.arange(100), total=100) * 100).astype(int)
    assert (np.sort(cells, axis=0) == np.arange(100)[:, None]).all()


@pytest.mark.parametrize("sampler", ["sobol", "halton"])
def test_sequences_fill_the_cube_more_evenly_than_chance(sampler):
    """The discrepancy of 1024 points is at most a tenth of that of independent ones"""
    qmc = SCIPY.qmc
    discrepancy, independent = (qmc.discrepancy(cube(name, np.arange(1024))) for name in (sampler, "independent"))
    assert discrepancy < 0.1 * independent


def test_seeds_are_all_different():
    assert len(set(flight_seeds(1, np.arange(100_000)).tolist())) == 100_000


def test_a_grid_is_the_product_of_its_axes():
    factors = (VariedParameter("mass", GridAxis((1.0, 2.0))), VariedParameter("yaw", GridAxis((0.0, 0.1, 0.2))))
    campaign = Campaign("grid", "hover", 6, sampler="grid", factors=factors)
    values = sample_rows(require_valid(campaign), np.arange(6), RowRange(0, 0, 6), {}).values
    grid_points = list(zip(values["mass"].tolist(), values["yaw"].tolist(), strict=True))
    assert grid_points == [(m, y) for m in (1.0, 2.0) for y in (0.0, 0.1, 0.2)]


@pytest.mark.parametrize(
    ("kind", "numbers", "sentence"),
    [
        ("normal", (1.0, -0.1), "normal has the width -0.1; expected a positive number"),
        ("uniform", (2.0, 1.0), "uniform is from 2 to 1; expected the first to be less"),
        ("uniform", (1.0,), "uniform has 1 numbers; expected two: low and high"),
        ("log_uniform", (0.0, 1.0), "log_uniform begins at 0; expected a positive number"),
        ("choice", (), "choice has no values; expected at least one"),
    ],
)
def test_an_invalid_distribution_is_one_sentence(kind, numbers, sentence):
    with pytest.raises(ValueError, match=sentence):
        distribution(kind, numbers)
