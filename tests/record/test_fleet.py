"""One message for many drones: libraries decode it by its field names, and every double comes back bit for bit."""

import json
import struct
from dataclasses import replace

import numpy as np
import pytest
from mcap.reader import make_reader
from mcap.writer import CompressionType, Writer
from mcap_protobuf.decoder import DecoderFactory
from support.recorded_flights import streams as streams_of_run

import samara
from samara.record import fleet_messages as fleets
from samara.record.fleet_messages import MIN_FLEET_SIZE
from samara.record.recorder import Recorder
from samara.record.recording import read_recording
from samara.record.run import run_from_recording
from samara.record.streams import LogLine, Stream, StreamBlock
from samara.scenario import events
from samara.scenario.events import Event, at
from samara.view.foxglove_layout import layout

FIELDS = ("p_W.x", "p_W.y", "p_W.z", "q_WB.w", "q_WB.x", "q_WB.y", "q_WB.z", *(f"grip[{k}]" for k in range(9)), "speed")
WIDTH, SHARED = len(FIELDS), slice(7, 16)  # grip: the same in all drones
ODD = [0.0, -0.0, 5e-324, np.inf, -np.inf, 1 / 3, *struct.unpack("<2d", struct.pack("<2Q", (0x7FF8 << 48) + 7, 1))]


def fleet_streams(count, name="state", fields=FIELDS):
    units = ("m",) * len(fields)
    return [Stream(f"/cf{k}/{name}", fields, units, f"samara.{name.capitalize()}") for k in range(count)]


