"""How often a policy does its task: flown from starts that it was not trained on, to the end of the episode."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from samara.learn.analytic import starts
from samara.learn.episode import Setting
from samara.learn.judged import UNSEEN, Judged, successes
from samara.learn.learnt import Weights
from samara.learn.network import TANH, act
from samara.learn.pieces import Pieces, pieces_of


def judge(
    setting: Setting, flights: int = 10_000, seed: int = UNSEEN, hidden: str = TANH
) -> Callable[[Weights], Judged]:
    """`judged(weights)` flies a policy for the task's `seconds`; a flight that was terminated on the way has not succeeded"""
    pieces = pieces_of(setting)
    fly = jax.jit(partial(_flown, pieces, setting.task.steps, hidden))
    begun = starts(pieces, jax.random.key(seed), flights)

    def judged(weights: Weights) -> Judged:
        rows, lost = fly(weights, begun)
        good = successes(setting, rows) & ~np.asarray(lost)
        return Judged(flights, int(good.sum()), np.asarray(rows[: pieces.state]))

    return judged


def _flown(pieces: Pieces, steps: int, hidden: str, weights: Weights, episodes: Any) -> tuple[Any, Any]:
    def body(both: Any, _: Any) -> tuple[Any, None]:
        rows, lost = both
        action = list(act(weights, jnp.stack(pieces.observe(list(rows))), hidden))
        after, _, terminated = pieces.step(list(rows), action)
        return (jnp.stack(after), lost | (terminated > 0.0)), None

    nobody = jnp.zeros(episodes.shape[1], bool)
    both, _ = lax.scan(body, (episodes, nobody), None, length=steps)
    return both
