"""A traced function as machine code on memory of its own: for loops that Python drives and that must not wait for it.

    machine = Code(body, carry, held).machine(n=1)
    machine.held[...] = ...
    machine.run(4)            # carry ← body(carry, held), four times
    machine.carry

`carry` (nc, n) and `held` (nh, n) are arrays of n drones, component first, to be read and written in place; a call costs half a
microsecond and what it computes. The code can be kept and shared, the memory cannot.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from samara.backends.llvm_kernel import Kernel, Shape, scan_kernel, vector_width
from samara.backends.program import program_of
from samara.core.tree import flatten

DTYPE = "float64"
EFFORT = 1  # of LLVM: straight-line code from a trace gains nothing from more, and waits for it


class Code:
    """body(carry, held) → carry of nested tuples, traced; compiled when first asked for. Strict IEEE."""

    def __init__(self, body: Callable[[Any, Any], Any], carry: Any, held: Any) -> None:
        self._program = program_of(lambda c, h: (body(c, h), ()), carry, held)
        self._start = [np.array(flatten(tree), dtype=float) for tree in (carry, held)]
        self._kernels: dict[tuple[bool, int], Kernel] = {}

    def machine(self, n: int = 1) -> "Machine":
        """The code with memory for n drones, filled with the templates' numbers"""
        return Machine(self, n, *(np.repeat(numbers[:, None], n, axis=1) for numbers in self._start))

    def kernel(self, alone: bool, lanes: int) -> Kernel:
        """Machine code for one drone, or for tiles of so many of a batch; the same bits from each"""
        if (alone, lanes) not in self._kernels:
            carry, held = (len(numbers) for numbers in self._start)
            shape = Shape(carry, (alone,) * held, 0, True, 0)
            self._kernels[alone, lanes] = scan_kernel(self._program, shape, DTYPE, lanes, effort=EFFORT)
        return self._kernels[alone, lanes]


class Machine:
    """A code and the memory it works on."""

    def __init__(self, code: Code, n: int, carry: np.ndarray, held: np.ndarray) -> None:
        self.n, self.carry, self.held = n, carry, held
        self._alone = code.kernel(True, 1) if n == 1 else None
        self._call = self._alone.advance_briefly if self._alone else None
        self._at = carry.ctypes.data, held.ctypes.data
        width = vector_width(DTYPE)
        tiles = zip(pairwise((0, n - n % width, n)), (width, 1), strict=True)
        self._parts = [
            (code.kernel(False, lanes), first, last) for (first, last), lanes in tiles if n > 1 and last > first
        ]

    def run(self, steps: int = 1) -> None:
        """carry ← body(carry, held), so many times"""
        if self._call:
            self._call(*self._at, steps)
            return
        carry, held = self._at
        for kernel, first, last in self._parts:
            kernel.call(carry, 0, held, 0, 0, first, last, self.n, steps, steps + 1)
