"""Counter-based random numbers: the published bits, the normal distribution, and no other influence on a draw."""

import math
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from struct import pack, unpack

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.special import ndtri
from scipy.stats import kstest, kurtosis, skew

from samara.core.random import _normal, _normals, gauss_markov, normals, philox

ONES = 0xFFFFFFFF
PUBLISHED = [  # Random123's kat_vectors, philox4x32 with 10 rounds: counter, key, output
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ONES, ONES, ONES, ONES), (ONES, ONES), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (  # the digits of π
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


# The bits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("counter", "key", "output"), PUBLISHED)
def test_philox_gives_the_published_words(counter, key, output):
    """As Python integers, as arrays of uint64, and in the lanes of one long integer."""
    assert philox(counter, key) == output
    arrays = philox(tuple(np.array([c, c], dtype=np.uint64) for c in counter), key)
    assert [array.tolist() for array in arrays] == [[word, word] for word in output]
    lanes = philox(tuple(c | 7 << 64 | c << 128 for c in counter), key, lanes=3)
    assert tuple(word & ONES for word in lanes) == tuple(word >> 128 for word in lanes) == output
    assert tuple(word >> 64 & (1 << 64) - 1 for word in lanes) == philox((7, 7, 7, 7), key)


def test_the_draws_of_this_version_are_those_of_every_other():
    """Recordings are replayed by seed: an address has the same number for ever, on every machine, to the last bit."""
    expected = ["0x1.e521ca16dee2cp-1", "0x1.9807d8f8bac2ep-1"]
    assert [x.hex() for x in normals(1, "wind", 2, 3, 2).tolist()] == expected


# The distribution --------------------------------------------------------------------------------------------------


def test_words_become_quantiles_of_the_normal_distribution():
    """Φ⁻¹((w + ½)/2³²) against SciPy's, at both ends, at the seam of the two formulas, and in between."""
    seam = int((0.5 - 0.425) * 2**32)
    words = np.concatenate(
        [np.arange(20000), seam + np.arange(-9, 9), np.random.default_rng(0).integers(0, 2**31, 200000)]
    ).astype(np.uint64)
    expected = ndtri((words.astype(float) + 0.5) / 2**32)
    assert np.abs(_normals(words) / expected - 1.0).max() < 2e-15
    assert (_normals(ONES - words) == -_normals(words)).all()  # symmetric
    assert _normals(words).min() == pytest.approx(-6.338, abs=1e-3)


def test_one_word_and_an_array_of_them_give_the_same_bits():
    words = np.random.default_rng(1).integers(0, 2**32, 20000, dtype=np.uint64)
    assert _normals(words).tolist() == [_normal(word) for word in words.tolist()]


def test_a_million_draws_are_normal():
    """Moments within four standard errors; Kolmogorov and Smirnov find nothing at 1 %."""
    n = 10**6
    samples = normals(7, "gyro", np.arange(1000), np.arange(50)[:, None], 20).reshape(-1)
    assert abs(samples.mean()) < 4.0 / math.sqrt(n)
    assert abs(samples.var() - 1.0) < 4.0 * math.sqrt(2.0 / n)
    assert abs(skew(samples)) < 4.0 * math.sqrt(6.0 / n)
    assert abs(kurtosis(samples)) < 4.0 * math.sqrt(24.0 / n)
    assert kstest(samples, "norm").statistic < 1.63 / math.sqrt(n)
    assert len(np.unique(samples)) > n - 200  # n²/2³³ = 116 pairs are expected to meet among 2³² values


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param((7, "gyro", 0, 0), (7, "accelerometer", 0, 0), id="sources"),
        pytest.param((7, "gyro", 0, 0), (8, "gyro", 0, 0), id="seeds"),
        pytest.param((7, "gyro", 0, 0), (7, "gyro", 1, 0), id="drones"),
        pytest.param((7, "gyro", 0, 0), (7, "gyro", 0, 1), id="ticks"),
        pytest.param((7, "gyro", 5, 9), (7, "gyro", 9, 5), id="drone and tick exchanged"),
        pytest.param((7, "gyro", 0, 0), (7, "gyro", 0, 2**32), id="ticks far apart"),
        pytest.param((0, "gyro", 0, 0), (2**63, "gyro", 0, 0), id="the seed's highest bit"),
    ],
)
def test_different_addresses_are_independent(one, other):
    """Correlation, also of the squares and with a shift of one, within four standard errors."""
    n = 40000
    a, b = normals(*one, n), normals(*other, n)
    for x, y in ((a, b), (a * a - 1.0, b * b - 1.0), (a[1:], b[:-1])):
        assert abs(np.corrcoef(x, y)[0, 1]) < 4.0 / math.sqrt(n)


def test_draws_of_one_address_are_independent():
    """The four words of a block, and one block and the next: 8 normals for each of 60 000 ticks, their correlations."""
    n = 60000
    matrix = np.corrcoef(normals(3, "wind", 0, np.arange(n), 8).T)
    assert np.abs(matrix - np.eye(8)).max() < 4.5 / math.sqrt(n)  # the largest of 28


# Nothing else decides ----------------------------------------------------------------------------------------------


