"""Recover: thrown in any attitude, at up to 5 m/s along and 15 rad/s about each axis, come to rest at the origin."""

import math

from samara.core.algebra import ZERO, dot
from samara.core.ops import minimum, sqrt
from samara.core.quantity import Scalar
from samara.learn.task import Draw, Situation, Tree, TrimmedDrone, add_action_cost, observe
from samara.learn.tasks import hover
from samara.physics.quantities import position_error, smooth_position_error, squared_sine_of_half_tilt
from samara.physics.types import State

SECONDS = 4.0
OBSERVATION = "full_state"
MAX_DISTANCE_M = (
    100.0  # [m]: beyond it the drone is lost; one of little thrust falls more than 30 m as it stops tumbling
)


MAX_SPEED, MAX_RATE = 5.0, 15.0  # [m/s, rad/s] along and about each axis, at the start


def reset(draw: Draw, drone: TrimmedDrone) -> tuple[State, Tree]:
    """Start within 0.5 m along each axis, in any attitude."""
    start = drone.trim._replace(
        p_W=draw.vector(0.5), v_W=draw.vector(MAX_SPEED), q_WB=draw.attitude(), omega_B=draw.vector(MAX_RATE)
    )
    return start, ()


def practice(draw: Draw, drone: TrimmedDrone) -> tuple[State, Tree]:
    """Train from easier starts, too: half of them have a fraction of the speeds, rates and tilt, uniform from 0 to 1."""
    fraction = minimum(1.0, 2.0 * draw.uniform())
    start = drone.trim._replace(
        p_W=draw.vector(0.5),
        q_WB=draw.rotation(math.pi * fraction),
        v_W=draw.vector(MAX_SPEED * fraction),
        omega_B=draw.vector(MAX_RATE * fraction),
    )
    return start, ()


def observation(situation: Situation, drone: TrimmedDrone) -> tuple[Scalar, ...]:
    """Position, velocity, attitude, rates and rotor speeds."""
    return observe("full_state", situation, drone)


def reward(situation: Situation, drone: TrimmedDrone) -> Scalar:
    """2 minus a cost as in `hover`, with softened squares: their slope at 15 rad/s is nearly that at 5 rad/s.

    √(p² + 1 cm²) + 0.1 ⟨v²⟩₁ + 0.003 ⟨ω²⟩₂₅ + 0.1 (q_x² + q_y²) + 0.1 q_z² + 0.01 a²,   ⟨x²⟩ₛ = s (√(1 + 2 x²/s) − 1)
    """
    p_W, v_W, q_WB, omega_B = situation.state[:4]
    cost = (
        smooth_position_error(p_W, ZERO, 0.01)
        + 0.1 * pseudo_huber(dot(v_W, v_W), 1.0)
        + 0.003 * pseudo_huber(dot(omega_B, omega_B), 25.0)
    )
    cost = cost + 0.1 * (squared_sine_of_half_tilt(q_WB) + q_WB.z * q_WB.z)
    return 2.0 - add_action_cost(cost, situation.action, 0.01)


def pseudo_huber(square: Scalar, scale: Scalar) -> Scalar:
    """s (√(1 + 2 x²/s) − 1): x² for small x, linear for large x (pseudo-Huber)."""
    return scale * (sqrt(1.0 + square * (2.0 / scale)) - 1.0)


def termination(situation: Situation, drone: TrimmedDrone) -> Scalar:
    """Whether the drone is more than 100 m from the origin."""
    return position_error(situation.state.p_W, ZERO) > MAX_DISTANCE_M


success = hover.success
