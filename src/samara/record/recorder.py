"""Recording a flight: an MCAP file that grows by one whole chunk at a time, and that a crash cannot spoil."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from io import FileIO
from itertools import pairwise
from pathlib import Path
from threading import Condition, Thread
from types import TracebackType
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from samara.core.atomic_files import atomic_write
from samara.core.types import Array
from samara.core.version import __version__
from samara.record.channels import contents_of
from samara.record.fleet_messages import Fleet, Fleets
from samara.record.foxglove import Posed, first_of_each, log_message, slots
from samara.record.layout import Layout, Times, message_record, times_of
from samara.record.mcap_writer import (
    COMPRESS,
    Batch,
    Buffer,
    ChunkMemory,
    Indexed,
    Line,
    Opening,
    chunk,
    closing,
    declared,
    opening,
)
from samara.record.streams import (
    ABOUT,
    FORMAT,
    LEVELS,
    OWN,
    Block,
    LogLine,
    RecordingError,
    Stream,
    checksum,
)

__all__ = ["LogLine", "Recorder", "RecordingError", "Stream"]

DOUBLE = np.dtype(np.float64)
LATEST_US = 1 << 53  # 285 years; in nanoseconds it still fits 64 bits


class Written(NamedTuple):
    """What is whole in the file: bytes, chunks, messages of each channel, the channels as they came, and how many fleets."""

    end: int
    chunks: int
    sent: Array
    channels: tuple[int, ...]
    fleets: int


class Part(NamedTuple):
    """Neighbouring drones of a block whose messages have their numbers in equal places, and the layouts of these messages.

    The rows of a `fleet` are written in one message for all drones; only their transforms are written for each.
    """

    drones: slice
    topics: tuple[str, ...]
    channels: Array
    posed: Posed | None
    layouts: list[Layout]
    drawn: list[list[Layout]]
    fleet: Fleet | None = None

    def batches(self, times: Times, rows: Array, slot: int) -> Iterator[Batch]:
        """Yield the rows unless a fleet has them, then the poses to be drawn; the last row before was in `slot`."""
        if self.fleet is None:
            stamped = times_of(times.us, stamped=True) if self.layouts[0].places.raster else times
            yield Batch(self.layouts, stamped, rows)
        if self.posed:
            first = first_of_each(slots(times.us), slot)
            if len(first):
                stamped, poses = times_of(times.us[first], stamped=True), rows[np.ix_(first, self.posed.columns)]
                for layouts in self.drawn:
                    yield Batch(layouts, stamped, poses)


class Recorder:
    """Writes streams of numbers and lines of log to an MCAP file that Foxglove and `read_recording` open.

    Each `write` adds one chunk, whole and handed to the system when it returns: a process killed at any moment leaves a
    file that can be read up to its last chunk. What the disk refuses ends the recording and not the flight: `problem`
    then holds one sentence, the file is cut back to its last whole chunk, and further writes do nothing.
    """

    def __init__(
        self,
        path: str | Path,
        streams: Sequence[Stream],
        metadata: Mapping[str, str] | None = None,
        attachments: Mapping[str, bytes] | None = None,
        *,
        overwrite: bool = False,
        compression: str | None = None,
        scene: bytes = b"",
    ) -> None:
        """`scene` is a foxglove.SceneUpdate that says how the drones look: the first message of the first chunk.

        Chunks are compressed by "lz4", by "zstd" or not at all (""); None is zstd where there are pictures, which are worth it.
        """
        self.path = Path(path)
        self.problem = ""
        if not overwrite and (self.path.exists() or self.path.is_symlink()):
            raise RecordingError(f"{path}: exists; expected a new file, or overwrite=True")
        if compression is None:
            compression = "zstd" if any(stream.raster for stream in streams) else ""
        if compression not in COMPRESS:
            raise RecordingError(f"compression {compression!r}: expected one of {', '.join(map(repr, COMPRESS))}")
        for what, entries in (("metadata", metadata or {}), ("attachment", attachments or {})):
            _require_named(what, entries, str if what == "metadata" else bytes)
        self._compression = compression
        self._contents = contents_of(streams, bool(scene))
        self._scene = scene
        self._tracks = self._contents.tracks
        about = {"format": str(FORMAT), "samara": __version__, "metadata_crc32": checksum(metadata or {})}
        self._opened = opening(
            f"samara {__version__}",
            {ABOUT: about, OWN: metadata or {}},
            attachments or {},
            self._contents.schemas,
            self._contents.channels,
        )
        # The house writes a file beside its place and renames it when it is done. A recording must be there when the
        # process is killed, so only its opening is written that way; it then grows in its place, chunk by chunk.
        with atomic_write(self.path) as temporary:
            temporary.write_bytes(self._opened.data)
        begin, self._opened = len(self._opened.data), self._opened._replace(data=b"")
        self._file: FileIO | None = _reopened(self.path)
        channels = len(self._contents.channels) + 1
        self._written = Written(begin, 0, np.zeros(channels, np.int64), (), 0)
        self._chunks: list[Indexed] = []
        self._fleets = Fleets(self._contents.schemas, self._contents.channels)
        self._memory = ChunkMemory()
        self._parts: dict[tuple[str, ...], list[Part]] = {}  # by the topics of a block
        self._single: dict[tuple[str, ...], list[Part]] = {}  # the same, with one stream in each part
        self._latest_us = np.zeros(channels, np.int64)  # of each stream, by the number of its channel
        self._slot = np.full(channels, -1)

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def write(self, blocks: Mapping[str, tuple[ArrayLike, ArrayLike]], logs: Sequence[LogLine] = ()) -> None:
        """One chunk: for each topic whole microseconds (m,) that do not fall, and float64 rows (m, number of fields)."""
        tables = [(topic, *self._checked(topic, *block)) for topic, block in blocks.items()]
        self.write_blocks([Block((topic,), times_us, rows[:, :, None]) for topic, times_us, rows in tables], logs)

    def write_blocks(self, blocks: Sequence[Block], logs: Sequence[LogLine] = ()) -> None:
        """One chunk, of blocks of many drones; each topic is in one of them at most."""
        batches, ends = self._batches(blocks)
        for line in logs:
            _require_line(line)
        if self._file is None:
            raise RecordingError(f"{self.path}: the recording is closed")
        if self.problem or not (batches or logs):
            return
        before = self._written
        new = self._fleets.all[before.fleets :]
        sent = np.concatenate([before.sent, np.zeros(len(new), np.int64)])
        lines = self._lines(logs, sent)
        arranged = self._memory.arranged(batches)
        arranged.fill(batches, sent)
        told = [declared([record for own in new for record in (own.schema, own.channel)], before.end)] if new else []
        begin = before.end + sum(len(own.data) for own in told)
        data, index = chunk(arranged, batches, lines, begin, self._compression)
        channels = before.channels
        if len(channels) < np.count_nonzero(sent):
            now = (*(line.channel for line in lines), *(k for own in arranged.channels for k in own.tolist()))
            channels = tuple(dict.fromkeys((*channels, *now)))
        data = [*(own.data for own in told), *data]
        if self._append(data):
            same = [
                index._replace(record=own.told.record) for own in told
            ]  # as if of that time: it has none of its own
            self._chunks[before.chunks :] = [*same, index]
            # One assignment, so that Ctrl-C between two instructions cannot leave half of it: `close` believes only this.
            end = before.end + sum(map(len, data))
            self._written = Written(end, len(self._chunks), sent, channels, before.fleets + len(new))
            for numbers, latest in ends:
                self._latest_us[numbers], self._slot[numbers] = latest, slots(latest)

    def close(self) -> None:
        """Write the summary that lets a reader seek, and close the file."""
        if self._file is None:
            return
        end, chunks, sent, channels, fleets = self._written
        if not self.problem:
            counts = dict(zip(channels, sent[list(channels)].tolist(), strict=True))
            data = closing(_with(self._opened, self._fleets.all[:fleets]), self._chunks[:chunks], counts, end)
            if self._append([data]):
                self._cut(end + len(data))
        try:
            self._file.close()
        except OSError as error:  # some file systems tell only now that there was no room
            self._stop(error)
        self._file, self._memory = None, ChunkMemory()

    def _batches(self, blocks: Sequence[Block]) -> tuple[list[Batch], list[tuple[Array, int]]]:
        """Check all blocks; return their messages, and the last time [µs] of each set of channels."""
        batches: list[Batch] = []
        ends: list[tuple[Array, int]] = []
        seen: set[str] = set()
        for block in blocks:
            if block.topics not in self._parts:
                self._parts[block.topics] = self._split(block.topics)
            times_us, rows = self._checked_block(block)
            if not seen.isdisjoint(block.topics):
                raise RecordingError(f"{block.topics[0]}: in two blocks of a chunk; expected each topic in one at most")
            seen.update(block.topics)
            if not len(times_us):
                continue
            parts, times = self._in_one_slot(block.topics), times_of(times_us)
            if fleet := parts[0].fleet:
                beside = rows if rows.strides[2] == DOUBLE.itemsize else np.ascontiguousarray(rows)
                batches.append(Batch(fleet.layouts(beside), times, beside))
            for part in parts:
                self._require_times(part, times_us)
                batches += part.batches(times, rows[:, :, part.drones], int(self._slot[part.channels[0]]))
                ends.append((part.channels, int(times_us[-1])))
        return batches, ends

    def _in_one_slot(self, topics: tuple[str, ...]) -> list[Part]:
        """Return the parts of a block; single streams if drones joined late, so that their last rows were in other slots."""
        parts = self._parts[topics]
        if all((self._slot[part.channels] == self._slot[part.channels[0]]).all() for part in parts):
            return parts
        if topics not in self._single:
            self._single[topics] = [self._part(topics, slice(k, k + 1)) for k in range(len(topics))]
        return self._single[topics]

    def _split(self, topics: tuple[str, ...]) -> list[Part]:
        """Split the streams of a block into as few parts as they have families."""
        unknown = [topic for topic in topics if topic not in self._tracks]
        if unknown or not topics:
            named = f"topic {unknown[0]!r}" if unknown else "a block without a topic"
            raise RecordingError(f"{named}: expected one of {', '.join(self._tracks) or 'none'}")
        tracks = [self._tracks[topic] for topic in topics]
        for topic, track in zip(topics, tracks, strict=True):
            if len(track.stream.fields) != len(tracks[0].stream.fields):
                raise RecordingError(f"{topic}: in a block with {topics[0]}; expected streams with as many fields")
        begins = [k for k, track in enumerate(tracks) if k == 0 or track.family != tracks[k - 1].family]
        fleet = self._fleets.of([track.stream for track in tracks])
        parts = [self._part(topics, slice(*ends)) for ends in pairwise([*begins, len(topics)])]
        return [part._replace(fleet=fleet, drawn=part.drawn[1:]) for part in parts] if fleet else parts

    def _part(self, topics: tuple[str, ...], drones: slice) -> Part:
        tracks = [self._tracks[topic] for topic in topics[drones]]
        return Part(
            drones,
            topics[drones],
            np.array([track.layout.channel for track in tracks]),
            tracks[0].posed,
            [track.layout for track in tracks],
            [list(layouts) for layouts in zip(*(track.drawn for track in tracks), strict=True)],
        )

    def _lines(self, logs: Sequence[LogLine], sent: Array) -> list[Line]:
        """The messages that are of no stream: the log, and in the first chunk the scene; `sent` goes on counting them."""
        log, scene = self._contents.log, self._contents.scene
        lines = []
        for line in logs:
            time_ns = 1000 * line.time_us
            record = message_record(log, int(sent[log]) & 0xFFFF_FFFF, time_ns, time_ns, log_message(line))
            lines.append(Line(log, time_ns, record))
            sent[log] += 1
        if self._scene and self._written.chunks == 0:
            lines.append(Line(scene, 0, message_record(scene, 0, 0, 0, self._scene)))
            sent[scene] = 1
        return lines

    def _checked(self, topic: str, times_us: ArrayLike, rows: ArrayLike) -> tuple[Array, Array]:
        """The block as arrays; RecordingError where they are not what the stream takes."""
        if topic not in self._tracks:
            raise RecordingError(f"topic {topic!r}: expected one of {', '.join(self._tracks) or 'none'}")
        times_us, rows = np.asarray(times_us), np.asarray(rows)
        if times_us.ndim != 1 or (times_us.size and times_us.dtype.kind not in "iu"):
            raise RecordingError(
                f"{topic}: times are {times_us.dtype} of shape {times_us.shape}; expected whole microseconds, one a row"
            )
        shape = (len(times_us), len(self._tracks[topic].stream.fields))
        if rows.shape != shape or (rows.size and rows.dtype != DOUBLE):
            raise RecordingError(
                f"{topic}: rows are {rows.dtype} of shape {rows.shape}; expected float64 of shape {shape}"
            )
        return times_us.astype(np.int64, copy=False), rows.astype(DOUBLE, copy=False)

    def _checked_block(self, block: Block) -> tuple[Array, Array]:
        """Its arrays; RecordingError where they are not what its streams take."""
        topics, times_us, rows = block
        shape = (len(times_us), len(self._tracks[topics[0]].stream.fields), len(topics))
        if times_us.dtype != np.int64 or rows.dtype != DOUBLE or rows.shape != shape:
            raise RecordingError(
                f"{topics[0]}: times are {times_us.dtype}, rows {rows.dtype} of shape {rows.shape}; "
                f"expected int64, and float64 of shape {shape}"
            )
        raster = self._tracks[topics[0]].stream.raster
        if raster and not raster.holds(rows):
            raise RecordingError(
                f"{topics[0]}: a picture is not of whole multiples of {raster.step:g}; expected what its sensor measured"
            )
        return times_us, rows

    def _require_times(self, part: Part, times_us: Array) -> None:
        most = int(np.argmax(self._latest_us[part.channels]))
        topic, before = part.topics[most], int(self._latest_us[part.channels[most]])
        first, last = int(times_us[0]), int(times_us[-1])
        if first < before or last > LATEST_US or np.count_nonzero(times_us[1:] < times_us[:-1]):
            raise RecordingError(
                f"{topic}: times run from {first} to {last} µs after {before} µs; "
                f"expected times that do not fall, from 0 to {LATEST_US} µs"
            )

    def _append(self, data: Sequence[Buffer]) -> bool:
        """Whether all of it is in the file, after what is whole there; if not, the recording ends here."""
        assert self._file is not None
        try:
            self._file.seek(self._written.end)
            for part in data:
                rest = memoryview(part)
                while rest:
                    rest = rest[self._file.write(rest) :]
        except OSError as error:
            self._stop(error)
            self._cut(self._written.end)
            return False
        return True

    def _stop(self, error: OSError) -> None:
        seconds = self._latest_us.max() / 1e6
        self.problem = f"{self.path}: recording stopped after {seconds:.3f} s: {error.strerror or error}"

    def _cut(self, end: int) -> None:
        """The file without what stands after its whole part; where even that is refused, a reader leaves it out."""
        assert self._file is not None
        with suppress(OSError):
            self._file.truncate(end)


def _with(opened: Opening, fleets: Sequence[Fleet]) -> Opening:
    """What the file has come to declare"""
    schemas = {schema.id: schema for schema in (*opened.schemas, *(own.schema for own in fleets))}
    channels = *opened.channels, *(own.channel for own in fleets)
    return opened._replace(schemas=tuple(schemas.values()), channels=channels)


def _require_named(what: str, entries: Mapping[str, object], kind: type) -> None:
    for name, value in entries.items():
        if not isinstance(name, str) or not isinstance(value, kind):
            raise RecordingError(f"{what} {name!r} is {value!r:.60}; expected {kind.__name__} under a name")


def _require_line(line: LogLine) -> None:
    if line.level not in LEVELS:
        raise RecordingError(f"log level {line.level!r}: expected one of {', '.join(LEVELS)}")
    if not 0 <= line.time_us <= LATEST_US:
        raise RecordingError(f"log time {line.time_us} µs: expected whole microseconds from 0 to {LATEST_US}")


def _reopened(path: Path) -> FileIO:
    """The file as the system has it, without a buffer of our own: what is written is out of our hands."""
    return FileIO(path, "r+")


AHEAD = 2  # chunks: one that is being written, and one that waits


class Background:
    """Hands blocks to a recorder in another thread, one chunk after the other.

    `write_blocks` returns at once, or when the chunk before the last is in the file: a killed process loses the last two at
    most, and what it had not handed over. One alone would have a flight on all cores wait for the thread, which had none.
    What the recorder raised is raised by a later call. The thread ends with the process.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._changed = Condition()
        self._chunks: deque[tuple[Sequence[Block], Sequence[LogLine]]] = deque()  # the first is being written
        self._taken: Sequence[LogLine] | None = None  # the lines of the last one that was taken
        self._closing = False
        self._error: BaseException | None = None
        self._thread = Thread(target=self._work, name="samara recorder", daemon=True)
        self._thread.start()

    def write_blocks(self, blocks: Sequence[Block], logs: Sequence[LogLine] = ()) -> None:
        """One chunk, written soon; nobody may write to its arrays again

        The same list of lines twice is one chunk: Ctrl-C may come after it was taken and before its giver knows.
        """
        with self._changed:
            if isinstance(logs, list) and logs is self._taken:
                return
            while len(self._chunks) == AHEAD:
                self._changed.wait()
            self._raise()
            self._taken = logs
            self._chunks.append((blocks, logs))
            self._changed.notify_all()

    def close(self) -> None:
        """Returns when all that was handed over is in the file: also after Ctrl-C, so that nobody closes it under the thread"""
        interrupted: BaseException | None = None
        while self._thread.is_alive():
            try:
                with self._changed:
                    self._closing = True
                    self._changed.notify_all()
                self._thread.join()
            except KeyboardInterrupt as error:
                interrupted = error
        if interrupted:
            raise interrupted
        self._raise()

    def __enter__(self) -> "Background":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _raise(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._chunks and not self._closing:
                    self._changed.wait()
                if not self._chunks:
                    return
                blocks, logs = self._chunks[0]
            try:
                self._recorder.write_blocks(blocks, logs)
            except BaseException as error:
                self._error = error
            del blocks, logs  # their memory serves the next second
            with self._changed:
                self._chunks.popleft()
                self._changed.notify_all()
