"""Teams: who is where in whose eyes, together or each an agent of PettingZoo, and the same numbers either way."""

import math

import numpy as np
import pytest

from samara.core.algebra import Vec3
from samara.learn.env_config import setting_for
from samara.learn.envs.gym import VectorEnv
from samara.learn.episode import other_drones, reset, step_team
from samara.learn.observation_noise import noisy
from samara.learn.task import Draw, Other, Situation, craft_for
from samara.learn.tasks import load_task
from samara.learn.tasks.formation import forming

CRAFT = craft_for("crazyflie")
BRIEF = {"seconds": 0.2}


def test_every_drone_starts_near_its_corner_and_sees_the_others():
    setting = setting_for(forming(drones=4, radius=1.0), "crazyflie")
    team, seen = reset(Draw(), setting)
    size = 22 + 3 + 3 * 6
    assert len(seen) == 4 * size
    for k, episode in enumerate(team):
        p_W = episode.situation.state.p_W
        assert (p_W.x, p_W.y) == pytest.approx((math.cos(k * math.pi / 2), math.sin(k * math.pi / 2)), abs=1e-12)
        following = team[(k + 1) % 4].situation.state.p_W
        assert seen[k * size + 25 : k * size + 28] == pytest.approx(tuple(following - p_W), abs=1e-12)
        others = other_drones([episode.situation.state for episode in team])[k]
        assert [other.p_W for other in others][-1] == team[k - 1].situation.state.p_W


def test_two_that_touch_end_it():
    task = load_task("formation")
    place = Vec3(0.6, 0.0, 0.0)
    state = CRAFT.trim._replace(p_W=place, v_W=Vec3(0.0, 0.3, 0.0))

    def beside(distance):
        return Situation(state, (), 0.0, (0.0,) * 4, (Other(place + Vec3(distance, 0.0, 0.0), Vec3(0.0, 0.3, 0.0)),))

    assert not task.termination(beside(0.5), CRAFT) and task.success(beside(0.5), CRAFT)
    assert task.termination(beside(0.05), CRAFT)
    assert task.reward(beside(0.5), CRAFT) == pytest.approx(1.99)
    assert task.reward(beside(0.1), CRAFT) < task.reward(beside(0.2), CRAFT)


def test_the_reward_of_a_team_is_the_mean():
    """By hand, one step in Python: what each gains, and what the compiled team has"""
    env = VectorEnv("formation", 1, **BRIEF)
    env.reset(seed=2)
    action = np.random.default_rng(0).uniform(-1.0, 1.0, 12).astype(np.float32)
    team = tuple(_alone(episode) for episode in env.episode)
    _, each = step_team(team, tuple(action.astype(float).tolist()), env.setting)
    seen, rewards, terminated, _, _ = env.step(action[None])
    assert rewards[0] == pytest.approx(np.mean([own.reward for own in each]), rel=1e-12)
    assert seen[0] == pytest.approx([x for own in each for x in own.observation], abs=1e-5)
    assert terminated[0] == any(own.terminated for own in each)


def _alone(tree):
    if not isinstance(tree, tuple):
        return float(tree[0])
    own = [_alone(each) for each in tree]
    return type(tree)(*own) if hasattr(tree, "_fields") else tuple(own)


def test_sensing_is_for_one():
    with pytest.raises(ValueError, match="task 'formation' is for 3 drones; sensing is for tasks with one"):
        VectorEnv("formation", 2, sensing=noisy(latency=0.01))


def test_pettingzoo_finds_nothing_wrong():
    pytest.importorskip("pettingzoo", reason="PettingZoo is not installed: pip install 'samara[pettingzoo]'")
    from pettingzoo.test import parallel_api_test, parallel_seed_test

    from samara.learn.envs.pettingzoo import ParallelEnv

    parallel_api_test(ParallelEnv("formation", **BRIEF), num_cycles=60)
    parallel_seed_test(lambda: ParallelEnv("formation", **BRIEF), num_cycles=30)


def test_agents_have_the_numbers_of_the_team():
    """Bit for bit what the vector environment sees, through an end; and the mean of their rewards is its reward"""
    pytest.importorskip("pettingzoo", reason="PettingZoo is not installed: pip install 'samara[pettingzoo]'")
    from samara.learn.envs.pettingzoo import ParallelEnv

    agents, team = ParallelEnv("formation", **BRIEF), VectorEnv("formation", 1, autoreset_mode="Disabled", **BRIEF)
    for seed in (4, None):
        shown, _ = agents.reset(seed=seed)
        assert (np.concatenate(list(shown.values())) == team.reset(seed=seed)[0][0]).all()
        for action in np.random.default_rng(1).uniform(-1.0, 1.0, (20, 3, 4)).astype(np.float32):
            shown, rewards, ends, cuts, _ = agents.step(dict(zip(agents.agents, action, strict=True)))
            same = team.step(action.reshape(1, 12))
            assert (np.concatenate(list(shown.values())) == same[0][0]).all()
            assert np.mean(list(rewards.values())) == pytest.approx(same[1][0], rel=1e-12)
            assert set(ends.values()) == {bool(same[2][0])} and set(cuts.values()) == {bool(same[3][0])}
            if same[2][0] or same[3][0]:
                break
        assert agents.agents == []
    with pytest.raises(ValueError, match=r"actions\['drone_1'\] is None; expected 4 finite numbers"):
        agents.reset(seed=0)
        agents.step({"drone_0": np.zeros(4)})
