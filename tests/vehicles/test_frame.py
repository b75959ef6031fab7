"""Masses placed: inertia and centre of mass against closed forms and against clouds of points."""

import math

import numpy as np
import pytest

from samara.core.algebra import Vec3
from samara.vehicles.parts.mass_layout import (
    SHAPES_OFF,
    box,
    centre_of_mass,
    cylinder,
    drag_areas,
    inertia_about_centre,
    inertia_spread,
    rod,
    spinning,
)
from samara.vehicles.parts.uncertain import Estimate, given


def cloud(points, mass):
    """J of points of equal mass about their own middle"""
    away = points - points.mean(axis=0)
    each = (away * away).sum() * np.eye(3) - away.T @ away
    return mass * each / len(points)


def test_parts_are_what_clouds_of_points_of_their_shape_are():
    dice = np.random.default_rng(1)
    inside = dice.uniform(-0.5, 0.5, (200_000, 3))
    block = inside * [0.3, 0.2, 0.1]
    angle, reach = 2.0 * math.pi * dice.uniform(size=200_000), 0.05 * np.sqrt(dice.uniform(size=200_000))
    can = np.column_stack([reach * np.cos(angle), reach * np.sin(angle), 0.04 * inside[:, 2]])
    bar = np.outer(dice.uniform(size=200_000), [0.2, 0.1, -0.05])
    for body, points in (
        (box("box", given(2.0), Vec3(0.0, 0.0, 0.0), Vec3(0.3, 0.2, 0.1)), block),
        (cylinder("can", given(2.0), Vec3(0.0, 0.0, 0.0), 0.1, 0.04), can),
        (rod("bar", given(2.0), Vec3(0.0, 0.0, 0.0), Vec3(0.2, 0.1, -0.05), 0.01), bar),
    ):
        assert inertia_about_centre([body]) == pytest.approx(cloud(points, 2.0), rel=0.01, abs=1e-4)


def test_a_dumb_bell():
    """m d²/2 across two equal masses a distance d apart, nothing along"""
    ends = [spinning("ball", given(0.5), Vec3(x, 0.0, 1.0), 1e-12) for x in (-0.2, 0.6)]
    assert centre_of_mass(ends) == pytest.approx((0.2, 0.0, 1.0))
    assert inertia_about_centre(ends) == pytest.approx(np.diag([0.0, 0.16, 0.16]), abs=1e-11)


def test_a_box_is_the_sum_of_its_halves():
    """Steiner's theorem"""
    whole = box("whole", given(3.0), Vec3(0.1, 0.2, 0.3), Vec3(0.4, 0.2, 0.1))
    halves = [box("half", given(1.5), Vec3(x, 0.2, 0.3), Vec3(0.2, 0.2, 0.1)) for x in (0.0, 0.2)]
    assert inertia_about_centre(halves) == pytest.approx(inertia_about_centre([whole]), rel=1e-12)
    assert drag_areas(halves).z == pytest.approx(drag_areas([whole]).z)


def test_the_spread_of_inertia_is_that_of_masses_far_out_that_the_frame_makes_up_for():
    """Two of m/2 at ±d on a rod of nothing long: J = (m₁ + ρ m₂) d² with all of the rest in the middle, ∂ln J/∂ln m₁ = 1"""
    motors = [spinning("motors", Estimate(0.1, 0.2, ""), Vec3(0.0, y, 0.0), 1e-15) for y in (-0.3, 0.3)]
    frame = box("frame", given(1.0), Vec3(0.0, 0.0, 0.0), Vec3(1e-6, 1e-6, 1e-6))
    assert inertia_spread([*motors, frame], "frame") == pytest.approx(math.hypot(0.2, SHAPES_OFF), rel=1e-3)
    known = [own._replace(mass=given(0.1)) for own in motors]
    assert inertia_spread([*known, frame], "frame") == pytest.approx(SHAPES_OFF)
