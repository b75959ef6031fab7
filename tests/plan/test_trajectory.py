"""Trajectories: derivatives are derivatives, pieces meet, limits hold, and the smoothest are the smoothest."""

import math
import subprocess
import sys
from itertools import pairwise

import casadi
import numpy as np
import pytest
from scipy.interpolate import make_interp_spline
from scipy.linalg import lstsq
from scipy.optimize import minimize_scalar

from samara.core.algebra import Vec3
from samara.core.tree import flatten
from samara.plan.min_snap import minimum_derivative
from samara.plan.reference import Leg, cruise, cruise_along, minimum_jerk
from samara.plan.trajectory import (
    circle,
    figure8,
    helix,
    hover,
    land,
    legs,
    line,
    lissajous,
    race,
    sequence,
    take_off,
    waypoints,
)

CORNERS = [(0.0, 0.0, 1.0), (4.0, 0.0, 1.5), (4.0, 3.0, 3.0), (0.0, 3.0, 1.0)]
GATES = [(0.0, 0.0, 1.0), (5.0, 2.0, 2.0), (9.0, -1.0, 3.0), (6.0, -6.0, 1.5), (1.0, -4.0, 1.0)]

CURVES = {
    "line": line((0.0, 0.0, 1.0), (6.0, 3.0, 2.0), speed=2.0, yaw="along"),
    "short line": line((0.0, 0.0, 1.0), (0.3, 0.0, 1.0), speed=2.0),
    "take_off": take_off((1.0, 2.0, 0.1), height=3.0, yaw=0.4),
    "land": land((1.0, 2.0, 3.0)),
    "circle": circle((1.0, 2.0, 3.0), radius=2.0, speed=3.0, laps=2.0, start=0.7, yaw="along"),
    "clockwise": circle((1.0, 2.0, 3.0), radius=2.0, speed=3.0, clockwise=True, yaw="along"),
    "helix": helix((0.0, 0.0, 1.0), radius=1.5, rise=0.6, turns=3.0, speed=2.0, yaw="along"),
    "figure8": figure8((0.0, 1.0, 2.0), reach=3.0, speed=4.0, laps=2.0, yaw="along"),
    "lissajous": lissajous(
        (0.0, 0.0, 3.0), amplitude=(2.0, 1.5, 0.5), frequency=(3, 2, 1), phase=(0.4, 0.0, 1.0), speed=2.5
    ),
}
STOPS = {
    "waypoints": waypoints(CORNERS, speed=2.0, rest=0.5, yaw=1.0),
    "timed": waypoints(CORNERS, travel=[2.0, 3.0, 2.5]),
    "legs": legs((0.0, 0.0, 0.1), [Leg("up", Vec3(0.0, 0.0, 5.0), 4.0, 1.0), Leg("on", Vec3(3.0, 0.0, 5.0), 3.0, 0.0)]),
}
RACES = {
    "race": race(GATES, speed=6.0, yaw="along"),
    "hard race": race(GATES, speed=60.0, acceleration=3.0),
    "jerk race": race(GATES, speed=6.0, acceleration=50.0, order=3),
    "closed race": race(GATES, speed=6.0, acceleration=20.0, closed=True, laps=2.0, yaw="along"),
}
EVERY = {**CURVES, **STOPS, **RACES}
LEAST_JERK = {*STOPS, "jerk race"}  # their jerk steps at the ends, as the least jerk must


def each(trajectories):
    return pytest.mark.parametrize("trajectory", trajectories.values(), ids=trajectories.keys())


def size(vectors):
    return np.sqrt(sum(component**2 for component in vectors))


def apart(a, b):
    """The angle from b to a, whatever the turns between."""
    return np.abs((a - b + math.pi) % (2.0 * math.pi) - math.pi)


# Derivatives -------------------------------------------------------------------------------------------------------


@each({**CURVES, **STOPS})
def test_derivatives_are_exact(trajectory):
    """v = ṗ to s = j̇ and the yaw's two, by CasADi's differentiation of the same source, between the joints."""
    t = casadi.SX.sym("t")
    r = trajectory.at(t)
    values = casadi.vertcat(*(casadi.SX(x) for x in (*r.p_W, *r.v_W, *r.a_W, *r.j_W, r.yaw, r.yaw_rate)))
    exact = casadi.Function("rates", [t], [casadi.jacobian(values, t)])
    for time in np.random.default_rng(0).uniform(-0.5, trajectory.duration + 0.5, 200):
        own = trajectory.at(time)
        told = np.array([*own.v_W, *own.a_W, *own.j_W, *own.s_W, own.yaw_rate, own.yaw_acceleration])
        scale = 1.0 + np.abs(told).max()
        assert told == pytest.approx(np.array(exact(time))[:, 0], abs=1e-13 * scale)


