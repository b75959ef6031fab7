"""Lists, tuples and arrays at the door of document 004's functions, and functions of one name told apart.

What a function takes and gives is read from its annotations, here and by the C export.
"""

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature, signature, unwrap
from typing import Any, NamedTuple, get_args, get_type_hints

import numpy as np

from samara.core.quantity import Scalar
from samara.documents.drone_physics.types import Kind
from samara.documents.gimbal_lock import warn_near_gimbal_lock

_ADVICE = "quaternion_velocity_from_body_angular_velocity has no such attitude"
VERSIONS, ROTORS = "versions", "rotors"  # what a function of several versions, or of n rotors, is made of


class Argument(NamedTuple):
    """A parameter of one of the functions: its name, the type it becomes, and its kind."""

    name: str
    record: Any
    kind: Kind


def arguments_of(function: Callable[..., Any]) -> tuple[Argument, ...]:
    """What a function of this module takes, read from its annotations"""
    plain = unwrap(function)
    hints = get_type_hints(plain, include_extras=True)
    return tuple(Argument(name, *get_args(hints[name])) for name in signature(plain).parameters)


def result_of(function: Callable[..., Any]) -> Argument:
    """What a function of this module gives back"""
    return Argument("result", *get_args(get_type_hints(unwrap(function), include_extras=True)["return"]))


def _is_number(value: Any) -> bool:
    return not isinstance(value, (list, tuple, str)) and (not hasattr(value, "ndim") or value.ndim == 0)


def _number(value: Any) -> Any:
    if isinstance(value, (int, np.integer)):
        return float(value)
    return np.asarray(value, dtype=float) if isinstance(value, (list, tuple, np.ndarray)) else value


def _components(value: Any, names: tuple[str, ...], what: str) -> list[Any]:
    """The numbers or arrays (one per name) in a named tuple, a list of numbers, or along an array's last axis."""
    if hasattr(value, "_fields") or (isinstance(value, (list, tuple)) and all(_is_number(each) for each in value)):
        parts = list(value)
    else:
        try:
            rows = np.asarray(value, dtype=float) if isinstance(value, (list, tuple)) else value
        except (TypeError, ValueError):
            raise ValueError(f"{what} is {value!r:.60}; expected numbers ({', '.join(names)})") from None
        if not getattr(rows, "ndim", 0):
            raise ValueError(f"{what} is {value!r}; expected ({', '.join(names)}), or an array with those last")
        parts = [rows[..., i] for i in range(rows.shape[-1])]
    if len(parts) != len(names):
        raise ValueError(f"{what} has {len(parts)} components; expected {len(names)}: {', '.join(names)}")
    return [_number(part) for part in parts]


def _taken(argument: Argument, value: Any, what: str) -> Any:
    """The value as the function's own type, once it has been looked at."""
    if argument.record is Scalar:
        if value is None or isinstance(value, (str, bytes, bool, dict, set)):
            raise ValueError(f"{what} is {value!r}; expected a number")
        taken = _number(value)
        leaves = [("", taken)]
    else:
        fields = argument.record._fields
        taken = argument.record(*_components(value, fields, what))
        leaves = [(f".{name}", each) for name, each in zip(fields, taken, strict=True)]
    for name, leaf in leaves:
        _require(leaf, f"{what}{name}", argument.kind)
    return taken


def _require(leaf: Any, what: str, kind: Kind) -> None:
    if leaf is None or isinstance(leaf, (str, bytes, bool, dict, set)):
        raise ValueError(f"{what} is {leaf!r:.60}; expected a number")
    if not isinstance(leaf, (float, np.ndarray, np.generic)):
        return
    numbers = np.atleast_1d(leaf)
    bad = ~np.isfinite(numbers) | (numbers <= 0.0 if kind.positive else False)
    if bad.any():
        expected = "a positive number" if kind.positive else "a finite number"
        raise ValueError(f"{what} is {numbers[bad][0]}; expected {expected}")


def document(function: Callable[..., Any], *, singular_in: str = "") -> Callable[..., Any]:
    """The function, taking what users have: lists, tuples, arrays, by position or by name.

    `singular_in` names the Euler angles near whose θ = ±90° it warns.
    """
    arguments, form = arguments_of(function), signature(function)

    @wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        values = form.bind(*given, **named).arguments
        taken = {
            own.name: _taken(own, values[own.name], f"{function.__name__.lstrip('_')}: {own.name}")
            for own in arguments
            if own.name in values
        }
        if singular_in:
            warn_near_gimbal_lock(taken[singular_in].theta, _ADVICE, stacklevel=2)
        return _answer(function.__name__.lstrip("_"), lambda: function(**taken))

    return call


