"""Images as machine code: a list of kernels runs over each row of an image, with the pixels of a row in the SIMD lanes.

    kernel = image_kernel(program, varying=3, stores=("f64", "u8"))
    entries = np.array([(kernel.address, varied, stride, row_step, fixed, arrays, spans)])
    run_rows(entries, first_row, last_row)          # for each row: each entry, over its span of columns

A program has three groups of inputs: `varied` numbers, which may differ between rows, `fixed` numbers, and those of the
pixels. The intermediate results of a row stay in the first-level cache until the last entry of the list has used them.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import llvmlite.binding as llvm
import llvmlite.ir as ir

from samara.compiler.llvm.codegen import (
    BYTE,
    DOUBLE,
    FLOAT,
    INDEX,
    INT32,
    Emitter,
    MachineCode,
    compile_engine,
    index,
    machine_code,
    new_function,
    new_module,
    splat,
    vector_width,
)
from samara.compiler.llvm.math import Vector
from samara.compiler.trace.program import Program
from samara.core.random import byte_normal_lanes, philox
from samara.core.types import Array

ENTRY_FIELDS = ("kernel", "varied", "stride", "row_step", "fixed", "arrays", "spans")
"""Of an entry, 64-bit integers: the address of the kernel; of its first varied number, with the bytes between these numbers and
between those of two rows; of the fixed numbers; of the pairs (address, bytes between rows) of the pixels' inputs and outputs;
of the spans, the first and last column of each row in 32 bits."""
STORES: dict[str, tuple[int, ir.Type]] = {
    "f64": (1, DOUBLE),
    "f32": (1, FLOAT),
    "u16": (1, ir.IntType(16)),
    "u8": (1, BYTE),
    "rgb8": (3, BYTE),
}
"""The types of an output in memory: the count of numbers of a pixel, and their type."""
_ARGUMENTS = ("varied", "stride", "fixed", "arrays", "row", "first", "last")
_LEVEL = 2


class ImageKernel(NamedTuple):
    """Machine code of a program over the pixels of a row, and the engine that owns it."""

    address: int
    engine: llvm.ExecutionEngine


def padded(columns: int) -> int:
    """Return the columns of a row in memory: full vectors."""
    return -(-columns // vector_width("float64")) * vector_width("float64")


def image_kernel(program: Program, varying: int, stores: Sequence[str]) -> ImageKernel:
    """Compile outputs ← program(varied, fixed, pixels) for the pixels of a row.

    Args:
        program: with the input groups varied, fixed and pixels, and one group of outputs.
        varying: count of the pixels' inputs, of type double.
        stores: the type of each output in `STORES`; "rgb8" takes three numbers.
    """
    module, builder, arguments = _new_kernel()
    width = vector_width("float64")
    vector = ir.VectorType(DOUBLE, width)
    used = {i.location for i in program.instructions if i.operation == "input"}

    def uniform(group: int, k: int) -> ir.Value:
        if group == 0:
            address = builder.add(arguments["varied"], builder.mul(arguments["stride"], index(k)))
        else:
            address = builder.add(arguments["fixed"], index(8 * k))
        return splat(builder, builder.load(builder.inttoptr(address, DOUBLE.as_pointer())), width)

    uniforms = {location: uniform(*location) for location in sorted(used) if location[0] < 2}
    groups = [{k: value for (g, k), value in uniforms.items() if g == group} for group in (0, 1)]
    rows = [_row_address(builder, arguments, k) for k in range(varying + len(stores))]

    def body(column: ir.Value) -> None:
        def pointer(k: int, size: int, kind: ir.Type) -> ir.Value:
            return builder.inttoptr(builder.add(rows[k], builder.mul(column, index(size))), kind.as_pointer())

        pixels = {k: builder.load(pointer(k, 8, vector), align=8) for g, k in sorted(used) if g == 2}
        values = Emitter(module, builder, "float64", width, fast=False).run(program, (*groups, pixels))[0]
        first = 0
        for k, store in enumerate(stores, varying):
            count, kind = STORES[store]
            value = _narrow(builder, values[first : first + count], kind)
            size = count * _bytes(kind)
            builder.store(value, pointer(k, size, value.type), align=1)
            first += count

    _for_columns(builder, arguments, width, body)
    engine = compile_engine(str(module), _LEVEL)
    return ImageKernel(engine.get_function_address("kernel"), engine)


@cache
def noise_kernel(channels: int) -> ImageKernel:
    """Compile a kernel that draws `samara.core.random.byte_normals`: channel c of pixel k has word c of block k.

    Its fixed numbers are 64-bit integers: two words of the key, the drone, two words of the tick, the columns of the image.
    """
    module, builder, arguments = _new_kernel()
    width = vector_width("float64")
    vector, integers = ir.VectorType(DOUBLE, width), ir.VectorType(INDEX, width)
    numbers = [_load(builder, arguments["fixed"], 8 * k) for k in range(6)]
    key0, key1, drone, low, high = (Vector(builder, splat(builder, number, width)) for number in numbers[:5])
    rows = [_row_address(builder, arguments, k) for k in range(channels)]
    row_start = builder.mul(arguments["row"], numbers[5])
    ramp = ir.Constant(integers, list(range(width)))

    def body(column: ir.Value) -> None:
        block = builder.add(splat(builder, builder.add(row_start, column), width), ramp)
        words = philox((Vector(builder, block), drone, low, high), (key0, key1))
        for target, word in zip(rows, words, strict=False):
            pointer = builder.inttoptr(builder.add(target, builder.mul(column, index(8))), vector.as_pointer())
            builder.store(byte_normal_lanes(word).value, pointer, align=8)

    _for_columns(builder, arguments, width, body)
    engine = compile_engine(str(module), _LEVEL)
    return ImageKernel(engine.get_function_address("kernel"), engine)


def run_rows(entries: Array, first_row: int, last_row: int) -> None:
    """Run all entries (entries, fields) over each row; it releases the interpreter lock."""
    _driver().call(entries.ctypes.data, len(entries), first_row, last_row)


@cache
def _driver() -> MachineCode:
    """Compile rows(entries, count, first_row, last_row)."""
    module = new_module()
    builder, (entries, count, first_row, last_row) = new_function(module, "rows", [INDEX] * 4)
    kernel_type = ir.FunctionType(ir.VoidType(), [INDEX] * len(_ARGUMENTS)).as_pointer()

    def run_entry(row: ir.Value, k: ir.Value) -> None:
        address = builder.add(entries, builder.mul(k, index(8 * len(ENTRY_FIELDS))))
        kernel, varied, stride, row_step, fixed, arrays, spans = (
            _load(builder, address, 8 * i) for i in range(len(ENTRY_FIELDS))
        )
        span = builder.add(spans, builder.mul(row, index(8)))
        first, last = (builder.sext(_load(builder, span, 4 * i, INT32), INDEX) for i in range(2))
        with builder.if_then(builder.icmp_signed("<", first, last)):
            varied = builder.add(varied, builder.mul(row, row_step))
            function = builder.inttoptr(kernel, kernel_type)
            builder.call(function, [varied, stride, fixed, arrays, row, first, last])

    _range_loop(
        builder,
        first_row,
        last_row,
        1,
        lambda row: _range_loop(builder, index(0), count, 1, lambda k: run_entry(row, k)),
    )
    builder.ret_void()
    return machine_code(module, "rows", _LEVEL)


def _new_kernel() -> tuple[ir.Module, ir.IRBuilder, dict[str, ir.Value]]:
    module = new_module()
    builder, arguments = new_function(module, "kernel", [INDEX] * len(_ARGUMENTS))
    return module, builder, dict(zip(_ARGUMENTS, arguments, strict=True))


def _load(builder: ir.IRBuilder, address: ir.Value, offset: int, kind: ir.Type = INDEX) -> ir.Value:
    return builder.load(builder.inttoptr(builder.add(address, index(offset)), kind.as_pointer()))


def _row_address(builder: ir.IRBuilder, arguments: dict[str, ir.Value], k: int) -> ir.Value:
    """Return the address of this row of the k-th array."""
    start, step = (_load(builder, arguments["arrays"], 16 * k + offset) for offset in (0, 8))
    return builder.add(start, builder.mul(step, arguments["row"]))


def _bytes(kind: ir.Type) -> int:
    return kind.width // 8 if isinstance(kind, ir.IntType) else 8 if kind == DOUBLE else 4


def _narrow(builder: ir.IRBuilder, values: Sequence[ir.Value], kind: ir.Type) -> ir.Value:
    """Convert vectors of doubles to a vector of another type, interleaved if there are several."""
    width = values[0].type.count
    if kind == DOUBLE:
        return values[0]
    if kind == FLOAT:
        return builder.fptrunc(values[0], ir.VectorType(FLOAT, width))
    wide = [builder.fptosi(value, ir.VectorType(INT32, width)) for value in values]
    narrow = [builder.trunc(value, ir.VectorType(kind, width)) for value in wide]
    if len(narrow) == 1:
        return narrow[0]
    red, green, blue = narrow
    mask = ir.VectorType(INT32, 2 * width)
    pair = builder.shuffle_vector(red, green, ir.Constant(mask, list(range(2 * width))))
    third = builder.shuffle_vector(blue, blue, ir.Constant(mask, list(range(2 * width))))
    order = [channel * width + k for k in range(width) for channel in range(3)]
    return builder.shuffle_vector(pair, third, ir.Constant(ir.VectorType(INT32, 3 * width), order))


def _for_columns(
    builder: ir.IRBuilder, arguments: dict[str, ir.Value], width: int, body: Callable[[ir.Value], None]
) -> None:
    _range_loop(builder, arguments["first"], arguments["last"], width, body)
    builder.ret_void()


def _range_loop(
    builder: ir.IRBuilder, first: ir.Value, last: ir.Value, step: int, body: Callable[[ir.Value], None]
) -> None:
    """Emit for k in range(first, last, step): body(k)."""
    entry = builder.block
    header, inside, after = (builder.append_basic_block(name) for name in ("header", "inside", "after"))
    builder.branch(header)
    builder.position_at_end(header)
    k = builder.phi(INDEX)
    k.add_incoming(first, entry)
    builder.cbranch(builder.icmp_signed("<", k, last), inside, after)
    builder.position_at_end(inside)
    body(k)
    k.add_incoming(builder.add(k, index(step)), builder.block)
    builder.branch(header)
    builder.position_at_end(after)
