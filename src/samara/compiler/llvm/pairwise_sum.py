"""Sums over neighbours as machine code: `sum_over_others` restricted to the pairs that interact.

    targets, sources = DroneColumns(3, numbers), DroneColumns(8, all_numbers)
    targets.values[:], sources.values[:] = …
    sums = NeighbourSum(f, margins, *templates).compute(targets, sources)  # sumᵢ = Σ f(targetᵢ, sourceⱼ) over near j, in order

j is near i if all `margins(targetᵢ, sourceⱼ)` are positive and their drone numbers differ. Both sides are searched in blocks of
consecutive drones: bounds of the margins over two blocks (`NumericInterval`) exclude most pairs of blocks. Neither blocks nor
threads change a bit: the pairs, and the order of summation, are those of a plain double loop.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property, partial

import llvmlite.ir as ir
import numpy as np

from samara.compiler.llvm import codegen
from samara.compiler.llvm.codegen import (
    DOUBLE,
    INDEX,
    INT32,
    Emitter,
    MachineCode,
    index,
    machine_code,
    new_function,
    new_module,
    vector_width,
)
from samara.compiler.thread_pool import parallel_task_count, run_parallel
from samara.compiler.trace.folding_tape import trace_program
from samara.compiler.trace.program import Program
from samara.core.ops import where
from samara.core.quantity import Scalar
from samara.core.tree import Tree, flatten, unflatten
from samara.core.types import Array

DTYPE = "float64"
WIDTH = vector_width(DTYPE)  # drones in a block
OPTIMISATION_LEVEL = 1  # of LLVM
PAIRS_PER_SEARCH_INSTRUCTION, INSTRUCTIONS_PER_PAIR = (
    4,
    100,
)  # pairs per vector instruction of the search, vector instructions per near pair

DOUBLE_POINTER, INDEX_POINTER = DOUBLE.as_pointer(), INDEX.as_pointer()
SIDE_TYPES = [DOUBLE_POINTER, DOUBLE_POINTER, DOUBLE_POINTER, INDEX_POINTER]  # columns, low, high, numbers


class DroneColumns:
    """The components of drones, with the drone numbers; write `values` (size, n) before every sum."""

    def __init__(self, size: int, numbers: Array) -> None:
        n = len(numbers)
        self.blocks = -(-n // WIDTH)
        self._padded = np.full((size, self.blocks * WIDTH), np.nan)  # padding; NaN is near no drone
        self._low, self._high = np.empty((2, size, self.blocks + -self.blocks % WIDTH))
        self._numbers = np.full(self.blocks * WIDTH, -1)
        self._numbers[:n] = numbers
        self.values = self._padded[:, :n]
        self._addresses = [array.ctypes.data for array in (self._padded, self._low, self._high, self._numbers)]

    def __len__(self) -> int:
        return self.values.shape[1]

    def update_bounds(self) -> list[int]:
        """Compute the bounds of each component in each block; return the addresses of columns, bounds and drone numbers."""
        _bounds_code().call(*self._addresses[:3], len(self._padded), self.blocks)
        return self._addresses


class NeighbourSum:
    """f(target, source) → nested tuple; margins(target, source) → tuple of scalars, by + − × alone; and templates of both."""

    def __init__(
        self,
        f: Callable[[Tree, Tree], Tree],
        margins: Callable[[Tree, Tree], tuple[Scalar, ...]],
        target: Tree,
        source: Tree,
    ) -> None:
        def upper_margins(*bounds: Tree) -> Tree:
            return (tuple(margin.high for margin in margins(intervals(*bounds[:2]), intervals(*bounds[2:]))),)

        self._upper_margins = trace_program(upper_margins, target, target, source, source)
        self._margins = trace_program(lambda one_target, one_source: (margins(one_target, one_source),), target, source)
        self._pair = trace_program(lambda one_target, one_source: (f(one_target, one_source),), target, source)
        self._sizes = len(flatten(target)), len(flatten(source))
        self._last_pair_count = 0  # pairs of the last sum, as an estimate of the work of the next

    def compute(self, targets: DroneColumns, sources: DroneColumns) -> Array:
        """Return the sums, (components, n)."""
        n = len(targets)
        shares = parallel_task_count(
            n * len(sources) // PAIRS_PER_SEARCH_INSTRUCTION + self._last_pair_count * INSTRUCTIONS_PER_PAIR
        )
        sums, near_counts = np.zeros((len(self._pair.outputs[0]), n + -n % WIDTH)), np.zeros(shares, dtype=np.int64)
        arrays = (*targets.update_bounds(), *sources.update_bounds(), sums.ctypes.data, near_counts.ctypes.data)
        call = partial(self._code.call, *arrays, targets.blocks, sources.blocks, shares)
        run_parallel([partial(call, share) for share in range(shares)])
        self._last_pair_count = int(near_counts.sum())
        return sums[:, :n]

    @cached_property
    def _code(self) -> MachineCode:
        module = new_module()
        add_up = _add_pair_sum(module, self._pair, self._sizes)
        _add_near_sum(module, self._upper_margins, self._margins, add_up, self._sizes)
        return machine_code(module, "near_sum", OPTIMISATION_LEVEL)


@cache
def _bounds_code() -> MachineCode:
    module = new_module()
    _add_bounds(module)
    return machine_code(module, "bounds", OPTIMISATION_LEVEL, holds_lock=True)


# Emission -----------------------------------------------------------------------------------------------------------------


def _add_bounds(module: ir.Module) -> None:
    """Emit bounds(columns, low, high, size, blocks): bounds ignore NaN, which is near no drone."""
    builder, (columns, low, high, size, blocks) = new_function(module, "bounds", [DOUBLE_POINTER] * 3 + [INDEX] * 2)
    emitter = Emitter(module, builder, DTYPE, WIDTH, fast=False)
    zero, one, width = (index(k) for k in (0, 1, WIDTH))
    stride = _round_up_to_vectors(builder, blocks)
    reduction_type = ir.FunctionType(emitter.element, [emitter.vector])
    minimum, maximum = (
        ir.Function(module, reduction_type, f"llvm.vector.reduce.{name}.{emitter.suffix}") for name in ("fmin", "fmax")
    )
    with _range_loop(builder, zero, size, one) as c, _range_loop(builder, zero, blocks, one) as k:
        start = builder.mul(builder.add(builder.mul(c, blocks), k), width)
        values, offset = _load_vector(builder, emitter, columns, start), builder.add(builder.mul(c, stride), k)
        builder.store(builder.call(minimum, [values]), builder.gep(low, [offset]))
        builder.store(builder.call(maximum, [values]), builder.gep(high, [offset]))
    builder.ret_void()


def _add_near_sum(
    module: ir.Module, upper_margins: Program, margins: Program, add_up: ir.Function, sizes: tuple[int, int]
) -> None:
    """Emit near_sum(targets, sources, sums, near, target blocks, source blocks, shares, share): every `shares`-th block."""
    builder, arguments = new_function(
        module, "near_sum", [*SIDE_TYPES, *SIDE_TYPES, DOUBLE_POINTER, INDEX_POINTER, *[INDEX] * 4]
    )
    (
        targets,
        target_low,
        target_high,
        target_numbers,
        sources,
        source_low,
        source_high,
        source_numbers,
        sums,
        near_pairs,
        target_blocks,
        source_blocks,
        shares,
        share,
    ) = arguments
    emitter = Emitter(module, builder, DTYPE, WIDTH, fast=False)
    lanes, bits = ir.VectorType(INDEX, WIDTH), ir.IntType(WIDTH)
    zero, one, width = (index(k) for k in (0, 1, WIDTH))
    n, m = builder.mul(target_blocks, width), builder.mul(source_blocks, width)
    target_stride, source_stride = (
        _round_up_to_vectors(builder, target_blocks),
        _round_up_to_vectors(builder, source_blocks),
    )
    pairs, pair_count = (
        builder.alloca(INDEX, 2 * WIDTH),
        builder.alloca(INDEX),
    )  # pending pairs, all i then all j; their count
    for bit in range(2 * WIDTH):
        builder.store(zero, builder.gep(pairs, [index(bit)]))
    total_count = builder.alloca(INDEX)
    builder.store(zero, pair_count)
    builder.store(zero, total_count)

    def splat(scalar: ir.Value) -> ir.Value:
        return codegen.splat(builder, scalar, WIDTH)

    def load_target(base: ir.Value, row: ir.Value, column: ir.Value) -> list[ir.Value]:
        return [
            splat(builder.load(builder.gep(base, [_element_offset(builder, row, c, column)]))) for c in range(sizes[0])
        ]

    def load_sources(base: ir.Value, row: ir.Value, column: ir.Value) -> list[ir.Value]:
        return [_load_vector(builder, emitter, base, _element_offset(builder, row, c, column)) for c in range(sizes[1])]

    def mask_all(*conditions: ir.Value) -> ir.Value:
        is_all = conditions[0]
        for condition in conditions[1:]:
            is_all = builder.and_(is_all, condition)
        return builder.zext(builder.bitcast(is_all, bits), INDEX)

    with _range_loop(builder, share, target_blocks, shares) as target_block:
        target_bounds = [load_target(bound, target_stride, target_block) for bound in (target_low, target_high)]
        start = builder.mul(target_block, width)
        with _range_loop(builder, zero, source_blocks, width) as source_block:
            source_bounds = [load_sources(bound, source_stride, source_block) for bound in (source_low, source_high)]
            (upper,) = emitter.run(upper_margins, (*target_bounds, *source_bounds))
            block_indices = builder.add(splat(source_block), ir.Constant(lanes, list(range(WIDTH))))
            is_possible = [builder.fcmp_unordered(">", margin, emitter.constant(0.0)) for margin in upper]
            with _bit_loop(
                builder, mask_all(builder.icmp_signed("<", block_indices, splat(source_blocks)), *is_possible)
            ) as bit:
                j = builder.mul(builder.add(source_block, bit), width)
                source_values, numbers_j = (
                    load_sources(sources, m, j),
                    _load_vector(builder, emitter, source_numbers, j, lanes),
                )
                with _range_loop(builder, start, builder.add(start, width), one) as i:
                    (margin_values,) = emitter.run(margins, (load_target(targets, n, i), source_values))
                    is_another = builder.icmp_signed(
                        "!=", numbers_j, splat(builder.load(builder.gep(target_numbers, [i])))
                    )
                    is_near = [builder.fcmp_ordered(">", margin, emitter.constant(0.0)) for margin in margin_values]
                    with _bit_loop(builder, mask_all(is_another, *is_near)) as lane:
                        count = builder.load(pair_count)
                        builder.store(i, builder.gep(pairs, [count]))
                        builder.store(builder.add(j, lane), builder.gep(pairs, [builder.add(count, width)]))
                        builder.store(builder.add(count, one), pair_count)
                        with builder.if_then(builder.icmp_signed("==", builder.load(pair_count), width), likely=False):
                            builder.call(add_up, [targets, sources, sums, pairs, width, n, m])
                            builder.store(builder.add(builder.load(total_count), width), total_count)
                            builder.store(zero, pair_count)
    remaining = builder.load(pair_count)
    with builder.if_then(builder.icmp_signed(">", remaining, zero)):
        builder.call(add_up, [targets, sources, sums, pairs, remaining, n, m])
    builder.store(builder.add(builder.load(total_count), remaining), builder.gep(near_pairs, [share]))
    builder.ret_void()


def _add_pair_sum(module: ir.Module, pair: Program, sizes: tuple[int, int]) -> ir.Function:
    """Emit add_up(targets, sources, sums, pairs, count, n, m): evaluate a vector of pairs, then add them one by one."""
    builder, arguments = new_function(module, "add_up", [DOUBLE_POINTER] * 3 + [INDEX_POINTER] + [INDEX] * 3)
    targets, sources, sums, pairs, count, n, m = arguments
    builder.function.linkage = "internal"
    builder.function.attributes.add("noinline")
    emitter = Emitter(module, builder, DTYPE, WIDTH, fast=False)
    pair_indices = [builder.load(builder.gep(pairs, [index(lane)])) for lane in range(2 * WIDTH)]

    def gather(base: ir.Value, row: ir.Value, columns: list[ir.Value], component: int) -> ir.Value:
        value = ir.Constant(emitter.vector, ir.Undefined)
        for lane, column in enumerate(columns):
            scalar = builder.load(builder.gep(base, [_element_offset(builder, row, component, column)]))
            value = builder.insert_element(value, scalar, ir.Constant(INT32, lane))
        return value

    target_values = [gather(targets, n, pair_indices[:WIDTH], component) for component in range(sizes[0])]
    source_values = [gather(sources, m, pair_indices[WIDTH:], component) for component in range(sizes[1])]
    (terms,) = emitter.run(pair, (target_values, source_values))
    storage = builder.alloca(emitter.vector, len(terms))
    for component, term in enumerate(terms):
        builder.store(term, builder.gep(storage, [index(component)]))
    scalars = builder.bitcast(storage, DOUBLE_POINTER)
    with _range_loop(builder, index(0), count, index(1)) as lane:
        target_index = builder.load(builder.gep(pairs, [lane]))
        for component in range(len(terms)):
            total = builder.gep(sums, [_element_offset(builder, n, component, target_index)])
            term = builder.load(builder.gep(scalars, [builder.add(index(component * WIDTH), lane)]))
            builder.store(builder.fadd(builder.load(total), term), total)
    builder.ret_void()
    return builder.function


def _element_offset(builder: ir.IRBuilder, row: ir.Value, component: int, column: ir.Value) -> ir.Value:
    return builder.add(builder.mul(row, index(component)), column)


def _load_vector(
    builder: ir.IRBuilder, emitter: Emitter, base: ir.Value, offset: ir.Value, vector_type: ir.Type = None
) -> ir.Value:
    pointer = builder.bitcast(builder.gep(base, [offset]), (vector_type or emitter.vector).as_pointer())
    return builder.load(pointer, align=8)


def _round_up_to_vectors(builder: ir.IRBuilder, count: ir.Value) -> ir.Value:
    width, width_minus_one = (index(k) for k in (WIDTH, WIDTH - 1))
    return builder.mul(builder.sdiv(builder.add(count, width_minus_one), width), width)


@contextmanager
def _range_loop(builder: ir.IRBuilder, first: ir.Value, last: ir.Value, step: ir.Value) -> Iterator[ir.Value]:
    """Emit for k in range(first, last, step)."""
    with _loop(builder, first) as (k, body, done):
        builder.cbranch(builder.icmp_signed("<", k, last), body, done)
        builder.position_at_end(body)
        yield k
        k.add_incoming(builder.add(k, step), builder.block)


@contextmanager
def _bit_loop(builder: ir.IRBuilder, bits: ir.Value) -> Iterator[ir.Value]:
    """Emit a loop over the indices of all set bits, from the lowest."""
    with _loop(builder, bits) as (remaining, body, done):
        builder.cbranch(builder.icmp_signed("!=", remaining, index(0)), body, done)
        builder.position_at_end(body)
        yield builder.cttz(remaining, ir.Constant(ir.IntType(1), 1))
        remaining.add_incoming(builder.and_(remaining, builder.sub(remaining, index(1))), builder.block)


@contextmanager
def _loop(builder: ir.IRBuilder, first: ir.Value) -> Iterator[tuple[ir.Value, ir.Value, ir.Value]]:
    """Emit a loop; yields its variable, and the blocks of the body and after the loop."""
    entry, header, body, done = builder.block, *(builder.append_basic_block(name) for name in ("again", "body", "done"))
    builder.branch(header)
    builder.position_at_end(header)
    variable = builder.phi(INDEX)
    variable.add_incoming(first, entry)
    yield variable, body, done
    builder.branch(header)
    builder.position_at_end(done)


@dataclass(frozen=True, eq=False)
class NumericInterval:
    """All numbers from `low` to `high`, scalars of any type."""

    low: Scalar
    high: Scalar

    def __neg__(self) -> "NumericInterval":
        return NumericInterval(-self.high, -self.low)

    def __add__(self, other: Scalar) -> "NumericInterval":
        other = _interval(other)
        return NumericInterval(self.low + other.low, self.high + other.high)

    def __radd__(self, other: Scalar) -> "NumericInterval":
        return _interval(other) + self

    def __sub__(self, other: Scalar) -> "NumericInterval":
        other = _interval(other)
        return NumericInterval(self.low - other.high, self.high - other.low)

    def __rsub__(self, other: Scalar) -> "NumericInterval":
        return _interval(other) - self

    def __mul__(self, other: Scalar) -> "NumericInterval":
        if other is self:
            return self._square()
        if isinstance(other, (int, float)):
            products = self.low * other, self.high * other
            return NumericInterval(*products) if other >= 0 else NumericInterval(*reversed(products))
        other = _interval(other)
        a, b, c, d = (x * y for x in (self.low, self.high) for y in (other.low, other.high))
        return NumericInterval(_minimum(_minimum(a, b), _minimum(c, d)), _maximum(_maximum(a, b), _maximum(c, d)))

    def __rmul__(self, other: Scalar) -> "NumericInterval":
        return self * other

    def _square(self) -> "NumericInterval":
        nearest = where(self.low > 0.0, self.low, where(self.high < 0.0, self.high, 0.0))
        return NumericInterval(nearest * nearest, _maximum(self.low * self.low, self.high * self.high))


def intervals(low: Scalar, high: Scalar) -> Scalar:
    """Return a nested tuple of intervals between the leaves of two."""
    return unflatten(low, iter([NumericInterval(a, b) for a, b in zip(flatten(low), flatten(high), strict=True)]))


def _interval(x: Scalar) -> NumericInterval:
    return x if isinstance(x, NumericInterval) else NumericInterval(x, x)


def _minimum(a: Scalar, b: Scalar) -> Scalar:
    return where(a < b, a, b)


def _maximum(a: Scalar, b: Scalar) -> Scalar:
    return where(a > b, a, b)
