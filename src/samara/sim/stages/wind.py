"""The wind: on each drone where it is, with gusts of its own, and at each of its hubs.

What blows on all alike does so inside a sum too: its normals are those of drone 0, whoever else flies.
"""

import math
from typing import Any

import numpy as np

from samara.core.algebra import Quat, Vec3, cross, rotate
from samara.core.random import normals
from samara.core.tree import flatten, unflatten
from samara.physics.rotors.rotor import Rotor
from samara.scenario.setting import Setting
from samara.scenario.timeline import MICROSECONDS
from samara.sim.fleet import Fleet
from samara.sim.stage import Stage
from samara.wind.sources import Sum, WindSource, is_local, wind_at

Array = np.ndarray[Any, Any]


class WindStage(Stage):
    """Samples the wind's source and writes it into the air of all drones."""

    axis = "wind"

    def __init__(self, source: WindSource) -> None:
        self._memory, self._is_new = source.initial(), True

    def react(self, fleet: Fleet, before: Setting) -> None:
        """Another wind blows at once; one that is only added to goes on as it was"""
        source = fleet.setting.wind
        if source is before.wind:
            return
        if isinstance(source, Sum) and source.sources[0] is before.wind:
            self._memory = (self._memory, *(own.initial() for own in source.sources[1:]))
        else:
            self._memory, self._is_new = source.initial(), True
        self.update(fleet)

    def update(self, fleet: Fleet) -> None:
        source, seed, tick = fleet.setting.wind, fleet.scenario.seed, fleet.tick("wind")
        dt = math.inf if self._is_new else fleet.periods["wind"] / MICROSECONDS
        if is_local(source):
            moving = np.concatenate([fleet.p_W, fleet.v_W])
            winds, self._memory = wind_on(source, fleet.time, dt, self._memory, moving, seed=seed, tick=tick)
        else:
            needed = source.normals_needed
            draws = normals(seed, "wind", 0, tick, needed).tolist() if needed else ()
            wind, self._memory = source.sample(fleet.time, dt, tuple(draws), self._memory)
            winds = np.repeat(np.array(wind, dtype=float)[:, None], len(fleet.scenario.drones), axis=1)
        self._is_new = False
        disturbance = np.array(fleet.setting.wind_disturbance_W)[:, None]
        winds = winds + disturbance
        hub_winds = np.tile(winds, (len(fleet.air.hub_wind_W) // 3, 1))
        if fleet.scenario.wind_at_hubs and is_local(source):
            for group in fleet.groups:
                if group.key.vehicle.reads("hub_wind_W"):
                    at, memory = group.indices, memory_of(self._memory, group.indices)
                    for k, rotor in enumerate(group.key.vehicle.rotors):
                        here = wind_at_hub(source, fleet.time, memory, group.plant.state, rotor)
                        hub_winds[3 * k : 3 * k + 3, at] = here + disturbance
        if not (np.array_equal(winds, fleet.air.wind_W) and np.array_equal(hub_winds, fleet.air.hub_wind_W)):
            fleet.air.wind_W, fleet.air.hub_wind_W = winds, hub_winds
            for group in fleet.groups:
                fleet.surround(group)


def own_draws(source: WindSource) -> tuple[bool, ...]:
    """For each normal that a source takes, whether every drone draws its own"""
    if isinstance(source, Sum):
        return tuple(each for own in source.sources for each in own_draws(own))
    return (is_local(source),) * source.normals_needed


def wind_on(
    source: WindSource, time: float, dt: float, memory: Any, moving: Array, *, seed: int, tick: int
) -> tuple[Array, Any]:
    """The wind on every drone, (3, n) [m/s], and the memory for the next; rows of `moving` are p_W and v_W"""
    drawn: tuple[Any, ...] = ()
    if source.normals_needed:
        rows = normals(seed, "wind", np.arange(moving.shape[1]), tick, source.normals_needed).T
        drawn = tuple(row if own else float(row[0]) for row, own in zip(rows, own_draws(source), strict=True))
    wind_W, memory = wind_at(source, time, dt, drawn, memory, Vec3(*moving[:3]), Vec3(*moving[3:6]))
    return _rows(wind_W, moving), memory


def wind_at_hub(source: WindSource, time: float, memory: Any, moving: Array, rotor: Rotor) -> Array:
    """The wind at p + R r of every drone, (3, n) [m/s], at the instant of its last sample: no time passes, so gusts stay

    Rows of `moving` are p_W, v_W, q_WB and ω_B.
    """
    q_WB = Quat(*moving[6:10])
    p_W = Vec3(*moving[:3]) + rotate(q_WB, rotor.r_B)
    v_W = Vec3(*moving[3:6]) + rotate(q_WB, cross(Vec3(*moving[10:13]), rotor.r_B))
    none = (0.0,) * source.normals_needed
    return _rows(wind_at(source, time, 0.0, none, memory, p_W, v_W)[0], moving)


def memory_of(memory: Any, drones: Array) -> Any:
    """The memory of some drones; what all share stays"""
    return unflatten(memory, iter([leaf[drones] if np.ndim(leaf) else leaf for leaf in flatten(memory)]))


def _rows(wind_W: Vec3, moving: Array) -> Array:
    return np.stack(np.broadcast_arrays(*wind_W, moving[0])[:3])
