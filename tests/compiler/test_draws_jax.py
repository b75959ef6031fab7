"""Draws in JAX are those of `samara.core.random`: the same keys and words, and normals to the rounding of the type."""

import jax.numpy as jnp
import numpy as np
import pytest

from samara.compiler.jax.arrays import precision
from samara.compiler.jax.random import derive_keys, draw_initial_normals, draw_normals, normal
from samara.core.random import _normals, derive_key, normals

SEEDS = np.array([0, 1, -5, 2**40 + 7, 2**63 - 1])
ROUNDING = {"float64": 4e-15, "float32": 1.5e-6}


@pytest.mark.parametrize("source", ["w", "wind", "sensor motion_capture start"])
def test_keys_are_blake2b_of_the_source_keyed_by_each_seed(source):
    low, high = derive_keys(SEEDS, source)
    assert [(int(a), int(b)) for a, b in zip(low, high, strict=True)] == [
        derive_key(int(seed), source) for seed in SEEDS
    ]


@pytest.mark.parametrize("dtype", ROUNDING)
def test_draws_equal_those_of_core_random(dtype):
    with precision(dtype):
        result = np.stack(draw_normals(derive_keys(SEEDS, "wind"), 3, jnp.uint32(7), 6, dtype))
        first = np.asarray(draw_initial_normals(derive_keys(SEEDS, "wind"), 3, 6, dtype))
    for tick, row in ((7, result), (0, first)):
        expected = np.stack([normals(int(seed), "wind", 3, tick, 6) for seed in SEEDS], axis=1)
        assert np.abs(row - expected).max() < ROUNDING[dtype]


@pytest.mark.parametrize("dtype", ROUNDING)
def test_normals_keep_their_digits_in_the_middle_and_in_both_tails(dtype):
    middle, ends = 2**31 - 50 + np.arange(100), np.arange(100)
    random_words = np.random.default_rng(1).integers(0, 2**32, 10_000)
    words = np.concatenate([middle, ends, 2**32 - 1 - ends, random_words]).astype(np.uint32)
    with precision(dtype):
        result = np.asarray(normal(jnp.asarray(words), dtype), dtype=float)
    np.testing.assert_allclose(result, _normals(words.astype(np.uint64)), rtol=ROUNDING[dtype])


def test_a_source_longer_than_a_block_is_refused():
    with pytest.raises(ValueError, match="expected at most 128"):
        derive_keys(SEEDS, "x" * 129)
