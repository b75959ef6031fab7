"""Record a flight to an MCAP file that grows by one complete chunk at a time and stays readable after a crash."""

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
from samara.core.budget import decompressed_limit
from samara.core.types import Array
from samara.core.version import __version__
from samara.record.channels import build_channels
from samara.record.fleet_messages import FleetChannel, FleetChannels
from samara.record.foxglove import PoseColumns, first_slot_rows, log_message, time_slots
from samara.record.image_stream import Raster
from samara.record.layout import MessageTimes, RecordLayout, message_record, message_times
from samara.record.mcap_writer import (
    COMPRESS,
    Buffer,
    ChunkBuffer,
    ChunkIndexRecord,
    MessageBatch,
    Opening,
    SingleMessage,
    build_chunk,
    build_declaration_chunk,
    build_opening,
    build_summary,
)
from samara.record.streams import (
    FORMAT,
    FORMAT_METADATA,
    LEVELS,
    USER_METADATA,
    LogLine,
    RecordingError,
    Stream,
    StreamBlock,
    checksum,
)

__all__ = ["LogLine", "Recorder", "RecordingError", "Stream"]

DOUBLE = np.dtype(np.float64)
MAX_TIME_US = 1 << 53  # 285 years; in nanoseconds it still fits 64 bits


class FileProgress(NamedTuple):
    """The complete part of the file: bytes, chunks, messages per channel, the channels in order, the fleet count, and the bytes
    of its chunks without compression."""

    end: int
    chunks: int
    message_counts: Array
    channels: tuple[int, ...]
    fleets: int
    unpacked_bytes: int = 0


class BlockPart(NamedTuple):
    """Consecutive drones of a block whose messages have their numbers at equal offsets, and the layouts of these messages.

    The rows of a `fleet` are written in one message for all drones; only their transforms are written for each.
    """

    drones: slice
    topics: tuple[str, ...]
    channels: Array
    pose: PoseColumns | None
    layouts: list[RecordLayout]
    pose_layouts: list[list[RecordLayout]]
    fleet: FleetChannel | None = None

    def batches(self, times: MessageTimes, rows: Array, slot: int) -> Iterator[MessageBatch]:
        """Yield the rows unless a fleet writes them, then the poses for display; the last row before was in `slot`."""
        if self.fleet is None:
            stamped_times = message_times(times.us, stamped=True) if self.layouts[0].offsets.raster else times
            yield MessageBatch(self.layouts, stamped_times, rows)
        if self.pose:
            first_rows = first_slot_rows(time_slots(times.us), slot)
            if len(first_rows):
                stamped_times, poses = (
                    message_times(times.us[first_rows], stamped=True),
                    rows[np.ix_(first_rows, self.pose.columns)],
                )
                for layouts in self.pose_layouts:
                    yield MessageBatch(layouts, stamped_times, poses)


