"""Gates and poles: straight paths through rectangles and past cylinders, against results worked out by hand."""

import math

import numpy as np
import pytest

from samara.core.algebra import Vec3
from samara.vehicles.loader import vehicle
from samara.world.gates import (
    Course,
    Gate,
    GateSize,
    collides_with_frame,
    collides_with_pole,
    hub_radius,
    is_clear,
    is_gate_passed,
    is_outside,
    known_course,
    plane_crossing,
    select_next_gate,
    update_observed_flags,
)

SIZES = GateSize((0.4, 0.6), (0.8, 1.0))
DRONE_RADIUS = 0.05
HAIR = 1e-9


def path_through(gate: Gate, y: float, z: float, forwards: bool = True) -> tuple[Vec3, Vec3]:
    """Return a straight path that meets the plane of a gate at (y, z) from its centre, neither level nor square to it."""
    ahead = np.array([math.cos(gate.yaw), math.sin(gate.yaw), 0.0])
    left = np.array([-math.sin(gate.yaw), math.cos(gate.yaw), 0.0])
    crossing_W = np.array(gate.p_W) + y * left + np.array([0.0, 0.0, z])
    direction_W = ahead + 0.3 * left + np.array([0.0, 0.0, -0.2])
    start, end = crossing_W - 0.6 * direction_W, crossing_W + 0.4 * direction_W
    ends = (start, end) if forwards else (end, start)
    return Vec3(*ends[0].tolist()), Vec3(*ends[1].tolist())


@pytest.mark.parametrize("yaw", [0.0, 1.1, -2.5, math.pi])
def test_where_a_line_meets_the_plane_of_a_gate(yaw):
    gate = Gate(Vec3(1.0, -2.0, 3.0), yaw)
    forward = plane_crossing(*path_through(gate, 0.13, -0.21), gate)
    assert forward.forwards and not forward.backwards
    np.testing.assert_allclose((forward.y, forward.z, forward.fraction), (0.13, -0.21, 0.6), atol=1e-14)
    backward = plane_crossing(*path_through(gate, 0.13, -0.21, forwards=False), gate)
    assert backward.backwards and not backward.forwards
    np.testing.assert_allclose((backward.y, backward.z, backward.fraction), (0.13, -0.21, 0.4), atol=1e-14)


@pytest.mark.parametrize(
    ("y", "z", "clear", "struck"),
    [
        (0.0, 0.0, True, False),
        (0.15 - HAIR, 0.0, True, False),  # w/2 − reach
        (0.15 + HAIR, 0.0, False, True),
        (0.0, -0.25 + HAIR, True, False),  # h/2 − reach
        (0.0, -0.25 - HAIR, False, True),
        (0.15 - HAIR, 0.25 - HAIR, True, False),
        (-0.3, 0.4, False, True),
        (0.45 - HAIR, 0.0, False, True),  # W/2 + reach
        (0.45 + HAIR, 0.0, False, False),
        (0.0, 0.55 - HAIR, False, True),  # H/2 + reach
        (0.0, 0.55 + HAIR, False, False),
        (5.0, 5.0, False, False),
    ],
)
def test_through_the_opening_into_the_frame_or_past_it(y, z, clear, struck):
    gate = Gate(Vec3(0.2, 0.1, 1.5), 0.7)
    ahead = plane_crossing(*path_through(gate, y, z), gate)
    assert (
        bool(is_clear(ahead, SIZES, DRONE_RADIUS)) is clear
        and bool(collides_with_frame(ahead, SIZES, DRONE_RADIUS)) is struck
    )
    assert bool(is_gate_passed(*path_through(gate, y, z), gate, SIZES, DRONE_RADIUS)) is clear
    behind = plane_crossing(*path_through(gate, y, z, forwards=False), gate)
    assert bool(collides_with_frame(behind, SIZES, DRONE_RADIUS)) is struck  # a frame is hard from both sides
    assert not is_gate_passed(*path_through(gate, y, z, forwards=False), gate, SIZES, DRONE_RADIUS)


def test_a_way_that_stops_short_has_not_crossed_and_none_counts_twice():
    gate = Gate(Vec3(0.0, 0.0, 1.0), 0.0)
    before, at, after = (Vec3(x, 0.0, 1.0) for x in (-0.5, 0.0, 0.5))
    assert not plane_crossing(before, Vec3(-HAIR, 0.0, 1.0), gate).forwards
    assert plane_crossing(before, at, gate).forwards and not plane_crossing(at, after, gate).forwards
    assert not plane_crossing(at, at, gate).forwards  # nor is it a division by zero


@pytest.mark.parametrize("offset", [0.1 - HAIR, 0.1 + HAIR])
def test_a_pole_is_struck_below_its_top_and_within_its_radius(offset):
    top, is_hit = Vec3(1.0, 1.0, 2.0), offset < 0.1
    start_W, end_W = (
        Vec3(0.0, 1.0 + offset, 1.0),
        Vec3(3.0, 1.0 + offset, 1.6),
    )  # nearest at a third of the way, z = 1.2
    assert bool(collides_with_pole(start_W, end_W, top, 0.1)) is is_hit
    assert not collides_with_pole(start_W, end_W, top._replace(z=1.19), 0.1)
    assert not collides_with_pole(start_W, Vec3(0.8, 1.0 + offset, 1.2), top, 0.1)  # it stops short, 0.2 m before
    still = Vec3(1.0, 1.0 + offset, 0.5)
    assert bool(collides_with_pole(still, still, top, 0.1)) is is_hit


def test_what_is_known_is_what_was_said_until_it_is_seen():
    nominal = Course((Gate(Vec3(0.0, 0.0, 1.0), 0.0), Gate(Vec3(3.0, 0.0, 1.0), 0.5)), (Vec3(1.0, 1.0, 2.0),))
    true = Course((Gate(Vec3(0.1, 0.0, 1.0), 0.1), Gate(Vec3(3.0, 0.2, 1.0), 0.4)), (Vec3(1.1, 1.0, 2.0),))
    observed = update_observed_flags(Vec3(0.1, 0.5, 1.0), true, (0.0, 0.0, 0.0), 0.7)
    assert observed == (1.0, 0.0, 0.0)
    course = known_course(true, nominal, observed)
    assert course.gates == (true.gates[0], nominal.gates[1]) and course.poles == nominal.poles
    assert update_observed_flags(Vec3(1.1, 1.0, 9.0), true, observed, 0.7) == (
        1.0,
        0.0,
        1.0,
    )  # poles from above; nothing is forgotten
    for gates_passed, expected in ((0.0, 0), (1.0, 1), (2.0, 1)):
        assert select_next_gate(nominal.gates, gates_passed) == nominal.gates[expected]


def test_the_hall_and_the_drone():
    low, high = Vec3(-1.0, -1.0, 0.0), Vec3(1.0, 1.0, 2.0)
    assert not is_outside(Vec3(0.9, -0.9, 0.1), low, high)
    for point in (Vec3(1.1, 0.0, 1.0), Vec3(0.0, -1.1, 1.0), Vec3(0.0, 0.0, -0.1), Vec3(0.0, 0.0, 2.1)):
        assert is_outside(point, low, high)
    drone = vehicle("crazyflie")
    assert hub_radius(drone) == max(math.hypot(*rotor.r_B) for rotor in drone.rotors)
