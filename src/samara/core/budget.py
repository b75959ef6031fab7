"""Resource limits for readers of untrusted files: a small file must not cause unbounded work.

A reader creates one `Budget` per file and spends from it before it allocates, recurses or expands. Every overrun is one
sentence in the reader's error class, `<file>: has too many <things>; expected at most <limit>`. Limits count
bytes, nodes, levels and expansions, so that the same file always gives the same result; the limit in seconds is a safety
net far above the time that the counts allow.
"""

import gzip
import io
import os
import stat
import time
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from samara.core.tree import float_array
from samara.core.types import Array

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
        """Create the error for an exceeded limit."""
        return self.error(f"{self.origin}: {problem}; expected at most {limit}")

    def spend_bytes(self, count: int, label: str = "bytes") -> None:
        """Count bytes of text or data, after decompression and expansion."""
        self.bytes_spent += count
        if self.bytes_spent > self.max_bytes:
            raise self.overrun(f"has too many {label}", format_byte_count(self.max_bytes))

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
        """Refuse work that the counts did not stop; the limit is far above the time of any file within the other limits."""
        if time.monotonic() - self._start > self.max_seconds:
            raise self.overrun("takes too long to read", f"{self.max_seconds:g} s")


def decompressed_limit(compressed_bytes: int) -> int:
    """Return the decompressed size allowed for a compressed file: at least MAX_BYTES, more for large files."""
    return max(MAX_BYTES, MAX_RATIO * compressed_bytes)


def format_byte_count(count: int) -> str:
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
    """Read the bytes of a file, gzipped or not."""
    with open_bounded(path, budget) as stream:
        return stream.read()


def bounded_lines(stream: BinaryIO, budget: Budget) -> Iterator[bytes]:
    """Yield the lines of a stream, each of bounded length."""
    while line := stream.readline(MAX_LINE_BYTES + 1):
        if len(line) > MAX_LINE_BYTES:
            raise budget.overrun("has a line that is too long", format_byte_count(MAX_LINE_BYTES))
        yield line


MAX_TABLE_BYTES = 1 << 28  # tables
MAX_TEXT_BYTES = 1 << 24  # files written by people


def read_text_or_gzip(path: Path, max_bytes: int = MAX_TEXT_BYTES) -> str:
    """Read the text of a file, gzipped or not; ValueError if it cannot be unpacked or has more than `max_bytes`."""
    try:
        return read_bounded(path, Budget(path, max_bytes=max_bytes)).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: cannot be unpacked ({error}); expected a text file, gzipped or not") from None


def require_cells(data: bytes, name: object) -> None:
    """Refuse a CSV with too many cells before they become objects."""
    Budget(name).spend_nodes(data.count(b",") + data.count(b"\n") + data.count(b"\r"), "cells")


def load_npy(data: bytes, name: str) -> Array:
    """Load the numeric array of an `.npy` file; ValueError with `name` if it has none."""
    try:
        return float_array(np.load(io.BytesIO(data)), name)
    except Exception:  # errors of NumPy, and of Python's tokenizer, which reads the header
        raise ValueError(f"{name}: cannot be read; expected a NumPy .npy file of numbers") from None


def load_npz(data: bytes, name: str, keys: Sequence[str], max_bytes: int = MAX_BYTES) -> list[Array]:
    """Load arrays of an `.npz` by name; ValueError if one is missing or not numeric, or it has more than `max_bytes`."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size <= max_bytes:
            with np.load(io.BytesIO(data)) as arrays:
                missing = [key for key in keys if key not in arrays]
                if not missing:
                    return [float_array(arrays[key], key) for key in keys]
    except Exception:  # NumPy, zipfile and zlib each raise their own errors for a file of another format
        raise ValueError(f"{name}: cannot be read; expected a NumPy .npz file of numbers") from None
    if size > max_bytes:
        raise ValueError(f"{name}: holds {format_byte_count(size)}; expected at most {format_byte_count(max_bytes)}")
    raise ValueError(f"{name}: {missing[0]} is missing; expected arrays {', '.join(keys[:-1])} and {keys[-1]}")


_NAMED_PATHS: ContextVar[list[Path] | None] = ContextVar("paths that files name", default=None)


@contextmanager
def collect_named_files() -> Iterator[list[Path]]:
    """Collect the paths that files of any format refer to while the block runs."""
    paths: list[Path] = []
    token = _NAMED_PATHS.set(paths)
    try:
        yield paths
    finally:
        _NAMED_PATHS.reset(token)


def resolve_sibling_path(folder: Path, name: str) -> Path:
    """Return the path of a file that a file in this folder names; ValueError if `..`, a link or a root leads out of it."""
    path = folder / name
    try:
        is_inside = path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError):  # circular links, a name with a zero byte
        is_inside = False
    if not is_inside:
        raise ValueError(
            f"{name!r} is not in the folder of the file that names it; expected a file beside that or below"
        )
    if (paths := _NAMED_PATHS.get()) is not None:
        paths.append(path)
    return path


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading; OSError, without blocking, for a device or a pipe, which may be endless."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError("it is not a regular file")
    file = os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # replaced between the two checks
        file.close()
        raise OSError("it is not a regular file")
    return file


def read_bytes(path: Path, max_bytes: int = MAX_TABLE_BYTES) -> bytes:
    """Read a file; OSError for a device or a pipe, which may be endless, and for a file larger than `max_bytes` bytes."""
    with open_regular(path) as file:
        return read_limited(file, max_bytes)


def read_limited(file: BinaryIO, max_bytes: int) -> bytes:
    """Read an open file; OSError if it is larger than `max_bytes` bytes."""
    size = os.fstat(file.fileno()).st_size  # a file that is too large is not read
    data = file.read(max_bytes + 1) if size <= max_bytes else b""
    if max(size, len(data)) > max_bytes:
        raise OSError(f"it is larger than {f'{max_bytes >> 20} MB' if max_bytes >> 20 else f'{max_bytes >> 10} kB'}")
    return data


def read_text(path: Path) -> str:
    """Read a text file written by people; OSError if it is not UTF-8."""
    try:
        return read_bytes(path, MAX_TEXT_BYTES).decode("utf-8")
    except UnicodeDecodeError:
        raise OSError("it is not text in UTF-8") from None
