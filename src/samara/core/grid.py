"""A constant table, read by index: the heights of a map, the parameters of many solids.

Read it with `samara.core.ops.lookup`. A trace keeps the read as one instruction (`samara.compiler.trace.program`),
compiled code as a
load, and a kernel of a GPU reads the table from memory.
"""

from typing import Any

import numpy as np


class Grid:
    """An immutable table of shape (rows, columns); hashable, and equal to a grid with the same numbers."""

    __slots__ = ("_hash", "values")

    def __init__(self, values: Any) -> None:
        table = np.array(values, dtype=float)
        if table.ndim != 2 or not table.size:
            raise ValueError(f"Grid has the shape {table.shape}; expected (rows, columns), neither of them 0")
        table.setflags(write=False)
        self.values = table
        self._hash = hash((table.shape, table.tobytes()))

    def __reduce__(self) -> Any:
        return Grid, (self.values,)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Grid)
            and self._hash == other._hash
            and self.values.shape == other.values.shape
            and self.values.tobytes() == other.values.tobytes()
        )

    def at(self, i: Any, j: Any) -> Any:
        """The entry at indices that are floats or NumPy arrays: rounded down and clamped to the borders"""
        rows, columns = self.values.shape
        if isinstance(i, float) and isinstance(j, float):
            return float(self.values[_index(i, rows), _index(j, columns)])
        return self.values[_indices(i, rows), _indices(j, columns)]


def _index(x: float, count: int) -> int:
    return int(min(x, count - 1.0)) if x > 0.0 else 0


def _indices(x: Any, count: int) -> Any:
    if isinstance(x, float):
        return _index(x, count)
    return np.minimum(np.where(x > 0.0, x, 0.0), count - 1.0).astype(np.intp)
