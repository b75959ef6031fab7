"""High-level ways against closed forms: uploaded polynomials and Bézier curves, relative and turned ones, and bad orders."""

import errno
import math
import struct
from math import comb

import numpy as np
import pytest

from samara.core.algebra import Vec3
from samara.link.crazyflie.high_level_commander import (
    BUSY,
    COMPRESSED,
    POLYNOMIALS,
    Planner,
    powers_of,
    spiral,
    uploaded,
)
from samara.link.crazyflie.parameters import GROUP, LANDING_SPEED, TAKE_OFF_SPEED
from samara.link.crazyflie.trajectory_memory import SIZE
from samara.physics.types import Reference

HERE = Reference(Vec3(1.0, 2.0, 3.0), yaw=0.5)


def go_to(x, y, z, yaw, duration, relative=0, group=0, straight=0):
    return struct.pack("<BBBB5f", 12, group, relative, straight, x, y, z, yaw, duration)


def planner_with(memory=None):
    return Planner(memory or bytearray(SIZE), {GROUP: 0.0, TAKE_OFF_SPEED: 0.5, LANDING_SPEED: 0.25})


def test_a_way_starts_with_the_motion_there_is_and_ends_at_rest_the_shorter_way_round():
    planner = planner_with()
    moving = HERE._replace(v_W=Vec3(0.5, 0.0, 0.0), a_W=Vec3(0.0, 0.1, 0.0), yaw=3.0)
    assert planner.obey(go_to(0.0, 0.0, 1.0, -3.0, 2.0), 10.0, moving) == 0
    first, last = planner.way.at(10.0), planner.way.at(99.0)
    assert first.v_W == pytest.approx(moving.v_W, abs=1e-9)
    assert first.a_W == pytest.approx(moving.a_W, abs=1e-9)
    assert last.p_W == pytest.approx((0.0, 0.0, 1.0), abs=1e-6)
    assert last.v_W == (0.0, 0.0, 0.0)
    half = planner.way.at(11.0).yaw  # from 3 to −3 through π
    assert abs(half) == pytest.approx(math.pi, abs=0.02)


def test_orders_go_to_the_groups_they_name():
    planner = planner_with()
    assert planner.obey(go_to(0.0, 0.0, 1.0, 0.0, 2.0, group=2), 0.0, HERE) == 0
    assert planner.way is None
    planner.obey(b"\0\2", 0.0, HERE)
    planner.obey(go_to(0.0, 0.0, 1.0, 0.0, 2.0, group=2), 0.0, HERE)
    assert planner.way is not None


@pytest.mark.parametrize("data, wrong", [
    (b"", errno.ENOEXEC), (b"\x63\0", errno.ENOEXEC), (b"\x0c\0\0", errno.EINVAL),
    (go_to(0.0, 0.0, 1.0, 0.0, 0.0), errno.EINVAL), (go_to(0.0, 0.0, 1.0, 0.0, -1.0), errno.EINVAL),
    (go_to(math.nan, 0.0, 1.0, 0.0, 1.0), errno.EINVAL), (go_to(1e9, 0.0, 1.0, 0.0, 1.0), errno.EINVAL),
    (struct.pack("<BBBBBBf", 13, 0, 0, 0, 0, 7, 1.0), errno.ENOENT),
    (struct.pack("<BBBBIB", 6, 1, 1, 0, SIZE, 1), errno.EINVAL),
    (struct.pack("<BBBB5f", 11, 0, 0, 0, 1.0, 1.0, 1.0, 0.0, 0.0), errno.EINVAL),
    (struct.pack("<BBBB5f", 11, 0, 0, 0, 1.0, 1e9, 1.0, 0.0, 1.0), errno.EINVAL),
    (struct.pack("<BBff", 1, 0, 1.0, -1.0), errno.EINVAL),
])  # fmt: skip
def test_a_bad_order_is_told_and_changes_nothing(data, wrong):
    planner = planner_with()
    assert planner.obey(data, 0.0, HERE) == wrong
    assert planner.way is None


def test_a_landing_at_nothing_ends_where_it_stands():
    for height, wanted in ((0.0, 0.02), (0.5, 0.5), (-1.0, -1.0)):
        planner = Planner(bytearray(SIZE), {GROUP: 0.0}, stands=0.02)
        planner.obey(struct.pack("<BBff?f", 8, 0, height, 0.0, True, 2.0), 0.0, HERE)
        assert planner.way.at(2.0).p_W.z == pytest.approx(wanted)