def _answer(name: str, call: Callable[[], Any]) -> Any:
    """What the call gives, every component of it with the batch's shape; a division by zero is said in a sentence."""
    try:
        with np.errstate(divide="raise", invalid="raise"):
            result = call()
    except (ZeroDivisionError, FloatingPointError):
        raise ValueError(f"{name}: these arguments have no finite answer (division by zero)") from None
    if not isinstance(result, tuple) or not any(isinstance(each, np.ndarray) for each in result):
        return result
    record: Any = type(result)
    return record(*(each.copy() for each in np.broadcast_arrays(*result)))


def either(name: str, *functions: Callable[..., Any]) -> Callable[..., Any]:
    """Functions of one name, told apart by their arguments."""

    def call(*given: Any, **named: Any) -> Any:
        for function in functions:
            try:
                signature(function).bind(*given, **named)
            except TypeError:
                continue
            return function(*given, **named)
        forms = " or ".join(f"({', '.join(signature(function).parameters)})" for function in functions)
        raise TypeError(f"{name} takes {forms}; got {len(given)} by position and ({', '.join(named)})")

    setattr(call, VERSIONS, functions)
    call.__name__ = call.__qualname__ = name
    call.__doc__ = "\n\n".join(
        f"{name}({', '.join(signature(function).parameters)}):\n    {function.__doc__}" for function in functions
    )
    return call


class RotorSum(NamedTuple):
    """A function of n rotors that adds up a function of one: the arguments named in `per_rotor` come n times."""

    name: str
    one: Callable[..., Any]
    per_rotor: tuple[str, ...]


def sum_over_rotors(rotors: RotorSum, words: str) -> Callable[..., Any]:
    one, arguments = unwrap(rotors.one), arguments_of(rotors.one)
    form = signature(one)

    def call(*given: Any, **named: Any) -> Any:
        values = form.bind(*given, **named).arguments
        shared: dict[str, Any] = {}
        each: dict[str, list[Any]] = {}
        for own in arguments:
            if own.name in values:
                what, value = f"{rotors.name}: {own.name}", values[own.name]
                if own.name in rotors.per_rotor:
                    each[own.name] = [_taken(own, one_value, what) for one_value in _by_rotor(own, value, what)]
                else:
                    shared[own.name] = _taken(own, value, what)
        counts = {name: len(items) for name, items in each.items()}
        if len(set(counts.values())) != 1 or not min(counts.values()):
            raise ValueError(f"{rotors.name}: expected the same number of rotors in each of its lists; got {counts}")

        def total() -> Any:
            every = (dict(zip(each, items, strict=True)) for items in zip(*each.values(), strict=True))
            return sum((one(**shared, **own) for own in every), start=0)

        return _answer(rotors.name, total)

    setattr(call, ROTORS, rotors)
    call.__name__ = call.__qualname__ = rotors.name
    call.__doc__ = words
    call.__signature__ = Signature(  # type: ignore[attr-defined]
        [Parameter(p.name, p.kind, default=p.default) for p in form.parameters.values()]
    )
    return call


def _by_rotor(argument: Argument, value: Any, what: str) -> list[Any]:
    """One item per rotor: a list of them, or an array (…, n) of numbers, (…, n, 3) of vectors."""
    depth = 0 if argument.record is Scalar else 1
    if isinstance(value, (list, tuple)) and all(_depth(item) == depth for item in value):
        return list(value)
    rows = np.asarray(value, dtype=float) if isinstance(value, (list, tuple)) else value
    if getattr(rows, "ndim", 0) < depth + 1:
        raise ValueError(f"{what} is {value!r}; expected one item for each rotor")
    return [rows[..., i] if depth == 0 else rows[..., i, :] for i in range(rows.shape[-1 - depth])]


def _depth(value: Any) -> int:
    if hasattr(value, "_fields"):
        return 1
    if isinstance(value, (list, tuple)):
        return 1 + max((_depth(item) for item in value), default=0)
    return getattr(value, "ndim", 0) if not hasattr(value, "is_scalar") else 0
