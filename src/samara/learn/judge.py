"""How often a policy does its task: flown from starts that it was not trained on, to the end of the episode."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from samara.learn.episode import Setting
from samara.learn.gradient_training import starts
from samara.learn.jax_step import ROLLED_RK4, FlatStep, flat_step
from samara.learn.judged import UNSEEN, Judged, successes
from samara.learn.network import Network
from samara.learn.rollout_xla import DENSE
from samara.learn.training_result import Weights


def judge(
    setting: Setting, flights: int = 10_000, seed: int = UNSEEN, network: Network = DENSE
) -> Callable[[Weights], Judged]:
    """`judged(weights)` flies a policy for the task's `seconds`; a flight that ends before is judged by where it ended"""
    functions = flat_step(setting, "rk4" if jax.default_backend() == "gpu" else ROLLED_RK4)
    fly = jax.jit(partial(_flown, functions, setting.task.steps, network))
    begun = starts(functions, jax.random.key(seed), flights)

    def judged(weights: Weights) -> Judged:
        rows = fly(weights, begun)
        return Judged(flights, int(successes(setting, rows).sum()), np.asarray(rows[: functions.state]))

    return judged


def _flown(functions: FlatStep, steps: int, network: Network, weights: Weights, episodes: Any) -> Any:
    def body(now: Any, _: Any) -> tuple[Any, None]:
        rows, hidden, over = now
        action, hidden = network.act(weights, jnp.stack(functions.observe(list(rows))), hidden)
        after, _, terminated = functions.step(list(rows), list(action))
        return (jnp.where(over, rows, jnp.stack(after)), hidden, over | (terminated > 0.0)), None

    count = episodes.shape[1]
    begun = episodes, network.begin(weights, count), jnp.zeros(count, bool)
    (rows, _, _), _ = lax.scan(body, begun, None, length=steps)
    return rows
