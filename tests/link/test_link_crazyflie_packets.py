"""CRTP against its specification: TOCs and their CRC, log blocks, parameters, memory and setpoints, byte by byte."""

import errno
import math
import struct
import zlib
from types import SimpleNamespace

import pytest

import samara
from samara.core.algebra import IDENTITY, Vec3
from samara.link.crazyflie.crtp import (
    FLOAT,
    HALF,
    I16,
    U8,
    U16,
    U32,
    Packet,
    Port,
    Toc,
    TocEntry,
    datagram,
    pack_number,
    parse,
)
from samara.link.crazyflie.crtp_server import CrtpServer
from samara.link.crazyflie.logging import APPEND, CREATE, DELETE, RESET, START, STOP, VARIABLES, LogBlocks, Variable
from samara.link.crazyflie.parameters import PARAMETERS, FirmwareParameter, ParameterToc
from samara.link.crazyflie.setpoints import (
    AttitudeSetpoint,
    MotorsOff,
    PositionSetpoint,
    RateSetpoint,
    VelocitySetpoint,
    decode_rpyt,
    decode_setpoint,
    decompress_quaternion,
)
from samara.link.crazyflie.trajectory_memory import TRAJECTORY_BYTES, MemoryRegions


def test_a_datagram_is_a_byte_of_port_and_channel_and_up_to_thirty_of_data():
    assert datagram(Packet(5, 1, b"\6\1")) == b"\x51\6\1"
    assert parse(b"\x5d\6\1") == Packet(5, 1, b"\6\1")  # the two bits in between are ignored
    assert parse(b"") is None
    assert parse(bytes(32)) is None


@pytest.mark.parametrize("value, number_type, data", [
    (258.9, U16, b"\2\1"), (-1.0, U8, b"\0"), (1e9, I16, b"\xff\x7f"), (math.nan, U8, b"\0"),
    (1.0, FLOAT, b"\0\0\x80\x3f"), (1.0, HALF, b"\0\x3c"), (1e9, HALF, b"\0\x7c"), (1e300, FLOAT, b"\0\0\x80\x7f"),
])  # fmt: skip
def test_a_number_that_does_not_fit_is_the_nearest_that_does(value, number_type, data):
    assert pack_number(value, number_type) == data


# Tables -------------------------------------------------------------------------------------------------------------


def test_the_toc_reports_its_length_its_crc_and_its_entries():
    """CRC-32 (zlib's, as of ISO 3309) of "123456789" is cbf43926; here it is that of the concatenated entries."""
    table = Toc([TocEntry(7, "a", "b"), TocEntry(1, "a", "c")], b"\x10\x80")
    count, crc = struct.unpack("<HI", table.answer(b"\3")[1:7])
    assert count == 2
    assert crc == table.crc
    assert table.answer(b"\3")[7:] == b"\x10\x80"
    assert table.answer(b"\2\1\0") == b"\2\1\0\1a\0c\0"
    assert table.answer(b"\2\2\0") == b"\2"
    assert table.answer(b"\2\1") is None
    assert Toc([TocEntry(7, "a", "b"), TocEntry(2, "a", "c")]).crc != table.crc


def test_every_name_fits_into_a_packet_and_is_there_once():
    with pytest.raises(ValueError, match=r"group\.a_name_that_is_far_too_long"):
        Toc([TocEntry(7, "group", "a_name_that_is_far_too_long")])
    for entries in (VARIABLES, PARAMETERS):
        names = [(entry.group, entry.name) for entry in entries]
        assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", ["acc.z", "stateEstimate.az"])
def test_accelerations_are_in_the_firmwares_g(name):
    """GRAVITY_MAGNITUDE is 9.81 m/s² in src/utils/interface/physicalConstants.h of Bitcraze's crazyflie-firmware."""
    read = {f"{variable.group}.{variable.name}": variable.read for variable in VARIABLES}[name]
    snapshot = SimpleNamespace(specific_force_B=Vec3(0.0, 0.0, 3.0 * 9.81), state=SimpleNamespace(q_WB=IDENTITY))
    assert read(snapshot) == pytest.approx({"acc.z": 3.0, "stateEstimate.az": 2.0}[name], rel=1e-12)


# Logs ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def logs():
    return LogBlocks(
        [Variable(FLOAT, "a", "x", lambda value: value), Variable(U8, "a", "n", lambda value: value + 1.0)]
    )


def log_item(number_type, variable_id):
    return struct.pack("<BH", number_type.log, variable_id)


