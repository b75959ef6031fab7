"""The parts of a trainer in JAX separately: the network, and updates in chunks."""

from typing import NamedTuple

import numpy as np
import pytest

pytest.importorskip("jax")

from samara.learn.jax.rollout import compile_updates
from samara.learn.optimizer import make_trainer, run_in_python
from samara.learn.policies import act


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
    """A training state whose weights are the sum of the indices of its updates."""

    total: float
    done: int


def test_updates_in_chunks_are_all_of_them_in_order():
    """Seven updates in three chunks: a compiled last chunk has two more, whose rewards are dropped."""
    import jax.numpy as jnp

    def begin(seed):
        return Sum(jnp.float32(0.0), jnp.int32(0))

    def update(state):
        return Sum(state.total + state.done, state.done + 1), state.done.astype(jnp.float32)

    for compile_chunks, total in ((compile_updates, sum(range(9))), (run_in_python, sum(range(7)))):
        reports = []
        trainer = make_trainer(begin, update, lambda state: state.total, 7, 3, compile_chunks)
        result = trainer(0, lambda *report, reports=reports: reports.append(report))
        assert result.curve.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
        assert float(result.weights) == total
        assert reports == [(3, 7, 2.0), (6, 7, 5.0), (7, 7, 6.0)]
