"""Transfers: from any motion to rest, with minimum jerk."""

import numpy as np
import pytest
from scipy.integrate import quad

from samara.core.algebra import Vec3
from samara.physics.types import Reference
from samara.plan.trajectory import stop, transfer

MOVING = Reference(Vec3(1.0, 2.0, 3.0), Vec3(2.0, -1.0, 0.5), Vec3(0.3, 0.2, -0.4), yaw=0.7)


def test_it_starts_in_the_motion_and_ends_at_rest():
    path = transfer(MOVING, Vec3(8.0, 0.0, 5.0), speed=3.0)
    first, last = path.evaluate(0.0), path.evaluate(path.duration)
    for field in ("p_W", "v_W", "a_W"):
        assert getattr(first, field) == pytest.approx(getattr(MOVING, field), abs=1e-12)
    assert last.p_W == pytest.approx((8.0, 0.0, 5.0), abs=1e-12)
    assert (last.v_W, last.a_W) == ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    assert first.yaw == last.yaw == 0.7


def test_every_derivative_is_that_of_the_previous_one():
    path = transfer(MOVING, Vec3(8.0, 0.0, 5.0), speed=3.0)
    time, h = np.linspace(0.1, path.duration - 0.1, 50), 1e-5
    for lower, higher in (("p_W", "v_W"), ("v_W", "a_W"), ("a_W", "j_W"), ("j_W", "s_W")):
        before, after = (np.array(getattr(path.evaluate(time + side), lower)) for side in (-h, h))
        assert (after - before) / (2.0 * h) == pytest.approx(np.array(getattr(path.evaluate(time), higher)), abs=1e-7)


def test_no_other_motion_between_the_same_ends_has_less_jerk():
    """Euler–Lagrange: adding any bump that leaves p, v, a at both ends unchanged only adds ∫ (bump''')² dt."""
    path = transfer(MOVING, Vec3(8.0, 0.0, 5.0), speed=3.0)
    T = path.duration
    bump = np.polynomial.Polynomial.fromroots([0, 0, 0, T, T, T, 0.4 * T]).deriv(3)
    cross = quad(lambda t: path.evaluate(t).j_W.x * bump(t), 0.0, T, epsabs=1e-10)[0]
    scale = (
        quad(lambda t: path.evaluate(t).j_W.x ** 2, 0.0, T)[0] ** 0.5 * quad(lambda t: bump(t) ** 2, 0.0, T)[0] ** 0.5
    )
    assert abs(cross) < 1e-9 * scale


def test_stopping_never_reverses():
    """Along the motion the velocity falls to zero and stays positive."""
    path = stop(Reference(Vec3(0.0, 0.0, 1.0), Vec3(3.0, 0.0, 0.0)))
    velocity = np.array(path.evaluate(np.linspace(0.0, path.duration, 200)).v_W.x)
    assert velocity.min() > -1e-9
    assert velocity.max() <= 3.0 * 1.05


def test_zero_speed_is_rejected():
    with pytest.raises(ValueError, match="transfer: speed is 0"):
        transfer(MOVING, Vec3(0.0, 0.0, 0.0), speed=0)