def test_a_block_is_made_started_sent_and_ended(logs):
    assert logs.answer_control(bytes([CREATE, 3]) + log_item(FLOAT, 0), 0) == bytes([CREATE, 3, 0])
    assert logs.answer_control(bytes([APPEND, 3]) + log_item(I16, 1), 0) == bytes([APPEND, 3, 0])
    assert list(logs.due_data(2.5, 10**9)) == []
    assert logs.answer_control(bytes([START, 3, 2]), 1_000_000) == bytes([START, 3, 0])
    assert list(logs.due_data(2.5, 1_019_999)) == []
    # 1020 ms is 0x0003fc; 2.5 as a float; 3.5 cut to 3
    assert list(logs.due_data(2.5, 1_020_000)) == [b"\3\xfc\3\0" + struct.pack("<fh", 2.5, 3)]
    assert list(logs.due_data(2.5, 1_020_000)) == []
    assert logs.answer_control(bytes([STOP, 3]), 0) == bytes([STOP, 3, 0])
    assert list(logs.due_data(2.5, 10**9)) == []
    assert logs.answer_control(bytes([DELETE, 3]), 0) == bytes([DELETE, 3, 0])
    assert logs.answer_control(bytes([DELETE, 3]), 0) == bytes([DELETE, 3, errno.ENOENT])


def test_a_block_is_sent_periodically_and_does_not_make_up_for_a_pause(logs):
    logs.answer_control(bytes([CREATE, 1]) + log_item(FLOAT, 0), 0)
    logs.answer_control(bytes([START, 1, 1]), 0)
    send_times = [now for now in range(0, 100_000, 4000) if list(logs.due_data(0.0, now))]
    assert len(send_times) == 9
    assert len(list(logs.due_data(0.0, 10**7))) == 1
    assert not list(logs.due_data(0.0, 10**7 - 1))


def test_an_invalid_block_command_is_reported_and_changes_nothing(logs):
    assert logs.answer_control(bytes([CREATE, 1]) + log_item(FLOAT, 9), 0)[-1] == errno.ENOENT
    assert logs.answer_control(bytes([CREATE, 1]) + b"\x09\0\0", 0)[-1] == errno.ENOENT  # an unknown type
    assert logs.answer_control(bytes([CREATE, 1]) + 7 * log_item(FLOAT, 0), 0)[-1] == errno.E2BIG
    assert logs.answer_control(bytes([CREATE, 1]) + b"\7", 0)[-1] == errno.EINVAL
    assert logs.answer_control(bytes([APPEND, 1]) + log_item(FLOAT, 0), 0)[-1] == errno.ENOENT
    assert logs.answer_control(bytes([START, 1, 1]), 0)[-1] == errno.ENOENT
    assert not logs.blocks
    for number in range(16):
        assert logs.answer_control(bytes([CREATE, number]), 0)[-1] == 0
    assert logs.answer_control(bytes([CREATE, 1]), 0)[-1] == errno.EEXIST
    assert logs.answer_control(bytes([CREATE, 16]), 0)[-1] == errno.ENOMEM
    assert logs.answer_control(bytes([START, 1, 0]), 0)[-1] == errno.ENOEXEC
    assert logs.answer_control(b"", 0) is None
    assert logs.answer_control(bytes([RESET]), 0) == bytes([RESET, 0, 0])
    assert not logs.blocks


def test_an_item_that_is_cut_at_the_end_of_a_full_packet_is_left_to_the_next(logs):
    """cflib writes the type of an item before it notices that its id does not fit."""
    assert logs.answer_control(bytes([CREATE, 1]) + 9 * log_item(U8, 1) + b"\1", 0)[-1] == 0
    assert len(logs.blocks[1].items) == 9


# Parameters ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def parameters():
    return ParameterToc([
        FirmwareParameter(U8, "ring", "effect", 6, persistent=True),
        FirmwareParameter(FLOAT, "pid", "kp", 1.5),
        FirmwareParameter(U8, "deck", "flow", 1, read_only=True),
    ])  # fmt: skip


def test_parameters_are_read_and_written_by_number(parameters):
    assert [entry.code for entry in parameters.toc.entries] == [0x18, 0x06, 0x48]
    assert parameters.answer_read(b"\1\0") == b"\1\0\0" + struct.pack("<f", 1.5)
    assert parameters.answer_write(b"\1\0" + struct.pack("<f", 2.0)) == b"\1\0" + struct.pack("<f", 2.0)
    assert parameters.values["pid.kp"] == 2.0
    assert parameters.answer_read(b"\x09\0") == b"\x09\0" + bytes([errno.ENOENT])
    assert parameters.answer_write(b"\x09\0\0") == b"\x09\0" + bytes([errno.ENOENT])


