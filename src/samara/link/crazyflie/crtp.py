"""CRTP packets: a header byte with port and channel, and up to 30 bytes of data; one datagram is one packet."""

import math
import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple


class Kind(NamedTuple):
    """A number type: its code in the log TOC and in the parameter TOC (−1: not available), its layout and its range."""

    log: int
    parameter: int
    layout: struct.Struct
    least: float = -math.inf
    most: float = math.inf

    @property
    def whole(self) -> bool:
        """Whether it is an integer type."""
        return math.isfinite(self.most)


def _whole(log: int, parameter: int, format_code: str) -> Kind:
    layout = struct.Struct("<" + format_code)
    bits = 8 * layout.size
    low, high = (0, 2**bits - 1) if format_code.isupper() else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return Kind(log, parameter, layout, low, high)


U8, U16, U32 = _whole(1, 0x08, "B"), _whole(2, 0x09, "H"), _whole(3, 0x0A, "I")
I8, I16, I32 = _whole(4, 0x00, "b"), _whole(5, 0x01, "h"), _whole(6, 0x02, "i")
FLOAT, HALF = Kind(7, 0x06, struct.Struct("<f")), Kind(8, 0x05, struct.Struct("<e"))
LOGGED = {number_type.log: number_type for number_type in (U8, U16, U32, I8, I16, I32, FLOAT, HALF)}


def packed(value: float, number_type: Kind) -> bytes:
    """Pack a number; integer types saturate and pack NaN as 0."""
    if number_type.whole:
        return number_type.layout.pack(
            0 if math.isnan(value) else int(min(max(value, number_type.least), number_type.most))
        )
    try:
        return number_type.layout.pack(value)
    except OverflowError:
        return number_type.layout.pack(math.copysign(math.inf, value))


MOST_DATA = 30
NULL = b"\xff"
"""Null packet: a scan sends it, and it is the answer."""


class Port:
    """The ports of a Crazyflie."""

    CONSOLE = 0
    PARAMETERS = 2
    ROLL_PITCH_YAW_THRUST = 3
    MEMORY = 4
    LOGS = 5
    LOCALISATION = 6
    SETPOINTS = 7
    HIGH_LEVEL = 8
    SUPERVISOR = 9
    PLATFORM = 13
    LINK = 15


class Packet(NamedTuple):
    """Port 0 … 15, channel 0 … 3, data."""

    port: int
    channel: int
    data: bytes


def parse(datagram: bytes) -> Packet | None:
    """Parse a datagram; return None if it is empty or too long."""
    if not 1 <= len(datagram) <= 1 + MOST_DATA:
        return None
    return Packet(datagram[0] >> 4, datagram[0] & 0b11, bytes(datagram[1:]))


def datagram(packet: Packet) -> bytes:
    """Encode port << 4 | channel, and the data."""
    if len(packet.data) > MOST_DATA:
        raise ValueError(f"a packet's data has {len(packet.data)} bytes; expected {MOST_DATA} at most")
    return bytes([packet.port << 4 | packet.channel]) + packet.data


ITEM, INFO = 2, 3
_ID = struct.Struct("<BH")


class Entry(NamedTuple):
    """An entry of a TOC: type code with flags, group and name."""

    code: int
    group: str
    name: str

    @property
    def packed(self) -> bytes:
        """Type, group and name as a TOC packet carries them."""
        return bytes([self.code]) + f"{self.group}\0{self.name}\0".encode("ascii")


class Contents:
    """A table of contents (TOC); `more` follows the count and the CRC in its info packet."""

    def __init__(self, entries: Sequence[Entry], info_trailer: bytes = b"") -> None:
        for entry in entries:
            if _ID.size + len(entry.packed) > MOST_DATA:
                raise ValueError(f"{entry.group}.{entry.name}: too long for a packet; expected 24 letters at most")
        self.entries, self._more = tuple(entries), info_trailer
        self.crc = zlib.crc32(b"".join(entry.packed for entry in entries))

    def answer(self, data: bytes) -> bytes | None:
        """Answer a TOC request; return None for any other packet."""
        if data[:1] == bytes([INFO]):
            return struct.pack("<BHI", INFO, len(self.entries), self.crc) + self._more
        if len(data) == _ID.size and data[0] == ITEM:
            _, index = _ID.unpack(data)
            return data + self.entries[index].packed if index < len(self.entries) else data[:1]
        return None
