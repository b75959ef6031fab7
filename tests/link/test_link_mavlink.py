"""MAVLink frames: byte for byte those of running autopilots, and whatever else may come over a wire."""

import random
import struct
import tracemalloc

import pytest

from samara.core.algebra import ZERO
from samara.link.ardupilot import parse_servos
from samara.link.betaflight import parse_motors
from samara.link.ground_station import PX4, GroundStation, Wire
from samara.link.mavlink import LARGEST, Listener, Speaker
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


def listener():
    return Listener("HIL_SENSOR", "HIL_GPS", "HEARTBEAT", "HIL_ACTUATOR_CONTROLS")


@pytest.mark.parametrize(
    ("bytes_seen", "name", "speaker"),
    [(HIL_SENSOR, "HIL_SENSOR", (1, 51)), (HIL_GPS, "HIL_GPS", (1, 51)), (HEARTBEAT, "HEARTBEAT", (1, 1))],
)
def test_bytes_seen_on_a_wire_are_read_and_written_again_bit_for_bit(bytes_seen, name, speaker):
    (frame,) = listener().hear(bytes_seen)
    first = Speaker(*speaker)
    for _ in range(bytes_seen[4]):
        first.frame(name, *frame.fields)
    assert first.frame(name, *frame.fields) == bytes_seen


def test_the_numbers_in_them_are_those_that_were_sent():
    (sensor,), (fix,) = listener().hear(HIL_SENSOR), listener().hear(HIL_GPS)
    assert sensor.fields == pytest.approx(SENSOR_FIELDS, rel=1e-4, abs=1e-7)
    assert fix.fields == GPS_FIELDS


def test_a_frame_of_ours_is_a_frame_of_pymavlink():
    """Two roads: our packing, and pymavlink's own message classes."""
    from pymavlink.dialects.v20 import common

    peer = common.MAVLink(None, srcSystem=1, srcComponent=1)
    theirs = common.MAVLink_hil_actuator_controls_message(80_000, [0.25 * k for k in range(16)], 129, 1).pack(peer)
    ours = Speaker(1, 1).frame("HIL_ACTUATOR_CONTROLS", 80_000, 1, *(0.25 * k for k in range(16)), 129)
    assert ours == theirs
    (frame,) = listener().hear(theirs)
    assert frame.fields == (80_000, 1, *(0.25 * k for k in range(16)), 129)


def test_a_stream_may_come_in_pieces_of_any_size():
    stream = HIL_SENSOR + HIL_GPS + HEARTBEAT + HIL_SENSOR
    whole = [frame.id for frame in listener().hear(stream)]
    for size in (1, 2, 7, 50):
        own = listener()
        pieces = [stream[k : k + size] for k in range(0, len(stream), size)]
        assert [frame.id for piece in pieces for frame in own.hear(piece)] == whole == [107, 113, 0, 107]
        assert own.nonsense == 0


def test_what_is_no_frame_is_skipped_and_the_next_one_found():
    own = listener()
    damaged = HIL_SENSOR[:30] + b"\x00\x01" + HIL_SENSOR[32:]
    heard = list(own.hear(b"no mavlink" + HIL_GPS + damaged + HEARTBEAT + bytes(300)))
    assert [frame.id for frame in heard] == [113, 0]
    assert own.nonsense > 10


def test_a_false_beginning_hides_no_frame():
    """A header that promises 62 bytes, and a whole frame inside them."""
    false = HIL_SENSOR[:10] + HEARTBEAT + bytes(80)
    assert [frame.id for frame in listener().hear(false)] == [0]


def test_a_message_it_does_not_listen_for_is_passed_over():
    assert [frame.id for frame in Listener("HEARTBEAT").hear(HIL_SENSOR + HEARTBEAT)] == [0]


def mutated(seed: int, good: list[bytes]):
    """Good packets, one after another, with bytes changed, cut, doubled, or made up."""
    draw = random.Random(seed)
    while True:
        packet = bytearray(draw.choice(good))
        for _ in range(draw.randrange(4)):
            way = draw.randrange(4)
            if way == 0 and packet:
                packet[draw.randrange(len(packet))] = draw.randrange(256)
            elif way == 1:
                del packet[draw.randrange(len(packet) + 1) :]
            elif way == 2:
                packet += packet[: draw.randrange(40)]
            else:
                packet += bytes(draw.randrange(256) for _ in range(draw.randrange(20)))
        yield bytes(packet)


def survive(count: int) -> None:
    """So many packets, a third for each parser. Memory is looked at over the last thousand: it has grown by then or never."""
    answer = Speaker(1, 1).frame("HIL_ACTUATOR_CONTROLS", *ANSWER)
    sixteen = struct.pack("<HHI16H", 18458, 1000, 7, *[1500] * 16)
    servos = [sixteen, struct.pack("<HHI32H", 29569, 1000, 7, *[1500] * 32)]
    motors = [struct.pack("<4f", 0.1, 0.2, 0.3, 0.4)]
    sources = [mutated(1, [HIL_SENSOR, HIL_GPS, HEARTBEAT, answer]), mutated(2, servos), mutated(3, motors)]
    own, read, rounds = listener(), [0, 0, 0], count // 3
    for k in range(rounds):
        if k == rounds - 1000:
            tracemalloc.start()
            before = tracemalloc.get_traced_memory()[0]
        read[0] += sum(1 for _ in own.hear(next(sources[0])))
        read[1] += parse_servos(next(sources[1])) is not None
        packet = next(sources[2])
        outputs = parse_motors(packet)
        assert outputs is None or all(-1e-6 <= u <= 1.000001 for u in outputs)
        read[2] += outputs is not None
        assert len(own.waiting) < LARGEST
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert all(n > rounds // 10 for n in read)  # what is good still comes through
    assert grown < 20_000


def test_ten_thousand_damaged_packets_raise_nothing_and_keep_no_memory():
    survive(10_000)


@pytest.mark.long
def test_a_million_damaged_packets_raise_nothing_and_keep_no_memory():
    survive(1_000_000)


def test_what_an_autopilot_says_does_not_steer_the_terminal(monkeypatch):
    """STATUSTEXT is bytes of a stranger: escapes and line breaks in it are shown, not obeyed."""
    said = []
    text = b"red \x1b[31m alert\nnext".ljust(50, b"\0")
    heard = Speaker(1, 1).frame("STATUSTEXT", 2, text, 0, 0)
    wire = Wire("127.0.0.1", 0, stream=True)
    monkeypatch.setattr(wire, "receive", lambda: iter([(heard, None)]))
    monkeypatch.setattr(wire, "connect", lambda: False)
    GroundStation(wire, PX4, "PX4", lambda level, line: said.append(line)).look(10**7, HOME.origin, ZERO)
    assert said == ["PX4 reports: red \\x1b[31m alert next"]
