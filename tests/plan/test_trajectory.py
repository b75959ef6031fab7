"""Trajectories: derivatives are consistent, pieces meet, limits hold, and minimum-snap curves are optimal."""

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
from samara.plan.reference import StraightLeg, cruise_motion, cruise_profile, minimum_jerk
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
    "circle": circle((1.0, 2.0, 3.0), radius=2.0, speed=3.0, laps=2.0, start_angle=0.7, yaw="along"),
    "clockwise": circle((1.0, 2.0, 3.0), radius=2.0, speed=3.0, clockwise=True, yaw="along"),
    "helix": helix((0.0, 0.0, 1.0), radius=1.5, height_per_turn=0.6, turns=3.0, speed=2.0, yaw="along"),
    "figure8": figure8((0.0, 1.0, 2.0), half_length=3.0, speed=4.0, laps=2.0, yaw="along"),
    "lissajous": lissajous(
        (0.0, 0.0, 3.0), amplitude=(2.0, 1.5, 0.5), frequency=(3, 2, 1), phase=(0.4, 0.0, 1.0), speed=2.5
    ),
}
STOPS = {
    "waypoints": waypoints(CORNERS, speed=2.0, hold_time=0.5, yaw=1.0),
    "timed": waypoints(CORNERS, leg_duration=[2.0, 3.0, 2.5]),
    "legs": legs(
        (0.0, 0.0, 0.1),
        [StraightLeg("up", Vec3(0.0, 0.0, 5.0), 4.0, 1.0), StraightLeg("on", Vec3(3.0, 0.0, 5.0), 3.0, 0.0)],
    ),
}
RACES = {
    "race": race(GATES, speed=6.0, yaw="along"),
    "hard race": race(GATES, speed=60.0, acceleration=3.0),
    "jerk race": race(GATES, speed=6.0, acceleration=50.0, order=3),
    "closed race": race(GATES, speed=6.0, acceleration=20.0, closed=True, laps=2.0, yaw="along"),
}
EVERY = {**CURVES, **STOPS, **RACES}
MINIMUM_JERK = {*STOPS, "jerk race"}  # their jerk steps at the ends, as the least jerk must


def parametrize_trajectories(trajectories):
    return pytest.mark.parametrize("trajectory", trajectories.values(), ids=trajectories.keys())


def vector_norm(vectors):
    return np.sqrt(sum(component**2 for component in vectors))


def angle_between(a, b):
    """The angle from b to a, modulo full turns."""
    return np.abs((a - b + math.pi) % (2.0 * math.pi) - math.pi)


# Derivatives -------------------------------------------------------------------------------------------------------


@parametrize_trajectories({**CURVES, **STOPS})
def test_derivatives_are_exact(trajectory):
    """v = ṗ to s = j̇ and the two of the yaw, by CasADi's differentiation of the same source, between the joints."""
    t = casadi.SX.sym("t")
    r = trajectory.evaluate(t)
    values = casadi.vertcat(*(casadi.SX(x) for x in (*r.p_W, *r.v_W, *r.a_W, *r.j_W, r.yaw, r.yaw_rate)))
    exact = casadi.Function("rates", [t], [casadi.jacobian(values, t)])
    for time in np.random.default_rng(0).uniform(-0.5, trajectory.duration + 0.5, 200):
        reference = trajectory.evaluate(time)
        derivatives = np.array(
            [
                *reference.v_W,
                *reference.a_W,
                *reference.j_W,
                *reference.s_W,
                reference.yaw_rate,
                reference.yaw_acceleration,
            ]
        )
        scale = 1.0 + np.abs(derivatives).max()
        assert derivatives == pytest.approx(np.array(exact(time))[:, 0], abs=1e-13 * scale)


