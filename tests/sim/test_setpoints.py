"""External setpoints as references over time, against closed forms."""

import numpy as np
import pytest

from samara.physics.types import REFERENCE_FIELDS
from samara.sim.external_setpoints import (
    SETPOINT_TIMEOUT,
    STEP_TIME,
    YAW,
    YAW_APPROACH_RATE,
    YAW_RATE,
    A,
    P,
    Position,
    TimedWaypoints,
    V,
    Velocity,
)


@pytest.fixture
def anchor():
    """At (1, 2, 3), yaw 3 rad, in motion."""
    row = np.zeros(len(REFERENCE_FIELDS))
    row[P], row[V], row[YAW] = (1.0, 2.0, 3.0), (0.1, 0.0, 0.0), 3.0
    return row


TIME = np.linspace(0.0, 5.0, 501)


def test_a_distant_position_is_approached_at_a_speed(anchor):
    """3 m away at 2 m/s: reached after 1.5 s, on a straight line; the yaw takes the shorter direction, through π."""
    rows = Position(np.array([1.0, 2.0, 6.0]), -3.0, 2.0).references(anchor, TIME)
    assert np.allclose(rows[:, 2], np.minimum(3.0 + 2.0 * TIME, 6.0), atol=1e-12)
    assert np.array_equal(rows[:, V][:, 2], np.where(TIME < 1.5, 2.0, 0.0))
    turn = 2.0 * np.pi - 6.0
    assert np.allclose(rows[:, YAW], 3.0 + np.minimum(YAW_APPROACH_RATE * TIME, turn), atol=1e-12)
    assert rows[0, YAW_RATE] == YAW_APPROACH_RATE and rows[-1, YAW_RATE] == 0.0


def test_a_near_position_is_the_reference_immediately(anchor):
    """As in a stream of positions: at rest there."""
    near_W = anchor[P] + [0.0, 0.9 * STEP_TIME * 2.0, 0.0]
    rows = Position(near_W, 3.0, 2.0).references(anchor, TIME)
    assert np.array_equal(rows[:, P], np.tile(near_W, (len(TIME), 1))) and not rows[:, V].any()


def test_a_velocity_that_is_not_repeated_times_out(anchor):
    """∫ v dt until the timeout, then at rest."""
    rows = Velocity(np.array([1.0, 0.0, -0.5]), 0.2).references(anchor, TIME)
    assert np.allclose(
        rows[:, P], anchor[P] + np.minimum(TIME, SETPOINT_TIMEOUT)[:, None] * [1.0, 0.0, -0.5], atol=1e-12
    )
    assert rows[0, V].tolist() == [1.0, 0.0, -0.5] and not rows[-1, V].any() and rows[-1, YAW_RATE] == 0.0
    assert np.isclose(rows[-1, YAW], 3.0 + 0.2 * SETPOINT_TIMEOUT)


def test_points_with_velocities_give_back_a_cubic(anchor):
    """A cubic p(t) passes through its points with its velocities, and v and a between them are its derivatives."""
    cubic = np.polynomial.Polynomial([1.0, -0.5, 0.3, 0.2])
    times = np.array([0.0, 0.7, 1.5, 4.0])
    p, v = (np.outer(f(times), [1.0, 2.0, -1.0]) for f in (cubic, cubic.deriv()))
    rows = TimedWaypoints(times, p, np.zeros(4), v).references(anchor, TIME)
    flying = TIME < 4.0
    for columns, derivative in ((P, cubic), (V, cubic.deriv()), (A, cubic.deriv(2))):
        assert np.abs(rows[flying, columns] - np.outer(derivative(TIME[flying]), [1.0, 2.0, -1.0])).max() < 1e-12
    assert np.array_equal(rows[~flying, P], np.tile(p[-1], ((~flying).sum(), 1))) and not rows[~flying, V].any()


def test_points_without_velocities_are_joined_by_lines_from_the_anchor(anchor):
    """Yaws take the shorter direction."""
    rows = TimedWaypoints(
        np.array([1.0, 3.0]), np.array([[1.0, 2.0, 5.0], [3.0, 2.0, 5.0]]), np.array([-3.0, -3.0])
    ).references(anchor, TIME)
    assert np.allclose(rows[50, P], [1.0, 2.0, 4.0]) and np.allclose(rows[200, P], [2.0, 2.0, 5.0])
    assert np.allclose(rows[200, V], [1.0, 0.0, 0.0]) and np.allclose(rows[50, YAW], np.pi)
