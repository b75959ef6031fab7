"""Images in recordings: small, displayed by Foxglove, and bit for bit the measurement."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from foxglove_schemas_protobuf.RawImage_pb2 import RawImage
from mcap.reader import make_reader

import samara
from samara.record.flight_streams import MAX_NORMAL_DEVIATE, sensor_raster
from samara.record.image_stream import MAX_STEPS, NAN_PIXEL, Raster, image_metadata
from samara.record.recorder import Recorder, Stream
from samara.record.recording import read_recording
from samara.record.run import embedded_scenario
from samara.record.streams import RecordingError, StreamBlock
from samara.sensors.registry import part

OLD_RECORDING = Path(__file__).parents[1] / "recordings" / "eyes.mcap"
NARROW, WIDE = Raster("depth", 3, 5, 0.001), Raster("distance", 2, 7, 0.002, wide=True)


def stream(topic, raster):
    units = ("m",) * len(raster.fields)
    return Stream(topic, raster.fields, units, f"samara.sensor.{topic.rpartition('/')[2]}", raster)


def random_readings(raster, count, drones=1):
    """Random whole steps including zero and the maximum, and NaN."""
    max_steps = MAX_STEPS if raster.wide else NAN_PIXEL - 1
    shape = count, len(raster.fields), drones
    steps = np.random.default_rng(7).integers(0, int(max_steps), shape, endpoint=True)
    rows = raster.step * steps.astype(float)
    rows[0, :3] = [[0.0], [raster.step * max_steps], [np.nan]]
    return rows


@pytest.mark.parametrize("compression", [None, "", "lz4", "zstd"])
def test_images_of_several_drones_come_back_bit_for_bit(tmp_path, compression):
    """Two blocks per chunk and two chunks; one drone in a separate block, two in one, beside a stream of numbers."""
    streams = [stream(f"/{drone}/{raster.name}", raster) for drone in ("a", "b", "c") for raster in (NARROW, WIDE)]
    streams.append(Stream("/a/state", ("x",), ("m",), "samara.State"))
    rows = {raster: random_readings(raster, 9, 3) for raster in (NARROW, WIDE)}
    times_us = 40_000 * np.arange(9) + 3
    with Recorder(tmp_path / "run.mcap", streams, compression=compression) as recorder:
        for rows_of_chunk in (slice(0, 4), slice(4, 9)):
            blocks = [StreamBlock(("/a/state",), times_us[rows_of_chunk], times_us[rows_of_chunk, None, None] / 7.0)]
            for raster, readings in rows.items():
                blocks.append(
                    StreamBlock((f"/a/{raster.name}",), times_us[rows_of_chunk], readings[rows_of_chunk, :, :1])
                )
                blocks.append(
                    StreamBlock(
                        tuple(f"/{d}/{raster.name}" for d in "bc"),
                        times_us[rows_of_chunk],
                        readings[rows_of_chunk, :, 1:],
                    )
                )
            recorder.write_blocks(blocks)
    recording = read_recording(tmp_path / "run.mcap")
    assert recording.complete and not recording.problem
    for index, drone in enumerate("abc"):
        for raster, readings in rows.items():
            table = recording.streams[f"/{drone}/{raster.name}"]
            assert (table.raster, table.fields, table.schema_name) == (
                raster,
                raster.fields,
                f"samara.sensor.{raster.name}",
            )
            np.testing.assert_array_equal(table.rows, readings[:, :, index])
            np.testing.assert_array_equal(table.times_us, times_us)
    assert recording.streams["/a/state"]["x"].tobytes() == (times_us / 7.0).tobytes()


def test_other_programs_read_the_image(tmp_path):
    """The MCAP library and Foxglove's message: size, encoding, time, and the pixels."""
    rows = {raster: random_readings(raster, 2)[1:] for raster in (NARROW, WIDE)}
    with Recorder(tmp_path / "run.mcap", [stream(f"/a/{recorder.name}", recorder) for recorder in rows]) as recorder:
        recorder.write(
            {f"/a/{raster.name}": (np.array([1_234_567]), readings[:, :, 0]) for raster, readings in rows.items()}
        )
    with (tmp_path / "run.mcap").open("rb") as file:
        messages_by_topic = {
            channel.topic: (schema.name, message) for schema, channel, message in make_reader(file).iter_messages()
        }
    for raster, pixel_type, scale in ((NARROW, "<u2", 0.001), (WIDE, "<f4", 1.0)):
        name, message = messages_by_topic[f"/a/{raster.name}"]
        image = RawImage.FromString(message.data)
        assert name == "foxglove.RawImage" and message.log_time == message.publish_time == 1_234_567_000
        assert (image.timestamp.seconds, image.timestamp.nanos) == (1, 234_567_000)
        assert (image.width, image.height, image.encoding) == (raster.columns, raster.rows, raster.encoding)
        assert image.step == raster.columns * np.dtype(pixel_type).itemsize and image.frame_id == f"a/{raster.name}"
        assert np.frombuffer(image.data, pixel_type) * scale == pytest.approx(rows[raster][0, :, 0], rel=1e-7)


