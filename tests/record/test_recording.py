"""A recording restores the written data, whichever library reads it and however the writing ended.

The other reader is the `mcap` library with protobuf's decoder and Foxglove's published classes: apart from the file, nothing
here is written by Samara.
"""

import csv
import errno
import io
import json
import os
import re
import struct
import sys
import tracemalloc

import lz4.frame
import numpy as np
import pytest
from foxglove_schemas_protobuf.FrameTransform_pb2 import FrameTransform
from foxglove_schemas_protobuf.Log_pb2 import Log
from foxglove_schemas_protobuf.PoseInFrame_pb2 import PoseInFrame
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from hypothesis import given, settings
from hypothesis import strategies as st
from mcap.data_stream import RecordBuilder
from mcap.opcode import Opcode
from mcap.reader import NonSeekingReader, make_reader
from mcap.records import Chunk, MessageIndex
from mcap.stream_reader import StreamReader
from mcap.writer import CompressionType, Writer
from mcap_protobuf.decoder import DecoderFactory
from mcap_protobuf.schema import build_file_descriptor_set
from scipy.spatial.transform import Rotation
from support.children import run_child

from samara.core.algebra import Quat, Vec3, rotate
from samara.core.extras import MissingExtraError, install_hint
from samara.core.tree import leaf_names
from samara.physics.multirotor import state_at_rest
from samara.record import export, mcap_writer, recorder
from samara.record.channels import field_identifiers, published_schema
from samara.record.export import export_csv, export_parquet
from samara.record.layout import MessageArray
from samara.record.mcap_writer import COMPRESS
from samara.record.recorder import LogLine, Recorder, Stream
from samara.record.recording import RecordingError, describe, read_recording
from samara.record.streams import StreamBlock, concatenate_blocks
from samara.vehicles.loader import vehicle

BODY = ("p_W.x", "p_W.y", "p_W.z", "q_WB.w", "q_WB.x", "q_WB.y", "q_WB.z")
STATE = Stream("/drone0/state", (*BODY, "rotor_speed[0]"), ("m", "m", "m", "1", "1", "1", "1", "rad/s"), "samara.State")
COMMAND = Stream("/drone0/command", ("u[0]", "u[1]"), ("1", "1"), "samara.Command")
LOGS = (LogLine(1_500_000, "warning", "battery", "voltage low: 10.8 V"), LogLine(2_999_999, "error", "läuft", "…\n"))


