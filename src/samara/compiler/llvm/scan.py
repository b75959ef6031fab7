"""The scan as machine code: a kernel that runs a program in a loop.

A kernel runs a scan over tiles of W drones; the carry stays in registers from the first step to the last.
"""

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import llvmlite.binding as llvm
import llvmlite.ir as ir
import numpy as np

from samara.compiler.llvm.codegen import (
    INDEX,
    Emitter,
    align_stack,
    byte_size,
    compile_engine,
    element_type,
    emit_assembly,
    index,
    load_vector,
    new_function,
    new_module,
    splat,
    store_vector,
    vector_width,
)
from samara.compiler.scan import CompiledScan, IdlePath, Templates
from samara.compiler.thread_pool import parallel_task_count, run_parallel
from samara.compiler.trace.folding_tape import trace_body
from samara.compiler.trace.program import GuardedProgram, Program
from samara.core.quantity import Scalar
from samara.core.tree import Tree, flatten


class Kernel(NamedTuple):
    """Machine code of a scan at one width, and the engine that owns it. `call` and `advance` release the interpreter lock."""

    call: Callable[..., None]
    advance: Callable[..., None]
    advance_with_lock: Callable[..., None]
    width: int
    source: str
    optimisation_level: int
    engine: llvm.ExecutionEngine

    @property
    def assembly(self) -> str:
        """The machine code as assembly text, compiled again on each access."""
        return emit_assembly(self.source, self.optimisation_level)


class ScanShape(NamedTuple):
    """Component counts of a scan's carry, per-step inputs and outputs; for each held input and for the inputs whether they are
    shared by all drones (uniform)."""

    carry: int
    held_uniform: tuple[bool, ...]
    inputs: int
    inputs_uniform: bool
    outputs: int


