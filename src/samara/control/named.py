"""Controllers by name, each built for a vehicle and the rotors it has left, with numbers of one's own where they are given."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from samara.control.firmware.kinds import NAMES as CRAZYFLIE
from samara.control.firmware.kinds import PREFIX, RATE
from samara.control.gains import Gains, gains_for
from samara.control.geometric import DEFAULT_LIMITS, FlightLimits, geometric
from samara.control.indi import indi
from samara.control.lqr import hover_design, lqr
from samara.control.mellinger import mellinger
from samara.control.pid import pid, pid_gains
from samara.control.policy import policy_controller
from samara.control.shipped import SHIPPED, shipped_policy
from samara.control.tuning import LIMITS, LOOPS, Tuned, checked
from samara.physics.types import Vehicle

HORIZON = 20  # steps
YAW_WEIGHT = 4.0  # as much as document 001's tilt: it has no yaw of its own, and references do


class Named(NamedTuple):
    """controller(state, reference, vehicle, memory) → command, memory; and the memory it starts with.

    One that has `look_ahead`, instants from now [s], wants the references of those instants, and is called in Python, even
    where there are none; the others are traced.
    """

    name: str
    call: Callable[..., Any]
    memory: Any


def _limits(chosen: dict[str, Any]) -> FlightLimits:
    return DEFAULT_LIMITS._replace(**{key: chosen.pop(key) for key in LIMITS if key in chosen})


def _loops(vehicle: Vehicle, chosen: dict[str, Any]) -> Gains:
    return gains_for(vehicle)._replace(**{key: chosen.pop(key) for key in LOOPS if key in chosen})


def _geometric(vehicle: Vehicle, *, healthy: Sequence[bool], period: float, **chosen: Any) -> Any:
    gains, limits = _loops(vehicle, chosen), _limits(chosen)
    return geometric(vehicle, gains, healthy, limits, period=period, **chosen)


def _pid(vehicle: Vehicle, *, healthy: Sequence[bool], period: float, **chosen: Any) -> Any:
    limits = _limits(chosen)
    return pid(vehicle, pid_gains(vehicle)._replace(**chosen), healthy, limits, period)


def _mellinger(vehicle: Vehicle, *, healthy: Sequence[bool], period: float, **chosen: Any) -> Any:
    gains, limits = _loops(vehicle, chosen), _limits(chosen)
    return mellinger(vehicle, gains, healthy, limits, period=period, **chosen)


def _lqr(vehicle: Vehicle, *, healthy: Sequence[bool], period: float, **chosen: Any) -> Any:
    design, limits = hover_design(vehicle, period, _loops(vehicle, chosen)), _limits(chosen)
    return lqr(vehicle, design, healthy, limits, period, **chosen)


def _indi(vehicle: Vehicle, *, healthy: Sequence[bool], period: float, **chosen: Any) -> Any:
    gains, limits = _loops(vehicle, chosen), _limits(chosen)
    return indi(vehicle, gains, healthy, limits, period)


def _ilqr(vehicle: Vehicle, *, healthy: Sequence[bool], period: float, **chosen: Any) -> Any:
    from samara.control.ilqr import ILQR

    return ILQR(vehicle, healthy=healthy, period=period, **{"mpcHorizon": HORIZON, "wYaw": YAW_WEIGHT, **chosen})


def _policy(vehicle: Vehicle, *, healthy: Sequence[bool], period: float, **chosen: Any) -> Any:
    if "file" not in chosen:
        raise ValueError("policy: file is missing: expected a policy folder, as in tuned('policy', file='policy/')")
    return policy_controller(chosen.pop("file"), vehicle, period, **chosen)


def _raptor(vehicle: Vehicle, *, healthy: Sequence[bool], period: float, **chosen: Any) -> Any:
    from samara.control.raptor import raptor_policy

    return policy_controller(raptor_policy(vehicle), vehicle, period)


def _crazyflie(kind: str, vehicle: Vehicle, *, healthy: Sequence[bool], period: float) -> Any:
    from samara.control.firmware.controller import crazyflie_controller

    return crazyflie_controller(kind, vehicle, period)


def _shipped(name: str, vehicle: Vehicle, *, healthy: Sequence[bool], period: float, **chosen: Any) -> Any:
    return policy_controller(shipped_policy(name), vehicle, period, **chosen)


CONTROLLERS: dict[str, Callable[..., Any]] = {
    "geometric": _geometric,
    "pid": _pid,
    "mellinger": _mellinger,
    "lqr": _lqr,
    "indi": _indi,
    "ilqr": _ilqr,
}
"""Each is called with a vehicle, `healthy`, `period` and numbers of `KNOBS`; it gives a controller with `initial_memory`."""

LEARNT: dict[str, Callable[..., Any]] = {
    "policy": _policy,
    **{name: partial(_shipped, name) for name in SHIPPED},
    "raptor": _raptor,
}
"""Likewise, but these are trained networks: one needs a folder, RAPTOR a package, and `navigate` a depth camera."""

FIRMWARE: dict[str, Callable[..., Any]] = {name: partial(_crazyflie, name.removeprefix(PREFIX)) for name in CRAZYFLIE}
"""The Crazyflie firmware's own, which need its bindings"""

NAMES = (*CONTROLLERS, *LEARNT, *FIRMWARE)

DEFAULT_PERIOD = 4e-3  # [s]: scenarios run their autopilot at 250 Hz by default


def as_tuned(controller: Any) -> Any:
    """A name as a `Tuned` with nothing chosen; anything else as it is"""
    return Tuned(controller) if isinstance(controller, str) else controller


def name_of(controller: str | Tuned | Callable[..., Any]) -> str:
    """What a controller is called: its name, or that of the function"""
    own = as_tuned(controller)
    return own.name if isinstance(own, Tuned) else str(getattr(own, "__name__", type(own).__name__.lower()))


def own_rate(controller: str | Tuned | Callable[..., Any]) -> float | None:
    """How often a controller has to be called, where that is its own to say  [Hz]"""
    return RATE if name_of(controller) in FIRMWARE and isinstance(as_tuned(controller), Tuned) else None


def instants_ahead(controller: str | Tuned | Callable[..., Any]) -> int:
    """How many instants a controller looks ahead and plans for: none but for a predictive one"""
    own = as_tuned(controller)
    if isinstance(own, Tuned):
        return int(own.chosen.get("mpcHorizon", HORIZON)) + 1 if own.name == "ilqr" else 0
    return len(getattr(own, "look_ahead", ()))


def controller_named(
    name: str, vehicle: Vehicle, healthy: Sequence[bool] = (), *, period: float = DEFAULT_PERIOD, **options: Any
) -> Named:
    """The controller of that name for a vehicle, called every `period` [s]; `healthy` tells which rotors still turn

    `options` are numbers chosen by name, such as wPosition=60.0: see `samara.control.tuning.KNOBS`.
    """
    chosen = checked(name, options)
    working = tuple(healthy) or tuple(True for _ in vehicle.rotors)
    controller = (CONTROLLERS | LEARNT | FIRMWARE)[name](vehicle, healthy=working, period=period, **chosen)
    return Named(name, controller, controller.initial_memory)
