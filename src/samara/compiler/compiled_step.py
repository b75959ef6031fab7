"""A traced function as machine code with its own memory, for loops driven from Python with little overhead per call.

    machine = CompiledStep(body, carry, held_inputs).machine(n=1)
    machine.held_inputs[...] = ...
    machine.run(4)            # carry ← body(carry, held_inputs), four times
    machine.carry

`carry` (nc, n) and `held_inputs` (nh, n) are arrays of n drones, component first, read and written in place. A call
costs half a microsecond plus the computation; large batches run in several threads. The code can be cached and shared,
the memory cannot. `ScanCode` has the same interface on the scan of any backend, for flights in a debugger;
`SingleDroneCode` is one drone whose memory belongs to the caller.
"""

import ctypes
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from struct import Struct
from typing import Any, NamedTuple

import numpy as np

from samara.compiler.llvm.codegen import vector_width
from samara.compiler.llvm.scan import Kernel, ScanShape, row_kernel, scan_kernel
from samara.compiler.scan import CompiledScan, IdlePath, Templates
from samara.compiler.thread_pool import parallel_task_count, run_parallel
from samara.compiler.trace.folding_tape import trace_body, trace_program
from samara.compiler.trace.program import GuardedProgram, Program, instruction_count
from samara.core.tree import flatten