@each(RACES)
def test_derivatives_of_polynomials_are_exact(trajectory):
    """The same by differences of sixth order, a millisecond apart, away from the joints."""
    h, weights = 1e-3, np.array([-1.0, 9.0, -45.0, 0.0, 45.0, -9.0, 1.0]) / 60.0
    time = np.random.default_rng(0).uniform(0.0, trajectory.duration, 400)
    joints = np.array([*(mark.time for mark in trajectory.waypoints), *ramps(trajectory)])
    time = time[np.abs(time[:, None] - joints).min(axis=1) > 4.0 * h]
    around = [trajectory.at(time + k * h) for k in range(-3, 4)]
    here = trajectory.at(time)
    for name, rate in (("p_W", "v_W"), ("v_W", "a_W"), ("a_W", "j_W"), ("j_W", "s_W")):
        slope = sum(w * np.array(getattr(r, name)) for w, r in zip(weights, around, strict=True)) / h
        told = np.array(getattr(here, rate))
        assert np.abs(slope - told).max() < 1e-9 * (1.0 + np.abs(told).max())
    yaws = np.unwrap([r.yaw for r in around], axis=0)
    assert weights @ yaws / h == pytest.approx(here.yaw_rate, abs=1e-8)
    assert weights @ np.array([r.yaw_rate for r in around]) / h == pytest.approx(here.yaw_acceleration, abs=1e-6)


@each(EVERY)
def test_pieces_meet(trajectory):
    """Position to acceleration on both sides of every joint, within 1e-9; the jerk too, except where it is the cost."""
    joints = np.unique([0.0, trajectory.duration, *(mark.time for mark in trajectory.waypoints), *ramps(trajectory)])
    before, after = trajectory.at(joints - 1e-13), trajectory.at(joints + 1e-13)
    for name in ("p_W", "v_W", "a_W", "j_W"):
        if name != "j_W" or trajectory not in [EVERY[own] for own in LEAST_JERK]:
            a, b = (np.array(getattr(r, name)) for r in (before, after))
            assert np.abs(a - b).max() < 1e-9, name
    assert apart(before.yaw, after.yaw).max() < 1e-9


def ramps(trajectory):
    """When a cruise stops gathering speed, and starts to lose it: found from outside, as where the speed is level."""
    time = np.linspace(0.0, trajectory.duration, 20001)
    level = size(trajectory.at(time).v_W) > 0.999999 * size(trajectory.at(time).v_W).max()
    return time[level][[0, -1]]


@each(EVERY)
def test_it_rests_before_and_after(trajectory):
    """No speed, acceleration or jerk outside [0, duration], at the first place and the last."""
    first, last = trajectory.at(0.0), trajectory.at(trajectory.duration)
    for moment, end in ((-3.0, first), (0.0, first), (trajectory.duration + 5.0, last)):
        r = trajectory.at(moment)
        assert np.array(r.p_W) == pytest.approx(np.array(end.p_W), abs=1e-9)
        assert np.abs([*r.v_W, *r.a_W, *r.j_W, r.yaw_rate]).max() < 1e-9
    assert size(trajectory.at(trajectory.duration).v_W) < 1e-9


@each({**EVERY, "hover": hover((1.0, 2.0, 3.0), yaw=0.3)})
def test_a_thousand_times_are_one_call(trajectory):
    """Arrays give what floats give, and every component is an array; a float gives floats."""
    time = np.linspace(-0.5, min(trajectory.duration, 30.0) + 0.5, 1000).reshape(10, 100)
    together = trajectory.at(time)
    for leaf in flatten(together):
        assert isinstance(leaf, np.ndarray)
        assert leaf.shape == (10, 100)
    for row, column in ((0, 0), (3, 17), (5, 50), (9, 99)):
        alone = flatten(trajectory.at(float(time[row, column])))
        assert all(type(leaf) is float for leaf in alone)
        assert [leaf[row, column] for leaf in flatten(together)] == pytest.approx(alone, rel=1e-13, abs=1e-13)
    assert flatten(trajectory.at(np.float64(0.4))) == flatten(trajectory.at(0.4))
    assert flatten(trajectory.at(1)) == flatten(trajectory.at(1.0))


