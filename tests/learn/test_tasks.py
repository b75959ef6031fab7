"""Track, race and land: a hand-written velocity controller completes them, and their conditions match the flight."""

import math

import numpy as np
import pytest

from samara.control.action_space import MAX_SPEED
from samara.core.algebra import Quat, Vec3
from samara.learn.env_config import EnvironmentSetting
from samara.learn.envs.gym import VectorEnv
from samara.learn.episode import Episode, step
from samara.learn.task import Draw, Situation, trim_drone
from samara.learn.tasks import load_task
from samara.learn.tasks.race import RaceGoal, race_task
from samara.learn.tasks.track import tracking_task
from samara.plan.trajectory import circle, figure8
from samara.world.gates import gate_coordinates
from samara.world.track import load_track

DRONE = trim_drone("crazyflie")
COURSE = load_track("hall").course
BY_HAND = {"action": "velocity", "substeps": 4, "period": 0.02}


def fly_episode(env, steer, steps):
    """Fly until the end of the only drone's episode; return its last situation, and whether it was terminated."""
    env.reset(seed=0)
    for _ in range(steps):
        situation = env.episode.situation
        v_W = steer(situation)
        _, _, terminated, truncated, _ = env.step(np.array([[*v_W, 0.0]]) / MAX_SPEED)
        if terminated[0] or truncated[0]:
            return env.episode.situation, bool(terminated[0])
    raise AssertionError("the episode never ended")


def first_of_batch(vector):
    return np.array([float(np.ravel(x)[0]) for x in vector])


def is_successful(env, situation):
    return bool(np.ravel(env.setting.task.success(situation, env.setting.drone))[0])


# Track -------------------------------------------------------------------------------------------------------------


def test_a_figure_of_eight_is_followed():
    slow = figure8((0.0, 0.0, 1.0), half_length=1.0, speed=0.4, laps=5.0)
    env = VectorEnv(tracking_task(slow), 1, autoreset_mode="Disabled", **BY_HAND)

    def steer(situation):
        target = slow.evaluate(float(situation.goal[0] + situation.time[0]))
        return np.array(target.v_W) + 0.5 * (np.array(target.p_W) - first_of_batch(situation.state.p_W))

    last, terminated = fly_episode(env, steer, 400)
    assert not terminated and last.time[0] == pytest.approx(6.0)
    position_error = first_of_batch(last.state.p_W) - np.array(slow.evaluate(float(last.goal[0] + last.time[0])).p_W)
    assert np.linalg.norm(position_error) < 0.2


def test_on_the_reference_nothing_is_missing():
    """For any trajectory: on the circle's reference the observed errors are 0, and the reward is the largest possible."""
    task = tracking_task(circle((0.0, 0.0, 1.0), radius=1.0, speed=2.0, laps=3.0))
    target = circle((0.0, 0.0, 1.0), radius=1.0, speed=2.0, laps=3.0).evaluate(1.5)
    situation = Situation(DRONE.trim._replace(p_W=target.p_W, v_W=target.v_W), 1.0, 0.5, (0.0,) * 4)
    observation = task.observation(situation, DRONE)
    assert len(observation) == 22 + 3 + 3 and observation[:6] == pytest.approx((0.0,) * 6, abs=1e-15)
    heading = np.array([np.cos(target.yaw), np.sin(target.yaw)])
    assert observation[22] * 5.0 == pytest.approx(
        heading @ np.array(target.a_W)[:2]
    )  # forward, in the axes of its heading
    assert observation[25] * 25.0 == pytest.approx(heading @ np.array(target.j_W)[:2])
    assert task.reward(situation, DRONE) == pytest.approx(0.997)
    assert task.success(situation, DRONE) and not task.termination(situation, DRONE)
    assert task.termination(situation._replace(time=3.0), DRONE)


# Race --------------------------------------------------------------------------------------------------------------


def test_the_course_is_flown():
    """Level 0, by hand: every gate in order; the race ends without a collision."""
    env = VectorEnv(race_task(0), 1, "crazyflie", autoreset_mode="Disabled", action="velocity", seconds=60.0)
    points = []
    for gate in COURSE.gates:
        ahead = np.array([math.cos(gate.yaw), math.sin(gate.yaw), 0.0])
        points += [np.array(gate.p_W) - 0.3 * ahead, np.array(gate.p_W) + 0.3 * ahead]
        if gate is COURSE.gates[0]:
            points.append(np.array([1.6, 0.1, 1.2]))
        if gate is COURSE.gates[2]:
            points += [np.array([-1.25, -0.85, 1.0]), np.array([-0.6, -1.05, 1.2])]
    index = [0]

    def steer(situation):
        p_W = first_of_batch(situation.state.p_W)
        to_point = points[min(index[0], len(points) - 1)] - p_W
        if np.linalg.norm(to_point) < 0.08:
            index[0] += 1
        return to_point * min(0.7, 0.3 / max(np.linalg.norm(to_point), 1e-9))

    last, terminated = fly_episode(env, steer, 3000)
    assert terminated and last.goal.collided[0] == 0.0 and last.goal.gates_passed[0] == 4.0
    assert is_successful(env, last)


