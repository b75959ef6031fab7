"""Recurrent policies: the same values in JAX and in flight, and gradients through the recurrent state."""

import numpy as np
import pytest

pytest.importorskip("jax")

import jax
import jax.numpy as jnp

import samara
from samara.control.policy_file import build_network, evaluate_network, initial_hidden
from samara.learn.env_config import configure_environment
from samara.learn.jax.rollout import flat_step, initial_episodes, initial_weights, rollout_xla, scale_gradient
from samara.learn.policies import policy_layers, recurrent_network


def biased_weights(network, inputs=18, outputs=4, seed=0):
    weights = initial_weights(network, jax.random.key(seed), inputs, outputs)
    biased = weights.gru._replace(initial=0.1 * jnp.arange(len(weights.gru.initial)), bias_hh=weights.gru.bias_hh + 0.2)
    return weights._replace(gru=biased, output=(100.0 * weights.output[0], weights.output[1] + 0.3))


def test_the_memory_in_jax_is_that_of_the_network_in_flight():
    """r, z, n and h' of Cho's unit, written once for arrays and once for scalars: to float32's rounding, over 30 steps."""
    network = recurrent_network((8,), 5)
    weights = biased_weights(network)
    layers, tensors = policy_layers(weights)
    scalar_network = build_network(layers, 18, tensors)
    hidden, recurrent_state, draw = (
        initial_hidden(scalar_network),
        network.initial_state(weights, 1),
        np.random.default_rng(0),
    )
    for _ in range(30):
        observation = draw.normal(size=18).astype(np.float32)
        action, recurrent_state = network.act(weights, observation[:, None], recurrent_state)
        scalar_action, hidden = evaluate_network(scalar_network, observation.astype(float).tolist(), hidden)
        np.testing.assert_allclose(np.asarray(action)[:, 0], scalar_action, rtol=0, atol=2e-6)


def test_gradients_go_through_the_memory():
    """dΣr/dh₀ by the adjoint and by differences: the initial recurrent state affects all later rewards."""
    with jax.enable_x64(True):
        plain = samara.vehicle("crazyflie").without_effect("rotor_momentum", "airspeed_moment", "damping")
        functions, network = flat_step(configure_environment("universal", plain)), recurrent_network((4,), 3)
        weights = jax.tree.map(lambda x: x.astype(float), biased_weights(network))
        episodes = initial_episodes(functions, jax.random.key(1), 2).astype(float)
        rollout = rollout_xla(functions, 5, network)

        @jax.jit
        def total(initial):
            changed = weights._replace(gru=weights.gru._replace(initial=initial))
            return rollout(changed, jnp.concatenate([episodes, network.initial_state(changed, 2)]))[0].sum()

        initial_state = jnp.array([0.1, -0.2, 0.3])
        step = 1e-5
        slopes = [
            (total(initial_state + step * unit) - total(initial_state - step * unit)) / (2.0 * step)
            for unit in jnp.eye(3)
        ]
        np.testing.assert_allclose(jax.grad(total)(initial_state), slopes, rtol=1e-6)


def test_a_gradient_fades_and_is_cut_drone_by_drone():
    """g ↦ factor · g · min(1, largest/|g|), and 0 for a drone whose gradient is NaN."""
    cotangent = jnp.array([[3.0, 0.3, jnp.nan], [4.0, 0.4, 1.0]])
    _, pullback = jax.vjp(lambda x: scale_gradient(x, 0.5, 1.0), jnp.ones((2, 3)))
    np.testing.assert_allclose(pullback(cotangent)[0], [[0.3, 0.15, 0.0], [0.4, 0.2, 0.0]], rtol=1e-6)
