"""Parameters: numbers by name that a client reads and writes; some can be stored, for as long as the simulation lasts."""

import errno
import math
import struct
from collections.abc import Sequence
from typing import NamedTuple

from samara.link.crazyflie.number import Kind, packed
from samara.link.crazyflie.toc import Contents, Entry

SET_BY_NAME, EXTENDED, STORE, STATE, CLEAR, DEFAULT, EXTENDED_2, DEFAULT_2 = 0, 2, 3, 4, 5, 6, 7, 8
EXTENDED_FLAG, READ_ONLY_FLAG, PERSISTENT = 0x10, 0x40, 1
_ID = struct.Struct("<H")


class Parameter(NamedTuple):
    """Its type, its name in two parts, and the number it starts with."""

    kind: Kind
    group: str
    name: str
    default: float = 0.0
    read_only: bool = False
    persistent: bool = False

    @property
    def entry(self) -> Entry:
        """Its line of the table"""
        flags = READ_ONLY_FLAG * self.read_only | EXTENDED_FLAG * self.persistent
        return Entry(self.kind.parameter | flags, self.group, self.name)


class Parameters:
    """The table of parameters, and their values by "group.name"."""

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        self._parameters = tuple(parameters)
        self._names = [f"{own.group}.{own.name}" for own in parameters]
        self.contents = Contents([own.entry for own in parameters])
        self.values = {name: own.default for name, own in zip(self._names, parameters, strict=True)}
        self._stored: dict[str, float] = {}

    def read(self, data: bytes) -> bytes | None:
        """Number, 0, value; or number and what is wrong"""
        if len(data) != _ID.size:
            return None
        (number,) = _ID.unpack(data)
        return data + (b"\0" + self._packed(number) if number < len(self._names) else bytes([errno.ENOENT]))

    def write(self, data: bytes) -> bytes | None:
        """Number and value, as it is from now on; a value of another length, or that is not a number, changes nothing"""
        if len(data) < _ID.size:
            return None
        (number,) = _ID.unpack_from(data)
        if number >= len(self._names):
            return data[: _ID.size] + bytes([errno.ENOENT])
        self._set(number, data[_ID.size :])
        return data[: _ID.size] + self._packed(number)

    def other(self, data: bytes) -> bytes | None:
        """The other orders: to set by name, to store, and what there is to know of one"""
        if data[:1] == bytes([SET_BY_NAME]):
            return self._set_by_name(data)
        if len(data) != 1 + _ID.size:
            return None
        command, number = data[0], _ID.unpack_from(data, 1)[0]
        answer = self._about(command, number) if number < len(self._names) else bytes([errno.ENOENT])
        return None if answer is None else data + answer

    def _about(self, command: int, number: int) -> bytes | None:
        own, name = self._parameters[number], self._names[number]
        if command in (EXTENDED, EXTENDED_2):
            return b"\0" * (command == EXTENDED_2) + bytes([PERSISTENT * own.persistent])
        if command in (DEFAULT, DEFAULT_2):
            return b"\0" * (command == DEFAULT_2) + packed(own.default, own.kind)
        if command not in (STORE, STATE, CLEAR):
            return None
        if not own.persistent:
            return bytes([errno.ENOENT])
        if command == STATE:
            stored = packed(self._stored[name], own.kind) if name in self._stored else b""
            return bytes([bool(stored)]) + packed(own.default, own.kind) + stored
        if command == STORE:
            self._stored[name] = self.values[name]
        else:
            self._stored.pop(name, None)
        return b"\0"

    def _set_by_name(self, data: bytes) -> bytes | None:
        group, _, rest = data[1:].partition(b"\0")
        name, zero, rest = rest.partition(b"\0")
        full = f"{group.decode('latin-1')}.{name.decode('latin-1')}"
        if not zero or not rest:
            return None
        problem = errno.ENOENT
        if full in self.values:
            number = self._names.index(full)
            fits = rest[0] == self._parameters[number].kind.parameter and self._set(number, rest[1:])
            problem = 0 if fits else errno.EINVAL
        return data[: len(data) - len(rest)] + bytes([problem])

    def _set(self, number: int, value: bytes) -> bool:
        own = self._parameters[number]
        if own.read_only or len(value) != own.kind.layout.size:
            return False
        (new,) = own.kind.layout.unpack(value)
        if not math.isfinite(new):
            return False
        self.values[self._names[number]] = new
        return True

    def _packed(self, number: int) -> bytes:
        return packed(self.values[self._names[number]], self._parameters[number].kind)
