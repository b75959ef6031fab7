"""Stable-Baselines3: its checker, its types, the same values as `VectorEnv`, and training with its PPO."""

import numpy as np
import pytest

from samara.core.extras import install_hint

pytest.importorskip("stable_baselines3", reason=f"Stable-Baselines3 is not installed: {install_hint('sb3')}")

import torch
from stable_baselines3 import PPO, SAC, TD3
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.vec_env import VecMonitor, VecNormalize

from samara.control import load_policy
from samara.control.policy import compute_action, policy_controller
from samara.core.algebra import ZERO
from samara.learn import save_sb3_policy
from samara.learn.envs.gym import Env, VectorEnv
from samara.learn.envs.sb3 import VecEnv
from samara.physics import Reference

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


@pytest.mark.parametrize(
    ("algorithm", "hidden"), [(PPO, torch.nn.Tanh), (PPO, torch.nn.ReLU), (SAC, torch.nn.ReLU), (TD3, torch.nn.ReLU)]
)
def test_the_policy_of_the_folder_acts_as_the_model(algorithm, hidden, tmp_path):
    """Actions in 200 random states, some of them beyond ±1 before they are clipped"""
    env = VecEnv("hover", 2, seconds=0.05)
    model = algorithm(
        "MlpPolicy", env, policy_kwargs={"net_arch": [16, 16], "activation_fn": hidden}, seed=0, device="cpu"
    )
    with torch.no_grad():
        for weight in model.policy.parameters():
            weight.mul_(3.0)
        if algorithm is PPO:
            model.policy.action_net.bias.copy_(torch.tensor([1.5, -1.5, 0.2, 0.0]))
    saved = save_sb3_policy(model, VecMonitor(env), tmp_path / "policy")
    policy = load_policy(tmp_path / "policy")
    assert saved == policy and dict(policy.evaluation)["episodes"] == 10_000
    vehicle = env.vector_env.setting.drone.vehicle
    controller = policy_controller(policy, vehicle, 0.01)
    vector_env = VectorEnv("hover", 200)
    observations, _ = vector_env.reset(seed=1)
    expected = model.predict(observations, deterministic=True)[0]
    actions = compute_action(policy, vector_env.state, Reference(ZERO), controller.initial_state)[0]
    assert np.stack(actions, axis=1) == pytest.approx(expected, abs=1e-6)
    assert algorithm is not PPO or (np.abs(expected) == 1.0).any()


def test_what_no_policy_folder_can_say_is_refused(tmp_path):
    env = VecEnv("hover", 2, **BRIEF)
    model = PPO("MlpPolicy", VecNormalize(env), n_steps=8, batch_size=16, device="cpu")
    with pytest.raises(ValueError, match="VecNormalize"):
        save_sb3_policy(model, model.get_env(), tmp_path / "policy")
    odd = PPO("MlpPolicy", env, n_steps=8, batch_size=16, policy_kwargs={"activation_fn": torch.nn.ELU}, device="cpu")
    with pytest.raises(ValueError, match="expected an MlpPolicy with Tanh or ReLU"):
        save_sb3_policy(odd, env, tmp_path / "policy")
    with pytest.raises(ValueError, match=r"expected a samara\.learn\.VecEnv"):
        save_sb3_policy(odd, "hover", tmp_path / "policy")


def test_what_drones_do_not_have_is_refused():
    env = VecEnv("hover", 2, **BRIEF)
    assert env.get_attr("num_envs") == [2, 2] and env.env_is_wrapped(VecMonitor) == [False, False]
    for call in (lambda: env.get_attr("wings"), lambda: env.set_attr("x", 1), lambda: env.env_method("fly")):
        with pytest.raises(AttributeError):
            call()
