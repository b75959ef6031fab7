"""The scalar that writes down what is done with it, operation by operation, and simplifies nothing.

CasADi, which traces the physics, makes b of (b − a) + a and 0 of 0·x. That is as true, but rounds differently from what NumPy
computes from the same source. A tape keeps every operation, in its order, so that compiled code has NumPy's bits, signs of
zeros included.

Numbers in the source are kept apart from what is done with them: `taped(function)` is a program whose constants are inputs,
and their values. Two functions that differ in their numbers alone, such as two ways from one place to another, have equal
programs, and so share code. `program_as_written(function, *templates)` keeps them where they are, as `program_of` does.
"""

import operator
from collections.abc import Callable, Sequence
from numbers import Real

import numpy as np

from samara.compiler.trace.casadi_scalar import TracedLoop
from samara.compiler.trace.program import Instruction, Program, loop_of, without_unused
from samara.core import ops
from samara.core.block_ops import Grid, unrolled
from samara.core.quantity import Scalar
from samara.core.traced import TracedScalar, trace_error, tracing
from samara.core.tree import Tree, flatten, unflatten

UNARY = ("sqrt", "floor", "sin", "cos", "tan", "asin", "acos", "atan", "exp", "log")
LONGEST = 8000  # instructions; such a tape is read no quicker than NumPy runs


class Taped(TracedScalar):
    """The result of one instruction of a tape: a number, or from a comparison a condition."""

    __slots__ = ("at", "tape")

    def __init__(self, at: int, tape: "Tape") -> None:
        self.at, self.tape = at, tape

    def apply(self, operation: str, *operands: Scalar) -> "Taped":
        return self.tape.note(operation, *operands)

    def __pow__(self, other: Scalar) -> "Taped":
        if isinstance(other, Taped) or other != 2:
            raise trace_error("NumPy's powers differ between processors", "use samara.core.ops.power")
        return self.tape.note("multiply", self, self)

    def __rpow__(self, other: Scalar) -> "Taped":
        raise trace_error("NumPy's powers differ between processors", "use samara.core.ops.power")


class Tape:
    """Instructions in order, of one scalar and of numbers, each use of a number its own.

    What is done twice with the same results is done once.
    """

    def __init__(self, longest: float = LONGEST) -> None:
        self.longest = longest
        self.instructions: list[Instruction] = []
        self.numbers: list[float] = []
        self._done: dict[Scalar, int] = {}

    def scalar(self, group: int = 0, index: int = 0) -> Taped:
        """What the function is of"""
        return Taped(self._append(Instruction("input", place=(group, index))), self)

    def note(self, operation: str, *operands: Scalar) -> Taped:
        """One operation more"""
        arguments = tuple([self.place(each) for each in operands])
        key = (operation, arguments)
        if key not in self._done:
            self._done[key] = self._append(Instruction(operation, arguments))
        return Taped(self._done[key], self)

    def repeat(self, instruction: Instruction, *operands: Scalar) -> Taped:
        """The same instruction on these operands"""
        if instruction == Instruction(instruction.operation, instruction.arguments):
            return self.note(instruction.operation, *operands)
        repeated = instruction._replace(arguments=tuple([self.place(operand) for operand in operands]))
        if repeated not in self._done:
            self._done[repeated] = self._append(repeated)
        return Taped(self._done[repeated], self)

    def place(self, x: Scalar) -> int:
        """The instruction that holds a number or an earlier result"""
        if type(x) is Taped:
            if x.tape is not self:
                raise ValueError(
                    "a scalar of another trace; expected whatever the body of a loop reads in its `inputs`"
                )
            return x.at
        if type(x) is not float and not isinstance(x, Real):
            raise trace_error(f"{type(x).__name__} is not a scalar", "compute with scalars")
        return self._number(float(x))

    def _number(self, x: float) -> int:
        self.numbers.append(x)
        return self._append(Instruction("input", place=(1, len(self.numbers) - 1)))

    def _append(self, instruction: Instruction) -> int:
        if len(self.instructions) >= self.longest:
            raise OverflowError(f"more than {self.longest} instructions")
        self.instructions.append(instruction)
        return len(self.instructions) - 1


class TapeWithConstants(Tape):
    """A tape on which numbers are written as they are."""

    def _number(self, x: float) -> int:
        key = ("constant", x.hex())
        if key not in self._done:
            self._done[key] = self._append(Instruction("constant", constant=x))
        return self._done[key]


def program_as_written(function: Callable[..., Tree], *templates: Tree) -> Program:
    """Traces `function(*arguments)` as `program_of` does, one input group per template, one output group per result"""
    tape = TapeWithConstants()
    arguments = [
        unflatten(template, iter([tape.scalar(group, index) for index in range(len(flatten(template)))]))
        for group, template in enumerate(templates)
    ]
    with tracing():
        outputs = tuple(tuple(tape.place(leaf) for leaf in flatten(result)) for result in function(*arguments))
    return without_unused(Program(tuple(tape.instructions), outputs))


