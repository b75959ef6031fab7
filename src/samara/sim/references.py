"""References of the drones' tasks, tabulated by the block: a block of times costs little more than a single time."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from samara.compiler.llvm.flight_loop import Operation
from samara.compiler.llvm.tape_interpreter import tabulator
from samara.compiler.trace.tape_scalar import record_tape
from samara.core.tree import flatten
from samara.core.types import Array
from samara.physics.types import REFERENCE_FIELDS
from samara.scenario.events import DroneSetting
from samara.scenario.timeline import MICROSECONDS

if TYPE_CHECKING:
    from samara.sim.fleet import Fleet
    from samara.sim.group import Group

TimeFunction = Callable[[Any], Any]

MIN_COMPILED_ROWS = 5000  # rows: NumPy evaluates as many in the time the compiled code takes to load


class _IdentityKey:
    """A function as a key by identity: trajectories may be unhashable, or compare equal to others."""

    __slots__ = ("function",)

    def __init__(self, function: TimeFunction) -> None:
        self.function = function

    def __hash__(self) -> int:
        return id(self.function)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _IdentityKey) and other.function is self.function


class TableFiller:
    """Fills tables, and caches the compiled code of each function."""

    def __init__(self, min_compiled_rows: int = MIN_COMPILED_ROWS) -> None:
        self.numpy_rows_left = min_compiled_rows
        self._filler = lru_cache(maxsize=4096)(_filler)

    def fill(self, rows: Array, function: TimeFunction, times: Array) -> None:
        """rows[k, i] ← leaf i of function(times[k])."""
        if self.numpy_rows_left > 0:
            self.numpy_rows_left -= len(times)
            _fill_with_numpy(rows, function, times)
        else:
            self._filler(_IdentityKey(function))(rows, times)


def _filler(key: _IdentityKey) -> Callable[[Array, Array], None]:
    try:
        program, numbers = record_tape(key.function)
        fill, constants = tabulator(program), np.array(numbers)
    except Exception:  # a user's function may raise anything when called with a symbol
        return lambda rows, times: _fill_with_numpy(rows, key.function, times)
    return lambda rows, times: fill(rows, times, constants)


def _fill_with_numpy(rows: Array, function: TimeFunction, times: Array) -> None:
    for column, leaf in zip(rows.T, flatten(function(times)), strict=True):
        column[:] = leaf


EMPTY_ROWS = np.empty((0, 0, 0))


class ReferenceTable:
    """The references of a group's drones at ticks of a clock: `rows` (ticks, fields, drones), from tick `first` on.

    The rows keep their address and are overwritten by later references; the first `count` are valid. If the drones follow the
    same path at different positions, the rows have one column, and `shift_W` (3, drones) is added to its position.
    """

    def __init__(self, ticks: int, drones: int, shift_W: Array | None = None, clock: str = "control") -> None:
        self.rows = np.zeros((ticks, len(REFERENCE_FIELDS), drones if shift_W is None else 1))
        self.first = np.zeros(1, dtype=np.int64)
        self.count = 0
        self.shift_W, self.clock = shift_W, clock


TABLE_FILLER = TableFiller()  # shared by all flights of the process


def tabulate_references(
    drones: Sequence[DroneSetting], times_us: Array, out: Array = EMPTY_ROWS, *, add_shift: bool = True
) -> Array:
    """Tabulate the references of the drones' tasks: (times, fields, drones).

    Args:
        drones: settings with the tasks.
        times_us: flight times  [µs].
        out: written in place if it has the right shape, as allocating takes longer than filling.
        add_shift: whether to add each task's `shift_W`.
    """
    columns_by_task: dict[Any, list[int]] = {}  # columns by path and start: they differ by a shift
    for column, drone in enumerate(drones):
        columns_by_task.setdefault((id(drone.task.reference), drone.since_us), []).append(column)
    shape = len(times_us), len(REFERENCE_FIELDS), len(drones)
    rows = out if out.shape == shape else np.empty(shape)
    for (_, since_us), columns in columns_by_task.items():
        first, function = columns[0], drones[columns[0]].task.reference
        TABLE_FILLER.fill(rows[:, :, first], function, (times_us - since_us) / MICROSECONDS)
        if len(columns) > 1:
            targets = slice(first, None) if len(columns) == len(drones) else columns
            rows[:, :, targets] = rows[:, :, first, None].copy()
    if add_shift:
        rows[:, :3] += shifts_W(drones)
    return rows


def shifts_W(drones: Sequence[DroneSetting]) -> Array:
    """Position offsets of the drones' tasks, (3, drones) [m]."""
    coordinates = np.fromiter(chain.from_iterable(drone.task.shift_W for drone in drones), float, 3 * len(drones))
    return np.ascontiguousarray(coordinates.reshape(-1, 3).T)


