"""Tables that the program of a flight fills: a row at every tick of a period."""

from typing import Any, NamedTuple

import numpy as np

from samara.backends.llvm_schedule import Operation
from samara.record.streams import Rows


class Kept(NamedTuple):
    """A table that the program puts a row into at every tick of a period, in a stage

    `first` is the tick of its row 0, and `place` the address of its rows: arrays of one, for the program to read.
    """

    table: Rows
    period_us: int
    offset_us: int
    stage: int
    first: np.ndarray[Any, Any]
    place: np.ndarray[Any, Any]

    def found(self) -> None:
        """Tells the program where the table's rows are now"""
        self.place[0] = self.table.rows.ctypes.data

    def counted(self, time_us: int, passed: int) -> None:
        """How many rows there are, at a time when so many stages have been passed"""
        ticks = time_us - self.offset_us
        done = ticks // self.period_us + 1 if passed > self.stage else -(-ticks // self.period_us)
        self.table.count = max(done - int(self.first[0]), 0)
        numbers = np.arange(self.table.count, dtype=np.int64) + int(self.first[0])
        self.table.times[: self.table.count] = numbers * self.period_us + self.offset_us

    def put(self, due: int, source: np.ndarray[Any, Any], skipped: int = 0) -> Operation:
        """The operation that puts an array into its row, from a field on"""
        shape = len(source), self.table.rows.shape[1], skipped
        return Operation("put", due, (source, self.place, *shape, self.period_us, self.offset_us, self.first, 0))
