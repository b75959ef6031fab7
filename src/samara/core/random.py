"""Counter-based random numbers: a draw depends on (seed, source, drone, tick) and on nothing else.

Batch size, order, thread and machine do not matter. The bits come from Philox4x32-10, a bijection of a 128-bit counter under a
64-bit key (J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011). The key
is a hash of seed and source, the counter is (block of four, drone, tick). The words become normals through the inverse of the
normal distribution (M. J. Wichura, "Algorithm AS 241", Applied Statistics 37, 1988), computed with + − × ÷ √ alone: those are
rounded identically everywhere, sin and log are not.
"""

import math
import operator
from functools import lru_cache
from hashlib import blake2b
from struct import unpack

import numpy as np

from samara.core.ops import exp, safe_sqrt
from samara.core.portable_math import SimdVector
from samara.core.quantity import Scalar
from samara.core.types import Array

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)  # the fractional parts of the golden ratio and of √3, times 2³²
_ROUNDS = 10
_WORD = 0xFFFFFFFF
_MAX_SCALAR_BLOCKS = 32  # up to this count Python integers are faster than NumPy arrays
_BLOCKS_PER_SLICE = 1 << 15  # blocks per iteration, so that intermediate arrays stay in the cache


def normals(seed: int, source: str, drone: Scalar, tick: Scalar, count: int) -> Array:
    """Draw `count` standard normals for each drone and tick: shape (..., count).

    `drone` in [0, 2³²) and `tick` in [0, 2⁶⁴) are integers or integer arrays, which broadcast. A normal is one of 2³² values,
    symmetric about 0; the largest is 6.34, about one draw in four billion.
    """
    key = derive_key(seed, source)
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise ValueError(f"count is {count!r}; expected an integer that is not negative")
    if isinstance(drone, int) and isinstance(tick, int) and count <= 4 * _MAX_SCALAR_BLOCKS:
        return np.array(
            _scalar_normals(key, _integer("drone", drone, 32), _integer("tick", tick, 64), count), dtype=float
        )
    drones, ticks = np.broadcast_arrays(_integers("drone", drone, 32), _integers("tick", tick, 64))
    if drones.size * count <= 2 * _MAX_SCALAR_BLOCKS:
        pairs = zip(drones.reshape(-1).tolist(), ticks.reshape(-1).tolist(), strict=True)
        rows = [_scalar_normals(key, one_drone, one_tick, count) for one_drone, one_tick in pairs]
        return np.array(rows, dtype=float).reshape(*drones.shape, count)
    return _array_normals(key, drones.reshape(-1), ticks.reshape(-1), count).reshape(*drones.shape, count)


def words(keys: tuple[Scalar, Scalar], drone: Scalar, tick: Scalar, count: int) -> Array:
    """Draw `count` words of 32 bits for each pair of keys, drone and tick, which broadcast: (count, ...), as `uint64`.

    With the keys of a seed and source (`derive_key`), `normals_from_words` converts them to the same values as `normals`.
    """
    low, high, drones, ticks = np.broadcast_arrays(*(np.asarray(x, dtype=np.uint64) for x in (*keys, drone, tick)))
    blocks = np.arange(-(-count // 4), dtype=np.uint64).reshape(-1, *(1 for _ in low.shape))
    word_columns = np.broadcast_arrays(*philox((blocks, drones, ticks & _WORD, ticks >> 32), (low, high)))
    return np.stack(word_columns, axis=1).reshape(4 * len(blocks), *low.shape)[:count]


def uniforms_from_words(words: Array) -> Array:
    """(word + ½) / 2³²: above 0 and below 1."""
    return (words.astype(float) + 0.5) * 2.0**-32


def normals_from_words(words: Array) -> Array:
    """Φ⁻¹((word + ½) / 2³²): standard normals."""
    return _normals(words)


def philox(
    counter: tuple[Scalar, Scalar, Scalar, Scalar], key: tuple[Scalar, Scalar], lanes: int = 1
) -> tuple[Scalar, Scalar, Scalar, Scalar]:
    """Ten rounds: (c₀, c₁, c₂, c₃) ← (hi(M₁c₂) ⊕ c₁ ⊕ k₀, lo(M₁c₂), hi(M₀c₀) ⊕ c₃ ⊕ k₁, lo(M₀c₀)),  k ← k + w.

    Four words of 32 bits from a counter of four and a key of two. The counter's words are Python integers or arrays of
    `uint64`; one Python integer may carry several words in lanes of 64 bits, which no product overflows.
    """
    (c0, c1, c2, c3), ones = counter, _lane_ones(lanes)
    word, k0, k1 = _WORD * ones, key[0] * ones, key[1] * ones
    step0, step1 = _KEY_STEPS[0] * ones, _KEY_STEPS[1] * ones
    for _ in range(_ROUNDS):
        a, b = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (b >> 32) & word ^ c1 ^ k0, b & word, (a >> 32) & word ^ c3 ^ k1, a & word
        k0, k1 = (k0 + step0) & word, (k1 + step1) & word
    return c0, c1, c2, c3


def gauss_markov(x: Scalar, normal: Scalar, dt: Scalar, *, sigma: Scalar, tau: Scalar) -> Scalar:
    """x' = α x + σ √(1 − α²) n,  α = e^{−dt/τ}: the exact step of a first-order Gauss–Markov (Ornstein–Uhlenbeck) process.

    σ is the stationary standard deviation for every dt; dt = ∞ draws x from the stationary distribution.
    """
    decay = exp(-dt / tau)
    return decay * x + sigma * safe_sqrt(1.0 - decay * decay) * normal


# Keys and counters --------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def derive_key(seed: int, source: str) -> tuple[int, int]:
    """Return two words of BLAKE2b over the source's name, keyed by the seed: the same in every process."""
    if not isinstance(source, str):
        raise TypeError(f"source is {source!r}; expected a name")
    try:
        number = operator.index(seed)
    except TypeError:
        raise TypeError(f"seed is {seed!r}; expected an integer") from None
    if not -(2**63) <= number < 2**64:
        raise ValueError(f"seed is {number}; expected an integer of 64 bits")
    digest = blake2b(source.encode(), key=(number % 2**64).to_bytes(8, "little"), digest_size=8).digest()
    return int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:], "little")


