"""Hover: come to rest at the origin, from up to 0.5 m and 1 m/s along each axis, 90° of tilt and 1 rad/s about each."""

import math

from samara.core.algebra import ZERO, dot
from samara.core.ops import logical_and
from samara.core.quantity import Scalar
from samara.learn.task import Draw, Situation, Tree, TrimmedDrone, add_action_cost, observe
from samara.physics.quantities import position_error, smooth_position_error, speed, squared_sine_of_half_tilt
from samara.physics.types import State

SECONDS = 3.0
OBSERVATION = "full_state"
MAX_DISTANCE_M = 2.0  # [m]: beyond it the drone is lost
SUCCESS_DISTANCE_M, SUCCESS_SPEED = 0.05, 0.05  # [m, m/s]: success


def reset(draw: Draw, drone: TrimmedDrone) -> tuple[State, Tree]:
    """Start near the trim, with the rotors at their hover speed."""
    start = drone.trim._replace(
        p_W=draw.vector(0.5), v_W=draw.vector(1.0), q_WB=draw.rotation(0.5 * math.pi, 0.3), omega_B=draw.vector(1.0)
    )
    return start, ()


def observation(situation: Situation, drone: TrimmedDrone) -> tuple[Scalar, ...]:
    """Position, velocity, attitude, rates and rotor speeds."""
    return observe("full_state", situation, drone)


def reward(situation: Situation, drone: TrimmedDrone) -> Scalar:
    """2 minus the cost of `rest_cost`: positive near the target, so that no drone gains by ending the episode."""
    return 2.0 - rest_cost(situation)


def rest_cost(situation: Situation) -> Scalar:
    """√(p² + 1 cm²) + 0.1 v² + 0.01 ω² + 0.3 (q_x² + q_y²) + 0.1 q_z² + 0.01 a²: the deviation from rest at the origin.

    The root has the same slope at any distance, and is smooth at 0.
    """
    p_W, v_W, q_WB, omega_B = situation.state[:4]
    cost = smooth_position_error(p_W, ZERO, 0.01) + 0.1 * dot(v_W, v_W) + 0.01 * dot(omega_B, omega_B)
    cost = cost + 0.3 * squared_sine_of_half_tilt(q_WB) + 0.1 * q_WB.z * q_WB.z
    return add_action_cost(cost, situation.action, 0.01)


def termination(situation: Situation, drone: TrimmedDrone) -> Scalar:
    """Whether the drone is more than 2 m from the origin."""
    return position_error(situation.state.p_W, ZERO) > MAX_DISTANCE_M


def success(situation: Situation, drone: TrimmedDrone) -> Scalar:
    """Whether the drone is within 5 cm of the origin and slower than 5 cm/s."""
    return logical_and(
        position_error(situation.state.p_W, ZERO) < SUCCESS_DISTANCE_M, speed(situation.state.v_W) < SUCCESS_SPEED
    )
