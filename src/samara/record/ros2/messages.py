"""ROS 2 messages: their types, from the library rosbags, and layouts of their bytes in CDR.

CDR is little-endian numbers, each at a multiple of its size after a header of four bytes. A string or a sequence is preceded
by its length in four bytes; that of a string includes the terminating zero. While these lengths are constant, so are the
offsets of all numbers: a layout is computed once, and NumPy writes many messages at a time.
"""

import re
import struct
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from samara.core.extras import missing_extra
from samara.core.types import Array

if TYPE_CHECKING:
    from rosbags.typesys.store import Typestore

NUMBER_FORMATS = {
    "bool": "?", "uint8": "u1", "int8": "i1", "uint16": "<u2", "int16": "<i2", "uint32": "<u4", "int32": "<i4",
    "uint64": "<u8", "int64": "<i8", "float32": "<f4", "float64": "<f8",
}  # fmt: skip


class MessageField(NamedTuple):
    """A field: its name, its type or that of its elements, and its length: fixed, or None for a sequence.

    `capacity` is the maximum length of a bounded string, 0 without a bound.
    """

    name: str
    type_name: str
    is_array: bool = False
    length: int | None = None
    capacity: int = 0


@cache
def typestore() -> "Typestore":
    """Return the types of ROS 2 Jazzy, and those of messages.txt, which rosbags lacks or defines differently."""
    try:
        from rosbags.typesys import Stores, get_types_from_msg, get_typestore
    except ImportError as error:
        raise missing_extra("reading and writing ROS 2 messages", "rosbags", "bags") from error
    types = dict(get_typestore(Stores.ROS2_JAZZY).fielddefs)
    for definition in (files(__package__) / "messages.txt").read_text(encoding="utf-8").split("MSG: ")[1:]:
        name, _, text = definition.partition("\n")
        types |= get_types_from_msg(text, name)
    store = get_typestore(Stores.EMPTY)
    store.register(types)
    return store


@cache
def message_fields(message_type: str) -> tuple[MessageField, ...]:
    """Return the fields of a type 'sensor_msgs/Imu', in CDR order."""
    definitions = typestore().fielddefs
    from rosbags.interfaces import Nodetype

    fields = []
    for name, node in definitions[schema_name(message_type)][1]:
        length: int | None = 0
        element: Any = node
        if node[0] in (Nodetype.ARRAY, Nodetype.SEQUENCE):
            element, length = cast(tuple[Any, int], node[1])
            length = length if node[0] == Nodetype.ARRAY else None
        is_named = element[0] == Nodetype.NAME
        type_name, capacity = (element[1].replace("/msg/", "/"), 0) if is_named else element[1]
        fields.append(MessageField(name, type_name, element is not node, length, capacity))
    return tuple(fields)


def schema_name(message_type: str) -> str:
    """Convert 'sensor_msgs/Imu' to 'sensor_msgs/msg/Imu'."""
    package, _, name = message_type.partition("/")
    return f"{package}/msg/{name}"


def schema_text(message_type: str) -> str:
    """Return the definition of a type and of all nested types, in MCAP's schema encoding 'ros2msg'."""
    return typestore().generate_msgdef(schema_name(message_type), ros_version=2)[0]


@cache
def type_hash(message_type: str) -> str:
    """Return the RIHS01 hash of a type (REP 2016)."""
    return typestore().hash_rihs01(schema_name(message_type))


CDR_HEADER = b"\x00\x01\x00\x00"  # plain CDR, little-endian


