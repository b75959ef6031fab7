"""What is asked from outside, as references over time, against closed forms."""

import numpy as np
import pytest

from samara.physics.types import REFERENCE_FIELDS
from samara.sim.external_setpoints import (
    SETPOINT_TIMEOUT,
    STEP_TIME,
    TURN,
    YAW,
    YAW_RATE,
    A,
    P,
    Path,
    Position,
    V,
    Velocity,
)


@pytest.fixture
def anchor():
    """At (1, 2, 3), yaw 3 rad, in motion"""
    row = np.zeros(len(REFERENCE_FIELDS))
    row[P], row[V], row[YAW] = (1.0, 2.0, 3.0), (0.1, 0.0, 0.0), 3.0
    return row


TIME = np.linspace(0.0, 5.0, 501)


def test_a_far_place_is_approached_at_a_speed(anchor):
    """3 m away at 2 m/s: there after 1.5 s, on a straight line; the yaw goes the short way round through π"""
    rows = Position(np.array([1.0, 2.0, 6.0]), -3.0, 2.0).references(anchor, TIME)
    assert np.allclose(rows[:, 2], np.minimum(3.0 + 2.0 * TIME, 6.0), atol=1e-12)
    assert np.array_equal(rows[:, V][:, 2], np.where(TIME < 1.5, 2.0, 0.0))
    turn = 2.0 * np.pi - 6.0
    assert np.allclose(rows[:, YAW], 3.0 + np.minimum(TURN * TIME, turn), atol=1e-12)
    assert rows[0, YAW_RATE] == TURN and rows[-1, YAW_RATE] == 0.0


def test_a_near_place_is_asked_at_once(anchor):
    """As those of a stream are: at rest there"""
    near = anchor[P] + [0.0, 0.9 * STEP_TIME * 2.0, 0.0]
    rows = Position(near, 3.0, 2.0).references(anchor, TIME)
    assert np.array_equal(rows[:, P], np.tile(near, (len(TIME), 1))) and not rows[:, V].any()


def test_a_velocity_that_nobody_repeats_ends(anchor):
    """∫ v dt for its life, and at rest from then on"""
    rows = Velocity(np.array([1.0, 0.0, -0.5]), 0.2).references(anchor, TIME)
    assert np.allclose(
        rows[:, P], anchor[P] + np.minimum(TIME, SETPOINT_TIMEOUT)[:, None] * [1.0, 0.0, -0.5], atol=1e-12
    )
    assert rows[0, V].tolist() == [1.0, 0.0, -0.5] and not rows[-1, V].any() and rows[-1, YAW_RATE] == 0.0
    assert np.isclose(rows[-1, YAW], 3.0 + 0.2 * SETPOINT_TIMEOUT)


def test_points_with_velocities_give_back_a_cubic(anchor):
    """p(t) of third degree goes through any of its points with its velocities, and so do v and a between them"""
    cubic = np.polynomial.Polynomial([1.0, -0.5, 0.3, 0.2])
    times = np.array([0.0, 0.7, 1.5, 4.0])
    p, v = (np.outer(f(times), [1.0, 2.0, -1.0]) for f in (cubic, cubic.deriv()))
    rows = Path(times, p, np.zeros(4), v).references(anchor, TIME)
    flying = TIME < 4.0
    for place, degree in ((P, cubic), (V, cubic.deriv()), (A, cubic.deriv(2))):
        assert np.abs(rows[flying, place] - np.outer(degree(TIME[flying]), [1.0, 2.0, -1.0])).max() < 1e-12
    assert np.array_equal(rows[~flying, P], np.tile(p[-1], ((~flying).sum(), 1))) and not rows[~flying, V].any()


def test_points_without_velocities_are_joined_by_lines_from_the_anchor(anchor):
    """And yaws along the short way"""
    rows = Path(np.array([1.0, 3.0]), np.array([[1.0, 2.0, 5.0], [3.0, 2.0, 5.0]]), np.array([-3.0, -3.0])).references(
        anchor, TIME
    )
    assert np.allclose(rows[50, P], [1.0, 2.0, 4.0]) and np.allclose(rows[200, P], [2.0, 2.0, 5.0])
    assert np.allclose(rows[200, V], [1.0, 0.0, 0.0]) and np.allclose(rows[50, YAW], np.pi)
