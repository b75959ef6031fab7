"""A traced function as machine code with its own memory, for loops driven from Python with little overhead per call.

    machine = CompiledStep(body, carry, held).machine(n=1)
    machine.held[...] = ...
    machine.run(4)            # carry ← body(carry, held), four times
    machine.carry

`carry` (nc, n) and `held` (nh, n) are arrays of n drones, component first, read and written in place. A call costs half a
microsecond plus the computation; large batches run in several threads. The code can be cached and shared, the memory cannot.
`ScanCode` has the same interface on the scan of any backend, for flights in a debugger; `Alone` is one drone whose memory
belongs to the caller.
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
EFFORT = 1  # of LLVM: straight-line code from a trace gains nothing from a higher level, which compiles more slowly
BRIEF = 100  # steps of one drone, about 10 µs: releasing the interpreter lock would cost more


class Precision(NamedTuple):
    """The floating-point type, and whether operations such as products and sums may be fused."""

    dtype: str = DTYPE
    fast: bool = False


STRICT = Precision()


class CompiledStep:
    """body(carry, held) → carry of nested tuples, traced; compiled on first use. Strict IEEE arithmetic unless `fast`."""

    def __init__(
        self,
        body: Callable[[Any, Any], Any],
        carry: Any,
        held_inputs: Any,
        quiet: Quiet | None = None,
        *,
        dtype: str = DTYPE,
        fast: bool = False,
        effort: int = EFFORT,
        as_written: bool = False,
        skip_when: Callable[[Any], Any] | None = None,
    ) -> None:
        """Trace the body.

        With `as_written` nothing is simplified, and results are bit-identical to NumPy's (`tape_scalar.py`). If
        `skip_when(held)` is true for all drones, a row kernel leaves its outputs unchanged.
        """

        def scan_body(state: Any, constants: Any, no_inputs: Any) -> Any:
            return body(state, constants), ()

        templates = (carry, held_inputs, ())
        self._program = (
            program_as_written(scan_body, *templates) if as_written else program_of_body(scan_body, templates, quiet)
        )
        self.skip = (
            None
            if skip_when is None
            else program_of(lambda state, constants: (skip_when(constants),), carry, held_inputs)
        )
        common_path = self._program.quiet if isinstance(self._program, Guarded) else self._program
        self.instructions, self._options = work(common_path), (dtype, fast, effort)
        self._start = [np.array(flatten(tree), dtype=float) for tree in (carry, held_inputs)]
        self.given = len(self._start[1])
        self._kernels: dict[Any, Any] = {}

    @classmethod
    def of_program(cls, program: Program, carry: np.ndarray, held_inputs: np.ndarray) -> "CompiledStep":
        """Compile a traced program that computes `carry` from `held`."""
        step = cls.__new__(cls)
        step._program, step.skip, step.instructions = program, None, work(program)
        step._options, step._start, step.given, step._kernels = (
            (DTYPE, False, EFFORT),
            [carry, held_inputs],
            len(held_inputs),
            {},
        )
        return step

    @property
    def reads(self) -> list[int]:
        """Indices of the held inputs that the program reads."""
        locations = {
            instruction.place for instruction in self._program.instructions if instruction.operation == "input"
        }
        return sorted(index for group, index in locations if group == 1 and index < self.given)

    def machine(self, n: int = 1) -> "Machine":
        """Return the code with memory for n drones, filled with the values of the templates."""
        return Machine(self, n, *self.memory(n))

    def memory(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Allocate carry and held inputs of n drones, filled with the values of the templates."""
        carry, held_inputs = (np.repeat(numbers[:, None], n, axis=1) for numbers in self._start)
        return carry, held_inputs

    def kernel(self, is_single: bool, lanes: int, precision: Precision | None = None) -> Kernel:
        """Return machine code for one drone, or for tiles of `lanes` drones of a batch; both give the same bits.

        `precision` defaults to that of the step.
        """
        dtype, fast, effort = self._options
        requested = precision or Precision(dtype, fast)
        if (is_single, lanes, requested) not in self._kernels:
            carry, held_inputs = (len(numbers) for numbers in self._start)
            shape = Shape(carry, (is_single,) * held_inputs, 0, True, 0)
            self._kernels[is_single, lanes, requested] = scan_kernel(
                self._program, shape, requested.dtype, lanes, requested.fast, effort
            )
        return self._kernels[is_single, lanes, requested]

    def lane_constants(self, n: int) -> np.ndarray:
        """Return the per-drone constants that the code reads after the held inputs: (constants, n)."""
        return np.ascontiguousarray(self.memory(n)[1][self.given :])

    def row_kernel(self, width: int, precision: Precision) -> int:
        """Return the address of the code on rows anywhere in memory, for `width` drones at a time."""
        key = "rows", width, precision, self.skip
        if key not in self._kernels:
            inputs, effort = len(self._start[1]), self._options[2]
            self._kernels[key] = row_kernel(
                self._program, self.skip, inputs, precision.dtype, width, precision.fast, effort
            )
        return int(self._kernels[key].get_function_address("stage"))


