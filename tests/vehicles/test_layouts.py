"""Layouts by name: positions, spins and order, and that their rotors command the axes of a multirotor."""

import math

import pytest

import samara
from samara.core.algebra import Vec3
from samara.physics.rotors.actuator import Lag
from samara.physics.rotors.rotor import Rotor
from samara.vehicles.parts.layouts import (
    LAYOUTS,
    LOWER,
    UPPER,
    coordinate_hubs,
    find_layout,
    layout_hubs,
    min_rotor_spacing,
)
from samara.vehicles.plausibility import REQUIRED_AXES, controllable_axes
from samara.vehicles.rotor_numbering import NUMBERINGS

TWINS = {
    "quad_x": 4,
    "quad_plus": 4,
    "quad_h": 4,
    "deadcat": 4,
    "hexa_x": 6,
    "hexa_plus": 6,
    "octo_x": 8,
    "octo_plus": 8,
}
PAIRS = {"x8": 4, "y6": 3}


@pytest.mark.parametrize("name", LAYOUTS)
def test_left_is_the_mirror_image_of_right(name):
    mounts = LAYOUTS[name].mounts
    sides = sorted((round(mount.x, 9), round(abs(mount.y), 9), mount.level) for mount in mounts if abs(mount.y) > 1e-9)
    assert sides[::2] == sides[1::2]


@pytest.mark.parametrize("name", [*TWINS, *PAIRS])
def test_half_of_the_rotors_turn_each_way(name):
    mounts = LAYOUTS[name].mounts
    assert sum(mount.spin for mount in mounts) == 0
    assert len(mounts) == TWINS.get(name, 2 * PAIRS.get(name, 0))


@pytest.mark.parametrize("name", [*TWINS, *PAIRS])
def test_lift_roll_pitch_and_yaw_are_commanded_alone(name):
    motor = Lag(0.0, 2000.0, 0.02, 0.02)
    rotors = [
        Rotor(hub.position, Vec3(0.0, 0.0, 1.0), hub.spin, 1e-6, 1e-8, 0.0, 0.05, motor)
        for hub in layout_hubs(LAYOUTS[name], 0.4, 0.04)
    ]
    vehicle = samara.build_vehicle(name, mass=0.5, inertia=(0.002, 0.002, 0.004), rotors=rotors)
    assert set(REQUIRED_AXES) <= set(controllable_axes(vehicle)[1])


@pytest.mark.parametrize("name", PAIRS)
def test_the_rotors_of_a_pair_turn_against_each_other(name):
    arms = {}
    for hub in layout_hubs(LAYOUTS[name], 0.5, 0.05):
        arms.setdefault((round(hub.position.x, 9), round(hub.position.y, 9)), []).append(hub)
    assert len(arms) == PAIRS[name]
    for pair in arms.values():
        assert sorted(hub.level for hub in pair) == [LOWER, UPPER]
        assert sum(hub.spin for hub in pair) == 0
        assert max(hub.position.z for hub in pair) - min(hub.position.z for hub in pair) == pytest.approx(0.05)


@pytest.mark.parametrize("name", ["quad_x", "hexa_x", "octo_x"])
def test_the_order_is_that_of_px4(name):
    for hub, place in zip(layout_hubs(LAYOUTS[name], 2.0, 0.0), NUMBERINGS[name]["px4"].rotors, strict=True):
        azimuth = math.degrees(math.atan2(hub.position.y, hub.position.x))
        assert azimuth == pytest.approx(place.azimuth_deg, abs=1e-9)
        assert (hub.name, hub.spin) == (place.name, place.spin)


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_diagonal_is_the_diameter_of_the_circle_through_the_farthest_motors(name):
    far = max(math.hypot(hub.position.x, hub.position.y) for hub in layout_hubs(LAYOUTS[name], 0.5, 0.0))
    assert far == pytest.approx(0.25)


def test_names_may_be_written_otherwise():
    assert find_layout("Quad-X") is LAYOUTS["quad_x"]
    assert find_layout("octo +") is LAYOUTS["octo_plus"]
    with pytest.raises(ValueError, match=r"layout = 'penta': expected one of quad_x, .*tricopter"):
        find_layout("penta")


def test_rotors_by_coordinates_above_each_other_are_a_pair():
    square = [(0.1, 0.1), (-0.1, 0.1), (-0.1, -0.1), (0.1, -0.1)]
    hubs = coordinate_hubs([(Vec3(x, y, z), 1 if z > 0 else -1) for x, y in square for z in (0.02, -0.02)])
    assert [hub.level for hub in hubs] == [UPPER, LOWER] * 4
    assert min_rotor_spacing(hubs) == pytest.approx(0.2)
    assert [hub.level for hub in coordinate_hubs([(Vec3(x, y, 0.0), 1) for x, y in square])] == [0] * 4
