"""Recording a flight: an MCAP file that grows by one whole chunk at a time, and that a crash cannot spoil."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from samara.core.files import atomic_write
from samara.core.version import __version__
from samara.record.contents import contents_of
from samara.record.format import ABOUT, FORMAT, LEVELS, OWN, LogLine, RecordingError, Stream, checksum
from samara.record.foxglove import first_of_each, log_message, slots
from samara.record.layout import Array, Layout, Times, lay_out, message_record, pack, times_of
from samara.record.mcap_sections import (
    COMPRESS,
    ROOM,
    Buffer,
    Indexed,
    Piece,
    chunk,
    chunk_size,
    closing,
    indexed,
    opening,
)

__all__ = ["LogLine", "Recorder", "RecordingError", "Stream"]

DOUBLE = np.dtype(np.float64)
LATEST_US = 1 << 53  # 285 years; in nanoseconds it still fits 64 bits


class Written(NamedTuple):
    """What is whole in the file: bytes, chunks, and messages of each channel."""

    end: int
    chunks: int
    sent: dict[int, int]


class Group(NamedTuple):
    """Streams of one family that have rows at the same times, and whose last rows before were in the same slot."""

    times_us: Array
    slot: int
    topics: list[str]
    rows: list[Array]


class Batch(NamedTuple):
    """Messages that are packed as one array: layouts of equal places, each with its own rows at all the times."""

    layouts: Sequence[Layout]
    times: Times
    rows: Sequence[Array]


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
        compression: str = "",
        scene: bytes = b"",
    ) -> None:
        """`scene` is a foxglove.SceneUpdate that says how the drones look: the first message of the first chunk."""
        self.path = Path(path)
        self.problem = ""
        if not overwrite and (self.path.exists() or self.path.is_symlink()):
            raise RecordingError(f"{path}: exists; expected a new file, or overwrite=True")
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
        self._written = Written(begin, 0, {})
        self._chunks: list[Indexed] = []
        self._standing: list[tuple[list[int], int]] = []
        self._memory: Array = np.empty(0, np.uint8)
        self._latest_us = dict.fromkeys(self._tracks, 0)
        self._slot = dict.fromkeys(self._tracks, -1)

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def write(self, blocks: Mapping[str, tuple[Any, Any]], logs: Sequence[LogLine] = ()) -> None:
        """One chunk: for each topic whole microseconds (m,) that do not fall, and float64 rows (m, number of fields)."""
        groups = self._grouped(blocks)
        for line in logs:
            _require_line(line)
        if self._file is None:
            raise RecordingError(f"{self.path}: the recording is closed")
        if self.problem or not (groups or logs):
            return
        sent = self._written.sent.copy()
        memory, pieces = self._packed(list(self._batches(groups)), logs, sent)
        data, index = chunk(memory, pieces, self._written.end, self._compression)
        if self._append(data):
            self._chunks.append(indexed(index))
            # One assignment, so that Ctrl-C between two instructions cannot leave half of it: `close` believes only this.
            self._written = Written(self._written.end + len(data), len(self._chunks), sent)
            for group in groups:
                latest = int(group.times_us[-1])
                self._latest_us.update(dict.fromkeys(group.topics, latest))
                self._slot.update(dict.fromkeys(group.topics, slots(latest)))

    def close(self) -> None:
        """Write the summary that lets a reader seek, and close the file."""
        if self._file is None:
            return
        end, chunks, sent = self._written
        if not self.problem:
            data = closing(self._opened, self._chunks[:chunks], sent, end)
            if self._append(data):
                self._cut(end + len(data))
        try:
            self._file.close()
        except OSError as error:  # some file systems tell only now that there was no room
            self._stop(error)
        self._file = None
        self._memory, self._standing = np.empty(0, np.uint8), []

    def _grouped(self, blocks: Mapping[str, tuple[Any, Any]]) -> list[Group]:
        """All blocks that have rows, checked: those of a hundred drones are a few groups."""
        groups: dict[tuple[int, int, bytes], Group] = {}
        rising: set[bytes] = set()
        for topic, block in blocks.items():
            times_us, rows = self._checked(topic, *block)
            if len(times_us):
                stamp, slot = times_us.tobytes(), self._slot[topic]
                if times_us[0] < self._latest_us[topic] or stamp not in rising:
                    self._require_times(topic, times_us)
                    rising.add(stamp)
                key = self._tracks[topic].family, slot, stamp
                group = groups.get(key)
                if group is None:
                    group = groups[key] = Group(times_us, slot, [], [])
                group.topics.append(topic)
                group.rows.append(rows)
        return list(groups.values())

    def _batches(self, groups: Sequence[Group]) -> Iterator[Batch]:
        """The rows of each group, then the poses among them that are to be drawn, under the layouts they are written in."""
        for times_us, slot, topics, rows in groups:
            tracks = [self._tracks[topic] for topic in topics]
            yield Batch([track.layout for track in tracks], times_of(times_us), rows)
            posed = tracks[0].posed
            if posed:
                drawn = first_of_each(slots(times_us), slot)
                if len(drawn):
                    times = times_of(times_us[drawn], stamped=True)
                    poses = [own.take(drawn, 0).take(posed.columns, 1) for own in rows]
                    for layouts in zip(*(track.drawn for track in tracks), strict=True):
                        yield Batch(layouts, times, poses)

    def _packed(
        self, batches: Sequence[Batch], logs: Sequence[LogLine], sent: dict[int, int]
    ) -> tuple[Array, list[Piece]]:
        """The memory of a chunk with its messages in it, and which they are; `sent` goes on counting them."""
        pieces = [Piece([own.channel for own in layouts], times, layouts[0].size) for layouts, times, _ in batches]
        log, number = self._contents.log, sent.get(self._contents.log, 0)
        lines = [self._log_record(line, number + k) for k, line in enumerate(logs)]
        said = [
            Piece([log], times_of(np.array([each.time_us])), len(own)) for each, own in zip(logs, lines, strict=True)
        ]
        if lines:
            sent[log] = number + len(lines)
        if self._scene and self._written.chunks == 0:
            shown = message_record(self._contents.scene, 0, 0, 0, self._scene)
            lines.append(shown)
            said.append(Piece([self._contents.scene], times_of(np.array([0])), len(shown)))
            sent[self._contents.scene] = 1
        memory = self._laid_out(batches, chunk_size([*pieces, *said]))
        at = ROOM
        for (layouts, times, rows), piece in zip(batches, pieces, strict=True):
            first = []
            for channel in piece.channels:
                first.append(sent.get(channel, 0))
                sent[channel] = first[-1] + len(times.us)
            pack(layouts[0].places, first, times, rows, memory[at:])
            at += piece.length
        if lines:
            records = np.frombuffer(b"".join(lines), np.uint8)
            memory[at : at + len(records)] = records
        return memory, [*pieces, *said]

    def _laid_out(self, batches: Sequence[Batch], size: int) -> Array:
        """Memory for a chunk, with the records of all batches in it; the numbers in them are those of some chunk before.

        It is kept: new pages from the system take longer than what is written to them. And where the same streams have as
        many messages as in the last chunk, their records stand there already.
        """
        standing = [([*map(id, layouts)], len(times.us)) for layouts, times, _ in batches]
        if size > len(self._memory):
            self._memory, self._standing = np.empty(size + size // 8, np.uint8), []
        if standing != self._standing:
            self._standing = []  # until all of them do
            at = ROOM
            for layouts, times, _ in batches:
                at += lay_out(layouts, len(times.us), self._memory[at:])
            self._standing = standing
        return self._memory[:size]

    def _log_record(self, line: LogLine, sequence: int) -> bytes:
        time_ns = 1000 * line.time_us
        return message_record(self._contents.log, sequence, time_ns, time_ns, log_message(line))

    def _checked(self, topic: str, times_us: Any, rows: Any) -> tuple[Array, Array]:
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
        return times_us.astype(np.int64, copy=False), rows

    def _require_times(self, topic: str, times_us: Array) -> None:
        first, last, before = int(times_us[0]), int(times_us[-1]), self._latest_us[topic]
        if first < before or last > LATEST_US or np.count_nonzero(times_us[1:] < times_us[:-1]):
            raise RecordingError(
                f"{topic}: times run from {first} to {last} µs after {before} µs; "
                f"expected times that do not fall, from 0 to {LATEST_US} µs"
            )

    def _append(self, data: Buffer) -> bool:
        """Whether all of it is in the file, after what is whole there; if not, the recording ends here."""
        assert self._file is not None
        rest = memoryview(data)
        try:
            self._file.seek(self._written.end)
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            self._stop(error)
            self._cut(self._written.end)
            return False
        return True

    def _stop(self, error: OSError) -> None:
        seconds = max(self._latest_us.values(), default=0) / 1e6
        self.problem = f"{self.path}: recording stopped after {seconds:.3f} s: {error.strerror or error}"

    def _cut(self, end: int) -> None:
        """The file without what stands after its whole part; where even that is refused, a reader leaves it out."""
        assert self._file is not None
        with suppress(OSError):
            self._file.truncate(end)


def _require_named(what: str, entries: Mapping[str, Any], kind: type) -> None:
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
