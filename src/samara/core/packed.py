"""Files that are packed, unpacked no further than what they hold may honestly be long."""

import gzip
import io
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from samara.core.named_files import open_regular
from samara.core.tree import numbers_in

MOST = 1 << 30  # bytes


def bytes_inside(path: Path, most: int = MOST) -> bytes:
    """The bytes of a file, gzipped or not; ValueError naming it where it cannot be unpacked, or holds more than `most`"""
    try:
        with open_regular(path) as raw, gzip.open(raw) if path.suffix == ".gz" else raw as file:
            data = file.read(most + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path}: cannot be unpacked ({error}); expected a file, gzipped or not") from None
    if len(data) > most:
        raise ValueError(f"{path}: holds more than {most >> 20} MB; expected less")
    return data


def text_inside(path: Path, most: int = MOST) -> str:
    """The text of a file, gzipped or not; ValueError naming it where it cannot be unpacked, or holds more bytes than `most`"""
    try:
        return bytes_inside(path, most).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: cannot be unpacked ({error}); expected a text file, gzipped or not") from None


def array_inside(data: bytes, name: str) -> np.ndarray[Any, Any]:
    """The array of an `.npy` as numbers; ValueError naming it where there is none"""
    try:
        return numbers_in(np.load(io.BytesIO(data)), name)
    except Exception:  # NumPy's own, and those of Python's tokenizer, which reads the head of the file
        raise ValueError(f"{name}: cannot be read; expected a NumPy .npy file of numbers") from None


def arrays_inside(data: bytes, name: str, wanted: Sequence[str], most: int = MOST) -> list[np.ndarray[Any, Any]]:
    """The wanted arrays of an `.npz` as numbers; ValueError naming it where they are not there, or it holds more than `most`"""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            size = sum(own.file_size for own in archive.infolist())
        if size <= most:
            with np.load(io.BytesIO(data)) as arrays:
                missing = [key for key in wanted if key not in arrays]
                if not missing:
                    return [numbers_in(arrays[key], key) for key in wanted]
    except Exception:  # NumPy, zipfile and zlib each have their own words for a file that is none of theirs
        raise ValueError(f"{name}: cannot be read; expected a NumPy .npz file of numbers") from None
    if size > most:
        raise ValueError(f"{name}: holds {size} bytes; expected at most {most}")
    raise ValueError(f"{name}: {missing[0]} is missing; expected arrays {', '.join(wanted[:-1])} and {wanted[-1]}")
