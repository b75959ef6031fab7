"""Who stands, and who has hit the ground too hard since the last time or lies on it."""

from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from samara.backends.lanes import in_lanes
from samara.backends.llvm_schedule import Operation
from samara.backends.machine import CompiledStep
from samara.physics.multirotor import at_rest
from samara.physics.surroundings import environment_of
from samara.physics.types import Vehicle
from samara.scenario.facts import Against, Fact
from samara.scenario.landing import Touchdown, touchdown
from samara.sim.fleet import Fleet
from samara.sim.group import Group
from samara.sim.plant import CODES
from samara.sim.stage import Stage
from samara.sim.stages.status import StatusStage
from samara.vehicles.ground import ground_clearance

TOUCHES = (
    "touches"  # landed, crashed, crashed just now, and how fast it came to the ground, by tick: not recorded itself
)


class TouchdownStage(Stage):
    """Landed and crashed, from how each drone touches the ground; what became of it is told afterwards."""

    axis = "scenario"

    def __init__(self, status: StatusStage) -> None:
        self._status, self._looked_us = status, -1

    def operations(self, fleet: Fleet, group: Group) -> list[Operation]:
        """Whether each drone stands or lies, and the touches since the last time"""
        due, plant, n = fleet.calendar.axis("scenario"), group.plant, len(group.drones)
        machine = in_lanes(_code, [(own,) for own in group.vehicles]).machine(n)
        places = np.cumsum([0, len(plant.state), len(plant.environment), 1, 2])
        state, around, impact, status = (machine.held[a:b] for a, b in pairwise(places))
        seen, none = group.touch, np.zeros((1, n))
        came = plant.impact_speed.reshape(1, n)
        return [
            Operation("copy", due, (plant.state, state, len(state))),
            Operation("copy", due, (plant.environment, around, len(around))),
            Operation("copy", due, (came, impact, 1)),
            Operation("copy", due, (group.status, status, 2)),
            Operation("run", due, (machine,)),
            Operation("copy", due, (machine.carry, group.status, 2)),
            Operation("copy", due, (machine.carry, seen, 3)),
            Operation("copy", due, (came, seen[3:], 1)),
            *fleet.put(group, TOUCHES, self, seen, due=due, period=fleet.periods["scenario"]),
            Operation("copy", due, (none, came, 1)),
        ]

    def collect(self, fleet: Fleet, *, passed: bool) -> None:
        """What happened at the ticks since, in their order"""
        for group in fleet.groups:
            fleet.landed[group.indices], fleet.crashed[group.indices] = group.status > 0.5
        if TOUCHES not in fleet.groups[0].tables:
            return
        tables = [group.tables[TOUCHES] for group in fleet.groups]
        times = tables[0].times[: tables[0].count]
        first = int(np.searchsorted(times, self._looked_us, side="right"))
        if first == len(times):
            return
        seen = tables[0].rows[first : tables[0].count]
        if len(tables) > 1:
            seen = np.empty((len(times) - first, 4, len(fleet.scenario.drones)))
            for group, table in zip(fleet.groups, tables, strict=True):
                seen[:, :, group.indices] = table.rows[first : table.count]
        before = np.concatenate([self._status.told[None], seen[:-1, :2]])
        for k in np.flatnonzero((seen[:, :2] != before).any(axis=(1, 2)) | seen[:, 2].any(axis=1)).tolist():
            time_us = int(times[first + k])
            for index in np.flatnonzero(seen[k, 2]).tolist():
                speed = float(seen[k, 3, index])
                fleet.warn(fleet.note(index, Fact.CRASHED, time_us=time_us, against=Against.GROUND, speed=speed))
            self._status.tell(fleet, time_us, seen[k, :2])
        self._looked_us = int(times[-1])


@lru_cache(maxsize=CODES)
def _code(vehicle: Vehicle) -> CompiledStep:
    """`Touchdown` from (state, environment, impact speed, landed, crashed)."""

    def look(own: Any, held: Any) -> Touchdown:
        state, around, impact_speed, landed, crashed = held
        return touchdown(
            state.v_W,
            state.q_WB,
            state.omega_B,
            clearance=ground_clearance(state, vehicle, around),
            impact_speed=impact_speed,
            landed=landed,
            crashed=crashed,
        )

    return CompiledStep(look, Touchdown(0.0, 0.0, 0.0), (at_rest(vehicle), environment_of(vehicle), 0.0, 0.0, 0.0))
