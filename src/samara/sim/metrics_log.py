"""What is kept of many flights of which no recording is made: their metrics, and states as often as they are asked for."""

from typing import Any

import numpy as np

from samara.core.tree import unflatten
from samara.record.metrics import FlightMetrics
from samara.record.streams import Rows
from samara.sim.fleet import Fleet
from samara.sim.group import Group
from samara.sim.log import Log
from samara.sim.references import ReferenceTable, cover, is_shared, reference_table
from samara.sim.stages.metrics import LOG_REFERENCE
from samara.sim.streams import Stream

STATES = "states"


class MetricsLog(Log):
    """In place of a recording: the metrics of each flight, and its states as often as they are asked for."""

    def __init__(self, every_us: int = 0) -> None:
        """`every_us` is how often states are kept, a multiple of the log's period; 0: never"""
        super().__init__(None)
        self._every_us = every_us
        self.states: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []  # drones, times, (times, components, drones)

    def next_flush_us(self, fleet: Fleet) -> int:
        """To the end, or as far as the references are known"""
        ahead = min(len(group.reference_table.rows) for group in fleet.groups) - 2
        return fleet.time_us + ahead * fleet.periods["autopilot"]

    def metrics(self, fleet: Fleet) -> FlightMetrics:
        """Of all drones, as arrays"""
        whole = np.empty((len(FlightMetrics._fields), len(fleet.scenario.drones)))
        for group in fleet.groups:
            whole[:, group.indices] = group.slots["metrics"]
        found: FlightMetrics = unflatten(FlightMetrics.initial(), iter(whole))
        return found

    def streams(self, fleet: Fleet, group: Group) -> list[Stream]:
        """The states, where they are kept"""
        self.log_references(fleet, group)  # which the compiled flight reads
        every = self._every_us // fleet.periods["log"]
        return [Stream(STATES, ("state",), "metrics", "log", every)] if every else []

    def regrouped(self, fleet: Fleet) -> None:
        """References that all drones share, be it at other places, are tabulated once, for the whole flight"""
        self._keep_states(fleet)
        ticks = fleet.schedule.end_us // fleet.periods["autopilot"] + 2
        for group in fleet.groups:
            group.tables, settings = {}, fleet.settings_of(group)
            if is_shared(settings):
                group.reference_table = ReferenceTable(ticks, 1)
            elif reference_table(settings, 0).shift_W is not None:
                group.reference_table = reference_table(settings, ticks)
            else:
                group.reference_table = ReferenceTable(fleet.block_us // fleet.periods["autopilot"] + 2, len(settings))
            if self._every_us:
                topics = tuple(str(index) for index in group.drones)
                count = fleet.schedule.end_us // self._every_us + 1
                table = group.tables[STATES] = Rows(topics, len(group.plant.fields), count)
                table.rows = np.empty(
                    table.rows.shape, dtype=fleet.precision.dtype
                )  # as the compiled flight writes them

    def prepare(self, fleet: Fleet, until_us: int) -> None:
        """The references at the ticks of the log until then"""
        for group in fleet.groups:
            cover(fleet, group, self.log_references(fleet, group), until_us)

    def log_references(self, fleet: Fleet, group: Group) -> ReferenceTable:
        """A table for the ticks of the log beside the controller's, with the same columns"""
        table, like = group.reference_tables.get(LOG_REFERENCE), group.reference_table
        if table is None or table.rows.shape[2] != like.rows.shape[2] or table.shift_W is not like.shift_W:
            ticks = len(like.rows) * fleet.periods["autopilot"] // fleet.periods["log"] + 3
            table = ReferenceTable(ticks, like.rows.shape[2], like.shift_W, "log")
            group.reference_tables[LOG_REFERENCE] = table
        return table

    def collect(self, fleet: Fleet, *, passed: bool) -> None:
        """Nothing to hand on"""

    def log_end(self, fleet: Fleet) -> None:
        """Nothing: no state is recorded"""

    def flush(self, fleet: Fleet) -> None:
        """Keep the states so far, before groups are others and at the end"""
        self._keep_states(fleet)

    def _keep_states(self, fleet: Fleet) -> None:
        for group in fleet.groups:
            table: Any = group.tables.get(STATES)
            if table is not None and table.count:
                self.states.append((group.indices, table.times[: table.count], table.rows[: table.count]))
                table.count = 0
