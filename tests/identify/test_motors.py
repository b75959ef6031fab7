"""Motors that follow their commands: closed forms of the first-order lag."""

import numpy as np
import pytest

from samara.identify.rotor_speed_model import estimate_lag, simulate_lag

PERIOD = 0.004


def test_a_step_is_followed_by_an_exponential_up_and_another_down():
    """Ω(t) = Ω₁ + (Ω₀ − Ω₁) e^{−t/τ}, τ the rise upwards and the fall downwards"""
    up = np.where(np.arange(200) < 100, 100.0, 300.0)
    down = np.where(np.arange(200) < 100, 300.0, 100.0)
    speeds = simulate_lag(np.stack([up, down]), 0.03, 0.06, PERIOD)
    elapsed = PERIOD * np.arange(100)
    assert speeds[0, 100:] == pytest.approx(300.0 - 200.0 * np.exp(-elapsed / 0.03), rel=1e-12)
    assert speeds[1, 100:] == pytest.approx(100.0 + 200.0 * np.exp(-elapsed / 0.06), rel=1e-12)


def test_several_lags_at_once_are_each_as_alone():
    commanded = 500.0 + 200.0 * np.random.default_rng(1).standard_normal((4, 300))
    rises, falls = np.array([0.02, 0.05, 0.09]), np.array([0.03, 0.05, 0.04])
    speeds = simulate_lag(commanded, rises, falls, PERIOD)
    assert speeds.shape == (3, 4, 300)
    for single, rise, fall in zip(speeds, rises, falls, strict=True):
        assert np.array_equal(single, simulate_lag(commanded, rise, fall, PERIOD))


def test_the_lag_is_found_from_measured_speeds():
    """Speeds of a lag of 30 ms up and 45 ms down after steps, with noise, scale and offset: both within 2 %."""
    draw = np.random.default_rng(2)
    commanded = np.repeat(draw.uniform(400.0, 900.0, (4, 100)), 25, axis=1)
    measured = 1.04 * simulate_lag(commanded, 0.03, 0.045, PERIOD) + 10.0
    estimate = estimate_lag(commanded, measured + 5.0 * draw.standard_normal(measured.shape), PERIOD, 0.06, 0.06)
    assert estimate.time_constant_up == pytest.approx(0.03, rel=0.02) and estimate.time_constant_down == pytest.approx(
        0.045, rel=0.02
    )
    assert abs(np.log(estimate.time_constant_up / 0.03)) < 4.0 * estimate.error_up + 1e-3
    assert estimate.delay == pytest.approx(0.0, abs=5e-4)
