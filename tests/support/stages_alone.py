"""Parts of a flight by themselves: a sensor, a wind or a wake on so many drones, asked instant by instant."""

import numpy as np

from samara.backends.llvm_schedule import ROW, Memory, Walk
from samara.core.random import key_of, normals
from samara.core.tree import flatten, unflatten
from samara.sim.blowing import hub_code, wind_code
from samara.sim.stages.wake import gusts_code
from samara.sim.tiles import parts_of
from samara.wind.sources import is_local

SAMPLED, HEARD = 1, 2


class Listening:
    """A sensor on a plant: `listen(tick)` is one tick of the sensor axis, and whether something was heard."""

    def __init__(self, measuring, plant):
        self.measuring, self.plant, n = measuring, plant, plant.n
        if measuring.is_traced:
            keys = np.array([key_of(seed, f"sensor {measuring.sensor.name}") for seed in measuring.seeds]).T.copy()
            inputs = plant.state, plant.command, plant.environment
            numbers = measuring.drones.astype(np.int64)
            self._operations = tuple(measuring.operations(SAMPLED, HEARD, inputs, keys.astype(np.int64), numbers))
            self._walks = [(part, Walk(self._operations, part.width, Memory())) for part in parts_of(n)]

    def listen(self, tick):
        own = self.measuring
        if not own.is_traced:
            return own.update(self.plant, tick)
        heard = tick >= own.late and (tick - own.late) % own.every == 0
        row = np.zeros((1, len(ROW)), dtype=np.int64)
        row[0, 0], row[0, 2] = tick * own.axis_us, SAMPLED * (tick % own.every == 0) | HEARD * heard
        for part, walk in self._walks:
            lanes, end = (part.first, part.last), (0, len(self._operations))
            walk.run(row.ctypes.data, (0, 0), end, lanes, self.plant.n, briefly=True)
        return heard


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
