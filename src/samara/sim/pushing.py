"""What drones do to each other in the air: the downwash of all on all, computed once per step and held through it.

    pushed = downwash_on(flown, Downwash())      # for each group (6, n): f_W [N], then τ_B [N·m]

Groups may be of different vehicles; every drone has a number of its own, and nobody presses on himself.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from samara.algebra import IDENTITY, Vec3
from samara.arrays import unflatten
from samara.neighbours import compiled_sum_over_others
from samara.physics.downwash import Downwash, Exposed, Jet, downwash_wrench, jet_of
from samara.physics.multirotor import Environment, State, Vehicle, at_rest

Array = np.ndarray[Any, Any]


class Flown(NamedTuple):
    """Drones of one vehicle: their numbers, and their state and environment with a row for every component."""

    vehicle: Vehicle
    drones: Array
    state: Array
    environment: Environment


def downwash_on(flown: Sequence[Flown], downwash: Downwash) -> list[Array]:
    """Force in world axes and torque in body axes on every drone, from the jets of all others  [N, N·m]"""
    jets = [np.stack(np.broadcast_arrays(*_leaves(_jets(own)), own.drones)[:-1]) for own in flown]
    theirs = unflatten(_JET, iter(np.concatenate(jets, axis=1)))
    them = np.concatenate([own.drones for own in flown])
    pushed = []
    for own in flown:
        state = _state(own)
        felt = _code(own.vehicle, downwash)(Exposed(state.p_W, state.q_WB), theirs, me=own.drones, them=them)
        pushed.append(np.stack([*felt.f_W, *felt.tau_B]))
    return pushed


_JET = Jet(Vec3(0.0, 0.0, 0.0), Vec3(0.0, 0.0, -1.0), 1.0, 0.1)


def _state(own: Flown) -> State:
    state: State = unflatten(at_rest(own.vehicle), iter(own.state))
    return state


def _jets(own: Flown) -> Jet:
    return jet_of(_state(own), own.vehicle, own.environment)


def _leaves(jet: Jet) -> list[Any]:
    return [*jet.p_W, *jet.direction_W, jet.thrust, jet.radius]


@lru_cache(maxsize=16)
def _code(vehicle: Vehicle, downwash: Downwash) -> Any:
    exposed = Exposed(Vec3(0.0, 0.0, 0.0), IDENTITY)
    return compiled_sum_over_others(lambda mine, jet: downwash_wrench(mine, jet, vehicle, downwash), exposed, _JET)
