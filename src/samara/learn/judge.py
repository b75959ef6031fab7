"""How often a policy does its task: flown from starts that it was not trained on, to the end of the episode."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from samara.core.tree import unflatten
from samara.learn.analytic import starts
from samara.learn.episode import Setting, start, succeeded
from samara.learn.learnt import Weights
from samara.learn.network import act
from samara.learn.pieces import Pieces, pieces_of
from samara.learn.task import Draw

UNSEEN = 0x5EED  # the seed of the starts that policies are judged by


class Judged(NamedTuple):
    """How many flights there were, and how many of them did what the task calls success at its end"""

    flights: int
    successes: int
    states: Any  # (components, flights) at the end

    @property
    def success(self) -> float:
        return self.successes / self.flights


def judge(setting: Setting, flights: int = 10_000, seed: int = UNSEEN) -> Callable[[Weights], Judged]:
    """`judged(weights)` flies a policy for the task's `seconds`; a flight that was terminated on the way has not succeeded"""
    pieces = pieces_of(setting)
    fly = jax.jit(partial(_flown, pieces, setting.task.steps))
    begun = starts(pieces, jax.random.key(seed), flights)

    def judged(weights: Weights) -> Judged:
        rows, lost = fly(weights, begun)
        good = _successes(setting, rows) & ~np.asarray(lost)
        return Judged(flights, int(good.sum()), np.asarray(rows[: pieces.state]))

    return judged


def _flown(pieces: Pieces, steps: int, weights: Weights, episodes: Any) -> tuple[Any, Any]:
    def body(both: Any, _: Any) -> tuple[Any, None]:
        rows, lost = both
        action = list(act(weights, jnp.stack(pieces.observe(list(rows)))))
        after, _, terminated = pieces.step(list(rows), action)
        return (jnp.stack(after), lost | (terminated > 0.0)), None

    nobody = jnp.zeros(episodes.shape[1], bool)
    both, _ = lax.scan(body, (episodes, nobody), None, length=steps)
    return both


def _successes(setting: Setting, rows: Any) -> Any:
    template = start(Draw(), setting)[0]
    episode = unflatten(template, iter(np.asarray(rows, dtype=float)))
    return np.asarray(succeeded(episode, setting)) & np.isfinite(np.asarray(rows)).all(0)
