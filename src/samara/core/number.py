"""A number that differs from lane to lane, and has its tape write down what Python computes with it.

It has the value of one lane, the probe; `samara.core.number_tape` says what becomes of the others. What a Number cannot do
(become a float, be the operand of a library's function) is a TypeError, so nothing that depends on it is ever taken for a
constant.
"""

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from samara.core.number_tape import Tape

DISTINCT = (0.0, 1.0, -1.0, 2.0, 0.5)  # literals that a trace treats in ways of their own


class Number:
    """The result of one step of a tape: `value` is the probe's."""

    __slots__ = ("__weakref__", "at", "tape", "value")

    def __init__(self, value: float, at: int, tape: "Tape") -> None:
        self.value, self.at, self.tape = value, at, tape

    def __repr__(self) -> str:
        return repr(self.value)  # as the number of the probe, in sentences about it

    def __hash__(self) -> int:
        return id(self)

    def __add__(self, other: Any) -> Any:
        return _noted("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return _noted("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return _noted("subtract", self, other)

    def __rsub__(self, other: Any) -> Any:
        return _noted("subtract", other, self)

    def __mul__(self, other: Any) -> Any:
        return _noted("multiply", self, other)

    def __rmul__(self, other: Any) -> Any:
        return _noted("multiply", other, self)

    def __truediv__(self, other: Any) -> Any:
        return _noted("divide", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _noted("divide", other, self)

    def __pow__(self, other: Any) -> Any:
        return _noted("power", self, other)

    def __rpow__(self, other: Any) -> Any:
        return _noted("power", other, self)

    def __neg__(self) -> "Number":
        return self.tape.note("negate", self)

    def __abs__(self) -> "Number":
        return self.tape.note("absolute", self)

    def __lt__(self, other: Any) -> Any:
        return _decided("less", self, other)

    def __le__(self, other: Any) -> Any:
        return _decided("less_equal", self, other)

    def __gt__(self, other: Any) -> Any:
        return _decided("less", other, self)

    def __ge__(self, other: Any) -> Any:
        return _decided("less_equal", other, self)

    def __eq__(self, other: Any) -> Any:
        return True if other is self else _decided("equal", self, other)

    def __ne__(self, other: Any) -> Any:
        return not self == other if _is_real(other) else NotImplemented

    def __bool__(self) -> bool:
        return bool(self != 0.0)


def _is_real(x: Any) -> bool:
    return type(x) is float or type(x) is Number or isinstance(x, (float, int))


def _noted(operation: str, a: Any, b: Any) -> Any:
    if not (_is_real(a) and _is_real(b)):
        return NotImplemented
    if operation == "multiply":
        number, literal = (a, b) if type(a) is Number else (b, a)
        if type(literal) is not Number and literal == 0.0 and math.isfinite(number.value):
            number.tape.decide("negative", number)
            return literal * number.value  # ±0, whatever the number is: it no longer depends on it
    tape = a.tape if type(a) is Number else b.tape
    return tape.note(operation, a, b)


def _decided(operation: str, a: Any, b: Any) -> Any:
    if not (_is_real(a) and _is_real(b)):
        return NotImplemented
    return (a.tape if type(a) is Number else b.tape).decide(operation, a, b)


def is_distinct(x: float) -> bool:
    """Whether a trace may treat this literal in a way of its own"""
    return x in DISTINCT or not math.isfinite(x)


# For code that may get either ----------------------------------------------------------------------------------------------


def value_of(x: Any) -> float:
    """Of the probe"""
    return x.value if type(x) is Number else float(x)


def plain(x: Any) -> Any:
    """As a float of Python, unless it is a Number"""
    return x if type(x) is Number else float(x)
