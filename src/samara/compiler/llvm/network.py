"""A layer of a network as a loop of vector code: eight rows at a time, each summed up in the order of its columns.

Of one drone the eight rows ride in the lanes of a vector, of several drones each row has a vector of its own. Either way every
row is the same sum in the same order, and so has the same bits.
"""

from typing import Any

import llvmlite.ir as ir

from samara.compiler.llvm.blocks import INDEX, loop
from samara.core.network_layer import Layer

ROWS = 8  # at a time: sums that do not wait for each other
ALIGNED = 64  # bytes


class Stored:
    """The rows of a layer, or what it is given: vectors in memory, of `count` numbers."""

    def __init__(self, builder: ir.IRBuilder, vector: Any, count: int) -> None:
        self.vector, self.count = vector, count
        with builder.goto_entry_block():  # once for the function, not once for each turn of a loop
            whole = builder.alloca(vector, ROWS * -(-count // ROWS))
            whole.align = ALIGNED
        self.base = whole

    def at(self, builder: ir.IRBuilder, index: Any) -> Any:
        return builder.gep(self.base, [ir.Constant(INDEX, index) if isinstance(index, int) else index])

    def load(self, builder: ir.IRBuilder, index: Any) -> Any:
        return builder.load(self.at(builder, index))


def layer_code(emitter: Any, layer: Layer, given: list[Any]) -> Stored:
    """y = f(W x + b), where the emitter's builder stands"""
    builder, flags = emitter.builder, emitter.flags
    x, y = (Stored(builder, emitter.vector, count) for count in (layer.columns, layer.rows))
    for k, value in enumerate(given):
        builder.store(value, x.at(builder, k))
    alone = emitter.width == 1
    vector = ir.VectorType(emitter.element, ROWS if alone else emitter.width)
    weights, bias = (_constants(emitter.module, vector.element, numbers) for numbers in _in_blocks(layer))

    def eight(base: Any, first: Any) -> list[Any]:
        """Eight numbers: in one vector, or each in all lanes of one"""
        if alone:
            return [_load_together(builder, builder.gep(base, [first]), vector)]
        places = [builder.gep(base, [builder.add(first, ir.Constant(INDEX, k))]) for k in range(ROWS)]
        return [_in_all_lanes(builder, builder.load(at), vector) for at in places]

    with builder.goto_entry_block():
        sums = [builder.alloca(vector) for _ in range(1 if alone else ROWS)]
    with loop(builder, ir.Constant(INDEX, _blocks(layer))) as block:
        first = builder.mul(block, ir.Constant(INDEX, ROWS))
        for total, start in zip(sums, eight(bias, first), strict=True):
            builder.store(start, total)
        before = builder.mul(first, ir.Constant(INDEX, layer.columns))
        with loop(builder, ir.Constant(INDEX, layer.columns)) as column:
            own = x.load(builder, column)
            if alone:
                own = _in_all_lanes(builder, builder.extract_element(own, ir.Constant(INDEX, 0)), vector)
            at = builder.add(before, builder.mul(column, ir.Constant(INDEX, ROWS)))
            for total, weight in zip(sums, eight(weights, at), strict=True):
                product = builder.fmul(weight, own, flags=flags)
                builder.store(builder.fadd(builder.load(total), product, flags=flags), total)
        found = [emitter.activated(layer.activation, builder.load(total)) for total in sums]
        if alone:
            _store_together(builder, found[0], y.at(builder, first))
        else:
            for k, value in enumerate(found):
                builder.store(value, y.at(builder, builder.add(first, ir.Constant(INDEX, k))))
    return y


def _blocks(layer: Layer) -> int:
    return -(-layer.rows // ROWS)


def _in_blocks(layer: Layer) -> tuple[list[float], list[float]]:
    """Weights and bias in the order they are read: by eight rows, of these by columns; what is missing of the last is 0"""
    blocks = _blocks(layer)
    missing = blocks * ROWS - layer.rows
    rows = [*layer.weights, *[(0.0,) * layer.columns] * missing]
    weights = [rows[ROWS * b + k][j] for b in range(blocks) for j in range(layer.columns) for k in range(ROWS)]
    return weights, [*layer.bias, *[0.0] * missing]


def _constants(module: ir.Module, element: Any, numbers: list[float]) -> Any:
    """Where numbers lie that never change"""
    kind = ir.ArrayType(element, len(numbers))
    held = ir.GlobalVariable(module, kind, module.get_unique_name("layer"))
    held.linkage, held.global_constant, held.align = "internal", True, ALIGNED
    held.initializer = ir.Constant(kind, [ir.Constant(element, x) for x in numbers])
    return held.bitcast(element.as_pointer())


def _bytes(vector: Any) -> int:
    return 8 if vector.element == ir.DoubleType() else 4


def _load_together(builder: ir.IRBuilder, at: Any, vector: Any) -> Any:
    return builder.load(builder.bitcast(at, vector.as_pointer()), align=_bytes(vector))


def _store_together(builder: ir.IRBuilder, value: Any, at: Any) -> None:
    builder.store(value, builder.bitcast(at, value.type.as_pointer()), align=_bytes(value.type))


def _in_all_lanes(builder: ir.IRBuilder, scalar: Any, vector: Any) -> Any:
    nothing = ir.Constant(vector, ir.Undefined)
    lone = builder.insert_element(nothing, scalar, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(
        lone, nothing, ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
    )
