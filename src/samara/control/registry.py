"""Controllers by name, with options: each option is checked before a controller is built for a vehicle and its working rotors.

    tuned("ilqr", position_weight=60.0, horizon=30)
    tuned("geometric", position=2.0, attitude=(12.0, 12.0, 4.0), tilt_deg=30.0)
    tuned("policy", file="policy/")

Options that are not set follow from the vehicle. A new controller is a module with `TYPES`, named in
`CONTROLLERS`.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from samara.control.controller_type import ANGLE, ControllerType, is_real, suggestion
from samara.control.controller_type import Tuned as Tuned
from samara.control.crazyflie_firmware.motors import FUNCTIONS, PREFIX
from samara.core.sanitise import shown
from samara.physics.types import Vehicle


class ControllerTypes(Mapping[str, ControllerType]):
    """Controller types by name; the module of a type is imported when the type is needed."""

    def __init__(self, modules: Mapping[str, str]) -> None:
        self._modules = dict(modules)

    def __getitem__(self, name: str) -> ControllerType:
        return _types_in(self._modules[name])[name]

    def __contains__(self, name: object) -> bool:
        return name in self._modules

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)

    def __or__(self, other: "ControllerTypes") -> "ControllerTypes":
        return ControllerTypes(self._modules | other._modules)


@cache
def _types_in(module: str) -> dict[str, ControllerType]:
    return {controller.name: controller for controller in import_module(f"samara.control.{module}").TYPES}


CONTROLLERS = ControllerTypes(
    {name: name for name in ("geometric", "pid", "mellinger", "lqr", "indi")} | {"ilqr": "mpc.options"}
)
"""Controllers that follow from a model of the vehicle"""

LEARNT = ControllerTypes(dict.fromkeys(("policy", "universal", "racer", "navigate", "raptor"), "policy"))
"""Trained networks: `policy` needs a folder, RAPTOR a package, and `navigate` a depth camera"""

FIRMWARE = ControllerTypes(dict.fromkeys((PREFIX + name for name in FUNCTIONS), "crazyflie_firmware.controller"))
"""The Crazyflie firmware's own, which need its bindings"""

CONTROLLER_TYPES = CONTROLLERS | LEARNT | FIRMWARE
NAMES = tuple(CONTROLLER_TYPES)


class Named(NamedTuple):
    """controller(state, reference, vehicle, memory) → command, memory; and the memory it starts with.

    One that has `look_ahead`, instants from now [s], wants the references of those instants, and is called in Python, even
    where there are none; the others are traced.
    """

    name: str
    call: Callable[..., Any]
    memory: Any


DEFAULT_PERIOD = 4e-3  # [s]: scenarios run their autopilot at 250 Hz by default


def as_tuned(controller: Any) -> Any:
    """A name as a `Tuned` with nothing chosen; anything else as it is"""
    return Tuned(controller) if isinstance(controller, str) else controller


def name_of(controller: str | Tuned | Callable[..., Any]) -> str:
    """What a controller is called: its name, or that of the function"""
    own = as_tuned(controller)
    return own.name if isinstance(own, Tuned) else str(getattr(own, "__name__", type(own).__name__.lower()))


def type_of(controller: str | Tuned | Callable[..., Any]) -> ControllerType | None:
    """The type of a controller that is named; None for a function"""
    named = as_tuned(controller)
    return CONTROLLER_TYPES.get(named.name) if isinstance(named, Tuned) else None


def own_rate(controller: str | Tuned | Callable[..., Any]) -> float | None:
    """How often a controller has to be called, where that is its own to say  [Hz]"""
    controller_type = type_of(controller)
    return controller_type.rate if controller_type is not None else None


def instants_ahead(controller: str | Tuned | Callable[..., Any]) -> int:
    """How many instants a controller looks ahead and plans for: none but for a predictive one"""
    named, controller_type = as_tuned(controller), type_of(controller)
    if controller_type is None:
        return len(getattr(named, "look_ahead", ()))
    return controller_type.instants_ahead(named.chosen) if controller_type.instants_ahead is not None else 0


def controller_named(
    name: str, vehicle: Vehicle, healthy: Sequence[bool] = (), *, period: float = DEFAULT_PERIOD, **options: Any
) -> Named:
    """The controller of that name for a vehicle, called every `period` [s]; `healthy` tells which rotors still turn

    `options` are numbers chosen by name, such as position_weight=60.0: see `ControllerType.knobs`.
    """
    chosen = checked(name, options)
    working = tuple(healthy) or tuple(True for _ in vehicle.rotors)
    controller = CONTROLLER_TYPES[name].build(vehicle, healthy=working, period=period, **chosen)
    return Named(name, controller, controller.initial_memory)


def tuned(controller: str, /, **options: object) -> Tuned:
    """Return a controller with options; ValueError for an unknown option or a value that does not fit."""
    return Tuned(controller, tuple(sorted(checked(controller, options).items())))


def checked(controller: str, options: Mapping[str, object]) -> dict[str, object]:
    """Return the options as the controller takes them; ValueError for an unknown name or a value that does not fit."""
    if controller not in CONTROLLER_TYPES:
        raise ValueError(f"no controller {controller!r}; expected one of {', '.join(CONTROLLER_TYPES)}")
    knobs, checked_options = CONTROLLER_TYPES[controller].knobs, {}
    for key, value in options.items():
        name = key.removesuffix("_deg")
        degrees = key != name and knobs.get(name) is ANGLE
        knob = knobs.get(name if degrees else key)
        if knob is None:
            raise ValueError(f"{key} = {shown(value)}: {controller} has no such option; {suggestion(key, knobs)}")
        option = knob.read(math.radians(value) if degrees and is_real(value) else value)
        if option is None:
            expected = "an angle between 0 and 90 degrees" if degrees else knob.expected
            raise ValueError(f"{key} = {shown(value)}: expected {expected}")
        checked_options[name if degrees else key] = option
    return checked_options
