"""What a camera or a lidar saw, as a small picture of the page with the scale of its colours below."""

import base64
import struct
import zlib
from collections.abc import Sequence
from html import escape

import numpy as np

from samara.core.types import Array
from samara.view.depth_colours import ANCHORS, Seen, coloured, common_scale
from samara.view.web.gauges import STYLE

FLATTEST = 4.0  # width to height: a lidar's sixteen channels would be a line


def eyes_html(eyes: Sequence[Seen]) -> str:
    """All eyes of a drone below each other, and what their colours mean"""
    far = common_scale(eyes)
    pictures = "".join(picture_html(seen, far) for seen in eyes)
    return f'<div style="{STYLE}">{pictures}{_legend(far)}</div>'


def picture_html(seen: Seen, far: float) -> str:
    """A picture with its name and the nearest that is in it  [m]"""
    image = np.asarray(seen.said).reshape(seen.eye.part.shape)
    met = image[image > 0.0]
    nearest = f"nearest {met.min():.2f} m" if len(met) else "nothing seen"
    kind, (rows, columns) = "depth" if seen.eye.is_camera else "range", image.shape
    data = base64.b64encode(png(coloured(_as_seen(seen, image), far))).decode("ascii")
    ratio = min(columns / rows, FLATTEST)
    style = f"display:block;width:100%;margin-bottom:6px;aspect-ratio:{ratio:.3f};image-rendering:pixelated"
    title = f"<span><b>{escape(seen.name)}</b> · {kind}</span><span>{nearest}</span>"
    head = f'<div style="display:flex;justify-content:space-between">{title}</div>'
    return f'{head}<img alt="{escape(seen.name)}" style="{style}" src="data:image/png;base64,{data}">'


def _as_seen(seen: Seen, image: Array) -> Array:
    """A lidar's columns go from right to left; in the picture left is left"""
    return image if seen.eye.is_camera else image[:, ::-1]


def _legend(far: float) -> str:
    """A bar from near to far, with its ends and its middle in metres"""
    colours = ",".join(f"rgb({r:.0f},{g:.0f},{b:.0f})" for r, g, b in ANCHORS)
    bar = f'<div style="height:6px;margin-top:3px;background:linear-gradient(to right,{colours})"></div>'
    ends = "".join(f"<span>{text}</span>" for text in ("0", f"{0.5 * far:g}", f"{far:g} m and more"))
    return f'{bar}<div style="display:flex;justify-content:space-between;font-size:11px">{ends}</div>'


def png(pixels: Array) -> bytes:
    """A picture (rows, columns, 3) of bytes as a PNG file"""
    rows, columns, _ = pixels.shape
    lines = np.concatenate(
        [np.zeros((rows, 1), np.uint8), pixels.reshape(rows, -1)], axis=1
    )  # each begins with its filter

    def part(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", columns, rows, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", zlib.compress(lines.tobytes())) + part(b"IEND", b"")
    )
