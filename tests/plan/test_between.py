"""The polynomial with given derivatives at both ends: against the closed form from rest to rest, and at its ends."""

import math

import numpy as np
import pytest

from samara.plan.min_snap import hermite_polynomial


def test_from_rest_to_rest_is_the_polynomial_of_degree_seven():
    """s(x) = 35x⁴ − 84x⁵ + 70x⁶ − 20x⁷"""
    curve = hermite_polynomial([[0.0], [0.0], [0.0], [0.0]], [[2.0], [0.0], [0.0], [0.0]], 5.0)
    x = np.linspace(0.0, 1.0, 11)
    s = 35.0 * x**4 - 84.0 * x**5 + 70.0 * x**6 - 20.0 * x**7
    assert curve.derivatives(5.0 * x, 1)[:, 0, 0] == pytest.approx(2.0 * s, abs=1e-12)


def test_both_ends_have_the_given_derivatives():
    rng = np.random.default_rng(1)
    for order in (1, 2, 3, 4):
        start, end = rng.normal(size=(2, order, 3))
        curve = hermite_polynomial(start, end, 1.7)
        assert curve.derivatives(0.0, order) == pytest.approx(start, abs=1e-10)
        assert curve.derivatives(1.7, order) == pytest.approx(end, abs=1e-10)


@pytest.mark.parametrize("duration", [0.0, -1.0, math.nan, math.inf])
def test_an_invalid_duration_is_rejected(duration):
    with pytest.raises(ValueError, match="duration"):
        hermite_polynomial([[0.0]], [[1.0]], duration)
