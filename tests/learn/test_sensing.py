"""Between drone and policy: noise of its size, latency of its length, and a filter that is right to its sensors' errors."""

from functools import partial

import numpy as np
import pytest

from samara.core.algebra import matrix_from_quat
from samara.estimate.ideal import Noise
from samara.learn.envs.gym import VectorEnv
from samara.learn.observation_noise import FILTERS, fused, noisy
from samara.learn.task import Situation, craft_for, observe
from samara.learn.tasks import load_task


def test_noise_has_its_size_and_is_new_at_every_step():
    """σ of what is shown less what is, over drones and steps; the same seed, the same noise"""
    noise = Noise(position=0.02, velocity=0.05, yaw=0.0, rate=0.1, rate_bias=0.0)
    env, again = (VectorEnv("hover", 200, sensing=noisy(noise), seconds=0.2) for _ in range(2))
    assert (env.reset(seed=0)[0] == again.reset(seed=0)[0]).all()
    errors = []
    for _ in range(10):
        seen = env.step(np.zeros((200, 4)))[0]
        assert (seen == again.step(np.zeros((200, 4)))[0]).all()
        true = np.array([*env.state.p_W, *env.state.v_W, *(x / 5.0 for x in env.state.omega_B)]).T
        errors.append(np.concatenate([seen[:, :6], seen[:, 15:18]], axis=1) - true)
    spread = np.std(errors, axis=(0, 1))
    assert spread == pytest.approx(np.repeat([0.02, 0.05, 0.02], 3), rel=0.05)
    first, second = np.array(errors[:2])
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 0.1


def test_late_is_late():
    """What is seen is what was, 30 ms ago; at first it is the start"""
    late, prompt = (VectorEnv("hover", 3, sensing=own, seconds=0.2) for own in (noisy(latency=0.03), None))
    shown = [prompt.reset(seed=1)[0][:, :18]]
    assert (late.reset(seed=1)[0][:, :18] == shown[0]).all()
    for k, action in enumerate(np.random.default_rng(0).uniform(-1.0, 1.0, (8, 3, 4)), 1):
        shown.append(prompt.step(action)[0][:, :18])
        assert (late.step(action)[0][:, :18] == shown[max(k - 3, 0)]).all()


def test_a_filter_knows_where_it_is():
    """Motion capture and IMU through the complementary filter: within centimetres of the truth, and not the truth"""
    env = VectorEnv("hover", 16, "hexarotor_x", sensing=fused(), seconds=3.0)
    env.reset(seed=0)
    for k in range(60):
        seen = env.step(0.1 * np.sin(0.1 * k) * np.ones((16, 6)))[0]
    error = np.abs(seen[:, :3] - np.array(env.state.p_W).T)
    assert 1e-4 < np.median(error) < 0.05
    attitude = np.array(matrix_from_quat(env.state.q_WB)).T
    assert np.median(np.abs(seen[:, 6:15] - attitude)) < 0.02
    assert len(env.program.step_draws) == 12 + 7


def test_a_kalman_filter_compiles_too():
    env = VectorEnv("hover", 4, "hexarotor_x", sensing=fused(estimator="ekf"), seconds=1.0)
    env.reset(seed=0)
    for _ in range(30):
        seen = env.step(np.zeros((4, 6)))[0]
    assert np.abs(seen[:, :3] - np.array(env.state.p_W).T).max() < 0.1


def test_raptors_numbers():
    craft = craft_for("crazyflie")
    situation = Situation(craft.trim, action=(0.1, 0.2, 0.3, 0.4))
    seen = observe("raptor", situation, craft)
    assert len(seen) == 22 and seen[18:] == situation.action
    assert seen[:12] == (0.0,) * 3 + (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
    own = load_task("hover")._replace(observation=partial(observe, "raptor"))
    env = VectorEnv(own, 2, seconds=0.2)
    env.reset(seed=0)
    action = np.random.default_rng(0).uniform(-1.0, 1.0, (2, 4)).astype(np.float32)
    assert (env.step(action)[0][:, 18:] == action).all()
    assert observe("full_state", situation, craft)[:6] == (0.0,) * 6


def test_an_unknown_filter_is_refused():
    with pytest.raises(ValueError, match=f"estimator 'oracle': expected one of {', '.join(FILTERS)}"):
        fused(estimator="oracle")
