"""Images in a recording, as foxglove.RawImage: distances that are whole multiples of a step, or the pixels of a camera.

A value of a stream takes eleven bytes with its tag, a pixel takes two or four, and Foxglove displays pixels directly.
Reading restores the measurement bit for bit: a sensor counts steps, x = k Δ, and the file holds k (16UC1) or the
single-precision number nearest to x (32FC1), from which k follows. The pixels of a camera are written as they are.
"""

import json
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np

from samara.core.atomic_files import parse_json
from samara.core.sanitise import quote_value
from samara.core.types import Array

MAX_SIDE, MAX_PIXELS = 4000, 1 << 21  # of a camera's image
MAX_STEPS = 4e6  # steps that a single-precision number can distinguish, with a margin
NAN_PIXEL = 0xFFFF  # in 16UC1


class Raster(NamedTuple):
    """The values of a stream are `depth[row][column]`, multiples of a step [m]; `wide` if 16 bits are too
    few for them."""

    name: str
    rows: int
    columns: int
    step: float
    wide: bool = False

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of its numbers, row by row."""
        return _fields(self.name, self.rows, self.columns)

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""
        return self.rows, self.columns

    @property
    def row_type(self) -> np.dtype[np.generic]:
        """The type of the stream's rows."""
        return np.dtype(np.float64)

    @property
    def encoding(self) -> str:
        """The pixel encoding in foxglove.RawImage."""
        return "32FC1" if self.wide else "16UC1"

    @property
    def pixel(self) -> np.dtype[np.generic]:
        """The type of a pixel."""
        return np.dtype("<f4" if self.wide else "<u2")

    def pixels(self, rows: Array) -> Array:
        """Convert numbers to pixels."""
        if self.wide:
            return rows.astype(self.pixel)
        steps = np.where(np.isnan(rows), NAN_PIXEL, np.rint(rows / self.step))
        return steps.clip(0, NAN_PIXEL).astype(self.pixel)

    def numbers(self, pixels: Array) -> Array:
        """Convert pixels to numbers: k Δ."""
        if self.wide:
            numbers: Array = self.step * np.rint(pixels.astype(float) / self.step)
            return numbers
        return np.where(pixels == NAN_PIXEL, np.nan, self.step * pixels.astype(float))

    def is_lossless(self, rows: Array) -> bool:
        """Whether the numbers survive a conversion to pixels unchanged."""
        return np.array_equal(self.numbers(self.pixels(rows)), rows, equal_nan=True)


ENCODINGS = {
    ("|u1", 1): "mono8",
    ("|u1", 3): "rgb8",
    ("<u2", 1): "mono16",
    ("<f4", 1): "32FC1",
    ("<f4", 2): "32FC2",
}
"""Encodings of foxglove.RawImage and sensor_msgs/Image by the type of a number and the count of numbers per pixel."""


class PixelFormat(NamedTuple):
    """The rows of a stream are images of a camera: (rows × columns × channels) numbers of a type such as "|u1".

    Such a stream has no named fields.
    """

    rows: int
    columns: int
    channels: int
    dtype: str

    @property
    def fields(self) -> tuple[str, ...]:
        """No names: there are too many numbers."""
        return ()

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns, and channels if there are several."""
        return (self.rows, self.columns, self.channels) if self.channels > 1 else (self.rows, self.columns)

    @property
    def row_type(self) -> np.dtype[np.generic]:
        """The type of the stream's rows."""
        return self.pixel

    @property
    def encoding(self) -> str:
        """The pixel encoding in foxglove.RawImage and sensor_msgs/Image."""
        return ENCODINGS[self.dtype, self.channels]

    @property
    def pixel(self) -> np.dtype[np.generic]:
        """The type of a number."""
        return np.dtype(self.dtype)

    def pixels(self, rows: Array) -> Array:
        """Return the numbers as they are."""
        return rows

    def numbers(self, pixels: Array) -> Array:
        """Return a contiguous copy of the pixels."""
        return np.array(pixels, order="C")

    def is_lossless(self, rows: Array) -> bool:
        """Return True: pixels are written as they are."""
        return True


ImageFormat: TypeAlias = Raster | PixelFormat


def pixel_count(image: ImageFormat) -> int:
    """Return the count of numbers of one image."""
    return math.prod(image.shape)


@lru_cache(maxsize=64)
def _fields(name: str, rows: int, columns: int) -> tuple[str, ...]:
    return tuple(f"{name}[{row}][{column}]" for row in range(rows) for column in range(columns))


def image_metadata(image: ImageFormat, schema_name: str, units: Sequence[str]) -> dict[str, str]:
    """Return the channel metadata of a stream of images; all numbers have one unit."""
    key = "raster" if isinstance(image, Raster) else "pixels"
    return {"schema_name": schema_name, "unit": units[0], key: json.dumps(image)}


def is_image_metadata(metadata: Mapping[str, str]) -> bool:
    """Whether channel metadata describe a stream of images."""
    return "raster" in metadata or "pixels" in metadata


def image_from_metadata(metadata: Mapping[str, str], max_fields: int) -> ImageFormat:
    """Invert `image_metadata`; raise ValueError if it is invalid, or has more than `max_fields` named pixels."""
    if "pixels" in metadata:
        rows, columns, channels, dtype = parse_json(metadata["pixels"])
        pixels = PixelFormat(int(rows), int(columns), int(channels), str(dtype))
        if (
            (pixels.dtype, pixels.channels) not in ENCODINGS
            or not 1 <= pixels.rows <= MAX_SIDE
            or not 1 <= pixels.columns <= MAX_SIDE
            or pixels.rows * pixels.columns > MAX_PIXELS
        ):
            raise ValueError(f"an image of {pixels.rows} × {pixels.columns} pixels of {quote_value(pixels.dtype)}")
        return pixels
    return _raster_from_metadata(metadata, max_fields)


def _raster_from_metadata(metadata: Mapping[str, str], max_pixels: int) -> Raster:
    name, rows, columns, step, wide = parse_json(metadata["raster"])
    raster = Raster(str(name), int(rows), int(columns), float(step), bool(wide))
    if (
        raster.rows < 1
        or raster.columns < 1
        or raster.rows * raster.columns > max_pixels
        or not 0.0 < raster.step < math.inf
    ):
        raise ValueError(f"an image of {raster.rows} × {raster.columns} pixels in steps of {raster.step:g}")
    return raster
