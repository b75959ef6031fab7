"""Estimators: what each drone makes of its sensors, or of the truth and noise."""

from samara.backends.llvm_schedule import Operation
from samara.core.random import normals
from samara.scenario.timeline import MICROSECONDS
from samara.sim.fleet import Fleet
from samara.sim.group import Group
from samara.sim.stage import Stage


class EstimatorStage(Stage):
    """One tick of every drone's estimate."""

    axis = "estimator"
    in_python = "estimates that are frozen"
    looks_back = False

    def __init__(self) -> None:
        self._began = False

    def operations(self, fleet: Fleet, group: Group) -> list[Operation] | None:
        """The estimate of each drone; while one is frozen, Python keeps it so"""
        if group.frozen_rows:
            return None
        period = fleet.periods["estimator"]
        draws = fleet.keys(group, "estimator"), fleet.numbers_of(group), period
        return group.estimating(fleet.calendar.axis("estimator"), *draws)

    def prepare(self, fleet: Fleet, until_us: int) -> None:
        """The time since the last tick: none before the first"""
        for group in fleet.groups:
            group.estimate_after(fleet.periods["estimator"] / MICROSECONDS if self._began else 0.0)

    def collect(self, fleet: Fleet, *, passed: bool) -> None:
        """Whether there was a first tick"""
        self._began = self._began or passed

    def update(self, fleet: Fleet) -> None:
        dt = fleet.periods["estimator"] / MICROSECONDS if fleet.time_us else 0.0
        for group in fleet.groups:
            if not group.frozen_rows:
                continue
            needed, drawn = group.key.estimator.normals_needed, None
            if needed:
                numbers, tick = fleet.numbers_of(group), fleet.tick("estimator")
                own = [fleet.seeds[index] for index in group.drones]
                drawn = [normals(seed, "estimator", int(k), tick, needed) for seed, k in zip(own, numbers, strict=True)]
            group.update_estimate(drawn, dt)
