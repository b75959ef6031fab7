"""One message for many drones: the library decodes it by the names of its fields, and every double comes back bit for bit."""

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
from samara.record.fleet_messages import MANY
from samara.record.recorder import Recorder
from samara.record.recording import read_recording
from samara.record.run import run_from
from samara.record.streams import Block, LogLine, Stream
from samara.scenario import events
from samara.scenario.events import Event, at
from samara.view.foxglove_layout import layout

FIELDS = ("p_W.x", "p_W.y", "p_W.z", "q_WB.w", "q_WB.x", "q_WB.y", "q_WB.z", *(f"grip[{k}]" for k in range(9)), "speed")
WIDTH, SHARED = len(FIELDS), slice(7, 16)  # grip: the same in all drones
ODD = [0.0, -0.0, 5e-324, np.inf, -np.inf, 1 / 3, *struct.unpack("<2d", struct.pack("<2Q", (0x7FF8 << 48) + 7, 1))]


def streams_of(count, name="state", fields=FIELDS):
    units = ("m",) * len(fields)
    return [Stream(f"/cf{k}/{name}", fields, units, f"samara.{name.capitalize()}") for k in range(count)]


def second_of(count, second, fields=WIDTH, rate=50, shared=SHARED):
    """Times and rows (m, fields, drones); in every row some fields are the same in all drones."""
    times_us = second * 1_000_000 + np.arange(1, rate + 1) * (1_000_000 // rate)
    rows = np.random.default_rng([second, count]).normal(size=(rate, fields, count))
    rows[:, shared] = rows[:, shared, :1]
    return times_us, rows


def block_of(streams, times_us, rows, lanes=slice(None)):
    return Block(tuple(own.topic for own in streams[lanes]), times_us, rows[:, :, lanes])


def same_bits(a, b):
    return a.shape == b.shape and np.array_equal(a.view(np.int64), np.ascontiguousarray(b).view(np.int64))


def decoded(path, topic):
    with path.open("rb") as file:
        reader = make_reader(file, validate_crcs=True, decoder_factories=[DecoderFactory()])
        return [(message, own) for _, _, message, own in reader.iter_decoded_messages([topic])]


@pytest.fixture
def written(tmp_path):
    """Three seconds of a fleet's states and commands; what was written."""
    path, states = tmp_path / "run.mcap", streams_of(MANY)
    commands = streams_of(MANY, "command", ("motor[0]", "motor[1]"))
    with Recorder(path, [*states, *commands]) as own:
        for second in range(3):
            told = second_of(MANY, second, 2, 100, slice(0, 0))
            own.write_blocks([block_of(states, *second_of(MANY, second)), block_of(commands, *told)])
    return path, np.concatenate([second_of(MANY, second)[1] for second in range(3)])


def test_every_drone_has_its_rows(written):
    path, rows = written
    recording = read_recording(path)
    assert recording.complete and not recording.problem
    assert list(recording.streams)[:2] == ["/cf0/state", "/cf1/state"] and len(recording.streams) == 2 * MANY
    for k in range(MANY):
        assert same_bits(recording.streams[f"/cf{k}/state"].rows, rows[:, :, k])
        assert recording.streams[f"/cf{k}/command"].rows.shape == (300, 2)
    assert recording.streams["/cf3/state"].times_us.tolist() == list(range(20_000, 3_000_001, 20_000))


def test_the_library_decodes_the_fields_by_their_names(written):
    """A number for each drone, or a single one where all have the same; times and counters as for a drone alone."""
    path, rows = written
    messages = decoded(path, "/fleet/state")
    assert [message.sequence for message, _ in messages] == list(range(150))
    for k, (message, own) in enumerate(messages):
        assert message.log_time == message.publish_time == 1000 * own.time_us == 20_000_000 * (k + 1)
        assert list(own.p_W_z) == rows[k, 2].tolist() and list(own.speed) == rows[k, -1].tolist()
        assert [list(getattr(own, f"grip_{i}")) for i in range(9)] == rows[k, SHARED, :1].tolist()
    assert type(messages[0][1]).__name__ == "StateOfFleet"
    assert len(decoded(path, "/fleet/command")) == 300 and not decoded(path, "/cf0/state")
    frames = [own.child_frame_id for _, own in decoded(path, "/tf")]
    assert frames.count("cf0") == 91 and len(frames) == 91 * MANY and not decoded(path, "/cf0/pose")


def test_the_summary_knows_the_channels_and_counts_what_is_there(written):
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
        found = list(reader.iter_decoded_messages(["/fleet/state"], start_time=1_500_000_000, end_time=1_700_000_000))
    assert [list(own.p_W_x) for *_, own in found] == rows[74:84, 0].tolist()


def test_every_double_comes_back_bit_for_bit(tmp_path):
    """Signed zeros, subnormals and NaN with their payloads; zeros that differ in their sign are not the same in all."""
    streams, numbers = streams_of(MANY), np.resize(ODD, (20, len(FIELDS), MANY)).copy()
    numbers[:, 3], numbers[:, 4], numbers[7, 4, 5] = 0.0, 0.0, -0.0
    numbers[:, 5] = ODD[-2]
    with Recorder(tmp_path / "run.mcap", streams) as own:
        own.write_blocks([block_of(streams, np.arange(20), numbers)])
    for k, table in enumerate(read_recording(tmp_path / "run.mcap").streams.values()):
        assert same_bits(table.rows, numbers[:, :, k])
    lengths = [
        (len(own.q_WB_w), len(own.q_WB_x), len(own.q_WB_y)) for _, own in decoded(tmp_path / "run.mcap", "/fleet/state")
    ]
    assert lengths == [(1, MANY, 1)] * 20


def test_rows_may_lie_in_memory_as_they_like(tmp_path):
    """Drone after drone, say: their numbers are not side by side."""
    streams, (times_us, rows) = streams_of(MANY), second_of(MANY, 0)
    with Recorder(tmp_path / "run.mcap", streams) as own:
        own.write_blocks([block_of(streams, times_us, np.asfortranarray(rows))])
    for k, table in enumerate(read_recording(tmp_path / "run.mcap").streams.values()):
        assert same_bits(table.rows, rows[:, :, k])


def test_what_all_drones_share_changes_from_chunk_to_chunk(tmp_path):
    """Grips that begin to differ, and no longer do: the messages of each chunk are laid out as they need."""
    streams, shares = streams_of(MANY), [slice(7, 16), slice(0, 0), slice(0, 17), slice(7, 16)]
    seconds = [second_of(MANY, second, shared=shared) for second, shared in enumerate(shares)]
    with Recorder(tmp_path / "run.mcap", streams) as own:
        for times_us, rows in seconds:
            own.write_blocks([block_of(streams, times_us, rows)])
    recording = read_recording(tmp_path / "run.mcap")
    assert not recording.problem
    for k, table in enumerate(recording.streams.values()):
        assert same_bits(table.rows, np.concatenate([rows[:, :, k] for _, rows in seconds]))


def test_drones_leave_a_fleet_and_come_back(tmp_path):
    """Two fleets, then one and drones alone, then the two again: each drone has its rows in their order."""
    n = 2 * MANY
    streams = streams_of(n)
    halves, rest = (slice(0, MANY), slice(MANY, n)), (slice(0, n - 2), slice(n - 2, n - 1), slice(n - 1, n))
    seconds = [second_of(n, second) for second in range(4)]
    with Recorder(tmp_path / "run.mcap", streams) as own:
        for (times_us, rows), parts in zip(seconds, (halves, rest, rest, halves), strict=True):
            own.write_blocks([block_of(streams, times_us, rows, lanes) for lanes in parts])
    recording = read_recording(tmp_path / "run.mcap")
    assert not recording.problem
    for k, table in enumerate(recording.streams.values()):
        assert same_bits(table.rows, np.concatenate([rows[:, :, k] for _, rows in seconds]))
    places = [recording.in_fleet[f"/cf{k}/state"] for k in (0, MANY, n - 1)]
    assert places == [("/fleet/state", 0), ("/fleet2/state", 0), ("/fleet2/state", MANY - 1)]
    assert [len(decoded(tmp_path / "run.mcap", f"/fleet{k}/state")) for k in ("", 2, 3)] == [100] * 3


def test_few_drones_or_unlike_ones_have_messages_of_their_own(tmp_path):
    streams = [*streams_of(MANY), Stream("/cf0/other", FIELDS, ("m",) * len(FIELDS), "samara.State")]
    times_us, rows = second_of(MANY + 1, 0)
    with Recorder(tmp_path / "run.mcap", streams) as own:
        own.write_blocks([block_of(streams, times_us, rows[:, :, : MANY + 1], slice(1, MANY + 1))][:0])
        own.write_blocks(
            [block_of(streams, times_us, rows, slice(2, MANY + 1)), block_of(streams, times_us, rows, slice(0, 2))]
        )
    recording = read_recording(tmp_path / "run.mcap")
    assert not recording.in_fleet
    assert all(same_bits(table.rows, rows[:, :, k]) for k, table in enumerate(recording.streams.values()))


def test_a_drone_may_be_called_fleet(tmp_path):
    streams = [*streams_of(MANY), Stream("/fleet/state", FIELDS, ("m",) * len(FIELDS), "samara.State")]
    times_us, rows = second_of(MANY, 0)
    with Recorder(tmp_path / "run.mcap", streams) as own:
        own.write_blocks(
            [block_of(streams, times_us, rows, slice(MANY)), Block(("/fleet/state",), times_us, rows[:, :, :1])]
        )
    assert decoded(tmp_path / "run.mcap", "/fleet2/state")
    assert len(decoded(tmp_path / "run.mcap", "/fleet/state")) == 50


def test_ctrl_c_before_its_channel_is_in_the_file_costs_one_chunk(tmp_path, monkeypatch):
    """The chunk after it says again what the fleets are."""
    streams = streams_of(MANY)
    with Recorder(tmp_path / "run.mcap", streams) as own:
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(own, "_append", lambda data: (_ for _ in ()).throw(KeyboardInterrupt))
            own.write_blocks([block_of(streams, *second_of(MANY, 0))])
        for second in (1, 2):
            own.write_blocks([block_of(streams, *second_of(MANY, second))], [LogLine(3_000_000, "info", "me", "now")])
    recording = read_recording(tmp_path / "run.mcap")
    assert not recording.problem and len(recording.streams["/cf9/state"].rows) == 100


def test_a_file_cut_anywhere_gives_what_came_before(written):
    path, rows = written
    whole = path.read_bytes()
    for cut in range(len(whole) // 2, len(whole), len(whole) // 23):
        path.write_bytes(whole[:cut])
        recording = read_recording(path)
        found = recording.streams["/cf1/state"].rows
        assert recording.problem and len(found) % 50 == 0 and same_bits(found, rows[: len(found), :, 1])


def test_a_file_another_program_has_sorted_is_still_a_recording(tmp_path):
    """All messages in one chunk: those of one length may be laid out in two ways, side by side."""
    streams, path = streams_of(MANY), tmp_path / "run.mcap"
    seconds = [second_of(MANY, second, shared=slice(second, second + 3)) for second in range(3)]
    with Recorder(path, streams) as own:
        for times_us, rows in seconds:
            own.write_blocks([block_of(streams, times_us, rows)])
    with path.open("rb") as file, (tmp_path / "sorted.mcap").open("wb") as out:
        reader, writer = make_reader(file), Writer(out, chunk_size=1 << 30, compression=CompressionType.NONE)
        writer.start()
        for record in reader.iter_metadata():
            writer.add_metadata(record.name, record.metadata)
        summary = reader.get_summary()
        schemas = {
            key: writer.register_schema(own.name, own.encoding, own.data) for key, own in summary.schemas.items()
        }
        numbers = {
            key: writer.register_channel(own.topic, own.message_encoding, schemas[own.schema_id], own.metadata)
            for key, own in summary.channels.items()
        }
        for _, channel, own in reader.iter_messages():
            writer.add_message(numbers[channel.id], own.log_time, own.data, own.publish_time, own.sequence)
        writer.finish()
    recording = read_recording(tmp_path / "sorted.mcap")
    assert not recording.problem
    for k in range(MANY):
        assert same_bits(
            recording.streams[f"/cf{k}/state"].rows, np.concatenate([rows[:, :, k] for _, rows in seconds])
        )


WRONG = {
    "time": (31, 0x11, "its time is missing"),
    "tag": (40, 0x1A, "byte 40 does not begin field 0"),
    "length": (41, 0x7F, "byte 40 does not begin field 0"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_message_that_is_none_of_a_fleets_says_so(case):
    """As the checksum of a chunk fits what its writer wrote, and that may have been another program."""
    place, byte, words = WRONG[case]
    record = bytearray(31) + b"\x09" + bytes(8)
    for number in range(2):
        record += bytes([(number + 2) << 3 | 2, 16]) + struct.pack("<2d", 1.0 + number, 3.0)
    block = np.frombuffer(bytes(record), np.uint8)[None]
    assert fleets.unpack_fleet(block, 2, 2)[2].tolist() == [[[1.0, 3.0], [2.0, 3.0]]]
    record[place] = byte
    with pytest.raises(ValueError, match=words):
        fleets.unpack_fleet(np.frombuffer(bytes(record), np.uint8)[None], 2, 2)
    with pytest.raises(ValueError, match="it has 2 fields, not 3"):
        fleets.unpack_fleet(block, 3, 2)


def test_rows_that_are_missing_are_noticed(tmp_path):
    streams = streams_of(MANY)
    with Recorder(tmp_path / "run.mcap", streams) as own:
        own.write_blocks([block_of(streams, *second_of(MANY, 0))])
        own._written.sent[-1] += 1
        own.write_blocks([block_of(streams, *second_of(MANY, 1))])
    recording = read_recording(tmp_path / "run.mcap")
    assert "rows of /fleet/state are missing before it" in recording.problem
    assert len(recording.streams["/cf0/state"].rows) == 50


# A flight ---------------------------------------------------------------------------------------------------------


def test_a_flight_of_many_is_recorded_as_it_was_flown(tmp_path):
    """Every stream bit for bit, with a drone that leaves the fleet on the way; some are replayed to the same states."""
    size = {"drones.count": MANY + 2, "drones.columns": 6, "duration": 0.6}  # long enough for all to take off
    trouble = Event(at(0.17), events.add_payload(0.003, (0.0, 0.0, -0.01), drone="cf3"))
    own = replace(samara.load_scenario("swarm", size), events=(trouble,))
    kept, recorded = streams_of_run(samara.fly(own)), samara.fly(own, out=tmp_path / "run.mcap")
    found = streams_of_run(recorded)
    assert found.keys() == kept.keys()
    for name, table in kept.items():
        assert np.array_equal(found[name].times_us, table.times_us) and same_bits(found[name].rows, table.rows), name
    recording = read_recording(tmp_path / "run.mcap")
    assert {topic for topic, _ in recording.in_fleet.values()} >= {"/fleet/state", "/fleet/command", "/fleet/outputs"}
    some = replace(recorded, tracks=recorded.tracks[2:5])
    for before, after in zip(some.tracks, samara.replay(some).tracks, strict=True):
        assert same_bits(before.tables["state"].rows, after.tables["state"].rows)


def test_the_layout_for_foxglove_finds_the_curves_of_a_fleet(tmp_path):
    """Every path it plots is in a message of the file."""
    size = {"drones.count": MANY, "drones.columns": 6, "duration": 0.1}
    samara.fly(samara.load_scenario("swarm", size), out=tmp_path / "run.mcap")
    recording = read_recording(tmp_path / "run.mcap")
    panels = layout(run_from(recording), recording.in_fleet)["configById"]
    paths = [curve["value"] for name, panel in panels.items() if name.startswith("Plot!") for curve in panel["paths"]]
    assert "/fleet/state.p_W_x[3]" in paths and list(panels["3D!samara"]["topics"]) == ["/scene"]
    for path in paths:
        topic, _, field = path.partition(".")
        name, _, lane = field.rstrip("]").partition("[")
        assert len(getattr(decoded(tmp_path / "run.mcap", topic)[-1][1], name)) in (1, MANY) and int(lane) < 4
