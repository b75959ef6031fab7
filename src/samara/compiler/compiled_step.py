"""A traced function as machine code on memory of its own: for loops that Python drives and that must not wait for it.

    machine = CompiledStep(body, carry, held).machine(n=1)
    machine.held[...] = ...
    machine.run(4)            # carry ← body(carry, held), four times
    machine.carry

`carry` (nc, n) and `held` (nh, n) are arrays of n drones, component first, to be read and written in place; a call costs half a
microsecond and what it computes; of many drones in several threads. The code can be kept and shared, the memory cannot.
`ScanCode` is the same by the scan of any backend, for flights that are looked at in a debugger; `Alone` is one drone whose
memory is the caller's.
"""

import ctypes
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from struct import Struct
from typing import Any, NamedTuple

import numpy as np

from samara.compiler.llvm.codegen import vector_width
from samara.compiler.llvm.scan import Kernel, Shape, row_kernel, scan_kernel
from samara.compiler.scan import Quiet, Run, Templates
from samara.compiler.thread_pool import shares_of, side_by_side
from samara.compiler.trace.program import Guarded, Program, program_of, program_of_body, work
from samara.compiler.trace.tape_scalar import program_as_written
from samara.core.tree import flatten

DTYPE = "float64"
EFFORT = 1  # of LLVM: straight-line code from a trace gains nothing from more, and waits for it
BRIEF = 100  # steps of one drone, some 10 µs: not worth giving the interpreter lock away for


class Precision(NamedTuple):
    """The type of all numbers, and whether products may be fused with sums and the like."""

    dtype: str = DTYPE
    fast: bool = False


STRICT = Precision()


