"""Files that somebody else's file names: those in its own folder, and plain ones of a size that can be read."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import BinaryIO

LARGEST = 1 << 28  # [bytes] of a table
LARGEST_TEXT = 1 << 24  # [bytes] of a file that people write
_COLLECTED: ContextVar[list[Path] | None] = ContextVar("paths that files name", default=None)


@contextmanager
def collect_named_files() -> Iterator[list[Path]]:
    """Collect the paths that files name, in whatever file of whatever format, while the block runs."""
    paths: list[Path] = []
    token = _COLLECTED.set(paths)
    try:
        yield paths
    finally:
        _COLLECTED.reset(token)


def path_beside(folder: Path, name: str) -> Path:
    """Where the file is that another one in this folder names; ValueError where `..`, a link or a root leads out of it"""
    path = folder / name
    try:
        inside = path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError):  # links in a circle, a name with a zero byte
        inside = False
    if not inside:
        raise ValueError(
            f"{name!r} is not in the folder of the file that names it; expected a file beside that or below"
        )
    if (paths := _COLLECTED.get()) is not None:
        paths.append(path)
    return path


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading; OSError for a device or a pipe, which need not end, without waiting for it"""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError("it is no plain file")
    file = os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # nor became one meanwhile
        file.close()
        raise OSError("it is no plain file")
    return file


def read_bytes(path: Path, largest: int = LARGEST) -> bytes:
    """What a file holds; OSError for a device or a pipe, which need not end, and for what is too large"""
    with open_regular(path) as file:
        return require_size(file, largest)


def require_size(file: BinaryIO, largest: int) -> bytes:
    """Read an open file; OSError if it is larger than `largest` bytes."""
    size = os.fstat(file.fileno()).st_size  # nothing is read of what is too large
    data = file.read(largest + 1) if size <= largest else b""
    if max(size, len(data)) > largest:
        raise OSError(f"it is larger than {f'{largest >> 20} MB' if largest >> 20 else f'{largest >> 10} kB'}")
    return data


def read_text(path: Path) -> str:
    """The text of a file that people write, in UTF-8"""
    return read_bytes(path, LARGEST_TEXT).decode("utf-8")
