"""Controller types: the factory of each type and the options that may be set by name."""

import math
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple, Protocol, TypeGuard

from samara.core.algebra import Vec3
from samara.core.batch_scalar import BatchScalar, as_scalar
from samara.core.quantity import LARGEST
from samara.physics.types import Command, State, Vehicle

MAX_COUNT = 10_000  # steps or iterations: more exceed the memory of the computer or a day of computing


class Tuned(NamedTuple):
    """A controller's name and the options that were set."""

    name: str
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def chosen(self) -> dict[str, Any]:
        return dict(self.options)


class Knob(NamedTuple):
    """Parser of an option: the expected value in words, and a function that returns the parsed value (None if invalid)."""

    expected: str
    read: Callable[[Any], Any]


def is_real(value: object) -> TypeGuard[float]:
    if not isinstance(value, (int, float, BatchScalar)) or isinstance(value, bool):
        return False
    magnitude: Any = abs(value)
    return bool(magnitude <= LARGEST)


def _number(expected: str, is_valid: Callable[[float], bool]) -> Knob:
    return Knob(expected, lambda value: as_scalar(value) if is_real(value) and is_valid(value) else None)


def choice(*words: str) -> Knob:
    return Knob(f"one of {', '.join(words)}", lambda value: value if value in words else None)


def _numbers(value: Any) -> tuple[Any, ...] | None:
    is_valid = isinstance(value, (list, tuple)) and all(map(is_real, value))
    return tuple(as_scalar(x) for x in value) if is_valid else None


def _three(value: Any) -> Vec3 | None:
    is_valid = isinstance(value, (list, tuple)) and len(value) == 3 and all(is_real(x) and x > 0.0 for x in value)
    return Vec3(*(as_scalar(x) for x in value)) if is_valid else None


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


def suggestion(name: str, valid_names: Iterable[str]) -> str:
    """Return the end of a message about an unknown option: the closest names, or every valid name."""
    names = list(valid_names)
    closest = get_close_matches(name, names, 3)
    return f"did you mean {' or '.join(closest)}?" if closest else f"expected {', '.join(names) or 'none'}"


class Controller(Protocol):
    """`controller(state, reference, vehicle, controller_state) → command, controller_state`, with its `initial_memory`."""

    @property
    def initial_memory(self) -> Any: ...

    def __call__(self, state: State, reference: Any, vehicle: Vehicle, controller_state: Any, /) -> tuple[Command, Any]:
        """Compute a command.

        Args:
            state: estimated state of the vehicle.
            reference: desired motion; a sequence of references for a predictive controller.
            vehicle: model of the vehicle that the controller is designed for.
            controller_state: the state that the previous call returned; `initial_memory` at the first call.

        Returns:
            The command and the controller state for the next call.
        """
        ...


class ControllerType(NamedTuple):
    """A type of controller. `build(vehicle, healthy=…, period=…, **options)` returns a controller with an `initial_memory`.

    `knobs` parse the options, which are in SI units; an angle may also be given in degrees, with the suffix `_deg`.
    `instants_ahead(options)` counts the references that a predictive controller previews. Such a controller is called in
    Python; the others are traced. `rate` is the rate at which the controller has to be called, if that is fixed [Hz].
    """

    name: str
    build: Callable[..., Any]
    knobs: Mapping[str, Knob] = {}
    instants_ahead: Callable[[Mapping[str, Any]], int] | None = None
    rate: float | None = None
