"""The table of contents of parameters or logs: numbered entries, and a fingerprint by which a client finds it in its cache."""

import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

from samara.link.crazyflie.crtp import MOST_DATA

ITEM, INFO = 2, 3
_ID = struct.Struct("<BH")


class Entry(NamedTuple):
    """Its type, with the flags that go with it, and its name in two parts."""

    code: int
    group: str
    name: str

    @property
    def packed(self) -> bytes:
        """Type, group, name, as the table sends them"""
        return bytes([self.code]) + f"{self.group}\0{self.name}\0".encode("ascii")


class Contents:
    """Answers what is in the table; `more` follows the count and the fingerprint."""

    def __init__(self, entries: Sequence[Entry], more: bytes = b"") -> None:
        for entry in entries:
            if _ID.size + len(entry.packed) > MOST_DATA:
                raise ValueError(f"{entry.group}.{entry.name}: too long for a packet; expected 24 letters at most")
        self.entries, self._more = tuple(entries), more
        self.crc = zlib.crc32(b"".join(entry.packed for entry in entries))

    def answer(self, data: bytes) -> bytes | None:
        """To a question about the table; None to what is none"""
        if data[:1] == bytes([INFO]):
            return struct.pack("<BHI", INFO, len(self.entries), self.crc) + self._more
        if len(data) == _ID.size and data[0] == ITEM:
            _, number = _ID.unpack(data)
            return data + self.entries[number].packed if number < len(self.entries) else data[:1]
        return None
