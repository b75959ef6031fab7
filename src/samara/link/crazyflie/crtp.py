"""CRTP packets: a byte that says port and channel, and up to 30 bytes of data; one datagram is one packet."""

import math
import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple


class Kind(NamedTuple):
    """A type of number: its code in the table of logs and in that of parameters (−1: not there), and its layout."""

    log: int
    parameter: int
    layout: struct.Struct
    least: float = -math.inf
    most: float = math.inf

    @property
    def whole(self) -> bool:
        """Whether it counts"""
        return math.isfinite(self.most)


def _whole(log: int, parameter: int, letter: str) -> Kind:
    layout = struct.Struct("<" + letter)
    bits = 8 * layout.size
    low, high = (0, 2**bits - 1) if letter.isupper() else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return Kind(log, parameter, layout, low, high)


U8, U16, U32 = _whole(1, 0x08, "B"), _whole(2, 0x09, "H"), _whole(3, 0x0A, "I")
I8, I16, I32 = _whole(4, 0x00, "b"), _whole(5, 0x01, "h"), _whole(6, 0x02, "i")
FLOAT, HALF = Kind(7, 0x06, struct.Struct("<f")), Kind(8, 0x05, struct.Struct("<e"))
LOGGED = {kind.log: kind for kind in (U8, U16, U32, I8, I16, I32, FLOAT, HALF)}


def packed(value: float, kind: Kind) -> bytes:
    """The number's bytes; of a type that is too narrow the nearest it has, and 0 for one that is not a number"""
    if kind.whole:
        return kind.layout.pack(0 if math.isnan(value) else int(min(max(value, kind.least), kind.most)))
    try:
        return kind.layout.pack(value)
    except OverflowError:
        return kind.layout.pack(math.copysign(math.inf, value))


MOST_DATA = 30
NULL = b"\xff"
"""What a scan sends, and what is answered to it."""


class Port:
    """Which part of a Crazyflie is meant."""

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
    """The packet of a datagram; None for one that is empty or too long"""
    if not 1 <= len(datagram) <= 1 + MOST_DATA:
        return None
    return Packet(datagram[0] >> 4, datagram[0] & 0b11, bytes(datagram[1:]))


def datagram(packet: Packet) -> bytes:
    """port << 4 | channel, and the data"""
    if len(packet.data) > MOST_DATA:
        raise ValueError(f"a packet's data has {len(packet.data)} bytes; expected {MOST_DATA} at most")
    return bytes([packet.port << 4 | packet.channel]) + packet.data


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
