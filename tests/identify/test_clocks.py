"""Attitudes between samples: q and −q are the same attitude; interpolation uses the shorter rotation."""

import numpy as np

from samara.core.algebra import Quat, Vec3, quat_from_axis_angle, rotate
from samara.identify.signal_agreement import unwrap_quaternions

AXIS = Vec3(0.6, 0.0, 0.8)


def test_signs_of_attitudes_follow_each_other():
    """Two turns about an axis with random signs: neighbours are near, and every attitude is the one that was logged"""
    angles = np.linspace(0.0, 4.0 * np.pi, 200)
    q = np.array([quat_from_axis_angle(AXIS, angle) for angle in angles]).T
    flipped = q * np.random.default_rng(3).choice([-1.0, 1.0], 200)
    unwrapped = unwrap_quaternions(flipped)
    assert (np.abs(unwrapped) == np.abs(flipped)).all()
    np.testing.assert_array_equal(unwrapped[:, 0], flipped[:, 0])
    assert ((unwrapped[:, 1:] * unwrapped[:, :-1]).sum(axis=0) > 0.99).all()
    for k in range(0, 200, 17):
        np.testing.assert_allclose(
            rotate(Quat(*unwrapped[:, k]), Vec3(1.0, 2.0, 3.0)), rotate(Quat(*q[:, k]), Vec3(1.0, 2.0, 3.0)), atol=1e-12
        )


def test_signs_that_follow_each_other_are_left_alone():
    q = np.array([quat_from_axis_angle(AXIS, angle) for angle in np.linspace(0.0, 6.0, 50)]).T
    np.testing.assert_array_equal(unwrap_quaternions(q), q)
