"""What a camera or a lidar saw, as a small picture of the page: near is light, far is dark, nothing is black."""

import base64
import re
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

LAST = re.compile(r"\w+\[(\d+)\]\[(\d+)\]")  # the field of the last ray: its row and column
WIDTH = 240  # pixels of the page
NEAR, FAR = (
    np.array([253.0, 231.0, 37.0]),
    np.array([68.0, 1.0, 84.0]),
)  # the ends of viridis, with its middle between them
MIDDLE = np.array([33.0, 145.0, 140.0])


def shape_of(fields: Sequence[str]) -> tuple[int, int] | None:
    """Rows and columns, where the fields are those of a picture: 'depth[59][79]' is the last of 60 × 80"""
    found = LAST.fullmatch(fields[-1]) if fields else None
    shape = (int(found[1]) + 1, int(found[2]) + 1) if found else None
    return shape if shape and shape[0] * shape[1] == len(fields) else None


def picture_html(name: str, shape: tuple[int, int], said: Sequence[float]) -> str:
    """A picture with its name and the nearest and the farthest that is in it  [m]"""
    image = np.array(said).reshape(shape)
    seen = image[image > 0.0]
    ends = f"{seen.min():.2f} to {seen.max():.2f} m" if len(seen) else "nothing seen"
    data = base64.b64encode(png(coloured(image))).decode("ascii")
    style = f"width:{WIDTH}px;image-rendering:pixelated"
    return f'<div>{name}: {ends}</div><img alt="{name}" style="{style}" src="data:image/png;base64,{data}">'


def coloured(image: Array) -> Array:
    """Depths (rows, columns) as bytes of red, green and blue, evenly from the nearest to the farthest"""
    seen = image > 0.0
    low, high = (float(image[seen].min()), float(image[seen].max())) if seen.any() else (0.0, 1.0)
    share = ((image - low) / max(high - low, 1e-9))[..., None].clip(0.0, 1.0)
    colour = np.where(share < 0.5, NEAR + 2.0 * share * (MIDDLE - NEAR), MIDDLE + (2.0 * share - 1.0) * (FAR - MIDDLE))
    return np.where(seen[..., None], colour, 0.0).round().astype(np.uint8)


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