def _integer(name: str, value: Scalar, bits: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}; expected an integer or an array of integers") from None
    if not 0 <= number < 2**bits:
        raise ValueError(f"{name} is {number}; expected an integer within [0, 2^{bits})")
    return number


def _integers(name: str, value: object, bits: int) -> Array:
    array = np.asarray(value)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} is an array of {array.dtype}; expected an integer or an array of integers")
    for extreme in (array.min(), array.max()) if array.size else ():
        _integer(name, extreme, bits)
    return array.astype(np.uint64)


# Blocks of four words -----------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _lane_ones(lanes: int) -> int:
    """Σ 2⁶⁴ⁱ: multiplied by a word, it repeats that word in every lane."""
    return sum(1 << 64 * lane for lane in range(lanes))


@lru_cache(maxsize=64)
def _lane_indices(lanes: int) -> int:
    """Σ i 2⁶⁴ⁱ: every lane contains its index."""
    return sum(lane << 64 * lane for lane in range(lanes))


def _scalar_normals(key: tuple[int, int], drone: int, tick: int, count: int) -> list[float]:
    """Compute all blocks as lanes of Python integers."""
    blocks = -(-count // 4)
    ones = _lane_ones(blocks)
    counter = (_lane_indices(blocks), drone * ones, (tick & _WORD) * ones, (tick >> 32) * ones)
    lane_format = f"<{blocks}Q"
    words = zip(
        *(unpack(lane_format, c.to_bytes(8 * blocks, "little")) for c in philox(counter, key, blocks)), strict=True
    )
    return [_normal(word) for block in words for word in block][:count]


def _array_normals(key: tuple[int, int], drones: Array, ticks: Array, count: int) -> Array:
    """Compute all blocks as arrays, in slices that fit the cache."""
    blocks = -(-count // 4)
    normals = np.empty((drones.size, blocks, 4))
    rows = max(1, _BLOCKS_PER_SLICE // max(1, blocks))
    for row in range(0, drones.size, rows):
        drone, tick = drones[row : row + rows, None], ticks[row : row + rows, None]
        for first in range(0, blocks, _BLOCKS_PER_SLICE):
            block = np.arange(first, min(first + _BLOCKS_PER_SLICE, blocks), dtype=np.uint64)
            words = philox((block, drone, tick & _WORD, tick >> 32), key)
            normals[row : row + rows, first : first + _BLOCKS_PER_SLICE] = _normals(np.stack(words, axis=-1))
    return normals.reshape(drones.size, 4 * blocks)[:, :count]


# From words to normals ----------------------------------------------------------------------------------------------

_CENTRAL_LIMIT = 0.425  # |u − ½| up to which the central formula is valid


def _normal(word: int) -> float:
    """Φ⁻¹(u),  u = (word + ½) / 2³²."""
    q = (word - 2147483647.5) * 2.0**-32
    if -_CENTRAL_LIMIT <= q <= _CENTRAL_LIMIT:
        return _central_quantile(q)
    z = _tail_quantile(math.sqrt(-_log(*math.frexp(0.5 - abs(q)))))
    return z if q > 0 else -z


def _normals(words: Array) -> Array:
    """Φ⁻¹(u) of an array of words: bit-identical to `_normal` of each."""
    q = (words.astype(float) - 2147483647.5) * 2.0**-32
    z: Array = _central_quantile(q)
    magnitude = np.abs(q)
    in_tail = np.nonzero(magnitude > _CENTRAL_LIMIT)
    z[in_tail] = np.copysign(_tail_quantile(np.sqrt(-_log(*np.frexp(0.5 - magnitude[in_tail])))), q[in_tail])
    return z


def normal_lanes(word: SimdVector) -> SimdVector:
    """Φ⁻¹(u) of words in `samara.core.portable_math.SimdVector`: bit-identical to `_normal` of each."""
    q = (word.convert_to_double() - 2147483647.5) * 2.0**-32
    tail = 0.5 - abs(q)
    exponent = (tail.bits() >> 52) - 1022
    mantissa = ((tail.bits() & ((1 << 52) - 1)) | (1022 << 52)).double()
    tail_value = _tail_quantile((-1.0 * _log(mantissa, exponent.convert_to_double())).sqrt())
    return (abs(q) > _CENTRAL_LIMIT).where(tail_value.flip_sign(q.sign()), _central_quantile(q))


def uniform_lanes(word: SimdVector) -> SimdVector:
    """(word + ½) / 2³² of words in the lanes of a vector."""
    return (word.convert_to_double() + 0.5) * 2.0**-32


_BYTE_SCALE = (4.0 * (256.0**2 - 1.0) / 12.0) ** -0.5  # 1/σ of the sum of four random bytes


def byte_normals(seed: int, source: str, drone: int, tick: int, count: int) -> Array:
    """Draw (count, 4) numbers of mean 0 and variance 1, one block of four words each: for the noise of pixels.

    The sum of the four bytes of a word is nearly normal, within ±3.45 and in steps of 0.007, and takes a tenth of the time.
    """
    key = derive_key(seed, source)
    blocks, *words = np.broadcast_arrays(
        np.arange(count, dtype=np.uint64), *(np.uint64(x) for x in (drone, tick & _WORD, tick >> 32))
    )
    word_columns = philox((blocks, words[0], words[1], words[2]), key)
    return np.stack([_byte_normal(word) for word in word_columns], axis=-1)


def _byte_normal(word: Array) -> Array:
    """(Σ bytes − 510)/√(4 (256² − 1)/12)"""
    total = (word & 255) + (word >> 8 & 255) + (word >> 16 & 255) + (word >> 24)
    return (total.astype(float) - 510.0) * _BYTE_SCALE


def byte_normal_lanes(word: SimdVector) -> SimdVector:
    """`byte_normals` of words in `samara.core.portable_math.SimdVector`, bit-identical."""
    total = (word & 255) + ((word >> 8) & 255) + ((word >> 16) & 255) + (word >> 24)
    return (total.convert_to_double() - 510.0) * _BYTE_SCALE


# Wichura's coefficients are written out: as tuples in a loop they cost three times as much.
# fmt: off


def _central_quantile(q: Scalar) -> Scalar:
    """q A(r)/B(r),  r = 0.425² − q²,  q = u − ½"""
    r = 0.180625 - q * q
    a = (((((((2.5090809287301226727e3 * r + 3.3430575583588128105e4) * r + 6.7265770927008700853e4) * r
        + 4.5921953931549871457e4) * r + 1.3731693765509461125e4) * r + 1.9715909503065514427e3) * r
        + 1.3314166789178437745e2) * r + 3.3871328727963666080)
    b = (((((((5.2264952788528545610e3 * r + 2.8729085735721942674e4) * r + 3.9307895800092710610e4) * r
        + 2.1213794301586595867e4) * r + 5.3941960214247511077e3) * r + 6.8718700749205790830e2) * r
        + 4.2313330701600911252e1) * r + 1.0)
    return q * (a / b)


def _tail_quantile(root: Scalar) -> Scalar:
    """C(r)/D(r),  r = √(−ln p) − 1.6,  p the smaller tail, at least 2⁻³³: √(−ln p) < 5, so the third formula is not needed"""
    r = root - 1.6
    c = (((((((7.74545014278341407640e-4 * r + 2.27238449892691845833e-2) * r + 2.41780725177450611770e-1) * r
        + 1.27045825245236838258) * r + 3.64784832476320460504) * r + 5.76949722146069140550) * r
        + 4.63033784615654529590) * r + 1.42343711074968357734)
    d = (((((((1.05075007164441684324e-9 * r + 5.47593808499534494600e-4) * r + 1.51986665636164571966e-2) * r
        + 1.48103976427480074590e-1) * r + 6.89767334985100004550e-1) * r + 1.67638483018380384940) * r
        + 2.05319162663775882187) * r + 1.0)
    return c / d


def _log(mantissa: Scalar, exponent: Scalar) -> Scalar:
    """ln (m 2ᵉ) = e ln 2 + ln ¾ + 2 (s + s³/3 + s⁵/5 + …),  s = (m − ¾)/(m + ¾), |s| ≤ 1/5 for m in [½, 1)"""
    s = (mantissa - 0.75) / (mantissa + 0.75)
    x = s * s
    series = ((((((((((x / 21.0 + 1.0 / 19.0) * x + 1.0 / 17.0) * x + 1.0 / 15.0) * x + 1.0 / 13.0) * x + 1.0 / 11.0) * x
        + 1.0 / 9.0) * x + 1.0 / 7.0) * x + 1.0 / 5.0) * x + 1.0 / 3.0) * x + 1.0)
    return exponent * 0.6931471805599453 + (2.0 * s * series - 0.2876820724517809)
