"""Streams: the slots written to each table of a flight, their ticks, and the addresses of the rows."""

from typing import Any, NamedTuple

import numpy as np

from samara.backends.llvm_schedule import Operation
from samara.record.streams import Rows

Array = np.ndarray[Any, Any]


class Stream(NamedTuple):
    """A table that gets one row of slots after an entry of the sequence, at every `every`-th tick of a clock."""

    name: str
    slots: tuple[str, ...]
    entry: str
    rate: str
    every: int = 1
    delay: int = 0


class StreamTable(NamedTuple):
    """A table into which a compiled flight writes a row at every tick of a period, after an entry of the sequence.

    `first` is the tick of row 0 and `address` that of the rows: arrays of one element, which the compiled code reads.
    """

    table: Rows
    period_us: int
    offset_us: int
    entry: int
    first: Array
    address: Array

    def refresh_address(self) -> None:
        """Update the address of the table's rows for the compiled code"""
        self.address[0] = self.table.rows.ctypes.data

    def count_rows(self, time_us: int, passed: int) -> None:
        """Set the number of rows and their times, at a time when the first `passed` entries have run"""
        ticks = time_us - self.offset_us
        done = ticks // self.period_us + 1 if passed > self.entry else -(-ticks // self.period_us)
        self.table.count = max(done - int(self.first[0]), 0)
        numbers = np.arange(self.table.count, dtype=np.int64) + int(self.first[0])
        self.table.times[: self.table.count] = numbers * self.period_us + self.offset_us

    def put(self, due: int, source: Array, skipped: int) -> Operation:
        """Return the operation that writes an array into the row, after the first `skipped` fields"""
        shape = len(source), self.table.rows.shape[1], skipped
        return Operation("put", due, (source, self.address, *shape, self.period_us, self.offset_us, self.first))
