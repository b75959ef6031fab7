"""The scan as machine code: a kernel over a program.

A kernel runs a scan over tiles of W drones: the carry stays in registers from the first step to the last.
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
    assembly_of,
    bytes_of,
    element_type,
    engine_of,
    index,
    load_vector,
    new_function,
    new_module,
    splat,
    store_vector,
    vector_width,
)
from samara.compiler.scan import Quiet, Run, Templates
from samara.compiler.thread_pool import shares_of, side_by_side
from samara.compiler.trace.program import Guarded, Program, program_of_body
from samara.core.quantity import Scalar
from samara.core.tree import Tree, flatten


class Kernel(NamedTuple):
    """Machine code of a scan at one width, and what keeps it alive. `call` and `advance` release the interpreter lock."""

    call: Callable[..., None]
    advance: Callable[..., None]
    advance_briefly: Callable[..., None]
    width: int
    source: str
    effort: int
    engine: llvm.ExecutionEngine

    @property
    def assembly(self) -> str:
        """The machine code as text, made again for whoever wants to read it."""
        return assembly_of(self.source, self.effort)


class Shape(NamedTuple):
    """How many scalars a scan's carry, held values, per-step inputs and outputs have; which of the held and whether the
    inputs are the same for all drones."""

    carry: int
    held_uniform: tuple[bool, ...]
    inputs: int
    inputs_uniform: bool
    outputs: int


def scan_kernel(
    program: Program | Guarded, shape: Shape, dtype: str, width: int, fast: bool = False, effort: int = 3
) -> Kernel:
    """for tile: carry ← memory; for k < steps: carry, out ← body(carry, held, inputs[k]); memory ← carry

    Arrays are component-first: carry (nc, n), varying held values (nv, n), inputs (steps, ni, n) or (steps, ni), outputs
    (steps // every, no, n). `first` and `last` are drones; a tile is `width` of them. `effort` is LLVM's optimisation level:
    a loop needs its invariants moved out, straight-line code from a trace has little left to gain.
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

    def load(builder: ir.IRBuilder, base: ir.Value, at: ir.Value) -> ir.Value:
        return load_vector(builder, base, at, vector)

    def repeated(builder: ir.IRBuilder, base: ir.Value, at: ir.Value) -> ir.Value:
        return splat(builder, builder.load(builder.gep(base, [at])), width)

    def row(builder: ir.IRBuilder, k: int, drone: ir.Value) -> ir.Value:
        return builder.add(builder.mul(n, index(k)), drone)

    builder = ir.IRBuilder(blocks["entry"])
    uniform = iter(repeated(builder, uniform_p, index(k)) for k in range(sum(shape.held_uniform)))
    held_splat = [next(uniform) if same else None for same in shape.held_uniform]
    builder.cbranch(builder.icmp_signed("<", first, last), blocks["tile"], blocks["exit"])

    builder = ir.IRBuilder(blocks["tile"])
    drone = builder.phi(INDEX)
    drone.add_incoming(first, blocks["entry"])
    start = [load(builder, carry_p, row(builder, k, drone)) for k in range(shape.carry)]
    places = iter(range(len(shape.held_uniform)))
    held = [
        own if own is not None else load(builder, varying_p, row(builder, next(places), drone)) for own in held_splat
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
        kept = builder.phi(vector)
        kept.add_incoming(value, blocks["tile"])
        carry.append(kept)
    input_row = builder.mul(step, index(shape.inputs))
    inputs = []
    for k in range(shape.inputs):
        at = builder.add(input_row, index(k))
        inputs.append(
            repeated(builder, inputs_p, at)
            if shape.inputs_uniform
            else load(builder, inputs_p, builder.add(builder.mul(at, n), drone))
        )
    emitter = Emitter(module, builder, dtype, width, fast)
    advanced, outputs = emitter.run(program, (carry, held, inputs))
    computed, row_now, left_now = builder.block, output_row, until_record
    if not shape.outputs:
        builder.branch(blocks["next"])
        builder = ir.IRBuilder(blocks["next"])
    else:
        left = builder.sub(until_record, one)
        builder.cbranch(builder.icmp_signed("==", left, zero), blocks["record"], blocks["next"])
        builder = ir.IRBuilder(blocks["record"])
        for k, value in enumerate(outputs):
            at = builder.add(builder.mul(output_row, index(shape.outputs)), index(k))
            store_vector(builder, value, outputs_p, builder.add(builder.mul(at, n), drone))
        following_row = builder.add(output_row, one)
        builder.branch(blocks["next"])

        builder = ir.IRBuilder(blocks["next"])
        row_now, left_now = builder.phi(INDEX), builder.phi(INDEX)
        for kept, passed, recorded in ((row_now, output_row, following_row), (left_now, left, every)):
            kept.add_incoming(passed, computed)
            kept.add_incoming(recorded, blocks["record"])
    following = builder.add(step, one)
    step.add_incoming(following, blocks["next"])
    until_record.add_incoming(left_now, blocks["next"])
    output_row.add_incoming(row_now, blocks["next"])
    for kept, value in zip(carry, advanced, strict=True):
        kept.add_incoming(value, blocks["next"])
    builder.cbranch(builder.icmp_signed("<", following, steps), blocks["step"], blocks["store"])

    builder = ir.IRBuilder(blocks["store"])
    for k, (before, after) in enumerate(zip(start, advanced, strict=True)):
        final = builder.phi(vector)
        final.add_incoming(before, blocks["tile"])
        final.add_incoming(after, blocks["next"])
        advanced[k] = final
    for k, final in enumerate(advanced):
        store_vector(builder, final, carry_p, row(builder, k, drone))
    next_drone = builder.add(drone, index(width))
    drone.add_incoming(next_drone, blocks["store"])
    builder.cbranch(builder.icmp_signed("<", next_drone, last), blocks["tile"], blocks["exit"])
    ir.IRBuilder(blocks["exit"]).ret_void()
    _add_single_entry(module, function, pointer)
    return _machine_code(str(module), width, effort)


def _add_single_entry(module: ir.Module, scan: ir.Function, pointer: ir.Type) -> None:
    """advance(carry, held, steps): one drone under held numbers, with three arguments instead of ten to convert."""
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [pointer, pointer, INDEX]), "advance")
    carry, held, steps = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    nowhere, zero, one = ir.Constant(pointer, None), index(0), index(1)
    past_the_end = builder.add(steps, one)
    builder.call(scan, [carry, held, nowhere, nowhere, nowhere, zero, one, one, steps, past_the_end])
    builder.ret_void()


