"""Track: follow a trajectory of any family of `samara.plan`, from any point of it; by default a figure of eight at 1.5 m/s.

VectorEnv(tracking_task(circle((0, 0, 1), radius=1.0, speed=2.0, laps=10)))
"""

from typing import Any

from samara.core.algebra import Vec3, dot
from samara.core.quantity import Scalar
from samara.learn.task import Draw, Situation, Task, Tree, TrimmedDrone, add_action_cost, observe
from samara.physics.quantities import position_error, smooth_position_error
from samara.physics.types import Reference, State
from samara.plan.trajectory import Trajectory, figure8

MAX_DISTANCE_M = 1.0  # [m] from the reference: beyond it the drone is lost
SUCCESS_DISTANCE_M = 0.05  # [m]: success


def tracking_task(trajectory: Trajectory, name: str = "track", seconds: float = 6.0, **fields: Any) -> Task:
    """Create the task to follow a trajectory; `fields` replace fields of the task.

    An episode starts at a random time of the trajectory, near the reference and at its velocity. The goal is that time.
    """
    latest = max(min(trajectory.duration, 1e3) - seconds, 0.0)

    def reference(situation: Situation) -> Reference:
        return trajectory.evaluate(situation.goal + situation.time)

    def reset(draw: Draw, drone: TrimmedDrone) -> tuple[State, Tree]:
        moment = draw.uniform(0.0, latest)
        target = trajectory.evaluate(moment)
        start = drone.trim._replace(
            p_W=target.p_W + draw.vector(0.1),
            v_W=target.v_W + draw.vector(0.2),
            q_WB=draw.rotation(0.2, 0.3),
            omega_B=draw.vector(0.5),
        )
        return start, moment

    def observation(situation: Situation, drone: TrimmedDrone) -> tuple[Scalar, ...]:
        """The state relative to the reference, and the reference's acceleration and jerk."""
        return observe("tracking", situation, drone, reference(situation))

    def reward(situation: Situation, drone: TrimmedDrone) -> Scalar:
        """1 − √(e_p² + 3 mm²) − 0.05 e_v² − 0.0005 ω² − 0.1 q_z² − 0.001 a²"""
        target, state = reference(situation), situation.state
        e_v = state.v_W - target.v_W
        cost = (
            smooth_position_error(state.p_W, target.p_W, 0.003)
            + 0.05 * dot(e_v, e_v)
            + 0.0005 * dot(state.omega_B, state.omega_B)
        )
        cost = cost + 0.1 * state.q_WB.z * state.q_WB.z
        return 1.0 - add_action_cost(cost, situation.action, 0.001)

    def error(situation: Situation) -> Scalar:
        return position_error(situation.state.p_W, reference(situation).p_W)

    return Task(
        name,
        reset,
        observation,
        reward,
        termination=lambda situation, drone: error(situation) > MAX_DISTANCE_M,
        success=lambda situation, drone: error(situation) < SUCCESS_DISTANCE_M,
        seconds=seconds,
        observation_name="tracking",
    )._replace(**fields)


FIGURE8 = figure8(Vec3(0.0, 0.0, 0.0), half_length=1.0, speed=1.5, laps=20.0)
TASK = tracking_task(FIGURE8)
