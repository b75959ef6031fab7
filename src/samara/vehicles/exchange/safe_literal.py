"""Numbers, lists and tables that a Python file assigns, read without running any of it.

Known are numbers, texts, names assigned before, + − × ÷ **, lists, tuples, dicts, `np.array(…)`, π and a few functions of one
number. Everything else in the file is refused, with its line.
"""

import ast
import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from samara.core.budget import Budget
from samara.vehicles.check import VehicleError

FUNCTIONS: Mapping[str, Callable[[Any], Any]] = {
    "sqrt": np.sqrt,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "deg2rad": np.deg2rad,
    "radians": np.radians,
}
CONSTANTS = {"pi": math.pi}
MODULES = ("np", "numpy", "math")
ARRAYS = ("array", "asarray")
OPERATIONS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.Pow: lambda a, b: a**b,
}
MAX_ARRAY_SIZE = 1000
MAX_FILE_BYTES = 100_000
MAX_VALUES = 20_000  # with those of lists that are named more than once


def assigned(text: str, origin: str) -> dict[str, Any]:
    """The values by name: floats, texts, NumPy arrays of floats, and dicts and lists of them"""
    budget = Budget(origin, VehicleError, max_bytes=MAX_FILE_BYTES, max_nodes=MAX_VALUES)
    budget.spend_bytes(len(text), "characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        raise VehicleError(
            f"{origin}: is no Python that assigns numbers{f' (line {line})' if line else ''}; expected name = value"
        ) from None
    found: dict[str, Any] = {}
    for node in tree.body:
        try:
            _statement(node, found, origin, budget)
        except (ArithmeticError, RecursionError, ValueError, TypeError) as error:
            if isinstance(error, VehicleError):
                raise
            raise VehicleError(
                f"{origin}: line {node.lineno}: {error or type(error).__name__}; expected numbers"
            ) from None
    return found


def _statement(node: ast.stmt, found: dict[str, Any], origin: str, budget: Budget) -> None:
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return  # nothing is imported: np and math are known by name
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return  # a docstring
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        found[node.targets[0].id] = _value(node.value, found, origin, budget)
        return
    raise _code(node, origin)


def _code(node: ast.AST, origin: str) -> VehicleError:
    words = ast.unparse(node).splitlines()[0][:60]
    return VehicleError(
        f"{origin}: line {getattr(node, 'lineno', 0)}, {words}: expected numbers; no code of a file is run"
    )


def _copy(value: Any, budget: Budget) -> Any:
    """Copy a named value and count its leaves: lists of lists that share one list would double at every level."""
    budget.spend_nodes(value.size if isinstance(value, np.ndarray) else 1)
    if isinstance(value, list):
        return [_copy(entry, budget) for entry in value]
    return {key: _copy(entry, budget) for key, entry in value.items()} if isinstance(value, dict) else value


def _value(node: ast.expr, found: Mapping[str, Any], origin: str, budget: Budget) -> Any:
    budget.spend_nodes()
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            return node.value
        if isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
            return float(node.value)
    elif isinstance(node, ast.Name) and node.id in found:
        return _copy(found[node.id], budget)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.UAdd, ast.USub)):
        own = _number(_value(node.operand, found, origin, budget), node, origin)
        return -own if isinstance(node.op, ast.USub) else own
    elif isinstance(node, ast.BinOp) and type(node.op) in OPERATIONS:
        a, b = (_number(_value(own, found, origin, budget), node, origin) for own in (node.left, node.right))
        with np.errstate(all="raise"):
            return _small(OPERATIONS[type(node.op)](a, b), node, origin)
    elif isinstance(node, (ast.List, ast.Tuple)):
        return [_value(own, found, origin, budget) for own in node.elts]
    elif isinstance(node, ast.Dict):
        keys = [_value(own, found, origin, budget) if own else None for own in node.keys]
        if all(isinstance(key, (str, float)) for key in keys):
            return {key: _value(own, found, origin, budget) for key, own in zip(keys, node.values, strict=True)}
    elif isinstance(node, ast.Attribute) and _of_module(node) and node.attr in CONSTANTS:
        return CONSTANTS[node.attr]
    elif isinstance(node, ast.Call) and _of_module(node.func) and len(node.args) == 1 and not node.keywords:
        name, own = node.func.attr, _value(node.args[0], found, origin, budget)  # type: ignore[attr-defined]
        if name in ARRAYS:
            return _small(np.array(own, dtype=float), node, origin)
        if name in FUNCTIONS:
            with np.errstate(all="raise"):
                return FUNCTIONS[name](_number(own, node, origin))
    raise _code(node, origin)


def _of_module(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in MODULES


def _number(value: Any, node: ast.expr, origin: str) -> Any:
    if isinstance(value, (float, np.ndarray)):
        return value
    raise _code(node, origin)


def _small(value: Any, node: ast.expr, origin: str) -> Any:
    if isinstance(value, complex) or (isinstance(value, np.ndarray) and value.size > MAX_ARRAY_SIZE):
        raise _code(node, origin)
    return value
