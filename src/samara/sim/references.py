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
from samara.sim.group import Asked, Group
from samara.sim.pilots import NO_PLAN
from samara.sim.tables import Tables

if TYPE_CHECKING:
    from samara.sim.fleet import Fleet

Array = np.ndarray[Any, Any]

NOTHING = np.empty((0, 0, 0))
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


def asked_of(drones: Sequence[DroneSetting], ticks: int) -> Asked:
    """A table for drones to be asked from, with one column where they are asked the same at other places"""
    alike = len({(id(own.task.reference), own.since_us) for own in drones}) == 1 < len(drones)
    return Asked(ticks, len(drones), shifts_W(drones) if alike else None)


def cover(fleet: "Fleet", group: Group, asked: Asked, axis: str, until_us: int) -> None:
    """Makes sure that what is asked at all ticks of an axis from now to a time is in a table of the group"""
    period = fleet.periods[axis]
    tick, last, first = -(-fleet.time_us // period), until_us // period, int(asked.first[0])
    if first <= tick and last < first + asked.count:
        return
    asked.first[0], asked.count = tick, min(max(last - tick, fleet.block_us // period) + 2, len(asked.rows))
    ticks = np.arange(tick, tick + asked.count, dtype=np.int64)
    drones, over = fleet.settings_of(group)[: asked.rows.shape[2]], asked.rows[: asked.count]
    planned(drones, ticks * period, over=over, shifted=asked.shift_W is None)


def taken(asked: Asked, target: Array, due: int, period: int) -> list[Operation]:
    """The operations that put what is asked at a tick into an array (fields, drones)"""
    kind = "take" if asked.rows.shape[2] == target.shape[1] else "take_shared"
    own = [Operation(kind, due, (asked.rows, target, len(target), period, 0, asked.first, 0))]
    return own if asked.shift_W is None else [*own, Operation("add", due, (asked.shift_W, target, len(asked.shift_W)))]


def is_shared(drones: Sequence[DroneSetting]) -> bool:
    """Whether all are asked the same"""
    first = drones[0]
    return all(
        (own.task.reference, own.task.shift_W, own.since_us)
        == (first.task.reference, first.task.shift_W, first.since_us)
        for own in drones
    )


def asked_now(fleet: "Fleet", group: Group) -> Array:
    """What the drones are asked at this tick of the autopilot: (fields, drones)"""
    cover(fleet, group, group.asked, "autopilot", fleet.time_us)
    own: Array = group.asked.rows[fleet.tick("autopilot") - int(group.asked.first[0])]
    if group.asked.shift_W is None:
        return own
    own = np.repeat(own, len(group.drones), axis=1)
    own[:3] += group.asked.shift_W
    return own


def asked_ahead(fleet: "Fleet", group: Group) -> Array:
    """What the drones are asked at the instants their pilot looks ahead to: (instants, fields, drones)"""
    if not group.pilot.look_ahead.size:
        return NO_PLAN
    period, tick = fleet.periods["autopilot"], fleet.tick("autopilot")
    first, rows = group.plans.get("rows ahead", (0, NOTHING))
    if not 0 <= tick - first < len(rows):
        times_us, rows = _instants_ahead(group.pilot.look_ahead.tobytes(), period, fleet.block_us // period + 1)
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