def scan_kernel(
    program: Program | GuardedProgram,
    shape: ScanShape,
    dtype: str,
    width: int,
    fast: bool = False,
    optimisation_level: int = 3,
) -> Kernel:
    """for tile: carry ← memory; for k < steps: carry, out ← body(carry, held, inputs[k]); memory ← carry.

    Arrays are component-first: carry (nc, n), varying held inputs (nv, n), inputs (steps, ni, n) or (steps, ni), outputs
    (steps // every, no, n). `first` and `last` are drones; a tile is `width` of them. `optimisation_level` is LLVM's
    optimisation level: a loop needs loop-invariant code motion, straight-line code from a trace gains little.
    """
    module = new_module()
    element = element_type(dtype)
    pointer = element.as_pointer()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [pointer] * 5 + [INDEX] * 5), "scan")
    carry_p, uniform_p, varying_p, inputs_p, outputs_p, first, last, n, steps, every = function.args
    for argument in function.args[:5]:
        argument.add_attribute("noalias")
    align_stack(function)
    names = ("entry", "tile", "step", *(("record",) if shape.outputs else ()), "next", "store", "exit")
    blocks = {name: function.append_basic_block(name) for name in names}
    one, zero = index(1), index(0)
    vector = ir.VectorType(element, width)

    def load(builder: ir.IRBuilder, base: ir.Value, offset: ir.Value) -> ir.Value:
        return load_vector(builder, base, offset, vector)

    def load_splat(builder: ir.IRBuilder, base: ir.Value, offset: ir.Value) -> ir.Value:
        return splat(builder, builder.load(builder.gep(base, [offset])), width)

    def row(builder: ir.IRBuilder, k: int, drone: ir.Value) -> ir.Value:
        return builder.add(builder.mul(n, index(k)), drone)

    builder = ir.IRBuilder(blocks["entry"])
    uniform = iter(load_splat(builder, uniform_p, index(k)) for k in range(sum(shape.held_uniform)))
    held_splat = [next(uniform) if is_uniform else None for is_uniform in shape.held_uniform]
    builder.cbranch(builder.icmp_signed("<", first, last), blocks["tile"], blocks["exit"])

    builder = ir.IRBuilder(blocks["tile"])
    drone = builder.phi(INDEX)
    drone.add_incoming(first, blocks["entry"])
    start = [load(builder, carry_p, row(builder, k, drone)) for k in range(shape.carry)]
    varying_rows = iter(range(len(shape.held_uniform)))
    held_inputs = [
        uniform_value
        if uniform_value is not None
        else load(builder, varying_p, row(builder, next(varying_rows), drone))
        for uniform_value in held_splat
    ]
    builder.cbranch(builder.icmp_signed(">", steps, zero), blocks["step"], blocks["store"])

    builder = ir.IRBuilder(blocks["step"])
    step = builder.phi(INDEX)
    step.add_incoming(zero, blocks["tile"])
    until_record = builder.phi(INDEX)
    until_record.add_incoming(every, blocks["tile"])
    output_row = builder.phi(INDEX)
    output_row.add_incoming(zero, blocks["tile"])
    carry = []
    for value in start:
        phi = builder.phi(vector)
        phi.add_incoming(value, blocks["tile"])
        carry.append(phi)
    input_row = builder.mul(step, index(shape.inputs))
    inputs = []
    for k in range(shape.inputs):
        offset = builder.add(input_row, index(k))
        inputs.append(
            load_splat(builder, inputs_p, offset)
            if shape.inputs_uniform
            else load(builder, inputs_p, builder.add(builder.mul(offset, n), drone))
        )
    emitter = Emitter(module, builder, dtype, width, fast)
    next_carry, outputs = emitter.run(program, (carry, held_inputs, inputs))
    body_end, next_output_row, next_until_record = builder.block, output_row, until_record
    if not shape.outputs:
        builder.branch(blocks["next"])
        builder = ir.IRBuilder(blocks["next"])
    else:
        remaining = builder.sub(until_record, one)
        builder.cbranch(builder.icmp_signed("==", remaining, zero), blocks["record"], blocks["next"])
        builder = ir.IRBuilder(blocks["record"])
        for k, value in enumerate(outputs):
            offset = builder.add(builder.mul(output_row, index(shape.outputs)), index(k))
            store_vector(builder, value, outputs_p, builder.add(builder.mul(offset, n), drone))
        following_row = builder.add(output_row, one)
        builder.branch(blocks["next"])

        builder = ir.IRBuilder(blocks["next"])
        next_output_row, next_until_record = builder.phi(INDEX), builder.phi(INDEX)
        for phi, unchanged, recorded in (
            (next_output_row, output_row, following_row),
            (next_until_record, remaining, every),
        ):
            phi.add_incoming(unchanged, body_end)
            phi.add_incoming(recorded, blocks["record"])
    next_step = builder.add(step, one)
    step.add_incoming(next_step, blocks["next"])
    until_record.add_incoming(next_until_record, blocks["next"])
    output_row.add_incoming(next_output_row, blocks["next"])
    for phi, value in zip(carry, next_carry, strict=True):
        phi.add_incoming(value, blocks["next"])
    builder.cbranch(builder.icmp_signed("<", next_step, steps), blocks["step"], blocks["store"])

    builder = ir.IRBuilder(blocks["store"])
    for k, (initial, updated) in enumerate(zip(start, next_carry, strict=True)):
        final = builder.phi(vector)
        final.add_incoming(initial, blocks["tile"])
        final.add_incoming(updated, blocks["next"])
        next_carry[k] = final
    for k, final in enumerate(next_carry):
        store_vector(builder, final, carry_p, row(builder, k, drone))
    next_drone = builder.add(drone, index(width))
    drone.add_incoming(next_drone, blocks["store"])
    builder.cbranch(builder.icmp_signed("<", next_drone, last), blocks["tile"], blocks["exit"])
    ir.IRBuilder(blocks["exit"]).ret_void()
    _add_single_entry(module, function, pointer)
    return _machine_code(str(module), width, optimisation_level)