# Limits and places -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "speed"),
    [
        *(("line", 2.0), ("take_off", 1.0), ("land", 0.5), ("circle", 3.0), ("clockwise", 3.0), ("helix", 2.0)),
        *(("figure8", 4.0), ("lissajous", 2.5), ("race", 6.0), ("closed race", 6.0)),
        ("jerk race", 6.0),
        ("timed", 15.0 / 8.0 * math.dist(CORNERS[0], CORNERS[1]) / 2.0),
    ],
)
def test_it_is_as_fast_as_asked_and_no_faster(name, speed):
    """The largest of |v| over 50 000 moments: at most the speed, and so much of it as the grid can find."""
    trajectory = EVERY[name]
    fastest = size(trajectory.at(np.linspace(0.0, trajectory.duration, 50001)).v_W).max()
    assert speed * (1.0 - 1e-7) < fastest < speed * (1.0 + 1e-12)


def test_every_leg_peaks_at_the_speed_asked_for():
    """15L/8T: on each of three legs of different length the same 2 m/s."""
    trajectory = EVERY["waypoints"]
    start = 0.0
    for mark in trajectory.waypoints[1:]:
        speed = size(trajectory.at(np.linspace(start, mark.time, 10001)).v_W)
        assert speed.max() == pytest.approx(2.0, rel=1e-12)
        assert speed.argmax() == 5000
        start = mark.time + 0.5


def test_acceleration_is_as_asked():
    """Along a line exactly; in a race that could be faster, its whole size."""
    for name, limit in (("line", 2.0), ("take_off", 2.0), ("short line", 2.0), ("hard race", 3.0)):
        trajectory = EVERY[name]
        hardest = size(trajectory.at(np.linspace(0.0, trajectory.duration, 50001)).a_W).max()
        assert limit * (1.0 - 1e-7) < hardest < limit * (1.0 + 1e-12), name


def test_too_short_a_way_is_flown_slower():
    """Over 0.3 m at 2 m/s² at most v = √(8aL/15), and no time is spent level."""
    trajectory = EVERY["short line"]
    peak = size(trajectory.at(np.linspace(0.0, trajectory.duration, 10001)).v_W).max()
    assert peak == pytest.approx(math.sqrt(8.0 * 2.0 * 0.3 / 15.0), rel=1e-12)
    assert trajectory.duration == pytest.approx(2.0 * 0.3 / peak, rel=1e-12)


@each({name: own for name, own in EVERY.items() if own.waypoints})
def test_waypoints_are_met_at_their_times(trajectory):
    for mark in trajectory.waypoints:
        assert math.dist(trajectory.at(mark.time).p_W, mark.p_W) < 1e-9
    assert [mark.time for mark in trajectory.waypoints] == sorted({mark.time for mark in trajectory.waypoints})


def test_a_race_passes_every_gate_of_every_lap():
    """Open: each once, at speed in between. Closed: five gates twice, and home."""
    assert [mark.p_W for mark in RACES["race"].waypoints] == GATES
    assert [mark.p_W for mark in RACES["closed race"].waypoints] == [*GATES, *GATES, GATES[0]]
    for mark in RACES["race"].waypoints[1:-1]:
        assert size(RACES["race"].at(mark.time).v_W) > 1.0


def test_a_cruise_is_the_integral_of_its_speed():
    """s by Gauss–Legendre quadrature of ṡ, and the whole length at the end."""
    way = cruise_along(7.0, 2.0, 1.5)
    nodes, weights = np.polynomial.legendre.leggauss(20)
    for upper in (0.3 * way.ramp, way.ramp, way.ramp + 0.5 * way.hold, way.duration - 0.2 * way.ramp, way.duration):
        cuts = [0.0, *(t for t in (way.ramp, way.ramp + way.hold) if t < upper), upper]
        parts = [
            0.5 * (b - a) * weights @ cruise(0.5 * (a + b) + 0.5 * (b - a) * nodes, way).ds for a, b in pairwise(cuts)
        ]
        assert cruise(upper, way).s == pytest.approx(sum(parts), rel=1e-14)
    assert cruise(way.duration, way).s == pytest.approx(7.0, rel=1e-15)


# Shapes ------------------------------------------------------------------------------------------------------------


