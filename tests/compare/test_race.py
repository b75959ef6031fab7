"""A race: scored by closed forms, drawn within its levels' ranges, flown with the same bits."""

import json
from dataclasses import replace

import numpy as np
import pytest

from samara.compare.race import as_json, as_markdown, draw_disturbances, race
from samara.compare.race_score import Ending, score
from samara.core.algebra import Vec3
from samara.core.tree import flatten
from samara.plan.time_optimal import line_of
from samara.vehicles.loader import vehicle
from samara.world.gates import Course, Gate
from samara.world.track import load_track, parse_track

HALL = load_track("hall")
ROW = replace(  # two gates along x, 1 m apart, and a pole beside the way
    HALL,
    course=Course(tuple(Gate(Vec3(x, 0.0, 1.0), 0.0) for x in (1.0, 2.0)), (Vec3(1.5, 1.0, 2.0),)),
    seconds=10.0,
    via=(),
)
REACH = 0.05


def scored(*points, seconds=4.0, **more):
    """Of a path through points, the same time from each to the next"""
    at = np.linspace(0.0, seconds, len(points))
    time = np.arange(0.0, seconds + 1e-9, 0.01)
    path = Vec3(*(np.interp(time, at, [point[k] for point in points]) for k in range(3)))
    return score(time, path, ROW.course, ROW, REACH, **more)


# Scores -------------------------------------------------------------------------------------------------------------


def test_straight_through_both_gates_at_one_metre_a_second():
    told = scored((0.0, 0.0, 1.0), (4.0, 0.0, 1.0))
    assert told.ending == (Ending.FINISHED,) and told.passed.tolist() == [2]
    np.testing.assert_allclose(told.gates[:, 0], (1.0, 2.0), atol=1e-12)
    assert told.time[0] == pytest.approx(2.0, abs=1e-12) == told.mean_time and told.success == 1.0


def test_between_two_recorded_places_a_gate_is_passed_in_proportion():
    time = np.array([0.0, 3.0])
    told = score(time, Vec3(np.array([0.5, 3.5]), np.zeros(2), np.ones(2)), ROW.course, ROW, REACH)
    np.testing.assert_allclose(told.gates[:, 0], (0.5, 1.5), rtol=1e-14)


@pytest.mark.parametrize("y", [0.15 - 1e-9, 0.15 + 1e-9])
def test_a_hair_decides(y):
    """Half of 0.4 m, less 0.05 m for the drone"""
    told = scored((0.0, y, 1.0), (4.0, y, 1.0))
    if y < 0.15:
        assert told.ending == (Ending.FINISHED,)
    else:
        assert told.ending == (Ending.FRAME,) and told.time[0] == pytest.approx(1.0) and told.passed[0] == 0


def test_the_wrong_way_round_and_the_wrong_order_do_not_count():
    backwards = scored((3.0, 0.0, 1.0), (0.0, 0.0, 1.0))
    assert backwards.ending == (Ending.LATE,) and backwards.passed[0] == 0 and np.isnan(backwards.mean_time)
    around = scored((0.0, 1.5, 1.0), (1.7, 1.5, 0.5), (1.7, 0.0, 1.0), (3.0, 0.0, 1.0))
    assert around.ending == (Ending.LATE,) and around.passed[0] == 0  # the second gate before the first
    again = scored((0.0, 0.0, 1.0), (1.2, 0.0, 1.0), (0.8, 0.0, 1.0), (3.0, 0.0, 1.0))
    assert again.ending == (Ending.FINISHED,) and again.gates[0, 0] == pytest.approx(
        4.0 / 3.0 / 1.2
    )  # once, the first time


def test_a_pole_a_wall_the_floor_the_time():
    assert scored((0.0, 1.0, 1.0), (3.0, 1.0, 1.0)).ending == (Ending.POLE,)
    above = scored((0.0, 1.0, 2.1), (3.0, 1.0, 2.1))
    assert above.ending == (Ending.LATE,)
    wall = scored((0.0, 0.6, 1.0), (0.0, 4.0, 1.0))
    assert wall.ending == (Ending.LEFT,) and wall.time[0] == pytest.approx(4.0 * 2.4 / 3.4, abs=0.011)
    assert scored((0.0, 0.6, 1.0), (0.0, 0.6, -0.1)).ending == (Ending.LEFT,)
    late = scored((0.0, 0.0, 1.0), (2.1, 0.0, 1.0), seconds=11.0)
    assert late.ending == (Ending.LATE,) and late.passed[0] == 1 and late.time[0] == 10.0
    fallen = scored((0.0, 0.0, 1.0), (0.0, 0.0, 0.1), crashed=np.array([True]))
    assert fallen.ending == (Ending.CRASHED,)


