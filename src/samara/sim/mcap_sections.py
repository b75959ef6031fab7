"""The three kinds of bytes an MCAP recording is made of: its opening, a chunk, and its closing.

Every record but Message and MessageIndex is written by the `mcap` library's own classes; those two come as arrays, for
speed, between a head and a length that the library writes.
"""

import mimetypes
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
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
    Chunk,
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

from samara.sim.record_layout import Array

MAGIC = MCAP0_MAGIC
COMPRESS: dict[str, Any] = {"": bytes, "lz4": lz4.frame.compress, "zstd": zstandard.compress}
DECOMPRESS: dict[str, Any] = {"": bytes, "lz4": lz4.frame.decompress, "zstd": zstandard.decompress}


class Piece(NamedTuple):
    """Messages of one channel at their times [µs], as bytes (m, size)."""

    channel: int
    times_us: Array
    block: Array


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
    start = builder.count
    index = _write_chunk(builder, _written([*schemas, *channels]), start, 0, 0, "")
    return Opening(_taken(builder), tuple(schemas), tuple(channels), tuple(attached), tuple(named), index)


def chunk(pieces: Sequence[Piece], offset: int, compression: str) -> tuple[bytes, ChunkIndex]:
    """A chunk that will stand at byte `offset`, followed by an index of its messages for each channel."""
    begin_us = min(int(piece.times_us[0]) for piece in pieces)
    end_us = max(int(piece.times_us[-1]) for piece in pieces)
    builder = RecordBuilder()
    records = b"".join(piece.block.data for piece in pieces)
    index = _write_chunk(builder, records, offset, 1000 * begin_us, 1000 * end_us, compression)
    entries: dict[int, list[Array]] = {}
    start = 0
    for channel, times_us, block in pieces:
        count, size = block.shape
        entry = np.empty((count, 2), "<i8")
        entry[:, 0] = times_us * 1000
        entry[:, 1] = np.arange(start, start + block.size, size)
        entries.setdefault(channel, []).append(entry)
        start += block.size
    for channel, parts in entries.items():
        index.message_index_offsets[channel] = offset + builder.count
        _write_message_index(builder, channel, parts)
    index.message_index_length = builder.count - index.chunk_length
    return _taken(builder), index


def closing(opened: Opening, chunks: Sequence[ChunkIndex], sent: Mapping[int, int], offset: int) -> bytes:
    """The end of the data at byte `offset`, then the summary that lets a reader find everything, and the footer."""
    timed = [index for index in chunks if index.message_index_offsets]
    statistics = Statistics(
        attachment_count=len(opened.attachments),
        channel_count=len(opened.channels),
        channel_message_counts=dict(sent),
        chunk_count=1 + len(chunks),
        message_count=sum(sent.values()),
        message_end_time=max((index.message_end_time for index in timed), default=0),
        message_start_time=min((index.message_start_time for index in timed), default=0),
        metadata_count=len(opened.metadata),
        schema_count=len(opened.schemas),
    )
    # The CRC of the whole data section is left out, as the library's writer leaves it out: the chunks have theirs.
    end = _written([DataEnd(0)])
    start = offset + len(end)
    builder = RecordBuilder()
    offsets = []
    groups: dict[Opcode, Iterable[McapRecord]] = {
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
            record.write(builder)
        if builder.count > begin:
            offsets.append(SummaryOffset(opcode, start + begin, builder.count - begin))
    offsets_start = start + builder.count
    for record in offsets:
        record.write(builder)
    Footer(start, offsets_start, 0).write(builder)
    summary = _taken(builder)[:-4]
    return end + summary + struct.pack("<I", zlib.crc32(summary)) + MAGIC


def _write_chunk(
    builder: RecordBuilder, records: bytes, offset: int, begin_ns: int, end_ns: int, compression: str
) -> ChunkIndex:
    data = COMPRESS[compression](records)
    before = builder.count
    Chunk(
        compression=compression,
        data=data,
        message_end_time=end_ns,
        message_start_time=begin_ns,
        uncompressed_crc=zlib.crc32(records),
        uncompressed_size=len(records),
    ).write(builder)
    return ChunkIndex(
        chunk_length=builder.count - before,
        chunk_start_offset=offset,
        compression=compression,
        compressed_size=len(data),
        message_end_time=end_ns,
        message_index_length=0,
        message_index_offsets={},
        message_start_time=begin_ns,
        uncompressed_size=len(records),
    )


def _write_message_index(builder: RecordBuilder, channel: int, parts: Sequence[Array]) -> None:
    """Time and place of each message, in the order of their times."""
    entries = parts[0]
    if len(parts) > 1:
        together = np.concatenate(parts)
        entries = together[np.argsort(together[:, 0], kind="stable")]
    builder.start_record(Opcode.MESSAGE_INDEX)
    builder.write2(channel)
    builder.write4(entries.nbytes)
    builder.write(entries.data)
    builder.finish_record()  # type: ignore[no-untyped-call]


def _written(records: Iterable[McapRecord]) -> bytes:
    builder = RecordBuilder()
    for record in records:
        record.write(builder)
    return _taken(builder)


def _taken(builder: RecordBuilder) -> bytes:
    return builder.end()  # type: ignore[no-untyped-call]
