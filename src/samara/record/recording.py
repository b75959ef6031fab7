"""Reading a recording back: every number bit for bit, from a whole file, a truncated one, or one that is damaged further on."""

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
LINE_COST = 30  # of a line of log, in numbers
PRIVATE = 0x80  # from here on opcodes are free for other programs
UNREADABLE = (
    struct.error, McapError, DecodeError, ZstdError, ArithmeticError, KeyError, IndexError, TypeError, ValueError,
    RuntimeError, MemoryError,
)  # fmt: skip


HandOn = Callable[["Recording"], bool]


def read_recording(path: str | Path, hand_on: HandOn = lambda piece: False) -> Recording:
    """Everything in the file up to its end, or to the first byte that is not as it was written.

    Whenever the longest stream has `PIECE` rows, `hand_on` is given what is kept. Where it says that it has taken them, the
    rows are forgotten but for the last of each stream, with which the next piece begins, and what is returned at the end is the
    last piece; else it is not asked again.

    RecordingError, in one sentence, where there is nothing to return: no such file, no MCAP, not ours, cut in its opening.
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
        found = f"it begins with {magic!r}, as no MCAP file does" if magic else "it is empty"
        raise RecordingError(f"{path}: is not a Samara recording: {found}")
    budget = Budget(
        path, _OverrunError, max_bytes=decompressed_limit(size), max_nodes=MAX_NUMBERS + MAX_NUMBERS_PER_BYTE * size
    )
    contents, wanted = _Contents(budget), True
    at = file.tell()
    try:
        while not _read_record(file, size, contents):
            at = file.tell()
            if wanted and contents.longest >= PIECE:
                wanted = hand_on(contents.recording(path, size))
                if wanted:
                    contents.forget()
        with _making_sense():
            contents.check_summary(file.read())
    except _ForeignError as foreign:
        raise RecordingError(f"{path}: {foreign}") from None
    except _OverrunError as overrun:
        raise RecordingError(str(overrun)) from None
    except _TruncatedError:
        contents.note(_where_it_ends(file, size, at, contents.seconds()))
    except _DamageError as damage:
        contents.note(_damaged(at, contents.seconds(), damage))
    if contents.about is None:
        raise RecordingError(f"{path}: is not a Samara recording: {contents.problem or NOT_OURS}")
    if contents.metadata is None:
        contents.note("its metadata are missing")
    if not contents.channels:
        raise RecordingError(f"{path}: nothing in it can be read: {contents.problem or 'it has no channels'}")
    return contents.recording(path, size)


def describe(recording: Recording) -> list[tuple[str, str]]:
    """What a person asks of a file first: how long, whether whole, of what flight, and which streams at what rate."""
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
    """Rows per second between the first and the last, where that means something."""
    span = times_us[-1] - times_us[0] if len(times_us) > 1 else 0
    return f", {(len(times_us) - 1) / (span / 1e6):.6g} Hz" if span else ""


def _one_line(text: str) -> str:
    first, *rest = text.splitlines() or [""]
    return f"{first} …" if rest else first


class _OverrunError(Exception):
    """A limit was passed: the file is refused, unlike a damaged one, whose readable part is returned."""


class _DamageError(Exception):
    """What is wrong with the record being read."""


class _ForeignError(Exception):
    """Why a file in order is none that this reader knows."""


class _TruncatedError(Exception):
    """The file ends within a record."""


def _read_record(file: BinaryIO, size: int, contents: "_Contents") -> bool:
    """One record of the data section; whether it was the last."""
    head = file.read(RECORD.size)
    if len(head) < RECORD.size:
        raise _TruncatedError
    opcode, length = RECORD.unpack(head)
    if length > size - file.tell():
        raise _TruncatedError
    if opcode == Opcode.MESSAGE_INDEX:  # its messages have been read
        file.seek(length, os.SEEK_CUR)
        return False
    body = file.read(length)
    if len(body) < length:
        raise _TruncatedError
    with _making_sense():
        contents.take(opcode, head, body)
    return bool(opcode == Opcode.DATA_END)


@contextmanager
def _making_sense() -> Iterator[None]:
    """What the libraries raise on bytes they did not write is damage."""
    try:
        yield
    except UNREADABLE as error:
        raise _DamageError(f"the record there makes no sense ({type(error).__name__})") from error


def _damaged(at: int, seconds: float, what: object) -> str:
    return f"damaged at byte {at}, after {seconds:.3f} s: {what}; what follows is left out"


def _where_it_ends(file: BinaryIO, size: int, at: int, seconds: float) -> str:
    """A file that ends as every whole one does was not cut: then it is the length of a record that is wrong."""
    file.seek(max(0, size - len(MAGIC)))
    if size > 2 * len(MAGIC) and file.read() == MAGIC:
        return _damaged(at, seconds, "the record there is longer than the file")
    return f"truncated after {seconds:.3f} s: the last chunk may be missing"


@dataclass
class _Track:
    """A channel that is a stream of ours: its layout, and what was read of it, chunk by chunk."""

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
        _, fields, units, kind, raster = self.stream
        if not self.rows:
            return Table(fields, units, kind, np.empty(0, np.int64), np.empty((0, len(fields))), raster)
        if len(self.rows) > 1:  # the blocks go as they are joined: all of a long recording is not there twice
            self.times_us, self.rows = [np.concatenate(self.times_us)], [np.concatenate(self.rows)]
        return Table(fields, units, kind, self.times_us[0], self.rows[0], raster)


@dataclass
class _FleetTrack:
    """A channel with the rows of many streams."""

    topic: str
    tracks: list[_Track]
    next: int = 0

    def take(self, block: Array) -> int:
        """Those of the messages that have the fields of the first; how many they were"""
        try:
            numbers, times_us, rows = unpack_fleet(block, len(self.tracks[0].stream.fields), len(self.tracks))
        except (ValueError, IndexError) as error:
            raise _DamageError(f"a message of {self.topic} makes no sense: {error}") from error
        if (numbers != sequence(self.next, len(numbers))).any():
            raise _DamageError(f"rows of {self.topic} are missing before it")
        self.next += len(numbers)
        for track, own in zip(self.tracks, np.ascontiguousarray(rows.transpose(2, 0, 1)), strict=True):
            track.add(times_us, own.copy())  # a view would keep those of all drones
        return len(numbers)


class _Contents:
    """What has been read so far."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.about: dict[str, str] | None = None
        self.metadata: dict[str, str] | None = None
        self.attachments: dict[str, bytes] = {}
        self.schemas: dict[int, Schema] = {}
        self.channels: dict[int, str] = {}  # their topics
        self.tracks: dict[int, _Track] = {}
        self.fleets: dict[int, _FleetTrack] = {}
        self.logs: list[LogLine] = []
        self.counts: Counter[int] = Counter()
        self.longest = 0  # rows that are kept of any stream
        self.problem = ""

    def recording(self, path: Path, size: int) -> Recording:
        """All of it that is kept"""
        return Recording(
            path=path,
            size=size,
            metadata=self.metadata or {},
            attachments=self.attachments,
            streams={track.stream.topic: track.table() for track in self.tracks.values()},
            logs=tuple(self.logs),
            complete=not self.problem,
            problem=f"{path}: {self.problem}" if self.problem else "",
            in_fleet={
                track.stream.topic: (fleet.topic, lane)
                for fleet in reversed(self.fleets.values())
                for lane, track in enumerate(fleet.tracks)
            },
        )

    def forget(self) -> None:
        """The rows of all streams but their last"""
        self.longest = self.budget.nodes_spent = 0
        for track in self.tracks.values():
            track.times_us = [own[-1:].copy() for own in track.times_us[-1:]]
            track.rows = [own[-1:].copy() for own in track.rows[-1:]]
            track.kept = len(track.rows)

    def note(self, problem: str) -> None:
        """Keep the first thing that was wrong."""
        self.problem = self.problem or problem

    def seconds(self) -> float:
        """How far the streams reach  [s]"""
        return max((track.latest_us for track in self.tracks.values()), default=0) / 1e6

    def take(self, opcode: int, head: bytes, body: bytes) -> None:
        """One record of the data section."""
        if self.about is None and opcode in (Opcode.CHUNK, Opcode.SCHEMA, Opcode.CHANNEL, Opcode.MESSAGE):
            raise _ForeignError(f"is not a Samara recording: {NOT_OURS}")
        if opcode == Opcode.CHUNK:
            self._take_records(_records_of(Chunk.read(_stream(body)), self.budget))
        elif opcode in (Opcode.SCHEMA, Opcode.CHANNEL, Opcode.MESSAGE):
            self._take_records(head + body)
        elif opcode == Opcode.METADATA:
            self._take_metadata(Metadata.read(_stream(body)))
        elif opcode == Opcode.ATTACHMENT:
            attachment = Attachment.read(_stream(body))
            if _crc_at_end(body) in (0, zlib.crc32(body[:-4])):
                self.attachments[attachment.name] = attachment.data
            else:
                self.note(f"attachment {attachment.name!r} does not match its checksum and is left out")
        elif opcode not in (Opcode.HEADER, Opcode.DATA_END) and opcode < PRIVATE:
            raise _DamageError(f"no record of the data begins with {opcode:#04x}")

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
        """Schemas, channels and messages, as they stand in a chunk; all messages in a row of one stream at once."""
        at = 0
        while at < len(data):
            opcode, length = RECORD.unpack_from(data, at)
            end = at + RECORD.size + length
            if end > len(data):
                raise _DamageError("a record in the chunk there is longer than the chunk")
            if opcode == Opcode.MESSAGE:
                end = self._take_messages(data, at, end)
            elif opcode == Opcode.SCHEMA:
                schema = Schema.read(_stream(data[at + RECORD.size : end]))
                self.schemas[schema.id] = schema
            elif opcode == Opcode.CHANNEL:
                self._take_channel(Channel.read(_stream(data[at + RECORD.size : end])))
            at = end

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
                pictures = raster_layout(stream.raster, stream.topic.strip("/"))
                self.tracks[channel.id] = _Track(stream, pictures)
                return
            schema = self.schemas[channel.schema_id]
            layout = stream_layout(message_type(schema.data, schema.name))  # type: ignore[arg-type]
            if layout.width != len(stream.fields):
                raise _DamageError(f"{stream.topic} has {len(stream.fields)} names for {layout.width} numbers")
            self.tracks[channel.id] = _Track(stream, layout)

    def _fleet(self, channel: Channel) -> _FleetTrack:
        """What a channel says of a fleet: whose streams are known, and have its fields"""
        tracks = {track.stream.topic: track for track in self.tracks.values()}
        topics = topics_of(channel.metadata["topics"])
        fields = stream_from_metadata(channel.topic, channel.metadata).fields
        if not topics or any(topic not in tracks or tracks[topic].stream.fields != fields for topic in topics):
            raise _DamageError(f"{channel.topic} is of streams that are not there")
        return _FleetTrack(channel.topic, [tracks[topic] for topic in topics])

    def _take_messages(self, data: bytes, at: int, end: int) -> int:
        """The message at `at` and those right after it of the same channel and length; where the next record begins.

        Poses and transforms repeat what the streams say and are only counted.
        """
        channel = CHANNEL.unpack_from(data, at + RECORD.size)[0]
        block = alike(data, at, end - at)
        if channel in self.tracks:
            track = self.tracks[channel]
            self.budget.spend_nodes(len(block) * track.layout.width, "numbers")
            track.take(block)
            self.longest = max(self.longest, track.kept)
        elif channel in self.fleets:
            fleet = self.fleets[channel]
            block = block[: fleet.take(block)]
            self.budget.spend_nodes(block.size // 8, "numbers")
            self.longest = max(self.longest, fleet.tracks[0].kept)
        elif self.channels[channel] == LOG_TOPIC:
            self.budget.spend_nodes(LINE_COST * len(block), "lines of log")
            bodies = [record[RECORD.size :].tobytes() for record in block]
            self.logs += [log_line(Message.read(_stream(body), len(body)).data) for body in bodies]
        self.counts[channel] += len(block)
        return at + block.size

    def check_summary(self, tail: bytes) -> None:
        """After the end of the data: the footer's CRC, and as many messages and attachments as the statistics say."""
        seconds = f"after {self.seconds():.3f} s"
        end = len(tail) - len(MAGIC)
        start = end - FOOTER_SIZE
        if start < 0 or tail[end:] != MAGIC:
            return self.note(f"truncated in its summary, {seconds}: no data is missing")
        footer = Footer.read(_stream(tail[start + RECORD.size : end]))
        if footer.summary_crc not in (0, zlib.crc32(tail[: end - 4])):
            return self.note(f"damaged in its summary, {seconds}: no data is missing")
        for counted in _statistics(tail[:start]):
            found = sum(self.counts.values())
            if dict(counted.channel_message_counts) != self.counts:
                self.note(f"its summary counts {counted.message_count} messages and the data holds {found}, {seconds}")
            if counted.attachment_count != len(self.attachments):
                self.note(f"its summary counts {counted.attachment_count} attachments, not {len(self.attachments)}")


def _records_of(chunk: Chunk, budget: Budget) -> bytes:
    """The records in a chunk, decompressed; they match their CRC-32."""
    if chunk.compression not in COMPRESS:
        raise _DamageError(f"the chunk there is compressed by {chunk.compression!r:.40}; expected lz4, zstd or nothing")
    if is_absurd(len(chunk.data), chunk.uncompressed_size):
        raise _DamageError(
            f"the chunk there says that its {len(chunk.data)} bytes were {chunk.uncompressed_size}; no compression does that"
        )
    budget.spend_bytes(chunk.uncompressed_size, "bytes after decompression")
    data = decompressed(chunk.data, chunk.compression, chunk.uncompressed_size)
    if len(data) != chunk.uncompressed_size or chunk.uncompressed_crc not in (0, zlib.crc32(data)):
        raise _DamageError("the chunk there does not match its checksum")
    return data


def _statistics(summary: bytes) -> Iterator[Statistics]:
    at = 0
    while at < len(summary):
        opcode, length = RECORD.unpack_from(summary, at)
        if opcode == Opcode.STATISTICS:
            yield Statistics.read(_stream(summary[at + RECORD.size :]))
        at += RECORD.size + length


def _crc_at_end(body: bytes) -> int:
    return int.from_bytes(body[-4:], "little")


def _stream(body: bytes) -> ReadDataStream:
    return ReadDataStream(BytesIO(body))
