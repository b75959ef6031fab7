"""A rollout by XLA and by the kernel: it matches the environment, and its gradients match differences of the rewards."""

import numpy as np
import pytest

pytest.importorskip("jax")

import jax
import jax.numpy as jnp

from samara.compiler.jax.arrays import Launch
from samara.learn.env_config import configure_environment
from samara.learn.evaluation import evaluator
from samara.learn.gradient_training import GradientHyperparameters, gradient_trainer
from samara.learn.jax.env import JaxEnv
from samara.learn.jax.rollout import flat_step, initial_episodes, initial_weights, rolled_integrator, rollout_xla
from samara.learn.jax.rollout_gpu import rollout_kernel
from samara.learn.policies import act, dense_network

SETTINGS = {
    "late actions, seen again, two steps in a period": {"substeps": 2, "delay": (0, 2), "history": 2},
    "thrust and rates": {"action": "thrust_and_rates"},
}


def large_weights(functions, hidden=16):
    """Return weights of a policy whose actions are not small."""
    network = dense_network((hidden, hidden))
    weights = initial_weights(network, jax.random.key(0), functions.observation_size, functions.action_size)
    return (*weights[:-1], (30.0 * weights[-1][0], weights[-1][1]))


def gradients(rollout, weights, episodes, cotangent):
    def value(weights, episodes):
        total, end = rollout(weights, episodes)
        return jnp.sum(total) + jnp.sum(cotangent * end)

    return jax.jit(jax.value_and_grad(value, argnums=(0, 1)))(weights, episodes)


@pytest.mark.parametrize("setting_name", SETTINGS)
def test_the_kernel_and_xla_fly_and_differentiate_alike(setting_name):
    functions = flat_step(configure_environment("hover", "crazyflie", **SETTINGS[setting_name]))
    weights, episodes = large_weights(functions), initial_episodes(functions, jax.random.key(1), 32)
    cotangent = 0.01 * jax.random.normal(jax.random.key(2), episodes.shape)
    cotangent = cotangent * jnp.isin(jnp.arange(functions.size), jnp.array(functions.varying_leaves))[:, None]
    by_xla = gradients(rollout_xla(functions, 2), weights, episodes, cotangent)
    by_kernel = gradients(
        rollout_kernel(functions, 2, Launch(block=16, warps=1), interpret=True), weights, episodes, cotangent
    )
    for expected, actual in zip(jax.tree.leaves(by_xla), jax.tree.leaves(by_kernel), strict=True):
        assert np.abs(actual - expected).max() <= 4e-6 * np.abs(expected).max()


def test_by_the_midpoint_the_kernel_has_the_gradient_of_xla():
    functions = flat_step(configure_environment("hover", "crazyflie"), rolled_integrator("midpoint"))
    weights, episodes = large_weights(functions), initial_episodes(functions, jax.random.key(1), 32)
    cotangent = 0.01 * jax.random.normal(jax.random.key(2), episodes.shape)
    kernel = rollout_kernel(functions, 2, Launch(block=16, warps=1), interpret=True, integrator="midpoint")
    by_xla = gradients(rollout_xla(functions, 2), weights, episodes, cotangent)
    by_kernel = gradients(kernel, weights, episodes, cotangent)
    for expected, actual in zip(jax.tree.leaves(by_xla), jax.tree.leaves(by_kernel), strict=True):
        assert np.abs(actual - expected).max() <= 4e-6 * np.abs(expected).max()


def test_a_rollout_is_the_flight_of_the_environment():
    setting, steps = configure_environment("hover", "crazyflie"), 20
    env, functions = JaxEnv(setting), flat_step(setting)
    weights = large_weights(functions)
    flight, observation = env.reset(env.key(7))
    episodes = jnp.stack(jax.tree.leaves(flight.episode))[:, None]
    total, end = jax.jit(rollout_xla(functions, steps))(weights, episodes)
    step, rewards = jax.jit(env.step), 0.0
    for _ in range(steps):
        flight, transition = step(flight, act(weights, observation[:, None])[:, 0])
        observation, rewards = transition.observation, rewards + transition.reward
    assert abs(total[0] - rewards) <= 1e-5 * abs(rewards)
    assert np.allclose(end[:, 0], jnp.stack(jax.tree.leaves(flight.episode)), rtol=2e-5, atol=2e-5)


def test_a_gradient_is_the_slope_of_the_rewards():
    """J(w + e d) − J(w − e d) = 2 e ∂J·d + O(e³), in float32"""
    functions = flat_step(configure_environment("hover", "crazyflie"))
    weights, episodes = large_weights(functions), initial_episodes(functions, jax.random.key(1), 64)
    direction = jax.tree.map(lambda x: jax.random.normal(jax.random.key(3), x.shape, x.dtype), weights)
    rollout = rollout_xla(functions, 10)

    @jax.jit
    def value(weights):
        return jnp.mean(rollout(weights, episodes)[0])

    slope = sum(
        jnp.vdot(g, d) for g, d in zip(*map(jax.tree.leaves, (jax.grad(value)(weights), direction)), strict=True)
    )
    values = [value(jax.tree.map(lambda w, d, e=e: w + e * d, weights, direction)) for e in (1e-3, -1e-3)]
    assert abs((values[0] - values[1]) / 2e-3 - slope) <= 0.01 * abs(slope)


def test_hover_is_learnt_on_a_cpu_and_judged_by_starts_it_has_not_seen():
    setting = configure_environment("hover", "crazyflie")
    reports = []
    result = gradient_trainer(setting, GradientHyperparameters((32, 32), 256, 50, 90, 3e-2), chunks=3, backend="jax")(
        1, lambda *report: reports.append(report)
    )
    assert result.curve.shape == (90,) and result.curve[-1] > result.curve[0]
    assert [done for done, _, _ in reports] == [30, 60, 90]
    evaluation = evaluator(setting, 1000, backend="jax")(result.weights)
    assert evaluation.success > 0.95, evaluation.success


def test_with_relu_the_kernel_has_the_gradient_of_xla() -> None:
    setting = configure_environment("hover", "crazyflie", observation_name="px4_nn")
    functions = flat_step(setting)
    weights = initial_weights(
        dense_network((16, 16)), jax.random.key(0), functions.observation_size, functions.action_size
    )
    assert functions.observation_size == 15
    episodes = initial_episodes(functions, jax.random.key(1), 16)

    def total(rollout):
        return jax.grad(lambda layers: jnp.sum(rollout(layers, episodes)[0]))(weights)

    by_xla = total(rollout_xla(functions, 2, dense_network(hidden="relu")))
    by_kernel = total(rollout_kernel(functions, 2, Launch(block=16, warps=1), interpret=True, hidden="relu"))
    for (matrix, bias), (kernel_matrix, kernel_bias) in zip(by_xla, by_kernel, strict=True):
        np.testing.assert_allclose(kernel_matrix, matrix, rtol=2e-4, atol=2e-5)
        np.testing.assert_allclose(kernel_bias, bias, rtol=2e-4, atol=2e-5)
