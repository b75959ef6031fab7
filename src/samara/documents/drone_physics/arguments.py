"""Convert lists, tuples and arrays for the functions of `samara.documents.drone_physics`, and dispatch overloads.

Types of arguments and results are read from the annotations, here and by the C export.
"""

import warnings
from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature, signature, unwrap
from typing import Any, NamedTuple, TypeAlias, get_args, get_type_hints

import numpy as np

from samara.core.quantity import Scalar

Function: TypeAlias = Callable[..., Any]

NEAR_GIMBAL_LOCK = 1e-3  # |cos θ| below which a warning is given
_ADVICE = "quaternion_velocity_from_body_angular_velocity has no such attitude"
_NOT_NUMERIC = (str, bytes, bool, dict, set, type(None))
LIBRARY: dict[str, Function] = {}  # the functions of the library by name, in the order of their definition
VERSIONS: dict[str, tuple[Function, ...]] = {}  # names of the functions that `dispatch` dispatches to
ROTOR_SUMS: dict[str, "RotorSum"] = {}


class GimbalLockWarning(UserWarning):
    """The pitch is within 0.06° of ±90°, where Euler angles have no rates."""


def warn_near_gimbal_lock(pitch: Scalar, advice: str, stacklevel: int) -> None:
    """Warn if |cos θ| < 0.001 for a number or any element of an array [rad]; traced scalars are skipped."""
    if isinstance(pitch, (float, np.ndarray, np.generic)) and np.any(np.abs(np.cos(pitch)) < NEAR_GIMBAL_LOCK):
        warnings.warn(
            f"|cos θ| < {NEAR_GIMBAL_LOCK:g}: near gimbal lock the rates of φ and ψ grow without bound; {advice}",
            GimbalLockWarning,
            stacklevel=stacklevel + 1,
        )


class CArgumentType(NamedTuple):
    """The C type of an argument: its name (dp_…_t, or double), its unit, and whether it must be positive."""

    name: str
    unit: str
    positive: bool = False


class CArgument(NamedTuple):
    """A parameter of a function: its name, its record type (`Scalar` for a number), and its C type."""

    name: str
    record: Any
    c_type: CArgumentType

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the record's components; () for a number."""
        return () if self.record is Scalar else self.record._fields


def function_arguments(function: Function) -> tuple[CArgument, ...]:
    """Return the parameters of a function of the library."""
    plain = unwrap(function)
    hints = get_type_hints(plain, include_extras=True)
    return tuple(CArgument(name, *get_args(hints[name])) for name in signature(plain).parameters)


def function_result(function: Function) -> CArgument:
    """Return the result of a function of the library."""
    return CArgument("result", *get_args(get_type_hints(unwrap(function), include_extras=True)["return"]))


# Values --------------------------------------------------------------------------------------------------------------


def _is_number(value: Scalar) -> bool:
    return not isinstance(value, (list, tuple, str)) and getattr(value, "ndim", 0) == 0


def _number(value: Scalar) -> Scalar:
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return float(value)
    return np.asarray(value, dtype=float) if isinstance(value, (list, tuple, np.ndarray)) else value


def _components(value: Scalar, names: tuple[str, ...], label: str) -> list[Scalar]:
    """Return the numbers or arrays (one per name) of a named tuple, a list of numbers, or an array's last axis."""
    if hasattr(value, "_fields") or (isinstance(value, (list, tuple)) and all(_is_number(item) for item in value)):
        parts = list(value)
    else:
        try:
            rows = np.asarray(value, dtype=float) if isinstance(value, (list, tuple)) else value
        except (TypeError, ValueError):
            raise ValueError(f"{label} is {value!r:.60}; expected numbers ({', '.join(names)})") from None
        if not getattr(rows, "ndim", 0):
            raise ValueError(f"{label} is {value!r}; expected ({', '.join(names)}), or an array with those last")
        parts = [rows[..., i] for i in range(rows.shape[-1])]
    if len(parts) != len(names):
        raise ValueError(f"{label} has {len(parts)} components; expected {len(names)}: {', '.join(names)}")
    return [_number(part) for part in parts]


def _convert(argument: CArgument, value: object, label: str) -> Scalar:
    """Convert the value to the argument's type; raise ValueError unless it is finite and, if required, positive."""
    if not argument.fields:
        number = _number(value)
        _require(number, label, argument.c_type)
        return number
    record = argument.record(*_components(value, argument.fields, label))
    for name, leaf in zip(argument.fields, record, strict=True):
        _require(leaf, f"{label}.{name}", argument.c_type)
    return record


def _require(leaf: Scalar, label: str, c_type: CArgumentType) -> None:
    if isinstance(leaf, _NOT_NUMERIC):
        raise ValueError(f"{label} is {leaf!r:.60}; expected a number")
    if not isinstance(leaf, (float, np.ndarray, np.generic)):
        return
    numbers = np.atleast_1d(leaf)
    invalid = ~np.isfinite(numbers) | (numbers <= 0.0 if c_type.positive else False)
    if invalid.any():
        expected = "a positive number" if c_type.positive else "a finite number"
        raise ValueError(f"{label} is {numbers[invalid][0]}; expected {expected}")


