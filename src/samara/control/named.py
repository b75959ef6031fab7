"""Controllers by name, each built for a vehicle and the rotors it has left."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from samara.control.geometric import geometric
from samara.control.indi import indi
from samara.control.lqr import lqr
from samara.control.mellinger import mellinger
from samara.control.pid import pid
from samara.physics.multirotor import Vehicle

HORIZON = 20  # steps
YAW_WEIGHT = 4.0  # as much as document 001's tilt: it has no yaw of its own, and references do


class Named(NamedTuple):
    """controller(state, reference, vehicle, memory) → command, memory; and the memory it starts with.

    One that has `look_ahead`, instants from now [s], wants the references of those instants, and is called in Python; the
    others are traced.
    """

    name: str
    call: Callable[..., Any]
    memory: Any


def _ilqr(vehicle: Vehicle, *, healthy: Sequence[bool], period: float) -> Any:
    from samara.control.ilqr import ILQR

    return ILQR(vehicle, mpcHorizon=HORIZON, healthy=healthy, period=period, wYaw=YAW_WEIGHT)


CONTROLLERS: dict[str, Callable[..., Any]] = {
    "geometric": geometric,
    "pid": pid,
    "mellinger": mellinger,
    "lqr": lqr,
    "indi": indi,
    "ilqr": _ilqr,
}
"""Each is called with a vehicle, `healthy` and `period`, and gives a controller with its `initial_memory`."""

USUAL_PERIOD = 4e-3  # [s]: scenarios run their autopilot at 250 Hz unless told otherwise


def instants_ahead(controller: str | Callable[..., Any]) -> int:
    """How many instants a controller looks ahead and plans for: none but for a predictive one"""
    if isinstance(controller, str):
        return HORIZON + 1 if controller == "ilqr" else 0
    return len(getattr(controller, "look_ahead", ()))


def controller_named(
    name: str, vehicle: Vehicle, healthy: Sequence[bool] = (), *, period: float = USUAL_PERIOD
) -> Named:
    """The controller of that name for a vehicle, called every `period` [s]; `healthy` tells which rotors still turn"""
    if name not in CONTROLLERS:
        raise ValueError(f"no controller {name!r}; expected one of {', '.join(CONTROLLERS)}")
    working = tuple(healthy) or tuple(True for _ in vehicle.rotors)
    controller = CONTROLLERS[name](vehicle, healthy=working, period=period)
    return Named(name, controller, controller.initial_memory)
