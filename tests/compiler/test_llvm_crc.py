"""CRC-32 by carry-less products against zlib's, which goes byte by byte through a table."""

import zlib

import numpy as np
import pytest

from samara.compiler.llvm import crc
from samara.compiler.llvm.crc import WORTH_IT, crc32, power

DATA = np.random.default_rng(3).bytes(70_000)


@pytest.mark.parametrize("length", [0, 1, WORTH_IT - 1, WORTH_IT, WORTH_IT + 1, WORTH_IT + 255, 65_536, 69_999])
@pytest.mark.parametrize("begun", [0, 0xDEADBEEF])
def test_crc_of_any_length_from_any_beginning(length, begun):
    own = memoryview(DATA)[1 : 1 + length]  # at an odd address
    assert crc32(own, begun) == zlib.crc32(own, begun)


@pytest.mark.parametrize("lanes", [0, 1])
def test_narrow_registers_give_the_same(monkeypatch, lanes):
    """A CPU without products of 512 bits folds 64 bytes at a time; one without any leaves it to zlib."""
    if lanes > crc.lanes_of_host():
        pytest.skip("this CPU has no carry-less product")
    monkeypatch.setattr(crc, "lanes_of_host", lambda: lanes)
    assert crc32(DATA) == zlib.crc32(DATA)


def test_powers_of_x_are_remainders():
    """x³² ≡ P − x³², and a CRC of one bit and zeros after it is a power of x: x^(8n + 32) for the byte 1 and n of 0"""
    assert power(31) == 1 << 31 and power(32) == 0x04C1_1DB7
    for zeros in (0, 1, 250):
        message = b"\x80" + bytes(zeros)  # reflected: the bit of the lowest power in the first byte
        register = zlib.crc32(message, 0xFFFF_FFFF) ^ 0xFFFF_FFFF
        assert power(8 * zeros + 32) == int(f"{register:032b}"[::-1], 2)
