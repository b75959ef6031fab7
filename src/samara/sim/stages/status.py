"""What became of the drones: a row whenever somebody lands, takes off or crashes; and that it landed or took off as a fact."""

import numpy as np

from samara.backends.llvm_schedule import Operation
from samara.record.streams import STATUS_FIELDS
from samara.scenario.facts import Fact, status_change
from samara.sim.fleet import Fleet
from samara.sim.group import Group
from samara.sim.stage import Stage


class StatusStage(Stage):
    """Told by whoever finds out: touches of the ground are looked at afterwards, strikes when they happen."""

    axis = "scenario"

    def __init__(self, drones: int) -> None:
        self.told = np.full((len(STATUS_FIELDS), drones), np.nan)

    def operations(self, fleet: Fleet, group: Group) -> list[Operation]:
        """None of its own"""
        return []

    def update(self, fleet: Fleet) -> None:
        self.tell(fleet, fleet.time_us, np.array([fleet.landed, fleet.crashed], dtype=float))

    def tell(self, fleet: Fleet, time_us: int, now: np.ndarray) -> None:
        """Landed and crashed, 1 or 0, of all drones at a time"""
        if np.array_equal(now, self.told):
            return
        before, self.told = self.told, now.copy()
        for index in np.flatnonzero((before != now).any(axis=0) & np.isfinite(before[0])).tolist():
            fact = status_change(before[:, index].tolist(), now[:, index].tolist())
            if fact and fact is not Fact.CRASHED:  # noted when it was, with what it touched
                fleet.note(index, fact, time_us=time_us)
        for group in fleet.groups:
            if "status" in group.tables:
                group.tables["status"].add(time_us, now[:, group.indices])
