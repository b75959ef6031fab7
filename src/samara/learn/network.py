"""The network of a policy in JAX: dense layers with tanh, or a ReLU in all but the last, for a column of observations a drone.

h₁ = tanh(W₁ o + b₁),  h₂ = tanh(W₂ h₁ + b₂),  a = tanh(W₃ h₂ + b₃)        W (out, in),  b (out,),  o (in, N)
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from samara.learn.training_result import Layers, Weights, first_layers

TANH, RELU = "tanh", "relu"


class Network(NamedTuple):
    """A policy's: first(key, observations, actions) → weights;  begin(weights, N) → what it remembers at the start,
    (memory, N);  act(weights, observation, remembered) → actions, remembered"""

    first: Callable[[Any, int, int], Weights]
    memory: int
    begin: Callable[[Weights, int], Any]
    act: Callable[[Weights, Any, Any], tuple[Any, Any]]


def dense_network(sizes: Sequence[int] = (), hidden: str = TANH) -> Network:
    """Dense layers, of these sizes where it is to draw the first weights; they remember nothing"""
    return Network(
        lambda key, observations, actions: first_weights(key, (observations, *sizes, actions)),
        0,
        lambda weights, count: jnp.zeros((0, count), jnp.float32),
        lambda weights, observation, held: (act(weights, observation, hidden), held),
    )


def first_weights(key: Any, sizes: Sequence[int]) -> Layers:
    """Of a new policy, as `first_layers` makes them"""
    keys = jax.random.split(key, len(sizes) - 1)
    shapes = zip(keys, sizes[1:], sizes, strict=False)
    return first_layers([jax.random.normal(own, shape, jnp.float32) for own, *shape in shapes])


def act(weights: Layers, observation: Any, hidden: str = TANH) -> Any:
    """Actions in [−1, 1], (out, N)"""
    x = observation
    for k, (matrix, bias) in enumerate(weights):
        x = matrix @ x + bias[:, None]
        x = jnp.maximum(x, 0.0) if hidden == RELU and k < len(weights) - 1 else jnp.tanh(x)
    return x