def _add_single_entry(module: ir.Module, scan: ir.Function, pointer: ir.Type) -> None:
    """Add advance(carry, held, steps) for one drone with uniform held inputs: three arguments to convert instead of ten."""
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [pointer, pointer, INDEX]), "advance")
    carry, held_inputs, steps = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    null, zero, one = ir.Constant(pointer, None), index(0), index(1)
    never_record = builder.add(steps, one)
    builder.call(scan, [carry, held_inputs, null, null, null, zero, one, one, steps, never_record])
    builder.ret_void()


def _machine_code(source: str, width: int, optimisation_level: int) -> Kernel:
    engine = compile_engine(source, optimisation_level)
    prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5, *[ctypes.c_int64] * 5)
    advance_types = None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64
    return Kernel(
        prototype(engine.get_function_address("scan")),
        ctypes.CFUNCTYPE(*advance_types)(engine.get_function_address("advance")),
        ctypes.PYFUNCTYPE(*advance_types)(engine.get_function_address("advance")),
        width,
        source,
        optimisation_level,
        engine,
    )


def row_kernel(
    program: Program | GuardedProgram,
    skip: Program | None,
    inputs: int,
    dtype: str,
    width: int,
    fast: bool,
    optimisation_level: int,
) -> llvm.ExecutionEngine:
    """Compile stage(rows, lane): outputs ← program(inputs) for `width` drones; `rows` has the address of each component's row.

    Every input is loaded before the first output is stored, so a row may be both. If `skip` is true for all drones, nothing is
    computed. Returns the engine with the function "stage".
    """
    module = new_module()
    element_bytes, vector = byte_size(element_type(dtype)), ir.VectorType(element_type(dtype), width)
    builder, (rows, lane) = new_function(module, "stage", [INDEX.as_pointer(), INDEX])
    exit_block = builder.append_basic_block("exit")
    offset = builder.mul(lane, index(element_bytes))

    def row_pointer(k: int) -> ir.Value:
        address = builder.add(builder.load(builder.gep(rows, [index(k)])), offset)
        return builder.inttoptr(address, vector.as_pointer())

    emitter = Emitter(module, builder, dtype, width, fast)
    if skip is not None:
        body = builder.append_basic_block("body")
        input_indices = {
            instruction.location[1] for instruction in skip.instructions if instruction.operation == "input"
        }
        skip_inputs = {k: builder.load(row_pointer(k), align=element_bytes) for k in sorted(input_indices)}
        ((condition,),) = emitter.run(skip, ((), skip_inputs))
        builder.cbranch(emitter.all_lanes(condition), exit_block, body)
        builder.position_at_end(body)
    input_indices = {
        instruction.location[1] for instruction in program.instructions if instruction.operation == "input"
    }
    values = {k: builder.load(row_pointer(k), align=element_bytes) for k in sorted(input_indices)}
    outputs = emitter.run(program, ((), values))[0]
    for k, value in enumerate(outputs):
        builder.store(value, row_pointer(inputs + k), align=element_bytes)
    builder.branch(exit_block)
    ir.IRBuilder(exit_block).ret_void()
    return compile_engine(str(module), optimisation_level)


def compile_scan_llvm(
    body: Callable[[Tree, Tree, Tree], tuple[Tree, Tree]],
    templates: Templates,
    idle_path: IdlePath | None = None,
    *,
    dtype: str,
    fast: bool = False,
    threads: int | None = None,
) -> CompiledScan:
    """Trace a scan and compile it to vector code."""
    program = trace_body(body, templates, idle_path)
    sizes = [len(flatten(template)) for template in templates]
    return compile_scan_program(program, sizes, dtype=dtype, fast=fast, threads=threads)