@parametrize_trajectories(RACES)
def test_derivatives_of_polynomials_are_exact(trajectory):
    """The same by differences of sixth order, a millisecond apart, away from the joints."""
    h, weights = 1e-3, np.array([-1.0, 9.0, -45.0, 0.0, 45.0, -9.0, 1.0]) / 60.0
    time = np.random.default_rng(0).uniform(0.0, trajectory.duration, 400)
    joints = np.array([*(waypoint.time for waypoint in trajectory.waypoints), *cruise_ends(trajectory)])
    time = time[np.abs(time[:, None] - joints).min(axis=1) > 4.0 * h]
    neighbours = [trajectory.evaluate(time + k * h) for k in range(-3, 4)]
    reference = trajectory.evaluate(time)
    for name, rate in (("p_W", "v_W"), ("v_W", "a_W"), ("a_W", "j_W"), ("j_W", "s_W")):
        slope = sum(w * np.array(getattr(r, name)) for w, r in zip(weights, neighbours, strict=True)) / h
        expected = np.array(getattr(reference, rate))
        assert np.abs(slope - expected).max() < 1e-9 * (1.0 + np.abs(expected).max())
    yaws = np.unwrap([r.yaw for r in neighbours], axis=0)
    assert weights @ yaws / h == pytest.approx(reference.yaw_rate, abs=1e-8)
    assert weights @ np.array([r.yaw_rate for r in neighbours]) / h == pytest.approx(
        reference.yaw_acceleration, abs=1e-6
    )


@parametrize_trajectories(EVERY)
def test_pieces_meet(trajectory):
    """Position to acceleration on both sides of every joint, within 1e-9; the jerk too, except if it is the cost."""
    joints = np.unique(
        [0.0, trajectory.duration, *(waypoint.time for waypoint in trajectory.waypoints), *cruise_ends(trajectory)]
    )
    before, after = trajectory.evaluate(joints - 1e-13), trajectory.evaluate(joints + 1e-13)
    for name in ("p_W", "v_W", "a_W", "j_W"):
        if name != "j_W" or trajectory not in [EVERY[name_exempt] for name_exempt in MINIMUM_JERK]:
            a, b = (np.array(getattr(r, name)) for r in (before, after))
            assert np.abs(a - b).max() < 1e-9, name
    assert angle_between(before.yaw, after.yaw).max() < 1e-9


def cruise_ends(trajectory):
    """Times at which a cruise reaches and leaves its full speed, from the samples of the speed."""
    time = np.linspace(0.0, trajectory.duration, 20001)
    is_cruising = (
        vector_norm(trajectory.evaluate(time).v_W) > 0.999999 * vector_norm(trajectory.evaluate(time).v_W).max()
    )
    return time[is_cruising][[0, -1]]


@parametrize_trajectories(EVERY)
def test_it_rests_before_and_after(trajectory):
    """Zero speed, acceleration and jerk outside [0, duration], at the first position and the last."""
    first, last = trajectory.evaluate(0.0), trajectory.evaluate(trajectory.duration)
    for time, end in ((-3.0, first), (0.0, first), (trajectory.duration + 5.0, last)):
        r = trajectory.evaluate(time)
        assert np.array(r.p_W) == pytest.approx(np.array(end.p_W), abs=1e-9)
        assert np.abs([*r.v_W, *r.a_W, *r.j_W, r.yaw_rate]).max() < 1e-9
    assert vector_norm(trajectory.evaluate(trajectory.duration).v_W) < 1e-9


@parametrize_trajectories({**EVERY, "hover": hover((1.0, 2.0, 3.0), yaw=0.3)})
def test_a_thousand_times_are_one_call(trajectory):
    """Arrays give the values of floats, and every component is an array; a float gives floats."""
    time = np.linspace(-0.5, min(trajectory.duration, 30.0) + 0.5, 1000).reshape(10, 100)
    batch = trajectory.evaluate(time)
    for leaf in flatten(batch):
        assert isinstance(leaf, np.ndarray)
        assert leaf.shape == (10, 100)
    for row, column in ((0, 0), (3, 17), (5, 50), (9, 99)):
        single = flatten(trajectory.evaluate(float(time[row, column])))
        assert all(type(leaf) is float for leaf in single)
        assert [leaf[row, column] for leaf in flatten(batch)] == pytest.approx(single, rel=1e-13, abs=1e-13)
    assert flatten(trajectory.evaluate(np.float64(0.4))) == flatten(trajectory.evaluate(0.4))
    assert flatten(trajectory.evaluate(1)) == flatten(trajectory.evaluate(1.0))


