"""Typical propellers: thrust grows with the fourth power of the radius, and the radius follows from it."""

import math

import pytest

from samara.vehicles.exchange.throttle import (
    STATIC_CP_CT,
    STATIC_CT,
    typical_k_thrust,
    typical_radius,
    typical_torque_ratio,
)

RADIUS = 0.127  # [m]: ten inches


def test_thrust_is_that_of_the_propeller_coefficient():
    """T = C_T ρ n² D⁴ with n = Ω/2π, and Q/T = (C_P/C_T) D/2π (W. F. Phillips, Mechanics of Flight, 2.3)"""
    omega = 500.0
    n, diameter = omega / (2.0 * math.pi), 2.0 * RADIUS
    assert typical_k_thrust(RADIUS) * omega**2 == pytest.approx(STATIC_CT.value * 1.225 * n**2 * diameter**4, rel=1e-6)
    assert typical_torque_ratio(RADIUS) == pytest.approx(STATIC_CP_CT.value * diameter / (2.0 * math.pi), rel=1e-12)


@pytest.mark.parametrize("radius", [0.0235, RADIUS, 0.38])
def test_the_radius_of_a_thrust_coefficient_is_its_inverse(radius):
    """An uncertainty of C_T counts a quarter: R ∝ C_T^(−1/4)"""
    estimate = typical_radius(typical_k_thrust(radius))
    assert estimate.value == pytest.approx(radius, rel=1e-12)
    assert estimate.spread == pytest.approx(STATIC_CT.spread / 4.0, rel=1e-12)
