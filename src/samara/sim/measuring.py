"""A sensor on the drones of a group: sampled at its own rate, heard when its delay has passed, silent when it failed."""

from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from samara.backends.lanes import in_lanes, require_equal
from samara.backends.llvm_schedule import ROW, Memory, Operation, Walk
from samara.backends.machine import CompiledStep
from samara.core.ops import where
from samara.core.random import key_of, normals
from samara.core.tree import flatten, unflatten
from samara.physics.multirotor import at_rest
from samara.physics.surroundings import empty_command, environment_of
from samara.physics.types import Vehicle
from samara.scenario.timeline import MICROSECONDS, sampling
from samara.sensors.sensor import Sensor
from samara.sim.plant import CODES, Plant
from samara.sim.tiles import Part, parts_of

FAULTS = {
    "imu": frozenset({"gyro", "accelerometer"}),
    "magnetometer": frozenset({"magnetometer"}),
    "barometer": frozenset({"barometer"}),
    "gps": frozenset({"gps"}),
    "motion_capture": frozenset({"vision"}),
    "depth_camera": frozenset({"depth_camera"}),
    "lidar": frozenset({"lidar"}),
}
"""By kind: the faults of `samara.scenario.bus.SENSORS` that silence a sensor."""


SAMPLED, HEARD = 1, 2


class Heard(NamedTuple):
    """One drone's part of a sensor: what it said last and remembers, and what is still on its way."""

    said: np.ndarray
    fresh: float
    memory: Any
    coming: tuple[tuple[int, np.ndarray], ...]