# Limits and waypoints ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "speed"),
    [
        *(("line", 2.0), ("take_off", 1.0), ("land", 0.5), ("circle", 3.0), ("clockwise", 3.0), ("helix", 2.0)),
        *(("figure8", 4.0), ("lissajous", 2.5), ("race", 6.0), ("closed race", 6.0)),
        ("jerk race", 6.0),
        ("timed", 15.0 / 8.0 * math.dist(CORNERS[0], CORNERS[1]) / 2.0),
    ],
)
def test_the_peak_speed_is_the_given_speed(name, speed):
    """The maximum of |v| over 50 000 samples: at most the speed, and close to it."""
    trajectory = EVERY[name]
    peak_speed = vector_norm(trajectory.evaluate(np.linspace(0.0, trajectory.duration, 50001)).v_W).max()
    assert speed * (1.0 - 1e-7) < peak_speed < speed * (1.0 + 1e-12)


def test_every_leg_peaks_at_the_given_speed():
    """15L/8T: on each of three legs of different length the same 2 m/s."""
    trajectory = EVERY["waypoints"]
    start = 0.0
    for waypoint in trajectory.waypoints[1:]:
        speed = vector_norm(trajectory.evaluate(np.linspace(start, waypoint.time, 10001)).v_W)
        assert speed.max() == pytest.approx(2.0, rel=1e-12)
        assert speed.argmax() == 5000
        start = waypoint.time + 0.5


def test_the_peak_acceleration_is_the_given_one():
    """Along a line exactly; in a race that could be faster, its norm."""
    for name, limit in (("line", 2.0), ("take_off", 2.0), ("short line", 2.0), ("hard race", 3.0)):
        trajectory = EVERY[name]
        peak_acceleration = vector_norm(trajectory.evaluate(np.linspace(0.0, trajectory.duration, 50001)).a_W).max()
        assert limit * (1.0 - 1e-7) < peak_acceleration < limit * (1.0 + 1e-12), name


def test_a_short_line_is_flown_slower():
    """Over 0.3 m at 2 m/s² the peak is v = √(8aL/15), without a cruise phase."""
    trajectory = EVERY["short line"]
    peak = vector_norm(trajectory.evaluate(np.linspace(0.0, trajectory.duration, 10001)).v_W).max()
    assert peak == pytest.approx(math.sqrt(8.0 * 2.0 * 0.3 / 15.0), rel=1e-12)
    assert trajectory.duration == pytest.approx(2.0 * 0.3 / peak, rel=1e-12)


@parametrize_trajectories({name: trajectory for name, trajectory in EVERY.items() if trajectory.waypoints})
def test_waypoints_are_met_at_their_times(trajectory):
    for waypoint in trajectory.waypoints:
        assert math.dist(trajectory.evaluate(waypoint.time).p_W, waypoint.p_W) < 1e-9
    assert [waypoint.time for waypoint in trajectory.waypoints] == sorted(
        {waypoint.time for waypoint in trajectory.waypoints}
    )


def test_a_race_passes_every_gate_of_every_lap():
    """Open: each once, at speed in between. Closed: five gates twice, and back to the start."""
    assert [waypoint.p_W for waypoint in RACES["race"].waypoints] == GATES
    assert [waypoint.p_W for waypoint in RACES["closed race"].waypoints] == [*GATES, *GATES, GATES[0]]
    for waypoint in RACES["race"].waypoints[1:-1]:
        assert vector_norm(RACES["race"].evaluate(waypoint.time).v_W) > 1.0


def test_a_cruise_is_the_integral_of_its_speed():
    """s by Gauss–Legendre quadrature of ṡ, and the full length at the end."""
    profile = cruise_profile(7.0, 2.0, 1.5)
    nodes, weights = np.polynomial.legendre.leggauss(20)
    for upper in (
        0.3 * profile.ramp,
        profile.ramp,
        profile.ramp + 0.5 * profile.hold,
        profile.duration - 0.2 * profile.ramp,
        profile.duration,
    ):
        cuts = [0.0, *(t for t in (profile.ramp, profile.ramp + profile.hold) if t < upper), upper]
        parts = [
            0.5 * (b - a) * weights @ cruise_motion(0.5 * (a + b) + 0.5 * (b - a) * nodes, profile).ds
            for a, b in pairwise(cuts)
        ]
        assert cruise_motion(upper, profile).s == pytest.approx(sum(parts), rel=1e-14)
    assert cruise_motion(profile.duration, profile).s == pytest.approx(7.0, rel=1e-15)


