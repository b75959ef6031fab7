"""Read a recording back, bit for bit: from a complete file, a truncated one, or the undamaged start of a damaged one."""

import os
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import numpy as np
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from mcap.data_stream import ReadDataStream
from mcap.exceptions import McapError
from mcap.opcode import Opcode
from mcap.records import Attachment, Channel, Chunk, Footer, Message, Metadata, Schema, Statistics
from zstandard import ZstdError

from samara.core.budget import Budget, decompressed_limit
from samara.core.types import Array
from samara.record.channels import message_type
from samara.record.fleet_messages import topics_of, unpack_fleet
from samara.record.foxglove import log_line
from samara.record.layout import CHANNEL, Layout, alike, raster_layout, sequence, stream_layout, unpack
from samara.record.mcap_writer import COMPRESS, MAGIC, decompressed, is_absurd
from samara.record.streams import (
    ABOUT,
    FORMAT,
    LOG_TOPIC,
    OWN,
    LogLine,
    Recording,
    RecordingError,
    Stream,
    Table,
    checksum,
    require_stream,
    stream_from_metadata,
)
from samara.scenario.snapshot import BUS_SCHEMA_VERSION

__all__ = ["Recording", "RecordingError", "Table", "describe", "read_recording"]

RECORD = struct.Struct("<BQ")  # opcode and length
FOOTER_SIZE = RECORD.size + 20
NOT_OURS = f"no record {ABOUT!r} comes before its data"
PIECE = 60_000  # rows of the longest stream: four minutes of commands at 250 Hz
MAX_NUMBERS = 1 << 26  # in memory at once, for a small file
MAX_NUMBERS_PER_BYTE = 20
LINE_COST = 30  # of a log line, in numbers
PRIVATE = 0x80  # opcodes from here on are free for other programs
UNREADABLE = (
    struct.error, McapError, DecodeError, ZstdError, ArithmeticError, KeyError, IndexError, TypeError, ValueError,
    RuntimeError, MemoryError,
)  # fmt: skip


HandOn = Callable[["Recording"], bool]


def read_recording(path: str | Path, hand_on: HandOn = lambda piece: False) -> Recording:
    """Read everything in the file up to its end, or to the first damaged byte.

    Args:
        path: the MCAP file.
        hand_on: called with the contents in memory whenever the longest stream has `PIECE` rows. If it returns True, the
            rows are dropped except for the last of each stream, with which the next piece begins, and the return value is
            the last piece. If it returns False, it is not called again.

    Raises:
        RecordingError: if nothing can be returned: no such file, not MCAP, not a Samara recording, truncated in its opening.
    """
    try:
        with Path(path).open("rb") as file:
            recording = _read(file, Path(path), hand_on)
    except OSError as error:
        raise RecordingError(f"{path}: cannot be read: {error.strerror or error}") from error
    schema = recording.metadata.get("schema", "none")
    if "drones" in recording.metadata and schema != str(BUS_SCHEMA_VERSION):
        raise RecordingError(
            f"{path}: schema is {schema:.40}; expected {BUS_SCHEMA_VERSION}: another version of Samara recorded it"
        )
    return recording


def _read(file: BinaryIO, path: Path, hand_on: HandOn) -> Recording:
    size = os.fstat(file.fileno()).st_size
    magic = file.read(len(MAGIC))
    if magic != MAGIC:
        reason = f"it begins with {magic!r}, as no MCAP file does" if magic else "it is empty"
        raise RecordingError(f"{path}: is not a Samara recording: {reason}")
    budget = Budget(
        path, _OverrunError, max_bytes=decompressed_limit(size), max_nodes=MAX_NUMBERS + MAX_NUMBERS_PER_BYTE * size
    )
    reader, is_handled = _Contents(budget), True
    record_offset = file.tell()
    try:
        while not _read_record(file, size, reader):
            record_offset = file.tell()
            if is_handled and reader.longest >= PIECE:
                is_handled = hand_on(reader.recording(path, size))
                if is_handled:
                    reader.forget()
        with _convert_errors():
            reader.check_summary(file.read())
    except _ForeignError as foreign:
        raise RecordingError(f"{path}: {foreign}") from None
    except _OverrunError as overrun:
        raise RecordingError(str(overrun)) from None
    except _TruncatedError:
        reader.note(_truncation_message(file, size, record_offset, reader.seconds()))
    except _DamageError as damage:
        reader.note(_damaged(record_offset, reader.seconds(), damage))
    if reader.about is None:
        raise RecordingError(f"{path}: is not a Samara recording: {reader.problem or NOT_OURS}")
    if reader.metadata is None:
        reader.note("its metadata are missing")
    if not reader.channels:
        raise RecordingError(f"{path}: nothing in it can be read: {reader.problem or 'it has no channels'}")
    return reader.recording(path, size)


