"""One function per operation, for every scalar type: float, NumPy, JAX, CasADi, SymPy.

The physics is written with these and with `+ - * /`, so the same source is stepped through in a debugger, broadcast over
a batch, differentiated, compiled or proven. Three rules hold on every backend:

- NaN propagates: a comparison with NaN is false, and every selection below is written so that a NaN operand stays NaN.
- Gradients stay finite: a root or quotient whose operand can be zero goes through `safe_sqrt`, `safe_norm`, `safe_divide`.
- Selection uses `where` on every backend, so that values and gradients agree at every kink.
"""

import importlib
import math
import operator
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from samara.core.quantity import Scalar

if TYPE_CHECKING:
    from samara.core.block_ops import ConstantTable

_JAX = "samara.compiler.jax.array_scalar"
_LIBRARIES = {
    "builtins": "math",
    "numpy": "numpy",
    "jax": _JAX,
    "jaxlib": _JAX,
    "casadi": "casadi",
    "sympy": "sympy",
    "samara.compiler.jax.folding_scalar": "samara.compiler.jax.folding_scalar",  # JAX's tracers, wrapped
    "samara.compiler.trace.tape_scalar": "samara.compiler.trace.tape_scalar",  # records the operations
    "samara.core.batch_scalar": "samara.core.batch_scalar",  # one value per flight of a batch
    "samara.plan.taylor": "samara.plan.taylor",  # Taylor series in time
}
_TRACED_SCALARS = (
    "samara.compiler.jax.folding_scalar",
    "samara.compiler.trace.tape_scalar",
)
_PRECEDENCE = (
    "samara.plan.taylor",
    "sympy",
    "casadi",
    *_TRACED_SCALARS,
    _JAX,
    "numpy",
    "samara.core.batch_scalar",
    "math",
)
_LIBRARIES_WITHOUT_LOADS = ("samara.plan.taylor", "sympy", "casadi", "samara.core.batch_scalar")
_SPELLINGS: dict[tuple[str, str], str | Callable[..., Any]] = {
    ("math", "floor"): lambda x: x // 1.0,  # math.floor raises on NaN
    ("math", "equal"): operator.eq,
    ("numpy", "equal"): operator.eq,
    ("casadi", "equal"): operator.eq,
    ("sympy", "equal"): "Eq",
    ("math", "logical_and"): operator.and_,
    ("casadi", "logical_and"): "logic_and",
    ("sympy", "logical_and"): "And",
    ("math", "logical_or"): operator.or_,
    ("casadi", "logical_or"): "logic_or",
    ("sympy", "logical_or"): "Or",
    ("math", "where"): lambda condition, a, b: a if condition else b,
    ("casadi", "where"): "if_else",
    ("sympy", "where"): lambda condition, a, b: _sympy_where(condition, a, b),
    ("math", "lookup"): lambda grid, i, j: grid.lookup(i, j),
    ("numpy", "lookup"): lambda grid, i, j: grid.lookup(i, j),
    **{(library, "lookup"): lambda grid, i, j: select_entry(grid, i, j) for library in _LIBRARIES_WITHOUT_LOADS},
    **{
        (library, "power"): operator.pow
        for library in _PRECEDENCE
        if library not in ("numpy", _JAX, "samara.compiler.trace.tape_scalar")
    },
}
_PORTABLE_FUNCTIONS = (  # NumPy's implementations differ between processors
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "atan2",
    "exp",
    "log",
    "power",
)


@cache
def _library(scalar_type: Any) -> str:
    name = _LIBRARIES.get(scalar_type.__module__) or _LIBRARIES.get(scalar_type.__module__.partition(".")[0])
    if name is None:
        raise TypeError(f"{scalar_type} is not a scalar that Samara knows; expected float, NumPy, JAX, CasADi or SymPy")
    return name


@cache
def _function(operation: str, library: str) -> Callable[..., Any]:
    if library == "numpy" and operation in _PORTABLE_FUNCTIONS:
        return partial(importlib.import_module("samara.core.portable_math").elementary, operation)
    spelling = _SPELLINGS.get((library, operation), operation)
    return getattr(importlib.import_module(library), spelling) if isinstance(spelling, str) else spelling


def _sympy_where(condition: Scalar, a: Scalar, b: Scalar) -> Scalar:
    return importlib.import_module("sympy").Piecewise((a, condition), (b, True))


