"""Teams: observations of the other drones, as one environment or as PettingZoo agents, with the same values."""

import math

import numpy as np
import pytest

from samara.core.algebra import Vec3
from samara.core.extras import install_hint
from samara.learn.env_config import configure_environment
from samara.learn.envs.gym import VectorEnv
from samara.learn.episode import reset, step_team, teammate_motions
from samara.learn.observation_noise import noisy_sensing
from samara.learn.task import Draw, Situation, TeammateMotion, trim_drone
from samara.learn.tasks import load_task
from samara.learn.tasks.formation import formation_task

DRONE = trim_drone("crazyflie")
BRIEF = {"seconds": 0.2}


def test_every_drone_starts_near_its_corner_and_sees_the_others():
    setting = configure_environment(formation_task(drones=4, radius=1.0), "crazyflie")
    team, observation = reset(Draw(), setting)
    size = 22 + 3 + 3 * 6
    assert len(observation) == 4 * size
    for k, episode in enumerate(team):
        p_W = episode.situation.state.p_W
        assert (p_W.x, p_W.y) == pytest.approx((math.cos(k * math.pi / 2), math.sin(k * math.pi / 2)), abs=1e-12)
        following = team[(k + 1) % 4].situation.state.p_W
        assert observation[k * size + 25 : k * size + 28] == pytest.approx(tuple(following - p_W), abs=1e-12)
        teammates = teammate_motions([episode.situation.state for episode in team])[k]
        assert [teammate.p_W for teammate in teammates][-1] == team[k - 1].situation.state.p_W


def test_two_that_touch_end_it():
    task = load_task("formation")
    position = Vec3(0.6, 0.0, 0.0)
    state = DRONE.trim._replace(p_W=position, v_W=Vec3(0.0, 0.3, 0.0))

    def situation_with_teammate(distance):
        return Situation(
            state, (), 0.0, (0.0,) * 4, (TeammateMotion(position + Vec3(distance, 0.0, 0.0), Vec3(0.0, 0.3, 0.0)),)
        )

    assert not task.termination(situation_with_teammate(0.5), DRONE) and task.success(
        situation_with_teammate(0.5), DRONE
    )
    assert task.termination(situation_with_teammate(0.05), DRONE)
    assert task.reward(situation_with_teammate(0.5), DRONE) == pytest.approx(1.99)
    assert task.reward(situation_with_teammate(0.1), DRONE) < task.reward(situation_with_teammate(0.2), DRONE)


def test_the_reward_of_a_team_is_the_mean():
    """One step in Python by hand: the rewards of each drone against the compiled team."""
    env = VectorEnv("formation", 1, **BRIEF)
    env.reset(seed=2)
    action = np.random.default_rng(0).uniform(-1.0, 1.0, 12).astype(np.float32)
    team = tuple(_first_of_batch(episode) for episode in env.episode)
    _, transitions = step_team(team, tuple(action.astype(float).tolist()), env.setting)
    observations, rewards, terminated, _, _ = env.step(action[None])
    assert rewards[0] == pytest.approx(np.mean([transition.reward for transition in transitions]), rel=1e-12)
    assert observations[0] == pytest.approx([x for transition in transitions for x in transition.observation], abs=1e-5)
    assert terminated[0] == any(transition.terminated for transition in transitions)


def _first_of_batch(tree):
    if not isinstance(tree, tuple):
        return float(tree[0])
    leaves = [_first_of_batch(branch) for branch in tree]
    return type(tree)(*leaves) if hasattr(tree, "_fields") else tuple(leaves)


def test_sensing_is_for_one():
    with pytest.raises(ValueError, match="task 'formation' is for 3 drones; sensing is for tasks with one"):
        VectorEnv("formation", 2, sensing=noisy_sensing(latency=0.01))


def test_pettingzoo_finds_nothing_wrong():
    pytest.importorskip("pettingzoo", reason=f"PettingZoo is not installed: {install_hint('pettingzoo')}")
    from pettingzoo.test import parallel_api_test, parallel_seed_test

    from samara.learn.envs.pettingzoo import ParallelEnv

    parallel_api_test(ParallelEnv("formation", **BRIEF), num_cycles=60)
    parallel_seed_test(lambda: ParallelEnv("formation", **BRIEF), num_cycles=30)


def test_agents_have_the_numbers_of_the_team():
    """Bit for bit the observations of the vector environment, through an end; the mean of their rewards is its reward."""
    pytest.importorskip("pettingzoo", reason=f"PettingZoo is not installed: {install_hint('pettingzoo')}")
    from samara.learn.envs.pettingzoo import ParallelEnv

    agents, team = ParallelEnv("formation", **BRIEF), VectorEnv("formation", 1, autoreset_mode="Disabled", **BRIEF)
    for seed in (4, None):
        observations, _ = agents.reset(seed=seed)
        assert (np.concatenate(list(observations.values())) == team.reset(seed=seed)[0][0]).all()
        for action in np.random.default_rng(1).uniform(-1.0, 1.0, (20, 3, 4)).astype(np.float32):
            observations, rewards, terminations, truncations, _ = agents.step(
                dict(zip(agents.agents, action, strict=True))
            )
            expected = team.step(action.reshape(1, 12))
            assert (np.concatenate(list(observations.values())) == expected[0][0]).all()
            assert np.mean(list(rewards.values())) == pytest.approx(expected[1][0], rel=1e-12)
            assert set(terminations.values()) == {bool(expected[2][0])} and set(truncations.values()) == {
                bool(expected[3][0])
            }
            if expected[2][0] or expected[3][0]:
                break
        assert agents.agents == []
    with pytest.raises(ValueError, match=r"actions\['drone_1'\] is None; expected 4 finite numbers"):
        agents.reset(seed=0)
        agents.step({"drone_0": np.zeros(4)})
