"""Messages of fixed length as rows of bytes, so that NumPy writes and reads all messages of a chunk at once.

A protobuf message whose fields are all doubles and fixed-width integers has the same bytes in the same places every time,
and so has the MCAP record around it: only the numbers change. Where they stand is not computed here. The libraries write
one message with known markers for numbers, and the markers are looked up.
"""

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from google.protobuf.message import Message as ProtobufMessage  # type: ignore[import-untyped]
from mcap.data_stream import RecordBuilder
from mcap.records import Message

from samara.core.types import Array

MARK = 0x3C5AF00D_00000000  # its bytes are not UTF-8, so no name in a message can hold them
TIME_MARK, LOG_MARK, PUBLISH_MARK = (MARK + 0xFFFF_FFF0 + k for k in range(3))
SEQUENCE_MARK = 0xC3A5F1E7
SECONDS_MARK, NANOS_MARK = 0x4_A5A5_A5A5, 0x2D5A_5A5A  # as large as to take all five bytes of their varints
SHIFTS, MORE = np.array([0, 7, 14, 21, 28]), np.array([0x80, 0x80, 0x80, 0x80, 0])
CHANNEL = struct.Struct("<H")
HEAD = 11  # opcode, length and channel: what all records of one channel and size begin with


class Run(NamedTuple):
    """Numbers at equal distances: `width` of them from number `first`, the first at byte `offset`."""

    first: int
    width: int
    offset: int
    stride: int


class Places(NamedTuple):
    """Where in a Message record the numbers stand: its columns, which have the record's size, and the runs of doubles."""

    columns: np.dtype[np.void]
    runs: tuple[Run, ...]


class Layout(NamedTuple):
    """One MCAP Message record: its bytes (1,), and the places of its numbers. Those of equal places are packed together."""

    channel: int
    record: Array
    places: Places

    def on(self, channel: int) -> "Layout":
        """The same record on another channel, with the same places."""
        return self._replace(channel=channel, record=on_channel(self.record, channel))

    @property
    def size(self) -> int:
        return self.record.itemsize

    @property
    def width(self) -> int:
        """How many doubles it holds."""
        return sum(run.width for run in self.places.runs)


def on_channel(record: Array, channel: int) -> Array:
    """The bytes of a Message record on another channel"""
    own = bytearray(record.tobytes())
    CHANNEL.pack_into(own, HEAD - CHANNEL.size, channel)
    return np.frombuffer(bytes(own), record.dtype)


def marker(number: int) -> float:
    """The double that marks the place of a number."""
    return struct.unpack("<d", struct.pack("<Q", MARK + number))[0]


def message_record(channel: int, sequence: int, log_time: int, publish_time: int, data: bytes) -> bytes:
    """One MCAP Message record."""
    builder = RecordBuilder()
    Message(channel, log_time, data, publish_time, sequence).write(builder)
    return builder.end()  # type: ignore[no-untyped-call]


def layout_of(channel: int, marked: ProtobufMessage, width: int) -> Layout:
    """The layout of a message whose numbers are markers: 0 to `width` − 1, and those of the times it has."""
    record = message_record(channel, SEQUENCE_MARK, LOG_MARK, PUBLISH_MARK, marked.SerializeToString())
    offsets = [_only_place(record, struct.pack("<d", marker(number))) for number in range(width)]
    if min(offsets, default=0) < 0:
        raise ValueError(f"a number is missing from a message of {len(record)} bytes")
    return Layout(channel, np.frombuffer(record, f"V{len(record)}"), Places(columns_of(record), runs(offsets)))


def columns_of(record: bytes) -> np.dtype[np.void]:
    """Where the counter and the times of a marked record stand"""

    def place(mark: bytes) -> int:
        return _only_place(record, mark)

    columns = {
        "sequence": ("<u4", place(struct.pack("<I", SEQUENCE_MARK))),
        "log_time": ("<i8", place(struct.pack("<Q", LOG_MARK))),
        "publish_time": ("<i8", place(struct.pack("<Q", PUBLISH_MARK))),
        "time_us": ("<i8", place(struct.pack("<Q", TIME_MARK))),
        "seconds": ("5u1", place(varint(np.array([SECONDS_MARK])).tobytes())),
        "nanos": ("5u1", place(varint(np.array([NANOS_MARK])).tobytes())),
    }
    there = {name: column for name, column in columns.items() if column[1] >= 0}
    formats, starts = zip(*there.values(), strict=True)
    return np.dtype({"names": [*there], "formats": formats, "offsets": starts, "itemsize": len(record)})


def _only_place(record: bytes, mark: bytes) -> int:
    if record.count(mark) > 1:
        raise ValueError(f"a marker stands twice in a message of {len(record)} bytes")
    return record.find(mark)