def test_a_straight_way_is_at_an_even_speed():
    planner = planner_with()
    assert planner.obey(go_to(3.0, 2.0, 2.0, 1.5, 4.0, straight=1), 10.0, HERE) == 0
    for time in (0.0, 1.0, 2.5, 3.9):
        own = planner.way.at(10.0 + time)
        assert own.p_W == pytest.approx((1.0 + 0.5 * time, 2.0, 3.0 - 0.25 * time))
        assert own.v_W == pytest.approx((0.5, 0.0, -0.25))
        assert own.yaw == pytest.approx(0.5 + 0.25 * time)
    assert planner.way.at(14.1).v_W == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("data, height, duration, yaw", [
    (struct.pack("<BBff", 1, 0, 1.0, 2.0), 1.0, 2.0, 0.0),  # the oldest turns it to a yaw of 0
    (struct.pack("<BBff?f", 7, 0, 1.0, 0.25, False, 2.0), 1.0, 2.0, 0.25),
    (struct.pack("<BBf?f?f", 9, 0, 4.0, False, 0.0, True, 0.25), 4.0, 4.0, 0.5),
    (struct.pack("<BBf?f?f", 9, 0, 1.0, True, 0.0, True, 0.0), 4.0, 2.0, 0.5),  # by hlCommander.vtoff
    (struct.pack("<BBff", 2, 0, 1.0, 2.0), 1.0, 2.0, 0.0),
    (struct.pack("<BBff?f", 8, 0, 0.0, 0.0, True, 2.0), 0.0, 2.0, 0.5),
    (struct.pack("<BBf?f?f", 10, 0, 2.5, False, 0.0, True, 1.0), 2.5, 0.5, 0.5),
    (struct.pack("<BBf?f?f", 10, 0, 1.0, True, 0.0, True, 0.0), 2.0, 4.0, 0.5),  # down by a metre, by hlCommander.vland
])  # fmt: skip
def test_take_off_and_land_by_time_and_by_speed(data, height, duration, yaw):
    planner = planner_with()
    assert planner.obey(data, 0.0, HERE) == 0
    assert planner.way.curve.duration == pytest.approx(duration)
    assert planner.way.at(99.0).p_W == pytest.approx((1.0, 2.0, height), abs=1e-6)
    assert planner.way.at(99.0).yaw == pytest.approx(yaw, abs=1e-6)
    assert planner.way.lands == (data[0] in (2, 8, 10))
    assert planner.obey(data, 0.0, HERE) == BUSY  # in flight there is no take-off, and one landing at a time


@pytest.mark.parametrize("sideways", [False, True])
@pytest.mark.parametrize("clockwise", [False, True])
def test_a_spiral_is_that_of_polar_coordinates(sideways, clockwise):
    """r (cos θ, sin θ) about the centre, by differences at both ends; the nose along the way, or along the radius"""
    angle, radii, climb, duration = 1.2, (0.8, 1.1), 0.3, 3.0
    start, end = spiral(HERE, angle, radii, climb, duration, sideways=sideways, clockwise=clockwise)
    sense = -1.0 if clockwise else 1.0
    ahead, left = np.array([math.cos(0.5), math.sin(0.5)]), np.array([-math.sin(0.5), math.cos(0.5)])
    to_centre = -sense * ahead if sideways else sense * left
    centre = np.array([1.0, 2.0]) + 0.8 * to_centre

    def at(time):
        r, turn = 0.8 + 0.1 * time, sense * 0.4 * time
        c, s = math.cos(turn), math.sin(turn)
        return centre + r * np.array([[c, -s], [s, c]]) @ -to_centre

    for rows, time in ((start, 0.0), (end, duration)):
        h = 1e-4
        assert rows[0][:2] == pytest.approx(at(time), abs=1e-12)
        assert rows[1][:2] == pytest.approx((at(time + h) - at(time - h)) / (2.0 * h), abs=1e-7)
        assert rows[2][:2] == pytest.approx((at(time + h) - 2.0 * at(time) + at(time - h)) / h**2, abs=1e-6)
        assert rows[1][2:] == pytest.approx([0.1, sense * 0.4])
    assert start[0][2:] == [3.0, 0.5]
    assert end[0][2:] == pytest.approx([3.3, 0.5 + sense * 1.2])
    if not sideways:  # the nose points along the circle
        assert np.dot(ahead, start[1][:2]) == pytest.approx(0.4 * 0.8)


def test_a_spiral_is_flown_near_its_circle():
    planner = planner_with()
    assert planner.obey(struct.pack("<BBBB5f", 11, 0, 0, 0, math.pi / 2.0, 1.0, 1.0, 0.0, 3.0), 0.0, HERE) == 0
    centre = np.array([1.0 - math.sin(0.5), 2.0 + math.cos(0.5)])
    away = [np.hypot(*(np.array(planner.way.at(t).p_W[:2]) - centre)) for t in np.linspace(0.0, 3.0, 31)]
    assert away == pytest.approx([1.0] * 31, abs=0.01)


# Uploaded -----------------------------------------------------------------------------------------------------------


def test_an_uploaded_trajectory_is_its_polynomials_in_seconds():
    rng = np.random.default_rng(2)
    first, second = rng.normal(size=(2, 4, 8)).astype("<f4")
    content = first.tobytes() + struct.pack("<f", 1.5) + second.tobytes() + struct.pack("<f", 0.5)
    curve = uploaded(content.ljust(SIZE, b"\0"), POLYNOMIALS, 2)
    assert curve.duration == pytest.approx(2.0)
    assert curve.derivatives(1.2, 1)[0] == pytest.approx([np.polyval(row[::-1], 1.2) for row in first.astype(float)])
    assert curve.derivatives(1.8, 1)[0] == pytest.approx([np.polyval(row[::-1], 0.3) for row in second.astype(float)])


