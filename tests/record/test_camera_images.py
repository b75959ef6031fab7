"""Images of cameras in recordings, bags and exports: every pixel as the camera delivered it."""

import json

import numpy as np
import pytest
from foxglove_schemas_protobuf.CameraCalibration_pb2 import CameraCalibration
from foxglove_schemas_protobuf.RawImage_pb2 import RawImage
from mcap.reader import make_reader
from rosbags.highlevel import AnyReader

import samara
from samara.core.algebra import Vec3, direction, rotate
from samara.core.budget import decompressed_limit
from samara.record.diff import first_difference
from samara.record.export import export_csv
from samara.record.image_stream import PixelFormat, image_metadata
from samara.record.pictures import write_pictures
from samara.record.recorder import Recorder
from samara.record.recording import describe, read_recording
from samara.record.ros2.bag import write_ros2_bag
from samara.record.streams import RecordingError, Stream
from samara.scenario.file import parse_scenario
from samara.sensors.depth_camera import OPTICAL, Lens, calibration, pinhole, project_direction

FLIGHT = """
name = "gates"
description = "a gate and a ball ahead, a camera and a depth camera"
duration = 0.5

[[drones]]
name = "one"
vehicle = "crazyflie"
start = [0.0, 0.0, 1.5]
airborne = true
sensors = [
  { part = "ov9281", name = "eye", width = 24, height = 16, channels = 3, delay = 0.02, outputs = OUTPUTS },
  { part = "d435", name = "stereo", width = 8, height = 6 },
]
[[drones.tasks]]
type = "hover"
at = [0.0, 0.5, 1.5]
[[gates]]
name = "first"
centre = [3.0, 0.0, 1.5]
opening = [1.0, 1.0]
frame = [1.4, 1.4]
[[obstacles]]
name = "ball"
shape = "sphere"
centre = [4.0, 1.5, 1.5]
radius = 0.5
"""
FLIGHT = FLIGHT.replace(
    "OUTPUTS", json.dumps(["rgb", "segmentation", "depth", "instance", "optical_flow", "gate_corners"])
)
TYPES = {"rgb": "|u1", "segmentation": "|u1", "depth": "<f4", "instance": "<u2", "optical_flow": "<f4"}
ENCODINGS = {"rgb": "rgb8", "segmentation": "mono8", "depth": "32FC1", "instance": "mono16", "optical_flow": "32FC2"}


@pytest.fixture(scope="module")
def run():
    return samara.fly(parse_scenario(FLIGHT.replace('\n    "instance', ' "instance'), "gates.toml"))


@pytest.fixture(scope="module")
def file(run, tmp_path_factory):
    return run.save(tmp_path_factory.mktemp("run") / "run.mcap")


def messages(path, kind):
    """Messages of a protobuf type by topic."""
    found = {}
    with path.open("rb") as opened:
        for schema, channel, message in make_reader(opened).iter_messages():
            if schema.name == kind.DESCRIPTOR.full_name:
                found.setdefault(channel.topic, []).append(kind.FromString(message.data))
    return found


def test_images_are_restored_bit_for_bit(run, file):
    loaded = samara.load_run(file)
    assert first_difference(run, loaded) is None
    for name, dtype in TYPES.items():
        table = loaded.tables[f"eye/{name}"]
        assert table.rows.dtype == dtype and table.images.shape[:3] == (25, 16, 24)
        assert table.rows.tobytes() == run.tables[f"eye/{name}"].rows.tobytes()
        assert np.array_equal(table.times_us, run.tables["eye"].times_us)
    assert len(np.unique(loaded.tables["eye/instance"].rows)) == 4  # sky, ground, gate, ball
    assert not np.array_equal(*loaded.tables["eye/rgb"].rows[[0, -1]])


def test_a_flight_recorded_to_a_file_is_the_same(run, tmp_path):
    scenario = parse_scenario(FLIGHT.replace('\n    "instance', ' "instance'), "gates.toml")
    recorded = samara.fly(scenario, out=tmp_path / "flight.mcap")
    assert first_difference(run, recorded) is None
    assert first_difference(run, samara.load_run(tmp_path / "flight.mcap")) is None


