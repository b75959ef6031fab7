"""Packed files, unpacked within a budget."""

import io
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from samara.core.budget import MAX_BYTES, Budget, read_bounded, size_text
from samara.core.referenced_files import LARGEST_TEXT
from samara.core.tree import numbers_in
from samara.core.types import Array


def text_inside(path: Path, max_bytes: int = LARGEST_TEXT) -> str:
    """The text of a file, gzipped or not; ValueError naming it if it cannot be unpacked or has more than `max_bytes`."""
    try:
        return read_bounded(path, Budget(path, max_bytes=max_bytes)).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: cannot be unpacked ({error}); expected a text file, gzipped or not") from None


def require_cells(data: bytes, name: object) -> None:
    """Refuse a CSV of more cells than a table may have, before they become objects."""
    Budget(name).spend_nodes(data.count(b",") + data.count(b"\n") + data.count(b"\r"), "cells")


def array_inside(data: bytes, name: str) -> Array:
    """The array of an `.npy` as numbers; ValueError naming it where there is none"""
    try:
        return numbers_in(np.load(io.BytesIO(data)), name)
    except Exception:  # NumPy's own, and those of Python's tokenizer, which reads the head of the file
        raise ValueError(f"{name}: cannot be read; expected a NumPy .npy file of numbers") from None


def arrays_inside(data: bytes, name: str, wanted: Sequence[str], max_bytes: int = MAX_BYTES) -> list[Array]:
    """The wanted arrays of an `.npz`; ValueError naming it if one is missing or no numbers, or it has more than `max_bytes`."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            size = sum(own.file_size for own in archive.infolist())
        if size <= max_bytes:
            with np.load(io.BytesIO(data)) as arrays:
                missing = [key for key in wanted if key not in arrays]
                if not missing:
                    return [numbers_in(arrays[key], key) for key in wanted]
    except Exception:  # NumPy, zipfile and zlib each have their own words for a file that is none of theirs
        raise ValueError(f"{name}: cannot be read; expected a NumPy .npz file of numbers") from None
    if size > max_bytes:
        raise ValueError(f"{name}: holds {size_text(size)}; expected at most {size_text(max_bytes)}")
    raise ValueError(f"{name}: {missing[0]} is missing; expected arrays {', '.join(wanted[:-1])} and {wanted[-1]}")
