"""Arrays of float32 in the safetensors format: eight bytes with the length of a JSON header, the header, the numbers.

It is read as a stranger's file: nothing of it is run, no size is believed before it is checked, and what is wrong is one
sentence. https://github.com/huggingface/safetensors describes the format.
"""

import json
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from samara.core.atomic_files import TOO_DEEP, parsed
from samara.core.sanitise import shown

FloatArray = np.ndarray[Any, np.dtype[np.float32]]

LONGEST_HEADER = 1 << 16  # [bytes]
MOST_TENSORS = 256
MOST_AXES = 4
ENTRY = ("dtype", "shape", "data_offsets")


def tensors_bytes(tensors: Mapping[str, Any], metadata: Mapping[str, str] | None = None) -> bytes:
    """A file with these arrays, in the order of their names; the same arrays give the same bytes"""
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    parts, end = [], 0
    for name in sorted(tensors):
        own = np.ascontiguousarray(tensors[name], dtype="<f4")
        header[name] = {"dtype": "F32", "shape": list(own.shape), "data_offsets": [end, end + own.nbytes]}
        parts.append(own.tobytes())
        end += own.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the numbers begin at a multiple of eight
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])


def read_tensors(data: bytes) -> dict[str, FloatArray]:
    """The arrays of a file by name; ValueError with one sentence where it is anything but float32 that fill it exactly"""
    if len(data) < 8:
        raise ValueError(f"it has {len(data)} bytes; expected a safetensors file, which begins with 8 of a length")
    length, body = int.from_bytes(data[:8], "little"), len(data) - 8
    if length > min(body, LONGEST_HEADER):
        raise ValueError(
            f"its header is said to have {length} bytes; expected at most {min(body, LONGEST_HEADER)}, as the file has room for"
        )
    entries = _header(data[8 : 8 + length])
    numbers = memoryview(data)[8 + length :]
    found, spans = {}, []
    for name, entry in entries.items():
        shape, (begin, end) = _entry(name, entry, len(numbers))
        found[name] = np.frombuffer(numbers[begin:end], dtype="<f4").reshape(shape)
        spans.append((begin, end))
    at = 0
    for begin, end in sorted(spans):
        if begin != at:
            raise ValueError(
                f"its numbers overlap or have a gap at byte {min(begin, at)}; expected one after the other"
            )
        at = end
    if at != len(numbers):
        raise ValueError(f"it has {len(numbers)} bytes of numbers, and its header tells of {at}")
    return found


def _header(text: bytes) -> dict[str, Any]:
    try:
        words = text.decode("utf-8")
        entries = parsed(words)
    except UnicodeDecodeError:
        raise ValueError("its header is not JSON (it is not a text in UTF-8)") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"its header is not JSON ({error})") from None
    except ValueError as error:  # what is nested without end, and numbers of thousands of digits
        why = str(error) if str(error) == TOO_DEEP else "a number of thousands of digits"
        raise ValueError(f"its header is not JSON ({why})") from None
    if not isinstance(entries, dict):
        raise ValueError(f"its header is {shown(entries)}; expected a table of arrays")
    if (twice := _twice(words)) is not None:
        raise ValueError(f"its header has {shown(twice)} twice; expected every name once")
    about = entries.pop("__metadata__", {})
    if not isinstance(about, dict) or not all(isinstance(own, str) for own in about.values()):
        raise ValueError(f"its __metadata__ is {shown(about)}; expected a table of texts")
    if len(entries) > MOST_TENSORS:
        raise ValueError(f"it has {len(entries)} arrays; expected at most {MOST_TENSORS}")
    return entries


def _twice(words: str) -> str | None:
    """A name that some table of the header has twice, which a dictionary would not tell"""
    found: list[str] = []

    def keep(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found.extend(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        return dict(pairs)

    json.loads(words, object_pairs_hook=keep)
    return found[-1] if found else None  # tables within come before those they are in


def _entry(name: str, entry: Any, size: int) -> tuple[list[int], tuple[int, int]]:
    """The shape of an array and where its bytes are, all of them within the file"""
    if not isinstance(entry, dict) or not entry.keys() <= set(ENTRY):
        raise ValueError(f"{shown(name)} is {shown(entry)}; expected a table of {', '.join(ENTRY)}")
    if entry.get("dtype") != "F32":
        raise ValueError(f"{shown(name)} is of {shown(entry.get('dtype'))}; expected F32")
    shape, span = (_whole_numbers(entry.get(key)) for key in ("shape", "data_offsets"))
    if shape is None or len(shape) > MOST_AXES:
        raise ValueError(
            f"{shown(name)} has the shape {shown(entry.get('shape'))}; expected up to {MOST_AXES} whole numbers"
        )
    if span is None or len(span) != 2 or not span[0] <= span[1] <= size:
        raise ValueError(
            f"{shown(name)} is at the bytes {shown(entry.get('data_offsets'))}; expected two numbers from 0 to {size}"
        )
    if 4 * math.prod(shape) != span[1] - span[0]:
        raise ValueError(
            f"{shown(name)} has the shape {shown(shape)} in {span[1] - span[0]} bytes; expected 4 for each"
        )
    return shape, (span[0], span[1])


def _whole_numbers(value: Any) -> list[int] | None:
    fits = isinstance(value, list) and all(type(x) is int and 0 <= x < 1 << 40 for x in value)
    return value if fits else None