def test_other_tools_read_the_images(run, file):
    """foxglove.RawImage, one channel per output."""
    images = messages(file, RawImage)
    for name, encoding in ENCODINGS.items():
        first = images[f"/one/eye/{name}"][0]
        pixels = np.frombuffer(first.data, TYPES[name]).reshape(run.tables[f"eye/{name}"].images[0].shape)
        assert (first.encoding, first.width, first.height) == (encoding, 24, 16)
        assert first.step * first.height == len(first.data)
        assert np.array_equal(pixels, run.tables[f"eye/{name}"].images[0])


def test_exported_pictures_have_a_calibration(run, file, tmp_path):
    pictures = write_pictures(samara.load_run(file), tmp_path / "pictures.mcap")
    images, calibrations = messages(pictures, RawImage), messages(pictures, CameraCalibration)
    assert set(images) >= {f"/one/eye/{name}" for name in ENCODINGS} | {"/one/stereo/image"}
    (first, *_) = images["/one/eye/rgb"]
    assert first.data == run.tables["eye/rgb"].images[0].tobytes()
    camera = run_camera(run)
    (numbers, *others) = calibrations["/one/eye/calibration"]
    assert len(others) == len(run.tables["eye"].rows) - 1
    assert numbers.K[0] == camera.focal_x and numbers.frame_id == first.frame_id == "one/eye_optical"
    assert first.timestamp.nanos == numbers.timestamp.nanos == 0  # of the sample; it arrived 20 ms later


def run_camera(run):
    from samara.record.pictures import recorded_vision_sensors

    return recorded_vision_sensors(run)["/one/eye"][0].model.part.camera


def test_a_calibration_projects_as_the_camera_does():
    """The equations of sensor_msgs/CameraInfo, plumb_bob, for a point in the optical frame."""
    camera = pinhole(64, 48, 1.4, 1.1, Lens(-0.2, 0.05, 0.003, -0.002))
    numbers = calibration(camera)
    k1, k2, p1, p2, k3 = numbers["D"]
    for x, y in np.random.default_rng(0).uniform(-0.5, 0.5, (20, 2)):
        r2 = x * x + y * y
        radial = 1.0 + k1 * r2 + k2 * r2**2 + k3 * r2**3
        distorted = (
            x * radial + 2.0 * p1 * x * y + p2 * (r2 + 2.0 * x * x),
            y * radial + p1 * (r2 + 2.0 * y * y) + 2.0 * p2 * x * y,
        )
        u, v, _ = numbers["K"] @ [*distorted, 1.0]
        optical = Vec3(x, y, 1.0)
        assert project_direction(direction(rotate(OPTICAL, optical)), camera) == pytest.approx((u, v), abs=1e-9)


def test_a_bag_has_images_and_calibrations(run, tmp_path):
    """As rosbags reads them: pixels, depth with NaN where nothing was seen, stamps of the samples."""
    bag = write_ros2_bag(run, tmp_path / "run.ros2.mcap")
    found = {}
    with AnyReader([bag]) as reader:
        for connection, time, data in reader.messages():
            if connection.topic.startswith(("/one/eye", "/one/stereo", "/tf_static")):
                message = reader.deserialize(data, connection.msgtype)
                found.setdefault(connection.topic, []).append((time, message))
    for name, encoding in ENCODINGS.items():
        images = run.tables[f"eye/{name}"].images
        for (time, message), image in zip(found[f"/one/eye/{name}"], images, strict=True):
            pixels = message.data.view(TYPES[name]).reshape(image.shape)
            expected = np.where(image > 0.0, image, np.float32("nan")) if name == "depth" else image
            assert np.array_equal(pixels, expected, equal_nan=name == "depth")
            assert (message.encoding, message.header.frame_id) == (encoding, "one/eye_optical")
            stamp = message.header.stamp
            assert 10**9 * stamp.sec + stamp.nanosec == time - 20_000_000
    depth = found["/one/stereo/depth"][0][1]
    row = run.tables["stereo"].rows[0]
    assert np.array_equal(depth.data.view("<f4"), np.where(row > 0.0, row, np.nan).astype("f4"), equal_nan=True)
    _, info = found["/one/eye/camera_info"][0]
    camera = run_camera(run)
    assert info.distortion_model == "plumb_bob" and info.k[4] == camera.focal_y and info.p[2] == camera.center_x - 0.5
    frames = {transform.child_frame_id: transform for transform in found["/tf_static"][0][1].transforms}
    assert frames["one/eye_optical"].header.frame_id == "one/eye"
    assert frames["one/eye_optical"].transform.rotation.x == OPTICAL.x


