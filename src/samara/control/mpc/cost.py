"""The cost of a vehicle's plan, by default the iLQR document's residuals, and the problem of a prediction model with a cost."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from samara.control.mpc.constraints import Constraint, count_constraints
from samara.control.mpc.options import CostWeights
from samara.control.mpc.prediction_model import (
    PredictionModel,
    difference,
    displace,
    heading_axis,
    level_quat,
    thrust_axis,
    turns_over,
)
from samara.control.mpc.problem import InputLimits, Problem, Residuals, Tree
from samara.core.algebra import ZERO, Vec3
from samara.core.ops import maximum
from samara.core.quantity import Scalar
from samara.physics.types import Command, State


class MpcTarget(NamedTuple):
    """Target at one step of the horizon: position, velocity, and the directions of thrust and of the nose."""

    p_W: Vec3
    v_W: Vec3
    b3_W: Vec3
    b1_W: Vec3


DEFAULT_TARGET = MpcTarget(ZERO, ZERO, Vec3(0.0, 0.0, 1.0), Vec3(1.0, 0.0, 0.0))


class CostParameters(NamedTuple):
    """Parameters of a vehicle's problem that are constant along the horizon."""

    weights: CostWeights
    hover_input: tuple[Scalar, ...]
    low: tuple[Scalar, ...]
    high: tuple[Scalar, ...]
    max_change: tuple[Scalar, ...]  # largest change of each input in a step; () without a limit
    constraint_values: tuple[Tree, ...]
    soft_weights: tuple[Scalar, ...]
    torque_B: Vec3 = ZERO  # external torque, if the motors are part of the prediction  [N·m]
    time: Scalar = 0.0  # of the controller, at the start of the horizon  [s]
    push_W: Vec3 = ZERO  # external acceleration, such as that of wind  [m/s²]


class Cost(NamedTuple):
    """The residuals (w, r) of a step and of the end of the horizon; each costs ½ w r².

    `residuals(state, command, goal, parameters, model)` and `final(state, goal, parameters)` are functions of
    scalars. The solver adds the cost of the change of the inputs, ½ smoothing_weight |u − u₋|².
    """

    residuals: Callable[[State, Command, MpcTarget, CostParameters, PredictionModel], Residuals]
    final: Callable[[State, MpcTarget, CostParameters], Residuals]


def tracking_residuals(
    state: State, command: Command, goal: MpcTarget, parameters: CostParameters, model: PredictionModel
) -> Residuals:
    """p − p_ref, v − v_ref, b₃ − b₃ref, b₁ − b₁ref, ω, and the effort of the inputs"""
    w = parameters.weights
    return [
        *_tracking_errors(state, goal, w.position_weight, w.velocity_weight, w.tilt_weight, w.yaw_weight),
        (w.yaw_rate_weight, state.omega_B.z),
        (w.roll_pitch_rate_weight, state.omega_B.x),
        (w.roll_pitch_rate_weight, state.omega_B.y),
        *_effort_residuals(command, parameters, model),
    ]


def final_residuals(state: State, goal: MpcTarget, parameters: CostParameters) -> Residuals:
    """The residuals at the end of the horizon, with the terminal weights and without rates and inputs"""
    w = parameters.weights
    return _tracking_errors(
        state, goal, w.terminal_position_weight, w.terminal_velocity_weight, w.terminal_tilt_weight, w.yaw_weight
    )


TRACKING_COST = Cost(tracking_residuals, final_residuals)
"""The iLQR document's cost."""


def _tracking_errors(
    state: State, goal: MpcTarget, position: Scalar, velocity: Scalar, tilt: Scalar, yaw: Scalar
) -> Residuals:
    return [
        *((position, e) for e in state.p_W - goal.p_W),
        *((velocity, e) for e in state.v_W - goal.v_W),
        *((tilt, e) for e in thrust_axis(state) - goal.b3_W),
        *((yaw, e) for e in heading_axis(state) - goal.b1_W),
    ]


def _effort_residuals(command: Command, parameters: CostParameters, model: PredictionModel) -> Residuals:
    """T − T_hover and τ; for rotor inputs, each thrust minus its hover thrust, and the torque of all rotors

    Commands count as the thrusts that they change, to first order.
    """
    w, tau_B = parameters.weights, model.wrench(command).tau_B
    if model.takes_commands:
        deviations = zip(command, parameters.hover_input, model.thrust_slopes, strict=True)
        return [
            *((w.thrust_weight, slope * (u - hover)) for u, hover, slope in deviations),
            *((w.torque_weight, torque) for torque in tau_B),
        ]
    thrust_count = 1 if model.takes_wrench else model.input_count
    return [
        *(
            (w.thrust_weight, u - hover)
            for u, hover in zip(command[:thrust_count], parameters.hover_input, strict=False)
        ),
        *((w.torque_weight, torque) for torque in tau_B),
    ]


