"""The Python executor: calls every stage with floats, drone after drone, instant by instant. It defines what a flight is.

Slow, and made for debuggers: a breakpoint in any stage or equation stops with plain named tuples of floats.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from samara.core.random import normals
from samara.core.tree import flatten, unflatten
from samara.scenario.timeline import MICROSECONDS
from samara.sim.executors.llvm import Position, make_stream_table
from samara.sim.references import ReferenceTable
from samara.sim.schedule import Span
from samara.sim.stage import CLOCK, PHYSICS, Entry, Stage
from samara.sim.streams import Stream, StreamTable
from samara.sim.tiles import Tiles

if TYPE_CHECKING:
    from samara.sim.fleet import Fleet
    from samara.sim.group import Group

Array = np.ndarray[Any, Any]


class Instant(NamedTuple):
    """A row of a schedule: the time [µs], and the number and length [s] of the physics steps that lead to it."""

    time_us: int
    steps: int
    due: int
    dt: float


class PythonProgram:
    """The stages of one group, with the interface of `samara.sim.executors.llvm.Program`."""

    def __init__(self, fleet: "Fleet", group: "Group") -> None:
        self.fleet, self.group = fleet, group
        self.python: list[Entry] = [entry for entry in fleet.stages if group.sets[entry.name][0].python]
        self.parts, self.memory = [Tiles(0, len(group), len(group))], _NoMemory()
        for sets in group.sets.values():
            for stage in sets[0].stages:
                self._bit(stage)  # before any span is made: it marks only what has a bit
        streams = fleet.log.streams(fleet, group) if fleet.log is not None else []
        self._streams: list[list[tuple[Stream, StreamTable, int]]] = []
        for place, entry in enumerate(fleet.stages):
            own = [stream for stream in streams if stream.entry == entry.name and stream.name in group.tables]
            tables = [make_stream_table(fleet, group, stream, place) for stream in own]
            self._streams.append([(stream, *pair) for stream, pair in zip(own, tables, strict=True)])

    def set_clocks(self) -> None:
        """Nothing: the dt of a stage is looked up when it runs"""

    def run(
        self, span: Span, start: Position, end: Position, part: Tiles, *, briefly: bool, shared: int = 0
    ) -> Position:
        """From a position to before another: how far it came, not to the end where a stage interrupted it"""
        lengths = span.rows.view(np.float64)[:, 3]
        for row in range(start.row, end.row + 1):
            time_us, steps, due = (int(x) for x in span.rows[row, :3])
            instant = Instant(time_us, steps, due, float(lengths[row]))
            first = start.entry if row == start.row else 0
            last = end.entry if row == end.row else len(self.fleet.stages)
            for place in range(first, last):
                if self._run_entry(place, instant):
                    return Position(row, place + 1)
        return end

    def _run_entry(self, place: int, instant: Instant) -> bool:
        """All stages of an entry that are due, and its streams; whether one of them interrupts the flight"""
        group, entry = self.group, self.fleet.stages[place]
        interrupted = False
        for stages in zip(*(own.stages for own in group.sets[entry.name]), strict=True):
            if stages[0].rate == PHYSICS:
                for lane in range(len(group)):
                    for _ in range(instant.steps):
                        self._update(stages[lane % len(stages)], lane, instant)
            elif instant.due & self._bit(stages[0]):
                self._take_references(stages[0], instant)
                for lane in range(len(group)):
                    interrupted |= self._update(stages[lane % len(stages)], lane, instant)
        for stream, table, bit in self._streams[place]:
            if instant.due & bit:
                tick = (instant.time_us - table.offset_us) // table.period_us - int(table.first[0])
                table.table.rows[tick] = np.concatenate([group.rows(path) for path in stream.slots])
        return interrupted

    def _update(self, stage: Stage, lane: int, instant: Instant) -> bool:
        group, inputs = self.group, list[Any]()
        for path in stage.reads:
            if path == "time":
                inputs.append(instant.time_us / MICROSECONDS)
            elif path == "dt":
                inputs.append(self._dt(stage, instant))
            else:
                slot, first, template = group.part(path)
                leaves = group.slots[slot][first : first + len(flatten(template)), lane].tolist()
                inputs.append(unflatten(template, iter(leaves)))
        if stage.normals is not None:
            inputs.append(self._normals(stage, lane, instant))
        if stage.skip_when is not None and stage.skip_when(*inputs[: len(stage.reads)]):
            return False
        last = 0.0
        for path, value in zip(stage.writes, stage(*inputs), strict=True):
            leaves = [float(leaf) for leaf in flatten(value)]
            group.rows(path)[:, lane] = leaves
            last = leaves[-1] if leaves else last
        return stage.interrupts and last != 0.0

    def _dt(self, stage: Stage, instant: Instant) -> float:
        if stage.rate == PHYSICS:
            return instant.dt
        if stage.initial_dt is not None and stage.name not in self.group.has_run:
            return stage.initial_dt
        return stage.every * self.fleet.periods[stage.rate] / MICROSECONDS

    def _normals(self, stage: Stage, lane: int, instant: Instant) -> tuple[float, ...]:
        assert stage.normals is not None
        source, count, shared = stage.normals
        tick, seed = instant.time_us // self.fleet.periods[stage.rate], self.group.seeds[lane]
        own = normals(seed, source, int(self.group.numbers[lane]), tick, count).tolist()
        common = normals(seed, source, 0, tick, count).tolist() if any(shared) else own
        return tuple(b if one else a for a, b, one in zip(own, common, shared or (False,) * count, strict=True))

    def _take_references(self, stage: Stage, instant: Instant) -> None:
        for path in stage.reads:
            table: ReferenceTable | None = None if path in CLOCK else self.group.reference_tables.get(path)
            if table is not None and table.clock == stage.rate:
                row = table.rows[instant.time_us // self.fleet.periods[stage.rate] - int(table.first[0])]
                self.group.slots[path][:] = row
                if table.shift_W is not None:
                    self.group.slots[path][:3] += table.shift_W

    def _bit(self, stage: Stage) -> int:
        period = self.fleet.periods[stage.rate]
        return self.fleet.schedule.bit(stage.every * period, stage.delay * period)


class _NoMemory:
    """Slots are where they are."""

    def fill(self) -> None:
        """Nothing"""

    def give_back(self) -> None:
        """Nothing"""
