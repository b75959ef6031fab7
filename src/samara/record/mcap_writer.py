"""Write the sections of an MCAP file: opening, chunks of messages with their indexes, and summary.

Rare records are written by the `mcap` library's classes. Messages and their indexes are arrays in one reused block of memory:
if the streams have as many messages as in the last chunk, only the numbers are rewritten.
"""

import mimetypes
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

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
    MessageIndex,
    Metadata,
    MetadataIndex,
    Schema,
    Statistics,
    SummaryOffset,
)
from mcap.writer import MCAP0_MAGIC

from samara.core.types import Array
from samara.record.layout import MessageArray, MessageTimes, RecordLayout

Buffer = bytes | memoryview

MAGIC = MCAP0_MAGIC
RECORD = struct.Struct("<BQ")  # opcode and length
COMPRESS: dict[str, Callable[[bytes], bytes]] = {"": bytes, "lz4": lz4.frame.compress, "zstd": zstandard.compress}
COMPRESSION_LIMIT, ALWAYS_ALLOWED_BYTES = (
    255,
    1 << 24,
)  # lz4's highest ratio; decompressed bytes that are always allowed, for zstd


def is_impossible_size(compressed_size: int, size: int) -> bool:
    """Whether the claimed size is impossible for that many compressed bytes; a chunk of numbers shrinks tenfold at best."""
    return size > COMPRESSION_LIMIT * compressed_size + ALWAYS_ALLOWED_BYTES


def decompress(data: bytes, compression: str, size: int) -> bytes:
    """Decompress at most `size` + 1 bytes; a result longer than `size` shows that the claimed size is wrong."""
    if compression == "lz4":
        return bytes(lz4.frame.LZ4FrameDecompressor().decompress(data, max_length=size + 1))
    if compression == "zstd":
        with zstandard.ZstdDecompressor().stream_reader(data) as stream:
            return stream.read(size + 1)
    return data


class Opening(NamedTuple):
    """The first bytes of a file, and the records that its summary repeats."""

    data: bytes
    schemas: tuple[Schema, ...]
    channels: tuple[Channel, ...]
    attachments: tuple[AttachmentIndex, ...]
    metadata: tuple[MetadataIndex, ...]
    chunk: "ChunkIndexRecord"


def build_opening(
    library: str,
    metadata: Mapping[str, Mapping[str, str]],
    attachments: Mapping[str, bytes],
    schemas: Sequence[Schema],
    channels: Sequence[Channel],
) -> Opening:
    """Build header, metadata, attachments, and a chunk with schemas and channels only, whose CRC protects them."""
    builder = RecordBuilder()
    builder.write(MAGIC)
    Header("", library).write(builder)
    metadata_indexes, attachment_indexes = [], []
    for name, entries in metadata.items():
        start = builder.count
        Metadata(name, dict(entries)).write(builder)
        metadata_indexes.append(MetadataIndex(start, builder.count - start, name))
    for name, data in attachments.items():
        start = builder.count
        media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
        Attachment(create_time=0, log_time=0, name=name, media_type=media_type, data=data).write(builder)
        attachment_indexes.append(AttachmentIndex(start, builder.count - start, 0, 0, len(data), name, media_type))
    declarations = build_declaration_chunk([*schemas, *channels], builder.count)
    builder.write(declarations.data)
    return Opening(
        _take_bytes(builder),
        tuple(schemas),
        tuple(channels),
        tuple(attachment_indexes),
        tuple(metadata_indexes),
        declarations.index_record,
    )


class DeclarationChunk(NamedTuple):
    """A chunk without messages: its bytes, and its index record."""

    data: bytes
    index_record: "ChunkIndexRecord"


def build_declaration_chunk(records: Sequence[McapRecord], offset: int) -> DeclarationChunk:
    """Build a chunk with schemas and channels for byte `offset` of the file."""
    data = serialise_records(records)
    head, index = build_chunk_header([data], [data], offset, 0, 0, "")
    return DeclarationChunk(head + data, serialise_chunk_index(index, b""))


class ChunkIndexRecord(NamedTuple):
    """The serialised index record of a chunk, a tenth of the size of a dict, and the times of its messages."""

    record: bytes
    begin_ns: int
    end_ns: int


