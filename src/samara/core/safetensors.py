"""Read and write arrays of float32 in the safetensors format, by the library of that name, with limits for untrusted files."""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from safetensors import SafetensorError, deserialize
from safetensors.numpy import save

from samara.core.sanitise import quote_value

FloatArray = np.ndarray[Any, np.dtype[np.float32]]

MAX_HEADER_BYTES = 1 << 16
MAX_TENSORS = 256
MAX_AXES = 4


def tensors_bytes(tensors: Mapping[str, ArrayLike]) -> bytes:
    """Serialise arrays in the order of their names; the same arrays give the same bytes."""
    return save({name: np.ascontiguousarray(tensor, dtype="<f4") for name, tensor in tensors.items()})


def read_tensors(data: bytes) -> dict[str, FloatArray]:
    """Return the arrays of a file by name; ValueError, in one sentence, unless it holds only float32 within the limits."""
    length = int.from_bytes(data[:8], "little")
    if length > MAX_HEADER_BYTES:
        raise ValueError(f"its header has {length} bytes; expected at most {MAX_HEADER_BYTES}")
    try:
        entries = deserialize(data)  # type: ignore[no-untyped-call]
        json.loads(data[8 : 8 + length], parse_int=str, object_pairs_hook=_require_unique)
    except (SafetensorError, RecursionError) as error:
        raise ValueError(f"it is not a safetensors file ({quote_value(str(error))})") from None
    if len(entries) > MAX_TENSORS:
        raise ValueError(f"it has {len(entries)} arrays; expected at most {MAX_TENSORS}")
    tensors = {}
    for name, entry in entries:
        if entry["dtype"] != "F32":
            raise ValueError(f"{quote_value(name)} is of {quote_value(entry['dtype'])}; expected F32")
        if len(entry["shape"]) > MAX_AXES:
            raise ValueError(f"{quote_value(name)} has {len(entry['shape'])} axes; expected at most {MAX_AXES}")
        tensors[name] = np.frombuffer(entry["data"], dtype="<f4").reshape(entry["shape"])
    return tensors


def _require_unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Refuse a header with a repeated name: readers differ in which entry they use."""
    for name, count in Counter(name for name, _ in pairs).items():
        if count > 1:
            raise ValueError(f"its header has {quote_value(name)} twice; expected every name once")
    return dict(pairs)
