"""The scan as machine code: a kernel over a program.

A kernel runs a scan over tiles of W drones: the carry stays in registers from the first step to the last.
"""

import ctypes
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import llvmlite.ir as ir

from samara.compiler.llvm.blocks import INDEX
from samara.compiler.llvm.codegen import Emitter, align_stack, assembly_of, engine_of
from samara.compiler.trace.program import Guarded, Program


class Kernel(NamedTuple):
    """Machine code of a scan at one width, and what keeps it alive. `call` and `advance` release the interpreter lock."""

    call: Any
    advance: Any
    advance_briefly: Any
    width: int
    source: str
    effort: int
    engine: Any

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
    module = ir.Module(name="samara")
    module.triple = llvm.get_default_triple()
    element = ir.DoubleType() if dtype == "float64" else ir.FloatType()
    pointer = element.as_pointer()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [pointer] * 5 + [INDEX] * 5), "scan")
    carry_p, uniform_p, varying_p, inputs_p, outputs_p, first, last, n, steps, every = function.args
    for argument in function.args[:5]:
        argument.add_attribute("noalias")
    align_stack(function)
    names = ("entry", "tile", "step", *(("record",) if shape.outputs else ()), "next", "store", "exit")
    blocks = {name: function.append_basic_block(name) for name in names}
    one, zero = ir.Constant(INDEX, 1), ir.Constant(INDEX, 0)
    bytes_per = 8 if dtype == "float64" else 4
    vector = ir.VectorType(element, width)

    def load(builder: ir.IRBuilder, base: Any, index: Any) -> Any:
        at = builder.gep(base, [index])
        return builder.load(builder.bitcast(at, vector.as_pointer()), align=bytes_per)

    def store(builder: ir.IRBuilder, value: Any, base: Any, index: Any) -> None:
        at = builder.gep(base, [index])
        builder.store(value, builder.bitcast(at, vector.as_pointer()), align=bytes_per)

    def splat(builder: ir.IRBuilder, base: Any, index: Any) -> Any:
        scalar = builder.load(builder.gep(base, [index]))
        lone = builder.insert_element(ir.Constant(vector, ir.Undefined), scalar, ir.Constant(ir.IntType(32), 0))
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), width), [0] * width)
        return builder.shuffle_vector(lone, ir.Constant(vector, ir.Undefined), lanes)

    def row(builder: ir.IRBuilder, k: int, drone: Any) -> Any:
        return builder.add(builder.mul(n, ir.Constant(INDEX, k)), drone)

    builder = ir.IRBuilder(blocks["entry"])
    uniform = iter(splat(builder, uniform_p, ir.Constant(INDEX, k)) for k in range(sum(shape.held_uniform)))
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
    input_row = builder.mul(step, ir.Constant(INDEX, shape.inputs))
    inputs = []
    for k in range(shape.inputs):
        at = builder.add(input_row, ir.Constant(INDEX, k))
        inputs.append(
            splat(builder, inputs_p, at)
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
            at = builder.add(builder.mul(output_row, ir.Constant(INDEX, shape.outputs)), ir.Constant(INDEX, k))
            store(builder, value, outputs_p, builder.add(builder.mul(at, n), drone))
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
        store(builder, final, carry_p, row(builder, k, drone))
    next_drone = builder.add(drone, ir.Constant(INDEX, width))
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
    nowhere, zero, one = ir.Constant(pointer, None), ir.Constant(INDEX, 0), ir.Constant(INDEX, 1)
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
) -> Any:
    """stage(rows, lane): outputs ← program(inputs) for `width` drones, each number in the row its address in `rows` names

    Every input is loaded before the first output is stored, so a row may be both. Where `skip` is true of all drones nothing
    is computed. Returns the engine, whose function "stage" it is.
    """
    module = ir.Module(name="samara")
    module.triple = llvm.get_default_triple()
    element = ir.DoubleType() if dtype == "float64" else ir.FloatType()
    bytes_per = 8 if dtype == "float64" else 4
    vector = ir.VectorType(element, width)
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [INDEX.as_pointer(), INDEX]), "stage")
    align_stack(function)
    rows, lane = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    exit_block = function.append_basic_block("exit")
    offset = builder.mul(lane, ir.Constant(INDEX, bytes_per))

    def place(k: int) -> Any:
        address = builder.add(builder.load(builder.gep(rows, [ir.Constant(INDEX, k)])), offset)
        return builder.inttoptr(address, vector.as_pointer())

    emitter = Emitter(module, builder, dtype, width, fast)
    if skip is not None:
        body = function.append_basic_block("body")
        used = {own.place[1] for own in skip.instructions if own.operation == "input"}
        known = {k: builder.load(place(k), align=bytes_per) for k in sorted(used)}
        ((condition,),) = emitter.run(skip, ((), known))  # type: ignore[arg-type]
        builder.cbranch(emitter._all(condition), exit_block, body)
        builder.position_at_end(body)
    used = {own.place[1] for own in program.instructions if own.operation == "input"}
    values = {k: builder.load(place(k), align=bytes_per) for k in sorted(used)}
    outputs = emitter.run(program, ((), values))[0]  # type: ignore[arg-type]
    for k, value in enumerate(outputs):
        builder.store(value, place(inputs + k), align=bytes_per)
    builder.branch(exit_block)
    ir.IRBuilder(exit_block).ret_void()
    return engine_of(str(module), effort)
