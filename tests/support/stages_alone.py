"""Parts of a flight by themselves: a wind or a wake on so many drones, asked instant by instant."""

import numpy as np

from samara.core.random import normals
from samara.core.tree import flatten, unflatten
from samara.sim.blowing import hub_code, wind_code
from samara.sim.stages.wake import gusts_code
from samara.wind.sources import is_local


class CompiledBlowing:
    """A source of wind by compiled code, as the stage of the wind has it in its operations."""

    def __init__(self, source, drones, memory):
        self.source, self.drones = source, drones
        self._machine = wind_code(source).machine(drones if is_local(source) else 1)
        self._size = len(self._machine.carry) - 3
        for row, leaf in zip(self._machine.carry, flatten(memory), strict=False):
            row[:] = leaf

    @property
    def memory(self):
        rows = self._machine.carry[: self._size]
        return unflatten(self.source.initial(), iter(rows if self._machine.n > 1 else rows[:, 0].tolist()))

    def sample(self, time, dt, moving, disturbance_W, drawn):
        held = self._machine.held
        held[0], held[1] = time, dt
        if moving is not None:
            held[2:8] = moving[:6]
        held[8:11] = np.array(disturbance_W)[:, None]
        held[11:] = drawn
        self._machine.run()
        return np.repeat(self._machine.carry[self._size :], self.drones // self._machine.n, axis=1)

    def at_hubs(self, time, moving, lanes, disturbance_W, hubs_B):
        machine = hub_code(self.source, hubs_B).machine(len(lanes))
        machine.held[0] = time
        machine.held[1:14] = moving[:13]
        machine.held[14:17] = np.array(disturbance_W)[:, None]
        machine.held[17:] = self._machine.carry[: self._size, lanes]
        machine.run()
        return machine.carry


def gusts_on(vehicle, state, environment, memory, dt, *, seed, drones, tick):
    """The gusts of rotors' own wakes at all hubs, (3 rotors, n), and the memory for the next, (rotors, n)."""
    count = len(vehicle.rotors)
    machine = gusts_code(vehicle).machine(len(drones))
    drawn = normals(seed, "propwash", drones, tick, count).T
    machine.held[:] = np.concatenate([memory, drawn, np.full((1, len(drones)), dt), state, environment])
    machine.run()
    return machine.carry[count:].copy(), machine.carry[:count].copy()