# Shapes ------------------------------------------------------------------------------------------------------------


def test_a_circle_is_round_and_its_force_points_inwards():
    """|p − c| = R; at full speed a = v²/R towards the centre and j = v³/R² against the velocity; in the given direction."""
    time = np.linspace(0.0, CURVES["circle"].duration, 1001)
    for name, direction in (("circle", 1.0), ("clockwise", -1.0)):
        r = CURVES[name].evaluate(time)
        x, y, z = r.p_W - Vec3(1.0, 2.0, 3.0)
        assert np.hypot(x, y) == pytest.approx(np.full(1001, 2.0), rel=1e-14)
        assert np.abs(z).max() == 0.0
        assert (direction * (x * r.v_W.y - y * r.v_W.x) >= 0.0).all()
    middle = CURVES["circle"].evaluate(0.5 * CURVES["circle"].duration)
    inward = (Vec3(1.0, 2.0, 3.0) - middle.p_W) / 2.0
    assert np.array(middle.a_W) == pytest.approx(np.array(inward * (9.0 / 2.0)), rel=1e-12)
    assert np.array(middle.j_W) == pytest.approx(np.array(middle.v_W * -(9.0 / 4.0)), rel=1e-12)
    start = CURVES["circle"].evaluate(0.0).p_W
    assert np.array(start) == pytest.approx([1.0 + 2.0 * math.cos(0.7), 2.0 + 2.0 * math.sin(0.7), 3.0], rel=1e-15)


def test_a_figure_of_eight_is_geronos_lemniscate():
    """x⁴ = a² (x² − y²), from its crossing and back to it; in two laps it crosses three times in between."""
    eight = CURVES["figure8"]
    p = eight.evaluate(np.linspace(0.0, eight.duration, 2001)).p_W - Vec3(0.0, 1.0, 2.0)
    assert p.x**4 == pytest.approx(9.0 * (p.x**2 - p.y**2), abs=1e-12)
    assert (p.x.max(), p.y.max()) == pytest.approx((3.0, 1.5), rel=1e-5)
    assert np.array(eight.evaluate(0.0).p_W) == pytest.approx([0.0, 1.0, 2.0], abs=1e-12)
    assert np.array(eight.evaluate(eight.duration).p_W) == pytest.approx([0.0, 1.0, 2.0], abs=1e-12)
    assert np.count_nonzero(np.diff(np.sign(p.x[1:-1]))) == 3


def test_a_helix_rises_with_every_turn():
    """z against the angle: rise/2π per radian; three turns, 1.8 m."""
    spiral = CURVES["helix"]
    p = spiral.evaluate(np.linspace(0.0, spiral.duration, 1001)).p_W
    angle = np.unwrap(np.arctan2(p.y, p.x))
    assert p.z - 1.0 == pytest.approx(angle * 0.6 / (2.0 * math.pi), abs=1e-13)
    assert p.z[-1] == pytest.approx(1.0 + 1.8, rel=1e-14)


def test_a_lissajous_figure_is_sines():
    """At the angle φ = ∫ṡ (by the cruise alone), each axis is a sine; and the figure is closed."""
    figure = CURVES["lissajous"]
    time = np.linspace(0.0, figure.duration, 4001)
    max_slope = math.sqrt(brute_force(lambda phi: -squared_slope_of_lissajous(phi)))
    angle = cruise_motion(time, cruise_profile(2.0 * math.pi, 2.5 / max_slope, 2.0 / max_slope)).s
    p = figure.evaluate(time).p_W
    assert p.x == pytest.approx(2.0 * np.sin(3.0 * angle + 0.4), abs=1e-7)
    assert p.y == pytest.approx(1.5 * np.sin(2.0 * angle), abs=1e-7)
    assert p.z == pytest.approx(3.0 + 0.5 * np.sin(angle + 1.0), abs=1e-7)
    assert math.dist(figure.evaluate(0.0).p_W, figure.evaluate(figure.duration).p_W) < 1e-12


def squared_slope_of_lissajous(phi):
    """|dp/dφ|²"""
    return (6.0 * np.cos(3.0 * phi + 0.4)) ** 2 + (3.0 * np.cos(2.0 * phi)) ** 2 + (0.5 * np.cos(phi + 1.0)) ** 2


