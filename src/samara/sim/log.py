"""The log of a flight: tables that the executors fill, blocks for the recorder, and the occurrences detected in them."""

from functools import lru_cache
from typing import Any

import numpy as np

from samara.control.registry import look_ahead_count
from samara.core.tree import unflatten
from samara.core.types import Array
from samara.physics.types import BODY_STATE_SIZE, REFERENCE_FIELDS
from samara.record.derived_outputs import compiled_outputs
from samara.record.flight_streams import STATUS_FIELDS, RowBuffer, load_fields, occurrence_blocks
from samara.record.metrics import FlightMetrics
from samara.record.streams import LogLine, Sink, StreamBlock
from samara.scenario.flight_events import ContactTarget, OccurrenceType, status_change
from samara.scenario.timeline import MICROSECONDS, sampling
from samara.sensors.camera import CameraModel
from samara.sim.executors.llvm import SlotTable
from samara.sim.fleet import Fleet
from samara.sim.group import Group
from samara.sim.python_controllers import require_valid
from samara.sim.ray_sensors import is_ray_sensor
from samara.sim.references import ReferenceTable, fill_table, is_shared, reference_table, tabulate_references
from samara.sim.schedule import Span
from samara.sim.stage import PythonStage
from samara.sim.stages.metrics import LOG_REFERENCE

INPUTS = "inputs"  # commands and environments of the logged states: not recorded, the outputs are computed from them
ENVIRONMENTS = "environments"  # the environment after every tick of the wind; changes are recorded
CONTACTS = "contacts"  # contact at every tick of the scenario; changes are recorded
INVALID_COUNTS = "invalid"  # count of commands that are not finite: checked, not recorded
CHANGE_TABLES = ("status", "environment")  # tables with one row per change
INTERNAL_TABLES = (INPUTS, INVALID_COUNTS, ENVIRONMENTS, CONTACTS)


class StatusReport:
    """Turns the contact of every scenario tick into occurrences (landed, took off, crashed) and rows of `status`."""

    def __init__(self, drones: int) -> None:
        self._reported = np.full((len(STATUS_FIELDS), drones), np.nan)
        self._checked_us = -1

    def collect(self, fleet: Fleet) -> None:
        """Report the occurrences of all ticks since the last call, in order."""
        for group in fleet.groups:
            fleet.landed[group.indices], fleet.crashed[group.indices] = group.slots["status"] > 0.5
        if CONTACTS not in fleet.groups[0].tables:
            return
        tables = [group.tables[CONTACTS] for group in fleet.groups]
        times = tables[0].times[: tables[0].count]
        first = int(np.searchsorted(times, self._checked_us, side="right"))
        if first == len(times):
            return
        contacts = tables[0].rows[first : tables[0].count]
        if len(tables) > 1:
            contacts = np.empty((len(times) - first, 4, len(fleet.scenario.drones)))
            for group, table in zip(fleet.groups, tables, strict=True):
                contacts[:, :, group.indices] = table.rows[first : table.count]
        previous = np.concatenate([self._reported[None], contacts[:-1, :2]])
        for k in np.flatnonzero((contacts[:, :2] != previous).any(axis=(1, 2)) | contacts[:, 2].any(axis=1)).tolist():
            time_us = int(times[first + k])
            for index in np.flatnonzero(contacts[k, 2]).tolist():
                speed = float(contacts[k, 3, index])
                fleet.log_warning(
                    fleet.record_occurrence(
                        index, OccurrenceType.CRASHED, time_us=time_us, target=ContactTarget.GROUND, speed=speed
                    )
                )
            self.report(fleet, time_us, contacts[k, :2])
        self._checked_us = int(times[-1])

    def report(self, fleet: Fleet, time_us: int, status: Array) -> None:
        """Record changes of landed and crashed (1 or 0) of all drones at a time."""
        if np.array_equal(status, self._reported):
            return
        previous, self._reported = self._reported, status.copy()
        for index in np.flatnonzero((previous != status).any(axis=0) & np.isfinite(previous[0])).tolist():
            change = status_change(previous[:, index].tolist(), status[:, index].tolist())
            if change and change is not OccurrenceType.CRASHED:  # already recorded, with the obstacle
                fleet.record_occurrence(index, change, time_us=time_us)
        for group in fleet.groups:
            if "status" in group.tables:
                group.tables["status"].add(time_us, status[:, group.indices])


