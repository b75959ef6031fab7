"""Sensing between drone and policy: noise and latency of the given size, and filters accurate to their sensors' errors."""

from functools import partial

import numpy as np
import pytest

from samara.core.algebra import matrix_from_quat
from samara.estimate.ideal import EstimateNoise
from samara.learn.envs.gym import VectorEnv
from samara.learn.observation_noise import FILTERS, fused_sensing, noisy_sensing
from samara.learn.task import Situation, observe, trim_drone
from samara.learn.tasks import load_task


def test_noise_has_its_size_and_is_new_at_every_step():
    """σ of the observed minus the true values, over drones and steps; the same seed gives the same noise."""
    noise = EstimateNoise(position=0.02, velocity=0.05, yaw=0.0, rate=0.1, rate_bias=0.0)
    env, repeated = (VectorEnv("hover", 200, sensing=noisy_sensing(noise), seconds=0.2) for _ in range(2))
    assert (env.reset(seed=0)[0] == repeated.reset(seed=0)[0]).all()
    errors = []
    for _ in range(10):
        observations = env.step(np.zeros((200, 4)))[0]
        assert (observations == repeated.step(np.zeros((200, 4)))[0]).all()
        true = np.array([*env.state.p_W, *env.state.v_W, *(x / 5.0 for x in env.state.omega_B)]).T
        errors.append(np.concatenate([observations[:, :6], observations[:, 15:18]], axis=1) - true)
    sigma = np.std(errors, axis=(0, 1))
    assert sigma == pytest.approx(np.repeat([0.02, 0.05, 0.02], 3), rel=0.05)
    first, second = np.array(errors[:2])
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 0.1


def test_late_is_late():
    """The observation is the state of 30 ms ago; at first the initial state."""
    delayed, prompt = (
        VectorEnv("hover", 3, sensing=sensing, seconds=0.2) for sensing in (noisy_sensing(latency=0.03), None)
    )
    history = [prompt.reset(seed=1)[0][:, :18]]
    assert (delayed.reset(seed=1)[0][:, :18] == history[0]).all()
    for k, action in enumerate(np.random.default_rng(0).uniform(-1.0, 1.0, (8, 3, 4)), 1):
        history.append(prompt.step(action)[0][:, :18])
        assert (delayed.step(action)[0][:, :18] == history[max(k - 3, 0)]).all()


def test_a_filter_knows_where_it_is():
    """Motion capture and IMU through the complementary filter: within centimetres of the truth, but not equal to it."""
    env = VectorEnv("hover", 16, "hexarotor_x", sensing=fused_sensing(), seconds=3.0)
    env.reset(seed=0)
    for k in range(60):
        observations = env.step(0.1 * np.sin(0.1 * k) * np.ones((16, 6)))[0]
    error = np.abs(observations[:, :3] - np.array(env.state.p_W).T)
    assert 1e-4 < np.median(error) < 0.05
    attitude = np.array(matrix_from_quat(env.state.q_WB)).T
    assert np.median(np.abs(observations[:, 6:15] - attitude)) < 0.02
    assert len(env.program.step_draws) == 12 + 7


def test_a_kalman_filter_compiles_too():
    env = VectorEnv("hover", 4, "hexarotor_x", sensing=fused_sensing(estimator="ekf"), seconds=1.0)
    env.reset(seed=0)
    for _ in range(30):
        observations = env.step(np.zeros((4, 6)))[0]
    assert np.abs(observations[:, :3] - np.array(env.state.p_W).T).max() < 0.1


def test_raptors_numbers():
    drone = trim_drone("crazyflie")
    situation = Situation(drone.trim, action=(0.1, 0.2, 0.3, 0.4))
    observation = observe("raptor", situation, drone)
    assert len(observation) == 22 and observation[18:] == situation.action
    assert observation[:12] == (0.0,) * 3 + (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
    task = load_task("hover")._replace(observation=partial(observe, "raptor"))
    env = VectorEnv(task, 2, seconds=0.2)
    env.reset(seed=0)
    action = np.random.default_rng(0).uniform(-1.0, 1.0, (2, 4)).astype(np.float32)
    assert (env.step(action)[0][:, 18:] == action).all()
    assert observe("full_state", situation, drone)[:6] == (0.0,) * 6


def test_an_unknown_filter_is_refused():
    with pytest.raises(ValueError, match=f"estimator 'oracle': expected one of {', '.join(FILTERS)}"):
        fused_sensing(estimator="oracle")
