"""CRTP packets: a header byte with port and channel, and up to 30 bytes of data; one datagram is one packet."""

import math
import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple


class NumberType(NamedTuple):
    """A number type: its code in the log TOC and in the parameter TOC (−1: not available), its layout and its range."""

    log: int
    parameter: int
    layout: struct.Struct
    minimum: float = -math.inf
    maximum: float = math.inf

    @property
    def is_integer(self) -> bool:
        """Whether it is an integer type."""
        return math.isfinite(self.maximum)


def _integer_type(log: int, parameter: int, format_code: str) -> NumberType:
    layout = struct.Struct("<" + format_code)
    bits = 8 * layout.size
    low, high = (0, 2**bits - 1) if format_code.isupper() else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return NumberType(log, parameter, layout, low, high)


U8, U16, U32 = _integer_type(1, 0x08, "B"), _integer_type(2, 0x09, "H"), _integer_type(3, 0x0A, "I")
I8, I16, I32 = _integer_type(4, 0x00, "b"), _integer_type(5, 0x01, "h"), _integer_type(6, 0x02, "i")
FLOAT, HALF = NumberType(7, 0x06, struct.Struct("<f")), NumberType(8, 0x05, struct.Struct("<e"))
LOG_TYPES = {number_type.log: number_type for number_type in (U8, U16, U32, I8, I16, I32, FLOAT, HALF)}


def pack_number(value: float, number_type: NumberType) -> bytes:
    """Pack a number; integer types saturate and pack NaN as 0."""
    if number_type.is_integer:
        return number_type.layout.pack(
            0 if math.isnan(value) else int(min(max(value, number_type.minimum), number_type.maximum))
        )
    try:
        return number_type.layout.pack(value)
    except OverflowError:
        return number_type.layout.pack(math.copysign(math.inf, value))


MAX_DATA_BYTES = 30
NULL_PACKET = b"\xff"
"""Null packet: the request of a scan, and the answer to it."""


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
    if not 1 <= len(datagram) <= 1 + MAX_DATA_BYTES:
        return None
    return Packet(datagram[0] >> 4, datagram[0] & 0b11, bytes(datagram[1:]))


def datagram(packet: Packet) -> bytes:
    """Encode port << 4 | channel, and the data."""
    if len(packet.data) > MAX_DATA_BYTES:
        raise ValueError(f"a packet's data has {len(packet.data)} bytes; expected {MAX_DATA_BYTES} at most")
    return bytes([packet.port << 4 | packet.channel]) + packet.data


ITEM, INFO = 2, 3
_ID = struct.Struct("<BH")


class TocEntry(NamedTuple):
    """An entry of a TOC: type code with flags, group and name."""

    code: int
    group: str
    name: str

    @property
    def wire_bytes(self) -> bytes:
        """Type, group and name as a TOC packet carries them."""
        return bytes([self.code]) + f"{self.group}\0{self.name}\0".encode("ascii")


class Toc:
    """A table of contents (TOC); `info_trailer` follows the count and the CRC in its info packet."""

    def __init__(self, entries: Sequence[TocEntry], info_trailer: bytes = b"") -> None:
        for entry in entries:
            if _ID.size + len(entry.wire_bytes) > MAX_DATA_BYTES:
                raise ValueError(f"{entry.group}.{entry.name}: too long for a packet; expected 24 letters at most")
        self.entries, self._info_trailer = tuple(entries), info_trailer
        self.crc = zlib.crc32(b"".join(entry.wire_bytes for entry in entries))

    def answer(self, data: bytes) -> bytes | None:
        """Answer a TOC request; return None for any other packet."""
        if data[:1] == bytes([INFO]):
            return struct.pack("<BHI", INFO, len(self.entries), self.crc) + self._info_trailer
        if len(data) == _ID.size and data[0] == ITEM:
            _, index = _ID.unpack(data)
            return data + self.entries[index].wire_bytes if index < len(self.entries) else data[:1]
        return None