def _evaluate(name: str, call: Callable[[], Scalar]) -> Scalar:
    """Return the result of the call, with every component broadcast to the batch; raise ValueError on a division by
    zero."""
    try:
        with np.errstate(divide="raise", invalid="raise"):
            result = call()
    except (ZeroDivisionError, FloatingPointError):
        raise ValueError(f"{name}: these arguments have no finite answer (division by zero)") from None
    if not isinstance(result, tuple) or not any(isinstance(item, np.ndarray) for item in result):
        return result
    record: Function = type(result)
    return record(*(item.copy() for item in np.broadcast_arrays(*result)))


# Functions -----------------------------------------------------------------------------------------------------------


def document(function: Function, *, singular_in: str = "") -> Function:
    """Let a function take lists, tuples and arrays, by position or by name.

    `singular_in` names the Euler angles near whose θ = ±90° it warns.
    """
    arguments, form, name = function_arguments(function), signature(function), function.__name__.lstrip("_")

    @wraps(function)
    def call(*positional: object, **named: object) -> Scalar:
        values = form.bind(*positional, **named).arguments
        converted = {
            argument.name: _convert(argument, values[argument.name], f"{name}: {argument.name}")
            for argument in arguments
            if argument.name in values
        }
        if singular_in:
            warn_near_gimbal_lock(converted[singular_in].theta, _ADVICE, stacklevel=2)
        return _evaluate(name, lambda: function(**converted))

    if name == function.__name__:
        LIBRARY[name] = call
    return call


def dispatch(name: str, *functions: Function) -> Function:
    """Dispatch to the first of the functions that takes the arguments."""

    def call(*positional: object, **named: object) -> Scalar:
        for function in functions:
            try:
                signature(function).bind(*positional, **named)
            except TypeError:
                continue
            return function(*positional, **named)
        forms = " or ".join(f"({', '.join(signature(function).parameters)})" for function in functions)
        raise TypeError(f"{name} takes {forms}; got {len(positional)} by position and ({', '.join(named)})")

    call.__name__ = call.__qualname__ = name
    call.__doc__ = "\n\n".join(
        f"{name}({', '.join(signature(function).parameters)}):\n    {function.__doc__}" for function in functions
    )
    LIBRARY[name] = call
    VERSIONS[name] = functions
    return call


class RotorSum(NamedTuple):
    """A function of n rotors that sums a function of one; the arguments named in `per_rotor` are lists of n."""

    name: str
    function: Function
    per_rotor: tuple[str, ...]


def sum_over_rotors(rotors: RotorSum, description: str) -> Function:
    """Return the function of n rotors, with the parameters of the function of one."""
    one, arguments = unwrap(rotors.function), function_arguments(rotors.function)
    form = signature(one)

    def call(*positional: object, **named: object) -> Scalar:
        values = form.bind(*positional, **named).arguments
        shared: dict[str, Scalar] = {}
        per_rotor: dict[str, list[Scalar]] = {}
        for argument in arguments:
            if argument.name in values:
                label, value = f"{rotors.name}: {argument.name}", values[argument.name]
                if argument.name in rotors.per_rotor:
                    items = _split_by_rotor(argument, value, label)
                    per_rotor[argument.name] = [_convert(argument, item, label) for item in items]
                else:
                    shared[argument.name] = _convert(argument, value, label)
        counts = {name: len(items) for name, items in per_rotor.items()}
        if len(set(counts.values())) != 1 or not min(counts.values()):
            raise ValueError(f"{rotors.name}: expected the same number of rotors in each of its lists; got {counts}")

        def total() -> Scalar:
            rows = (dict(zip(per_rotor, items, strict=True)) for items in zip(*per_rotor.values(), strict=True))
            return sum((one(**shared, **row) for row in rows), start=0)

        return _evaluate(rotors.name, total)

    call.__name__ = call.__qualname__ = rotors.name
    call.__doc__ = description
    call.__signature__ = Signature(  # type: ignore[attr-defined]
        [Parameter(p.name, p.kind, default=p.default) for p in form.parameters.values()]
    )
    LIBRARY[rotors.name] = call
    ROTOR_SUMS[rotors.name] = rotors
    return call


def _split_by_rotor(argument: CArgument, value: Scalar, label: str) -> list[Scalar]:
    """Return one item per rotor from a list, or from an array (…, n) of numbers or (…, n, 3) of vectors."""
    depth = 1 if argument.fields else 0
    if isinstance(value, (list, tuple)) and all(_depth(item) == depth for item in value):
        return list(value)
    rows = np.asarray(value, dtype=float) if isinstance(value, (list, tuple)) else value
    if getattr(rows, "ndim", 0) < depth + 1:
        raise ValueError(f"{label} is {value!r}; expected one item for each rotor")
    return [rows[..., i] if depth == 0 else rows[..., i, :] for i in range(rows.shape[-1 - depth])]


def _depth(value: Scalar) -> int:
    if hasattr(value, "_fields"):
        return 1
    if isinstance(value, (list, tuple)):
        return 1 + max((_depth(item) for item in value), default=0)
    return getattr(value, "ndim", 0) if not hasattr(value, "is_scalar") else 0
