"""Traces of the physics: a tape that folds numbers and signs, and shares repeated operations.

The folds change a finite result at most in the sign of a zero, so that compiled code has the bits of the source on Python
floats:

    x + 0, x − 0, 1 x, x / 1 → x        0 x, 0 / x, x − x → 0        c ? x : x → x
    −(−x) → x        x + (−y) → x − y        (−x) y → −(x y)        x³ → (x x) x

A NaN or infinity that meets a factor of 0 is folded away with it. Sums are not reordered, and (b − a) + a stays as it is.
"""

from collections.abc import Callable, Sequence
from math import inf
from numbers import Real

from samara.compiler.scan import IdlePath
from samara.compiler.trace.program import GuardedProgram, Instruction, Program
from samara.compiler.trace.tape_scalar import TapeScalar, TapeWithConstants
from samara.core.block_ops import Layer
from samara.core.quantity import Scalar
from samara.core.tree import Tree

COMMUTATIVE = frozenset({"add", "multiply", "equal", "not_equal", "and", "or"})
MAX_EXPANDED_POWER = 100


class FoldingTape(TapeWithConstants):
    """A tape that folds operations on numbers and repeated signs; a result that is constant is a Python number."""

    def __init__(self, max_length: float = inf) -> None:
        super().__init__(max_length)

    def record(self, operation: str, *operands: Scalar) -> Scalar:
        """Fold an operation, or record it; returns its result."""
        rule = _RULES.get(operation)
        folded = None if rule is None else rule(self, *operands)
        if folded is not None:
            return folded
        arguments = tuple([self.operand_index(operand) for operand in operands])
        if operation in COMMUTATIVE and arguments[0] > arguments[1]:
            arguments = arguments[::-1]
        key = (operation, arguments)
        if key not in self._recorded:
            self._recorded[key] = self._append(Instruction(operation, arguments))
        return TapeScalar(self._recorded[key], self)

    def record_layer(self, layer: Layer, x: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """Record a layer as one instruction."""
        return self.record_rows(Instruction("layer", layer=layer), layer.rows, *x)

    def raise_to_power(self, base: Scalar, exponent: Scalar) -> Scalar:
        """Record a power: whole exponents as products, ½ as a root."""
        return self.record("power", base, exponent)

    def negated(self, x: Scalar) -> TapeScalar | None:
        """Return y if x is −y."""
        if type(x) is TapeScalar and x.tape is self:
            instruction = self.instructions[x.index]
            if instruction.operation == "negate":
                return TapeScalar(instruction.arguments[0], self)
        return None


def trace_program(function: Callable[..., Tree], *templates: Tree) -> Program:
    """Trace `function(*arguments)`, arguments shaped like the templates; one output group per element of its result."""
    return FoldingTape().trace(function, *templates)


def trace_body(
    body: Callable[..., Tree], templates: tuple[Scalar, ...], idle_path: IdlePath | None
) -> Program | GuardedProgram:
    """Trace the body of a scan, and its idle path if it has one."""
    full = trace_program(body, *templates)
    if idle_path is None:
        return full
    idle, idle_body = idle_path
    return GuardedProgram(
        trace_program(lambda *arguments: (idle(*arguments),), *templates), trace_program(idle_body, *templates), full
    )


# Rules: the folded result of an operation, or None ---------------------------------------------------------------------------


def _is_number(x: Scalar, number: float) -> bool:
    return type(x) is not TapeScalar and isinstance(x, Real) and x == number


def _is_same(a: Scalar, b: Scalar) -> bool:
    return type(a) is TapeScalar and type(b) is TapeScalar and a.index == b.index and a.tape is b.tape


def _fold_add(tape: FoldingTape, a: Scalar, b: Scalar) -> Scalar | None:
    if _is_number(a, 0.0):
        return b
    if _is_number(b, 0.0):
        return a
    if (y := tape.negated(b)) is not None:
        return a - y
    return None if (x := tape.negated(a)) is None else b - x


def _fold_subtract(tape: FoldingTape, a: Scalar, b: Scalar) -> Scalar | None:
    if _is_number(b, 0.0):
        return a
    if _is_number(a, 0.0):
        return -b
    if _is_same(a, b):
        return 0.0
    if (y := tape.negated(b)) is not None:
        return a + y
    return None if (x := tape.negated(a)) is None else -(x + b)


def _fold_multiply(tape: FoldingTape, a: Scalar, b: Scalar) -> Scalar | None:
    for x, y in ((a, b), (b, a)):
        if type(x) is not TapeScalar and isinstance(x, Real) and x in (0.0, 1.0, -1.0):
            return 0.0 if x == 0.0 else y if x == 1.0 else -y
    if (x := tape.negated(a)) is not None:
        return -(x * b)
    return None if (y := tape.negated(b)) is None else -(a * y)


def _fold_divide(tape: FoldingTape, a: Scalar, b: Scalar) -> Scalar | None:
    if _is_number(a, 0.0):
        return 0.0
    if _is_number(b, 1.0):
        return a
    if _is_number(b, -1.0):
        return -a
    if (x := tape.negated(a)) is not None:
        return -(x / b)
    return None if (y := tape.negated(b)) is None else -(a / y)


def _fold_power(tape: FoldingTape, base: Scalar, exponent: Scalar) -> Scalar | None:
    if isinstance(exponent, TapeScalar) or not isinstance(exponent, Real):
        return None
    if exponent == 0.5:
        return tape.record("sqrt", base)
    whole = int(float(exponent)) if abs(float(exponent)) <= MAX_EXPANDED_POWER else 0
    if whole != exponent:
        return None
    if whole < 0:
        return 1.0 / _whole_power(base, -whole)
    return _whole_power(base, whole)


def _whole_power(base: Scalar, exponent: int) -> Scalar:
    if exponent == 0:
        return 1.0
    if exponent % 2:
        return _whole_power(base, exponent - 1) * base
    root = _whole_power(base, exponent // 2)
    return root * root


def _fold_select(tape: FoldingTape, condition: Scalar, a: Scalar, b: Scalar) -> Scalar | None:
    if type(condition) is not TapeScalar:
        return a if condition else b
    return a if _is_same(a, b) else None


def _fold_and(tape: FoldingTape, a: Scalar, b: Scalar) -> Scalar | None:
    for x, y in ((a, b), (b, a)):
        if type(x) is not TapeScalar:
            return y if x else False
    return None


def _fold_or(tape: FoldingTape, a: Scalar, b: Scalar) -> Scalar | None:
    for x, y in ((a, b), (b, a)):
        if type(x) is not TapeScalar:
            return True if x else y
    return None


_RULES: dict[str, Callable[..., Scalar | None]] = {
    **{"add": _fold_add, "subtract": _fold_subtract, "multiply": _fold_multiply, "divide": _fold_divide},
    **{"negate": FoldingTape.negated, "power": _fold_power, "select": _fold_select},
    **{"and": _fold_and, "or": _fold_or},
}