def test_a_circle_is_round_and_its_force_points_inwards():
    """|p − c| = R; at full speed a = v²/R towards the centre and j = v³/R² against the velocity; the right way round."""
    time = np.linspace(0.0, CURVES["circle"].duration, 1001)
    for name, turn in (("circle", 1.0), ("clockwise", -1.0)):
        r = CURVES[name].at(time)
        x, y, z = r.p_W - Vec3(1.0, 2.0, 3.0)
        assert np.hypot(x, y) == pytest.approx(np.full(1001, 2.0), rel=1e-14)
        assert np.abs(z).max() == 0.0
        assert (turn * (x * r.v_W.y - y * r.v_W.x) >= 0.0).all()
    middle = CURVES["circle"].at(0.5 * CURVES["circle"].duration)
    inward = (Vec3(1.0, 2.0, 3.0) - middle.p_W) / 2.0
    assert np.array(middle.a_W) == pytest.approx(np.array(inward * (9.0 / 2.0)), rel=1e-12)
    assert np.array(middle.j_W) == pytest.approx(np.array(middle.v_W * -(9.0 / 4.0)), rel=1e-12)
    start = CURVES["circle"].at(0.0).p_W
    assert np.array(start) == pytest.approx([1.0 + 2.0 * math.cos(0.7), 2.0 + 2.0 * math.sin(0.7), 3.0], rel=1e-15)


def test_a_figure_of_eight_is_geronos_lemniscate():
    """x⁴ = a² (x² − y²), from its crossing and back to it; in two laps it crosses three times in between."""
    eight = CURVES["figure8"]
    p = eight.at(np.linspace(0.0, eight.duration, 2001)).p_W - Vec3(0.0, 1.0, 2.0)
    assert p.x**4 == pytest.approx(9.0 * (p.x**2 - p.y**2), abs=1e-12)
    assert (p.x.max(), p.y.max()) == pytest.approx((3.0, 1.5), rel=1e-5)
    assert np.array(eight.at(0.0).p_W) == pytest.approx([0.0, 1.0, 2.0], abs=1e-12)
    assert np.array(eight.at(eight.duration).p_W) == pytest.approx([0.0, 1.0, 2.0], abs=1e-12)
    assert np.count_nonzero(np.diff(np.sign(p.x[1:-1]))) == 3


def test_a_helix_rises_with_every_turn():
    """z against the angle turned: rise/2π for each radian; three turns, 1.8 m."""
    spiral = CURVES["helix"]
    p = spiral.at(np.linspace(0.0, spiral.duration, 1001)).p_W
    turned = np.unwrap(np.arctan2(p.y, p.x))
    assert p.z - 1.0 == pytest.approx(turned * 0.6 / (2.0 * math.pi), abs=1e-13)
    assert p.z[-1] == pytest.approx(1.0 + 1.8, rel=1e-14)


def test_a_lissajous_figure_is_sines():
    """Where the angle is φ = ∫ṡ of its pace (by the cruise alone), each axis is its own sine; and the figure closes."""
    figure = CURVES["lissajous"]
    time = np.linspace(0.0, figure.duration, 4001)
    fastest = math.sqrt(brute_force(lambda phi: -speed_of_lissajous(phi)))
    angle = cruise(time, cruise_along(2.0 * math.pi, 2.5 / fastest, 2.0 / fastest)).s
    p = figure.at(time).p_W
    assert p.x == pytest.approx(2.0 * np.sin(3.0 * angle + 0.4), abs=1e-7)
    assert p.y == pytest.approx(1.5 * np.sin(2.0 * angle), abs=1e-7)
    assert p.z == pytest.approx(3.0 + 0.5 * np.sin(angle + 1.0), abs=1e-7)
    assert math.dist(figure.at(0.0).p_W, figure.at(figure.duration).p_W) < 1e-12


def speed_of_lissajous(phi):
    """|dp/dφ|²"""
    return (6.0 * np.cos(3.0 * phi + 0.4)) ** 2 + (3.0 * np.cos(2.0 * phi)) ** 2 + (0.5 * np.cos(phi + 1.0)) ** 2


def brute_force(function):
    """The largest of −f over a lap, by SciPy from the best of a grid."""
    grid = np.linspace(0.0, 2.0 * math.pi, 2001)
    best = grid[np.argmin(function(grid))]
    return -minimize_scalar(function, bounds=(best - 0.01, best + 0.01), method="bounded", options={"xatol": 1e-12}).fun


def test_a_landing_is_vertical_and_steady():
    """Nothing sideways; most of the way at the speed asked for, with no acceleration."""
    down = CURVES["land"]
    r = down.at(np.linspace(0.0, down.duration, 1001))
    assert (np.unique(r.p_W.x).tolist(), np.unique(r.p_W.y).tolist()) == ([1.0], [2.0])
    steady = np.abs(r.v_W.z + 0.5) < 1e-14
    assert steady.mean() > 0.8
    assert np.abs(r.a_W.z[steady]).max() < 1e-14
    assert (r.p_W.z[0], r.p_W.z[-1]) == pytest.approx((3.0, 0.0), abs=1e-15)


