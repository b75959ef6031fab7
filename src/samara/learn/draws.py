"""The random numbers of an episode, by their address: the seed, the number of the episode, and the step within it.

Step 0 has those of the start. They are the same bits in every environment on the CPU, and the same but for rounding in JAX.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from samara.core.random import key_of, normals_of, uniforms_of, words

SOURCE = "learn"

Array = np.ndarray[Any, Any]


def keys_for(seeds: Sequence[int]) -> Array:
    """Two words for each seed: (2, N)"""
    return np.array([key_of(seed % 2**64, SOURCE) for seed in seeds], dtype=np.uint64).reshape(-1, 2).T


def numbers(keys: Array, episodes: Array, steps: Any, kinds: Sequence[str]) -> Array:
    """A number of each kind, "uniform" or "normal", for every pair of keys: (kinds, N)"""
    episode, step = np.asarray(episodes, dtype=np.uint64), np.asarray(steps, dtype=np.uint64)
    found = words((keys[0], keys[1]), np.uint64(0), episode | step << np.uint64(32), len(kinds))
    normal = np.array([kind == "normal" for kind in kinds], dtype=bool)
    drawn = np.empty(found.shape)
    drawn[~normal], drawn[normal] = uniforms_of(found[~normal]), normals_of(found[normal])
    return drawn
