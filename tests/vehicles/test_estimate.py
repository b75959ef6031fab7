"""Propagated uncertainties against sums in quadrature and random samples."""

import math

import numpy as np
import pytest

from samara.vehicles.parts.uncertain import UncertainValue, exact_value, propagate_uncertainty


def test_a_power_law_adds_its_exponents_in_quadrature():
    """y = a x² / z: s² = (2 s_x)² + s_z², and exact values add nothing"""
    x, z, a = UncertainValue(3.0, 0.02, "x"), UncertainValue(0.5, 0.03, "z"), exact_value(7.0)
    y = propagate_uncertainty("a law", lambda a, x, z: a * x**2 / z, a, x, z)
    assert y.value == 7.0 * 9.0 / 0.5
    assert y.spread == pytest.approx(math.hypot(2 * 0.02, 0.03), rel=1e-8)
    assert propagate_uncertainty("a law", lambda x: x, x, model_spread=0.015).spread == pytest.approx(0.025, rel=1e-8)


def test_errors_that_go_together_cancel_in_a_ratio_and_add_in_a_product():
    """s² = s_x² + s_z² ∓ 2ϱ s_x s_z"""
    x, z = UncertainValue(3.0, 0.02, "x"), UncertainValue(0.5, 0.03, "z")
    for function, sign in ((lambda x, z: x / z, -1.0), (lambda x, z: x * z, 1.0)):
        expected = math.sqrt(0.02**2 + 0.03**2 + sign * 2.0 * 0.8 * 0.02 * 0.03)
        assert propagate_uncertainty("a law", function, x, z, correlation=0.8).spread == pytest.approx(
            expected, rel=1e-8
        )


def test_the_interval_holds_95_percent_of_log_normal_draws():
    estimate = UncertainValue(2.0, 0.3, "")
    samples = estimate.value * np.exp(estimate.spread * np.random.default_rng(1).standard_normal(100_000))
    assert np.mean((samples > estimate.low) & (samples < estimate.high)) == pytest.approx(0.95, abs=0.003)
