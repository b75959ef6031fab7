"""A policy flown for some steps, differentiably, as XLA compiles it: what the kernel of `rollout_kernel.py` is checked against.

x₀ → x_H and Σ r of each drone:   ∂ Σ r / ∂ weights by reverse differentiation, each step computed again on the way back

What a policy remembers is carried along as more rows of an episode; pictures are kept, and not taken again.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from samara.learn.jax_step import FlatStep
from samara.learn.network import Network, dense_network
from samara.learn.sight import PICTURE
from samara.learn.training_result import Weights

BEYOND = 0.1  # what an action costs that is cut: so much times the square of what is beyond ±1
DENSE = dense_network()  # its layers are told by the weights

Rollout = Callable[[Weights, Any], tuple[Any, Any]]
"""(weights, episodes (size, N)) → (rewards summed over the steps (N,), episodes)"""


def rollout_xla(
    functions: FlatStep, steps: int, network: Network = DENSE, fading: float = 1.0, largest: float = math.inf
) -> Rollout:
    """`steps` actions of all drones; on the way back a step's gradient counts `fading` times as much as the one's after it,
    and no drone's is larger than `largest`"""
    whole = fading == 1.0 and largest == math.inf

    def one(weights: Weights, rows: Any) -> tuple[Any, Any]:
        own, hidden = rows[: functions.size], rows[functions.size :]
        action, hidden = network.act(weights, jnp.stack(functions.observe(list(own))), hidden)
        after, reward, _ = functions.step(list(own), list(action))
        beyond = jnp.maximum(jnp.abs(action) - 1.0, 0.0)
        return jnp.concatenate([jnp.stack(after), hidden]), reward - BEYOND * jnp.sum(beyond * beyond, axis=0)

    again = jax.checkpoint(one, policy=jax.checkpoint_policies.save_only_these_names(PICTURE))

    def rollout(weights: Weights, episodes: Any) -> tuple[Any, Any]:
        def body(both: Any, _: Any) -> tuple[Any, None]:
            rows, total = both
            rows, reward = again(weights, rows if whole else faded(rows, fading, largest))
            return (rows, total + reward), None

        (rows, total), _ = lax.scan(body, (episodes, jnp.zeros_like(episodes[0])), None, length=steps)
        return total, rows

    return rollout


@partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def faded(x: Any, share: float, largest: float) -> Any:
    """x (size, N), but a gradient that comes back through it is so many times as large, of each drone at most `largest`

    Where a flight has become chaotic its gradient grows without limit, and means nothing.
    """
    return x


def _faded_back(share: float, largest: float, _: None, cotangent: Any) -> tuple[Any]:
    size = jnp.sqrt(jnp.sum(cotangent * cotangent, axis=0))
    factor = jnp.where(jnp.isfinite(size), share * jnp.minimum(1.0, largest / (size + 1e-30)), 0.0)
    return (jnp.where(factor > 0.0, factor * cotangent, 0.0),)


faded.defvjp(lambda x, share, largest: (x, None), _faded_back)
