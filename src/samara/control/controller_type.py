"""Controller types: the factory of each type and the options that may be set by name."""

import math
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple, Protocol, TypeGuard

from samara.core.algebra import Vec3
from samara.core.batch_scalar import BatchScalar, float_or_batch_scalar
from samara.core.quantity import MAX_MAGNITUDE
from samara.physics.types import Command, State, Vehicle

MAX_COUNT = 10_000  # steps or iterations: more would exceed the memory, or take longer than a day


class ControllerSpec(NamedTuple):
    """A controller's name and the options that were set."""

    name: str
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def option_values(self) -> dict[str, Any]:
        return dict(self.options)


class OptionTable(NamedTuple):
    """A table among the options of a controller: its keys and values, hashable as a `ControllerSpec` has to be."""

    entries: tuple[tuple[str, Any], ...]

    @property
    def values(self) -> dict[str, Any]:
        return dict(self.entries)


def plain_option(value: Any) -> Any:
    """Return the value of an option as a file has it, with tables and lists; others unchanged."""
    if isinstance(value, OptionTable):
        return {key: plain_option(entry) for key, entry in value.entries}
    return [plain_option(entry) for entry in value] if isinstance(value, tuple) else value


class OptionParser(NamedTuple):
    """Parser of an option: the expected value in words, and a function that returns the parsed value (None if invalid).

    The function may instead raise a ValueError that names the option, or an entry of it.
    """

    expected: str
    parse: Callable[[Any], Any]


def is_finite_number(value: object) -> TypeGuard[float]:
    if not isinstance(value, (int, float, BatchScalar)) or isinstance(value, bool):
        return False
    magnitude: Any = abs(value)
    return bool(magnitude <= MAX_MAGNITUDE)


def number_parser(expected: str, is_valid: Callable[[float], bool]) -> OptionParser:
    """Return the parser of a finite number, or of one for each flight of a batch."""
    return OptionParser(
        expected, lambda value: float_or_batch_scalar(value) if is_finite_number(value) and is_valid(value) else None
    )


def choice_parser(*words: str) -> OptionParser:
    return OptionParser(f"one of {', '.join(words)}", lambda value: value if value in words else None)


def _parse_numbers(value: Any) -> tuple[Any, ...] | None:
    is_valid = isinstance(value, (list, tuple)) and all(map(is_finite_number, value))
    return tuple(float_or_batch_scalar(x) for x in value) if is_valid else None


def _parse_three_positive(value: Any) -> Vec3 | None:
    is_valid = (
        isinstance(value, (list, tuple)) and len(value) == 3 and all(is_finite_number(x) and x > 0.0 for x in value)
    )
    return Vec3(*(float_or_batch_scalar(x) for x in value)) if is_valid else None


def _parse_count(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_COUNT:
        return None
    return value


POSITIVE = number_parser("a positive number", lambda x: x > 0.0)
NOT_NEGATIVE = number_parser("a number that is not negative", lambda x: x >= 0.0)
FRACTION = number_parser("a number from 0 to 1", lambda x: 0.0 <= x <= 1.0)
ANGLE = number_parser("an angle between 0 and π/2 rad", lambda x: 0.0 < x < 0.5 * math.pi)
THREE_POSITIVE = OptionParser("three positive numbers", _parse_three_positive)
FLAG = OptionParser("true or false", lambda value: value if isinstance(value, bool) else None)
COUNT = OptionParser(f"a whole number from 1 to {MAX_COUNT}", _parse_count)
FINITE_NUMBERS = OptionParser("a list of finite numbers", _parse_numbers)

LIMIT_OPTIONS = {"tilt": ANGLE, "speed": POSITIVE}
FREQUENCY_OPTIONS = {"position": POSITIVE, "attitude": THREE_POSITIVE}
GAIN_OPTIONS = {**FREQUENCY_OPTIONS, "lead": NOT_NEGATIVE}


def suggest_names(name: str, valid_names: Iterable[str]) -> str:
    """Return the end of a message about an unknown option: the closest names, or every valid name."""
    names = list(valid_names)
    closest = get_close_matches(name, names, 3)
    return f"did you mean {' or '.join(closest)}?" if closest else f"expected {', '.join(names) or 'none'}"


class Controller(Protocol):
    """`controller(state, reference, vehicle, controller_state) → command, controller_state`, with its `initial_state`."""

    @property
    def initial_state(self) -> Any: ...

    def __call__(self, state: State, reference: Any, vehicle: Vehicle, controller_state: Any, /) -> tuple[Command, Any]:
        """Compute a command.

        Args:
            state: estimated state of the vehicle.
            reference: desired motion; a sequence of references for a predictive controller.
            vehicle: model of the vehicle that the controller is designed for.
            controller_state: the state that the previous call returned; `initial_state` at the first call.

        Returns:
            The command and the controller state for the next call.
        """
        ...


class ControllerType(NamedTuple):
    """A type of controller. `build(vehicle, healthy=…, period=…, **options)` returns a controller with an `initial_state`.

    `option_parsers` parse the options, which are in SI units; an angle may also be given in degrees, with the suffix `_deg`.
    `look_ahead_count(options)` counts the references that a predictive controller previews. Such a controller is called in
    Python; the others are traced. `rate` is the rate at which the controller has to be called, if that is fixed [Hz].
    `avoids_solids` tells that `build` also takes `solids`, the named solids of the world, and has an option `avoid_obstacles`.
    `description` is the line of `samara controllers`.
    """

    name: str
    description: str
    build: Callable[..., Any]
    option_parsers: Mapping[str, OptionParser] = {}
    look_ahead_count: Callable[[Mapping[str, Any]], int] | None = None
    rate: float | None = None
    avoids_solids: bool = False
