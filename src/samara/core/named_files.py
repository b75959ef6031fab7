"""Files that somebody else's file names: those in its own folder, and plain ones of a size that can be read."""

import os
from pathlib import Path

LARGEST = 1 << 28  # [bytes] of a table
LARGEST_TEXT = 1 << 24  # [bytes] of a file that people write


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
    return path


def read_bytes(path: Path, largest: int = LARGEST) -> bytes:
    """What a file holds; OSError for a device or a pipe, which need not end, and for what is too large"""
    if path.exists() and not path.is_file():
        raise OSError("it is no plain file")
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size  # nothing is read of what is too large
        data = file.read(largest + 1) if size <= largest else b""
    if max(size, len(data)) > largest:
        raise OSError(f"it is larger than {f'{largest >> 20} MB' if largest >> 20 else f'{largest >> 10} kB'}")
    return data


def read_text(path: Path) -> str:
    """The text of a file that people write, in UTF-8"""
    return read_bytes(path, LARGEST_TEXT).decode("utf-8")