# The problem -------------------------------------------------------------------------------------------------------


class CostStructure(NamedTuple):
    """Structure that, besides the model, determines the compiled code: the active weights, the constraints with the number of g
    of each, and whether the change of the inputs has a limit."""

    is_active: tuple[bool, ...]
    constraints: tuple[Constraint, ...] = ()
    counts: tuple[int, ...] = ()
    limits_change: bool = False


def cost_structure(
    parameters: CostParameters, constraints: Sequence[Constraint] = (), model: PredictionModel | None = None
) -> CostStructure:
    """Return the structure of the parameters of a problem and of its constraints, if there is a model to evaluate them."""
    is_active = tuple(weight != 0.0 for weight in parameters.weights)
    if model is None:
        return CostStructure(is_active)
    counts = tuple(count_constraints(c, model.template, model.hover_input) for c in constraints)
    return CostStructure(is_active, tuple(c.structure for c in constraints), counts, bool(parameters.max_change))


@lru_cache(maxsize=64)
def vehicle_problem(model: PredictionModel, structure: CostStructure, cost: Cost = TRACKING_COST) -> Problem:
    """Build the problem of a model and a cost; residuals whose weight is inactive in `structure` are not traced."""
    indices = range(len(structure.constraints))
    hard = [i for i in indices if structure.constraints[i].weight is None]
    soft = [i for i in indices if structure.constraints[i].weight is not None]
    template = CostParameters(
        CostWeights(),
        model.hover_input,
        *model.limits,
        max_change=tuple(b - a for a, b in zip(*model.limits, strict=True)) if structure.limits_change else (),
        constraint_values=tuple(constraint.values for constraint in structure.constraints),
        soft_weights=(1.0,) * len(soft),
    )

    change_scale = (
        sum(slope**2 for slope in model.thrust_slopes) / len(model.thrust_slopes) if model.takes_commands else 1.0
    )

    def active_parameters(parameters: CostParameters) -> CostParameters:
        weights = (
            weight if is_active else 0.0
            for weight, is_active in zip(parameters.weights, structure.is_active, strict=True)
        )
        return parameters._replace(weights=CostWeights(*weights))

    def evaluate(i: int, state: State, command: Command, elapsed: Scalar, parameters: CostParameters) -> list[Scalar]:
        values = parameters.constraint_values[i]
        return structure.constraints[i].evaluate(state, command, parameters.time + elapsed, values)

    def soft_residuals(state: State, command: Command, elapsed: Scalar, parameters: CostParameters) -> Residuals:
        return [
            (weight, maximum(g, 0.0))
            for i, weight in zip(soft, parameters.soft_weights, strict=True)
            for g in evaluate(i, state, command, elapsed, parameters)
        ]

    return Problem(
        state=model.template,
        command=model.hover_input,
        goal=DEFAULT_TARGET,
        parameters=template,
        step=lambda state, command, parameters: model.step(state, command, parameters.push_W, parameters.torque_B),
        residuals=lambda state, command, goal, parameters: cost.residuals(
            state, command, goal, active_parameters(parameters), model
        ),
        final=lambda state, goal, parameters: cost.final(state, goal, active_parameters(parameters)),
        limits=lambda parameters: InputLimits(parameters.low, parameters.high),
        smoothing=lambda parameters: active_parameters(parameters).weights.smoothing_weight * change_scale,
        displace=displace,
        difference=difference,
        guess=lambda start, goal: level_guess(start, goal, model),
        constraint_names=tuple(structure.constraints[i].name for i in hard for _ in range(structure.counts[i])),
        constraints=lambda state, command, elapsed, parameters: [
            g for i in hard for g in evaluate(i, state, command, elapsed, parameters)
        ],
        on_inputs=tuple(structure.constraints[i].on_inputs for i in hard for _ in range(structure.counts[i])),
        soft_residuals=soft_residuals if soft else None,
        max_change=(lambda parameters: parameters.max_change) if structure.limits_change else None,
        turns_over=turns_over if cost is TRACKING_COST else None,
    )


def level_guess(start: State, goal: MpcTarget, model: PredictionModel) -> State:
    """The goal's position and velocity, level, with the heading of the start, without rotation and with the rotors of hover."""
    return model.template._replace(p_W=goal.p_W, v_W=goal.v_W, q_WB=level_quat(start.q_WB))
