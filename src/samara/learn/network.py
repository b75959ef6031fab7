"""The network of a policy in JAX: dense layers with tanh, or a ReLU in all but the last, for a column of observations a drone.

h₁ = tanh(W₁ o + b₁),  h₂ = tanh(W₂ h₁ + b₂),  a = tanh(W₃ h₂ + b₃)        W (out, in),  b (out,),  o (in, N)
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from samara.learn.learnt import Weights, first_layers

TANH, RELU = "tanh", "relu"


def first_weights(key: Any, sizes: Sequence[int]) -> Weights:
    """Of a new policy, as `first_layers` makes them"""
    keys = jax.random.split(key, len(sizes) - 1)
    shapes = zip(keys, sizes[1:], sizes, strict=False)
    return first_layers([jax.random.normal(own, shape, jnp.float32) for own, *shape in shapes])


def act(weights: Weights, observation: Any, hidden: str = TANH) -> Any:
    """Actions in [−1, 1], (out, N)"""
    x = observation
    for k, (matrix, bias) in enumerate(weights):
        x = matrix @ x + bias[:, None]
        x = jnp.maximum(x, 0.0) if hidden == RELU and k < len(weights) - 1 else jnp.tanh(x)
    return x
