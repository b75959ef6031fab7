"""High-level curves against closed forms: uploaded polynomials and Bézier curves, relative and rotated ones, invalid orders."""

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
    bezier_coefficients,
    decode_trajectory,
    spiral,
)
from samara.link.crazyflie.parameters import GROUP_MASK, LANDING_SPEED, TAKE_OFF_SPEED
from samara.link.crazyflie.trajectory_memory import TRAJECTORY_BYTES
from samara.physics.types import Reference

REFERENCE = Reference(Vec3(1.0, 2.0, 3.0), yaw=0.5)


def go_to(x, y, z, yaw, duration, relative=0, group=0, straight=0):
    return struct.pack("<BBBB5f", 12, group, relative, straight, x, y, z, yaw, duration)


def create_planner(memory=None):
    return Planner(memory or bytearray(TRAJECTORY_BYTES), {GROUP_MASK: 0.0, TAKE_OFF_SPEED: 0.5, LANDING_SPEED: 0.25})


def test_a_curve_starts_with_the_current_motion_and_ends_at_rest_with_the_shorter_turn():
    planner = create_planner()
    moving = REFERENCE._replace(v_W=Vec3(0.5, 0.0, 0.0), a_W=Vec3(0.0, 0.1, 0.0), yaw=3.0)
    assert planner.execute(go_to(0.0, 0.0, 1.0, -3.0, 2.0), 10.0, moving) == 0
    first, last = planner.planned_curve.reference(10.0), planner.planned_curve.reference(99.0)
    assert first.v_W == pytest.approx(moving.v_W, abs=1e-9)
    assert first.a_W == pytest.approx(moving.a_W, abs=1e-9)
    assert last.p_W == pytest.approx((0.0, 0.0, 1.0), abs=1e-6)
    assert last.v_W == (0.0, 0.0, 0.0)
    half = planner.planned_curve.reference(11.0).yaw  # from 3 to −3 through π
    assert abs(half) == pytest.approx(math.pi, abs=0.02)


def test_orders_go_to_the_groups_they_name():
    planner = create_planner()
    assert planner.execute(go_to(0.0, 0.0, 1.0, 0.0, 2.0, group=2), 0.0, REFERENCE) == 0
    assert planner.planned_curve is None
    planner.execute(b"\0\2", 0.0, REFERENCE)
    planner.execute(go_to(0.0, 0.0, 1.0, 0.0, 2.0, group=2), 0.0, REFERENCE)
    assert planner.planned_curve is not None


@pytest.mark.parametrize("data, wrong", [
    (b"", errno.ENOEXEC), (b"\x63\0", errno.ENOEXEC), (b"\x0c\0\0", errno.EINVAL),
    (go_to(0.0, 0.0, 1.0, 0.0, 0.0), errno.EINVAL), (go_to(0.0, 0.0, 1.0, 0.0, -1.0), errno.EINVAL),
    (go_to(math.nan, 0.0, 1.0, 0.0, 1.0), errno.EINVAL), (go_to(1e9, 0.0, 1.0, 0.0, 1.0), errno.EINVAL),
    (struct.pack("<BBBBBBf", 13, 0, 0, 0, 0, 7, 1.0), errno.ENOENT),
    (struct.pack("<BBBBIB", 6, 1, 1, 0, TRAJECTORY_BYTES, 1), errno.EINVAL),
    (struct.pack("<BBBB5f", 11, 0, 0, 0, 1.0, 1.0, 1.0, 0.0, 0.0), errno.EINVAL),
    (struct.pack("<BBBB5f", 11, 0, 0, 0, 1.0, 1e9, 1.0, 0.0, 1.0), errno.EINVAL),
    (struct.pack("<BBff", 1, 0, 1.0, -1.0), errno.EINVAL),
])  # fmt: skip
def test_an_invalid_order_is_reported_and_changes_nothing(data, wrong):
    planner = create_planner()
    assert planner.execute(data, 0.0, REFERENCE) == wrong
    assert planner.planned_curve is None


