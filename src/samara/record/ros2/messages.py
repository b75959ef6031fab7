"""ROS 2 messages: their types, by the library rosbags, and layouts of their bytes in CDR.

CDR is little-endian numbers, each at a multiple of its size after a head of four bytes. A text or a sequence is preceded by its
length in four bytes, that of a text counting the zero it ends with. While these lengths stay what they are, so do the places of
all numbers: a layout is found once, and NumPy writes many messages at a time.
"""

import re
import struct
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from samara.core.lazy_import import MissingExtraError
from samara.core.types import Array

if TYPE_CHECKING:
    from rosbags.typesys.store import Typestore

SIZES = {
    "bool": "?", "uint8": "u1", "int8": "i1", "uint16": "<u2", "int16": "<i2", "uint32": "<u4", "int32": "<i4",
    "uint64": "<u8", "int64": "<i8", "float32": "<f4", "float64": "<f8",
}  # fmt: skip


class Field(NamedTuple):
    """A field: its name, its type or that of its elements, and how many: one, a fixed number, or None for a sequence

    `capacity` is the maximum length of a bounded string, 0 without a bound.
    """

    name: str
    kind: str
    is_array: bool = False
    length: int | None = None
    capacity: int = 0


@cache
def typestore() -> "Typestore":
    """The types of ROS 2 Jazzy, and those of messages.txt, which rosbags does not have as they are on the wire"""
    try:
        from rosbags.typesys import Stores, get_types_from_msg, get_typestore
    except ImportError as error:
        raise MissingExtraError("ROS 2 messages need rosbags: pip install 'samara[bags]'") from error
    types = dict(get_typestore(Stores.ROS2_JAZZY).fielddefs)
    for definition in (files(__package__) / "messages.txt").read_text(encoding="utf-8").split("MSG: ")[1:]:
        name, _, text = definition.partition("\n")
        types |= get_types_from_msg(text, name)
    store = get_typestore(Stores.EMPTY)
    store.register(types)
    return store


@cache
def fields_of(kind: str) -> tuple[Field, ...]:
    """The fields of a type 'sensor_msgs/Imu', in the order in which CDR has them"""
    from rosbags.interfaces import Nodetype

    fields = []
    for name, node in typestore().fielddefs[schema_name(kind)][1]:
        length: int | None = 0
        element: Any = node
        if node[0] in (Nodetype.ARRAY, Nodetype.SEQUENCE):
            element, length = cast(tuple[Any, int], node[1])
            length = length if node[0] == Nodetype.ARRAY else None
        named = element[0] == Nodetype.NAME
        type_name, capacity = (element[1].replace("/msg/", "/"), 0) if named else element[1]
        fields.append(Field(name, type_name, element is not node, length, capacity))
    return tuple(fields)


def schema_name(kind: str) -> str:
    """'sensor_msgs/Imu' as 'sensor_msgs/msg/Imu'"""
    package, _, name = kind.partition("/")
    return f"{package}/msg/{name}"


def schema_text(kind: str) -> str:
    """The definition of a type and of all types within, as MCAP's encoding 'ros2msg' has them"""
    return typestore().generate_msgdef(schema_name(kind), ros_version=2)[0]


@cache
def type_hash(kind: str) -> str:
    """The RIHS01 hash of a type (REP 2016)"""
    return typestore().hash_rihs01(schema_name(kind))


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
        fields = fields_of(kind)
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


class CdrError(ValueError):
    """Bytes that are not a message of their type"""


def parsed(kind: str, data: bytes) -> Any:
    """A message, its fields as attributes; `CdrError`, in one sentence, where the bytes are not one of this type"""
    from rosbags.serde import SerdeError

    try:
        return typestore().deserialize_cdr(data, schema_name(kind))
    except (SerdeError, ArithmeticError, AssertionError, ValueError, LookupError, struct.error) as error:
        raise CdrError(f"{' '.join(str(error).split())}; expected the CDR of {kind}") from None


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
