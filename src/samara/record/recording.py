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
from samara.core.sanitise import quote_value
from samara.core.types import Array
from samara.record.channels import message_type
from samara.record.fleet_messages import fleet_topics, unpack_fleet
from samara.record.foxglove import log_line
from samara.record.image_stream import PixelFormat, is_image_metadata
from samara.record.layout import (
    CHANNEL,
    RecordLayout,
    equal_records,
    raster_layout,
    sequence_numbers,
    stream_layout,
    unpack,
)
from samara.record.mcap_writer import COMPRESS, MAGIC, decompress, is_impossible_size
from samara.record.streams import (
    FORMAT,
    FORMAT_METADATA,
    LOG_TOPIC,
    USER_METADATA,
    LogLine,
    RecordedStream,
    Recording,
    RecordingError,
    Stream,
    checksum,
    require_stream,
    stream_from_metadata,
)
from samara.scenario.snapshot import BUS_SCHEMA_VERSION

__all__ = ["RecordedStream", "Recording", "RecordingError", "describe", "read_recording"]

RECORD = struct.Struct("<BQ")  # opcode and length
FOOTER_SIZE = RECORD.size + 20
MISSING_FORMAT = f"no record {FORMAT_METADATA!r} comes before its data"
PIECE_ROWS = 60_000  # rows of the longest stream: four minutes of commands at 250 Hz
MAX_NUMBERS = 1 << 26  # in memory at once, for a small file
MAX_NUMBERS_PER_BYTE = 20
DOUBLE_BYTES = 8
LINE_COST = 30  # of a log line, in numbers
FIRST_PRIVATE_OPCODE = 0x80  # opcodes from here on are free for other programs
DECODE_ERRORS = (
    struct.error, McapError, DecodeError, ZstdError, ArithmeticError, KeyError, IndexError, TypeError, ValueError,
    RuntimeError, MemoryError,
)  # fmt: skip


PieceHandler = Callable[["Recording"], bool]


def read_recording(path: str | Path, handle_piece: PieceHandler = lambda piece: False) -> Recording:
    """Read everything in the file up to its end, or to the first damaged byte.

    Args:
        path: the MCAP file.
        handle_piece: called with the contents in memory whenever the longest stream has `PIECE_ROWS` rows. If it returns True,
            the rows are dropped except for the last of each stream, with which the next piece begins, and the return value is
            the last piece. If it returns False, it is not called again.

    Raises:
        RecordingError: if nothing can be returned: no such file, not MCAP, not a Samara recording, truncated in its opening.
    """
    if not isinstance(path, str | Path):
        raise RecordingError(f"path = {quote_value(path)}: expected the path of a recording")
    try:
        with Path(path).open("rb") as file:
            recording = _read(file, Path(path), handle_piece)
    except OSError as error:
        raise RecordingError(f"{path}: cannot be read: {error.strerror or error}") from error
    schema = recording.metadata.get("schema", "none")
    if "drones" in recording.metadata and schema != str(BUS_SCHEMA_VERSION):
        raise RecordingError(
            f"{path}: schema is {schema:.40}; expected {BUS_SCHEMA_VERSION}: another version of Samara recorded it"
        )
    return recording