def _machine_code(source: str, width: int, effort: int) -> Kernel:
    engine = engine_of(source, effort)
    prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5, *[ctypes.c_int64] * 5)
    kinds = None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64
    return Kernel(
        prototype(engine.get_function_address("scan")),
        ctypes.CFUNCTYPE(*kinds)(engine.get_function_address("advance")),
        ctypes.PYFUNCTYPE(*kinds)(engine.get_function_address("advance")),
        width,
        source,
        effort,
        engine,
    )


def row_kernel(
    program: Program | Guarded, skip: Program | None, inputs: int, dtype: str, width: int, fast: bool, effort: int
) -> llvm.ExecutionEngine:
    """stage(rows, lane): outputs ← program(inputs) for `width` drones, each number in the row its address in `rows` names

    Every input is loaded before the first output is stored, so a row may be both. Where `skip` is true of all drones nothing
    is computed. Returns the engine, whose function "stage" it is.
    """
    module = new_module()
    bytes_per, vector = bytes_of(element_type(dtype)), ir.VectorType(element_type(dtype), width)
    builder, (rows, lane) = new_function(module, "stage", [INDEX.as_pointer(), INDEX])
    exit_block = builder.append_basic_block("exit")
    offset = builder.mul(lane, index(bytes_per))

    def place(k: int) -> ir.Value:
        address = builder.add(builder.load(builder.gep(rows, [index(k)])), offset)
        return builder.inttoptr(address, vector.as_pointer())

    emitter = Emitter(module, builder, dtype, width, fast)
    if skip is not None:
        body = builder.append_basic_block("body")
        used = {own.place[1] for own in skip.instructions if own.operation == "input"}
        known = {k: builder.load(place(k), align=bytes_per) for k in sorted(used)}
        ((condition,),) = emitter.run(skip, ((), known))
        builder.cbranch(emitter.all_lanes(condition), exit_block, body)
        builder.position_at_end(body)
    used = {own.place[1] for own in program.instructions if own.operation == "input"}
    values = {k: builder.load(place(k), align=bytes_per) for k in sorted(used)}
    outputs = emitter.run(program, ((), values))[0]
    for k, value in enumerate(outputs):
        builder.store(value, place(inputs + k), align=bytes_per)
    builder.branch(exit_block)
    ir.IRBuilder(exit_block).ret_void()
    return engine_of(str(module), effort)