def test_without_end():
    """A hover, a circle, a lap race: still at speed after an hour, and where they should be."""
    assert hover((1.0, 2.0, 3.0)).duration == math.inf
    orbit = circle((0.0, 0.0, 2.0), radius=2.0, speed=3.0, laps=math.inf)
    loop = race(GATES, speed=6.0, closed=True, laps=math.inf)
    assert orbit.duration == loop.duration == math.inf
    assert size(orbit.at(3600.0).v_W) == pytest.approx(3.0, rel=1e-12)
    lap = loop.waypoints[-1].time - loop.waypoints[0].time
    level = loop.waypoints[-1].time + np.linspace(0.0, 20.0, 200)
    period = race_period(loop, level[0])
    assert period < lap
    for a, b in zip(flatten(loop.at(level)), flatten(loop.at(level + 100.0 * period)), strict=True):
        assert a == pytest.approx(b, abs=1e-8)


def race_period(loop, start):
    """The time of a lap at full speed: when it next comes nearest to where it was at the start, by a grid and a parabola."""
    here = loop.at(start).p_W
    time = start + np.linspace(1.0, 30.0, 29001)
    distance = size(loop.at(time).p_W - here)
    near = time[np.flatnonzero((distance[1:-1] < distance[:-2]) & (distance[1:-1] < distance[2:])) + 1]
    near = near[size(loop.at(near).p_W - here) < 0.02][0]
    for _ in range(20):  # Newton for (p − here)·v = 0
        r = loop.at(near)
        gap = r.p_W - here
        near -= sum(g * v for g, v in zip(gap, r.v_W, strict=True)) / size(r.v_W) ** 2
    return near - start


# Yaw ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["line", "circle", "clockwise", "helix", "figure8"])
def test_the_nose_points_along_the_way(name):
    """ψ = ∠(v_x, v_y) wherever it moves, and the same at rest a moment before and after."""
    trajectory = CURVES[name]
    time = np.linspace(0.05, trajectory.duration - 0.05, 999)
    r = trajectory.at(time)
    assert apart(r.yaw, np.arctan2(r.v_W.y, r.v_W.x)).max() < 1e-9
    assert apart(trajectory.at(0.0).yaw, trajectory.at(1e-3).yaw) < 1e-6


@pytest.mark.parametrize("name", ["race", "closed race"])
def test_the_nose_points_through_every_gate(name):
    """At the gates exactly; between them within a degree, for these gates."""
    trajectory = RACES[name]
    for mark in trajectory.waypoints[1:-1]:
        r = trajectory.at(mark.time)
        assert apart(r.yaw, math.atan2(r.v_W.y, r.v_W.x)) < 1e-9
    r = trajectory.at(np.linspace(0.3, trajectory.duration - 0.3, 999))
    assert apart(r.yaw, np.arctan2(r.v_W.y, r.v_W.x)).max() < math.radians(1.0)


def test_a_yaw_given_is_kept():
    for trajectory in (STOPS["waypoints"], hover((0.0, 0.0, 1.0), yaw=1.0), race(GATES, speed=3.0, yaw=1.0)):
        r = trajectory.at(np.linspace(0.0, 5.0, 50))
        assert (np.unique(r.yaw).tolist(), np.unique(r.yaw_rate).tolist()) == ([1.0], [0.0])


# Optimality --------------------------------------------------------------------------------------------------------


def test_minimum_jerk_is_the_least_jerk():
    """From rest to rest by 400 pieces of constant jerk: the least squares of them, through SciPy, are the polynomial.

    The discretised optimum approaches the continuous one with h²: four times the pieces, a sixteenth of the distance.
    """

    def worst(n, duration=2.0):
        h = duration / n
        step = np.array([[1.0, h, h * h / 2.0], [0.0, 1.0, h], [0.0, 0.0, 1.0]])
        push = np.array([h**3 / 6.0, h * h / 2.0, h])
        reach = np.empty((3, n))
        for k in range(n - 1, -1, -1):
            reach[:, k] = push
            push = step @ push
        jerk = lstsq(reach, np.array([1.0, 0.0, 0.0]))[0]  # the smallest of all that arrive
        x, path = np.zeros(3), []
        for j in jerk:
            x = step @ x + np.array([h**3 / 6.0, h * h / 2.0, h]) * j
            path.append(x[0])
        return np.abs(np.array(path) - minimum_jerk(h * np.arange(1, n + 1), duration).s).max()

    coarse, fine = worst(100), worst(400)
    assert fine < 2e-6
    assert coarse / fine == pytest.approx(16.0, rel=0.01)


