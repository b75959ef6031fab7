"""Policies that remember: the same numbers in JAX and in flight, and gradients through the memory."""

import numpy as np
import pytest

pytest.importorskip("jax")

import jax
import jax.numpy as jnp

import samara
from samara.control.policy_file import evaluate, initial_hidden, network_of
from samara.learn.env_config import setting_for
from samara.learn.jax.rollout import flat_step, initial_weights, rollout_xla, scale_gradient, starts
from samara.learn.policies import policy_layers, recurrent_network


def weights_for(network, inputs=18, outputs=4, seed=0):
    own = initial_weights(network, jax.random.key(seed), inputs, outputs)
    biased = own.gru._replace(initial=0.1 * jnp.arange(len(own.gru.initial)), bias_hh=own.gru.bias_hh + 0.2)
    return own._replace(gru=biased, last=(100.0 * own.last[0], own.last[1] + 0.3))


def test_the_memory_in_jax_is_that_of_the_network_in_flight():
    """r, z, n and h' of Cho's unit, written once for arrays and once for scalars: to float32's rounding, over 30 steps"""
    network = recurrent_network((8,), 5)
    weights = weights_for(network)
    kinds, tensors = policy_layers(weights)
    flown = network_of(kinds, 18, tensors)
    hidden, held, draw = initial_hidden(flown), network.initial_state(weights, 1), np.random.default_rng(0)
    for _ in range(30):
        seen = draw.normal(size=18).astype(np.float32)
        action, held = network.act(weights, seen[:, None], held)
        ours, hidden = evaluate(flown, seen.astype(float).tolist(), hidden)
        np.testing.assert_allclose(np.asarray(action)[:, 0], ours, rtol=0, atol=2e-6)


def test_gradients_go_through_the_memory():
    """dΣr/dh₀ by the adjoint and by differences: what is remembered at the start changes all that follows"""
    with jax.enable_x64(True):
        plain = samara.vehicle("crazyflie").without_effect("rotor_momentum", "airspeed_moment", "damping")
        functions, network = flat_step(setting_for("universal", plain)), recurrent_network((4,), 3)
        weights = jax.tree.map(lambda x: x.astype(float), weights_for(network))
        episodes = starts(functions, jax.random.key(1), 2).astype(float)
        rollout = rollout_xla(functions, 5, network)

        @jax.jit
        def total(initial):
            own = weights._replace(gru=weights.gru._replace(initial=initial))
            return rollout(own, jnp.concatenate([episodes, network.initial_state(own, 2)]))[0].sum()

        here = jnp.array([0.1, -0.2, 0.3])
        step = 1e-5
        slopes = [(total(here + step * unit) - total(here - step * unit)) / (2.0 * step) for unit in jnp.eye(3)]
        np.testing.assert_allclose(jax.grad(total)(here), slopes, rtol=1e-6)


def test_a_gradient_fades_and_is_cut_drone_by_drone():
    """g ↦ share · g · min(1, largest/|g|), and nothing of a drone whose gradient is no number"""
    pull = jnp.array([[3.0, 0.3, jnp.nan], [4.0, 0.4, 1.0]])
    _, back = jax.vjp(lambda x: scale_gradient(x, 0.5, 1.0), jnp.ones((2, 3)))
    np.testing.assert_allclose(back(pull)[0], [[0.3, 0.15, 0.0], [0.4, 0.2, 0.0]], rtol=1e-6)