def random_second(count, second, fields=WIDTH, rate=50, shared=SHARED):
    """Return times and rows (m, fields, drones); in every row some fields are the same in all drones."""
    times_us = second * 1_000_000 + np.arange(1, rate + 1) * (1_000_000 // rate)
    rows = np.random.default_rng([second, count]).normal(size=(rate, fields, count))
    rows[:, shared] = rows[:, shared, :1]
    return times_us, rows


def fleet_block(streams, times_us, rows, drones=slice(None)):
    return StreamBlock(tuple(stream.topic for stream in streams[drones]), times_us, rows[:, :, drones])


def has_same_bits(a, b):
    return a.shape == b.shape and np.array_equal(a.view(np.int64), np.ascontiguousarray(b).view(np.int64))


def decode_messages(path, topic):
    with path.open("rb") as file:
        reader = make_reader(file, validate_crcs=True, decoder_factories=[DecoderFactory()])
        return [(message, decoded_message) for _, _, message, decoded_message in reader.iter_decoded_messages([topic])]


@pytest.fixture
def written(tmp_path):
    """Three seconds of a fleet's states and commands; return the path and the rows."""
    path, states = tmp_path / "run.mcap", fleet_streams(MIN_FLEET_SIZE)
    commands = fleet_streams(MIN_FLEET_SIZE, "command", ("motor[0]", "motor[1]"))
    with Recorder(path, [*states, *commands]) as recorder:
        for second in range(3):
            command_rows = random_second(MIN_FLEET_SIZE, second, 2, 100, slice(0, 0))
            recorder.write_blocks(
                [fleet_block(states, *random_second(MIN_FLEET_SIZE, second)), fleet_block(commands, *command_rows)]
            )
    return path, np.concatenate([random_second(MIN_FLEET_SIZE, second)[1] for second in range(3)])


def test_every_drone_has_its_rows(written):
    path, rows = written
    recording = read_recording(path)
    assert recording.complete and not recording.problem
    assert list(recording.streams)[:2] == ["/cf0/state", "/cf1/state"] and len(recording.streams) == 2 * MIN_FLEET_SIZE
    for k in range(MIN_FLEET_SIZE):
        assert has_same_bits(recording.streams[f"/cf{k}/state"].rows, rows[:, :, k])
        assert recording.streams[f"/cf{k}/command"].rows.shape == (300, 2)
    assert recording.streams["/cf3/state"].times_us.tolist() == list(range(20_000, 3_000_001, 20_000))


def test_the_library_decodes_the_fields_by_their_names(written):
    """A number for each drone, or a single one if all have the same; times and sequence numbers as for a single drone."""
    path, rows = written
    messages = decode_messages(path, "/fleet/state")
    assert [message.sequence for message, _ in messages] == list(range(150))
    for k, (message, decoded_message) in enumerate(messages):
        assert message.log_time == message.publish_time == 1000 * decoded_message.time_us == 20_000_000 * (k + 1)
        assert (
            list(decoded_message.p_W_z) == rows[k, 2].tolist() and list(decoded_message.speed) == rows[k, -1].tolist()
        )
        assert [list(getattr(decoded_message, f"grip_{i}")) for i in range(9)] == rows[k, SHARED, :1].tolist()
    assert type(messages[0][1]).__name__ == "StateOfFleet"
    assert len(decode_messages(path, "/fleet/command")) == 300 and not decode_messages(path, "/cf0/state")
    frames = [decoded_message.child_frame_id for _, decoded_message in decode_messages(path, "/tf")]
    assert frames.count("cf0") == 91 and len(frames) == 91 * MIN_FLEET_SIZE and not decode_messages(path, "/cf0/pose")


def test_the_summary_lists_the_channels_and_counts_the_messages(written):
    path, _ = written
    with path.open("rb") as file:
        summary = make_reader(file).get_summary()
    topics = {channel.topic: key for key, channel in summary.channels.items()}
    assert summary.statistics.channel_message_counts[topics["/fleet/state"]] == 150
    assert (
        summary.statistics.chunk_count == len(summary.chunk_indexes) == 5
    )  # the streams, the fleets, and three seconds
    assert (summary.statistics.message_start_time, summary.statistics.message_end_time) == (10_000_000, 3_000_000_000)
    assert summary.statistics.schema_count == len(summary.schemas)
    assert summary.statistics.channel_count == len(summary.channels) == len(topics)
    assert json.loads(summary.channels[topics["/fleet/state"]].metadata["topics"])[5] == "/cf5/state"


def test_seeking_by_the_index_finds_the_right_second(written):
    path, rows = written
    with path.open("rb") as file:
        reader = make_reader(file, decoder_factories=[DecoderFactory()])
        messages = list(
            reader.iter_decoded_messages(["/fleet/state"], start_time=1_500_000_000, end_time=1_700_000_000)
        )
    assert [list(decoded_message.p_W_x) for *_, decoded_message in messages] == rows[74:84, 0].tolist()


def test_every_double_comes_back_bit_for_bit(tmp_path):
    """Signed zeros, subnormals and NaN with their payloads; zeros with different signs are not the same in all drones."""
    streams, numbers = fleet_streams(MIN_FLEET_SIZE), np.resize(ODD, (20, len(FIELDS), MIN_FLEET_SIZE)).copy()
    numbers[:, 3], numbers[:, 4], numbers[7, 4, 5] = 0.0, 0.0, -0.0
    numbers[:, 5] = ODD[-2]
    with Recorder(tmp_path / "run.mcap", streams) as recorder:
        recorder.write_blocks([fleet_block(streams, np.arange(20), numbers)])
    for k, table in enumerate(read_recording(tmp_path / "run.mcap").streams.values()):
        assert has_same_bits(table.rows, numbers[:, :, k])
    lengths = [
        (len(decoded_message.q_WB_w), len(decoded_message.q_WB_x), len(decoded_message.q_WB_y))
        for _, decoded_message in decode_messages(tmp_path / "run.mcap", "/fleet/state")
    ]
    assert lengths == [(1, MIN_FLEET_SIZE, 1)] * 20


def test_rows_may_have_any_memory_layout(tmp_path):
    """Such as drone after drone, so that the numbers are not adjacent."""
    streams, (times_us, rows) = fleet_streams(MIN_FLEET_SIZE), random_second(MIN_FLEET_SIZE, 0)
    with Recorder(tmp_path / "run.mcap", streams) as recorder:
        recorder.write_blocks([fleet_block(streams, times_us, np.asfortranarray(rows))])
    for k, table in enumerate(read_recording(tmp_path / "run.mcap").streams.values()):
        assert has_same_bits(table.rows, rows[:, :, k])


def test_shared_fields_change_from_chunk_to_chunk(tmp_path):
    """Fields that begin and cease to differ: each chunk has its own message layout."""
    streams, shared_slices = fleet_streams(MIN_FLEET_SIZE), [slice(7, 16), slice(0, 0), slice(0, 17), slice(7, 16)]
    seconds = [random_second(MIN_FLEET_SIZE, second, shared=shared) for second, shared in enumerate(shared_slices)]
    with Recorder(tmp_path / "run.mcap", streams) as recorder:
        for times_us, rows in seconds:
            recorder.write_blocks([fleet_block(streams, times_us, rows)])
    recording = read_recording(tmp_path / "run.mcap")
    assert not recording.problem
    for k, table in enumerate(recording.streams.values()):
        assert has_same_bits(table.rows, np.concatenate([rows[:, :, k] for _, rows in seconds]))


def test_drones_leave_a_fleet_and_come_back(tmp_path):
    """Two fleets, then one and single drones, then the two again: each drone has its rows in order."""
    n = 2 * MIN_FLEET_SIZE
    streams = fleet_streams(n)
    halves, uneven_parts = (
        (slice(0, MIN_FLEET_SIZE), slice(MIN_FLEET_SIZE, n)),
        (slice(0, n - 2), slice(n - 2, n - 1), slice(n - 1, n)),
    )
    seconds = [random_second(n, second) for second in range(4)]
    with Recorder(tmp_path / "run.mcap", streams) as recorder:
        for (times_us, rows), parts in zip(seconds, (halves, uneven_parts, uneven_parts, halves), strict=True):
            recorder.write_blocks([fleet_block(streams, times_us, rows, drones) for drones in parts])
    recording = read_recording(tmp_path / "run.mcap")
    assert not recording.problem
    for k, table in enumerate(recording.streams.values()):
        assert has_same_bits(table.rows, np.concatenate([rows[:, :, k] for _, rows in seconds]))
    fleet_indexes = [recording.fleet_topics[f"/cf{k}/state"] for k in (0, MIN_FLEET_SIZE, n - 1)]
    assert fleet_indexes == [("/fleet/state", 0), ("/fleet2/state", 0), ("/fleet2/state", MIN_FLEET_SIZE - 1)]
    assert [len(decode_messages(tmp_path / "run.mcap", f"/fleet{k}/state")) for k in ("", 2, 3)] == [100] * 3


def test_few_or_different_drones_have_separate_messages(tmp_path):
    streams = [*fleet_streams(MIN_FLEET_SIZE), Stream("/cf0/other", FIELDS, ("m",) * len(FIELDS), "samara.State")]
    times_us, rows = random_second(MIN_FLEET_SIZE + 1, 0)
    with Recorder(tmp_path / "run.mcap", streams) as recorder:
        recorder.write_blocks(
            [fleet_block(streams, times_us, rows[:, :, : MIN_FLEET_SIZE + 1], slice(1, MIN_FLEET_SIZE + 1))][:0]
        )
        recorder.write_blocks(
            [
                fleet_block(streams, times_us, rows, slice(2, MIN_FLEET_SIZE + 1)),
                fleet_block(streams, times_us, rows, slice(0, 2)),
            ]
        )
    recording = read_recording(tmp_path / "run.mcap")
    assert not recording.fleet_topics
    assert all(has_same_bits(table.rows, rows[:, :, k]) for k, table in enumerate(recording.streams.values()))


def test_a_drone_may_be_called_fleet(tmp_path):
    streams = [*fleet_streams(MIN_FLEET_SIZE), Stream("/fleet/state", FIELDS, ("m",) * len(FIELDS), "samara.State")]
    times_us, rows = random_second(MIN_FLEET_SIZE, 0)
    with Recorder(tmp_path / "run.mcap", streams) as recorder:
        recorder.write_blocks(
            [
                fleet_block(streams, times_us, rows, slice(MIN_FLEET_SIZE)),
                StreamBlock(("/fleet/state",), times_us, rows[:, :, :1]),
            ]
        )
    assert decode_messages(tmp_path / "run.mcap", "/fleet2/state")
    assert len(decode_messages(tmp_path / "run.mcap", "/fleet/state")) == 50


def test_ctrl_c_before_its_channel_is_in_the_file_costs_one_chunk(tmp_path, monkeypatch):
    """The next chunk declares the fleets again."""
    streams = fleet_streams(MIN_FLEET_SIZE)
    with Recorder(tmp_path / "run.mcap", streams) as recorder:
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(recorder, "_append", lambda data: (_ for _ in ()).throw(KeyboardInterrupt))
            recorder.write_blocks([fleet_block(streams, *random_second(MIN_FLEET_SIZE, 0))])
        for second in (1, 2):
            recorder.write_blocks(
                [fleet_block(streams, *random_second(MIN_FLEET_SIZE, second))],
                [LogLine(3_000_000, "info", "me", "now")],
            )
    recording = read_recording(tmp_path / "run.mcap")
    assert not recording.problem and len(recording.streams["/cf9/state"].rows) == 100


def test_a_file_cut_anywhere_gives_what_came_before(written):
    path, rows = written
    data = path.read_bytes()
    for cut in range(len(data) // 2, len(data), len(data) // 23):
        path.write_bytes(data[:cut])
        recording = read_recording(path)
        rows_read = recording.streams["/cf1/state"].rows
        assert recording.problem and len(rows_read) % 50 == 0 and has_same_bits(rows_read, rows[: len(rows_read), :, 1])


def test_a_file_another_program_has_sorted_is_still_a_recording(tmp_path):
    """All messages in one chunk: messages of one length may have two layouts, side by side."""
    streams, path = fleet_streams(MIN_FLEET_SIZE), tmp_path / "run.mcap"
    seconds = [random_second(MIN_FLEET_SIZE, second, shared=slice(second, second + 3)) for second in range(3)]
    with Recorder(path, streams) as recorder:
        for times_us, rows in seconds:
            recorder.write_blocks([fleet_block(streams, times_us, rows)])
    with path.open("rb") as file, (tmp_path / "sorted.mcap").open("wb") as out:
        reader, writer = make_reader(file), Writer(out, chunk_size=1 << 30, compression=CompressionType.NONE)
        writer.start()
        for record in reader.iter_metadata():
            writer.add_metadata(record.name, record.metadata)
        summary = reader.get_summary()
        schemas = {
            key: writer.register_schema(schema.name, schema.encoding, schema.data)
            for key, schema in summary.schemas.items()
        }
        channel_ids = {
            key: writer.register_channel(
                old_channel.topic, old_channel.message_encoding, schemas[old_channel.schema_id], old_channel.metadata
            )
            for key, old_channel in summary.channels.items()
        }
        for _, channel, message in reader.iter_messages():
            writer.add_message(
                channel_ids[channel.id], message.log_time, message.data, message.publish_time, message.sequence
            )
        writer.finish()
    recording = read_recording(tmp_path / "sorted.mcap")
    assert not recording.problem
    for k in range(MIN_FLEET_SIZE):
        assert has_same_bits(
            recording.streams[f"/cf{k}/state"].rows, np.concatenate([rows[:, :, k] for _, rows in seconds])
        )


INVALID_MESSAGES = {
    "time": (31, 0x11, "its time is missing"),
    "tag": (40, 0x1A, "byte 40 does not begin field 0"),
    "length": (41, 0x7F, "byte 40 does not begin field 0"),
}


@pytest.mark.parametrize("case", INVALID_MESSAGES)
def test_a_message_that_is_not_of_a_fleet_is_reported(case):
    """A chunk's checksum matches also if another program wrote the chunk."""
    offset, byte, message = INVALID_MESSAGES[case]
    record = bytearray(31) + b"\x09" + bytes(8)
    for field in range(2):
        record += bytes([(field + 2) << 3 | 2, 16]) + struct.pack("<2d", 1.0 + field, 3.0)
    block = np.frombuffer(bytes(record), np.uint8)[None]
    assert fleets.unpack_fleet(block, 2, 2)[2].tolist() == [[[1.0, 3.0], [2.0, 3.0]]]
    record[offset] = byte
    with pytest.raises(ValueError, match=message):
        fleets.unpack_fleet(np.frombuffer(bytes(record), np.uint8)[None], 2, 2)
    with pytest.raises(ValueError, match="it has 2 fields, not 3"):
        fleets.unpack_fleet(block, 3, 2)


def test_missing_rows_are_noticed(tmp_path):
    streams = fleet_streams(MIN_FLEET_SIZE)
    with Recorder(tmp_path / "run.mcap", streams) as recorder:
        recorder.write_blocks([fleet_block(streams, *random_second(MIN_FLEET_SIZE, 0))])
        recorder._progress.message_counts[-1] += 1
        recorder.write_blocks([fleet_block(streams, *random_second(MIN_FLEET_SIZE, 1))])
    recording = read_recording(tmp_path / "run.mcap")
    assert "rows of /fleet/state are missing before it" in recording.problem
    assert len(recording.streams["/cf0/state"].rows) == 50


# A flight ---------------------------------------------------------------------------------------------------------


def test_a_flight_of_many_is_recorded_as_it_was_flown(tmp_path):
    """Every stream bit for bit, with a drone that leaves the fleet in flight; some are replayed to the same states."""
    size = {"drones.count": MIN_FLEET_SIZE + 2, "drones.columns": 6, "duration": 0.6}  # long enough for all to take off
    event = Event(at(0.17), events.add_payload(0.003, (0.0, 0.0, -0.01), drone="cf3"))
    scenario = replace(samara.load_scenario("swarm", size), events=(event,))
    expected, recorded = streams_of_run(samara.fly(scenario)), samara.fly(scenario, out=tmp_path / "run.mcap")
    actual = streams_of_run(recorded)
    assert actual.keys() == expected.keys()
    for name, table in expected.items():
        assert np.array_equal(actual[name].times_us, table.times_us) and has_same_bits(actual[name].rows, table.rows), (
            name
        )
    recording = read_recording(tmp_path / "run.mcap")
    assert {topic for topic, _ in recording.fleet_topics.values()} >= {
        "/fleet/state",
        "/fleet/command",
        "/fleet/derived",
    }
    part_of_run = replace(recorded, drone_records=recorded.drone_records[2:5])
    for before, after in zip(part_of_run.drone_records, samara.replay(part_of_run).drone_records, strict=True):
        assert has_same_bits(before.tables["state"].rows, after.tables["state"].rows)


def test_the_layout_for_foxglove_finds_the_curves_of_a_fleet(tmp_path):
    """Every path in it is in a message of the file."""
    size = {"drones.count": MIN_FLEET_SIZE, "drones.columns": 6, "duration": 0.1}
    samara.fly(samara.load_scenario("swarm", size), out=tmp_path / "run.mcap")
    recording = read_recording(tmp_path / "run.mcap")
    panels = layout(run_from_recording(recording), recording.fleet_topics)["configById"]
    paths = [curve["value"] for name, panel in panels.items() if name.startswith("Plot!") for curve in panel["paths"]]
    assert "/fleet/state.p_W_x[3]" in paths and list(panels["3D!samara"]["topics"]) == ["/scene"]
    for path in paths:
        topic, _, field = path.partition(".")
        name, _, index = field.rstrip("]").partition("[")
        assert (
            len(getattr(decode_messages(tmp_path / "run.mcap", topic)[-1][1], name)) in (1, MIN_FLEET_SIZE)
            and int(index) < 4
        )
