"""One message for many drones at an instant: their numbers are side by side, field by field, as in the simulation's memory.

A message of a single drone and its index entry take 56 bytes besides its numbers and their tags. A field of a fleet is a packed
`repeated double`, with a number for each drone; or with a single one if all drones have the same value throughout a chunk, such
as the contact state in the air, or a common reference speed.
"""

import json
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from mcap.records import Channel, Schema
from mcap.well_known import MessageEncoding, SchemaEncoding

from samara.core.atomic_files import parse_json
from samara.core.types import Array
from samara.record.channels import message_type, stream_schema
from samara.record.layout import RECORD_HEAD_BYTES, RecordLayout, stream_layout
from samara.record.streams import MAX_CHANNELS, Stream, stream_metadata

MIN_FLEET_SIZE = 32  # drones: fewer have separate messages, which tools plot by the drone's name
HEADER = 31  # bytes of a Message record before its data
TIME_TAG = 0x09  # field 1, eight bytes
PACKED = 2  # protobuf's wire type of length-delimited fields


class FleetChannel:
    """A stream of many drones that is written as one: its channel and schema, and its cached layouts."""

    def __init__(self, channel: Channel, schema: Schema, drones: int) -> None:
        self.channel, self.schema = channel, schema
        self._message, self._drones = message_type(schema.data, schema.name), drones
        self._layouts: dict[bytes, list[RecordLayout]] = {}

    def layouts(self, rows: Array) -> list[RecordLayout]:
        """Return the layout for rows (m, fields, drones), in a list."""
        is_shared = shared_fields(rows)
        key = is_shared.tobytes()
        if key not in self._layouts:
            counts = tuple(np.where(is_shared, 1, self._drones).tolist())
            self._layouts[key] = [stream_layout(self._message, counts).copy_to_channel(self.channel.id)]  # type: ignore[arg-type]
        return self._layouts[key]


class FleetChannels:
    """The fleets of a recording: channels and schemas are numbered after those of its streams."""

    def __init__(self, schemas: Sequence[Schema], channels: Sequence[Channel]) -> None:
        self.all: list[FleetChannel] = []
        self._channels = len(channels)
        self._schemas: dict[str | tuple[str, tuple[str, ...]], Schema] = {schema.name: schema for schema in schemas}
        self._used_names = {channel.topic.split("/")[1] for channel in channels}
        self._names: dict[tuple[str, ...], str] = {}  # fleet name by its drones

    def create(self, streams: Sequence[Stream]) -> FleetChannel | None:
        """Create the fleet of many streams that differ only in their drones; None for other streams.

        '/cf0/state' and so on become '/fleet/state', or '/fleet2/state' if another fleet has that name.
        """
        first, channel_id = streams[0], self._channels + len(self.all) + 1
        if (
            len(streams) < MIN_FLEET_SIZE
            or first.raster
            or any(stream[1:] != first[1:] for stream in streams)
            or channel_id > MAX_CHANNELS
        ):
            return None
        drones, stream_names = zip(*(stream.topic.rsplit("/", 1) for stream in streams), strict=True)
        if len(set(stream_names)) > 1:
            return None
        if drones not in self._names:
            self._names[drones] = _unique_name("fleet", self._used_names)
            self._used_names.add(self._names[drones])
        key = first.schema_name, first.fields
        if key not in self._schemas:
            name = _unique_name(f"{first.schema_name}OfFleet", {schema.name for schema in self._schemas.values()})
            data = stream_schema(first.fields, name, repeated=True)
            self._schemas[key] = Schema(len(self._schemas) + 1, data, SchemaEncoding.Protobuf, name)
        schema, topics = self._schemas[key], [stream.topic for stream in streams]
        metadata = {**stream_metadata(first), "topics": json.dumps(topics)}
        topic = f"/{self._names[drones]}/{stream_names[0]}"
        channel = Channel(channel_id, topic, MessageEncoding.Protobuf, metadata, schema.id)
        self.all.append(FleetChannel(channel, schema, len(topics)))
        return self.all[-1]


def _unique_name(name: str, used: AbstractSet[str]) -> str:
    """Return the name, with a number if it is in use."""
    candidate, suffix = name, 2
    while candidate in used:
        candidate, suffix = f"{name}{suffix}", suffix + 1
    return candidate


def shared_fields(rows: Array) -> Array:
    """Return which fields of rows (m, fields, drones) are the same in all drones at all times, by their bits."""
    bits = rows.view(np.int64)
    is_same = (bits[[0, -1]] == bits[[0, -1], :, :1]).all(axis=(0, 2))
    ends = np.flatnonzero(np.diff(is_same, prepend=False, append=False)).tolist()
    for first, last in zip(ends[::2], ends[1::2], strict=True):  # adjacent fields together: one call each is slower
        columns = bits[:, first:last]
        differs = columns != columns[:, :, :1]
        if differs.any():
            is_same[first:last] = ~differs.any(axis=(0, 2))
    return is_same


class _FleetLayout(NamedTuple):
    """A parsed message: index, offset and number count of each field; and the offsets of the bytes between them."""

    fields: list[tuple[int, int, int]]
    between: Array


def unpack_fleet(block: Array, fields: int, drones: int) -> tuple[Array, Array, Array]:
    """Return sequence numbers, times [µs] and rows (m, fields, drones) of the messages (n, size) that are laid out like
    the first.

    Raise ValueError or IndexError if the first is not a message of a fleet.
    """
    skeleton = _parse_fleet_layout(block[0].tobytes(), fields, drones)
    is_equal = (block[:, skeleton.between] == block[0, skeleton.between]).all(axis=1)
    count = len(block) if is_equal.all() else int(is_equal.argmin())
    messages, rows = np.ascontiguousarray(block[:count]), np.empty((count, fields, drones))
    for field, offset, count_per_field in skeleton.fields:
        rows[:, field] = np.ndarray((count, count_per_field), "<f8", messages, offset, (messages.shape[1], 8))
    sequence, times_us = (
        np.ndarray(count, number_format, messages, offset, (messages.shape[1],)).astype(np.int64)
        for number_format, offset in (("<u4", RECORD_HEAD_BYTES), ("<i8", HEADER + 1))
    )
    return sequence, times_us, rows


def _parse_fleet_layout(record: bytes, fields: int, drones: int) -> _FleetLayout:
    fields_found: list[tuple[int, int, int]] = []
    between, position = [HEADER], HEADER + 9
    if record[HEADER] != TIME_TAG:
        raise ValueError("its time is missing")
    while position < len(record):
        begin = position
        tag, position = _varint(record, position)
        length, position = _varint(record, position)
        if (
            tag != (len(fields_found) + 2) << 3 | PACKED
            or length not in (8, 8 * drones)
            or position + length > len(record)
        ):
            raise ValueError(f"byte {begin} does not begin field {len(fields_found)}")
        fields_found.append((len(fields_found), position, length // 8))
        between += range(begin, position)
        position += length
    if len(fields_found) != fields:
        raise ValueError(f"it has {len(fields_found)} fields, not {fields}")
    return _FleetLayout(fields_found, np.array(between))


def _varint(record: bytes, position: int) -> tuple[int, int]:
    """Return a decoded varint and the offset of its end."""
    value = shift = 0
    while True:
        byte = record[position]
        value, position = value | (byte & 0x7F) << shift, position + 1
        if byte < 0x80:
            return value, position
        shift += 7


@lru_cache(maxsize=16)
def fleet_topics(text: str) -> tuple[str, ...]:
    """Return the topics of a fleet's streams, from the metadata of its channel."""
    return tuple(map(str, parse_json(text)))
