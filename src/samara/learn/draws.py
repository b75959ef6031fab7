"""The random numbers of an episode, by their address: the seed, the number of the episode, and the step within it.

Step 0 has those of the start. They are the same bits in every environment on the CPU, and the same but for rounding in JAX.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from samara.backends.llvm_draws import drawing
from samara.core.random import key_of

SOURCE = "learn"

Array = np.ndarray[Any, Any]


def keys_for(seeds: Sequence[int]) -> Array:
    """Two words for each seed: (2, N)"""
    return np.array([key_of(seed % 2**64, SOURCE) for seed in seeds], dtype=np.uint64).reshape(-1, 2).T


def numbers(keys: Array, episodes: Array, steps: Any, kinds: tuple[str, ...]) -> Array:
    """A number of each kind, "uniform" or "normal", for every pair of keys: (kinds, N)"""
    episode, step = np.asarray(episodes, dtype=np.uint64), np.asarray(steps, dtype=np.uint64)
    return drawing(kinds)(keys, episode | step << np.uint64(32))
