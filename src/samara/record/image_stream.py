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
from foxglove_schemas_protobuf.RawImage_pb2 import RawImage
from google.protobuf.timestamp_pb2 import Timestamp  # type: ignore[import-untyped]

from samara.core.atomic_files import parsed
from samara.core.types import Array
from samara.record.layout import (
    LOG_MARK,
    NANOS_MARK,
    PUBLISH_MARK,
    SECONDS_MARK,
    SEQUENCE_MARK,
    Times,
    columns_of,
    message_record,
    on_channel,
)

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


class RasterLayout(NamedTuple):
    """One MCAP Message record with a picture: its bytes (1,), columns of its counter and times, and where its pixels begin."""

    channel: int
    record: Array
    columns: np.dtype[np.void]
    raster: Raster
    begin: int

    @property
    def places(self) -> tuple[object, ...]:
        """What records that are packed together have in common"""
        return self.columns, self.raster, self.begin

    @property
    def size(self) -> int:
        return self.record.itemsize

    @property
    def width(self) -> int:
        """How many numbers it holds."""
        return self.raster.rows * self.raster.columns


@lru_cache(maxsize=256)
def raster_layout(channel: int, raster: Raster, frame: str) -> RasterLayout:
    """foxglove.RawImage of a sensor, whose frame is named as its topic is"""
    blank = bytes(raster.rows * raster.columns * raster.pixel.itemsize)
    message = RawImage(
        timestamp=Timestamp(seconds=SECONDS_MARK, nanos=NANOS_MARK),
        width=raster.columns,
        height=raster.rows,
        encoding=raster.encoding,
        step=raster.columns * raster.pixel.itemsize,
        data=blank,
    )
    begin = len(message_record(0, 0, 0, 0, message.SerializeToString())) - len(blank)  # only the frame comes after them
    message.frame_id = frame
    record = message_record(0, SEQUENCE_MARK, LOG_MARK, PUBLISH_MARK, message.SerializeToString())
    told = on_channel(np.frombuffer(record, f"V{len(record)}"), channel)
    return RasterLayout(channel, told, columns_of(record), raster, begin)


class RasterMessages:
    """The records of k layouts of equal places in memory, `count` of each, into which pictures are written."""

    def __init__(self, layouts: Sequence[RasterLayout], count: int, memory: Array) -> None:
        first, shape = layouts[0], (len(layouts), count)
        self.count, self.length, self._raster = count, shape[0] * count * first.size, first.raster
        np.ndarray(shape, first.record.dtype, memory)[...] = np.concatenate([own.record for own in layouts])[:, None]
        self._block = np.ndarray(shape, first.columns, memory)
        strides = (count * first.size, first.size, first.raster.pixel.itemsize)
        self._pixels = np.ndarray((*shape, first.width), first.raster.pixel, memory, first.begin, strides)

    def fill(self, first: Array, times: Times, rows: Array) -> None:
        """Write counters from `first` (k,), times (m,) and rows (m, width, k)."""
        self._block["sequence"] = first[:, None] + np.arange(self.count) & 0xFFFF_FFFF
        self._block["log_time"] = self._block["publish_time"] = times.ns
        for name, digits in zip(("seconds", "nanos"), times.stamp, strict=True):
            self._block[name] = digits
        self._pixels[...] = self._raster.pixels(rows.transpose(2, 0, 1))


def unpack_raster(layout: RasterLayout, block: Array) -> tuple[Array, Array, Array]:
    """Sequence numbers, times [µs] and rows of an array of messages (m, size)."""
    whole = np.ascontiguousarray(block)
    messages, raster = np.ndarray(len(whole), layout.columns, whole), layout.raster
    shape, strides = (len(whole), layout.width), (layout.size, raster.pixel.itemsize)
    pixels = np.ndarray(shape, raster.pixel, whole, layout.begin, strides)
    return messages["sequence"].astype(np.int64), messages["log_time"] // 1000, raster.numbers(pixels)