def describe(recording: Recording) -> list[tuple[str, str]]:
    """Describe a file: duration, completeness, metadata, and the streams with their rates."""
    lines = [
        ("file", f"{recording.path}, {recording.size / 1e6:.3g} MB"),
        ("duration", f"{recording.duration:.3f} s"),
        ("complete", f"no: {recording.problem}" if recording.problem else "yes"),
    ]
    lines += [(name, _one_line(value)) for name, value in recording.metadata.items()]
    for topic, table in recording.streams.items():
        rate = _rate(table.times_us)
        lines.append((topic, f"{table.kind}, {len(table.fields)} fields, {len(table.rows)} rows{rate}"))
    lines.append(("log", f"{len(recording.logs)} lines"))
    lines += [(f"attachment {name}", f"{len(data)} bytes") for name, data in recording.attachments.items()]
    return lines


def _rate(times_us: Array) -> str:
    """Format the mean row rate; "" if there is none."""
    span = times_us[-1] - times_us[0] if len(times_us) > 1 else 0
    return f", {(len(times_us) - 1) / (span / 1e6):.6g} Hz" if span else ""


def _one_line(text: str) -> str:
    first, *more = text.splitlines() or [""]
    return f"{first} …" if more else first


class _OverrunError(Exception):
    """A limit was exceeded: the file is refused, unlike a damaged one, whose readable part is returned."""


class _DamageError(Exception):
    """Damage in the record being read."""


class _ForeignError(Exception):
    """The reason why an undamaged file is not a Samara recording of this version."""


class _TruncatedError(Exception):
    """The file ends within a record."""


def _read_record(file: BinaryIO, size: int, reader: "_Contents") -> bool:
    """Read one record of the data section; return whether it was the last."""
    head = file.read(RECORD.size)
    if len(head) < RECORD.size:
        raise _TruncatedError
    opcode, length = RECORD.unpack(head)
    if length > size - file.tell():
        raise _TruncatedError
    if opcode == Opcode.MESSAGE_INDEX:  # redundant: the messages have been read
        file.seek(length, os.SEEK_CUR)
        return False
    body = file.read(length)
    if len(body) < length:
        raise _TruncatedError
    with _convert_errors():
        reader.take(opcode, head, body)
    return bool(opcode == Opcode.DATA_END)


@contextmanager
def _convert_errors() -> Iterator[None]:
    """Convert exceptions of the libraries on invalid bytes to _DamageError."""
    try:
        yield
    except UNREADABLE as error:
        raise _DamageError(f"the record there cannot be decoded ({type(error).__name__})") from error


def _damaged(offset: int, seconds: float, damage: object) -> str:
    return f"damaged at byte {offset}, after {seconds:.3f} s: {damage}; the data after it are left out"


def _truncation_message(file: BinaryIO, size: int, offset: int, seconds: float) -> str:
    """Describe a truncated file; if it ends with the magic bytes, the length of a record is wrong instead."""
    file.seek(max(0, size - len(MAGIC)))
    if size > 2 * len(MAGIC) and file.read() == MAGIC:
        return _damaged(offset, seconds, "the record there is longer than the file")
    return f"truncated after {seconds:.3f} s: the last chunk may be missing"


