"""Pictures in a recording: numbers in rows and columns that are whole multiples of a step, as foxglove.RawImage.

A number of a stream takes eleven bytes with its tag, a pixel two or four, and Foxglove shows it as it is. What is read back is
what was measured, bit for bit: a sensor counts steps, x = k Δ, and the file holds k (16UC1) or the single-precision number next
to x (32FC1), from which k follows.
"""

import json
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from samara.core.atomic_files import parsed
from samara.core.types import Array

MOST_STEPS = 4e6  # that a single-precision number tells apart, with some to spare
NOT_A_NUMBER = 0xFFFF  # in 16UC1


class Raster(NamedTuple):
    """The numbers of a stream are `depth[row][column]`, whole multiples of a step [m]; `wide` where 65 534 are too few."""

    name: str
    rows: int
    columns: int
    step: float
    wide: bool = False

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of its numbers, row by row"""
        return _fields(self.name, self.rows, self.columns)

    @property
    def encoding(self) -> str:
        """What foxglove.RawImage calls its pixels"""
        return "32FC1" if self.wide else "16UC1"

    @property
    def pixel(self) -> np.dtype[np.generic]:
        """One of them"""
        return np.dtype("<f4" if self.wide else "<u2")

    def pixels(self, rows: Array) -> Array:
        """Numbers as pixels"""
        if self.wide:
            return rows.astype(self.pixel)
        counted = np.where(np.isnan(rows), NOT_A_NUMBER, np.rint(rows / self.step))
        return counted.clip(0, NOT_A_NUMBER).astype(self.pixel)

    def numbers(self, pixels: Array) -> Array:
        """Pixels as numbers: k Δ"""
        if self.wide:
            found: Array = self.step * np.rint(pixels.astype(float) / self.step)
            return found
        return np.where(pixels == NOT_A_NUMBER, np.nan, self.step * pixels.astype(float))

    def holds(self, rows: Array) -> bool:
        """Whether numbers come back from their pixels as they are"""
        return np.array_equal(self.numbers(self.pixels(rows)), rows, equal_nan=True)


@lru_cache(maxsize=64)
def _fields(name: str, rows: int, columns: int) -> tuple[str, ...]:
    return tuple(f"{name}[{row}][{column}]" for row in range(rows) for column in range(columns))


def raster_metadata(raster: Raster, kind: str, units: Sequence[str]) -> dict[str, str]:
    """What the metadata of a channel say of a stream that is written so; one unit for all"""
    return {"kind": kind, "unit": units[0], "raster": json.dumps(raster)}


def raster_from(metadata: Mapping[str, str], most: int) -> Raster:
    """The inverse; ValueError where it cannot be, or has more pixels than are allowed"""
    name, rows, columns, step, wide = parsed(metadata["raster"])
    own = Raster(str(name), int(rows), int(columns), float(step), bool(wide))
    if own.rows < 1 or own.columns < 1 or own.rows * own.columns > most or not 0.0 < own.step < math.inf:
        raise ValueError(f"a picture of {own.rows} × {own.columns} pixels in steps of {own.step:g}")
    return own
