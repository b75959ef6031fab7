"""The contents of a recording: streams of numbers with names and units, log lines, and attached files."""

import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from samara.core.atomic_files import parse_json
from samara.core.types import Array
from samara.physics.types import Vehicle
from samara.record.image_stream import (
    ImageFormat,
    PixelFormat,
    image_from_metadata,
    image_metadata,
    is_image_metadata,
    pixel_count,
)
from samara.vehicles.check import VehicleError
from samara.vehicles.writer import vehicle_toml

FORMAT = 1  # raised when readers of the previous number cannot read a new file
FORMAT_METADATA = "samara.recording"  # the metadata record that marks an MCAP file as a Samara recording
USER_METADATA = "samara"  # the metadata record with the caller's metadata
LOG_TOPIC = "/log"
TRANSFORM_TOPIC = "/tf"
SCENE_TOPIC = "/scene"
LEVELS = ("debug", "info", "warning", "error", "fatal")  # numbered from 1 in foxglove.Log
MAX_CHANNELS = 0xFFFF  # MCAP numbers them with 16 bits
MAX_FIELDS = 18_000  # protobuf reserves field numbers from 19 000

TOPIC = re.compile(r"(/[A-Za-z0-9_-]+)+")
SCHEMA_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)


class RecordingError(ValueError):
    """A file is not a recording, or a recording cannot be written. The text is one sentence."""


class Stream(NamedTuple):
    """Rows of numbers under one topic: '/drone0/state', the names 'p_W.x', their units 'm', and the schema 'samara.State'.

    Rows with a `raster` are written as images. Those of a camera, of a `PixelFormat`, have one unit and no named fields.
    """

    topic: str
    fields: tuple[str, ...]
    units: tuple[str, ...]
    schema_name: str
    raster: ImageFormat | None = None

    @property
    def width(self) -> int:
        """The count of numbers in a row."""
        return pixel_count(self.raster) if self.raster else len(self.fields)

    @property
    def row_type(self) -> np.dtype[np.generic]:
        """The type of the rows."""
        return self.raster.row_type if self.raster else np.dtype(np.float64)


class LogLine(NamedTuple):
    """One line of the log: time, level (debug, info, warning, error, fatal), source and message."""

    time_us: int
    level: str
    name: str
    message: str


def require_stream(stream: Stream) -> None:
    """Raise RecordingError unless a stream has a topic, a schema name, unique field names and as many units."""
    if not TOPIC.fullmatch(stream.topic):
        raise RecordingError(f"topic {stream.topic!r}: expected parts of letters and digits, as in '/drone0/state'")
    if stream.topic in (LOG_TOPIC, TRANSFORM_TOPIC, SCENE_TOPIC):
        raise RecordingError(f"topic {stream.topic!r}: expected another name; the recorder writes this one itself")
    if not SCHEMA_NAME.fullmatch(stream.schema_name):
        raise RecordingError(
            f"{stream.topic}: schema_name {stream.schema_name!r}: expected a dotted name, as in 'samara.State'"
        )
    if isinstance(stream.raster, PixelFormat):
        if stream.fields or len(stream.units) != 1:
            raise RecordingError(f"{stream.topic}: expected no fields and one unit for the pixels of a camera")
        return
    if len(stream.units) != len(stream.fields):
        raise RecordingError(
            f"{stream.topic}: {len(stream.units)} units; expected {len(stream.fields)}, one for each field"
        )
    if stream.raster and (stream.raster.fields != stream.fields or len(set(stream.units)) > 1):
        raise RecordingError(
            f"{stream.topic}: an image of {stream.raster.rows} × {stream.raster.columns}; expected a field for each pixel, "
            "in the same unit"
        )
    if len(stream.fields) > MAX_FIELDS:
        raise RecordingError(f"{stream.topic}: {len(stream.fields)} fields; expected at most {MAX_FIELDS}")
    for name, count in Counter(stream.fields).items():
        if name in ("time", "time_us"):
            raise RecordingError(
                f"{stream.topic}: field {name!r}: expected another name; every row has its time already"
            )
        if not name or count > 1:
            raise RecordingError(f"{stream.topic}: field {name!r}: expected every field to have a unique name")


def stream_metadata(stream: Stream) -> dict[str, str]:
    """Return the channel metadata of a stream: the properties that protobuf cannot express."""
    if stream.raster:
        return image_metadata(stream.raster, stream.schema_name, stream.units)
    return {
        "schema_name": stream.schema_name,
        "fields": _names_to_json(stream.fields),
        "units": _names_to_json(stream.units),
    }


def stream_from_metadata(topic: str, metadata: Mapping[str, str]) -> Stream:
    """Invert `stream_metadata`."""
    if is_image_metadata(metadata):
        raster = image_from_metadata(metadata, MAX_FIELDS)
        units = (metadata["unit"],) * (len(raster.fields) or 1)
        return Stream(topic, raster.fields, units, metadata["schema_name"], raster)
    return Stream(
        topic, _names_from_json(metadata["fields"]), _names_from_json(metadata["units"]), metadata["schema_name"]
    )


@lru_cache(maxsize=256)  # a thousand drones of one vehicle share them
def _names_to_json(names: tuple[str, ...]) -> str:
    return json.dumps(names)


@lru_cache(maxsize=256)
def _names_from_json(text: str) -> tuple[str, ...]:
    return tuple(map(str, parse_json(text)))


def checksum(metadata: Mapping[str, str]) -> str:
    """Return the CRC-32 of metadata, which MCAP does not protect, unlike chunks and attachments."""
    return f"{zlib.crc32(json.dumps(sorted(metadata.items())).encode()):08x}"