@pytest.mark.parametrize("data", [
    b"\2\0\0", b"\1\0\0", b"\1\0" + struct.pack("<f", math.nan), b"\1\0" + struct.pack("<d", 1.0), b"\1", b"",
])  # fmt: skip
def test_an_invalid_value_changes_nothing(parameters, data):
    before = dict(parameters.values)
    parameters.answer_write(data)
    assert parameters.values == before


def test_parameters_are_set_by_name_and_type(parameters):
    assert parameters.answer_misc(b"\0ring\0effect\0\x08\7") == b"\0ring\0effect\0\0"
    assert parameters.values["ring.effect"] == 7
    assert parameters.answer_misc(b"\0ring\0effect\0\x06\7")[-1] == errno.EINVAL
    assert parameters.answer_misc(b"\0ring\0colour\0\x08\7")[-1] == errno.ENOENT
    assert parameters.answer_misc(b"\0ring") is None


def test_a_persistent_parameter_is_stored_and_cleared(parameters):
    parameters.answer_write(b"\0\0\x0a")
    assert parameters.answer_misc(b"\4\0\0") == b"\4\0\0\0\6"
    assert parameters.answer_misc(b"\3\0\0") == b"\3\0\0\0"
    assert parameters.answer_misc(b"\4\0\0") == b"\4\0\0\1\6\x0a"
    assert parameters.answer_misc(b"\5\0\0") == b"\5\0\0\0"
    assert parameters.answer_misc(b"\4\0\0") == b"\4\0\0\0\6"
    assert parameters.answer_misc(b"\3\1\0") == b"\3\1\0" + bytes([errno.ENOENT])
    assert parameters.answer_misc(b"\7\0\0") == b"\7\0\0\0\1"
    assert parameters.answer_misc(b"\x08\1\0") == b"\x08\1\0\0" + struct.pack("<f", 1.5)


# Memory -------------------------------------------------------------------------------------------------------------


def test_memory_is_written_and_read_and_nothing_beyond_it():
    memory = MemoryRegions()
    assert memory.answer_info(b"\2\0") == b"\2\0\x12" + struct.pack("<I", TRAJECTORY_BYTES) + bytes(8)
    header = struct.pack("<BI", 0, TRAJECTORY_BYTES - 3)
    assert memory.answer_write(header + b"abc") == header + b"\0"
    assert memory.answer_read(header + b"\3") == header + b"\0abc"
    assert memory.answer_write(header + b"abcd")[-1] == errno.EINVAL
    assert memory.answer_write(struct.pack("<BI", 0, 2**32 - 1) + b"a")[-1] == errno.EINVAL
    assert memory.answer_read(header + b"\4")[-1] == errno.EINVAL
    assert bytes(memory.content) == bytes(TRAJECTORY_BYTES - 3) + b"abc"


def listed_memories(memory):
    """Return id and size by type, as a client lists them."""
    count = memory.answer_info(b"\1")[1]
    rows = [struct.unpack("<BBBI8x", memory.answer_info(bytes([2, number]))) for number in range(count)]
    assert [row[:2] for row in rows] == [(2, number) for number in range(count)]
    memories = {}
    for _, number, memory_type, size in rows:
        memories.setdefault(memory_type, []).append((number, size))
    return memories


def read_memory(memory, number, address, length):
    """Read as a client does, in pieces of 24 bytes."""
    data = b""
    while len(data) < length:
        request = struct.pack("<BIB", number, address + len(data), min(24, length - len(data)))
        answer = memory.answer_read(request)
        assert answer[:6] == request[:5] + b"\0"
        data += answer[6:]
    return data


def test_eeprom_has_the_configuration_of_a_new_crazyflie():
    """Byte by byte, as in the firmware's configblock_v1_s; written bytes are read back."""
    memory = MemoryRegions()
    ((number, size),) = listed_memories(memory)[0x00]
    block = bytes.fromhex("30784243 01 50 02 00000000 00000000 e7 e7e7e7e7".replace(" ", ""))
    block += bytes([sum(block) & 0xFF])
    assert size == 0x1FFF and read_memory(memory, number, 0, 21) == block
    assert memory.answer_write(struct.pack("<BI", number, 5) + b"\x0a") == struct.pack("<BI", number, 5) + b"\0"
    assert read_memory(memory, number, 4, 3) == b"\x01\x0a\x02"


