"""Resource limits for readers of untrusted files: a small file must not cause unbounded work.

A reader creates one `Budget` per file and spends from it before it allocates, recurses or expands. Every overrun is one
sentence in the reader's own error class, `<file>: has too many <things>; expected at most <limit>`. Limits count bytes, nodes,
levels and expansions, so that the same file always gives the same answer; the limit in seconds is a safety net far above what
the counts allow.
"""

import gzip
import io
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from samara.core.referenced_files import open_regular

MAX_BYTES = 1 << 28  # after decompression
MAX_NODES = 5_000_000
MAX_DEPTH = 100
MAX_EXPANSIONS = 10_000
MAX_SECONDS = 600.0
MAX_LINE_BYTES = 1 << 20
MAX_RATIO = 50  # decompressed over compressed bytes of files larger than MAX_BYTES / 50; logs have 3 to 10


class BudgetError(ValueError):
    """A limit was passed; the default error class."""


class Budget:
    """Counters and limits for reading one untrusted file; raises `error` with one sentence when a limit is passed."""

    def __init__(
        self,
        origin: object,
        error: type[Exception] = BudgetError,
        *,
        max_bytes: int = MAX_BYTES,
        max_nodes: int = MAX_NODES,
        max_depth: int = MAX_DEPTH,
        max_expansions: int = MAX_EXPANSIONS,
        max_seconds: float = MAX_SECONDS,
    ) -> None:
        self.origin, self.error = origin, error
        self.max_bytes, self.max_nodes, self.max_depth = max_bytes, max_nodes, max_depth
        self.max_expansions, self.max_seconds = max_expansions, max_seconds
        self.bytes_spent = self.nodes_spent = self.depth = self.expansions_spent = 0
        self._start = time.monotonic()

    def overrun(self, problem: str, limit: str) -> Exception:
        """The sentence about a limit that was passed."""
        return self.error(f"{self.origin}: {problem}; expected at most {limit}")

    def spend_bytes(self, count: int, label: str = "bytes") -> None:
        """Count bytes of text or data, after decompression and expansion."""
        self.bytes_spent += count
        if self.bytes_spent > self.max_bytes:
            raise self.overrun(f"has too many {label}", size_text(self.max_bytes))

    def spend_nodes(self, count: int = 1, label: str = "values") -> None:
        """Count elements, keys, cells or messages."""
        self.nodes_spent += count
        if self.nodes_spent > self.max_nodes:
            raise self.overrun(f"has too many {label}", f"{self.max_nodes:,}")

    def require_depth(self, depth: int, label: str = "levels") -> None:
        """Refuse nesting deeper than the limit."""
        if depth > self.max_depth:
            raise self.overrun(f"is nested too deeply ({label})", f"{self.max_depth:,}")

    @contextmanager
    def enter(self, label: str = "levels") -> Iterator[None]:
        """Count one level of nesting while the block runs."""
        self.depth += 1
        try:
            self.require_depth(self.depth, label)
            yield
        finally:
            self.depth -= 1

    def expand(self, count: int = 1, label: str = "expansions") -> None:
        """Count macro calls, property evaluations, included files or repeated fields."""
        self.expansions_spent += count
        if self.expansions_spent > self.max_expansions:
            raise self.overrun(f"has too many {label}", f"{self.max_expansions:,}")
        self.check_time()

    def check_time(self) -> None:
        """Refuse work that counts did not stop; far above what any file within the other limits takes."""
        if time.monotonic() - self._start > self.max_seconds:
            raise self.overrun("takes too long to read", f"{self.max_seconds:g} s")


def decompressed_limit(compressed_bytes: int) -> int:
    """Bytes that a compressed file may hold: always MAX_BYTES, and more for files that are large themselves."""
    return max(MAX_BYTES, MAX_RATIO * compressed_bytes)


def size_text(count: int) -> str:
    """Format a byte count for a message."""
    for shift, unit in ((30, "GB"), (20, "MB"), (10, "kB")):
        if count >> shift:
            return f"{count / (1 << shift):.3g} {unit}"
    return f"{count} bytes"


class _BoundedStream(io.RawIOBase):
    """A stream that spends every byte read from it."""

    def __init__(self, source: Any, budget: Budget) -> None:
        self._source, self._budget = source, budget

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count: int = self._source.readinto(buffer)
        self._budget.spend_bytes(count, "bytes after decompression")
        self._budget.check_time()
        return count


@contextmanager
def open_bounded(path: Path, budget: Budget) -> Iterator[BinaryIO]:
    """Open a file, gzipped if its name ends in .gz, so that reading beyond the budget raises its error.

    A stream that cannot be decompressed raises the budget's error too.
    """
    try:
        with (
            open_regular(path) as file,
            gzip.open(file) if path.suffix == ".gz" else file as source,
            io.BufferedReader(_BoundedStream(source, budget), 1 << 16) as stream,
        ):
            yield stream
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise budget.error(f"{budget.origin}: cannot be unpacked ({error}); expected a file, gzipped or not") from None


def read_bounded(path: Path, budget: Budget) -> bytes:
    """The bytes of a file, gzipped or not."""
    with open_bounded(path, budget) as stream:
        return stream.read()


def bounded_lines(stream: BinaryIO, budget: Budget) -> Iterator[bytes]:
    """The lines of a stream, each of a bounded length."""
    while line := stream.readline(MAX_LINE_BYTES + 1):
        if len(line) > MAX_LINE_BYTES:
            raise budget.overrun("has a line that is too long", size_text(MAX_LINE_BYTES))
        yield line
