"""Universal: hover an unknown quadrotor, given only the speed limits of its motors.

The policy has RAPTOR's observation without the last action, and RAPTOR's action. The hover throttle, the motor lag
and a steady disturbance are not observed, so a policy needs recurrent units to infer them. Starts are those of `hover`.

Changes of the action reduce the reward: without that cost, and with the last action as an input, a trained policy drove motors
between their limits if it was called at a higher rate than in training.
"""

from samara.control.observation import Bounds, observe_state, state_error
from samara.core.algebra import ZERO, dot
from samara.core.quantity import Scalar
from samara.learn.domain_randomization import RAPTOR
from samara.learn.task import ORIGIN_REFERENCE, Situation, Task, TrimmedDrone
from samara.learn.tasks import hover
from samara.learn.tasks.recover import pseudo_huber
from samara.physics.quantities import position_error, smooth_position_error, squared_sine_of_half_tilt

BOUNDS = Bounds(0.5, 1.0)  # [m, m/s]: the observation clips errors to these
MAX_DISTANCE_M = 5.0  # [m]: beyond it the drone is lost
SUCCESS_DISTANCE_M = 0.1  # [m]: success
QUADROTORS = RAPTOR._replace(
    drag=(0.0, 2.0), idle=(0.0, 1.0), torque=0.02, lag_rise=(0.015, 0.1), lag_fall=(0.015, 0.3)
)  # wider than RAPTOR's: airframes without damping, motors of 15 ms


def observation(situation: Situation, drone: TrimmedDrone) -> tuple[Scalar, ...]:
    """p and v clipped to ±0.5 m and ±1 m/s, R by rows, and ω."""
    return state_error(observe_state(situation.state, ORIGIN_REFERENCE, (), drone.trim.rotor_speed, BOUNDS))


def reward(situation: Situation, drone: TrimmedDrone) -> Scalar:
    """2 − √(p² + 1 cm²) − 0.1 ⟨v²⟩₁ − 0.01 ⟨ω²⟩₄ − 0.2 (q_x² + q_y²) − 0.2 q_z²; the task adds the cost of action changes."""
    p_W, v_W, q_WB, omega_B = situation.state[:4]
    cost = (
        smooth_position_error(p_W, ZERO, 0.01)
        + 0.1 * pseudo_huber(dot(v_W, v_W), 1.0)
        + 0.01 * pseudo_huber(dot(omega_B, omega_B), 4.0)
        + 0.2 * (squared_sine_of_half_tilt(q_WB) + q_WB.z * q_WB.z)
    )
    return 2.0 - cost


def termination(situation: Situation, drone: TrimmedDrone) -> Scalar:
    """Whether the drone is more than 5 m from the origin."""
    return position_error(situation.state.p_W, ZERO) > MAX_DISTANCE_M


def success(situation: Situation, drone: TrimmedDrone) -> Scalar:
    """Whether the drone is within 10 cm of the origin."""
    return position_error(situation.state.p_W, ZERO) < SUCCESS_DISTANCE_M


TASK = Task(
    "universal",
    hover.reset,
    observation,
    reward,
    termination,
    success=success,
    seconds=6.0,
    action="throttle",
    observation_name="state_error",
    bounds=BOUNDS,
    randomization=QUADROTORS,
    action_change_cost=0.5,
)
