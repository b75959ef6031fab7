"""Dense layers with weights in memory, forward and backward, as passes of a loop (`array_loop.py`): lanes are drones.

    forward   y = f(W x + b)
    backward  p̄ = ȳ f',   x̄ = Wᵀ p̄          f' = 1 − y² of tanh, and 1 where y > 0, else 0, of a ReLU
    gradient  W̄ = Σₖ p̄ₖ xₖᵀ,   b̄ = Σₖ p̄ₖ        over all steps, and over the lanes in their order

Vectors are stored component by component, `width` lanes each; W is stored by rows. The order of summation is fixed, independent
of the thread count.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import llvmlite.ir as ir

from samara.compiler.llvm.array_loop import ArraySpec, Bases, EmissionTarget
from samara.compiler.llvm.codegen import Emitter, index, loop

ROWS_PER_BLOCK = 8  # rows of a product that are computed together, as independent sums
GRADIENT_BLOCK_SIZE = 4  # rows and columns of W̄: sixteen sums for eight loads


class Dense(NamedTuple):
    """y = f(W x + b)."""

    weights: ArraySpec
    bias: ArraySpec
    x: ArraySpec
    y: ArraySpec
    rows: int
    columns: int
    width: int
    activation: str = "tanh"

    @property
    def inputs(self) -> tuple[ArraySpec, ...]:
        return self.weights, self.bias, self.x

    @property
    def outputs(self) -> tuple[ArraySpec, ...]:
        return (self.y,)

    def emit(self, builder: ir.IRBuilder, bases: Bases, k: ir.Value, code: EmissionTarget) -> None:
        emitter = code.emitter(builder, self.width)
        weights, bias, x, y = (
            _step_pointer(builder, bases, k, array) for array in (self.weights, self.bias, self.x, self.y)
        )

        def finish(row: ir.Value, total: ir.Value) -> None:
            biased = builder.fadd(total, _splat(emitter, bias, row), flags=emitter.flags)
            _store(emitter, emitter.apply_activation(self.activation, biased), y, row)

        _matrix_product(emitter, weights, (self.columns, 1), (self.rows, self.columns), x, finish)


class DenseBackward(NamedTuple):
    """p̄ = ȳ f', x̄ = Wᵀ p̄."""

    weights: ArraySpec
    y: ArraySpec
    y_bar: ArraySpec
    p_bar: ArraySpec
    x_bar: ArraySpec
    rows: int
    columns: int
    width: int
    activation: str = "tanh"

    @property
    def inputs(self) -> tuple[ArraySpec, ...]:
        return self.weights, self.y, self.y_bar

    @property
    def outputs(self) -> tuple[ArraySpec, ...]:
        return self.p_bar, self.x_bar

    def emit(self, builder: ir.IRBuilder, bases: Bases, k: ir.Value, code: EmissionTarget) -> None:
        emitter = code.emitter(builder, self.width)
        arrays = (self.weights, self.y, self.y_bar, self.p_bar, self.x_bar)
        weights, y, y_bar, p_bar, x_bar = (_step_pointer(builder, bases, k, array) for array in arrays)
        with loop(builder, index(self.rows)) as row:
            slope = _slope(emitter, self.activation, _load(emitter, y, row))
            _store(emitter, builder.fmul(_load(emitter, y_bar, row), slope, flags=emitter.flags), p_bar, row)

        def finish(row: ir.Value, total: ir.Value) -> None:
            _store(emitter, total, x_bar, row)

        _matrix_product(emitter, weights, (1, self.columns), (self.columns, self.rows), p_bar, finish)


class DenseGradient(NamedTuple):
    """W̄ and b̄ summed over all steps, at the end of a loop of `steps` steps."""

    x: ArraySpec
    p_bar: ArraySpec
    weights: ArraySpec
    bias: ArraySpec
    rows: int
    columns: int
    width: int

    @property
    def inputs(self) -> tuple[ArraySpec, ...]:
        return self.x, self.p_bar

    @property
    def outputs(self) -> tuple[ArraySpec, ...]:
        return self.weights, self.bias

    def emit(self, builder: ir.IRBuilder, bases: Bases, steps: ir.Value, code: EmissionTarget) -> None:
        emitter, start = code.emitter(builder, self.width), index(0)
        x, p_bar, weights, bias = (
            _step_pointer(builder, bases, start, array) for array in (*self.inputs, *self.outputs)
        )
        sums = _allocate_sums(emitter, GRADIENT_BLOCK_SIZE * GRADIENT_BLOCK_SIZE)
        for first, rows in _blocks(builder, self.rows, GRADIENT_BLOCK_SIZE):
            for column, columns in _blocks(builder, self.columns, GRADIENT_BLOCK_SIZE):
                self._emit_block(emitter, (x, p_bar, weights), (first, rows), (column, columns), steps, sums)
            row_sums = sums[:rows]
            _clear(emitter, row_sums)
            with loop(builder, steps) as k:
                step_bars = builder.gep(p_bar, [builder.mul(k, index(self.p_bar.step_stride))])
                for i, total in enumerate(row_sums):
                    _accumulate(emitter, total, _load(emitter, step_bars, builder.add(first, index(i))))
            for i, total in enumerate(row_sums):
                builder.store(
                    _sum_lanes(emitter, builder.load(total)), builder.gep(bias, [builder.add(first, index(i))])
                )

    def _emit_block(
        self,
        emitter: Emitter,
        bases: tuple[ir.Value, ir.Value, ir.Value],
        rows: tuple[ir.Value, int],
        columns: tuple[ir.Value, int],
        steps: ir.Value,
        sums: list[ir.Value],
    ) -> None:
        builder, (x, p_bar, weights) = emitter.builder, bases
        block_sums = sums[: rows[1] * columns[1]]
        _clear(emitter, block_sums)
        with loop(builder, steps) as k:
            step_x = builder.gep(x, [builder.mul(k, index(self.x.step_stride))])
            step_bars = builder.gep(p_bar, [builder.mul(k, index(self.p_bar.step_stride))])
            left = [_load(emitter, step_bars, builder.add(rows[0], index(i))) for i in range(rows[1])]
            right = [_load(emitter, step_x, builder.add(columns[0], index(j))) for j in range(columns[1])]
            for n, total in enumerate(block_sums):
                i, j = divmod(n, columns[1])
                _accumulate(emitter, total, builder.fmul(left[i], right[j], flags=emitter.flags))
        for n, total in enumerate(block_sums):
            i, j = divmod(n, columns[1])
            row = builder.mul(builder.add(rows[0], index(i)), index(self.columns))
            offset = builder.add(row, builder.add(columns[0], index(j)))
            builder.store(_sum_lanes(emitter, builder.load(total)), builder.gep(weights, [offset]))


