"""A policy flown for some steps, differentiably, as XLA compiles it: what the kernel of `rollout_kernel.py` is checked against.

x₀ → x_H and Σ r of each drone:   ∂ Σ r / ∂ weights by reverse differentiation, each step computed again on the way back
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from samara.backends.rolled import AHEAD, WEIGHTS
from samara.learn.learnt import Weights
from samara.learn.network import act
from samara.learn.pieces import Pieces

Rollout = Callable[[Weights, Any], tuple[Any, Any]]
"""(weights, episodes (size, N)) → (rewards summed over the steps (N,), episodes)"""


def rollout_xla(pieces: Pieces, steps: int) -> Rollout:
    """`steps` actions of all drones"""

    def one(weights: Weights, rows: Any) -> tuple[Any, Any]:
        action = list(act(weights, jnp.stack(pieces.observe(list(rows)))))
        after, reward, _ = pieces.after(advanced(pieces, list(rows), action), list(rows), action)
        return jnp.stack(after), reward

    def rollout(weights: Weights, episodes: Any) -> tuple[Any, Any]:
        def body(both: Any, _: Any) -> tuple[Any, None]:
            rows, total = both
            rows, reward = jax.checkpoint(one)(weights, rows)
            return (rows, total + reward), None

        (rows, total), _ = lax.scan(body, (episodes, jnp.zeros_like(episodes[0])), None, length=steps)
        return total, rows

    return rollout


def advanced(pieces: Pieces, episode: list[Any], action: list[Any]) -> list[Any]:
    """The state after a period: RK4 as a loop over its stages, which keeps the code short"""
    state = episode[: pieces.state]
    ahead, weights = (jnp.asarray(np.array(row) * pieces.dt, state[0].dtype) for row in (AHEAD, WEIGHTS))
    for _ in range(pieces.substeps):
        here = [*state, *episode[pieces.state :]]
        command = pieces.command(here, action)

        def stage(i: Any, carried: Any, start: Any = state, command: Any = command) -> Any:
            z, total = carried
            slopes = pieces.rate(z, command, episode)
            z = [x + ahead[i] * k for x, k in zip(start, slopes, strict=True)]
            return z, [x + weights[i] * k for x, k in zip(total, slopes, strict=True)]

        _, total = lax.fori_loop(0, len(WEIGHTS), stage, (state, state))
        state = pieces.unit(total)
    return state
