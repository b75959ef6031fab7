"""The three kinds of bytes an MCAP recording is made of: its opening, a chunk, and its closing.

Every record is written by the `mcap` library's own classes but for those of a chunk, which are many: messages and their
indexes are arrays in one block of memory, with the chunk's head before them.
"""

import mimetypes
import struct
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import lz4.frame  # type: ignore[import-untyped]
import numpy as np
import zstandard
from mcap.data_stream import RecordBuilder
from mcap.opcode import Opcode
from mcap.records import (
    Attachment,
    AttachmentIndex,
    Channel,
    ChunkIndex,
    DataEnd,
    Footer,
    Header,
    McapRecord,
    Metadata,
    MetadataIndex,
    Schema,
    Statistics,
    SummaryOffset,
)
from mcap.writer import MCAP0_MAGIC

from samara.record.layout import Array, Times

Buffer = bytes | memoryview

MAGIC = MCAP0_MAGIC
RECORD = struct.Struct("<BQ")  # opcode and length
INDEX_HEAD = struct.Struct("<BQHI")  # opcode, length, channel, bytes of the entries that follow
ENTRY = 16  # time and place of a message, eight bytes each
ROOM = 64  # bytes before the messages of a chunk, where its head goes
COMPRESS: dict[str, Any] = {"": bytes, "lz4": lz4.frame.compress, "zstd": zstandard.compress}
COMPRESSION_LIMIT, SMALL = 255, 1 << 24  # no lz4 expands further; what zstd makes of few bytes may be this long


def is_absurd(compressed: int, size: int) -> bool:
    """Whether so few bytes cannot honestly be compressed from so many: a chunk of numbers shrinks by 10 at the very most."""
    return size > COMPRESSION_LIMIT * compressed + SMALL


def decompressed(data: bytes, compression: str, size: int) -> bytes:
    """The first `size` bytes of what was compressed, and one more where there are more; no further is unpacked"""
    if compression == "lz4":
        return bytes(lz4.frame.LZ4FrameDecompressor().decompress(data, max_length=size + 1))
    if compression == "zstd":
        with zstandard.ZstdDecompressor().stream_reader(data) as stream:
            return stream.read(size + 1)
    return data


class Piece(NamedTuple):
    """Messages of `size` bytes: first those of one channel, one at each of the times, then those of the next."""

    channels: Sequence[int]
    times: Times
    size: int

    @property
    def length(self) -> int:
        """Bytes of all of them."""
        return len(self.channels) * len(self.times.ns) * self.size


class Opening(NamedTuple):
    """The bytes a file begins with, and what its summary will say of them."""

    data: bytes
    schemas: tuple[Schema, ...]
    channels: tuple[Channel, ...]
    attachments: tuple[AttachmentIndex, ...]
    metadata: tuple[MetadataIndex, ...]
    chunk: ChunkIndex


def opening(
    library: str,
    metadata: Mapping[str, Mapping[str, str]],
    attachments: Mapping[str, bytes],
    schemas: Sequence[Schema],
    channels: Sequence[Channel],
) -> Opening:
    """Header, metadata and attachments, then schemas and channels in a chunk without messages, whose CRC protects them."""
    builder = RecordBuilder()
    builder.write(MAGIC)
    Header("", library).write(builder)
    named, attached = [], []
    for name, entries in metadata.items():
        start = builder.count
        Metadata(name, dict(entries)).write(builder)
        named.append(MetadataIndex(start, builder.count - start, name))
    for name, data in attachments.items():
        start = builder.count
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        Attachment(create_time=0, log_time=0, name=name, media_type=kind, data=data).write(builder)
        attached.append(AttachmentIndex(start, builder.count - start, 0, 0, len(data), name, kind))
    records = _written([*schemas, *channels])
    head, index = _chunk_head(records, records, builder.count, 0, 0, "")
    builder.write(head)
    builder.write(records)
    return Opening(_taken(builder), tuple(schemas), tuple(channels), tuple(attached), tuple(named), index)


def chunk_size(pieces: Sequence[Piece]) -> int:
    """Bytes of memory for a chunk of these messages with its indexes."""
    channels = {channel for piece in pieces for channel in piece.channels}
    entries = sum(len(piece.channels) * len(piece.times.ns) for piece in pieces)
    return ROOM + sum(piece.length for piece in pieces) + INDEX_HEAD.size * len(channels) + ENTRY * entries


def chunk(memory: Array, pieces: Sequence[Piece], offset: int, compression: str) -> tuple[Buffer, ChunkIndex]:
    """A chunk that will stand at byte `offset`, followed by an index of its messages for each channel.

    `memory`, of `chunk_size` bytes, holds the messages of all pieces from byte `ROOM` on; the rest is written around them.
    """
    begin_ns = min(int(piece.times.ns[0]) for piece in pieces)
    end_ns = max(int(piece.times.ns[-1]) for piece in pieces)
    end = ROOM + sum(piece.length for piece in pieces)
    records = memory[ROOM:end].data
    data = COMPRESS[compression](records) if compression else records
    head, index = _chunk_head(records, data, offset, begin_ns, end_ns, compression)
    ahead = offset + index.chunk_length - end
    starts = _write_indexes(memory, end, pieces)
    index.message_index_offsets.update({channel: ahead + start for channel, start in starts.items()})
    index.message_index_length = len(memory) - end
    if compression:
        return b"".join((head, data, memory[end:].data)), index
    memory[ROOM - len(head) : ROOM] = np.frombuffer(head, np.uint8)
    return memory[ROOM - len(head) :].data, index


