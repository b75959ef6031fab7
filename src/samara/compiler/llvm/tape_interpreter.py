"""Tables of a taped function at many values of its scalar: machine code that reads a tape, so that no tape has to be compiled.

    program, numbers = taped(function)
    tabulator(program)(rows, times, np.array(numbers))       # rows[k] ← leaves of function(times[k])

A trajectory is needed at some hundred times, and an event in flight makes a new one: to compile it would take longer than to
fly it. So one code, compiled once, walks down any tape and does each operation on a tile of lanes before the next. Strict IEEE.
"""

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

import llvmlite.ir as ir
import numpy as np

from samara.compiler.llvm.codegen import (
    DOUBLE,
    INDEX,
    Emitter,
    MachineCode,
    index,
    loop,
    machine_code,
    new_function,
    new_module,
    splat,
    vector_width,
)
from samara.compiler.trace.program import Program, without_unused
from samara.core.portable_math import ELEMENTARY
from samara.core.types import Array

DTYPE = "float64"
EFFORT = 0  # of LLVM: the loops below are as they should be; unrolled they run no quicker and take five times as long to make
TILE = 384  # lanes: the rows in use stay in the nearest cache, and reading an instruction costs little beside doing it
WORDS = 5  # of an instruction: what to do, where its result goes, and up to three operands
ARITHMETIC = {
    **dict.fromkeys(("negate", "sqrt", "floor"), ("r",)),
    **dict.fromkeys(("add", "multiply", "equal"), ("rr", "rn")),
    **dict.fromkeys(("subtract", "divide", "less", "less_equal"), ("rr", "rn", "nr")),
    **dict.fromkeys(("and", "or"), ("rr",)),
    "select": ("rrr", "rrn", "rnr", "rnn"),
}
"""What the operands of each may be: a row of lanes, or one number for all of them"""
COMMON = frozenset({"sin", "cos", "atan2"})  # every reader has them, so that there is one for almost every tape
EITHER_WAY = ("add", "multiply", "equal")