def test_a_landing_at_zero_ends_at_the_standing_height():
    for height, expected in ((0.0, 0.02), (0.5, 0.5), (-1.0, -1.0)):
        planner = Planner(bytearray(TRAJECTORY_BYTES), {GROUP_MASK: 0.0}, standing_height=0.02)
        planner.execute(struct.pack("<BBff?f", 8, 0, height, 0.0, True, 2.0), 0.0, REFERENCE)
        assert planner.planned_curve.reference(2.0).p_W.z == pytest.approx(expected)


def test_a_straight_line_has_a_constant_speed():
    planner = create_planner()
    assert planner.execute(go_to(3.0, 2.0, 2.0, 1.5, 4.0, straight=1), 10.0, REFERENCE) == 0
    for time in (0.0, 1.0, 2.5, 3.9):
        reference = planner.planned_curve.reference(10.0 + time)
        assert reference.p_W == pytest.approx((1.0 + 0.5 * time, 2.0, 3.0 - 0.25 * time))
        assert reference.v_W == pytest.approx((0.5, 0.0, -0.25))
        assert reference.yaw == pytest.approx(0.5 + 0.25 * time)
    assert planner.planned_curve.reference(14.1).v_W == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("data, height, duration, yaw", [
    (struct.pack("<BBff", 1, 0, 1.0, 2.0), 1.0, 2.0, 0.0),  # the oldest order turns it to a yaw of 0
    (struct.pack("<BBff?f", 7, 0, 1.0, 0.25, False, 2.0), 1.0, 2.0, 0.25),
    (struct.pack("<BBf?f?f", 9, 0, 4.0, False, 0.0, True, 0.25), 4.0, 4.0, 0.5),
    (struct.pack("<BBf?f?f", 9, 0, 1.0, True, 0.0, True, 0.0), 4.0, 2.0, 0.5),  # by hlCommander.vtoff
    (struct.pack("<BBff", 2, 0, 1.0, 2.0), 1.0, 2.0, 0.0),
    (struct.pack("<BBff?f", 8, 0, 0.0, 0.0, True, 2.0), 0.0, 2.0, 0.5),
    (struct.pack("<BBf?f?f", 10, 0, 2.5, False, 0.0, True, 1.0), 2.5, 0.5, 0.5),
    (struct.pack("<BBf?f?f", 10, 0, 1.0, True, 0.0, True, 0.0), 2.0, 4.0, 0.5),  # down by a metre, by hlCommander.vland
])  # fmt: skip
def test_take_off_and_land_by_time_and_by_speed(data, height, duration, yaw):
    planner = create_planner()
    assert planner.execute(data, 0.0, REFERENCE) == 0
    assert planner.planned_curve.curve.duration == pytest.approx(duration)
    assert planner.planned_curve.reference(99.0).p_W == pytest.approx((1.0, 2.0, height), abs=1e-6)
    assert planner.planned_curve.reference(99.0).yaw == pytest.approx(yaw, abs=1e-6)
    assert planner.planned_curve.lands == (data[0] in (2, 8, 10))
    assert planner.execute(data, 0.0, REFERENCE) == BUSY  # no take-off in flight, and one landing at a time