class Indexed(NamedTuple):
    """What the summary will say of a chunk with messages: its record as bytes, a tenth of what it is as a dict."""

    record: bytes
    begin_ns: int
    end_ns: int


def indexed(index: ChunkIndex) -> Indexed:
    """A chunk's index as it is kept until the file is closed."""
    return Indexed(_written([index]), index.message_start_time, index.message_end_time)


def closing(opened: Opening, chunks: Sequence[Indexed], sent: Mapping[int, int], offset: int) -> bytes:
    """The end of the data at byte `offset`, then the summary that lets a reader find everything, and the footer."""
    statistics = Statistics(
        attachment_count=len(opened.attachments),
        channel_count=len(opened.channels),
        channel_message_counts=dict(sent),
        chunk_count=1 + len(chunks),
        message_count=sum(sent.values()),
        message_end_time=max((index.end_ns for index in chunks), default=0),
        message_start_time=min((index.begin_ns for index in chunks), default=0),
        metadata_count=len(opened.metadata),
        schema_count=len(opened.schemas),
    )
    # The CRC of the whole data section is left out, as the library's writer leaves it out: the chunks have theirs.
    end = _written([DataEnd(0)])
    start = offset + len(end)
    builder = RecordBuilder()
    offsets = []
    groups: dict[Opcode, Iterable[McapRecord | Indexed]] = {
        Opcode.SCHEMA: opened.schemas,
        Opcode.CHANNEL: opened.channels,
        Opcode.STATISTICS: [statistics],
        Opcode.CHUNK_INDEX: [opened.chunk, *chunks],
        Opcode.ATTACHMENT_INDEX: opened.attachments,
        Opcode.METADATA_INDEX: opened.metadata,
    }
    for opcode, records in groups.items():
        begin = builder.count
        for record in records:
            if isinstance(record, Indexed):
                builder.write(record.record)
            else:
                record.write(builder)
        if builder.count > begin:
            offsets.append(SummaryOffset(opcode, start + begin, builder.count - begin))
    offsets_start = start + builder.count
    for record in offsets:
        record.write(builder)
    Footer(start, offsets_start, 0).write(builder)
    summary = _taken(builder)[:-4]
    return end + summary + struct.pack("<I", zlib.crc32(summary)) + MAGIC


def _chunk_head(
    records: Buffer, data: Buffer, offset: int, begin_ns: int, end_ns: int, compression: str
) -> tuple[bytes, ChunkIndex]:
    """What stands before the data of a chunk, and what the summary will say of it."""
    name = compression.encode()
    about = struct.pack(
        f"<QQQII{len(name)}sQ", begin_ns, end_ns, len(records), zlib.crc32(records), len(name), name, len(data)
    )
    head = RECORD.pack(Opcode.CHUNK, len(about) + len(data)) + about
    index = ChunkIndex(
        chunk_length=len(head) + len(data),
        chunk_start_offset=offset,
        compression=compression,
        compressed_size=len(data),
        message_end_time=end_ns,
        message_index_length=0,
        message_index_offsets={},
        message_start_time=begin_ns,
        uncompressed_size=len(records),
    )
    return head, index


def _write_indexes(memory: Array, at: int, pieces: Sequence[Piece]) -> dict[int, int]:
    """For each channel an index of its messages, in the order of their times, from byte `at` on; where each begins."""
    starts: dict[int, int] = {}
    pieces_of = Counter(chain.from_iterable([piece.channels for piece in pieces]))
    scattered: dict[int, list[Array]] = {}
    place = 0
    for channels, times, size in pieces:
        shape = len(channels), len(times.ns)
        together = max(map(pieces_of.__getitem__, channels)) == 1
        entries = _write_heads(memory, at, channels, shape[1], starts) if together else np.empty((*shape, 2), np.int64)
        entries[..., 0] = times.ns
        entries[..., 1] = np.arange(place, place + shape[0] * shape[1] * size, size).reshape(shape)
        place += shape[0] * shape[1] * size
        if together:
            at += shape[0] * (INDEX_HEAD.size + ENTRY * shape[1])
        else:
            for channel, own in zip(channels, entries, strict=True):
                scattered.setdefault(channel, []).append(own)
    for channel, parts in scattered.items():
        entries = np.concatenate(parts)
        in_order = np.argsort(entries[:, 0], kind="stable")
        _write_heads(memory, at, [channel], len(entries), starts)[0] = entries[in_order]
        at += INDEX_HEAD.size + ENTRY * len(entries)
    return starts


def _write_heads(memory: Array, at: int, channels: Sequence[int], count: int, starts: dict[int, int]) -> Array:
    """The heads of indexes of `count` messages from byte `at` on; the place of their entries (channels, count, 2)."""
    length = ENTRY * count
    stride = INDEX_HEAD.size + length
    entries = np.ndarray((len(channels), count, 2), "<i8", memory, at + INDEX_HEAD.size, (stride, ENTRY, 8))
    opcode, after, buffer = int(Opcode.MESSAGE_INDEX), INDEX_HEAD.size - RECORD.size + length, memory.data
    for channel in channels:
        INDEX_HEAD.pack_into(buffer, at, opcode, after, channel, length)
        starts[channel] = at
        at += stride
    return entries


def _written(records: Iterable[McapRecord]) -> bytes:
    builder = RecordBuilder()
    for record in records:
        record.write(builder)
    return _taken(builder)


def _taken(builder: RecordBuilder) -> bytes:
    return builder.end()  # type: ignore[no-untyped-call]
