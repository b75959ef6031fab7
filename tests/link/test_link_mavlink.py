"""MAVLink frames: byte for byte those of running autopilots, and arbitrary bytes."""

import random
import struct
import tracemalloc

import pytest

from samara.core.algebra import ZERO
from samara.link.ardupilot import parse_servos
from samara.link.betaflight import parse_motors
from samara.link.ground_station import PX4, GroundStation, GroundStationConnection
from samara.link.mavlink import MAX_FRAME_SIZE, FrameEncoder, FrameParser
from samara.sensors.site import HOME

HIL_SENSOR = bytes.fromhex(
    "fd3e00000001336b0000a00f00000000000010cc243b09272dbb93b31cc1d2fddb382a6c0cba7794bd392c105d3e4214063c5da7da3e"
    "7efe6e44000000000000f4430000a041ff1bf1db"
)
HIL_GPS = bytes.fromhex(
    "fd240000000133710000a00f0000000000004c52401c44f41705407207001e00280000000000000000000000030a2bea"
)
HEARTBEAT = bytes.fromhex("fd09000001010100000000000000000c0000039158")
SENSOR_FIELDS = (4000, 0.0025146, -0.0026421, -9.7938414, 0.0001049, -0.0005357, 0.0003616, 0.215882, 0.0081835)
SENSOR_FIELDS += (0.4270581, 955.97644, 0.0, 488.0, 20.0, 7167, 0)
GPS_FIELDS = (4000, 473977420, 85455940, 488000, 30, 40, 0, 0, 0, 0, 0, 3, 10, 0, 0)
ANSWER = (80_000, 1, *(0.0,) * 16, 1)


def create_parser():
    return FrameParser("HIL_SENSOR", "HIL_GPS", "HEARTBEAT", "HIL_ACTUATOR_CONTROLS")


@pytest.mark.parametrize(
    ("bytes_seen", "name", "speaker"),
    [(HIL_SENSOR, "HIL_SENSOR", (1, 51)), (HIL_GPS, "HIL_GPS", (1, 51)), (HEARTBEAT, "HEARTBEAT", (1, 1))],
)
def test_recorded_bytes_are_parsed_and_encoded_again_bit_for_bit(bytes_seen, name, speaker):
    (frame,) = create_parser().parse(bytes_seen)
    encoder = FrameEncoder(*speaker)
    for _ in range(bytes_seen[4]):
        encoder.frame(name, *frame.fields)
    assert encoder.frame(name, *frame.fields) == bytes_seen


def test_their_fields_are_those_that_were_sent():
    (sensor,), (fix,) = create_parser().parse(HIL_SENSOR), create_parser().parse(HIL_GPS)
    assert sensor.fields == pytest.approx(SENSOR_FIELDS, rel=1e-4, abs=1e-7)
    assert fix.fields == GPS_FIELDS


def test_samaras_frames_equal_those_of_pymavlink():
    """Samara's packing against pymavlink's message classes."""
    from pymavlink.dialects.v20 import common

    peer = common.MAVLink(None, srcSystem=1, srcComponent=1)
    expected = common.MAVLink_hil_actuator_controls_message(80_000, [0.25 * k for k in range(16)], 129, 1).pack(peer)
    encoded = FrameEncoder(1, 1).frame("HIL_ACTUATOR_CONTROLS", 80_000, 1, *(0.25 * k for k in range(16)), 129)
    assert encoded == expected
    (frame,) = create_parser().parse(expected)
    assert frame.fields == (80_000, 1, *(0.25 * k for k in range(16)), 129)


def test_a_stream_may_come_in_pieces_of_any_size():
    stream = HIL_SENSOR + HIL_GPS + HEARTBEAT + HIL_SENSOR
    ids = [frame.id for frame in create_parser().parse(stream)]
    for size in (1, 2, 7, 50):
        parser = create_parser()
        pieces = [stream[k : k + size] for k in range(0, len(stream), size)]
        assert [frame.id for piece in pieces for frame in parser.parse(piece)] == ids == [107, 113, 0, 107]
        assert parser.skipped_bytes == 0