class CompiledStep:
    """body(carry, held) → carry of nested tuples, traced; compiled when first asked for. Strict IEEE, unless it is `fast`."""

    def __init__(
        self,
        body: Callable[[Any, Any], Any],
        carry: Any,
        held: Any,
        quiet: Quiet | None = None,
        *,
        dtype: str = DTYPE,
        fast: bool = False,
        effort: int = EFFORT,
        as_written: bool = False,
        skip_when: Callable[[Any], Any] | None = None,
    ) -> None:
        """With `as_written` nothing is simplified, and the bits are those that NumPy gives (`tape_scalar.py`). Where
        `skip_when(held)` is true of all drones, a row kernel leaves its outputs as they are."""

        def scanned(own: Any, given: Any, nothing: Any) -> Any:
            return body(own, given), ()

        templates = (carry, held, ())
        self._program = (
            program_as_written(scanned, *templates) if as_written else program_of_body(scanned, templates, quiet)
        )
        self.skip = None if skip_when is None else program_of(lambda own, given: (skip_when(given),), carry, held)
        usual = self._program.quiet if isinstance(self._program, Guarded) else self._program
        self.instructions, self._options = work(usual), (dtype, fast, effort)
        self._start = [np.array(flatten(tree), dtype=float) for tree in (carry, held)]
        self.given = len(self._start[1])
        self._kernels: dict[Any, Any] = {}

    @classmethod
    def of_program(cls, program: Program, carry: np.ndarray, held: np.ndarray) -> "CompiledStep":
        """Compile a traced program that computes `carry` from `held`"""
        step = cls.__new__(cls)
        step._program, step.skip, step.instructions = program, None, work(program)
        step._options, step._start, step.given, step._kernels = (DTYPE, False, EFFORT), [carry, held], len(held), {}
        return step

    @property
    def reads(self) -> list[int]:
        """Which of the held numbers it reads at all"""
        found = {own.place for own in self._program.instructions if own.operation == "input"}
        return sorted(index for group, index in found if group == 1 and index < self.given)

    def machine(self, n: int = 1) -> "Machine":
        """The code with memory for n drones, filled with the templates' numbers"""
        return Machine(self, n, *self.memory(n))

    def memory(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Carry and held of n drones, filled with the templates' numbers"""
        carry, held = (np.repeat(numbers[:, None], n, axis=1) for numbers in self._start)
        return carry, held

    def kernel(self, alone: bool, lanes: int, precision: Precision | None = None) -> Kernel:
        """Machine code for one drone, or for tiles of so many of a batch; the same bits from each. `precision` is its own, or
        another"""
        dtype, fast, effort = self._options
        asked = precision or Precision(dtype, fast)
        if (alone, lanes, asked) not in self._kernels:
            carry, held = (len(numbers) for numbers in self._start)
            shape = Shape(carry, (alone,) * held, 0, True, 0)
            self._kernels[alone, lanes, asked] = scan_kernel(
                self._program, shape, asked.dtype, lanes, asked.fast, effort
            )
        return self._kernels[alone, lanes, asked]

    def lane_constants(self, n: int) -> np.ndarray:
        """The numbers of each of n drones that its code reads beside what is held: (numbers, n)"""
        return np.ascontiguousarray(self.memory(n)[1][self.given :])

    def row_kernel(self, width: int, precision: Precision) -> int:
        """The address of its code on rows anywhere in memory, for so many drones at a time"""
        key = "rows", width, precision, self.skip
        if key not in self._kernels:
            inputs, effort = len(self._start[1]), self._options[2]
            self._kernels[key] = row_kernel(
                self._program, self.skip, inputs, precision.dtype, width, precision.fast, effort
            )
        return int(self._kernels[key].get_function_address("stage"))


class Machine:
    """A code and the memory it works on."""

    def __init__(self, code: CompiledStep, n: int, carry: np.ndarray, held: np.ndarray) -> None:
        self.n, self.carry, self.held = n, carry, held[: code.given]
        self._alone = code.kernel(True, 1) if n == 1 else None
        self._call = self._alone.advance_briefly if self._alone else None
        self._at = carry.ctypes.data, held.ctypes.data
        self._code, self._memory = code, held
        self._shares = {1: self._split(1)}

    def scan(self, width: int, precision: Precision) -> int:
        """For a schedule: the address of the code for so many lanes"""
        kernel = self._code.kernel(self.n == 1, width, precision)
        return int(kernel.engine.get_function_address("scan"))

    def run(self, steps: int = 1) -> None:
        """carry ← body(carry, held), so many times"""
        if self._call:
            self._call(*self._at, steps)
            return
        shares = shares_of(self.n // vector_width(DTYPE) * steps * self._code.instructions)
        if shares == 1:
            self._advance(self._shares[1][0], steps)
            return
        if shares not in self._shares:
            self._shares[shares] = self._split(shares)
        side_by_side([partial(self._advance, parts, steps) for parts in self._shares[shares]])

    def _advance(self, parts: list[tuple[Kernel, int, int]], steps: int) -> None:
        carry, held = self._at
        for kernel, first, last in parts:
            kernel.call(carry, 0, held, 0, 0, first, last, self.n, steps, steps + 1)

    def _split(self, shares: int) -> list[list[tuple[Kernel, int, int]]]:
        """For each share the code of some drones: whole tiles, and in the first also those that fill none"""
        n, width = self.n, vector_width(DTYPE)
        tiles = n // width
        parts = [
            [(self._code.kernel(False, width), width * first, width * last)] if n > 1 and last > first else []
            for first, last in pairwise(tiles * i // shares for i in range(shares + 1))
        ]
        if n > 1 and n % width:
            parts[0].append((self._code.kernel(False, 1), width * tiles, n))
        return parts


class ScanCode:
    """Any backend's scan of held numbers, with the interface of `CompiledStep`; one drone at a time where that is asked for."""

    def __init__(self, scan: Run, templates: Templates, *, one_by_one: bool = False) -> None:
        self.scan, self.one_by_one = scan, one_by_one
        self._start = [np.array(flatten(tree), dtype=float) for tree in templates[:2]]

    def machine(self, n: int = 1) -> "ScanMachine":
        """The code with memory for n drones, filled with the templates' numbers"""
        return ScanMachine(self, n, *(np.repeat(numbers[:, None], n, axis=1) for numbers in self._start))


class ScanMachine:
    """A scan and the memory it works on."""

    def __init__(self, code: ScanCode, n: int, carry: np.ndarray, held: np.ndarray) -> None:
        self.n, self.carry, self.held = n, carry, held
        self._scan = code.scan
        self._lanes = [slice(k, k + 1) for k in range(n)] if code.one_by_one else [slice(n)]

    def run(self, steps: int = 1) -> None:
        """carry ← body(carry, held), so many times"""
        for lanes in self._lanes:
            after, _ = self._scan(self.carry[:, lanes], list(self.held[:, lanes]), None, steps)
            self.carry[:, lanes] = np.asarray(after)


class Alone(NamedTuple):
    """The way of one drone without NumPy: bytes in, bytes out, about a microsecond. The kernel keeps the code alive."""

    pack_state: Callable[..., bytes]
    unpack_state: Callable[[Any], tuple[float, ...]]
    pack_held: Callable[..., bytes]
    view: Any
    advance: Callable[[Any, bytes, int], None]
    components: int
    kernel: Kernel


def alone(
    body: Callable[[Any, Any], Any],
    carry: Any,
    held: Any,
    quiet: Quiet | None = None,
    *,
    dtype: str,
    fast: bool = False,
) -> Alone:
    """A single drone under held numbers: `advance(view.from_buffer(buffer), pack_held(*held), steps)`"""
    kernel = CompiledStep(body, carry, held, quiet, dtype=dtype, fast=fast, effort=3).kernel(True, 1)
    letter, size = ("d", 8) if dtype == "float64" else ("f", 4)
    components = len(flatten(carry))
    state, numbers = Struct(f"{components}{letter}"), Struct(f"{len(flatten(held))}{letter}")
    view = ctypes.c_char * (components * size)
    briefly, at_length = kernel.advance_briefly, kernel.advance

    def advance(carry_view: Any, held_bytes: bytes, steps: int) -> None:
        if steps < BRIEF:
            briefly(carry_view, held_bytes, steps)
        else:
            at_length(carry_view, held_bytes, steps)

    return Alone(state.pack, state.unpack, numbers.pack, view, advance, components, kernel)
