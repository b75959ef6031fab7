"""Events: each once, when its time has come or its condition holds, in the order they are listed."""

from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from samara.backends.lanes import in_lanes
from samara.backends.llvm_schedule import Operation
from samara.backends.machine import CompiledStep, Machine
from samara.core.algebra import ZERO
from samara.core.ops import where
from samara.physics.multirotor import at_rest
from samara.physics.reference import Reference
from samara.physics.surroundings import empty_command, environment_of
from samara.physics.types import Vehicle
from samara.scenario.batteries import batteries_of
from samara.scenario.battery_failsafe import failsafe_events
from samara.scenario.conditions import Sentence, Watched, holds
from samara.scenario.events import Event, When
from samara.scenario.scenario import Scenario
from samara.sim.calendar import Span
from samara.sim.fleet import Fleet
from samara.sim.fleet_bus import bus_of
from samara.sim.group import Group
from samara.sim.plant import CODES
from samara.sim.stage import Stage
from samara.sim.start import timed_events
from samara.sim.tiles import is_one_tile


class EventsStage(Stage):
    """A time an event names need not be on any axis; conditions are looked at on the scenario's.

    Conditions that are sentences are watched by the program, where it flies a single tile; it stops where one is met.
    """

    in_python = "conditions of events that Python looks at"

    def __init__(self, scenario: Scenario, physics_us: int) -> None:
        self._timed = timed_events(scenario, physics_us)
        self._conditional = [event for event in scenario.events if isinstance(event.trigger, When)]
        self._conditional += [event for own in scenario.drones for event in failsafe_events(own)]
        self._watching: Machine | None = None
        self._watched: tuple[Event, ...] = ()

    def operations(self, fleet: Fleet, group: Group) -> list[Operation]:
        """Looks at all conditions that can be compiled, and stops where one is met"""
        self._watching, self._watched = None, ()
        own = tuple(event for event in self._conditional if _sentence(event))
        if not own or len(fleet.groups) > 1 or not is_one_tile(len(group.drones)):
            return []
        names, sentences = [fleet.name_of(index) for index in group.drones], tuple(map(_sentence, own))
        machine = in_lanes(_code, [(vehicle, sentences) for vehicle in group.vehicles]).machine(len(names))
        due, plant = fleet.calendar.axis("scenario"), group.plant
        inputs = (group.reference, group.status, plant.state, plant.command, plant.environment)
        places = np.cumsum([1, *(len(part) for part in inputs)])
        asked = machine.held[places[-1] :]
        for row, event in zip(asked, own, strict=True):
            about = event.trigger.drone if isinstance(event.trigger, When) else ""
            row[:] = [about in ("", name) for name in names]
        self._watching, self._watched = machine, own
        return [
            Operation("clock", due, (machine.held[:1],)),
            *(
                Operation("copy", due, (part, machine.held[a:b], len(part)))
                for part, (a, b) in zip(inputs, pairwise(places), strict=True)
            ),
            Operation("run", due, (machine,)),
            Operation("watch", due, (machine.carry[-1:],)),
        ]

    def visits(self, fleet: Fleet, span: Span, *, python: bool) -> np.ndarray:
        """At the times events name; and where a condition is to be looked at in Python"""
        found = span.at(fleet.calendar.axis("scenario") if len(self._watched) < len(self._conditional) else 0)
        return found | np.isin(span.times_us, [time for time, _ in self._timed]) if self._timed else found

    def update(self, fleet: Fleet) -> None:
        due: list[Event] = []
        while self._timed and self._timed[-1][0] <= fleet.time_us:
            due.append(self._timed.pop()[1])
        watching = fleet.on_scenario_axis and self._conditional
        if not (due or watching):
            return
        bus = bus_of(fleet)
        if watching:
            told = set()
            if self._watching is not None:
                flags = self._watching.carry[:-1]
                told = {id(event) for event, flag in zip(self._watched, flags, strict=True) if flag.any()}
            known = {id(event) for event in self._watched}
            met = [
                own
                for own in self._conditional
                if isinstance(own.trigger, When)
                and (id(own) in told if id(own) in known else own.trigger.condition(bus))
            ]
            self._conditional = [own for own in self._conditional if not any(own is other for other in met)]
            due += met
            fleet.revision += bool(met)
        after = fleet.setting
        for event in due:
            after = event.action(after, bus)
            fleet.say("info", event.name)
        if after is not fleet.setting:
            fleet.apply(after)


def _sentence(event: Event) -> Sentence:
    return event.trigger.sentence if isinstance(event.trigger, When) else ()


@lru_cache(maxsize=CODES)
def _code(vehicle: Vehicle, sentences: tuple[Sentence, ...]) -> CompiledStep:
    """Whether each sentence is true of a drone it is about, 1 or 0, and how many are."""

    def look(own: Any, held: Any) -> Any:
        time, reference, (landed, crashed), state, command, around, about = held
        drone = Watched(state, reference, landed, crashed, batteries_of(state, command, vehicle, around))
        met = [where(holds(each, time, drone), own, 0.0) for each, own in zip(sentences, about, strict=True)]
        return tuple(met), sum(met)

    none = tuple(0.0 for _ in sentences)
    now = Reference(ZERO), (0.0, 0.0), at_rest(vehicle), empty_command(vehicle), environment_of(vehicle)
    return CompiledStep(look, (none, 0.0), (0.0, *now, none))
