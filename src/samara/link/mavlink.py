"""MAVLink 2 framing: encode messages to frames and parse frames from a byte stream, with pymavlink's message definitions.

Field layouts, message ids and CRC_EXTRA come from pymavlink. Only the loop over the bytes is implemented here, because every
simulation step encodes and parses a message, and because a stream may contain arbitrary bytes.
"""

import struct
from collections.abc import Callable, Iterator
from functools import lru_cache
from types import ModuleType
from typing import Any, NamedTuple

from samara.core.extras import import_extra

START = 0xFD
HEADER, CHECKSUM, SIGNATURE = 10, 2, 13  # bytes
SIGNED = 0x01  # incompatibility flag
MAX_FRAME_SIZE = HEADER + 255 + CHECKSUM + SIGNATURE


@lru_cache(maxsize=1)
def dialect() -> ModuleType:
    """Import pymavlink's dialect `ardupilotmega`, which includes `common`."""
    return import_extra("pymavlink.dialects.v20.ardupilotmega", "MAVLink", "pymavlink", "mavlink")


@lru_cache(maxsize=1)
def checksum_function() -> Callable[..., int]:
    """Return the CRC-16/MCRF4XX function, from the library that pymavlink uses."""
    try:
        from fastcrc.crc16 import mcrf4xx  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        from pymavlink.generator.mavcrc import x25crc  # type: ignore[import-untyped]

        return lambda data: int(x25crc(data).crc)
    return mcrf4xx


class MavlinkMessageLayout(NamedTuple):
    """A message's id, its fields in wire order, and its CRC_EXTRA byte."""

    id: int
    packing: struct.Struct
    crc_extra: bytes


@lru_cache(maxsize=256)
def layout(name: str) -> MavlinkMessageLayout:
    """Return the layout of a message by its name, such as HIL_SENSOR."""
    message_class = getattr(dialect(), f"MAVLink_{name.lower()}_message")
    return MavlinkMessageLayout(
        message_class.id, struct.Struct(message_class.unpacker.format), bytes([message_class.crc_extra])
    )


class FrameEncoder:
    """Encodes frames of one system and component, with consecutive sequence numbers."""

    def __init__(self, system: int, component: int) -> None:
        self.system, self._component, self._count = system, component, 0
        self._checksum = checksum_function()

    def frame(self, name: str, *fields: object) -> bytes:
        """Encode a message by its name, fields in wire order; trailing zeros are cut, as MAVLink 2 requires."""
        number, packing, seed = layout(name)
        payload = packing.pack(*fields).rstrip(b"\0") or b"\0"
        head = struct.pack(
            "<BBBBBBHB", len(payload), 0, 0, self._count, self.system, self._component, number & 0xFFFF, number >> 16
        )
        self._count = (self._count + 1) & 0xFF
        body = head + payload
        return b"\xfd" + body + struct.pack("<H", self._checksum(body + seed))

    def encode(self, message: Any) -> bytes:
        """Encode a pymavlink message."""
        fields: list[object] = []
        for name in message.ordered_fieldnames:
            value = getattr(message, name)
            fields += (
                value if isinstance(value, (list, tuple)) else [value.encode() if isinstance(value, str) else value]
            )
        return self.frame(message.get_type(), *fields)


class MavlinkFrame(NamedTuple):
    """A received message: its id, its sender, and its fields in wire order."""

    id: int
    system: int
    component: int
    fields: tuple[Any, ...]  # the dialect decides their types


class FrameParser:
    """Parses frames from a byte stream; invalid bytes are skipped and counted in `skipped_bytes`."""

    def __init__(self, *names: str) -> None:
        self._layouts = {message_layout.id: message_layout for message_layout in (layout(name) for name in names)}
        self.pending = b""
        self._checksum = checksum_function()
        self.skipped_bytes = 0

    def parse(self, data: bytes) -> Iterator[MavlinkFrame]:
        """Yield the frames that are complete; messages other than those named at construction are ignored."""
        stream = self.pending + data if self.pending else data
        position, size = 0, len(stream)
        while True:
            start = stream.find(START, position)
            if start != position:
                self.skipped_bytes += (size if start < 0 else start) - position
            if start < 0:
                position = size
                break
            position = start
            if size - position < HEADER:
                break
            length, flags = stream[position + 1], stream[position + 2]
            number = stream[position + 7] | stream[position + 8] << 8 | stream[position + 9] << 16
            seed = self._crc_extra(number, length) if flags <= SIGNED else None
            end = position + HEADER + length + CHECKSUM
            frame_end = end + (SIGNATURE if flags else 0)
            if seed is not None and size < frame_end:
                break
            received_checksum = stream[end - 2] | stream[end - 1] << 8 if seed is not None else -1
            if seed is None or self._checksum(stream[position + 1 : end - CHECKSUM] + seed) != received_checksum:
                self.skipped_bytes += 1
                position += 1
                continue
            message_layout = self._layouts.get(number)
            if message_layout is None:
                position = frame_end
                continue
            payload = stream[position + HEADER : end - CHECKSUM]
            missing = message_layout.packing.size - len(payload)
            fields = message_layout.packing.unpack(
                payload + bytes(missing) if missing > 0 else payload[: message_layout.packing.size]
            )
            yield MavlinkFrame(number, stream[position + 5], stream[position + 6], fields)
            position = frame_end
        self.pending = stream[position:]

    def _crc_extra(self, number: int, length: int) -> bytes | None:
        """Return the CRC_EXTRA of a message; None if the id is unknown or `length` too large, so that it is not waited for."""
        message_layout = self._layouts.get(number)
        if message_layout is not None:
            return message_layout.crc_extra if length <= message_layout.packing.size else None
        message_class = dialect().mavlink_map.get(number)
        return (
            bytes([message_class.crc_extra])
            if message_class is not None and length <= message_class.unpacker.size
            else None
        )
