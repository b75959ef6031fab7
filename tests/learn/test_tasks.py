"""Track, race and land: flown by hand with velocities, they are done; and what they say of a flight is so."""

import math

import numpy as np
import pytest

from samara.control.action_space import SPEED
from samara.core.algebra import Quat, Vec3
from samara.learn.env_config import Setting
from samara.learn.envs.gym import VectorEnv
from samara.learn.episode import Episode, step
from samara.learn.task import Draw, Situation, craft_for
from samara.learn.tasks import load_task
from samara.learn.tasks.race import Goal, racing
from samara.learn.tasks.track import tracking
from samara.plan.trajectory import circle, figure8
from samara.world.gates import in_gate
from samara.world.track import load_track

CRAFT = craft_for("crazyflie")
COURSE = load_track("hall").course
BY_HAND = {"action": "velocity", "substeps": 4, "period": 0.02}


def flown(env, steer, steps):
    """Until the end of the only drone's episode: its last situation, and whether that ended it"""
    env.reset(seed=0)
    for _ in range(steps):
        before = env.episode.situation
        v_W = steer(before)
        _, _, terminated, truncated, _ = env.step(np.array([[*v_W, 0.0]]) / SPEED)
        if terminated[0] or truncated[0]:
            return env.episode.situation, bool(terminated[0])
    raise AssertionError("the episode never ended")


def place(vector):
    return np.array([float(np.ravel(x)[0]) for x in vector])


def is_done(env, situation):
    return bool(np.ravel(env.setting.task.success(situation, env.setting.craft))[0])


# Track -------------------------------------------------------------------------------------------------------------


def test_a_figure_of_eight_is_followed():
    slow = figure8((0.0, 0.0, 1.0), reach=1.0, speed=0.4, laps=5.0)
    env = VectorEnv(tracking(slow), 1, autoreset_mode="Disabled", **BY_HAND)

    def steer(situation):
        now = slow.at(float(situation.goal[0] + situation.time[0]))
        return np.array(now.v_W) + 0.5 * (np.array(now.p_W) - place(situation.state.p_W))

    last, terminated = flown(env, steer, 400)
    assert not terminated and last.time[0] == pytest.approx(6.0)
    away = place(last.state.p_W) - np.array(slow.at(float(last.goal[0] + last.time[0])).p_W)
    assert np.linalg.norm(away) < 0.2


def test_on_the_reference_nothing_is_missing():
    """Any family: at rest on the circle's reference, the errors shown are 0, and the reward is the largest there is"""
    task = tracking(circle((0.0, 0.0, 1.0), radius=1.0, speed=2.0, laps=3.0))
    now = circle((0.0, 0.0, 1.0), radius=1.0, speed=2.0, laps=3.0).at(1.5)
    there = Situation(CRAFT.trim._replace(p_W=now.p_W, v_W=now.v_W), 1.0, 0.5, (0.0,) * 4)
    seen = task.observation(there, CRAFT)
    assert len(seen) == 22 + 3 + 3 and seen[:6] == pytest.approx((0.0,) * 6, abs=1e-15)
    heading = np.array([np.cos(now.yaw), np.sin(now.yaw)])
    assert seen[22] * 5.0 == pytest.approx(heading @ np.array(now.a_W)[:2])  # forward, in the axes of its heading
    assert seen[25] * 25.0 == pytest.approx(heading @ np.array(now.j_W)[:2])
    assert task.reward(there, CRAFT) == pytest.approx(0.997)
    assert task.success(there, CRAFT) and not task.termination(there, CRAFT)
    assert task.termination(there._replace(time=3.0), CRAFT)


# Race --------------------------------------------------------------------------------------------------------------


def test_the_course_is_flown():
    """Level 0, by hand: every gate in its order, and the reward is what was gained"""
    env = VectorEnv(racing(0), 1, "crazyflie", autoreset_mode="Disabled", action="velocity", seconds=60.0)
    points = []
    for gate in COURSE.gates:
        ahead = np.array([math.cos(gate.yaw), math.sin(gate.yaw), 0.0])
        points += [np.array(gate.p_W) - 0.3 * ahead, np.array(gate.p_W) + 0.3 * ahead]
        if gate is COURSE.gates[0]:
            points.append(np.array([1.6, 0.1, 1.2]))
        if gate is COURSE.gates[2]:
            points += [np.array([-1.25, -0.85, 1.0]), np.array([-0.6, -1.05, 1.2])]
    at = [0]

    def steer(situation):
        p_W = place(situation.state.p_W)
        way = points[min(at[0], len(points) - 1)] - p_W
        if np.linalg.norm(way) < 0.08:
            at[0] += 1
        return way * min(0.7, 0.3 / max(np.linalg.norm(way), 1e-9))

    last, terminated = flown(env, steer, 3000)
    assert terminated and last.goal.struck[0] == 0.0 and last.goal.passed[0] == 4.0
    assert is_done(env, last)