def test_what_strikes_ends_the_race():
    task = race_task(0)
    goal = RaceGoal(COURSE.gates, COURSE.poles, (0.0,) * 8)
    floor = Situation(DRONE.trim._replace(p_W=Vec3(0.0, 0.0, -0.01)), goal, 1.0, (0.0,) * 4)
    pole = floor._replace(state=DRONE.trim._replace(p_W=Vec3(0.0, 0.72, 1.0)))
    above = floor._replace(state=DRONE.trim._replace(p_W=Vec3(0.0, 0.72, 1.6)))
    for situation, collided in ((floor, 1.0), (pole, 1.0), (above, 0.0)):
        next_goal = task.progress(situation, situation, DRONE)
        assert next_goal.collided == collided
        assert bool(task.termination(situation._replace(goal=next_goal), DRONE)) == bool(collided)


def test_levels_differ_in_what_is_known():
    """Level 2 shows nominal gate poses until they are near; levels 1 and 2 randomize mass and inertia."""
    env = VectorEnv("race", 8, seconds=1.0)
    observations = env.reset(seed=0)[0]
    assert observations.shape == (8, 18 + 4 + 10)
    goal, nominal = env.episode.situation.goal, COURSE.gates
    true = np.array(goal.gates[0].p_W).T
    displacement = true - np.array(nominal[0].p_W)
    assert (np.abs(displacement).max(axis=0) <= (0.15, 0.15, 0.1)).all() and np.abs(displacement).max() > 0.08
    starts = Vec3(*np.array(env.state.p_W))
    np.testing.assert_allclose(observations[:, :3].T, np.array(gate_coordinates(starts, nominal[0])), atol=1e-6)
    np.testing.assert_allclose(
        observations[:, 22:25], np.tile(gate_coordinates(nominal[1].p_W, nominal[0]), (8, 1)), atol=1e-6
    )
    assert (observations[:, 27] == 0.0).all()
    env._episodes[:3] = true.T  # at the first gate
    observations = env.step(np.zeros((8, 4)))[0]
    position_W = Vec3(*np.array(env.state.p_W))
    np.testing.assert_allclose(observations[:, :3].T, np.array(gate_coordinates(position_W, goal.gates[0])), atol=1e-6)
    assert (observations[:, 27] == 1.0).all()
    assert race_task(0).randomization is None and race_task(1).randomization is not None
    assert set(env.episode.parameters.mass.tolist()) != {1.0}
    with pytest.raises(ValueError, match="level is 3; expected one of 0, 1, 2"):
        race_task(3)


def test_practice_begins_on_the_way_through_any_gate():
    """Within two widths before a gate, which is next, or one behind it, which is passed; or at the start."""
    task = race_task(2)
    env = VectorEnv(task._replace(reset=task.practice), 400)
    env.reset(seed=0)
    situation = env.episode.situation
    goal, width, start_W = situation.goal, 0.4, np.array(load_track("hall").start_W)
    gates_passed, counts = goal.gates_passed.astype(int), {"start": 0, "before": 0, "behind": 0}
    for k in range(400):
        p_W, v_W = (
            Vec3(*(component[k] for component in vector)) for vector in (situation.state.p_W, situation.state.v_W)
        )
        gates = [
            type(gate_batch)(Vec3(*(x[k] for x in gate_batch.p_W)), gate_batch.yaw[k]) for gate_batch in goal.gates
        ]
        if gates_passed[k] == 0 and np.abs(np.array(p_W) - start_W).max() <= 0.1:
            counts["start"] += 1
            continue
        matching = []
        for start_type, low, high in (("before", -2.4, 0.4), ("behind", -0.4, 1.4)):
            gate = gates[gates_passed[k] - (start_type == "behind")]
            r, forwards = gate_coordinates(p_W, gate), v_W.x * math.cos(gate.yaw) + v_W.y * math.sin(gate.yaw)
            lateral = max(abs(r.y), abs(r.z)) / width
            if low <= r.x / width <= high and lateral <= 0.36 and 0.0 < forwards < 3.5:
                matching.append(start_type)
        counts[matching[0]] += 1
    assert min(counts.values()) > 60
    is_nominal = np.all([goal.gates[k].p_W.x == COURSE.gates[k].p_W.x for k in range(4)], axis=0)
    assert 0.1 < is_nominal.mean() < 0.25


# Land --------------------------------------------------------------------------------------------------------------


def test_a_landing():
    env = VectorEnv("land", 1, autoreset_mode="Disabled", **BY_HAND)

    def steer(situation):
        p_W = first_of_batch(situation.state.p_W)
        return np.array([-p_W[0], -p_W[1], -0.2 - 0.5 * p_W[2]])

    last, terminated = fly_episode(env, steer, 400)
    assert terminated and is_successful(env, last)


