"""What a camera saw as a picture of the page: read back by another library it has the right pixels."""

import base64
import io
import re

import numpy as np

from samara.sensors import part
from samara.view.web.picture import coloured, picture_html, png, shape_of


def test_a_picture_is_a_png_whose_pixels_are_the_depths():
    """Nothing is black, the nearest yellow, the farthest violet; Matplotlib reads the file."""
    from matplotlib.image import imread

    image = np.array([[0.0, 1.0, 2.0], [3.0, 1.5, 0.0]])
    read = (imread(io.BytesIO(png(coloured(image))))[..., :3] * 255.0).round().astype(int)
    assert read.tolist() == coloured(image).astype(int).tolist()
    assert (
        read[0, 0].tolist() == [0, 0, 0]
        and read[0, 1].tolist() == [253, 231, 37]
        and read[1, 0].tolist() == [68, 1, 84]
    )


def test_the_fields_of_a_camera_say_its_shape():
    fields = part("d435", width=5, height=4).sensor().fields
    assert fields[-1] == "depth[3][4]" and shape_of(fields) == (4, 5)
    assert shape_of(part("bmi088").sensor().fields) is None and shape_of(()) is None
    html = picture_html("camera", (4, 5), [0.0] * 19 + [2.5])
    assert "camera: 2.50 to 2.50 m" in html
    assert base64.b64decode(re.search(r'base64,([^"]+)"', html)[1]).startswith(b"\x89PNG")