def taped(function: Callable[[Scalar], Scalar]) -> tuple[Program, tuple[float, ...]]:
    """The program of a function of one scalar, and its numbers: input groups (scalar,) and numbers, one group of outputs

    TypeError where the function asks for more than + - * / and `samara.core.ops` have, OverflowError where it is too long.
    """
    tape = Tape()
    with tracing():
        outputs = tuple(tape.place(leaf) for leaf in flatten(function(tape.scalar())))
    return Program(tuple(tape.instructions), (outputs,)), tuple(tape.numbers)


def played(program: Program, scalar: Scalar, numbers: Sequence[Scalar]) -> list[Scalar]:
    """What a taped program computes of a scalar of any backend and of numbers, which may be such scalars too"""
    return play(program, ((scalar,), numbers))[0]


def play(program: Program, groups: Sequence[Sequence[Scalar]]) -> list[list[Scalar]]:
    """What a program computes of groups of scalars of any backend, operation by operation, for each group of its outputs"""
    results: list[Scalar] = []
    for own in program.instructions:
        if own.operation == "input":
            results.append(groups[own.place[0]][own.place[1]])
        elif own.operation == "constant":
            results.append(own.constant)
        else:
            results.append(_perform(own, [results[at] for at in own.arguments]))
    return [[results[at] for at in group] for group in program.outputs]


def _perform(own: Instruction, operands: list[Scalar]) -> Scalar:
    """What an instruction gives: a scalar, or of a layer or a loop a tuple of them"""
    if own.grid is not None:
        return ops.lookup(own.grid, *operands)
    if own.layer is not None:
        return own.layer.unrolled(operands)
    if own.operation == "row":
        return operands[0][own.place[1]]
    if own.loop is None:
        try:
            return _PLAYED[own.operation](*operands)
        except (ArithmeticError, ValueError):  # of Python floats: infinity or NaN, as compiled code has it
            with np.errstate(all="ignore"):
                return float(_PLAYED[own.operation](*map(np.float64, operands)))
    body, active, cut = own.loop.body, own.loop.active, own.loop.carried
    condition = None if active is None else lambda carry, inputs: play(active, (carry, inputs))[0][0]
    turn = lambda k, carry, inputs: tuple(play(body, ((k,), carry, inputs))[0])  # noqa: E731
    return unrolled(turn, tuple(operands[:cut]), tuple(operands[cut:]), own.loop.turns, condition)


def _condition(x: Scalar) -> Scalar:
    """A condition: CasADi makes c of (c ? 1 : 0), or leaves it a number"""
    return x != 0.0 if type(x) is float else x


_PLAYED: dict[str, Callable[..., Tree]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "negate": operator.neg,
    "square": lambda a: a * a,
    "twice": lambda a: a + a,
    "invert": lambda a: 1.0 / a,
    "power": ops.power,
    "less": operator.lt,
    "less_equal": operator.le,
    "not_equal": operator.ne,
    "not": lambda a: ops.equal(a, 0.0),
    "and": lambda a, b: ops.logical_and(_condition(a), _condition(b)),
    "or": lambda a, b: ops.logical_or(_condition(a), _condition(b)),
    "select": ops.where,
    "if_else_zero": lambda a, b: ops.where(a, b, 0.0),
    **{name: getattr(ops, name) for name in ("equal", "atan2", *UNARY)},
}


# The operations of samara.core.ops, under the names it asks for ----------------------------------------------------------


def _operation(name: str) -> Callable[..., Taped]:
    def noted(*operands: Scalar) -> Taped:
        tape = next(each.tape for each in operands if isinstance(each, Taped))
        return tape.note(name, *operands)

    return noted


sqrt, floor, sin, cos, tan, asin, acos, atan, exp, log = map(_operation, UNARY)
atan2, equal, power = (_operation(name) for name in ("atan2", "equal", "power"))
logical_and, logical_or, where = (_operation(name) for name in ("and", "or", "select"))


def lookup(grid: Grid, i: Scalar, j: Scalar) -> Taped:
    """The entry of a grid, as one instruction"""
    tape = next(index.tape for index in (i, j) if isinstance(index, Taped))
    return tape.repeat(Instruction("lookup", grid=grid), i, j)


def loop(
    body: Callable[..., Tree], carry: Tree, inputs: Tree, count: int, active: Callable[..., Tree] | None
) -> Scalar:
    """The final carry of a loop, whose body is not simplified either"""
    leaves = [*flatten(carry), *flatten(inputs)]
    tape = next(leaf.tape for leaf in leaves if isinstance(leaf, Taped))
    traced = loop_of(TracedLoop(body, carry, inputs, count, active), program_as_written)
    result = tape.repeat(Instruction("loop", loop=traced), *leaves)
    rows = (tape.repeat(Instruction("row", place=(0, k)), result) for k in range(traced.carried))
    return unflatten(carry, rows)
