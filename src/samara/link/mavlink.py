"""MAVLink 2 on a wire: frames from numbers and numbers from frames, by pymavlink's own definitions.

The layout, the identity and the checksum seed of every message are pymavlink's; only the loop over the bytes is here, because
one message each way is made and read at every step of a flight, and a stream may hold anything.
"""

import struct
from collections.abc import Callable, Iterator
from functools import lru_cache
from types import ModuleType
from typing import Any, NamedTuple

from samara.core.lazy_import import MissingExtraError

START = 0xFD
HEADER, CHECKSUM, SIGNATURE = 10, 2, 13  # bytes
SIGNED = 0x01  # incompatibility flag
LARGEST = HEADER + 255 + CHECKSUM + SIGNATURE


@lru_cache(maxsize=1)
def dialect() -> ModuleType:
    """pymavlink's `ardupilotmega`, which holds `common` and what ArduPilot adds"""
    try:
        from pymavlink.dialects.v20 import ardupilotmega  # type: ignore[import-untyped]
    except ImportError:
        raise MissingExtraError("autopilots speak MAVLink: pip install 'samara[mavlink]'") from None
    return ardupilotmega


@lru_cache(maxsize=1)
def checksum_of() -> Callable[..., int]:
    """CRC-16/MCRF4XX, by the library pymavlink uses"""
    try:
        from fastcrc.crc16 import mcrf4xx  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        from pymavlink.generator.mavcrc import x25crc  # type: ignore[import-untyped]

        return lambda data: int(x25crc(data).crc)
    return mcrf4xx


class Layout(NamedTuple):
    """A message's number, its fields as they lie on the wire, and the seed of its checksum."""

    id: int
    packing: struct.Struct
    seed: bytes


@lru_cache(maxsize=256)
def layout(name: str) -> Layout:
    """The layout of a message by its name, such as HIL_SENSOR"""
    own = getattr(dialect(), f"MAVLink_{name.lower()}_message")
    return Layout(own.id, struct.Struct(own.unpacker.format), bytes([own.crc_extra]))


class Speaker:
    """Makes frames of one system and component, numbered one after the other."""

    def __init__(self, system: int, component: int) -> None:
        self.system, self._component, self._count = system, component, 0
        self._checksum = checksum_of()

    def frame(self, name: str, *fields: object) -> bytes:
        """A message by its name, its fields in the order they lie on the wire; zeros at its end are cut, as MAVLink 2 does"""
        number, packing, seed = layout(name)
        payload = packing.pack(*fields).rstrip(b"\0") or b"\0"
        head = struct.pack(
            "<BBBBBBHB", len(payload), 0, 0, self._count, self.system, self._component, number & 0xFFFF, number >> 16
        )
        self._count = (self._count + 1) & 0xFF
        body = head + payload
        return b"\xfd" + body + struct.pack("<H", self._checksum(body + seed))

    def message(self, message: Any) -> bytes:
        """A frame of a pymavlink message"""
        fields: list[object] = []
        for name in message.ordered_fieldnames:
            value = getattr(message, name)
            fields += (
                value if isinstance(value, (list, tuple)) else [value.encode() if isinstance(value, str) else value]
            )
        return self.frame(message.get_type(), *fields)


class Frame(NamedTuple):
    """One message as it came: its number, who sent it, and its fields in the order they lie on the wire."""

    id: int
    system: int
    component: int
    fields: tuple[Any, ...]  # the dialect decides their types


class Listener:
    """Frames out of a stream of bytes; what is none is skipped and counted in `nonsense`."""

    def __init__(self, *names: str) -> None:
        self._layouts = {own.id: own for own in (layout(name) for name in names)}
        self.waiting = b""
        self._checksum = checksum_of()
        self.nonsense = 0

    def hear(self, data: bytes) -> Iterator[Frame]:
        """The frames that are complete now; other messages than those it listens for are passed over"""
        stream = self.waiting + data if self.waiting else data
        at, size = 0, len(stream)
        while True:
            found = stream.find(START, at)
            if found != at:
                self.nonsense += (size if found < 0 else found) - at
            if found < 0:
                at = size
                break
            at = found
            if size - at < HEADER:
                break
            length, flags = stream[at + 1], stream[at + 2]
            number = stream[at + 7] | stream[at + 8] << 8 | stream[at + 9] << 16
            seed = self._seed(number, length) if flags <= SIGNED else None
            end = at + HEADER + length + CHECKSUM
            whole = end + (SIGNATURE if flags else 0)
            if seed is not None and size < whole:
                break
            told = stream[end - 2] | stream[end - 1] << 8 if seed is not None else -1
            if seed is None or self._checksum(stream[at + 1 : end - CHECKSUM] + seed) != told:
                self.nonsense += 1
                at += 1
                continue
            own = self._layouts.get(number)
            if own is None:
                at = whole
                continue
            payload = stream[at + HEADER : end - CHECKSUM]
            missing = own.packing.size - len(payload)
            fields = own.packing.unpack(payload + bytes(missing) if missing > 0 else payload[: own.packing.size])
            yield Frame(number, stream[at + 5], stream[at + 6], fields)
            at = whole
        self.waiting = stream[at:]

    def _seed(self, number: int, length: int) -> bytes | None:
        """The checksum's seed of a message that may be so long; None where there is none, for then it is not waited for"""
        own = self._layouts.get(number)
        if own is not None:
            return own.seed if length <= own.packing.size else None
        known = dialect().mavlink_map.get(number)
        return bytes([known.crc_extra]) if known is not None and length <= known.unpacker.size else None
