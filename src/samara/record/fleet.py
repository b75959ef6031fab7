"""One message for many drones at an instant: their numbers stand side by side, field by field, as a flight has them in memory.

Message and index of a drone alone take 87 bytes around its numbers; a hundred drones in one message take 2 bytes each. A field
is a packed `repeated double` with one for each drone. One that is +0.0 in all drones throughout a chunk is left out of its
messages, and read as zeros: what contact remembers in the air, what is asked of the yaw.
"""

import json
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from mcap.records import Channel, Schema
from mcap.well_known import MessageEncoding, SchemaEncoding

from samara.core.files import parsed
from samara.record.format import MOST_CHANNELS, Stream, stream_metadata
from samara.record.layout import (
    HEAD,
    LOG_MARK,
    PUBLISH_MARK,
    SEQUENCE_MARK,
    TIME_MARK,
    Array,
    Run,
    Times,
    columns_of,
    marker,
    message_record,
)
from samara.record.schema import message_type, stream_schema

MANY = 32  # drones: fewer have messages of their own, which a person plots by the drone's name
HEADER = 31  # bytes of a Message record before its data
TIME_TAG = 0x09  # field 1, eight bytes
PACKED = 2  # protobuf's wire type of what has a length


class FleetLayout(NamedTuple):
    """One Message record of some fields of many drones: its bytes (1,), columns of its counters and times, runs of its fields."""

    channel: int
    record: Array
    columns: np.dtype[np.void]
    runs: tuple[Run, ...]
    drones: int

    @property
    def size(self) -> int:
        return self.record.itemsize


class Fleet:
    """A stream of many drones that is written as one: its channel and schema, and the layouts that it has had so far."""

    def __init__(self, channel: Channel, schema: Schema, drones: int) -> None:
        self.channel, self.schema = channel, schema
        self._message, self._drones = message_type(schema.data, schema.name), drones
        self._layouts: dict[bytes, list[FleetLayout]] = {}

    def layouts(self, rows: Array) -> list[FleetLayout]:
        """The layout of rows (m, fields, drones), alone in a list: without the fields that are +0.0 throughout"""
        some = told(rows)
        key = some.tobytes()
        if key not in self._layouts:
            wanted = np.flatnonzero(some).tolist()
            self._layouts[key] = [fleet_layout(self.channel.id, self._message, wanted, self._drones)]
        return self._layouts[key]


class Fleets:
    """The fleets of a recording as they came: channels and schemas numbered on from those of its streams."""

    def __init__(self, schemas: Sequence[Schema], channels: Sequence[Channel]) -> None:
        self.all: list[Fleet] = []
        self._channels = len(channels)
        self._schemas: dict[Any, Schema] = {own.name: own for own in schemas}
        self._taken = {channel.topic.split("/")[1] for channel in channels}
        self._names: dict[tuple[str, ...], str] = {}  # of some drones

    def of(self, streams: Sequence[Stream]) -> Fleet | None:
        """A new one of many streams that differ in their drones alone; else none

        '/cf0/state' and its like are '/fleet/state', or '/fleet2/state' where others are the fleet already.
        """
        first = streams[0]
        drones, lasts = zip(*(stream.topic.rsplit("/", 1) for stream in streams), strict=True)
        number = self._channels + len(self.all) + 1
        alike = {stream._replace(topic=last) for stream, last in zip(streams, lasts, strict=True)}
        if len(streams) < MANY or len(alike) > 1 or number > MOST_CHANNELS:
            return None
        if drones not in self._names:
            self._names[drones] = _fresh("fleet", self._taken)
            self._taken.add(self._names[drones])
        key = first.kind, first.fields
        if key not in self._schemas:
            name = _fresh(f"{first.kind}OfFleet", {schema.name for schema in self._schemas.values()})
            data = stream_schema(first.fields, name, repeated=True)
            self._schemas[key] = Schema(len(self._schemas) + 1, data, SchemaEncoding.Protobuf, name)
        schema, topics = self._schemas[key], [stream.topic for stream in streams]
        about = {**stream_metadata(first), "topics": json.dumps(topics)}
        topic = f"/{self._names[drones]}/{lasts[0]}"
        channel = Channel(number, topic, MessageEncoding.Protobuf, about, schema.id)
        self.all.append(Fleet(channel, schema, len(topics)))
        return self.all[-1]


def _fresh(name: str, taken: AbstractSet[str]) -> str:
    """The name, or with a number where it is taken"""
    own, again = name, 2
    while own in taken:
        own, again = f"{name}{again}", again + 1
    return own


def may_be_fleets(streams: Iterable[Stream]) -> bool:
    """Whether there are so many streams alike that blocks of them would be written as one"""
    alike = Counter(stream._replace(topic=stream.topic.rpartition("/")[2]) for stream in streams)
    return max(alike.values(), default=0) >= MANY


def told(rows: Array) -> Array:
    """Which fields of rows (m, fields, drones) have another number than +0.0, by their bits"""
    bits = rows.view(np.int64)
    found = bits[0].any(axis=1)
    for field in np.flatnonzero(~found).tolist():
        found[field] = bits[:, field].any()
    return found


