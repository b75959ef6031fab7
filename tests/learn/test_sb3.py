"""Stable-Baselines3: its checker, its types, the same values as `VectorEnv`, and training with its PPO."""

import numpy as np
import pytest

from samara.core.extras import install_hint

pytest.importorskip("stable_baselines3", reason=f"Stable-Baselines3 is not installed: {install_hint('sb3')}")

from stable_baselines3 import PPO
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.vec_env import VecMonitor

from samara.learn.envs.gym import Env, VectorEnv
from samara.learn.envs.sb3 import VecEnv

BRIEF = {"seconds": 0.2}


def test_its_checker_finds_nothing_wrong():
    check_env(Env("hover", **BRIEF))


def test_it_has_the_numbers_of_the_vector_environment():
    vector_env, sb3_env = VectorEnv("hover", 3, autoreset_mode="SameStep", **BRIEF), VecEnv("hover", 3, **BRIEF)
    sb3_env.seed(5)
    assert (sb3_env.reset() == vector_env.reset(seed=5)[0]).all()
    ends = 0
    for action in np.random.default_rng(0).uniform(-1.0, 1.0, (50, 3, 4)).astype(np.float32):
        observations, rewards, is_over, infos = sb3_env.step(action)
        expected = vector_env.step(action)
        assert (observations == expected[0]).all() and (rewards == expected[1].astype(np.float32)).all()
        assert (is_over == (expected[2] | expected[3])).all()
        for drone, info in enumerate(infos):
            assert set(info) == ({"terminal_observation", "TimeLimit.truncated"} if is_over[drone] else set())
            if is_over[drone]:
                assert (info["terminal_observation"] == expected[4]["final_obs"][drone]).all()
                assert info["TimeLimit.truncated"] == bool(expected[3][drone] and not expected[2][drone])
        ends += is_over.sum()
    assert ends >= 6
    assert (sb3_env.reset() != vector_env.reset(seed=5)[0]).any()  # the seed is used once


def test_ppo_learns_on_it():
    """A few updates: the value of an episode is recorded, and weights change."""
    env = VecMonitor(VecEnv("hover", 8, **BRIEF))
    model = PPO("MlpPolicy", env, n_steps=64, batch_size=128, n_epochs=1, seed=0, device="cpu")
    initial = [weight.detach().clone() for weight in model.policy.parameters()]
    model.learn(1024)
    assert len(model.ep_info_buffer) > 8
    assert any((old != new).any() for old, new in zip(initial, model.policy.parameters(), strict=True))


def test_what_drones_do_not_have_is_refused():
    env = VecEnv("hover", 2, **BRIEF)
    assert env.get_attr("num_envs") == [2, 2] and env.env_is_wrapped(VecMonitor) == [False, False]
    for call in (lambda: env.get_attr("wings"), lambda: env.set_attr("x", 1), lambda: env.env_method("fly")):
        with pytest.raises(AttributeError):
            call()
