"""Machine code that writes records, against `struct` at the bytes where their numbers stand."""

import struct

import numpy as np
import pytest

from samara.compiler.llvm.records import Records

SIZE, COUNTER, STAMPS, PLACES = 47, 3, [(9, 1000), (17, 1)], [26, 35]


@pytest.mark.parametrize("drones", [1, 7, 8, 19])
def test_each_number_stands_at_its_byte_and_nothing_else_is_touched(drones):
    """Counters pass 2³²; the doubles come from lanes in the middle of a wider block."""
    count, draw = 3, np.random.default_rng(drones)
    memory = draw.integers(0, 256, drones * count * SIZE, dtype=np.uint8)
    first = draw.integers(0xFFFF_FFFE, 0x1_0000_0002, drones)
    times, wide = np.array([5, 2**40, 2**53]), draw.normal(size=(count, 2, drones + 2))
    expected = bytearray(memory.tobytes())
    for drone in range(drones):
        for k in range(count):
            at = (drone * count + k) * SIZE
            struct.pack_into("<I", expected, at + COUNTER, int(first[drone] + k) % 2**32)
            for place, factor in STAMPS:
                struct.pack_into("<q", expected, at + place, int(times[k]) * factor)
            for field, place in enumerate(PLACES):
                struct.pack_into("<d", expected, at + place, wide[k, field, 1 + drone])
    Records(memory, SIZE, count, COUNTER, STAMPS, PLACES).write(0, first, times, wide[:, :, 1:-1])
    assert memory.tobytes() == bytes(expected)


def test_drones_may_come_in_parts():
    memory = np.zeros((5, 2, SIZE), np.uint8)
    rows, times = np.arange(20.0).reshape(2, 2, 5), np.array([1, 2])
    own = Records(memory, SIZE, 2, COUNTER, STAMPS, PLACES)
    own.write(0, np.zeros(3, int), times, rows[:, :, :3])
    own.write(3, np.zeros(2, int), times, rows[:, :, 3:])
    for field, place in enumerate(PLACES):
        found = np.ascontiguousarray(memory[:, :, place : place + 8]).view("<f8")[:, :, 0]
        np.testing.assert_array_equal(found, rows[:, field].T)


@pytest.mark.parametrize(("count", "fields"), [(0, 2), (2, 0)])
def test_no_record_and_no_double_are_none(count, fields):
    """A stream may have no fields: then there are counters and times"""
    memory = np.zeros((3, count, SIZE), np.uint8)
    own = Records(memory, SIZE, count, COUNTER, STAMPS, PLACES[:fields])
    own.write(0, np.full(3, 7), np.arange(count), np.zeros((count, fields, 3)))
    expected = np.zeros_like(memory)
    expected[:, :, COUNTER] = 7 + np.arange(count)
    for place, factor in STAMPS:
        expected[:, :, place : place + 8] = (factor * np.arange(count)).astype("<i8").view(np.uint8).reshape(count, 8)
    np.testing.assert_array_equal(memory, expected)


def test_what_does_not_fit_is_refused_before_a_byte_is_written():
    own = Records(np.zeros(2 * SIZE, np.uint8), SIZE, 1, COUNTER, STAMPS, PLACES)
    times, first = np.array([0]), np.zeros(2, int)
    with pytest.raises(ValueError, match="drones 1 to 2"):
        own.write(1, first, times, np.zeros((1, 2, 2)))
    with pytest.raises(ValueError, match=r"expected \(1, 2\) doubles"):
        own.write(0, first, times, np.zeros((1, 3, 2)))
