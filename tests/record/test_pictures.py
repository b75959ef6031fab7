"""Pictures and clouds for Foxglove: read back by the library that reads MCAP, they are what was recorded."""

import numpy as np
import pytest
from foxglove_schemas_protobuf.PointCloud_pb2 import PointCloud
from foxglove_schemas_protobuf.RawImage_pb2 import RawImage
from mcap.reader import make_reader

import samara
from samara.record.load import load_run
from samara.record.pictures import eyes_inside, write_pictures
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
kind = "hover"
at = [0.0, 0.0, 3.0]

[[solids]]
name = "wall"
kind = "box"
center = [3.5, 0.0, 3.0]
size = [1.0, 100.0, 100.0]
"""


def test_a_recording_keeps_pictures_bit_for_bit_and_foxglove_sees_them(tmp_path):
    """From the flight through the file: the same bits; the image in millimetres, and every point of the cloud on the wall."""
    run = samara.fly(parse_scenario(FLIGHT, "eyes.toml"))
    again = load_run(run.save(tmp_path / "run.mcap"))
    for name in ("camera", "lidar"):
        assert again.tables[name].rows.tobytes() == run.tables[name].rows.tobytes()
    assert set(eyes_inside(again)) == {"/one/camera", "/one/lidar"}
    path = write_pictures(again, tmp_path / "pictures.mcap")
    found: dict[str, list[bytes]] = {}
    with path.open("rb") as file:
        for _, channel, message in make_reader(file).iter_messages():
            found.setdefault(channel.topic, []).append(message.data)
    assert set(found) == {"/scene", "/tf", "/one/camera/image", "/one/camera/points", "/one/lidar/points"}
    images, table = [RawImage.FromString(own) for own in found["/one/camera/image"]], run.tables["camera"]
    assert len(images) == len(table.rows) and (images[0].width, images[0].height, images[0].encoding) == (9, 7, "16UC1")
    depth = np.frombuffer(images[-1].data, "<u2") * 1e-3
    assert np.array_equal(depth, table.rows[-1]) and images[0].timestamp.nanos == 0
    seen = depth[depth > 0.0]
    assert seen == pytest.approx(2.9, abs=0.02) and len(seen) > 50
    for topic, off in (("/one/camera/points", 2.9), ("/one/lidar/points", 3.0)):
        cloud = PointCloud.FromString(found[topic][-1])
        points = np.frombuffer(cloud.data, "<f4").reshape(-1, 4)
        ahead = points[(points[:, 0] > 1.0) & (np.abs(points[:, 1]) < 5.0)]  # the ground is beyond
        assert cloud.frame_id == "one" and ahead[:, 0] == pytest.approx(off, abs=0.05) and len(ahead) > 30
        assert np.linalg.norm(points[:, :3], axis=1) == pytest.approx(points[:, 3], rel=1e-5)


def test_a_run_without_eyes_gets_one_sentence(tmp_path):
    with pytest.raises(RecordingError, match="no depth_camera and no lidar in it; expected one on a drone"):
        write_pictures(samara.fly("hover", settings={"duration": 0.1}), tmp_path / "x.mcap")
    assert not (tmp_path / "x.mcap").exists()