class EnvironmentStage(PythonStage):
    """Records every drone's environment and load when one of them has changed; replays need them."""

    reason = "an environment that Python changed"

    def __init__(self) -> None:
        self._recorded: dict[int, Array] = {}  # by the first drone of a group: the environment of its last row
        self._groups: list[Group] = []
        self._checked_us = -1

    def prepare(self, fleet: Fleet) -> None:
        """Discard the rows recorded for former groups."""
        if self._groups is not fleet.groups:
            self._recorded.clear()
            self._groups = fleet.groups

    def is_due(self, fleet: Fleet, span: Span, *, needed: bool) -> Array:
        """Mark the first instant if the environment has changed; the simulation inserts later changes."""
        due = np.zeros(len(span.times_us), dtype=bool)
        due[0] = fleet.environment_changed
        return due

    def collect(self, fleet: Fleet) -> None:
        """Record the environments of all drones at the wind ticks that changed one of them."""
        if not self._recorded or ENVIRONMENTS not in fleet.groups[0].tables:
            return
        tables = [group.tables[ENVIRONMENTS] for group in fleet.groups]
        times = tables[0].times[: tables[0].count]
        new_rows = slice(int(np.searchsorted(times, self._checked_us, side="right")), len(times))
        if new_rows.start == new_rows.stop:
            return
        changed = np.zeros(new_rows.stop - new_rows.start, dtype=bool)
        for group, table in zip(fleet.groups, tables, strict=True):
            rows = table.rows[new_rows]
            changed[0] |= (rows[0] != self._recorded[group.drones[0]]).any()
            changed[1:] |= (rows[1:] != rows[:-1]).any(axis=(1, 2))
        changed_rows = np.flatnonzero(changed) + new_rows.start
        for group, table in zip(fleet.groups, tables, strict=True) if len(changed_rows) else ():
            self._record(fleet, group, times[changed_rows], table.rows[changed_rows])
        self._checked_us = int(times[-1])

    def update(self, fleet: Fleet) -> None:
        if not fleet.environment_changed:
            return
        for group in fleet.groups:
            self._record(fleet, group, np.array([fleet.time_us]), group.slots["environment"][None])
        self._checked_us, fleet.environment_changed = fleet.time_us, False

    def _record(self, fleet: Fleet, group: Group, times_us: Array, environments: Array) -> None:
        """Record environments (rows, fields, drones) at increasing times; a row at the time of the last one replaces it."""
        table = group.tables.get("environment")
        if table is None:
            return
        if table.count and table.times[table.count - 1] == times_us[0]:
            table.count -= 1
        settings = fleet.drone_settings(group)
        load_size = len(load_fields(group.vehicle))
        loads = [
            [setting.payload.mass, *setting.payload.r_B, setting.faults.remaining_cells, setting.cable_attached][
                :load_size
            ]
            for setting in settings
        ]
        table.extend(times_us, environments, np.array(loads).T[None])
        self._recorded[group.drones[0]] = environments[-1].copy()


