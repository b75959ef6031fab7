"""What iLQR minimises: J = Σ ½ w r², a sum of weighted squares of residuals, at every step and at the end.

The residuals are the only place the cost is written; gradients and (Gauss–Newton) curvatures are their derivatives. Names of
weights are document 001's.
"""

from typing import NamedTuple

from samara.algebra import ZERO, Vec3, norm
from samara.control.ilqr.model import Model, heading_axis, thrust_axis
from samara.ops import maximum
from samara.physics.multirotor import Command, State
from samara.quantity import Scalar


class Weights(NamedTuple):
    """Document 001's weights with its values; the last four are not in it, and off unless given."""

    wPosition: Scalar = 30.0
    wVelocity: Scalar = 8.0
    wTilt: Scalar = 4.0
    wYawRate: Scalar = 0.2
    wThrust: Scalar = 1e-3
    wTorque: Scalar = 5e-4
    wSmooth: Scalar = 5e-3
    wTerminalPosition: Scalar = 60.0
    wTerminalVelocity: Scalar = 15.0
    wTerminalTilt: Scalar = 4.0
    wYaw: Scalar = 0.0
    wRate: Scalar = 0.0
    wObstacle: Scalar = 0.0
    wTiltLimit: Scalar = 0.0


class Goal(NamedTuple):
    """Where to be at one step: position, velocity, and the directions of thrust and of the nose."""

    p_W: Vec3
    v_W: Vec3
    b3_W: Vec3
    b1_W: Vec3


class Sphere(NamedTuple):
    """What to keep out of: a centre and a radius, the vehicle's own included  [m]"""

    p_W: Vec3
    radius: Scalar


class Held(NamedTuple):
    """The numbers of a problem that do not change along the horizon."""

    weights: Weights
    hover_input: tuple[Scalar, ...]
    low: tuple[Scalar, ...]
    high: tuple[Scalar, ...]
    spheres: tuple[Sphere, ...]
    cos_tilt: Scalar  # of the largest tilt that costs nothing
    push_W: Vec3 = ZERO  # an acceleration from outside, as wind gives  [m/s²]


class Kind(NamedTuple):
    """What decides the machine code beside the model: which weights are on, and how many spheres there are."""

    weighs: tuple[bool, ...]
    spheres: int


def kind_of(held: Held) -> Kind:
    return Kind(tuple(weight != 0.0 for weight in held.weights), len(held.spheres))


def held_template(model: Model, kind: Kind) -> Held:
    """Held numbers of a kind; their values do not matter"""
    weights = Weights(*(1.0 if on else 0.0 for on in kind.weighs))
    return Held(weights, model.hover_input, *model.limits, (Sphere(ZERO, 1.0),) * kind.spheres, 0.0)


Residuals = list[tuple[Scalar, Scalar]]
"""(w, r): each costs ½ w r²"""

ANY_GOAL = Goal(ZERO, ZERO, Vec3(0.0, 0.0, 1.0), Vec3(1.0, 0.0, 0.0))


def total(residuals: Residuals) -> Scalar:
    """Σ ½ w r²"""
    cost: Scalar = 0.0
    for weight, residual in residuals:
        cost = cost + 0.5 * weight * residual * residual
    return cost


def step_residuals(state: State, goal: Goal, held: Held) -> Residuals:
    """p − p_ref, v − v_ref, b₃ − b₃ref, ω_z, and what leaves the tilt limit or enters a sphere"""
    w = held.weights
    return [
        *_tracking(state, goal, w.wPosition, w.wVelocity, w.wTilt, w.wYaw),
        (w.wYawRate, state.omega_B.z),
        (w.wRate, state.omega_B.x),
        (w.wRate, state.omega_B.y),
        *_kept_out(state, held),
    ]


def final_residuals(state: State, goal: Goal, held: Held) -> Residuals:
    """The same at the end of the horizon, with the terminal weights and without rates"""
    w = held.weights
    return [
        *_tracking(state, goal, w.wTerminalPosition, w.wTerminalVelocity, w.wTerminalTilt, w.wYaw),
        *_kept_out(state, held),
    ]


def input_residuals(command: Command, before: Command, held: Held, model: Model) -> Residuals:
    """The inputs' effort around hover, u − u_hover and τ, and their change u − u₋ from the step before

    With a wrench for inputs the effort is T − T_hover and τ.
    """
    w, tau_B = held.weights, model.wrench(command).tau_B
    thrusts = 1 if model.takes_wrench else model.inputs
    return [
        *((w.wThrust, u - level) for u, level in zip(command[:thrusts], held.hover_input, strict=False)),
        *((w.wTorque, torque) for torque in tau_B),
        *((w.wSmooth, u - earlier) for u, earlier in zip(command, before, strict=True)),
    ]


def _tracking(state: State, goal: Goal, position: Scalar, velocity: Scalar, tilt: Scalar, yaw: Scalar) -> Residuals:
    return [
        *((position, e) for e in state.p_W - goal.p_W),
        *((velocity, e) for e in state.v_W - goal.v_W),
        *((tilt, e) for e in thrust_axis(state) - goal.b3_W),
        *((yaw, e) for e in heading_axis(state) - goal.b1_W),
    ]


def _kept_out(state: State, held: Held) -> Residuals:
    upright = thrust_axis(state).z
    return [
        (held.weights.wTiltLimit, maximum(held.cos_tilt - upright, 0.0)),
        *(
            (held.weights.wObstacle, maximum(sphere.radius - norm(state.p_W - sphere.p_W), 0.0))
            for sphere in held.spheres
        ),
    ]