@pytest.mark.parametrize("sideways", [False, True])
@pytest.mark.parametrize("clockwise", [False, True])
def test_a_spiral_is_that_of_polar_coordinates(sideways, clockwise):
    """r (cos θ, sin θ) about the centre, by differences at both ends; the nose along the circle, or along the radius."""
    angle, radii, climb, duration = 1.2, (0.8, 1.1), 0.3, 3.0
    start, end = spiral(REFERENCE, angle, radii, climb, duration, sideways=sideways, clockwise=clockwise)
    direction = -1.0 if clockwise else 1.0
    forward, left = np.array([math.cos(0.5), math.sin(0.5)]), np.array([-math.sin(0.5), math.cos(0.5)])
    to_centre = -direction * forward if sideways else direction * left
    centre = np.array([1.0, 2.0]) + 0.8 * to_centre

    def spiral_position(time):
        r, angle_turned = 0.8 + 0.1 * time, direction * 0.4 * time
        c, s = math.cos(angle_turned), math.sin(angle_turned)
        return centre + r * np.array([[c, -s], [s, c]]) @ -to_centre

    for rows, time in ((start, 0.0), (end, duration)):
        h = 1e-4
        assert rows[0][:2] == pytest.approx(spiral_position(time), abs=1e-12)
        assert rows[1][:2] == pytest.approx(
            (spiral_position(time + h) - spiral_position(time - h)) / (2.0 * h), abs=1e-7
        )
        assert rows[2][:2] == pytest.approx(
            (spiral_position(time + h) - 2.0 * spiral_position(time) + spiral_position(time - h)) / h**2, abs=1e-6
        )
        assert rows[1][2:] == pytest.approx([0.1, direction * 0.4])
    assert start[0][2:] == [3.0, 0.5]
    assert end[0][2:] == pytest.approx([3.3, 0.5 + direction * 1.2])
    if not sideways:  # the nose points along the circle
        assert np.dot(forward, start[1][:2]) == pytest.approx(0.4 * 0.8)


def test_a_spiral_is_close_to_its_circle():
    planner = create_planner()
    assert planner.execute(struct.pack("<BBBB5f", 11, 0, 0, 0, math.pi / 2.0, 1.0, 1.0, 0.0, 3.0), 0.0, REFERENCE) == 0
    centre = np.array([1.0 - math.sin(0.5), 2.0 + math.cos(0.5)])
    radii = [
        np.hypot(*(np.array(planner.planned_curve.reference(t).p_W[:2]) - centre)) for t in np.linspace(0.0, 3.0, 31)
    ]
    assert radii == pytest.approx([1.0] * 31, abs=0.01)


# Uploaded -----------------------------------------------------------------------------------------------------------


def test_an_uploaded_trajectory_is_its_polynomials_in_seconds():
    rng = np.random.default_rng(2)
    first, second = rng.normal(size=(2, 4, 8)).astype("<f4")
    content = first.tobytes() + struct.pack("<f", 1.5) + second.tobytes() + struct.pack("<f", 0.5)
    curve = decode_trajectory(content.ljust(TRAJECTORY_BYTES, b"\0"), POLYNOMIALS, 2)
    assert curve.duration == pytest.approx(2.0)
    assert curve.derivatives(1.2, 1)[0] == pytest.approx([np.polyval(row[::-1], 1.2) for row in first.astype(float)])
    assert curve.derivatives(1.8, 1)[0] == pytest.approx([np.polyval(row[::-1], 0.3) for row in second.astype(float)])


def test_a_compressed_trajectory_is_its_bezier_curves():
    """x of 7 points after its start, y of 3, z of 1, and a constant yaw; Bernstein's form, evaluated directly."""
    xs, ys, zs = [100, 300, -200, 50, 0, 700, 1000], [500, -500, 250], [1500]
    bits = 3 | 2 << 2 | 1 << 4
    content = struct.pack("<4h", 1, 2, 3, 900) + struct.pack("<BH", bits, 2000) + struct.pack("<11h", *xs, *ys, *zs)
    curve = decode_trajectory(content, COMPRESSED, 1)

    def bezier(points, u):
        n = len(points) - 1
        return sum(comb(n, i) * u**i * (1.0 - u) ** (n - i) * p for i, p in enumerate(points))

    for u in (0.0, 0.3, 0.8, 1.0):
        expected = [1e-3 * bezier(points, u) for points in ([1, *xs], [2, *ys], [3, *zs])]
        assert curve.derivatives(2.0 * u, 1)[0] == pytest.approx([*expected, math.pi / 2.0], abs=1e-12)
    assert bezier_coefficients([1.0, 3.0]) == [1.0, 2.0]


