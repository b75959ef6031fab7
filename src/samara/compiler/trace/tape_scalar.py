"""A scalar that records every operation on a tape and simplifies nothing.

CasADi, which traces the physics, simplifies (b − a) + a to b and 0·x to 0. That is mathematically equal, but rounds differently
from NumPy on the same source. A tape contains every operation in order, so that compiled code is bit-identical to NumPy,
including signs of zeros.

`record_tape(function)` returns a program whose constants are inputs, and their values. Two functions that differ only in
constants, such as two paths between waypoints, have equal programs and share compiled code.
`trace_unsimplified(function, *templates)` leaves constants in the program, as `trace_program` does.
"""

import operator
from collections.abc import Callable, Sequence
from numbers import Real

import numpy as np

from samara.compiler.trace.casadi_scalar import TracedLoop
from samara.compiler.trace.program import Instruction, Program, eliminate_dead_code, trace_loop
from samara.core import ops
from samara.core.block_ops import ConstantTable, unroll_loop
from samara.core.quantity import Scalar
from samara.core.traced_scalar import TracedScalar, locate_trace_errors, trace_error
from samara.core.tree import Tree, flatten, unflatten

UNARY = ("sqrt", "floor", "sin", "cos", "tan", "asin", "acos", "atan", "exp", "log")
MAX_TAPE_LENGTH = 8000  # instructions; a longer tape takes as long to process as NumPy takes to run the function


class TapeScalar(TracedScalar):
    """The result of one instruction of a tape: a number, or the condition of a comparison."""

    __slots__ = ("index", "tape")

    def __init__(self, index: int, tape: "Tape") -> None:
        self.index, self.tape = index, tape

    def apply(self, operation: str, *operands: Scalar) -> "TapeScalar":
        return self.tape.record(operation, *operands)

    def __pow__(self, other: Scalar) -> "TapeScalar":
        if isinstance(other, TapeScalar) or other != 2:
            raise trace_error("NumPy's powers differ between processors", "use samara.core.ops.power")
        return self.tape.record("multiply", self, self)

    def __rpow__(self, other: Scalar) -> "TapeScalar":
        raise trace_error("NumPy's powers differ between processors", "use samara.core.ops.power")


class Tape:
    """Instructions in order, on one scalar and on numbers; each use of a number is a separate input.

    Repeated operations on the same results are recorded once.
    """

    def __init__(self, max_length: float = MAX_TAPE_LENGTH) -> None:
        self.max_length = max_length
        self.instructions: list[Instruction] = []
        self.constants: list[float] = []
        self._recorded: dict[Scalar, int] = {}

    def add_input(self, group: int = 0, index: int = 0) -> TapeScalar:
        """Append an input and return it."""
        return TapeScalar(self._append(Instruction("input", location=(group, index))), self)

    def record(self, operation: str, *operands: Scalar) -> TapeScalar:
        """Record an operation and return its result."""
        arguments = tuple([self.operand_index(operand) for operand in operands])
        key = (operation, arguments)
        if key not in self._recorded:
            self._recorded[key] = self._append(Instruction(operation, arguments))
        return TapeScalar(self._recorded[key], self)

    def record_copy(self, instruction: Instruction, *operands: Scalar) -> TapeScalar:
        """Record a copy of an instruction with these operands."""
        if instruction == Instruction(instruction.operation, instruction.arguments):
            return self.record(instruction.operation, *operands)
        copied = instruction._replace(arguments=tuple([self.operand_index(operand) for operand in operands]))
        if copied not in self._recorded:
            self._recorded[copied] = self._append(copied)
        return TapeScalar(self._recorded[copied], self)

    def operand_index(self, x: Scalar) -> int:
        """Return the index of the instruction that computes a number or an earlier result."""
        if type(x) is TapeScalar:
            if x.tape is not self:
                raise ValueError(
                    "a scalar of another trace; expected every traced value that a loop body reads to be in its `inputs`"
                )
            return x.index
        if type(x) is not float and not isinstance(x, Real):
            raise trace_error(f"{type(x).__name__} is not a scalar", "compute with scalars")
        return self._add_constant(float(x))

    def _add_constant(self, x: float) -> int:
        self.constants.append(x)
        return self._append(Instruction("input", location=(1, len(self.constants) - 1)))

    def _append(self, instruction: Instruction) -> int:
        if len(self.instructions) >= self.max_length:
            raise OverflowError(f"more than {self.max_length} instructions")
        self.instructions.append(instruction)
        return len(self.instructions) - 1


