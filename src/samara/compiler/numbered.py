"""One code for all lanes, traced once: the numbers that differ are `Number`s on a tape, and inputs of the code.

A trace with Numbers (`samara.compiler.trace.casadi_scalar`) has a literal of its own, a tag, wherever a number that
follows from them is.
Here tags become inputs, with a row for each: what the tape plays for the lanes that fly.

A lane's own trace is the same but for two things. Equal literals are shared there, which is the same arithmetic. And CasADi
simplifies more where literals are 0 or 1, where c x − c x is 0, or c (x / c) is x: lanes of which that is true, and not of the
probe, are told by the tape (`Tape.agreeing`). `differs` compares the code with the trace of a lane by itself.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from samara.compiler.compiled_step import CompiledStep
from samara.compiler.trace.casadi_scalar import TAGS, is_made_of_tags
from samara.compiler.trace.program import Guarded, Instruction, Program
from samara.core.number import Number
from samara.core.number_tape import Tape, UnlikeLanesError

HELD = 1  # the group of inputs that the numbers are added to
ADDED, SCALED = ("add", "subtract", "negate"), ("multiply", "divide", "negate")
COMPARED = ("less", "less_equal", "equal", "not_equal")


class NumberedStep(CompiledStep):
    """A code with Numbers: `machine(n)` has those of the lanes that are fed to their tape in its columns."""

    def __init__(self, code: CompiledStep, kernels: Callable[..., Any]) -> None:
        self.given, self._options, carry = code.given, code._options, code._start[0]
        self.tagged, self.instructions, self.skip = code._program, code.instructions, code.skip
        self.numbers = tagged_numbers(code._program)
        self.tape = self.numbers[0].tape
        rows = {own.tape.tags[own.at]: self.given + row for row, own in enumerate(self.numbers)}
        self._program = _with_inputs(code._program, rows)
        self._start = [carry, np.concatenate([code._start[1], np.zeros(len(self.numbers))])]
        self._kernels = kernels(self._program, len(carry), len(self._start[1]), self._options)
        for part in parts(code._program):
            for decision, pairs in _coincidences(part):
                if self.tape.decide(decision, *pairs):
                    raise UnlikeLanesError("numbers of the probe coincide")

    def memory(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """What `CompiledStep` starts with, and below it the numbers of each lane"""
        carry, held = super().memory(n)
        held[self.given :] = self.tape.columns(self.numbers)
        return carry, held

    def differs(self, program: Program | Guarded, lane: int) -> bool:
        """Whether this is another computation than a lane's own program, for one of the lanes that are fed"""
        columns = self.tape.columns(self.numbers)[:, lane].tolist()
        values = {own.tape.tags[own.at]: value for own, value in zip(self.numbers, columns, strict=True)}
        known: dict[Hashable, int] = {}
        return [_meaning(part, values, known) for part in parts(self.tagged)] != [
            _meaning(part, {}, known) for part in parts(program)
        ]


def parts(program: Program | Guarded) -> tuple[Program, ...]:
    """The programs that it is of"""
    return tuple(program) if isinstance(program, Guarded) else (program,)


def tagged_numbers(program: Program | Guarded) -> list[Number]:
    """The numbers behind the tags of a program that was traced with Numbers, each once"""
    constants = [each.constant for part in parts(program) for each in part.instructions]
    if any(map(is_made_of_tags, constants)):
        raise UnlikeLanesError("a literal that CasADi has made of numbers")
    return [TAGS[own] for own in dict.fromkeys(constants) if own in TAGS]


def _with_inputs(program: Program | Guarded, rows: dict[float, int]) -> Program | Guarded:
    def without_tags(part: Program) -> Program:
        own = tuple(
            Instruction("input", place=(HELD, rows[each.constant]))
            if each.operation == "constant" and each.constant in rows
            else each
            for each in part.instructions
        )
        return Program(own, part.outputs)

    whole = tuple(map(without_tags, parts(program)))
    return Guarded(*whole) if isinstance(program, Guarded) else whole[0]