@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("closed", [False, True])
def test_least_snap_is_scipys_spline(order, closed):
    """The minimiser of ∫|p⁽ʳ⁾|² through points is the spline of degree 2r − 1, clamped at rest or periodic."""
    points, durations = np.array([*GATES, GATES[0]]), np.array([1.0, 0.7, 1.4, 1.1, 0.9])
    own = minimum_derivative(points, durations, order=order, closed=closed)
    rest = [(k, np.zeros(3)) for k in range(1, order)]
    ends = "periodic" if closed else (rest, rest)
    spline = make_interp_spline(own.knots, points, k=2 * order - 1, bc_type=ends)
    time = np.linspace(0.0, own.knots[-1], 999)
    derivatives = own.derivatives(time, 2 * order - 1)
    for k in range(2 * order - 1):
        expected = spline(time, k)
        assert np.abs(derivatives[:, k] - expected).max() < 1e-10 * (1.0 + np.abs(expected).max())


@pytest.mark.parametrize("order", [3, 4])
def test_least_snap_solves_the_whole_quadratic_programme(order):
    """min cᵀQc, Ac = b with its multipliers, [Q Aᵀ; A 0][c; λ] = [0; b], all constraints written out: the same polynomials."""
    points, durations = np.array(GATES), np.array([1.0, 0.8, 1.3, 1.1])
    own = minimum_derivative(points, durations, order=order)
    m, n = len(durations), 2 * order
    quadratic = np.zeros((m * n, m * n))
    for i, T in enumerate(durations):
        for j in range(order, n):
            for k in range(order, n):
                power = j + k - 2 * order + 1
                quadratic[i * n + j, i * n + k] = math.perm(j, order) * math.perm(k, order) * T**power / power

    def row(piece, t, derivative):
        out = np.zeros(m * n)
        for j in range(derivative, n):
            out[piece * n + j] = math.perm(j, derivative) * t ** (j - derivative)
        return out

    rows, values = [], []
    for i, T in enumerate(durations):
        rows += [row(i, 0.0, 0), row(i, T, 0)]
        values += [points[i], points[i + 1]]
    for k in range(1, order):
        rows += [row(0, 0.0, k), row(m - 1, durations[-1], k)]
        values += [np.zeros(3)] * 2
        for i in range(m - 1):
            rows.append(row(i, durations[i], k) - row(i + 1, 0.0, k))
            values.append(np.zeros(3))
    constraints = np.array(rows)
    size_of = len(constraints)
    matrix = np.block([[quadratic, constraints.T], [constraints, np.zeros((size_of, size_of))]])
    solved = np.linalg.solve(matrix, np.concatenate([np.zeros((m * n, 3)), np.array(values)]))[: m * n]
    powers = durations[:, None] ** np.arange(n)
    expected = solved.reshape(m, n, 3) * powers[:, :, None]
    assert np.abs(own.coefficients - expected).max() < 1e-9 * np.abs(expected).max()


@pytest.mark.parametrize(("order", "closed"), [(3, False), (4, False), (4, True)])
def test_at_the_gates_it_is_smoother_than_anyone_asked(order, closed):
    """Constraints join the derivatives below r; optimality those up to 2r − 2, the sixth for snap, and no further."""
    points = np.array([*GATES, GATES[0]])
    own = minimum_derivative(points, np.full(5, 1.1), order=order, closed=closed)
    ends = np.stack([own.derivative_coefficients[:, :, k].sum(axis=1) for k in range(2 * order)])  # at u = 1
    starts = np.stack([own.derivative_coefficients[:, 0, k] for k in range(2 * order)])  # at u = 0
    after = np.roll(starts, -1, axis=1) if closed else starts[:, 1:]
    before = ends if closed else ends[:, :-1]
    gaps = np.abs(before - after)
    for k in range(2 * order - 1):
        assert gaps[k].max() < 1e-9 * (1.0 + np.abs(starts[k]).max()), k
    assert gaps[2 * order - 1].max() > 1.0


def test_any_other_way_through_the_gates_has_more_snap():
    """∫|p⁗|² by quadrature, of the curve and of it with any of its inner derivatives changed a little."""
    points, durations = np.array(GATES), np.array([1.0, 0.8, 1.3, 1.1])
    best = minimum_derivative(points, durations)
    rng = np.random.default_rng(1)
    for _ in range(20):
        sway = minimum_derivative(
            rng.normal(size=(9, 3)) * np.isin(np.arange(9), [1, 3, 5, 7])[:, None], halves(durations)
        )
        assert snap(best, sway, 0.01) > snap(best, sway, 0.0)
        assert snap(best, sway, -0.01) > snap(best, sway, 0.0)


def halves(durations):
    return np.repeat(durations / 2.0, 2)


