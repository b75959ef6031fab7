"""A sensor on the drones of a group: sampled at its own rate, heard when its delay has passed, silent when it failed."""

from collections import deque
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from samara.backends.machine import CompiledStep
from samara.core.random import normals
from samara.core.tree import flatten, unflatten
from samara.physics.multirotor import at_rest
from samara.physics.surroundings import empty_command, environment_of
from samara.physics.types import Vehicle
from samara.scenario.timeline import MICROSECONDS, sampling
from samara.sensors.sensor import Sensor
from samara.sim.plant import CODES, Plant

FAULTS = {
    "imu": frozenset({"gyro", "accelerometer"}),
    "magnetometer": frozenset({"magnetometer"}),
    "barometer": frozenset({"barometer"}),
    "gps": frozenset({"gps"}),
    "motion_capture": frozenset({"vision"}),
}
"""By kind: the faults of `samara.scenario.bus.SENSORS` that silence a sensor."""


class Heard(NamedTuple):
    """One drone's part of a sensor: what it said last and remembers, and what is still on its way."""

    said: np.ndarray
    fresh: float
    memory: Any
    coming: tuple[tuple[int, np.ndarray], ...]


class Measuring:
    """A sensor on n drones: `said` (fields, n) is what it said last, `fresh` (n) 1 where nobody has asked since."""

    def __init__(
        self, sensor: Sensor, vehicle: Vehicle, drones: np.ndarray, *, seed: int = 0, axis_us: int = 10_000
    ) -> None:
        self.sensor, self.seed, self.drones = sensor, seed, drones
        self.every, self.late = sampling(sensor, axis_us)
        self._vehicle, self._dt, n = vehicle, self.every * axis_us / MICROSECONDS, len(drones)
        self._per_second = max(1, MICROSECONDS // (self.every * axis_us))
        self._first, self._drawn = 0, np.zeros((0, sensor.normals_needed, n))
        self.said = np.zeros((len(sensor.fields), n))
        self.fresh = np.zeros(n)
        self.silent = np.zeros(n, dtype=bool)
        self._valid = sensor.fields.index("valid") if "valid" in sensor.fields else None
        self._coming: deque[tuple[int, np.ndarray]] = deque()
        self._machine = _sensor_code(sensor, vehicle).machine(n) if sensor.traced else None
        self._memories: list[Any] = [()] * n
        if sensor.initial is not None:
            self._start(sensor.initial)

    def _start(self, initial: Any) -> None:
        source = f"sensor {self.sensor.name} start"
        drawn = normals(self.seed, source, self.drones, 0, self.sensor.start_normals).reshape(len(self.drones), -1)
        for lane, own in enumerate(drawn.tolist()):
            memory = initial(self._vehicle, own)
            if self._machine:
                self._machine.carry[len(self.said) :, lane] = flatten(memory)
            else:
                self._memories[lane] = memory

    def update(self, plant: Plant, tick: int) -> bool:
        """One tick of the sensor axis: samples when it is time to, and whether something was heard"""
        if tick % self.every == 0:
            self._sample(plant, tick)
            if self._machine:
                self._coming.append((tick + self.late, self._machine.carry[: len(self.said)]))
            if self._machine and self.late:
                self._coming[-1] = (tick + self.late, self._coming[-1][1].copy())
        if not self._coming or self._coming[0][0] > tick:
            return False
        _, values = self._coming.popleft()
        if self.silent.any():
            self.said[:, ~self.silent] = values[:, ~self.silent]
            self.fresh[~self.silent] = 1.0
        else:
            self.said[:] = values
            self.fresh[:] = 1.0
        if self._valid is not None:
            self.fresh *= self.said[self._valid] > 0.5
        return True

    def _draws(self, tick: int) -> np.ndarray:
        """The normals of this sample, (normals, n), drawn by the second."""
        at = (tick - self._first) // self.every
        if not 0 <= at < len(self._drawn):
            self._first, at = tick, 0
            ticks = tick + self.every * np.arange(self._per_second)
            source = f"sensor {self.sensor.name}"
            drawn = normals(self.seed, source, self.drones[None, :], ticks[:, None], self.sensor.normals_needed)
            self._drawn = np.ascontiguousarray(np.moveaxis(drawn, 2, 1))
        own: np.ndarray = self._drawn[at]
        return own

    def _sample(self, plant: Plant, tick: int) -> None:
        draws = self._draws(tick) if self.sensor.normals_needed else NOTHING[:, : plant.n]
        if self._machine:
            held, at = self._machine.held, 0
            for part in (plant.state, plant.command, plant.environment, draws):
                held[at : at + len(part)] = part
                at += len(part)
            held[-1] = self._dt
            self._machine.run()
            return
        values = np.empty_like(self.said)
        templates = at_rest(self._vehicle), environment_of(self._vehicle)
        for lane in range(plant.n):
            state, environment = (
                unflatten(template, iter(rows[:, lane].tolist()))
                for template, rows in zip(templates, (plant.state, plant.environment), strict=True)
            )
            command = tuple(plant.command[:, lane].tolist())
            given = (state, command, self._vehicle, environment, draws[:, lane].tolist())
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
        return Heard(self.said[:, lane].copy(), float(self.fresh[lane]), memory, coming)

    def take(self, lane: int, own: Heard) -> None:
        """Goes on with what another group's sensor knew of this drone"""
        self.said[:, lane], self.fresh[lane] = own.said, own.fresh
        if self._machine:
            self._machine.carry[len(self.said) :, lane] = own.memory
        else:
            self._memories[lane] = own.memory
        while len(self._coming) < len(own.coming):
            self._coming.append((own.coming[len(self._coming)][0], np.zeros_like(self.said)))
        for (_, values), (_, column) in zip(self._coming, own.coming, strict=True):
            values[:, lane] = column


NOTHING = np.zeros((0, 10_000))


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
