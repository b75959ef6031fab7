"""First-order Sobol' indices from plain flights, against closed forms."""

import math

import numpy as np
import pytest

from samara.campaigns.sensitivity import assign_bins, first_order_index

A, B = 7.0, 0.1


def ishigami(x):
    """sin x₁ + a sin² x₂ + b x₃⁴ sin x₁"""
    return np.sin(x[:, 0]) + A * np.sin(x[:, 1]) ** 2 + B * x[:, 2] ** 4 * np.sin(x[:, 0])


def test_ishigami():
    """V₁ = ½ (1 + b π⁴/5)², V₂ = a²/8, V₃ = 0, V = V₁ + V₂ + b² π⁸ (1/18 − 1/50)"""
    x = np.random.default_rng(3).uniform(-math.pi, math.pi, (50_000, 3))
    v1, v2 = 0.5 * (1 + B * math.pi**4 / 5) ** 2, A**2 / 8
    v = v1 + v2 + B**2 * math.pi**8 * (1 / 18 - 1 / 50)
    indices = [first_order_index(column, ishigami(x)) for column in x.T]
    assert indices == pytest.approx([v1 / v, v2 / v, 0.0], abs=0.015)


def test_what_does_not_matter_is_nothing_on_average():
    """With 60 flights in three bins the plain ratio of variances would average 2/59"""
    draws = np.random.default_rng(5)
    indices = [first_order_index(draws.random(60), draws.random(60)) for _ in range(4000)]
    assert np.mean(indices) == pytest.approx(0.0, abs=0.002)


def test_few_values_are_bins_of_their_own():
    x = np.repeat([1.0, 2.0, 5.0], 40)
    assert first_order_index(x, 3.0 * x) == 1.0
    assert assign_bins(x).tolist() == np.repeat([0, 1, 2], 40).tolist()
    assert np.bincount(assign_bins(np.arange(1000.0), 10)).tolist() == [100] * 10
    many_alike = np.concatenate([np.zeros(900), np.arange(1.0, 101.0)])
    assert len(set(assign_bins(many_alike, 10)[:900].tolist())) == 1


def test_nothing_to_explain():
    assert math.isnan(first_order_index(np.arange(50.0), np.ones(50))) and math.isnan(first_order_index([], []))
    assert math.isnan(first_order_index([1.0, 2.0], [math.nan, 1.0]))
    with pytest.raises(ValueError, match="expected one of each for every flight"):
        first_order_index([1.0, 2.0], [1.0])
