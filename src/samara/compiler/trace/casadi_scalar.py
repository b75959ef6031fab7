"""A scalar of CasADi's that traces quickly: the same expressions as its own operators make, at a tenth of the time.

CasADi's operators try each type that an operand might be converted to; `SX.binary` is told what it is given.

A `Number`, which differs from lane to lane, is a literal to CasADi too, but one that stands for it alone, its tag: nothing is
simplified because two numbers happen to be equal in the lane that is traced. What CasADi would fold of tags is computed of the
numbers instead. `TAGS` has the number behind every tag.
"""

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import casadi

from samara.core.grid import Grid
from samara.core.loop import unrolled
from samara.core.network_layer import Layer
from samara.core.number import Number, is_distinct
from samara.core.ops import selected
from samara.core.traced import TracedScalar, trace_error
from samara.core.tree import flatten, unflatten

SX = casadi.SX
UNARY = ("sqrt", "floor", "sin", "cos", "tan", "asin", "acos", "atan", "exp", "log")
TAGS: WeakValueDictionary[float, Number] = WeakValueDictionary()
LARGE = 1e90  # a tag is so large that a literal made of one and others is told by its size; and no product of two is 1
_places = count()


class Symbol(TracedScalar):
    """A CasADi expression with the arithmetic of a scalar."""

    __slots__ = ("sx",)

    def __init__(self, sx: Any) -> None:
        self.sx = sx

    def __repr__(self) -> str:
        return f"Symbol({self.sx})"

    def __bool__(self) -> bool:
        return bool(self.sx) if self.sx.is_constant() else super().__bool__()

    def __add__(self, other: Any) -> "Symbol":
        return _binary(casadi.OP_ADD, self, other)

    def __radd__(self, other: Any) -> "Symbol":
        return _binary(casadi.OP_ADD, other, self)

    def __sub__(self, other: Any) -> "Symbol":
        return _binary(casadi.OP_SUB, self, other)

    def __rsub__(self, other: Any) -> "Symbol":
        return _binary(casadi.OP_SUB, other, self)

    def __mul__(self, other: Any) -> "Symbol":
        return _binary(casadi.OP_MUL, self, other)

    def __rmul__(self, other: Any) -> "Symbol":
        return _binary(casadi.OP_MUL, other, self)

    def __truediv__(self, other: Any) -> "Symbol":
        return _binary(casadi.OP_DIV, self, other)

    def __rtruediv__(self, other: Any) -> "Symbol":
        return _binary(casadi.OP_DIV, other, self)

    def __pow__(self, other: Any) -> "Symbol":
        return _binary(casadi.OP_POW, self, other)

    def __rpow__(self, other: Any) -> "Symbol":
        return _binary(casadi.OP_POW, other, self)

    def __neg__(self) -> "Symbol":
        return Symbol(_unary_of(casadi.OP_NEG, self.sx))

    def __lt__(self, other: Any) -> Any:
        return _binary(casadi.OP_LT, self, other)

    def __le__(self, other: Any) -> Any:
        return _binary(casadi.OP_LE, self, other)

    def __gt__(self, other: Any) -> Any:
        return _binary(casadi.OP_LT, other, self)

    def __ge__(self, other: Any) -> Any:
        return _binary(casadi.OP_LE, other, self)

    def __eq__(self, other: Any) -> Any:
        return _binary(casadi.OP_EQ, self, other)

    def __ne__(self, other: Any) -> Any:
        return _binary(casadi.OP_NE, self, other)


def expression(x: Any) -> Any:
    """CasADi's expression of a symbol or a number"""
    if type(x) is Symbol:
        return x.sx
    if type(x) is Number:
        return _tag(x)
    if isinstance(x, SX):
        return x
    try:
        return SX(float(x))
    except (TypeError, ValueError):
        raise trace_error(f"{type(x).__name__} is not a scalar", "compute with scalars") from None


