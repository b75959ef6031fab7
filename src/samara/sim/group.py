"""Drones that are computed together, in the lanes of one batch: plant, estimator, pilot, and the arrays between them."""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from samara.algebra import norm
from samara.arrays import flatten, leaf_names, unflatten
from samara.backends.machine import Code
from samara.control.named import Named, controller_named
from samara.estimate.simple import TRUTH, Estimator
from samara.physics.multirotor import Vehicle, at_rest
from samara.sensors.sensor import Sensor
from samara.sim.pilot import NO_PLAN, REFERENCE, CompiledPilot, PythonPilot, checked_controller
from samara.sim.plant import CODES, Plant, empty_command, environment_of
from samara.sim.timeline import MICROSECONDS

CLEAR = 0.05  # [m]
REFERENCE_FIELDS = tuple(leaf_names(REFERENCE))


def sensors_rows(failed: frozenset[str]) -> list[int]:
    """The rows of an estimate that no longer change when sensors fail: p, v without GPS or vision, ω without gyro, q without
    magnetometer, the height without barometer"""
    rows: set[int] = set()
    if failed & {"gps", "vision"}:
        rows |= set(range(6))
    if "barometer" in failed:
        rows |= {2, 5}
    if "magnetometer" in failed:
        rows |= set(range(6, 10))
    if "gyro" in failed:
        rows |= set(range(10, 13))
    return sorted(rows)


class Key(NamedTuple):
    """What drones must share to be computed together."""

    vehicle: Vehicle
    controller: Any
    healthy: tuple[bool, ...]
    estimator: Estimator
    sensors: tuple[Sensor, ...] = ()


class Group:
    """Drones that are computed together, in the lanes of one batch: plant, estimator, pilot, and their arrays."""

    def __init__(self, key: Key, drones: tuple[int, ...], integrator: str, physics_us: int, autopilot_us: int) -> None:
        self.key, self.drones, n = key, drones, len(drones)
        self.indices = np.array(drones)
        feet = key.vehicle["contact"].points_B if key.vehicle.has("contact") else ()
        self.reach = max((norm(point) for point in feet), default=0.0) + CLEAR  # above level ground it touches nothing
        self.plant = Plant(key.vehicle, n=n, integrator=integrator, physics_us=physics_us)
        self.pilot = _pilot(key, n, autopilot_us / MICROSECONDS)
        self.reference = np.zeros((len(REFERENCE_FIELDS), n))
        self.plans: dict[str, tuple[int, np.ndarray]] = {}  # by axis: the first tick, and what is asked from then on
        self.first_noise = 0
        self.armed = np.ones(n)
        self.all_armed = True
        self.frozen_rows: list[tuple[int, list[int]]] = []
        self.channels: np.ndarray | None = None
        self.seen_insane = 0.0
        self._estimator: Any = None
        self.noise = np.zeros((0, 0, n))
        self.measuring = [Measuring(sensor, key.vehicle, n) for sensor in key.sensors]
        self.estimate = self.plant.state
        if key.estimator is not TRUTH:
            self._estimator = _estimator_code(key.estimator, key.vehicle).machine(n)
            self.estimate = self._estimator.carry[: len(self.plant.fields)]

    def start_estimate(self) -> None:
        """The first estimate is the truth, and so is every memory of it."""
        if self._estimator is None:
            return
        for lane in range(len(self.drones)):
            state = unflatten(at_rest(self.key.vehicle), iter(self.plant.state[:, lane].tolist()))
            self._estimator.carry[:, lane] = flatten((state, self.key.estimator.initial(state)))

    def update_estimate(self, draws: np.ndarray | None, dt: float) -> None:
        machine, size = self._estimator, len(self.plant.fields)
        if machine is None:
            return
        before = self.estimate.copy() if self.frozen_rows else None
        machine.held[:size] = self.plant.state
        if draws is not None:
            machine.held[size:-1] = draws
        machine.held[-1] = dt
        machine.run()
        for lane, rows in self.frozen_rows:
            self.estimate[rows, lane] = before[rows, lane]  # type: ignore[index]

    def control(self, asked: np.ndarray, time_us: int, ahead: np.ndarray = NO_PLAN) -> None:
        self.reference[:] = asked
        self.pilot.run(self.estimate, self.reference, time_us, ahead)
        command = self.pilot.command
        if self.channels is not None:
            command = np.take_along_axis(command, self.channels, axis=0)
        if self.all_armed:
            self.plant.command[:] = command
        else:
            np.multiply(command, self.armed, out=self.plant.command)


