"""The compiled executor: the stages of a group of drones and the physics between them, linked into one schedule.

Each stage is traced and compiled once for its parameters; its code reads and writes the rows of the group's slots in place.
One compiled loop (`samara.compiler.llvm.flight_loop`) runs the operations of all stages in order, from one instant at which
Python is needed to the next. Stepping from instant to instant runs the same operations, one row of the schedule at a time.
"""

from collections.abc import Sequence
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from samara.compiler.batch_parameters import StepFunction, batch_code
from samara.compiler.compiled_step import CompiledStep
from samara.compiler.llvm.codegen import vector_width
from samara.compiler.llvm.flight_loop import DONE, ROW_FIELDS, ArrayPrecision, Block, FlightLoop, Operation, RowCall
from samara.compiler.thread_pool import max_threads, run_parallel
from samara.core.quantity import Tree
from samara.core.random import derive_key
from samara.core.tree import flatten, unflatten
from samara.core.types import Array
from samara.record.flight_streams import RowBuffer
from samara.scenario.timeline import MICROSECONDS
from samara.sim.references import take_operations
from samara.sim.schedule import Span
from samara.sim.stage import CLOCK_INPUTS, PHYSICS, Entry, Stage, require_writes

if TYPE_CHECKING:
    from samara.sim.fleet import Fleet
    from samara.sim.group import Group


class SlotTable(NamedTuple):
    """A table that gets one row of slots after an entry of the sequence, at every `every`-th tick of a clock."""

    name: str
    slots: tuple[str, ...]
    entry: str
    rate: str
    every: int = 1
    delay: int = 0


class StreamTable(NamedTuple):
    """A table into which a compiled flight writes a row at every tick of a period, after an entry of the sequence.

    `first` holds the tick of row 0, `address` the address of the rows. Both are arrays of one element that compiled code reads.
    """

    table: RowBuffer
    period_us: int
    offset_us: int
    entry: int
    first: Array
    address: Array

    def refresh_address(self) -> None:
        """Update the address of the table's rows for the compiled code."""
        self.address[0] = self.table.rows.ctypes.data

    def count_rows(self, time_us: int, entries_run: int) -> None:
        """Set the row count and the rows' times, at a time when the first `entries_run` entries have run."""
        ticks = time_us - self.offset_us
        rows_done = ticks // self.period_us + 1 if entries_run > self.entry else -(-ticks // self.period_us)
        self.table.count = max(rows_done - int(self.first[0]), 0)
        tick_numbers = np.arange(self.table.count, dtype=np.int64) + int(self.first[0])
        self.table.times[: self.table.count] = tick_numbers * self.period_us + self.offset_us

    def put(self, due: int, source: Array, skipped: int) -> Operation:
        """Return the operation that writes an array into the row, after the first `skipped` fields."""
        shape = len(source), self.table.rows.shape[1], skipped
        return Operation("put", due, (source, self.address, *shape, self.period_us, self.offset_us, self.first))


MIN_TILES_FOR_HALF = 4  # with more tiles, a partial remainder is worth code of half the width