@lru_cache(maxsize=256)
def tabulator(program: Program) -> Callable[[Array, Array, Array], None]:
    """fill(into, values, numbers): into[k, i] ← output i of a taped program at values[k]; into (n, outputs) of any strides"""
    reader = _reader(COMMON | ELEMENTARY.intersection(own.operation for own in program.instructions))
    code, rows = _code(without_unused(program), reader.operations)
    fields, space = len(program.outputs[0]), np.empty(rows * TILE)
    code_at, count, space_at = code.ctypes.data, len(code), space.ctypes.data

    def fill(into: Array, values: Array, numbers: Array) -> None:
        n = len(values)
        if into.shape != (n, fields) or not (values.flags.c_contiguous and numbers.flags.c_contiguous):
            raise ValueError(f"{values.shape} values into {into.shape}; expected (n,) side by side into (n, {fields})")
        if not into.dtype == values.dtype == numbers.dtype == DTYPE:
            raise ValueError(f"{values.dtype} and {numbers.dtype} into {into.dtype}; expected {DTYPE}")
        if n == 0:
            return
        step, field = into.strides
        at = (numbers.ctypes.data, space_at, values.ctypes.data, n, into.ctypes.data, step // 8, field // 8)
        reader.code.call(code_at, count, *at)

    fill.kept = code, space  # type: ignore[attr-defined]  # what the addresses are of
    return fill


class Reader(NamedTuple):
    """Machine code that reads tapes, the operations it knows by their number, and what keeps it alive."""

    code: MachineCode
    operations: dict[tuple[str, str], int]


def _code(program: Program, operations: dict[tuple[str, str], int]) -> tuple[Array, int]:
    """The instructions as words, and how many rows they need: a row is free again after the last use of what is in it"""
    last = {at: k for k, own in enumerate(program.instructions) for at in own.arguments}
    last |= dict.fromkeys(program.outputs[0], len(program.instructions))
    words: list[int] = []
    held: dict[int, tuple[str, int]] = {}  # where the result of an instruction is: in a row, or among the numbers
    free: list[int] = []
    rows = 0

    def new_row() -> int:
        nonlocal rows
        if not free:
            free.append(rows * TILE)
            rows += 1
        return free.pop()

    def write(operation: str, into: int, operands: Sequence[tuple[str, int]]) -> None:
        if operation in EITHER_WAY and operands[0][0] == "n":
            operands = operands[::-1]
        kinds, places = "".join(kind for kind, _ in operands), [place for _, place in operands]
        words.extend([operations[operation, kinds], into, *places, *[0] * (WORDS - 2 - len(places))])

    for k, own in enumerate(program.instructions):
        operands = [held[at] for at in own.arguments]
        free += {held[at][1] for at in own.arguments if last[at] == k and held[at][0] == "r"}
        if own.operation != "input":
            held[k] = "r", new_row()
            write(own.operation, held[k][1], operands)
        elif own.place[0]:
            held[k] = "n", own.place[1]
        elif k in last:
            held[k] = "r", new_row()
            write("take", held[k][1], ())
    for field, at in enumerate(program.outputs[0]):
        write("give", field, [held[at]])
    return np.array(words, dtype=np.int64).reshape(-1, WORDS), rows


@cache
def _reader(functions: frozenset[str]) -> Reader:
    """Reads tapes with these elementary functions beside the arithmetic"""
    allowed = ARITHMETIC | {name: ("rr", "rn", "nr") if name == "atan2" else ("r",) for name in sorted(functions)}
    known = [(name, kinds) for name, every in allowed.items() for kinds in every]
    operations = {own: k for k, own in enumerate([("take", ""), ("give", "r"), ("give", "n"), *known])}
    module = new_module()
    pointer = DOUBLE.as_pointer()
    kinds = [INDEX.as_pointer(), INDEX, pointer, pointer, pointer, INDEX, pointer, INDEX, INDEX]
    _Emission(*new_function(module, "read", kinds)).emit(operations)
    return Reader(machine_code(module, "read", EFFORT, keeps_lock=True), operations)


class _Emission:
    """read(code, count, numbers, rows, values, n, into, step, field): tile after tile, instruction after instruction"""

    def __init__(self, builder: ir.IRBuilder, arguments: Sequence[ir.Value]) -> None:
        self.code, self.count, self.numbers, self.rows, self.values, self.n, *self.table = arguments
        self.width, self.module, self.builder = vector_width(DTYPE), builder.module, builder

    def emit(self, operations: dict[tuple[str, str], int]) -> None:
        builder, function = self.builder, self.builder.function
        finished = function.append_basic_block("finished")
        with loop(builder, builder.sdiv(self._plus(self.n, TILE - 1), index(TILE))) as tile:
            self.first = builder.mul(tile, index(TILE))
            left = builder.sub(self.n, self.first)
            self.lanes = builder.select(builder.icmp_signed("<", left, index(TILE)), left, index(TILE))
            self.vectors = builder.sdiv(self._plus(self.lanes, self.width - 1), index(self.width))
            with loop(builder, self.count) as k:
                self.at = builder.mul(k, index(WORDS))
                done, unknown = (function.append_basic_block(name) for name in ("done", "unknown"))
                choice = builder.switch(self._word(0), unknown)
                for (name, kinds), number in operations.items():
                    block = function.append_basic_block(f"{name}_{kinds}")
                    choice.add_case(index(number), block)
                    builder.position_at_end(block)
                    {"take": self._take, "give": self._give}.get(name, self._operate)(name, kinds)
                    builder.branch(done)
                builder.position_at_end(unknown)
                builder.unreachable()
                builder.position_at_end(done)
        builder.branch(finished)
        builder.position_at_end(finished)
        builder.ret_void()

    def _operate(self, name: str, kinds: str) -> None:
        """row ← operation(operands)"""
        builder = self.builder
        emitter = Emitter(self.module, builder, DTYPE, self.width, False)
        into, places = self._word(1), [self._word(2 + i) for i in range(len(kinds))]
        same = [self._splat(place) if kind == "n" else None for kind, place in zip(kinds, places, strict=True)]
        with loop(builder, self.vectors) as v:
            lane = builder.mul(v, index(self.width))
            values = [
                builder.load(self._vector(emitter, builder.add(place, lane)), align=8) if own is None else own
                for place, own in zip(places, same, strict=True)
            ]
            result = emitter.number(emitter.operation(name, values))
            builder.store(result, self._vector(emitter, builder.add(into, lane)), align=8)

    def _take(self, name: str, kinds: str) -> None:
        """row ← values of this tile, the last of all again where there are no more"""
        builder, into = self.builder, self._word(1)
        with loop(builder, builder.mul(self.vectors, index(self.width))) as i:
            at, end = builder.add(self.first, i), self._plus(self.n, -1)
            at = builder.select(builder.icmp_signed("<", at, end), at, end)
            builder.store(builder.load(builder.gep(self.values, [at])), builder.gep(self.rows, [builder.add(into, i)]))

    def _give(self, name: str, kinds: str) -> None:
        """A column of the table ← a row, or a number"""
        builder, (into, step, field), place = self.builder, self.table, self._word(2)
        column = builder.gep(into, [builder.mul(self._word(1), field)])
        same = builder.load(builder.gep(self.numbers, [place])) if kinds == "n" else None
        with loop(builder, self.lanes) as i:
            value = same or builder.load(builder.gep(self.rows, [builder.add(place, i)]))
            builder.store(value, builder.gep(column, [builder.mul(builder.add(self.first, i), step)]))

    def _word(self, i: int) -> ir.Value:
        return self.builder.load(self.builder.gep(self.code, [self._plus(self.at, i)]))

    def _splat(self, place: ir.Value) -> ir.Value:
        return splat(self.builder, self.builder.load(self.builder.gep(self.numbers, [place])), self.width)

    def _vector(self, emitter: Emitter, at: ir.Value) -> ir.Value:
        return self.builder.bitcast(self.builder.gep(self.rows, [at]), emitter.vector.as_pointer())

    def _plus(self, x: ir.Value, number: int) -> ir.Value:
        return self.builder.add(x, index(number))
