"""What a vehicle's plan costs: the iLQR document's residuals, and the problem that they, or others, make of a vehicle's model.

Names of weights are the iLQR document's.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from samara.control.mpc.prediction_model import (
    TILT_AND_TURN,
    Model,
    difference,
    heading_axis,
    levelled,
    moved,
    thrust_axis,
)
from samara.control.mpc.problem import Limits, Problem, Residuals, Start
from samara.core.algebra import ZERO, Vec3, norm
from samara.core.ops import maximum
from samara.core.quantity import Scalar
from samara.physics.types import Command, State


class Weights(NamedTuple):
    """The iLQR document's weights with its values; the last four are not in it, and off by default.

    The document asks for a higher weight of the tilt at the end and gives no number: `terminal_tilt_weight` is twice
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


class Goal(NamedTuple):
    """Where to be at one step: position, velocity, and the directions of thrust and of the nose."""

    p_W: Vec3
    v_W: Vec3
    b3_W: Vec3
    b1_W: Vec3


ANY_GOAL = Goal(ZERO, ZERO, Vec3(0.0, 0.0, 1.0), Vec3(1.0, 0.0, 0.0))


class Sphere(NamedTuple):
    """What to keep out of: a centre and a radius, the vehicle's own included  [m]"""

    p_W: Vec3
    radius: Scalar


class Parameters(NamedTuple):
    """The numbers of a vehicle's problem that do not change along the horizon."""

    weights: Weights
    hover_input: tuple[Scalar, ...]
    low: tuple[Scalar, ...]
    high: tuple[Scalar, ...]
    spheres: tuple[Sphere, ...]
    cos_tilt: Scalar  # of the largest tilt that costs nothing
    push_W: Vec3 = ZERO  # an acceleration from outside, as wind gives  [m/s²]


class Cost(NamedTuple):
    """The residuals (w, r) of a step and of the end of the horizon; each costs ½ w r².

    `residuals(state, command, goal, parameters, model)` and `final(state, goal, parameters)` are functions of scalars. What
    the change of the inputs costs, ½ smoothing_weight |u − u₋|², is the solver's own and not among them.
    """

    residuals: Callable[[State, Command, Goal, Parameters, Model], Residuals]
    final: Callable[[State, Goal, Parameters], Residuals]


def tracking_residuals(state: State, command: Command, goal: Goal, parameters: Parameters, model: Model) -> Residuals:
    """p − p_ref, v − v_ref, b₃ − b₃ref, ω_z, what leaves the tilt limit or enters a sphere, and the inputs' effort"""
    w = parameters.weights
    return [
        *_tracking(state, goal, w.position_weight, w.velocity_weight, w.tilt_weight, w.yaw_weight),
        (w.yaw_rate_weight, state.omega_B.z),
        (w.roll_pitch_rate_weight, state.omega_B.x),
        (w.roll_pitch_rate_weight, state.omega_B.y),
        *_kept_out(state, parameters),
        *_effort(command, parameters, model),
    ]


def final_residuals(state: State, goal: Goal, parameters: Parameters) -> Residuals:
    """The same at the end of the horizon, with the terminal weights and without rates and inputs"""
    w = parameters.weights
    return [
        *_tracking(
            state, goal, w.terminal_position_weight, w.terminal_velocity_weight, w.terminal_tilt_weight, w.yaw_weight
        ),
        *_kept_out(state, parameters),
    ]


TRACKING = Cost(tracking_residuals, final_residuals)
"""The iLQR document's."""


def _tracking(state: State, goal: Goal, position: Scalar, velocity: Scalar, tilt: Scalar, yaw: Scalar) -> Residuals:
    return [
        *((position, e) for e in state.p_W - goal.p_W),
        *((velocity, e) for e in state.v_W - goal.v_W),
        *((tilt, e) for e in thrust_axis(state) - goal.b3_W),
        *((yaw, e) for e in heading_axis(state) - goal.b1_W),
    ]


def _kept_out(state: State, parameters: Parameters) -> Residuals:
    w, upright = parameters.weights, thrust_axis(state).z
    return [
        (w.tilt_limit_weight, maximum(parameters.cos_tilt - upright, 0.0)),
        *((w.obstacle_weight, maximum(own.radius - norm(state.p_W - own.p_W), 0.0)) for own in parameters.spheres),
    ]


def _effort(command: Command, parameters: Parameters, model: Model) -> Residuals:
    """T − T_hover and τ; of rotors, each thrust less its own at hover, and the torque they make"""
    w, tau_B = parameters.weights, model.wrench(command).tau_B
    thrusts = 1 if model.takes_wrench else model.inputs
    return [
        *((w.thrust_weight, u - level) for u, level in zip(command[:thrusts], parameters.hover_input, strict=False)),
        *((w.torque_weight, torque) for torque in tau_B),
    ]


# The problem -------------------------------------------------------------------------------------------------------


class Kind(NamedTuple):
    """What decides the machine code beside the model: which weights are on, and how many spheres there are."""

    weighs: tuple[bool, ...]
    spheres: int


def kind_of(parameters: Parameters) -> Kind:
    return Kind(tuple(weight != 0.0 for weight in parameters.weights), len(parameters.spheres))


@lru_cache(maxsize=64)
def vehicle_problem(model: Model, kind: Kind, cost: Cost = TRACKING) -> Problem:
    """The problem of a model and a cost, for parameters of a kind: what a weight that is off weighs drops out of the trace"""

    def weighed(own: Parameters) -> Parameters:
        weights = (weight if on else 0.0 for weight, on in zip(own.weights, kind.weighs, strict=True))
        return own._replace(weights=Weights(*weights))

    return Problem(
        state=model.template,
        command=model.hover_input,
        goal=ANY_GOAL,
        parameters=Parameters(Weights(), model.hover_input, *model.limits, (Sphere(ZERO, 1.0),) * kind.spheres, 0.0),
        step=lambda state, command, own: model.step(state, command, own.push_W),
        residuals=lambda state, command, goal, own: cost.residuals(state, command, goal, weighed(own), model),
        final=lambda state, goal, own: cost.final(state, goal, weighed(own)),
        limits=lambda own: Limits(own.low, own.high),
        smoothing=lambda own: weighed(own).weights.smoothing_weight,
        moved=moved,
        difference=difference,
        start=Start(levelled, TILT_AND_TURN),
    )
