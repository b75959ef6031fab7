"""What drones do to each other in the air: the downwash of all on all, computed once per step and held through it.

    pushed = downwash_on(flown)      # for each group (6, n): f_W [N], then τ_B [N·m]

Groups may be of different vehicles; every drone has a number of its own, and nobody presses on himself. Pairs too far apart
to matter are found by a bound and left out, so that a swarm costs what its neighbours cost.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from samara.backends.llvm_neighbours import NearSum
from samara.backends.machine import CompiledStep
from samara.core.algebra import IDENTITY, ZERO, dot, norm
from samara.core.quantity import Scalar
from samara.physics.air.downwash import Downwash, Exposed, Jet, downwash_wrench, jet_of
from samara.physics.effect import Wrench
from samara.physics.multirotor import at_rest
from samara.physics.surroundings import environment_of
from samara.physics.types import Vehicle
from samara.sim.fleet import Fleet
from samara.sim.stage import Stage

Array = np.ndarray[Any, Any]

JET = Jet(ZERO, ZERO, 1.0, 1.0)
REACH = 4.5  # widths: further out the flux is e⁻⁴⁰ of that on the axis, less than the rounding of it


class Pressing(NamedTuple):
    """Drones of one vehicle: their numbers, and their state and environment with a row for every component."""

    vehicle: Vehicle
    drones: Array
    state: Array
    environment: Array


class DownwashStage(Stage):
    """The downwash of all on all who have it, held until the next tick of the wind."""

    axis = "wind"

    def update(self, fleet: Fleet) -> None:
        groups = [group for group in fleet.groups if group.key.vehicle.has("downwash")]
        if not groups:
            return
        pressing = [
            Pressing(group.key.vehicle, group.indices, group.plant.state, group.plant.environment) for group in groups
        ]
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
    jets = np.concatenate([jets_of(own) for own in flown], axis=1)
    them = np.concatenate([own.drones for own in flown])
    pushed = []
    for own in flown:
        near = _code(own.vehicle, downwash or own.vehicle["downwash"])
        pushed.append(near.over(own.state[[0, 1, 2, 6, 7, 8, 9]], jets, own.drones, them))
    return pushed


def jets_of(own: Pressing) -> Array:
    """The jet of every drone, (8, n): rows are those of a `Jet`"""
    machine = _jet_code(own.vehicle).machine(len(own.drones))
    size = len(own.state)
    machine.held[:size], machine.held[size:] = own.state, own.environment
    machine.run()
    return machine.carry


@lru_cache(maxsize=16)
def _jet_code(vehicle: Vehicle) -> CompiledStep:
    return CompiledStep(
        lambda own, held: jet_of(held[0], vehicle, held[1]),
        JET,
        (at_rest(vehicle), environment_of(vehicle)),
        as_written=True,
    )


def margins(exposed: Exposed, jet: Jet, reach: float, spread: float) -> tuple[Scalar, Scalar]:
    """s + h > 0 and 2 ((N R)² + h²) + 2 (N k (s + h))² − r² > 0,  N = `REACH`, s along and r across the jet, hubs within h [m]

    Both are positive below the plane of a jet's rotors and nearer to its axis than N widths of it, as (a + b)² ≤ 2a² + 2b².
    """
    away = exposed.p_W - jet.p_W
    s = dot(away, jet.direction_W)
    below = s + reach
    start, widening = REACH * jet.radius, REACH * spread * below
    return below, 2.0 * (start * start + reach * reach + widening * widening) + s * s - dot(away, away)


@lru_cache(maxsize=16)
def _code(vehicle: Vehicle, downwash: Downwash) -> NearSum:
    """What near jets do to a drone: (f_W, τ_B)"""
    reach = max(float(norm(rotor.r_B)) for rotor in vehicle.rotors)

    def felt(exposed: Exposed, jet: Jet) -> Any:
        wrench: Wrench = downwash_wrench(exposed, jet, vehicle, downwash)
        return wrench.f_W, wrench.tau_B

    return NearSum(
        felt, lambda mine, theirs: margins(mine, theirs, reach, downwash.spread), Exposed(ZERO, IDENTITY), JET
    )