def test_invalid_bytes_are_skipped_and_the_next_frame_is_found():
    parser = create_parser()
    damaged = HIL_SENSOR[:30] + b"\x00\x01" + HIL_SENSOR[32:]
    frames = list(parser.parse(b"no mavlink" + HIL_GPS + damaged + HEARTBEAT + bytes(300)))
    assert [frame.id for frame in frames] == [113, 0]
    assert parser.skipped_bytes > 10


def test_a_false_start_hides_no_frame():
    """A header that claims 62 bytes, with a complete frame inside them."""
    data = HIL_SENSOR[:10] + HEARTBEAT + bytes(80)
    assert [frame.id for frame in create_parser().parse(data)] == [0]


def test_other_messages_are_ignored():
    assert [frame.id for frame in FrameParser("HEARTBEAT").parse(HIL_SENSOR + HEARTBEAT)] == [0]


def mutated_packets(seed: int, valid: list[bytes]):
    """Yield valid packets with bytes changed, cut, doubled, or added."""
    rng = random.Random(seed)
    while True:
        packet = bytearray(rng.choice(valid))
        for _ in range(rng.randrange(4)):
            mutation = rng.randrange(4)
            if mutation == 0 and packet:
                packet[rng.randrange(len(packet))] = rng.randrange(256)
            elif mutation == 1:
                del packet[rng.randrange(len(packet) + 1) :]
            elif mutation == 2:
                packet += packet[: rng.randrange(40)]
            else:
                packet += bytes(rng.randrange(256) for _ in range(rng.randrange(20)))
        yield bytes(packet)


def parse_mutated_packets(count: int) -> None:
    """Parse `count` packets, a third with each parser; memory growth is measured over the last thousand."""
    answer = FrameEncoder(1, 1).frame("HIL_ACTUATOR_CONTROLS", *ANSWER)
    sixteen = struct.pack("<HHI16H", 18458, 1000, 7, *[1500] * 16)
    servos = [sixteen, struct.pack("<HHI32H", 29569, 1000, 7, *[1500] * 32)]
    motors = [struct.pack("<4f", 0.1, 0.2, 0.3, 0.4)]
    sources = [
        mutated_packets(1, [HIL_SENSOR, HIL_GPS, HEARTBEAT, answer]),
        mutated_packets(2, servos),
        mutated_packets(3, motors),
    ]
    parser, parsed_counts, rounds = create_parser(), [0, 0, 0], count // 3
    for k in range(rounds):
        if k == rounds - 1000:
            tracemalloc.start()
            memory_before = tracemalloc.get_traced_memory()[0]
        parsed_counts[0] += sum(1 for _ in parser.parse(next(sources[0])))
        parsed_counts[1] += parse_servos(next(sources[1])) is not None
        packet = next(sources[2])
        outputs = parse_motors(packet)
        assert outputs is None or all(-1e-6 <= u <= 1.000001 for u in outputs)
        parsed_counts[2] += outputs is not None
        assert len(parser.pending) < MAX_FRAME_SIZE
    growth = tracemalloc.get_traced_memory()[0] - memory_before
    tracemalloc.stop()
    assert all(n > rounds // 10 for n in parsed_counts)  # valid packets are still parsed
    assert growth < 20_000


def test_ten_thousand_damaged_packets_raise_nothing_and_leak_no_memory():
    parse_mutated_packets(10_000)


@pytest.mark.long
def test_a_million_damaged_packets_raise_nothing_and_leak_no_memory():
    parse_mutated_packets(1_000_000)


def test_an_autopilots_text_cannot_control_the_terminal(monkeypatch):
    """STATUSTEXT is untrusted: escapes and line breaks in it are shown, not executed."""
    messages = []
    text = b"red \x1b[31m alert\nnext".ljust(50, b"\0")
    frame = FrameEncoder(1, 1).frame("STATUSTEXT", 2, text, 0, 0)
    connection = GroundStationConnection("127.0.0.1", 0, stream=True)
    monkeypatch.setattr(connection, "receive", lambda: iter([(frame, None)]))
    monkeypatch.setattr(connection, "connect", lambda: False)
    GroundStation(connection, PX4, "PX4", lambda level, line: messages.append(line)).poll(10**7, HOME.origin, ZERO)
    assert messages == ["PX4 reports: red \\x1b[31m alert next"]
