"""A learner of two compiled programs: one that begins, from a seed, and one that goes on for some updates."""

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from samara.learn.checkpoint import Checkpoint
from samara.learn.training_result import Learner, Learnt, Progress, Weights


def learner_in_chunks(
    begin: Callable[[Any], Any],
    updates: Callable[[int, Any], Any],
    weights_of: Callable[[Any], Weights],
    count: int,
    chunks: int,
) -> Learner:
    """`begin(seed)` → learning;  `updates(size, learning)` → learning, one reward for each: `count` of them in so many chunks

    Learning has `done`, how many updates it has behind it. Between chunks progress is told, and a checkpoint written.
    """
    size = -(-count // chunks)
    whole = size * -(-count // size)
    clock = time.perf_counter()
    first = jax.jit(begin).lower(np.uint32(0)).compile()
    chunk = jax.jit(lambda learning: updates(size, learning)).lower(first(np.uint32(0))).compile()
    compile_seconds = time.perf_counter() - clock

    def learn(seed: int = 0, progress: Progress | None = None, checkpoint: Checkpoint | None = None) -> Learnt:
        clock = time.perf_counter()
        learning, curve = first(np.uint32(seed)), jnp.zeros(whole, jnp.float32)
        kept = checkpoint.load((learning, curve)) if checkpoint is not None else None
        learning, curve = kept or (learning, curve)
        for done in range(int(learning.done), whole, size):
            learning, rewards = chunk(learning)
            curve = curve.at[done : done + size].set(rewards)
            if checkpoint is not None:
                checkpoint.save((learning, curve))
            if progress is not None:
                progress(min(done + size, count), count, float(rewards[-1]))
        weights = jax.block_until_ready(weights_of(learning))  # type: ignore[no-untyped-call]
        return Learnt(weights, np.asarray(curve)[:count], time.perf_counter() - clock, compile_seconds)

    return learn
