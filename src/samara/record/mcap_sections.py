"""The bytes an MCAP recording begins and ends with, and the head of a chunk.

Every record is written by the `mcap` library's own classes but for those that are many: see `chunk.py`.
"""

import mimetypes
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import lz4.frame  # type: ignore[import-untyped]
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

Buffer = bytes | memoryview

MAGIC = MCAP0_MAGIC
RECORD = struct.Struct("<BQ")  # opcode and length
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


class Opening(NamedTuple):
    """The bytes a file begins with, and what its summary will say of them."""

    data: bytes
    schemas: tuple[Schema, ...]
    channels: tuple[Channel, ...]
    attachments: tuple[AttachmentIndex, ...]
    metadata: tuple[MetadataIndex, ...]
    chunk: "Indexed"


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
    told = declared([*schemas, *channels], builder.count)
    builder.write(told.data)
    return Opening(_taken(builder), tuple(schemas), tuple(channels), tuple(attached), tuple(named), told.told)


class Declared(NamedTuple):
    """A chunk without messages: its bytes, and what the summary will say of it."""

    data: bytes
    told: "Indexed"


def declared(records: Sequence[McapRecord], offset: int) -> Declared:
    """Schemas and channels in a chunk that will stand at byte `offset`."""
    data = written(records)
    head, index = chunk_head([data], [data], offset, 0, 0, "")
    return Declared(head + data, indexed(index, b""))


class Indexed(NamedTuple):
    """What the summary will say of a chunk with messages: its record as bytes, a tenth of what it is as a dict."""

    record: bytes
    begin_ns: int
    end_ns: int


def indexed(index: ChunkIndex, starts: bytes) -> Indexed:
    """A chunk's index as it is kept until the file is closed; `starts` has each channel and where its index is"""
    record = written([index])
    opcode, length = RECORD.unpack_from(record)
    before = (
        RECORD.size + 4 * 8
    )  # two times, where the chunk begins, and its length; then the bytes of the starts, none so far
    parts = record[RECORD.size : before], struct.pack("<I", len(starts)), starts, record[before + 4 :]
    whole = RECORD.pack(opcode, length + len(starts)) + b"".join(parts)
    return Indexed(whole, index.message_start_time, index.message_end_time)


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
    end = written([DataEnd(0)])
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


def chunk_head(
    records: Sequence[Buffer], data: Sequence[Buffer], offset: int, begin_ns: int, end_ns: int, compression: str
) -> tuple[bytes, ChunkIndex]:
    """What stands before the data of a chunk, and what the summary will say of it."""
    name, crc = compression.encode(), 0
    for part in records:
        crc = zlib.crc32(part, crc)
    size, length = sum(map(len, records)), sum(map(len, data))
    about = struct.pack(f"<QQQII{len(name)}sQ", begin_ns, end_ns, size, crc, len(name), name, length)
    head = RECORD.pack(Opcode.CHUNK, len(about) + length) + about
    index = ChunkIndex(
        chunk_length=len(head) + length,
        chunk_start_offset=offset,
        compression=compression,
        compressed_size=length,
        message_end_time=end_ns,
        message_index_length=0,
        message_index_offsets={},
        message_start_time=begin_ns,
        uncompressed_size=size,
    )
    return head, index


def written(records: Iterable[McapRecord]) -> bytes:
    """Records one after the other."""
    builder = RecordBuilder()
    for record in records:
        record.write(builder)
    return _taken(builder)


def _taken(builder: RecordBuilder) -> bytes:
    return builder.end()  # type: ignore[no-untyped-call]
