"""A type of controller: how one is built, and which of its parameters may be chosen by name."""

import math
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple, Protocol, TypeGuard

from samara.core.algebra import Vec3
from samara.core.batch_scalar import BatchScalar, as_scalar
from samara.core.quantity import LARGEST
from samara.physics.types import Command, State, Vehicle

MAX_COUNT = 10_000  # steps or iterations: more do not fit into memory or a day


class Tuned(NamedTuple):
    """A controller's name, and the parameters chosen by name."""

    name: str
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def chosen(self) -> dict[str, Any]:
        return dict(self.options)


class Knob(NamedTuple):
    """The expected value in words, and a function that returns the parameter of a value, or None if it does not fit."""

    expected: str
    read: Callable[[Any], Any]


def is_real(value: object) -> TypeGuard[float]:
    if not isinstance(value, (int, float, BatchScalar)) or isinstance(value, bool):
        return False
    size: Any = abs(value)
    return bool(size <= LARGEST)


def _number(expected: str, fits: Callable[[float], bool]) -> Knob:
    return Knob(expected, lambda value: as_scalar(value) if is_real(value) and fits(value) else None)


def choice(*words: str) -> Knob:
    return Knob(f"one of {', '.join(words)}", lambda value: value if value in words else None)


def _numbers(value: Any) -> tuple[Any, ...] | None:
    fits = isinstance(value, (list, tuple)) and all(map(is_real, value))
    return tuple(as_scalar(x) for x in value) if fits else None


def _three(value: Any) -> Vec3 | None:
    fits = isinstance(value, (list, tuple)) and len(value) == 3 and all(is_real(x) and x > 0.0 for x in value)
    return Vec3(*(as_scalar(x) for x in value)) if fits else None


def _count(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_COUNT:
        return None
    return value


POSITIVE = _number("a positive number", lambda x: x > 0.0)
NOT_NEGATIVE = _number("a number that is not negative", lambda x: x >= 0.0)
FRACTION = _number("a number from 0 to 1", lambda x: 0.0 <= x <= 1.0)
ANGLE = _number("an angle between 0 and π/2 rad", lambda x: 0.0 < x < 0.5 * math.pi)
THREE = Knob("three positive numbers", _three)
FLAG = Knob("true or false", lambda value: value if isinstance(value, bool) else None)
COUNT = Knob(f"a whole number from 1 to {MAX_COUNT}", _count)
NUMBERS = Knob("finite numbers in a list", _numbers)

LIMITS = {"tilt": ANGLE, "speed": POSITIVE}
FREQUENCIES = {"position": POSITIVE, "attitude": THREE}
LOOPS = {**FREQUENCIES, "lead": NOT_NEGATIVE}


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown option: the names closest to it, or all that are known."""
    names = list(known)
    near = get_close_matches(name, names, 3)
    return f"did you mean {' or '.join(near)}?" if near else f"expected {', '.join(names) or 'none'}"


class Controller(Protocol):
    """`controller(state, reference, vehicle, memory) → command, memory`, with the memory it starts with"""

    @property
    def initial_memory(self) -> Any: ...

    def __call__(self, state: State, reference: Any, vehicle: Vehicle, memory: Any, /) -> tuple[Command, Any]: ...


class ControllerType(NamedTuple):
    """A type of controller: `build(vehicle, healthy=…, period=…, **chosen)` makes one, with an `initial_memory`.

    `knobs` are the parameters that may be chosen by name, in SI units; an angle may also be given in degrees, with `_deg`
    behind its name. `instants_ahead(chosen)` is the number of instants a predictive controller plans for: it is called in
    Python, and the others are traced. `rate` is the rate at which it has to be called, if that is fixed [Hz].
    """

    name: str
    build: Callable[..., Any]
    knobs: Mapping[str, Knob] = {}
    instants_ahead: Callable[[Mapping[str, Any]], int] | None = None
    rate: float | None = None