def test_a_block_equals_single_draws():
    """Drones and ticks of any shape and count, bit for bit, and a longer draw begins with the shorter."""
    drones, ticks = np.array([0, 5, 2**32 - 1]), np.array([0, 1, 2**33, 2**62, 77, 123456, 8])
    block = normals(-3, "wind", drones[:, None], ticks, 13)
    assert block.shape == (3, 7, 13)
    for i, drone in enumerate(drones.tolist()):
        for j, tick in enumerate(ticks.tolist()):
            assert block[i, j].tolist() == normals(-3, "wind", drone, tick, 13).tolist()
    assert normals(-3, "wind", 5, 77, 1000)[:13].tolist() == normals(-3, "wind", 5, 77, 13).tolist()
    assert normals(-3, "wind", drones[:2], 77, 3).tolist() == block[:2, 4, :3].tolist()


@pytest.mark.parametrize("batch", [1, 3, 16, 100, 9000])
def test_the_size_of_a_batch_makes_no_difference(batch):
    expected = normals(1, "imu", batch - 1, 42, 6)
    assert normals(1, "imu", np.arange(batch), 42, 6)[-1].tolist() == expected.tolist()


def test_more_blocks_than_are_worked_on_at_once():
    """Two slices of the work join without a seam: the normals beyond 131 072 of one draw."""
    long = normals(1, "imu", 4, 2 + 5 * 2**32, 131072 + 40)
    key = unpack("<2I", blake2b(b"imu", key=pack("<Q", 1), digest_size=8).digest())
    words = [philox((block, 4, 2, 5), key) for block in range(32766, 32778)]
    assert long[4 * 32766 : 4 * 32778].tolist() == [_normal(word) for block in words for word in block]


def test_threads_draw_the_same():
    with ThreadPoolExecutor(8) as pool:
        draws = list(pool.map(lambda tick: normals(1, "wind", 0, tick, 5).tolist(), range(200)))
    assert draws == normals(1, "wind", 0, np.arange(200), 5).tolist()


def test_another_process_draws_the_same():
    """Python's hash of a name changes with every process; this one does not."""
    program = "from samara.core.random import normals; print(normals(2**64 - 1, 'wind α', 3, 10**15, 6).tolist())"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": "123"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(normals(-1, "wind α", 3, 10**15, 6).tolist())


def test_zero_draws_are_valid():
    assert normals(1, "wind", 0, 0, 0).shape == (0,)
    assert normals(1, "wind", np.arange(3), 0, 0).shape == (3, 0)
    assert normals(1, "wind", np.arange(0), 0, 4).shape == (0, 4)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((1, "wind", -1, 0, 4), r"^drone is -1; expected an integer within \[0, 2\^32\)$"),
        ((1, "wind", np.array([0, 2**32]), 0, 4), r"^drone is 4294967296; expected an integer within \[0, 2\^32\)$"),
        ((1, "wind", 0, -5, 4), r"^tick is -5; expected an integer within \[0, 2\^64\)$"),
        ((1, "wind", 0, 0.5, 4), r"^tick is an array of float64; expected an integer or an array of integers$"),
        ((2**64, "wind", 0, 0, 4), r"^seed is 18446744073709551616; expected an integer of 64 bits$"),
        ((1.5, "wind", 0, 0, 4), r"^seed is 1.5; expected an integer$"),
        ((1, 5, 0, 0, 4), r"^source is 5; expected a name$"),
        ((1, "wind", 0, 0, -1), r"^count is -1; expected an integer that is not negative$"),
    ],
)
def test_invalid_addresses_are_refused_in_one_sentence(arguments, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        normals(*arguments)


# A process driven by them ------------------------------------------------------------------------------------------


def two_factors(dt, sigma=1.3, tau=0.7):
    """α and β of x' = α x + β n, evaluated from the function."""
    return gauss_markov(1.0, 0.0, dt, sigma=sigma, tau=tau), gauss_markov(0.0, 1.0, dt, sigma=sigma, tau=tau)


@pytest.mark.parametrize("dt", [1e-4, 0.01, 0.3, 5.0])
def test_two_half_steps_are_one_step(dt):
    """Mean α_½² = α and variance α_½² β_½² + β_½² = β², so the process does not depend on its sampling step."""
    (full, spread), (half, half_spread) = two_factors(dt), two_factors(dt / 2.0)
    assert half * half == pytest.approx(full, rel=1e-15)
    assert half**2 * half_spread**2 + half_spread**2 == pytest.approx(spread**2, abs=1e-15)


@pytest.mark.parametrize("dt", [0.01, 0.3, 5.0])
def test_the_step_is_van_loans(dt):
    """ẋ = −x/τ + σ√(2/τ) w discretised by the matrix exponential of [[1/τ, 2σ²/τ], [0, −1/τ]] dt (Van Loan 1978)."""
    sigma, tau = 1.3, 0.7
    block = expm(np.array([[1.0 / tau, 2.0 * sigma**2 / tau], [0.0, -1.0 / tau]]) * dt)
    keep, spread = two_factors(dt, sigma, tau)
    assert keep == pytest.approx(block[1, 1], rel=1e-13)
    assert spread**2 == pytest.approx(block[1, 1] * block[0, 1], rel=1e-12)


def test_zero_time_changes_nothing_and_infinite_time_forgets_all():
    assert two_factors(0.0) == (1.0, 0.0)
    assert two_factors(math.inf) == (0.0, 1.3)