DTYPE = "float64"
OPTIMISATION_LEVEL = (
    1  # LLVM's level: straight-line code from a trace gains nothing from a higher one, which compiles more slowly
)
MAX_LOCKED_STEPS = 100  # steps of one drone, about 10 µs: releasing the interpreter lock would cost more


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
        idle_path: IdlePath | None = None,
        *,
        dtype: str = DTYPE,
        fast: bool = False,
        optimisation_level: int = OPTIMISATION_LEVEL,
        skip_when: Callable[[Any], Any] | None = None,
    ) -> None:
        """Trace the body; if `skip_when(held_inputs)` is true for all drones, a row kernel leaves its outputs unchanged."""

        def scan_body(state: Any, constants: Any, no_inputs: Any) -> Any:
            return body(state, constants), ()

        self._program = trace_body(scan_body, (carry, held_inputs, ()), idle_path)
        self.skip = (
            None
            if skip_when is None
            else trace_program(lambda state, constants: (skip_when(constants),), carry, held_inputs)
        )
        common_path = self._program.idle_path if isinstance(self._program, GuardedProgram) else self._program
        self.instructions, self._options = instruction_count(common_path), (dtype, fast, optimisation_level)
        self._initial_values = [np.array(flatten(tree), dtype=float) for tree in (carry, held_inputs)]
        self.held_count = len(self._initial_values[1])
        self._kernels: dict[Any, Any] = {}

    @classmethod
    def from_program(cls, program: Program, carry: np.ndarray, held_inputs: np.ndarray) -> "CompiledStep":
        """Compile a traced program that computes `carry` from `held_inputs`."""
        step = cls.__new__(cls)
        step._program, step.skip, step.instructions = program, None, instruction_count(program)
        step._options, step._initial_values, step.held_count, step._kernels = (
            (DTYPE, False, OPTIMISATION_LEVEL),
            [carry, held_inputs],
            len(held_inputs),
            {},
        )
        return step

    @property
    def used_held_inputs(self) -> list[int]:
        """Indices of the held inputs that the program reads."""
        locations = {
            instruction.location for instruction in self._program.instructions if instruction.operation == "input"
        }
        return sorted(index for group, index in locations if group == 1 and index < self.held_count)

    def machine(self, n: int = 1) -> "Machine":
        """Return the code with memory for n drones, filled with the values of the templates."""
        return Machine(self, n, *self.memory(n))

    def memory(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Allocate carry and held inputs of n drones, filled with the values of the templates."""
        carry, held_inputs = (np.repeat(numbers[:, None], n, axis=1) for numbers in self._initial_values)
        return carry, held_inputs

    def kernel(self, is_single: bool, lanes: int, precision: Precision | None = None) -> Kernel:
        """Return machine code for one drone, or for tiles of `lanes` drones of a batch; both give the same bits.

        `precision` defaults to that of the step.
        """
        dtype, fast, effort = self._options
        requested = precision or Precision(dtype, fast)
        if (is_single, lanes, requested) not in self._kernels:
            carry, held_inputs = (len(numbers) for numbers in self._initial_values)
            shape = ScanShape(carry, (is_single,) * held_inputs, 0, True, 0)
            self._kernels[is_single, lanes, requested] = scan_kernel(
                self._program, shape, requested.dtype, lanes, requested.fast, effort
            )
        return self._kernels[is_single, lanes, requested]

    def lane_constants(self, n: int) -> np.ndarray:
        """Return the per-drone constants that the code reads after the held inputs: (constants, n)."""
        return np.ascontiguousarray(self.memory(n)[1][self.held_count :])

    def row_kernel(self, width: int, precision: Precision) -> int:
        """Return the address of the code on rows anywhere in memory, for `width` drones at a time."""
        key = "rows", width, precision, self.skip
        if key not in self._kernels:
            inputs, effort = len(self._initial_values[1]), self._options[2]
            self._kernels[key] = row_kernel(
                self._program, self.skip, inputs, precision.dtype, width, precision.fast, effort
            )
        return int(self._kernels[key].get_function_address("stage"))


class Machine:
    """Compiled code and the memory it works on."""

    def __init__(self, code: CompiledStep, n: int, carry: np.ndarray, held_inputs: np.ndarray) -> None:
        self.n, self.carry, self.held_inputs = n, carry, held_inputs[: code.held_count]
        self._single_kernel = code.kernel(True, 1) if n == 1 else None
        self._call = self._single_kernel.advance_with_lock if self._single_kernel else None
        self._addresses = carry.ctypes.data, held_inputs.ctypes.data
        self._code, self._memory = code, held_inputs
        self._partitions = {1: self._partition(1)}

    def scan(self, width: int, precision: Precision) -> int:
        """Return the address of the code for `width` lanes, for a flight loop."""
        kernel = self._code.kernel(self.n == 1, width, precision)
        return int(kernel.engine.get_function_address("scan"))

    def run(self, steps: int = 1) -> None:
        """carry ← body(carry, held), `steps` times."""
        if self._call:
            self._call(*self._addresses, steps)
            return
        shares = parallel_task_count(self.n // vector_width(DTYPE) * steps * self._code.instructions)
        if shares == 1:
            self._advance(self._partitions[1][0], steps)
            return
        if shares not in self._partitions:
            self._partitions[shares] = self._partition(shares)
        run_parallel([partial(self._advance, parts, steps) for parts in self._partitions[shares]])

    def _advance(self, parts: list[tuple[Kernel, int, int]], steps: int) -> None:
        carry, held_inputs = self._addresses
        for kernel, first, last in parts:
            kernel.call(carry, 0, held_inputs, 0, 0, first, last, self.n, steps, steps + 1)

    def _partition(self, shares: int) -> list[list[tuple[Kernel, int, int]]]:
        """Return the kernels and drones of each share: full vector tiles and, in the first share, also the remainder."""
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

    def __init__(self, scan: CompiledScan, templates: Templates, *, one_by_one: bool = False) -> None:
        self.scan, self.one_by_one = scan, one_by_one
        self._start = [np.array(flatten(tree), dtype=float) for tree in templates[:2]]

    def machine(self, n: int = 1) -> "ScanMachine":
        """Return the scan with memory for n drones, filled with the values of the templates."""
        return ScanMachine(self, n, *(np.repeat(numbers[:, None], n, axis=1) for numbers in self._start))


class ScanMachine:
    """A scan and the memory it works on."""

    def __init__(self, code: ScanCode, n: int, carry: np.ndarray, held_inputs: np.ndarray) -> None:
        self.n, self.carry, self.held_inputs = n, carry, held_inputs
        self._scan = code.scan
        self._slices = [slice(k, k + 1) for k in range(n)] if code.one_by_one else [slice(n)]

    def run(self, steps: int = 1) -> None:
        """carry ← body(carry, held), `steps` times."""
        for drones in self._slices:
            next_carry, _ = self._scan(self.carry[:, drones], list(self.held_inputs[:, drones]), None, steps)
            self.carry[:, drones] = np.asarray(next_carry)


class SingleDroneCode(NamedTuple):
    """Code for one drone without NumPy: bytes in, bytes out, about a microsecond. `kernel` owns the code."""

    pack_state: Callable[..., bytes]
    unpack_state: Callable[[Any], tuple[float, ...]]
    pack_held_inputs: Callable[..., bytes]
    view: Any
    advance: Callable[[Any, bytes, int], None]
    components: int
    kernel: Kernel


def compile_single_drone(
    body: Callable[[Any, Any], Any],
    carry: Any,
    held_inputs: Any,
    quiet: IdlePath | None = None,
    *,
    dtype: str,
    fast: bool = False,
) -> SingleDroneCode:
    """Compile the code of a single drone: `advance(view.from_buffer(buffer), pack_held_inputs(*held_inputs), steps)`."""
    kernel = CompiledStep(body, carry, held_inputs, quiet, dtype=dtype, fast=fast, optimisation_level=3).kernel(True, 1)
    type_code, size = ("d", 8) if dtype == "float64" else ("f", 4)
    components = len(flatten(carry))
    state_format, held_format = Struct(f"{components}{type_code}"), Struct(f"{len(flatten(held_inputs))}{type_code}")
    view = ctypes.c_char * (components * size)
    advance_with_lock, advance_without_lock = kernel.advance_with_lock, kernel.advance

    def advance(carry_view: Any, held_bytes: bytes, steps: int) -> None:
        if steps < MAX_LOCKED_STEPS:
            advance_with_lock(carry_view, held_bytes, steps)
        else:
            advance_without_lock(carry_view, held_bytes, steps)

    return SingleDroneCode(state_format.pack, state_format.unpack, held_format.pack, view, advance, components, kernel)
