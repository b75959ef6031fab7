"""Recording a flight: an MCAP file that grows by one whole chunk at a time, and that a crash cannot spoil."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
from mcap.records import ChunkIndex

from samara import __version__
from samara.files import written_whole
from samara.sim.mcap_sections import COMPRESS, Piece, chunk, closing, opening
from samara.sim.record_contents import contents_of
from samara.sim.record_format import ABOUT, FORMAT, LEVELS, OWN, LogLine, RecordingError, Stream, checksum
from samara.sim.record_foxglove import first_of_each, log_message, slots
from samara.sim.record_layout import Array, Layout, message_record, pack

__all__ = ["LogLine", "Recorder", "RecordingError", "Stream"]

LATEST_US = 1 << 53  # 285 years; in nanoseconds it still fits 64 bits


class Written(NamedTuple):
    """What is whole in the file: bytes, chunks, and messages of each channel."""

    end: int
    chunks: int
    sent: Counter[int]


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
    ) -> None:
        self.path = Path(path)
        self.problem = ""
        if not overwrite and (self.path.exists() or self.path.is_symlink()):
            raise RecordingError(f"{path}: exists; expected a new file, or overwrite=True")
        if compression not in COMPRESS:
            raise RecordingError(f"compression {compression!r}: expected one of {', '.join(map(repr, COMPRESS))}")
        for what, entries in (("metadata", metadata or {}), ("attachment", attachments or {})):
            _require_named(what, entries, str if what == "metadata" else bytes)
        self._compression = compression
        self._contents = contents_of(streams)
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
        with written_whole(self.path) as temporary:
            temporary.write_bytes(self._opened.data)
        self._file: FileIO | None = _reopened(self.path)
        self._written = Written(len(self._opened.data), 0, Counter())
        self._chunks: list[ChunkIndex] = []
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
        checked = {topic: self._checked(topic, *block) for topic, block in blocks.items()}
        filled = {topic: block for topic, block in checked.items() if len(block[0])}
        for line in logs:
            _require_line(line)
        if self._file is None:
            raise RecordingError(f"{self.path}: the recording is closed")
        if self.problem or not (filled or logs):
            return
        sent = self._written.sent.copy()
        pieces = []
        for layout, times_us, rows in self._messages(filled):
            pieces.append(Piece(layout.channel, times_us, pack(layout, sent[layout.channel], times_us, rows)))
            sent[layout.channel] += len(times_us)
        for line in logs:
            pieces.append(self._log_piece(line, sent[self._contents.log]))
            sent[self._contents.log] += 1
        data, index = chunk(pieces, self._written.end, self._compression)
        if self._append(data):
            self._chunks.append(index)
            # One assignment, so that Ctrl-C between two instructions cannot leave half of it: `close` believes only this.
            self._written = Written(self._written.end + len(data), len(self._chunks), sent)
            for topic, (times_us, _) in filled.items():
                self._latest_us[topic] = latest = int(times_us[-1])
                self._slot[topic] = slots(latest)

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

    def _messages(self, blocks: Mapping[str, tuple[Array, Array]]) -> Iterator[tuple[Layout, Array, Array]]:
        """The rows of each stream, then the poses among them that are to be drawn, under the layouts they are written in."""
        for topic, (times_us, rows) in blocks.items():
            track = self._tracks[topic]
            yield track.layout, times_us, rows
            if track.posed:
                drawn = first_of_each(slots(times_us), self._slot[topic])
                if len(drawn):
                    poses = rows[drawn[:, None], track.posed.columns]
                    for layout in track.drawn:
                        yield layout, times_us[drawn], poses

    def _log_piece(self, line: LogLine, sequence: int) -> Piece:
        time_ns = 1000 * line.time_us
        record = message_record(self._contents.log, sequence, time_ns, time_ns, log_message(line))
        return Piece(self._contents.log, np.array([line.time_us]), np.frombuffer(record, np.uint8)[None])

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
        if rows.shape != shape or (rows.size and rows.dtype != np.float64):
            raise RecordingError(
                f"{topic}: rows are {rows.dtype} of shape {rows.shape}; expected float64 of shape {shape}"
            )
        times_us = times_us.astype(np.int64, copy=False)
        if len(times_us):
            first, last, before = times_us[0], times_us[-1], self._latest_us[topic]
            if first < before or last > LATEST_US or (times_us[1:] < times_us[:-1]).any():
                raise RecordingError(
                    f"{topic}: times run from {first} to {last} µs after {before} µs; "
                    f"expected times that do not fall, from 0 to {LATEST_US} µs"
                )
        return times_us, rows

    def _append(self, data: bytes) -> bool:
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