def reference_table(drones: Sequence[DroneSetting], ticks: int) -> ReferenceTable:
    """Create the reference table of drones, with one column if their paths differ only by a shift."""
    is_same_path = len({(id(drone.task.reference), drone.since_us) for drone in drones}) == 1 < len(drones)
    return ReferenceTable(ticks, len(drones), shifts_W(drones) if is_same_path else None)


def fill_table(fleet: "Fleet", group: "Group", table: ReferenceTable, until_us: int) -> None:
    """Fill a table with the references at all ticks of its clock from now to a time, if it lacks them."""
    period = fleet.periods[table.clock]
    tick, last, first = -(-fleet.time_us // period), until_us // period, int(table.first[0])
    if first <= tick and last < first + table.count:
        return
    table.first[0], table.count = tick, min(max(last - tick, fleet.block_us // period) + 2, len(table.rows))
    ticks = np.arange(tick, tick + table.count, dtype=np.int64)
    drones = fleet.drone_settings(group)[: table.rows.shape[2]]
    tabulate_references(drones, ticks * period, out=table.rows[: table.count], add_shift=table.shift_W is None)


def take_operations(table: ReferenceTable, target: Array, due: int, period: int) -> list[Operation]:
    """Return the operations that copy the references of a tick into an array (fields, drones)."""
    name = "take" if table.rows.shape[2] == target.shape[1] else "take_shared"
    operations = [Operation(name, due, (table.rows, target, len(target), period, 0, table.first))]
    if table.shift_W is not None:
        operations.append(Operation("add", due, (table.shift_W, target, len(table.shift_W))))
    return operations


def is_shared(drones: Sequence[DroneSetting]) -> bool:
    """Whether all drones have the same reference."""
    first = drones[0]
    return all(
        (drone.task.reference, drone.task.shift_W, drone.since_us)
        == (first.task.reference, first.task.shift_W, first.since_us)
        for drone in drones
    )


def current_references(fleet: "Fleet", group: "Group") -> Array:
    """Return the references at this tick of the controller: (fields, drones)."""
    fill_table(fleet, group, group.reference_table, fleet.time_us)
    references: Array = group.reference_table.rows[fleet.tick("control") - int(group.reference_table.first[0])]
    if group.reference_table.shift_W is None:
        return references
    references = np.repeat(references, len(group.drones), axis=1)
    references[:3] += group.reference_table.shift_W
    return references


def references_ahead(fleet: "Fleet", group: "Group") -> Array:
    """Return the references over the controllers' horizon: (instants, fields, drones)."""
    if not group.look_ahead.size:
        return EMPTY_ROWS
    period, tick = fleet.periods["control"], fleet.tick("control")
    first, rows = group.plans.get("rows ahead", (0, EMPTY_ROWS))
    if not 0 <= tick - first < len(rows):
        times_us, rows = _instants_ahead(group.look_ahead.tobytes(), period, fleet.block_us // period + 1)
        references = tabulate_references(fleet.drone_settings(group), tick * period + times_us)
        first, group.plans["rows ahead"], group.plans["ahead"] = tick, (tick, rows), (tick, references)
    horizon: Array = group.plans["ahead"][1].take(rows[tick - first], axis=0)
    return horizon


@lru_cache(maxsize=16)
def _instants_ahead(look_ahead: bytes, period: int, ticks: int) -> tuple[Array, Array]:
    """Return the distinct instants [µs] in the overlapping horizons of `ticks` ticks, and their indices by tick."""
    offsets_us = np.round(MICROSECONDS * np.frombuffer(look_ahead))
    times_us, rows = np.unique(np.add.outer(period * np.arange(ticks), offsets_us), return_inverse=True)
    return times_us, rows.reshape(ticks, len(offsets_us))