def snap(curve, other, share):
    """∫ |(p + share · q)⁗|² dt: q is zero at the gates, at rest at the ends, and smooth to the third derivative and beyond"""
    nodes, weights = np.polynomial.legendre.leggauss(12)
    total = 0.0
    for a, b in pairwise(other.knots):
        time = 0.5 * (a + b) + 0.5 * (b - a) * nodes
        both = curve.derivatives(time, 5)[:, 4] + share * other.derivatives(time, 5)[:, 4]
        total += 0.5 * (b - a) * weights @ (both**2).sum(axis=1)
    return total


def test_the_largest_derivative_is_found():
    """By the roots of a polynomial, against a grid of 50 000 moments."""
    own = minimum_derivative(np.array(GATES), np.array([1.0, 0.8, 1.3, 1.1]))
    dense = own.derivatives(np.linspace(0.0, own.knots[-1], 50001), 4)
    for k in range(4):
        assert own.largest(k) == pytest.approx(np.linalg.norm(dense[:, k], axis=1).max(), rel=1e-7)
        assert own.stretched(2.0).largest(k) == pytest.approx(own.largest(k) / 2.0**k, rel=1e-12)


# One after the other -----------------------------------------------------------------------------------------------


def test_moved_it_is_the_same_so_far_away():
    """Places and waypoints by the shift, twice by both; velocity and all above it unchanged."""
    here = figure8((0.0, 0.0, 2.0), reach=3.0, speed=2.0, laps=2)
    once, twice = Vec3(1.0, -2.0, 0.5), Vec3(0.25, 0.5, 1.0)
    there = here.moved(once).moved(twice)
    for time in (0.0, 1.7, np.array([0.3, 2.0, 4.0])):
        own, other = here.at(time), there.at(time)
        away = np.stack(np.broadcast_arrays(*(other.p_W - own.p_W)), axis=-1)
        assert away == pytest.approx(np.broadcast_to(once + twice, away.shape))
        assert np.array_equal(flatten(other._replace(p_W=own.p_W)), flatten(own))
    assert [mark.time for mark in there.waypoints] == [mark.time for mark in here.waypoints]
    for mark, before in zip(there.waypoints, here.waypoints, strict=True):
        assert tuple(mark.p_W - before.p_W) == pytest.approx(once + twice)


def test_a_sequence_is_its_parts():
    up, eight = take_off((0.0, 0.0, 0.0), height=2.0), figure8((0.0, 0.0, 2.0), reach=2.0, speed=2.0)
    wait, down = hover((0.0, 0.0, 2.0), duration=1.5), land((0.0, 0.0, 2.0))
    flight = sequence(up, eight, wait, down)
    assert flight.duration == pytest.approx(sum(part.duration for part in (up, eight, wait, down)), rel=1e-15)
    start = 0.0
    for part in (up, eight, wait, down):
        own = np.linspace(1e-6, part.duration - 1e-6, 50)
        for a, b in zip(flatten(flight.at(start + own)), flatten(part.at(own)), strict=True):
            assert a == pytest.approx(b, abs=1e-12 * (1.0 + np.abs(b).max()))
        start += part.duration
    assert flight.at(0.0).p_W == (0.0, 0.0, 0.0)
    assert flight.at(1e4).p_W == pytest.approx((0.0, 0.0, 0.0), abs=1e-12)
    assert flight.waypoints[-1].time == pytest.approx(flight.duration, rel=1e-15)


