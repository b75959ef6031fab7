"""Numbers of each drone that a stage remembers, whichever group the drone is in."""

from typing import TYPE_CHECKING, Any

import numpy as np

from samara.sim.group import Group

if TYPE_CHECKING:
    from samara.sim.fleet import Fleet

Array = np.ndarray[Any, Any]


class PerDrone:
    """Rows of numbers with a column for each drone, kept in one array for each group."""

    def __init__(self) -> None:
        self._parts: dict[int, Array] = {}  # by the first drone of a group
        self._drones: dict[int, Array] = {}

    def of(self, group: Group) -> Array:
        """The columns of a group's drones, to be read and written"""
        return self._parts[group.drones[0]]

    def gathered(self) -> Array | None:
        """All drones side by side; None before there were any"""
        if not self._parts:
            return None
        parts = [(self._drones[first], rows) for first, rows in self._parts.items()]
        whole = np.empty((len(parts[0][1]), sum(len(drones) for drones, _ in parts)))
        for drones, rows in parts:
            whole[:, drones] = rows
        return whole

    def spread(self, fleet: "Fleet", start: Array) -> None:
        """To the groups there are now: what was remembered, or what there is to start with, (rows, drones)"""
        before = self.gathered()
        whole = before if before is not None and len(before) == len(start) else start
        self._parts = {group.drones[0]: np.ascontiguousarray(whole[:, group.indices]) for group in fleet.groups}
        self._drones = {group.drones[0]: group.indices for group in fleet.groups}

    def clear(self) -> None:
        """Forgets everything"""
        self._parts, self._drones = {}, {}
