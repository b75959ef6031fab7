"""Derivatives along directions, carried through a program or a scan beside its numbers: exact, by forward differentiation.

    y = f(x),  dy = f'(x) dx        and through a scan   xₖ₊₁ = f(xₖ, h, uₖ),   dxₖ₊₁ = f_x dxₖ + f_h dh + f_u duₖ

Every instruction of a program is followed by what it does to the tangents of its operands (`slopes.py`), so that the numbers
themselves are the same bits as without. Several directions in one program share them, and the slopes. At a kink the derivative
is that of the branch taken.

A tangent program has the groups of the program it was made of. In each group of inputs the components come first and then,
direction after direction, the tangents of those that are moving; in a group of outputs the tangents of all.
"""

from collections.abc import Sequence
from math import inf
from typing import Any, NamedTuple

from samara.compiler.derivatives.rules import FLAT, SELECTIONS, SLOPES
from samara.compiler.llvm.backend import compile_scan_program
from samara.compiler.scan import Run
from samara.compiler.stepper import Scan
from samara.compiler.trace.program import Guarded, Instruction, Program, program_of_body, without_unused
from samara.compiler.trace.tape_scalar import Taped, TapeWithConstants
from samara.core.tree import flatten


class Group(NamedTuple):
    """A group of inputs: how many components it has, and which of them have tangents."""

    size: int
    moving: tuple[int, ...]

    def place(self, component: int, direction: int) -> int:
        """Where the tangent of a component stands in the group"""
        return self.size + direction * len(self.moving) + self.moving.index(component)

    def size_with(self, directions: int) -> int:
        """Components and tangents together"""
        return self.size + directions * len(self.moving)


Tangents = list[Taped] | None
"""One per direction; None where they are 0 whatever the inputs"""


def tangent_of(program: Program | Guarded, groups: Sequence[Group], directions: int = 1) -> Program | Guarded:
    """(x, dx₁ … dx_P) → (y, f' dx₁ … f' dx_P) of a program y = f(x)

    Of the body of a scan with a quiet way through it there is one again. That way leaves the own states of idle effects as they
    are (`samara.physics.idle_effects`). An effect may be idle just because such a state is 0, and not beside it: the
    way is taken
    where the tangents of what it leaves are 0 as well. In all else being idle is an open condition: what is idle here is idle
    all around.
    """
    if isinstance(program, Program):
        return _Differentiated(program, groups, directions).program(len(program.outputs))
    left = set(_passed_on(program.quiet)) - set(_passed_on(program.whole))
    idle = _Differentiated(program.idle, groups, 0)
    ((worth_it,),) = program.idle.outputs
    condition = idle.values[worth_it]
    for component in sorted(left.intersection(groups[0].moving)):
        for direction in range(directions):
            tangent = idle.tape.scalar(0, groups[0].place(component, direction))
            condition = idle.tape.note("and", condition, idle.tape.note("equal", tangent, 0.0))
    ways = [_Differentiated(way, groups, directions) for way in (program.quiet, program.whole)]
    return Guarded(
        without_unused(Program(tuple(idle.tape.instructions), ((condition.at,),))),
        *(way.program(len(program.whole.outputs)) for way in ways),
    )


def _passed_on(program: Program) -> list[int]:
    """The components of the carry that come out as they went in"""
    came_in = [Instruction("input", place=(0, i)) for i in range(len(program.outputs[0]))]
    return [i for i, at in enumerate(program.outputs[0]) if program.instructions[at] == came_in[i]]


class _Differentiated:
    """Every instruction of a program again, each with the tangents of its result."""

    def __init__(self, program: Program, groups: Sequence[Group], directions: int) -> None:
        self.tape, self.directions, self.outputs = TapeWithConstants(longest=inf), directions, program.outputs
        self.values: list[Taped] = []
        self.tangents: list[Tangents] = []
        for own in program.instructions:
            if own.operation == "input":
                value, tangents = self._input(own.place, groups[own.place[0]])
            elif own.operation == "constant":
                value, tangents = Taped(self.tape.place(own.constant), self.tape), None
            else:
                value = self.tape.repeat(own, *(self.values[at] for at in own.arguments))
                tangents = self._tangents(own, value)
            self.values.append(value)
            self.tangents.append(tangents)

    def program(self, with_tangents: int) -> Program:
        """Outputs with their tangents in so many groups, without in those after them"""
        outputs = [[self.values[at].at for at in group] for group in self.outputs]
        zero = self.tape.place(0.0)
        for group, wanted in zip(outputs[:with_tangents], self.outputs, strict=False):
            for direction in range(self.directions):
                found = (self.tangents[at] for at in wanted)
                group += [own[direction].at if own is not None else zero for own in found]
        return without_unused(Program(tuple(self.tape.instructions), tuple(map(tuple, outputs))))

    def _input(self, place: tuple[int, int], group: Group) -> tuple[Taped, Tangents]:
        value = self.tape.scalar(*place)
        if place[1] not in group.moving:
            return value, None
        places = [group.place(place[1], direction) for direction in range(self.directions)]
        return value, [self.tape.scalar(place[0], at) for at in places]

    def _tangents(self, own: Instruction, value: Taped) -> Tangents:
        given = [self.tangents[at] for at in own.arguments]
        if own.operation in FLAT or not any(given):
            return None
        if own.operation in SELECTIONS:
            condition = self.values[own.arguments[0]]
            return [self._selected(own.operation, condition, each) for each in self._by_direction(given[1:])]
        slopes = SLOPES[own.operation](*(self.values[at] for at in own.arguments), value)
        return [self._sum(slopes, each) for each in self._by_direction(given)]

    def _by_direction(self, given: list[Tangents]) -> list[list[Taped | None]]:
        return [[own[k] if own else None for own in given] for k in range(self.directions)]

    def _selected(self, operation: str, condition: Taped, tangents: list[Taped | None]) -> Taped:
        return self.tape.note(operation, condition, *(0.0 if own is None else own for own in tangents))

    def _sum(self, slopes: Sequence[Any], tangents: list[Taped | None]) -> Taped:
        """Σ slope · tangent, without the products that are none"""
        total: Taped | None = None
        for slope, tangent in zip(slopes, tangents, strict=True):
            if tangent is None:
                continue
            minus = isinstance(slope, float) and slope == -1.0
            term = tangent if minus or (isinstance(slope, float) and slope == 1.0) else slope * tangent
            first = -term if minus else term
            total = first if total is None else total - term if minus else total + term
        assert total is not None
        return total


def compile_tangent(
    scan: Scan,
    held: Sequence[int],
    inputs: Sequence[int],
    directions: int = 1,
    *,
    dtype: str = "float64",
    fast: bool = False,
    threads: int | None = None,
) -> Run:
    """A scan with the tangents of its carry, and of the held values and inputs that are named, as vector code

    In strict arithmetic the numbers are those of the scan alone, bit for bit.
    """
    sizes = [len(flatten(template)) for template in scan.templates]
    moving = (range(sizes[0]), held, inputs)
    groups = [Group(size, tuple(own)) for size, own in zip(sizes, moving, strict=True)]
    program = tangent_of(program_of_body(*scan), groups, directions)
    with_tangents = [group.size_with(directions) for group in groups]
    return compile_scan_program(program, with_tangents, dtype=dtype, fast=fast, threads=threads)