class StreamBlock(NamedTuple):
    """Rows of a stream of n drones at the same times: a topic for each drone, times (m,) and rows (m, width, n).

    The arrays of a block are never written again: its receiver may retain them.
    """

    topics: tuple[str, ...]
    times_us: Array
    rows: Array


Sink = Callable[[Sequence[StreamBlock], Sequence[LogLine]], None]


def concatenate_blocks(blocks: Sequence[StreamBlock]) -> dict[str, tuple[Array, Array]]:
    """Concatenate consecutive blocks: the times (m,) and the rows (m, fields) of each topic."""
    groups: dict[tuple[str, ...], list[StreamBlock]] = {}
    for block in blocks:
        groups.setdefault(block.topics, []).append(block)
    uses = Counter(chain.from_iterable(groups))
    columns: dict[str, tuple[Array, Array]] = {}
    for topics, group in groups.items():
        if all(uses[topic] == 1 for topic in topics):
            columns |= zip(topics, _split_drones(group), strict=True)
    pieces: dict[str, list[tuple[Array, Array]]] = {}  # of drones that were in more than one group
    for topics, times_us, rows in blocks:
        if topics[0] not in columns:
            for drone, topic in enumerate(topics):
                pieces.setdefault(topic, []).append((times_us, rows[:, :, drone]))
    for topic, parts in pieces.items():
        times, values = zip(*parts, strict=True)
        columns[topic] = np.concatenate(times), np.concatenate(values)
    return columns


def _split_drones(blocks: Sequence[StreamBlock]) -> Iterator[tuple[Array, Array]]:
    """Yield the times and rows of each drone in blocks of the same drones."""
    times_us = np.concatenate([block.times_us for block in blocks])
    fields, drones = blocks[0].rows.shape[1:]
    rows, start = np.empty((drones, len(times_us), fields), blocks[0].rows.dtype), 0
    for block in blocks:
        rows[:, start : start + len(block.times_us)] = block.rows.transpose(2, 0, 1)
        start += len(block.times_us)
    return ((times_us, values) for values in rows)


@dataclass(frozen=True, eq=False)
class RecordedStream:
    """A recorded stream: names and units of its fields, times (m,) and rows (m, fields).

    Rows with a `raster` are images, and are written as such.
    """

    fields: tuple[str, ...]
    units: tuple[str, ...]
    schema_name: str
    times_us: Array
    rows: Array
    raster: ImageFormat | None = None

    @property
    def time(self) -> Array:
        """t  [s]."""
        return self.times_us / 1e6

    @property
    def has_columns(self) -> bool:
        """Whether its numbers have names; the pixels of a camera have none."""
        return not isinstance(self.raster, PixelFormat)

    @property
    def images(self) -> Array:
        """The rows as images, (m, rows, columns) or (m, rows, columns, channels)."""
        if self.raster is None:
            raise ValueError(f"{self.schema_name} holds no images; expected the stream of a camera or lidar")
        return self.rows.reshape(-1, *self.raster.shape)

    @property
    def lossless_raster(self) -> ImageFormat | None:
        """The raster, if the rows are still multiples of its step, as the sensor measured them."""
        return self.raster if self.raster and self.raster.is_lossless(self.rows) else None

    def __getitem__(self, name: str) -> Array:
        """Return the column of a field, 'p_W.x', or the columns of all fields with that prefix, 'p_W' or 'rotor_speed'."""
        if name in self.fields:
            return self.rows[:, self.fields.index(name)]
        columns = [i for i, field in enumerate(self.fields) if field.startswith((f"{name}.", f"{name}["))]
        if not columns:
            raise KeyError(f"field {name!r}: expected one of {', '.join(self.fields)}")
        return self.rows[:, columns]


@dataclass(frozen=True, eq=False, repr=False)
class Attachments(Mapping[str, bytes]):
    """The files inside a recording. A vehicle becomes a TOML file when that file is first read, once per vehicle.

    A vehicle with effects that are Python code has no file: its entry is absent.
    """

    files: Mapping[str, bytes | Vehicle]
    _texts: dict[int, bytes] = field(default_factory=dict, init=False)  # by the identity of the vehicle

    def __getitem__(self, name: str) -> bytes:
        content = self.files[name]
        if not isinstance(content, Vehicle):
            return content
        if id(content) not in self._texts:
            try:
                self._texts[id(content)] = vehicle_toml(content).encode()
            except VehicleError:
                self._texts[id(content)] = b""
        if text := self._texts[id(content)]:
            return text
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (name for name in self.files if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __reduce__(self) -> tuple[object, ...]:
        return Attachments, (dict(self),)  # as texts: identities are valid in this process only


class Recording(NamedTuple):
    """The contents of a file. `complete` is False, and `problem` one sentence, if it was not closed or is damaged.

    `fleet_topics` maps the topic of a stream that was written in a fleet's channel to that channel's topic and the
    drone's index.
    """

    path: Path
    size: int
    metadata: dict[str, str]
    attachments: dict[str, bytes]
    streams: dict[str, RecordedStream]
    logs: tuple[LogLine, ...]
    complete: bool
    problem: str
    fleet_topics: Mapping[str, tuple[str, int]] = MappingProxyType({})

    @property
    def duration(self) -> float:
        """Time of the last row or log line  [s]."""
        ends = [int(table.times_us[-1]) for table in self.streams.values() if len(table.times_us)]
        return max([*ends, *(line.time_us for line in self.logs)], default=0) / 1e6