def _read(file: BinaryIO, path: Path, hand_on: PieceHandler) -> Recording:
    size = os.fstat(file.fileno()).st_size
    magic = file.read(len(MAGIC))
    if magic != MAGIC:
        reason = f"it begins with {magic!r}, as no MCAP file does" if magic else "it is empty"
        raise RecordingError(f"{path}: is not a Samara recording: {reason}")
    budget = Budget(
        path,
        _RecordingLimitError,
        max_bytes=decompressed_limit(size),
        max_nodes=MAX_NUMBERS + MAX_NUMBERS_PER_BYTE * size,
    )
    reader, is_handled = _RecordingReader(budget), True
    record_offset = file.tell()
    try:
        while not _read_record(file, size, reader):
            record_offset = file.tell()
            if is_handled and reader.max_row_count >= PIECE_ROWS:
                is_handled = hand_on(reader.recording(path, size))
                if is_handled:
                    reader.drop_rows()
        with _convert_errors():
            reader.check_summary(file.read())
    except _ForeignError as foreign:
        raise RecordingError(f"{path}: {foreign}") from None
    except _RecordingLimitError as overrun:
        raise RecordingError(str(overrun)) from None
    except _TruncatedError:
        reader.note_problem(_truncation_message(file, size, record_offset, reader.end_time()))
    except _DamageError as damage:
        reader.note_problem(_damage_message(record_offset, reader.end_time(), damage))
    if reader.format_metadata is None:
        raise RecordingError(f"{path}: is not a Samara recording: {reader.problem or MISSING_FORMAT}")
    if reader.metadata is None:
        reader.note_problem("its metadata are missing")
    if not reader.topics:
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
        lines.append((topic, f"{table.schema_name}, {_width(table)}, {len(table.rows)} rows{rate}"))
    lines.append(("log", f"{len(recording.logs)} lines"))
    lines += [(f"attachment {name}", f"{len(data)} bytes") for name, data in recording.attachments.items()]
    return lines


def _width(table: RecordedStream) -> str:
    """Format the size of a row."""
    if isinstance(table.raster, PixelFormat):
        return f"{table.raster.columns} × {table.raster.rows} pixels ({table.raster.encoding})"
    return f"{len(table.fields)} fields"


def _rate(times_us: Array) -> str:
    """Format the mean row rate; "" if there is none."""
    span = times_us[-1] - times_us[0] if len(times_us) > 1 else 0
    return f", {(len(times_us) - 1) / (span / 1e6):.6g} Hz" if span else ""


def _one_line(text: str) -> str:
    first, *more = text.splitlines() or [""]
    return f"{first} …" if more else first


class _RecordingLimitError(Exception):
    """A limit was exceeded: the file is refused, unlike a damaged one, whose readable part is returned."""


class _DamageError(Exception):
    """Damage in the record being read."""


class _ForeignError(Exception):
    """The reason why an undamaged file is not a Samara recording of this version."""


class _TruncatedError(Exception):
    """The file ends within a record."""


def _read_record(file: BinaryIO, size: int, reader: "_RecordingReader") -> bool:
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
        reader.read_record(opcode, head, body)
    return bool(opcode == Opcode.DATA_END)


@contextmanager
def _convert_errors() -> Iterator[None]:
    """Convert exceptions of the libraries on invalid bytes to _DamageError."""
    try:
        yield
    except DECODE_ERRORS as error:
        raise _DamageError(f"the record there cannot be decoded ({type(error).__name__})") from error


def _damage_message(offset: int, seconds: float, damage: object) -> str:
    return f"damaged at byte {offset}, after {seconds:.3f} s: {damage}; the data after it are left out"


def _truncation_message(file: BinaryIO, size: int, offset: int, seconds: float) -> str:
    """Describe a truncated file; if it ends with the magic bytes, the length of a record is wrong instead."""
    file.seek(max(0, size - len(MAGIC)))
    if size > 2 * len(MAGIC) and file.read() == MAGIC:
        return _damage_message(offset, seconds, "the record there is longer than the file")
    return f"truncated after {seconds:.3f} s: the last chunk may be missing"


