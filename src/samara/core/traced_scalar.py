"""The base class of the traced scalars of all backends: operators, and an error for every operation that cannot be traced.

A component (a sensor, an estimator, a controller, an effect, a wind source) is traced by calling it with scalars that
record the operations. `float(x)`, `if x > 0`, `math.sin(x)`, `numpy.sin(x)`, `round(x)` or `f"{x:.2f}"` need a number, which
exists only when the compiled code runs. Each of them is a `TraceError` that names the expression, the function and the line.
"""

import ast
import linecache
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, TracebackType
from typing import Any

from samara.core import ops
from samara.core.quantity import Scalar

_NOT_COMPONENTS = (
    *("samara.core.traced_scalar", "samara.core.ops", "samara.core.algebra", "samara.core.tree"),
    *("samara.core.block_ops", "samara.core.block_ops", "samara.core.block_ops"),
    *("samara.compiler", "numpy", "jax", "contextlib", "functools"),
)
"""Modules that call a component or are called by it: errors never refer to lines of these modules."""
_EQUIVALENTS = {
    **{"max": "maximum", "min": "minimum", "fmax": "maximum", "fmin": "minimum", "clip": "clamp"},
    **{
        "pow": "power",
        "fabs": "absolute",
        "hypot": "safe_norm",
        "norm": "safe_norm",
        "round": "floor",
        "trunc": "floor",
    },
    **{"int": "floor", "ceil": "floor", "copysign": "sign", "arcsin": "asin", "arccos": "acos", "arctan": "atan"},
    "arctan2": "atan2",
}
"""Functions of Python and NumPy by name, and the operation of `samara.core.ops` to use instead if its name differs."""
_ARITHMETIC = {
    **{"add": "add", "subtract": "sub", "multiply": "mul", "divide": "truediv", "power": "pow"},
    **{"less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge", "equal": "eq", "not_equal": "ne"},
}
"""NumPy's functions behind its operators, and the method of the operator."""
_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}


class TraceError(TypeError):
    """A component does something with a traced scalar that cannot be traced; the message is one sentence."""


def _make_refusal(reason: str, remedy: str) -> Callable[..., Any]:
    """Create a method that raises a TraceError about the component's line that called it."""

    def refuse(self: Any, *arguments: Any) -> Any:
        raise trace_error(reason, remedy)

    return refuse


_NO_NUMBER_REASON = "the number is known only when the compiled code runs"
_OPS_REMEDY = "use the functions of samara.core, or declare the component as not traced"


class TracedScalar:
    """The base class of traced scalars: its operators call `apply`; operations that need a number raise `TraceError`.

    A subclass defines `apply` for the operation names of `samara.compiler.trace.program.Instruction`; rules that fold
    literals override an operator.
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def apply(self, operation: str, *operands: Scalar) -> Scalar:
        """Return the result of an operation on operands, of which this scalar is one."""
        raise NotImplementedError

    def __add__(self, other: Scalar) -> Scalar:
        return self.apply("add", self, other)

    def __radd__(self, other: Scalar) -> Scalar:
        return self.apply("add", other, self)

    def __sub__(self, other: Scalar) -> Scalar:
        return self.apply("subtract", self, other)

    def __rsub__(self, other: Scalar) -> Scalar:
        return self.apply("subtract", other, self)

    def __mul__(self, other: Scalar) -> Scalar:
        return self.apply("multiply", self, other)

    def __rmul__(self, other: Scalar) -> Scalar:
        return self.apply("multiply", other, self)

    def __truediv__(self, other: Scalar) -> Scalar:
        return self.apply("divide", self, other)

    def __rtruediv__(self, other: Scalar) -> Scalar:
        return self.apply("divide", other, self)

    def __pow__(self, other: Scalar) -> Scalar:
        return self.apply("power", self, other)

    def __rpow__(self, other: Scalar) -> Scalar:
        return self.apply("power", other, self)

    def __neg__(self) -> Scalar:
        return self.apply("negate", self)

    def __lt__(self, other: Scalar) -> Scalar:
        return self.apply("less", self, other)

    def __le__(self, other: Scalar) -> Scalar:
        return self.apply("less_equal", self, other)

    def __gt__(self, other: Scalar) -> Scalar:
        return self.apply("less", other, self)

    def __ge__(self, other: Scalar) -> Scalar:
        return self.apply("less_equal", other, self)

    def __eq__(self, other: Scalar) -> Scalar:
        return self.apply("equal", self, other)

    def __ne__(self, other: Scalar) -> Scalar:
        return self.apply("not_equal", self, other)

    def __abs__(self) -> Scalar:
        """|x|, bit-identical to Python's `abs()`: |−0| = +0."""
        return ops.where(ops.equal(self, 0.0), 0.0, ops.absolute(self))

    def __pos__(self) -> Scalar:
        return self

    __bool__ = _make_refusal(
        "a traced scalar is neither true nor false",
        "use samara.core.where instead of if, and samara.core.logical_and and logical_or instead of and and or",
    )
    __float__ = __int__ = __index__ = __complex__ = __round__ = _make_refusal(_NO_NUMBER_REASON, _OPS_REMEDY)
    __floordiv__ = __rfloordiv__ = _make_refusal(_NO_NUMBER_REASON, "use samara.core.floor(a / b) instead of a // b")
    __mod__ = __rmod__ = __divmod__ = __rdivmod__ = _make_refusal(
        _NO_NUMBER_REASON, "use a - b * samara.core.floor(a / b) instead of a % b, or samara.core.wrap_angle"
    )

    def __format__(self, specification: str) -> str:
        if specification:
            raise trace_error(_NO_NUMBER_REASON, "format numbers outside the traced function")
        return str(self)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Forward an operator with a NumPy number to the operator; NumPy's functions are refused."""
        operator = _ARITHMETIC.get(ufunc.__name__)
        if method != "__call__" or operator is None or options:
            raise trace_error(f"numpy.{ufunc.__name__} computes with numbers only", _OPS_REMEDY)
        first, second = (x[()] if getattr(x, "shape", None) == () else x for x in inputs)  # unwrap 0-d arrays
        if isinstance(first, TracedScalar):
            return getattr(first, f"__{operator}__")(second)
        return getattr(second, f"__{_MIRRORED.get(operator, f'r{operator}')}__")(first)

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        raise trace_error(f"numpy.{function.__name__} computes with numbers only", _OPS_REMEDY)


