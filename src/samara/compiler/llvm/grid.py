"""A lookup in a constant table as machine code: one load for each lane."""

from hashlib import sha256
from typing import Any

import llvmlite.ir as ir
import numpy as np

from samara.compiler.llvm.blocks import INDEX
from samara.core.grid import Grid

ALIGNMENT = 64  # bytes


def lookup_code(emitter: Any, grid: Grid, indices: list[Any]) -> Any:
    """The entries of the grid at two vectors of indices, clamped to its borders, where the emitter's builder stands"""
    builder, (rows, columns) = emitter.builder, grid.values.shape
    i, j = (_clamped(emitter, x, count) for x, count in zip(indices, (rows, columns), strict=True))
    wide = ir.Constant(i.type, [ir.Constant(INDEX, columns)] * emitter.width)
    at, table = builder.add(builder.mul(i, wide), j), _table(emitter.module, emitter.element, emitter.dtype, grid)
    value = ir.Constant(emitter.vector, ir.Undefined)
    for lane in range(emitter.width):
        place = ir.Constant(ir.IntType(32), lane)
        entry = builder.load(builder.gep(table, [builder.extract_element(at, place)]))
        value = builder.insert_element(value, entry, place)
    return value


def _clamped(emitter: Any, x: Any, count: int) -> Any:
    """⌊x⌋ between 0 and count − 1; 0 for NaN, which has no integer"""
    builder, low, high = emitter.builder, emitter.constant(0.0), emitter.constant(count - 1.0)
    x = builder.select(builder.fcmp_ordered(">", x, low), x, low)
    x = builder.select(builder.fcmp_ordered("<", x, high), x, high)
    return builder.fptosi(x, ir.VectorType(INDEX, emitter.width))


def _table(module: ir.Module, element: Any, dtype: str, grid: Grid) -> Any:
    """Where the entries lie, row by row: bytes, which LLVM reads a hundred times quicker than decimal numbers"""
    data = np.ascontiguousarray(grid.values, dtype=dtype).tobytes()
    name = f"grid_{sha256(data).hexdigest()[:24]}"
    kind = ir.ArrayType(ir.IntType(8), len(data))
    if name not in module.globals:
        table = ir.GlobalVariable(module, kind, name)
        table.linkage, table.global_constant, table.align = "internal", True, ALIGNMENT
        table.initializer = ir.Constant(kind, bytearray(data))
    return module.globals[name].bitcast(element.as_pointer())
