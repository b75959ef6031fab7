"""Scalars that record every operation on a tape.

A `Tape` simplifies nothing: it contains every operation in order, so that compiled code is bit-identical to NumPy on the same
source, including signs of zeros. Its numbers are inputs. Two functions that differ only in numbers, such as two paths between
waypoints, have equal programs and share compiled code (`record_tape`).

A `TapeWithConstants` has numbers as constants, a `FoldingTape` folds them (`folding_tape.py`).
"""

from collections.abc import Callable, Sequence
from numbers import Real
from typing import Self

from samara.compiler.trace.program import Instruction, Loop, Program, eliminate_dead_code
from samara.core.block_ops import ConstantTable, Layer
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

    def __repr__(self) -> str:
        return f"TapeScalar({self.tape.instructions[self.index].operation})"

    def apply(self, operation: str, *operands: Scalar) -> Scalar:
        return self.tape.record(operation, *operands)

    def __pow__(self, other: Scalar) -> Scalar:
        return self.tape.raise_to_power(self, other)

    def __rpow__(self, other: Scalar) -> Scalar:
        return self.tape.raise_to_power(other, self)


class Tape:
    """Instructions in order, on scalars and on numbers; each use of a number is a separate input.

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

    def record(self, operation: str, *operands: Scalar) -> Scalar:
        """Record an operation and return its result."""
        arguments = tuple([self.operand_index(operand) for operand in operands])
        key = (operation, arguments)
        if key not in self._recorded:
            self._recorded[key] = self._append(Instruction(operation, arguments))
        return TapeScalar(self._recorded[key], self)

    def record_copy(self, instruction: Instruction, *operands: Scalar) -> Scalar:
        """Record a copy of an instruction with these operands."""
        if instruction == Instruction(instruction.operation, instruction.arguments):
            return self.record(instruction.operation, *operands)
        copied = instruction._replace(arguments=tuple([self.operand_index(operand) for operand in operands]))
        if copied not in self._recorded:
            self._recorded[copied] = self._append(copied)
        return TapeScalar(self._recorded[copied], self)

    def record_rows(self, instruction: Instruction, count: int, *operands: Scalar) -> tuple[Scalar, ...]:
        """Record a copy of a layer or loop with these operands and return its rows."""
        result = self.record_copy(instruction, *operands)
        return tuple(self.record_copy(Instruction("row", location=(0, k)), result) for k in range(count))

    def record_layer(self, layer: Layer, x: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """Record a layer as individual multiplications, as NumPy evaluates it."""
        return layer.evaluate_unrolled(x)

    def record_loop(self, loop: Loop, leaves: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """Record a loop as one instruction and return its final carry."""
        return self.record_rows(Instruction("loop", loop=loop), loop.carry_size, *leaves)

    def raise_to_power(self, base: Scalar, exponent: Scalar) -> Scalar:
        """Record x² as a product; NumPy's other powers cannot be reproduced."""
        if isinstance(exponent, TapeScalar) or exponent != 2:
            raise trace_error("NumPy's powers differ between processors", "use samara.core.power")
        return self.record("multiply", base, base)

    def trace(self, function: Callable[..., Tree], *templates: Tree) -> Program:
        """Trace the body or the condition of a loop."""
        return TapeWithConstants().trace(function, *templates)

    def operand_index(self, x: Scalar) -> int:
        """Return the index of the instruction that computes a number or an earlier result."""
        if type(x) is TapeScalar:
            if x.tape is not self:
                raise ValueError(
                    "a scalar of another trace; expected every traced value that a loop body reads to be in its `inputs`"
                )
            return x.index
        if type(x) is not float and not isinstance(x, Real) and getattr(x, "shape", None) != ():
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

    def new_tape(self) -> Self:
        """Return an empty tape of the same kind."""
        return type(self)(self.max_length)

    def trace(self, function: Callable[..., Tree], *templates: Tree) -> Program:
        """Trace `function(*arguments)` on a new tape: one input group per template, one output group per result."""
        tape = self.new_tape()
        arguments = [
            unflatten(template, iter([tape.add_input(group, index) for index in range(len(flatten(template)))]))
            for group, template in enumerate(templates)
        ]
        with locate_trace_errors():
            results = function(*arguments)
            outputs = tuple(tuple(tape.operand_index(leaf) for leaf in flatten(result)) for result in results)
        return eliminate_dead_code(Program(tuple(tape.instructions), outputs))

    def _add_constant(self, x: float) -> int:
        key = ("constant", x.hex())
        if key not in self._recorded:
            self._recorded[key] = self._append(Instruction("constant", constant=x))
        return self._recorded[key]


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


# The operations of samara.core.ops, under the names it dispatches to -----------------------------------------------------


def _tape(scalars: Sequence[Scalar]) -> Tape:
    return next(scalar.tape for scalar in scalars if isinstance(scalar, TapeScalar))


def _operation(name: str) -> Callable[..., Scalar]:
    return lambda *operands: _tape(operands).record(name, *operands)


sqrt, floor, sin, cos, tan, asin, acos, atan, exp, log = map(_operation, UNARY)
atan2, equal, power = (_operation(name) for name in ("atan2", "equal", "power"))
logical_and, logical_or, where = (_operation(name) for name in ("and", "or", "select"))


def lookup(grid: ConstantTable, i: Scalar, j: Scalar) -> Scalar:
    """Record the lookup of a grid's entry as one instruction."""
    return _tape((i, j)).record_copy(Instruction("lookup", grid=grid), i, j)


def layer(network_layer: Layer, x: Sequence[Scalar]) -> tuple[Scalar, ...]:
    """Record a layer."""
    return _tape(x).record_layer(network_layer, x)


def loop(
    body: Callable[..., Tree], carry: Tree, inputs: Tree, count: int, active: Callable[..., Tree] | None
) -> Scalar:
    """Record a loop as one instruction and return its final carry."""
    carry_leaves = flatten(carry)
    leaves = [*carry_leaves, *flatten(inputs)]
    tape = _tape(leaves)
    condition = None if active is None else tape.trace(lambda *arguments: (active(*arguments),), carry, inputs)
    iteration = tape.trace(lambda *arguments: (body(*arguments),), 0.0, carry, inputs)
    return unflatten(carry, iter(tape.record_loop(Loop(count, len(carry_leaves), iteration, condition), leaves)))