@dataclass
class _Track:
    """A channel that is a stream: its layout, and the rows read from it, chunk by chunk."""

    stream: Stream
    layout: Layout
    next: int = 0
    kept: int = 0
    latest_us: int = 0
    times_us: list[Array] = field(default_factory=list)
    rows: list[Array] = field(default_factory=list)

    def take(self, block: Array) -> None:
        if block.shape[1] != self.layout.size:
            raise _DamageError(f"a message of {self.stream.topic} has {block.shape[1]} bytes, not {self.layout.size}")
        numbers, times_us, rows = unpack(self.layout, block)
        if (numbers != sequence(self.next, len(numbers))).any():
            raise _DamageError(f"rows of {self.stream.topic} are missing before it")
        self.next += len(numbers)
        self.add(times_us, rows)

    def add(self, times_us: Array, rows: Array) -> None:
        self.kept += len(times_us)
        self.latest_us = int(times_us[-1])
        self.times_us.append(times_us)
        self.rows.append(rows)

    def table(self) -> Table:
        _, fields, units, schema_name, raster = self.stream
        if not self.rows:
            return Table(fields, units, schema_name, np.empty(0, np.int64), np.empty((0, len(fields))), raster)
        if (
            len(self.rows) > 1
        ):  # the blocks are replaced by their concatenation: a long recording is not in memory twice
            self.times_us, self.rows = [np.concatenate(self.times_us)], [np.concatenate(self.rows)]
        return Table(fields, units, schema_name, self.times_us[0], self.rows[0], raster)


@dataclass
class _FleetTrack:
    """A channel with the rows of many streams."""

    topic: str
    tracks: list[_Track]
    next: int = 0

    def take(self, block: Array) -> int:
        """Read the messages that have the fields of the first; return their count."""
        try:
            numbers, times_us, rows = unpack_fleet(block, len(self.tracks[0].stream.fields), len(self.tracks))
        except (ValueError, IndexError) as error:
            raise _DamageError(f"a message of {self.topic} cannot be decoded: {error}") from error
        if (numbers != sequence(self.next, len(numbers))).any():
            raise _DamageError(f"rows of {self.topic} are missing before it")
        self.next += len(numbers)
        for stream_reader, drone_rows in zip(self.tracks, np.ascontiguousarray(rows.transpose(2, 0, 1)), strict=True):
            stream_reader.add(times_us, drone_rows.copy())  # a view would retain the rows of all drones
        return len(numbers)


