"""Machine code for traced programs that run in sequence on arrays in memory, step after step, forwards or backwards.

A scan (`scan.py`) has its carry in registers and runs over drones. Here every number is in memory, so that a solver may assign
its SIMD lanes to drones, to the steps of one drone's horizon, or to the columns of a matrix, with the same programs:

    number c, step k, lane l  is element  offsets[c] + k · step_stride + l · lane_stride  of its array

Lane stride 0 is one number for all lanes, 1 is consecutive numbers. Arrays are named; `CompiledLoops.call(table, steps)`
takes the address of a table of their addresses.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, Protocol

import llvmlite.ir as ir
import numpy as np

from samara.compiler.llvm.codegen import (
    INDEX,
    Emitter,
    MachineCode,
    element_type,
    index,
    machine_code,
    new_function,
    new_module,
)
from samara.compiler.trace.program import Program

Bases = Mapping[str, ir.Value]
"""The address of each array by its name."""


class ArraySpec(NamedTuple):
    """The location of numbers: the array, the offset of each number, and the strides of steps and lanes (in numbers)."""

    name: str
    offsets: tuple[int, ...]
    step_stride: int = 0
    lane_stride: int = 0


class Pass(NamedTuple):
    """A program on `width` lanes, with one array for each group of its inputs and of its outputs.

    With `condition`, the location of one number, it runs only if that number is not 0. A pass with `shared` is emitted
    as a function that is shared by all passes of the same program on arrays of the same layout.
    """

    program: Program
    inputs: tuple[ArraySpec, ...]
    outputs: tuple[ArraySpec, ...]
    width: int
    condition: ArraySpec | None = None
    shared: bool = False

    def emit(self, builder: ir.IRBuilder, bases: Bases, k: ir.Value, code: "EmissionTarget") -> None:
        """Emit the code of step k at the builder's position."""
        (_emit_shared_call if self.shared else _emit_pass)(self, builder, bases, k, code)


class LoopElement(Protocol):
    """An element of a loop: a pass, or another object that has arrays and emits code."""

    @property
    def inputs(self) -> tuple[ArraySpec, ...]: ...

    @property
    def outputs(self) -> tuple[ArraySpec, ...]: ...

    def emit(self, builder: ir.IRBuilder, bases: Bases, k: ir.Value, code: "EmissionTarget") -> None: ...


class ArrayLoop(NamedTuple):
    """Passes in sequence for k = 0 … ⌈steps/tile⌉ − 1, or in reverse; or only once, at k = 0 or k = steps."""

    passes: tuple[LoopElement, ...]
    position: str = "each"  # or "start", "end"
    reverse: bool = False
    tile: int = 1


class EmissionTarget(NamedTuple):
    """The target of emission: a module, the number type, and the shared functions of the module."""

    module: ir.Module
    dtype: str
    fast: bool
    functions: dict[Hashable, ir.Function]

    def emitter(self, builder: ir.IRBuilder, width: int) -> Emitter:
        """Create an emitter for programs on `width` lanes."""
        return Emitter(self.module, builder, self.dtype, width, self.fast)


@dataclass(frozen=True, eq=False)
class CompiledLoops:
    """Machine code: `call(table, steps)`, which holds the interpreter lock; the array names; and the engine that owns it."""

    call: Callable[[int, int], int]
    address: int
    names: tuple[str, ...]
    engine: object


def compile_loops(
    loops: tuple[ArrayLoop, ...], dtype: str = "float64", fast: bool = True, optimisation_level: int = 1
) -> CompiledLoops:
    """Compile one function that runs the loops in sequence."""
    module = new_module()
    builder, (table, steps) = new_function(module, "run", [element_type(dtype).as_pointer().as_pointer(), INDEX])
    names = tuple(
        dict.fromkeys(
            array.name
            for loop in loops
            for loop_pass in loop.passes
            for array in (*loop_pass.inputs, *loop_pass.outputs)
            if array.offsets
        )
    )
    bases = {name: builder.load(builder.gep(table, [index(i)])) for i, name in enumerate(names)}
    code = EmissionTarget(module, dtype, fast, {})
    for loop in loops:
        builder = _emit(loop, builder, bases, steps, code)
    builder.ret_void()
    call, address, engine = machine_code(module, "run", optimisation_level, holds_lock=True)
    return CompiledLoops(call, address, names, engine)