# The file ---


STREAM = Stream("/one/eye/rgb", (), ("1",), "samara.image.rgb", PixelFormat(240, 320, 3, "|u1"))


def write_images(path, images, per_chunk=10):
    with Recorder(path, [STREAM], overwrite=True) as recorder:
        for k in range(0, len(images), per_chunk):
            chunk = images[k : k + per_chunk]
            times = 1000 * np.arange(k, k + len(chunk))
            recorder.write({STREAM.topic: (times, chunk.reshape(len(chunk), -1))})


def test_images_are_compressed(tmp_path):
    image = np.zeros((40, 240, 320, 3), np.uint8)
    image[:, 120:] = (np.indices((120, 320))[1] // 16 % 2 * 90 + 60)[..., None]
    write_images(tmp_path / "small.mcap", image)
    assert (tmp_path / "small.mcap").stat().st_size < image.nbytes / 50
    assert np.array_equal(read_recording(tmp_path / "small.mcap").streams[STREAM.topic].images, image)


@pytest.mark.long
def test_images_of_one_colour_stay_readable(tmp_path):
    """They compress a thousandfold, which readers refuse of a large file: some chunks are left as they are."""
    images = np.full((1400, 240, 320, 3), 7, np.uint8)
    assert images.nbytes > decompressed_limit(0)
    write_images(tmp_path / "sky.mcap", images, per_chunk=100)
    assert (tmp_path / "sky.mcap").stat().st_size < images.nbytes / 10
    assert np.array_equal(read_recording(tmp_path / "sky.mcap").streams[STREAM.topic].images, images)


def test_tables_leave_the_images_out(run, file, tmp_path):
    files = {path.name for path in export_csv(read_recording(file), tmp_path / "csv")}
    assert {"one.eye.csv", "one.stereo.csv", "log.csv"} <= files and not any("rgb" in name for name in files)
    for save in (lambda: run.save(tmp_path / "x.csv", stream="eye/rgb"), lambda: run.to_pandas("eye/rgb")):
        with pytest.raises(RecordingError, match=r"samara.image.rgb holds images; expected a stream of numbers"):
            save()


def test_a_description_counts_pixels(file):
    lines = dict(describe(read_recording(file)))
    assert lines["/one/eye/rgb"] == "samara.image.rgb, 24 × 16 pixels (rgb8), 25 rows, 50 Hz"


def test_rows_of_another_type_or_size_are_refused(tmp_path):
    with Recorder(tmp_path / "run.mcap", [STREAM]) as recorder:
        for rows in (np.zeros((1, 9), np.uint8), np.zeros((1, 240 * 320 * 3))):
            with pytest.raises(RecordingError, match=r"rows are .*; expected uint8 of shape \(1, 230400\)"):
                recorder.write({STREAM.topic: (np.zeros(1, int), rows)})


@pytest.mark.parametrize(
    "pixels", [[0, 4, 1, "|u1"], [5000, 4, 1, "|u1"], [4000, 4000, 1, "|u1"], [4, 4, 2, "|u1"], [4, 4, 1, "O"], [4, 4]]
)
def test_invalid_formats_are_damage(tmp_path, monkeypatch, pixels):
    metadata = image_metadata(STREAM.raster, STREAM.schema_name, STREAM.units) | {"pixels": json.dumps(pixels)}
    monkeypatch.setattr("samara.record.channels.stream_metadata", lambda stream: metadata)
    write_images(tmp_path / "bad.mcap", np.zeros((1, 240, 320, 3), np.uint8))
    recording = read_recording(tmp_path / "bad.mcap")
    assert "bad.mcap: damaged at byte" in recording.problem and not recording.streams