class Recorder:
    """Writes streams of numbers and log lines to an MCAP file that Foxglove and `read_recording` open.

    Each `write` adds one complete chunk and passes it to the operating system: a process killed at any moment leaves a
    file that is readable up to its last chunk. A disk error ends the recording and not the flight: `problem` is then one
    sentence, the file is truncated to its last complete chunk, and further writes do nothing.
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
        """Create the file.

        Args:
            path: the file; it must not exist unless `overwrite` is true.
            streams: all streams that will be written.
            metadata: texts by name, stored in the file.
            attachments: files by name, stored in the file.
            overwrite: replace an existing file.
            compression: "lz4", "zstd" or "" (none); None selects zstd if there are images.
            scene: serialised foxglove.SceneUpdate with the shapes of the drones: the first message of the first chunk.
        """
        self.path = Path(path)
        self.problem = ""
        if not overwrite and (self.path.exists() or self.path.is_symlink()):
            raise RecordingError(f"{path}: exists; expected a new file, or overwrite=True")
        if compression is None:
            compression = "zstd" if any(stream.raster for stream in streams) else ""
        if compression not in COMPRESS:
            raise RecordingError(f"compression {compression!r}: expected one of {', '.join(map(repr, COMPRESS))}")
        for entry_type, entries in (("metadata", metadata or {}), ("attachment", attachments or {})):
            _require_named(entry_type, entries, str if entry_type == "metadata" else bytes)
        self._compression = compression
        self._channel_table = build_channels(streams, bool(scene))
        self._scene = scene
        self._layouts = self._channel_table.layouts
        format_metadata = {"format": str(FORMAT), "samara": __version__, "metadata_crc32": checksum(metadata or {})}
        self._opening = build_opening(
            f"samara {__version__}",
            {FORMAT_METADATA: format_metadata, USER_METADATA: metadata or {}},
            attachments or {},
            self._channel_table.schemas,
            self._channel_table.channels,
        )
        # Other files are written to a temporary file that is renamed at the end. A recording must exist if the process is
        # killed, so only its opening is written that way; the file then grows in place, chunk by chunk.
        with atomic_write(self.path) as temporary:
            temporary.write_bytes(self._opening.data)
        opening_size, self._opening = len(self._opening.data), self._opening._replace(data=b"")
        self._file: FileIO | None = _open_for_update(self.path)
        channel_count = len(self._channel_table.channels) + 1
        self._progress = FileProgress(opening_size, 0, np.zeros(channel_count, np.int64), (), 0)
        self._chunks: list[ChunkIndexRecord] = []
        self._fleets = FleetChannels(self._channel_table.schemas, self._channel_table.channels)
        self._memory = ChunkBuffer()
        self._block_parts: dict[tuple[str, ...], list[BlockPart]] = {}  # by the topics of a block
        self._single_parts: dict[tuple[str, ...], list[BlockPart]] = {}  # the same, with one stream in each part
        self._latest_us = np.zeros(channel_count, np.int64)  # time of the last row, by channel id
        self._slot = np.full(channel_count, -1)

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(
        self, exception_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def write(self, blocks: Mapping[str, tuple[ArrayLike, ArrayLike]], logs: Sequence[LogLine] = ()) -> None:
        """Write one chunk: for each topic non-decreasing times (m,) in whole microseconds, and float64 rows (m, fields)."""
        tables = [(topic, *self._check_rows(topic, *block)) for topic, block in blocks.items()]
        self.write_blocks([StreamBlock((topic,), times_us, rows[:, :, None]) for topic, times_us, rows in tables], logs)

    def write_blocks(self, blocks: Sequence[StreamBlock], logs: Sequence[LogLine] = ()) -> None:
        """Write one chunk of blocks of many drones; each topic may be in one block only."""
        batches, ends = self._batches(blocks)
        for line in logs:
            _require_line(line)
        if self._file is None:
            raise RecordingError(f"{self.path}: the recording is closed")
        if self.problem or not (batches or logs):
            return
        progress = self._progress
        new_fleets = self._fleets.all[progress.fleets :]
        message_counts = np.concatenate([progress.message_counts, np.zeros(len(new_fleets), np.int64)])
        lines = self._single_messages(logs, message_counts)
        arrangement = self._memory.arrange(batches)
        arrangement.fill(batches, message_counts)
        declarations = (
            [
                build_declaration_chunk(
                    [record for declaration in new_fleets for record in (declaration.schema, declaration.channel)],
                    progress.end,
                )
            ]
            if new_fleets
            else []
        )
        chunk_offset = progress.end + sum(len(declaration.data) for declaration in declarations)
        unpacked_bytes = progress.unpacked_bytes + len(arrangement.records) + sum(len(line.record) for line in lines)

        def may_compress(compressed_size: int) -> bool:
            """Whether the file up to this chunk does not expand more than readers accept."""
            return unpacked_bytes <= decompressed_limit(chunk_offset + compressed_size)

        data, index = build_chunk(arrangement, batches, lines, chunk_offset, self._compression, may_compress)
        channels = progress.channels
        if len(channels) < np.count_nonzero(message_counts):
            chunk_channels = (
                *(line.channel for line in lines),
                *(k for declaration in arrangement.channels for k in declaration.tolist()),
            )
            channels = tuple(dict.fromkeys((*channels, *chunk_channels)))
        data = [*(declaration.data for declaration in declarations), *data]
        if self._append(data):
            # a declaration chunk has no messages: it takes the times of this chunk
            declaration_indexes = [
                index._replace(record=declaration.index_record.record) for declaration in declarations
            ]
            self._chunks[progress.chunks :] = [*declaration_indexes, index]
            # One assignment, so that Ctrl-C between two instructions cannot leave an inconsistent state for `close`.
            end = progress.end + sum(map(len, data))
            self._progress = FileProgress(
                end, len(self._chunks), message_counts, channels, progress.fleets + len(new_fleets), unpacked_bytes
            )
            for stream_channels, latest_us in ends:
                self._latest_us[stream_channels], self._slot[stream_channels] = latest_us, time_slots(latest_us)

    def close(self) -> None:
        """Write the summary that lets a reader seek, and close the file."""
        if self._file is None:
            return
        end, chunks, message_counts, channels, fleets, _ = self._progress
        if not self.problem:
            counts = dict(zip(channels, message_counts[list(channels)].tolist(), strict=True))
            data = build_summary(
                _add_fleets(self._opening, self._fleets.all[:fleets]), self._chunks[:chunks], counts, end
            )
            if self._append([data]):
                self._truncate(end + len(data))
        try:
            self._file.close()
        except OSError as error:  # some file systems report a full disk only now
            self._end_recording(error)
        self._file, self._memory = None, ChunkBuffer()

    def _batches(self, blocks: Sequence[StreamBlock]) -> tuple[list[MessageBatch], list[tuple[Array, int]]]:
        """Check all blocks; return their messages, and the last time [µs] of each set of channels."""
        batches: list[MessageBatch] = []
        ends: list[tuple[Array, int]] = []
        topics_in_chunk: set[str] = set()
        for block in blocks:
            if block.topics not in self._block_parts:
                self._block_parts[block.topics] = self._split(block.topics)
            times_us, rows = self._check_block(block)
            if not topics_in_chunk.isdisjoint(block.topics):
                raise RecordingError(f"{block.topics[0]}: in two blocks of a chunk; expected each topic in one at most")
            topics_in_chunk.update(block.topics)
            if not len(times_us):
                continue
            parts, times = self._same_slot_parts(block.topics), message_times(times_us)
            if fleet := parts[0].fleet:
                contiguous_rows = rows if rows.strides[2] == DOUBLE.itemsize else np.ascontiguousarray(rows)
                batches.append(MessageBatch(fleet.layouts(contiguous_rows), times, contiguous_rows))
            for part in parts:
                self._require_times(part, times_us)
                batches += part.batches(times, rows[:, :, part.drones], int(self._slot[part.channels[0]]))
                ends.append((part.channels, int(times_us[-1])))
        return batches, ends

    def _same_slot_parts(self, topics: tuple[str, ...]) -> list[BlockPart]:
        """Return the parts of a block; single streams if drones joined late, so that their last rows were in other slots."""
        parts = self._block_parts[topics]
        if all((self._slot[part.channels] == self._slot[part.channels[0]]).all() for part in parts):
            return parts
        if topics not in self._single_parts:
            self._single_parts[topics] = [self._part(topics, slice(k, k + 1)) for k in range(len(topics))]
        return self._single_parts[topics]

    def _split(self, topics: tuple[str, ...]) -> list[BlockPart]:
        """Split the streams of a block into as few parts as they have families."""
        unknown = [topic for topic in topics if topic not in self._layouts]
        if unknown or not topics:
            subject = f"topic {unknown[0]!r}" if unknown else "a block without a topic"
            raise RecordingError(f"{subject}: expected one of {', '.join(self._layouts) or 'none'}")
        stream_layouts = [self._layouts[topic] for topic in topics]
        for topic, layouts in zip(topics, stream_layouts, strict=True):
            if layouts.stream.width != stream_layouts[0].stream.width:
                raise RecordingError(f"{topic}: in a block with {topics[0]}; expected streams with as many fields")
        part_starts = [
            k for k, layouts in enumerate(stream_layouts) if k == 0 or layouts.family != stream_layouts[k - 1].family
        ]
        fleet = self._fleets.create([layouts.stream for layouts in stream_layouts])
        parts = [self._part(topics, slice(*ends)) for ends in pairwise([*part_starts, len(topics)])]
        return [part._replace(fleet=fleet, pose_layouts=part.pose_layouts[1:]) for part in parts] if fleet else parts

    def _part(self, topics: tuple[str, ...], drones: slice) -> BlockPart:
        stream_layouts = [self._layouts[topic] for topic in topics[drones]]
        return BlockPart(
            drones,
            topics[drones],
            np.array([layouts.layout.channel for layouts in stream_layouts]),
            stream_layouts[0].pose,
            [layouts.layout for layouts in stream_layouts],
            [list(layouts) for layouts in zip(*(layouts.pose_layouts for layouts in stream_layouts), strict=True)],
        )

    def _single_messages(self, logs: Sequence[LogLine], message_counts: Array) -> list[SingleMessage]:
        """Return the messages that belong to no stream: the log, and in the first chunk the scene; count them in
        `message_counts`."""
        log, scene = self._channel_table.log, self._channel_table.scene
        lines = []
        for line in logs:
            time_ns = 1000 * line.time_us
            record = message_record(log, int(message_counts[log]) & 0xFFFF_FFFF, time_ns, time_ns, log_message(line))
            lines.append(SingleMessage(log, time_ns, record))
            message_counts[log] += 1
        if self._scene and self._progress.chunks == 0:
            lines.append(SingleMessage(scene, 0, message_record(scene, 0, 0, 0, self._scene)))
            message_counts[scene] = 1
        return lines

    def _check_rows(self, topic: str, times_us: ArrayLike, rows: ArrayLike) -> tuple[Array, Array]:
        """Return a block as arrays; raise RecordingError if they do not fit the stream."""
        if topic not in self._layouts:
            raise RecordingError(f"topic {topic!r}: expected one of {', '.join(self._layouts) or 'none'}")
        times_us, rows = np.asarray(times_us), np.asarray(rows)
        if times_us.ndim != 1 or (times_us.size and times_us.dtype.kind not in "iu"):
            raise RecordingError(
                f"{topic}: times are {times_us.dtype} of shape {times_us.shape}; expected whole microseconds, one a row"
            )
        stream = self._layouts[topic].stream
        shape, row_type = (len(times_us), stream.width), stream.row_type
        if rows.shape != shape or (rows.size and rows.dtype != row_type):
            raise RecordingError(
                f"{topic}: rows are {rows.dtype} of shape {rows.shape}; expected {row_type} of shape {shape}"
            )
        return times_us.astype(np.int64, copy=False), rows.astype(row_type, copy=False)

    def _check_block(self, block: StreamBlock) -> tuple[Array, Array]:
        """Return the arrays of a block; raise RecordingError if they do not fit its streams."""
        topics, times_us, rows = block
        stream = self._layouts[topics[0]].stream
        shape = (len(times_us), stream.width, len(topics))
        if times_us.dtype != np.int64 or rows.dtype != stream.row_type or rows.shape != shape:
            raise RecordingError(
                f"{topics[0]}: times are {times_us.dtype}, rows {rows.dtype} of shape {rows.shape}; "
                f"expected int64, and {stream.row_type} of shape {shape}"
            )
        raster = stream.raster
        if isinstance(raster, Raster) and not raster.is_lossless(rows):
            raise RecordingError(
                f"{topics[0]}: an image is not of whole multiples of {raster.step:g}; expected the readings of its sensor"
            )
        return times_us, rows

    def _require_times(self, part: BlockPart, times_us: Array) -> None:
        latest_stream = int(np.argmax(self._latest_us[part.channels]))
        topic, previous_us = part.topics[latest_stream], int(self._latest_us[part.channels[latest_stream]])
        first, last = int(times_us[0]), int(times_us[-1])
        if first < previous_us or last > MAX_TIME_US or np.count_nonzero(times_us[1:] < times_us[:-1]):
            raise RecordingError(
                f"{topic}: times run from {first} to {last} µs after {previous_us} µs; "
                f"expected times that do not decrease, from 0 to {MAX_TIME_US} µs"
            )

    def _append(self, data: Sequence[Buffer]) -> bool:
        """Append data to the complete part of the file; on failure end the recording and return False."""
        assert self._file is not None
        try:
            self._file.seek(self._progress.end)
            for part in data:
                remaining = memoryview(part)
                while remaining:
                    remaining = remaining[self._file.write(remaining) :]
        except OSError as error:
            self._end_recording(error)
            self._truncate(self._progress.end)
            return False
        return True

    def _end_recording(self, error: OSError) -> None:
        seconds = self._latest_us.max() / 1e6
        self.problem = f"{self.path}: recording stopped after {seconds:.3f} s: {error.strerror or error}"

    def _truncate(self, end: int) -> None:
        """Truncate the file to its complete part; if even that fails, readers ignore the rest."""
        assert self._file is not None
        with suppress(OSError):
            self._file.truncate(end)


def _add_fleets(file_opening: Opening, fleets: Sequence[FleetChannel]) -> Opening:
    """Add the fleets' schemas and channels to the opening, for the summary."""
    schemas = {schema.id: schema for schema in (*file_opening.schemas, *(fleet.schema for fleet in fleets))}
    channels = *file_opening.channels, *(fleet.channel for fleet in fleets)
    return file_opening._replace(schemas=tuple(schemas.values()), channels=channels)