# What cannot be flown ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: hover((0.0, math.nan, 1.0)), "hover: p_W.y is nan; expected a finite number"),
        (lambda: hover((0.0, 1.0)), r"hover: p_W is \(0.0, 1.0\); expected three numbers"),
        (lambda: hover((0.0, 0.0, 1.0), duration=0.0), "hover: duration is 0.0; expected a positive number"),
        (lambda: hover((0.0, 0.0, 1.0), yaw="along"), "hover: yaw is 'along'; expected a finite number"),
        (lambda: waypoints([(0.0, 0.0, 1.0)], speed=1.0), "waypoints: got 1 points; expected at least 2"),
        (lambda: waypoints(CORNERS), "waypoints: expected either speed or travel"),
        (lambda: waypoints(CORNERS, speed=-1.0), "waypoints: speed is -1.0; expected a positive number"),
        (lambda: waypoints(CORNERS, travel=0.0), "waypoints: travel is 0.0; expected a positive number"),
        (lambda: waypoints(CORNERS, travel=[1.0, 2.0]), "waypoints: travel has 2 times; expected 3, one for each leg"),
        (
            lambda: waypoints(CORNERS, speed=1.0, rest=-1.0),
            r"legs\[0\].rest is -1.0; expected a number that is not negative",
        ),
        (
            lambda: waypoints([*CORNERS, CORNERS[-1]], speed=1.0),
            "waypoints: points 3 and the next coincide; expected distinct points",
        ),
        (lambda: legs((0.0, 0.0, 0.0), []), "legs: got none; expected at least one"),
        (lambda: line((0.0, 0.0, 0.0), (0.0, 0.0, 5.0), speed=1.0, yaw="along"), "line: it is vertical"),
        (
            lambda: line((0.0, 0.0, 0.0), (1.0, 0.0, 5.0), speed=1.0, yaw="up"),
            "line: yaw is 'up'; expected a finite number or",
        ),
        (
            lambda: line((0.0, 0.0, 0.0), (1.0, 0.0, 5.0), speed=math.nan),
            "line: speed is nan; expected a positive number",
        ),
        (lambda: take_off((0.0, 0.0, 3.0), height=2.0), "take_off: height is 2 m; expected one above the start at 3 m"),
        (lambda: land((0.0, 0.0, 1.0), height=2.0), "land: height is 2 m; expected one below the start at 1 m"),
        (lambda: circle((0.0, 0.0, 1.0), radius=0.0, speed=1.0), "circle: radius is 0.0; expected a positive number"),
        (
            lambda: circle((0.0, 0.0, 1.0), radius=1.0, speed=1.0, laps=0),
            "circle: laps is 0; expected a positive number",
        ),
        (lambda: helix((0.0, 0.0, 1.0), radius=1.0, rise=1.0, turns=-1.0, speed=1.0), "helix: turns is -1.0"),
        (lambda: figure8((0.0, 0.0, 1.0), reach=1.0, speed=1.0, acceleration=0.0), "figure8: acceleration is 0.0"),
        (
            lambda: lissajous((0.0, 0.0, 1.0), amplitude=(1, 1, 0), frequency=(1.5, 1, 0), speed=1.0),
            "lissajous: frequency.x is 1.5; expected a whole number",
        ),
        (
            lambda: lissajous((0.0, 0.0, 1.0), amplitude=(1, 0, 0), frequency=(0, 1, 1), speed=1.0),
            "lissajous: the curve is a point",
        ),
        (lambda: race(GATES[:2], speed=1.0, closed=True), "race: got 2 points; expected at least 3"),
        (lambda: race(GATES, speed=1.0, laps=2), "race: laps is 2; expected 1, or closed=True"),
        (lambda: race(GATES, speed=1.0, order=5), r"race: order is 5; expected 3 \(jerk\) or 4 \(snap\)"),
        (lambda: race([*GATES, GATES[0]], speed=1.0, closed=True), "race: points 5 and the next coincide"),
        (
            lambda: race([(0.0, 0.0, 1.0), (0.0, 0.0, 2.0), (0.0, 0.0, 4.0)], speed=1.0, yaw="along"),
            "race: it is vertical",
        ),
        (
            lambda: sequence(hover((0.0, 0.0, 1.0)), land((0.0, 0.0, 1.0))),
            "sequence: hover never ends; expected it last",
        ),
        (
            lambda: sequence(take_off((0.0, 0.0, 0.0), height=1.0), land((0.0, 0.0, 2.0))),
            r"sequence: take_off ends at \(0.0, 0.0, 1.0\); expected land to start there, not at \(0.0, 0.0, 2.0\)",
        ),
        (lambda: sequence(), "sequence: got no trajectory; expected at least one"),
        (lambda: CURVES["line"].at(math.nan), "line: time is nan; expected a finite number of seconds"),
        (lambda: CURVES["line"].at(np.array([0.0, math.inf])), "line: a time is not finite"),
        (lambda: minimum_derivative(np.zeros((3, 2)), [1.0]), r"points have shape \(3, 2\) and durations \(1,\)"),
        (lambda: minimum_derivative(np.zeros((2, 2)), [-1.0]), "durations that are positive"),
        (lambda: minimum_derivative(np.zeros((2, 2)), [1.0], order=1), "order is 1; expected 2"),
    ],
)
def test_it_is_refused_in_one_sentence(build, sentence):
    with pytest.raises(ValueError, match=f"^.*{sentence}"):
        build()


def test_what_scenarios_are_made_of_imports_nothing_heavy():
    heavy = ("jax", "casadi", "sympy", "scipy", "matplotlib", "llvmlite")
    program = (
        "import sys, samara.core.random, samara.wind.sources, samara.estimate.ideal, samara.plan.trajectory; "
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
