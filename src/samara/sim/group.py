"""Drones that are computed together, in the lanes of one batch: plant, estimator, pilot, and the arrays between them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from samara.backends.machine import CompiledStep
from samara.control.named import Named, as_tuned, controller_named
from samara.control.tuning import Tuned
from samara.core.tree import flatten, unflatten
from samara.estimate.fusion import Fusion
from samara.estimate.simple import TRUTH, Estimator
from samara.physics.multirotor import at_rest
from samara.physics.reference import REFERENCE_FIELDS
from samara.physics.surroundings import environment_of
from samara.physics.types import BODY, Vehicle
from samara.record.streams import Rows
from samara.scenario.setting import DroneSetting
from samara.scenario.timeline import MICROSECONDS
from samara.sensors.sensor import Sensor
from samara.sim.fusing import Fusing
from samara.sim.measuring import FAULTS, Measuring
from samara.sim.pilots import NO_PLAN, ArrayPilot, CompiledPilot, LinkedPilot, PythonPilot, checked_controller
from samara.sim.plant import CODES, Plant
from samara.sim.views import views


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


@dataclass(frozen=True, eq=False)
class Linked:
    """In place of a controller: the autopilot that flies this one drone, and its output at hover."""

    link: Any
    hover_output: float


class Key(NamedTuple):
    """What drones must share to be computed together."""

    vehicle: Vehicle
    controller: Any
    healthy: tuple[bool, ...]
    estimator: Estimator | Fusion
    sensors: tuple[Sensor, ...] = ()


class Group:
    """Drones that are computed together, in the lanes of one batch: plant, estimator, pilot, and their arrays."""

    def __init__(
        self,
        key: Key,
        drones: tuple[int, ...],
        integrator: str,
        physics_us: int,
        autopilot_us: int,
        *,
        backend: str = "llvm",
        seed: int = 0,
        sensor_us: int = 10_000,
        names: tuple[str, ...] = (),
    ) -> None:
        self.key, self.drones, n = key, drones, len(drones)
        self.indices = np.array(drones)
        self.plant = Plant(key.vehicle, n=n, integrator=integrator, physics_us=physics_us, backend=backend)
        self.motion = views(self.plant.state, at_rest(key.vehicle))
        self.around = views(self.plant.environment, environment_of(key.vehicle))
        self.tables: dict[str, Rows] = {}  # what is recorded of it and not yet handed on
        self.reference = np.zeros((len(REFERENCE_FIELDS), n))
        self.plans: dict[str, tuple[int, np.ndarray]] = {}  # by axis: the first tick, and what is asked from then on
        self.first_noise = 0
        self.armed = np.ones(n)
        self.all_armed = True
        self.frozen_rows: list[tuple[int, list[int]]] = []
        self.channels: np.ndarray | None = None
        self.seen_invalid = 0.0
        self._estimator: Any = None
        self.noise = np.zeros((0, 0, n))
        self.measuring = [
            Measuring(sensor, key.vehicle, self.indices, seed=seed, axis_us=sensor_us) for sensor in key.sensors
        ]
        self.pilot: CompiledPilot | PythonPilot | ArrayPilot | LinkedPilot
        if isinstance(key.controller, Linked):
            self.pilot = LinkedPilot(key.controller.link, self.plant, self.measuring, key.controller.hover_output)
        else:
            self.pilot = _pilot(key, n, autopilot_us / MICROSECONDS, names)
        self.estimate = self.plant.state
        self.fusing: Fusing | None = None
        if isinstance(key.estimator, Fusion):
            self.fusing = Fusing(key.estimator, self.measuring, self.indices, seed=seed)
            self.estimate = self.plant.state.copy()
        elif key.estimator != TRUTH:
            self._estimator = _estimator_code(key.estimator, key.vehicle).machine(n)
            self.estimate = self._estimator.carry[: len(self.plant.fields)]

    def start_estimate(self) -> None:
        """The first estimate is the truth, and so is every memory of it."""
        for lane in range(len(self.drones) if self._estimator or self.fusing else 0):
            state = unflatten(at_rest(self.key.vehicle), iter(self.plant.state[:, lane].tolist()))
            if self.fusing:
                self.fusing.start(lane, state)
            elif isinstance(self.key.estimator, Estimator):
                self._estimator.carry[:, lane] = flatten((state, self.key.estimator.initial(state)))
        self._listen()

    def _listen(self) -> None:
        """The motion as the sensors tell it; rotor speeds and batteries as motor controllers report them, without error."""
        if self.fusing:
            self.estimate[:BODY] = self.fusing.estimate
            self.estimate[BODY:] = self.plant.state[BODY:]

    def update_estimate(self, draws: np.ndarray | None, dt: float) -> None:
        machine, size = self._estimator, len(self.plant.fields)
        if self.fusing:
            kept = {lane: self.estimate[:, lane].copy() for lane, _ in self.frozen_rows}
            self.fusing.update(dt)
            self._listen()
            for lane, column in kept.items():
                self.estimate[:, lane] = column
            return
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

    def known_of(self, lane: int) -> Any:
        """What sensors, and an estimator that listens to them, know of one drone"""
        told = [own.heard_by(lane) for own in self.measuring]
        return told, self.fusing.known[:, lane].copy() if self.fusing else None

    def take_over(self, lane: int, known: Any) -> None:
        """Goes on with what another group knew of this drone"""
        for own, heard in zip(self.measuring, known[0], strict=True):
            own.take(lane, heard)
        if self.fusing:
            self.fusing.known[:, lane] = known[1]
            self._listen()

    def arm_and_break(self, settings: Sequence[DroneSetting]) -> None:
        """Writes arming and faults of its drones into its arrays"""
        linked = isinstance(self.key.controller, Linked)  # an autopilot arms itself, when it is told to
        self.armed[:] = [float(own.armed or linked) for own in settings]
        self.all_armed = bool(self.armed.all())
        self.frozen_rows = []
        for lane, own in enumerate(settings):
            self.around.battery_connected[0, lane] = float(own.faults.battery_connected)
            if self.key.vehicle.rotors:
                self.around.motor_power[:, lane] = own.faults.motor_power
            for measuring in self.measuring:
                measuring.silent[lane] = bool(FAULTS.get(measuring.sensor.kind, frozenset()) & own.faults.sensors)
            rows = [] if self.fusing else sensors_rows(own.faults.sensors)
            if own.faults.estimator_frozen:
                rows = list(range(len(self.plant.fields)))
            if rows:
                self.frozen_rows.append((lane, rows))

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


def _pilot(key: Key, n: int, period: float, names: tuple[str, ...]) -> CompiledPilot | PythonPilot | ArrayPilot:
    controller = as_tuned(key.controller)
    if isinstance(controller, Tuned):
        named = _named(controller, key.vehicle, key.healthy, period)
        if not hasattr(named.call, "look_ahead"):
            return CompiledPilot(_pilot_code(named, key.vehicle), key.vehicle, n=n)
        controller, memory = named.call, named.memory
    else:
        memory = getattr(controller, "initial_memory", ())
    on_arrays = controller.on_arrays(key.vehicle, n) if hasattr(controller, "on_arrays") else None
    if on_arrays is not None:
        return ArrayPilot(on_arrays, key.vehicle, controller.look_ahead, n=n, names=names)
    return PythonPilot(controller, key.vehicle, memory, n=n, names=names, period=period)


@lru_cache(maxsize=CODES)
def _named(controller: Tuned, vehicle: Vehicle, healthy: tuple[bool, ...], period: float) -> Named:
    return controller_named(controller.name, vehicle, healthy, period=period, **controller.chosen)


@lru_cache(maxsize=CODES)
def _pilot_code(named: Named, vehicle: Vehicle) -> CompiledStep:
    return checked_controller(named.call, vehicle, named.memory)


@lru_cache(maxsize=CODES)
def _estimator_code(estimator: Estimator, vehicle: Vehicle) -> CompiledStep:
    state = at_rest(vehicle)
    draws = tuple(0.0 for _ in range(estimator.normals_needed))
    return CompiledStep(
        lambda own, held: estimator.update(held[0], held[1], own[1], held[2]),
        (state, estimator.initial(state)),
        (state, draws, 0.0),
    )
