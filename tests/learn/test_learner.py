"""The parts of a learner in JAX by themselves: the network, and updates in chunks."""

from typing import NamedTuple

import numpy as np
import pytest

pytest.importorskip("jax")

from samara.learn.in_chunks import learner_in_chunks
from samara.learn.network import act


@pytest.mark.parametrize("hidden", ["tanh", "relu"])
def test_hidden_layers_have_their_activation_and_the_last_is_a_tanh(hidden):
    draw = np.random.default_rng(1)
    weights = [(draw.normal(size=shape), draw.normal(size=shape[0])) for shape in ((5, 3), (4, 5), (2, 4))]
    observation = draw.normal(size=(3, 6))
    layer = observation
    for matrix, bias in weights[:-1]:
        layer = matrix @ layer + bias[:, None]
        layer = np.tanh(layer) if hidden == "tanh" else np.maximum(layer, 0.0)
    expected = np.tanh(weights[-1][0] @ layer + weights[-1][1][:, None])
    np.testing.assert_allclose(np.asarray(act(weights, observation, hidden)), expected, atol=2e-6)


class Sum(NamedTuple):
    """A learning state whose weights are the sum of the numbers of its updates"""

    total: float
    done: int


def test_updates_in_chunks_are_all_of_them_in_order():
    """Seven updates in three chunks: two more complete the last chunk; the rewards are those of the first seven"""
    import jax.numpy as jnp

    def begin(seed):
        return Sum(jnp.float32(0.0), jnp.int32(0))

    def updates(size, state):
        rewards = state.done + jnp.arange(size, dtype=jnp.float32)
        return Sum(state.total + rewards.sum(), state.done + size), rewards

    reports = []
    learn = learner_in_chunks(begin, updates, lambda state: state.total, 7, 3)
    learnt = learn(0, lambda done, count, reward: reports.append((done, count, reward)))
    assert np.asarray(learnt.curve).tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert float(learnt.weights) == sum(range(9))
    assert reports == [(3, 7, 2.0), (6, 7, 5.0), (7, 7, 8.0)]
