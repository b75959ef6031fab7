"""Standing on the ground: the place, attitude and grip at which the springs of the feet carry the weight, and nothing moves.

A foot that is displaced by d from where it just touches is pushed back by k d, along the plane by its grip while the ground
holds it. So the body rests displaced and turned by ξ with k K ξ = w: K as in `samara.vehicles.ground`, w what pulls at it.
"""

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from samara.core.algebra import Quat, Vec3, dot, normalize, quat_exp, rotate
from samara.core.matrices import rank, solve
from samara.core.number import plain
from samara.core.number_tape import numbers_array
from samara.core.ops import maximum
from samara.physics.ground.contact import Ground
from samara.physics.multirotor import empty_command, wrench
from samara.physics.types import Environment, State, Vehicle
from samara.vehicles.ground import clearance, standing_stiffness

PlaneBelow = Callable[[Vec3, Quat, Vehicle], Ground]
Array = np.ndarray[Any, Any]

NEAR = 1e-3  # [m]: what starts this near to the ground stands on it; what is higher falls
SAME = 1e-9  # [m]: feet this little above the lowest stand with it
ROUNDS = 40
BALANCED = 1e-13  # of the weight: what may remain
UNBALANCED = 1e-9  # of the weight: more than this is not standing


def standing(state: State, start_W: Vec3, vehicle: Vehicle, environment: Environment, below: PlaneBelow) -> State:
    """The state with its feet at its start, aligned with the ground there and pressed into it by their load

    Where it starts above the ground, would slide, or would fall over, it is left as it is.
    """
    if not (vehicle.has("contact") and vehicle.has("gravity")):
        return state
    plane = below(state.p_W, state.q_WB, vehicle)
    if not abs(dot(start_W - plane.point_W, plane.normal_W)) <= NEAR:
        return state
    touching = _touching(state, start_W, vehicle, below)
    contact, height = vehicle["contact"], clearance(vehicle)
    lowest = [rotate(touching.q_WB, point_B) for point_B in contact.points_B if point_B.z <= SAME - height]
    stiffness = contact.surface.stiffness * standing_stiffness(tuple(lowest))
    if rank(stiffness) < len(stiffness):
        return state
    weight, moved = vehicle.mass * vehicle["gravity"].acceleration, np.zeros(6)
    for _ in range(ROUNDS):
        rest = _displaced(touching, moved, vehicle, below)
        left = _remaining(rest, vehicle, environment, below)
        error = reduce(maximum, map(abs, left.tolist()))
        if error <= BALANCED * weight:
            break
        moved = moved + solve(stiffness, left)
    return rest if error <= UNBALANCED * weight else state


def _touching(state: State, start_W: Vec3, vehicle: Vehicle, below: PlaneBelow) -> State:
    """Level with the ground, the lowest feet just touching it; over a curved ground the plane depends on the place."""
    height, p_W, q_WB = clearance(vehicle), state.p_W, state.q_WB
    for _ in range(ROUNDS):
        plane = below(p_W, q_WB, vehicle)
        n = plane.normal_W
        q_WB = normalize(Quat(1.0 + n.z, -n.y, n.x, 0.0)) * state.q_WB
        before, foot_W = p_W, start_W - n * dot(start_W - plane.point_W, n)
        p_W = foot_W + n * height
        if max(abs(x) for x in p_W - before) <= 1e-15:
            break
    return state._replace(p_W=p_W, q_WB=q_WB)


def _displaced(touching: State, moved: Array, vehicle: Vehicle, below: PlaneBelow) -> State:
    """Moved and turned, with the grips that stretches: each by how far its foot went along the plane."""
    by = [plain(x) for x in moved]
    p_W, q_WB = touching.p_W + Vec3(*by[:3]), normalize(quat_exp(Vec3(*by[3:])) * touching.q_WB)
    n = below(p_W, q_WB, vehicle).normal_W
    grips = []
    for point_B in vehicle["contact"].points_B:
        went_W = p_W - touching.p_W + rotate(q_WB, point_B) - rotate(touching.q_WB, point_B)
        grips.append(went_W - n * dot(went_W, n))
    at = vehicle.index("contact")
    effects = (*touching.effects[:at], tuple(grips), *touching.effects[at + 1 :])
    return touching._replace(p_W=p_W, q_WB=q_WB, effects=effects)


def _remaining(state: State, vehicle: Vehicle, environment: Environment, below: PlaneBelow) -> Array:
    """Force and torque in the world that nothing balances."""
    around = environment._replace(ground=below(state.p_W, state.q_WB, vehicle))
    total = wrench(state, empty_command(vehicle), vehicle, around)
    return numbers_array([*(rotate(state.q_WB, total.f_B) + total.f_W), *rotate(state.q_WB, total.tau_B)])
