"""The options of iLQR: records with the iLQR document's values, their checks, and the controller type that scenarios name."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from samara.control.controller_type import (
    ANGLE,
    FRACTION,
    NOT_NEGATIVE,
    POSITIVE,
    WHOLE,
    Controller,
    ControllerType,
    choice,
    suggestion,
)
from samara.control.mpc.problem import Limits
from samara.core.coerce import is_number
from samara.core.integrate import RUNGE_KUTTA
from samara.core.quantity import Scalar
from samara.physics.types import Vehicle

if TYPE_CHECKING:
    from samara.control.mpc.cost import Cost

LINE_SEARCH = (1.0, 0.7, 0.5, 0.3, 0.1, 0.05)
MAX_STEP_SIZES = 8
MAX_COUNT = 10_000  # steps or iterations: more do not fit into memory or a day
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

    def __post_init__(self) -> None:
        for name in ("horizon", "max_iterations", "control_iterations"):
            require_count(name, getattr(self, name))
        for name in ("dt", "period"):
            value = getattr(self, name)
            if not is_number(value) or not value > 0.0:
                raise ValueError(f"{name} = {value!r:.60}: expected a positive number of seconds")
        for name in ("tolerance", "disturbance_time_constant"):
            value = getattr(self, name)
            if not is_number(value) or not value >= 0.0:
                raise ValueError(f"{name} = {value!r:.60}: expected a number that is not negative")
        if self.max_tilt is not None and not is_number(self.max_tilt):
            raise ValueError(f"max_tilt = {self.max_tilt!r:.60}: expected a finite number of radians")
        if not 1 <= len(self.line_search) <= MAX_STEP_SIZES or not all(
            0.0 < alpha <= 1.0 for alpha in self.line_search
        ):
            raise ValueError(f"line_search = {self.line_search}: expected one to {MAX_STEP_SIZES} step sizes in (0, 1]")
        if self.cost is not None and not (isinstance(self.cost, tuple) and all(map(callable, self.cost))):
            raise ValueError(f"cost = {self.cost!r:.60}: expected a samara.control.mpc.Cost of two functions")


def require_count(name: str, value: object) -> None:
    """ValueError unless `value` is a whole number from 1 to `MAX_COUNT`."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_COUNT:
        too_many = isinstance(value, int) and value > MAX_COUNT
        expected = f"at most {MAX_COUNT}" if too_many else "at least 1"
        raise ValueError(f"{name} = {value!r:.60}: expected a whole number, {expected}")


def split_options(options: Mapping[str, Scalar], torque_weight: float) -> tuple[MpcOptions, Weights, Shaping]:
    """Sort options by name into the three records, and check them; `torque_weight` is the vehicle's default."""
    names = [field.name for field in dataclasses.fields(MpcOptions)]
    numbers = (*Weights._fields, *Shaping._fields)
    for name, value in options.items():
        if name not in names and name not in numbers:
            raise TypeError(f"ILQR has no option {name!r}; {suggestion(name, (*names, *numbers))}")
        if name in numbers and not 0.0 <= value < math.inf:
            raise ValueError(f"{name} = {value}: expected a finite number that is not negative")
    mpc = MpcOptions(**{name: value for name, value in options.items() if name in names})
    defaults = Weights(
        torque_weight=torque_weight,
        obstacle_weight=PENALTY if mpc.obstacles else 0.0,
        tilt_limit_weight=0.0 if mpc.max_tilt is None else PENALTY,
    )
    weights = defaults._replace(**{name: float(options[name]) for name in Weights._fields if name in options})
    shaping = Shaping()._replace(**{name: float(options[name]) for name in Shaping._fields if name in options})
    for name in ("max_reference_velocity", "max_reference_acceleration"):
        if getattr(shaping, name) == 0.0:
            raise ValueError(f"{name} = 0: expected a positive number")
    if shaping.reference_follow > 1.0:
        raise ValueError(f"reference_follow = {shaping.reference_follow}: expected a number from 0 to 1")
    return mpc, weights, shaping


def _build(vehicle: Vehicle, *, healthy: Sequence[bool], period: float, **options: Scalar) -> Controller:
    from samara.control.mpc.controller import ILQR  # which imports the compiler

    return ILQR(vehicle, healthy=healthy, period=period, **{"yaw_weight": YAW_WEIGHT, **options})


TYPE = ControllerType(
    "ilqr",
    _build,
    {
        **dict.fromkeys((*Weights._fields, *Shaping._fields), NOT_NEGATIVE),
        "max_reference_velocity": POSITIVE,
        "max_reference_acceleration": POSITIVE,
        "reference_follow": FRACTION,
        "horizon": WHOLE,
        "dt": POSITIVE,
        "control_iterations": WHOLE,
        "integrator": choice(*RUNGE_KUTTA),
        "inputs": choice(*INPUTS),
        "max_tilt": ANGLE,
        "disturbance_time_constant": NOT_NEGATIVE,
    },
    instants_ahead=lambda options: int(options.get("horizon", MpcOptions.horizon)) + 1,
)
