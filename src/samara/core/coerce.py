"""Conversion of values from a file into arguments: the parameter's annotation declares the accepted values.

    def circle(centre_W: Place, *, radius: Length, speed: Speed, clockwise: bool = False, ...)

`argument(value, hint)` converts the value for that parameter, or raises `UnfitError` with the expectation. Called from Python,
the same functions accept more (arrays, symbols, endless laps) and check their arguments themselves.
"""

import math
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, NamedTuple, TypeAlias, Union, get_args, get_origin

from samara.core.algebra import Vec3
from samara.core.quantity import LARGEST, Scalar
from samara.core.sanitise import OnlyTyped, shown

MOST = 100_000  # entries


class Limits(NamedTuple):
    """A number within [low, high] of a unit."""

    unit: str
    low: float
    high: float


class Three(NamedTuple):
    """Three numbers, each within [low, high] of a unit."""

    unit: str
    low: float
    high: float


class OneOrThree(NamedTuple):
    """A number for all axes or one for each, within [low, high] of a unit."""

    unit: str
    low: float
    high: float


Place: TypeAlias = Annotated[Scalar, Three("m", -1e6, 1e6)]
Velocity: TypeAlias = Annotated[Scalar, Three("m/s", -1e3, 1e3)]
Length: TypeAlias = Annotated[float, Limits("m", -1e6, 1e6)]
Speed: TypeAlias = Annotated[float, Limits("m/s", 1e-3, 1e3)]
Acceleration: TypeAlias = Annotated[float, Limits("m/s^2", 1e-3, 1e4)]
Seconds: TypeAlias = Annotated[Scalar, Limits("s", 0.0, 1e6)]
Height: TypeAlias = Annotated[Scalar, Limits("m", -1e5, 1e5)]
Deviation: TypeAlias = Annotated[Scalar, Limits("m/s", -100.0, 100.0)]
Exponent: TypeAlias = Annotated[Scalar, Limits("", -10.0, 10.0)]
Laps: TypeAlias = Annotated[float, Limits("", 1e-3, 1e3)]


class UnfitError(ValueError):
    """A value that does not fit its annotation; the message states the expectation."""


def is_number(value: object) -> bool:
    """Whether a value from a file is a finite number of acceptable magnitude."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < LARGEST


def argument(value: Scalar, hint: Any) -> Scalar:
    """Convert a value for a parameter with this annotation; UnfitError states the expected value."""
    if get_origin(hint) is Annotated:
        base, mark = get_args(hint)[:2]
        if isinstance(mark, OnlyTyped):
            if not mark.accepts(text := argument(value, base)):
                raise UnfitError(mark.expected)
            return text
        return _within(value, mark) if isinstance(mark, (Limits, Three, OneOrThree)) else argument(value, base)
    if get_origin(hint) in (Union, types.UnionType):
        return _one_of(value, [member for member in get_args(hint) if member is not type(None)])
    if get_origin(hint) in (list, Sequence):
        if not isinstance(value, list) or len(value) > MOST:
            raise UnfitError(f"a list of at most {MOST} entries")
        return [argument(element, get_args(hint)[0]) for element in value]
    expected, fits = PLAIN.get(hint, ("none in a file", lambda value: False))
    if not fits(value):
        raise UnfitError(expected)
    return Vec3(*map(float, value)) if hint is Vec3 else value


def wanted(hint: Any) -> str:
    """Describe the values that a parameter with this annotation accepts."""
    try:
        argument(..., hint)
    except UnfitError as error:
        return str(error)
    return "a value"


def _is_three(value: Scalar) -> bool:
    return isinstance(value, (list, tuple)) and len(value) == 3 and all(map(is_number, value))


PLAIN: dict[Any, tuple[str, Callable[[Scalar], bool]]] = {
    float: ("a finite number", is_number),
    int: ("a whole number", lambda value: isinstance(value, int) and is_number(value)),
    str: ("a text", lambda value: isinstance(value, str)),
    bool: ("true or false", lambda value: isinstance(value, bool)),
    Vec3: ("three finite numbers", _is_three),
}


def _within(value: Scalar, mark: Limits | Three | OneOrThree) -> Scalar:
    bounds = f"from {mark.low:g} to {mark.high:g} {mark.unit}".rstrip()
    if is_number(value) and not isinstance(mark, Three):
        if not mark.low <= value <= mark.high:
            raise UnfitError(f"a number {bounds}")
        return value
    requirement = {Limits: "a finite number", Three: "three finite numbers", OneOrThree: "a finite number or three"}[
        type(mark)
    ]
    if isinstance(mark, Limits) or not _is_three(value):
        raise UnfitError(requirement)
    if not all(mark.low <= component <= mark.high for component in value):
        raise UnfitError(f"three numbers, each {bounds}")
    return Vec3(*map(float, value))


def _one_of(value: object, hints: Sequence[Any]) -> Scalar:
    expected = []
    for hint in hints:
        try:
            return argument(value, hint)
        except UnfitError as error:
            expected.append(str(error))
    raise UnfitError(" or ".join(expected))


def radians(value: Scalar) -> Scalar:
    """Convert degrees from a file to radians; accepts a number or a list of numbers."""
    if isinstance(value, list) and all(map(is_number, value)):
        return [math.radians(degrees) for degrees in value]
    if not is_number(value):
        raise UnfitError("a finite number of degrees")
    return math.radians(value)


NAME = "letters, digits, - and _"
LONGEST_STEM = 200  # letters; file systems take 255 bytes


def is_name(text: str) -> bool:
    """Whether a text is a valid name of a scenario or a drone."""
    return bool(text) and all(letter.isalnum() or letter in "_-" for letter in text)


def as_name(text: str) -> str:
    """Replace every character that a name may not contain by an underscore."""
    return "".join(letter if is_name(letter) else "_" for letter in text[:LONGEST_STEM])


def file_stem(name: str) -> str:
    """Return the file name, without suffix, for a thing called `name`: "APC 10x4.7" becomes "APC_10x4.7".

    Raises:
        ValueError: the name would lead into another directory or is not a valid file name: with a slash or a control character,
            beginning with a dot, empty, or too long.
    """
    if not name.isprintable() or set(name) & {"/", "\\"} or name.startswith(".") or not 0 < len(name) <= LONGEST_STEM:
        raise ValueError(
            f"the name {shown(name)} cannot be that of a file; expected no slash, no control character, no dot in front and at "
            f"most {LONGEST_STEM} letters, or --out"
        )
    return "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in name)


def first_twice(names: Iterable[str]) -> str | None:
    """Return the first name that repeats an earlier one, or None if all names are distinct."""
    previous_names: set[str] = set()
    for name in names:
        if name in previous_names:
            return name
        previous_names.add(name)
    return None
