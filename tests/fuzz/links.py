"""Packets: MAVLink streams of PX4, servos of ArduPilot, motors of Betaflight, and what a ground station hears."""

import math
import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

from samara.core.algebra import ZERO
from samara.link.ardupilot import PACKETS, output, parse_servos
from samara.link.betaflight import MOTORS, parse_motors
from samara.link.ground_station import PX4, GroundStation, Wire
from samara.link.mavlink import LARGEST, Listener, Speaker, layout
from samara.link.px4 import output as px4_output
from samara.sensors.site import HOME

from .law import Case, Reader
from .mutate import mutated_bytes

NAMES = ("HIL_ACTUATOR_CONTROLS", "COMMAND_LONG", "HEARTBEAT", "COMMAND_ACK", "STATUSTEXT")
ODD = (0.0, 1.0, -1.0, math.nan, math.inf, -math.inf, 1e38, 1e-45)
FRAMES = (
    ("HIL_ACTUATOR_CONTROLS", (80_000, 1, *(0.25,) * 16, 129)),
    ("COMMAND_LONG", (115.0, 4000.0, *(0.0,) * 5, 511, 0, 0, 0)),
    ("HEARTBEAT", (0, 2, 12, 129, 4, 3)),
    ("COMMAND_ACK", (400, 0, 0, 0, 0, 0)),
    ("STATUSTEXT", (4, b"Preflight Fail: no fix".ljust(50, b"\0"), 0, 0)),
)


class _Told(Wire):
    """A wire without a socket that says what it is told"""

    def __init__(self, data: bytes) -> None:
        super().__init__("127.0.0.1", 0, stream=True)
        self._data = data

    def receive(self) -> Iterator[tuple[bytes, Any]]:
        yield self._data, None


def _stream(rng: Random, forged: bool) -> bytes:
    speaker = Speaker(rng.randrange(256), rng.choice((1, 0, 190)))
    data = b""
    for _ in range(rng.randrange(1, 5)):
        name, fields = rng.choice(FRAMES)
        if forged:  # well checksummed, and full of what no autopilot says
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
    """What autopilots send"""
    rng = Random(0)
    return [
        Case(("mavlink", _stream(rng, False), (7,))),
        Case(("servos", _packet("servos", rng), ())),
    ]


def make(rng: Random) -> Case:
    """Packets forged, or damaged on their way; a stream also in pieces"""
    kind = rng.choice(("mavlink", "mavlink", "mavlink", "servos", "motors"))
    data, told = _packet(kind, rng), ["forged"]
    if rng.random() < 0.6:
        data, told = mutated_bytes(data, rng)
    pieces = tuple(sorted(rng.randrange(len(data) + 1) for _ in range(rng.randrange(4))))
    return Case((kind, data, pieces), (kind, *told))


def read(given: tuple[str, bytes, tuple[int, ...]], folder: Path) -> Any:
    """The outputs that a link makes of a packet; whatever it says, they are within 0 … 1"""
    kind, data, pieces = given
    if kind == "servos":
        servos = parse_servos(data)
        outputs = [] if servos is None else [output(pulse) for pulse in servos.pulses]
    elif kind == "motors":
        outputs = [min(max(u, 0.0), 1.0) for u in parse_motors(data) or ()]
    else:
        outputs = _heard(data, pieces)
    assert all(0.0 <= u <= 1.0 for u in outputs), outputs
    return outputs


def _heard(data: bytes, pieces: tuple[int, ...]) -> list[float]:
    """The same frames in one piece and in several, and nothing kept that no frame can need"""
    whole, parts = Listener(*NAMES), Listener(*NAMES)
    frames = list(whole.hear(data))
    ends = [0, *pieces, len(data)]
    again = [frame for a, b in pairwise(ends) for frame in parts.hear(data[a:b])]
    assert repr(frames) == repr(again), "a stream in pieces holds other frames"
    assert len(whole.waiting) <= LARGEST, "more is waited for than any frame is long"
    said: list[str] = []
    station = GroundStation(_Told(data), PX4, "PX4", lambda level, text: said.append(text))
    station.look(10_000_000, HOME.origin, ZERO)
    assert all(text.isprintable() for text in said), f"said raw: {said}"
    answers = [frame for frame in frames if frame.id == layout("HIL_ACTUATOR_CONTROLS").id]
    return [px4_output(u) for frame in answers for u in frame.fields[2:18]]


LINKS = Reader("link", seeds, make, read, (), share=4)
