"""A trajectory's references at many times, as a table: read off its tape by compiled code, or evaluated by NumPy.

The bits are the same. NumPy does it for a function of one's own that cannot be taped, and for the first seconds of flight in
a process, which are over before the code that reads tapes is there.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from samara.backends.llvm_table import tabulator
from samara.backends.tape import taped
from samara.core.tree import flatten

Array = np.ndarray[Any, Any]
Function = Callable[[Any], Any]

WORTH_COMPILING = 5000  # rows: NumPy makes as many while the code that reads tapes is brought up


class _Itself:
    """A function as a key: by what it is, as one that compares or cannot be hashed may be a trajectory too."""

    __slots__ = ("function",)

    def __init__(self, function: Function) -> None:
        self.function = function

    def __hash__(self) -> int:
        return id(self.function)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and other.function is self.function


class Tables:
    """Fills tables, and remembers which functions can be taped and how they are read."""

    def __init__(self, worth_compiling: int = WORTH_COMPILING) -> None:
        self.left_to_numpy = worth_compiling
        self._filler = lru_cache(maxsize=4096)(_filler)

    def fill(self, into: Array, function: Function, times: Array) -> None:
        """into[k, i] ← leaf i of function(times[k])"""
        if self.left_to_numpy > 0:
            self.left_to_numpy -= len(times)
            _by_numpy(into, function, times)
        else:
            self._filler(_Itself(function))(into, times)


def _filler(key: _Itself) -> Callable[[Array, Array], None]:
    try:
        program, numbers = taped(key.function)
        fill, held = tabulator(program), np.array(numbers)
    except Exception:  # whatever a function of one's own may raise when it is given a symbol
        return lambda into, times: _by_numpy(into, key.function, times)
    return lambda into, times: fill(into, times, held)


def _by_numpy(into: Array, function: Function, times: Array) -> None:
    for column, leaf in zip(into.T, flatten(function(times)), strict=True):
        column[:] = leaf
