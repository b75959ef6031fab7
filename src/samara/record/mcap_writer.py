"""Write the sections of an MCAP file: opening, chunks of messages with their indexes, and summary.

Records of which there are few are written by the `mcap` library's classes. Messages and their indexes are arrays in one block
of memory, which is reused: where the same streams have as many messages as in the last chunk, only their numbers are written.
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
from samara.record.layout import Layout, Messages, Times

Buffer = bytes | memoryview

MAGIC = MCAP0_MAGIC
RECORD = struct.Struct("<BQ")  # opcode and length
COMPRESS: dict[str, Callable[[bytes], bytes]] = {"": bytes, "lz4": lz4.frame.compress, "zstd": zstandard.compress}
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


INDEX_HEAD = struct.Struct("<BQHI")  # opcode, length, channel, bytes of the entries that follow
ENTRY = 16  # time and place of a message, eight bytes each
STARTS = np.dtype([("channel", "<u2"), ("start", "<u8")])  # where a channel's index begins


class Batch(NamedTuple):
    """Messages that are packed as one array: layouts of equal places, each with a message at all the times.

    `rows` is (m, width, drones) for as many layouts as there are drones, or for the single layout of a fleet.
    """

    layouts: Sequence[Layout]
    times: Times
    rows: Array

    @property
    def shape(self) -> tuple[int, int]:
        """What its records and indexes depend on: the numbers in them may differ."""
        return id(self.layouts), len(self.times.us)


class Line(NamedTuple):
    """A message that is alone in its length."""

    channel: int
    time_ns: int
    record: bytes


class ChunkMemory:
    """What chunks are put together in, one after the other."""

    def __init__(self) -> None:
        self._memory: Array = np.empty(0, np.uint8)
        self._shape: list[tuple[int, int]] = []
        self._arranged: Arrangement | None = None

    @property
    def size(self) -> int:
        """Bytes that are held"""
        return len(self._memory)

    def arranged(self, batches: Sequence[Batch]) -> "Arrangement":
        """The records and indexes of all batches; the numbers in them are those of some chunk before."""
        shape = [batch.shape for batch in batches]
        if self._arranged is None or shape != self._shape:
            self._arranged = None  # until all of it stands
            size = _size(batches)
            if size > len(self._memory):
                self._memory = np.empty(size + size // 8, np.uint8)
            self._arranged, self._shape = Arrangement(batches, self._memory[:size]), shape
        return self._arranged


def _size(batches: Iterable[Batch]) -> int:
    """Bytes of all messages with their indexes."""
    size = 0
    for layouts, times, _ in batches:
        size += len(layouts) * (INDEX_HEAD.size + len(times.us) * (layouts[0].size + ENTRY))
    return size


class Arrangement:
    """The messages of some batches in memory, then for each channel an index of them in the order of their times."""

    def __init__(self, batches: Sequence[Batch], memory: Array) -> None:
        self.channels = [np.array([layout.channel for layout in batch.layouts]) for batch in batches]
        self.messages: list[Messages] = []
        at = 0
        for batch in batches:
            self.messages.append(Messages(batch.layouts, len(batch.times.us), memory[at:]))
            at += self.messages[-1].length
        self.records = memory[:at]
        self._times: list[
            tuple[Array, int]
        ] = []  # of entries in the order of their messages, and whose times they have
        self._sorted: list[
            tuple[Array, Array, list[int]]
        ] = []  # of a channel with messages all over: entries and places
        uses = Counter(chain.from_iterable(own.tolist() for own in self.channels))
        scattered: dict[int, list[tuple[int, Array]]] = {}
        starts, place, begin = [], 0, at
        for number, (channels, own) in enumerate(zip(self.channels, self.messages, strict=True)):
            shape = len(channels), own.count
            places = np.arange(place, place + own.length, own.length // (shape[0] * shape[1])).reshape(shape)
            place += own.length
            if max(map(uses.__getitem__, channels.tolist())) == 1:
                entries, heads = _write_heads(memory, at, channels.tolist(), own.count)
                entries[..., 1] = places
                self._times.append((entries[..., 0], number))
                starts += [(channel, start - begin) for channel, start in heads]
                at += shape[0] * (INDEX_HEAD.size + ENTRY * shape[1])
            else:
                for channel, mine in zip(channels.tolist(), places, strict=True):
                    scattered.setdefault(channel, []).append((number, mine))
        self.indexes, self.starts = memory[begin:at], np.array(starts, STARTS)
        starts, begin = [], at
        for channel, parts in scattered.items():
            mine = np.concatenate([places for _, places in parts])
            entries, heads = _write_heads(memory, at, [channel], len(mine))
            self._sorted.append((entries[0], mine, [number for number, _ in parts]))
            starts += [(channel, start - begin) for channel, start in heads]
            at += INDEX_HEAD.size + ENTRY * len(mine)
        self.sorted_indexes, self.sorted_starts = memory[begin:at], np.array(starts, STARTS)

    def fill(self, batches: Sequence[Batch], sent: Array) -> None:
        """Writes the numbers of all messages, and the times of the indexes; `sent` goes on counting those of each channel."""
        for batch, own, channels in zip(batches, self.messages, self.channels, strict=True):
            turns = own.count * np.arange(len(channels)) if channels[0] == channels[-1] else 0  # /tf is of all drones
            own.fill(sent[channels] + turns, batch.times, batch.rows)
            np.add.at(sent, channels, own.count)
        for column, number in self._times:
            column[...] = batches[number].times.ns
        for entries, places, numbers in self._sorted:
            times_ns = np.concatenate([batches[number].times.ns for number in numbers])
            order = np.argsort(times_ns, kind="stable")
            entries[:, 0], entries[:, 1] = times_ns[order], places[order]


def chunk(
    own: Arrangement, batches: Sequence[Batch], lines: Sequence[Line], offset: int, compression: str
) -> tuple[list[Buffer], Indexed]:
    """The bytes of a chunk that will stand at byte `offset`, with its indexes, and what the summary will say of it."""
    spans = [(batch.times.ns[0], batch.times.ns[-1]) for batch in batches] + [(line.time_ns,) * 2 for line in lines]
    begin_ns, end_ns = int(min(first for first, _ in spans)), int(max(last for _, last in spans))
    records: list[Buffer] = [own.records.data, b"".join(line.record for line in lines)]
    data: list[Buffer] = [COMPRESS[compression](b"".join(records))] if compression else records
    head, index = chunk_head(records, data, offset, begin_ns, end_ns, compression)
    single, repeated = _line_indexes(lines, len(own.records))
    indexes = (own.indexes.data, single, own.sorted_indexes.data, repeated)
    known = (own.starts, _starts(single), own.sorted_starts, _starts(repeated))
    starts, at = [], offset + index.chunk_length
    for part, buffer in zip(known, indexes, strict=True):
        starts.append(part.copy())
        starts[-1]["start"] += np.uint64(at)
        at += len(buffer)
    index.message_index_length = at - offset - index.chunk_length
    return [head, *data, *indexes], indexed(index, np.concatenate(starts).tobytes())


def _write_heads(memory: Array, at: int, channels: Sequence[int], count: int) -> tuple[Array, list[tuple[int, int]]]:
    """The heads of indexes of `count` messages from byte `at` on: the place of their entries (channels, count, 2), and where
    each begins."""
    length = ENTRY * count
    stride = INDEX_HEAD.size + length
    entries = np.ndarray((len(channels), count, 2), "<i8", memory, at + INDEX_HEAD.size, (stride, ENTRY, 8))
    opcode, after, buffer = int(Opcode.MESSAGE_INDEX), INDEX_HEAD.size - RECORD.size + length, memory.data
    heads = [(channel, at + k * stride) for k, channel in enumerate(channels)]
    for channel, start in heads:
        INDEX_HEAD.pack_into(buffer, start, opcode, after, channel, length)
    return entries, heads


def _line_indexes(lines: Sequence[Line], place: int) -> tuple[bytes, bytes]:
    """Indexes of lines, from byte `place` of the records on: of channels that have one line, and of those that have more"""
    entries: dict[int, list[tuple[int, int]]] = {}
    for line in lines:
        entries.setdefault(line.channel, []).append((line.time_ns, place))
        place += len(line.record)
    parts: tuple[list[MessageIndex], list[MessageIndex]] = [], []
    for channel, own in entries.items():
        parts[len(own) > 1].append(MessageIndex(channel, sorted(own, key=lambda entry: entry[0])))
    return written(parts[0]), written(parts[1])


def _starts(indexes: bytes) -> Array:
    """Where each of some indexes in a row begins"""
    found, at = [], 0
    while at < len(indexes):
        _, after, channel, _ = INDEX_HEAD.unpack_from(indexes, at)
        found.append((channel, at))
        at += RECORD.size + after
    return np.array(found, STARTS)
