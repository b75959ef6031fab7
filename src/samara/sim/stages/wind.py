"""The wind: on each drone where it is, with gusts of its own, and at each of its hubs.

What blows on all alike does so inside a sum too: its normals are those of drone 0, whoever else flies.
"""

import math

import numpy as np

from samara.scenario.setting import Setting
from samara.scenario.timeline import MICROSECONDS
from samara.sim.blowing import Blowing, CompiledBlowing, blowing, drawn_by
from samara.sim.fleet import Fleet
from samara.sim.stage import Stage
from samara.wind.sources import Sum, is_local


class WindStage(Stage):
    """Samples the wind's source and writes it into the air of all drones."""

    axis = "wind"

    def __init__(self) -> None:
        self._blowing: Blowing | CompiledBlowing | None = None

    def react(self, fleet: Fleet, before: Setting) -> None:
        """Another wind blows at once; one that is only added to goes on as it was"""
        source = fleet.setting.wind
        if source is before.wind:
            return
        if self._blowing and isinstance(source, Sum) and source.sources[0] is before.wind:
            added = (own.initial() for own in source.sources[1:])
            self._blowing = blowing(source, len(fleet.scenario.drones), (self._blowing.memory, *added))
        else:
            self._blowing = None
        self.update(fleet)

    def update(self, fleet: Fleet) -> None:
        source, drones = fleet.setting.wind, len(fleet.scenario.drones)
        dt = fleet.periods["wind"] / MICROSECONDS
        if self._blowing is None:
            self._blowing, dt = blowing(source, drones, source.initial()), math.inf
        drawn = drawn_by(source, drones, seed=fleet.scenario.seed, tick=fleet.tick("wind"))
        moving = np.concatenate([fleet.p_W, fleet.v_W]) if is_local(source) else None
        disturbance_W = fleet.setting.wind_disturbance_W
        winds = self._blowing.sample(fleet.time, dt, moving, disturbance_W, drawn)
        hub_winds = np.tile(winds, (len(fleet.air.hub_wind_W) // 3, 1))
        if fleet.scenario.wind_at_hubs and is_local(source):
            for group in fleet.groups:
                if group.key.vehicle.reads("hub_wind_W"):
                    hubs_B = tuple(rotor.r_B for rotor in group.key.vehicle.rotors)
                    felt = self._blowing.at_hubs(fleet.time, group.plant.state, group.indices, disturbance_W, hubs_B)
                    hub_winds[: len(felt), group.indices] = felt
        if not (np.array_equal(winds, fleet.air.wind_W) and np.array_equal(hub_winds, fleet.air.hub_wind_W)):
            fleet.air.wind_W, fleet.air.hub_wind_W = winds, hub_winds
            for group in fleet.groups:
                fleet.surround(group)
