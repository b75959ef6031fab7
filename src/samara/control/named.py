"""Controllers by name, each built for a vehicle and the rotors it has left, with parameters chosen by name."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from samara.control.controller_type import ControllerType, Tuned
from samara.control.options import checked
from samara.control.registry import CONTROLLER_TYPES
from samara.physics.types import Vehicle


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

    `options` are numbers chosen by name, such as wPosition=60.0: see `ControllerType.knobs`.
    """
    chosen = checked(name, options)
    working = tuple(healthy) or tuple(True for _ in vehicle.rotors)
    controller = CONTROLLER_TYPES[name].build(vehicle, healthy=working, period=period, **chosen)
    return Named(name, controller, controller.initial_memory)
