"""An interpreter of tapes in machine code: tabulates a taped function at many values of its scalar without compiling the tape.

    program, numbers = record_tape(function)
    tabulator(program)(rows, times, np.array(numbers))       # rows[k] ← leaves of function(times[k])

A trajectory is needed at a few hundred times, and an event in flight creates a new one: compiling it would take longer than
flying it. One interpreter, compiled once, executes any tape, each operation on a tile of lanes before the next. Strict IEEE.
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
from samara.compiler.trace.program import Program, eliminate_dead_code
from samara.core.portable_math import ELEMENTARY
from samara.core.types import Array

DTYPE = "float64"
OPTIMISATION_LEVEL = 0  # LLVM's level: unrolling these loops gains no speed and takes five times as long to compile
LANES_PER_TILE = (
    384  # lanes: the rows in use stay in the L1 cache, and decoding an instruction costs little beside executing it
)
WORDS_PER_INSTRUCTION = 5  # operation, target, and up to three operands
ARITHMETIC = {
    **dict.fromkeys(("negate", "sqrt", "floor"), ("r",)),
    **dict.fromkeys(("add", "multiply", "equal"), ("rr", "rn")),
    **dict.fromkeys(("subtract", "divide", "less", "less_equal"), ("rr", "rn", "nr")),
    **dict.fromkeys(("and", "or"), ("rr",)),
    "select": ("rrr", "rrn", "rnr", "rnn"),
}
"""The operand types of each operation: r is a row of lanes, n one number for all of them."""
COMMON_FUNCTIONS = frozenset(
    {"sin", "cos", "atan2"}
)  # part of every interpreter, so that one interpreter serves almost every tape
COMMUTATIVE = ("add", "multiply", "equal")


@lru_cache(maxsize=256)
def tabulator(program: Program) -> Callable[[Array, Array, Array], None]:
    """Return fill(into, values, numbers): into[k, i] ← output i at values[k]; into (n, outputs) may have any strides."""
    interpreter = _compile_interpreter(
        COMMON_FUNCTIONS | ELEMENTARY.intersection(instruction.operation for instruction in program.instructions)
    )
    code, row_count = _encode(eliminate_dead_code(program), interpreter.operations)
    output_count, row_buffer = len(program.outputs[0]), np.empty(row_count * LANES_PER_TILE)
    code_address, count, row_address = code.ctypes.data, len(code), row_buffer.ctypes.data

    def fill(target: Array, values: Array, numbers: Array) -> None:
        n = len(values)
        if target.shape != (n, output_count) or not (values.flags.c_contiguous and numbers.flags.c_contiguous):
            raise ValueError(
                f"{values.shape} values into {target.shape}; expected (n,) side by side into (n, {output_count})"
            )
        if not target.dtype == values.dtype == numbers.dtype == DTYPE:
            raise ValueError(f"{values.dtype} and {numbers.dtype} into {target.dtype}; expected {DTYPE}")
        if n == 0:
            return
        step, field = target.strides
        addresses = (numbers.ctypes.data, row_address, values.ctypes.data, n, target.ctypes.data, step // 8, field // 8)
        interpreter.code.call(code_address, count, *addresses)

    fill.kept = code, row_buffer  # type: ignore[attr-defined]  # the arrays behind the addresses
    return fill


class TapeInterpreter(NamedTuple):
    """Machine code that executes tapes, and the opcode of each operation and its operand types."""

    code: MachineCode
    operations: dict[tuple[str, str], int]


def _encode(program: Program, operations: dict[tuple[str, str], int]) -> tuple[Array, int]:
    """Encode the instructions as words, and count the rows they need: a row is reused after the last use of its content."""
    last_use = {operand: k for k, instruction in enumerate(program.instructions) for operand in instruction.arguments}
    last_use |= dict.fromkeys(program.outputs[0], len(program.instructions))
    words: list[int] = []
    locations: dict[int, tuple[str, int]] = {}  # location of an instruction's result: a row ("r"), or a constant ("n")
    free: list[int] = []
    row_count = 0

    def new_row() -> int:
        nonlocal row_count
        if not free:
            free.append(row_count * LANES_PER_TILE)
            row_count += 1
        return free.pop()

    def write(operation: str, target: int, operands: Sequence[tuple[str, int]]) -> None:
        if operation in COMMUTATIVE and operands[0][0] == "n":
            operands = operands[::-1]
        operand_types, operand_locations = (
            "".join(operand_type for operand_type, _ in operands),
            [location for _, location in operands],
        )
        words.extend(
            [
                operations[operation, operand_types],
                target,
                *operand_locations,
                *[0] * (WORDS_PER_INSTRUCTION - 2 - len(operand_locations)),
            ]
        )

    for k, instruction in enumerate(program.instructions):
        operands = [locations[operand] for operand in instruction.arguments]
        free += {
            locations[operand][1]
            for operand in instruction.arguments
            if last_use[operand] == k and locations[operand][0] == "r"
        }
        if instruction.operation != "input":
            locations[k] = "r", new_row()
            write(instruction.operation, locations[k][1], operands)
        elif instruction.location[0]:
            locations[k] = "n", instruction.location[1]
        elif k in last_use:
            locations[k] = "r", new_row()
            write("take", locations[k][1], ())
    for field, operand in enumerate(program.outputs[0]):
        write("give", field, [locations[operand]])
    return np.array(words, dtype=np.int64).reshape(-1, WORDS_PER_INSTRUCTION), row_count


@cache
def _compile_interpreter(functions: frozenset[str]) -> TapeInterpreter:
    """Compile the interpreter for tapes with these elementary functions besides the arithmetic."""
    operand_types = ARITHMETIC | {name: ("rr", "rn", "nr") if name == "atan2" else ("r",) for name in sorted(functions)}
    variants = [(name, kinds) for name, type_strings in operand_types.items() for kinds in type_strings]
    operations = {variant: k for k, variant in enumerate([("take", ""), ("give", "r"), ("give", "n"), *variants])}
    module = new_module()
    pointer = DOUBLE.as_pointer()
    kinds = [INDEX.as_pointer(), INDEX, pointer, pointer, pointer, INDEX, pointer, INDEX, INDEX]
    _InterpreterEmitter(*new_function(module, "read", kinds)).emit(operations)
    return TapeInterpreter(machine_code(module, "read", OPTIMISATION_LEVEL, holds_lock=True), operations)


class _InterpreterEmitter:
    """Emission of read(code, count, numbers, rows, values, n, into, step, field): by tiles, then by instructions."""

    def __init__(self, builder: ir.IRBuilder, arguments: Sequence[ir.Value]) -> None:
        self.code, self.count, self.numbers, self.rows, self.values, self.n, *self.table = arguments
        self.width, self.module, self.builder = vector_width(DTYPE), builder.module, builder

    def emit(self, operations: dict[tuple[str, str], int]) -> None:
        builder, function = self.builder, self.builder.function
        finished = function.append_basic_block("finished")
        with loop(builder, builder.sdiv(self._plus(self.n, LANES_PER_TILE - 1), index(LANES_PER_TILE))) as tile:
            self.first = builder.mul(tile, index(LANES_PER_TILE))
            remaining = builder.sub(self.n, self.first)
            self.lanes = builder.select(
                builder.icmp_signed("<", remaining, index(LANES_PER_TILE)), remaining, index(LANES_PER_TILE)
            )
            self.vectors = builder.sdiv(self._plus(self.lanes, self.width - 1), index(self.width))
            with loop(builder, self.count) as k:
                self.at = builder.mul(k, index(WORDS_PER_INSTRUCTION))
                done, unknown = (function.append_basic_block(name) for name in ("done", "unknown"))
                switch = builder.switch(self._word(0), unknown)
                for (name, operand_types), opcode in operations.items():
                    block = function.append_basic_block(f"{name}_{operand_types}")
                    switch.add_case(index(opcode), block)
                    builder.position_at_end(block)
                    {"take": self._take, "give": self._give}.get(name, self._operate)(name, operand_types)
                    builder.branch(done)
                builder.position_at_end(unknown)
                builder.unreachable()
                builder.position_at_end(done)
        builder.branch(finished)
        builder.position_at_end(finished)
        builder.ret_void()

    def _operate(self, name: str, operand_types: str) -> None:
        """row ← operation(operands)."""
        builder = self.builder
        emitter = Emitter(self.module, builder, DTYPE, self.width, False)
        target, operand_locations = self._word(1), [self._word(2 + i) for i in range(len(operand_types))]
        splats = [
            self._splat(location) if operand_type == "n" else None
            for operand_type, location in zip(operand_types, operand_locations, strict=True)
        ]
        with loop(builder, self.vectors) as v:
            lane = builder.mul(v, index(self.width))
            values = [
                builder.load(self._vector(emitter, builder.add(location, lane)), align=8)
                if splat_value is None
                else splat_value
                for location, splat_value in zip(operand_locations, splats, strict=True)
            ]
            result = emitter.number(emitter.operation(name, values))
            builder.store(result, self._vector(emitter, builder.add(target, lane)), align=8)

    def _take(self, name: str, operand_types: str) -> None:
        """row ← values of this tile; the last value is repeated to fill a vector."""
        builder, target = self.builder, self._word(1)
        with loop(builder, builder.mul(self.vectors, index(self.width))) as i:
            position, end = builder.add(self.first, i), self._plus(self.n, -1)
            position = builder.select(builder.icmp_signed("<", position, end), position, end)
            builder.store(
                builder.load(builder.gep(self.values, [position])), builder.gep(self.rows, [builder.add(target, i)])
            )

    def _give(self, name: str, operand_types: str) -> None:
        """A column of the table ← a row, or a number."""
        builder, (table, step, field), location = self.builder, self.table, self._word(2)
        column = builder.gep(table, [builder.mul(self._word(1), field)])
        constant = builder.load(builder.gep(self.numbers, [location])) if operand_types == "n" else None
        with loop(builder, self.lanes) as i:
            value = constant or builder.load(builder.gep(self.rows, [builder.add(location, i)]))
            builder.store(value, builder.gep(column, [builder.mul(builder.add(self.first, i), step)]))

    def _word(self, i: int) -> ir.Value:
        return self.builder.load(self.builder.gep(self.code, [self._plus(self.at, i)]))

    def _splat(self, location: ir.Value) -> ir.Value:
        return splat(self.builder, self.builder.load(self.builder.gep(self.numbers, [location])), self.width)

    def _vector(self, emitter: Emitter, offset: ir.Value) -> ir.Value:
        return self.builder.bitcast(self.builder.gep(self.rows, [offset]), emitter.vector.as_pointer())

    def _plus(self, x: ir.Value, number: int) -> ir.Value:
        return self.builder.add(x, index(number))