def compile_scan_llvm(
    body: Callable[[Tree, Tree, Tree], tuple[Tree, Tree]],
    templates: Templates,
    quiet: Quiet | None = None,
    *,
    dtype: str,
    fast: bool = False,
    threads: int | None = None,
) -> Run:
    """The scan as vector code, traced"""
    program = program_of_body(body, templates, quiet)
    sizes = [len(flatten(template)) for template in templates]
    return compile_scan_program(program, sizes, dtype=dtype, fast=fast, threads=threads)


def compile_scan_program(
    program: Program | Guarded, sizes: Sequence[int], *, dtype: str, fast: bool = False, threads: int | None = None
) -> Run:
    """A program with input groups (carry, held, inputs) of these sizes and output groups (carry, outputs), as vector code:
    full tiles at the widest registers, what is left over one drone at a time

    A kernel is built for each pattern of held values that are one number or one per drone, when first met.
    """
    outputs = len(program.outputs[1])
    width = vector_width(dtype)
    kernels: dict[tuple[tuple[bool, ...], bool, int], Kernel] = {}

    def kernel(uniform: tuple[bool, ...], inputs_uniform: bool, width: int) -> Kernel:
        key = (uniform, inputs_uniform, width)
        if key not in kernels:
            shape = Shape(sizes[0], uniform, sizes[2], inputs_uniform, outputs)
            kernels[key] = scan_kernel(program, shape, dtype, width, fast)
        return kernels[key]

    def run(carry: Tree, held: Sequence[Scalar], inputs: Tree, steps: int, every: int = 1) -> tuple[Tree, Tree]:
        n = carry.shape[1]
        uniform = tuple(np.ndim(value) == 0 for value in held)
        same = np.array([value for value, one in zip(held, uniform, strict=True) if one], dtype=dtype)
        own = np.array([value for value, one in zip(held, uniform, strict=True) if not one], dtype=dtype)
        inputs_uniform = inputs is None or np.ndim(inputs) == 2
        if carry.dtype != dtype or not carry.flags.carray or carry.shape[0] != sizes[0]:
            raise ValueError(
                f"carry has shape {carry.shape}, dtype {carry.dtype.str}; expected ({sizes[0]}, N), {dtype}, by rows, writable"
            )
        if (own.size and own.shape[1] != n) or not (inputs_uniform or np.shape(inputs)[2] == n):
            raise ValueError(
                f"held values and inputs of their own for each drone must have length {n}, as the state has"
            )
        given = np.ascontiguousarray(inputs, dtype=dtype) if inputs is not None else same
        recorded = np.empty((steps // every, outputs, n), dtype=dtype)
        pointers = [array.ctypes.data for array in (carry, same, own, given, recorded)]
        tiles = n // width
        whole = width * tiles

        def part(first: int, last: int, width: int) -> None:
            kernel(uniform, inputs_uniform, width).call(*pointers, first, last, n, steps, every)

        if whole:
            kernel(uniform, inputs_uniform, width)
            shares = shares_of(tiles * steps * len(program.instructions), threads)
            cuts = [width * (tiles * i // shares) for i in range(shares + 1)]
            side_by_side([partial(part, first, last, width) for first, last in pairwise(cuts)])
        if n > whole:
            part(whole, n, 1)
        return carry, recorded

    return run


def compile_program(
    program: Program, sizes: list[int], *, dtype: str = "float64", fast: bool = False
) -> Callable[[Sequence[float]], Scalar]:
    """call(numbers) → the first output group, for one drone: the program alone, without a loop"""
    places = [(group, index) for group, size in enumerate(sizes) for index in range(size)]
    at = {place: k for k, place in enumerate(places)}
    flat = program._replace(
        instructions=tuple(
            own._replace(place=(1, at[own.place])) if own.operation == "input" else own for own in program.instructions
        ),
        outputs=((), program.outputs[0]),
    )
    count = len(program.outputs[0])
    kernel = scan_kernel(flat, Shape(0, (True,) * len(places), 0, True, count), dtype, 1, fast, effort=0)

    def call(numbers: Sequence[float]) -> Scalar:
        given, results = np.array(numbers, dtype=dtype), np.empty(count, dtype=dtype)
        kernel.call(0, given.ctypes.data, 0, 0, results.ctypes.data, 0, 1, 1, 1, 1)
        return results

    return call
