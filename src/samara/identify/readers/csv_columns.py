"""Columns of a CSV by name, gzipped or not."""

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from samara.core.packed import text_inside
from samara.core.printable import shown
from samara.identify.log import Signal

MOST = 256 << 20  # bytes: a day of flight at 100 Hz

Array = np.ndarray[Any, Any]


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
    return next(_lines(text_inside(path, MOST), path), [])


def read_columns(path: Path, names: Sequence[str], expected: str) -> Columns:
    """These columns; ValueError naming the file and the column or the line where one is missing or not a number"""
    lines = _lines(text_inside(path, MOST), path)
    heading: list[str] = next(lines, [])
    missing = [name for name in names if heading.count(name) != 1]
    if missing:
        what = "has more than one" if missing[0] in heading else "has no"
        raise ValueError(f"{path}: {what} column {shown(missing[0])}; expected {expected}")
    places = [heading.index(name) for name in names]
    rows = []
    for number, line in enumerate(lines, start=2):
        try:
            rows.append([float(line[place] or math.nan) for place in places])
        except (ValueError, IndexError):
            raise ValueError(f"{path}: line {number} is not a row of numbers; expected one for each column") from None
    table = np.array(rows, dtype=float).reshape(len(rows), len(places)).T
    there = ~np.isnan(table)
    if not there.all():
        lines = _lines(text_inside(path, MOST), path)
        next(lines)
        there = np.array([[line[place] != "" for place in places] for line in lines]).T
    return Columns(tuple(names), table, there)


def _lines(text: str, path: Path) -> Any:
    """Its rows of cells; blank lines at the end are none"""
    reader = csv.reader(text.rstrip().splitlines())
    while True:
        try:
            yield [cell.strip() for cell in next(reader)]
        except StopIteration:
            return
        except csv.Error as error:
            raise ValueError(f"{path}: line {reader.line_num} is no CSV ({error})") from None