def test_a_fall_is_no_landing():
    task = load_task("land")
    fallen = Situation(DRONE.trim._replace(v_W=Vec3(0.0, 0.0, -3.0), p_W=Vec3(0.0, 0.0, -0.01)))
    assert task.termination(fallen, DRONE) and not task.success(fallen, DRONE)
    soft = fallen._replace(state=fallen.state._replace(v_W=Vec3(0.0, 0.0, -0.2)))
    assert task.success(soft, DRONE)
    start = task.reset(Draw(), DRONE)[0]
    episode = Episode(Situation(start, action=(0.0,) * 4))
    next_episode, _ = step(episode, (0.0,) * 4, Draw(), EnvironmentSetting(task, DRONE))
    assert not task.termination(next_episode.situation, DRONE)


# Rewards, term by term -----------------------------------------------------------------------------------------------

DISPLACED = DRONE.trim._replace(
    p_W=Vec3(0.1, -0.2, 0.3), v_W=Vec3(0.4, 0.5, -0.6), q_WB=Quat(0.9, 0.1, -0.3, 0.2), omega_B=Vec3(1.0, -2.0, 3.0)
)
ACTION = (0.1, -0.2, 0.3, -0.4)
P2, V2, OMEGA2, A2 = 0.14, 0.77, 14.0, 0.30  # the squares of the vectors above


def test_what_being_away_costs_in_hover():
    cost = math.sqrt(P2 + 1e-4) + 0.1 * V2 + 0.01 * OMEGA2 + 0.3 * (0.1**2 + 0.3**2) + 0.1 * 0.2**2 + 0.01 * A2
    assert load_task("hover").reward(Situation(DISPLACED, (), 0.0, ACTION), DRONE) == pytest.approx(
        2.0 - cost, rel=1e-14
    )


def test_what_being_away_costs_in_recover():
    """s (√(1 + 2 x²/s) − 1) of v² with s = 1, and of ω² with s = 25"""
    fast = 0.1 * (math.sqrt(1.0 + 2.0 * V2) - 1.0) + 0.003 * 25.0 * (math.sqrt(1.0 + 2.0 * OMEGA2 / 25.0) - 1.0)
    cost = math.sqrt(P2 + 1e-4) + fast + 0.1 * (0.1**2 + 0.3**2 + 0.2**2) + 0.01 * A2
    assert load_task("recover").reward(Situation(DISPLACED, (), 0.0, ACTION), DRONE) == pytest.approx(
        2.0 - cost, rel=1e-14
    )


def test_what_being_off_the_reference_costs_in_track():
    """On a circle of 1 m flown at 2 m/s: only deviations from the reference count, except for ω, q_z and a."""
    path = circle((0.0, 0.0, 1.0), radius=1.0, speed=2.0, laps=3.0)
    target = path.evaluate(1.5)
    displaced = DISPLACED._replace(p_W=target.p_W + DISPLACED.p_W, v_W=target.v_W + DISPLACED.v_W)
    cost = math.sqrt(P2 + 9e-6) + 0.05 * V2 + 0.0005 * OMEGA2 + 0.1 * 0.2**2 + 0.001 * A2
    assert tracking_task(path).reward(Situation(displaced, 1.0, 0.5, ACTION), DRONE) == pytest.approx(
        1.0 - cost, rel=1e-13
    )


def test_what_being_away_costs_in_land():
    """3 − √(p² + 1 cm²) − 0.3 |v + p + 0.2 e₃|² − 0.01 ω² − 0.5 (q_x² + q_y²) − 0.01 a²"""
    e_v = np.array(DISPLACED.v_W) + np.array(DISPLACED.p_W) + [0.0, 0.0, 0.2]
    cost = math.sqrt(P2 + 1e-4) + 0.3 * e_v @ e_v + 0.01 * OMEGA2 + 0.5 * (0.1**2 + 0.3**2) + 0.01 * A2
    assert load_task("land").reward(Situation(DISPLACED, (), 0.0, ACTION), DRONE) == pytest.approx(
        3.0 - cost, rel=1e-14
    )


def test_what_being_away_costs_in_universal():
    """2 − √(p² + 1 cm²) − 0.1 ⟨v²⟩₁ − 0.01 ⟨ω²⟩₄ − 0.2 (q_x² + q_y² + q_z²): an action costs nothing."""
    fast = 0.1 * (math.sqrt(1.0 + 2.0 * V2) - 1.0) + 0.01 * 4.0 * (math.sqrt(1.0 + 2.0 * OMEGA2 / 4.0) - 1.0)
    cost = math.sqrt(P2 + 1e-4) + fast + 0.2 * (0.1**2 + 0.3**2 + 0.2**2)
    assert load_task("universal").reward(Situation(DISPLACED, (), 0.0, ACTION), DRONE) == pytest.approx(
        2.0 - cost, rel=1e-14
    )
