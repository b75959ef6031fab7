"""A policy flown for some steps, differentiably, as XLA compiles it: what the kernel of `rollout_kernel.py` is checked against.

x₀ → x_H and Σ r of each drone:   ∂ Σ r / ∂ weights by reverse differentiation, each step computed again on the way back
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from samara.learn.learnt import Weights
from samara.learn.network import TANH, act
from samara.learn.pieces import Pieces

Rollout = Callable[[Weights, Any], tuple[Any, Any]]
"""(weights, episodes (size, N)) → (rewards summed over the steps (N,), episodes)"""


def rollout_xla(pieces: Pieces, steps: int, hidden: str = TANH) -> Rollout:
    """`steps` actions of all drones"""

    def one(weights: Weights, rows: Any) -> tuple[Any, Any]:
        action = list(act(weights, jnp.stack(pieces.observe(list(rows))), hidden))
        after, reward, _ = pieces.step(list(rows), action)
        return jnp.stack(after), reward

    def rollout(weights: Weights, episodes: Any) -> tuple[Any, Any]:
        def body(both: Any, _: Any) -> tuple[Any, None]:
            rows, total = both
            rows, reward = jax.checkpoint(one)(weights, rows)
            return (rows, total + reward), None

        (rows, total), _ = lax.scan(body, (episodes, jnp.zeros_like(episodes[0])), None, length=steps)
        return total, rows

    return rollout