Call = tuple[CompiledLoops, int, int]
"""loops.call(table, steps)."""


class CallChain:
    """Several calls as one: a third of a microsecond for all of them."""

    def __init__(self, *calls: Call) -> None:
        self._loops = [loops for loops, _, _ in calls]  # which own the code
        self._list = np.array(
            [*((compiled.address, table, steps) for compiled, table, steps in calls), (0, 0, 0)], np.int64
        )
        self._list_address, self._call = int(self._list.ctypes.data), _chain_code().call

    def __call__(self) -> None:
        self._call(self._list_address)


@cache
def _chain_code() -> MachineCode:
    """Compile call(list) of triples (address of a function, table, steps), up to the address 0."""
    module = new_module()
    builder, (first,) = new_function(module, "run", [INDEX.as_pointer()])
    function_type = ir.FunctionType(ir.VoidType(), [INDEX, INDEX]).as_pointer()
    header, body, done = (builder.append_basic_block(name) for name in ("turn", "body", "done"))
    entry = builder.block
    builder.branch(header)
    builder.position_at_end(header)
    triple = builder.phi(INDEX.as_pointer())
    address, table, steps = (builder.gep(triple, [index(i)]) for i in range(3))
    address = builder.load(address)
    builder.cbranch(builder.icmp_signed("==", address, index(0)), done, body)
    builder.position_at_end(body)
    builder.call(builder.inttoptr(address, function_type), [builder.load(table), builder.load(steps)])
    triple.add_incoming(first, entry)
    triple.add_incoming(builder.gep(triple, [index(3)]), body)
    builder.branch(header)
    builder.position_at_end(done)
    builder.ret_void()
    return machine_code(module, "run", optimisation_level=1, holds_lock=True)


def _emit(loop: ArrayLoop, builder: ir.IRBuilder, bases: Bases, steps: ir.Value, code: EmissionTarget) -> ir.IRBuilder:
    if loop.position != "each":
        k_once = steps if loop.position == "end" else index(0)
        for loop_pass in loop.passes:
            loop_pass.emit(builder, bases, k_once, code)
        return builder
    one, zero, tile = index(1), index(0), index(loop.tile)
    count = builder.sdiv(builder.add(steps, index(loop.tile - 1)), tile)
    entry, body = builder.block, builder.function.append_basic_block("turn")
    after = builder.function.append_basic_block("done")
    builder.cbranch(builder.icmp_signed(">", count, zero), body, after)
    builder = ir.IRBuilder(body)
    iteration = builder.phi(INDEX)
    iteration.add_incoming(zero, entry)
    k = builder.sub(builder.sub(count, one), iteration) if loop.reverse else iteration
    for loop_pass in loop.passes:
        loop_pass.emit(builder, bases, k, code)
    next_iteration = builder.add(iteration, one)
    iteration.add_incoming(next_iteration, builder.block)
    builder.cbranch(builder.icmp_signed("<", next_iteration, count), body, after)
    return ir.IRBuilder(after)


def _emit_pass(loop_pass: Pass, builder: ir.IRBuilder, bases: Bases, k: ir.Value, code: EmissionTarget) -> None:
    after = None
    if loop_pass.condition is not None:
        run, after = (builder.function.append_basic_block(name) for name in ("when", "otherwise"))
        flag = _ArrayAccess(loop_pass.condition, code.emitter(builder, 1), bases, k).load_scalar()
        builder.cbranch(builder.fcmp_unordered("!=", flag, ir.Constant(flag.type, 0.0)), run, after)
        builder.position_at_end(run)
    emitter = code.emitter(builder, loop_pass.width)
    accesses = [_ArrayAccess(access, emitter, bases, k) for access in (*loop_pass.inputs, *loop_pass.outputs)]
    results = emitter.run(loop_pass.program, tuple(accesses[: len(loop_pass.inputs)]))
    for access, values in zip(accesses[len(loop_pass.inputs) :], results, strict=True):
        for c, value in enumerate(values):
            access.store(c, value)
    if after is not None:
        builder.branch(after)
        builder.position_at_end(after)


