"""Scalars with one value per flight of a batch, for Python code that sets up flights: controller design, trim, start.

    mass = BatchScalar(np.array([0.030, 0.034]))
    weight = mass * 9.81

Every operation is the one Python performs on floats, so each flight gets the same bits as in a batch of one. A branch on a
condition that holds for only some flights raises `BranchError` with those flights; the caller then splits the batch and starts
again. Unsupported operations, such as conversion to a float, raise TypeError.
"""

import math
import operator
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from samara.core.tree import flatten, unflatten
from samara.core.types import Array

DECIMAL_PLACES = 12
MAX_CACHED_RESULTS = 1 << 13


class BranchError(Exception):
    """A branch that only some flights of a batch take: `mask` (n,) marks them."""

    def __init__(self, mask: Array) -> None:
        super().__init__("flights of a batch take different branches")
        self.mask = mask


def _decide(mask: Array) -> bool:
    """Return whether a condition holds: True for all flights, False for none.

    Raises:
        BranchError: it holds for only some flights.
    """
    if mask.all():
        return True
    if mask.any():
        raise BranchError(mask)
    return False


class BatchCondition:
    """A condition on each flight of a batch."""

    __slots__ = ("mask",)

    def __init__(self, mask: Array) -> None:
        self.mask = mask

    def __bool__(self) -> bool:
        return _decide(self.mask)

    def __and__(self, other: Any) -> "BatchCondition":
        return BatchCondition(self.mask & _mask(other))

    def __or__(self, other: Any) -> "BatchCondition":
        return BatchCondition(self.mask | _mask(other))

    __rand__, __ror__ = __and__, __or__