def compile_scan_program(
    program: Program | GuardedProgram,
    sizes: Sequence[int],
    *,
    dtype: str,
    fast: bool = False,
    threads: int | None = None,
) -> CompiledScan:
    """Compile a program with input groups (carry, held, inputs) of these sizes and output groups (carry, outputs) to a scan.

    Full tiles run at the widest registers, the remaining drones one at a time. A kernel is compiled for each combination of
    uniform and per-drone held inputs, on first use.
    """
    outputs = len(program.outputs[1])
    width = vector_width(dtype)
    kernels: dict[tuple[tuple[bool, ...], bool, int], Kernel] = {}

    def kernel(uniform: tuple[bool, ...], inputs_uniform: bool, width: int) -> Kernel:
        key = (uniform, inputs_uniform, width)
        if key not in kernels:
            shape = ScanShape(sizes[0], uniform, sizes[2], inputs_uniform, outputs)
            kernels[key] = scan_kernel(program, shape, dtype, width, fast)
        return kernels[key]

    def run(carry: Tree, held_inputs: Sequence[Scalar], inputs: Tree, steps: int, every: int = 1) -> tuple[Tree, Tree]:
        n = carry.shape[1]
        uniform = tuple(np.ndim(value) == 0 for value in held_inputs)
        uniform_values = np.array(
            [value for value, is_uniform in zip(held_inputs, uniform, strict=True) if is_uniform], dtype=dtype
        )
        varying_values = np.array(
            [value for value, is_uniform in zip(held_inputs, uniform, strict=True) if not is_uniform], dtype=dtype
        )
        inputs_uniform = inputs is None or np.ndim(inputs) == 2
        if carry.dtype != dtype or not carry.flags.carray or carry.shape[0] != sizes[0]:
            raise ValueError(
                f"carry has shape {carry.shape}, dtype {carry.dtype.str}; expected ({sizes[0]}, N), {dtype}, by rows, writable"
            )
        if (varying_values.size and varying_values.shape[1] != n) or not (inputs_uniform or np.shape(inputs)[2] == n):
            raise ValueError(
                f"held inputs and inputs that differ between drones must have length {n}, the batch size of the carry"
            )
        input_array = np.ascontiguousarray(inputs, dtype=dtype) if inputs is not None else uniform_values
        recorded = np.empty((steps // every, outputs, n), dtype=dtype)
        pointers = [array.ctypes.data for array in (carry, uniform_values, varying_values, input_array, recorded)]
        tiles = n // width
        tiled_count = width * tiles

        def run_drones(first: int, last: int, width: int) -> None:
            kernel(uniform, inputs_uniform, width).call(*pointers, first, last, n, steps, every)

        if tiled_count:
            kernel(uniform, inputs_uniform, width)
            shares = parallel_task_count(tiles * steps * len(program.instructions), threads)
            bounds = [width * (tiles * i // shares) for i in range(shares + 1)]
            run_parallel([partial(run_drones, first, last, width) for first, last in pairwise(bounds)])
        if n > tiled_count:
            run_drones(tiled_count, n, 1)
        return carry, recorded

    return run


def compile_program(
    program: Program, sizes: list[int], *, dtype: str = "float64", fast: bool = False
) -> Callable[[Sequence[float]], Scalar]:
    """Compile call(numbers) → the first output group, for one drone: the program alone, without a loop."""
    locations = [(group, index) for group, size in enumerate(sizes) for index in range(size)]
    flat_index = {location: k for k, location in enumerate(locations)}
    flat_program = program._replace(
        instructions=tuple(
            instruction._replace(location=(1, flat_index[instruction.location]))
            if instruction.operation == "input"
            else instruction
            for instruction in program.instructions
        ),
        outputs=((), program.outputs[0]),
    )
    count = len(program.outputs[0])
    kernel = scan_kernel(
        flat_program, ScanShape(0, (True,) * len(locations), 0, True, count), dtype, 1, fast, optimisation_level=0
    )

    def call(numbers: Sequence[float]) -> Scalar:
        arguments, results = np.array(numbers, dtype=dtype), np.empty(count, dtype=dtype)
        kernel.call(0, arguments.ctypes.data, 0, 0, results.ctypes.data, 0, 1, 1, 1, 1)
        return results

    return call