class Log:
    """States, references and estimates at the rate of the log; tables are flushed to the sink once per block."""

    def __init__(self, sink: Sink | None) -> None:
        self._sink, self._flushed_us, self._end_logged = sink, 0, False
        self._pending: list[tuple[list[StreamBlock], list[LogLine]]] = []  # blocks and lines the sink has not accepted

    def next_flush_us(self, fleet: Fleet) -> int:
        """Time of the next flush, a tick of the log [µs]."""
        period = fleet.periods["log"]
        return -(-(self._flushed_us + fleet.block_us) // period) * period

    def streams(self, fleet: Fleet, group: Group) -> list[SlotTable]:
        """List the streams that a compiled flight writes into tables."""
        streams = [
            SlotTable("state", ("state",), "log", "log"),
            SlotTable(INPUTS, ("command", "environment"), "log", "log"),
        ]
        if group.estimate is not group.slots["state"]:
            streams.append(
                SlotTable(
                    "estimate", ("estimate.p_W", "estimate.v_W", "estimate.q_WB", "estimate.omega_B"), "log", "log"
                )
            )
        if "variance" in group.tables:
            streams.append(SlotTable("variance", ("variances",), "log", "log"))
        if "predicted_path" in group.tables:
            streams.append(SlotTable("predicted_path", ("predicted_path",), "log", "log"))
        if "invalid_commands" in group.slots:
            rate = _invalid_count_clock(fleet)
            entry = "controller" if rate == "control" else "log"
            streams.append(SlotTable(INVALID_COUNTS, ("invalid_commands",), entry, rate))
            streams.append(SlotTable("command", ("command",), "controller", "control"))
        streams.append(SlotTable(CONTACTS, ("impact_status",), "contact", "scenario"))
        streams.append(SlotTable(ENVIRONMENTS, ("environment",), "environment", "wind"))
        for sensor in group.setup.sensors:
            if sensor.traced:
                every, delay = sampling(sensor, fleet.periods["sensor"])
                streams.append(SlotTable(sensor.name, (f"{sensor.name}/reading",), "sensors", "sensor", every, delay))
        return streams

    def prepare(self, fleet: Fleet, until_us: int) -> None:
        """Prepare for a compiled flight to a time."""

    def create_tables(self, fleet: Fleet) -> None:
        """Create empty tables for new groups."""
        for group in fleet.groups:
            group.tables = _empty_tables(fleet, group)

    def collect(self, fleet: Fleet, *, log_has_run: bool) -> None:
        """Add the references of the rows since the last call, and require finite states and commands."""
        failures = [failure for group in fleet.groups if (failure := _first_nonfinite_state(group))]
        first_failure = min(failures, key=lambda failure: failure[0], default=None)
        self._check_commands(fleet, first_failure[0] if first_failure else fleet.time_us + 1)
        if first_failure:
            self._end_flight(fleet, *first_failure)
        _fill_references(fleet)
        if log_has_run and fleet.time_us - self._flushed_us >= fleet.block_us:
            self.flush(fleet)

    def _check_commands(self, fleet: Fleet, until_us: int) -> None:
        """Check the commands before a time, in order; rows after one that ends the flight are dropped."""
        new_counts = []
        for group_index, group in enumerate(fleet.groups):
            counts = group.tables[INVALID_COUNTS]
            is_new = (counts.rows[: counts.count, 0] != group.invalid_reported).any(axis=1)
            new_counts += [(int(counts.times[k]), group_index, k) for k in np.flatnonzero(is_new).tolist()]
        for time_us, group_index, k in sorted(new_count for new_count in new_counts if new_count[0] < until_us):
            group = fleet.groups[group_index]
            try:
                require_valid(fleet, group, time_us, group.tables[INVALID_COUNTS].rows[k, 0])
            except FloatingPointError:
                _truncate(fleet, time_us, len(fleet.stages))
                _fill_references(fleet)
                raise

    def _end_flight(self, fleet: Fleet, time_us: int, group: Group, rows: Array) -> None:
        """End the flight at a state that is not finite; later rows are dropped."""
        _truncate(fleet, time_us, fleet.entry_index("log"))
        _fill_references(fleet)
        row, column = (int(i) for i in np.argwhere(~np.isfinite(rows))[0])
        message = (
            f"{fleet.drone_name(group.drones[column])}: {group.plant.fields[row]} is {rows[row, column]} "
            f"at {time_us / MICROSECONDS:.6f} s; expected a finite number"
        )
        fleet.record_occurrence(group.drones[column], OccurrenceType.STATE_NOT_FINITE)
        fleet.log_message("error", message)
        self.flush(fleet)
        raise FloatingPointError(message)

    def log_end(self, fleet: Fleet) -> None:
        """Record the last state of a flight that ends between two ticks of the log."""
        if self._end_logged or fleet.time_us % fleet.periods["log"] == 0:
            return
        self._end_logged = True
        for group in fleet.groups:
            slots, tables = group.slots, group.tables
            tables["state"].add(fleet.time_us, slots["state"])
            tables[INPUTS].add(fleet.time_us, slots["command"], slots["environment"])
            if group.estimate is not slots["state"]:
                tables["estimate"].add(fleet.time_us, group.estimate[:BODY_STATE_SIZE])
            if "variance" in tables:
                tables["variance"].add(fleet.time_us, slots["variances"])
            if "predicted_path" in tables:
                tables["predicted_path"].add(fleet.time_us, slots["predicted_path"])
        self.collect(fleet, log_has_run=False)
        self.flush(fleet)

    def flush(self, fleet: Fleet) -> None:
        """Pass the rows recorded since the last flush to the sink."""
        for stream_table in fleet.stream_tables.values():
            stream_table.first[0] += stream_table.table.count
        if self._sink is not None:
            blocks = [block for group in fleet.groups for block in _blocks(group)]
            self._pending.append(([*blocks, *occurrence_blocks(fleet.occurrences, fleet.scenario.drones)], fleet.logs))
        fleet.logs, fleet.occurrences = [], []
        for group in fleet.groups:
            for table in group.tables.values():
                table.count = 0
        for stream_table in fleet.stream_tables.values():
            stream_table.refresh_address()
        self._flushed_us = fleet.time_us
        while self._sink is not None and self._pending:
            self._sink(*self._pending[0])
            del self._pending[0]  # only now: Ctrl-C may have interrupted the sink


def _first_nonfinite_state(group: Group) -> tuple[int, Group, Array] | None:
    """Return time, group and values of the first new state that is not finite."""
    state = group.tables["state"]
    new_rows = slice(group.tables["reference"].count, state.count)
    bad_rows = np.flatnonzero(~np.isfinite(state.rows[new_rows].sum(axis=(1, 2))))
    if not len(bad_rows):
        return None
    row = new_rows.start + int(bad_rows[0])
    return int(state.times[row]), group, state.rows[row].copy()


def _fill_references(fleet: Fleet) -> None:
    """Add the references at the times of new states."""
    for group in fleet.groups:
        state, reference = group.tables["state"], group.tables["reference"]
        new_rows = slice(reference.count, state.count)
        if new_rows.start < new_rows.stop:
            reference.times[new_rows] = state.times[new_rows]
            tabulate_references(fleet.drone_settings(group), state.times[new_rows], out=reference.rows[new_rows])
            for k in range(new_rows.start, new_rows.stop) if group.external_references else ():
                columns, rows = group.external_references.pop(int(state.times[k]), ([], 0.0))
                reference.rows[k, :, columns] = np.transpose(rows)
            reference.count = state.count


def _truncate(fleet: Fleet, time_us: int, entries_run: int) -> None:
    """Drop the rows recorded after the first `entries_run` entries of an earlier instant, and set the fleet back to it."""
    for stream_table in fleet.stream_tables.values():
        stream_table.count_rows(time_us, entries_run)
    for group in fleet.groups:
        for table in (group.tables[name] for name in CHANGE_TABLES if name in group.tables):
            table.count = int(np.searchsorted(table.times[: table.count], time_us, side="right"))
    fleet.occurrences = [row for row in fleet.occurrences if row.time_us <= time_us]
    fleet.logs = [row for row in fleet.logs if row.time_us <= time_us]
    fleet.time_us, fleet.entries_run = time_us, entries_run


def _invalid_count_clock(fleet: Fleet) -> str:
    """Return the clock at which invalid commands are counted: a strict flight ends at the first."""
    return "control" if fleet.scenario.strict else "log"


def _empty_tables(fleet: Fleet, group: Group) -> dict[str, RowBuffer]:
    commands, environment = len(group.slots["command"]), len(group.slots["environment"])
    sizes = {
        "state": (len(group.plant.fields), "log"),
        "command": (commands, "control"),
        "reference": (len(REFERENCE_FIELDS), "log"),
        "estimate": (BODY_STATE_SIZE, "log"),
        "environment": (environment + len(load_fields(group.vehicle)), "wind"),
        "status": (len(STATUS_FIELDS), "scenario"),
        INPUTS: (commands + environment, "log"),
        INVALID_COUNTS: (1, _invalid_count_clock(fleet)),
        CONTACTS: (4, "scenario"),
        ENVIRONMENTS: (environment, "wind"),
    }
    horizon_lengths = {look_ahead_count(fleet.scenario.drones[index].controller) for index in group.drones}
    if "predicted_path" in group.slots and horizon_lengths == {len(group.look_ahead)} != {
        0
    }:  # only if the recording has this stream
        sizes["predicted_path"] = (3 * len(group.look_ahead), "log")
    if len(group.slots.get("variances", ())):
        sizes["variance"] = (len(group.slots["variances"]), "log")
    if callable(group.setup.controller):
        sizes["command_excess"] = (commands, "control")
    sizes |= {sensor.name: (len(sensor.fields), "sensor") for sensor in group.setup.sensors}
    sizes |= {name: (images[0].size, "sensor") for name, images in group.images.items()}
    image_periods_us = {
        name: sampling(sensor, fleet.periods["sensor"])[0] * fleet.periods["sensor"]
        for sensor in group.setup.sensors
        if is_ray_sensor(sensor) or isinstance(sensor.model, CameraModel)
        for name in (sensor.name, *(f"{sensor.name}/{image.name}" for image in sensor.images))
    }
    drones = [fleet.drone_name(index) for index in group.drones]
    max_block_us = fleet.max_block_us + fleet.periods["log"]  # a block ends at a tick of the log
    return {
        name: RowBuffer(
            tuple(f"/{drone}/{name}" for drone in drones),
            fields,
            max_block_us // image_periods_us.get(name, fleet.periods[clock]) + 2,
            group.images[name].dtype.str if name in group.images else "float64",
        )
        for name, (fields, clock) in sizes.items()
    }


def _blocks(group: Group) -> list[StreamBlock]:
    """Return the recorded blocks of a group, and the outputs computed from them."""
    inputs = group.tables[INPUTS]
    blocks = {
        key: table.take_block() for key, table in group.tables.items() if table.count and key not in INTERNAL_TABLES
    }
    return [*blocks.values(), *([_outputs(group, blocks["state"], inputs)] if "state" in blocks else [])]


def _outputs(group: Group, state: StreamBlock, inputs: RowBuffer) -> StreamBlock:
    """Compute supply and airspeed of all logged states, by the equations of the flight."""
    commands = len(group.slots["command"])
    count = min(len(state.times_us), inputs.count)  # Ctrl-C may come between the two
    rows, input_rows = state.rows[:count], inputs.rows[:count]
    outputs = compiled_outputs(*group.vehicles).rows(rows, input_rows[:, :commands], input_rows[:, commands:])
    return StreamBlock(_output_topics(state.topics), state.times_us[:count], outputs)


@lru_cache(maxsize=64)
def _output_topics(states: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(topic.removesuffix("state") + "derived" for topic in states)


STATES = "states"


class MetricsLog(Log):
    """Replaces the recording: the metrics of each flight, and its states at a requested period."""

    def __init__(self, period_us: int = 0) -> None:
        """Save states every `period_us` [µs], a multiple of the log's period; 0 saves none."""
        super().__init__(None)
        self._record_period_us = period_us
        self.states: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []  # drones, times, (times, components, drones)

    def next_flush_us(self, fleet: Fleet) -> int:
        """Time up to which the reference tables are filled [µs]."""
        ahead = min(len(group.reference_table.rows) for group in fleet.groups) - 2
        return fleet.time_us + ahead * fleet.periods["control"]

    def metrics(self, fleet: Fleet) -> FlightMetrics:
        """Return the metrics of all drones, as arrays."""
        rows = np.empty((len(FlightMetrics._fields), len(fleet.scenario.drones)))
        for group in fleet.groups:
            rows[:, group.indices] = group.slots["metrics"]
        metrics: FlightMetrics = unflatten(FlightMetrics.initial(), iter(rows))
        return metrics

    def streams(self, fleet: Fleet, group: Group) -> list[SlotTable]:
        """List the stream of saved states; [] if none are saved."""
        self.log_references(fleet, group)  # the compiled flight reads the table
        every = self._record_period_us // fleet.periods["log"]
        return [SlotTable(STATES, ("state",), "metrics", "log", every)] if every else []

    def create_tables(self, fleet: Fleet) -> None:
        """Create the tables; references that all drones share, up to a shift, are tabulated once per flight."""
        self._save_states(fleet)
        ticks = fleet.schedule.end_us // fleet.periods["control"] + 2
        for group in fleet.groups:
            group.tables, settings = {}, fleet.drone_settings(group)
            if is_shared(settings):
                group.reference_table = ReferenceTable(ticks, 1)
            elif reference_table(settings, 0).shift_W is not None:
                group.reference_table = reference_table(settings, ticks)
            else:
                group.reference_table = ReferenceTable(fleet.block_us // fleet.periods["control"] + 2, len(settings))
            if self._record_period_us:
                topics = tuple(str(index) for index in group.drones)
                count = fleet.schedule.end_us // self._record_period_us + 1
                table = group.tables[STATES] = RowBuffer(topics, len(group.plant.fields), count)
                table.rows = np.empty(table.rows.shape, dtype=fleet.precision.dtype)

    def prepare(self, fleet: Fleet, until_us: int) -> None:
        """Tabulate the references at the ticks of the log up to a time."""
        for group in fleet.groups:
            fill_table(fleet, group, self.log_references(fleet, group), until_us)

    def log_references(self, fleet: Fleet, group: Group) -> ReferenceTable:
        """Return the reference table at the ticks of the log, with the columns of the controllers' table."""
        table, controller_table = group.reference_tables.get(LOG_REFERENCE), group.reference_table
        columns, shift_W = controller_table.rows.shape[2], controller_table.shift_W
        if table is None or table.rows.shape[2] != columns or table.shift_W is not shift_W:
            ticks = len(controller_table.rows) * fleet.periods["control"] // fleet.periods["log"] + 3
            table = ReferenceTable(ticks, columns, shift_W, "log")
            group.reference_tables[LOG_REFERENCE] = table
        return table

    def collect(self, fleet: Fleet, *, log_has_run: bool) -> None:
        """Do nothing: a batch is not recorded."""

    def log_end(self, fleet: Fleet) -> None:
        """Do nothing: a batch is not recorded."""

    def flush(self, fleet: Fleet) -> None:
        """Save the collected states, before regrouping and at the end."""
        self._save_states(fleet)

    def _save_states(self, fleet: Fleet) -> None:
        for group in fleet.groups:
            table: Any = group.tables.get(STATES)
            if table is not None and table.count:
                self.states.append((group.indices, table.times[: table.count], table.rows[: table.count]))
                table.count = 0
