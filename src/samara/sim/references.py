"""What drones are asked to do, made by the block: a block of times costs little more than one."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from samara.backends.llvm_schedule import Operation
from samara.physics.reference import REFERENCE_FIELDS
from samara.scenario.setting import DroneSetting
from samara.scenario.timeline import MICROSECONDS
from samara.sim.tables import Tables

if TYPE_CHECKING:
    from samara.sim.fleet import Fleet
    from samara.sim.group import Group

Array = np.ndarray[Any, Any]

NOTHING = np.empty((0, 0, 0))


class ReferenceTable:
    """The references of a group's drones at ticks of a clock: `rows` (ticks, fields, drones), from tick `first` on.

    The rows stay where they are, and later references are written over them: `count` of them are valid. Where the drones follow
    the same path but at another place, rows have one column, and `shift_W` (3, drones) is added to its position.
    """

    def __init__(self, ticks: int, drones: int, shift_W: Array | None = None, clock: str = "autopilot") -> None:
        self.rows = np.zeros((ticks, len(REFERENCE_FIELDS), drones if shift_W is None else 1))
        self.first = np.zeros(1, dtype=np.int64)
        self.count = 0
        self.shift_W, self.clock = shift_W, clock


TABLES = Tables()  # of this process


def planned(drones: Sequence[DroneSetting], times_us: Array, over: Array = NOTHING, *, shifted: bool = True) -> Array:
    """What each drone's task asks at some times: (times, fields, drones), `shifted` to where the drone is to do it

    Written over a block that is done with, where that has the shape: new memory takes longer than to fill it.
    """
    lanes: dict[Any, list[int]] = {}  # tasks of one shape that began together differ by where they are
    for lane, own in enumerate(drones):
        lanes.setdefault((id(own.task.reference), own.since_us), []).append(lane)
    shape = len(times_us), len(REFERENCE_FIELDS), len(drones)
    asked = over if over.shape == shape else np.empty(shape)
    for (_, since_us), alike in lanes.items():
        first, function = alike[0], drones[alike[0]].task.reference
        TABLES.fill(asked[:, :, first], function, (times_us - since_us) / MICROSECONDS)
        if len(alike) > 1:
            where = slice(first, None) if len(alike) == len(drones) else alike
            asked[:, :, where] = asked[:, :, first, None].copy()
    if shifted:
        asked[:, :3] += shifts_W(drones)
    return asked


def shifts_W(drones: Sequence[DroneSetting]) -> Array:
    """Where each drone is to do what its task asks, (3, drones)  [m]"""
    numbers = np.fromiter(chain.from_iterable(own.task.shift_W for own in drones), float, 3 * len(drones))
    return np.ascontiguousarray(numbers.reshape(-1, 3).T)


def reference_table(drones: Sequence[DroneSetting], ticks: int) -> ReferenceTable:
    """A table for drones to be asked from, with one column where they are asked the same at other places"""
    alike = len({(id(own.task.reference), own.since_us) for own in drones}) == 1 < len(drones)
    return ReferenceTable(ticks, len(drones), shifts_W(drones) if alike else None)


def cover(fleet: "Fleet", group: "Group", asked: ReferenceTable, until_us: int) -> None:
    """Make sure that a table has the references at all ticks of its clock from now to a time"""
    period = fleet.periods[asked.clock]
    tick, last, first = -(-fleet.time_us // period), until_us // period, int(asked.first[0])
    if first <= tick and last < first + asked.count:
        return
    asked.first[0], asked.count = tick, min(max(last - tick, fleet.block_us // period) + 2, len(asked.rows))
    ticks = np.arange(tick, tick + asked.count, dtype=np.int64)
    drones, over = fleet.settings_of(group)[: asked.rows.shape[2]], asked.rows[: asked.count]
    planned(drones, ticks * period, over=over, shifted=asked.shift_W is None)


def take_operations(asked: ReferenceTable, target: Array, due: int, period: int) -> list[Operation]:
    """The operations that put what is asked at a tick into an array (fields, drones)"""
    kind = "take" if asked.rows.shape[2] == target.shape[1] else "take_shared"
    own = [Operation(kind, due, (asked.rows, target, len(target), period, 0, asked.first))]
    return own if asked.shift_W is None else [*own, Operation("add", due, (asked.shift_W, target, len(asked.shift_W)))]


def is_shared(drones: Sequence[DroneSetting]) -> bool:
    """Whether all are asked the same"""
    first = drones[0]
    return all(
        (own.task.reference, own.task.shift_W, own.since_us)
        == (first.task.reference, first.task.shift_W, first.since_us)
        for own in drones
    )


def asked_now(fleet: "Fleet", group: "Group") -> Array:
    """What the drones are asked at this tick of the autopilot: (fields, drones)"""
    cover(fleet, group, group.reference_table, fleet.time_us)
    own: Array = group.reference_table.rows[fleet.tick("autopilot") - int(group.reference_table.first[0])]
    if group.reference_table.shift_W is None:
        return own
    own = np.repeat(own, len(group.drones), axis=1)
    own[:3] += group.reference_table.shift_W
    return own


def asked_ahead(fleet: "Fleet", group: "Group") -> Array:
    """What the drones are asked at the instants their pilot looks ahead to: (instants, fields, drones)"""
    if not group.look_ahead.size:
        return NOTHING
    period, tick = fleet.periods["autopilot"], fleet.tick("autopilot")
    first, rows = group.plans.get("rows ahead", (0, NOTHING))
    if not 0 <= tick - first < len(rows):
        times_us, rows = _instants_ahead(group.look_ahead.tobytes(), period, fleet.block_us // period + 1)
        asked = planned(fleet.settings_of(group), tick * period + times_us)
        first, group.plans["rows ahead"], group.plans["ahead"] = tick, (tick, rows), (tick, asked)
    own: Array = group.plans["ahead"][1].take(rows[tick - first], axis=0)
    return own


@lru_cache(maxsize=16)
def _instants_ahead(look_ahead: bytes, period: int, ticks: int) -> tuple[Array, Array]:
    """The instants that so many ticks look ahead to [µs], each once: horizons overlap; and which of them each tick's are"""
    later_us = np.round(MICROSECONDS * np.frombuffer(look_ahead))
    times_us, rows = np.unique(np.add.outer(period * np.arange(ticks), later_us), return_inverse=True)
    return times_us, rows.reshape(ticks, len(later_us))