def _binary(operation: int, a: Any, b: Any) -> Symbol:
    if operation == casadi.OP_POW and type(b) is Number:
        raise trace_error("the exponent is a parameter that differs between flights", "do not vary this parameter")
    return Symbol(_binary_of(operation, expression(a), expression(b)))


def _binary_of(operation: int, a: Any, b: Any) -> Any:
    if TAGS and a.is_constant() and b.is_constant():
        return _folded(operation, SX.binary(operation, a, b), a, b)
    if TAGS and operation == casadi.OP_MUL and (a.is_constant() or b.is_constant()):
        return _scaled(*((a, b) if a.is_constant() else (b, a)))
    return SX.binary(operation, a, b)


def _unary_of(operation: int, a: Any) -> Any:
    result = SX.unary(operation, a)
    return _folded(operation, result, a) if TAGS and a.is_constant() else result


# Numbers that differ from lane to lane -----------------------------------------------------------------------------------


def is_made_of_tags(literal: float) -> bool:
    """Whether CasADi has folded tags into a literal, so that nobody knows the number behind it"""
    size = abs(literal)
    return literal not in TAGS and (LARGE**0.5 < size < math.inf or 0.0 < size < LARGE**-0.5)


def _tag(number: Number) -> Any:
    """The literal that stands for a number: its own where CasADi would treat that in a way of its own, as it does 0 and 1"""
    number.tape.pin(number)
    if is_distinct(number.value):
        return SX(number.value)
    known = number.tape.tags
    if number.at not in known:
        known[number.at] = LARGE * (math.pi + 1e-7 * next(_places))
        TAGS[known[number.at]] = number
    return SX(known[number.at])


def _folded(operation: int, result: Any, *operands: Any) -> Any:
    """What an operation on literals gives; of numbers behind tags, the number"""
    values = [float(own) for own in operands]
    numbers: list[Any] = [TAGS.get(value, value) for value in values]
    if all(type(own) is float for own in numbers):
        return result
    if operation not in _OF_NUMBERS:
        raise TypeError(f"CasADi operation {operation} of a number that differs from lane to lane")
    given = _OF_NUMBERS[operation](*numbers)
    return expression(given if type(given) is Number else float(given))


def _scaled(factor: Any, x: Any) -> Any:
    """a · x, where CasADi makes (a b) y of a (b y), −(a y) of a (−y) and c ? a y : 0 of a (c ? y : 0)"""
    if float(factor) in (0.0, 1.0, -1.0):
        return SX.binary(casadi.OP_MUL, factor, x)
    if x.is_op(casadi.OP_NEG) and float(factor) != 2.0:
        return _unary_of(casadi.OP_NEG, _scaled(factor, x.dep(0)))
    if x.is_op(casadi.OP_IF_ELSE_ZERO):
        return _binary_of(casadi.OP_IF_ELSE_ZERO, x.dep(0), _binary_of(casadi.OP_MUL, factor, x.dep(1)))
    if x.is_op(casadi.OP_TWICE) and float(factor) in TAGS:
        return _binary_of(casadi.OP_MUL, _folded(casadi.OP_MUL, None, factor, SX(2.0)), x.dep(0))
    if x.is_op(casadi.OP_MUL) and x.dep(0).is_constant() and any(float(own) in TAGS for own in (factor, x.dep(0))):
        return _binary_of(casadi.OP_MUL, _folded(casadi.OP_MUL, None, factor, x.dep(0)), x.dep(1))
    return SX.binary(casadi.OP_MUL, factor, x)


_OF_NUMBERS: dict[int, Callable[..., Any]] = {
    casadi.OP_ADD: operator.add,
    casadi.OP_SUB: operator.sub,
    casadi.OP_MUL: operator.mul,
    casadi.OP_DIV: operator.truediv,
    casadi.OP_NEG: operator.neg,
    casadi.OP_LT: operator.lt,
    casadi.OP_LE: operator.le,
    casadi.OP_EQ: operator.eq,
    casadi.OP_NE: operator.ne,
    casadi.OP_SQRT: lambda x: x.tape.note("sqrt", x),
    casadi.OP_IF_ELSE_ZERO: lambda condition, x: x if condition else 0.0,
}


