"""The Python executor: calls every stage with floats, drone by drone, instant by instant. It is the reference semantics.

It is slow, and intended for debugging: a breakpoint in any stage or equation shows plain named tuples of floats.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from samara.core.random import normals
from samara.core.tree import flatten, unflatten
from samara.scenario.timeline import MICROSECONDS
from samara.sim.executors.llvm import Cursor, SlotTable, StreamTable, Tiles, create_stream_table
from samara.sim.references import ReferenceTable
from samara.sim.schedule import Span
from samara.sim.stage import CLOCK_INPUTS, PHYSICS, Entry, Stage, require_writes

if TYPE_CHECKING:
    from samara.sim.fleet import Fleet
    from samara.sim.group import Group


class ScheduleRow(NamedTuple):
    """A row of a schedule: the time [µs], and the count and length [s] of the physics steps that lead to it."""

    time_us: int
    steps: int
    due: int
    dt: float


class PythonProgram:
    """The stages of one group, with the interface of `samara.sim.executors.llvm.GroupProgram`."""

    def __init__(self, fleet: "Fleet", group: "Group") -> None:
        self.fleet, self.group = fleet, group
        self.python: list[Entry] = [entry for entry in fleet.stages if group.sets[entry.name][0].python_reason]
        self.parts, self.memory = [Tiles(0, len(group), len(group))], _NoMemory()
        for sets in group.sets.values():
            for stage in sets[0].stages:
                self._bit(stage)  # spans mark only the bits that exist when they are built
        streams = fleet.log.streams(fleet, group) if fleet.log is not None else []
        self._streams: list[list[tuple[SlotTable, StreamTable, int]]] = []
        for entry_index, entry in enumerate(fleet.stages):
            entry_streams = [stream for stream in streams if stream.entry == entry.name and stream.name in group.tables]
            tables = [create_stream_table(fleet, group, stream, entry_index) for stream in entry_streams]
            self._streams.append([(stream, *pair) for stream, pair in zip(entry_streams, tables, strict=True)])

    def set_clocks(self) -> None:
        """Do nothing: the dt of a stage is computed when it runs."""

    def run(
        self, span: Span, start: Cursor, end: Cursor, part: Tiles, *, holds_lock: bool, tile_counter: int = 0
    ) -> Cursor:
        """Run from `start` to before `end`; return the cursor reached, less than `end` if a stage interrupted."""
        lengths = span.rows.view(np.float64)[:, 3]
        for row in range(start.row, end.row + 1):
            time_us, steps, due = (int(x) for x in span.rows[row, :3])
            instant = ScheduleRow(time_us, steps, due, float(lengths[row]))
            first = start.entry if row == start.row else 0
            last = end.entry if row == end.row else len(self.fleet.stages)
            for entry_index in range(first, last):
                if self._run_entry(entry_index, instant):
                    return Cursor(row, entry_index + 1)
        return end

    def _run_entry(self, entry_index: int, instant: ScheduleRow) -> bool:
        """Run the stages of an entry that are due, and write its streams; return whether a stage interrupts the flight."""
        group, entry = self.group, self.fleet.stages[entry_index]
        is_interrupted = False
        for stages in zip(*(stage_set.stages for stage_set in group.sets[entry.name]), strict=True):
            if stages[0].rate == PHYSICS:
                for column in range(len(group)):
                    for _ in range(instant.steps):
                        self._update(stages[column % len(stages)], column, instant)
            elif instant.due & self._bit(stages[0]):
                self._take_references(stages[0], instant)
                for column in range(len(group)):
                    is_interrupted |= self._update(stages[column % len(stages)], column, instant)
        for stream, table, bit in self._streams[entry_index]:
            if instant.due & bit:
                tick = (instant.time_us - table.offset_us) // table.period_us - int(table.first[0])
                table.table.rows[tick] = np.concatenate([group.rows(path) for path in stream.slots])
        return is_interrupted

    def _update(self, stage: Stage, column: int, instant: ScheduleRow) -> bool:
        group, inputs = self.group, list[Any]()
        for path in stage.reads:
            if path == "time":
                inputs.append(instant.time_us / MICROSECONDS)
            elif path == "dt":
                inputs.append(self._dt(stage, instant))
            else:
                slot, first, template = group.part(path)
                leaves = group.slots[slot][first : first + len(flatten(template)), column].tolist()
                inputs.append(unflatten(template, iter(leaves)))
        if stage.normals is not None:
            inputs.append(self._normals(stage, column, instant))
        if stage.skip_when is not None and stage.skip_when(*inputs[: len(stage.reads)]):
            return False
        last_leaf = 0.0
        templates = [group.part(path).template for path in stage.writes]
        for path, value in zip(stage.writes, require_writes(stage, stage(*inputs), templates), strict=True):
            leaves = [float(leaf) for leaf in flatten(value)]
            group.rows(path)[:, column] = leaves
            last_leaf = leaves[-1] if leaves else last_leaf
        return stage.interrupts and last_leaf != 0.0

    def _dt(self, stage: Stage, instant: ScheduleRow) -> float:
        if stage.rate == PHYSICS:
            return instant.dt
        if stage.initial_dt is not None and stage.name not in self.group.has_run:
            return stage.initial_dt
        return stage.every * self.fleet.periods[stage.rate] / MICROSECONDS

    def _normals(self, stage: Stage, column: int, instant: ScheduleRow) -> tuple[float, ...]:
        assert stage.normals is not None
        source, count, shared = stage.normals
        tick, seed = instant.time_us // self.fleet.periods[stage.rate], self.group.seeds[column]
        drone_normals = normals(seed, source, int(self.group.drone_numbers[column]), tick, count).tolist()
        flight_normals = normals(seed, source, 0, tick, count).tolist() if any(shared) else drone_normals
        return tuple(
            b if is_shared else a
            for a, b, is_shared in zip(drone_normals, flight_normals, shared or (False,) * count, strict=True)
        )

    def _take_references(self, stage: Stage, instant: ScheduleRow) -> None:
        for path in stage.reads:
            table: ReferenceTable | None = None if path in CLOCK_INPUTS else self.group.reference_tables.get(path)
            if table is not None and table.clock == stage.rate:
                row = table.rows[instant.time_us // self.fleet.periods[stage.rate] - int(table.first[0])]
                self.group.slots[path][:] = row
                if table.shift_W is not None:
                    self.group.slots[path][:3] += table.shift_W

    def _bit(self, stage: Stage) -> int:
        period = self.fleet.periods[stage.rate]
        return self.fleet.schedule.bit(stage.every * period, stage.delay * period)


class _NoMemory:
    """Memory interface without copies: stages use the slots in place."""

    def update_copies(self) -> None:
        """Do nothing."""

    def write_back(self) -> None:
        """Do nothing."""