def _emit_shared_call(loop_pass: Pass, builder: ir.IRBuilder, bases: Bases, k: ir.Value, code: EmissionTarget) -> None:
    """Emit a call with the first element of every array at this step."""
    arrays = (*loop_pass.inputs, *loop_pass.outputs)
    parameters = tuple(_relative_array(array, i) for i, array in enumerate(arrays))
    shared_pass = loop_pass._replace(
        inputs=parameters[: len(loop_pass.inputs)], outputs=parameters[len(loop_pass.inputs) :], shared=False
    )
    function = code.functions.get(shared_pass) or _emit_shared_function(shared_pass, parameters, code)
    code.functions[shared_pass] = function
    used_arrays = [array for array in arrays if array.offsets]
    offsets = (builder.mul(k, index(array.step_stride)) for array in used_arrays)
    first_offsets = (
        builder.add(offset, index(min(loop_pass.offsets)))
        for offset, loop_pass in zip(offsets, used_arrays, strict=True)
    )
    builder.call(
        function,
        [builder.gep(bases[array.name], [offset]) for array, offset in zip(used_arrays, first_offsets, strict=True)],
    )


def _relative_array(array: ArraySpec, argument: int) -> ArraySpec:
    return ArraySpec(
        f"argument{argument}", tuple(offset - min(array.offsets) for offset in array.offsets), 0, array.lane_stride
    )


def _emit_shared_function(loop_pass: Pass, arrays: tuple[ArraySpec, ...], code: EmissionTarget) -> ir.Function:
    used_arrays = [array for array in arrays if array.offsets]
    pointers = [element_type(code.dtype).as_pointer()] * len(used_arrays)
    builder, arguments = new_function(code.module, f"apart{len(code.functions)}", pointers)
    builder.function.linkage = "internal"
    builder.function.attributes.add("noinline")
    bases = {array.name: argument for array, argument in zip(used_arrays, arguments, strict=True)}
    loop_pass.emit(builder, bases, index(0), code)
    builder.ret_void()
    return builder.function


class _ArrayAccess:
    """An array at one step: numbers are loaded on first use and then stay in registers."""

    def __init__(self, array: ArraySpec, emitter: Emitter, bases: Bases, k: ir.Value) -> None:
        self.array, self.emitter, self.builder, self.bytes = array, emitter, emitter.builder, emitter.bytes
        if array.offsets:
            offset = self.builder.mul(k, index(array.step_stride))
            self.base = self.builder.gep(bases[array.name], [offset])

    def _pointer(self, c: int, lane: int = 0) -> ir.Value:
        return self.builder.gep(self.base, [index(self.array.offsets[c] + lane * self.array.lane_stride)])

    def load_scalar(self) -> ir.Value:
        """Load the first number as a scalar."""
        return self.builder.load(self._pointer(0))

    def __getitem__(self, c: int) -> ir.Value:
        builder, vector, width = self.builder, self.emitter.vector, self.emitter.width
        if self.array.lane_stride == 1 or width == 1:
            return builder.load(builder.bitcast(self._pointer(c), vector.as_pointer()), align=self.bytes)
        if self.array.lane_stride == 0:
            return self.emitter.splat(builder.load(self._pointer(c)))
        value = ir.Constant(vector, ir.Undefined)
        for lane in range(width):
            value = builder.insert_element(
                value, builder.load(self._pointer(c, lane)), ir.Constant(ir.IntType(32), lane)
            )
        return value

    def store(self, c: int, value: ir.Value) -> None:
        builder = self.builder
        if self.array.lane_stride == 1 or self.emitter.width == 1:
            builder.store(value, builder.bitcast(self._pointer(c), self.emitter.vector.as_pointer()), align=self.bytes)
            return
        for lane in range(self.emitter.width):
            builder.store(builder.extract_element(value, ir.Constant(ir.IntType(32), lane)), self._pointer(c, lane))