@dataclass
class _StreamReader:
    """A channel that is a stream: its layout, and the rows read from it, chunk by chunk."""

    stream: Stream
    layout: RecordLayout
    next_sequence: int = 0
    row_count: int = 0
    latest_us: int = 0
    times_us: list[Array] = field(default_factory=list)
    rows: list[Array] = field(default_factory=list)

    @property
    def row_bytes(self) -> int:
        """The bytes of a row in memory."""
        return self.stream.width * self.stream.row_type.itemsize

    def read_messages(self, block: Array) -> None:
        if block.shape[1] != self.layout.size:
            raise _DamageError(f"a message of {self.stream.topic} has {block.shape[1]} bytes, not {self.layout.size}")
        numbers, times_us, rows = unpack(self.layout, block)
        if (numbers != sequence_numbers(self.next_sequence, len(numbers))).any():
            raise _DamageError(f"rows of {self.stream.topic} are missing before it")
        self.next_sequence += len(numbers)
        self.add(times_us, rows)

    def add(self, times_us: Array, rows: Array) -> None:
        self.row_count += len(times_us)
        self.latest_us = int(times_us[-1])
        self.times_us.append(times_us)
        self.rows.append(rows)

    def table(self) -> RecordedStream:
        _, fields, units, schema_name, raster = self.stream
        if not self.rows:
            rows = np.empty((0, self.stream.width), self.stream.row_type)
            return RecordedStream(fields, units, schema_name, np.empty(0, np.int64), rows, raster)
        if (
            len(self.rows) > 1
        ):  # the blocks are replaced by their concatenation: a long recording is not in memory twice
            self.times_us, self.rows = [np.concatenate(self.times_us)], [np.concatenate(self.rows)]
        return RecordedStream(fields, units, schema_name, self.times_us[0], self.rows[0], raster)


@dataclass
class _FleetReader:
    """A channel with the rows of many streams."""

    topic: str
    stream_readers: list[_StreamReader]
    next_sequence: int = 0

    def read_messages(self, block: Array) -> int:
        """Read the messages that have the fields of the first; return their count."""
        try:
            numbers, times_us, rows = unpack_fleet(
                block, len(self.stream_readers[0].stream.fields), len(self.stream_readers)
            )
        except (ValueError, IndexError) as error:
            raise _DamageError(f"a message of {self.topic} cannot be decoded: {error}") from error
        if (numbers != sequence_numbers(self.next_sequence, len(numbers))).any():
            raise _DamageError(f"rows of {self.topic} are missing before it")
        self.next_sequence += len(numbers)
        for stream_reader, drone_rows in zip(
            self.stream_readers, np.ascontiguousarray(rows.transpose(2, 0, 1)), strict=True
        ):
            stream_reader.add(times_us, drone_rows.copy())  # a view would retain the rows of all drones
        return len(numbers)


