"""The sum over near others as machine code: `sum_over_others` of those pairs alone that matter.

    mine, theirs = Columns(3, numbers), Columns(8, all_numbers)
    mine.values[:], theirs.values[:] = …
    felt = NearSum(f, margins, *templates).over(mine, theirs)     # feltᵢ = Σ f(mineᵢ, theirsⱼ) over near j, first to last

j is near i where all `margins(mineᵢ, theirsⱼ)` are positive and their numbers differ. Both sides are looked at in blocks of
consecutive drones: bounds of the margins over two blocks (`Interval`) rule most of them out at once. Neither the blocks nor
the number of threads changes a bit: pairs, and the order in which they are added, are those of a plain double loop.
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
from samara.compiler.thread_pool import shares_of, side_by_side
from samara.compiler.trace.program import Program, program_of
from samara.compiler.trace.tape_scalar import program_as_written
from samara.core.ops import where
from samara.core.quantity import Scalar
from samara.core.tree import Tree, flatten, unflatten
from samara.core.types import Array

DTYPE = "float64"
WIDTH = vector_width(DTYPE)  # drones in a block
EFFORT = 1  # of LLVM
LOOKED_AT, COMPUTED = 4, 100  # pairs per vector instruction while searching, vector instructions per near pair

NUMBERS, INDICES = DOUBLE.as_pointer(), INDEX.as_pointer()
SIDE = [NUMBERS, NUMBERS, NUMBERS, INDICES]  # columns, low, high, numbers


class Columns:
    """Drones side by side under their numbers: `values` (size, n) is to be written before every sum."""

    def __init__(self, size: int, numbers: Array) -> None:
        n = len(numbers)
        self.blocks = -(-n // WIDTH)
        self._whole = np.full((size, self.blocks * WIDTH), np.nan)  # NaN is near nobody
        self._low, self._high = np.empty((2, size, self.blocks + -self.blocks % WIDTH))
        self._numbers = np.full(self.blocks * WIDTH, -1)
        self._numbers[:n] = numbers
        self.values = self._whole[:, :n]
        self._at = [array.ctypes.data for array in (self._whole, self._low, self._high, self._numbers)]

    def __len__(self) -> int:
        return self.values.shape[1]

    def bounded(self) -> list[int]:
        """Addresses of the columns, of the bounds of each component in each block as they are now, and of the numbers"""
        _bounds_code().call(*self._at[:3], len(self._whole), self.blocks)
        return self._at


class NearSum:
    """`f(mine, theirs)` → nested tuple; `margins(mine, theirs)` → tuple of scalars, by + − × alone; and templates of both."""

    def __init__(
        self,
        f: Callable[[Tree, Tree], Tree],
        margins: Callable[[Tree, Tree], tuple[Scalar, ...]],
        mine: Tree,
        theirs: Tree,
    ) -> None:
        def most(*bounds: Tree) -> Tree:
            return (tuple(each.high for each in margins(intervals(*bounds[:2]), intervals(*bounds[2:]))),)

        self._most = program_as_written(most, mine, mine, theirs, theirs)
        self._margins = program_as_written(lambda own, other: (margins(own, other),), mine, theirs)
        self._pair = program_of(lambda own, other: (f(own, other),), mine, theirs)
        self._sizes = len(flatten(mine)), len(flatten(theirs))
        self._near = 0  # pairs of the last sum: what tells how much work the next one will be

    def over(self, mine: Columns, theirs: Columns) -> Array:
        """The sums, (components, n)"""
        n = len(mine)
        shares = shares_of(n * len(theirs) // LOOKED_AT + self._near * COMPUTED)
        felt, near = np.zeros((len(self._pair.outputs[0]), n + -n % WIDTH)), np.zeros(shares, dtype=np.int64)
        arrays = (*mine.bounded(), *theirs.bounded(), felt.ctypes.data, near.ctypes.data)
        call = partial(self._code.call, *arrays, mine.blocks, theirs.blocks, shares)
        side_by_side([partial(call, share) for share in range(shares)])
        self._near = int(near.sum())
        return felt[:, :n]

    @cached_property
    def _code(self) -> MachineCode:
        module = new_module()
        add_up = _adding_up(module, self._pair, self._sizes)
        _add_near_sum(module, self._most, self._margins, add_up, self._sizes)
        return machine_code(module, "near_sum", EFFORT)


@cache
def _bounds_code() -> MachineCode:
    module = new_module()
    _add_bounds(module)
    return machine_code(module, "bounds", EFFORT, keeps_lock=True)


# As machine code ---------------------------------------------------------------------------------------------------------


def _add_bounds(module: ir.Module) -> None:
    """bounds(columns, low, high, size, blocks): of what is a number; what is not is near nobody, wherever it is"""
    builder, (columns, low, high, size, blocks) = new_function(module, "bounds", [NUMBERS] * 3 + [INDEX] * 2)
    emitter = Emitter(module, builder, DTYPE, WIDTH, fast=False)
    zero, one, wide = (index(k) for k in (0, 1, WIDTH))
    stride = _in_whole_vectors(builder, blocks)
    kind = ir.FunctionType(emitter.element, [emitter.vector])
    least, greatest = (
        ir.Function(module, kind, f"llvm.vector.reduce.{name}.{emitter.suffix}") for name in ("fmin", "fmax")
    )
    with _counting(builder, zero, size, one) as c, _counting(builder, zero, blocks, one) as k:
        start = builder.mul(builder.add(builder.mul(c, blocks), k), wide)
        values, at = _vector(builder, emitter, columns, start), builder.add(builder.mul(c, stride), k)
        builder.store(builder.call(least, [values]), builder.gep(low, [at]))
        builder.store(builder.call(greatest, [values]), builder.gep(high, [at]))
    builder.ret_void()


def _add_near_sum(
    module: ir.Module, most: Program, margins: Program, add_up: ir.Function, sizes: tuple[int, int]
) -> None:
    """near_sum(mine, theirs, felt, near, blocks of mine, of theirs, shares, share): of every so many blocks of mine one"""
    builder, arguments = new_function(module, "near_sum", [*SIDE, *SIDE, NUMBERS, INDICES, *[INDEX] * 4])
    mine, my_low, my_high, me, theirs, low, high, them, felt, near_pairs, my_blocks, blocks, shares, share = arguments
    emitter = Emitter(module, builder, DTYPE, WIDTH, fast=False)
    lanes, bits = ir.VectorType(INDEX, WIDTH), ir.IntType(WIDTH)
    zero, one, wide = (index(k) for k in (0, 1, WIDTH))
    n, m = builder.mul(my_blocks, wide), builder.mul(blocks, wide)
    my_stride, their_stride = _in_whole_vectors(builder, my_blocks), _in_whole_vectors(builder, blocks)
    pairs, found = builder.alloca(INDEX, 2 * WIDTH), builder.alloca(INDEX)  # not yet added: i of each, then j; how many
    for place in range(2 * WIDTH):
        builder.store(zero, builder.gep(pairs, [index(place)]))
    added = builder.alloca(INDEX)
    builder.store(zero, found)
    builder.store(zero, added)

    def splat(scalar: ir.Value) -> ir.Value:
        return codegen.splat(builder, scalar, WIDTH)

    def one_of_mine(base: ir.Value, row: ir.Value, at: ir.Value) -> list[ir.Value]:
        return [splat(builder.load(builder.gep(base, [_at(builder, row, c, at)]))) for c in range(sizes[0])]

    def some_of_theirs(base: ir.Value, row: ir.Value, at: ir.Value) -> list[ir.Value]:
        return [_vector(builder, emitter, base, _at(builder, row, c, at)) for c in range(sizes[1])]

    def where_all(*conditions: ir.Value) -> ir.Value:
        held = conditions[0]
        for condition in conditions[1:]:
            held = builder.and_(held, condition)
        return builder.zext(builder.bitcast(held, bits), INDEX)

    with _counting(builder, share, my_blocks, shares) as own_block:
        mine_between = [one_of_mine(bound, my_stride, own_block) for bound in (my_low, my_high)]
        start = builder.mul(own_block, wide)
        with _counting(builder, zero, blocks, wide) as block:
            theirs_between = [some_of_theirs(bound, their_stride, block) for bound in (low, high)]
            (upper,) = emitter.run(most, (*mine_between, *theirs_between))
            places = builder.add(splat(block), ir.Constant(lanes, list(range(WIDTH))))
            possible = [builder.fcmp_unordered(">", each, emitter.constant(0.0)) for each in upper]
            with _each_bit(builder, where_all(builder.icmp_signed("<", places, splat(blocks)), *possible)) as place:
                j = builder.mul(builder.add(block, place), wide)
                others, numbers = some_of_theirs(theirs, m, j), _vector(builder, emitter, them, j, lanes)
                with _counting(builder, start, builder.add(start, wide), one) as i:
                    (left,) = emitter.run(margins, (one_of_mine(mine, n, i), others))
                    another = builder.icmp_signed("!=", numbers, splat(builder.load(builder.gep(me, [i]))))
                    near = [builder.fcmp_ordered(">", each, emitter.constant(0.0)) for each in left]
                    with _each_bit(builder, where_all(another, *near)) as lane:
                        count = builder.load(found)
                        builder.store(i, builder.gep(pairs, [count]))
                        builder.store(builder.add(j, lane), builder.gep(pairs, [builder.add(count, wide)]))
                        builder.store(builder.add(count, one), found)
                        with builder.if_then(builder.icmp_signed("==", builder.load(found), wide), likely=False):
                            builder.call(add_up, [mine, theirs, felt, pairs, wide, n, m])
                            builder.store(builder.add(builder.load(added), wide), added)
                            builder.store(zero, found)
    rest = builder.load(found)
    with builder.if_then(builder.icmp_signed(">", rest, zero)):
        builder.call(add_up, [mine, theirs, felt, pairs, rest, n, m])
    builder.store(builder.add(builder.load(added), rest), builder.gep(near_pairs, [share]))
    builder.ret_void()


def _adding_up(module: ir.Module, pair: Program, sizes: tuple[int, int]) -> ir.Function:
    """add_up(mine, theirs, felt, pairs, count, n, m): a vector of pairs at once, added to the sums one after the other"""
    builder, arguments = new_function(module, "add_up", [NUMBERS] * 3 + [INDICES] + [INDEX] * 3)
    mine, theirs, felt, pairs, count, n, m = arguments
    builder.function.linkage = "internal"
    builder.function.attributes.add("noinline")
    emitter = Emitter(module, builder, DTYPE, WIDTH, fast=False)
    at = [builder.load(builder.gep(pairs, [index(lane)])) for lane in range(2 * WIDTH)]

    def gathered(base: ir.Value, row: ir.Value, places: list[ir.Value], component: int) -> ir.Value:
        value = ir.Constant(emitter.vector, ir.Undefined)
        for lane, place in enumerate(places):
            scalar = builder.load(builder.gep(base, [_at(builder, row, component, place)]))
            value = builder.insert_element(value, scalar, ir.Constant(INT32, lane))
        return value

    own = [gathered(mine, n, at[:WIDTH], component) for component in range(sizes[0])]
    other = [gathered(theirs, m, at[WIDTH:], component) for component in range(sizes[1])]
    (parts,) = emitter.run(pair, (own, other))
    kept = builder.alloca(emitter.vector, len(parts))
    for component, part in enumerate(parts):
        builder.store(part, builder.gep(kept, [index(component)]))
    flat = builder.bitcast(kept, NUMBERS)
    with _counting(builder, index(0), count, index(1)) as lane:
        who = builder.load(builder.gep(pairs, [lane]))
        for component in range(len(parts)):
            total = builder.gep(felt, [_at(builder, n, component, who)])
            part = builder.load(builder.gep(flat, [builder.add(index(component * WIDTH), lane)]))
            builder.store(builder.fadd(builder.load(total), part), total)
    builder.ret_void()
    return builder.function


def _at(builder: ir.IRBuilder, row: ir.Value, component: int, column: ir.Value) -> ir.Value:
    return builder.add(builder.mul(row, index(component)), column)


def _vector(builder: ir.IRBuilder, emitter: Emitter, base: ir.Value, at: ir.Value, kind: ir.Type = None) -> ir.Value:
    place = builder.bitcast(builder.gep(base, [at]), (kind or emitter.vector).as_pointer())
    return builder.load(place, align=8)


def _in_whole_vectors(builder: ir.IRBuilder, count: ir.Value) -> ir.Value:
    wide, rest = (index(k) for k in (WIDTH, WIDTH - 1))
    return builder.mul(builder.sdiv(builder.add(count, rest), wide), wide)


@contextmanager
def _counting(builder: ir.IRBuilder, first: ir.Value, last: ir.Value, step: ir.Value) -> Iterator[ir.Value]:
    """for k in range(first, last, step)"""
    with _while(builder, first) as (k, body, done):
        builder.cbranch(builder.icmp_signed("<", k, last), body, done)
        builder.position_at_end(body)
        yield k
        k.add_incoming(builder.add(k, step), builder.block)


@contextmanager
def _each_bit(builder: ir.IRBuilder, bits: ir.Value) -> Iterator[ir.Value]:
    """The places of all bits that are set, from the lowest"""
    with _while(builder, bits) as (left, body, done):
        builder.cbranch(builder.icmp_signed("!=", left, index(0)), body, done)
        builder.position_at_end(body)
        yield builder.cttz(left, ir.Constant(ir.IntType(1), 1))
        left.add_incoming(builder.and_(left, builder.sub(left, index(1))), builder.block)


@contextmanager
def _while(builder: ir.IRBuilder, first: ir.Value) -> Iterator[tuple[ir.Value, ir.Value, ir.Value]]:
    """A number that changes from turn to turn, and the blocks of a turn and of what comes after the last"""
    before, again, body, done = builder.block, *(builder.append_basic_block(name) for name in ("again", "body", "done"))
    builder.branch(again)
    builder.position_at_end(again)
    changing = builder.phi(INDEX)
    changing.add_incoming(first, before)
    yield changing, body, done
    builder.branch(again)
    builder.position_at_end(done)


@dataclass(frozen=True, eq=False)
class Interval:
    """All numbers from `low` to `high`, scalars of any kind."""

    low: Scalar
    high: Scalar

    def __neg__(self) -> "Interval":
        return Interval(-self.high, -self.low)

    def __add__(self, other: Scalar) -> "Interval":
        other = _interval(other)
        return Interval(self.low + other.low, self.high + other.high)

    def __radd__(self, other: Scalar) -> "Interval":
        return _interval(other) + self

    def __sub__(self, other: Scalar) -> "Interval":
        other = _interval(other)
        return Interval(self.low - other.high, self.high - other.low)

    def __rsub__(self, other: Scalar) -> "Interval":
        return _interval(other) - self

    def __mul__(self, other: Scalar) -> "Interval":
        if other is self:
            return self._square()
        if isinstance(other, (int, float)):
            ends = self.low * other, self.high * other
            return Interval(*ends) if other >= 0 else Interval(*reversed(ends))
        other = _interval(other)
        a, b, c, d = (x * y for x in (self.low, self.high) for y in (other.low, other.high))
        return Interval(_smaller(_smaller(a, b), _smaller(c, d)), _larger(_larger(a, b), _larger(c, d)))

    def __rmul__(self, other: Scalar) -> "Interval":
        return self * other

    def _square(self) -> "Interval":
        nearest = where(self.low > 0.0, self.low, where(self.high < 0.0, self.high, 0.0))
        return Interval(nearest * nearest, _larger(self.low * self.low, self.high * self.high))


def intervals(low: Scalar, high: Scalar) -> Scalar:
    """A nested tuple of intervals, between the leaves of two"""
    return unflatten(low, iter([Interval(a, b) for a, b in zip(flatten(low), flatten(high), strict=True)]))


def _interval(x: Scalar) -> Interval:
    return x if isinstance(x, Interval) else Interval(x, x)


def _smaller(a: Scalar, b: Scalar) -> Scalar:
    return where(a < b, a, b)


def _larger(a: Scalar, b: Scalar) -> Scalar:
    return where(a > b, a, b)
