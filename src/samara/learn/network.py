"""The network of a policy in JAX: dense layers with tanh, for a column of observations per drone.

h₁ = tanh(W₁ o + b₁),  h₂ = tanh(W₂ h₁ + b₂),  a = tanh(W₃ h₂ + b₃)        W (out, in),  b (out,),  o (in, N)
"""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from samara.learn.learnt import Weights


def first_weights(key: Any, sizes: Sequence[int]) -> Weights:
    """W ~ N(0, 1/in), b = 0; the last layer a hundred times smaller, so that a new policy does next to nothing"""
    keys = jax.random.split(key, len(sizes) - 1)
    layers = [
        (jax.random.normal(own, (outputs, inputs), jnp.float32) / math.sqrt(inputs), jnp.zeros(outputs, jnp.float32))
        for own, inputs, outputs in zip(keys, sizes, sizes[1:], strict=False)
    ]
    matrix, bias = layers[-1]
    return [*layers[:-1], (0.01 * matrix, bias)]


def act(weights: Weights, observation: Any) -> Any:
    """Actions in [−1, 1], (out, N)"""
    x = observation
    for matrix, bias in weights:
        x = jnp.tanh(matrix @ x + bias[:, None])
    return x
