"""CDR, the bytes of a ROS 2 message: little-endian numbers, each at a multiple of its size after a head of four bytes.

A text or a sequence is preceded by its length in four bytes, that of a text counting the zero it ends with. While these lengths
stay what they are, so do the places of all numbers: a layout is found once, and NumPy writes many messages at a time.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from samara.core.types import Array
from samara.record.ros2.definitions import SIZES, Field, definitions

HEAD = b"\x00\x01\x00\x00"  # plain CDR, little-endian


class Layout(NamedTuple):
    """A type of message with its texts and lengths: its bytes (size,), and the place of every number by its path"""

    kind: str
    data: Array
    places: dict[str, tuple[np.dtype[Any], int]]

    def packed(self, count: int, columns: Mapping[str, Any]) -> Array:
        """The bytes of so many messages (count, size)

        `columns` has the numbers by their paths, 'pose.pose.position' for all of a message below it: (count,), or (count, n)
        where they are n; of one message for all, () or (n,).
        """
        messages = np.tile(self.data, (count, 1))
        for path, values in columns.items():
            own = self.below(path)
            values = np.asarray(values)
            if len(own) == 1 and own[0][0].shape == ():
                values = values[..., None]
            at = 0
            for kind, offset in own:
                width = kind.shape[0] if kind.shape else 1
                part = np.ndarray(
                    (count, width), kind.base, messages, offset, (messages.strides[0], kind.base.itemsize)
                )
                part[...] = values[..., at : at + width]
                at += width
            if at != values.shape[-1]:
                raise ValueError(f"{self.kind}.{path} has {at} numbers, and was given {values.shape[-1]}")
        return messages

    def below(self, path: str) -> list[tuple[np.dtype[Any], int]]:
        """The places of the numbers of a path, in their order"""
        if path in self.places:
            return [self.places[path]]
        found = [place for name, place in self.places.items() if name.startswith(f"{path}.")]
        if not found:
            raise KeyError(f"{self.kind} has no number {path!r}; expected one of {', '.join(self.places)}")
        return found


def layout_of(kind: str, **constants: Any) -> Layout:
    """The layout of messages that have these texts, sequences and numbers; the others are 0 and empty

    What is within another message is given as a dict, a sequence of messages as a list of those.
    """
    writer = _Writer()
    writer.message(kind, constants, "")
    return Layout(kind, np.frombuffer(bytes(writer.data), np.uint8), writer.places)


class _Writer:
    """The bytes so far, and where numbers are among them"""

    def __init__(self) -> None:
        self.data = bytearray(HEAD)
        self.places: dict[str, tuple[np.dtype[Any], int]] = {}

    def message(self, kind: str, given: Mapping[str, Any], path: str) -> None:
        fields = definitions()[kind]
        unknown = set(given) - {field.name for field in fields}
        if unknown:
            raise KeyError(f"{kind} has no field {min(unknown)!r}")
        for field in fields:
            self.field(field, given.get(field.name), f"{path}.{field.name}" if path else field.name)

    def field(self, field: Field, value: Any, path: str) -> None:
        if not field.is_array:
            self.one(field.kind, value, path)
            return
        values: Sequence[Any] = [None] * (field.length or 0) if value is None else value
        if field.length is None:
            self.numbers("<u4", len(values))
        elif field.length != len(values):
            raise ValueError(f"{path} has {len(values)} numbers; expected {field.length}")
        if field.kind in SIZES:
            if len(values):
                self.numbers(f"{len(values)}{SIZES[field.kind]}", 0 if value is None else values, path)
            return
        for number, own in enumerate(values):
            self.one(field.kind, own, f"{path}[{number}]")

    def one(self, kind: str, value: Any, path: str) -> None:
        if kind == "string":
            text = (value or "").encode() + b"\0"
            self.numbers("<u4", len(text))
            self.data += text
        elif kind in SIZES:
            self.numbers(SIZES[kind], value or 0, path)
        else:
            self.message(kind, value or {}, path)

    def numbers(self, form: str, values: Any, path: str = "") -> None:
        kind = np.dtype(_shaped(form))
        self.data += bytes(-(len(self.data) - len(HEAD)) % kind.base.itemsize)
        if path:
            self.places[path] = kind, len(self.data)
        self.data += np.full(kind.shape, values, kind.base).tobytes()


def _shaped(form: str) -> Any:
    """'9<f8' as NumPy's pair of a form and a shape"""
    digits = form[: len(form) - len(form.lstrip("0123456789"))]
    return (form[len(digits) :], (int(digits),)) if digits else form
