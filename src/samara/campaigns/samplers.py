"""Sample points in the unit cube, one row per flight: a row depends on the campaign's seed and its row number, not on batches.

With the Latin hypercube a row also depends on the row count: rows added later form a new block with a separate hypercube.
"""

import warnings
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from samara.core import extras
from samara.core.random import derive_key, philox
from samara.core.types import Array

INDEPENDENT, LATIN, SOBOL, HALTON, GRID = "independent", "latin", "sobol", "halton", "grid"
SAMPLERS = (INDEPENDENT, LATIN, SOBOL, HALTON, GRID)
CHUNK_ROWS = 4096  # rows per chunk: their numbers stay in the cache
MAX_SOBOL_POINTS = 2**30  # length of SciPy's Sobol' sequence with 30 bits


def uniforms(seed: int, source: str, rows: Array, count: int) -> Array:
    """Return (n, count) numbers in (0, 1) of 53 bits, each determined by seed, source, row and column."""
    if len(rows) <= CHUNK_ROWS:
        return _uniforms(derive_key(seed, source), rows, count)
    batches = (rows[first : first + CHUNK_ROWS] for first in range(0, len(rows), CHUNK_ROWS))
    return np.concatenate([_uniforms(derive_key(seed, source), batch, count) for batch in batches])


def _uniforms(key: tuple[int, int], rows: Array, count: int) -> Array:
    blocks = -(-count // 2)  # two words of 32 bits make a number, and a block has four
    row_words = np.repeat(rows.astype(np.uint64), blocks)
    block = np.tile(np.arange(blocks, dtype=np.uint64), len(rows))
    counter = (block, np.zeros_like(row_words), row_words & np.uint64(0xFFFFFFFF), row_words >> np.uint64(32))
    words = np.stack(philox(counter, key), axis=-1).reshape(len(rows), blocks * 2, 2)
    bits = (words[..., 0] << np.uint64(21)) ^ (words[..., 1] >> np.uint64(11))
    return (bits[:, :count].astype(float) + 0.5) * 2.0**-53


def flight_seeds(seed: int, rows: Array) -> Array:
    """Return the seed of each row's flight: 48 bits, determined by seed and row."""
    return (uniforms(seed, "flight", rows, 1)[:, 0] * 2.0**48).astype(np.int64)


def points(sampler: str, seed: int, rows: Array, count: int, *, block: int, first: int, total: int) -> Array:
    """Return (n, count) points for rows of a block that starts at row `first` and has `total` rows."""
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
    """(total, count): the cell of each row along each parameter, of `total` cells; every cell has one row"""
    draws = uniforms(seed, f"hypercube {block}", np.arange(first, first + total), count)
    cells = np.empty((total, count))
    for j in range(count):
        cells[np.argsort(draws[:, j], kind="stable"), j] = np.arange(total)
    return cells


def _sequence(sampler: str, seed: int, rows: Array, count: int) -> Array:
    """Return scrambled low-discrepancy points by their row numbers."""
    qmc = extras.import_scipy("stats", f"the sampler {sampler!r}").qmc
    start, stop = int(rows.min()), int(rows.max()) + 1
    if sampler == SOBOL and stop > MAX_SOBOL_POINTS:
        raise ValueError(f"the sampler 'sobol' has {MAX_SOBOL_POINTS} points; row {stop - 1} is beyond them")
    engine_type = qmc.Sobol if sampler == SOBOL else qmc.Halton
    engine = engine_type(count, scramble=True, rng=np.random.default_rng(seed))
    if start:
        engine.fast_forward(start)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # SciPy warns about point counts that are not powers of two
        unit_points = engine.random(stop - start)[rows - start]
    return np.clip(unit_points, 2.0**-54, 1.0 - 2.0**-53)  # never 0 or 1, whose normal quantile is infinite


def grid_indices(rows: Array, sizes: Sequence[int]) -> Array:
    """Return (n, k) indices of each row's value on each axis: the last axis changes fastest."""
    return np.stack(np.unravel_index(rows, tuple(sizes)), axis=-1) if sizes else np.empty((len(rows), 0), dtype=int)
