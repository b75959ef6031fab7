"""What a camera saw as a picture of the page: read back by another library it has the right pixels."""

import base64
import io
import re

import numpy as np
import pytest

from samara.physics.types import State
from samara.sensors import part
from samara.sensors.ray_sensors import Eye
from samara.view.depth_colours import Seen, coloured, is_picture

pytest.importorskip("viser", reason="the page needs viser")

from samara.view.web.gauges import eyes_html, png

NOWHERE = State(None, None, None, None)


def read(html):
    """The picture in a piece of HTML, as Matplotlib reads it"""
    from matplotlib.image import imread

    data = base64.b64decode(re.search(r'base64,([^"]+)"', html)[1])
    return (imread(io.BytesIO(data))[..., :3] * 255.0).round().astype(int)


def test_a_picture_is_a_png_whose_pixels_are_the_depths():
    image = np.array([[0.0, 1.0, 2.0], [3.0, 1.5, 0.0]])
    eye = Eye(part("d435", width=3, height=2).numbers)
    html = eyes_html([Seen("<camera>", eye, image.ravel(), NOWHERE)])
    assert read(html).tolist() == coloured(image, 5.0).astype(int).tolist()
    assert "<b>&lt;camera&gt;</b> · depth" in html and "nearest 1.00 m" in html and "5 m or more" in html
    assert png(coloured(image, 5.0)).startswith(b"\x89PNG")


def test_left_is_left_in_the_picture_of_a_lidar_too():
    """Its columns are sent from right to left."""
    eye = Eye(part("vlp-16", channels=1, columns=4).numbers)
    row = np.array([1.0, 2.0, 0.0, 0.0])
    html = eyes_html([Seen("lidar", eye, row, NOWHERE)])
    assert read(html)[0].tolist() == coloured(row[::-1], 2.0).astype(int).tolist() and "lidar</b> · range" in html
    assert "no echo" in eyes_html([Seen("lidar", eye, 0.0 * row, NOWHERE)])


def test_the_fields_of_a_camera_are_known():
    assert is_picture(part("d435", width=5, height=4).sensor().fields)
    assert not is_picture(part("bmi088").sensor().fields) and not is_picture(())