def serialise_chunk_index(index: ChunkIndex, starts: bytes) -> ChunkIndexRecord:
    """Serialise a chunk index; `starts` holds the channel and offset of each message index."""
    record = serialise_records([index])
    opcode, length = RECORD.unpack_from(record)
    # two times, the chunk's offset and its length; then the length of the starts, which is 0 in `record`
    starts_offset = RECORD.size + 4 * 8
    parts = record[RECORD.size : starts_offset], struct.pack("<I", len(starts)), starts, record[starts_offset + 4 :]
    full_record = RECORD.pack(opcode, length + len(starts)) + b"".join(parts)
    return ChunkIndexRecord(full_record, index.message_start_time, index.message_end_time)


def build_summary(
    file_opening: Opening, chunks: Sequence[ChunkIndexRecord], message_counts: Mapping[int, int], offset: int
) -> bytes:
    """Build the end of the data section at byte `offset`, the summary, and the footer."""
    statistics = Statistics(
        attachment_count=len(file_opening.attachments),
        channel_count=len(file_opening.channels),
        channel_message_counts=dict(message_counts),
        chunk_count=1 + len(chunks),
        message_count=sum(message_counts.values()),
        message_end_time=max((index.end_ns for index in chunks), default=0),
        message_start_time=min((index.begin_ns for index in chunks), default=0),
        metadata_count=len(file_opening.metadata),
        schema_count=len(file_opening.schemas),
    )
    # The CRC of the data section is left out, as in the library's writer: the chunks have theirs.
    end = serialise_records([DataEnd(0)])
    start = offset + len(end)
    builder = RecordBuilder()
    offsets = []
    groups: dict[Opcode, Iterable[McapRecord | ChunkIndexRecord]] = {
        Opcode.SCHEMA: file_opening.schemas,
        Opcode.CHANNEL: file_opening.channels,
        Opcode.STATISTICS: [statistics],
        Opcode.CHUNK_INDEX: [file_opening.chunk, *chunks],
        Opcode.ATTACHMENT_INDEX: file_opening.attachments,
        Opcode.METADATA_INDEX: file_opening.metadata,
    }
    for opcode, records in groups.items():
        begin = builder.count
        for record in records:
            if isinstance(record, ChunkIndexRecord):
                builder.write(record.record)
            else:
                record.write(builder)
        if builder.count > begin:
            offsets.append(SummaryOffset(opcode, start + begin, builder.count - begin))
    offsets_start = start + builder.count
    for record in offsets:
        record.write(builder)
    Footer(start, offsets_start, 0).write(builder)
    summary = _take_bytes(builder)[:-4]
    return end + summary + struct.pack("<I", zlib.crc32(summary)) + MAGIC


def build_chunk_header(
    records: Sequence[Buffer], data: Sequence[Buffer], offset: int, begin_ns: int, end_ns: int, compression: str
) -> tuple[bytes, ChunkIndex]:
    """Build the header of a chunk, and its index."""
    name, crc = compression.encode(), 0
    for part in records:
        crc = zlib.crc32(part, crc)
    size, length = sum(map(len, records)), sum(map(len, data))
    chunk_fields = struct.pack(f"<QQQII{len(name)}sQ", begin_ns, end_ns, size, crc, len(name), name, length)
    head = RECORD.pack(Opcode.CHUNK, len(chunk_fields) + length) + chunk_fields
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


def serialise_records(records: Iterable[McapRecord]) -> bytes:
    """Serialise records."""
    builder = RecordBuilder()
    for record in records:
        record.write(builder)
    return _take_bytes(builder)


def _take_bytes(builder: RecordBuilder) -> bytes:
    return builder.end()  # type: ignore[no-untyped-call]


INDEX_HEAD = struct.Struct("<BQHI")  # opcode, length, channel, bytes of the entries that follow
INDEX_ENTRY_BYTES = 16  # time and offset of a message, eight bytes each
STARTS = np.dtype([("channel", "<u2"), ("start", "<u8")])  # offset of a channel's message index


class MessageBatch(NamedTuple):
    """Messages that are packed as one array: layouts with equal offsets, each with a message at all the times.

    `rows` is (m, width, drones) for as many layouts as there are drones, or for the single layout of a fleet.
    """

    layouts: Sequence[RecordLayout]
    times: MessageTimes
    rows: Array

    @property
    def shape(self) -> tuple[int, int]:
        """The properties that determine its records and indexes, apart from the numbers."""
        return id(self.layouts), len(self.times.us)


class SingleMessage(NamedTuple):
    """A single message of variable length."""

    channel: int
    time_ns: int
    record: bytes