def _pilot(key: Key, n: int, period: float) -> CompiledPilot | PythonPilot:
    if not isinstance(key.controller, str):
        return PythonPilot(key.controller, key.vehicle, getattr(key.controller, "initial_memory", ()), n=n)
    named = _named(key.controller, key.vehicle, key.healthy, period)
    if hasattr(named.call, "look_ahead"):
        return PythonPilot(named.call, key.vehicle, named.memory, n=n)
    return CompiledPilot(_pilot_code(named, key.vehicle), key.vehicle, n=n)


class Measuring:
    """A sensor on n drones: `said` (fields, n) is what it said last."""

    def __init__(self, sensor: Sensor, vehicle: Vehicle, n: int) -> None:
        self.sensor, self._vehicle = sensor, vehicle
        self._machine = _sensor_code(sensor, vehicle).machine(n) if sensor.traced else None
        self.said = self._machine.carry if self._machine else np.zeros((len(sensor.fields), n))

    def measure(self, plant: Plant, draws: np.ndarray) -> None:
        """said ← measure(state, command, environment, draws (normals, n))"""
        if self._machine:
            np.concatenate([plant.state, plant.command, plant.environment, draws], out=self._machine.held)
            self._machine.run()
            return
        templates = at_rest(self._vehicle), environment_of(self._vehicle)
        for lane in range(plant.n):
            state, environment = (
                unflatten(template, iter(rows[:, lane].tolist()))
                for template, rows in zip(templates, (plant.state, plant.environment), strict=True)
            )
            command = tuple(plant.command[:, lane].tolist())
            numbers = self.sensor.measure(state, command, self._vehicle, environment, draws[:, lane].tolist())
            if np.ndim(numbers) != 1 or len(numbers) != len(self.sensor.fields):
                raise ValueError(
                    f"sensor {self.sensor.name!r} said {numbers!r}; expected {len(self.sensor.fields)} numbers: "
                    f"{', '.join(self.sensor.fields)}"
                )
            self.said[:, lane] = numbers


@lru_cache(maxsize=CODES)
def _sensor_code(sensor: Sensor, vehicle: Vehicle) -> Code:
    return Code(
        lambda own, held: tuple(sensor.measure(held[0], held[1], vehicle, held[2], held[3])),
        tuple(0.0 for _ in sensor.fields),
        (
            at_rest(vehicle),
            empty_command(vehicle),
            environment_of(vehicle),
            tuple(0.0 for _ in range(sensor.normals_needed)),
        ),
    )


@lru_cache(maxsize=CODES)
def _named(controller: str, vehicle: Vehicle, healthy: tuple[bool, ...], period: float) -> Named:
    return controller_named(controller, vehicle, healthy, period=period)


@lru_cache(maxsize=CODES)
def _pilot_code(named: Named, vehicle: Vehicle) -> Code:
    return checked_controller(named.call, vehicle, named.memory)


@lru_cache(maxsize=CODES)
def _estimator_code(estimator: Estimator, vehicle: Vehicle) -> Code:
    state = at_rest(vehicle)
    draws = tuple(0.0 for _ in range(estimator.normals_needed))
    return Code(
        lambda own, held: estimator.update(held[0], held[1], own[1], held[2]),
        (state, estimator.initial(state)),
        (state, draws, 0.0),
    )