def select_entry(grid: "ConstantTable", i: Scalar, j: Scalar) -> Scalar:
    """gᵢⱼ by comparisons alone, for expressions that cannot load from memory; the expression grows with the grid."""
    return _select_by_index(i, [_select_by_index(j, row) for row in grid.values.tolist()])


def _select_by_index(index: Scalar, entries: Sequence[Scalar]) -> Scalar:
    value = entries[-1]
    for k in range(len(entries) - 2, -1, -1):
        value = where(index < k + 1.0, entries[k], value)
    return value


def _dispatch(operation: str, *values: Scalar) -> Scalar:
    libraries = [_library(type(value)) for value in values]  # type: ignore[arg-type]
    library = libraries[0] if len(libraries) == 1 else min(libraries, key=_PRECEDENCE.index)
    return _function(operation, library)(*values)


def scalar_library(*values: Scalar) -> Any:
    """Return the module that computes with these scalars: `math`, `numpy` or a scalar module of Samara."""
    library = min((_library(type(value)) for value in values), key=_PRECEDENCE.index)  # type: ignore[arg-type]
    return importlib.import_module(library)


def _is_literal(x: Scalar) -> bool:
    return type(x) is float or type(x) is int


def is_zero(x: Scalar) -> bool:
    """Whether x is a constant number equal to 0; False for arrays and traced scalars."""
    is_number = isinstance(x, float) or _library(type(x)) == "samara.core.batch_scalar"  # type: ignore[arg-type]
    return is_number and bool(x == 0.0)


def sqrt(x: Scalar) -> Scalar:
    """√x, for x that cannot be zero; otherwise `safe_sqrt`."""
    return _dispatch("sqrt", x)


def sin(x: Scalar) -> Scalar:
    """sin x, x in rad."""
    return _dispatch("sin", x)


def cos(x: Scalar) -> Scalar:
    """cos x, x in rad."""
    return _dispatch("cos", x)


def tan(x: Scalar) -> Scalar:
    """tan x, x in rad."""
    return _dispatch("tan", x)


def asin(x: Scalar) -> Scalar:
    """sin⁻¹ x [rad]; its slope is infinite at ±1: prefer `atan2`."""
    return _dispatch("asin", x)


def acos(x: Scalar) -> Scalar:
    """cos⁻¹ x [rad]; its slope is infinite at ±1: prefer `atan2`."""
    return _dispatch("acos", x)


def atan(x: Scalar) -> Scalar:
    """tan⁻¹ x [rad]"""
    return _dispatch("atan", x)


def exp(x: Scalar) -> Scalar:
    """eˣ"""
    return _dispatch("exp", x)


def log(x: Scalar) -> Scalar:
    """ln x"""
    return _dispatch("log", x)


def floor(x: Scalar) -> Scalar:
    """⌊x⌋"""
    return _dispatch("floor", x)


def atan2(y: Scalar, x: Scalar) -> Scalar:
    """The angle of (x, y) from the x axis [rad], in [−π, π]."""
    return _dispatch("atan2", y, x)


def power(base: Scalar, exponent: Scalar) -> Scalar:
    """baseᵉˣᵖᵒⁿᵉⁿᵗ, base > 0."""
    return _dispatch("power", base, exponent)


def absolute(x: Scalar) -> Scalar:
    """|x|, with slope +1 at 0 (the libraries' own functions disagree there)."""
    return where(x < 0, -x, x)


def equal(a: Scalar, b: Scalar) -> Scalar:
    """a = b, as a condition (SymPy's == compares structure)."""
    return _dispatch("equal", a, b)


def logical_and(a: Scalar, b: Scalar) -> Scalar:
    """a ∧ b, of conditions."""
    return _dispatch("logical_and", a, b)


def logical_or(a: Scalar, b: Scalar) -> Scalar:
    """a ∨ b, of conditions."""
    return _dispatch("logical_or", a, b)


def where(condition: Scalar, a: Scalar, b: Scalar) -> Scalar:
    """a if condition else b. Both are evaluated, unless the condition is a Python bool.

    Two equal literals need no selection.
    """
    if isinstance(condition, bool):
        return a if condition else b
    if _is_literal(a) and _is_literal(b) and a == b:
        return a
    return _dispatch("where", condition, a, b)