def _slope(emitter: Emitter, activation: str, y: ir.Value) -> ir.Value:
    """f' as a function of y = f(x)."""
    builder, one, zero = emitter.builder, emitter.constant(1.0), emitter.constant(0.0)
    if activation == "relu":
        return builder.select(builder.fcmp_ordered(">", y, zero), one, zero)
    return builder.fsub(one, builder.fmul(y, y, flags=emitter.flags), flags=emitter.flags)


def _matrix_product(
    emitter: Emitter,
    matrix: ir.Value,
    strides: tuple[int, int],
    shape: tuple[int, int],
    x: ir.Value,
    finish: Callable[..., None],
) -> None:
    """finish(i, Σⱼ M[i, j] x[j]) for every row, ROWS_PER_BLOCK of them at a time."""
    builder, sums = emitter.builder, _allocate_sums(emitter, ROWS_PER_BLOCK)
    for first, count in _blocks(builder, shape[0], ROWS_PER_BLOCK):
        row_sums = sums[:count]
        _clear(emitter, row_sums)
        with loop(builder, index(shape[1])) as j:
            value, column = _load(emitter, x, j), builder.mul(j, index(strides[1]))
            for i, total in enumerate(row_sums):
                row = builder.mul(builder.add(first, index(i)), index(strides[0]))
                weight = _splat(emitter, matrix, builder.add(row, column))
                _accumulate(emitter, total, builder.fmul(weight, value, flags=emitter.flags))
        for i, total in enumerate(row_sums):
            finish(builder.add(first, index(i)), builder.load(total))


def _blocks(builder: ir.IRBuilder, count: int, size: int) -> Iterator[tuple[ir.Value, int]]:
    """Emit a loop over full blocks; yields the first index and the size of a block, and finally those of the remainder."""
    if count >= size:
        with loop(builder, index(count // size)) as block:
            yield builder.mul(block, index(size)), size
    if count % size:
        yield index(count - count % size), count % size


def _step_pointer(builder: ir.IRBuilder, bases: Bases, k: ir.Value, array: ArraySpec) -> ir.Value:
    """Return the address of an array's first number at a step."""
    offset = builder.add(builder.mul(k, index(array.step_stride)), index(array.offsets[0]))
    return builder.gep(bases[array.name], [offset])


def _row_pointer(emitter: Emitter, base: ir.Value, row: ir.Value) -> ir.Value:
    pointer = emitter.builder.gep(base, [emitter.builder.mul(row, index(emitter.width))])
    return emitter.builder.bitcast(pointer, emitter.vector.as_pointer())


def _load(emitter: Emitter, base: ir.Value, row: ir.Value) -> ir.Value:
    return emitter.builder.load(_row_pointer(emitter, base, row), align=emitter.bytes)


def _store(emitter: Emitter, value: ir.Value, base: ir.Value, row: ir.Value) -> None:
    emitter.builder.store(value, _row_pointer(emitter, base, row), align=emitter.bytes)


def _splat(emitter: Emitter, base: ir.Value, offset: ir.Value) -> ir.Value:
    return emitter.splat(emitter.builder.load(emitter.builder.gep(base, [offset])))


def _allocate_sums(emitter: Emitter, count: int) -> list[ir.Value]:
    with emitter.builder.goto_entry_block():
        return [emitter.builder.alloca(emitter.vector) for _ in range(count)]


def _clear(emitter: Emitter, sums: list[ir.Value]) -> None:
    for total in sums:
        emitter.builder.store(emitter.constant(0.0), total)


def _accumulate(emitter: Emitter, total: ir.Value, value: ir.Value) -> None:
    builder = emitter.builder
    builder.store(builder.fadd(builder.load(total), value, flags=emitter.flags), total)


def _sum_lanes(emitter: Emitter, value: ir.Value) -> ir.Value:
    """Sum over all lanes, from the first to the last."""
    builder = emitter.builder
    total = builder.extract_element(value, ir.Constant(ir.IntType(32), 0))
    for lane in range(1, emitter.width):
        total = builder.fadd(total, builder.extract_element(value, ir.Constant(ir.IntType(32), lane)))
    return total
