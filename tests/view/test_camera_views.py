"""The images of cameras in the viewer, the report and films: the pixels that were recorded, and palettes of the others."""

import base64
import re
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

import samara
from samara.record.run import embedded_scenario
from samara.scenario.file import parse_scenario
from samara.sensors.camera import CameraModel
from samara.sim.simulation import Simulation
from samara.view.film.render import Film, render
from samara.view.plot.vision_images import draw_vision_sensors
from samara.view.vision_frames import (
    LABEL_COLOURS,
    common_scale,
    depth_colours,
    echo_points,
    flow_colours,
    frustum_S,
    pictures,
    vision_frame,
    vision_sensors,
)
from samara.view.web.gauges import vision_html
from samara.view.web.snapshot import recorded_frame, snapshot_frame, take_snapshot

FLIGHT = """
name = "gates"
description = "a ball ahead of a camera and a depth camera"
duration = 0.4

[[drones]]
name = "one"
vehicle = "crazyflie"
start = [0.0, 0.0, 1.5]
airborne = true
sensors = [
  { part = "ov9281", name = "eye", width = 24, height = 16, channels = 3, delay = 0.02, outputs = OUTPUTS },
  { part = "ov9281", name = "grey", width = 12, height = 8, channels = 1, delay = 0.0, outputs = ["rgb"] },
]
[[drones.tasks]]
type = "hover"
at = [0.0, 0.5, 1.5]
[[obstacles]]
name = "ball"
shape = "sphere"
centre = [3.0, 0.0, 1.5]
radius = 0.5
"""
OUTPUTS = ["rgb", "segmentation", "depth", "instance", "optical_flow"]
SCENARIO = FLIGHT.replace("OUTPUTS", repr(OUTPUTS))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    flown = samara.fly(parse_scenario(SCENARIO, "gates.toml"))
    return samara.load_run(flown.save(tmp_path_factory.mktemp("run") / "run.mcap"))


@pytest.fixture(scope="module")
def frame(run):
    """The frame of the camera at 0.2 s, and that of the grey one."""
    sensors = vision_sensors([run])[0]
    return vision_frame(run.drone_records[0], sensors["eye"], 0.2), vision_frame(
        run.drone_records[0], sensors["grey"], 0.2
    )


def image_at(run, name, time=0.2):
    table = run.tables[name]
    return table.images[np.searchsorted(table.times_us, 1e6 * time, side="right") - 1]


def test_pictures_show_the_recorded_pixels(run, frame):
    shown = {picture.quantity: picture for picture in pictures(frame[0], 5.0)}
    assert list(shown) == OUTPUTS
    assert np.array_equal(shown["rgb"].colours, image_at(run, "eye/rgb"))
    for name in ("segmentation", "instance"):
        assert np.array_equal(shown[name].colours, LABEL_COLOURS[image_at(run, f"eye/{name}")])
    assert shown["segmentation"].note == "sky, ground, obstacle" and shown["instance"].note == "sky, ground, ball"
    assert np.array_equal(shown["depth"].colours, depth_colours(image_at(run, "eye/depth"), 5.0))
    (grey,) = pictures(frame[1], 5.0)
    assert np.array_equal(grey.colours, np.repeat(image_at(run, "grey/rgb")[..., None], 3, axis=2))


def test_flow_has_the_hue_of_its_direction():
    """White at rest; opposite directions have complementary colours, and the fastest pixel is saturated."""
    flow = np.array([[[0.0, 0.0], [3.0, 0.0]], [[-3.0, 0.0], [1.5, 0.0]]])
    still, right, left, slow = flow_colours(flow).reshape(4, 3).astype(int)
    assert still.tolist() == [255] * 3 and right[0] == 255 and left[0] == 0
    assert np.all(np.abs(right + left - 255) <= 1) and np.all(np.abs(slow - (255 + right) / 2) <= 1)


