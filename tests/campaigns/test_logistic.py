"""The failure curve over a parameter: a closed form, SciPy's optimum, and planted curves."""

import math

import numpy as np
import pytest
from scipy import optimize

from samara.campaigns.failure_curve import failure_curve


def test_a_factor_of_two_values_is_a_table_of_four():
    """The curve passes through (m + ½)/(n + 1) of either value: the known result of Jeffreys' prior for a table"""
    for fails in ((3, 40), (0, 25), (0, 0), (50, 70)):
        x = np.repeat([2.0, 5.0], [50, 70])
        y = np.concatenate([np.arange(50) < fails[0], np.arange(70) < fails[1]])
        curve = failure_curve(x, y)
        assert curve.rate([2.0, 5.0]) == pytest.approx([(fails[0] + 0.5) / 51.0, (fails[1] + 0.5) / 71.0], rel=1e-9)
        assert len(curve.beta) == 2
    assert curve.rate(5.0).shape == ()


def penalised_likelihood(beta, z, y):
    terms = np.stack([np.ones_like(z), z, z * z - 1.0], axis=1)
    p = 1.0 / (1.0 + np.exp(-terms @ beta))
    information = (terms.T * (p * (1.0 - p))) @ terms
    return -np.log(np.where(y, p, 1.0 - p)).sum() - 0.5 * np.linalg.slogdet(information)[1]


@pytest.mark.parametrize("seed", range(5))
def test_the_curve_is_the_best_of_its_kind(seed):
    """SciPy's general minimiser ends at the same three coefficients"""
    draw = np.random.default_rng(seed)
    x = draw.gamma(2.0, 3.0, 120)
    y = draw.random(120) < 1.0 / (1.0 + np.exp(3.0 - 0.4 * x))
    z = (x - x.mean()) / x.std()
    best = optimize.minimize(
        penalised_likelihood,
        np.zeros(3),
        args=(z, y),
        method="Nelder-Mead",
        options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000},
    )
    assert failure_curve(x, y).beta == pytest.approx(best.x, abs=1e-5)


def test_a_planted_curve_is_found():
    """Failures at both ends of wind, none of payload: rates within the band, and the p-values separate the two"""
    draw = np.random.default_rng(8)
    wind, payload = draw.uniform(-10.0, 10.0, 20_000), draw.uniform(0.0, 1.0, 20_000)
    z = wind / math.sqrt(100.0 / 3.0)
    truth = 1.0 / (1.0 + np.exp(4.0 - 1.5 * (z * z - 1.0)))
    failed = draw.random(20_000) < truth
    first, second = failure_curve(wind, failed), failure_curve(payload, failed)
    at = np.linspace(-9.0, 9.0, 7)
    expected = 1.0 / (1.0 + np.exp(4.0 - 1.5 * (at * at * 3.0 / 100.0 - 1.0)))
    low, high = first.band(at)
    assert ((low < expected) & (expected < high)).all() and (high < 2.0 * expected).all()
    assert first.p_value < 1e-100 and second.p_value > 1e-3
    assert second.rate([0.1, 0.9]) == pytest.approx([failed.mean()] * 2, rel=0.15)


def test_the_p_value_is_uniform_without_an_effect():
    """Of 200 parameters without effect one in twenty has a p-value below 5 %, to three standard deviations"""
    draw = np.random.default_rng(4)
    failed = draw.random(300) < 0.15
    below = sum(
        curve.p_value < 0.05 for curve in (failure_curve(column, failed) for column in draw.random((300, 200)).T)
    )
    assert abs(below - 10) <= 3.0 * math.sqrt(200 * 0.05 * 0.95)


def test_failures_at_one_end_only_have_a_finite_curve():
    x = np.linspace(0.0, 1.0, 200)
    curve = failure_curve(x, x > 0.9)
    assert np.isfinite(curve.beta).all() and np.isfinite(curve.covariance).all() and curve.p_value < 1e-6
    assert curve.rate(0.2) < 0.01 and curve.rate(1.0) > 0.9


def test_a_factor_that_does_not_differ_is_flat():
    curve = failure_curve(np.full(10, 3.0), np.arange(10) < 2)
    assert curve.rate([3.0, 4.0]) == pytest.approx([2.5 / 11.0] * 2) and curve.p_value == 1.0


def test_bad_input_is_named():
    with pytest.raises(
        ValueError,
        match=r"^\(3,\) values of a factor, \(2,\) outcomes; expected one finite number and one outcome a flight$",
    ):
        failure_curve([1.0, 2.0, 3.0], [True, False])
    with pytest.raises(ValueError, match=r"^\(1,\) values of a factor"):
        failure_curve([math.nan], [True])