# Layers of networks, lookups and loops, as single operations ------------------------------------------------------------------


class TracedLoop(NamedTuple):
    """The arguments of `samara.core.loop.loop`; carry and inputs are templates."""

    body: Callable[..., Any]
    carry: Any
    inputs: Any
    turns: int
    active: Callable[..., Any] | None


class Opaque(NamedTuple):
    """An operation that CasADi does not look into: its arguments, and the symbols that stand for its results."""

    operation: Layer | Grid | TracedLoop
    arguments: tuple[Any, ...]
    rows: Any


_collected: ContextVar[list[Opaque] | None] = ContextVar("collected", default=None)


@contextmanager
def opaque_operations() -> Iterator[list[Opaque]]:
    """Collect the layers, lookups and loops that are called within, each after those it may depend on."""
    collected: list[Opaque] = []
    before = _collected.set(collected)
    try:
        yield collected
    finally:
        _collected.reset(before)


def _rows(
    collected: list[Opaque], operation: Layer | Grid | TracedLoop, arguments: Sequence[Any], count: int
) -> tuple[Any, ...]:
    rows = SX.sym("row", count)
    collected.append(Opaque(operation, tuple(map(expression, arguments)), rows))
    return tuple(Symbol(row) for row in casadi.vertsplit(rows))


def layer(own: Layer, x: Sequence[Any]) -> tuple[Any, ...]:
    """What a layer gives, as symbols where somebody gathers layers; else product by product"""
    collected = _collected.get()
    return own.unrolled(x) if collected is None else _rows(collected, own, x, own.rows)


def lookup(grid: Grid, i: Any, j: Any) -> Any:
    """An entry of a grid, as a symbol where opaque operations are collected; else by comparisons"""
    collected = _collected.get()
    return selected(grid, i, j) if collected is None else _rows(collected, grid, (i, j), 1)[0]


def loop(body: Callable[..., Any], carry: Any, inputs: Any, count: int, active: Callable[..., Any] | None) -> Any:
    """The final carry of a loop, as symbols where opaque operations are collected; else turn by turn"""
    collected = _collected.get()
    if collected is None:
        return unrolled(body, carry, inputs, count, active)
    leaves = flatten(carry)
    traced = TracedLoop(body, carry, inputs, count, active)
    rows = _rows(collected, traced, [*leaves, *flatten(inputs)], len(leaves))
    return unflatten(carry, iter(rows))


# The operations of samara.core.ops, under the names it asks for ----------------------------------------------------------


def _unary(name: str) -> Any:
    operation = getattr(casadi, f"OP_{name.upper()}")
    return lambda x: Symbol(_unary_of(operation, expression(x)))


sqrt, floor, sin, cos, tan, asin, acos, atan, exp, log = map(_unary, UNARY)


def atan2(y: Any, x: Any) -> Symbol:
    return _binary(casadi.OP_ATAN2, y, x)


def equal(a: Any, b: Any) -> Symbol:
    return _binary(casadi.OP_EQ, a, b)


def logical_and(a: Any, b: Any) -> Symbol:
    return _binary(casadi.OP_AND, a, b)


def logical_or(a: Any, b: Any) -> Symbol:
    return _binary(casadi.OP_OR, a, b)


def where(condition: Any, a: Any, b: Any) -> Symbol:
    """(c ? a : 0) + (!c ? b : 0), as CasADi's own"""
    c = expression(condition)
    if_true = _binary_of(casadi.OP_IF_ELSE_ZERO, c, expression(a))
    if_false = _binary_of(casadi.OP_IF_ELSE_ZERO, _unary_of(casadi.OP_NOT, c), expression(b))
    return Symbol(_binary_of(casadi.OP_ADD, if_true, if_false))
