"""The cost of a prediction fit: N ln σ² of the errors, and the squared displacement of the parameters."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from samara.identify.prediction_error_fit import HORIZON, Windows, _Search

ERRORS = np.tile(np.array([0.1, -0.2, 0.3])[None, :, None], (2, 1, 40))
WEIGHTS = np.ones((2, 3))


def search(seconds=30.0):
    windows = (Windows(np.arange(0, 300, 5), 5, seconds / 300.0),)
    return SimpleNamespace(independent_windows=_Search.independent_windows.fget(SimpleNamespace(windows=windows)))


def cost(errors, x, seconds=30.0):
    return _Search.cost(search(seconds), errors, WEIGHTS, np.asarray(x))[0]


def test_windows_that_do_not_overlap_are_independent():
    assert search(30.0).independent_windows == pytest.approx(30.0 / HORIZON)
    overlapping = SimpleNamespace(windows=(Windows(np.arange(296), 5, 0.1),))
    assert _Search.independent_windows.fget(overlapping) == pytest.approx(30.0 / HORIZON)


def test_the_cost_is_that_of_the_likelihood_and_of_the_prior():
    """−2 ln L = N ln σ² and −2 ln p(x) = |x|² but for constants (the maximum a posteriori)"""
    square = 2.0 * (0.01 + 0.04 + 0.09)
    total = cost(ERRORS, [0.6, -0.8])
    assert total == pytest.approx(30.0 / HORIZON * math.log(square) + 1.0, rel=1e-4)


def test_more_error_and_a_longer_way_cost_more():
    reference = cost(ERRORS, [0.1, 0.2])
    assert cost(1.1 * ERRORS, [0.1, 0.2]) > reference
    assert cost(ERRORS, [0.2, 0.2]) > reference
    assert cost(1.1 * ERRORS, [0.1, 0.2]) - reference == pytest.approx(30.0 / HORIZON * 2.0 * math.log(1.1), rel=1e-4)


def test_one_window_that_is_far_off_counts_less():
    """Huber's weight: its error grows the cost like its size, not like its square"""
    far, farther = ERRORS.copy(), ERRORS.copy()
    far[:, :, 0], farther[:, :, 0] = 100.0 * ERRORS[:, :, 0], 1000.0 * ERRORS[:, :, 0]
    robust = _Search.cost(search(), far, WEIGHTS, np.zeros(1))[1]
    assert robust[0] < 0.05 and (robust[1:] == 1.0).all()
    mean = [_Search.cost(search(), errors, WEIGHTS, np.zeros(1))[2] for errors in (ERRORS, far, farther)]
    assert (mean[2] - mean[0]) / (mean[1] - mean[0]) == pytest.approx(10.0, rel=0.05)
