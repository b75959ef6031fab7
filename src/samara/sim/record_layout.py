"""Messages of fixed length as rows of bytes, so that NumPy writes and reads all messages of a chunk at once.

A protobuf message whose fields are all doubles and fixed-width integers has the same bytes in the same places every time,
and so has the MCAP record around it: only the numbers change. Where they stand is not computed here. The libraries write
one message with known markers for numbers, and the markers are looked up.
"""

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from mcap.data_stream import RecordBuilder
from mcap.records import Message

Array = np.ndarray[Any, Any]

MARK = 0x3C5AF00D_00000000  # its bytes are not UTF-8, so no name in a message can hold them
TIME_MARK, LOG_MARK, PUBLISH_MARK = (MARK + 0xFFFF_FFF0 + k for k in range(3))
SEQUENCE_MARK = 0xC3A5F1E7
SECONDS_MARK, NANOS_MARK = 0x4_A5A5_A5A5, 0x2D5A_5A5A  # as large as to take all five bytes of their varints
SHIFTS, MORE = np.array([0, 7, 14, 21, 28]), np.array([0x80, 0x80, 0x80, 0x80, 0])
HEAD = 11  # opcode, length and channel: what all records of one channel and size begin with


class Run(NamedTuple):
    """Numbers at equal distances: `width` of them from number `first`, the first at byte `offset`."""

    first: int
    width: int
    offset: int
    stride: int


class Layout(NamedTuple):
    """One MCAP Message record: its bytes, and where in it the numbers stand. −1: it has none of these."""

    channel: int
    record: Array
    sequence: int
    log_time: int
    publish_time: int
    time_us: int
    seconds: int
    nanos: int
    runs: tuple[Run, ...]

    @property
    def size(self) -> int:
        return len(self.record)

    @property
    def width(self) -> int:
        """How many doubles it holds."""
        return sum(run.width for run in self.runs)


def marker(number: int) -> float:
    """The double that marks the place of a number."""
    return struct.unpack("<d", struct.pack("<Q", MARK + number))[0]


def message_record(channel: int, sequence: int, log_time: int, publish_time: int, data: bytes) -> bytes:
    """One MCAP Message record."""
    builder = RecordBuilder()
    Message(channel, log_time, data, publish_time, sequence).write(builder)
    return builder.end()  # type: ignore[no-untyped-call]


def layout_of(channel: int, marked: Any, width: int) -> Layout:
    """The layout of a message whose numbers are markers: 0 to `width` − 1, and those of the times it has."""
    record = message_record(channel, SEQUENCE_MARK, LOG_MARK, PUBLISH_MARK, marked.SerializeToString())

    def place(mark: bytes) -> int:
        if record.count(mark) > 1:
            raise ValueError(f"a marker stands twice in a message of {len(record)} bytes")
        return record.find(mark)

    offsets = [place(struct.pack("<d", marker(number))) for number in range(width)]
    if min(offsets, default=0) < 0:
        raise ValueError(f"a number is missing from a message of {len(record)} bytes")
    return Layout(
        channel=channel,
        record=np.frombuffer(record, np.uint8),
        sequence=place(struct.pack("<I", SEQUENCE_MARK)),
        log_time=place(struct.pack("<Q", LOG_MARK)),
        publish_time=place(struct.pack("<Q", PUBLISH_MARK)),
        time_us=place(struct.pack("<Q", TIME_MARK)),
        seconds=place(varint(np.array([SECONDS_MARK])).tobytes()),
        nanos=place(varint(np.array([NANOS_MARK])).tobytes()),
        runs=runs(offsets),
    )


def stream_layout(channel: int, message: Any) -> Layout:
    """The layout of a stream's own message: `time_us`, then a double for each field."""
    time, *fields = message.DESCRIPTOR.fields
    marks = {field.name: marker(number) for number, field in enumerate(fields)}
    return layout_of(channel, message(**{time.name: TIME_MARK}, **marks), len(fields))


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


def pack(layout: Layout, first: int, times_us: Array, rows: Array) -> Array:
    """All messages as an array of bytes (m, size), numbered from `first`."""
    block = np.empty((len(times_us), layout.size), np.uint8)
    block[:] = layout.record
    times_ns = times_us * 1000
    _column(block, layout.sequence, "<u4")[...] = sequence(first, len(times_us))
    _column(block, layout.log_time, "<i8")[...] = times_ns
    _column(block, layout.publish_time, "<i8")[...] = times_ns
    if layout.time_us >= 0:
        _column(block, layout.time_us, "<i8")[...] = times_us
    if layout.seconds >= 0:
        seconds, nanos = varint(np.array(np.divmod(times_ns, 1_000_000_000)))
        block[:, layout.seconds : layout.seconds + 5] = seconds
        block[:, layout.nanos : layout.nanos + 5] = nanos
    for run in layout.runs:
        _doubles(block, run)[...] = rows[:, run.first : run.first + run.width]
    return block


def unpack(layout: Layout, block: Array) -> tuple[Array, Array, Array]:
    """Sequence numbers, times [µs] and rows of an array of messages (m, size)."""
    rows = np.empty((len(block), layout.width))
    for run in layout.runs:
        rows[:, run.first : run.first + run.width] = _doubles(block, run)
    numbers = _column(block, layout.sequence, "<u4").astype(np.int64)
    return numbers, _column(block, layout.time_us, "<i8").astype(np.int64), rows


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


def _column(block: Array, offset: int, dtype: str) -> Array:
    """The number at `offset` of every row: a view, at whatever address."""
    return np.ndarray((len(block),), dtype, block, offset, (block.shape[1],))


def _doubles(block: Array, run: Run) -> Array:
    return np.ndarray((len(block), run.width), "<f8", block, run.offset, (block.shape[1], run.stride))
