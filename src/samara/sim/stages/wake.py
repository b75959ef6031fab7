"""The gusts a rotor meets in its own wake: each rotor has its own, drawn on the axis of the wind and held.

What is drawn is a process of deviation 1 for each rotor; how strong it is now comes from how the rotor moves now. So a drone
that leaves its wake is in calm air at once, and one that falls back into it meets gusts with a past.
"""

from functools import lru_cache
from itertools import pairwise

import numpy as np

from samara.backends.lanes import in_lanes
from samara.backends.llvm_schedule import Operation
from samara.backends.machine import CompiledStep
from samara.core.algebra import Vec3, rotate
from samara.core.quantity import Scalar
from samara.core.random import gauss_markov
from samara.physics.air.propwash import Propwash, gust_deviation, gust_time
from samara.physics.multirotor import at_rest
from samara.physics.rotors.propulsion import rotor_loads
from samara.physics.rotors.rotor_air import hub_flow
from samara.physics.surroundings import environment_of
from samara.physics.tilting import tilted
from samara.physics.types import Environment, State, Vehicle
from samara.scenario.timeline import MICROSECONDS
from samara.sim.fleet import Fleet
from samara.sim.group import Group
from samara.sim.per_drone import PerDrone
from samara.sim.stage import Stage


class WakeStage(Stage):
    """What each rotor's own wake adds to the wind at its hub, held until the next tick of the wind."""

    axis = "wind"

    def __init__(self) -> None:
        self._memory = PerDrone()

    def regrouped(self, fleet: Fleet) -> None:
        """The gusts go on with the drones"""
        rotors = max(len(own.vehicle.rotors) for own in fleet.scenario.drones)
        self._memory.spread(fleet, np.zeros((rotors, len(fleet.scenario.drones))))

    def operations(self, fleet: Fleet, group: Group) -> list[Operation]:
        """The gusts, added to the wind at the hubs"""
        vehicle, plant, due = group.key.vehicle, group.plant, fleet.calendar.axis("wind")
        if group.hubs is None or not stirs(vehicle):
            return []
        count, code = len(vehicle.rotors), in_lanes(gusts_code, [(own,) for own in group.vehicles])
        machine = code.machine(len(group.drones))
        places = np.cumsum([0, count, count, 1, len(plant.state), len(plant.environment)])
        memory, drawn, dt, state, around = (machine.held[a:b] for a, b in pairwise(places))
        dt[:] = fleet.periods["wind"] / MICROSECONDS
        own = self._memory.of(group)[:count]
        keys, numbers = fleet.keys(group, "propwash"), fleet.numbers_of(group)
        return [
            Operation("copy", due, (own, memory, count)),
            Operation("draw", due, (keys, numbers, drawn, count, fleet.periods["wind"])),
            Operation("copy", due, (plant.state, state, len(state))),
            Operation("copy", due, (plant.environment, around, len(around))),
            Operation("run", due, (machine,)),
            Operation("copy", due, (machine.carry, own, count)),
            Operation("copy", due, (machine.carry[count:], group.hubs.wake_W, 3 * count)),
            *group.hubs.operations(due, group.around.hub_wind_W),
        ]


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
    vehicle = tilted(state, vehicle)
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


@lru_cache(maxsize=16)
def gusts_code(vehicle: Vehicle) -> CompiledStep:
    none = tuple(0.0 for _ in vehicle.rotors)
    state, environment = at_rest(vehicle), environment_of(vehicle)
    still = (none, tuple(Vec3(0.0, 0.0, 0.0) for _ in vehicle.rotors))
    return CompiledStep(
        lambda own, held: wake_gusts(held[0], held[1], held[2], held[3], vehicle, held[4]),
        still,
        (none, none, 0.0, state, environment),
    )
