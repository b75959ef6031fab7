"""A scalar that records every operation on a tape and simplifies nothing.

CasADi, which traces the physics, simplifies (b − a) + a to b and 0·x to 0. That is mathematically equal, but rounds differently
from NumPy on the same source. A tape contains every operation in order, so that compiled code is bit-identical to NumPy,
including signs of zeros.

`taped(function)` returns a program whose constants are inputs, and their values. Two functions that differ only in constants,
such as two paths between waypoints, have equal programs and share compiled code. `program_as_written(function, *templates)`
leaves constants in the program, as `program_of` does.
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
LONGEST = 8000  # instructions; a longer tape takes as long to process as NumPy takes to run the function


class Taped(TracedScalar):
    """The result of one instruction of a tape: a number, or the condition of a comparison."""

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
    """Instructions in order, on one scalar and on numbers; each use of a number is a separate input.

    Repeated operations on the same results are recorded once.
    """

    def __init__(self, longest: float = LONGEST) -> None:
        self.longest = longest
        self.instructions: list[Instruction] = []
        self.numbers: list[float] = []
        self._done: dict[Scalar, int] = {}

    def scalar(self, group: int = 0, index: int = 0) -> Taped:
        """Append an input and return it."""
        return Taped(self._append(Instruction("input", place=(group, index))), self)

    def note(self, operation: str, *operands: Scalar) -> Taped:
        """Record an operation and return its result."""
        arguments = tuple([self.place(operand) for operand in operands])
        key = (operation, arguments)
        if key not in self._done:
            self._done[key] = self._append(Instruction(operation, arguments))
        return Taped(self._done[key], self)

    def repeat(self, instruction: Instruction, *operands: Scalar) -> Taped:
        """Record a copy of an instruction with these operands."""
        if instruction == Instruction(instruction.operation, instruction.arguments):
            return self.note(instruction.operation, *operands)
        copied = instruction._replace(arguments=tuple([self.place(operand) for operand in operands]))
        if copied not in self._done:
            self._done[copied] = self._append(copied)
        return Taped(self._done[copied], self)

    def place(self, x: Scalar) -> int:
        """Return the index of the instruction that computes a number or an earlier result."""
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
    """A tape that records numbers as constants."""

    def _number(self, x: float) -> int:
        key = ("constant", x.hex())
        if key not in self._done:
            self._done[key] = self._append(Instruction("constant", constant=x))
        return self._done[key]


def program_as_written(function: Callable[..., Tree], *templates: Tree) -> Program:
    """Trace `function(*arguments)` without simplification; one input group per template, one output group per result."""
    tape = TapeWithConstants()
    arguments = [
        unflatten(template, iter([tape.scalar(group, index) for index in range(len(flatten(template)))]))
        for group, template in enumerate(templates)
    ]
    with tracing():
        outputs = tuple(tuple(tape.place(leaf) for leaf in flatten(result)) for result in function(*arguments))
    return without_unused(Program(tuple(tape.instructions), outputs))


def taped(function: Callable[[Scalar], Scalar]) -> tuple[Program, tuple[float, ...]]:
    """Return the program of a function of one scalar, and its constants: input groups (scalar,) and constants, one of outputs.

    Raises:
        TypeError: the function uses operations other than + - * / and `samara.core.ops`.
        OverflowError: the tape is too long.
    """
    tape = Tape()
    with tracing():
        outputs = tuple(tape.place(leaf) for leaf in flatten(function(tape.scalar())))
    return Program(tuple(tape.instructions), (outputs,)), tuple(tape.numbers)


def played(program: Program, scalar: Scalar, constants: Sequence[Scalar]) -> list[Scalar]:
    """Evaluate a taped program on a scalar of any backend and on constants, which may be such scalars too."""
    return play(program, ((scalar,), constants))[0]


def play(program: Program, groups: Sequence[Sequence[Scalar]]) -> list[list[Scalar]]:
    """Evaluate a program on groups of scalars of any backend, operation by operation; returns its groups of outputs."""
    results: list[Scalar] = []
    for instruction in program.instructions:
        if instruction.operation == "input":
            results.append(groups[instruction.place[0]][instruction.place[1]])
        elif instruction.operation == "constant":
            results.append(instruction.constant)
        else:
            results.append(_execute(instruction, [results[index] for index in instruction.arguments]))
    return [[results[index] for index in group] for group in program.outputs]


def _execute(instruction: Instruction, operands: list[Scalar]) -> Scalar:
    """Execute an instruction: the result is a scalar, or a tuple of scalars for a layer or a loop."""
    if instruction.grid is not None:
        return ops.lookup(instruction.grid, *operands)
    if instruction.layer is not None:
        return instruction.layer.unrolled(operands)
    if instruction.operation == "row":
        return operands[0][instruction.place[1]]
    if instruction.loop is None:
        try:
            return _PYTHON_OPERATIONS[instruction.operation](*operands)
        except (ArithmeticError, ValueError):  # Python floats raise; compiled code gives infinity or NaN
            with np.errstate(all="ignore"):
                return float(_PYTHON_OPERATIONS[instruction.operation](*map(np.float64, operands)))
    body, active, carry_size = instruction.loop.body, instruction.loop.active, instruction.loop.carried
    condition = None if active is None else lambda carry, inputs: play(active, (carry, inputs))[0][0]
    iteration = lambda k, carry, inputs: tuple(play(body, ((k,), carry, inputs))[0])  # noqa: E731
    return unrolled(
        iteration, tuple(operands[:carry_size]), tuple(operands[carry_size:]), instruction.loop.turns, condition
    )


def _condition(x: Scalar) -> Scalar:
    """Convert to a condition: CasADi simplifies (c ? 1 : 0) to c, or leaves it a number."""
    return x != 0.0 if type(x) is float else x


_PYTHON_OPERATIONS: dict[str, Callable[..., Tree]] = {
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


# The operations of samara.core.ops, under the names it dispatches to -----------------------------------------------------


def _operation(name: str) -> Callable[..., Taped]:
    def record(*operands: Scalar) -> Taped:
        tape = next(operand.tape for operand in operands if isinstance(operand, Taped))
        return tape.note(name, *operands)

    return record


sqrt, floor, sin, cos, tan, asin, acos, atan, exp, log = map(_operation, UNARY)
atan2, equal, power = (_operation(name) for name in ("atan2", "equal", "power"))
logical_and, logical_or, where = (_operation(name) for name in ("and", "or", "select"))


def lookup(grid: Grid, i: Scalar, j: Scalar) -> Taped:
    """Record the lookup of a grid's entry as one instruction."""
    tape = next(index.tape for index in (i, j) if isinstance(index, Taped))
    return tape.repeat(Instruction("lookup", grid=grid), i, j)


def loop(
    body: Callable[..., Tree], carry: Tree, inputs: Tree, count: int, active: Callable[..., Tree] | None
) -> Scalar:
    """Record a loop as one instruction, its body without simplification, and return its final carry."""
    leaves = [*flatten(carry), *flatten(inputs)]
    tape = next(leaf.tape for leaf in leaves if isinstance(leaf, Taped))
    traced_loop = loop_of(TracedLoop(body, carry, inputs, count, active), program_as_written)
    result = tape.repeat(Instruction("loop", loop=traced_loop), *leaves)
    rows = (tape.repeat(Instruction("row", place=(0, k)), result) for k in range(traced_loop.carried))
    return unflatten(carry, rows)