class BatchScalar:
    """One number for each flight of a batch: `values` (n,)."""

    __slots__ = ("__weakref__", "values")

    def __init__(self, values: Array) -> None:
        self.values = values

    def __repr__(self) -> str:
        return repr(self.values.tolist()[0])  # messages show the value of the first flight

    def __hash__(self) -> int:
        return id(self)

    def __add__(self, other: Any) -> Any:
        return _arithmetic(operator.add, self, other)

    def __radd__(self, other: Any) -> Any:
        return _arithmetic(operator.add, other, self)

    def __sub__(self, other: Any) -> Any:
        return _arithmetic(operator.sub, self, other)

    def __rsub__(self, other: Any) -> Any:
        return _arithmetic(operator.sub, other, self)

    def __mul__(self, other: Any) -> Any:
        return _multiply(self, other)

    def __rmul__(self, other: Any) -> Any:
        return _multiply(self, other)

    def __truediv__(self, other: Any) -> Any:
        return _divide(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _divide(other, self)

    def __pow__(self, other: Any) -> Any:
        return power(self, other) if _is_real(other) else NotImplemented

    def __rpow__(self, other: Any) -> Any:
        return power(other, self) if _is_real(other) else NotImplemented

    def __neg__(self) -> "BatchScalar":
        return BatchScalar(-self.values)

    def __abs__(self) -> "BatchScalar":
        return BatchScalar(np.abs(self.values))

    def __lt__(self, other: Any) -> Any:
        return _compare(operator.lt, self, other)

    def __le__(self, other: Any) -> Any:
        return _compare(operator.le, self, other)

    def __gt__(self, other: Any) -> Any:
        return _compare(operator.gt, self, other)

    def __ge__(self, other: Any) -> Any:
        return _compare(operator.ge, self, other)

    def __eq__(self, other: Any) -> Any:
        return True if other is self else _compare(operator.eq, self, other)

    def __ne__(self, other: Any) -> Any:
        return False if other is self else _compare(operator.ne, self, other)

    def __bool__(self) -> bool:
        return _decide(self.values != 0.0)


def _is_real(x: Any) -> bool:
    return type(x) is float or type(x) is BatchScalar or isinstance(x, (float, int))


def _values(x: Any) -> Any:
    return x.values if type(x) is BatchScalar else x


def _mask(x: Any) -> Any:
    return x.mask if type(x) is BatchCondition else x


def _arithmetic(operation: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    if not (_is_real(a) and _is_real(b)):
        return NotImplemented
    with np.errstate(all="ignore"):
        return BatchScalar(operation(_values(a), _values(b)))


def _multiply(a: BatchScalar, b: Any) -> Any:
    if isinstance(b, (float, int)) and b == 0.0 and np.isfinite(a.values).all():
        signs = np.signbit(a.values)
        if signs.all() or not signs.any():
            return b * float(a.values[0])  # the same zero, +0 or −0, for all flights
    return _arithmetic(operator.mul, a, b)


def _divide(a: Any, b: Any) -> Any:
    if not (_is_real(a) and _is_real(b)):
        return NotImplemented
    if _decide(np.equal(_values(b), 0.0)):
        raise ZeroDivisionError("float division by zero")
    return _arithmetic(operator.truediv, a, b)


def _compare(operation: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    return BatchCondition(operation(_values(a), _values(b))) if _is_real(a) and _is_real(b) else NotImplemented


# The operations of samara.core.ops, under the names it dispatches to ---------------------------------------------------------


def _map_flights(function: Callable[..., float], *operands: Any) -> list[Any]:
    """Call a function with the floats of each flight: NumPy's elementary functions differ between processors.

    Raises:
        BranchError: the function raises an error for only some flights; if it does for all, the last error itself is raised.
    """
    columns = [values.tolist() for values in np.broadcast_arrays(*map(_values, operands))]
    results, failures, error = [], [], None
    for arguments in zip(*columns, strict=True):
        try:
            results.append(function(*arguments))
            failures.append(False)
        except (ValueError, ArithmeticError) as exception:
            failures.append(True)
            error = exception
    if error is not None:
        if all(failures):
            raise error
        raise BranchError(np.array(failures))
    return results


def _elementary(function: Callable[..., float]) -> Callable[..., BatchScalar]:
    return lambda *operands: BatchScalar(np.array(_map_flights(function, *operands)))


sin, cos, tan, asin, acos, atan, exp, log, atan2 = (
    _elementary(getattr(math, name)) for name in ("sin", "cos", "tan", "asin", "acos", "atan", "exp", "log", "atan2")
)
power = _elementary(operator.pow)


def sqrt(x: BatchScalar) -> BatchScalar:
    if _decide(x.values < 0.0):
        raise ValueError("math domain error")
    return BatchScalar(np.sqrt(x.values))


def floor(x: BatchScalar) -> BatchScalar:
    return BatchScalar(x.values // 1.0)


def equal(a: Any, b: Any) -> Any:
    return a == b


def logical_and(a: Any, b: Any) -> BatchCondition:
    return BatchCondition(np.asarray(_mask(a) & _mask(b)))


def logical_or(a: Any, b: Any) -> BatchCondition:
    return BatchCondition(np.asarray(_mask(a) | _mask(b)))


def where(condition: Any, a: Any, b: Any) -> BatchScalar:
    return BatchScalar(np.where(_mask(condition), _values(a), _values(b)))


# For code that accepts floats or BatchScalars --------------------------------------------------------------------------------


def float_or_batch_scalar(x: Any) -> Any:
    """Convert a number to a Python float; return a BatchScalar unchanged."""
    return x if type(x) is BatchScalar else float(x)


def scalar_array(rows: Any) -> Array:
    """Convert to an array of floats, or of objects if it contains BatchScalars."""
    array = np.array(rows)
    return array if array.dtype == object else array.astype(float)


def round_scalar(x: Any) -> Any:
    """Round x to 12 decimal places, as NumPy does."""
    if type(x) is BatchScalar:
        return BatchScalar(np.round(x.values, DECIMAL_PLACES))
    return float(np.round(x, DECIMAL_PLACES))


def batch_size(leaves: Sequence[Any]) -> int:
    """Return the flight count of the first BatchScalar among the leaves; 0 if there is none."""
    return next((len(leaf.values) for leaf in leaves if type(leaf) is BatchScalar), 0)


def batch_columns(leaves: Sequence[Any], n: int) -> Array:
    """Convert floats and BatchScalars to rows of an array (leaves, n)."""
    rows = np.empty((len(leaves), n))
    for row, leaf in zip(rows, leaves, strict=True):
        row[:] = _values(leaf)
    return rows


def map_batch(name: Any, function: Callable[[Any], Any], tree: Any, *, accepts_arrays: bool = False) -> Any:
    """function(tree); if the tree has BatchScalars among its leaves, call it with the floats of each flight.

    For iterations that need floats. The result must be a tree of the same shape for every flight. Results are cached by `name`
    and leaves. With `accepts_arrays`, the function accepts arrays instead of floats, with the same bits, and is called once.
    """
    leaves = flatten(tree)
    n = batch_size(leaves)
    if not n:
        return function(tree)
    if accepts_arrays:
        result = function(unflatten(tree, iter([_values(leaf) for leaf in leaves])))
        columns: Any = [np.broadcast_to(np.asarray(leaf, dtype=float), (n,)) for leaf in flatten(result)]
        return unflatten(result, iter([BatchScalar(column) for column in columns]))
    cached_results, template = _cached_results(name), list[Any]()

    def evaluate(*values: float) -> list[float]:
        if values not in cached_results:
            if len(cached_results) >= MAX_CACHED_RESULTS:
                cached_results.clear()
            cached_results[values] = function(unflatten(tree, iter(values)))
        template[:] = [cached_results[values]]
        return flatten(cached_results[values])

    results = _map_flights(evaluate, *leaves)  # type: ignore[arg-type]
    return unflatten(template[0], iter([BatchScalar(column) for column in np.array(results, dtype=float).T]))


@lru_cache(maxsize=16)
def _cached_results(name: Any) -> dict[tuple[float, ...], Any]:
    return {}
