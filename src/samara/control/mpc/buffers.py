"""The memory of a solver: arrays of numbers, where each is in them, and tables of their addresses for machine code."""

from typing import Any, NamedTuple

import numpy as np

from samara.compiler.llvm.array_loop import ArraySpec, Loops
from samara.core.types import Array

LANES = 8  # step sizes tried at once, and steps of the horizon linearised at once


def span(start: int, count: int, apart: int = 1) -> tuple[int, ...]:
    """So many places from a first one, so far apart"""
    return tuple(start + apart * i for i in range(count))


class Rows(NamedTuple):
    """An array (steps, `row`, `width`): the numbers of a step, each in every lane. With `lane` 0 all lanes read the first."""

    name: str
    row: int
    width: int = 1
    lane: int = 0

    def _places(self, count: int, first: int, later: int) -> tuple[int, ...]:
        return span((first + later * self.row) * self.width, count, self.width)

    def at(self, count: int, first: int = 0, later: int = 0) -> ArraySpec:
        """`count` numbers of a step, from the first; so many steps later"""
        return ArraySpec(self.name, self._places(count, first, later), self.row * self.width, self.lane)

    def tiled(self, count: int, first: int = 0, later: int = 0) -> ArraySpec:
        """The same with a step of the horizon in each lane"""
        step = self.row * self.width
        return ArraySpec(self.name, self._places(count, first, later), LANES * step, step)

    def once(self, count: int = 1, first: int = 0) -> ArraySpec:
        """The same numbers at every step"""
        return ArraySpec(self.name, self._places(count, first, 0), 0, self.lane)


def shared(name: str, count: int = 1) -> ArraySpec:
    """Numbers that are the same for every step and lane"""
    return Rows(name, count).once(count)


def aligned(*shape: int, dtype: str = "float64") -> Array:
    """Zeros that begin where a cache line does"""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + 64, dtype=np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size].view(dtype).reshape(shape)


class Memory:
    """Arrays of zeros by name, and tables of the addresses that machine code asks for."""

    def __init__(self, dtype: str = "float64", **shapes: int | tuple[int, ...]) -> None:
        self.arrays = {
            name: aligned(*((shape,) if isinstance(shape, int) else shape), dtype=dtype)
            for name, shape in shapes.items()
        }
        self._kept: list[Any] = []  # the machine code keeps addresses only

    def __getitem__(self, name: str) -> Array:
        return self.arrays[name]

    def beside(self, **others: Array) -> "Memory":
        """The same arrays, and others; the tables made of it live as long as it does"""
        both = Memory()
        both.arrays = {**self.arrays, **others}
        return both

    def table(self, loops: Loops, **instead: Array) -> int:
        """The address of a table for these loops, with some arrays instead of those of the same name, or beside them"""
        arrays = {**self.arrays, **instead}
        table = np.array([arrays[name].ctypes.data for name in loops.names], dtype=np.int64)
        self._kept.append((table, instead))
        return int(table.ctypes.data)
