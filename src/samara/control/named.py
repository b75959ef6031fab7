"""Controllers by name, each built for a vehicle and the rotors it has left."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from samara.control.geometric import geometric
from samara.physics.multirotor import Vehicle


class Named(NamedTuple):
    """controller(state, reference, vehicle, memory) → command, memory; and the memory it starts with."""

    name: str
    call: Callable[..., Any]
    memory: Any


def _geometric(vehicle: Vehicle, healthy: Sequence[bool]) -> Named:
    controller = geometric(vehicle, healthy=healthy)
    return Named("geometric", controller, controller.initial_memory)


CONTROLLERS: dict[str, Callable[[Vehicle, Sequence[bool]], Named]] = {"geometric": _geometric}


def controller_named(name: str, vehicle: Vehicle, healthy: Sequence[bool] = ()) -> Named:
    """The controller of that name for a vehicle; `healthy` tells which rotors still turn, all unless told"""
    if name not in CONTROLLERS:
        raise ValueError(f"no controller {name!r}; expected one of {', '.join(CONTROLLERS)}")
    return CONTROLLERS[name](vehicle, healthy or tuple(True for _ in vehicle.rotors))