def _require_named(entry_type: str, entries: Mapping[str, object], value_type: type) -> None:
    for name, value in entries.items():
        if not isinstance(name, str) or not isinstance(value, value_type):
            raise RecordingError(f"{entry_type} {name!r} is {value!r:.60}; expected {value_type.__name__} under a name")


def _require_line(line: LogLine) -> None:
    if line.level not in LEVELS:
        raise RecordingError(f"log level {line.level!r}: expected one of {', '.join(LEVELS)}")
    if not 0 <= line.time_us <= MAX_TIME_US:
        raise RecordingError(f"log time {line.time_us} µs: expected whole microseconds from 0 to {MAX_TIME_US}")


def _open_for_update(path: Path) -> FileIO:
    """Open an existing file without a buffer, so that written data reach the operating system at once."""
    return FileIO(path, "r+")


MAX_PENDING_CHUNKS = 2  # chunks: one that is being written, and one that waits


class BackgroundRecorder:
    """Passes blocks to a recorder in another thread, one chunk after the other.

    `write_blocks` blocks while two chunks are pending: a killed process loses at most the last two chunks and the data not
    passed on. With one pending chunk, a flight on all cores would wait for the thread, which would have no core.
    Exceptions of the recorder are raised by a later call. The thread ends with the process.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._changed = Condition()
        self._chunks: deque[tuple[Sequence[StreamBlock], Sequence[LogLine]]] = deque()  # the first is being written
        self._last_logs: Sequence[LogLine] | None = None  # the lines of the last one that was taken
        self._closing = False
        self._error: BaseException | None = None
        self._thread = Thread(target=self._write_chunks, name="samara recorder", daemon=True)
        self._thread.start()

    def write_blocks(self, blocks: Sequence[StreamBlock], logs: Sequence[LogLine] = ()) -> None:
        """Queue one chunk; its arrays must not be written again.

        A second call with the same list of lines has no effect: Ctrl-C may interrupt the caller after the chunk was
        queued.
        """
        with self._changed:
            if isinstance(logs, list) and logs is self._last_logs:
                return
            while len(self._chunks) == MAX_PENDING_CHUNKS:
                self._changed.wait()
            self._raise_error()
            self._last_logs = logs
            self._chunks.append((blocks, logs))
            self._changed.notify_all()

    def close(self) -> None:
        """Return when all chunks are in the file: also after Ctrl-C, so that the file is not closed while the thread writes."""
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
        self._raise_error()

    def __enter__(self) -> "BackgroundRecorder":
        return self

    def __exit__(
        self, exception_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _raise_error(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _write_chunks(self) -> None:
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
            del blocks, logs  # free their memory for the next second
            with self._changed:
                self._chunks.popleft()
                self._changed.notify_all()
