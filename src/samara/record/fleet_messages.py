"""One message for many drones at an instant: their numbers stand side by side, field by field, as a flight has them in memory.

A message of a drone alone and its place in the index take 56 bytes besides its numbers and their tags. A field of a fleet is
a packed `repeated double`, with a number for each drone; or with a single one where all drones have the same throughout a
chunk: what contact remembers in the air, or the speed that is asked of all of them.
"""

import json
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from mcap.records import Channel, Schema
from mcap.well_known import MessageEncoding, SchemaEncoding

from samara.core.atomic_files import parsed
from samara.core.types import Array
from samara.record.channels import message_type, stream_schema
from samara.record.layout import HEAD, Layout, stream_layout
from samara.record.streams import MOST_CHANNELS, Stream, stream_metadata

MANY = 32  # drones: fewer have messages of their own, which a person plots by the drone's name
HEADER = 31  # bytes of a Message record before its data
TIME_TAG = 0x09  # field 1, eight bytes
PACKED = 2  # protobuf's wire type of what has a length


class Fleet:
    """A stream of many drones that is written as one: its channel and schema, and the layouts that it has had so far."""

    def __init__(self, channel: Channel, schema: Schema, drones: int) -> None:
        self.channel, self.schema = channel, schema
        self._message, self._drones = message_type(schema.data, schema.name), drones
        self._layouts: dict[bytes, list[Layout]] = {}

    def layouts(self, rows: Array) -> list[Layout]:
        """The layout of rows (m, fields, drones), alone in a list"""
        shared = same_in_all(rows)
        key = shared.tobytes()
        if key not in self._layouts:
            counts = tuple(np.where(shared, 1, self._drones).tolist())
            self._layouts[key] = [stream_layout(self._message, counts).on(self.channel.id)]  # type: ignore[arg-type]
        return self._layouts[key]


class Fleets:
    """The fleets of a recording as they came: channels and schemas numbered on from those of its streams."""

    def __init__(self, schemas: Sequence[Schema], channels: Sequence[Channel]) -> None:
        self.all: list[Fleet] = []
        self._channels = len(channels)
        self._schemas: dict[str | tuple[str, tuple[str, ...]], Schema] = {own.name: own for own in schemas}
        self._taken = {channel.topic.split("/")[1] for channel in channels}
        self._names: dict[tuple[str, ...], str] = {}  # of some drones

    def of(self, streams: Sequence[Stream]) -> Fleet | None:
        """A new one of many streams that differ in their drones alone; else none

        '/cf0/state' and its like are '/fleet/state', or '/fleet2/state' where others are the fleet already.
        """
        first, number = streams[0], self._channels + len(self.all) + 1
        if (
            len(streams) < MANY
            or first.raster
            or any(own[1:] != first[1:] for own in streams)
            or number > MOST_CHANNELS
        ):
            return None
        drones, lasts = zip(*(stream.topic.rsplit("/", 1) for stream in streams), strict=True)
        if len(set(lasts)) > 1:
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


def same_in_all(rows: Array) -> Array:
    """Which fields of rows (m, fields, drones) are the same in all drones at all times, by their bits"""
    bits = rows.view(np.int64)
    found = (bits[[0, -1]] == bits[[0, -1], :, :1]).all(axis=(0, 2))
    ends = np.flatnonzero(np.diff(found, prepend=False, append=False)).tolist()
    for first, last in zip(ends[::2], ends[1::2], strict=True):  # neighbours at once: a call for each takes longer
        some = bits[:, first:last]
        differs = some != some[:, :, :1]
        if differs.any():
            found[first:last] = ~differs.any(axis=(0, 2))
    return found


class _Skeleton(NamedTuple):
    """Of a message that was read: of each field its number, where it begins and how long it is; and the bytes between them."""

    fields: list[tuple[int, int, int]]
    between: Array


def unpack_fleet(block: Array, fields: int, drones: int) -> tuple[Array, Array, Array]:
    """Sequence numbers, times [µs] and rows (m, fields, drones) of those messages (n, size) that are laid out as the first

    ValueError or IndexError where it is none of a fleet's.
    """
    skeleton = _skeleton(block[0].tobytes(), fields, drones)
    same = (block[:, skeleton.between] == block[0, skeleton.between]).all(axis=1)
    count = len(block) if same.all() else int(same.argmin())
    whole, rows = np.ascontiguousarray(block[:count]), np.empty((count, fields, drones))
    for field, offset, numbers in skeleton.fields:
        rows[:, field] = np.ndarray((count, numbers), "<f8", whole, offset, (whole.shape[1], 8))
    counted, times_us = (
        np.ndarray(count, kind, whole, at, (whole.shape[1],)).astype(np.int64)
        for kind, at in (("<u4", HEAD), ("<i8", HEADER + 1))
    )
    return counted, times_us, rows


def _skeleton(record: bytes, fields: int, drones: int) -> _Skeleton:
    found: list[tuple[int, int, int]] = []
    between, at = [HEADER], HEADER + 9
    if record[HEADER] != TIME_TAG:
        raise ValueError("its time is missing")
    while at < len(record):
        begin = at
        tag, at = _varint(record, at)
        length, at = _varint(record, at)
        if tag != (len(found) + 2) << 3 | PACKED or length not in (8, 8 * drones) or at + length > len(record):
            raise ValueError(f"what stands at its byte {begin} is not field {len(found)}")
        found.append((len(found), at, length // 8))
        between += range(begin, at)
        at += length
    if len(found) != fields:
        raise ValueError(f"it has {len(found)} fields, not {fields}")
    return _Skeleton(found, np.array(between))


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
