"""Messages of ROS 2 read from CDR, as strictly as a stranger's bytes have to be: what is not of the type is one sentence."""

import struct
from types import SimpleNamespace
from typing import Any

from samara.record.ros2.definitions import SIZES, Field, definitions
from samara.record.ros2.message_template import LETTERS

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

    def field(self, field: Field) -> Any:
        if not field.is_array:
            return self.one(field.kind)
        count = self.numbers("I")[0] if field.length is None else field.length
        if field.kind in SIZES:
            return list(self.numbers(_letter(field.kind), count))
        self.require(count)  # each takes a byte at least: no length asks for more memory than the message has
        return [self.one(field.kind) for _ in range(count)]

    def one(self, kind: str) -> Any:
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
