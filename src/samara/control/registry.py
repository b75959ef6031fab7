"""Controllers by name, with options; the options are checked before a controller is built for a vehicle and its working rotors.

    controller_spec("mpc", position_weight=60.0, horizon=30)
    controller_spec("geometric", position=2.0, attitude=(12.0, 12.0, 4.0), tilt_deg=30.0)
    controller_spec("policy", file="policy/")

Options that are not set follow from the vehicle. To add a controller, write a module with `TYPES` and list it in
`CONTROLLERS`.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from samara.control.controller_type import ANGLE, ControllerType, is_finite_number, suggest_names
from samara.control.controller_type import ControllerSpec as ControllerSpec
from samara.control.crazyflie_firmware.motors import FUNCTIONS, PREFIX
from samara.core.sanitise import quote_value
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
    {name: name for name in ("geometric", "pid", "mellinger", "lqr", "indi")} | {"mpc": "mpc.options"}
)
"""Controllers derived from a model of the vehicle."""

TRAINED = ControllerTypes(dict.fromkeys(("policy", "universal", "racer", "navigate", "raptor"), "policy"))
"""Trained networks: `policy` needs a folder, RAPTOR a package, and `navigate` a depth camera."""

FIRMWARE = ControllerTypes(dict.fromkeys((PREFIX + name for name in FUNCTIONS), "crazyflie_firmware.controller"))
"""Controllers of the Crazyflie firmware, which need its Python bindings."""

CONTROLLER_TYPES = CONTROLLERS | TRAINED | FIRMWARE
NAMES = tuple(CONTROLLER_TYPES)


class NamedController(NamedTuple):
    """A controller with its name: `call(state, reference, vehicle, controller_state) → command, controller_state`.

    `initial_state` is its initial state. A controller with `look_ahead`, times from now [s], expects the references at
    those times and is called in Python, even if `look_ahead` is empty; the others are traced.
    """

    name: str
    call: Callable[..., Any]
    initial_state: Any


DEFAULT_PERIOD = 4e-3  # [s]: scenarios run their autopilot at 250 Hz by default


def coerce_controller_spec(controller: Any) -> Any:
    """Return a name as a `ControllerSpec` without options, and anything else unchanged."""
    return ControllerSpec(controller) if isinstance(controller, str) else controller


def controller_name(controller: str | ControllerSpec | Callable[..., Any]) -> str:
    """Return the controller's name, or the name of its function or class."""
    spec = coerce_controller_spec(controller)
    return (
        spec.name if isinstance(spec, ControllerSpec) else str(getattr(spec, "__name__", type(spec).__name__.lower()))
    )


def find_controller_type(controller: str | ControllerSpec | Callable[..., Any]) -> ControllerType | None:
    """Return the type of a named controller; None for a function."""
    spec = coerce_controller_spec(controller)
    return CONTROLLER_TYPES.get(spec.name) if isinstance(spec, ControllerSpec) else None


def required_rate(controller: str | ControllerSpec | Callable[..., Any]) -> float | None:
    """Return the rate at which a controller has to be called [Hz]; None if any rate will do."""
    controller_type = find_controller_type(controller)
    return controller_type.rate if controller_type is not None else None


def look_ahead_count(controller: str | ControllerSpec | Callable[..., Any]) -> int:
    """Count the future references that a controller previews; 0 unless it is predictive."""
    spec, controller_type = coerce_controller_spec(controller), find_controller_type(controller)
    if controller_type is None:
        return len(getattr(spec, "look_ahead", ()))
    return controller_type.look_ahead_count(spec.option_values) if controller_type.look_ahead_count is not None else 0


def create_controller(
    name: str,
    vehicle: Vehicle,
    healthy: Sequence[bool] = (),
    *,
    period: float = DEFAULT_PERIOD,
    solids: Sequence[Any] = (),
    **options: Any,
) -> NamedController:
    """Build a controller by name.

    Args:
        name: one of `NAMES`.
        vehicle: model of the vehicle that the controller is designed for.
        healthy: for each rotor, whether it works; empty for all.
        period: time between calls [s].
        solids: name and solid of each obstacle of the world, for a controller with the option `avoid_obstacles`.
        options: options of the controller, such as position_weight=60.0; see `ControllerType.option_parsers`.

    Raises:
        ValueError: if the name or an option is unknown, or a value is invalid.
    """
    option_values = parse_options(name, options)
    healthy_rotors = tuple(healthy) or tuple(True for _ in vehicle.rotors)
    controller_type = CONTROLLER_TYPES[name]
    if solids and controller_type.avoids_solids:
        option_values["solids"] = tuple(solids)
    controller = controller_type.build(vehicle, healthy=healthy_rotors, period=period, **option_values)
    return NamedController(name, controller, controller.initial_state)


def controller_spec(controller: str, /, **options: object) -> ControllerSpec:
    """Return a controller with options; raise ValueError for an unknown option or an invalid value.

    Args:
        controller: name of the controller, one of `NAMES`.
        options: values of its options, in SI units; angles also in degrees, with the suffix `_deg`.
    """
    return ControllerSpec(controller, tuple(sorted(parse_options(controller, options).items())))


def parse_options(controller: str, options: Mapping[str, object]) -> dict[str, object]:
    """Return the options as the factory takes them; raise ValueError for an unknown option or an invalid value."""
    if controller not in CONTROLLER_TYPES:
        raise ValueError(f"no controller {controller!r}; expected one of {', '.join(CONTROLLER_TYPES)}")
    knobs, checked_options = CONTROLLER_TYPES[controller].option_parsers, {}
    for key, value in options.items():
        name = key.removesuffix("_deg")
        degrees = key != name and knobs.get(name) is ANGLE
        knob = knobs.get(name if degrees else key)
        if knob is None:
            raise ValueError(
                f"{key} = {quote_value(value)}: {controller} has no such option; {suggest_names(key, knobs)}"
            )
        option = knob.parse(math.radians(value) if degrees and is_finite_number(value) else value)
        if option is None:
            expected = "an angle between 0 and 90 degrees" if degrees else knob.expected
            raise ValueError(f"{key} = {quote_value(value)}: expected {expected}")
        checked_options[name if degrees else key] = option
    return checked_options
