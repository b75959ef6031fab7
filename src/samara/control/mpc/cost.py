"""The cost of a vehicle's plan, by default the iLQR document's residuals, and the problem of a prediction model with a cost."""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from samara.control.mpc.options import CostWeights
from samara.control.mpc.prediction_model import (
    ATTITUDE_AND_RATE,
    PredictionModel,
    difference,
    displace,
    heading_axis,
    level_state,
    thrust_axis,
)
from samara.control.mpc.problem import ColdStart, InputLimits, Problem, Residuals
from samara.core.algebra import ZERO, Vec3, norm
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


class KeepOutSphere(NamedTuple):
    """A sphere to avoid: centre, and radius enlarged by the vehicle's  [m]."""

    p_W: Vec3
    radius: Scalar


class CostParameters(NamedTuple):
    """Parameters of a vehicle's problem that are constant along the horizon."""

    weights: CostWeights
    hover_input: tuple[Scalar, ...]
    low: tuple[Scalar, ...]
    high: tuple[Scalar, ...]
    spheres: tuple[KeepOutSphere, ...]
    cos_tilt: Scalar  # cosine of the largest tilt that costs nothing
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
    """p − p_ref, v − v_ref, b₃ − b₃ref, ω_z, violations of the tilt limit and of the spheres, and the effort of the inputs"""
    w = parameters.weights
    return [
        *_tracking_errors(state, goal, w.position_weight, w.velocity_weight, w.tilt_weight, w.yaw_weight),
        (w.yaw_rate_weight, state.omega_B.z),
        (w.roll_pitch_rate_weight, state.omega_B.x),
        (w.roll_pitch_rate_weight, state.omega_B.y),
        *_constraint_residuals(state, parameters),
        *_effort_residuals(command, parameters, model),
    ]


def final_residuals(state: State, goal: MpcTarget, parameters: CostParameters) -> Residuals:
    """The residuals at the end of the horizon, with the terminal weights and without rates and inputs"""
    w = parameters.weights
    return [
        *_tracking_errors(
            state, goal, w.terminal_position_weight, w.terminal_velocity_weight, w.terminal_tilt_weight, w.yaw_weight
        ),
        *_constraint_residuals(state, parameters),
    ]


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


def _constraint_residuals(state: State, parameters: CostParameters) -> Residuals:
    w, cos_tilt = parameters.weights, thrust_axis(state).z
    return [
        (w.tilt_limit_weight, maximum(parameters.cos_tilt - cos_tilt, 0.0)),
        *(
            (w.obstacle_weight, maximum(sphere.radius - norm(state.p_W - sphere.p_W), 0.0))
            for sphere in parameters.spheres
        ),
    ]


def _effort_residuals(command: Command, parameters: CostParameters, model: PredictionModel) -> Residuals:
    """T − T_hover and τ; for rotor inputs, each thrust minus its hover thrust, and the torque of all rotors"""
    w, tau_B = parameters.weights, model.wrench(command).tau_B
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
    """Structure that, besides the model, determines the compiled code: the active weights, and the count of spheres."""

    is_active: tuple[bool, ...]
    sphere_count: int


def cost_structure(parameters: CostParameters) -> CostStructure:
    return CostStructure(tuple(weight != 0.0 for weight in parameters.weights), len(parameters.spheres))


@lru_cache(maxsize=64)
def vehicle_problem(model: PredictionModel, kind: CostStructure, cost: Cost = TRACKING_COST) -> Problem:
    """Build the problem of a model and a cost; residuals whose weight is inactive in `kind` are not traced."""

    def active_parameters(parameters: CostParameters) -> CostParameters:
        weights = (
            weight if is_active else 0.0 for weight, is_active in zip(parameters.weights, kind.is_active, strict=True)
        )
        return parameters._replace(weights=CostWeights(*weights))

    return Problem(
        state=model.template,
        command=model.hover_input,
        goal=DEFAULT_TARGET,
        parameters=CostParameters(
            CostWeights(), model.hover_input, *model.limits, (KeepOutSphere(ZERO, 1.0),) * kind.sphere_count, 0.0
        ),
        step=lambda state, command, parameters: model.step(state, command, parameters.push_W),
        residuals=lambda state, command, goal, parameters: cost.residuals(
            state, command, goal, active_parameters(parameters), model
        ),
        final=lambda state, goal, parameters: cost.final(state, goal, active_parameters(parameters)),
        limits=lambda parameters: InputLimits(parameters.low, parameters.high),
        smoothing=lambda parameters: active_parameters(parameters).weights.smoothing_weight,
        displace=displace,
        difference=difference,
        start=ColdStart(level_state, ATTITUDE_AND_RATE),
    )
