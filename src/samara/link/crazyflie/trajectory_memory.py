"""The memories of a Crazyflie, which a client lists, reads and writes in pieces of a packet.

Trajectories are flown from theirs. The others (EEPROM, LED ring, Lighthouse geometry, decks) store the bytes written to them
and have no effect.
"""

import errno
import struct
import zlib
from enum import IntEnum

COUNT, DETAILS = 1, 2
TRAJECTORY_BYTES, MAX_READ_BYTES = 4096, 24
EEPROM_SIZE = 0x1FFF
DECK_PRODUCTS = {"bcFlow2": 0x0F, "bcLedRing": 0x01}
"""Product numbers of the decks that have a 1-wire memory."""
_VENDOR = 0xBC  # Bitcraze
_HEADER = struct.Struct("<BI")


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


class MemoryRegions:
    """The memory regions by number; `content` is the content of region 0, which holds the trajectories."""

    def __init__(self) -> None:
        self.tester = Region(MemoryType.TESTER, bytes(range(256)) * 16)
        self.regions = (
            Region(MemoryType.TRAJECTORIES, bytes(TRAJECTORY_BYTES)),
            Region(MemoryType.EEPROM, _pad_bytes(_configuration_block(), EEPROM_SIZE)),
            Region(MemoryType.LED_RING, bytes(24)),  # 12 lights in RGB565
            Region(MemoryType.LED_TIMINGS, bytes(44)),  # a hash, then ten steps of four bytes
            Region(MemoryType.LIGHTHOUSE, bytes(0x2000)),
            self.tester,
            Region(MemoryType.DECKS, _pad_bytes(b"\3", 0x1000)),  # version 3, no deck with firmware
            *(
                Region(
                    MemoryType.ONE_WIRE, _pad_bytes(_one_wire(name, product), 112), bytes([0x0D, *bytes(6), product])
                )
                for name, product in DECK_PRODUCTS.items()
            ),
        )

    @property
    def content(self) -> bytearray:
        """The content of the memory for trajectories."""
        return self.regions[0].content

    def answer_info(self, data: bytes) -> bytes:
        """Return the count of memories, or a memory's type, size and serial number.

        For a memory that does not exist, the answer is the request alone; for an unknown command, the command and
        ENOEXEC.
        """
        if data == bytes([COUNT]):
            return bytes([COUNT, len(self.regions)])
        if len(data) == 2 and data[0] == DETAILS:
            if data[1] >= len(self.regions):
                return data
            region = self.regions[data[1]]
            return data + struct.pack("<BI", region.memory_type, len(region.content)) + region.serial
        return data[:1] + bytes([errno.ENOEXEC])

    def answer_read(self, data: bytes) -> bytes:
        """Return the request, 0 and the bytes; EINVAL instead of 0 outside a memory."""
        header, length = _split_header(data)
        memory_id, address = _HEADER.unpack(header)
        if len(length) != 1 or length[0] > MAX_READ_BYTES or not self._is_inside(memory_id, address, length[0]):
            return header + bytes([errno.EINVAL])
        return header + b"\0" + bytes(self.regions[memory_id].content[address : address + length[0]])

    def answer_write(self, data: bytes) -> bytes:
        """Return the memory, the address and 0; EINVAL instead of 0 outside a memory."""
        header, content = _split_header(data)
        memory_id, address = _HEADER.unpack(header)
        if not content or not self._is_inside(memory_id, address, len(content)):
            return header + bytes([errno.EINVAL])
        self.regions[memory_id].write(address, content)
        return header + b"\0"

    def _is_inside(self, memory_id: int, address: int, length: int) -> bool:
        return memory_id < len(self.regions) and address + length <= len(self.regions[memory_id].content)


def _split_header(data: bytes) -> tuple[bytes, bytes]:
    """Split a packet into memory number and address, padded with zeros if it is too short for them, and the remainder."""
    return _pad_bytes(data[: _HEADER.size], _HEADER.size), data[_HEADER.size :]


def _pad_bytes(data: bytes, size: int) -> bytes:
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
