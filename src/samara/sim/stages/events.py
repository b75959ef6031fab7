"""Events stage: applies each event once, at its time or when its condition holds, in the order listed."""

from typing import TYPE_CHECKING

import numpy as np

from samara.core.ops import where
from samara.core.quantity import Scalar, Tree
from samara.physics.types import Command, Environment, Reference, State, Vehicle
from samara.scenario.batteries import evaluate_batteries, failsafe_events
from samara.scenario.events import Condition, ConditionInputs, ConditionTrigger, Event, is_satisfied
from samara.scenario.scenario import Scenario
from samara.sim.initial_state import timed_events
from samara.sim.setup import DroneSetup
from samara.sim.stage import PythonStage, Stage, StageSet
from samara.sim.stages.physics import Status

if TYPE_CHECKING:
    from samara.sim.fleet import Fleet
    from samara.sim.schedule import Span

CONDITION_FLAGS, CONDITION_MASKS = "conditions", "conditions/applies"


def check_conditions(
    time: Scalar,
    reference: Reference,
    status: Status,
    state: State,
    command: Command,
    environment: Environment,
    applies: tuple[Scalar, ...],
    *,
    vehicle: Vehicle,
    conditions: tuple[Condition, ...],
) -> tuple[Tree]:
    """Return 1 for each condition that applies to the drone and is satisfied, else 0; and the sum of these."""
    drone = ConditionInputs(state, reference, *status, evaluate_batteries(state, command, vehicle, environment))
    met = [
        where(is_satisfied(condition, time, drone), mask, 0.0)
        for condition, mask in zip(conditions, applies, strict=True)
    ]
    return ((tuple(met), sum(met)),)


class EventsStage(PythonStage):
    """Applies events. Events may lie between clock ticks; conditions are checked at the scenario's ticks.

    A compiled flight of a single tile checks the conditions that can be traced, and stops when one holds.
    """

    reason = "conditions of events"

    def __init__(self, scenario: Scenario, physics_us: int) -> None:
        self._timed = timed_events(scenario, physics_us)
        self._conditional = [event for event in scenario.events if isinstance(event.trigger, ConditionTrigger)]
        self._conditional += [event for drone in scenario.drones for event in failsafe_events(drone)]
        self._compiled: tuple[Event, ...] = ()

    def build(self, setup: DroneSetup) -> StageSet:
        """Build the stage that checks the traced conditions."""
        self._compiled = (
            tuple(event for event in self._conditional if _condition(event)) if setup.flight.can_interrupt else ()
        )
        if not self._compiled:
            return StageSet(python_reason=self.reason if self._conditional else "")
        zeros = tuple(0.0 for _ in self._compiled)
        reads = ("time", "reference", "status", "state", "command", "environment", CONDITION_MASKS)
        parameters = (("vehicle", setup.vehicle), ("conditions", tuple(map(_condition, self._compiled))))
        stage = Stage(
            "conditions", "scenario", check_conditions, reads, (CONDITION_FLAGS,), parameters, interrupts=True
        )
        return StageSet((stage,), {CONDITION_FLAGS: (zeros, 0.0), CONDITION_MASKS: zeros})

    def prepare(self, fleet: "Fleet") -> None:
        """Set the drones each condition applies to."""
        for group in fleet.groups if self._compiled else ():
            names = [fleet.drone_name(index) for index in group.drones]
            for row, event in zip(group.slots[CONDITION_MASKS], self._compiled, strict=True):
                drone_name = event.trigger.drone if isinstance(event.trigger, ConditionTrigger) else ""
                row[:] = [drone_name in ("", name) for name in names]

    def is_due(self, fleet: "Fleet", span: "Span", *, needed: bool) -> np.ndarray:
        """Mark the times of events, and the scenario's ticks if Python checks a condition."""
        due = span.due_rows(fleet.schedule.clock("scenario") if len(self._compiled) < len(self._conditional) else 0)
        return due | np.isin(span.times_us, [time for time, _ in self._timed]) if self._timed else due

    def update(self, fleet: "Fleet") -> None:
        due: list[Event] = []
        while self._timed and self._timed[-1][0] <= fleet.time_us:
            due.append(self._timed.pop()[1])
        checks_conditions = fleet.on_scenario_clock and self._conditional
        if not (due or checks_conditions):
            return
        from samara.sim.fleet_snapshot import fleet_bus

        bus = fleet_bus(fleet)
        if checks_conditions:
            flagged = set()
            if self._compiled:
                flags = fleet.groups[0].slots[CONDITION_FLAGS][:-1]
                flagged = {id(event) for event, flag in zip(self._compiled, flags, strict=True) if flag.any()}
            compiled = {id(event) for event in self._compiled}
            met = [
                event
                for event in self._conditional
                if isinstance(event.trigger, ConditionTrigger)
                and (id(event) in flagged if id(event) in compiled else event.trigger.condition(bus))
            ]
            self._conditional = [event for event in self._conditional if not any(event is other for other in met)]
            due += met
            fleet.revision += bool(met)
        new_setting = fleet.setting
        for event in due:
            new_setting = event.action(new_setting, bus)
            fleet.log_message("info", event.name)
        if new_setting is not fleet.setting:
            fleet.apply_setting(new_setting)


def _condition(event: Event) -> Condition:
    return event.trigger.comparisons if isinstance(event.trigger, ConditionTrigger) else ()