class ChunkBuffer:
    """The reused memory in which chunks are assembled."""

    def __init__(self) -> None:
        self._memory: Array = np.empty(0, np.uint8)
        self._shape: list[tuple[int, int]] = []
        self._arrangement: Arrangement | None = None

    @property
    def size(self) -> int:
        """Allocated bytes."""
        return len(self._memory)

    def arrange(self, batches: Sequence[MessageBatch]) -> "Arrangement":
        """Return the records and indexes of all batches; their numbers are those of an earlier chunk until `fill`."""
        shape = [batch.shape for batch in batches]
        if self._arrangement is None or shape != self._shape:
            self._arrangement = None  # in case the construction fails
            size = _required_bytes(batches)
            if size > len(self._memory):
                self._memory = np.empty(size + size // 8, np.uint8)
            self._arrangement, self._shape = Arrangement(batches, self._memory[:size]), shape
        return self._arrangement


def _required_bytes(batches: Iterable[MessageBatch]) -> int:
    """Bytes of all messages with their indexes."""
    size = 0
    for layouts, times, _ in batches:
        size += len(layouts) * (INDEX_HEAD.size + len(times.us) * (layouts[0].size + INDEX_ENTRY_BYTES))
    return size


class Arrangement:
    """The messages of the batches in memory, then for each channel their index in the order of time."""

    def __init__(self, batches: Sequence[MessageBatch], memory: Array) -> None:
        self.channels = [np.array([layout.channel for layout in batch.layouts]) for batch in batches]
        self.messages: list[MessageArray] = []
        end = 0
        for batch in batches:
            self.messages.append(MessageArray(batch.layouts, len(batch.times.us), memory[end:]))
            end += self.messages[-1].length
        self.records = memory[:end]
        # entries in the order of their messages, and the batch whose times they have
        self._times: list[tuple[Array, int]] = []
        # of a channel with messages in several batches: entries, message offsets and batches
        self._sorted: list[tuple[Array, Array, list[int]]] = []
        batch_counts = Counter(chain.from_iterable(messages.tolist() for messages in self.channels))
        scattered: dict[int, list[tuple[int, Array]]] = {}
        starts, offset, index_start = [], 0, end
        for batch_index, (channels, messages) in enumerate(zip(self.channels, self.messages, strict=True)):
            shape = len(channels), messages.count
            offsets = np.arange(offset, offset + messages.length, messages.length // (shape[0] * shape[1])).reshape(
                shape
            )
            offset += messages.length
            if max(map(batch_counts.__getitem__, channels.tolist())) == 1:
                entries, heads = _write_heads(memory, end, channels.tolist(), messages.count)
                entries[..., 1] = offsets
                self._times.append((entries[..., 0], batch_index))
                starts += [(channel, start - index_start) for channel, start in heads]
                end += shape[0] * (INDEX_HEAD.size + INDEX_ENTRY_BYTES * shape[1])
            else:
                for channel, channel_offsets in zip(channels.tolist(), offsets, strict=True):
                    scattered.setdefault(channel, []).append((batch_index, channel_offsets))
        self.indexes, self.starts = memory[index_start:end], np.array(starts, STARTS)
        starts, index_start = [], end
        for channel, parts in scattered.items():
            channel_offsets = np.concatenate([offsets for _, offsets in parts])
            entries, heads = _write_heads(memory, end, [channel], len(channel_offsets))
            self._sorted.append((entries[0], channel_offsets, [batch_index for batch_index, _ in parts]))
            starts += [(channel, start - index_start) for channel, start in heads]
            end += INDEX_HEAD.size + INDEX_ENTRY_BYTES * len(channel_offsets)
        self.sorted_indexes, self.sorted_starts = memory[index_start:end], np.array(starts, STARTS)

    def fill(self, batches: Sequence[MessageBatch], sent: Array) -> None:
        """Write the values of all messages and the times of the indexes; count the messages of each channel in `sent`."""
        for batch, messages, channels in zip(batches, self.messages, self.channels, strict=True):
            sequence_offsets = (
                messages.count * np.arange(len(channels)) if channels[0] == channels[-1] else 0
            )  # all drones share /tf
            messages.fill(sent[channels] + sequence_offsets, batch.times, batch.rows)
            np.add.at(sent, channels, messages.count)
        for column, batch_index in self._times:
            column[...] = batches[batch_index].times.ns
        for entries, offsets, batch_indexes in self._sorted:
            times_ns = np.concatenate([batches[batch_index].times.ns for batch_index in batch_indexes])
            order = np.argsort(times_ns, kind="stable")
            entries[:, 0], entries[:, 1] = times_ns[order], offsets[order]


def build_chunk(
    arrangement: Arrangement,
    batches: Sequence[MessageBatch],
    lines: Sequence[SingleMessage],
    offset: int,
    compression: str,
    may_compress: Callable[[int], bool],
) -> tuple[list[Buffer], ChunkIndexRecord]:
    """Return the bytes of a chunk for byte `offset` of the file, with its message indexes, and its index record.

    The chunk is left uncompressed if `may_compress(compressed size)` is false: readers refuse files that expand too much.
    """
    spans = [(batch.times.ns[0], batch.times.ns[-1]) for batch in batches] + [(line.time_ns,) * 2 for line in lines]
    begin_ns, end_ns = int(min(first for first, _ in spans)), int(max(last for _, last in spans))
    records: list[Buffer] = [arrangement.records.data, b"".join(line.record for line in lines)]
    data, compression = _compress(records, compression, may_compress)
    head, index = build_chunk_header(records, data, offset, begin_ns, end_ns, compression)
    single_indexes, repeated_indexes = _single_message_indexes(lines, len(arrangement.records))
    indexes = (arrangement.indexes.data, single_indexes, arrangement.sorted_indexes.data, repeated_indexes)
    index_starts = (
        arrangement.starts,
        _index_starts(single_indexes),
        arrangement.sorted_starts,
        _index_starts(repeated_indexes),
    )
    starts, position = [], offset + index.chunk_length
    for channel_starts, buffer in zip(index_starts, indexes, strict=True):
        starts.append(channel_starts.copy())
        starts[-1]["start"] += np.uint64(position)
        position += len(buffer)
    index.message_index_length = position - offset - index.chunk_length
    return [head, *data, *indexes], serialise_chunk_index(index, np.concatenate(starts).tobytes())


def _compress(records: list[Buffer], compression: str, may_compress: Callable[[int], bool]) -> tuple[list[Buffer], str]:
    """Return the data of a chunk and its compression: lz4, which shrinks less, or none if a reader would refuse the data."""
    size = sum(map(len, records))
    for method in dict.fromkeys((compression, "lz4")) if compression else ():
        data = COMPRESS[method](b"".join(records))
        if may_compress(len(data)) and not is_impossible_size(len(data), size):
            return [data], method
    return records, ""


def _write_heads(
    memory: Array, start_offset: int, channels: Sequence[int], count: int
) -> tuple[Array, list[tuple[int, int]]]:
    """Write the heads of message indexes for `count` messages from byte `start_offset`.

    Return a view of their entries (channels, count, 2), and the channel and offset of each index.
    """
    length = INDEX_ENTRY_BYTES * count
    stride = INDEX_HEAD.size + length
    entries = np.ndarray(
        (len(channels), count, 2), "<i8", memory, start_offset + INDEX_HEAD.size, (stride, INDEX_ENTRY_BYTES, 8)
    )
    opcode, body_length, buffer = int(Opcode.MESSAGE_INDEX), INDEX_HEAD.size - RECORD.size + length, memory.data
    heads = [(channel, start_offset + k * stride) for k, channel in enumerate(channels)]
    for channel, start in heads:
        INDEX_HEAD.pack_into(buffer, start, opcode, body_length, channel, length)
    return entries, heads


def _single_message_indexes(lines: Sequence[SingleMessage], offset: int) -> tuple[bytes, bytes]:
    """Index single messages from byte `offset` of the records: channels with one message, and channels with several."""
    entries: dict[int, list[tuple[int, int]]] = {}
    for line in lines:
        entries.setdefault(line.channel, []).append((line.time_ns, offset))
        offset += len(line.record)
    parts: tuple[list[MessageIndex], list[MessageIndex]] = [], []
    for channel, channel_entries in entries.items():
        parts[len(channel_entries) > 1].append(
            MessageIndex(channel, sorted(channel_entries, key=lambda entry: entry[0]))
        )
    return serialise_records(parts[0]), serialise_records(parts[1])


def _index_starts(indexes: bytes) -> Array:
    """Return the channel and offset of each of consecutive message indexes."""
    starts, position = [], 0
    while position < len(indexes):
        _, body_length, channel, _ = INDEX_HEAD.unpack_from(indexes, position)
        starts.append((channel, position))
        position += RECORD.size + body_length
    return np.array(starts, STARTS)