def minimum(a: Scalar, b: Scalar) -> Scalar:
    """min(a, b), NaN if either is NaN."""
    if _is_literal(a) is _is_literal(b):
        return where(a < b, a, where(b <= a, b, a + b))
    literal, other = (a, b) if _is_literal(a) else (b, a)
    return where(literal < other, literal, other) if literal == literal else literal + other


def maximum(a: Scalar, b: Scalar) -> Scalar:
    """max(a, b), NaN if either is NaN."""
    if _is_literal(a) is _is_literal(b):
        return where(a > b, a, where(b >= a, b, a + b))
    literal, other = (a, b) if _is_literal(a) else (b, a)
    return where(literal > other, literal, other) if literal == literal else literal + other


def fast_minimum(a: Scalar, b: Scalar) -> Scalar:
    """min(a, b) with one comparison, for inner loops that check for NaN elsewhere: a NaN in a may be lost."""
    return _function("minimum", _JAX)(a, b) if _is_jax(a, b) else where(a < b, a, b)


def fast_maximum(a: Scalar, b: Scalar) -> Scalar:
    """max(a, b) with one comparison; see `fast_minimum`."""
    return _function("maximum", _JAX)(a, b) if _is_jax(a, b) else where(a > b, a, b)


def _is_jax(*values: Scalar) -> bool:
    """Whether JAX computes with these values: JAX has instructions for minimum and maximum of two values."""
    return _JAX in [_library(type(value)) for value in values]  # type: ignore[arg-type]


def clamp(x: Scalar, low: Scalar, high: Scalar) -> Scalar:
    """min(max(x, low), high)"""
    return minimum(maximum(x, low), high)


def sign(x: Scalar) -> Scalar:
    """−1, 0 or 1"""
    zero_or_nan = where(x <= 0, 0.0, x)  # not 0·x: a trace folds it, and the NaN with it
    return where(x > 0, 1.0, where(x < 0, -1.0, zero_or_nan))


def safe_sqrt(x: Scalar) -> Scalar:
    """√x for x > 0, else 0, with slope 0 there instead of infinity."""
    return where(x <= 0, 0.0, sqrt(where(x <= 0, 1.0, x)))


def safe_norm(*components: Scalar) -> Scalar:
    """√(Σ xᵢ²), with gradient 0 at the origin."""
    total: Scalar = 0.0
    for x in components:
        total = total + x * x
    return safe_sqrt(total)


def safe_divide(a: Scalar, b: Scalar) -> Scalar:
    """a / b, and a / ∞ = 0 with finite slopes where b = 0."""
    return a / where(equal(b, 0.0), math.inf, b)


def tanh(x: Scalar) -> Scalar:
    """(1 − e⁻²|x|) / (1 + e⁻²|x|), with the sign of x; never overflows."""
    decay = exp(-2.0 * absolute(x))
    magnitude = (1.0 - decay) / (1.0 + decay)
    return where(x < 0, -magnitude, magnitude)


def sigmoid(x: Scalar) -> Scalar:
    """1 / (1 + e⁻ˣ) = ½ (1 + tanh ½x)"""
    return 0.5 + 0.5 * tanh(0.5 * x)


def wrap_angle(x: Scalar) -> Scalar:
    """x − 2π ⌊(x + π) / 2π⌋, in [−π, π)  [rad]"""
    return x - 2.0 * math.pi * floor((x + math.pi) / (2.0 * math.pi))


def lookup(grid: "ConstantTable", i: Scalar, j: Scalar) -> Scalar:
    """gᵢⱼ of a constant table; indices are rounded down and clamped to its borders; a NaN index gives an arbitrary entry."""
    libraries = [_library(type(value)) for value in (i, j)]  # type: ignore[arg-type]
    return _function("lookup", min(libraries, key=_PRECEDENCE.index))(grid, i, j)


def piecewise_linear(x: Scalar, knots: Sequence[Scalar], values: Sequence[Scalar]) -> Scalar:
    """y(x) through (knotsᵢ, valuesᵢ), constant outside: y₀ + Σ slopeᵢ (clamp(x, xᵢ, xᵢ₊₁) − xᵢ), without branches."""
    y = values[0]
    for x0, x1, y0, y1 in zip(knots[:-1], knots[1:], values[:-1], values[1:], strict=True):
        y = y + (y1 - y0) / (x1 - x0) * (clamp(x, x0, x1) - x0)
    return y
