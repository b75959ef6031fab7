"""`VectorEnv("hover")`: the laws of the environment that a first policy is trained in."""

import subprocess
import sys

import numpy as np
import pytest
from gymnasium.wrappers.vector import RecordEpisodeStatistics
from scipy.spatial.transform import Rotation

import samara
from samara.control.action_space import rotor_action, rotor_range
from samara.control.geometric import geometric
from samara.core.algebra import ZERO
from samara.core.extras import install_hint
from samara.core.tree import flatten, unflatten
from samara.learn.envs import VectorEnv
from samara.learn.tasks import load_task
from samara.physics.types import Reference

FROM_TRIM = load_task("hover")._replace(reset=lambda draw, drone: (drone.trim, ()), name="hover from trim")


def random_actions(env, steps, seed=0):
    """Return uniform actions, (steps, N, size)."""
    return np.random.default_rng(seed).uniform(-1.0, 1.0, (steps, *env.action_space.shape))


# Gymnasium ----------------------------------------------------------------------------------------------------------


def test_results_belong_to_the_declared_spaces():
    env = VectorEnv("hover", 5, "hexarotor_x")
    observations, info = env.reset(seed=3)
    assert (env.observation_space.shape, env.action_space.shape) == ((5, 24), (5, 6))
    assert observations in env.observation_space and info == {}
    for action in random_actions(env, 5):
        observations, rewards, terminated, truncated, info = env.step(action)
        assert observations in env.observation_space and observations.dtype == np.float32 and info == {}
        assert (rewards.shape, rewards.dtype) == ((5,), np.float64)
        assert {terminated.dtype, truncated.dtype} == {np.dtype(bool)}


def test_gymnasium_counts_the_steps_of_an_episode():
    """Its recorder of statistics: two episodes of five steps, each with the reward 2 − 1 cm of a drone at rest"""
    env = RecordEpisodeStatistics(VectorEnv(FROM_TRIM, 3, "crazyflie_documented", seconds=0.05))
    env.reset(seed=0)
    for _ in range(11):
        env.step(np.zeros((3, 4)))
    assert list(env.length_queue) == [5] * 6
    assert list(env.return_queue) == pytest.approx([5 * 1.99] * 6, rel=1e-6)


def test_a_reset_after_the_end_starts_a_complete_episode():
    env = VectorEnv("hover", 2, seconds=0.05)
    env.reset(seed=8)
    for _ in range(2):
        truncated = [env.step(np.zeros((2, 4)))[3].all() for _ in range(5)]
        assert truncated == [False] * 4 + [True]
        env.reset()


def test_the_same_seed_gives_the_same_flights():
    """Also through resets without a seed, which continue to new starts, and across objects."""
    first_env, second_env = VectorEnv("hover", 7), VectorEnv("hover", 7)
    starts = []
    for seed in (11, None, None):
        starts.append(first_env.reset(seed=seed)[0])
        assert (second_env.reset(seed=seed)[0] == starts[-1]).all()
    assert (starts[0] != starts[1])[:, :3].all() and (starts[1] != starts[2])[:, :3].all()
    for action in random_actions(first_env, 20):
        assert all((a == b).all() for a, b in zip(first_env.step(action)[:4], second_env.step(action)[:4], strict=True))
    assert (first_env.reset(seed=11)[0] == starts[0]).all()
    assert (VectorEnv("hover", 7).reset()[0] != VectorEnv("hover", 7).reset()[0]).any()


# Physics ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["crazyflie_documented", "hakoniwa", "hexarotor_tilted"])
def test_the_middle_of_the_action_space_hovers(name):
    """From the trim, action 0 for a second: no drift beyond rounding"""
    env = VectorEnv(FROM_TRIM, 2, name)
    env.reset(seed=0)
    for _ in range(100):
        _, rewards, terminated, truncated, _ = env.step(np.zeros(env.action_space.shape))
        assert rewards == pytest.approx(1.99, rel=1e-12) and not (terminated | truncated).any()
    assert np.abs(np.array(env.state.p_W)).max() < 1e-12 and np.abs(np.array(env.state.v_W)).max() < 1e-12