def test_what_comes_after_the_last_gate_does_not_count():
    told = scored((0.0, 0.0, 1.0), (2.5, 0.0, 1.0), (2.5, 9.0, 1.0))
    assert told.ending == (Ending.FINISHED,)


# What is drawn ------------------------------------------------------------------------------------------------------


def test_levels_draw_within_their_ranges_and_the_same_for_the_same_seed():
    seeds = range(2000)
    known, disturbed, uncertain = (draw_disturbances(HALL, level, seeds) for level in (0, 1, 2))
    assert set(known.mass) == set(known.inertia) == {1.0} and not np.any(np.array(known.wind_W))
    for own in (known, disturbed):
        assert all(np.all(x == a) for x, a in zip(flatten(own.course), flatten(HALL.course), strict=True))
    for one, two in zip(flatten(disturbed[:4]), flatten(uncertain[:4]), strict=True):
        np.testing.assert_array_equal(one, two)
    assert 0.119 < np.abs(disturbed.mass - 1.0).max() <= 0.12 and abs(disturbed.mass.mean() - 1.0) < 0.01
    assert 0.049 < np.abs(disturbed.inertia - 1.0).max() <= 0.05
    aside = np.array(disturbed.start_W) - np.array(HALL.start_W)[:, None]
    assert (np.abs(aside).max(axis=1) <= (0.1, 0.1, 0.02)).all() and aside[2].min() >= 0.0
    speed = np.hypot(*disturbed.wind_W[:2])
    assert 0.49 < speed.max() <= 0.5 and np.abs(np.array(disturbed.wind_W).mean(axis=1)).max() < 0.02
    off = np.array(flatten(uncertain.course)) - np.array(flatten(HALL.course))[:, None]
    sizes = np.array([0.15, 0.15, 0.1, 0.2] * 4 + [0.15, 0.15, 0.05] * 4)
    most = np.abs(off).max(axis=1)
    assert (most <= sizes + 1e-12).all() and (most > 0.98 * sizes).all()
    few = draw_disturbances(HALL, 2, [7, 3])
    assert all(np.array_equal(a, b[[7, 3]]) for a, b in zip(flatten(few), flatten(uncertain), strict=True))
    with pytest.raises(ValueError, match="level is 3; expected one of 0, 1, 2"):
        draw_disturbances(HALL, 3, [0])


# Flights ------------------------------------------------------------------------------------------------------------

SHORT = """
schema = 1
start = [0.0, 0.0, 1.0]
low = [-5.0, -5.0, 0.0]
high = [9.0, 5.0, 3.0]
opening = [1.0, 1.0]
frame = [1.4, 1.4]
vehicle = "crazyflie_documented"
[[gates]]
at = [1.5, 0.0, 1.0]
yaw = 0.0
[[gates]]
at = [3.0, 0.5, 1.3]
yaw = 0.0
[disturbed]
mass = 0.1
inertia = 0.1
start = [0.1, 0.1, 0.1]
wind = 0.5
gusts = 0.1
[uncertain]
gates = [0.1, 0.1, 0.1]
"""


def test_a_small_race_is_flown_and_the_same_seeds_give_the_same_bits():
    track = parse_track(SHORT, "short.toml")
    calm = race(track, level=0, seeds=range(2))
    assert calm.score.success == 1.0 and len(set(calm.score.time)) == 1
    line = line_of(track, vehicle("crazyflie_documented"))
    assert calm.score.mean_time == pytest.approx(line.finish, abs=0.15)
    one, other = (race(track, level=1, seeds=own) for own in (range(4), (2, 0)))
    assert one.score.success == 1.0 and len(set(one.score.time)) == 4
    for a, b in zip(one.p_W, other.p_W, strict=True):
        np.testing.assert_array_equal(a[:, [2, 0]], b)
    assert other.score.time.tolist() == one.score.time[[2, 0]].tolist()
    rows = json.loads(as_json([calm, one]))
    assert rows[1]["success"] == 1.0 and rows[1]["flights"][3]["ending"] == "finished"
    assert "| geometric | 1 | 4 of 4 |" in as_markdown([one])
    with pytest.raises(ValueError, match="seeds has none"):
        race(track, seeds=())
    with pytest.raises(ValueError, match=r"pace is -1\.0; expected a number above 0 and up to 2"):
        race(track, pace=-1.0)
