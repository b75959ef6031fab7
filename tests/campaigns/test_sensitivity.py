"""Sobol' indices against closed forms: Ishigami's function, Sobol's g, sums of parts; and against SALib."""

import math

import numpy as np
import pytest
from scipy.stats import qmc

from samara.campaigns.samplers import uniforms
from samara.campaigns.sensitivity import sobol_indices, sobol_rows
from samara.core.extras import install_hint


def ishigami(u):
    """sin x₁ + 7 sin² x₂ + 0.1 x₃⁴ sin x₁,  x uniform over (−π, π)"""
    x = math.pi * (2.0 * u - 1.0)
    return np.sin(x[:, 0]) + 7.0 * np.sin(x[:, 1]) ** 2 + 0.1 * x[:, 2] ** 4 * np.sin(x[:, 0])


def ishigami_indices():
    """V₁ = ½ (1 + b π⁴/5)²,  V₂ = a²/8,  V₁₃ = b² π⁸ (1/18 − 1/50)"""
    v1, v2, v13 = 0.5 * (1.0 + 0.1 * math.pi**4 / 5.0) ** 2, 49.0 / 8.0, 0.01 * math.pi**8 * (1.0 / 18.0 - 1.0 / 50.0)
    return np.array([v1, v2, 0.0]) / (v1 + v2 + v13), np.array([v1 + v13, v2, v13]) / (v1 + v2 + v13)


A = np.array([0.0, 1.0, 4.5, 9.0, 99.0])


def g(u):
    """Π (|4 uᵢ − 2| + aᵢ)/(1 + aᵢ)"""
    return np.prod((np.abs(4.0 * u - 2.0) + A) / (1.0 + A), axis=1)


def g_indices():
    """Vᵢ = ⅓/(1 + aᵢ)²,  V = Π (1 + Vᵢ) − 1,  Tᵢ V = Vᵢ Π_{j≠i} (1 + Vⱼ)"""
    part = 1.0 / 3.0 / (1.0 + A) ** 2
    product = np.prod(1.0 + part)
    return part / (product - 1.0), part * product / (1.0 + part) / (product - 1.0)


def linear(u):
    return 3.0 * u[:, 0] - 2.0 * u[:, 1] + 100.0


CASES = {
    "ishigami": (ishigami, 3, ishigami_indices),
    "g": (g, 5, g_indices),
    "linear": (linear, 3, lambda: (np.array([9.0, 4.0, 0.0]) / 13.0, np.array([9.0, 4.0, 0.0]) / 13.0)),
}


@pytest.mark.parametrize("name", CASES)
def test_closed_forms(name):
    """By 16384 points of a Sobol' sequence, to a hundredth"""
    function, k, closed = CASES[name]
    indices = sobol_indices(function(sobol_rows(qmc.Sobol(2 * k, rng=1).random(16384))), k)
    first, total = closed()
    assert indices.first == pytest.approx(first, abs=0.01)
    assert indices.total == pytest.approx(total, abs=0.01)


@pytest.mark.parametrize("name", CASES)
def test_the_stated_error_is_the_error(name):
    """With independent points, in 40 campaigns: the errors match the standard errors, without bias"""
    function, k, closed = CASES[name]
    normalised_errors = []
    for seed in range(40):
        indices = sobol_indices(function(sobol_rows(uniforms(seed, "test", np.arange(500), 2 * k))), k)
        errors = np.stack([indices.first - closed()[0], indices.total - closed()[1]])
        normalised_errors.append(errors / np.maximum(np.stack([indices.first_error, indices.total_error]), 1e-12))
    used = np.abs(normalised_errors).max(axis=0) > 1e-6  # an index that is exactly 0 has no error
    z = np.array(normalised_errors)[:, used]
    assert 0.7 < z.std() < 1.3 and (np.abs(z.mean(axis=0)) < 0.6).all()


def test_rows_exchange_one_column_at_a_time():
    rows = sobol_rows([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]])
    assert rows.tolist() == [[1, 2], [3, 2], [1, 4], [3, 4], [5, 6], [7, 6], [5, 8], [7, 8]]


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_the_indices_are_those_of_salib(name):
    """The same values: the same indices, to rounding"""
    analyze = pytest.importorskip("SALib.analyze.sobol", reason=f"SALib is not installed: {install_hint('peers')}")
    function, k, _ = CASES[name]
    values = function(sobol_rows(qmc.Sobol(2 * k, rng=3).random(256)))
    problem = {"num_vars": k, "names": [f"x{i}" for i in range(k)], "bounds": [[0.0, 1.0]] * k}
    expected = analyze.analyze(problem, values, calc_second_order=False, num_resamples=10)
    indices = sobol_indices(values, k)
    assert indices.first == pytest.approx(expected["S1"], abs=1e-12)
    assert indices.total == pytest.approx(expected["ST"], abs=1e-12)


def test_a_constant_depends_on_nothing_and_bad_input_is_named():
    assert all((index == 0.0).all() for index in sobol_indices(np.full(20, 3.0), 3))
    with pytest.raises(
        ValueError,
        match=r"^\(7,\) values for 3 factors; expected finite ones, 5 for each base point, of two or more$",
    ):
        sobol_indices(np.arange(7.0), 3)
    with pytest.raises(ValueError, match=r"^base points have shape \(4, 3\); expected two columns for each factor$"):
        sobol_rows(np.ones((4, 3)))
