"""Placed masses: inertia and centre of mass against closed forms and against clouds of points."""

import math

import numpy as np
import pytest

from samara.core.algebra import Vec3
from samara.vehicles.parts.mass_layout import (
    SHAPE_SPREAD,
    box,
    centre_of_mass,
    cylinder,
    drag_areas,
    inertia_about_centre,
    inertia_spread,
    propeller_body,
    rod,
)
from samara.vehicles.parts.uncertain import UncertainValue, exact_value


def cloud(points, mass):
    """J of points of equal mass about their centre."""
    offsets = points - points.mean(axis=0)
    inertia = (offsets * offsets).sum() * np.eye(3) - offsets.T @ offsets
    return mass * inertia / len(points)


def test_parts_are_what_clouds_of_points_of_their_shape_are():
    generator = np.random.default_rng(1)
    unit_cube = generator.uniform(-0.5, 0.5, (200_000, 3))
    block = unit_cube * [0.3, 0.2, 0.1]
    angle, radius = 2.0 * math.pi * generator.uniform(size=200_000), 0.05 * np.sqrt(generator.uniform(size=200_000))
    can = np.column_stack([radius * np.cos(angle), radius * np.sin(angle), 0.04 * unit_cube[:, 2]])
    bar = np.outer(generator.uniform(size=200_000), [0.2, 0.1, -0.05])
    for body, points in (
        (box("box", exact_value(2.0), Vec3(0.0, 0.0, 0.0), Vec3(0.3, 0.2, 0.1)), block),
        (cylinder("can", exact_value(2.0), Vec3(0.0, 0.0, 0.0), 0.1, 0.04), can),
        (rod("bar", exact_value(2.0), Vec3(0.0, 0.0, 0.0), Vec3(0.2, 0.1, -0.05), 0.01), bar),
    ):
        assert inertia_about_centre([body]) == pytest.approx(cloud(points, 2.0), rel=0.01, abs=1e-4)


def test_a_dumb_bell():
    """m d²/2 perpendicular to two equal masses a distance d apart, nothing along their axis"""
    ends = [propeller_body("ball", exact_value(0.5), Vec3(x, 0.0, 1.0), 1e-12) for x in (-0.2, 0.6)]
    assert centre_of_mass(ends) == pytest.approx((0.2, 0.0, 1.0))
    assert inertia_about_centre(ends) == pytest.approx(np.diag([0.0, 0.16, 0.16]), abs=1e-11)


def test_a_box_is_the_sum_of_its_halves():
    """Steiner's theorem"""
    full = box("whole", exact_value(3.0), Vec3(0.1, 0.2, 0.3), Vec3(0.4, 0.2, 0.1))
    halves = [box("half", exact_value(1.5), Vec3(x, 0.2, 0.3), Vec3(0.2, 0.2, 0.1)) for x in (0.0, 0.2)]
    assert inertia_about_centre(halves) == pytest.approx(inertia_about_centre([full]), rel=1e-12)
    assert drag_areas(halves).z == pytest.approx(drag_areas([full]).z)


def test_the_spread_of_inertia_is_that_of_masses_far_out_that_the_frame_makes_up_for():
    """Two masses m/2 at ±d and the remainder at the centre: J = (m₁ + ρ m₂) d², ∂ln J/∂ln m₁ = 1"""
    motors = [propeller_body("motors", UncertainValue(0.1, 0.2, ""), Vec3(0.0, y, 0.0), 1e-15) for y in (-0.3, 0.3)]
    frame = box("frame", exact_value(1.0), Vec3(0.0, 0.0, 0.0), Vec3(1e-6, 1e-6, 1e-6))
    assert inertia_spread([*motors, frame], "frame") == pytest.approx(math.hypot(0.2, SHAPE_SPREAD), rel=1e-3)
    exact_motors = [motor._replace(mass=exact_value(0.1)) for motor in motors]
    assert inertia_spread([*exact_motors, frame], "frame") == pytest.approx(SHAPE_SPREAD)
