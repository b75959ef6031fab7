"""The options of iLQR: records with the iLQR document's values, their checks, and the controller type that scenarios name."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from samara.control.controller_type import (
    ANGLE,
    COUNT,
    FRACTION,
    NOT_NEGATIVE,
    POSITIVE,
    Controller,
    ControllerType,
    choice,
    suggestion,
)
from samara.control.mpc.problem import Limits
from samara.core.integrate import RUNGE_KUTTA
from samara.core.quantity import Scalar
from samara.physics.types import Vehicle

if TYPE_CHECKING:
    from samara.control.mpc.cost import Cost

LINE_SEARCH = (1.0, 0.7, 0.5, 0.3, 0.1, 0.05)
MAX_STEP_SIZES = 8
PENALTY = 1e5  # weight of obstacles and of the tilt limit, if there are any
YAW_WEIGHT = (
    4.0  # of the named controller, as the iLQR document's tilt: the document has none, and references have a yaw
)
INPUTS = ("wrench", "rotors")


class Weights(NamedTuple):
    """Weights with the iLQR document's values; the last four are not in it, and off by default.

    The document asks for a higher weight of the tilt at the end without a number: `terminal_tilt_weight` is twice
    `tilt_weight`, as `terminal_position_weight` is twice `position_weight`.
    """

    position_weight: Scalar = 30.0
    velocity_weight: Scalar = 8.0
    tilt_weight: Scalar = 4.0
    yaw_rate_weight: Scalar = 0.2
    thrust_weight: Scalar = 1e-3
    torque_weight: Scalar = 5e-4
    smoothing_weight: Scalar = 5e-3
    terminal_position_weight: Scalar = 60.0
    terminal_velocity_weight: Scalar = 15.0
    terminal_tilt_weight: Scalar = 8.0
    yaw_weight: Scalar = 0.0
    roll_pitch_rate_weight: Scalar = 0.0
    obstacle_weight: Scalar = 0.0
    tilt_limit_weight: Scalar = 0.0


class Shaping(NamedTuple):
    """The iLQR document's values: gains [1/s], largest speed [m/s] and acceleration [m/s²] of the reference.

    `reference_follow` is not in it: how much v_des is renewed along the path, from 0 to 1.
    """

    reference_velocity_gain: Scalar = 1.4
    max_reference_velocity: Scalar = 4.0
    reference_acceleration_gain: Scalar = 2.0
    max_reference_acceleration: Scalar = 8.0
    reference_follow: Scalar = 0.0


@dataclasses.dataclass(frozen=True)
class MpcOptions:
    """The options of an `ILQR` except for weights and shaping.

    `horizon` steps of `dt` [s]; `inputs` "wrench" (T, τ) or "rotors" (a thrust for each); `limits` of the inputs, the motors'
    by default; `obstacles` as (centre, radius), the vehicle's own size included; `max_tilt` [rad]; `integrator` "rk4" or
    "euler". As a controller it is called every `period` [s] and makes `control_iterations` iterations each time; `healthy`
    tells which rotors still work, and `disturbance_time_constant` [s] is that of the disturbance observer, 0 for none. `cost`
    is the iLQR document's by default.
    """

    horizon: int = 20
    dt: float = 0.05
    max_iterations: int = 12
    tolerance: float = 1e-4
    line_search: Sequence[float] = LINE_SEARCH
    integrator: str = "rk4"
    inputs: str = "wrench"
    limits: Limits | None = None
    obstacles: Sequence[tuple[Sequence[float], float]] = ()
    max_tilt: float | None = None
    period: float = 0.01
    control_iterations: int = 1
    healthy: Sequence[bool] | None = None
    disturbance_time_constant: float = 0.3
    cost: "Cost | None" = None


_NUMBERS = {
    **dict.fromkeys((*Weights._fields, *Shaping._fields), NOT_NEGATIVE),
    "max_reference_velocity": POSITIVE,
    "max_reference_acceleration": POSITIVE,
    "reference_follow": FRACTION,
}
_CHOSEN = {
    **_NUMBERS,
    "horizon": COUNT,
    "dt": POSITIVE,
    "control_iterations": COUNT,
    "integrator": choice(*RUNGE_KUTTA),
    "inputs": choice(*INPUTS),
    "max_tilt": ANGLE,
    "disturbance_time_constant": NOT_NEGATIVE,
}
_KNOBS = {**_CHOSEN, "max_iterations": COUNT, "period": POSITIVE, "tolerance": NOT_NEGATIVE}


def split_options(options: Mapping[str, Scalar], torque_weight: float) -> tuple[MpcOptions, Weights, Shaping]:
    """Sort options by name into the three records, and check them; `torque_weight` is the vehicle's default."""
    names = [field.name for field in dataclasses.fields(MpcOptions)]
    for name, value in options.items():
        if name not in names and name not in _NUMBERS:
            raise TypeError(f"ILQR has no option {name!r}; {suggestion(name, (*names, *_NUMBERS))}")
        if name in _KNOBS and value is not None and _KNOBS[name].read(value) is None:
            raise ValueError(f"{name} = {value!r:.60}: expected {_KNOBS[name].expected}")
    mpc = MpcOptions(**{name: value for name, value in options.items() if name in names})
    if not 1 <= len(mpc.line_search) <= MAX_STEP_SIZES or not all(0.0 < alpha <= 1.0 for alpha in mpc.line_search):
        raise ValueError(f"line_search = {mpc.line_search}: expected one to {MAX_STEP_SIZES} step sizes in (0, 1]")
    if mpc.cost is not None and not (isinstance(mpc.cost, tuple) and all(map(callable, mpc.cost))):
        raise ValueError(f"cost = {mpc.cost!r:.60}: expected a samara.control.mpc.Cost of two functions")
    defaults = Weights(
        torque_weight=torque_weight,
        obstacle_weight=PENALTY if mpc.obstacles else 0.0,
        tilt_limit_weight=0.0 if mpc.max_tilt is None else PENALTY,
    )
    weights = defaults._replace(**{name: float(options[name]) for name in Weights._fields if name in options})
    shaping = Shaping()._replace(**{name: float(options[name]) for name in Shaping._fields if name in options})
    return mpc, weights, shaping


def _build(vehicle: Vehicle, *, healthy: Sequence[bool], period: float, **options: Scalar) -> Controller:
    from samara.control.mpc import ILQR  # which imports the compiler

    return ILQR(vehicle, healthy=healthy, period=period, **{"yaw_weight": YAW_WEIGHT, **options})


TYPES = (
    ControllerType(
        "ilqr",
        _build,
        _CHOSEN,
        instants_ahead=lambda options: int(options.get("horizon", MpcOptions.horizon)) + 1,
    ),
)
