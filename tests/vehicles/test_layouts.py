"""Layouts by name: places, spins and order, and that their rotors command what a multirotor needs."""

import math

import pytest

import samara
from samara.core.algebra import Vec3
from samara.physics.rotors.actuator import Lag
from samara.physics.rotors.rotor import Rotor
from samara.vehicles.parts.layouts import LAYOUTS, LOWER, UPPER, hubs_at, hubs_of, layout_named, nearest_beside
from samara.vehicles.plausibility import NEEDED, controllable
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
    seen = sorted((round(own.x, 9), round(abs(own.y), 9), own.level) for own in mounts if abs(own.y) > 1e-9)
    assert seen[::2] == seen[1::2]


@pytest.mark.parametrize("name", [*TWINS, *PAIRS])
def test_half_of_the_rotors_turn_each_way(name):
    mounts = LAYOUTS[name].mounts
    assert sum(own.spin for own in mounts) == 0
    assert len(mounts) == TWINS.get(name, 2 * PAIRS.get(name, 0))


@pytest.mark.parametrize("name", [*TWINS, *PAIRS])
def test_lift_roll_pitch_and_yaw_are_commanded_alone(name):
    motor = Lag(0.0, 2000.0, 0.02, 0.02)
    rotors = [
        Rotor(hub.place, Vec3(0.0, 0.0, 1.0), hub.spin, 1e-6, 1e-8, 0.0, 0.05, motor)
        for hub in hubs_of(LAYOUTS[name], 0.4, 0.04)
    ]
    vehicle = samara.build_vehicle(name, mass=0.5, inertia=(0.002, 0.002, 0.004), rotors=rotors)
    assert set(NEEDED) <= set(controllable(vehicle)[1])


@pytest.mark.parametrize("name", PAIRS)
def test_the_rotors_of_a_pair_turn_against_each_other(name):
    arms = {}
    for hub in hubs_of(LAYOUTS[name], 0.5, 0.05):
        arms.setdefault((round(hub.place.x, 9), round(hub.place.y, 9)), []).append(hub)
    assert len(arms) == PAIRS[name]
    for pair in arms.values():
        assert sorted(hub.level for hub in pair) == [LOWER, UPPER]
        assert sum(hub.spin for hub in pair) == 0
        assert max(hub.place.z for hub in pair) - min(hub.place.z for hub in pair) == pytest.approx(0.05)


@pytest.mark.parametrize("name", ["quad_x", "hexa_x", "octo_x"])
def test_the_order_is_that_of_px4(name):
    for hub, place in zip(hubs_of(LAYOUTS[name], 2.0, 0.0), NUMBERINGS[name]["px4"].places, strict=True):
        azimuth = math.degrees(math.atan2(hub.place.y, hub.place.x))
        assert azimuth == pytest.approx(place.azimuth_deg, abs=1e-9)
        assert (hub.name, hub.spin) == (place.name, place.spin)


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_diagonal_is_the_diameter_of_the_circle_through_the_farthest_motors(name):
    far = max(math.hypot(hub.place.x, hub.place.y) for hub in hubs_of(LAYOUTS[name], 0.5, 0.0))
    assert far == pytest.approx(0.25)


def test_names_may_be_written_otherwise():
    assert layout_named("Quad-X") is LAYOUTS["quad_x"]
    assert layout_named("octo +") is LAYOUTS["octo_plus"]
    with pytest.raises(ValueError, match=r"layout = 'penta': expected one of quad_x, .*tricopter"):
        layout_named("penta")


def test_rotors_by_coordinates_above_each_other_are_a_pair():
    square = [(0.1, 0.1), (-0.1, 0.1), (-0.1, -0.1), (0.1, -0.1)]
    hubs = hubs_at([(Vec3(x, y, z), 1 if z > 0 else -1) for x, y in square for z in (0.02, -0.02)])
    assert [hub.level for hub in hubs] == [UPPER, LOWER] * 4
    assert nearest_beside(hubs) == pytest.approx(0.2)
    assert [hub.level for hub in hubs_at([(Vec3(x, y, 0.0), 1) for x, y in square])] == [0] * 4
