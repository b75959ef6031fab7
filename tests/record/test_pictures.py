"""Images and point clouds for Foxglove: read back by the MCAP library, they equal the recording."""

import numpy as np
import pytest
from foxglove_schemas_protobuf.PointCloud_pb2 import PointCloud
from foxglove_schemas_protobuf.RawImage_pb2 import RawImage
from mcap.reader import make_reader

import samara
from samara.record.load import load_run
from samara.record.pictures import recorded_vision_sensors, write_pictures
from samara.record.streams import RecordingError
from samara.scenario.file import parse_scenario

FLIGHT = """
name = "eyes"
description = "a wall three metres ahead"
duration = 0.2

[[drones]]
name = "one"
vehicle = "iris"
start = [0.0, 0.0, 3.0]
airborne = true
sensors = [
  { part = "d435", name = "camera", width = 9, height = 7, r_B = [0.1, 0.0, 0.0], noise = 0.0, noise_growth = 0.0 },
  { part = "vlp-16", name = "lidar", columns = 12, noise = 0.0 },
]
[[drones.tasks]]
type = "hover"
at = [0.0, 0.0, 3.0]

[[obstacles]]
name = "wall"
shape = "box"
centre = [3.5, 0.0, 3.0]
size = [1.0, 100.0, 100.0]
"""


def test_a_recording_stores_images_bit_for_bit_and_foxglove_displays_them(tmp_path):
    """From the flight through the file: the same bits; the image in millimetres, and every point of the cloud on the wall."""
    run = samara.fly(parse_scenario(FLIGHT, "eyes.toml"))
    loaded = load_run(run.save(tmp_path / "run.mcap"))
    for name in ("camera", "lidar"):
        assert loaded.tables[name].rows.tobytes() == run.tables[name].rows.tobytes()
    assert set(recorded_vision_sensors(loaded)) == {"/one/camera", "/one/lidar"}
    path = write_pictures(loaded, tmp_path / "pictures.mcap")
    data_by_topic: dict[str, list[bytes]] = {}
    with path.open("rb") as file:
        for _, channel, message in make_reader(file).iter_messages():
            data_by_topic.setdefault(channel.topic, []).append(message.data)
    assert set(data_by_topic) == {"/scene", "/tf", "/one/camera/image", "/one/camera/points", "/one/lidar/points"}
    images, table = [RawImage.FromString(data) for data in data_by_topic["/one/camera/image"]], run.tables["camera"]
    assert len(images) == len(table.rows) and (images[0].width, images[0].height, images[0].encoding) == (9, 7, "16UC1")
    depth = np.frombuffer(images[-1].data, "<u2") * 1e-3
    assert np.array_equal(depth, table.rows[-1]) and images[0].timestamp.nanos == 0
    measured_depth = depth[depth > 0.0]
    assert measured_depth == pytest.approx(2.9, abs=0.02) and len(measured_depth) > 50
    for topic, distance in (("/one/camera/points", 2.9), ("/one/lidar/points", 3.0)):
        cloud = PointCloud.FromString(data_by_topic[topic][-1])
        points = np.frombuffer(cloud.data, "<f4").reshape(-1, 4)
        wall_points = points[(points[:, 0] > 1.0) & (np.abs(points[:, 1]) < 5.0)]  # the ground is beyond
        assert (
            cloud.frame_id == "one" and wall_points[:, 0] == pytest.approx(distance, abs=0.05) and len(wall_points) > 30
        )
        assert np.linalg.norm(points[:, :3], axis=1) == pytest.approx(points[:, 3], rel=1e-5)


def test_a_run_without_vision_sensors_is_one_sentence(tmp_path):
    with pytest.raises(RecordingError, match="no camera, depth_camera or lidar in it; expected one on a drone"):
        write_pictures(samara.fly("hover", settings={"duration": 0.1}), tmp_path / "x.mcap")
    assert not (tmp_path / "x.mcap").exists()
