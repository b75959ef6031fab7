"""The tables a flight fills: which slots go into which, when, and where their rows are in memory."""

from typing import Any, NamedTuple

import numpy as np

from samara.backends.llvm_schedule import Operation
from samara.record.streams import Rows

Array = np.ndarray[Any, Any]


class Stream(NamedTuple):
    """A table that gets a row of some slots after an entry of the sequence, at every `every`-th tick of a clock."""

    name: str
    slots: tuple[str, ...]
    entry: str
    rate: str
    every: int = 1
    delay: int = 0


class StreamTable(NamedTuple):
    """A table that a compiled flight puts a row into at every tick of a period, after an entry of the sequence.

    `first` is the tick of its row 0, and `place` the address of its rows: arrays of one, for the compiled code to read.
    """

    table: Rows
    period_us: int
    offset_us: int
    entry: int
    first: Array
    place: Array

    def refresh_address(self) -> None:
        """Tell the compiled code where the table's rows are now"""
        self.place[0] = self.table.rows.ctypes.data

    def count_rows(self, time_us: int, passed: int) -> None:
        """How many rows there are, at a time when so many entries have been passed"""
        ticks = time_us - self.offset_us
        done = ticks // self.period_us + 1 if passed > self.entry else -(-ticks // self.period_us)
        self.table.count = max(done - int(self.first[0]), 0)
        numbers = np.arange(self.table.count, dtype=np.int64) + int(self.first[0])
        self.table.times[: self.table.count] = numbers * self.period_us + self.offset_us

    def put(self, due: int, source: Array, skipped: int) -> Operation:
        """The operation that puts an array into its row, from a field on"""
        shape = len(source), self.table.rows.shape[1], skipped
        return Operation("put", due, (source, self.place, *shape, self.period_us, self.offset_us, self.first))