def test_a_step_is_the_equations_under_commands_computed_by_hand():
    """Five steps of 2 ms in Python floats: ±1 is full throttle and its mirror image about hover; beyond it is clipped"""
    env = VectorEnv("hover", 3, "crazyflie_documented", substeps=5)
    env.reset(seed=5)
    initial = env.state
    env.step(np.array([[1.0, -1.0, 0.5, 0.0], [0.0] * 4, [9.0, -9.0, 0.5, 0.0]]))
    u0 = (np.sqrt(0.028 * 9.81 / 4.0 / 2.88e-8) - 300.0) / 2200.0
    commands = ((1.0, 2.0 * u0 - 1.0, 0.5 * (1.0 + u0), u0), (u0,) * 4, (1.0, 2.0 * u0 - 1.0, 0.5 * (1.0 + u0), u0))
    vehicle = samara.vehicle("crazyflie_documented").without_effect("contact")
    for k, command in enumerate(commands):
        state = unflatten(initial, iter(float(leaf[k]) for leaf in flatten(initial)))
        for _ in range(5):
            state = samara.step(state, tuple(float(u) for u in command), vehicle, 2e-3)
        assert [leaf[k] for leaf in flatten(env.state)] == pytest.approx(flatten(state), rel=1e-12, abs=1e-13)


def test_an_observation_has_the_rotation_matrix_of_scipy():
    env = VectorEnv("hover", 4)
    env.reset(seed=6)
    for action in random_actions(env, 10):
        observations, *_ = env.step(action)
    state = env.state
    R_WB = Rotation.from_quat(np.array(state.q_WB).T, scalar_first=True).as_matrix().reshape(4, 9)
    hover_speed = np.sqrt(0.0293 * 9.80665 / 4.0 / 2.02e-8)
    rows = (np.array(state.p_W).T, np.array(state.v_W).T, R_WB, np.array(state.omega_B).T / 5.0)
    expected = np.hstack([*rows, np.array(state.rotor_speed).T / hover_speed - 1.0])
    assert observations == pytest.approx(expected, rel=1e-6, abs=1e-7)


def test_a_controller_keeps_every_drone_in_the_air_and_doing_nothing_does_not():
    """Lee's controller through the actions: all 64 fly 5 s and end within 1 cm; the trim alone loses nine in ten"""
    env, idle = (VectorEnv("hover", 64, "crazyflie_documented", seconds=5.0) for _ in range(2))
    drone = env.setting.drone
    control, actuators = geometric(drone.vehicle), rotor_range(drone.command, drone.vehicle)
    env.reset(seed=1)
    idle.reset(seed=1)
    is_lost = np.zeros(64, dtype=bool)
    for _ in range(env.setting.task.steps):
        command, _ = control(env.state, Reference(ZERO), drone.vehicle, ())
        action = np.stack([np.broadcast_to(a, 64) for a in rotor_action(command, actuators)], axis=1)
        observations, _, terminated, truncated, _ = env.step(action)
        assert not terminated.any()
        is_lost |= idle.step(np.zeros((64, 4)))[2]
    assert truncated.all() and is_lost.mean() > 0.9
    assert np.linalg.norm(observations[:, :3], axis=1).max() < 0.01


def test_no_thrust_falls_out_of_the_environment():
    """Action −1 turns the rotors at 588 rad/s, (588/1544)² = 15 % of the weight: terminated 2 m below, not truncated"""
    env = VectorEnv(FROM_TRIM, 1)
    env.reset(seed=0)
    for _ in range(300):
        observations, _, terminated, truncated, _ = env.step(np.full((1, 4), -1.0))
        if terminated[0]:
            break
    assert terminated[0] and not truncated[0]
    assert -2.1 < observations[0, 2] < -2.0


def test_without_gymnasium_one_sentence_says_what_to_install():
    program = "import sys; sys.modules['gymnasium'] = None; from samara.learn.envs import VectorEnv"
    completed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert completed.returncode == 1
    assert f"samara.learn.envs.gym needs Gymnasium 1.1 or newer: {install_hint('gym')}" in completed.stderr