def fleet_layout(channel: int, message: Any, wanted: Sequence[int], drones: int) -> FleetLayout:
    """The layout of a message with some of its fields"""
    time, *fields = message.DESCRIPTOR.fields
    marks = {fields[number].name: [marker(number)] * drones for number in wanted}
    data = message(**{time.name: TIME_MARK}, **marks).SerializeToString()
    record = message_record(channel, SEQUENCE_MARK, LOG_MARK, PUBLISH_MARK, data)
    offsets = [record.find(struct.pack("<d", marker(number))) for number in wanted]
    for number, offset in zip(wanted, offsets, strict=True):
        if record[offset : offset + 8 * drones] != struct.pack("<d", marker(number)) * drones:
            raise ValueError(f"field {number} is not in one piece in a message of {len(record)} bytes")
    return FleetLayout(
        channel, np.frombuffer(record, f"V{len(record)}"), columns_of(record), tuple(_runs(wanted, offsets)), drones
    )


def _runs(numbers: Sequence[int], offsets: Sequence[int]) -> Iterator[Run]:
    """Neighbouring fields at equal distances, as few runs"""
    run: Run | None = None
    for number, offset in zip(numbers, offsets, strict=True):
        if run and number == run.first + run.width:
            stride = offset - run.offset - run.stride * (run.width - 1)
            if run.width == 1 or stride == run.stride:
                run = run._replace(width=run.width + 1, stride=stride)
                continue
        if run:
            yield run
        run = Run(number, 1, offset, 8)
    if run:
        yield run


class FleetMessages:
    """So many records of a layout in memory, into which numbers are written."""

    def __init__(self, layout: FleetLayout, count: int, memory: Array) -> None:
        self.count, self.length = count, count * layout.size
        np.ndarray(count, layout.record.dtype, memory)[...] = layout.record
        self._block = np.ndarray(count, layout.columns, memory)
        self._runs = [
            (slice(run.first, run.first + run.width), _bytes(self._block, run, layout)) for run in layout.runs
        ]

    def fill(self, first: Array, times: Times, rows: Sequence[Array]) -> None:
        """Counters from `first` (1), times (m), and rows (m, fields, drones) alone in a sequence"""
        (own,) = rows
        if own.strides[2] != own.itemsize:
            own = np.ascontiguousarray(own)
        self._block["sequence"] = (int(first[0]) + np.arange(self.count)) & 0xFFFF_FFFF
        self._block["log_time"] = self._block["publish_time"] = times.ns
        self._block["time_us"] = times.us
        for fields, place in self._runs:
            place[...] = own[:, fields].view(np.uint8)


def _bytes(block: Array, run: Run, layout: FleetLayout) -> Array:
    """Where the numbers of a run stand in every message: (m, fields, bytes)"""
    shape = len(block), run.width, 8 * layout.drones
    return np.ndarray(shape, np.uint8, block, run.offset, (layout.size, run.stride, 1))


class _Skeleton(NamedTuple):
    """Of a message that was read: where fields begin, and the bytes that are no numbers."""

    fields: list[int]
    offsets: list[int]
    between: Array


def unpack_fleet(block: Array, fields: int, drones: int) -> tuple[Array, Array, Array]:
    """Sequence numbers, times [µs] and rows (m, fields, drones) of those messages (n, size) that have the fields of the first

    ValueError where it is none of a fleet's.
    """
    skeleton = _skeleton(block[0].tobytes(), fields, 8 * drones)
    same = (block[:, skeleton.between] == block[0, skeleton.between]).all(axis=1)
    count = len(block) if same.all() else int(same.argmin())
    whole = np.ascontiguousarray(block[:count])
    rows = np.zeros((count, fields, drones))
    into = rows.view(np.uint8)
    for field, offset in zip(skeleton.fields, skeleton.offsets, strict=True):
        into[:, field] = whole[:, offset : offset + 8 * drones]
    sequence, time_us = (
        np.ndarray(count, kind, whole, at, (whole.shape[1],)).astype(np.int64)
        for kind, at in (("<u4", HEAD), ("<i8", HEADER + 1))
    )
    return sequence, time_us, rows


def _skeleton(record: bytes, fields: int, length: int) -> _Skeleton:
    found, offsets, between, at = [], [], [HEADER], HEADER + 9
    if len(record) < at or record[HEADER] != TIME_TAG:
        raise ValueError("its time is missing")
    while at < len(record):
        begin = at
        tag, at = _varint(record, at)
        size, at = _varint(record, at)
        number = (tag >> 3) - 2
        if tag & 7 != PACKED or size != length or not 0 <= number < fields or at + length > len(record):
            raise ValueError(f"what stands at byte {begin} of it is no field of its stream")
        found.append(number)
        offsets.append(at)
        between += range(begin, at)
        at += length
    return _Skeleton(found, offsets, np.array(between))


def _varint(record: bytes, at: int) -> tuple[int, int]:
    """A number, and where it ends"""
    value = shift = 0
    while True:
        byte = record[at]
        value, at = value | (byte & 0x7F) << shift, at + 1
        if byte < 0x80:
            return value, at
        shift += 7


@lru_cache(maxsize=16)
def topics_of(text: str) -> tuple[str, ...]:
    """The topics of a fleet's streams, from the metadata of its channel"""
    return tuple(map(str, parsed(text)))
