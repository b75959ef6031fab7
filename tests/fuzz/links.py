"""Packets: MAVLink streams of PX4, servos of ArduPilot, motors of Betaflight, and messages to a ground station."""

import math
import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

from samara.core.algebra import ZERO
from samara.link.ardupilot import PACKETS, output_from_pulse, parse_servos
from samara.link.betaflight import MOTORS, parse_motors
from samara.link.ground_station import PX4, GroundStation, GroundStationConnection
from samara.link.mavlink import MAX_FRAME_SIZE, FrameEncoder, FrameParser, layout
from samara.link.px4 import clamp_output as px4_output
from samara.sensors.site import HOME

from .law import Case, Reader
from .mutate import mutate_bytes

NAMES = ("HIL_ACTUATOR_CONTROLS", "COMMAND_LONG", "HEARTBEAT", "COMMAND_ACK", "STATUSTEXT")
ODD = (0.0, 1.0, -1.0, math.nan, math.inf, -math.inf, 1e38, 1e-45)
FRAMES = (
    ("HIL_ACTUATOR_CONTROLS", (80_000, 1, *(0.25,) * 16, 129)),
    ("COMMAND_LONG", (115.0, 4000.0, *(0.0,) * 5, 511, 0, 0, 0)),
    ("HEARTBEAT", (0, 2, 12, 129, 4, 3)),
    ("COMMAND_ACK", (400, 0, 0, 0, 0, 0)),
    ("STATUSTEXT", (4, b"Preflight Fail: no fix".ljust(50, b"\0"), 0, 0)),
)


class _PreparedWire(GroundStationConnection):
    """A wire without a socket that returns prepared data."""

    def __init__(self, data: bytes) -> None:
        super().__init__("127.0.0.1", 0, stream=True)
        self._data = data

    def receive(self) -> Iterator[tuple[bytes, Any]]:
        yield self._data, None


def _stream(rng: Random, forged: bool) -> bytes:
    speaker = FrameEncoder(rng.randrange(256), rng.choice((1, 0, 190)))
    data = b""
    for _ in range(rng.randrange(1, 5)):
        name, fields = rng.choice(FRAMES)
        if forged:  # with correct checksums, and full of values that no autopilot sends
            payload = bytearray(layout(name).packing.pack(*fields))
            for _ in range(rng.randrange(4)):
                at = rng.randrange(len(payload))
                if rng.random() < 0.5:
                    payload[at : at + 4] = struct.pack("<f", rng.choice(ODD))[: len(payload) - at]
                else:
                    payload[at] = rng.randrange(256)
            fields = layout(name).packing.unpack(bytes(payload))
        data += speaker.frame(name, *fields)
    return data


def _packet(kind: str, rng: Random) -> bytes:
    if kind == "mavlink":
        return _stream(rng, rng.random() < 0.5)
    if kind == "servos":
        magic = rng.choice(list(PACKETS))
        count = (PACKETS[magic].size - 8) // 2
        return PACKETS[magic].pack(magic, 1000, rng.randrange(2**32), *(rng.randrange(2**16) for _ in range(count)))
    return MOTORS.pack(*(rng.choice((0.0, 0.5, 1.0, *ODD)) for _ in range(4)))


def seeds() -> list[Case]:
    """Return packets that autopilots send."""
    rng = Random(0)
    return [
        Case(("mavlink", _stream(rng, False), (7,))),
        Case(("servos", _packet("servos", rng), ())),
    ]


def make(rng: Random) -> Case:
    """Create forged packets, or packets damaged in transit; a stream also in pieces."""
    kind = rng.choice(("mavlink", "mavlink", "mavlink", "servos", "motors"))
    data, changes = _packet(kind, rng), ["forged"]
    if rng.random() < 0.6:
        data, changes = mutate_bytes(data, rng)
    pieces = tuple(sorted(rng.randrange(len(data) + 1) for _ in range(rng.randrange(4))))
    return Case((kind, data, pieces), (kind, *changes))


def read(case_input: tuple[str, bytes, tuple[int, ...]], folder: Path) -> Any:
    """Return the outputs that a link computes from a packet; for any content they are within 0 … 1."""
    kind, data, pieces = case_input
    if kind == "servos":
        servos = parse_servos(data)
        outputs = [] if servos is None else [output_from_pulse(pulse) for pulse in servos.pulses]
    elif kind == "motors":
        outputs = [min(max(u, 0.0), 1.0) for u in parse_motors(data) or ()]
    else:
        outputs = _listen(data, pieces)
    assert all(0.0 <= u <= 1.0 for u in outputs), outputs
    return outputs


def _listen(data: bytes, pieces: tuple[int, ...]) -> list[float]:
    """Check that frames are the same in one piece and in several, and that the buffer never exceeds a frame."""
    listener, parts = FrameParser(*NAMES), FrameParser(*NAMES)
    frames = list(listener.parse(data))
    ends = [0, *pieces, len(data)]
    again = [frame for a, b in pairwise(ends) for frame in parts.parse(data[a:b])]
    assert repr(frames) == repr(again), "a stream in pieces holds other frames"
    assert len(listener.pending) <= MAX_FRAME_SIZE, "more is waited for than any frame is long"
    messages: list[str] = []
    station = GroundStation(_PreparedWire(data), PX4, "PX4", lambda level, text: messages.append(text))
    station.poll(10_000_000, HOME.origin, ZERO)
    assert all(text.isprintable() for text in messages), f"said raw: {messages}"
    answers = [frame for frame in frames if frame.id == layout("HIL_ACTUATOR_CONTROLS").id]
    return [px4_output(u) for frame in answers for u in frame.fields[2:18]]


LINKS = Reader("link", seeds, make, read, (), share=4)
