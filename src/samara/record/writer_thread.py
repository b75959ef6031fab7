"""Recording beside a flight: what was flown is packed and written by a thread of its own, while the next second is flown."""

from collections import deque
from collections.abc import Sequence
from threading import Condition, Thread
from types import TracebackType

from samara.record.block import Block
from samara.record.format import LogLine
from samara.record.recorder import Recorder

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
