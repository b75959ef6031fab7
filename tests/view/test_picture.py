"""Camera images on the page: another library reads back the right pixels."""

import base64
import io
import re

import numpy as np
import pytest

from samara.physics.types import State
from samara.sensors import part
from samara.sensors.ray_sensors import RaySensor
from samara.view.vision_frames import VisionFrame, depth_colours, is_image

pytest.importorskip("viser", reason="the page needs viser")

from samara.view.web.gauges import encode_png, vision_html

NOWHERE = State(None, None, None, None)


def read(html):
    """Read the picture in a piece of HTML with Matplotlib."""
    from matplotlib.image import imread

    data = base64.b64decode(re.search(r'base64,([^"]+)"', html)[1])
    return (imread(io.BytesIO(data))[..., :3] * 255.0).round().astype(int)


def test_a_picture_is_a_png_whose_pixels_are_the_depths():
    image = np.array([[0.0, 1.0, 2.0], [3.0, 1.5, 0.0]])
    sensor = RaySensor(part("d435", width=3, height=2).parameters)
    html = vision_html([VisionFrame("<camera>", sensor, image.ravel(), NOWHERE)])
    assert read(html).tolist() == depth_colours(image, 5.0).astype(int).tolist()
    assert "<b>&lt;camera&gt;</b> · depth" in html and "nearest 1.00 m" in html and "5 m or more" in html
    assert encode_png(depth_colours(image, 5.0)).startswith(b"\x89PNG")


def test_left_is_left_in_the_picture_of_a_lidar_too():
    """A lidar's columns are sent from right to left."""
    sensor = RaySensor(part("vlp-16", channels=1, columns=4).parameters)
    row = np.array([1.0, 2.0, 0.0, 0.0])
    html = vision_html([VisionFrame("lidar", sensor, row, NOWHERE)])
    assert read(html)[0].tolist() == depth_colours(row[::-1], 2.0).astype(int).tolist() and "lidar</b> · range" in html
    assert "no echo" in vision_html([VisionFrame("lidar", sensor, 0.0 * row, NOWHERE)])


def test_the_fields_of_a_camera_are_known():
    assert is_image(part("d435", width=5, height=4).sensor().fields)
    assert not is_image(part("bmi088").sensor().fields) and not is_image(())