def test_an_invalid_trajectory_is_none():
    assert decode_trajectory(bytes(TRAJECTORY_BYTES), POLYNOMIALS, 1) is None  # no duration
    assert decode_trajectory(struct.pack("<33f", *[math.nan] * 32, 1.0), POLYNOMIALS, 1) is None
    assert decode_trajectory(struct.pack("<33f", *[1e38] * 32, 1e3), POLYNOMIALS, 1) is None
    assert decode_trajectory(bytes(TRAJECTORY_BYTES), 7, 1) is None
    assert decode_trajectory(bytes(16), COMPRESSED, 200) is None


def test_a_trajectory_is_read_from_memory_when_it_starts():
    """Defined first and written later, as on the aircraft; an invalid trajectory is reported at its start."""
    memory = bytearray(TRAJECTORY_BYTES)
    planner = create_planner(memory)
    define, start = struct.pack("<BBBBIB", 6, 1, 1, 0, 0, 1), struct.pack("<BBBBBBf", 13, 0, 0, 0, 0, 1, 1.0)
    assert planner.execute(define, 0.0, REFERENCE) == 0
    assert planner.execute(start, 0.0, REFERENCE) == errno.EINVAL
    memory[:132] = struct.pack("<33f", *[0.0] * 32, 1.5)
    assert planner.execute(start, 0.0, REFERENCE) == 0
    assert planner.planned_curve.curve.duration == 1.5


def test_a_compressed_trajectory_is_flown_only_forwards_at_its_own_speed():
    memory = bytearray(TRAJECTORY_BYTES)
    memory[:11] = struct.pack("<4hBH", 1000, 0, 0, 0, 0, 2000)
    planner = create_planner(memory)
    assert planner.execute(struct.pack("<BBBBIB", 6, 1, 1, 1, 0, 1), 0.0, REFERENCE) == 0
    assert planner.execute(struct.pack("<BBBBBBf", 13, 0, 0, 0, 0, 1, 1.0), 0.0, REFERENCE) == 0
    assert planner.planned_curve.reference(1.0).p_W == (1.0, 0.0, 0.0)
    assert planner.execute(struct.pack("<BBBBBBf", 13, 0, 0, 0, 0, 1, 2.0), 0.0, REFERENCE) == errno.ENOEXEC
    assert planner.execute(struct.pack("<BBBBBBf", 13, 0, 0, 0, 1, 1, 1.0), 0.0, REFERENCE) == errno.ENOEXEC


def test_a_relative_trajectory_starts_at_the_reference_rotated_by_its_yaw():
    """A metre along its x is a metre along the nose, to +y; backwards it ends there."""
    memory = bytearray(TRAJECTORY_BYTES)
    rows = np.zeros((4, 8), dtype="<f4")
    rows[0, :2], rows[2, 0] = (5.0, 1.0), 9.0
    memory[:132] = rows.tobytes() + struct.pack("<f", 1.0)
    planner, reference = create_planner(memory), REFERENCE._replace(yaw=math.pi / 2.0)
    assert planner.execute(struct.pack("<BBBBIB", 6, 1, 1, 0, 0, 1), 0.0, reference) == 0
    planner.execute(struct.pack("<BBBBBBf", 13, 0, 1, 1, 0, 1, 2.0), 0.0, reference)
    assert planner.planned_curve.reference(0.0).p_W == pytest.approx(REFERENCE.p_W)
    assert planner.planned_curve.reference(1.0).v_W == pytest.approx((0.0, 0.5, 0.0), abs=1e-12)
    assert planner.planned_curve.reference(2.0).p_W == pytest.approx((1.0, 3.0, 3.0))
    planner.execute(struct.pack("<BBBBBBf", 13, 0, 0, 0, 1, 1, 1.0), 0.0, reference)
    assert planner.planned_curve.reference(0.0).p_W == pytest.approx((6.0, 0.0, 9.0))
    assert planner.planned_curve.reference(0.25).v_W == pytest.approx((-1.0, 0.0, 0.0))