def random_second(stream, second, rate=100, seed=0):
    """Return one second of a stream at a rate: random times and rows, the same for the same arguments."""
    times_us = second * 1_000_000 + np.arange(rate) * (1_000_000 // rate)
    return times_us, np.random.default_rng([seed, second]).normal(size=(rate, len(stream.fields)))


def record_seconds(path, seconds=3, streams=(STATE, COMMAND), rates=(100, 250), logs=LOGS, **options):
    """Record some seconds, a chunk for each; return the written data."""
    with Recorder(
        path, streams, {"scenario": "box", "seed": "7"}, {"vehicle.toml": b"mass = 1\n"}, **options
    ) as writer:
        for second in range(seconds):
            blocks = {
                stream.topic: random_second(stream, second, rate) for stream, rate in zip(streams, rates, strict=True)
            }
            writer.write(blocks, [line for line in logs if line.time_us // 1_000_000 == second])
        assert writer.problem == ""
    return {
        stream.topic: tuple(
            np.concatenate(parts)
            for parts in zip(*(random_second(stream, second, rate) for second in range(seconds)), strict=True)
        )
        for stream, rate in zip(streams, rates, strict=True)
    }


def same_bits(a, b):
    return a.shape == b.shape and np.array_equal(a.view(np.int64), b.view(np.int64))


def is_prefix(table, times_us, rows):
    """Whether the table is the first rows of the written ones, bit for bit."""
    n = len(table.times_us)
    return n <= len(times_us) and np.array_equal(table.times_us, times_us[:n]) and same_bits(table.rows, rows[:n])


def decode_messages(path, *topics, **options):
    """Return (topic, message record, protobuf object) of every message, with the library's reader."""
    with open(path, "rb") as file:
        reader = make_reader(file, validate_crcs=True, decoder_factories=[DecoderFactory()])
        return [
            (channel.topic, message, decoded_message)
            for _, channel, message, decoded_message in reader.iter_decoded_messages(topics or None, **options)
        ]


# Written data come back -------------------------------------------------------------------------------------------

ODD = [0.0, -0.0, 5e-324, -2.2250738585072e-308, 1.7976931348623157e308, np.inf, -np.inf, 0.1, 1 / 3]
QUIET, SIGNALLING = struct.unpack("<2d", struct.pack("<2Q", 0x7FF8_0000_DEAD_BEEF, 0xFFF0_0000_0000_0001))


@pytest.mark.parametrize("compression", ["", "lz4", "zstd"])
def test_every_double_comes_back_bit_for_bit(tmp_path, compression):
    """Signed zeros, subnormals, infinities, and a NaN with its payload."""
    numbers = np.array([*ODD, QUIET, SIGNALLING, *(-np.array(ODD))])
    rows = np.stack([np.roll(numbers, k) for k in range(len(STATE.fields))], axis=1)
    with Recorder(tmp_path / "run.mcap", [STATE], compression=compression) as writer:
        writer.write({"/drone0/state": (np.arange(len(rows)), rows)})
    recording = read_recording(tmp_path / "run.mcap")
    assert recording.complete
    assert same_bits(recording.streams["/drone0/state"].rows, rows)


@settings(max_examples=30, deadline=None)
@given(width=st.integers(0, 40), counts=st.lists(st.integers(0, 5), max_size=6), seed=st.integers(0, 9))
def test_any_width_and_any_chunks_come_back(tmp_path_factory, width, counts, seed):
    """Tags take two bytes from field 16 on; a chunk may be empty; a stream may have no field at all."""
    path = tmp_path_factory.mktemp("any") / "run.mcap"
    bits = np.random.default_rng(seed).integers(-(2**63), 2**63, (sum(counts), width))
    times_us = np.sort(np.random.default_rng(seed).integers(0, 10**12, sum(counts)))
    stream = Stream("/a/b", tuple(f"x[{i}]" for i in range(width)), ("m",) * width, "samara.Any")
    with Recorder(path, [stream]) as writer:
        for end, count in zip(np.cumsum(counts), counts, strict=True):
            writer.write({"/a/b": (times_us[end - count : end], bits[end - count : end].view(np.float64))})
    table = read_recording(path).streams["/a/b"]
    assert (table.fields, table.units, table.schema_name) == (stream.fields, stream.units, stream.schema_name)
    assert np.array_equal(table.times_us, times_us)
    assert np.array_equal(table.rows.view(np.int64), bits)


def test_a_recording_contains_its_description(tmp_path):
    """Metadata, attachments, log, names, units and schema."""
    written = record_seconds(tmp_path / "run.mcap")
    recording = read_recording(tmp_path / "run.mcap")
    assert (recording.complete, recording.problem) == (True, "")
    assert recording.metadata == {"scenario": "box", "seed": "7"}
    assert recording.attachments == {"vehicle.toml": b"mass = 1\n"}
    assert recording.logs == LOGS
    assert list(recording.streams) == list(written)
    for topic, stream in (("/drone0/state", STATE), ("/drone0/command", COMMAND)):
        table = recording.streams[topic]
        assert Stream(topic, table.fields, table.units, table.schema_name) == stream
        assert is_prefix(table, *written[topic])
        assert len(table.rows) == len(written[topic][1])
    assert recording.duration == 2.999999  # the last line of log


def test_columns_are_found_by_name(tmp_path):
    """One field, or all with a prefix; the error for an unknown name lists the fields."""
    _, rows = record_seconds(tmp_path / "run.mcap")["/drone0/state"]
    table = read_recording(tmp_path / "run.mcap").streams["/drone0/state"]
    assert same_bits(table["p_W.y"].copy(), rows[:, 1].copy())
    assert same_bits(table["p_W"], np.ascontiguousarray(rows[:, :3]))
    assert same_bits(table["rotor_speed"], np.ascontiguousarray(rows[:, 7:]))
    assert table.time[150] == 1.5
    with pytest.raises(KeyError, match=r"'p': expected one of p_W\.x, "):
        table["p"]


def test_the_state_of_every_kind_of_effect_has_names_a_plot_accepts():
    """Unique letters, digits and underscores, including batteries and contact."""
    for name in ("crazyflie_documented", "iris_documented", "octorotor_x"):
        fields = leaf_names(state_at_rest(vehicle(name)))
        identifiers = field_identifiers(fields)
        assert len(set(identifiers)) == len(fields)
        assert all(name_of_field.isidentifier() and name_of_field.isascii() for name_of_field in identifiers)
    assert field_identifiers(["p_W.x", "rotor_speed[2]", "effects[3][0].x", "[0]"]) == [
        "p_W_x",
        "rotor_speed_2",
        "effects_3_0_x",
        "value_0",
    ]
    assert field_identifiers(["a.b", "a_b", "a[b]", "a_b_2", "…"]) == ["a_b", "a_b_2", "a_b_3", "a_b_2_2", "value"]


def test_the_same_flight_is_the_same_file(tmp_path):
    """Byte for byte: independent of clock and machine."""
    for name in ("one.mcap", "two.mcap"):
        record_seconds(tmp_path / name)
    assert (tmp_path / "one.mcap").read_bytes() == (tmp_path / "two.mcap").read_bytes()


# The mcap library reads the same ----------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", ["", "lz4", "zstd"])
def test_the_library_decodes_the_same_numbers(tmp_path, compression):
    """Every message of every stream, by protobuf's decoder with the schema in the file."""
    written = record_seconds(tmp_path / "run.mcap", compression=compression)
    for stream in (STATE, COMMAND):
        messages = decode_messages(tmp_path / "run.mcap", stream.topic)
        times_us, rows = written[stream.topic]
        assert [message.log_time for _, message, _ in messages] == [1000 * int(t) for t in times_us]
        assert [message.publish_time for _, message, _ in messages] == [1000 * int(t) for t in times_us]
        assert [message.sequence for _, message, _ in messages] == list(range(len(rows)))
        assert [decoded_message.time_us for _, _, decoded_message in messages] == times_us.tolist()
        names = field_identifiers(stream.fields)
        assert same_bits(
            np.array([[getattr(decoded_message, name) for name in names] for _, _, decoded_message in messages]), rows
        )
    assert all(
        decoded_message.DESCRIPTOR.full_name == "samara.State"
        for _, _, decoded_message in decode_messages(tmp_path / "run.mcap", "/drone0/state")
    )
    assert decode_messages(tmp_path / "run.mcap", "/drone0/state")[0][2].DESCRIPTOR.fields_by_name["p_W_x"].number == 2


def test_the_summary_counts_the_contents(tmp_path):
    """Statistics, schemas, channels, chunks, metadata and attachments, as the library reads them from the end."""
    record_seconds(tmp_path / "run.mcap")
    with (tmp_path / "run.mcap").open("rb") as file:
        reader = make_reader(file)
        summary = reader.get_summary()
        assert reader.get_header().library.startswith("samara ")
        assert {record.name: record.metadata for record in reader.iter_metadata()}["samara"] == {
            "scenario": "box",
            "seed": "7",
        }
        assert [(attachment.name, attachment.data) for attachment in reader.iter_attachments()] == [
            ("vehicle.toml", b"mass = 1\n")
        ]
    topics = {channel.id: channel.topic for channel in summary.channels.values()}
    counts = {topics[key]: count for key, count in summary.statistics.channel_message_counts.items()}
    assert counts == {"/drone0/state": 300, "/drone0/command": 750, "/drone0/pose": 90, "/tf": 90, "/log": 2}
    assert summary.statistics.message_count == sum(counts.values()) == len(decode_messages(tmp_path / "run.mcap"))
    assert (summary.statistics.message_start_time, summary.statistics.message_end_time) == (0, 2_999_999_000)
    assert summary.statistics.chunk_count == len(summary.chunk_indexes) == 4  # the first has the schemas
    assert {channel.topic: summary.schemas[channel.schema_id].name for channel in summary.channels.values()} == {
        "/drone0/state": "samara.State",
        "/drone0/command": "samara.Command",
        "/drone0/pose": "foxglove.PoseInFrame",
        "/tf": "foxglove.FrameTransform",
        "/log": "foxglove.Log",
    }
    channel = next(channel for channel in summary.channels.values() if channel.topic == "/drone0/state")
    assert json.loads(channel.metadata["fields"]) == list(STATE.fields)
    assert json.loads(channel.metadata["units"]) == list(STATE.units)


def test_seeking_by_the_index_finds_the_right_second(tmp_path):
    """The library, given a topic and two times, finds through the indexes the same as a filter of all messages."""
    written = record_seconds(tmp_path / "run.mcap")
    messages = decode_messages(
        tmp_path / "run.mcap", "/drone0/command", starting_at=1_200_000_000, ending_before=2_100_000_000
    )
    times_us = written["/drone0/command"][0]
    assert [decoded_message.time_us for _, _, decoded_message in messages] == times_us[
        (times_us >= 1_200_000) & (times_us < 2_100_000)
    ].tolist()


def count_indexed_messages(path):
    """Count the messages in the indexes of all chunks; check that each channel has one index, in order, with valid offsets."""
    with path.open("rb") as file:
        records = list(StreamReader(file, emit_chunks=True, validate_crcs=True).records)
    message_count = 0
    for record in records:
        if isinstance(record, Chunk):
            data, indexed_channels = lz4.frame.decompress(record.data) if record.compression else record.data, set()
        elif isinstance(record, MessageIndex):
            assert record.channel_id not in indexed_channels
            indexed_channels.add(record.channel_id)
            assert record.records == sorted(record.records, key=lambda entry: entry[0])
            for log_time, offset in record.records:
                opcode, _, channel, _, log, publish = struct.unpack_from("<BQHIQQ", data, offset)
                assert (opcode, channel, log, publish) == (0x05, record.channel_id, log_time, log_time)
                message_count += 1
    return message_count


def test_every_entry_of_the_index_points_at_its_message(tmp_path):
    """Two drones share /tf: one index for each channel of a chunk, in the order of time, with valid offsets."""
    other = STATE._replace(topic="/a-drone-with-a-longer-name/state")
    record_seconds(tmp_path / "run.mcap", streams=(STATE, other), rates=(100, 40))
    assert count_indexed_messages(tmp_path / "run.mcap") == 3 * (100 + 30 + 30 + 40 + 30 + 30) + len(LOGS)


@pytest.mark.parametrize("compression", ["", "lz4"])
def test_every_offset_of_the_summary_is_valid(tmp_path, compression):
    """Chunk indexes at their chunks and message indexes, summary offsets at groups of one type that fill the summary."""
    record_seconds(tmp_path / "run.mcap", compression=compression)
    data = (tmp_path / "run.mcap").read_bytes()
    with (tmp_path / "run.mcap").open("rb") as file:
        chunks = make_reader(file).get_summary().chunk_indexes
    head = struct.Struct("<BQH")
    for index in chunks:
        opcode, length, _ = head.unpack_from(data, index.chunk_start_offset)
        assert (opcode, length + 9) == (Opcode.CHUNK, index.chunk_length)
        offset_expected = index.chunk_start_offset + index.chunk_length
        for channel, offset in index.message_index_offsets.items():
            opcode, length, channel_found = head.unpack_from(data, offset)
            assert (opcode, offset, channel_found) == (Opcode.MESSAGE_INDEX, offset_expected, channel)
            offset_expected += length + 9
        assert offset_expected == index.chunk_start_offset + index.chunk_length + index.message_index_length
    assert sum(len(index.message_index_offsets) for index in chunks) == 3 * 4 + len(LOGS)
    start, offsets_start, _ = struct.unpack_from("<QQI", data, len(data) - 28)
    offset_expected, groups = start, []
    while offset_expected < offsets_start:
        opcode, length, _ = head.unpack_from(data, offset_expected)
        if not groups or groups[-1][0] != opcode:
            groups.append([opcode, offset_expected, 0])
        offset_expected += length + 9
        groups[-1][2] = offset_expected - groups[-1][1]
    footer = len(data) - 8 - 29
    summary_offsets = [
        struct.unpack_from("<BQQ", data, offset_expected + 9) for offset_expected in range(offsets_start, footer, 26)
    ]
    assert [list(entry) for entry in summary_offsets] == groups
    assert len(groups) == 6


def test_a_reader_that_cannot_seek_reads_it_too(tmp_path):
    """Sequentially, with every CRC checked; an unfinished file likewise, up to its end."""
    record_seconds(tmp_path / "run.mcap", logs=())
    with (tmp_path / "run.mcap").open("rb") as file:
        assert sum(1 for _ in NonSeekingReader(file, validate_crcs=True).iter_messages()) == 1230


def test_a_file_another_program_has_sorted_is_still_a_recording(tmp_path):
    """The library writes all messages again, one by one in the order of time and compressed: the same tables."""
    written = record_seconds(
        tmp_path / "run.mcap", streams=(STATE, STATE._replace(topic="/drone1/state")), rates=(100, 40)
    )
    with (tmp_path / "run.mcap").open("rb") as source, (tmp_path / "sorted.mcap").open("wb") as target:
        reader, writer = make_reader(source), Writer(target, compression=CompressionType.ZSTD, chunk_size=20_000)
        writer.start(library="somebody else")
        for record in reader.iter_metadata():
            writer.add_metadata(record.name, record.metadata)
        summary = reader.get_summary()
        schemas = {
            schema.id: writer.register_schema(schema.name, schema.encoding, schema.data)
            for schema in summary.schemas.values()
        }
        channels = {
            channel.id: writer.register_channel(
                channel.topic, channel.message_encoding, schemas[channel.schema_id], channel.metadata
            )
            for channel in reversed(summary.channels.values())
        }
        for _, channel, message in reader.iter_messages():
            writer.add_message(
                channels[channel.id], message.log_time, message.data, message.publish_time, message.sequence
            )
        writer.finish()
    recording = read_recording(tmp_path / "sorted.mcap")
    assert recording.problem == ""
    assert recording.logs == LOGS
    for topic, (times_us, rows) in written.items():
        assert np.array_equal(recording.streams[topic].times_us, times_us)
        assert same_bits(recording.streams[topic].rows, rows)


# Foxglove's messages ----------------------------------------------------------------------------------------------


def test_poses_have_foxgloves_schema(tmp_path):
    """PoseInFrame and FrameTransform, read by the published classes, place a body as p_W and q_WB do."""
    times_us, rows = record_seconds(tmp_path / "run.mcap")["/drone0/state"]
    rows_by_time = dict(zip(times_us.tolist(), rows, strict=True))
    arm_B = Vec3(0.3, -0.2, 0.1)
    with (tmp_path / "run.mcap").open("rb") as file:
        messages = list(make_reader(file).iter_messages(["/drone0/pose", "/tf"]))
    assert len(messages) == 180
    for _, channel, message in messages:
        if channel.topic == "/tf":
            pose_message = FrameTransform.FromString(message.data)
            position, orientation = pose_message.translation, pose_message.rotation
            assert (pose_message.parent_frame_id, pose_message.child_frame_id) == ("world", "drone0")
        else:
            pose_message = PoseInFrame.FromString(message.data)
            position, orientation = pose_message.pose.position, pose_message.pose.orientation
            assert pose_message.frame_id == "world"
        assert pose_message.timestamp.ToNanoseconds() == message.log_time
        row = rows_by_time[message.log_time // 1000]
        assert (position.x, position.y, position.z) == tuple(row[:3])
        rotation = Rotation.from_quat([orientation.x, orientation.y, orientation.z, orientation.w])
        q_WB = Quat(*(row[3:7] / np.linalg.norm(row[3:7])))
        assert rotation.apply(arm_B) == pytest.approx(np.array(rotate(q_WB, arm_B)), rel=1e-14, abs=1e-15)


@pytest.mark.parametrize(("rate", "expected"), [(10, 10), (30, 30), (100, 30), (1000, 30)])
def test_poses_come_at_most_thirty_times_a_second(tmp_path, rate, expected):
    """However the seconds are divided into chunks; the first row is always among them."""
    for chunk_count in (1, 3, 7):
        path = tmp_path / f"{chunk_count}.mcap"
        times_us = np.arange(2 * rate) * 1_000_000 // rate
        rows = np.random.default_rng(0).normal(size=(2 * rate, len(STATE.fields)))
        with Recorder(path, [STATE]) as writer:
            for part in np.array_split(np.arange(2 * rate), chunk_count):
                writer.write({"/drone0/state": (times_us[part], rows[part])})
        times_ns = [message.log_time for _, message, _ in decode_messages(path, "/tf")]
        assert len(times_ns) == 2 * expected
        assert times_ns[0] == 0
        assert len({30 * (t + 1000) // 10**9 for t in times_ns}) == len(times_ns)


def test_each_drone_has_its_frame_and_its_pose(tmp_path):
    """A state gives the drone its frame; an estimate of the same drone gets a frame below its topic."""
    streams = [STATE._replace(topic=topic) for topic in ("/drone0/state", "/drone1/state", "/drone1/estimate")]
    record_seconds(tmp_path / "run.mcap", 1, streams, (25, 25, 25), ())
    frames = [decoded_message.child_frame_id for _, _, decoded_message in decode_messages(tmp_path / "run.mcap", "/tf")]
    assert {name: frames.count(name) for name in frames} == {"drone0": 25, "drone1": 25, "drone1/estimate": 25}
    topics = {topic for topic, _, _ in decode_messages(tmp_path / "run.mcap")}
    assert topics >= {"/drone0/pose", "/drone1/pose", "/drone1/estimate/pose"}


def test_a_stream_without_a_pose_is_not_drawn(tmp_path):
    record_seconds(tmp_path / "run.mcap", 1, (COMMAND,), (10,), ())
    assert {topic for topic, _, _ in decode_messages(tmp_path / "run.mcap")} == {"/drone0/command"}


def test_log_lines_have_foxgloves_schema(tmp_path):
    """Level by its code, time to the microsecond, text unchanged."""
    lines = [LogLine(1_000_000 * k + k, level, "me", f"{k}: ü") for k, level in enumerate(("debug", "info", "fatal"))]
    with Recorder(tmp_path / "run.mcap", [STATE]) as writer:
        writer.write({}, lines)
    with (tmp_path / "run.mcap").open("rb") as file:
        logs = [Log.FromString(message.data) for _, _, message in make_reader(file).iter_messages(["/log"])]
    assert [Log.Level.Name(log.level) for log in logs] == ["DEBUG", "INFO", "FATAL"]
    assert [log.timestamp.ToMicroseconds() for log in logs] == [line.time_us for line in lines]
    assert [(log.name, log.message) for log in logs] == [("me", "0: ü"), ("me", "1: ü"), ("me", "2: ü")]
    assert read_recording(tmp_path / "run.mcap").logs == tuple(lines)


@pytest.mark.parametrize("message", [PoseInFrame, FrameTransform, Log])
def test_the_schemas_of_foxglove_are_complete(message):
    """The descriptor with all its dependencies, as the protobuf support of the mcap library collects it."""
    files = {file.name: file for file in FileDescriptorSet.FromString(published_schema(message)).file}
    assert files == {file.name: file for file in build_file_descriptor_set(message).file}


def test_drones_of_one_vehicle_share_a_schema_and_others_do_not(tmp_path):
    """A name stands for one set of fields: four rotors and six need two schemas."""
    hexa = STATE._replace(topic="/hexa/state", fields=(*STATE.fields, "rotor_speed[5]"), units=(*STATE.units, "rad/s"))
    streams = (STATE, STATE._replace(topic="/drone1/state"), hexa)
    written = record_seconds(tmp_path / "run.mcap", 1, streams, (5, 5, 5), ())
    with (tmp_path / "run.mcap").open("rb") as file:
        summary = make_reader(file).get_summary()
    names = {channel.topic: summary.schemas[channel.schema_id].name for channel in summary.channels.values()}
    assert [names[stream.topic] for stream in streams] == ["samara.State", "samara.State", "samara.State_2"]
    for topic, table in read_recording(tmp_path / "run.mcap").streams.items():
        assert table.schema_name == "samara.State"
        assert same_bits(table.rows, written[topic][1])


# Many drones ------------------------------------------------------------------------------------------------------


def swarm(count):
    """A state and a command for each of many drones; cf9 and cf10 differ in the length of their frames."""
    return [
        stream._replace(topic=stream.topic.replace("drone0", f"cf{k}"))
        for k in range(count)
        for stream in (STATE, COMMAND)
    ]


def swarm_second(streams, second, seed=0):
    """A second of a swarm: all drones at the same times, but cf2 and cf11 late by a millisecond and cf3 at half the rate.

    It ends with its last instant, as a simulation's does, so the next one begins within the same thirtieth of a second.
    """
    blocks = {}
    for k, stream in enumerate(streams):
        rate_divisor = 2 if stream.topic.startswith("/cf3/") else 1
        delay_us = 1000 * stream.topic.startswith(("/cf2/", "/cf11/"))
        times_us, rows = random_second(
            stream, second, (100 if stream.schema_name == "samara.State" else 50) // rate_divisor, seed + k
        )
        blocks[stream.topic] = times_us + 10_000 * rate_divisor + delay_us, rows
    return blocks


def messages_by_drone(path):
    """Return the messages of each topic, or each frame of /tf: sequence, times and bytes; /tf is counted across drones."""
    messages = {}
    for topic, message, decoded_message in decode_messages(path):
        key, sequence = (decoded_message.child_frame_id, 0) if topic == "/tf" else (topic, message.sequence)
        messages.setdefault(key, []).append((sequence, message.log_time, message.publish_time, message.data))
    return messages


def test_drones_in_one_file_have_the_same_messages_as_in_separate_files(tmp_path):
    """Fourteen drones in each chunk and one drone in each file: the same messages to the byte, for the library's reader.

    One of them joins a second late, so its first pose is due at another time than those of the others.
    """
    streams = swarm(14)
    separate = {}
    with Recorder(tmp_path / "all.mcap", streams) as common_writer:
        for second in range(3):
            blocks = swarm_second(streams, second)
            common_writer.write(
                {topic: block for topic, block in blocks.items() if second or not topic.startswith("/cf5/")}
            )
    for k in range(14):
        with Recorder(tmp_path / "one.mcap", streams[2 * k : 2 * k + 2], overwrite=True) as writer:
            for second in range(k == 5, 3):
                blocks = swarm_second(streams, second)
                writer.write({stream.topic: blocks[stream.topic] for stream in streams[2 * k : 2 * k + 2]})
        separate |= messages_by_drone(tmp_path / "one.mcap")
    common = messages_by_drone(tmp_path / "all.mcap")
    assert common == separate
    counts = {"/cf0/state": 300, "/cf0/pose": 91, "cf13": 91, "cf5": 61, "/cf3/command": 75}
    assert {key: len(common[key]) for key in counts} == counts
    with (tmp_path / "all.mcap").open("rb") as file:
        messages = list(make_reader(file).iter_messages(["/tf"], log_time_order=False))
    assert [message.sequence for _, _, message in messages] == list(range(len(messages)))
    assert count_indexed_messages(tmp_path / "all.mcap") == sum(map(len, common.values()))


def test_blocks_of_a_fleet_make_the_same_messages_as_the_tables_of_its_drones(tmp_path):
    """Byte for byte: the frames of cf9 and cf10 differ in length; two fleets become one, and cf9 joins late."""

    def messages(path):
        with path.open("rb") as file:
            return sorted(
                (channel.topic, message.log_time, message.data)
                for _, channel, message in make_reader(file).iter_messages()
            )

    states, commands = swarm(12)[::2], swarm(12)[1::2]
    paths = tmp_path / "tables.mcap", tmp_path / "blocks.mcap"
    with Recorder(paths[0], swarm(12)) as tables, Recorder(paths[1], swarm(12)) as blocks:
        for second in range(4):
            fleet, singles = (slice(0, 12), slice(0, 0)) if second > 1 else (slice(0, 9), slice(10, 12))
            drones = [*range(12)[fleet], *range(12)[singles]]
            seconds = {
                stream.topic: random_second(stream, second, 100 + second % 2, k)
                for k in drones
                for stream in (states[k], commands[k])
            }
            tables.write(seconds, [LogLine(1_000_000 * second, "info", "me", "now")])
            stream_blocks = [
                StreamBlock(
                    tuple(stream.topic for stream in part_streams),
                    seconds[part_streams[0].topic][0],
                    np.stack([seconds[stream.topic][1] for stream in part_streams], axis=2),
                )
                for part in (fleet, singles)
                for part_streams in (states[part], commands[part])
                if part_streams
            ]
            blocks.write_blocks(stream_blocks, [LogLine(1_000_000 * second, "info", "me", "now")])
    assert messages(paths[0]) == messages(paths[1])
    assert len(read_recording(paths[1]).streams["/cf9/state"].rows) == 201


def test_a_wrong_block_of_a_fleet_is_refused_in_one_sentence(tmp_path):
    """And no part of the chunk is written."""
    topics, times_us = ("/cf0/command", "/cf1/command"), np.arange(3)
    rows = np.zeros((3, 2, 2))
    with Recorder(tmp_path / "run.mcap", swarm(2)) as writer:
        for invalid_blocks, complaint in (
            (
                [StreamBlock(topics, times_us, rows[:, :, :1])],
                r"/cf0/command: .* of shape \(3, 2, 1\); .* of shape \(3, 2, 2\)",
            ),
            ([StreamBlock(topics, times_us * 1.0, rows)], "/cf0/command: times are float64, .*; expected int64, "),
            (
                [StreamBlock(("/cf0/command", "/cf1/state"), times_us, rows)],
                "/cf1/state: in a block with /cf0/command; ",
            ),
            (
                [StreamBlock(("/cf0/command", "/cf2/state"), times_us, rows)],
                "topic '/cf2/state': expected one of /cf0/state",
            ),
            ([StreamBlock((), times_us, rows[:, :, :0])], "a block without a topic: expected one of /cf0/state"),
            (
                [StreamBlock(topics, times_us, rows)] * 2,
                "/cf0/command: in two blocks of a chunk; expected each topic in one",
            ),
            ([StreamBlock(topics, times_us[::-1], rows)], "/cf0/command: times run from 2 to 0 µs after 0 µs; "),
        ):
            with pytest.raises(RecordingError, match=f"^{complaint}"):
                writer.write_blocks(invalid_blocks)
        writer.write_blocks([StreamBlock(topics, times_us, rows)])
    assert [len(table.rows) for table in read_recording(writer.path).streams.values()] == [0, 3, 0, 3]


def test_blocks_become_tables_however_drones_were_grouped():
    """Together, then apart, then together again: each drone has its rows in the order of writing."""
    rows, times_us = np.random.default_rng(0).normal(size=(6, 2, 3)), np.array([0, 1, 2, 2, 3, 3])
    common_topics, separate_topics = ("/a", "/b"), (("/a",), ("/b",))
    blocks = [
        StreamBlock(common_topics, times_us[:2], rows[:2, :, :2]),
        *(StreamBlock(topics, times_us[2:4], rows[2:4, :, k : k + 1]) for k, topics in enumerate(separate_topics)),
        StreamBlock(("/c",), times_us, rows[:, :, 2:]),
        StreamBlock(common_topics, times_us[4:], rows[4:, :, :2]),
    ]
    tables = concatenate_blocks(blocks)
    assert sorted(tables) == ["/a", "/b", "/c"]
    for k, topic in enumerate(("/a", "/b", "/c")):
        assert np.array_equal(tables[topic][0], times_us)
        assert np.array_equal(tables[topic][1], rows[:, :, k])


def test_drones_may_take_turns(tmp_path):
    """Each chunk has as many messages as the last, of another drone; then of the same one, with a long log line."""
    streams = swarm(3)[::2]
    turns = [0, 1, 2, 2, 1]
    with Recorder(tmp_path / "run.mcap", streams) as writer:
        for second, k in enumerate(turns):
            lines = [LogLine(1_000_000 * second, "info", "me", "…" * 40_000)] if turns[second - 1] == k else []
            writer.write({f"/cf{k}/state": random_second(STATE, second)}, lines)
    recording = read_recording(tmp_path / "run.mcap")
    assert (recording.problem, len(recording.logs)) == ("", 1)
    for k, stream in enumerate(streams):
        rows = np.concatenate([random_second(STATE, second)[1] for second, turn in enumerate(turns) if turn == k])
        assert same_bits(recording.streams[stream.topic].rows, rows)
    frames = [
        (decoded_message.child_frame_id, message.log_time // 10**9)
        for _, message, decoded_message in decode_messages(tmp_path / "run.mcap", "/tf")
    ]
    assert frames == [(f"cf{k}", second) for second, k in enumerate(turns) for _ in range(30)]


@settings(max_examples=30, deadline=None)
@given(
    chunks=st.lists(st.tuples(st.lists(st.integers(0, 3), min_size=7, max_size=7), st.integers(0, 2)), max_size=7),
    compression=st.sampled_from(["", "", "lz4"]),
)
def test_any_chunks_of_any_drones_come_back(tmp_path_factory, chunks, compression):
    """Any row counts of seven streams in a chunk, equal to the last chunk or not: the library reads the same."""
    path = tmp_path_factory.mktemp("any") / "run.mcap"
    streams = [*swarm(3), STATE._replace(topic="/cf10/state")]
    written = {stream.topic: [] for stream in streams}
    with Recorder(path, streams, compression=compression) as writer:
        for second, (counts, lines) in enumerate(chunks):
            times_us = 1_000_000 * second + 40_000 * np.arange(3)  # each in a separate thirtieth, so all are displayed
            blocks = {
                stream.topic: (
                    times_us[:count],
                    np.random.default_rng([second, k]).normal(size=(count, len(stream.fields))),
                )
                for k, (stream, count) in enumerate(zip(streams, counts, strict=True))
            }
            writer.write(blocks, [LogLine(1_000_000 * second + k, "info", "x" * k, f"{second}") for k in range(lines)])
            for topic, (times, rows) in blocks.items():
                written[topic] += zip(times.tolist(), rows.tolist(), strict=True)
    names = {stream.topic: field_identifiers(stream.fields) for stream in streams}
    messages = decode_messages(path)
    for topic, rows in written.items():
        topic_messages = [
            (message, decoded_message) for message_topic, message, decoded_message in messages if message_topic == topic
        ]
        assert [
            (decoded_message.time_us, [getattr(decoded_message, name) for name in names[topic]])
            for _, decoded_message in topic_messages
        ] == rows
        assert [message.sequence for message, _ in topic_messages] == list(range(len(rows)))
    frames = sorted(
        (decoded_message.child_frame_id, decoded_message.translation.x)
        for message_topic, _, decoded_message in messages
        if message_topic == "/tf"
    )
    assert frames == sorted(
        (topic.split("/")[1], row[0]) for topic in written if "state" in topic for _, row in written[topic]
    )
    assert (
        count_indexed_messages(path)
        == len(messages)
        == sum(map(len, written.values())) + 2 * len(frames) + sum(n for _, n in chunks)
    )
    assert read_recording(path).complete


def test_memory_may_be_reused_when_write_returns(tmp_path):
    """Blocks are views of one table (rows, fields, drones), which the next second overwrites."""
    streams = swarm(3)[::2]
    table, times_us = np.empty((100, len(STATE.fields), 3)), np.empty(100, np.int64)
    seconds = [np.random.default_rng(second).normal(size=table.shape) for second in range(3)]
    with Recorder(tmp_path / "run.mcap", streams) as writer:
        for second, numbers in enumerate(seconds):
            table[:], times_us[:] = numbers, 1_000_000 * second + 10_000 * np.arange(100)
            writer.write({stream.topic: (times_us, table[:, :, k]) for k, stream in enumerate(streams)})
            table[:], times_us[:] = np.nan, -1
    recording = read_recording(tmp_path / "run.mcap")
    for k, stream in enumerate(streams):
        assert np.array_equal(recording.streams[stream.topic].rows, np.concatenate(seconds)[:, :, k])
        assert np.array_equal(recording.streams[stream.topic].times_us, 10_000 * np.arange(300))


def test_poses_are_found_by_name_in_streams_of_equal_width(tmp_path):
    """Two states of the same size with fields in another order, in one chunk."""
    reversed_stream = Stream("/turned/state", STATE.fields[::-1], STATE.units[::-1], "samara.Turned")
    times_us, rows = random_second(STATE, 0)
    with Recorder(tmp_path / "run.mcap", [STATE, reversed_stream]) as writer:
        writer.write(
            {"/drone0/state": (times_us, rows), "/turned/state": (times_us, np.ascontiguousarray(rows[:, ::-1]))}
        )
    poses = {"drone0": [], "turned": []}
    for _, message, transform in decode_messages(tmp_path / "run.mcap", "/tf"):
        p, q = transform.translation, transform.rotation
        poses[transform.child_frame_id].append((message.log_time, p.x, p.y, p.z, q.w, q.x, q.y, q.z))
    assert poses["drone0"] == poses["turned"]
    assert poses["drone0"][1] == (40_000_000, *rows[4, :7])


@pytest.mark.parametrize("wrong", ["rows", "times", "past"])
def test_a_wrong_block_among_many_is_named(tmp_path, wrong):
    """One drone of twelve; no part of the chunk is written, and the next one is."""
    streams = swarm(12)
    with Recorder(tmp_path / "run.mcap", streams) as writer:
        writer.write(swarm_second(streams, 0))
        if wrong == "past":  # the same times as the others have, but this drone has been there
            writer.write({"/cf7/state": random_second(STATE, 2)})
        blocks = swarm_second(streams, 1)
        times_us, rows = blocks["/cf7/state"]
        blocks["/cf7/state"] = {
            "rows": (times_us, rows[:, :7]),
            "times": (times_us[::-1], rows),
            "past": (times_us, rows),
        }[wrong]
        with pytest.raises(RecordingError, match=r"^/cf7/state: "):
            writer.write(blocks)
        writer.write({topic: block for topic, block in blocks.items() if topic != "/cf7/state"})
    recording = read_recording(tmp_path / "run.mcap")
    assert recording.complete
    assert [len(recording.streams[f"/cf{k}/state"].rows) for k in (6, 7, 8)] == [
        200,
        200 if wrong == "past" else 100,
        200,
    ]


def test_ctrl_c_between_two_drones_damages_no_later_chunk(tmp_path, monkeypatch):
    """Interrupted while the records of a short chunk overwrite those of the last: the next chunk is correct."""
    streams, counts = swarm(2), []

    def interrupted_array(layouts, count, memory):
        counts.append(count)
        if (
            count == 9 and counts.count(9) == 2
        ):  # the states and poses of the short chunk are laid out, its commands are not
            raise KeyboardInterrupt
        return MessageArray(layouts, count, memory)

    monkeypatch.setattr(mcap_writer, "MessageArray", interrupted_array)
    with Recorder(tmp_path / "run.mcap", streams) as writer:
        writer.write(swarm_second(streams, 0))
        writer.write(swarm_second(streams, 1))
        with pytest.raises(KeyboardInterrupt):
            writer.write(
                {topic: (times_us[:9], rows[:9]) for topic, (times_us, rows) in swarm_second(streams, 2).items()}
            )
        writer.write(swarm_second(streams, 2))
    for topic, table in read_recording(tmp_path / "run.mcap").streams.items():
        assert same_bits(table.rows, np.concatenate([swarm_second(streams, second)[topic][1] for second in range(3)]))
    assert len(decode_messages(tmp_path / "run.mcap", "/tf")) == 2 * 91


def test_messages_are_counted_modulo_two_to_the_32(tmp_path):
    """MCAP numbers them with 32 bits; a year of commands at 250 Hz is more."""
    with Recorder(tmp_path / "run.mcap", [COMMAND]) as writer:
        writer._progress.message_counts[1] = 2**32 - 3
        writer.write({"/drone0/command": random_second(COMMAND, 0, rate=5)})
    assert [message.sequence for _, message, _ in decode_messages(tmp_path / "run.mcap")] == [
        2**32 - 3,
        2**32 - 2,
        2**32 - 1,
        0,
        1,
    ]


# Interrupted writing ----------------------------------------------------------------------------------------------

KILLED_PROGRAM = """
import ctypes, mmap, os, random, signal, struct, sys, time
import numpy as np
from samara.record.recorder import BackgroundRecorder
from samara.record.streams import StreamBlock
from samara.record.recorder import Recorder, Stream

folder, kills, drones, max_seconds, in_background = sys.argv[1], *map(int, sys.argv[2:])
fields = tuple(f"x[{i}]" for i in range(40))
streams = [Stream(f"/drone{k}/state", fields, ("m",) * 40, "samara.State") for k in range(drones)]
random.seed(1)
for kill in range(kills):
    done = mmap.mmap(-1, 8)
    child = os.fork()
    if not child:
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(1, int(signal.SIGKILL))  # PR_SET_PDEATHSIG: it would write for ever
        recorder = Recorder(f"{folder}/{kill}.mcap", streams)
        write = BackgroundRecorder(recorder).write_blocks if in_background else recorder.write_blocks
        for second in range(10**6):
            times_us = second * 1_000_000 + 10_000 * np.arange(100)
            rows = np.outer(times_us, np.arange(1.0, 41.0)) / 7.0
            write([StreamBlock((stream.topic,), times_us, rows[:, :, None]) for stream in streams])
            done[:8] = struct.pack("<q", second + 1)
    while struct.unpack("<q", done[:8])[0] < kill * max_seconds // kills:
        time.sleep(1e-4)
    time.sleep(random.uniform(0.0, 1e-3 * drones))  # somewhere in the next chunk, or the one after
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    print(struct.unpack("<q", done[:8])[0])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that forks and kills")
@pytest.mark.parametrize(("kills", "drones", "most", "behind"), [(50, 1, 60, 0), (6, 40, 12, 0), (20, 1, 60, 1)])
def test_a_killed_process_loses_no_written_chunk(tmp_path, kills, drones, most, behind):
    """kill -9 at random moments: every chunk for which `write` had returned is there, and at most one more.

    This holds for one drone, and for forty with two megabytes a second. If chunks are written in the background, the last two
    may be missing.
    """
    arguments = [sys.executable, "-c", KILLED_PROGRAM, tmp_path, *map(str, (kills, drones, most, behind))]
    process = run_child(arguments, text=True)
    assert process.returncode == 0, process.stderr
    written_seconds = [int(word) for word in process.stdout.split()]
    assert len(written_seconds) == kills
    assert max(written_seconds) > 5
    for kill, seconds in enumerate(written_seconds):
        path = tmp_path / f"{kill}.mcap"
        if not path.exists():
            assert seconds == 0
            continue
        recording = read_recording(path)
        table = recording.streams[f"/drone{drones - 1}/state"]
        assert {len(stream.rows) for stream in recording.streams.values()} == {len(table.rows)}
        assert max(0, seconds - 2 * behind) <= len(table.rows) / 100 <= seconds + 1
        assert len(table.rows) % 100 == 0
        assert np.array_equal(table.times_us, 10_000 * np.arange(len(table.rows)))
        assert same_bits(table.rows, np.outer(table.times_us, np.arange(1.0, 41.0)) / 7.0)
        assert not recording.complete
        end = table.times_us[-1] / 1e6 if len(table.rows) else 0.0
        assert recording.problem == f"{path}: truncated after {end:.3f} s: the last chunk may be missing"


def test_an_unfinished_recording_can_be_read_while_it_grows(tmp_path):
    """After each write all written rows are in the file."""
    with Recorder(tmp_path / "run.mcap", [STATE]) as writer:
        assert len(read_recording(tmp_path / "run.mcap").streams["/drone0/state"].rows) == 0
        for second in range(3):
            writer.write({"/drone0/state": random_second(STATE, second)})
            recording = read_recording(tmp_path / "run.mcap")
            assert len(recording.streams["/drone0/state"].rows) == 100 * (second + 1)
            assert not recording.complete
    assert read_recording(tmp_path / "run.mcap").complete


def test_a_flight_that_fails_leaves_a_complete_recording(tmp_path):
    """The error propagates; the file is closed properly."""
    with pytest.raises(FloatingPointError), Recorder(tmp_path / "run.mcap", [STATE]) as writer:
        writer.write({"/drone0/state": random_second(STATE, 0)})
        raise FloatingPointError
    recording = read_recording(tmp_path / "run.mcap")
    assert recording.complete
    assert len(recording.streams["/drone0/state"].rows) == 100


class Failing(io.FileIO):
    """A file that accepts `room` more bytes, in small portions, and then raises."""

    def __init__(self, path, room, error):
        super().__init__(path, "r+")
        self.room, self.error = room, error

    def write(self, data):
        if self.room == 0:
            raise self.error
        taken = min(len(data), self.room, 4096)
        self.room -= taken
        return super().write(bytes(data[:taken]))


@pytest.mark.parametrize("room", [0, 1, 9, 4000, 20_000, 30_000, 50_000])
def test_a_full_disk_ends_the_recording_and_not_the_flight(tmp_path, monkeypatch, room):
    """No error from `write`; one sentence; complete chunks stay, and no other byte."""
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(recorder, "_open_for_update", lambda path: Failing(path, room, full))
    written = random_second(STATE, 0), random_second(STATE, 1), random_second(STATE, 2)
    with Recorder(tmp_path / "run.mcap", [STATE]) as writer:
        opening = (tmp_path / "run.mcap").stat().st_size
        for block in written:
            writer.write({"/drone0/state": block})
        seconds = writer._latest_us.max() / 1e6
        assert writer.problem == f"{writer.path}: recording stopped after {seconds:.3f} s: No space left on device"
        chunk = (writer.path.stat().st_size - opening) / max(1, len(writer._chunks))
        size = writer.path.stat().st_size
        writer._file.room = 10**9  # even with space again: the seconds between are lost
        writer.write({"/drone0/state": written[2]})
        assert writer.path.stat().st_size == size
    recording = read_recording(tmp_path / "run.mcap")
    rows = recording.streams["/drone0/state"].rows
    assert len(rows) == (100 * int(room // chunk) if chunk else 0)
    assert same_bits(rows, np.concatenate([block[1] for block in written])[: len(rows)])
    assert not recording.complete
    assert "truncated" in recording.problem


def test_a_disk_too_full_for_the_summary_costs_only_the_summary(tmp_path, monkeypatch):
    """Every row is there; the message reports that the file was not closed."""
    sizes = []
    for room in (10**9, 0):
        path = tmp_path / f"{room}.mcap"
        monkeypatch.setattr(
            recorder, "_open_for_update", lambda path: Failing(path, 10**9, OSError(errno.EDQUOT, "quota"))
        )
        with Recorder(path, [STATE]) as writer:
            writer.write({"/drone0/state": random_second(STATE, 0)})
            writer._file.room = room
            sizes.append(path.stat().st_size)
        assert writer.problem == ("" if room else f"{path}: recording stopped after 0.990 s: quota")
    recording = read_recording(path)
    assert (len(recording.streams["/drone0/state"].rows), recording.complete) == (100, False)
    assert path.stat().st_size == sizes[1]


def test_a_system_limit_has_the_same_effect(tmp_path):
    """RLIMIT_FSIZE: the kernel refuses in the middle of a chunk."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Recorder(tmp_path / "run.mcap", [STATE]) as writer:
        writer.write({"/drone0/state": random_second(STATE, 0)})
        size_before = writer.path.stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size_before + 5000, hard))
        try:
            writer.write({"/drone0/state": random_second(STATE, 1)})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert writer.problem == f"{writer.path}: recording stopped after 0.990 s: File too large"
        assert writer.path.stat().st_size == size_before
    assert len(read_recording(tmp_path / "run.mcap").streams["/drone0/state"].rows) == 100


def test_ctrl_c_in_the_middle_of_a_chunk_leaves_it_out(tmp_path, monkeypatch):
    """KeyboardInterrupt propagates; the complete part is closed properly, although the partial chunk was longer."""
    monkeypatch.setattr(recorder, "_open_for_update", lambda path: Failing(path, 10**9, KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt), Recorder(tmp_path / "run.mcap", [STATE]) as writer:
        writer.write({"/drone0/state": random_second(STATE, 0)})
        writer._file.room = 20_000
        try:
            writer.write({"/drone0/state": random_second(STATE, 1, rate=1000)})
        finally:
            writer._file.room = 10**9
    recording = read_recording(tmp_path / "run.mcap")
    assert (recording.complete, len(recording.streams["/drone0/state"].rows)) == (True, 100)
    assert len(decode_messages(tmp_path / "run.mcap", "/drone0/state")) == 100


def test_a_recording_is_not_overwritten_by_mistake(tmp_path):
    """The old one stays until the new one has begun."""
    path = tmp_path / "run.mcap"
    record_seconds(path, 1)
    data_before = path.read_bytes()
    with pytest.raises(RecordingError, match=r"run\.mcap: exists; expected a new file, or overwrite=True"):
        Recorder(path, [STATE])
    with pytest.raises(RecordingError, match="occurs twice"):
        Recorder(path, [STATE, STATE], overwrite=True)
    assert path.read_bytes() == data_before
    record_seconds(path, 2, overwrite=True)
    assert len(read_recording(path).streams["/drone0/state"].rows) == 200
    assert [file.name for file in tmp_path.iterdir()] == ["run.mcap"]


def test_a_closed_recorder_raises(tmp_path):
    writer = Recorder(tmp_path / "folder" / "run.mcap", [STATE])
    writer.close()
    writer.close()
    with pytest.raises(RecordingError, match=r"run\.mcap: the recording is closed"):
        writer.write({"/drone0/state": random_second(STATE, 0)})
    assert read_recording(writer.path).complete


# Damaged files ----------------------------------------------------------------------------------------------------


def read_bytes(path, data):
    """Return the recording in these bytes, or None after a check that the error is one sentence with the file's name."""
    path.write_bytes(data)
    try:
        return read_recording(path)
    except RecordingError as error:
        assert str(error).startswith(f"{path}: ")
        assert "\n" not in str(error)
        return None


def test_a_file_cut_anywhere_gives_what_came_before(tmp_path):
    """Two hundred random lengths and all near the ends of chunks: a prefix bit for bit, and a sentence."""
    written = record_seconds(tmp_path / "run.mcap", seconds=4, rates=(10, 25))
    data = (tmp_path / "run.mcap").read_bytes()
    with (tmp_path / "run.mcap").open("rb") as file:
        chunks = make_reader(file).get_summary().chunk_indexes
    ends = [index.chunk_start_offset + index.chunk_length for index in chunks]
    lengths = {
        *np.random.default_rng(0).integers(0, len(data), 200).tolist(),
        *(e + k for e in ends for k in (-1, 0, 1)),
    }
    chunk_counts = set()
    for length in sorted({*lengths, 0, 7, 8, 9, len(data) - 1}):
        recording = read_bytes(tmp_path / "cut.mcap", data[:length])
        if recording is None:
            assert length < ends[0]
            continue
        assert length >= ends[0]
        chunk_count = sum(end <= length for end in ends) - 1
        assert not recording.complete
        assert "truncated" in recording.problem
        for topic, rate in (("/drone0/state", 10), ("/drone0/command", 25)):
            assert len(recording.streams[topic].rows) == chunk_count * rate
            assert is_prefix(recording.streams[topic], *written[topic])
        assert recording.logs == tuple(line for line in LOGS if line.time_us < 1_000_000 * chunk_count)
        chunk_counts.add(chunk_count)
    assert chunk_counts == {0, 1, 2, 3, 4}


def test_a_changed_byte_is_never_taken_for_data(tmp_path):
    """Six hundred random single bytes: rows are a prefix of the written ones, and a complete file has all of them.

    Metadata, attachments, names, units and log are correct or absent, and absence is reported.
    """
    written = record_seconds(tmp_path / "run.mcap", seconds=3, rates=(10, 25))
    data = (tmp_path / "run.mcap").read_bytes()
    original = read_recording(tmp_path / "run.mcap")
    rng = np.random.default_rng(1)
    reported_count = 0
    for offset in rng.integers(0, len(data), 600).tolist():
        changed = bytearray(data)
        changed[offset] ^= int(rng.integers(1, 256))
        recording = read_bytes(tmp_path / "changed.mcap", bytes(changed))
        if recording is None:
            reported_count += 1
            continue
        assert list(recording.streams) == list(original.streams)
        for topic, table in recording.streams.items():
            assert (table.fields, table.units, table.schema_name) == (
                original.streams[topic].fields,
                original.streams[topic].units,
                original.streams[topic].schema_name,
            )
            assert is_prefix(table, *written[topic])
        assert recording.logs == original.logs[: len(recording.logs)]
        assert recording.complete == (recording.problem == "")
        if recording.complete:
            assert recording.logs == original.logs
            assert recording.metadata == original.metadata
            assert recording.attachments == original.attachments
            assert all(len(table.rows) == len(written[topic][1]) for topic, table in recording.streams.items())
        else:
            reported_count += 1
            assert recording.problem.startswith(f"{recording.path}: ")
            assert "\n" not in recording.problem
            assert recording.metadata in (original.metadata, {})
            assert recording.attachments in (original.attachments, {})
    assert reported_count > 300


@pytest.mark.parametrize("compression", ["", "lz4", "zstd"])
def test_a_damaged_chunk_is_named_by_its_offset(tmp_path, compression):
    """Earlier chunks are returned; the message has the byte, the time, and the damage."""
    record_seconds(tmp_path / "run.mcap", compression=compression)
    data = bytearray((tmp_path / "run.mcap").read_bytes())
    with (tmp_path / "run.mcap").open("rb") as file:
        start = make_reader(file).get_summary().chunk_indexes[2].chunk_start_offset
    data[start + 5000] ^= 1
    recording = read_bytes(tmp_path / "bad.mcap", data)
    assert len(recording.streams["/drone0/state"].rows) == 100
    assert recording.problem.startswith(f"{tmp_path / 'bad.mcap'}: damaged at byte {start}, after 0.996 s: ")
    assert recording.problem.endswith("; the data after it are left out")
    if not compression:
        assert "the chunk there does not match its checksum" in recording.problem


def test_damage_outside_the_chunks_is_reported_and_costs_no_row(tmp_path):
    """Damaged metadata and attachments are left out; rows do not depend on the summary."""
    record_seconds(tmp_path / "run.mcap")
    data = (tmp_path / "run.mcap").read_bytes()
    path = tmp_path / "bad.mcap"
    for offset, problem in (
        (data.index(b"box"), "its metadata do not match their checksum and are left out"),
        (data.index(b"scenario"), "its metadata do not match their checksum and are left out"),
        (data.index(b"mass = 1"), "attachment 'vehicle.toml' does not match its checksum and is left out"),
        (len(data) - 100, "damaged in its summary, after 2.996 s: no data is missing"),
        (len(data) - 3, "truncated in its summary, after 2.996 s: no data is missing"),
    ):
        recording = read_bytes(path, data[:offset] + bytes([data[offset] ^ 4]) + data[offset + 1 :])
        assert recording.problem == f"{path}: {problem}"
        assert recording.metadata == ({} if "metadata" in problem else {"scenario": "box", "seed": "7"})
        assert list(recording.attachments) == ([] if "attachment" in problem else ["vehicle.toml"])
        assert [len(table.rows) for table in recording.streams.values()] == [300, 750]


@pytest.mark.parametrize("missing", [1, 2, 4])
def test_a_missing_chunk_is_noticed(tmp_path, missing):
    """Removed completely, so that every remaining record is valid: rows are numbered, and the summary has counted them."""
    record_seconds(tmp_path / "run.mcap", seconds=4)
    data = (tmp_path / "run.mcap").read_bytes()
    with (tmp_path / "run.mcap").open("rb") as file:
        chunk = make_reader(file).get_summary().chunk_indexes[missing]
    chunk_end = chunk.chunk_start_offset + chunk.chunk_length + chunk.message_index_length
    recording = read_bytes(tmp_path / "gap.mcap", data[: chunk.chunk_start_offset] + data[chunk_end:])
    assert len(recording.streams["/drone0/state"].rows) == 100 * (missing - 1)
    count_message = "its summary counts 1642 messages and the data holds 1232"
    assert (count_message if missing == 4 else "rows of /drone0/state are missing before it") in recording.problem


def write_foreign_file(path):
    """Write a valid MCAP file of another program."""
    with path.open("wb") as file:
        writer = Writer(file)
        writer.start()
        channel = writer.register_channel("/log", "json", writer.register_schema("odom", "jsonschema", b"{}"))
        writer.add_message(channel, 0, b"{}", 0)
        writer.finish()


def test_other_files_are_refused(tmp_path):
    """Another program's MCAP, not MCAP, an empty file, a folder, a missing file."""
    write_foreign_file(tmp_path / "foreign.mcap")
    (tmp_path / "text.mcap").write_text("time,x\n0,1\n")
    (tmp_path / "empty.mcap").touch()
    (tmp_path / "folder.mcap").mkdir()
    complaints = {
        "foreign": "is not a Samara recording: no record 'samara.recording' comes before its data",
        "text": "is not a Samara recording: it begins with b'time,x\\n0', as no MCAP file does",
        "empty": "is not a Samara recording: it is empty",
        "folder": "cannot be read: Is a directory",
        "absent": "cannot be read: No such file or directory",
    }
    for name, complaint in complaints.items():
        path = tmp_path / f"{name}.mcap"
        with pytest.raises(RecordingError) as error:
            read_recording(path)
        assert str(error.value) == f"{path}: {complaint}"


# Invalid data -----------------------------------------------------------------------------------------------------

ZERO, ROW = np.array([0]), np.zeros((1, 2))
INVALID_BLOCKS = {
    "unknown topic": ("/drone9/state", ZERO, ROW, "topic '/drone9/state': expected one of /drone0/command"),
    "time as float": ("/drone0/command", [0.0], ROW, "times are float64 of shape (1,); expected whole microseconds"),
    "time as table": ("/drone0/command", [[0]], ROW, "times are int64 of shape (1, 1); expected whole"),
    "too narrow": ("/drone0/command", ZERO, ROW[:, :1], "rows are float64 of shape (1, 1); expected float64 of shape (1, 2)"),
    "too many rows": ("/drone0/command", ZERO, np.zeros((2, 2)), "shape (2, 2); expected float64 of shape (1, 2)"),
    "single precision": ("/drone0/command", ZERO, ROW.astype("f4"), "rows are float32 of shape (1, 2); expected float64"),
    "before zero": ("/drone0/command", [-1], ROW, "times run from -1 to -1 µs after 0 µs; expected times that do not decrease"),
    "backwards": ("/drone0/command", [5, 3], np.zeros((2, 2)), "times run from 5 to 3 µs after 0 µs; expected times that"),
    "back a chunk": ("/drone0/state", ZERO, np.zeros((1, 8)), "times run from 0 to 0 µs after 990000 µs; expected times"),
    "never": ("/drone0/command", [2**62], ROW, "expected times that do not decrease, from 0 to 9007199254740992 µs"),
}  # fmt: skip


@pytest.mark.parametrize("case", INVALID_BLOCKS)
def test_a_wrong_block_is_refused_in_one_sentence(tmp_path, case):
    """And no part of the chunk is written, nor of the valid blocks beside it."""
    topic, times_us, rows, complaint = INVALID_BLOCKS[case]
    with Recorder(tmp_path / "run.mcap", [COMMAND, STATE]) as writer:
        writer.write({"/drone0/state": random_second(STATE, 0)})
        with pytest.raises(RecordingError) as error:
            writer.write({"/drone0/state": random_second(STATE, 1), topic: (times_us, rows)})
        assert complaint in str(error.value)
    recording = read_recording(tmp_path / "run.mcap")
    assert [len(table.rows) for table in recording.streams.values()] == [0, 100]
    assert recording.complete


INVALID_STREAMS = {
    "topic without slash": (STATE._replace(topic="state"), "topic 'state': expected parts of letters and digits"),
    "topic upwards": (STATE._replace(topic="/../state"), "topic '/../state': expected parts of letters and digits"),
    "topic of the log": (STATE._replace(topic="/log"), "topic '/log': expected another name"),
    "schema name": (
        STATE._replace(schema_name="my kind"),
        "/drone0/state: schema_name 'my kind': expected a dotted name",
    ),
    "units": (STATE._replace(units=("m",)), "/drone0/state: 1 units; expected 8, one for each field"),
    "field twice": (COMMAND._replace(fields=("u", "u")), "field 'u': expected every field to have a unique name"),
    "field without name": (COMMAND._replace(fields=("u", "")), "field '': expected every field to have a unique name"),
    "field of the time": (COMMAND._replace(fields=("u", "time")), "field 'time': expected another name"),
    "topic of the pose": (COMMAND._replace(topic="/drone0/pose"), "topic '/drone0/pose' occurs twice"),
}


@pytest.mark.parametrize("case", INVALID_STREAMS)
def test_a_wrong_stream_is_refused_in_one_sentence(tmp_path, case):
    """Before anything is written."""
    stream, complaint = INVALID_STREAMS[case]
    with pytest.raises(RecordingError) as error:
        Recorder(tmp_path / "run.mcap", [stream] if stream.topic != "/drone0/pose" else [STATE, stream])
    assert complaint in str(error.value)
    assert not (tmp_path / "run.mcap").exists()


def test_other_invalid_arguments_are_refused(tmp_path):
    """Metadata that is not text, an attachment that is not bytes, an unknown compression, a level, a time."""
    for options, complaint in (
        ({"metadata": {"seed": 7}}, "metadata 'seed' is 7; expected str under a name"),
        ({"attachments": {"a.toml": "text"}}, "attachment 'a.toml' is 'text'; expected bytes under a name"),
        ({"compression": "zip"}, "compression 'zip': expected one of '', 'lz4', 'zstd'"),
    ):
        with pytest.raises(RecordingError) as error:
            Recorder(tmp_path / "run.mcap", [STATE], **options)
        assert str(error.value) == complaint
    with Recorder(tmp_path / "run.mcap", [STATE]) as writer:
        with pytest.raises(RecordingError, match="log level 'loud': expected one of debug, info"):
            writer.write({}, [LogLine(0, "loud", "a", "b")])
        with pytest.raises(RecordingError, match="log time -1 µs: expected whole microseconds"):
            writer.write({}, [LogLine(-1, "info", "a", "b")])


# Exports ----------------------------------------------------------------------------------------------------------


def test_csv_gives_the_same_doubles_back(tmp_path):
    """Read by Python's csv and float: names with units, seconds and microseconds, every bit."""
    with Recorder(tmp_path / "run.mcap", [STATE, COMMAND]) as writer:
        doubles = np.array([*ODD, *(-np.array(ODD)), *np.random.default_rng(0).normal(size=14) * 1e-9])
        writer.write({"/drone0/state": (np.arange(4) * 12_345_679, doubles.reshape(4, 8))}, LOGS)
    paths = export_csv(read_recording(tmp_path / "run.mcap"), tmp_path / "tables")
    assert [path.name for path in paths] == ["drone0.state.csv", "drone0.command.csv", "log.csv"]
    assert sorted(path.name for path in (tmp_path / "tables").iterdir()) == sorted(path.name for path in paths)
    with paths[0].open(encoding="utf-8", newline="") as file:
        headings, *rows = csv.reader(file)
    assert headings[:3] == ["time [s]", "time_us", "p_W.x [m]"]
    assert headings[-1] == "rotor_speed[0] [rad/s]"
    assert [row[:2] for row in rows[:3]] == [["0.0", "0"], ["12.345679", "12345679"], ["24.691358", "24691358"]]
    assert same_bits(np.array([[float(word) for word in row[2:]] for row in rows]), doubles.reshape(4, 8))
    assert paths[1].read_text() == "time [s],time_us,u[0] [1],u[1] [1]\n"
    with paths[2].open(encoding="utf-8", newline="") as file:
        assert list(csv.reader(file))[2] == ["2.999999", "2999999", "error", "läuft", "…\n"]


def test_parquet_gives_the_same_doubles_and_units_back(tmp_path):
    """Read by pyarrow: the type and the unit of every column, and every bit."""
    parquet = pytest.importorskip("pyarrow.parquet")
    times_us, rows = record_seconds(tmp_path / "run.mcap")["/drone0/state"]
    paths = export_parquet(read_recording(tmp_path / "run.mcap"), tmp_path / "tables")
    assert [path.name for path in paths] == ["drone0.state.parquet", "drone0.command.parquet"]
    table = parquet.read_table(paths[0])
    assert table.column_names == ["time", "time_us", *STATE.fields]
    assert [table.field(name).metadata[b"unit"].decode() for name in table.column_names] == ["s", "us", *STATE.units]
    assert table["time_us"].to_pylist() == times_us.tolist()
    assert table["time"].to_numpy() == pytest.approx(times_us * 1e-6, rel=1e-15)
    assert same_bits(np.stack([table[name].to_numpy() for name in STATE.fields], axis=1), rows)
    assert table.schema.metadata[b"scenario"] == b"box"


def test_parquet_without_pyarrow_names_the_package(tmp_path, monkeypatch):
    record_seconds(tmp_path / "run.mcap")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=f"^Parquet needs pyarrow: {re.escape(install_hint('parquet'))}$"):
        export_parquet(read_recording(tmp_path / "run.mcap"), tmp_path)


def test_an_export_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    """Written to a temporary file and renamed: an error leaves no partial table."""
    record_seconds(tmp_path / "run.mcap")
    recording = read_recording(tmp_path / "run.mcap")
    data_before = export_csv(recording, tmp_path / "tables")[0].read_bytes()

    def failing_lines(table):
        yield "0.0,0\n"
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(export, "_csv_lines", failing_lines)
    with pytest.raises(OSError, match=r"No space left on device: .*drone0\.state\.csv"):
        export_csv(recording, tmp_path / "tables")
    assert (tmp_path / "tables" / "drone0.state.csv").read_bytes() == data_before
    assert len(list((tmp_path / "tables").iterdir())) == 3


def test_a_recording_is_described_in_a_few_lines(tmp_path):
    """Duration, completeness, metadata, rates, counts, size."""
    record_seconds(tmp_path / "run.mcap")
    lines = dict(describe(read_recording(tmp_path / "run.mcap")))
    size = (tmp_path / "run.mcap").stat().st_size
    assert lines == {
        "file": f"{tmp_path / 'run.mcap'}, {size / 1e6:.3g} MB",
        "duration": "3.000 s",
        "complete": "yes",
        "scenario": "box",
        "seed": "7",
        "/drone0/state": "samara.State, 8 fields, 300 rows, 100 Hz",
        "/drone0/command": "samara.Command, 2 fields, 750 rows, 250 Hz",
        "log": "2 lines",
        "attachment vehicle.toml": "9 bytes",
    }
    (tmp_path / "cut.mcap").write_bytes((tmp_path / "run.mcap").read_bytes()[: size // 2])
    cut = dict(describe(read_recording(tmp_path / "cut.mcap")))
    assert cut["complete"] == f"no: {tmp_path / 'cut.mcap'}: truncated after 0.996 s: the last chunk may be missing"


# Malicious files --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
@pytest.mark.parametrize(
    ("claimed", "complaint"),
    [(1000, "does not match its checksum"), (8_400_000_000, r"claims 8400000000 bytes in \d+ compressed")],
)
def test_a_chunk_is_decompressed_only_to_its_claimed_size(tmp_path, compression, claimed, complaint):
    """50 MB of zeros in a few kilobytes: no more memory is used than the chunk claims, and an absurd claim is not tried."""
    path = tmp_path / "bomb.mcap"
    with Recorder(path, [STATE]) as writer:
        opening = path.read_bytes()
        writer.write({STATE.topic: random_second(STATE, 0, 100)})
    bomb = COMPRESS[compression](bytes(50 << 20))
    builder = RecordBuilder()
    Chunk(compression, bomb, 0, 0, 0, claimed).write(builder)
    path.write_bytes(opening + builder.end())
    tracemalloc.start()
    try:
        recording = read_recording(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert not recording.complete and re.search(complaint, recording.problem)
    assert peak < (10 << 20) + len(bomb)
