"""The gusts a rotor meets in its own wake, for many drones: each rotor has its own, drawn on the axis of the wind and held.

    felt, memory = gusts_on(vehicle, state, environment, memory, dt, seed=seed, drones=drones, tick=tick)

What is drawn is a process of deviation 1 for each rotor; how strong it is now comes from how the rotor moves now. So a drone
that leaves its wake is in calm air at once, and one that falls back into it meets gusts with a past.
"""

from functools import lru_cache
from typing import Any

import numpy as np

from samara.backends.machine import CompiledStep
from samara.core.algebra import Vec3, rotate
from samara.core.quantity import Scalar
from samara.core.random import gauss_markov, normals
from samara.physics.air.propwash import Propwash, gust_deviation, gust_time
from samara.physics.multirotor import at_rest
from samara.physics.rotors.propulsion import rotor_loads
from samara.physics.rotors.rotor_air import hub_flow
from samara.physics.surroundings import environment_of
from samara.physics.types import Environment, State, Vehicle
from samara.scenario.timeline import MICROSECONDS
from samara.sim.fleet import Fleet
from samara.sim.stage import Stage

Array = np.ndarray[Any, Any]


class WakeStage(Stage):
    """What each rotor's own wake adds to the wind at its hub, held until the next tick of the wind."""

    axis = "wind"

    def __init__(self, fleet: Fleet) -> None:
        self._memory = np.zeros((len(fleet.air.wake_W) // 3, len(fleet.scenario.drones)))

    def update(self, fleet: Fleet) -> None:
        tick, dt = fleet.tick("wind"), fleet.periods["wind"] / MICROSECONDS
        for group in fleet.groups:
            vehicle, at = group.key.vehicle, group.indices
            if not stirs(vehicle):
                continue
            rotors, plant = len(vehicle.rotors), group.plant
            gusts, self._memory[:rotors, at] = gusts_on(
                vehicle,
                plant.state,
                plant.environment,
                self._memory[:rotors, at],
                dt,
                seed=fleet.scenario.seed,
                drones=at,
                tick=tick,
            )
            if not np.array_equal(gusts, fleet.air.wake_W[: 3 * rotors, at]):
                fleet.air.wake_W[: 3 * rotors, at] = gusts
                fleet.surround(group)


def stirs(vehicle: Vehicle) -> bool:
    """Whether a vehicle's rotors feel gusts of their own wake"""
    return vehicle.has("propwash") and vehicle["propwash"].gusts > 0.0 and bool(environment_of(vehicle).hub_wind_W)


def wake_gusts(
    memory: tuple[Scalar, ...],
    drawn: tuple[Scalar, ...],
    dt: Scalar,
    state: State,
    vehicle: Vehicle,
    environment: Environment,
) -> tuple[tuple[Scalar, ...], tuple[Vec3, ...]]:
    """xᵢ' = e^{−dt/τᵢ} xᵢ + √(1 − e^{−2dt/τᵢ}) nᵢ,  wᵢ = σᵢ xᵢ' R aᵢ: what is remembered, and the gust at each hub  [m/s]"""
    wash: Propwash = vehicle["propwash"]
    density = environment.air_density
    kept, gusts_W = [], []
    loads = rotor_loads(
        state, vehicle, environment._replace(hub_wind_W=())
    )  # in the wind alone: no gust makes the next
    for x, normal, load, rotor in zip(memory, drawn, loads, vehicle.rotors, strict=True):
        flow = hub_flow(state.q_WB, state.v_W, state.omega_B, environment.wind_W, rotor)
        sigma = gust_deviation(load, flow, density, radius=rotor.radius, gusts=wash.gusts)
        x = gauss_markov(x, normal, dt, sigma=1.0, tau=gust_time(load, density, radius=rotor.radius))
        kept.append(x)
        gusts_W.append(rotate(state.q_WB, rotor.axis_B) * (sigma * x))
    return tuple(kept), tuple(gusts_W)


def gusts_on(
    vehicle: Vehicle, state: Array, environment: Array, memory: Array, dt: float, *, seed: int, drones: Array, tick: int
) -> tuple[Array, Array]:
    """The gusts at all hubs, (3 rotors, n) [m/s], and the memory for the next, (rotors, n); one column for each drone"""
    count = len(vehicle.rotors)
    machine = _code(vehicle).machine(len(drones))
    parts = (
        memory,
        normals(seed, "propwash", drones, tick, count).T,
        np.full((1, len(drones)), dt),
        state,
        environment,
    )
    machine.held[:] = np.concatenate(parts)
    machine.run()
    return machine.carry[count:].copy(), machine.carry[:count].copy()


@lru_cache(maxsize=16)
def _code(vehicle: Vehicle) -> CompiledStep:
    none = tuple(0.0 for _ in vehicle.rotors)
    state, environment = at_rest(vehicle), environment_of(vehicle)
    still = (none, tuple(Vec3(0.0, 0.0, 0.0) for _ in vehicle.rotors))
    return CompiledStep(
        lambda own, held: wake_gusts(held[0], held[1], held[2], held[3], vehicle, held[4]),
        still,
        (none, none, 0.0, state, environment),
    )
