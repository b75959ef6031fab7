"""The log of a batch of flights without recordings: their metrics, and states at a requested period."""

from typing import Any

import numpy as np

from samara.core.tree import unflatten
from samara.record.flight_streams import Rows
from samara.record.metrics import FlightMetrics
from samara.sim.executors.llvm import Stream
from samara.sim.fleet import Fleet
from samara.sim.group import Group
from samara.sim.log import Log
from samara.sim.references import ReferenceTable, fill_table, is_shared, reference_table
from samara.sim.stages.metrics import LOG_REFERENCE

STATES = "states"


class MetricsLog(Log):
    """Replaces the recording: the metrics of each flight, and its states at a requested period."""

    def __init__(self, every_us: int = 0) -> None:
        """Save states every `every_us` [µs], a multiple of the log's period; 0 saves none"""
        super().__init__(None)
        self._every_us = every_us
        self.states: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []  # drones, times, (times, components, drones)

    def next_flush_us(self, fleet: Fleet) -> int:
        """Time up to which the reference tables reach  [µs]"""
        ahead = min(len(group.reference_table.rows) for group in fleet.groups) - 2
        return fleet.time_us + ahead * fleet.periods["autopilot"]

    def metrics(self, fleet: Fleet) -> FlightMetrics:
        """Return the metrics of all drones, as arrays"""
        rows = np.empty((len(FlightMetrics._fields), len(fleet.scenario.drones)))
        for group in fleet.groups:
            rows[:, group.indices] = group.slots["metrics"]
        metrics: FlightMetrics = unflatten(FlightMetrics.initial(), iter(rows))
        return metrics

    def streams(self, fleet: Fleet, group: Group) -> list[Stream]:
        """List the stream of saved states, if any"""
        self.log_references(fleet, group)  # the compiled flight reads the table
        every = self._every_us // fleet.periods["log"]
        return [Stream(STATES, ("state",), "metrics", "log", every)] if every else []

    def create_tables(self, fleet: Fleet) -> None:
        """Create tables: references common to all drones, up to a shift, are tabulated once for the whole flight"""
        self._save_states(fleet)
        ticks = fleet.schedule.end_us // fleet.periods["autopilot"] + 2
        for group in fleet.groups:
            group.tables, settings = {}, fleet.drone_settings(group)
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
                table.rows = np.empty(table.rows.shape, dtype=fleet.precision.dtype)

    def prepare(self, fleet: Fleet, until_us: int) -> None:
        """Tabulate the references at the ticks of the log up to a time"""
        for group in fleet.groups:
            fill_table(fleet, group, self.log_references(fleet, group), until_us)

    def log_references(self, fleet: Fleet, group: Group) -> ReferenceTable:
        """Return the reference table at the ticks of the log, with the columns of the controllers' table"""
        table, controller_table = group.reference_tables.get(LOG_REFERENCE), group.reference_table
        columns, shift_W = controller_table.rows.shape[2], controller_table.shift_W
        if table is None or table.rows.shape[2] != columns or table.shift_W is not shift_W:
            ticks = len(controller_table.rows) * fleet.periods["autopilot"] // fleet.periods["log"] + 3
            table = ReferenceTable(ticks, columns, shift_W, "log")
            group.reference_tables[LOG_REFERENCE] = table
        return table

    def collect(self, fleet: Fleet, *, passed: bool) -> None:
        """Do nothing: there is no recording"""

    def log_end(self, fleet: Fleet) -> None:
        """Do nothing: there is no recording"""

    def flush(self, fleet: Fleet) -> None:
        """Save the collected states, before regrouping and at the end"""
        self._save_states(fleet)

    def _save_states(self, fleet: Fleet) -> None:
        for group in fleet.groups:
            table: Any = group.tables.get(STATES)
            if table is not None and table.count:
                self.states.append((group.indices, table.times[: table.count], table.rows[: table.count]))
                table.count = 0
