"""Derivatives of logged signals, possible inertias and the covariance of correlated scores, by their definitions."""

import numpy as np
import pytest

import samara
from samara.core.algebra import Mat3
from samara.identify.equation_error_fit import _newey_west
from samara.identify.fit_result import FlightTrim
from samara.identify.flight_log import Signal
from samara.identify.identification import ParameterEstimate, _physical_inertia, complete_vehicle
from samara.identify.parameters import identifiable_parameters, prepare_vehicle
from samara.identify.resampled_log import _rates_from_attitude, _smooth_derivative

TIME = np.arange(0.0, 2.0, 0.005)
INNER = slice(20, -20)  # away from the ends by the half-width of the parabola, 50 ms


def test_the_slope_of_a_parabola_is_exact():
    """d/dt (1 + 2 t − 3 t²) = 2 − 6 t"""
    slope = _smooth_derivative(Signal(TIME, np.stack([1.0 + 2.0 * TIME - 3.0 * TIME**2, 0.5 * TIME])), TIME)
    assert slope[0, INNER] == pytest.approx(2.0 - 6.0 * TIME[INNER], abs=1e-9)
    assert slope[1, INNER] == pytest.approx(0.5, abs=1e-9)


def test_a_steady_rotation_has_its_angular_velocity():
    """q(t) = (cos ωt/2, n sin ωt/2): ω_B = ω n, about any fixed axis"""
    axis, rate = np.array([2.0, -1.0, 2.0]) / 3.0, 4.0
    half = 0.5 * rate * TIME
    attitude = Signal(TIME, np.stack([np.cos(half), *(np.sin(half) * component for component in axis)]))
    omega = _rates_from_attitude(attitude, TIME)
    assert omega[:, INNER] == pytest.approx(np.repeat(rate * axis[:, None], len(TIME[INNER]), axis=1), abs=1e-6)


def diagonal(xx, yy, zz):
    return Mat3(xx, 0.0, 0.0, 0.0, yy, 0.0, 0.0, 0.0, zz)


def principal_moments(inertia):
    return np.linalg.eigvalsh(np.array(inertia.rows, dtype=float))


@pytest.mark.parametrize("moments", [(1.0, 1.0, 2.5), (2.0, 1.0, 0.2), (1.0, 2.0, 0.3)])
def test_an_impossible_inertia_becomes_that_of_a_body(moments):
    """J₃ ≤ J₁ + J₂ of the principal moments; only Jzz is changed, and by no more than needed."""
    body = _physical_inertia(diagonal(*moments))
    first, second, third = principal_moments(body)
    assert 0.97 * (first + second) < third <= first + second
    assert (body.xx, body.yy) == moments[:2]


def test_the_inertia_of_a_body_stays():
    inertia = diagonal(1.0, 1.2, 1.9)
    assert _physical_inertia(inertia) == inertia


def test_the_file_says_that_an_identified_inertia_was_limited():
    start = samara.vehicle("crazyflie")
    bare = prepare_vehicle(start)
    bare = bare.replace(inertia_B=bare.inertia_B._replace(zz=3.0 * bare.inertia_B.zz))
    estimates = [
        ParameterEstimate(
            parameter.name, parameter.unit, parameter.get(bare), parameter.get(bare), *(0.0,) * 3, True, ""
        )
        for parameter in identifiable_parameters(bare)
    ]
    vehicle = complete_vehicle(bare, start, [FlightTrim((1.0,) * 4, 0.0, (0.0, 0.0))], estimates, "a fit")
    assert vehicle.inertia_B == _physical_inertia(bare.inertia_B) != bare.inertia_B
    assert f"; zz set to {vehicle.inertia_B.zz:.4g}: " in dict(vehicle.structure.sources)["body.inertia"]


@pytest.mark.parametrize("lag", [0, 1, 3, 20])
def test_correlated_scores_are_weighted_by_their_distance(lag):
    """Σ over t, u with |t − u| ≤ lag of (1 − |t − u|/(lag + 1)) s(t) s(u)ᵀ, term by term"""
    scores = np.random.default_rng(3).normal(size=(2, 9))
    expected = sum(
        (1.0 - abs(t - u) / (lag + 1.0)) * np.outer(scores[:, t], scores[:, u])
        for t in range(9)
        for u in range(9)
        if abs(t - u) <= lag
    )
    assert _newey_west(scores, lag) == pytest.approx(expected, rel=1e-12)