def stream_layout(channel: int, message: type[ProtobufMessage]) -> Layout:
    """The layout of a stream's own message: `time_us`, then a double for each field."""
    return _layout_of_type(message).on(channel)  # type: ignore[arg-type]


@lru_cache(maxsize=64)  # a thousand drones of one kind have one
def _layout_of_type(message: type[ProtobufMessage]) -> Layout:
    time, *fields = message.DESCRIPTOR.fields
    marks = {field.name: marker(number) for number, field in enumerate(fields)}
    return layout_of(0, message(**{time.name: TIME_MARK}, **marks), len(fields))


def runs(offsets: Sequence[int]) -> tuple[Run, ...]:
    """The offsets as few runs of equal distance: a tag is one byte up to field 15 and two from there."""
    found: list[Run] = []
    for number, offset in enumerate(offsets):
        if found:
            last = found[-1]
            stride = offset - offsets[number - 1]
            if last.width == 1 or stride == last.stride:
                found[-1] = last._replace(width=last.width + 1, stride=stride)
                continue
        found.append(Run(number, 1, offset, 8))
    return tuple(found)


def varint(values: Array) -> Array:
    """Protobuf's varints, each padded to five bytes; a parser takes the padding as leading zeros."""
    return (values[..., None] >> SHIFTS & 0x7F | MORE).astype(np.uint8)


def sequence(first: int, count: int) -> Array:
    """Numbers of messages as MCAP counts them, modulo 2³²."""
    return np.arange(first, first + count) & 0xFFFF_FFFF


class Times(NamedTuple):
    """Times of messages (m,), in µs, in ns, and as protobuf's seconds and nanoseconds for messages that have those."""

    us: Array
    ns: Array
    stamp: Sequence[Array] = ()


def times_of(us: Array, stamped: bool = False) -> Times:
    """The times in all the forms that are written."""
    ns = us * 1000
    return Times(us, ns, tuple(varint(np.array(np.divmod(ns, 1_000_000_000)))) if stamped else ())


class Messages:
    """Records of k layouts with equal places in memory, `count` for each layout."""

    def __init__(self, layouts: Sequence[Layout], count: int, memory: Array) -> None:
        """Write the constant bytes of all records to the start of `memory`; `fill` adds the numbers."""
        records, places = np.concatenate([layout.record for layout in layouts]), layouts[0].places
        shape, size = (len(layouts), count), places.columns.itemsize
        np.ndarray(shape, records.dtype, memory)[...] = records[:, None]
        self.count, self.length = count, shape[0] * count * size
        self._block = np.ndarray(shape, places.columns, memory)
        self._columns = set(places.columns.names or ())
        self._doubles = [(slice(run.first, run.first + run.width), _doubles(self._block, run)) for run in places.runs]

    def fill(self, first: Array, times: "Times", rows: Array) -> None:
        """Write counters from `first` (k,), times (m,) and rows (m, width, k)."""
        block = self._block
        block["sequence"] = first[:, None] + np.arange(self.count) & 0xFFFF_FFFF
        block["log_time"] = block["publish_time"] = times.ns
        if "time_us" in self._columns:
            block["time_us"] = times.us
        for name, digits in zip(("seconds", "nanos") if "seconds" in self._columns else (), times.stamp, strict=True):
            block[name] = digits
        numbers = np.ascontiguousarray(rows.transpose(2, 0, 1))
        for fields, place in self._doubles:
            place[...] = numbers[..., fields]


def unpack(layout: Layout, block: Array) -> tuple[Array, Array, Array]:
    """Sequence numbers, times [µs] and rows of an array of messages (m, size)."""
    messages = np.ndarray(len(block), layout.places.columns, block)
    rows = np.empty((len(messages), layout.width))
    for run in layout.places.runs:
        rows[:, run.first : run.first + run.width] = _doubles(messages, run)
    return messages["sequence"].astype(np.int64), messages["time_us"].astype(np.int64), rows


def alike(data: bytes, start: int, size: int) -> Array:
    """The records from `start` on that begin as the first does, as an array of bytes (m, size).

    Few are looked at first, then more, so that the work goes with those found and not with all that follow.
    """
    possible = (len(data) - start) // size
    block = np.frombuffer(data, np.uint8, possible * size, start).reshape(possible, size)
    looked_at = 16
    while True:
        same = (block[:looked_at, :HEAD] == block[0, :HEAD]).all(axis=1)
        if not same.all():
            return block[: int(same.argmin())]
        if looked_at >= possible:
            return block
        looked_at *= 16


def _doubles(messages: Array, run: Run) -> Array:
    """The numbers of a run in every message: a view, at whatever address."""
    return np.ndarray((*messages.shape, run.width), "<f8", messages, run.offset, (*messages.strides, run.stride))
