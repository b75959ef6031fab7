"""ROS 2 messages: their types, type hashes, and bytes in CDR.

CDR is little-endian numbers, each at a multiple of its size after a head of four bytes. A text or a sequence is preceded by its
length in four bytes, that of a text counting the zero it ends with. While these lengths stay what they are, so do the places of
all numbers: a layout is found once, and NumPy writes many messages at a time. Bytes are read as strictly as untrusted ones have
to be. Types are those of messages.txt: the library rosbags has no px4_msgs, gives the type of the ROS 2 graph another hash (of
`char` instead of uint8), and tells no offsets of numbers.
"""

import hashlib
import json
import re
import struct
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from samara.core.types import Array

SIZES = {
    "bool": "?", "uint8": "u1", "int8": "i1", "uint16": "<u2", "int16": "<i2", "uint32": "<u4", "int32": "<i4",
    "uint64": "<u8", "int64": "<i8", "float32": "<f4", "float64": "<f8",
}  # fmt: skip
FIELD = re.compile(r"(?P<kind>[\w/]+)(<=(?P<capacity>\d+))?(?P<many>\[(?P<length>\d*)\])? (?P<name>\w+)")
BORDER = "=" * 80  # between the definitions of a schema


class Field(NamedTuple):
    """A field: its name, what it is or has many of, and how many: one, a fixed number, or None for a sequence

    `capacity` is the maximum length of a bounded string, 0 without a bound.
    """

    name: str
    kind: str
    is_array: bool = False
    length: int | None = None
    capacity: int = 0

    @property
    def text(self) -> str:
        """As a .msg file has it"""
        many = f"[{'' if self.length is None else self.length}]" if self.is_array else ""
        bound = f"<={self.capacity}" if self.capacity else ""
        return f"{self.kind}{bound}{many} {self.name}"


@cache
def definitions() -> dict[str, tuple[Field, ...]]:
    """The fields of every type, by its name 'sensor_msgs/Imu'"""
    found: dict[str, tuple[Field, ...]] = {}
    name = ""
    for line in (files(__package__) / "messages.txt").read_text(encoding="utf-8").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        match = FIELD.fullmatch(line.strip()) if line.startswith(" ") else None
        if match is None:
            name = line.strip()
            found[name] = ()
            continue
        length = int(match["length"]) if match["length"] else None
        capacity = int(match["capacity"] or 0)
        found[name] += (Field(match["name"], match["kind"], match["many"] is not None, length, capacity),)
    return found


def schema_name(kind: str) -> str:
    """'sensor_msgs/Imu' as 'sensor_msgs/msg/Imu'"""
    package, _, name = kind.partition("/")
    return f"{package}/msg/{name}"


def schema_text(kind: str) -> str:
    """Its definition and those of all types within, as MCAP's encoding 'ros2msg' has them"""
    own, *within = with_parts(kind)
    parts = [_text(own), *(f"{BORDER}\nMSG: {part}\n{_text(part)}" for part in within)]
    return "".join(parts)


def _text(kind: str) -> str:
    return "".join(f"{field.text}\n" for field in definitions()[kind])


def with_parts(kind: str) -> list[str]:
    """Return the type, then the types it refers to, each once."""
    found = [kind]
    for field in definitions()[kind]:
        if field.kind in definitions():
            found += with_parts(field.kind)
    return list(dict.fromkeys(found))


FIELD_TYPE_IDS = {
    "int8": 2, "uint8": 3, "int16": 4, "uint16": 5, "int32": 6, "uint32": 7, "int64": 8, "uint64": 9,
    "float32": 10, "float64": 11, "bool": 15, "string": 17,
}  # fmt: skip
"""The constants of `type_description_interfaces/msg/FieldType`."""
NESTED_TYPE_ID, BOUNDED_STRING_ID = 1, 21
ARRAY_OFFSET, SEQUENCE_OFFSET = 48, 144


@cache
def type_hash(kind: str) -> str:
    """Return 'RIHS01_' and the SHA-256 of the JSON type description: the type, then the types it refers to by name."""
    top, *parts = with_parts(kind)
    description = {
        "type_description": _individual_description(top),
        "referenced_type_descriptions": [_individual_description(part) for part in sorted(parts, key=schema_name)],
    }
    return f"RIHS01_{hashlib.sha256(json.dumps(description).encode()).hexdigest()}"