class CdrLayout(NamedTuple):
    """A message type with constant strings and lengths: its bytes (size,), and the type and offset of every number by path."""

    message_type: str
    data: Array
    offsets: dict[str, tuple[np.dtype[np.generic], int]]

    def pack(self, count: int, columns: Mapping[str, ArrayLike]) -> Array:
        """Return the bytes of messages (count, size).

        `columns` has the numbers by path, 'pose.pose.position' for all numbers below it: (count,), or (count, n) for n
        numbers; () or (n,) for the same in all messages.
        """
        messages = np.tile(self.data, (count, 1))
        for path, values in columns.items():
            number_offsets = self.find_offsets(path)
            values = np.asarray(values)
            if len(number_offsets) == 1 and number_offsets[0][0].shape == ():
                values = values[..., None]
            column = 0
            for number_type, offset in number_offsets:
                width = number_type.shape[0] if number_type.shape else 1
                target = np.ndarray(
                    (count, width), number_type.base, messages, offset, (messages.strides[0], number_type.base.itemsize)
                )
                target[...] = values[..., column : column + width]
                column += width
            if column != values.shape[-1]:
                raise ValueError(f"{self.message_type}.{path} has {column} numbers; got {values.shape[-1]}")
        return messages

    def find_offsets(self, path: str) -> list[tuple[np.dtype[np.generic], int]]:
        """Return the types and offsets of the numbers below a path, in order."""
        if path in self.offsets:
            return [self.offsets[path]]
        number_offsets = [place for name, place in self.offsets.items() if name.startswith(f"{path}.")]
        if not number_offsets:
            raise KeyError(f"{self.message_type} has no number {path!r}; expected one of {', '.join(self.offsets)}")
        return number_offsets


def cdr_layout(message_type: str, **constants: object) -> CdrLayout:
    """Return the layout of messages with these constant strings, sequences and numbers; all others are 0 and empty.

    A nested message is given as a dict, a sequence of messages as a list of dicts.
    """
    writer = _CdrWriter()
    writer.write_message(message_type, constants, "")
    return CdrLayout(message_type, np.frombuffer(bytes(writer.data), np.uint8), writer.offsets)


class _CdrWriter:
    """Writes the bytes of a message and records the offsets of its numbers."""

    def __init__(self) -> None:
        self.data = bytearray(CDR_HEADER)
        self.offsets: dict[str, tuple[np.dtype[np.generic], int]] = {}

    def write_message(self, message_type: str, values: Mapping[str, object], path: str) -> None:
        fields = message_fields(message_type)
        unknown = set(values) - {field.name for field in fields}
        if unknown:
            raise KeyError(f"{message_type} has no field {min(unknown)!r}")
        for field in fields:
            self.write_field(field, values.get(field.name), f"{path}.{field.name}" if path else field.name)

    def write_field(self, field: MessageField, value: object, path: str) -> None:
        if not field.is_array:
            self.write_value(field.type_name, value, path)
            return
        values = [None] * (field.length or 0) if value is None else cast(Sequence[object], value)
        if field.length is None:
            self.write_numbers("<u4", len(values))
        elif field.length != len(values):
            raise ValueError(f"{path} has {len(values)} numbers; expected {field.length}")
        if field.type_name in NUMBER_FORMATS:
            if len(values):
                self.write_numbers(
                    f"{len(values)}{NUMBER_FORMATS[field.type_name]}", 0 if value is None else values, path
                )
            return
        for index, element in enumerate(values):
            self.write_value(field.type_name, element, f"{path}[{index}]")

    def write_value(self, type_name: str, value: object, path: str) -> None:
        if type_name == "string":
            text = str(value or "").encode() + b"\0"
            self.write_numbers("<u4", len(text))
            self.data += text
        elif type_name in NUMBER_FORMATS:
            self.write_numbers(NUMBER_FORMATS[type_name], value or 0, path)
        else:
            self.write_message(type_name, cast(Mapping[str, object], value or {}), path)

    def write_numbers(self, number_format: str, values: object, path: str = "") -> None:
        number_type = np.dtype(_format_and_shape(number_format))
        self.data += bytes(-(len(self.data) - len(CDR_HEADER)) % number_type.base.itemsize)
        if path:
            self.offsets[path] = number_type, len(self.data)
        self.data += np.full(number_type.shape, values, number_type.base).tobytes()


def _format_and_shape(number_format: str) -> str | tuple[str, tuple[int]]:
    """Convert '9<f8' to NumPy's pair of a format and a shape."""
    digits = number_format[: len(number_format) - len(number_format.lstrip("0123456789"))]
    return (number_format[len(digits) :], (int(digits),)) if digits else number_format