def trace_error(reason: str, remedy: str) -> TraceError:
    """Create the error about the innermost line of a component that is being executed."""
    frame = caller = sys._getframe(1)
    while caller is not None and not _is_component(caller.f_globals):
        caller = caller.f_back  # type: ignore[assignment]
    frame = caller or frame
    return _make_trace_error(frame.f_code, frame.f_lasti, frame.f_lineno, reason, remedy)


@contextmanager
def locate_trace_errors() -> Iterator[None]:
    """Turn a TypeError of a traced component, or a missing attribute of a traced scalar, into a TraceError with its line."""
    try:
        yield
    except TraceError:
        raise
    except (TypeError, AttributeError) as error:
        if isinstance(error, AttributeError) and not isinstance(error.obj, TracedScalar):
            raise
        innermost = _innermost_component(error.__traceback__)
        if innermost is None:
            raise
        code, instruction, line = innermost.tb_frame.f_code, innermost.tb_lasti, innermost.tb_lineno
        raise _make_trace_error(code, instruction, line, str(error), _OPS_REMEDY) from error


def _innermost_component(traceback: TracebackType | None) -> TracebackType | None:
    innermost = None
    while traceback is not None:
        if _is_component(traceback.tb_frame.f_globals):
            innermost = traceback
        traceback = traceback.tb_next
    return innermost


def _is_component(names: dict[str, Any]) -> bool:
    module = str(names.get("__name__", ""))
    return not any(module == prefix or module.startswith(f"{prefix}.") for prefix in _NOT_COMPONENTS)


def _make_trace_error(code: CodeType, instruction: int, line: int, reason: str, remedy: str) -> TraceError:
    text = _expression(code, instruction) or linecache.getline(code.co_filename, line).strip()
    quoted = f"`{text}` " if text else ""
    return TraceError(
        f"{code.co_filename}:{line}, in {code.co_name}: {quoted}cannot be traced: {reason}; {_equivalent(text) or remedy}"
    )


def _expression(code: CodeType, instruction: int) -> str:
    """Return the source of the expression that was being evaluated, or "" if it is unknown or spans lines."""
    line, last_line, start, end = list(code.co_positions())[instruction // 2]
    if line is None or line != last_line or start is None or end is None:
        return ""
    return linecache.getline(code.co_filename, line).encode()[start:end].decode(errors="replace")


def _equivalent(text: str) -> str:
    """Return the advice for an expression that calls a function which `samara.core.ops` has under this or another name."""
    try:
        expression = ast.parse(text, mode="eval").body
    except SyntaxError:
        return ""
    function = ast.unparse(expression.func).rpartition(".")[2] if isinstance(expression, ast.Call) else ""
    name = _EQUIVALENTS.get(function, function)
    return f"use samara.core.{name}" if callable(getattr(ops, name, None)) and not name.startswith("_") else ""
