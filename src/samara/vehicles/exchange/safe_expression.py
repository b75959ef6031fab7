"""Plain arithmetic from a text, and nothing else: numbers, names that are given, operators and the functions of a calculator.

The text is parsed into Python's syntax tree and walked; no part of it is ever run. Attributes, indices, comprehensions and
calls of anything that is not in the table are refused.
"""

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

LONGEST = 1000  # letters of an expression
_LARGEST_POWER = 64
_BINARY: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_UNARY: Mapping[type, Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
}
_COMPARED: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    **{
        name: getattr(math, name)
        for name in ("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sqrt", "exp", "log")
    },
    **{name: getattr(math, name) for name in ("radians", "degrees", "hypot", "floor", "ceil", "fabs")},
    **{"abs": abs, "min": min, "max": max, "float": float, "int": int, "round": round},
}
_CONSTANTS = {"pi": math.pi, "e": math.e, "true": True, "false": False}


def evaluated(text: str, name: Callable[[str], Any]) -> Any:
    """The value of an expression; `name` gives those of names that are no constants. ValueError with the reason"""
    if len(text) > LONGEST:
        raise ValueError(f"is longer than {LONGEST} letters")
    try:
        return _value(ast.parse(text.strip(), mode="eval").body, name)
    except SyntaxError:
        raise ValueError("is no arithmetic") from None
    except (ArithmeticError, TypeError, RecursionError, MemoryError) as error:
        raise ValueError(f"cannot be computed, {error}") from None


def _value(node: ast.expr, name: Callable[[str], Any]) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float, str)):
        return node.value
    if isinstance(node, ast.Name):
        return _CONSTANTS[node.id] if node.id in _CONSTANTS else name(node.id)
    if isinstance(node, ast.UnaryOp) and type(node.op) in _UNARY:
        return _UNARY[type(node.op)](_value(node.operand, name))
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left, name), _value(node.right, name)
        if isinstance(node.op, ast.Pow):
            return _power(left, right)
        if type(node.op) in _BINARY and (isinstance(node.op, ast.Add) or not {str} & {type(left), type(right)}):
            return _held(_BINARY[type(node.op)](left, right))
    if isinstance(node, ast.Compare):
        operands = [_value(each, name) for each in (node.left, *node.comparators)]
        if all(type(each) in _COMPARED for each in node.ops):
            pairs = zip(node.ops, operands, operands[1:], strict=False)
            return all(_COMPARED[type(each)](a, b) for each, a, b in pairs)
    if isinstance(node, ast.BoolOp):
        values = [_value(each, name) for each in node.values]
        return all(values) if isinstance(node.op, ast.And) else any(values)
    if isinstance(node, ast.IfExp):
        return _value(node.body if _value(node.test, name) else node.orelse, name)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        if node.func.id == "pow" and len(node.args) == 2:
            return _power(*(_value(each, name) for each in node.args))
        if node.func.id in _FUNCTIONS:
            return _FUNCTIONS[node.func.id](*(_value(each, name) for each in node.args))
        raise ValueError(f"calls {node.func.id!r}, which is no function of a calculator")
    raise ValueError(f"has a {type(node).__name__}, which is no arithmetic")


def _power(base: Any, exponent: Any) -> float:
    if not abs(exponent) <= _LARGEST_POWER:
        raise ValueError(f"has the exponent {exponent!r:.20}: at most {_LARGEST_POWER}")
    return _held(float(base) ** float(exponent))


def _held(value: Any) -> Any:
    """As it is, unless a text or an integer grew beyond any use"""
    if isinstance(value, complex) or (isinstance(value, str) and len(value) > LONGEST):
        raise ValueError("has a part that is not a number")
    return float(value) if isinstance(value, int) and abs(value) > 1 << 53 else value