def _individual_description(kind: str) -> dict[str, object]:
    """Return the name and the fields of one type; defaults and constants are no part of the hash."""
    fields = [{"name": field.name, "type": _field_type(field)} for field in definitions()[kind]]
    return {"type_name": schema_name(kind), "fields": fields}


def _field_type(field: Field) -> dict[str, object]:
    number = BOUNDED_STRING_ID if field.capacity else FIELD_TYPE_IDS.get(field.kind, NESTED_TYPE_ID)
    if field.is_array:
        number += SEQUENCE_OFFSET if field.length is None else ARRAY_OFFSET
    return {
        "type_id": number,
        "capacity": field.length or 0,
        "string_capacity": field.capacity,
        "nested_type_name": schema_name(field.kind) if field.kind in definitions() else "",
    }


HEAD = b"\x00\x01\x00\x00"  # plain CDR, little-endian


class Layout(NamedTuple):
    """A type of message with its texts and lengths: its bytes (size,), and the place of every number by its path"""

    kind: str
    data: Array
    places: dict[str, tuple[np.dtype[np.generic], int]]

    def packed(self, count: int, columns: Mapping[str, ArrayLike]) -> Array:
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

    def below(self, path: str) -> list[tuple[np.dtype[np.generic], int]]:
        """The places of the numbers of a path, in their order"""
        if path in self.places:
            return [self.places[path]]
        found = [place for name, place in self.places.items() if name.startswith(f"{path}.")]
        if not found:
            raise KeyError(f"{self.kind} has no number {path!r}; expected one of {', '.join(self.places)}")
        return found


def layout_of(kind: str, **constants: object) -> Layout:
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
        self.places: dict[str, tuple[np.dtype[np.generic], int]] = {}

    def message(self, kind: str, given: Mapping[str, object], path: str) -> None:
        fields = definitions()[kind]
        unknown = set(given) - {field.name for field in fields}
        if unknown:
            raise KeyError(f"{kind} has no field {min(unknown)!r}")
        for field in fields:
            self.field(field, given.get(field.name), f"{path}.{field.name}" if path else field.name)

    def field(self, field: Field, value: object, path: str) -> None:
        if not field.is_array:
            self.one(field.kind, value, path)
            return
        values = [None] * (field.length or 0) if value is None else cast(Sequence[object], value)
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

    def one(self, kind: str, value: object, path: str) -> None:
        if kind == "string":
            text = str(value or "").encode() + b"\0"
            self.numbers("<u4", len(text))
            self.data += text
        elif kind in SIZES:
            self.numbers(SIZES[kind], value or 0, path)
        else:
            self.message(kind, cast(Mapping[str, object], value or {}), path)

    def numbers(self, form: str, values: object, path: str = "") -> None:
        kind = np.dtype(_shaped(form))
        self.data += bytes(-(len(self.data) - len(HEAD)) % kind.base.itemsize)
        if path:
            self.places[path] = kind, len(self.data)
        self.data += np.full(kind.shape, values, kind.base).tobytes()


def _shaped(form: str) -> str | tuple[str, tuple[int]]:
    """'9<f8' as NumPy's pair of a form and a shape"""
    digits = form[: len(form) - len(form.lstrip("0123456789"))]
    return (form[len(digits) :], (int(digits),)) if digits else form


LETTERS = {
    "b1": "?", "u1": "B", "i1": "b", "u2": "H", "i2": "h", "u4": "I", "i4": "i", "u8": "Q", "i8": "q", "f4": "f", "f8": "d",
}  # fmt: skip


class Form:
    """The bytes of a layout, with the places of some of its numbers, which stand in the order of their paths"""

    def __init__(self, layout: Layout, paths: Sequence[str]) -> None:
        """KeyError where the layout has no such number"""
        self._data = bytearray(layout.data.tobytes())
        self._parts: list[tuple[struct.Struct, int, int]] = []
        letters, begin, end = "", 0, 0
        for kind, offset in (place for path in paths for place in layout.below(path)):
            own = LETTERS[kind.base.str[1:]] * (kind.shape[0] if kind.shape else 1)
            if offset != end:  # what stands side by side is written at once
                self._add(letters, begin)
                letters, begin = "", offset
            letters, end = letters + own, offset + kind.itemsize
        self._add(letters, begin)

    def _add(self, letters: str, begin: int) -> None:
        if letters:
            self._parts.append((struct.Struct(f"<{letters}"), begin, len(letters)))

    def filled(self, numbers: Sequence[float]) -> bytes:
        """A message with these numbers, as many as the paths have"""
        at = 0
        for form, offset, count in self._parts:
            form.pack_into(self._data, offset, *numbers[at : at + count])
            at += count
        if at != len(numbers):
            raise ValueError(f"{len(numbers)} numbers for a message that has {at}")
        return bytes(self._data)