class TapeWithConstants(Tape):
    """A tape that records numbers as constants."""

    def _add_constant(self, x: float) -> int:
        key = ("constant", x.hex())
        if key not in self._recorded:
            self._recorded[key] = self._append(Instruction("constant", constant=x))
        return self._recorded[key]


def trace_unsimplified(function: Callable[..., Tree], *templates: Tree) -> Program:
    """Trace `function(*arguments)` without simplification; one input group per template, one output group per result."""
    tape = TapeWithConstants()
    arguments = [
        unflatten(template, iter([tape.add_input(group, index) for index in range(len(flatten(template)))]))
        for group, template in enumerate(templates)
    ]
    with locate_trace_errors():
        outputs = tuple(tuple(tape.operand_index(leaf) for leaf in flatten(result)) for result in function(*arguments))
    return eliminate_dead_code(Program(tuple(tape.instructions), outputs))


def record_tape(function: Callable[[Scalar], Scalar]) -> tuple[Program, tuple[float, ...]]:
    """Return the program of a function of one scalar, and its constants: input groups (scalar,) and constants, one of outputs.

    Raises:
        TypeError: the function uses operations other than + - * / and `samara.core.ops`.
        OverflowError: the tape is too long.
    """
    tape = Tape()
    with locate_trace_errors():
        outputs = tuple(tape.operand_index(leaf) for leaf in flatten(function(tape.add_input())))
    return Program(tuple(tape.instructions), (outputs,)), tuple(tape.constants)


def evaluate_tape(program: Program, scalar: Scalar, constants: Sequence[Scalar]) -> list[Scalar]:
    """Evaluate a taped program on a scalar of any backend and on constants, which may be such scalars too."""
    return evaluate_program(program, ((scalar,), constants))[0]


def evaluate_program(program: Program, groups: Sequence[Sequence[Scalar]]) -> list[list[Scalar]]:
    """Evaluate a program on groups of scalars of any backend, operation by operation; returns its groups of outputs."""
    results: list[Scalar] = []
    for instruction in program.instructions:
        if instruction.operation == "input":
            results.append(groups[instruction.location[0]][instruction.location[1]])
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
        return instruction.layer.evaluate_unrolled(operands)
    if instruction.operation == "row":
        return operands[0][instruction.location[1]]
    if instruction.loop is None:
        try:
            return _PYTHON_OPERATIONS[instruction.operation](*operands)
        except (ArithmeticError, ValueError):  # Python floats raise; compiled code gives infinity or NaN
            with np.errstate(all="ignore"):
                return float(_PYTHON_OPERATIONS[instruction.operation](*map(np.float64, operands)))
    body, active, carry_size = instruction.loop.body, instruction.loop.active, instruction.loop.carry_size
    condition = None if active is None else lambda carry, inputs: evaluate_program(active, (carry, inputs))[0][0]
    iteration = lambda k, carry, inputs: tuple(evaluate_program(body, ((k,), carry, inputs))[0])  # noqa: E731
    return unroll_loop(
        iteration,
        tuple(operands[:carry_size]),
        tuple(operands[carry_size:]),
        instruction.loop.max_iterations,
        condition,
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


def _operation(name: str) -> Callable[..., TapeScalar]:
    def record(*operands: Scalar) -> TapeScalar:
        tape = next(operand.tape for operand in operands if isinstance(operand, TapeScalar))
        return tape.record(name, *operands)

    return record


sqrt, floor, sin, cos, tan, asin, acos, atan, exp, log = map(_operation, UNARY)
atan2, equal, power = (_operation(name) for name in ("atan2", "equal", "power"))
logical_and, logical_or, where = (_operation(name) for name in ("and", "or", "select"))


def lookup(grid: ConstantTable, i: Scalar, j: Scalar) -> TapeScalar:
    """Record the lookup of a grid's entry as one instruction."""
    tape = next(index.tape for index in (i, j) if isinstance(index, TapeScalar))
    return tape.record_copy(Instruction("lookup", grid=grid), i, j)


def loop(
    body: Callable[..., Tree], carry: Tree, inputs: Tree, count: int, active: Callable[..., Tree] | None
) -> Scalar:
    """Record a loop as one instruction, its body without simplification, and return its final carry."""
    leaves = [*flatten(carry), *flatten(inputs)]
    tape = next(leaf.tape for leaf in leaves if isinstance(leaf, TapeScalar))
    traced_loop = trace_loop(TracedLoop(body, carry, inputs, count, active), trace_unsimplified)
    result = tape.record_copy(Instruction("loop", loop=traced_loop), *leaves)
    rows = (tape.record_copy(Instruction("row", location=(0, k)), result) for k in range(traced_loop.carry_size))
    return unflatten(carry, rows)
