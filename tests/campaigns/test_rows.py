"""Rows of campaigns: the distributions they were asked for, decided by seed and number alone."""

import numpy as np
import pytest

from samara.campaigns.campaign import Campaign, Factor, checked
from samara.campaigns.distributions import Choice, Correlated, Grid, LogUniform, Normal, Uniform, distribution
from samara.campaigns.samplers import SAMPLERS, points, seeds_of, uniforms
from samara.campaigns.samples import Block, rows_of

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
    found = Choice((1.0, 2.0, 4.0)).quantile(uniforms(3, "test", np.arange(3000), 1)[:, 0])
    assert all(abs((found == own).sum() - 1000) < 100 for own in (1.0, 2.0, 4.0))


def test_correlated_factors_have_their_covariance():
    """Of 2¹⁶ draws, within four standard errors of a sample covariance"""
    wanted = ((0.04, -0.03), (-0.03, 0.09))
    own = Correlated.of(("a", "b"), (1.0, -2.0), wanted)
    n = 1 << 16
    drawn = own.quantiles(uniforms(5, "test", np.arange(n), 2))
    assert np.allclose(drawn.mean(axis=0), own.mean, atol=4 * 0.3 / np.sqrt(n))
    assert np.allclose(np.cov(drawn.T), wanted, atol=4 * 0.09 * np.sqrt(2.0 / n))


@pytest.mark.parametrize("sampler", [own for own in SAMPLERS if own != "grid"])
def test_a_row_is_the_same_in_any_batch(sampler):
    """In batches of 1, of 7, backwards: bit for bit those of one batch"""
    whole = cube(sampler, np.arange(64), total=64)
    for size in (1, 7):
        parts = [cube(sampler, np.arange(k, min(k + size, 64)), total=64) for k in range(0, 64, size)]
        assert np.array_equal(np.concatenate(parts), whole)
    assert np.array_equal(cube(sampler, np.arange(63, -1, -1), total=64)[::-1], whole)
    assert ((whole > 0.0) & (whole < 1.0)).all()
    assert not np.array_equal(cube(sampler, np.arange(64), seed=8, total=64), whole)


def test_a_latin_hypercube_has_one_row_in_every_cell_of_each_factor():
    cells = np.floor(cube("latin", np.arange(100), total=100) * 100).astype(int)
    assert (np.sort(cells, axis=0) == np.arange(100)[:, None]).all()


@pytest.mark.parametrize("sampler", ["sobol", "halton"])
def test_sequences_fill_the_cube_more_evenly_than_chance(sampler):
    """The discrepancy of 1024 points is a tenth of that of independent ones, or less"""
    qmc = SCIPY.qmc
    own, chance = (qmc.discrepancy(cube(each, np.arange(1024))) for each in (sampler, "independent"))
    assert own < 0.1 * chance


def test_seeds_are_all_different():
    assert len(set(seeds_of(1, np.arange(100_000)).tolist())) == 100_000


def test_a_grid_is_the_product_of_its_axes():
    factors = (Factor("mass", Grid((1.0, 2.0))), Factor("yaw", Grid((0.0, 0.1, 0.2))))
    own = Campaign("grid", "hover", 6, sampler="grid", factors=factors)
    values = rows_of(checked(own), np.arange(6), Block(0, 0, 6), {}).values
    found = list(zip(values["mass"].tolist(), values["yaw"].tolist(), strict=True))
    assert found == [(m, y) for m in (1.0, 2.0) for y in (0.0, 0.1, 0.2)]


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
def test_what_is_no_distribution_is_said(kind, numbers, sentence):
    with pytest.raises(ValueError, match=sentence):
        distribution(kind, numbers)
