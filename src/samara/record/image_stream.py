"""Images in a recording: numbers in rows and columns that are whole multiples of a step, as foxglove.RawImage.

A value of a stream takes eleven bytes with its tag, a pixel takes two or four, and Foxglove displays pixels directly.
Reading restores the measurement bit for bit: a sensor counts steps, x = k Δ, and the file holds k (16UC1) or the
single-precision number nearest to x (32FC1), from which k follows.
"""

import json
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from samara.core.atomic_files import parse_json
from samara.core.types import Array

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


@lru_cache(maxsize=64)
def _fields(name: str, rows: int, columns: int) -> tuple[str, ...]:
    return tuple(f"{name}[{row}][{column}]" for row in range(rows) for column in range(columns))


def raster_metadata(raster: Raster, schema_name: str, units: Sequence[str]) -> dict[str, str]:
    """Return the channel metadata of a stream of images; all fields have one unit."""
    return {"schema_name": schema_name, "unit": units[0], "raster": json.dumps(raster)}


def raster_from_metadata(metadata: Mapping[str, str], max_pixels: int) -> Raster:
    """Invert `raster_metadata`; raise ValueError if it is invalid or has more than `max_pixels` pixels."""
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
