"""A policy flown by XLA and by the kernel: the flight of the environment, with gradients that are the slopes of its rewards."""

import numpy as np
import pytest

pytest.importorskip("jax")

import jax
import jax.numpy as jnp

from samara.compiler.jax.arrays import Launch
from samara.learn.env_config import setting_for
from samara.learn.evaluation import evaluator
from samara.learn.gradient_training import Hyperparameters, gradient_trainer
from samara.learn.jax.env import Environment
from samara.learn.jax.rollout import flat_step, initial_weights, rolled_integrator, rollout_xla, starts
from samara.learn.jax.rollout_gpu import rollout_kernel
from samara.learn.policies import act, dense_network

SETTINGS = {
    "late actions, seen again, two steps in a period": {"substeps": 2, "delay": (0, 2), "history": 2},
    "thrust and rates": {"action": "thrust_and_rates"},
}


def lively(functions, hidden=16):
    """Weights of a policy that does something from the start"""
    network = dense_network((hidden, hidden))
    weights = initial_weights(network, jax.random.key(0), functions.observations, functions.actions)
    return (*weights[:-1], (30.0 * weights[-1][0], weights[-1][1]))


def gradients(rollout, weights, episodes, pull):
    def value(weights, episodes):
        total, end = rollout(weights, episodes)
        return jnp.sum(total) + jnp.sum(pull * end)

    return jax.jit(jax.value_and_grad(value, argnums=(0, 1)))(weights, episodes)


@pytest.mark.parametrize("kind", SETTINGS)
def test_the_kernel_and_xla_fly_and_differentiate_alike(kind):
    functions = flat_step(setting_for("hover", "crazyflie", **SETTINGS[kind]))
    weights, episodes = lively(functions), starts(functions, jax.random.key(1), 32)
    pull = 0.01 * jax.random.normal(jax.random.key(2), episodes.shape)
    pull = pull * jnp.isin(jnp.arange(functions.size), jnp.array(functions.varying))[:, None]
    by_xla = gradients(rollout_xla(functions, 2), weights, episodes, pull)
    by_kernel = gradients(
        rollout_kernel(functions, 2, Launch(block=16, warps=1), interpret=True), weights, episodes, pull
    )
    for expected, found in zip(jax.tree.leaves(by_xla), jax.tree.leaves(by_kernel), strict=True):
        assert np.abs(found - expected).max() <= 4e-6 * np.abs(expected).max()


def test_by_the_midpoint_the_kernel_has_the_gradient_of_xla():
    functions = flat_step(setting_for("hover", "crazyflie"), rolled_integrator("midpoint"))
    weights, episodes = lively(functions), starts(functions, jax.random.key(1), 32)
    pull = 0.01 * jax.random.normal(jax.random.key(2), episodes.shape)
    kernel = rollout_kernel(functions, 2, Launch(block=16, warps=1), interpret=True, integrator="midpoint")
    by_xla = gradients(rollout_xla(functions, 2), weights, episodes, pull)
    by_kernel = gradients(kernel, weights, episodes, pull)
    for expected, found in zip(jax.tree.leaves(by_xla), jax.tree.leaves(by_kernel), strict=True):
        assert np.abs(found - expected).max() <= 4e-6 * np.abs(expected).max()


def test_a_rollout_is_the_flight_of_the_environment():
    setting, steps = setting_for("hover", "crazyflie"), 20
    env, functions = Environment(setting), flat_step(setting)
    weights = lively(functions)
    flight, observation = env.reset(env.key(7))
    episodes = jnp.stack(jax.tree.leaves(flight.episode))[:, None]
    total, end = jax.jit(rollout_xla(functions, steps))(weights, episodes)
    step, rewards = jax.jit(env.step), 0.0
    for _ in range(steps):
        flight, seen = step(flight, act(weights, observation[:, None])[:, 0])
        observation, rewards = seen.observation, rewards + seen.reward
    assert abs(total[0] - rewards) <= 1e-5 * abs(rewards)
    assert np.allclose(end[:, 0], jnp.stack(jax.tree.leaves(flight.episode)), rtol=2e-5, atol=2e-5)


def test_a_gradient_is_the_slope_of_the_rewards():
    """J(w + e d) − J(w − e d) = 2 e ∂J·d + O(e³), in float32"""
    functions = flat_step(setting_for("hover", "crazyflie"))
    weights, episodes = lively(functions), starts(functions, jax.random.key(1), 64)
    direction = jax.tree.map(lambda x: jax.random.normal(jax.random.key(3), x.shape, x.dtype), weights)
    rollout = rollout_xla(functions, 10)

    @jax.jit
    def value(weights):
        return jnp.mean(rollout(weights, episodes)[0])

    slope = sum(
        jnp.vdot(g, d) for g, d in zip(*map(jax.tree.leaves, (jax.grad(value)(weights), direction)), strict=True)
    )
    both = [value(jax.tree.map(lambda w, d, e=e: w + e * d, weights, direction)) for e in (1e-3, -1e-3)]
    assert abs((both[0] - both[1]) / 2e-3 - slope) <= 0.01 * abs(slope)


def test_hover_is_learnt_on_a_cpu_and_judged_by_starts_it_has_not_seen():
    setting = setting_for("hover", "crazyflie")
    told = []
    learnt = gradient_trainer(setting, Hyperparameters((32, 32), 256, 50, 90, 3e-2), chunks=3, backend="jax")(
        1, lambda *report: told.append(report)
    )
    assert learnt.curve.shape == (90,) and learnt.curve[-1] > learnt.curve[0]
    assert [done for done, _, _ in told] == [30, 60, 90]
    judged = evaluator(setting, 1000, backend="jax")(learnt.weights)
    assert judged.success > 0.95, judged.success


def test_with_relu_the_kernel_has_the_gradient_of_xla() -> None:
    setting = setting_for("hover", "crazyflie", sees="px4_nn")
    functions = flat_step(setting)
    weights = initial_weights(dense_network((16, 16)), jax.random.key(0), functions.observations, functions.actions)
    assert functions.observations == 15
    episodes = starts(functions, jax.random.key(1), 16)

    def total(rollout):
        return jax.grad(lambda own: jnp.sum(rollout(own, episodes)[0]))(weights)

    by_xla = total(rollout_xla(functions, 2, dense_network(hidden="relu")))
    by_kernel = total(rollout_kernel(functions, 2, Launch(block=16, warps=1), interpret=True, hidden="relu"))
    for (matrix, bias), (other, too) in zip(by_xla, by_kernel, strict=True):
        np.testing.assert_allclose(other, matrix, rtol=2e-4, atol=2e-5)
        np.testing.assert_allclose(too, bias, rtol=2e-4, atol=2e-5)
