"""Points in the unit cube, a row for each flight: a row depends on the campaign's seed and its own number, and on no batch.

With the Latin hypercube it depends on the number of rows too: what is added later is a block with a hypercube of its own.
"""

import warnings
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from samara.core import lazy_import
from samara.core.random import key_of, philox
from samara.core.types import Array

INDEPENDENT, LATIN, SOBOL, HALTON, GRID = "independent", "latin", "sobol", "halton", "grid"
SAMPLERS = (INDEPENDENT, LATIN, SOBOL, HALTON, GRID)
AT_ONCE = 4096  # rows that are drawn together: their numbers stay in the cache
MOST_SOBOL = 2**30  # points that SciPy's sequence has with 30 bits


def uniforms(seed: int, source: str, rows: Array, count: int) -> Array:
    """(n, count) numbers in (0, 1) of 53 bits, each decided by seed, source, row and column"""
    if len(rows) <= AT_ONCE:
        return _uniforms(key_of(seed, source), rows, count)
    batches = (rows[first : first + AT_ONCE] for first in range(0, len(rows), AT_ONCE))
    return np.concatenate([_uniforms(key_of(seed, source), batch, count) for batch in batches])


def _uniforms(key: tuple[int, int], rows: Array, count: int) -> Array:
    blocks = -(-count // 2)  # two words of 32 bits make a number, and a block has four
    own = np.repeat(rows.astype(np.uint64), blocks)
    block = np.tile(np.arange(blocks, dtype=np.uint64), len(rows))
    counter = (block, np.zeros_like(own), own & np.uint64(0xFFFFFFFF), own >> np.uint64(32))
    words = np.stack(philox(counter, key), axis=-1).reshape(len(rows), blocks * 2, 2)
    bits = (words[..., 0] << np.uint64(21)) ^ (words[..., 1] >> np.uint64(11))
    return (bits[:, :count].astype(float) + 0.5) * 2.0**-53


def seeds_of(seed: int, rows: Array) -> Array:
    """The seed of each row's flight: 48 bits that seed and row decide"""
    return (uniforms(seed, "flight", rows, 1)[:, 0] * 2.0**48).astype(np.int64)


def points(sampler: str, seed: int, rows: Array, count: int, *, block: int, first: int, total: int) -> Array:
    """(n, count) points of rows that are in a block from row `first` on, of `total` rows"""
    if count == 0:
        return np.empty((len(rows), 0))
    if sampler == INDEPENDENT:
        return uniforms(seed, "factors", rows, count)
    if sampler == LATIN:
        cells = _hypercube(seed, block, first, total, count)[rows - first]
        within = uniforms(seed, "factors", rows, count)
        return np.asarray((cells + within) / total)
    if sampler in (SOBOL, HALTON):
        return _sequence(sampler, seed, rows, count)
    raise ValueError(f"sampler {sampler!r}: expected one of {', '.join(SAMPLERS)}")


@lru_cache(maxsize=4)
def _hypercube(seed: int, block: int, first: int, total: int, count: int) -> Array:
    """(total, count): which of the `total` cells along each factor a row is in; every cell has one row"""
    draws = uniforms(seed, f"hypercube {block}", np.arange(first, first + total), count)
    cells = np.empty((total, count))
    for j in range(count):
        cells[np.argsort(draws[:, j], kind="stable"), j] = np.arange(total)
    return cells


def _sequence(sampler: str, seed: int, rows: Array, count: int) -> Array:
    """Scrambled points of low discrepancy by their numbers"""
    qmc = lazy_import.scipy("stats", f"the sampler {sampler!r}").qmc
    start, stop = int(rows.min()), int(rows.max()) + 1
    if sampler == SOBOL and stop > MOST_SOBOL:
        raise ValueError(f"the sampler 'sobol' has {MOST_SOBOL} points; row {stop - 1} is beyond them")
    made = qmc.Sobol if sampler == SOBOL else qmc.Halton
    engine = made(count, scramble=True, rng=np.random.default_rng(seed))
    if start:
        engine.fast_forward(start)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # SciPy's, about numbers of points that are no powers of two
        found = engine.random(stop - start)[rows - start]
    return np.clip(found, 2.0**-54, 1.0 - 2.0**-53)  # never 0 or 1, of which a normal is infinite


def grid_indices(rows: Array, sizes: Sequence[int]) -> Array:
    """(n, k) which value of each axis a row has: the last axis changes fastest"""
    return np.stack(np.unravel_index(rows, tuple(sizes)), axis=-1) if sizes else np.empty((len(rows), 0), dtype=int)
