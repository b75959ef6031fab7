"""The external autopilot of a drone: its type, its connection, and the reaction to its loss."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Annotated, TypeAlias

from samara.core.sanitise import UserTextOnly
from samara.scenario.autopilot_types import AUTOPILOTS, PX4, AutopilotType, FlightMode

LOOPBACK = "127.0.0.1"


def is_loopback(host: str) -> bool:
    """Whether a host name refers to this machine only."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


Program: TypeAlias = Annotated[
    str,
    UserTextOnly(
        "no program in a file: name it by --binary, --set, in Python, or in "
        + ", ".join(entry.variable for entry in AUTOPILOTS.values() if entry.variable),
        lambda text: not text,
    ),
]
Host: TypeAlias = Annotated[
    str, UserTextOnly("this machine, 127.0.0.1, in a file: name another by --set or in Python", is_loopback)
]


@dataclass(frozen=True)
class Autopilot:
    """The external autopilot of a drone: `type` is the name of a registered type (`samara.scenario.autopilot_types`).

    type         name of the registered type
    binary       program to start; "" waits for a running autopilot
    instance     index of the autopilot, which determines its ports
    rate         rate at which it receives sensor data [Hz]; 0 is the default of its type
    on_loss      reaction if it exits or hangs: "end" ends the flight, "wait" pauses it until the autopilot is back
    host         address of the autopilot
    hover        its output at hover
    patience     maximum silence [s, wall-clock]
    wait         maximum wait for its first message [s, wall-clock]
    convention   version of its protocol; "" detects it
    parameters   (name, value) pairs that are set when it is started here; a value of Betaflight may be a word such as PT1
    outputs      "thrust": an output is a thrust; "command": it is the motor command, as on the aircraft
    mode         flight mode in which it follows the scenario's reference after take-off; "" for none

    Its type lists the available outputs, conventions and modes.
    """

    type: str = PX4.name
    binary: Program = ""
    instance: int = 0
    rate: float = 0.0
    on_loss: str = "end"
    host: Host = LOOPBACK
    hover: float = 0.5
    patience: float = 10.0
    wait: float = 120.0
    convention: str = ""
    parameters: tuple[tuple[str, float | str], ...] = ()
    outputs: str = "thrust"
    mode: str = ""

    def __post_init__(self) -> None:
        _require_choice("type", self.type, tuple(AUTOPILOTS))
        _require_choice("on_loss", self.on_loss, ("end", "wait"))
        _require_choice("outputs", self.outputs, self.registered_type.outputs)
        self._require_offered("mode", lambda entry: tuple(mode.name for mode in entry.modes))
        self._require_offered("convention", lambda entry: entry.conventions)
        for name in ("patience", "wait"):
            if not 0.0 < getattr(self, name) < math.inf:
                raise ValueError(f"autopilot.{name} is {getattr(self, name)!r}; expected a positive number of seconds")
        if not 0 <= self.instance < 100:
            raise ValueError(f"autopilot.instance is {self.instance!r}; expected a whole number from 0 to 99")
        if not 0.0 < self.hover < 1.0:
            raise ValueError(f"autopilot.hover is {self.hover!r}; expected a number between 0 and 1")
        low, high = self.registered_type.rate_range
        if self.rate and not low <= self.rate <= high:
            raise ValueError(f"autopilot.rate is {self.rate:g} Hz; expected {low:g} to {high:g} for {self.type}")
        mode = self.flight_mode
        if mode is not None and mode.rate and self.sensor_rate % mode.rate:
            raise ValueError(
                f"autopilot.rate is {self.rate:g} Hz; expected a multiple of {mode.rate:g} for {mode.name}"
            )
        for name, value in self.parameters:  # they become lines of scripts and files
            if not is_word(name):
                raise ValueError(f"autopilot.parameters has {name!r:.60}; expected names of letters, digits and _")
            if isinstance(value, str) and not (self.registered_type.takes_words and is_word(value)):
                words = ", or a word of letters, digits and _" * self.registered_type.takes_words
                raise ValueError(f"autopilot.parameters.{name} is {value!r:.60}; expected a number{words}")

    @property
    def numbers(self) -> dict[str, float]:
        """The parameters that are numbers, by name."""
        return {name: value for name, value in self.parameters if not isinstance(value, str)}

    @property
    def registered_type(self) -> AutopilotType:
        """Entry of the autopilot in the registry."""
        return AUTOPILOTS[self.type]

    @property
    def flight_mode(self) -> FlightMode | None:
        """The mode in which it follows the reference; None without a mode."""
        return next((mode for mode in self.registered_type.modes if mode.name == self.mode), None)

    @property
    def sensor_rate(self) -> float:
        """Rate at which it receives sensor data [Hz]."""
        mode = self.flight_mode
        return self.rate or (mode.rate if mode is not None else 0.0) or self.registered_type.default_rate

    @property
    def commands_motors(self) -> bool:
        """Whether its outputs are motor commands instead of thrusts."""
        mode = self.flight_mode
        return self.outputs == "command" or (mode is not None and mode.commands_motors)

    def _require_offered(self, field: str, choices: Callable[[AutopilotType], tuple[str, ...]]) -> None:
        """Raise a ValueError unless the field is empty or among the choices of the type."""
        value = getattr(self, field)
        if value and not choices(self.registered_type):
            offering = " or ".join(entry.name for entry in AUTOPILOTS.values() if choices(entry))
            raise ValueError(
                f"autopilot.{field} is {value!r} and its type {self.type}; expected {offering}, or no {field}"
            )
        if value:
            _require_choice(field, value, choices(self.registered_type))


def is_word(text: str) -> bool:
    """Whether a text has only ASCII letters, digits and _, so that it is safe in a line of a script or a command line."""
    return text.isascii() and text.replace("_", "").isalnum()


def _require_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"autopilot.{name} is {value!r}; expected one of {', '.join(choices)}")
