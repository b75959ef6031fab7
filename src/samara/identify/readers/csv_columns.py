"""Columns of a CSV by name, gzipped or not."""

import csv
import math
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from samara.core.budget import MAX_LINE_BYTES, Budget, bounded_lines, decompressed_limit, open_bounded, size_text
from samara.core.sanitise import shown
from samara.core.types import Array
from samara.identify.flight_log import Signal

MAX_CELLS = 20_000_000  # of the columns that are read: two hours of 25 columns at 100 Hz


class Columns(NamedTuple):
    """The wanted columns (columns, n), NaN where a cell is empty, and where one is not"""

    names: tuple[str, ...]
    values: Array
    there: Array

    def signal(self, time: str, names: Sequence[str], scale: float = 1.0) -> Signal:
        """The rows that have any of these columns, at the times of theirs"""
        places = [self.names.index(name) for name in names]
        rows = self.there[places].any(axis=0)
        return Signal(self.values[self.names.index(time), rows], scale * self.values[places][:, rows])


def heading_of(path: Path) -> list[str]:
    """The names of the columns"""
    return next(_lines(path, _budget(path)), [])


def _budget(path: Path) -> Budget:
    return Budget(path, max_bytes=decompressed_limit(path.stat().st_size), max_nodes=MAX_CELLS)


def read_columns(path: Path, names: Sequence[str], expected: str) -> Columns:
    """These columns; ValueError naming the file and the column or the line where one is missing or not a number"""
    budget = _budget(path)
    lines = _lines(path, budget)
    heading: list[str] = next(lines, [])
    missing = [name for name in names if heading.count(name) != 1]
    if missing:
        what = "has more than one" if missing[0] in heading else "has no"
        raise ValueError(f"{path}: {what} column {shown(missing[0])}; expected {expected}")
    places = [heading.index(name) for name in names]
    cells, there = array("d"), bytearray()
    last = 1  # the line of the last row that is not blank
    for number, line in enumerate(lines, start=2):
        if not line:
            continue
        try:
            row = [line[place] for place in places] if number == last + 1 else []
            cells.extend([float(cell or math.nan) for cell in row])
        except (ValueError, IndexError):
            row = []
        if not row:
            raise ValueError(f"{path}: line {last + 1} is not a row of numbers; expected one for each column") from None
        there.extend([cell != "" for cell in row])
        budget.spend_nodes(len(row), "cells")
        last = number
    shape = (-1, len(places))
    table = np.frombuffer(cells, dtype=float).reshape(shape).T
    return Columns(tuple(names), table, np.frombuffer(there, dtype=bool).reshape(shape).T)


def _lines(path: Path, budget: Budget) -> Iterator[list[str]]:
    """The rows of cells, [] for a blank line; one row may span several lines of text."""
    with open_bounded(path, budget) as stream:
        pending = 0  # bytes of the row that is being read

        def texts() -> Iterator[str]:
            nonlocal pending
            for number, line in enumerate(bounded_lines(stream, budget), start=1):
                pending += len(line)
                if pending > MAX_LINE_BYTES:
                    raise budget.overrun(f"line {number} has a row that is too long", size_text(MAX_LINE_BYTES))
                try:
                    yield line.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    raise ValueError(f"{path}: line {number} is no UTF-8 text ({error}); expected a CSV") from None

        reader = csv.reader(texts())
        while True:
            try:
                cells = [cell.strip() for cell in next(reader)]
            except StopIteration:
                return
            except csv.Error as error:
                raise ValueError(f"{path}: line {reader.line_num} is no CSV ({error})") from None
            pending = 0
            yield cells if cells != [""] else []