class _Contents:
    """The contents read from the file until now."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.about: dict[str, str] | None = None
        self.metadata: dict[str, str] | None = None
        self.attachments: dict[str, bytes] = {}
        self.schemas: dict[int, Schema] = {}
        self.channels: dict[int, str] = {}  # topics by channel id
        self.tracks: dict[int, _Track] = {}
        self.fleets: dict[int, _FleetTrack] = {}
        self.logs: list[LogLine] = []
        self.counts: Counter[int] = Counter()
        self.longest = 0  # rows of the longest stream in memory
        self.problem = ""

    def recording(self, path: Path, size: int) -> Recording:
        """Return the contents as a recording."""
        return Recording(
            path=path,
            size=size,
            metadata=self.metadata or {},
            attachments=self.attachments,
            streams={stream_reader.stream.topic: stream_reader.table() for stream_reader in self.tracks.values()},
            logs=tuple(self.logs),
            complete=not self.problem,
            problem=f"{path}: {self.problem}" if self.problem else "",
            in_fleet={
                stream_reader.stream.topic: (fleet_reader.topic, index)
                for fleet_reader in reversed(self.fleets.values())
                for index, stream_reader in enumerate(fleet_reader.tracks)
            },
        )

    def forget(self) -> None:
        """Drop the rows of all streams except the last of each."""
        self.longest = self.budget.nodes_spent = 0
        for stream_reader in self.tracks.values():
            stream_reader.times_us = [values[-1:].copy() for values in stream_reader.times_us[-1:]]
            stream_reader.rows = [values[-1:].copy() for values in stream_reader.rows[-1:]]
            stream_reader.kept = len(stream_reader.rows)

    def note(self, problem: str) -> None:
        """Store the first problem."""
        self.problem = self.problem or problem

    def seconds(self) -> float:
        """Time of the last row of any stream  [s]."""
        return max((stream_reader.latest_us for stream_reader in self.tracks.values()), default=0) / 1e6

    def take(self, opcode: int, head: bytes, body: bytes) -> None:
        """Read one record of the data section."""
        if self.about is None and opcode in (Opcode.CHUNK, Opcode.SCHEMA, Opcode.CHANNEL, Opcode.MESSAGE):
            raise _ForeignError(f"is not a Samara recording: {NOT_OURS}")
        if opcode == Opcode.CHUNK:
            self._take_records(_decompress_chunk(Chunk.read(_stream(body)), self.budget))
        elif opcode in (Opcode.SCHEMA, Opcode.CHANNEL, Opcode.MESSAGE):
            self._take_records(head + body)
        elif opcode == Opcode.METADATA:
            self._take_metadata(Metadata.read(_stream(body)))
        elif opcode == Opcode.ATTACHMENT:
            attachment = Attachment.read(_stream(body))
            if _trailing_crc(body) in (0, zlib.crc32(body[:-4])):
                self.attachments[attachment.name] = attachment.data
            else:
                self.note(f"attachment {attachment.name!r} does not match its checksum and is left out")
        elif opcode not in (Opcode.HEADER, Opcode.DATA_END) and opcode < PRIVATE:
            raise _DamageError(f"no record of the data section begins with {opcode:#04x}")

    def _take_metadata(self, record: Metadata) -> None:
        if record.name == ABOUT:
            if record.metadata["format"] != str(FORMAT):
                raise _ForeignError(
                    f"format is {record.metadata['format']:.40}; expected {FORMAT}: another version of Samara recorded it"
                )
            self.about = record.metadata
        elif record.name == OWN and self.about is not None:
            if checksum(record.metadata) == self.about["metadata_crc32"]:
                self.metadata = record.metadata
            else:
                self.note("its metadata do not match their checksum and are left out")

    def _take_records(self, data: bytes) -> None:
        """Read schemas, channels and messages, as in a chunk; consecutive messages of one stream at once."""
        position = 0
        while position < len(data):
            opcode, length = RECORD.unpack_from(data, position)
            end = position + RECORD.size + length
            if end > len(data):
                raise _DamageError("a record in the chunk there is longer than the chunk")
            if opcode == Opcode.MESSAGE:
                end = self._take_messages(data, position, end)
            elif opcode == Opcode.SCHEMA:
                schema = Schema.read(_stream(data[position + RECORD.size : end]))
                self.schemas[schema.id] = schema
            elif opcode == Opcode.CHANNEL:
                self._take_channel(Channel.read(_stream(data[position + RECORD.size : end])))
            position = end

    def _take_channel(self, channel: Channel) -> None:
        if channel.id in self.channels:
            return
        self.channels[channel.id] = channel.topic
        if "topics" in channel.metadata:
            self.fleets[channel.id] = self._fleet(channel)
        elif "fields" in channel.metadata or "raster" in channel.metadata:
            stream = stream_from_metadata(channel.topic, channel.metadata)
            require_stream(stream)
            if stream.raster:
                image_layout = raster_layout(stream.raster, stream.topic.strip("/"))
                self.tracks[channel.id] = _Track(stream, image_layout)
                return
            schema = self.schemas[channel.schema_id]
            layout = stream_layout(message_type(schema.data, schema.name))  # type: ignore[arg-type]
            if layout.width != len(stream.fields):
                raise _DamageError(f"{stream.topic} has {len(stream.fields)} names for {layout.width} numbers")
            self.tracks[channel.id] = _Track(stream, layout)

    def _fleet(self, channel: Channel) -> _FleetTrack:
        """Return the fleet of a channel; its streams must exist and have its fields."""
        stream_readers = {stream_reader.stream.topic: stream_reader for stream_reader in self.tracks.values()}
        topics = topics_of(channel.metadata["topics"])
        fields = stream_from_metadata(channel.topic, channel.metadata).fields
        if not topics or any(
            topic not in stream_readers or stream_readers[topic].stream.fields != fields for topic in topics
        ):
            raise _DamageError(f"{channel.topic} is of streams that do not exist")
        return _FleetTrack(channel.topic, [stream_readers[topic] for topic in topics])

    def _take_messages(self, data: bytes, offset: int, end: int) -> int:
        """Read the message at `at` and the consecutive ones of the same channel and length; return the next record's offset.

        Poses and transforms repeat the data of streams and are only counted.
        """
        channel = CHANNEL.unpack_from(data, offset + RECORD.size)[0]
        block = alike(data, offset, end - offset)
        if channel in self.tracks:
            stream_reader = self.tracks[channel]
            self.budget.spend_nodes(len(block) * stream_reader.layout.width, "numbers")
            stream_reader.take(block)
            self.longest = max(self.longest, stream_reader.kept)
        elif channel in self.fleets:
            fleet_reader = self.fleets[channel]
            block = block[: fleet_reader.take(block)]
            self.budget.spend_nodes(block.size // 8, "numbers")
            self.longest = max(self.longest, fleet_reader.tracks[0].kept)
        elif self.channels[channel] == LOG_TOPIC:
            self.budget.spend_nodes(LINE_COST * len(block), "lines of log")
            bodies = [record[RECORD.size :].tobytes() for record in block]
            self.logs += [log_line(Message.read(_stream(body), len(body)).data) for body in bodies]
        self.counts[channel] += len(block)
        return offset + block.size

    def check_summary(self, tail: bytes) -> None:
        """Check the footer's CRC, and the counts of messages and attachments in the statistics."""
        seconds = f"after {self.seconds():.3f} s"
        end = len(tail) - len(MAGIC)
        start = end - FOOTER_SIZE
        if start < 0 or tail[end:] != MAGIC:
            return self.note(f"truncated in its summary, {seconds}: no data is missing")
        footer = Footer.read(_stream(tail[start + RECORD.size : end]))
        if footer.summary_crc not in (0, zlib.crc32(tail[: end - 4])):
            return self.note(f"damaged in its summary, {seconds}: no data is missing")
        for statistics in _statistics(tail[:start]):
            message_count = sum(self.counts.values())
            if dict(statistics.channel_message_counts) != self.counts:
                self.note(
                    f"its summary counts {statistics.message_count} messages and the data holds {message_count}, {seconds}"
                )
            if statistics.attachment_count != len(self.attachments):
                self.note(f"its summary counts {statistics.attachment_count} attachments, not {len(self.attachments)}")


