"""The memory for trajectories: a client writes them there piece by piece before it has one of them flown."""

import errno
import struct

COUNT, DETAILS = 1, 2
TRAJECTORIES = 0x12
SIZE, MOST_AT_ONCE = 4096, 24
_PLACE = struct.Struct("<BI")


class Memory:
    """One memory, number 0: `content`."""

    def __init__(self) -> None:
        self.content = bytearray(SIZE)

    def about(self, data: bytes) -> bytes | None:
        """How many there are, or what one of them is"""
        if data == bytes([COUNT]):
            return bytes([COUNT, 1])
        if len(data) == 2 and data[0] == DETAILS:
            return data + (struct.pack("<BI8x", TRAJECTORIES, SIZE) if data[1] == 0 else b"")
        return None

    def read(self, data: bytes) -> bytes | None:
        """Number, address, 0 and the bytes; or what is wrong"""
        if len(data) != _PLACE.size + 1:
            return None
        (number, address), length = _PLACE.unpack_from(data), data[-1]
        if not self._has(number, address, length) or length > MOST_AT_ONCE:
            return data[:-1] + bytes([errno.EINVAL])
        return data[:-1] + b"\0" + bytes(self.content[address : address + length])

    def write(self, data: bytes) -> bytes | None:
        """Number, address, and 0 or what is wrong"""
        if len(data) <= _PLACE.size:
            return None
        (number, address), new = _PLACE.unpack_from(data), data[_PLACE.size :]
        fits = self._has(number, address, len(new))
        if fits:
            self.content[address : address + len(new)] = new
        return data[: _PLACE.size] + bytes([0 if fits else errno.EINVAL])

    @staticmethod
    def _has(number: int, address: int, length: int) -> bool:
        return number == 0 and address + length <= SIZE
