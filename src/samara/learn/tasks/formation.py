"""Formation: drones at the corners of a polygon that rotates slowly about the origin, with a minimum separation.

VectorEnv(formation_task(drones=5, radius=1.0))    # one policy for all of them
ParallelEnv(formation_task(drones=5, radius=1.0))  # each an agent: samara.learn.envs.pettingzoo
"""

import math
from typing import Any

from samara.core.algebra import Vec3, dot
from samara.core.ops import cos, logical_and, logical_or, maximum, sin
from samara.core.quantity import Scalar
from samara.learn.task import Draw, Situation, Task, Tree, TrimmedDrone, add_action_cost, observe
from samara.physics.quantities import position_error, smooth_position_error, speed, squared_sine_of_half_tilt
from samara.physics.types import Reference, State

MAX_DISTANCE_M = 2.0  # [m] from its corner: beyond it the drone is lost
SUCCESS_DISTANCE_M, SUCCESS_SPEED = 0.05, 0.1  # [m, m/s]: success
MIN_SEPARATION_RADII = 3.0  # radii of a drone from centre to centre; a separation below two is a crash


def formation_task(
    drones: int = 3, radius: float = 0.6, rate: float = 0.5, name: str = "formation", **fields: Any
) -> Task:
    """Create the task for a rotating polygon of drones.

    Args:
        drones: count of drones and corners.
        radius: distance of the corners from the centre [m].
        rate: angular rate of the polygon [rad/s].
        name: name of the task.
        fields: replace fields of the task.
    """
    side = 2.0 * radius * math.sin(math.pi / max(drones, 2))

    def corner(situation: Situation, drone: TrimmedDrone) -> tuple[Vec3, Vec3]:
        """Return the reference position and velocity of a drone."""
        angle = rate * situation.time + 2.0 * math.pi * drone.team_index / drones
        c, s = cos(angle), sin(angle)
        return Vec3(radius * c, radius * s, 0.0), Vec3(-radius * rate * s, radius * rate * c, 0.0)

    def reset(draw: Draw, drone: TrimmedDrone) -> tuple[State, Tree]:
        position, velocity = corner(Situation(drone.trim, time=0.0), drone)
        spread = min(0.3, 0.25 * side)
        start = drone.trim._replace(
            p_W=position + draw.vector(spread),
            v_W=velocity + draw.vector(0.3),
            q_WB=draw.rotation(0.3, 0.3),
            omega_B=draw.vector(0.5),
        )
        return start, ()

    def observation(situation: Situation, drone: TrimmedDrone) -> tuple[Scalar, ...]:
        """The full state relative to the drone's corner, and the relative positions and velocities of the others."""
        position, velocity = corner(situation, drone)
        state = situation.state
        relative_motion = ((*(other.p_W - state.p_W), *(other.v_W - state.v_W)) for other in situation.teammates)
        return (
            *observe("full_state", situation, drone, Reference(position, velocity)),
            *velocity,
            *(x for other in relative_motion for x in other),
        )

    def crowding(situation: Situation, drone: TrimmedDrone) -> tuple[Scalar, Scalar]:
        """Σ max(0, 1 − d / 3 radii)², and whether any separation is below two radii."""
        drone_radius = max(math.hypot(*rotor.r_B) for rotor in drone.nominal.rotors)
        total: Scalar = 0.0
        crash: Scalar = situation.time < 0.0
        for other in situation.teammates:
            distance = smooth_position_error(other.p_W, situation.state.p_W, 1e-6)
            overlap = maximum(1.0 - distance / (MIN_SEPARATION_RADII * drone_radius), 0.0)
            total, crash = total + overlap * overlap, logical_or(crash, distance < 2.0 * drone_radius)
        return total, crash

    def reward(situation: Situation, drone: TrimmedDrone) -> Scalar:
        """2 − √(e_p² + 1 cm²) − 0.1 e_v² − 0.01 ω² − 0.3 (q_x² + q_y²) − 0.01 a² − crowding"""
        position, velocity = corner(situation, drone)
        p_W, v_W, q_WB, omega_B = situation.state[:4]
        e_v = v_W - velocity
        cost = smooth_position_error(p_W, position, 0.01) + 0.1 * dot(e_v, e_v) + 0.01 * dot(omega_B, omega_B)
        cost = cost + 0.3 * squared_sine_of_half_tilt(q_WB) + crowding(situation, drone)[0]
        return 2.0 - add_action_cost(cost, situation.action, 0.01)

    def termination(situation: Situation, drone: TrimmedDrone) -> Scalar:
        """Whether two drones touch, or this one is more than 2 m from its corner."""
        is_lost = position_error(situation.state.p_W, corner(situation, drone)[0]) > MAX_DISTANCE_M
        return logical_or(is_lost, crowding(situation, drone)[1])

    def success(situation: Situation, drone: TrimmedDrone) -> Scalar:
        """Whether the drone is at its corner and moves with it."""
        position, velocity = corner(situation, drone)
        is_at_corner = position_error(situation.state.p_W, position) < SUCCESS_DISTANCE_M
        return logical_and(is_at_corner, speed(situation.state.v_W - velocity) < SUCCESS_SPEED)

    return Task(name, reset, observation, reward, termination, success=success, drones=drones)._replace(**fields)


TASK = formation_task()