def _meaning(program: Program, values: dict[float, float], known: dict[Hashable, int]) -> Any:
    """Its outputs, by numbers that are equal for equal computations; `values` are those of tags"""
    at: list[int] = []
    for each in program.instructions:
        arguments = tuple([at[own] for own in each.arguments])
        key: Hashable
        if each.operation == "constant":
            key = float(values.get(each.constant, each.constant)).hex()
        elif each.operation == "input":
            key = each.place
        elif each.operation == "multiply" and arguments[0] == arguments[1]:
            key = "square", arguments[:1]
        else:
            key = each.operation, arguments, each.place[1], each.layer, each.grid, each.loop
        at.append(known.setdefault(key, len(known)))
    return [tuple(at[own] for own in group) for group in program.outputs]


# Where CasADi would simplify if numbers were equal --------------------------------------------------------------------


def _coincidences(program: Program) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Decisions that must be false: equal literals, or such whose product is 1, in the places that CasADi looks at"""
    own = program.instructions
    found: dict[tuple[str, tuple[float, ...]], None] = {}
    for each in own:
        if len(each.arguments) != 2:
            continue
        x, y = each.arguments
        for a, b in _compared(each.operation, own, x, y):
            pairs = _differing(own, a, b)
            if pairs:
                found["alike", pairs] = None
        if each.operation in ("multiply", "divide"):
            for literal, other in ((x, y), (y, x)):
                if own[literal].operation == "constant" and own[other].operation in SCALED:
                    for inner in own[other].arguments:
                        pairs = _differing(own, literal, inner) if own[inner].operation == "constant" else ()
                        if pairs:
                            found["reciprocal", pairs] = None
    for decision, literals in found:
        yield decision, tuple(TAGS.get(value, value) for value in literals)


def _compared(operation: str, own: Sequence[Instruction], x: int, y: int) -> Iterator[tuple[int, int]]:
    """Which results CasADi looks at for being equal: the operands, and those inside them"""
    kinds = {"add": ADDED, "subtract": ADDED, "multiply": SCALED, "divide": SCALED}
    inside = kinds.get(operation, ADDED if operation in COMPARED else ())
    if operation in ("subtract", "divide", *COMPARED):
        yield x, y
    if own[x].operation in inside:
        yield from ((inner, y) for inner in own[x].arguments)
    if own[y].operation in inside:
        yield from ((x, inner) for inner in own[y].arguments)


def _differing(own: Sequence[Instruction], a: int, b: int) -> tuple[float, ...]:
    """The literals, in pairs, that would have to be equal for two results to be so; none where something else differs"""
    first, second = own[a], own[b]
    if a == b or first.operation != second.operation:
        return ()
    if first.operation == "constant":
        pair = first.constant, second.constant
        return pair if pair[0] in TAGS or pair[1] in TAGS else ()
    if not first.arguments or len(first.arguments) != len(second.arguments):
        return ()
    pairs: tuple[float, ...] = ()
    for i, j in zip(first.arguments, second.arguments, strict=True):
        if i == j:
            continue
        if not own[i].operation == own[j].operation == "constant":
            return ()
        pairs += own[i].constant, own[j].constant
    return pairs if any(own in TAGS for own in pairs) else ()


# A lane by itself ------------------------------------------------------------------------------------------------------


def has_numbers(record: Any) -> bool:
    """Whether Numbers are in a record of tuples and dataclasses"""
    if isinstance(record, tuple):
        return any(map(has_numbers, record))
    if is_dataclass(record) and not isinstance(record, type):
        return any(has_numbers(getattr(record, field.name)) for field in fields(record))
    return type(record) is Number


def in_lane(record: Any, tape: Tape, lane: int) -> Any:
    """A record of tuples and dataclasses with the numbers of one of the lanes that are fed"""
    if type(record) is Number:
        return float(tape.columns([record])[0, lane])
    if isinstance(record, tuple):
        own = [in_lane(each, tape, lane) for each in record]
        return type(record)(*own) if hasattr(record, "_fields") else tuple(own)
    if is_dataclass(record) and not isinstance(record, type):
        changes = {
            field.name: (getattr(record, field.name), in_lane(getattr(record, field.name), tape, lane))
            for field in fields(record)
            if field.init
        }
        changed = {name: new for name, (old, new) in changes.items() if new is not old}
        return replace(record, **changed) if changed else record
    return record
