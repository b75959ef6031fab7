"""Tables of a trajectory's references at many times: evaluated from its tape by compiled code, or by NumPy.

The bits are the same. NumPy evaluates functions that cannot be taped, and the first seconds of flight in a process, which take
less time than compiling.
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

WORTH_COMPILING = 5000  # rows: NumPy evaluates as many in the time the compiled code takes to load


class _IdentityKey:
    """A function as a key by identity: trajectories may be unhashable, or compare equal to others."""

    __slots__ = ("function",)

    def __init__(self, function: Function) -> None:
        self.function = function

    def __hash__(self) -> int:
        return id(self.function)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _IdentityKey) and other.function is self.function


class Tables:
    """Fills tables, and caches the compiled code of each function."""

    def __init__(self, worth_compiling: int = WORTH_COMPILING) -> None:
        self.left_to_numpy = worth_compiling
        self._filler = lru_cache(maxsize=4096)(_filler)

    def fill(self, into: Array, function: Function, times: Array) -> None:
        """into[k, i] ← leaf i of function(times[k])"""
        if self.left_to_numpy > 0:
            self.left_to_numpy -= len(times)
            _fill_with_numpy(into, function, times)
        else:
            self._filler(_IdentityKey(function))(into, times)


def _filler(key: _IdentityKey) -> Callable[[Array, Array], None]:
    try:
        program, numbers = taped(key.function)
        fill, constants = tabulator(program), np.array(numbers)
    except Exception:  # a user's function may raise anything when called with a symbol
        return lambda into, times: _fill_with_numpy(into, key.function, times)
    return lambda into, times: fill(into, times, constants)


def _fill_with_numpy(into: Array, function: Function, times: Array) -> None:
    for column, leaf in zip(into.T, flatten(function(times)), strict=True):
        column[:] = leaf
