"""The wind: on each drone where it is, with gusts of its own, and at each of its hubs.

What blows on all alike does so inside a sum too: its normals are those of drone 0, whoever else flies.
"""

import math

import numpy as np

from samara.backends.lanes import in_lanes
from samara.backends.llvm_schedule import Operation
from samara.core.tree import flatten
from samara.scenario.setting import Setting
from samara.scenario.timeline import MICROSECONDS
from samara.sim.blowing import Blowing, drawn_by, hub_code, own_draws, wind_code
from samara.sim.fleet import Fleet
from samara.sim.group import Group
from samara.sim.per_drone import PerDrone
from samara.sim.program import run_once
from samara.sim.stage import Stage
from samara.wind.sources import Sum, is_local, is_traced


class WindStage(Stage):
    """Samples the wind's source and writes it into the air of all drones; one that cannot be traced, in Python."""

    axis = "wind"
    in_python = "wind source in Python"

    def __init__(self) -> None:
        self._memory, self._is_new = PerDrone(), True
        self._dt: list[np.ndarray] = []  # of the machines that are linked
        self._blowing: Blowing | None = None

    def react(self, fleet: Fleet, before: Setting) -> None:
        """Another wind blows at once; one that is only added to goes on as it was"""
        source = fleet.setting.wind
        if source is before.wind:
            return
        goes_on = isinstance(source, Sum) and source.sources[0] is before.wind
        known = self._memory.gathered() if goes_on and is_traced(source) else None
        added = tuple(own.initial() for own in source.sources[1:]) if goes_on else ()
        self._memory.clear()
        if known is not None:
            start = np.repeat(np.array(flatten(added), dtype=float)[:, None], known.shape[1], axis=1)
            self._memory.spread(fleet, np.concatenate([known, start]))
        elif goes_on and self._blowing:
            self._blowing = Blowing(source, len(fleet.scenario.drones), (self._blowing.memory, *added))
        else:
            self._is_new, self._blowing = True, None
        if is_traced(source):
            self.regrouped(fleet)
            for group in fleet.groups:
                blow = self.operations(fleet, group) or ()
                run_once(blow, len(group.drones), fleet.time_us, fleet.calendar.axis("wind"))
            self._is_new, fleet.around_changed = False, True
        else:
            self.update(fleet)

    def regrouped(self, fleet: Fleet) -> None:
        """What is remembered goes on with the drones"""
        source = fleet.setting.wind
        if is_traced(source):
            start = np.array(flatten(source.initial()), dtype=float)[:, None]
            self._memory.spread(fleet, np.repeat(start, len(fleet.scenario.drones), axis=1))

    def prepare(self, fleet: Fleet, until_us: int) -> None:
        """The time since the last sample: ∞ before the first"""
        for dt in self._dt:
            dt[:] = math.inf if self._is_new else fleet.periods["wind"] / MICROSECONDS

    def collect(self, fleet: Fleet, *, passed: bool) -> None:
        """Whether there was a first sample"""
        self._is_new = self._is_new and not passed

    def operations(self, fleet: Fleet, group: Group) -> list[Operation] | None:
        """The wind where each drone is, and at its hubs"""
        source, n = fleet.setting.wind, len(group.drones)
        if not is_traced(source):
            return None
        due, period, disturbance_W = (
            fleet.calendar.axis("wind"),
            fleet.periods["wind"],
            fleet.setting.wind_disturbance_W,
        )
        sources = [fleet.wind_on(index) for index in group.drones] if fleet.winds else [source]
        machine, memory = in_lanes(wind_code, [(own,) for own in sources]).machine(n), self._memory.of(group)
        machine.held[1] = math.inf if self._is_new else period / MICROSECONDS
        self._dt = [*(self._dt if group is not fleet.groups[0] else ()), machine.held[1]]
        machine.held[8:11] = np.array(disturbance_W)[:, None]
        size, wind_W, drawn = len(memory), group.around.wind_W, machine.held[11:]
        operations = [
            Operation("clock", due, (machine.held[:1],)),
            *_draws(fleet, group, due, drawn),
            Operation("copy", due, (group.plant.state, machine.held[2:8], 6)),
            *([Operation("copy", due, (memory, machine.carry, size))] if size else []),
            Operation("run", due, (machine,)),
            *([Operation("copy", due, (machine.carry, memory, size))] if size else []),
            Operation("copy", due, (machine.carry[size:], wind_W, 3)),
        ]
        if group.hubs is None:
            return operations
        rotors = group.key.vehicle.rotors
        if fleet.scenario.wind_at_hubs and is_local(source):
            places = [tuple(rotor.r_B for rotor in group.vehicle_of(lane).rotors) for lane in range(n)]
            winds = sources if fleet.winds else sources * n
            hubs = in_lanes(hub_code, list(zip(winds, places, strict=True))).machine(n)
            hubs.held[14:17] = np.array(disturbance_W)[:, None]
            operations += [
                Operation("clock", due, (hubs.held[:1],)),
                Operation("copy", due, (group.plant.state, hubs.held[1:14], 13)),
                *([Operation("copy", due, (memory, hubs.held[17:], size))] if size else []),
                Operation("run", due, (hubs,)),
                Operation("copy", due, (hubs.carry, group.hubs.wind_W, 3 * len(rotors))),
            ]
        else:
            blocks = np.split(group.hubs.wind_W, len(rotors))
            operations += [Operation("copy", due, (wind_W, each, 3)) for each in blocks]
        return [*operations, *group.hubs.operations(due, group.around.hub_wind_W)]

    def update(self, fleet: Fleet) -> None:
        source, drones = fleet.setting.wind, len(fleet.scenario.drones)
        dt = math.inf if self._blowing is None else fleet.periods["wind"] / MICROSECONDS
        self._blowing = self._blowing or Blowing(source, drones, source.initial())
        drawn = drawn_by(source, drones, seed=fleet.scenario.seed, tick=fleet.tick("wind"))
        moving = np.concatenate([fleet.p_W, fleet.v_W]) if is_local(source) else None
        disturbance_W = fleet.setting.wind_disturbance_W
        winds = self._blowing.sample(fleet.time, dt, moving, disturbance_W, drawn)
        for group in fleet.groups:
            own, before = winds[:, group.indices], group.plant.environment.copy()
            group.around.wind_W[:] = own
            if group.hubs is not None:
                rotors = group.key.vehicle.rotors
                group.hubs.wind_W[:] = np.tile(own, (len(rotors), 1))
                if fleet.scenario.wind_at_hubs and is_local(source):
                    hubs_B = tuple(rotor.r_B for rotor in rotors)
                    place = group.plant.state, group.indices
                    group.hubs.wind_W[:] = self._blowing.at_hubs(fleet.time, *place, disturbance_W, hubs_B)
                group.around.hub_wind_W[:] = group.hubs.wind_W + group.hubs.wake_W
            if not np.array_equal(before, group.plant.environment):
                fleet.around_changed = True


def _draws(fleet: Fleet, group: Group, due: int, drawn: np.ndarray) -> list[Operation]:
    """Normals of each drone's own, and those of drone 0 where all share them"""
    own, period, keys = own_draws(fleet.setting.wind), fleet.periods["wind"], fleet.keys(group, "wind")
    if not own:
        return []
    numbers = fleet.numbers_of(group)
    if all(own) or not any(own):
        return [Operation("draw", due, (keys, numbers * own[0], drawn, len(own), period))]
    shared = np.zeros_like(drawn)
    return [
        Operation("draw", due, (keys, numbers, drawn, len(own), period)),
        Operation("draw", due, (keys, numbers * 0, shared, len(own), period)),
        *(Operation("copy", due, (shared[k : k + 1], drawn[k : k + 1], 1)) for k, each in enumerate(own) if not each),
    ]