def test_points_of_a_cameras_depth_lie_on_the_ball(frame):
    """Each pixel of the ball, projected back, is on its surface."""
    points, _ = echo_points(frame[0])
    on_ball = np.abs(np.linalg.norm(points - [3.0, 0.0, 1.5], axis=1) - 0.5) < 2e-3
    ball = frame[0].images["instance"].ravel()[frame[0].images["depth"].ravel() > 0.0] == 2
    assert ball.sum() > 10 and np.all(on_ball[ball])
    assert frustum_S(frame[0].sensor_model, 1.0).shape == (8, 2, 3)


def decoded_images(html):
    return [
        np.asarray(Image.open(BytesIO(base64.b64decode(data))))
        for data in re.findall(r"data:image/png;base64,([^\"]+)", html)
    ]


def test_the_page_shows_every_picture(run, frame):
    detail = recorded_frame([run], 0.2, 0, vision_sensors([run])).detail
    html = vision_html(detail.vision_frames)
    images = decoded_images(html)
    assert len(images) == len(OUTPUTS) + 1 and "sky, ground, ball" in html
    assert np.array_equal(images[0], image_at(run, "eye/rgb"))
    scale = common_scale(detail.vision_frames)
    assert np.array_equal(images[2], depth_colours(image_at(run, "eye/depth"), scale))
    assert "eye frame" not in html and "eye" in detail.measurements


def test_a_running_simulation_shows_the_images_that_arrived(run):
    simulation = Simulation(parse_scenario(SCENARIO, "gates.toml"))
    while simulation.time_us < 200_000:
        simulation.advance()
    detail = snapshot_frame(take_snapshot(simulation)).detail
    eye, grey = detail.vision_frames
    assert isinstance(eye.sensor_model, CameraModel)
    for name in OUTPUTS:
        assert np.array_equal(eye.images[name].ravel(), image_at(run, f"eye/{name}").ravel()), name
    assert np.array_equal(decoded_images(vision_html([eye, grey]))[0], image_at(run, "eye/rgb"))


def test_the_report_has_the_images(run, tmp_path):
    figure = draw_vision_sensors(run)
    titles = [title for panel in figure.axes if (title := panel.get_title(loc="left"))]
    assert len(titles) == 6 and titles[0].startswith("eye rgb at") and titles[-1].startswith("grey rgb at")
    drawn = np.asarray(figure.axes[0].images[0].get_array())
    time = float(titles[0].split()[-2])
    assert np.array_equal(drawn, image_at(run, "eye/rgb", time + 1e-6))


def test_films_of_a_camera(run, tmp_path):
    """Each frame is the latest picture, enlarged eight times without smoothing."""
    path = render(run, tmp_path / "eye.png", Film(size=(192, 128), camera="eye", stop=0.2))
    picture = np.asarray(Image.open(path))
    assert np.array_equal(picture, np.kron(image_at(run, "eye/rgb"), np.ones((8, 8, 1), np.uint8)))
    path = render(run, tmp_path / "eye.gif", Film(fps=25.0, size=(48, 48), camera="eye/segmentation"))
    with Image.open(path) as film:
        film.seek(film.n_frames - 1)  # equal frames are one
        last = np.asarray(film.convert("RGB"))[8:40].astype(int)
    expected = np.kron(LABEL_COLOURS[image_at(run, "eye/segmentation", 0.4)], np.ones((2, 2, 1), int))
    assert np.abs(last - expected).max() < 12  # the palette of a GIF
    with pytest.raises(
        ValueError, match="no camera 'eyes'; expected one of chase, fixed, top, onboard, eye, eye/rgb, "
    ):
        render(run, tmp_path / "no.png", Film(camera="eyes"))


def test_an_mp4_of_a_camera(run, tmp_path):
    pytest.importorskip("imageio_ffmpeg")
    path = render(run, tmp_path / "eye.mp4", Film(fps=25.0, size=(192, 128), camera="grey"))
    assert path.stat().st_size > 500


def test_the_embedded_scenario_restores_the_camera(run):
    assert embedded_scenario(run).drones[0].sensors[0].images[0].shape == (16, 24, 3)