def test_what_strikes_ends_the_race():
    task = racing(0)
    goal = Goal(COURSE.gates, COURSE.poles, (0.0,) * 8)
    floor = Situation(CRAFT.trim._replace(p_W=Vec3(0.0, 0.0, -0.01)), goal, 1.0, (0.0,) * 4)
    pole = floor._replace(state=CRAFT.trim._replace(p_W=Vec3(0.0, 0.72, 1.0)))
    above = floor._replace(state=CRAFT.trim._replace(p_W=Vec3(0.0, 0.72, 1.6)))
    for after, struck in ((floor, 1.0), (pole, 1.0), (above, 0.0)):
        found = task.progress(after, after, CRAFT)
        assert found.struck == struck
        assert bool(task.termination(after._replace(goal=found), CRAFT)) == bool(struck)


def test_levels_differ_in_what_is_known():
    """Level 2 shows gates where they were said to be until they are near; levels 1 and 2 draw mass and inertia"""
    env = VectorEnv("race", 8, seconds=1.0)
    seen = env.reset(seed=0)[0]
    assert seen.shape == (8, 18 + 4 + 10)
    goal, said = env.episode.situation.goal, COURSE.gates
    true = np.array(goal.gates[0].p_W).T
    aside = true - np.array(said[0].p_W)
    assert (np.abs(aside).max(axis=0) <= (0.15, 0.15, 0.1)).all() and np.abs(aside).max() > 0.08
    starts = Vec3(*np.array(env.state.p_W))
    np.testing.assert_allclose(seen[:, :3].T, np.array(in_gate(starts, said[0])), atol=1e-6)
    np.testing.assert_allclose(seen[:, 22:25], np.tile(in_gate(said[1].p_W, said[0]), (8, 1)), atol=1e-6)
    assert (seen[:, 27] == 0.0).all()
    env._episodes[:3] = true.T  # at the first gate
    seen = env.step(np.zeros((8, 4)))[0]
    here = Vec3(*np.array(env.state.p_W))
    np.testing.assert_allclose(seen[:, :3].T, np.array(in_gate(here, goal.gates[0])), atol=1e-6)
    assert (seen[:, 27] == 1.0).all()
    assert racing(0).randomization is None and racing(1).randomization is not None
    assert set(env.episode.parameters.mass.tolist()) != {1.0}
    with pytest.raises(ValueError, match="level is 3; expected one of 0, 1, 2"):
        racing(3)


def test_practice_begins_on_the_way_through_any_gate():
    """Within two widths before a gate, which is next, or one behind it, which is passed; or at the start"""
    task = racing(2)
    env = VectorEnv(task._replace(reset=task.practice), 400)
    env.reset(seed=0)
    situation = env.episode.situation
    goal, width, start_W = situation.goal, 0.4, np.array(load_track("hall").start_W)
    passed, kinds = goal.passed.astype(int), {"start": 0, "before": 0, "behind": 0}
    for k in range(400):
        p_W, v_W = (Vec3(*(own[k] for own in each)) for each in (situation.state.p_W, situation.state.v_W))
        gates = [type(own)(Vec3(*(x[k] for x in own.p_W)), own.yaw[k]) for own in goal.gates]
        if passed[k] == 0 and np.abs(np.array(p_W) - start_W).max() <= 0.1:
            kinds["start"] += 1
            continue
        ways = []
        for kind, low, high in (("before", -2.4, 0.4), ("behind", -0.4, 1.4)):
            gate = gates[passed[k] - (kind == "behind")]
            r, forwards = in_gate(p_W, gate), v_W.x * math.cos(gate.yaw) + v_W.y * math.sin(gate.yaw)
            aside = max(abs(r.y), abs(r.z)) / width
            if low <= r.x / width <= high and aside <= 0.36 and 0.0 < forwards < 3.5:
                ways.append(kind)
        kinds[ways[0]] += 1
    assert min(kinds.values()) > 60
    said = np.all([goal.gates[k].p_W.x == COURSE.gates[k].p_W.x for k in range(4)], axis=0)
    assert 0.1 < said.mean() < 0.25


# Land --------------------------------------------------------------------------------------------------------------


def test_a_landing():
    env = VectorEnv("land", 1, autoreset_mode="Disabled", **BY_HAND)

    def steer(situation):
        p_W = place(situation.state.p_W)
        return np.array([-p_W[0], -p_W[1], -0.2 - 0.5 * p_W[2]])

    last, terminated = flown(env, steer, 400)
    assert terminated and is_done(env, last)