def brute_force(function):
    """The maximum of −f over a lap, by SciPy from the best of a grid."""
    grid = np.linspace(0.0, 2.0 * math.pi, 2001)
    best = grid[np.argmin(function(grid))]
    return -minimize_scalar(function, bounds=(best - 0.01, best + 0.01), method="bounded", options={"xatol": 1e-12}).fun


def test_a_landing_is_vertical_and_steady():
    """No horizontal motion; mostly at the given speed, with zero acceleration."""
    down = CURVES["land"]
    r = down.evaluate(np.linspace(0.0, down.duration, 1001))
    assert (np.unique(r.p_W.x).tolist(), np.unique(r.p_W.y).tolist()) == ([1.0], [2.0])
    steady = np.abs(r.v_W.z + 0.5) < 1e-14
    assert steady.mean() > 0.8
    assert np.abs(r.a_W.z[steady]).max() < 1e-14
    assert (r.p_W.z[0], r.p_W.z[-1]) == pytest.approx((3.0, 0.0), abs=1e-15)


def test_endless_trajectories():
    """A hover, a circle, a lap race: still at speed and on the curve after an hour."""
    assert hover((1.0, 2.0, 3.0)).duration == math.inf
    orbit = circle((0.0, 0.0, 2.0), radius=2.0, speed=3.0, laps=math.inf)
    loop = race(GATES, speed=6.0, closed=True, laps=math.inf)
    assert orbit.duration == loop.duration == math.inf
    assert vector_norm(orbit.evaluate(3600.0).v_W) == pytest.approx(3.0, rel=1e-12)
    lap = loop.waypoints[-1].time - loop.waypoints[0].time
    times = loop.waypoints[-1].time + np.linspace(0.0, 20.0, 200)
    period = race_period(loop, times[0])
    assert period < lap
    for a, b in zip(flatten(loop.evaluate(times)), flatten(loop.evaluate(times + 100.0 * period)), strict=True):
        assert a == pytest.approx(b, abs=1e-8)


def race_period(loop, start):
    """The lap time at full speed: the time of the next closest approach to the start, by a grid and Newton's method."""
    start_position = loop.evaluate(start).p_W
    time = start + np.linspace(1.0, 30.0, 29001)
    distance = vector_norm(loop.evaluate(time).p_W - start_position)
    nearest_time = time[np.flatnonzero((distance[1:-1] < distance[:-2]) & (distance[1:-1] < distance[2:])) + 1]
    nearest_time = nearest_time[vector_norm(loop.evaluate(nearest_time).p_W - start_position) < 0.02][0]
    for _ in range(20):  # Newton for (p − here)·v = 0
        r = loop.evaluate(nearest_time)
        gap = r.p_W - start_position
        nearest_time -= sum(g * v for g, v in zip(gap, r.v_W, strict=True)) / vector_norm(r.v_W) ** 2
    return nearest_time - start


# Yaw ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["line", "circle", "clockwise", "helix", "figure8"])
def test_the_nose_points_along_the_path(name):
    """ψ = ∠(v_x, v_y) while moving, and the same at rest just before and after."""
    trajectory = CURVES[name]
    time = np.linspace(0.05, trajectory.duration - 0.05, 999)
    r = trajectory.evaluate(time)
    assert angle_between(r.yaw, np.arctan2(r.v_W.y, r.v_W.x)).max() < 1e-9
    assert angle_between(trajectory.evaluate(0.0).yaw, trajectory.evaluate(1e-3).yaw) < 1e-6


@pytest.mark.parametrize("name", ["race", "closed race"])
def test_the_nose_points_through_every_gate(name):
    """At the gates exactly; between them within a degree, for these gates."""
    trajectory = RACES[name]
    for waypoint in trajectory.waypoints[1:-1]:
        r = trajectory.evaluate(waypoint.time)
        assert angle_between(r.yaw, math.atan2(r.v_W.y, r.v_W.x)) < 1e-9
    r = trajectory.evaluate(np.linspace(0.3, trajectory.duration - 0.3, 999))
    assert angle_between(r.yaw, np.arctan2(r.v_W.y, r.v_W.x)).max() < math.radians(1.0)