def test_one_wire_memories_name_the_decks():
    """Header and elements with the checksums that a client verifies."""
    memory = MemoryRegions()
    names = []
    for number, size in listed_memories(memory)[0x01]:
        start, pins, vendor, product, checksum = struct.unpack("<BIBBB", header := read_memory(memory, number, 0, 8))
        assert (size, start, pins, vendor) == (112, 0xEB, 0, 0xBC) and checksum == zlib.crc32(header[:7]) & 0xFF
        elements = read_memory(memory, number, 8, 2 + read_memory(memory, number, 9, 1)[0] + 1)
        assert elements[-1] == zlib.crc32(elements[:-1]) & 0xFF and elements[2] == 1
        names.append((elements[4 : 4 + elements[3]].decode(), product))
    assert names == [("bcFlow2", 0x0F), ("bcLedRing", 0x01)]


def test_the_memory_tester_has_its_pattern_and_counts_differences():
    endpoint = CrtpServer(samara.vehicle("crazyflie"), 0.5, 4e-3)
    memory = endpoint.memory
    ((number, size),) = listed_memories(memory)[0x15]
    assert size == 4096 and read_memory(memory, number, 250, 30) == bytes((250 + k) % 256 for k in range(30))

    def write(address, data):
        ((_, _, answer),) = endpoint.answer_packet(Packet(Port.MEMORY, 2, struct.pack("<BI", number, address) + data))
        assert answer == struct.pack("<BI", number, address) + b"\0"

    write(255, b"\xff\0\1")
    assert memory.tester.errors == 0
    write(255, b"\xff\1\1")
    assert memory.tester.errors == 1 and read_memory(memory, number, 255, 3) == b"\xff\0\1"
    endpoint.parameters.values["memTst.resetW"] = 1.0
    write(0, b"\0")
    assert memory.tester.errors == 0 and endpoint.parameters.values["memTst.resetW"] == 0.0


@pytest.mark.parametrize("memory_type", [0x00, 0x01, 0x10, 0x12, 0x14, 0x15, 0x17, 0x19])
def test_every_request_to_a_memory_is_answered(memory_type):
    """At both ends of each memory, beyond it, and in packets that are too short."""
    memory = MemoryRegions()
    for number, size in listed_memories(memory)[memory_type]:
        for address, length, is_inside in ((0, 1, True), (size - 1, 1, True), (size, 1, False), (size - 1, 2, False)):
            header = struct.pack("<BI", number, address)
            assert (memory.answer_read(header + bytes([length]))[5] == 0) is is_inside
            answer = memory.answer_write(header + bytes(length))
            assert len(answer) == 6 and answer[:5] == header and (answer[5] == 0) is is_inside
        for request in (bytes([number]), bytes([number, 0, 0]), struct.pack("<BI", number, 0)):
            assert memory.answer_read(request)[5] == memory.answer_write(request)[5] == errno.EINVAL


def test_a_memory_or_command_that_does_not_exist_is_answered():
    memory = MemoryRegions()
    unknown = memory.answer_info(b"\1")[1]
    assert memory.answer_info(bytes([2, unknown])) == bytes([2, unknown])  # details without details
    assert memory.answer_info(b"\7") == bytes([7, errno.ENOEXEC]) and memory.answer_info(b"") == bytes([errno.ENOEXEC])
    header = struct.pack("<BI", unknown, 0)
    assert memory.answer_read(header + b"\1") == memory.answer_write(header + b"a") == header + bytes([errno.EINVAL])


def test_ring_parameters_are_those_of_the_firmware():
    """Names, types and defaults of `PARAM_GROUP_START(ring)` in the firmware's ledring12.c."""
    ring = {
        parameter.name: (parameter.number_type, parameter.default, parameter.read_only)
        for parameter in PARAMETERS
        if parameter.group == "ring"
    }
    assert ring == {
        "effect": (U8, 6, False),
        "neffect": (U32, 18, True),
        "solidRed": (U8, 20, False),
        "solidGreen": (U8, 20, False),
        "solidBlue": (U8, 20, False),
        "headlightEnable": (U8, 0, False),
        "emptyCharge": (FLOAT, 3.1, False),
        "fullCharge": (FLOAT, 4.2, False),
        "fadeColor": (U32, 0, False),
        "fadeTime": (FLOAT, 0.5, False),
    }


