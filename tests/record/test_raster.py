"""Pictures in recordings: small, for Foxglove as they are, and bit for bit what was measured."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from foxglove_schemas_protobuf.RawImage_pb2 import RawImage
from mcap.reader import make_reader

import samara
from samara.record.flight_streams import LARGEST_NORMAL, raster_of
from samara.record.image_stream import MOST_STEPS, NOT_A_NUMBER, Raster, raster_metadata
from samara.record.recorder import Recorder, Stream
from samara.record.recording import read_recording
from samara.record.run import scenario_inside
from samara.record.streams import Block, RecordingError
from samara.sensors.registry import part

BEFORE = Path(__file__).parents[1] / "recordings" / "eyes.mcap"
NARROW, WIDE = Raster("depth", 3, 5, 0.001), Raster("distance", 2, 7, 0.002, wide=True)


def stream(topic, raster):
    units = ("m",) * len(raster.fields)
    return Stream(topic, raster.fields, units, f"samara.sensor.{topic.rpartition('/')[2]}", raster)


def measured(raster, count, drones=1):
    """Whole steps, from none to the most there may be, and what is not a number"""
    most = MOST_STEPS if raster.wide else NOT_A_NUMBER - 1
    shape = count, len(raster.fields), drones
    steps = np.random.default_rng(7).integers(0, int(most), shape, endpoint=True)
    rows = raster.step * steps.astype(float)
    rows[0, :3] = [[0.0], [raster.step * most], [np.nan]]
    return rows


@pytest.mark.parametrize("compression", [None, "", "lz4", "zstd"])
def test_pictures_of_several_drones_come_back_bit_for_bit(tmp_path, compression):
    """Two blocks a chunk and two chunks; one drone comes alone and two together, beside a stream of numbers."""
    streams = [stream(f"/{drone}/{own.name}", own) for drone in ("a", "b", "c") for own in (NARROW, WIDE)]
    streams.append(Stream("/a/state", ("x",), ("m",), "samara.State"))
    rows = {own: measured(own, 9, 3) for own in (NARROW, WIDE)}
    times_us = 40_000 * np.arange(9) + 3
    with Recorder(tmp_path / "run.mcap", streams, compression=compression) as own:
        for now in (slice(0, 4), slice(4, 9)):
            blocks = [Block(("/a/state",), times_us[now], times_us[now, None, None] / 7.0)]
            for raster, seen in rows.items():
                blocks.append(Block((f"/a/{raster.name}",), times_us[now], seen[now, :, :1]))
                blocks.append(Block(tuple(f"/{d}/{raster.name}" for d in "bc"), times_us[now], seen[now, :, 1:]))
            own.write_blocks(blocks)
    found = read_recording(tmp_path / "run.mcap")
    assert found.complete and not found.problem
    for lane, drone in enumerate("abc"):
        for raster, seen in rows.items():
            table = found.streams[f"/{drone}/{raster.name}"]
            assert (table.raster, table.fields, table.kind) == (raster, raster.fields, f"samara.sensor.{raster.name}")
            np.testing.assert_array_equal(table.rows, seen[:, :, lane])
            np.testing.assert_array_equal(table.times_us, times_us)
    assert found.streams["/a/state"]["x"].tobytes() == (times_us / 7.0).tobytes()


def test_other_programs_read_the_picture(tmp_path):
    """The library that reads MCAP and Foxglove's own message: size, encoding, time, and the pixels."""
    rows = {own: measured(own, 2)[1:] for own in (NARROW, WIDE)}
    with Recorder(tmp_path / "run.mcap", [stream(f"/a/{own.name}", own) for own in rows]) as own:
        own.write({f"/a/{raster.name}": (np.array([1_234_567]), seen[:, :, 0]) for raster, seen in rows.items()})
    with (tmp_path / "run.mcap").open("rb") as file:
        told = {channel.topic: (schema.name, message) for schema, channel, message in make_reader(file).iter_messages()}
    for raster, kind, scale in ((NARROW, "<u2", 0.001), (WIDE, "<f4", 1.0)):
        name, message = told[f"/a/{raster.name}"]
        image = RawImage.FromString(message.data)
        assert name == "foxglove.RawImage" and message.log_time == message.publish_time == 1_234_567_000
        assert (image.timestamp.seconds, image.timestamp.nanos) == (1, 234_567_000)
        assert (image.width, image.height, image.encoding) == (raster.columns, raster.rows, raster.encoding)
        assert image.step == raster.columns * np.dtype(kind).itemsize and image.frame_id == f"a/{raster.name}"
        assert np.frombuffer(image.data, kind) * scale == pytest.approx(rows[raster][0, :, 0], rel=1e-7)


