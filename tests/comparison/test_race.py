"""Races: scored against closed forms, disturbances within the ranges of their levels, flights with identical bits."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from samara.comparison.race import avoid_frames, draw_disturbances, format_json, format_markdown, race
from samara.comparison.race_score import RaceOutcome, score
from samara.control import ControllerSpec, controller_spec
from samara.control.mpc.constraint_tables import build_constraints
from samara.core.algebra import IDENTITY, ZERO, Vec3
from samara.core.tree import flatten
from samara.physics.types import State
from samara.plan.time_optimal import plan_racing_line
from samara.vehicles.loader import vehicle
from samara.world.gates import Course, Gate, hub_radius
from samara.world.track import load_track, parse_track

HALL = load_track("hall")
ROW = replace(  # two gates along x, 1 m apart, and a pole beside the path
    HALL,
    course=Course(tuple(Gate(Vec3(x, 0.0, 1.0), 0.0) for x in (1.0, 2.0)), (Vec3(1.5, 1.0, 2.0),)),
    time_limit=10.0,
    via=(),
)
REACH = 0.05


def score_path(*points, seconds=4.0, **options):
    """Score a path through points, with equal times from each to the next."""
    point_times = np.linspace(0.0, seconds, len(points))
    time = np.arange(0.0, seconds + 1e-9, 0.01)
    path = Vec3(*(np.interp(time, point_times, [point[k] for point in points]) for k in range(3)))
    return score(time, path, ROW.course, ROW, REACH, **options)


# Scores -------------------------------------------------------------------------------------------------------------


def test_straight_through_both_gates_at_one_metre_a_second():
    result = score_path((0.0, 0.0, 1.0), (4.0, 0.0, 1.0))
    assert result.ending == (RaceOutcome.FINISHED,) and result.gate_count.tolist() == [2]
    np.testing.assert_allclose(result.gate_times[:, 0], (1.0, 2.0), atol=1e-12)
    assert result.time[0] == pytest.approx(2.0, abs=1e-12) == result.mean_time and result.success_rate == 1.0


def test_between_two_recorded_places_a_gate_is_passed_in_proportion():
    time = np.array([0.0, 3.0])
    result = score(time, Vec3(np.array([0.5, 3.5]), np.zeros(2), np.ones(2)), ROW.course, ROW, REACH)
    np.testing.assert_allclose(result.gate_times[:, 0], (0.5, 1.5), rtol=1e-14)


@pytest.mark.parametrize("y", [0.15 - 1e-9, 0.15 + 1e-9])
def test_a_hair_decides(y):
    """Half of 0.4 m, less 0.05 m for the drone"""
    result = score_path((0.0, y, 1.0), (4.0, y, 1.0))
    if y < 0.15:
        assert result.ending == (RaceOutcome.FINISHED,)
    else:
        assert (
            result.ending == (RaceOutcome.FRAME,) and result.time[0] == pytest.approx(1.0) and result.gate_count[0] == 0
        )


def test_the_wrong_way_round_and_the_wrong_order_do_not_count():
    backwards = score_path((3.0, 0.0, 1.0), (0.0, 0.0, 1.0))
    assert backwards.ending == (RaceOutcome.LATE,) and backwards.gate_count[0] == 0 and np.isnan(backwards.mean_time)
    around = score_path((0.0, 1.5, 1.0), (1.7, 1.5, 0.5), (1.7, 0.0, 1.0), (3.0, 0.0, 1.0))
    assert around.ending == (RaceOutcome.LATE,) and around.gate_count[0] == 0  # the second gate before the first
    twice = score_path((0.0, 0.0, 1.0), (1.2, 0.0, 1.0), (0.8, 0.0, 1.0), (3.0, 0.0, 1.0))
    assert twice.ending == (RaceOutcome.FINISHED,) and twice.gate_times[0, 0] == pytest.approx(
        4.0 / 3.0 / 1.2
    )  # once, the first time


def test_a_pole_a_wall_the_floor_the_time():
    assert score_path((0.0, 1.0, 1.0), (3.0, 1.0, 1.0)).ending == (RaceOutcome.POLE,)
    above = score_path((0.0, 1.0, 2.1), (3.0, 1.0, 2.1))
    assert above.ending == (RaceOutcome.LATE,)
    wall = score_path((0.0, 0.6, 1.0), (0.0, 4.0, 1.0))
    assert wall.ending == (RaceOutcome.LEFT,) and wall.time[0] == pytest.approx(4.0 * 2.4 / 3.4, abs=0.011)
    assert score_path((0.0, 0.6, 1.0), (0.0, 0.6, -0.1)).ending == (RaceOutcome.LEFT,)
    late = score_path((0.0, 0.0, 1.0), (2.1, 0.0, 1.0), seconds=11.0)
    assert late.ending == (RaceOutcome.LATE,) and late.gate_count[0] == 1 and late.time[0] == 10.0
    fallen = score_path((0.0, 0.0, 1.0), (0.0, 0.0, 0.1), crashed=np.array([True]))
    assert fallen.ending == (RaceOutcome.CRASHED,)


def test_what_comes_after_the_last_gate_does_not_count():
    result = score_path((0.0, 0.0, 1.0), (2.5, 0.0, 1.0), (2.5, 9.0, 1.0))
    assert result.ending == (RaceOutcome.FINISHED,)


# Disturbances -------------------------------------------------------------------------------------------------------


def test_levels_draw_within_their_ranges_and_the_same_for_the_same_seed():
    seeds = range(2000)
    nominal, disturbed, uncertain = (draw_disturbances(HALL, level, seeds) for level in (0, 1, 2))
    assert set(nominal.mass) == set(nominal.inertia) == {1.0} and not np.any(np.array(nominal.wind_W))
    for level_values in (nominal, disturbed):
        assert all(np.all(x == a) for x, a in zip(flatten(level_values.course), flatten(HALL.course), strict=True))
    for first, second in zip(flatten(disturbed[:4]), flatten(uncertain[:4]), strict=True):
        np.testing.assert_array_equal(first, second)
    assert 0.119 < np.abs(disturbed.mass - 1.0).max() <= 0.12 and abs(disturbed.mass.mean() - 1.0) < 0.01
    assert 0.049 < np.abs(disturbed.inertia - 1.0).max() <= 0.05
    start_offset = np.array(disturbed.start_W) - np.array(HALL.start_W)[:, None]
    assert (np.abs(start_offset).max(axis=1) <= (0.1, 0.1, 0.02)).all() and start_offset[2].min() >= 0.0
    speed = np.hypot(*disturbed.wind_W[:2])
    assert 0.49 < speed.max() <= 0.5 and np.abs(np.array(disturbed.wind_W).mean(axis=1)).max() < 0.02
    course_offset = np.array(flatten(uncertain.course)) - np.array(flatten(HALL.course))[:, None]
    sizes = np.array([0.15, 0.15, 0.1, 0.2] * 4 + [0.15, 0.15, 0.05] * 4)
    max_offset = np.abs(course_offset).max(axis=1)
    assert (max_offset <= sizes + 1e-12).all() and (max_offset > 0.98 * sizes).all()
    few = draw_disturbances(HALL, 2, [7, 3])
    assert all(np.array_equal(a, b[[7, 3]]) for a, b in zip(flatten(few), flatten(uncertain), strict=True))
    with pytest.raises(ValueError, match="level is 3; expected one of 0, 1, 2"):
        draw_disturbances(HALL, 3, [0])


# Flights ------------------------------------------------------------------------------------------------------------

SHORT = """
schema = 1
start = [0.0, 0.0, 1.0]
bounds_min = [-5.0, -5.0, 0.0]
bounds_max = [9.0, 5.0, 3.0]
opening_size = [1.0, 1.0]
frame_size = [1.4, 1.4]
vehicle = "crazyflie_documented"
[[gates]]
position = [1.5, 0.0, 1.0]
yaw = 0.0
[[gates]]
position = [3.0, 0.5, 1.3]
yaw = 0.0
[disturbance]
mass = 0.1
inertia = 0.1
start = [0.1, 0.1, 0.1]
max_wind_speed = 0.5
gust_sigma = 0.1
[uncertainty]
gates = [0.1, 0.1, 0.1]
"""


def test_a_small_race_is_flown_and_the_same_seeds_give_the_same_bits():
    track = parse_track(SHORT, "short.toml")
    calm = race(track, level=0, seeds=range(2))
    assert calm.score.success_rate == 1.0 and len(set(calm.score.time)) == 1
    line = plan_racing_line(track, vehicle("crazyflie_documented"))
    assert calm.score.mean_time == pytest.approx(line.finish, abs=0.15)
    windy, reordered = (race(track, level=1, seeds=race_seeds) for race_seeds in (range(4), (2, 0)))
    assert windy.score.success_rate == 1.0 and len(set(windy.score.time)) == 4
    for a, b in zip(windy.p_W, reordered.p_W, strict=True):
        np.testing.assert_array_equal(a[:, [2, 0]], b)
    assert reordered.score.time.tolist() == windy.score.time[[2, 0]].tolist()
    rows = json.loads(format_json([calm, windy]))
    assert rows[1]["success"] == 1.0 and rows[1]["flights"][3]["ending"] == "finished"
    assert "| geometric | 1 | 4 of 4 |" in format_markdown([windy])
    with pytest.raises(ValueError, match="seeds is empty"):
        race(track, seeds=())
    with pytest.raises(ValueError, match=r"speed_fraction is -1\.0; expected a number above 0 and up to 2"):
        race(track, speed_fraction=-1.0)


def test_the_predictive_controller_keeps_clear_of_frames_and_poles():
    """The centre of an opening is free, its frame and the poles are not; options of the user come first."""
    track, drone = load_track("hall"), vehicle("crazyflie")
    spec = avoid_frames(ControllerSpec("mpc"), track, drone)
    constraints = build_constraints(spec.option_values["constraints"])
    assert len(constraints) == len(track.poles) + 4 * len(track.gates)

    def depth(p_W):
        body = State(p_W, ZERO, IDENTITY, ZERO, (), ())
        return max(g for constraint in constraints for g in constraint.evaluate(body, (), 0.0, constraint.values))

    for gate in track.gates:
        side = Vec3(-math.sin(gate.yaw), math.cos(gate.yaw), 0.0)
        half = 0.5 * track.sizes.opening_size[0] - hub_radius(drone)
        assert depth(gate.p_W) < 0.0
        assert depth(gate.p_W + side * (0.75 * half)) < 0.0 < depth(gate.p_W + side * (0.85 * half))
        assert depth(gate.p_W + Vec3(0.0, 0.0, -0.28)) > 0.5
    for pole in track.poles:
        assert depth(Vec3(pole.x, pole.y, 0.5 * pole.z)) == pytest.approx(1.0, abs=1e-3)
    chosen = controller_spec("mpc", constraints=[{"type": "speed", "max": 3}])
    assert avoid_frames(chosen, track, drone) == chosen
    assert avoid_frames("pid", track, drone) == "pid"


@pytest.mark.long
def test_constraints_bring_more_drones_through_a_fast_race():
    """15 % faster than the limits of the plan allow, with disturbed mass, start and wind."""
    free, kept = (
        race("hall", level=1, controller=controller, seeds=range(20), speed_fraction=1.15).score.success_rate
        for controller in (controller_spec("mpc", constraints=[]), "mpc")
    )
    assert kept > free + 0.2
