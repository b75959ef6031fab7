"""Cotangents carried back through a program, from its outputs to its inputs: exact, by reverse differentiation.

    y = f(x):   x̄ = f'(x)ᵀ ȳ        and through a step   xₖ₊₁ = f(xₖ, u):   x̄ₖ = f_xᵀ x̄ₖ₊₁,   ū += f_uᵀ x̄ₖ₊₁

The program is computed once, and then each of its instructions, from the last to the first, hands the cotangent of its result
to its operands by the slopes of `slopes.py`. However many inputs there are, all of f'ᵀ ȳ costs a few times f. At a kink the
derivative is that of the branch taken.

An adjoint program has the groups of inputs of the program it was made of, and after them one for each group of outputs: ȳ. Its
outputs are the cotangents of the groups of inputs that are asked for.
"""

from collections.abc import Sequence
from math import inf

from samara.compiler.derivatives.rules import FLAT, SELECTIONS, SLOPES
from samara.compiler.trace.program import Instruction, Program, without_unused
from samara.compiler.trace.tape_scalar import Taped, TapeWithConstants


def adjoint_of(program: Program, sizes: Sequence[int], wanted: Sequence[int]) -> Program:
    """(x, ȳ) → x̄ of a program y = f(x) whose groups of inputs have these sizes, for the groups of them that are wanted"""
    tape = TapeWithConstants(longest=inf)
    values = _values(program, tape)
    bars: list[Taped | None] = [None] * len(values)
    for group, outputs in enumerate(program.outputs):
        for place, at in enumerate(outputs):
            _add(bars, at, tape.scalar(len(sizes) + group, place))
    moving = _moving(program, set(wanted))
    for at in range(len(values) - 1, -1, -1):
        own, bar = program.instructions[at], bars[at]
        if bar is not None and own.arguments and at in moving:
            _hand_back(own, values, at, bar, bars, moving)
    zero = tape.place(0.0)
    found = {own.place: bars[at] for at, own in enumerate(program.instructions) if own.operation == "input"}
    handed_back = []
    for group in wanted:
        cotangents = (found.get((group, place)) for place in range(sizes[group]))
        handed_back.append(tuple(zero if own is None else own.at for own in cotangents))
    return without_unused(Program(tuple(tape.instructions), tuple(handed_back)))


def _values(program: Program, tape: TapeWithConstants) -> list[Taped]:
    """Every instruction of the program again"""
    values: list[Taped] = []
    for own in program.instructions:
        if own.operation == "input":
            values.append(tape.scalar(*own.place))
        elif own.operation == "constant":
            values.append(Taped(tape.place(own.constant), tape))
        else:
            values.append(tape.repeat(own, *(values[at] for at in own.arguments)))
    return values


def _moving(program: Program, wanted: set[int]) -> set[int]:
    """The instructions that depend on a wanted input, but for conditions and floors, which are constant between their jumps"""
    moving: set[int] = set()
    for at, own in enumerate(program.instructions):
        if own.operation == "input":
            if own.place[0] in wanted:
                moving.add(at)
        elif own.operation not in FLAT and not moving.isdisjoint(own.arguments):
            moving.add(at)
    return moving


def _hand_back(
    own: Instruction, values: list[Taped], at: int, bar: Taped, bars: list[Taped | None], moving: set[int]
) -> None:
    if own.operation in SELECTIONS:
        condition, first, *second = own.arguments
        if first in moving:
            _add(bars, first, bar.tape.note("select", values[condition], bar, 0.0))
        if second and second[0] in moving:
            _add(bars, second[0], bar.tape.note("select", values[condition], 0.0, bar))
        return
    slopes = SLOPES[own.operation](*(values[each] for each in own.arguments), values[at])
    for each, slope in zip(own.arguments, slopes, strict=True):
        if each in moving:
            _add(bars, each, _product(slope, bar))


def _product(slope: float | Taped, bar: Taped) -> Taped:
    if isinstance(slope, float) and slope in (1.0, -1.0):
        return bar if slope == 1.0 else -bar
    return slope * bar


def _add(bars: list[Taped | None], at: int, more: Taped) -> None:
    before = bars[at]
    bars[at] = more if before is None else before + more
