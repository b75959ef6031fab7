"""Conversion of values from a file into arguments: the parameter's annotation declares the accepted values.

    def circle(centre_W: PositionArgument, *, radius: Length, speed: Speed, clockwise: bool = False, ...)

`coerce_argument(value, hint)` converts the value for that parameter, or raises `InvalidValueError` with the expectation. Called
from Python, the same functions accept more (arrays, symbols, endless laps) and check their arguments themselves.
"""

import math
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, NamedTuple, TypeAlias, Union, get_args, get_origin

from samara.core.algebra import Vec3
from samara.core.quantity import MAX_MAGNITUDE, Scalar
from samara.core.sanitise import UserTextOnly, quote_value

MAX_LIST_ENTRIES = 100_000  # entries


class UnitInterval(NamedTuple):
    """A number within [low, high] of a unit."""

    unit: str
    low: float
    high: float


class VectorLimits(NamedTuple):
    """Three numbers, each within [low, high] of a unit."""

    unit: str
    low: float
    high: float


class ScalarOrVectorLimits(NamedTuple):
    """A number for all axes or one for each, within [low, high] of a unit."""

    unit: str
    low: float
    high: float


PositionArgument: TypeAlias = Annotated[Scalar, VectorLimits("m", -1e6, 1e6)]
Velocity: TypeAlias = Annotated[Scalar, VectorLimits("m/s", -1e3, 1e3)]
Length: TypeAlias = Annotated[float, UnitInterval("m", -1e6, 1e6)]
Speed: TypeAlias = Annotated[float, UnitInterval("m/s", 1e-3, 1e3)]
Acceleration: TypeAlias = Annotated[float, UnitInterval("m/s^2", 1e-3, 1e4)]
Seconds: TypeAlias = Annotated[Scalar, UnitInterval("s", 0.0, 1e6)]
Height: TypeAlias = Annotated[Scalar, UnitInterval("m", -1e5, 1e5)]
Deviation: TypeAlias = Annotated[Scalar, UnitInterval("m/s", -100.0, 100.0)]
Exponent: TypeAlias = Annotated[Scalar, UnitInterval("", -10.0, 10.0)]
Laps: TypeAlias = Annotated[float, UnitInterval("", 1e-3, 1e3)]


class InvalidValueError(ValueError):
    """A value that does not fit its annotation; the message states the expectation."""


def is_number(value: object) -> bool:
    """Whether a value from a file is a finite number of acceptable magnitude."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < MAX_MAGNITUDE


def coerce_argument(value: Scalar, hint: Any) -> Scalar:
    """Convert a value for a parameter with this annotation; InvalidValueError states the expected value."""
    if get_origin(hint) is Annotated:
        base, mark = get_args(hint)[:2]
        if isinstance(mark, UserTextOnly):
            if not mark.accepts(text := coerce_argument(value, base)):
                raise InvalidValueError(mark.expected)
            return text
        return (
            _coerce_to_limits(value, mark)
            if isinstance(mark, (UnitInterval, VectorLimits, ScalarOrVectorLimits))
            else coerce_argument(value, base)
        )
    if get_origin(hint) in (Union, types.UnionType):
        return _coerce_to_union(value, [member for member in get_args(hint) if member is not type(None)])
    if get_origin(hint) in (list, Sequence):
        if not isinstance(value, list) or len(value) > MAX_LIST_ENTRIES:
            raise InvalidValueError(f"a list of at most {MAX_LIST_ENTRIES} entries")
        return [coerce_argument(element, get_args(hint)[0]) for element in value]
    expected, fits = PLAIN_TYPES.get(hint, ("none in a file", lambda value: False))
    if not fits(value):
        raise InvalidValueError(expected)
    return Vec3(*map(float, value)) if hint is Vec3 else value


def describe_expected(hint: Any) -> str:
    """Describe the values that a parameter with this annotation accepts."""
    try:
        coerce_argument(..., hint)
    except InvalidValueError as error:
        return str(error)
    return "a value"


def _is_three(value: Scalar) -> bool:
    return isinstance(value, (list, tuple)) and len(value) == 3 and all(map(is_number, value))


PLAIN_TYPES: dict[Any, tuple[str, Callable[[Scalar], bool]]] = {
    float: ("a finite number", is_number),
    int: ("a whole number", lambda value: isinstance(value, int) and is_number(value)),
    str: ("a text", lambda value: isinstance(value, str)),
    bool: ("true or false", lambda value: isinstance(value, bool)),
    Vec3: ("three finite numbers", _is_three),
}


def _coerce_to_limits(value: Scalar, mark: UnitInterval | VectorLimits | ScalarOrVectorLimits) -> Scalar:
    bounds = f"from {mark.low:g} to {mark.high:g} {mark.unit}".rstrip()
    if is_number(value) and not isinstance(mark, VectorLimits):
        if not mark.low <= value <= mark.high:
            raise InvalidValueError(f"a number {bounds}")
        return value
    requirement = {
        UnitInterval: "a finite number",
        VectorLimits: "three finite numbers",
        ScalarOrVectorLimits: "a finite number or three",
    }[type(mark)]
    if isinstance(mark, UnitInterval) or not _is_three(value):
        raise InvalidValueError(requirement)
    if not all(mark.low <= component <= mark.high for component in value):
        raise InvalidValueError(f"three numbers, each {bounds}")
    return Vec3(*map(float, value))


def _coerce_to_union(value: object, hints: Sequence[Any]) -> Scalar:
    expected = []
    for hint in hints:
        try:
            return coerce_argument(value, hint)
        except InvalidValueError as error:
            expected.append(str(error))
    raise InvalidValueError(" or ".join(expected))


def radians(value: Scalar) -> Scalar:
    """Convert degrees from a file to radians; accepts a number or a list of numbers."""
    if isinstance(value, list) and all(map(is_number, value)):
        return [math.radians(degrees) for degrees in value]
    if not is_number(value):
        raise InvalidValueError("a finite number of degrees")
    return math.radians(value)


NAME_CHARACTERS = "letters, digits, - and _"
MAX_STEM_LENGTH = 200  # letters; file systems take 255 bytes


def is_name(text: str) -> bool:
    """Whether a text is a valid name of a scenario or a drone."""
    return bool(text) and all(letter.isalnum() or letter in "_-" for letter in text)


def sanitise_name(text: str) -> str:
    """Replace every character that a name may not contain by an underscore."""
    return "".join(letter if is_name(letter) else "_" for letter in text[:MAX_STEM_LENGTH])


def file_stem(name: str) -> str:
    """Return the file name, without suffix, for a thing called `name`: "APC 10x4.7" becomes "APC_10x4.7".

    Raises:
        ValueError: the name would lead into another directory or is not a valid file name: with a slash or a control character,
            beginning with a dot, empty, or too long.
    """
    if (
        not name.isprintable()
        or set(name) & {"/", "\\"}
        or name.startswith(".")
        or not 0 < len(name) <= MAX_STEM_LENGTH
    ):
        raise ValueError(
            f"the name {quote_value(name)} cannot be that of a file; expected no slash, no control character, no leading dot "
            f"and at most {MAX_STEM_LENGTH} characters; or set the file by --out"
        )
    return "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in name)


def first_duplicate(names: Iterable[str]) -> str | None:
    """Return the first name that repeats an earlier one, or None if all names are distinct."""
    previous_names: set[str] = set()
    for name in names:
        if name in previous_names:
            return name
        previous_names.add(name)
    return None