class Machine:
    """Compiled code and the memory it works on."""

    def __init__(self, code: CompiledStep, n: int, carry: np.ndarray, held_inputs: np.ndarray) -> None:
        self.n, self.carry, self.held = n, carry, held_inputs[: code.given]
        self._alone = code.kernel(True, 1) if n == 1 else None
        self._call = self._alone.advance_briefly if self._alone else None
        self._at = carry.ctypes.data, held_inputs.ctypes.data
        self._code, self._memory = code, held_inputs
        self._shares = {1: self._split(1)}

    def scan(self, width: int, precision: Precision) -> int:
        """Return the address of the code for `width` lanes, for a flight loop."""
        kernel = self._code.kernel(self.n == 1, width, precision)
        return int(kernel.engine.get_function_address("scan"))

    def run(self, steps: int = 1) -> None:
        """carry ← body(carry, held), `steps` times."""
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
        carry, held_inputs = self._at
        for kernel, first, last in parts:
            kernel.call(carry, 0, held_inputs, 0, 0, first, last, self.n, steps, steps + 1)

    def _split(self, shares: int) -> list[list[tuple[Kernel, int, int]]]:
        """Return for each share its kernels and drones: full vector tiles, and in the first share also the remainder."""
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
    """The scan of any backend with the interface of `CompiledStep`; `one_by_one` runs it for one drone at a time."""

    def __init__(self, scan: Run, templates: Templates, *, one_by_one: bool = False) -> None:
        self.scan, self.one_by_one = scan, one_by_one
        self._start = [np.array(flatten(tree), dtype=float) for tree in templates[:2]]

    def machine(self, n: int = 1) -> "ScanMachine":
        """Return the scan with memory for n drones, filled with the values of the templates."""
        return ScanMachine(self, n, *(np.repeat(numbers[:, None], n, axis=1) for numbers in self._start))


class ScanMachine:
    """A scan and the memory it works on."""

    def __init__(self, code: ScanCode, n: int, carry: np.ndarray, held_inputs: np.ndarray) -> None:
        self.n, self.carry, self.held = n, carry, held_inputs
        self._scan = code.scan
        self._lanes = [slice(k, k + 1) for k in range(n)] if code.one_by_one else [slice(n)]

    def run(self, steps: int = 1) -> None:
        """carry ← body(carry, held), `steps` times."""
        for drones in self._lanes:
            next_carry, _ = self._scan(self.carry[:, drones], list(self.held[:, drones]), None, steps)
            self.carry[:, drones] = np.asarray(next_carry)


class Alone(NamedTuple):
    """Code for one drone without NumPy: bytes in, bytes out, about a microsecond. `kernel` owns the code."""

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
    held_inputs: Any,
    quiet: Quiet | None = None,
    *,
    dtype: str,
    fast: bool = False,
) -> Alone:
    """Compile the code of a single drone: `advance(view.from_buffer(buffer), pack_held(*held), steps)`."""
    kernel = CompiledStep(body, carry, held_inputs, quiet, dtype=dtype, fast=fast, effort=3).kernel(True, 1)
    type_code, size = ("d", 8) if dtype == "float64" else ("f", 4)
    components = len(flatten(carry))
    state_format, held_format = Struct(f"{components}{type_code}"), Struct(f"{len(flatten(held_inputs))}{type_code}")
    view = ctypes.c_char * (components * size)
    advance_with_lock, advance_without_lock = kernel.advance_briefly, kernel.advance

    def advance(carry_view: Any, held_bytes: bytes, steps: int) -> None:
        if steps < BRIEF:
            advance_with_lock(carry_view, held_bytes, steps)
        else:
            advance_without_lock(carry_view, held_bytes, steps)

    return Alone(state_format.pack, state_format.unpack, held_format.pack, view, advance, components, kernel)
