"""A scalar of CasADi's that traces quickly: the same expressions as its own operators make, at a tenth of the time.

CasADi's operators try each type that an operand might be converted to; `SX.binary` is told what it is given.
"""

from typing import Any

import casadi

SX = casadi.SX
UNARY = ("sqrt", "floor", "sin", "cos", "tan", "asin", "acos", "atan", "exp", "log")


class Symbol:
    """A CasADi expression with the arithmetic of a scalar."""

    __slots__ = ("sx",)
    __array_ufunc__ = None  # a NumPy number on the left must reach the operators below
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, sx: Any) -> None:
        self.sx = sx

    def __repr__(self) -> str:
        return f"Symbol({self.sx})"

    def __bool__(self) -> bool:
        return bool(self.sx)

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
        return Symbol(-self.sx)

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
    return x if isinstance(x, SX) else SX(float(x))


def _binary(operation: int, a: Any, b: Any) -> Symbol:
    return Symbol(SX.binary(operation, expression(a), expression(b)))


# The operations of samara.core.ops, under the names it asks for ----------------------------------------------------------


def _unary(name: str) -> Any:
    operation = getattr(casadi, f"OP_{name.upper()}")
    return lambda x: Symbol(SX.unary(operation, expression(x)))


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
    if_true = SX.binary(casadi.OP_IF_ELSE_ZERO, c, expression(a))
    if_false = SX.binary(casadi.OP_IF_ELSE_ZERO, SX.unary(casadi.OP_NOT, c), expression(b))
    return Symbol(SX.binary(casadi.OP_ADD, if_true, if_false))
