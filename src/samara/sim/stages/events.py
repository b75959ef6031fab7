"""Events: each once, when its time has come or its condition holds, in the order they are listed."""

import numpy as np

from samara.scenario.battery_failsafe import failsafe_events
from samara.scenario.events import Event, When
from samara.scenario.scenario import Scenario
from samara.sim.calendar import Span
from samara.sim.fleet import Fleet
from samara.sim.fleet_bus import bus_of
from samara.sim.stage import Stage
from samara.sim.start import timed_events


class EventsStage(Stage):
    """Due at every instant: a time an event names need not be on any axis. Conditions are looked at on the scenario's."""

    def __init__(self, scenario: Scenario, physics_us: int) -> None:
        self._timed = timed_events(scenario, physics_us)
        self._conditional = [event for event in scenario.events if isinstance(event.trigger, When)]
        self._conditional += [event for own in scenario.drones for event in failsafe_events(own)]

    def visits(self, fleet: Fleet, span: Span, *, python: bool) -> np.ndarray:
        """At the times events name; and where a condition is to be looked at"""
        found = np.isin(span.times_us, [time for time, _ in self._timed])
        return found | span.at(fleet.calendar.axis("scenario")) if self._conditional else found

    def update(self, fleet: Fleet) -> None:
        due: list[Event] = []
        while self._timed and self._timed[-1][0] <= fleet.time_us:
            due.append(self._timed.pop()[1])
        watching = fleet.on_scenario_axis and self._conditional
        if not (due or watching):
            return
        bus = bus_of(fleet)
        if watching:
            met = [own for own in self._conditional if isinstance(own.trigger, When) and own.trigger.condition(bus)]
            self._conditional = [own for own in self._conditional if not any(own is other for other in met)]
            due += met
        after = fleet.setting
        for event in due:
            after = event.action(after, bus)
            fleet.say("info", event.name)
        if after is not fleet.setting:
            fleet.apply(after)