def test_a_given_yaw_is_constant():
    for trajectory in (STOPS["waypoints"], hover((0.0, 0.0, 1.0), yaw=1.0), race(GATES, speed=3.0, yaw=1.0)):
        r = trajectory.evaluate(np.linspace(0.0, 5.0, 50))
        assert (np.unique(r.yaw).tolist(), np.unique(r.yaw_rate).tolist()) == ([1.0], [0.0])


# Optimality --------------------------------------------------------------------------------------------------------


def test_minimum_jerk_is_the_least_jerk():
    """From rest to rest by 400 pieces of constant jerk: their least squares, by SciPy, are the polynomial.

    The discretised optimum approaches the continuous one with h²: four times the pieces, a sixteenth of the distance.
    """

    def max_deviation(n, duration=2.0):
        h = duration / n
        step = np.array([[1.0, h, h * h / 2.0], [0.0, 1.0, h], [0.0, 0.0, 1.0]])
        response = np.array([h**3 / 6.0, h * h / 2.0, h])
        controllability = np.empty((3, n))
        for i in range(n - 1, -1, -1):
            controllability[:, i] = response
            response = step @ response
        jerk = lstsq(controllability, np.array([1.0, 0.0, 0.0]))[0]  # the minimum-norm solution
        x, path = np.zeros(3), []
        for j in jerk:
            x = step @ x + np.array([h**3 / 6.0, h * h / 2.0, h]) * j
            path.append(x[0])
        return np.abs(np.array(path) - minimum_jerk(h * np.arange(1, n + 1), duration).s).max()

    coarse, fine = max_deviation(100), max_deviation(400)
    assert fine < 2e-6
    assert coarse / fine == pytest.approx(16.0, rel=0.01)


@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("closed", [False, True])
def test_least_snap_is_scipys_spline(order, closed):
    """The minimiser of ∫|p⁽ʳ⁾|² through points is the spline of degree 2r − 1, clamped at rest or periodic."""
    points, durations = np.array([*GATES, GATES[0]]), np.array([1.0, 0.7, 1.4, 1.1, 0.9])
    curve = minimum_derivative(points, durations, order=order, closed=closed)
    rest_conditions = [(k, np.zeros(3)) for k in range(1, order)]
    boundary = "periodic" if closed else (rest_conditions, rest_conditions)
    spline = make_interp_spline(curve.knots, points, k=2 * order - 1, bc_type=boundary)
    time = np.linspace(0.0, curve.knots[-1], 999)
    derivatives = curve.derivatives(time, 2 * order - 1)
    for k in range(2 * order - 1):
        expected = spline(time, k)
        assert np.abs(derivatives[:, k] - expected).max() < 1e-10 * (1.0 + np.abs(expected).max())


@pytest.mark.parametrize("order", [3, 4])
def test_least_snap_solves_the_whole_quadratic_programme(order):
    """min cᵀQc, Ac = b with its multipliers, [Q Aᵀ; A 0][c; λ] = [0; b], all constraints written out: the same polynomials."""
    points, durations = np.array(GATES), np.array([1.0, 0.8, 1.3, 1.1])
    curve = minimum_derivative(points, durations, order=order)
    m, n = len(durations), 2 * order
    quadratic = np.zeros((m * n, m * n))
    for i, T in enumerate(durations):
        for j in range(order, n):
            for k in range(order, n):
                power = j + k - 2 * order + 1
                quadratic[i * n + j, i * n + k] = math.perm(j, order) * math.perm(k, order) * T**power / power

    def row(piece, t, derivative):
        coefficients = np.zeros(m * n)
        for j in range(derivative, n):
            coefficients[piece * n + j] = math.perm(j, derivative) * t ** (j - derivative)
        return coefficients

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
    constraint_count = len(constraints)
    matrix = np.block([[quadratic, constraints.T], [constraints, np.zeros((constraint_count, constraint_count))]])
    solution = np.linalg.solve(matrix, np.concatenate([np.zeros((m * n, 3)), np.array(values)]))[: m * n]
    powers = durations[:, None] ** np.arange(n)
    expected = solution.reshape(m, n, 3) * powers[:, :, None]
    assert np.abs(curve.coefficients - expected).max() < 1e-9 * np.abs(expected).max()


