"""A chunk of a recording: messages and their indexes, which are many, as arrays in one block of memory.

The memory is kept: new pages from the system take longer than what is written to them. And where the same streams have as many
messages as in the last chunk, their records and indexes stand there already; only their numbers are written.
"""

import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from mcap.opcode import Opcode
from mcap.records import MessageIndex

from samara.core.types import Array
from samara.record.fleet_messages import FleetLayout, FleetMessages
from samara.record.image_stream import RasterLayout, RasterMessages
from samara.record.layout import Layout, Messages, Times
from samara.record.mcap_sections import COMPRESS, RECORD, Buffer, Indexed, chunk_head, indexed, written

INDEX_HEAD = struct.Struct("<BQHI")  # opcode, length, channel, bytes of the entries that follow
ENTRY = 16  # time and place of a message, eight bytes each
STARTS = np.dtype([("channel", "<u2"), ("start", "<u8")])  # where a channel's index begins


class Batch(NamedTuple):
    """Messages that are packed as one array: layouts of equal places, each with a message at all the times.

    Layouts and rows come in parts: rows (m, width, drones) for as many layouts as there are drones; or in one, of a
    fleet's layout.
    """

    layouts: Sequence[Sequence[Layout | RasterLayout]] | Sequence[Sequence[FleetLayout]]
    times: Times
    rows: Sequence[Array]

    @property
    def shape(self) -> tuple[Any, ...]:
        """What its records and indexes depend on: the numbers in them may differ."""
        return (*map(id, self.layouts), len(self.times.us))


class Line(NamedTuple):
    """A message that is alone in its length."""

    channel: int
    time_ns: int
    record: bytes


class ChunkMemory:
    """What chunks are put together in, one after the other."""

    def __init__(self) -> None:
        self._memory: Array = np.empty(0, np.uint8)
        self._shape: list[tuple[Any, ...]] = []
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
        drones = sum(map(len, layouts))
        size += drones * (INDEX_HEAD.size + len(times.us) * (layouts[0][0].size + ENTRY))
    return size


class Arrangement:
    """The messages of some batches in memory, then for each channel an index of them in the order of their times."""

    def __init__(self, batches: Sequence[Batch], memory: Array) -> None:
        self.channels = [np.array([own.channel for part in batch.layouts for own in part]) for batch in batches]
        self.messages: list[Messages | FleetMessages | RasterMessages] = []
        at = 0
        for batch in batches:
            self.messages.append(_messages(list(chain.from_iterable(batch.layouts)), len(batch.times.us), memory[at:]))
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


def _messages(layouts: list[Any], count: int, memory: Array) -> Messages | FleetMessages | RasterMessages:
    if isinstance(layouts[0], FleetLayout):
        return FleetMessages(layouts[0], count, memory)
    if isinstance(layouts[0], RasterLayout):
        return RasterMessages(layouts, count, memory)
    return Messages(layouts, count, memory)


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
