"""Land: descend softly to the point below, from 1 to 2 m above it and up to 0.5 m beside it.

The episode ends at touchdown, at the height of the origin: ground contact is not part of the task.
"""

from samara.core.algebra import ZERO, Vec3, dot
from samara.core.ops import absolute, logical_and, logical_or, safe_norm
from samara.core.quantity import Scalar
from samara.learn.task import Draw, Situation, Tree, TrimmedDrone, add_action_cost, observe
from samara.physics.quantities import smooth_position_error, squared_sine_of_half_tilt, tilt_deg
from samara.physics.types import State

SECONDS = 6.0
OBSERVATION = "full_state"
MAX_DISTANCE_M = 4.0  # [m]: beyond it the drone is lost
TOUCHDOWN_SPEED = 0.2  # [m/s]: desired speed at touchdown
SUCCESS_DISTANCE_M, SUCCESS_SINK_RATE, SUCCESS_SPEED, MAX_TILT_DEG = 0.1, 0.4, 0.2, 15.0  # [m, m/s, m/s, °]: success


def reset(draw: Draw, drone: TrimmedDrone) -> tuple[State, Tree]:
    """Start in the air, with a small velocity and tilt."""
    start = drone.trim._replace(
        p_W=Vec3(draw.uniform(-0.5, 0.5), draw.uniform(-0.5, 0.5), draw.uniform(1.0, 2.0)),
        v_W=draw.vector(0.5),
        q_WB=draw.rotation(0.3, 0.3),
        omega_B=draw.vector(0.5),
    )
    return start, ()


def observation(situation: Situation, drone: TrimmedDrone) -> tuple[Scalar, ...]:
    """Position, velocity, attitude, rates and rotor speeds."""
    return observe("full_state", situation, drone)


def reward(situation: Situation, drone: TrimmedDrone) -> Scalar:
    """3 − √(p² + 1 cm²) − 0.3 |v − v_d|² − 0.01 ω² − 0.5 (q_x² + q_y²) − 0.01 a²,  v_d = −p/s − 0.2 m/s e₃"""
    p_W, v_W, q_WB, omega_B = situation.state[:4]
    e_v = v_W + p_W + Vec3(0.0, 0.0, TOUCHDOWN_SPEED)
    cost = smooth_position_error(p_W, ZERO, 0.01) + 0.3 * dot(e_v, e_v) + 0.01 * dot(omega_B, omega_B)
    cost = cost + 0.5 * squared_sine_of_half_tilt(q_WB)
    return 3.0 - add_action_cost(cost, situation.action, 0.01)


def termination(situation: Situation, drone: TrimmedDrone) -> Scalar:
    """Whether the drone is on the ground or more than 4 m away."""
    p_W = situation.state.p_W
    return logical_or(p_W.z <= 0.0, dot(p_W, p_W) > MAX_DISTANCE_M * MAX_DISTANCE_M)


def success(situation: Situation, drone: TrimmedDrone) -> Scalar:
    """Whether the drone touches down within 10 cm, below 0.4 m/s down and 0.2 m/s sideways, within 15° of upright."""
    p_W, v_W, q_WB = situation.state[:3]
    is_on_target = logical_and(p_W.z <= 0.0, safe_norm(p_W.x, p_W.y) < SUCCESS_DISTANCE_M)
    is_soft = logical_and(absolute(v_W.z) < SUCCESS_SINK_RATE, safe_norm(v_W.x, v_W.y) < SUCCESS_SPEED)
    return logical_and(logical_and(is_on_target, is_soft), tilt_deg(q_WB) < MAX_TILT_DEG)