@pytest.mark.parametrize(("order", "closed"), [(3, False), (4, False), (4, True)])
def test_at_the_gates_it_is_smoother_than_required(order, closed):
    """Constraints join the derivatives below r; optimality those up to 2r − 2, the sixth for snap, and no further."""
    points = np.array([*GATES, GATES[0]])
    curve = minimum_derivative(points, np.full(5, 1.1), order=order, closed=closed)
    ends = np.stack([curve.derivative_coefficients[:, :, k].sum(axis=1) for k in range(2 * order)])  # at u = 1
    starts = np.stack([curve.derivative_coefficients[:, 0, k] for k in range(2 * order)])  # at u = 0
    after = np.roll(starts, -1, axis=1) if closed else starts[:, 1:]
    before = ends if closed else ends[:, :-1]
    gaps = np.abs(before - after)
    for k in range(2 * order - 1):
        assert gaps[k].max() < 1e-9 * (1.0 + np.abs(starts[k]).max()), k
    assert gaps[2 * order - 1].max() > 1.0


def test_any_other_curve_through_the_gates_has_more_snap():
    """∫|p⁗|² by quadrature, of the curve and of it with any of its inner derivatives changed a little."""
    points, durations = np.array(GATES), np.array([1.0, 0.8, 1.3, 1.1])
    best = minimum_derivative(points, durations)
    rng = np.random.default_rng(1)
    for _ in range(20):
        variation = minimum_derivative(
            rng.normal(size=(9, 3)) * np.isin(np.arange(9), [1, 3, 5, 7])[:, None], halves(durations)
        )
        assert snap(best, variation, 0.01) > snap(best, variation, 0.0)
        assert snap(best, variation, -0.01) > snap(best, variation, 0.0)


def halves(durations):
    return np.repeat(durations / 2.0, 2)


def snap(curve, other, factor):
    """∫ |(p + share · q)⁗|² dt: q is zero at the gates, at rest at the ends, and smooth to the third derivative and beyond"""
    nodes, weights = np.polynomial.legendre.leggauss(12)
    total = 0.0
    for a, b in pairwise(other.knots):
        time = 0.5 * (a + b) + 0.5 * (b - a) * nodes
        combined = curve.derivatives(time, 5)[:, 4] + factor * other.derivatives(time, 5)[:, 4]
        total += 0.5 * (b - a) * weights @ (combined**2).sum(axis=1)
    return total


def test_the_largest_derivative_is_found():
    """By Newton's method, against a grid of 50 000 samples."""
    curve = minimum_derivative(np.array(GATES), np.array([1.0, 0.8, 1.3, 1.1]))
    dense = curve.derivatives(np.linspace(0.0, curve.knots[-1], 50001), 4)
    for k in range(4):
        assert curve.max_norm(k) == pytest.approx(np.linalg.norm(dense[:, k], axis=1).max(), rel=1e-7)
        assert curve.stretch(2.0).max_norm(k) == pytest.approx(curve.max_norm(k) / 2.0**k, rel=1e-12)


# Combinations ------------------------------------------------------------------------------------------------------


def test_a_shift_moves_positions_only():
    """Positions and waypoints move by the sum of the shifts; velocity and higher derivatives are unchanged."""
    original = figure8((0.0, 0.0, 2.0), half_length=3.0, speed=2.0, laps=2)
    once, twice = Vec3(1.0, -2.0, 0.5), Vec3(0.25, 0.5, 1.0)
    shifted = original.shift(once).shift(twice)
    for time in (0.0, 1.7, np.array([0.3, 2.0, 4.0])):
        original_reference, shifted_reference = original.evaluate(time), shifted.evaluate(time)
        offset = np.stack(np.broadcast_arrays(*(shifted_reference.p_W - original_reference.p_W)), axis=-1)
        assert offset == pytest.approx(np.broadcast_to(once + twice, offset.shape))
        assert np.array_equal(
            flatten(shifted_reference._replace(p_W=original_reference.p_W)), flatten(original_reference)
        )
    assert [shifted_waypoint.time for shifted_waypoint in shifted.waypoints] == [
        shifted_waypoint.time for shifted_waypoint in original.waypoints
    ]
    for shifted_waypoint, original_waypoint in zip(shifted.waypoints, original.waypoints, strict=True):
        assert tuple(shifted_waypoint.p_W - original_waypoint.p_W) == pytest.approx(once + twice)


