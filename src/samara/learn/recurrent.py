"""A policy that remembers, in JAX: dense layers, a gated recurrent unit (Cho 2014), and a dense layer, drones as columns.

x = relu(W₁ o + b₁),  r, z = σ(W x + U h + b),  n = tanh(W_n x + b_n + r (U_n h + c_n)),  h' = (1 − z) n + z h,  a = W₂ h' + b₂

These are the layers of RAPTOR, of `samara.control.network`, and of PyTorch, whose names the numbers have.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from samara.learn.network import Network
from samara.learn.training_result import Layers


class Gru(NamedTuple):
    """W (3h, in), U (3h, h) and their biases in the order r, z, n, and what h is at the start of an episode, (h,)"""

    weight_ih: Any
    weight_hh: Any
    bias_ih: Any
    bias_hh: Any
    initial: Any


class Recurrent(NamedTuple):
    """The layers before the recurrent one, itself, and the last"""

    first: Layers
    gru: Gru
    last: tuple[Any, Any]


def recurrent_network(hidden: tuple[int, ...], units: int) -> Network:
    """Dense layers of these sizes, and so many recurrent units"""

    def first(key: Any, observations: int, actions: int) -> Recurrent:
        keys = jax.random.split(key, len(hidden) + 3)
        sizes = (observations, *hidden)
        layers = [_dense(own, *both) for own, *both in zip(keys[3:], sizes, sizes[1:], strict=False)]
        of_input = jax.random.normal(keys[0], (3 * units, sizes[-1]), jnp.float32) / math.sqrt(sizes[-1])
        of_hidden = jax.random.normal(keys[1], (3 * units, units), jnp.float32) / math.sqrt(units)
        none = jnp.zeros(3 * units, jnp.float32)
        matrix, bias = _dense(keys[2], units, actions)
        gru = Gru(of_input, of_hidden, none, none, jnp.zeros(units, jnp.float32))
        return Recurrent(layers, gru, (0.01 * matrix, bias))

    def begin(weights: Recurrent, count: int) -> Any:
        return jnp.broadcast_to(weights.gru.initial[:, None], (units, count))

    return Network(first, units, begin, act_remembering)


def act_remembering(weights: Recurrent, observation: Any, hidden: Any) -> tuple[Any, Any]:
    """Actions (out, N), which nothing keeps within [−1, 1], and what is remembered (h, N)"""
    x = observation
    for matrix, bias in weights.first:
        x = jax.nn.relu(matrix @ x + bias[:, None])
    own = weights.gru
    of_input = own.weight_ih @ x + own.bias_ih[:, None]
    of_hidden = own.weight_hh @ hidden + own.bias_hh[:, None]
    (r, z, n), (r_h, z_h, n_h) = (jnp.split(both, 3) for both in (of_input, of_hidden))
    new = jnp.tanh(n + jax.nn.sigmoid(r + r_h) * n_h)
    hidden = new + jax.nn.sigmoid(z + z_h) * (hidden - new)
    matrix, bias = weights.last
    return matrix @ hidden + bias[:, None], hidden


def _dense(key: Any, inputs: int, outputs: int) -> tuple[Any, Any]:
    return jax.random.normal(key, (outputs, inputs), jnp.float32) / math.sqrt(inputs), jnp.zeros(outputs, jnp.float32)
