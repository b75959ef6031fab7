"""Controllers by name, each built for a vehicle and the rotors it has left."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from samara.control.geometric import geometric
from samara.control.indi import indi
from samara.control.lqr import lqr
from samara.control.mellinger import mellinger
from samara.control.pid import pid
from samara.physics.multirotor import Vehicle


class Named(NamedTuple):
    """controller(state, reference, vehicle, memory) → command, memory; and the memory it starts with."""

    name: str
    call: Callable[..., Any]
    memory: Any


CONTROLLERS: dict[str, Callable[..., Any]] = {
    "geometric": geometric,
    "pid": pid,
    "mellinger": mellinger,
    "lqr": lqr,
    "indi": indi,
}
"""Each is called with a vehicle, `healthy` and `period`, and gives a controller with its `initial_memory`."""

USUAL_PERIOD = 4e-3  # [s]: scenarios run their autopilot at 250 Hz unless told otherwise


def controller_named(
    name: str, vehicle: Vehicle, healthy: Sequence[bool] = (), *, period: float = USUAL_PERIOD
) -> Named:
    """The controller of that name for a vehicle, called every `period` [s]; `healthy` tells which rotors still turn"""
    if name not in CONTROLLERS:
        raise ValueError(f"no controller {name!r}; expected one of {', '.join(CONTROLLERS)}")
    working = tuple(healthy) or tuple(True for _ in vehicle.rotors)
    controller = CONTROLLERS[name](vehicle, healthy=working, period=period)
    return Named(name, controller, controller.initial_memory)
