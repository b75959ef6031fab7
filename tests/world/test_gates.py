"""Gates and poles: straight ways through rectangles and past cylinders, against what can be worked out by hand."""

import math

import numpy as np
import pytest

from samara.core.algebra import Vec3
from samara.vehicles.loader import vehicle
from samara.world.gates import (
    Course,
    Gate,
    Sizes,
    chosen,
    crossing,
    is_clear,
    is_outside,
    known,
    passes,
    reach_of,
    seen_from,
    strikes_frame,
    strikes_pole,
)

SIZES = Sizes((0.4, 0.6), (0.8, 1.0))
REACH = 0.05
HAIR = 1e-9


def way(gate: Gate, y: float, z: float, forwards: bool = True) -> tuple[Vec3, Vec3]:
    """A straight way that meets the plane of a gate at (y, z) from its centre, neither level nor square to it"""
    ahead = np.array([math.cos(gate.yaw), math.sin(gate.yaw), 0.0])
    left = np.array([-math.sin(gate.yaw), math.cos(gate.yaw), 0.0])
    meets = np.array(gate.p_W) + y * left + np.array([0.0, 0.0, z])
    along = ahead + 0.3 * left + np.array([0.0, 0.0, -0.2])
    before, after = meets - 0.6 * along, meets + 0.4 * along
    ends = (before, after) if forwards else (after, before)
    return Vec3(*ends[0].tolist()), Vec3(*ends[1].tolist())


@pytest.mark.parametrize("yaw", [0.0, 1.1, -2.5, math.pi])
def test_where_a_line_meets_the_plane_of_a_gate(yaw):
    gate = Gate(Vec3(1.0, -2.0, 3.0), yaw)
    found = crossing(*way(gate, 0.13, -0.21), gate)
    assert found.forwards and not found.backwards
    np.testing.assert_allclose((found.y, found.z, found.share), (0.13, -0.21, 0.6), atol=1e-14)
    back = crossing(*way(gate, 0.13, -0.21, forwards=False), gate)
    assert back.backwards and not back.forwards
    np.testing.assert_allclose((back.y, back.z, back.share), (0.13, -0.21, 0.4), atol=1e-14)


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
    ahead = crossing(*way(gate, y, z), gate)
    assert bool(is_clear(ahead, SIZES, REACH)) is clear and bool(strikes_frame(ahead, SIZES, REACH)) is struck
    assert bool(passes(*way(gate, y, z), gate, SIZES, REACH)) is clear
    behind = crossing(*way(gate, y, z, forwards=False), gate)
    assert bool(strikes_frame(behind, SIZES, REACH)) is struck  # a frame is hard from both sides
    assert not passes(*way(gate, y, z, forwards=False), gate, SIZES, REACH)


def test_a_way_that_stops_short_has_not_crossed_and_none_counts_twice():
    gate = Gate(Vec3(0.0, 0.0, 1.0), 0.0)
    before, at, after = (Vec3(x, 0.0, 1.0) for x in (-0.5, 0.0, 0.5))
    assert not crossing(before, Vec3(-HAIR, 0.0, 1.0), gate).forwards
    assert crossing(before, at, gate).forwards and not crossing(at, after, gate).forwards
    assert not crossing(at, at, gate).forwards  # nor is it a division by zero


@pytest.mark.parametrize("offset", [0.1 - HAIR, 0.1 + HAIR])
def test_a_pole_is_struck_below_its_top_and_within_its_radius(offset):
    top, hit = Vec3(1.0, 1.0, 2.0), offset < 0.1
    here, there = Vec3(0.0, 1.0 + offset, 1.0), Vec3(3.0, 1.0 + offset, 1.6)  # nearest at a third of the way, z = 1.2
    assert bool(strikes_pole(here, there, top, 0.1)) is hit
    assert not strikes_pole(here, there, top._replace(z=1.19), 0.1)
    assert not strikes_pole(here, Vec3(0.8, 1.0 + offset, 1.2), top, 0.1)  # it stops short, 0.2 m before
    still = Vec3(1.0, 1.0 + offset, 0.5)
    assert bool(strikes_pole(still, still, top, 0.1)) is hit


def test_what_is_known_is_what_was_said_until_it_is_seen():
    said = Course((Gate(Vec3(0.0, 0.0, 1.0), 0.0), Gate(Vec3(3.0, 0.0, 1.0), 0.5)), (Vec3(1.0, 1.0, 2.0),))
    true = Course((Gate(Vec3(0.1, 0.0, 1.0), 0.1), Gate(Vec3(3.0, 0.2, 1.0), 0.4)), (Vec3(1.1, 1.0, 2.0),))
    seen = seen_from(Vec3(0.1, 0.5, 1.0), true, (0.0, 0.0, 0.0), 0.7)
    assert seen == (1.0, 0.0, 0.0)
    course = known(true, said, seen)
    assert course.gates == (true.gates[0], said.gates[1]) and course.poles == said.poles
    assert seen_from(Vec3(1.1, 1.0, 9.0), true, seen, 0.7) == (1.0, 0.0, 1.0)  # poles from above; nothing is forgotten
    for passed, wanted in ((0.0, 0), (1.0, 1), (2.0, 1)):
        assert chosen(said.gates, passed) == said.gates[wanted]


def test_the_hall_and_the_drone():
    low, high = Vec3(-1.0, -1.0, 0.0), Vec3(1.0, 1.0, 2.0)
    assert not is_outside(Vec3(0.9, -0.9, 0.1), low, high)
    for place in (Vec3(1.1, 0.0, 1.0), Vec3(0.0, -1.1, 1.0), Vec3(0.0, 0.0, -0.1), Vec3(0.0, 0.0, 2.1)):
        assert is_outside(place, low, high)
    own = vehicle("crazyflie")
    assert reach_of(own) == max(math.hypot(*rotor.r_B) for rotor in own.rotors)