# Setpoints ----------------------------------------------------------------------------------------------------------


def flat_numbers(record):
    return [-1e9 if x is None else x for part in record for x in (part if isinstance(part, tuple) else [part])]


def is_close(actual, expected):
    """Whether both have the same type and equal numbers to single precision."""
    return type(actual) is type(expected) and flat_numbers(actual) == pytest.approx(flat_numbers(expected), rel=1e-6)


def test_roll_pitch_yaw_thrust_in_degrees_with_the_signs_of_old():
    """Pitch is positive nose up and yaw clockwise there; here nose down and counter-clockwise."""
    attitude_setpoint = decode_rpyt(struct.pack("<3fH", 10.0, 20.0, 30.0, 65535))
    assert is_close(
        attitude_setpoint, AttitudeSetpoint(math.radians(10.0), math.radians(-20.0), math.radians(-30.0), 60000 / 65535)
    )
    assert decode_rpyt(struct.pack("<3fH", math.nan, 0.0, 0.0, 0)) is None
    assert decode_rpyt(bytes(13)) is None


def test_numbered_setpoints():
    right = math.radians(90.0)
    four = struct.pack("<4f", 1.0, 2.0, 3.0, 90.0)
    assert decode_setpoint(b"\0") == MotorsOff()
    assert is_close(decode_setpoint(b"\x08" + four), VelocitySetpoint(Vec3(1.0, 2.0, 3.0), right, False))
    assert is_close(decode_setpoint(b"\1" + four), VelocitySetpoint(Vec3(1.0, 2.0, 3.0), -right, False))
    assert is_close(decode_setpoint(b"\7" + four), PositionSetpoint(Vec3(1.0, 2.0, 3.0), right))
    three = math.radians(3.0)
    assert is_close(decode_setpoint(b"\x0a" + four), VelocitySetpoint(Vec3(1.0, 2.0, 0.0), three, True, 90.0))
    assert is_close(decode_setpoint(b"\5" + four), VelocitySetpoint(Vec3(1.0, 2.0, 0.0), -three, True, 90.0))
    assert is_close(
        decode_setpoint(b"\x09" + four), AttitudeSetpoint(math.radians(1.0), -math.radians(2.0), three, height=90.0)
    )
    manual = struct.pack("<3fH", 1.0, 2.0, 3.0, 0)
    assert is_close(
        decode_setpoint(b"\x0b" + manual + b"\1"), RateSetpoint(Vec3(math.radians(1.0), -math.radians(2.0), three), 0.0)
    )
    assert is_close(
        decode_setpoint(b"\x0b" + manual + b"\0"), AttitudeSetpoint(math.radians(1.0), -math.radians(2.0), three)
    )
    assert is_close(
        decode_setpoint(b"\4" + four), AttitudeSetpoint(math.radians(1.0), -math.radians(2.0), three, climb=90.0)
    )


@pytest.mark.parametrize("data", [
    b"", b"\0\0", b"\3", b"\xff" + bytes(16), b"\7" + bytes(15), b"\7" + bytes(17),
    b"\7" + struct.pack("<4f", 0.0, 0.0, math.inf, 0.0), b"\7" + struct.pack("<4f", 1e30, 0.0, 0.0, 0.0),
    b"\6" + bytes(10),
])  # fmt: skip
def test_an_invalid_setpoint_is_none(data):
    assert decode_setpoint(data) is None


def test_a_full_state_is_in_millimetres_and_its_attitude_in_four_bytes():
    """A quarter turn about z is (0, 0, √½, √½): two equal largest components, z first; w is +511 of 511."""
    quaternion = 2 << 30 | 511
    numbers = (1000, -2000, 3000, 100, 200, 300, 10, 20, 30, quaternion, 0, 0, 500)
    reference = decode_setpoint(b"\6" + struct.pack("<9hI3h", *numbers)).reference
    assert reference.p_W == pytest.approx((1.0, -2.0, 3.0))
    assert reference.v_W == pytest.approx((0.1, 0.2, 0.3))
    assert reference.a_W == pytest.approx((0.01, 0.02, 0.03))
    assert reference.yaw == pytest.approx(math.pi / 2.0)
    assert reference.yaw_rate == pytest.approx(0.5)
    w, x, y, z = decompress_quaternion(3 << 30 | 0x200 << 20)
    assert (w, x, y, z) == (1.0, 0.0, 0.0, 0.0)
