"""Controllers by name, with options; the options are checked before a controller is built for a vehicle and its working rotors.

    tuned("ilqr", position_weight=60.0, horizon=30)
    tuned("geometric", position=2.0, attitude=(12.0, 12.0, 4.0), tilt_deg=30.0)
    tuned("policy", file="policy/")

Options that are not set follow from the vehicle. A new controller is a module with `TYPES`, listed in `CONTROLLERS`.
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
        return _load_types(self._modules[name])[name]

    def __contains__(self, name: object) -> bool:
        return name in self._modules

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)

    def __or__(self, other: "ControllerTypes") -> "ControllerTypes":
        return ControllerTypes(self._modules | other._modules)


@cache
def _load_types(module: str) -> dict[str, ControllerType]:
    return {
        controller_type.name: controller_type for controller_type in import_module(f"samara.control.{module}").TYPES
    }


CONTROLLERS = ControllerTypes(
    {name: name for name in ("geometric", "pid", "mellinger", "lqr", "indi")} | {"ilqr": "mpc.options"}
)
"""Controllers derived from a model of the vehicle."""

LEARNT = ControllerTypes(dict.fromkeys(("policy", "universal", "racer", "navigate", "raptor"), "policy"))
"""Trained networks: `policy` needs a folder, RAPTOR a package, and `navigate` a depth camera."""

FIRMWARE = ControllerTypes(dict.fromkeys((PREFIX + name for name in FUNCTIONS), "crazyflie_firmware.controller"))
"""Controllers of the Crazyflie firmware, which need its Python bindings."""

CONTROLLER_TYPES = CONTROLLERS | LEARNT | FIRMWARE
NAMES = tuple(CONTROLLER_TYPES)


class Named(NamedTuple):
    """A controller with its name: `call(state, reference, vehicle, controller_state) → command, controller_state`.

    `memory` is its initial state. A controller with `look_ahead`, times from now [s], expects the references at those times
    and is called in Python, even if `look_ahead` is empty; the others are traced.
    """

    name: str
    call: Callable[..., Any]
    memory: Any


DEFAULT_PERIOD = 4e-3  # [s]: scenarios run their autopilot at 250 Hz by default


def as_tuned(controller: Any) -> Any:
    """Return a name as a `Tuned` without options, and anything else unchanged."""
    return Tuned(controller) if isinstance(controller, str) else controller


def name_of(controller: str | Tuned | Callable[..., Any]) -> str:
    """Return the controller's name, or the name of its function or class."""
    spec = as_tuned(controller)
    return spec.name if isinstance(spec, Tuned) else str(getattr(spec, "__name__", type(spec).__name__.lower()))


def type_of(controller: str | Tuned | Callable[..., Any]) -> ControllerType | None:
    """Return the type of a named controller; None for a function."""
    spec = as_tuned(controller)
    return CONTROLLER_TYPES.get(spec.name) if isinstance(spec, Tuned) else None


def own_rate(controller: str | Tuned | Callable[..., Any]) -> float | None:
    """Return the rate at which a controller has to be called [Hz]; None if any rate will do."""
    controller_type = type_of(controller)
    return controller_type.rate if controller_type is not None else None


def instants_ahead(controller: str | Tuned | Callable[..., Any]) -> int:
    """Count the future references that a controller previews; 0 unless it is predictive."""
    spec, controller_type = as_tuned(controller), type_of(controller)
    if controller_type is None:
        return len(getattr(spec, "look_ahead", ()))
    return controller_type.instants_ahead(spec.chosen) if controller_type.instants_ahead is not None else 0


def controller_named(
    name: str, vehicle: Vehicle, healthy: Sequence[bool] = (), *, period: float = DEFAULT_PERIOD, **options: Any
) -> Named:
    """Build a controller by name.

    Args:
        name: one of `NAMES`.
        vehicle: model of the vehicle that the controller is designed for.
        healthy: for each rotor, whether it works; empty for all.
        period: time between calls [s].
        options: options of the controller, such as position_weight=60.0; see `ControllerType.knobs`.

    Raises:
        ValueError: if the name or an option is unknown, or a value is invalid.
    """
    option_values = checked(name, options)
    healthy_rotors = tuple(healthy) or tuple(True for _ in vehicle.rotors)
    controller = CONTROLLER_TYPES[name].build(vehicle, healthy=healthy_rotors, period=period, **option_values)
    return Named(name, controller, controller.initial_memory)


def tuned(controller: str, /, **options: object) -> Tuned:
    """Return a controller with options; raise ValueError for an unknown option or an invalid value.

    Args:
        controller: name of the controller, one of `NAMES`.
        options: values of its options, in SI units; angles also in degrees, with the suffix `_deg`.
    """
    return Tuned(controller, tuple(sorted(checked(controller, options).items())))


def checked(controller: str, options: Mapping[str, object]) -> dict[str, object]:
    """Return the options as the factory takes them; raise ValueError for an unknown option or an invalid value."""
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