def test_a_compressed_trajectory_is_its_bezier_curves():
    """x of 7 points after its start, y of 3, z of 1, and a yaw that stays; Bernstein's form, evaluated directly"""
    xs, ys, zs = [100, 300, -200, 50, 0, 700, 1000], [500, -500, 250], [1500]
    bits = 3 | 2 << 2 | 1 << 4
    content = struct.pack("<4h", 1, 2, 3, 900) + struct.pack("<BH", bits, 2000) + struct.pack("<11h", *xs, *ys, *zs)
    curve = uploaded(content, COMPRESSED, 1)

    def bezier(points, u):
        n = len(points) - 1
        return sum(comb(n, i) * u**i * (1.0 - u) ** (n - i) * p for i, p in enumerate(points))

    for u in (0.0, 0.3, 0.8, 1.0):
        wanted = [1e-3 * bezier(points, u) for points in ([1, *xs], [2, *ys], [3, *zs])]
        assert curve.derivatives(2.0 * u, 1)[0] == pytest.approx([*wanted, math.pi / 2.0], abs=1e-12)
    assert powers_of([1.0, 3.0]) == [1.0, 2.0]


def test_what_is_no_trajectory_is_none():
    assert uploaded(bytes(SIZE), POLYNOMIALS, 1) is None  # no duration
    assert uploaded(struct.pack("<33f", *[math.nan] * 32, 1.0), POLYNOMIALS, 1) is None
    assert uploaded(struct.pack("<33f", *[1e38] * 32, 1e3), POLYNOMIALS, 1) is None
    assert uploaded(bytes(SIZE), 7, 1) is None
    assert uploaded(bytes(16), COMPRESSED, 200) is None


def test_what_is_flown_is_what_memory_has_then():
    """Defined first and written later, as the aircraft takes it; what is no trajectory is told when it is to be flown."""
    memory = bytearray(SIZE)
    planner = planner_with(memory)
    define, start = struct.pack("<BBBBIB", 6, 1, 1, 0, 0, 1), struct.pack("<BBBBBBf", 13, 0, 0, 0, 0, 1, 1.0)
    assert planner.obey(define, 0.0, HERE) == 0
    assert planner.obey(start, 0.0, HERE) == errno.EINVAL
    memory[:132] = struct.pack("<33f", *[0.0] * 32, 1.5)
    assert planner.obey(start, 0.0, HERE) == 0
    assert planner.way.curve.duration == 1.5


def test_a_compressed_trajectory_is_flown_forwards_at_its_own_speed_alone():
    memory = bytearray(SIZE)
    memory[:11] = struct.pack("<4hBH", 1000, 0, 0, 0, 0, 2000)
    planner = planner_with(memory)
    assert planner.obey(struct.pack("<BBBBIB", 6, 1, 1, 1, 0, 1), 0.0, HERE) == 0
    assert planner.obey(struct.pack("<BBBBBBf", 13, 0, 0, 0, 0, 1, 1.0), 0.0, HERE) == 0
    assert planner.way.at(1.0).p_W == (1.0, 0.0, 0.0)
    assert planner.obey(struct.pack("<BBBBBBf", 13, 0, 0, 0, 0, 1, 2.0), 0.0, HERE) == errno.ENOEXEC
    assert planner.obey(struct.pack("<BBBBBBf", 13, 0, 0, 0, 1, 1, 1.0), 0.0, HERE) == errno.ENOEXEC


def test_a_relative_trajectory_starts_here_and_turned_as_the_nose_is():
    """A metre along x of its own is a metre along the nose, to +y; backwards it ends there."""
    memory = bytearray(SIZE)
    rows = np.zeros((4, 8), dtype="<f4")
    rows[0, :2], rows[2, 0] = (5.0, 1.0), 9.0
    memory[:132] = rows.tobytes() + struct.pack("<f", 1.0)
    planner, here = planner_with(memory), HERE._replace(yaw=math.pi / 2.0)
    assert planner.obey(struct.pack("<BBBBIB", 6, 1, 1, 0, 0, 1), 0.0, here) == 0
    planner.obey(struct.pack("<BBBBBBf", 13, 0, 1, 1, 0, 1, 2.0), 0.0, here)
    assert planner.way.at(0.0).p_W == pytest.approx(HERE.p_W)
    assert planner.way.at(1.0).v_W == pytest.approx((0.0, 0.5, 0.0), abs=1e-12)
    assert planner.way.at(2.0).p_W == pytest.approx((1.0, 3.0, 3.0))
    planner.obey(struct.pack("<BBBBBBf", 13, 0, 0, 0, 1, 1, 1.0), 0.0, here)
    assert planner.way.at(0.0).p_W == pytest.approx((6.0, 0.0, 9.0))
    assert planner.way.at(0.25).v_W == pytest.approx((-1.0, 0.0, 0.0))