STRUCT_CODES = {
    "b1": "?", "u1": "B", "i1": "b", "u2": "H", "i2": "h", "u4": "I", "i4": "i", "u8": "Q", "i8": "q", "f4": "f", "f8": "d",
}  # fmt: skip


class CdrTemplate:
    """The bytes of a message in which the numbers at some paths are variable."""

    def __init__(self, layout: CdrLayout, paths: Sequence[str]) -> None:
        """Create a template; raise KeyError if the layout has no such number."""
        self._data = bytearray(layout.data.tobytes())
        self._parts: list[tuple[struct.Struct, int, int]] = []
        format_codes, begin, end = "", 0, 0
        for number_type, offset in (place for path in paths for place in layout.find_offsets(path)):
            codes = STRUCT_CODES[number_type.base.str[1:]] * (number_type.shape[0] if number_type.shape else 1)
            if offset != end:  # adjacent numbers are written at once
                self._add(format_codes, begin)
                format_codes, begin = "", offset
            format_codes, end = format_codes + codes, offset + number_type.itemsize
        self._add(format_codes, begin)

    def _add(self, format_codes: str, begin: int) -> None:
        if format_codes:
            self._parts.append((struct.Struct(f"<{format_codes}"), begin, len(format_codes)))

    def fill(self, numbers: Sequence[float]) -> bytes:
        """Return the message with these numbers, in the order of the paths."""
        position = 0
        for part_format, offset, count in self._parts:
            part_format.pack_into(self._data, offset, *numbers[position : position + count])
            position += count
        if position != len(numbers):
            raise ValueError(f"{len(numbers)} numbers for a message with {position}")
        return bytes(self._data)


class CdrError(ValueError):
    """Bytes that are not a message of their type."""


def parse_message(message_type: str, data: bytes) -> Any:
    """Deserialise a message, with its fields as attributes; raise `CdrError` if the bytes are not of this type."""
    store = typestore()
    from rosbags.serde import SerdeError

    if len(data) >= 2 and data[:2] not in (b"\0\0", b"\0\1"):  # rosbags 0.11.0 takes any encoding for little-endian CDR
        raise CdrError(f"encoding 0x{data[:2].hex()}; expected the CDR of {message_type}")
    try:
        return store.deserialize_cdr(data, schema_name(message_type))
    except (SerdeError, ArithmeticError, AssertionError, ValueError, LookupError, struct.error) as error:
        raise CdrError(f"{' '.join(str(error).split())}; expected the CDR of {message_type}") from None


MAP_FRAME = "map"
INVALID_NAME_CHARACTERS = re.compile(r"[^A-Za-z0-9_]")


class Ros2Topic(NamedTuple):
    """A topic '/drone/imu': its layout, the times of its messages (m,) [µs], and their numbers by path.

    Late subscribers receive the last message of a topic that is `latched` (transient local).
    """

    name: str
    layout: CdrLayout
    times_us: Array
    columns: Mapping[str, Array]
    latched: bool = False

    def pack(self, rows: slice) -> Array:
        """Return the bytes of a slice of its messages (k, size)."""
        return self.layout.pack(len(self.times_us[rows]), {path: values[rows] for path, values in self.columns.items()})


def stamp_columns(times_us: Array, path: str = "header.stamp") -> dict[str, Array]:
    """Return seconds and nanoseconds of times, as in builtin_interfaces/Time, by path."""
    seconds, micros = np.divmod(times_us, 1_000_000)
    return {f"{path}.sec": seconds, f"{path}.nanosec": micros * 1000}


def xyzw(q: Array) -> Array:
    """Reorder quaternions (…, w x y z) to ROS's x y z w."""
    return q[..., [1, 2, 3, 0]]


def ros_name(name: str) -> str:
    """Convert a drone's name to a valid ROS 2 name: letters, digits and _, not beginning with a digit."""
    ascii_name = INVALID_NAME_CHARACTERS.sub("_", name)
    return f"_{ascii_name}" if ascii_name[:1].isdigit() else ascii_name
