"""The memories of a Crazyflie, which a client lists, reads and writes in pieces of a packet.

Trajectories are flown from theirs. The others (EEPROM, LED ring, Lighthouse geometry, decks) store the bytes written to them
and have no effect.
"""

import errno
import struct
import zlib
from enum import IntEnum

COUNT, DETAILS = 1, 2
SIZE, MOST_AT_ONCE = 4096, 24
EEPROM_SIZE = 0x1FFF
DECKS = {"bcFlow2": 0x0F, "bcLedRing": 0x01}
"""Product numbers of the decks that have a 1-wire memory."""
_VENDOR = 0xBC  # Bitcraze
_PLACE = struct.Struct("<BI")


class MemoryType(IntEnum):
    """Memory types by the firmware's numbers."""

    EEPROM = 0x00
    ONE_WIRE = 0x01
    LED_RING = 0x10
    TRAJECTORIES = 0x12
    LIGHTHOUSE = 0x14
    TESTER = 0x15
    LED_TIMINGS = 0x17
    DECKS = 0x19


class Region:
    """One memory: its type, its serial number and its content."""

    def __init__(self, memory_type: MemoryType, content: bytes, serial: bytes = bytes(8)) -> None:
        self.memory_type, self.content, self.serial = memory_type, bytearray(content), serial
        self.errors = 0
        """Writes to the tester that were not its pattern."""

    def write(self, address: int, data: bytes) -> None:
        """Store the data; the tester compares them with its pattern instead."""
        part = slice(address, address + len(data))
        if self.memory_type is not MemoryType.TESTER:
            self.content[part] = data
        elif self.content[part] != data:
            self.errors += 1


class Memory:
    """The regions by number; `content` is that of the trajectories, number 0."""

    def __init__(self) -> None:
        self.tester = Region(MemoryType.TESTER, bytes(range(256)) * 16)
        self.regions = (
            Region(MemoryType.TRAJECTORIES, bytes(SIZE)),
            Region(MemoryType.EEPROM, _padded(_configuration_block(), EEPROM_SIZE)),
            Region(MemoryType.LED_RING, bytes(24)),  # 12 lights in RGB565
            Region(MemoryType.LED_TIMINGS, bytes(44)),  # a hash, then ten steps of four bytes
            Region(MemoryType.LIGHTHOUSE, bytes(0x2000)),
            self.tester,
            Region(MemoryType.DECKS, _padded(b"\3", 0x1000)),  # version 3, no deck with firmware
            *(
                Region(MemoryType.ONE_WIRE, _padded(_one_wire(name, product), 112), bytes([0x0D, *bytes(6), product]))
                for name, product in DECKS.items()
            ),
        )

    @property
    def content(self) -> bytearray:
        """The content of the memory for trajectories."""
        return self.regions[0].content

    def about(self, data: bytes) -> bytes:
        """Return the count of memories, or a memory's type, size and serial number.

        The answer is the request alone for a memory that does not exist, and ends in ENOEXEC for such a command.
        """
        if data == bytes([COUNT]):
            return bytes([COUNT, len(self.regions)])
        if len(data) == 2 and data[0] == DETAILS:
            if data[1] >= len(self.regions):
                return data
            region = self.regions[data[1]]
            return data + struct.pack("<BI", region.memory_type, len(region.content)) + region.serial
        return data[:1] + bytes([errno.ENOEXEC])

    def read(self, data: bytes) -> bytes:
        """Return the request, 0 and the bytes; EINVAL instead of 0 outside a memory."""
        header, length = _split(data)
        memory_id, address = _PLACE.unpack(header)
        if len(length) != 1 or length[0] > MOST_AT_ONCE or not self._has(memory_id, address, length[0]):
            return header + bytes([errno.EINVAL])
        return header + b"\0" + bytes(self.regions[memory_id].content[address : address + length[0]])

    def write(self, data: bytes) -> bytes:
        """Return the memory, the address and 0; EINVAL instead of 0 outside a memory."""
        header, content = _split(data)
        memory_id, address = _PLACE.unpack(header)
        if not content or not self._has(memory_id, address, len(content)):
            return header + bytes([errno.EINVAL])
        self.regions[memory_id].write(address, content)
        return header + b"\0"

    def _has(self, memory_id: int, address: int, length: int) -> bool:
        return memory_id < len(self.regions) and address + length <= len(self.regions[memory_id].content)


def _split(data: bytes) -> tuple[bytes, bytes]:
    """Split a packet into memory number and address, padded with zeros if it is too short for them, and the remainder."""
    return _padded(data[: _PLACE.size], _PLACE.size), data[_PLACE.size :]


def _padded(data: bytes, size: int) -> bytes:
    return data + bytes(size - len(data))


def _configuration_block() -> bytes:
    """The EEPROM of a new Crazyflie: channel 80, 2 Mbit/s, no trim, address E7E7E7E7E7, and the sum of these bytes."""
    block = b"0xBC" + struct.pack("<BBBffBI", 1, 80, 2, 0.0, 0.0, 0xE7, 0xE7E7E7E7)
    return block + bytes([sum(block) % 256])


def _one_wire(name: str, product: int) -> bytes:
    """The 1-wire memory of a deck: pins, vendor and product, then its name and revision; each part ends with a checksum."""
    elements = b"".join(bytes([key, len(text)]) + text for key, text in ((1, name.encode()), (2, b"A")))
    parts = struct.pack("<BIBB", 0xEB, 0, _VENDOR, product), bytes([0, len(elements)]) + elements
    return b"".join(part + bytes([zlib.crc32(part) & 0xFF]) for part in parts)
