"""Estimators: what each drone makes of its sensors, or of the truth and noise."""

import numpy as np

from samara.core.random import normals
from samara.scenario.timeline import MICROSECONDS
from samara.sim.fleet import Fleet
from samara.sim.group import Group
from samara.sim.stage import Stage


class EstimatorStage(Stage):
    """One tick of every drone's estimate."""

    axis = "estimator"

    def update(self, fleet: Fleet) -> None:
        dt = fleet.periods["estimator"] / MICROSECONDS if fleet.time_us else 0.0
        for group in fleet.groups:
            group.update_estimate(_draws(fleet, group), dt)


def _draws(fleet: Fleet, group: Group) -> np.ndarray | None:
    """The normals of this tick, (normals, drones), drawn by the block; None where none are needed."""
    needed, tick = group.key.estimator.normals_needed, fleet.tick("estimator")
    if not needed:
        return None
    if not 0 <= tick - group.first_noise < len(group.noise):
        group.first_noise = tick
        ticks = np.arange(tick, tick + fleet.block_us // fleet.periods["estimator"] + 1)
        drawn = normals(fleet.scenario.seed, "estimator", group.indices[None, :], ticks[:, None], needed)
        group.noise = np.ascontiguousarray(np.moveaxis(drawn, 2, 1))
    own: np.ndarray = group.noise[tick - group.first_noise]
    return own