class Tiles(NamedTuple):
    """Lanes from `first` to before `last`, computed `width` at a time."""

    first: int
    last: int
    width: int

    @property
    def tile_count(self) -> int:
        """Number of tiles."""
        return (self.last - self.first) // self.width

    def part(self, index: int, count: int) -> "Tiles":
        """Return one of several contiguous parts of whole tiles; neighbours share cache lines."""
        first, last = (self.first + self.width * (self.tile_count * k // count) for k in (index, index + 1))
        return Tiles(first, last, self.width)


def partition_tiles(n: int, dtype: str = "float64") -> list[Tiles]:
    """Partition n drones into whole tiles, half a tile if that leaves none or there are many tiles, and single lanes.

    Each width is compiled separately.
    """
    width = vector_width(dtype)
    half = width // 2
    full = n - n % width
    vectorized = full + (half if n - full == half > 1 or (n - full > half and n > MIN_TILES_FOR_HALF * width) else 0)
    parts = Tiles(0, full, width), Tiles(full, vectorized, half), Tiles(vectorized, n, 1)
    return [part for part in parts if part.first < part.last]


def is_one_tile(n: int) -> bool:
    """Whether n drones are a single tile."""
    return sum(part.tile_count for part in partition_tiles(n)) == 1


MIN_PARALLEL_TILE_ROWS = 64  # rows × tiles: below this, releasing the interpreter lock or starting threads does not pay


class Cursor(NamedTuple):
    """Progress in a span: all rows before `row` are done, and all entries before `entry` in that row."""

    row: int
    entry: int

    @property
    def next_entry(self) -> "Cursor":
        """The cursor past this entry."""
        return Cursor(self.row, self.entry + 1)


class GroupProgram:
    """All operations of one group, in the order of the sequence, and the entries that Python runs for it."""

    def __init__(self, fleet: "Fleet", group: "Group") -> None:
        operations: list[Operation] = []
        self.python: list[Entry] = []
        self.first_operations, self._clocks = [0], list[Tree]()
        streams = fleet.log.streams(fleet, group) if fleet.log is not None else []
        for entry_index, entry in enumerate(fleet.stages):
            if group.sets[entry.name][0].python_reason:
                self.python.append(entry)
            operations += entry_operations(fleet, group, entry, self._clocks)
            for stream in streams:
                if stream.entry == entry.name:
                    operations += stream_operations(fleet, group, stream, entry_index)
            self.first_operations.append(len(operations))
        self.group, self._n, self.memory = group, len(group.drones), ArrayPrecision(fleet.precision)
        self.parts = partition_tiles(self._n, fleet.precision.dtype)
        self._walks = {part.width: FlightLoop(tuple(operations), part.width, self.memory) for part in self.parts}

    def set_clocks(self) -> None:
        """Set the dt of every stage: `initial_dt` for its first update, then its period."""
        _set_clocks(self._clocks, self.group.has_run)

    def run(
        self, span: Span, start: Cursor, end: Cursor, part: Tiles, *, holds_lock: bool, tile_counter: int = 0
    ) -> Cursor:
        """Run some tiles from `start` to before `end`; return the cursor reached, less than `end` if a stage interrupted."""
        first, until = ((cursor.row, self.first_operations[cursor.entry]) for cursor in (start, end))
        lanes = part.first, part.last
        stopped = self._walks[part.width].run(
            span.address, first, until, lanes, self._n, holds_lock=holds_lock, tile_counter=tile_counter
        )
        if stopped == DONE:
            return end
        row, operation = divmod(stopped, self.first_operations[-1])
        return Cursor(row, int(np.searchsorted(self.first_operations, operation, side="right")))


def run_programs(programs: Sequence[Tree], span: Span, start: Cursor, end: Cursor) -> Cursor:
    """Run all groups from `start` to before `end`; return the cursor reached, less than `end` if a stage interrupted.

    Stages interrupt only flights of a single tile, so that no other tile is ahead of it.
    """
    parts = [(program, part) for program in programs for part in program.parts]
    for program in programs:
        program.memory.update_copies()
    if (tiles := sum(part.tile_count for _, part in parts)) == 1 or tiles * (
        end.row - start.row + 1
    ) < MIN_PARALLEL_TILE_ROWS:
        reached = [
            program.run(span, start, end, part, holds_lock=end.row - start.row < MIN_PARALLEL_TILE_ROWS)
            for program, part in parts
        ]
    else:
        reached, cores = [], max_threads()
        parts_by_core = [(program, part.part(k, cores)) for k in range(cores) for program, part in parts]
        counters = np.array([part.first for _, part in parts_by_core], dtype=np.int64)  # next tile of each part
        work_items = [(*core_part, counters.ctypes.data + 8 * k) for k, core_part in enumerate(parts_by_core)]

        def run_parts(first: int) -> None:  # the thread's assigned part first, then the remaining tiles of the others
            for program, part, counter_address in work_items[first:] + work_items[:first]:
                reached.append(program.run(span, start, end, part, holds_lock=False, tile_counter=counter_address))

        run_parallel([partial(run_parts, len(parts) * k) for k in range(cores)])
    for program in programs:
        program.memory.write_back()
    return min(reached, default=end)


def _set_clocks(clocks: list[Tree], has_run: set[str]) -> None:
    """Set the dt of every stage: `initial_dt` for its first update, then its period."""
    for stage, dt, period in clocks:
        is_first = stage.initial_dt is not None and stage.name not in has_run
        dt[:] = stage.initial_dt if is_first else period


def run_entry(fleet: "Fleet", group: "Group", name: str) -> None:
    """Run the stages of one entry at the present instant."""
    entry = fleet.stages[fleet.entry_index(name)]
    clocks: list[Tree] = []
    operations = entry_operations(fleet, group, entry, clocks)
    _set_clocks(clocks, group.has_run)
    row = np.zeros((1, len(ROW_FIELDS)), dtype=np.int64)
    row[0, ROW_FIELDS.index("time_us")], row[0, ROW_FIELDS.index("due")] = fleet.time_us, -1
    row.view(np.float64)[0, ROW_FIELDS.index("time")] = fleet.time_us / MICROSECONDS
    for part in partition_tiles(len(group.drones)):
        schedule_walk = FlightLoop(tuple(operations), part.width, ArrayPrecision())
        lanes = part.first, part.last
        schedule_walk.run(row.ctypes.data, (0, 0), (0, len(operations)), lanes, len(group.drones), holds_lock=True)


# From a stage to operations --------------------------------------------------------------------------------------------


def compile_stages(group: "Group") -> None:
    """Trace all stages of a group.

    Raises:
        DifferentProgramsError: its drones need different programs.
    """
    for sets in group.sets.values():
        for stages in zip(*(stage_set.stages for stage_set in sets), strict=True):
            if stages[0].rate != PHYSICS:
                _code(group, stages)


def entry_operations(fleet: "Fleet", group: "Group", entry: Entry, clocks: list[Tree]) -> list[Operation]:
    """Return the operations of one entry; append the dt of each stage that reads it to `clocks`."""
    operations: list[Operation] = []
    for stages in zip(*(stage_set.stages for stage_set in group.sets[entry.name]), strict=True):
        if stages[0].rate == PHYSICS:
            operations += group.plant.operations(fleet.schedule.physics_bit) or ()
        else:
            operations += stage_operations(fleet, group, stages, clocks)
    return operations


def stage_operations(fleet: "Fleet", group: "Group", stages: Sequence[Stage], clocks: list[Tree]) -> list[Operation]:
    """Return the operations of one stage: random numbers, time, references and the call.

    `stages` has one stage for each drone if their parameters differ, else a single one.
    """
    stage, n = stages[0], len(group.drones)
    period = fleet.periods[stage.rate]
    due = fleet.schedule.bit(stage.every * period, stage.delay * period)
    operations: list[Operation] = []
    inputs: list[Block] = []
    for path in stage.reads:
        if path in CLOCK_INPUTS:
            row = np.zeros((1, n))
            inputs.append((row, 0, 1))
            if path == "time":
                operations.append(Operation("clock", due, (row,)))
            else:
                clocks.append((stage, row, stage.every * period / MICROSECONDS))
        else:
            inputs.append(_block(group, path))
            table = group.reference_tables.get(path)
            if table is not None and table.clock == stage.rate:
                operations += take_operations(table, group.slots[path], due, period)
    if stage.normals is not None:
        stage_normals = np.zeros((stage.normals.size, n))
        inputs.append((stage_normals, 0, len(stage_normals)))
        operations += _draws(group, stage, due, stage_normals, period)
    outputs = [_block(group, path) for path in stage.writes]
    operations.append(Operation("call", due, (RowCall(_code(group, stages), inputs, outputs),)))
    if stage.interrupts:
        array, first, rows = outputs[-1]
        operations.append(Operation("watch", due, (array[first + rows - 1 : first + rows],)))
    return operations


def stream_operations(fleet: "Fleet", group: "Group", stream: SlotTable, entry: int) -> list[Operation]:
    """Return the operations that write a stream's rows; none if the group does not have its table."""
    if stream.name not in group.tables:
        return []
    stream_table, due = create_stream_table(fleet, group, stream, entry)
    operations, first_field = [], 0
    for path in stream.slots:
        rows = group.rows(path)
        operations.append(stream_table.put(due, rows, first_field))
        first_field += len(rows)
    return operations


def create_stream_table(fleet: "Fleet", group: "Group", stream: SlotTable, entry: int) -> tuple[StreamTable, int]:
    """Create the table of a stream; return it with the schedule bit of its rows."""
    clock, table = fleet.periods[stream.rate], group.tables[stream.name]
    period_us, offset_us = stream.every * clock, stream.delay * clock
    first = group.first_ticks.setdefault(stream.name, np.array([-1], dtype=np.int64))
    if first[0] < 0:  # start at the next tick, which is the present instant if the entry has not run
        ticks = fleet.time_us - offset_us
        first[0] = max(ticks // period_us + 1 if fleet.entries_run > entry else -(-ticks // period_us), 0)
    if id(table) not in fleet.stream_tables:
        address = np.array([table.rows.ctypes.data], dtype=np.int64)
        fleet.stream_tables[id(table)] = StreamTable(table, period_us, offset_us, entry, first, address)
    return fleet.stream_tables[id(table)], fleet.schedule.bit(period_us, offset_us)


def _block(group: "Group", path: str) -> Block:
    slot, first, template = group.part(path)
    return group.slots[slot], first, len(flatten(template))


def _draws(group: "Group", stage: Stage, due: int, stage_normals: Array, period: int) -> list[Operation]:
    """Return the operations that draw normals: one set for each drone, and those of drone 0 for shared ones."""
    assert stage.normals is not None
    source, count, shared = stage.normals
    keys = np.array([derive_key(seed, source) for seed in group.seeds], dtype=np.int64).T.copy()
    drone_numbers = group.drone_numbers.astype(np.int64)
    if not any(shared):
        return [Operation("draw", due, (keys, drone_numbers, stage_normals, count, period))]
    if all(shared):
        return [Operation("draw", due, (keys, drone_numbers * 0, stage_normals, count, period))]
    common = np.zeros_like(stage_normals)
    return [
        Operation("draw", due, (keys, drone_numbers, stage_normals, count, period)),
        Operation("draw", due, (keys, drone_numbers * 0, common, count, period)),
        *(
            Operation("copy", due, (common[k : k + 1], stage_normals[k : k + 1], 1))
            for k, is_shared in enumerate(shared)
            if is_shared
        ),
    ]


def _code(group: "Group", stages: Sequence[Stage]) -> CompiledStep:
    stage = stages[0]
    reads = tuple(0.0 if path in CLOCK_INPUTS else _zeros(group.part(path).template) for path in stage.reads)
    if stage.normals is not None:
        reads = (*reads, (0.0,) * stage.normals.size)
    writes = tuple(_zeros(group.part(path).template) for path in stage.writes)
    references = group.reference_stages(stage.name)
    return batch_code(
        stage_step,
        [(drone_stage, reads, writes) for drone_stage in stages],
        None if references is None else [(reference, reads, writes) for reference in references],
    )


def _zeros(template: Tree) -> Tree:
    return unflatten(template, repeat(0.0))


def stage_step(stage: Stage, reads: Tree, writes: Tree) -> StepFunction:
    """Return the function of a stage for the templates of its reads and writes."""
    skip, count = stage.skip_when, len(stage.reads)
    return StepFunction(
        lambda carry, inputs: require_writes(stage, stage(*inputs), writes),
        writes,
        reads,
        skip_when=None if skip is None else lambda inputs: skip(*inputs[:count]),
    )