class Measuring:
    """A sensor on n drones: `said` (fields, n) is what it said last, `fresh` (n) 1 where nobody has asked since.

    What a traced sensor samples waits for its delay in a ring of samples, and a program moves it on (`operations`); any other
    is asked in Python. `update` does either by itself.
    """

    def __init__(
        self,
        sensor: Sensor,
        vehicle: Vehicle,
        drones: np.ndarray,
        *,
        seeds: Sequence[int] = (),
        axis_us: int = 10_000,
        lanes: tuple[Sequence[Sensor], Sequence[Vehicle]] = ((), ()),
    ) -> None:
        """`drones` are their numbers, `seeds` those of their flights, `lanes` their sensors and vehicles where they differ"""
        self.sensor, self.drones, n = sensor, drones, len(drones)
        self.seeds = tuple(seeds) or (0,) * n
        self.every, self.late = sampling(sensor, axis_us)
        self.axis_us, self.period_us, self.delay_us = axis_us, self.every * axis_us, self.late * axis_us
        self._vehicle, self._dt = vehicle, self.every * axis_us / MICROSECONDS
        self._hearing = _hearing_code(sensor.fields).machine(n)
        fields = len(sensor.fields)
        self.said, self.fresh = self._hearing.carry[:fields], self._hearing.carry[fields]
        self._values, self.silent = self._hearing.held[:fields], self._hearing.held[fields]
        self._ring = np.zeros((self.late // self.every + 1, fields, n))
        self._first = np.zeros(1, dtype=np.int64)
        self._coming: deque[tuple[int, np.ndarray]] = deque()
        self._lanes = list(zip(*lanes, strict=True)) or [(sensor, vehicle)]
        if not sensor.traced:
            require_equal(self._lanes)
        self._machine = in_lanes(_sensor_code, self._lanes).machine(n) if sensor.traced else None
        self._memories: list[Any] = [()] * n
        self._alone: tuple[Plant, int, list[tuple[Part, Walk]]] | None = None
        if sensor.initial is not None:
            self._start()

    @property
    def is_traced(self) -> bool:
        """Whether a program samples it"""
        return self._machine is not None

    def operations(
        self, sampled: int, heard: int, inputs: Sequence[np.ndarray], keys: np.ndarray, numbers: np.ndarray
    ) -> list[Operation]:
        """A sample where it is time for one, and what is heard of an earlier one, as parts of a program

        `inputs` are the state, the command and the environment.
        """
        machine, count, fields = self._machine, self.sensor.normals_needed, len(self.said)
        assert machine is not None, self.sensor.name
        machine.held[-1] = self._dt
        operations, at = [], 0
        for part in inputs:
            operations.append(Operation("copy", sampled, (part, machine.held[at : at + len(part)], len(part))))
            at += len(part)
        if count:
            drawn = machine.held[at : at + count]
            operations.append(Operation("draw", sampled, (keys, numbers, drawn, count, self.axis_us)))
        operations.append(Operation("run", sampled, (machine,)))
        if not self.late:
            operations.append(Operation("copy", heard, (machine.carry, self._values, fields)))
        else:
            tick = self._first, len(self._ring)
            operations += [
                Operation("put_in_ring", sampled, (machine.carry, self._ring, fields, self.period_us, 0, *tick)),
                Operation("take", heard, (self._ring, self._values, fields, self.period_us, self.delay_us, *tick)),
            ]
        return [*operations, Operation("run", heard, (self._hearing,))]

    def _start(self) -> None:
        source, count = f"sensor {self.sensor.name} start", self.sensor.start_normals
        for lane, (seed, number) in enumerate(zip(self.seeds, self.drones.tolist(), strict=True)):
            sensor, vehicle = self._lanes[lane % len(self._lanes)]
            assert sensor.initial is not None, sensor.name
            memory = sensor.initial(vehicle, normals(seed, source, number, 0, count).tolist())
            if self._machine:
                self._machine.carry[len(self.said) :, lane] = flatten(memory)
            else:
                self._memories[lane] = memory

    def update(self, plant: Plant, tick: int) -> bool:
        """One tick of the sensor axis: samples when it is time to; whether something was heard. In a flight the program does so
        for a sensor that is traced."""
        if self._machine:
            return self._walk(plant, tick)
        if tick % self.every == 0:
            self._sample(plant, tick)
        if not self._coming or self._coming[0][0] > tick:
            return False
        _, self._values[:] = self._coming.popleft()
        self._hearing.run()
        return True

    def _walk(self, plant: Plant, tick: int) -> bool:
        """The operations of a traced sensor by themselves"""
        sampled, heard = tick % self.every == 0, tick >= self.late and (tick - self.late) % self.every == 0
        if self._alone is None or self._alone[0] is not plant:
            keys = [key_of(seed, f"sensor {self.sensor.name}") for seed in self.seeds]
            inputs, draws = (plant.state, plant.command, plant.environment), np.array(keys, dtype=np.int64).T.copy()
            own = tuple(self.operations(SAMPLED, HEARD, inputs, draws, self.drones.astype(np.int64)))
            parts = [(part, Walk(own, part.width, Memory())) for part in parts_of(plant.n)]
            self._alone = plant, len(own), parts
        _, count, walks = self._alone
        row = np.zeros((1, len(ROW)), dtype=np.int64)
        row[0, ROW.index("time_us")], row[0, ROW.index("due")] = tick * self.axis_us, SAMPLED * sampled | HEARD * heard
        for part, walk in walks:
            walk.run(row.ctypes.data, (0, 0), (0, count), (part.first, part.last), plant.n, briefly=True)
        return heard

    def _sample(self, plant: Plant, tick: int) -> None:
        source, count = f"sensor {self.sensor.name}", self.sensor.normals_needed
        values = np.empty_like(self.said)
        templates = at_rest(self._vehicle), environment_of(self._vehicle)
        for lane in range(plant.n):
            state, environment = (
                unflatten(template, iter(rows[:, lane].tolist()))
                for template, rows in zip(templates, (plant.state, plant.environment), strict=True)
            )
            command = tuple(plant.command[:, lane].tolist())
            drawn = normals(self.seeds[lane], source, int(self.drones[lane]), tick, count).tolist()
            given = (state, command, self._vehicle, environment, drawn)
            if self.sensor.initial is None:
                numbers = self.sensor.measure(*given)
            else:
                numbers, self._memories[lane] = self.sensor.measure(*given, self._memories[lane], self._dt)
            if isinstance(numbers, tuple):
                numbers = tuple(flatten(numbers))
            if np.ndim(numbers) != 1 or len(numbers) != len(self.sensor.fields):
                raise ValueError(
                    f"sensor {self.sensor.name!r} said {numbers!r}; expected {len(self.sensor.fields)} numbers: "
                    f"{', '.join(self.sensor.fields)}"
                )
            values[:, lane] = numbers
        self._coming.append((tick + self.late, values))

    def memory(self) -> Any:
        """What a compiled sensor remembers of all drones, its components as arrays"""
        if self.sensor.initial is None or self._machine is None:
            return ()
        template = self.sensor.initial(self._vehicle, (0.0,) * self.sensor.start_normals)
        return unflatten(template, iter(self._machine.carry[len(self.said) :]))

    # When drones are put together anew -------------------------------------------------------------------------------

    def heard_by(self, lane: int) -> Heard:
        """One drone's part, to be taken into another group"""
        memory = self._machine.carry[len(self.said) :, lane].copy() if self._machine else self._memories[lane]
        coming = tuple((tick, values[:, lane].copy()) for tick, values in self._coming)
        if self._machine:
            coming = tuple(enumerate(self._ring[:, :, lane].copy()))
        return Heard(self.said[:, lane].copy(), float(self.fresh[lane]), memory, coming)

    def take(self, lane: int, own: Heard) -> None:
        """Goes on with what another group's sensor knew of this drone"""
        self.said[:, lane], self.fresh[lane] = own.said, own.fresh
        if self._machine:
            self._machine.carry[len(self.said) :, lane] = own.memory
            self._ring[:, :, lane] = [column for _, column in own.coming]
            return
        self._memories[lane] = own.memory
        while len(self._coming) < len(own.coming):
            self._coming.append((own.coming[len(self._coming)][0], np.zeros_like(self.said)))
        for (_, values), (_, column) in zip(self._coming, own.coming, strict=True):
            values[:, lane] = column


@lru_cache(maxsize=8 * CODES)
def _hearing_code(fields: tuple[str, ...]) -> CompiledStep:
    """(said, fresh) from (values, silent): what a failed sensor said last stays, and a field `valid` of 0 is nothing new."""
    valid = fields.index("valid") if "valid" in fields else None

    def hear(own: Any, held: Any) -> Any:
        (said, fresh), (values, silent) = own, held
        failed = silent > 0.5
        said = tuple(where(failed, old, new) for old, new in zip(said, values, strict=True))
        fresh = where(failed, fresh, 1.0)
        return said, fresh if valid is None else where(said[valid] > 0.5, fresh, 0.0)

    none = tuple(0.0 for _ in fields)
    return CompiledStep(hear, (none, 0.0), (none, 0.0))


@lru_cache(maxsize=8 * CODES)
def _sensor_code(sensor: Sensor, vehicle: Vehicle) -> CompiledStep:
    """(values, memory) from (state, command, environment, normals, dt)."""
    given = (
        at_rest(vehicle),
        empty_command(vehicle),
        environment_of(vehicle),
        tuple(0.0 for _ in range(sensor.normals_needed)),
        0.0,
    )
    values = tuple(0.0 for _ in sensor.fields)

    def measure(own: Any, held: Any) -> Any:
        state, command, environment, draws, dt = held
        if sensor.initial is None:
            return tuple(flatten(sensor.measure(state, command, vehicle, environment, draws))), ()
        reading, memory = sensor.measure(state, command, vehicle, environment, draws, own[1], dt)
        return tuple(flatten(reading)), memory

    start = () if sensor.initial is None else sensor.initial(vehicle, (0.0,) * sensor.start_normals)
    return CompiledStep(measure, (values, start), given)