def test_a_recording_from_before_pictures_is_read_and_flown_as_it_was(tmp_path):
    """`eyes.mcap` was written with a number for each pixel: what is flown again has the same numbers, in pictures."""
    before = samara.load_run(BEFORE)
    again = samara.fly(scenario_inside(before), out=tmp_path / "run.mcap")
    assert before.tables["camera"].raster is None and again.tables["camera"].raster == Raster("depth", 4, 5, 0.001)
    assert again.tables["lidar"].raster == Raster("distance", 4, 2, 0.001, wide=True)
    for name in ("camera", "lidar"):
        assert again.tables[name].fields == before.tables[name].fields
        np.testing.assert_allclose(again.tables[name].rows, before.tables[name].rows, atol=1.1e-3)  # on any processor
    replayed = samara.replay(before)
    for name in ("camera", "lidar"):
        assert replayed.tables[name].rows.tobytes() == before.tables[name].rows.tobytes()
    saved = samara.load_run(before.save(tmp_path / "before.mcap"))
    assert saved.tables["camera"].rows.tobytes() == before.tables["camera"].rows.tobytes()


def test_a_pixel_takes_two_bytes_before_compression(tmp_path):
    """A hundred pictures of 64 × 48 in 2 bytes a pixel and 150 for each message; a number of a stream takes eleven."""
    raster = Raster("depth", 48, 64, 0.001)
    rows, times_us = measured(raster, 100)[:, :, 0], 40_000 * np.arange(100)
    with Recorder(tmp_path / "run.mcap", [stream("/a/camera", raster)], compression="") as own:
        own.write({"/a/camera": (times_us, rows)})
    assert (tmp_path / "run.mcap").stat().st_size < 100 * (2 * 64 * 48 + 150) + 20_000


def test_what_is_no_whole_step_is_refused_and_a_run_that_was_changed_is_saved_as_numbers(tmp_path):
    rows = measured(NARROW, 2)[:, :, 0]
    rows[1, 4] += 1e-4
    with Recorder(tmp_path / "run.mcap", [stream("/a/depth", NARROW)]) as own:
        with pytest.raises(RecordingError, match=r"/a/depth: an image is not of whole multiples of 0\.001; expected"):
            own.write({"/a/depth": (np.arange(2), rows)})
        for off in (-0.001, 65.535, np.inf):
            with pytest.raises(RecordingError, match="whole multiples"):
                own.write({"/a/depth": (np.arange(1), np.full((1, 15), off))})
    run = samara.load_run(BEFORE)
    table = run.tables["camera"]
    changed = replace(table, rows=table.rows / 3.0, raster=Raster("depth", 4, 5, 0.001))
    (track,) = run.tracks
    saved = replace(run, tracks=(replace(track, tables={**track.tables, "camera": changed}),)).save(tmp_path / "b.mcap")
    again = samara.load_run(saved).tables["camera"]
    assert again.raster is None and again.rows.tobytes() == changed.rows.tobytes()


def test_a_sensor_with_many_or_fine_steps_has_more_bytes():
    """16 bits where the largest reading with its noise fits, single precision where it does not."""
    camera = part("d435", width=4, height=3).sensor()
    assert raster_of(camera) == Raster("depth", 3, 4, 0.001)
    assert raster_of(part("d435", width=4, height=3, farthest=65.53, noise_growth=0.0).sensor()).wide
    assert raster_of(part("vlp-16", columns=8).sensor()) == Raster("distance", 16, 8, 0.001, wide=True)
    coarse = part("vlp-16", columns=8, resolution=0.002)
    assert raster_of(coarse.sensor()) == Raster("distance", 16, 8, 0.002)
    assert raster_of(part("bmp388").sensor()) is None
    most = coarse.numbers.farthest + coarse.numbers.noise * LARGEST_NORMAL
    assert raster_of(coarse.sensor()).holds(np.array([0.002 * round(most / 0.002)]))


@pytest.mark.parametrize(
    "raster",
    [
        [],
        ["depth", 3, 5],
        ["depth", 0, 5, 0.1, False],
        ["depth", 10**9, 10**9, 0.1, False],
        ["d", 3, 5, -1.0, False],
        ["d", 3, 5, math.nan, False],
        ["d", 3, 5, math.inf, False],
    ],
)
def test_metadata_that_make_no_picture_are_damage(tmp_path, monkeypatch, raster):
    own = stream("/a/depth", NARROW)
    told = raster_metadata(NARROW, own.kind, own.units) | {"raster": json.dumps(raster)}
    monkeypatch.setattr("samara.record.channels.stream_metadata", lambda _: told)
    with Recorder(tmp_path / "run.mcap", [own]) as writer:
        writer.write({"/a/depth": (np.arange(2), measured(NARROW, 2)[:, :, 0])})
    found = read_recording(tmp_path / "run.mcap")
    assert "run.mcap: damaged at byte" in found.problem and not found.streams


def test_a_stream_whose_fields_are_not_its_pixels_is_refused(tmp_path):
    own = stream("/a/depth", NARROW)
    for wrong in (own._replace(fields=own.fields[::-1]), own._replace(units=("m",) * 14 + ("ft",))):
        with pytest.raises(
            RecordingError, match="an image of 3 × 5; expected a field for each pixel, in the same unit"
        ):
            Recorder(tmp_path / "run.mcap", [wrong])
