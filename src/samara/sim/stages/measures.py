"""In the place of a log: the measures of each flight, brought up to date at its ticks, and states as often as asked for."""

from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from samara.backends.lanes import in_lanes
from samara.backends.llvm_schedule import Operation
from samara.backends.machine import CompiledStep, Machine
from samara.core.algebra import ZERO
from samara.core.tree import unflatten
from samara.physics.multirotor import at_rest
from samara.physics.reference import REFERENCE_FIELDS, Reference
from samara.physics.surroundings import empty_command, environment_of
from samara.physics.types import Vehicle
from samara.record.streams import Rows
from samara.sim.fleet import Fleet
from samara.sim.group import Asked, Group
from samara.sim.measures import START, Measures, measured, touched
from samara.sim.per_drone import PerDrone
from samara.sim.plant import CODES
from samara.sim.references import asked_of, cover, is_shared, taken
from samara.sim.stages.log import LogStage

STATES = "states"


class MeasuresStage(LogStage):
    """Nothing is recorded but what comes of the flights."""

    def __init__(self, every_us: int = 0) -> None:
        """`every_us` is how often states are kept, a multiple of the log's period; 0: never"""
        super().__init__(None)
        self._every_us, self._measures = every_us, PerDrone()
        self._asked: dict[int, Asked] = {}  # at the ticks of the log, by the first drone of a group
        self.states: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []  # drones, times, (times, components, drones)

    def next_flush_us(self, fleet: Fleet) -> int:
        """To the end, or as far as what is asked is known"""
        ahead = min(len(group.asked.rows) for group in fleet.groups) - 2
        return fleet.time_us + ahead * fleet.periods["autopilot"]

    def measures(self) -> Measures:
        """Of all drones, as arrays"""
        whole = self._measures.gathered()
        own: Measures = unflatten(START, iter(whole if whole is not None else ()))
        return own

    def regrouped(self, fleet: Fleet) -> None:
        """What is asked of all alike, be it at other places, is asked once, for the whole flight"""
        self._asked.clear()
        start = np.repeat(np.array(START)[:, None], len(fleet.scenario.drones), axis=1)
        self._measures.spread(fleet, start)
        self._keep_states(fleet)
        for group in fleet.groups:
            group.tables, asked = {}, fleet.settings_of(group)
            if is_shared(asked):
                group.asked = Asked(fleet.calendar.end_us // fleet.periods["autopilot"] + 2, 1)
            elif asked_of(asked, 0).shift_W is not None:
                group.asked = asked_of(asked, fleet.calendar.end_us // fleet.periods["autopilot"] + 2)
            else:
                group.asked = Asked(fleet.block_us // fleet.periods["autopilot"] + 2, len(asked))
            if self._every_us:
                topics = tuple(str(index) for index in group.drones)
                count = fleet.calendar.end_us // self._every_us + 1
                table = group.tables[STATES] = Rows(topics, len(group.plant.fields), count)
                table.rows = np.empty(table.rows.shape, dtype=fleet.precision.dtype)  # as the program writes them

    def prepare(self, fleet: Fleet, until_us: int) -> None:
        """What is asked until then"""
        for group in fleet.groups:
            asked = self._asked_at_log(fleet, group)
            if not group.asked.count:
                asked.count = 0
            cover(fleet, group, asked, "log", until_us)

    def _asked_at_log(self, fleet: Fleet, group: Group) -> Asked:
        """A table for the ticks of the log beside the autopilot's, with the same columns"""
        asked, own = self._asked.get(group.drones[0]), group.asked
        if asked is None or asked.rows.shape[2] != own.rows.shape[2] or asked.shift_W is not own.shift_W:
            ticks = len(own.rows) * fleet.periods["autopilot"] // fleet.periods["log"] + 3
            asked = self._asked[group.drones[0]] = Asked(ticks, own.rows.shape[2], own.shift_W)
        return asked

    def operations(self, fleet: Fleet, group: Group) -> list[Operation]:
        """The measures after a tick of the log, and after a look at the ground"""
        log, scenario, plant = fleet.calendar.axis("log"), fleet.calendar.axis("scenario"), group.plant
        own, asked = self._measures.of(group), self._asked_at_log(fleet, group)
        machine, touching = (
            code.machine(len(group.drones))
            for code in (in_lanes(_measures_code, [(own,) for own in group.vehicles]), _touched_code())
        )
        sizes = [0, len(REFERENCE_FIELDS), len(plant.state), len(plant.command), len(plant.environment)]
        reference, *inputs = (machine.held[a:b] for a, b in pairwise(np.cumsum(sizes)))
        sources = plant.state, plant.command, plant.environment
        return [
            *_around(own, touching, scenario, [Operation("copy", scenario, (group.touch[3:], touching.held, 1))]),
            *_around(
                own,
                machine,
                log,
                [
                    *taken(asked, reference, log, fleet.periods["log"]),
                    *(Operation("copy", log, (a, b, len(a))) for a, b in zip(sources, inputs, strict=True)),
                ],
            ),
            *fleet.put(
                group,
                STATES,
                self,
                plant.state,
                due=fleet.calendar.bit(self._every_us) if self._every_us else 0,
                period=self._every_us,
            ),
        ]

    def collect(self, fleet: Fleet, *, passed: bool) -> None:
        """Nothing to hand on"""

    def log_end(self, fleet: Fleet) -> None:
        """Nothing: no state is recorded"""

    def flush(self, fleet: Fleet) -> None:
        """What was kept of the states, before groups are others and at the end"""
        self._keep_states(fleet)

    def _keep_states(self, fleet: Fleet) -> None:
        for group in fleet.groups:
            table = group.tables.get(STATES)
            if table is not None and table.count:
                self.states.append((group.indices, table.times[: table.count], table.rows[: table.count]))
                table.count = 0


def _around(own: np.ndarray, machine: Machine, due: int, inputs: list[Operation]) -> list[Operation]:
    return [
        Operation("copy", due, (own, machine.carry, len(own))),
        *inputs,
        Operation("run", due, (machine,)),
        Operation("copy", due, (machine.carry, own, len(own))),
    ]


@lru_cache(maxsize=CODES)
def _measures_code(vehicle: Vehicle) -> CompiledStep:
    def after(own: Any, held: Any) -> Measures:
        reference, state, command, environment = held
        return measured(own, state, command, reference, vehicle, environment)

    given = Reference(ZERO), at_rest(vehicle), empty_command(vehicle), environment_of(vehicle)
    return CompiledStep(after, START, given)


@lru_cache(maxsize=1)
def _touched_code() -> CompiledStep:
    return CompiledStep(touched, START, 0.0)
