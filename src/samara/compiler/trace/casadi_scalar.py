"""A fast wrapper of CasADi's scalar expressions: the same expressions as CasADi's operators build, in a tenth of the time.

CasADi's operators try every type that an operand might be converted to; `SX.binary` gets operands of known type.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import casadi

from samara.core.block_ops import ConstantTable, Layer, unroll_loop
from samara.core.ops import select_entry
from samara.core.quantity import Scalar
from samara.core.traced_scalar import TracedScalar, trace_error
from samara.core.tree import Tree, flatten, unflatten

SX = casadi.SX
UNARY = ("sqrt", "floor", "sin", "cos", "tan", "asin", "acos", "atan", "exp", "log")


class Symbol(TracedScalar):
    """A CasADi expression with the arithmetic of a scalar."""

    __slots__ = ("sx",)

    def __init__(self, sx: Scalar) -> None:
        self.sx = sx

    def __repr__(self) -> str:
        return f"Symbol({self.sx})"

    def __bool__(self) -> bool:
        return bool(self.sx) if self.sx.is_constant() else super().__bool__()

    def apply(self, operation: str, *operands: Scalar) -> "Symbol":
        code = _CODES[operation]
        if len(operands) == 1:
            return Symbol(SX.unary(code, self.sx))
        return _binary(code, *operands)


_CODES = {
    **{"add": casadi.OP_ADD, "subtract": casadi.OP_SUB, "multiply": casadi.OP_MUL, "divide": casadi.OP_DIV},
    **{"power": casadi.OP_POW, "negate": casadi.OP_NEG, "less": casadi.OP_LT, "less_equal": casadi.OP_LE},
    **{"equal": casadi.OP_EQ, "not_equal": casadi.OP_NE},
}


def expression(x: Scalar) -> Scalar:
    """Return the CasADi expression of a symbol or a number."""
    if type(x) is Symbol:
        return x.sx
    if isinstance(x, SX):
        return x
    try:
        return SX(float(x))
    except (TypeError, ValueError):
        raise trace_error(f"{type(x).__name__} is not a scalar", "compute with scalars") from None


def _binary(operation: int, a: Scalar, b: Scalar) -> Symbol:
    return Symbol(SX.binary(operation, expression(a), expression(b)))


# Network layers, lookups and loops as single operations -----------------------------------------------------------------------


class TracedLoop(NamedTuple):
    """The arguments of `samara.core.block_ops.loop`; carry and inputs are templates."""

    body: Callable[..., Tree]
    carry: Tree
    inputs: Tree
    max_iterations: int
    active: Callable[..., Tree] | None


class OpaqueOperation(NamedTuple):
    """An operation that CasADi treats as a black box: its arguments, and the symbols that represent its results."""

    operation: Layer | ConstantTable | TracedLoop
    arguments: tuple[Scalar, ...]
    results: Scalar


_collected: ContextVar[list[OpaqueOperation] | None] = ContextVar("collected", default=None)


@contextmanager
def opaque_operations() -> Iterator[list[OpaqueOperation]]:
    """Collect the layers, lookups and loops that are called inside, in the order of their dependencies."""
    collected: list[OpaqueOperation] = []
    token = _collected.set(collected)
    try:
        yield collected
    finally:
        _collected.reset(token)


def _rows(
    collected: list[OpaqueOperation],
    operation: Layer | ConstantTable | TracedLoop,
    arguments: Sequence[Scalar],
    count: int,
) -> tuple[Scalar, ...]:
    rows = SX.sym("row", count)
    collected.append(OpaqueOperation(operation, tuple(map(expression, arguments)), rows))
    return tuple(Symbol(row) for row in casadi.vertsplit(rows))


def layer(network_layer: Layer, x: Sequence[Scalar]) -> tuple[Scalar, ...]:
    """Evaluate a layer: as symbols while opaque operations are collected, else as individual multiplications."""
    collected = _collected.get()
    return (
        network_layer.evaluate_unrolled(x)
        if collected is None
        else _rows(collected, network_layer, x, network_layer.rows)
    )


def lookup(grid: ConstantTable, i: Scalar, j: Scalar) -> Scalar:
    """Look up an entry of a grid: as a symbol while opaque operations are collected, else by comparisons."""
    collected = _collected.get()
    return select_entry(grid, i, j) if collected is None else _rows(collected, grid, (i, j), 1)[0]


def loop(
    body: Callable[..., Tree], carry: Tree, inputs: Tree, count: int, active: Callable[..., Tree] | None
) -> Scalar:
    """Return the final carry of a loop: as symbols while opaque operations are collected, else unrolled."""
    collected = _collected.get()
    if collected is None:
        return unroll_loop(body, carry, inputs, count, active)
    leaves = flatten(carry)
    traced_loop = TracedLoop(body, carry, inputs, count, active)
    rows = _rows(collected, traced_loop, [*leaves, *flatten(inputs)], len(leaves))
    return unflatten(carry, iter(rows))


# The operations of samara.core.ops, under the names it dispatches to -----------------------------------------------------


def _unary(name: str) -> Scalar:
    operation = getattr(casadi, f"OP_{name.upper()}")
    return lambda x: Symbol(SX.unary(operation, expression(x)))


sqrt, floor, sin, cos, tan, asin, acos, atan, exp, log = map(_unary, UNARY)


def atan2(y: Scalar, x: Scalar) -> Symbol:
    return _binary(casadi.OP_ATAN2, y, x)


def equal(a: Scalar, b: Scalar) -> Symbol:
    return _binary(casadi.OP_EQ, a, b)


def logical_and(a: Scalar, b: Scalar) -> Symbol:
    return _binary(casadi.OP_AND, a, b)


def logical_or(a: Scalar, b: Scalar) -> Symbol:
    return _binary(casadi.OP_OR, a, b)


def where(condition: Scalar, a: Scalar, b: Scalar) -> Symbol:
    """(c ? a : 0) + (!c ? b : 0), as CasADi's if_else."""
    c = expression(condition)
    if_true = SX.binary(casadi.OP_IF_ELSE_ZERO, c, expression(a))
    if_false = SX.binary(casadi.OP_IF_ELSE_ZERO, SX.unary(casadi.OP_NOT, c), expression(b))
    return Symbol(SX.binary(casadi.OP_ADD, if_true, if_false))