def test_a_sequence_is_its_parts():
    up, eight = take_off((0.0, 0.0, 0.0), height=2.0), figure8((0.0, 0.0, 2.0), half_length=2.0, speed=2.0)
    wait, down = hover((0.0, 0.0, 2.0), duration=1.5), land((0.0, 0.0, 2.0))
    flight = sequence(up, eight, wait, down)
    assert flight.duration == pytest.approx(sum(part.duration for part in (up, eight, wait, down)), rel=1e-15)
    start = 0.0
    for part in (up, eight, wait, down):
        part_times = np.linspace(1e-6, part.duration - 1e-6, 50)
        for a, b in zip(flatten(flight.evaluate(start + part_times)), flatten(part.evaluate(part_times)), strict=True):
            assert a == pytest.approx(b, abs=1e-12 * (1.0 + np.abs(b).max()))
        start += part.duration
    assert flight.evaluate(0.0).p_W == (0.0, 0.0, 0.0)
    assert flight.evaluate(1e4).p_W == pytest.approx((0.0, 0.0, 0.0), abs=1e-12)
    assert flight.waypoints[-1].time == pytest.approx(flight.duration, rel=1e-15)


# Rejected arguments ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: hover((0.0, math.nan, 1.0)), "hover: p_W.y is nan; expected a finite number"),
        (lambda: hover((0.0, 1.0)), r"hover: p_W is \(0.0, 1.0\); expected three numbers"),
        (lambda: hover((0.0, 0.0, 1.0), duration=0.0), "hover: duration is 0.0; expected a positive number"),
        (lambda: hover((0.0, 0.0, 1.0), yaw="along"), "hover: yaw is 'along'; expected a finite number"),
        (lambda: waypoints([(0.0, 0.0, 1.0)], speed=1.0), "waypoints: got 1 points; expected at least 2"),
        (lambda: waypoints(CORNERS), "waypoints: expected either speed or leg_duration"),
        (lambda: waypoints(CORNERS, speed=-1.0), "waypoints: speed is -1.0; expected a positive number"),
        (lambda: waypoints(CORNERS, leg_duration=0.0), "waypoints: leg_duration is 0.0; expected a positive number"),
        (
            lambda: waypoints(CORNERS, leg_duration=[1.0, 2.0]),
            "waypoints: leg_duration has 2 times; expected 3, one for each leg",
        ),
        (
            lambda: waypoints(CORNERS, speed=1.0, hold_time=-1.0),
            r"legs\[0\].rest_duration is -1.0; expected a number that is not negative",
        ),
        (
            lambda: waypoints([*CORNERS, CORNERS[-1]], speed=1.0),
            "waypoints: point 3 and the next coincide; expected distinct points",
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
        (
            lambda: helix((0.0, 0.0, 1.0), radius=1.0, height_per_turn=1.0, turns=-1.0, speed=1.0),
            "helix: turns is -1.0",
        ),
        (
            lambda: figure8((0.0, 0.0, 1.0), half_length=1.0, speed=1.0, acceleration=0.0),
            "figure8: acceleration is 0.0",
        ),
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
        (lambda: race([*GATES, GATES[0]], speed=1.0, closed=True), "race: point 5 and the next coincide"),
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
        (lambda: CURVES["line"].evaluate(math.nan), "line: time is nan; expected a finite number of seconds"),
        (lambda: CURVES["line"].evaluate(np.array([0.0, math.inf])), "line: a time is not finite"),
        (lambda: minimum_derivative(np.zeros((3, 2)), [1.0]), r"points have shape \(3, 2\) and durations \(1,\)"),
        (lambda: minimum_derivative(np.zeros((2, 2)), [-1.0]), "durations that are positive"),
        (lambda: minimum_derivative(np.zeros((2, 2)), [1.0], order=1), "order is 1; expected 2"),
    ],
)
def test_invalid_arguments_are_rejected_in_one_sentence(build, message):
    with pytest.raises(ValueError, match=f"^.*{message}"):
        build()


def test_scenario_modules_import_nothing_heavy():
    heavy = ("jax", "casadi", "sympy", "scipy", "matplotlib", "llvmlite")
    program = (
        "import sys, samara.core.random, samara.wind.sources, samara.estimate.ideal, samara.plan.trajectory; "
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
