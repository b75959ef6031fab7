"""Options of the controller: records with the iLQR document's values, their checks, and the controller type for scenarios."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from samara.control.controller_type import (
    ANGLE,
    COUNT,
    FLAG,
    FRACTION,
    NOT_NEGATIVE,
    POSITIVE,
    Controller,
    ControllerType,
    OptionParser,
    OptionTable,
    choice_parser,
    is_finite_number,
    suggest_names,
)
from samara.control.mpc.constraint_tables import CONSTRAINTS, NamedSolid, build_constraints, solid_constraints
from samara.control.mpc.constraints import Constraint, keep_out_sphere, max_tilt
from samara.control.mpc.problem import InputLimits
from samara.core.integrate import RUNGE_KUTTA_INTEGRATORS
from samara.core.quantity import Scalar
from samara.physics.types import Vehicle

if TYPE_CHECKING:
    from samara.control.mpc.cost import Cost

LINE_SEARCH_STEPS = (1.0, 0.7, 0.5, 0.3, 0.1, 0.05)
MAX_STEP_SIZES = 8
DEFAULT_YAW_WEIGHT = (
    4.0  # in scenarios; equals the tilt weight: the iLQR document has no yaw weight, but references have a yaw
)
INPUTS = ("wrench", "rotors", "commands")
DEFAULT_CLEARANCE = 0.1  # [m]


class CostWeights(NamedTuple):
    """Weights with the iLQR document's values; the last two are not in it, and off by default.

    The document requires a higher weight of the tilt at the end but gives no value: `terminal_tilt_weight` is twice
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


class Shaping(NamedTuple):
    """The iLQR document's values: gains [1/s], maximum speed [m/s] and acceleration [m/s²] of the reference.

    `reference_follow` is not in it: the fraction, from 0 to 1, by which v_des is updated along the path.
    """

    reference_velocity_gain: Scalar = 1.4
    max_reference_velocity: Scalar = 4.0
    reference_acceleration_gain: Scalar = 2.0
    max_reference_acceleration: Scalar = 8.0
    reference_follow: Scalar = 0.0


@dataclasses.dataclass(frozen=True)
class MpcOptions:
    """The options of an `MPC` except for weights and shaping.

    Args:
        horizon: steps of the prediction.
        dt: duration of a step [s].
        max_iterations: maximum iterations of `solve`.
        tolerance: relative decrease of the cost at which `solve` has converged.
        line_search: step sizes of the line search, in (0, 1].
        integrator: "rk4" or "euler".
        inputs: "wrench" (T, τ), "rotors" (one thrust per rotor) or "commands" (those of the vehicle, with its motors in the
            prediction).
        limits: limits of the inputs; None for those of the motors.
        constraints: limits of the motion and obstacles, from `samara.control`.
        obstacles: spheres to keep out of, (centre, radius) [m], radius including the vehicle's.
        max_tilt: limit of the tilt [rad]; None for no limit.
        max_input_rate: limit of |u̇|, one for all inputs or one for each [N/s, N·m/s]; None for no limit.
        delay: time from the measured state to the first effect of a command [s], in which the previous input acts.
        period: time between calls as a controller [s].
        control_iterations: iterations per call as a controller.
        healthy: for each rotor, whether it works; None for all.
        disturbance_time_constant: time constant of the disturbance observer [s]; 0 for none.
        cost: cost of the problem; None for the iLQR document's.
    """

    horizon: int = 20
    dt: float = 0.05
    max_iterations: int = 12
    tolerance: float = 1e-4
    line_search: Sequence[float] = LINE_SEARCH_STEPS
    integrator: str = "rk4"
    inputs: str = "wrench"
    limits: InputLimits | None = None
    constraints: Sequence[Constraint] = ()
    obstacles: Sequence[tuple[Sequence[float], float]] = ()
    max_tilt: float | None = None
    max_input_rate: Sequence[float] | float | None = None
    delay: float = 0.0
    period: float = 0.01
    control_iterations: int = 1
    healthy: Sequence[bool] | None = None
    disturbance_time_constant: float = 0.3
    cost: "Cost | None" = None


_WEIGHT_PARSERS = {
    **dict.fromkeys((*CostWeights._fields, *Shaping._fields), NOT_NEGATIVE),
    "max_reference_velocity": POSITIVE,
    "max_reference_acceleration": POSITIVE,
    "reference_follow": FRACTION,
}


def _parse_input_rate(value: object) -> float | tuple[float, ...] | None:
    if isinstance(value, (list, tuple)):
        is_valid = len(value) > 0 and all(is_finite_number(x) and x > 0.0 for x in value)
        return tuple(float(x) for x in value) if is_valid else None
    return float(value) if is_finite_number(value) and value > 0.0 else None


