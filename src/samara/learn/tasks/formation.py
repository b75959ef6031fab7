"""Formation: drones at the corners of a polygon that turns slowly about the origin, none too near another.

VectorEnv(forming(drones=5, radius=1.0))           # one policy for all of them
ParallelEnv(forming(drones=5, radius=1.0))         # each an agent: samara.learn.envs.pettingzoo
"""

import math
from typing import Any

from samara.core.algebra import Vec3, dot
from samara.core.ops import cos, logical_and, logical_or, maximum, sin
from samara.core.quantity import Scalar
from samara.learn.task import Craft, Draw, Situation, Task, Tree, add_action_cost, observe
from samara.physics.quantities import position_error, smooth_position_error, speed, squared_sine_of_half_tilt
from samara.physics.types import Reference, State

FAR = 2.0  # [m] from its corner: lost
NEAR, SLOW = 0.05, 0.1  # [m, m/s]: in formation
APART = 3.0  # times the reach of a drone from centre to centre: nearer than two and it is a crash


def forming(drones: int = 3, radius: float = 0.6, rate: float = 0.5, name: str = "formation", **fields: Any) -> Task:
    """A polygon of so many corners, `radius` from its centre [m], turning at `rate` [rad/s]; `fields` are fields of the task"""
    side = 2.0 * radius * math.sin(math.pi / max(drones, 2))

    def corner(situation: Situation, craft: Craft) -> tuple[Vec3, Vec3]:
        """Where drone k is to be, and how fast"""
        angle = rate * situation.time + 2.0 * math.pi * craft.number / drones
        c, s = cos(angle), sin(angle)
        return Vec3(radius * c, radius * s, 0.0), Vec3(-radius * rate * s, radius * rate * c, 0.0)

    def reset(draw: Draw, craft: Craft) -> tuple[State, Tree]:
        place, velocity = corner(Situation(craft.trim, time=0.0), craft)
        spread = min(0.3, 0.25 * side)
        start = craft.trim._replace(
            p_W=place + draw.vector(spread),
            v_W=velocity + draw.vector(0.3),
            q_WB=draw.turn(0.3, 0.3),
            omega_B=draw.vector(0.5),
        )
        return start, ()

    def observation(situation: Situation, craft: Craft) -> tuple[Scalar, ...]:
        """The full state from its corner, and where the others are and how they move, from here"""
        place, velocity = corner(situation, craft)
        state = situation.state
        around = ((*(other.p_W - state.p_W), *(other.v_W - state.v_W)) for other in situation.others)
        return (
            *observe("full_state", situation, craft, Reference(place, velocity)),
            *velocity,
            *(x for other in around for x in other),
        )

    def crowding(situation: Situation, craft: Craft) -> tuple[Scalar, Scalar]:
        """Σ max(0, 1 − d / 3 reaches)², and whether any is nearer than two"""
        reach = max(math.hypot(*rotor.r_B) for rotor in craft.nominal.rotors)
        total: Scalar = 0.0
        crash: Scalar = situation.time < 0.0
        for other in situation.others:
            distance = smooth_position_error(other.p_W, situation.state.p_W, 1e-6)
            close = maximum(1.0 - distance / (APART * reach), 0.0)
            total, crash = total + close * close, logical_or(crash, distance < 2.0 * reach)
        return total, crash

    def reward(situation: Situation, craft: Craft) -> Scalar:
        """2 − √(e_p² + 1 cm²) − 0.1 e_v² − 0.01 ω² − 0.3 (q_x² + q_y²) − 0.01 a² − crowding"""
        place, velocity = corner(situation, craft)
        p_W, v_W, q_WB, omega_B = situation.state[:4]
        e_v = v_W - velocity
        cost = smooth_position_error(p_W, place, 0.01) + 0.1 * dot(e_v, e_v) + 0.01 * dot(omega_B, omega_B)
        cost = cost + 0.3 * squared_sine_of_half_tilt(q_WB) + crowding(situation, craft)[0]
        return 2.0 - add_action_cost(cost, situation.action, 0.01)

    def termination(situation: Situation, craft: Craft) -> Scalar:
        """Two drones touch, or this one is 2 m from its corner"""
        lost = position_error(situation.state.p_W, corner(situation, craft)[0]) > FAR
        return logical_or(lost, crowding(situation, craft)[1])

    def success(situation: Situation, craft: Craft) -> Scalar:
        """In its corner, and moving with it"""
        place, velocity = corner(situation, craft)
        there = position_error(situation.state.p_W, place) < NEAR
        return logical_and(there, speed(situation.state.v_W - velocity) < SLOW)

    return Task(name, reset, observation, reward, termination, success=success, drones=drones)._replace(**fields)


TASK = forming()
