"""Counter-based random numbers in JAX: those of `samara.core.random`, for many seeds at once, inside kernels too.

    keys = derive_keys(seeds, "wind")                         # two words of 32 bits for each seed
    normals = draw_normals(keys, drone, tick, 5, "float32")   # five normals for each

The words are bit-identical; the normals agree to the rounding of the type. Kernels have only words of 32 bits.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from samara.compiler.jax.arrays import precision
from samara.core.quantity import Scalar
from samara.core.random import _CENTRAL_LIMIT, _KEY_STEPS, _MULTIPLIERS, _ROUNDS, _central_quantile, _tail_quantile
from samara.core.tree import Tree

Words = tuple[Tree, Tree]


def draw_normals(keys: Words, drone: Scalar, tick: Scalar, count: int, dtype: Any) -> list[Scalar]:
    """Draw `count` standard normals for each key: those of `samara.core.random.normals` for its seed and source.

    `drone` and `tick` are words of 32 bits: a tick beyond 2³² would take 50 days at 1 kHz.
    """

    def draw_block(block: Tree) -> list[Scalar]:
        words = philox(tuple(_word(x, keys[0]) for x in (block, drone, tick, 0)), keys)
        return [normal(word, dtype) for word in words]

    blocks = -(-count // 4)
    if blocks <= 1:
        return draw_block(0)[:count] if count else []
    empty_rows = [jnp.zeros(jnp.shape(keys[0]), dtype)] * (4 * blocks)
    normals = lax.fori_loop(
        np.int32(0), np.int32(blocks), lambda i, normals: [*normals[4:], *draw_block(i)], empty_rows
    )
    return list(normals[:count])


def words(keys: Words, drone: Scalar, tick: Scalar, high: Scalar, count: int) -> Scalar:
    """`samara.core.random.words` at the tick `tick` + 2³² `high`: (count, ...), of 32 bits."""
    shape = jnp.broadcast_shapes(*(jnp.shape(x) for x in (*keys, drone, tick, high)))
    block = jnp.arange(-(-count // 4), dtype=jnp.uint32).reshape(-1, *(1 for _ in shape))
    template = jnp.broadcast_to(block, (len(block), *shape))
    low, upper = (jnp.broadcast_to(jnp.asarray(key), template.shape) for key in keys)
    word_columns = philox(tuple(_word(x, template) for x in (block, drone, tick, high)), (low, upper))
    return jnp.stack(word_columns, axis=1).reshape(-1, *shape)[:count]


def uniform(word: Scalar, dtype: Any) -> Scalar:
    """(word + ½) / 2³²."""
    return (word.astype(dtype) + 0.5) * 2.0**-32


def _word(x: Scalar, template: Scalar) -> Scalar:
    return jnp.broadcast_to(jnp.asarray(x).astype(jnp.uint32), jnp.shape(template))


@partial(jax.jit, static_argnums=(2, 3))
def draw_initial_normals(keys: Words, drone: Scalar, count: int, dtype: Any) -> Scalar:
    """Draw at tick 0, outside a kernel: (count, keys)."""
    block = jnp.arange(-(-count // 4), dtype=jnp.uint32)[:, None]
    low, high = (jnp.broadcast_to(key, (len(block), len(key))) for key in keys)
    words = jnp.stack(philox(tuple(_word(x, low) for x in (block, drone, 0, 0)), (low, high)), axis=1)
    return normal(words.reshape(-1, len(keys[0]))[:count], dtype)


def philox(counter: Sequence[Scalar], keys: Words) -> tuple[Scalar, Scalar, Scalar, Scalar]:
    """`samara.core.random.philox` in words of 32 bits: the upper half of a product from products of 16 bits."""

    def round_step(_: Scalar, round_state: Scalar) -> Scalar:
        c0, c1, c2, c3, k0, k1 = round_state
        (high_a, low_a), (high_b, low_b) = _product(c0, _MULTIPLIERS[0]), _product(c2, _MULTIPLIERS[1])
        step0, step1 = (np.uint32(step) for step in _KEY_STEPS)
        return high_b ^ c1 ^ k0, low_b, high_a ^ c3 ^ k1, low_a, k0 + step0, k1 + step1

    # a loop: unrolled, each word is used twice in every round, and XLA would duplicate its computation each time
    c0, c1, c2, c3, *_ = lax.fori_loop(np.int32(0), np.int32(_ROUNDS), round_step, (*counter, *keys))
    return c0, c1, c2, c3


def _product(x: Scalar, factor: int) -> tuple[Tree, Tree]:
    """Return the upper and the lower word of x · factor."""
    half, low = np.uint32(16), np.uint32(0xFFFF)
    a, b = np.uint32(factor & 0xFFFF), np.uint32(factor >> 16)
    x0, x1 = x & low, x >> half
    middle = x1 * a + ((x0 * a) >> half)  # below 2³²: (2¹⁶ − 1)² + 2¹⁶ − 1
    cross_term = x0 * b + (middle & low)
    return x1 * b + (middle >> half) + (cross_term >> half), x * np.uint32(factor)


def normal(word: Scalar, dtype: Any) -> Scalar:
    """Φ⁻¹((word + ½) / 2³²), by the formulas of `samara.core.random`.

    The smaller tail is measured from its end, so that float32 has full precision there.
    """
    centred = lax.bitcast_convert_type(word ^ np.uint32(1 << 31), jnp.int32)  # word − 2³¹
    is_upper = centred >= 0
    q = (centred.astype(dtype) + 0.5) * 2.0**-32
    tail = lax.bitcast_convert_type(jnp.where(is_upper, ~word, word), jnp.int32)  # below 2³¹
    p = (tail.astype(dtype) + 0.5) * 2.0**-32
    tail_value = _tail_quantile(jnp.sqrt(-jnp.log(p)))
    return jnp.where(jnp.abs(q) <= _CENTRAL_LIMIT, _central_quantile(q), jnp.where(is_upper, tail_value, -tail_value))


# Keys: BLAKE2b (M.-J. Saarinen, J.-P. Aumasson, RFC 7693) of a name, keyed by each seed ---------------------------------------

_INITIAL_STATE = (
    0x6A09E667F3BCC908,
    0xBB67AE8584CAA73B,
    0x3C6EF372FE94F82B,
    0xA54FF53A5F1D36F1,
    0x510E527FADE682D1,
    0x9B05688C2B3E6C1F,
    0x1F83D9ABFB41BD6B,
    0x5BE0CD19137E2179,
)
_MESSAGE_ORDER = (
    (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
    (14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3),
    (11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4),
    (7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8),
    (9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13),
    (2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9),
    (12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11),
    (13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10),
    (6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5),
    (10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0),
)
_COLUMNS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15))
_DIAGONALS = ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))
_BLOCK = 128  # bytes


def derive_keys(seeds: Scalar, source: str) -> Words:
    """Return the key of `samara.core.random` for each seed and this source, as two arrays of 32 bits.

    A million seeds take a second with `hashlib`, as long as a GPU flies them; here they are hashed on the device.
    """
    name = source.encode()
    if len(name) > _BLOCK:
        raise ValueError(f"source {source!r} has {len(name)} bytes; expected at most {_BLOCK}")
    message = np.frombuffer(name.ljust(_BLOCK, b"\0"), dtype="<u8")
    with precision("float64"):
        words = _hash_seeds(
            jnp.asarray(np.asarray(seeds).astype(np.uint64)), jnp.asarray(message), np.uint64(len(name))
        )
        return words.astype(jnp.uint32), (words >> np.uint64(32)).astype(jnp.uint32)


@jax.jit
def _hash_seeds(seeds: Scalar, message: Scalar, length: Scalar) -> Scalar:
    h = [jnp.full_like(seeds, start) for start in np.array(_INITIAL_STATE, dtype=np.uint64)]
    h[0] = h[0] ^ np.uint64(0x01010000 ^ 8 << 8 ^ 8)  # eight bytes, keyed by eight
    h = _compress(h, jnp.zeros(16, jnp.uint64), seeds, np.uint64(_BLOCK), is_last=False)
    return _compress(h, message, jnp.zeros_like(seeds), np.uint64(_BLOCK) + length, is_last=True)[0]


def _compress(h: list[Scalar], message: Scalar, first: Scalar, count: Scalar, *, is_last: bool) -> list[Scalar]:
    """F of the standard; `first` is added to the first word of the block, all other words are the same for all seeds."""
    order = jnp.asarray(np.array([*_MESSAGE_ORDER, *_MESSAGE_ORDER[:2]], dtype=np.int32))
    v = [*h, *(jnp.full_like(first, start) for start in np.array(_INITIAL_STATE, dtype=np.uint64))]
    v[12] = v[12] ^ count
    if is_last:
        v[14] = ~v[14]

    def mix_round(r: Scalar, v: Scalar) -> Scalar:
        v = list(v)
        for i, (a, b, c, d) in enumerate((*_COLUMNS, *_DIAGONALS)):
            x, y = (message[k] + jnp.where(k == 0, first, np.uint64(0)) for k in (order[r, 2 * i], order[r, 2 * i + 1]))
            v[a] = v[a] + v[b] + x
            v[d] = _rotate_right(v[d] ^ v[a], 32)
            v[c] = v[c] + v[d]
            v[b] = _rotate_right(v[b] ^ v[c], 24)
            v[a] = v[a] + v[b] + y
            v[d] = _rotate_right(v[d] ^ v[a], 16)
            v[c] = v[c] + v[d]
            v[b] = _rotate_right(v[b] ^ v[c], 63)
        return tuple(v)

    v = lax.fori_loop(0, len(_MESSAGE_ORDER) + 2, mix_round, tuple(v))
    return [x ^ v[k] ^ v[k + 8] for k, x in enumerate(h)]


def _rotate_right(x: Scalar, bits: int) -> Scalar:
    return (x >> np.uint64(bits)) | (x << np.uint64(64 - bits))
