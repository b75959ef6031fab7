"""What drones do to each other in the air: the downwash of all on all, computed once per step and held through it.

    pushed = downwash_on(flown)      # for each group (6, n): f_W [N], then τ_B [N·m]

Groups may be of different vehicles; every drone has a number of its own, and nobody presses on himself. Pairs too far apart
to matter are found by a bound and left out, so that a swarm costs what its neighbours cost.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from samara.backends.machine import CompiledStep
from samara.core.algebra import IDENTITY, Vec3, norm
from samara.core.tree import flatten, unflatten
from samara.physics.air.downwash import Downwash, Exposed, Jet, downwash_wrench, jet_of
from samara.physics.effect import Wrench
from samara.physics.multirotor import at_rest
from samara.physics.surroundings import environment_of
from samara.physics.types import Environment, State, Vehicle
from samara.sim.fleet import Fleet
from samara.sim.stage import Stage

Array = np.ndarray[Any, Any]

REACH = 4.5  # widths: further out the flux is e⁻⁴⁰ of that on the axis, less than the rounding of it
_BLOCK = 1 << 15  # pairs looked at at once; what is worked on stays in the cache


class Pressing(NamedTuple):
    """Drones of one vehicle: their numbers, and their state and environment with a row for every component."""

    vehicle: Vehicle
    drones: Array
    state: Array
    environment: Environment


class DownwashStage(Stage):
    """The downwash of all on all who have it, held until the next tick of the wind."""

    axis = "wind"

    def update(self, fleet: Fleet) -> None:
        groups = [group for group in fleet.groups if group.key.vehicle.has("downwash")]
        if not groups:
            return
        pressing = []
        for group in groups:
            around: Environment = unflatten(environment_of(group.key.vehicle), iter(group.plant.environment))
            pressing.append(Pressing(group.key.vehicle, group.indices, group.plant.state, around))
        for group, pushed in zip(groups, downwash_on(pressing), strict=True):
            at, air = group.indices, fleet.air
            if not (
                np.array_equal(pushed[:3], air.push_W[:, at]) and np.array_equal(pushed[3:], air.push_torque_B[:, at])
            ):
                air.push_W[:, at], air.push_torque_B[:, at] = pushed[:3], pushed[3:]
                fleet.surround(group)


def downwash_on(flown: Sequence[Pressing], downwash: Downwash | None = None) -> list[Array]:
    """Force in world axes and torque in body axes on every drone, from the jets of all others  [N, N·m]

    A drone feels them with the numbers of its vehicle's own downwash, unless others are given.
    """
    jets = np.concatenate([_jets(own) for own in flown], axis=1)
    them = np.concatenate([own.drones for own in flown])
    pushed = []
    for own in flown:
        numbers: Downwash = downwash or own.vehicle["downwash"]
        exposed = own.state[[0, 1, 2, 6, 7, 8, 9]]
        me, it = near_pairs(exposed[:3], jets, _reach(own.vehicle), numbers.spread)
        others = own.drones[me] != them[it]
        me, it = me[others], it[others]
        felt = np.zeros((6, len(own.drones)))
        if len(me):
            machine = _code(own.vehicle, numbers).machine(len(me))
            machine.held[:7], machine.held[7:] = exposed[:, me], jets[:, it]
            machine.run()
            felt[:] = [np.bincount(me, weights=part, minlength=len(own.drones)) for part in machine.carry]
        pushed.append(felt)
    return pushed


def near_pairs(p_W: Array, jets: Array, reach: float, spread: float) -> tuple[Array, Array]:
    """Who is in whose stream: drones below a rotor plane, and nearer to its axis than `REACH` widths of the jet there

    `reach` [m] is how far a drone's hubs are from its centre. Rows of `jets` are those of a `Jet`.
    """
    origin, along, width = jets[:3], jets[3:6], jets[7]
    start, square = (origin * along).sum(axis=0), (origin * origin).sum(axis=0)
    wide = 2.0 * ((REACH * width) ** 2 + reach**2) - square  # (a + b)² ≤ 2a² + 2b²
    twice = 2.0 * origin
    mine, theirs = [], []
    rows = max(1, _BLOCK // max(1, jets.shape[1]))
    for first in range(0, p_W.shape[1], rows):
        x, y, z = p_W[:, first : first + rows, None]
        down = x * along[0] + y * along[1] + z * along[2]  # not by `@`, whose bits are the processor's
        down -= start
        within = x * twice[0] + y * twice[1] + z * twice[2]
        within += wide
        within -= x * x + y * y + z * z
        inside = down > -reach
        within += down * down
        down += reach
        down *= math.sqrt(2.0) * REACH * spread
        within += down * down
        inside &= within > 0.0
        i, j = np.divmod(np.flatnonzero(inside), len(width))
        mine.append(i + first)
        theirs.append(j)
    return np.concatenate(mine), np.concatenate(theirs)


def _jets(own: Pressing) -> Array:
    state: State = unflatten(at_rest(own.vehicle), iter(own.state))
    leaves = flatten(jet_of(state, own.vehicle, own.environment))
    return np.stack(np.broadcast_arrays(*leaves, own.drones)[:-1])


def _reach(vehicle: Vehicle) -> float:
    return max(float(norm(rotor.r_B)) for rotor in vehicle.rotors)


@lru_cache(maxsize=16)
def _code(vehicle: Vehicle, downwash: Downwash) -> CompiledStep:
    """One jet on one drone: (f_W, τ_B)"""

    def body(own: Any, held: Any) -> Any:
        felt: Wrench = downwash_wrench(held[0], held[1], vehicle, downwash)
        return felt.f_W, felt.tau_B

    zero = Vec3(0.0, 0.0, 0.0)
    return CompiledStep(body, (zero, zero), (Exposed(zero, IDENTITY), Jet(zero, Vec3(0.0, 0.0, -1.0), 1.0, 0.1)))