def _decompress_chunk(chunk: Chunk, budget: Budget) -> bytes:
    """Return the decompressed records of a chunk after a check of their CRC-32."""
    if chunk.compression not in COMPRESS:
        raise _DamageError(f"the chunk there is compressed by {chunk.compression!r:.40}; expected lz4, zstd or none")
    if is_absurd(len(chunk.data), chunk.uncompressed_size):
        raise _DamageError(
            f"the chunk there claims {chunk.uncompressed_size} bytes in {len(chunk.data)} compressed bytes, which is impossible"
        )
    budget.spend_bytes(chunk.uncompressed_size, "bytes after decompression")
    data = decompressed(chunk.data, chunk.compression, chunk.uncompressed_size)
    if len(data) != chunk.uncompressed_size or chunk.uncompressed_crc not in (0, zlib.crc32(data)):
        raise _DamageError("the chunk there does not match its checksum")
    return data


def _statistics(summary: bytes) -> Iterator[Statistics]:
    position = 0
    while position < len(summary):
        opcode, length = RECORD.unpack_from(summary, position)
        if opcode == Opcode.STATISTICS:
            yield Statistics.read(_stream(summary[position + RECORD.size :]))
        position += RECORD.size + length


def _trailing_crc(body: bytes) -> int:
    return int.from_bytes(body[-4:], "little")


def _stream(body: bytes) -> ReadDataStream:
    return ReadDataStream(BytesIO(body))