def test_a_fall_is_no_landing():
    task = load_task("land")
    fallen = Situation(CRAFT.trim._replace(v_W=Vec3(0.0, 0.0, -3.0), p_W=Vec3(0.0, 0.0, -0.01)))
    assert task.termination(fallen, CRAFT) and not task.success(fallen, CRAFT)
    soft = fallen._replace(state=fallen.state._replace(v_W=Vec3(0.0, 0.0, -0.2)))
    assert task.success(soft, CRAFT)
    start = task.reset(Draw(), CRAFT)[0]
    episode = Episode(Situation(start, action=(0.0,) * 4))
    after, _ = step(episode, (0.0,) * 4, Draw(), Setting(task, CRAFT))
    assert not task.termination(after.situation, CRAFT)


# Rewards, term by term -----------------------------------------------------------------------------------------------

MOVED = CRAFT.trim._replace(
    p_W=Vec3(0.1, -0.2, 0.3), v_W=Vec3(0.4, 0.5, -0.6), q_WB=Quat(0.9, 0.1, -0.3, 0.2), omega_B=Vec3(1.0, -2.0, 3.0)
)
ACTED = (0.1, -0.2, 0.3, -0.4)
P2, V2, OMEGA2, A2 = 0.14, 0.77, 14.0, 0.30  # the squares of what is above


def test_what_being_away_costs_in_hover():
    cost = math.sqrt(P2 + 1e-4) + 0.1 * V2 + 0.01 * OMEGA2 + 0.3 * (0.1**2 + 0.3**2) + 0.1 * 0.2**2 + 0.01 * A2
    assert load_task("hover").reward(Situation(MOVED, (), 0.0, ACTED), CRAFT) == pytest.approx(2.0 - cost, rel=1e-14)


def test_what_being_away_costs_in_recover():
    """s (√(1 + 2 x²/s) − 1) of v² with s = 1, and of ω² with s = 25"""
    fast = 0.1 * (math.sqrt(1.0 + 2.0 * V2) - 1.0) + 0.003 * 25.0 * (math.sqrt(1.0 + 2.0 * OMEGA2 / 25.0) - 1.0)
    cost = math.sqrt(P2 + 1e-4) + fast + 0.1 * (0.1**2 + 0.3**2 + 0.2**2) + 0.01 * A2
    assert load_task("recover").reward(Situation(MOVED, (), 0.0, ACTED), CRAFT) == pytest.approx(2.0 - cost, rel=1e-14)


def test_what_being_off_the_reference_costs_in_track():
    """On a circle of 1 m flown at 2 m/s: only what differs from the reference counts, but for ω, q_z and a"""
    path = circle((0.0, 0.0, 1.0), radius=1.0, speed=2.0, laps=3.0)
    now = path.at(1.5)
    off = MOVED._replace(p_W=now.p_W + MOVED.p_W, v_W=now.v_W + MOVED.v_W)
    cost = math.sqrt(P2 + 9e-6) + 0.05 * V2 + 0.0005 * OMEGA2 + 0.1 * 0.2**2 + 0.001 * A2
    assert tracking(path).reward(Situation(off, 1.0, 0.5, ACTED), CRAFT) == pytest.approx(1.0 - cost, rel=1e-13)


def test_what_being_away_costs_in_land():
    """3 − √(p² + 1 cm²) − 0.3 |v + p + 0.2 e₃|² − 0.01 ω² − 0.5 (q_x² + q_y²) − 0.01 a²"""
    e_v = np.array(MOVED.v_W) + np.array(MOVED.p_W) + [0.0, 0.0, 0.2]
    cost = math.sqrt(P2 + 1e-4) + 0.3 * e_v @ e_v + 0.01 * OMEGA2 + 0.5 * (0.1**2 + 0.3**2) + 0.01 * A2
    assert load_task("land").reward(Situation(MOVED, (), 0.0, ACTED), CRAFT) == pytest.approx(3.0 - cost, rel=1e-14)


def test_what_being_away_costs_in_universal():
    """2 − √(p² + 1 cm²) − 0.1 ⟨v²⟩₁ − 0.01 ⟨ω²⟩₄ − 0.2 (q_x² + q_y² + q_z²): an action costs nothing"""
    fast = 0.1 * (math.sqrt(1.0 + 2.0 * V2) - 1.0) + 0.01 * 4.0 * (math.sqrt(1.0 + 2.0 * OMEGA2 / 4.0) - 1.0)
    cost = math.sqrt(P2 + 1e-4) + fast + 0.2 * (0.1**2 + 0.3**2 + 0.2**2)
    assert load_task("universal").reward(Situation(MOVED, (), 0.0, ACTED), CRAFT) == pytest.approx(
        2.0 - cost, rel=1e-14
    )