ORDERS = {b"\x00\x00": ">", b"\x00\x01": "<"}  # plain CDR, in either order of bytes
PADDING = 3  # bytes after a message that fill up its last word


class CdrError(ValueError):
    """Bytes that are not a message of their type"""


def parsed(kind: str, data: bytes) -> SimpleNamespace:
    """A message, its fields as attributes; `CdrError` where the bytes are not one of this type"""
    order = ORDERS.get(bytes(data[:2])) if len(data) >= 4 else None
    if order is None:
        raise CdrError(f"{kind} begins with {bytes(data[:4]).hex(' ') or 'nothing'}; expected plain CDR, 00 01 00 00")
    reader = _Reader(kind, data, order)
    message = reader.message(kind)
    left = len(data) - 4 - reader.at
    if left > PADDING:
        raise CdrError(f"{kind} has {left} bytes too many; expected {reader.at}")
    return message


class _Reader:
    """Where it stands among the bytes after the head"""

    def __init__(self, kind: str, data: bytes, order: str) -> None:
        self._kind, self._data, self._order, self.at = kind, data, order, 0

    def message(self, kind: str) -> SimpleNamespace:
        return SimpleNamespace(**{field.name: self.field(field) for field in definitions()[kind]})

    def field(self, field: Field) -> object:
        if not field.is_array:
            return self.one(field.kind)
        count = self.numbers("I")[0] if field.length is None else field.length
        if field.kind in SIZES:
            return list(self.numbers(_letter(field.kind), count))
        self.require(count)  # each takes a byte at least: no length asks for more memory than the message has
        return [self.one(field.kind) for _ in range(count)]

    def one(self, kind: str) -> object:
        if kind == "string":
            return self.text()
        if kind not in SIZES:
            return self.message(kind)
        return self.numbers(_letter(kind))[0]

    def text(self) -> str:
        length = self.numbers("I")[0]
        self.require(length)
        begin = 4 + self.at
        own = bytes(self._data[begin : begin + length])
        self.at += length
        try:
            return own.removesuffix(b"\0").decode()
        except UnicodeDecodeError:
            raise CdrError(f"{self._kind} has a text that is not UTF-8") from None

    def numbers(self, letter: str, count: int = 1) -> tuple[Any, ...]:
        size = struct.calcsize(f"<{letter}")
        self.at += -self.at % size if count else 0
        self.require(count * size)
        own = struct.unpack_from(f"{self._order}{count}{letter}", self._data, 4 + self.at)
        self.at += count * size
        return own

    def require(self, count: int) -> None:
        """That so many bytes are left"""
        if self.at + count > len(self._data) - 4:
            raise CdrError(f"{self._kind} ends after {len(self._data) - 4} bytes; expected {self.at + count} at least")


def _letter(kind: str) -> str:
    return "?" if kind == "bool" else LETTERS[SIZES[kind].lstrip("<")]


MAP = "map"
NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_]")


class Topic(NamedTuple):
    """A topic '/drone/imu': its layout, the times of its messages (m,) [µs], and their numbers by path

    Who comes late is still told the last message of one that is `latched`.
    """

    name: str
    layout: Layout
    times_us: Array
    columns: Mapping[str, Array]
    latched: bool = False

    def packed(self, some: slice) -> Array:
        """The bytes of some of its messages (k, size)"""
        return self.layout.packed(
            len(self.times_us[some]), {path: values[some] for path, values in self.columns.items()}
        )


def stamped(times_us: Array, path: str = "header.stamp") -> dict[str, Array]:
    """Whole seconds and nanoseconds of times, as builtin_interfaces/Time has them"""
    seconds, micros = np.divmod(times_us, 1_000_000)
    return {f"{path}.sec": seconds, f"{path}.nanosec": micros * 1000}


def xyzw(q: Array) -> Array:
    """Quaternions (…, w x y z) in ROS's order"""
    return q[..., [1, 2, 3, 0]]


def ros_name(name: str) -> str:
    """A drone's name as ROS 2 allows it: letters, digits and _, not beginning with a digit"""
    plain = NOT_IN_NAMES.sub("_", name)
    return f"_{plain}" if plain[:1].isdigit() else plain