def test_a_recording_without_images_is_read_and_flown_unchanged(tmp_path):
    """`eyes.mcap` was written with a number for each pixel: a new flight has the same numbers, as images."""
    old_run = samara.load_run(OLD_RECORDING)
    new_run = samara.fly(embedded_scenario(old_run), out=tmp_path / "run.mcap")
    assert old_run.tables["camera"].raster is None and new_run.tables["camera"].raster == Raster("depth", 4, 5, 0.001)
    assert new_run.tables["lidar"].raster == Raster("distance", 4, 2, 0.001, wide=True)
    for name in ("camera", "lidar"):
        assert new_run.tables[name].fields == old_run.tables[name].fields
        np.testing.assert_allclose(
            new_run.tables[name].rows, old_run.tables[name].rows, atol=1.1e-3
        )  # on any processor
    replayed = samara.replay(old_run)
    for name in ("camera", "lidar"):
        assert replayed.tables[name].rows.tobytes() == old_run.tables[name].rows.tobytes()
    saved = samara.load_run(old_run.save(tmp_path / "before.mcap"))
    assert saved.tables["camera"].rows.tobytes() == old_run.tables["camera"].rows.tobytes()


def test_a_pixel_takes_two_bytes_before_compression(tmp_path):
    """A hundred images of 64 × 48 in 2 bytes a pixel and 150 for each message; a value of a stream takes eleven."""
    raster = Raster("depth", 48, 64, 0.001)
    rows, times_us = random_readings(raster, 100)[:, :, 0], 40_000 * np.arange(100)
    with Recorder(tmp_path / "run.mcap", [stream("/a/camera", raster)], compression="") as recorder:
        recorder.write({"/a/camera": (times_us, rows)})
    assert (tmp_path / "run.mcap").stat().st_size < 100 * (2 * 64 * 48 + 150) + 20_000


def test_other_values_are_refused_and_a_changed_run_is_saved_as_numbers(tmp_path):
    rows = random_readings(NARROW, 2)[:, :, 0]
    rows[1, 4] += 1e-4
    with Recorder(tmp_path / "run.mcap", [stream("/a/depth", NARROW)]) as recorder:
        with pytest.raises(RecordingError, match=r"/a/depth: an image is not of whole multiples of 0\.001; expected"):
            recorder.write({"/a/depth": (np.arange(2), rows)})
        for value in (-0.001, 65.535, np.inf):
            with pytest.raises(RecordingError, match="whole multiples"):
                recorder.write({"/a/depth": (np.arange(1), np.full((1, 15), value))})
    run = samara.load_run(OLD_RECORDING)
    table = run.tables["camera"]
    changed = replace(table, rows=table.rows / 3.0, raster=Raster("depth", 4, 5, 0.001))
    (drone_record,) = run.drone_records
    saved = replace(
        run, drone_records=(replace(drone_record, tables={**drone_record.tables, "camera": changed}),)
    ).save(tmp_path / "b.mcap")
    loaded = samara.load_run(saved).tables["camera"]
    assert loaded.raster is None and loaded.rows.tobytes() == changed.rows.tobytes()


def test_a_sensor_with_many_or_fine_steps_has_more_bytes():
    """16 bits if the largest reading with its noise fits, else single precision."""
    camera = part("d435", width=4, height=3).sensor()
    assert sensor_raster(camera) == Raster("depth", 3, 4, 0.001)
    assert sensor_raster(part("d435", width=4, height=3, max_range=65.53, noise_growth=0.0).sensor()).wide
    assert sensor_raster(part("vlp-16", columns=8).sensor()) == Raster("distance", 16, 8, 0.001, wide=True)
    coarse = part("vlp-16", columns=8, resolution=0.002)
    assert sensor_raster(coarse.sensor()) == Raster("distance", 16, 8, 0.002)
    assert sensor_raster(part("bmp388").sensor()) is None
    max_reading = coarse.parameters.max_range + coarse.parameters.noise * MAX_NORMAL_DEVIATE
    assert sensor_raster(coarse.sensor()).is_lossless(np.array([0.002 * round(max_reading / 0.002)]))


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
def test_invalid_raster_metadata_are_damage(tmp_path, monkeypatch, raster):
    depth_stream = stream("/a/depth", NARROW)
    metadata = image_metadata(NARROW, depth_stream.schema_name, depth_stream.units) | {"raster": json.dumps(raster)}
    monkeypatch.setattr("samara.record.channels.stream_metadata", lambda _: metadata)
    with Recorder(tmp_path / "run.mcap", [depth_stream]) as writer:
        writer.write({"/a/depth": (np.arange(2), random_readings(NARROW, 2)[:, :, 0])})
    recording = read_recording(tmp_path / "run.mcap")
    assert "run.mcap: damaged at byte" in recording.problem and not recording.streams


def test_a_stream_whose_fields_are_not_its_pixels_is_refused(tmp_path):
    depth_stream = stream("/a/depth", NARROW)
    for invalid_stream in (
        depth_stream._replace(fields=depth_stream.fields[::-1]),
        depth_stream._replace(units=("m",) * 14 + ("ft",)),
    ):
        with pytest.raises(
            RecordingError, match="an image of 3 × 5; expected a field for each pixel, in the same unit"
        ):
            Recorder(tmp_path / "run.mcap", [invalid_stream])
