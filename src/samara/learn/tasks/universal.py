"""Universal: hover an unknown quadrotor, given only the speed limits of its motors.

The policy observes what RAPTOR observes except for the last action, and has the same action. The hover throttle, the motor lag
and a steady disturbance are not observed, so a policy needs recurrent units to infer them. Starts are those of `hover`.

Changes of the action reduce the reward: without that cost, and with the last action as an input, a trained policy drove motors
between their limits if it was called at a higher rate than in training.
"""

from samara.control.observation import Bounds, seen, state_error
from samara.core.algebra import ZERO, dot
from samara.core.quantity import Scalar
from samara.learn.domain_randomization import RAPTOR
from samara.learn.task import AT_ORIGIN, Craft, Situation, Task
from samara.learn.tasks import hover
from samara.learn.tasks.recover import softened
from samara.physics.quantities import position_error, smooth_position_error, squared_sine_of_half_tilt

BOUNDS = Bounds(0.5, 1.0)  # [m, m/s]: the observation clips errors to these
FAR = 5.0  # [m]: beyond it the drone is lost
NEAR = 0.1  # [m]: success
QUADROTORS = RAPTOR._replace(
    drag=(0.0, 2.0), idle=(0.0, 1.0), torque=0.02, lag_rise=(0.015, 0.1), lag_fall=(0.015, 0.3)
)  # wider than RAPTOR's: airframes without damping, motors of 15 ms


def observation(situation: Situation, drone: Craft) -> tuple[Scalar, ...]:
    """p and v clipped to ±0.5 m and ±1 m/s, R by rows, and ω."""
    return state_error(seen(situation.state, AT_ORIGIN, (), drone.trim.rotor_speed, BOUNDS))


def reward(situation: Situation, drone: Craft) -> Scalar:
    """2 − √(p² + 1 cm²) − 0.1 ⟨v²⟩₁ − 0.01 ⟨ω²⟩₄ − 0.2 (q_x² + q_y²) − 0.2 q_z²; the task adds the cost of action changes."""
    p_W, v_W, q_WB, omega_B = situation.state[:4]
    cost = (
        smooth_position_error(p_W, ZERO, 0.01)
        + 0.1 * softened(dot(v_W, v_W), 1.0)
        + 0.01 * softened(dot(omega_B, omega_B), 4.0)
        + 0.2 * (squared_sine_of_half_tilt(q_WB) + q_WB.z * q_WB.z)
    )
    return 2.0 - cost


def termination(situation: Situation, drone: Craft) -> Scalar:
    """Beyond 5 m."""
    return position_error(situation.state.p_W, ZERO) > FAR


def success(situation: Situation, drone: Craft) -> Scalar:
    """Within 10 cm."""
    return position_error(situation.state.p_W, ZERO) < NEAR


TASK = Task(
    "universal",
    hover.reset,
    observation,
    reward,
    termination,
    success=success,
    seconds=6.0,
    action="throttle",
    sees="state_error",
    bounds=BOUNDS,
    randomization=QUADROTORS,
    action_change_cost=0.5,
)