class _RecordingReader:
    """The contents read from the file until now."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.format_metadata: dict[str, str] | None = None
        self.metadata: dict[str, str] | None = None
        self.attachments: dict[str, bytes] = {}
        self.schemas: dict[int, Schema] = {}
        self.topics: dict[int, str] = {}  # topics by channel id
        self.stream_readers: dict[int, _StreamReader] = {}
        self.fleet_readers: dict[int, _FleetReader] = {}
        self.logs: list[LogLine] = []
        self.counts: Counter[int] = Counter()
        self.max_row_count = 0  # rows of the longest stream in memory
        self.problem = ""

    def recording(self, path: Path, size: int) -> Recording:
        """Return the contents as a recording."""
        return Recording(
            path=path,
            size=size,
            metadata=self.metadata or {},
            attachments=self.attachments,
            streams={
                stream_reader.stream.topic: stream_reader.table() for stream_reader in self.stream_readers.values()
            },
            logs=tuple(self.logs),
            complete=not self.problem,
            problem=f"{path}: {self.problem}" if self.problem else "",
            fleet_topics={
                stream_reader.stream.topic: (fleet_reader.topic, index)
                for fleet_reader in reversed(self.fleet_readers.values())
                for index, stream_reader in enumerate(fleet_reader.stream_readers)
            },
        )

    def drop_rows(self) -> None:
        """Drop the rows of all streams except the last of each."""
        self.max_row_count = self.budget.nodes_spent = 0
        for stream_reader in self.stream_readers.values():
            stream_reader.times_us = [values[-1:].copy() for values in stream_reader.times_us[-1:]]
            stream_reader.rows = [values[-1:].copy() for values in stream_reader.rows[-1:]]
            stream_reader.row_count = len(stream_reader.rows)

    def note_problem(self, problem: str) -> None:
        """Store the first problem."""
        self.problem = self.problem or problem

    def end_time(self) -> float:
        """Time of the last row of any stream  [s]."""
        return max((stream_reader.latest_us for stream_reader in self.stream_readers.values()), default=0) / 1e6

    def read_record(self, opcode: int, head: bytes, body: bytes) -> None:
        """Read one record of the data section."""
        if self.format_metadata is None and opcode in (Opcode.CHUNK, Opcode.SCHEMA, Opcode.CHANNEL, Opcode.MESSAGE):
            raise _ForeignError(f"is not a Samara recording: {MISSING_FORMAT}")
        if opcode == Opcode.CHUNK:
            self._read_records(_decompress_chunk(Chunk.read(_stream(body)), self.budget))
        elif opcode in (Opcode.SCHEMA, Opcode.CHANNEL, Opcode.MESSAGE):
            self._read_records(head + body)
        elif opcode == Opcode.METADATA:
            self._read_metadata(Metadata.read(_stream(body)))
        elif opcode == Opcode.ATTACHMENT:
            attachment = Attachment.read(_stream(body))
            if _trailing_crc(body) in (0, zlib.crc32(body[:-4])):
                self.attachments[attachment.name] = attachment.data
            else:
                self.note_problem(f"attachment {attachment.name!r} does not match its checksum and is left out")
        elif opcode not in (Opcode.HEADER, Opcode.DATA_END) and opcode < FIRST_PRIVATE_OPCODE:
            raise _DamageError(f"no record of the data section begins with {opcode:#04x}")

    def _read_metadata(self, record: Metadata) -> None:
        if record.name == FORMAT_METADATA:
            if record.metadata["format"] != str(FORMAT):
                raise _ForeignError(
                    f"format is {record.metadata['format']:.40}; expected {FORMAT}: another version of Samara recorded it"
                )
            self.format_metadata = record.metadata
        elif record.name == USER_METADATA and self.format_metadata is not None:
            if checksum(record.metadata) == self.format_metadata["metadata_crc32"]:
                self.metadata = record.metadata
            else:
                self.note_problem("its metadata do not match their checksum and are left out")

    def _read_records(self, data: bytes) -> None:
        """Read schemas, channels and messages, as in a chunk; consecutive messages of one stream at once."""
        position = 0
        while position < len(data):
            opcode, length = RECORD.unpack_from(data, position)
            end = position + RECORD.size + length
            if end > len(data):
                raise _DamageError("a record in the chunk there is longer than the chunk")
            if opcode == Opcode.MESSAGE:
                end = self._read_messages(data, position, end)
            elif opcode == Opcode.SCHEMA:
                schema = Schema.read(_stream(data[position + RECORD.size : end]))
                self.schemas[schema.id] = schema
            elif opcode == Opcode.CHANNEL:
                self._read_channel(Channel.read(_stream(data[position + RECORD.size : end])))
            position = end

    def _read_channel(self, channel: Channel) -> None:
        if channel.id in self.topics:
            return
        self.topics[channel.id] = channel.topic
        if "topics" in channel.metadata:
            self.fleet_readers[channel.id] = self._create_fleet_reader(channel)
        elif "fields" in channel.metadata or is_image_metadata(channel.metadata):
            stream = stream_from_metadata(channel.topic, channel.metadata)
            require_stream(stream)
            if stream.raster:
                self.budget.spend_nodes(stream.width * stream.raster.pixel.itemsize // DOUBLE_BYTES, "pixels")
                image_layout = raster_layout(stream.raster, stream.topic.strip("/"))
                self.stream_readers[channel.id] = _StreamReader(stream, image_layout)
                return
            schema = self.schemas[channel.schema_id]
            layout = stream_layout(message_type(schema.data, schema.name))  # type: ignore[arg-type]
            if layout.width != len(stream.fields):
                raise _DamageError(f"{stream.topic} has {len(stream.fields)} names for {layout.width} numbers")
            self.stream_readers[channel.id] = _StreamReader(stream, layout)

    def _create_fleet_reader(self, channel: Channel) -> _FleetReader:
        """Create the reader of a fleet's channel; the fleet's streams must exist and have the channel's fields."""
        stream_readers = {stream_reader.stream.topic: stream_reader for stream_reader in self.stream_readers.values()}
        topics = fleet_topics(channel.metadata["topics"])
        fields = stream_from_metadata(channel.topic, channel.metadata).fields
        if not topics or any(
            topic not in stream_readers or stream_readers[topic].stream.fields != fields for topic in topics
        ):
            raise _DamageError(f"{channel.topic} is of streams that do not exist")
        return _FleetReader(channel.topic, [stream_readers[topic] for topic in topics])

    def _read_messages(self, data: bytes, offset: int, end: int) -> int:
        """Read the message at `offset` and the consecutive ones of the same channel and length; return the end offset.

        Poses and transforms repeat the data of streams and are only counted.
        """
        channel = CHANNEL.unpack_from(data, offset + RECORD.size)[0]
        block = equal_records(data, offset, end - offset)
        if channel in self.stream_readers:
            stream_reader = self.stream_readers[channel]
            self.budget.spend_nodes(-(-len(block) * stream_reader.row_bytes // DOUBLE_BYTES), "numbers")
            stream_reader.read_messages(block)
            self.max_row_count = max(self.max_row_count, stream_reader.row_count)
        elif channel in self.fleet_readers:
            fleet_reader = self.fleet_readers[channel]
            block = block[: fleet_reader.read_messages(block)]
            self.budget.spend_nodes(block.size // 8, "numbers")
            self.max_row_count = max(self.max_row_count, fleet_reader.stream_readers[0].row_count)
        elif self.topics[channel] == LOG_TOPIC:
            self.budget.spend_nodes(LINE_COST * len(block), "lines of log")
            bodies = [record[RECORD.size :].tobytes() for record in block]
            self.logs += [log_line(Message.read(_stream(body), len(body)).data) for body in bodies]
        self.counts[channel] += len(block)
        return offset + block.size

    def check_summary(self, tail: bytes) -> None:
        """Check the footer's CRC, and the counts of messages and attachments in the statistics."""
        seconds = f"after {self.end_time():.3f} s"
        end = len(tail) - len(MAGIC)
        start = end - FOOTER_SIZE
        if start < 0 or tail[end:] != MAGIC:
            return self.note_problem(f"truncated in its summary, {seconds}: no data is missing")
        footer = Footer.read(_stream(tail[start + RECORD.size : end]))
        if footer.summary_crc not in (0, zlib.crc32(tail[: end - 4])):
            return self.note_problem(f"damaged in its summary, {seconds}: no data is missing")
        for statistics in _statistics(tail[:start]):
            message_count = sum(self.counts.values())
            if dict(statistics.channel_message_counts) != self.counts:
                self.note_problem(
                    f"its summary counts {statistics.message_count} messages and the data holds {message_count}, {seconds}"
                )
            if statistics.attachment_count != len(self.attachments):
                self.note_problem(
                    f"its summary counts {statistics.attachment_count} attachments, not {len(self.attachments)}"
                )


def _decompress_chunk(chunk: Chunk, budget: Budget) -> bytes:
    """Return the decompressed records of a chunk after a check of their CRC-32."""
    if chunk.compression not in COMPRESS:
        raise _DamageError(f"the chunk there is compressed by {chunk.compression!r:.40}; expected lz4, zstd or none")
    if is_impossible_size(len(chunk.data), chunk.uncompressed_size):
        raise _DamageError(
            f"the chunk there claims {chunk.uncompressed_size} bytes in {len(chunk.data)} compressed bytes, which is impossible"
        )
    budget.spend_bytes(chunk.uncompressed_size, "bytes after decompression")
    data = decompress(chunk.data, chunk.compression, chunk.uncompressed_size)
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