INPUT_RATE = OptionParser("a positive number, or one for each input", _parse_input_rate)
_SCENARIO_PARSERS = {
    **_WEIGHT_PARSERS,
    "horizon": COUNT,
    "dt": POSITIVE,
    "control_iterations": COUNT,
    "integrator": choice_parser(*RUNGE_KUTTA_INTEGRATORS),
    "inputs": choice_parser(*INPUTS),
    "max_tilt": ANGLE,
    "max_input_rate": INPUT_RATE,
    "delay": NOT_NEGATIVE,
    "disturbance_time_constant": NOT_NEGATIVE,
    "constraints": CONSTRAINTS,
    "avoid_obstacles": FLAG,
    "clearance": NOT_NEGATIVE,
}
_PARSERS = {
    **{name: parser for name, parser in _SCENARIO_PARSERS.items() if parser not in (INPUT_RATE, CONSTRAINTS)},
    "max_iterations": COUNT,
    "period": POSITIVE,
    "tolerance": NOT_NEGATIVE,
}


def split_options(options: Mapping[str, Scalar], torque_weight: float) -> tuple[MpcOptions, CostWeights, Shaping]:
    """Sort options by name into the three records and check them.

    Args:
        options: options by the names of `MpcOptions`, `CostWeights` and `Shaping`.
        torque_weight: the vehicle's default.
    """
    names = [field.name for field in dataclasses.fields(MpcOptions)]
    for name, value in options.items():
        if name not in names and name not in _WEIGHT_PARSERS:
            raise TypeError(f"MPC has no option {name!r}; {suggest_names(name, (*names, *_WEIGHT_PARSERS))}")
        if name in _PARSERS and value is not None and _PARSERS[name].parse(value) is None:
            raise ValueError(f"{name} = {value!r:.60}: expected {_PARSERS[name].expected}")
    mpc = MpcOptions(**{name: value for name, value in options.items() if name in names})
    if not 1 <= len(mpc.line_search) <= MAX_STEP_SIZES or not all(0.0 < alpha <= 1.0 for alpha in mpc.line_search):
        raise ValueError(f"line_search = {mpc.line_search}: expected one to {MAX_STEP_SIZES} step sizes in (0, 1]")
    if mpc.cost is not None and not (isinstance(mpc.cost, tuple) and all(map(callable, mpc.cost))):
        raise ValueError(f"cost = {mpc.cost!r:.60}: expected a samara.control.mpc.Cost of two functions")
    weights = CostWeights(torque_weight=torque_weight)._replace(
        **{name: float(options[name]) for name in CostWeights._fields if name in options}
    )
    shaping = Shaping()._replace(**{name: float(options[name]) for name in Shaping._fields if name in options})
    return mpc, weights, shaping


def all_constraints(options: MpcOptions) -> tuple[Constraint, ...]:
    """Return the constraints of the options, those of `max_tilt` and `obstacles` among them."""
    for constraint in options.constraints:
        if not isinstance(constraint, Constraint):
            raise ValueError(f"constraints has {constraint!r:.60}; expected a samara.control.mpc.Constraint")
    spheres = []
    for i, obstacle in enumerate(options.obstacles):
        try:
            centre, radius = obstacle
            spheres.append(keep_out_sphere(centre, radius)._replace(name=f"obstacles[{i}]"))
        except (TypeError, ValueError):
            expected = "a finite centre and a positive radius"
            raise ValueError(f"obstacles[{i}] = {obstacle!r:.60}: expected {expected}") from None
    tilt = () if options.max_tilt is None else (max_tilt(options.max_tilt),)
    return (*options.constraints, *spheres, *tilt)


def max_input_change(options: MpcOptions, input_count: int) -> tuple[float, ...]:
    """Return the largest change of each input in a step, () without a limit."""
    rate = options.max_input_rate
    if rate is None:
        return ()
    rates = [float(rate)] * input_count if isinstance(rate, (int, float)) else [float(x) for x in rate]
    if len(rates) != input_count or not all(x > 0.0 for x in rates):
        raise ValueError(f"max_input_rate = {rate!r:.60}: expected a positive number or {input_count} of them")
    return tuple(x * options.dt for x in rates)


def _build(
    vehicle: Vehicle,
    *,
    healthy: Sequence[bool],
    period: float,
    constraints: Sequence[OptionTable] = (),
    avoid_obstacles: bool = False,
    clearance: float = DEFAULT_CLEARANCE,
    solids: Sequence[NamedSolid] = (),
    **options: Scalar,
) -> Controller:
    """Build the controller of a scenario, with constraints around the solids of its world if `avoid_obstacles` is set."""
    from samara.control.mpc import MPC  # imported here, because it imports the compiler

    obstacles = solid_constraints(solids, vehicle, clearance) if avoid_obstacles else ()
    return MPC(
        vehicle,
        healthy=healthy,
        period=period,
        constraints=(*build_constraints(constraints), *obstacles),
        **{"yaw_weight": DEFAULT_YAW_WEIGHT, **options},
    )


TYPES = (
    ControllerType(
        "mpc",
        "Model-predictive control within constraints; previews the trajectory",
        _build,
        _SCENARIO_PARSERS,
        look_ahead_count=lambda options: int(options.get("horizon", MpcOptions.horizon)) + 1,
        avoids_solids=True,
    ),
)
