"""Which autopilot flies a drone, how it is reached, and what happens when it is lost."""

import math
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Annotated, TypeAlias

from samara.core.typed import OnlyTyped

LOOPBACK = "127.0.0.1"
CONVENTIONS = ("4.6", "2026.12")
POLICY = "raptor"
MODES = ("offboard", POLICY)
POLICY_RATE = 100.0  # [Hz], of PX4's mc_raptor, which goes on every so many of its turns
VARIABLES = {"px4": "SAMARA_PX4", "ardupilot": "SAMARA_ARDUCOPTER", "betaflight": "SAMARA_BETAFLIGHT"}


def is_loopback(host: str) -> bool:
    """Whether only programs on this machine reach a host of this name"""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


Program: TypeAlias = Annotated[
    str,
    OnlyTyped(
        f"no program in a file: name it by --binary, --set, in Python, or in {', '.join(VARIABLES.values())}",
        lambda text: not text,
    ),
]
Host: TypeAlias = Annotated[
    str, OnlyTyped("this machine, 127.0.0.1, in a file: name another by --set or in Python", is_loopback)
]


@dataclass(frozen=True)
class Autopilot:
    """Which autopilot: px4, ardupilot or betaflight. It is started from `binary`, or waited for when that is empty. With
    "crazyflie" a script flies it that speaks CRTP, as Bitcraze's cflib does: nothing is started, it is waited for.

    `rate` [Hz] is how often it gets sensors (0: its usual one). `on_loss` says what happens when it dies or hangs: "end" ends
    the flight, "wait" holds it until the autopilot is back. `patience` [s, by the clock] is how long it may be silent, `wait`
    how long its first word is waited for. `hover` is its output at hover. With `outputs` "thrust" an output is a thrust, with
    "command" it is the motor's own command, as on the aircraft (PX4 alone). `convention` is Betaflight's: "4.6", "2026.12", or
    empty for what its version says. `parameters` are its own, (name, value), set when it is started here.

    With a `mode` PX4 follows the scenario's reference once it has taken off: "offboard" by its own controllers, "raptor" by the
    drone's controller, a policy that its module mc_raptor flies inside it, whose outputs are commands of the motors.
    """

    kind: str = "px4"
    binary: Program = ""
    instance: int = 0
    rate: float = 0.0
    on_loss: str = "end"
    host: Host = LOOPBACK
    hover: float = 0.5
    patience: float = 10.0
    wait: float = 120.0
    convention: str = ""
    parameters: tuple[tuple[str, float], ...] = ()
    outputs: str = "thrust"
    mode: str = ""

    def __post_init__(self) -> None:
        _one_of("kind", self.kind, tuple(DEFAULT_RATE))
        _one_of("on_loss", self.on_loss, ("end", "wait"))
        _one_of("outputs", self.outputs, ("thrust", "command") if self.kind == "px4" else ("thrust",))
        if self.mode and self.kind != "px4":
            raise ValueError(f"autopilot.mode is {self.mode!r} and its kind {self.kind}; expected px4, or no mode")
        if self.mode:
            _one_of("mode", self.mode, MODES)
        if self.convention:
            _one_of("convention", self.convention, CONVENTIONS)
        for name in ("patience", "wait"):
            if not 0.0 < getattr(self, name) < math.inf:
                raise ValueError(f"autopilot.{name} is {getattr(self, name)!r}; expected a positive number of seconds")
        if not 0 <= self.instance < 100:
            raise ValueError(f"autopilot.instance is {self.instance!r}; expected a whole number from 0 to 99")
        if not 0.0 < self.hover < 1.0:
            raise ValueError(f"autopilot.hover is {self.hover!r}; expected a number between 0 and 1")
        low, high = RATES[self.kind]
        if self.rate and not low <= self.rate <= high:
            raise ValueError(f"autopilot.rate is {self.rate:g} Hz; expected {low:g} to {high:g} for {self.kind}")
        if self.mode == POLICY and self.sensor_rate % POLICY_RATE:
            raise ValueError(
                f"autopilot.rate is {self.rate:g} Hz; expected a multiple of {POLICY_RATE:g} for {POLICY}, which counts turns"
            )
        for name, _ in self.parameters:  # they become lines of scripts and files
            if not (name.isascii() and name.replace("_", "").isalnum()):
                raise ValueError(f"autopilot.parameters has {name!r:.60}; expected names of letters, digits and _")

    @property
    def sensor_rate(self) -> float:
        """How often it gets sensors  [Hz]"""
        return self.rate or (POLICY_RATE if self.mode == POLICY else DEFAULT_RATE[self.kind])

    @property
    def commands_motors(self) -> bool:
        """Whether its outputs are the motors' own commands, and not thrusts"""
        return self.outputs == "command" or self.mode == POLICY


DEFAULT_RATE = {"px4": 250.0, "ardupilot": 1000.0, "betaflight": 500.0, "crazyflie": 250.0}
RATES = {
    "px4": (50.0, 4000.0),
    "ardupilot": (720.0, 4000.0),
    "betaflight": (200.0, 4000.0),
    "crazyflie": (100.0, 1000.0),
}
"""ArduPilot refuses to arm below 720 Hz."""


def _one_of(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"autopilot.{name} is {value!r}; expected one of {', '.join(choices)}")
