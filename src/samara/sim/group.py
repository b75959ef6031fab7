"""Drones that are computed together, in the lanes of one batch: plant, estimator, pilot, and the arrays between them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from samara.backends.lanes import in_lanes, require_equal
from samara.backends.llvm_schedule import Operation
from samara.backends.machine import CompiledStep
from samara.control.named import Named, as_tuned, controller_named
from samara.control.sight import nearness, require_blocks
from samara.control.tuning import Tuned
from samara.core.tree import flatten, unflatten
from samara.estimate.fusion import Fusion
from samara.estimate.simple import TRUTH, Estimator
from samara.physics.multirotor import at_rest
from samara.physics.reference import REFERENCE_FIELDS
from samara.physics.surroundings import empty_command, environment_of
from samara.physics.types import BODY, Vehicle
from samara.record.streams import Rows
from samara.scenario.setting import DroneSetting
from samara.scenario.timeline import MICROSECONDS
from samara.sensors.eyes import Eye
from samara.sensors.sensor import Sensor
from samara.sim.fusing import Fusing
from samara.sim.looking import Looking
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


class Asked:
    """What the drones of a group are asked at ticks of the autopilot: `rows` (ticks, fields, drones), from tick `first` on

    The rows stay where they are, and what is asked later is written over them: `count` of them are true. Where the drones are
    asked the same but at another place, rows have one column, and `shift_W` (3, drones) is to be added to its position.
    """

    def __init__(self, ticks: int, drones: int, shift_W: np.ndarray | None = None) -> None:
        self.rows = np.zeros((ticks, len(REFERENCE_FIELDS), drones if shift_W is None else 1))
        self.first = np.zeros(1, dtype=np.int64)
        self.count = 0
        self.shift_W = shift_W


class HubWind:
    """The wind at each rotor's hub: `wind_W` (3 rotors, n), what the rotors' own wakes add to it, `wake_W`, and their sum."""

    def __init__(self, rotors: int, n: int) -> None:
        self._machine = _sum_code(3 * rotors).machine(n)
        self.felt_W = self._machine.carry
        self.wind_W, self.wake_W = self._machine.held[: 3 * rotors], self._machine.held[3 * rotors :]

    def operations(self, due: int, around: np.ndarray) -> list[Operation]:
        """The sum, into an environment"""
        return [
            Operation("run", due, (self._machine,)),
            Operation("copy", due, (self.felt_W, around, len(around))),
        ]


@dataclass(frozen=True, eq=False)
class Linked:
    """In place of a controller: the autopilot of this one drone, its output at hover, and whether outputs are commands."""

    link: Any
    hover_output: float
    commands_motors: bool = False


class Key(NamedTuple):
    """What drones must share to be computed together."""

    vehicle: Vehicle
    controller: Any
    healthy: tuple[bool, ...]
    estimator: Estimator | Fusion
    sensors: tuple[Sensor, ...] = ()
    model: Vehicle | None = None  # that the controller is made for, where it is another

    @property
    def known(self) -> Vehicle:
        """The vehicle as its controller knows it"""
        return self.vehicle if self.model is None else self.model


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
        seeds: Sequence[int] = (),
        numbers: np.ndarray | None = None,
        sensor_us: int = 10_000,
        names: tuple[str, ...] = (),
        asked_ticks: int = 2,
        keys: Sequence[Key] = (),
    ) -> None:
        """`keys` are those of the lanes, where their numbers differ, and `key` the first; `UnlikeError` where more does"""
        self.key, self.drones, n = key, drones, len(drones)
        self.keys = tuple(keys) or (key,)
        self.vehicles = tuple(own.vehicle for own in self.keys)  # of the lanes where they differ, else the one of all
        require_equal([(own.healthy, own.estimator) for own in self.keys])
        self.indices = np.array(drones)
        numbers = self.indices if numbers is None else numbers
        self.plant = Plant(
            key.vehicle, n=n, integrator=integrator, physics_us=physics_us, backend=backend, vehicles=self.vehicles
        )
        self.motion = views(self.plant.state, at_rest(key.vehicle))
        self.around = views(self.plant.environment, environment_of(key.vehicle))
        self.status = np.zeros((2, n))  # landed and crashed, 1 or 0
        self.touch = np.zeros((4, n))  # those two, whether it crashed just now, and how fast it came to the ground
        self.hubs = HubWind(len(key.vehicle.rotors), n) if key.vehicle.reads("hub_wind_W") else None
        self.tables: dict[str, Rows] = {}  # what is recorded of it and not yet handed on
        self.reference = np.zeros((len(REFERENCE_FIELDS), n))
        self.asked, self.asked_ticks = Asked(asked_ticks, n), asked_ticks
        self.followed: dict[
            int, tuple[list[int], np.ndarray]
        ] = {}  # by time [µs]: what was asked of some lanes from outside
        self.plans: dict[str, tuple[int, np.ndarray]] = {}  # what is asked ahead: the first tick, and that from then on
        self.firsts: dict[str, np.ndarray] = {}  # by table: the tick of the first row that the program puts into it
        self.armed = np.ones(n)
        self.all_armed = True
        self.frozen_rows: list[tuple[int, list[int]]] = []
        self.channels: np.ndarray | None = None
        self.seen_invalid = 0.0
        self._estimator: Any = None
        self.measuring = [
            _listener(own, numbers, seeds, sensor_us, self.vehicles)
            for own in zip(*(each.sensors for each in self.keys), strict=True)
        ]
        self.pilot: CompiledPilot | PythonPilot | ArrayPilot | LinkedPilot
        if isinstance(key.controller, Linked):
            self.pilot = LinkedPilot(key.controller, self.plant, self.measuring)
        else:
            self.pilot = _pilot(self.keys, n, autopilot_us / MICROSECONDS, names)
        self.eyes = _eyes_of(self.pilot, self.measuring, names)
        self.estimate = self.plant.state
        self.fusing: Fusing | None = None
        if isinstance(key.estimator, Fusion):
            listened = [own for own in self.measuring if isinstance(own, Measuring)]
            self.fusing = Fusing(key.estimator, listened, numbers, seeds=seeds)
            self.estimate = self.plant.state.copy()
        elif key.estimator != TRUTH:
            self._estimator = in_lanes(
                _estimator_code, [(key.estimator, vehicle) for vehicle in self.vehicles]
            ).machine(n)
            self.estimate = self._estimator.carry[: len(self.plant.fields)]

    def vehicle_of(self, lane: int) -> Vehicle:
        """With its own numbers"""
        return self.vehicles[lane % len(self.vehicles)]

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

    def estimate_after(self, dt: float) -> None:
        """How long after the last one the next estimate is  [s]"""
        if self.fusing:
            self.fusing.dt[:] = dt
        elif self._estimator:
            self._estimator.held[-1] = dt

    def estimating(self, due: int, keys: np.ndarray, numbers: np.ndarray, period_us: int) -> list[Operation]:
        """One tick of the estimate, as parts of a program"""
        machine, state, size = self._estimator, self.plant.state, len(self.plant.fields)
        if self.fusing:
            return [
                *self.fusing.operations(due),
                Operation("copy", due, (self.fusing.estimate, self.estimate, BODY)),
                Operation("copy", due, (state[BODY:], self.estimate[BODY:], size - BODY)),
            ]
        if machine is None:
            return []
        drawn = machine.held[size:-1]
        draw = [Operation("draw", due, (keys, numbers, drawn, len(drawn), period_us))] if len(drawn) else []
        return [
            Operation("copy", due, (state, machine.held[:size], size)),
            *draw,
            Operation("run", due, (machine,)),
        ]

    def update_estimate(self, draws: Sequence[np.ndarray] | None, dt: float) -> None:
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
            machine.held[size:-1] = np.array(draws).T
        machine.held[-1] = dt
        machine.run()
        for lane, rows in self.frozen_rows:
            self.estimate[rows, lane] = before[rows, lane]  # type: ignore[index]

    def forget_plans(self) -> None:
        """Tasks are others: what was asked from some tick on is not any more"""
        self.asked.count = 0
        if self.asked.rows.shape[2] < len(self.drones) and self.asked.shift_W is None:  # each its own from now on
            self.asked = Asked(self.asked_ticks, len(self.drones))
        self.plans.clear()

    def air_of(self, lane: int) -> list[np.ndarray]:
        """What blows and presses on one drone"""
        return [rows[:, lane].copy() for rows in self._air]

    def surround(self, lane: int, air: Sequence[np.ndarray]) -> None:
        """Goes on with what blew and pressed on this drone in another group"""
        for rows, column in zip(self._air, air, strict=True):
            rows[:, lane] = column

    @property
    def _air(self) -> list[np.ndarray]:
        parts = [self.around.air_density, self.around.wind_W]
        if self.hubs:
            parts += [self.around.hub_wind_W, self.hubs.wind_W, self.hubs.wake_W]
        for push in self.around.pushes:
            parts += [push.f_W, push.tau_B]
        return parts

    def known_of(self, lane: int) -> Any:
        """What sensors, and an estimator that listens to them, know of one drone"""
        told = [own.heard_by(lane) for own in self.measuring]
        return told, self.fusing.known[:, lane].copy() if self.fusing else None, self._going_on().get(lane)

    def _going_on(self) -> dict[int, Any]:
        """The memories, by lane, of a controller that does not begin anew with another vehicle or one rotor less"""
        return self.pilot.going_on if isinstance(self.pilot, PythonPilot) else {}

    def take_over(self, lane: int, known: Any) -> None:
        """Goes on with what another group knew of this drone"""
        for own, heard in zip(self.measuring, known[0], strict=True):
            own.take(lane, heard)
            self.show(own)
        if self.fusing:
            self.fusing.known[:, lane] = known[1]
            self._listen()
        if isinstance(self.pilot, PythonPilot) and known[2] is not None:
            self.pilot.go_on(lane, known[2])

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
                if isinstance(measuring, Looking):
                    measuring.blind(lane, own.faults.eyes)
            rows = [] if self.fusing else sensors_rows(own.faults.sensors)
            if own.faults.estimator_frozen:
                rows = list(range(len(self.plant.fields)))
            if rows:
                self.frozen_rows.append((lane, rows))

    @property
    def is_wired_alike(self) -> bool:
        """Whether the motors of all its drones hang on the same channels"""
        return self.channels is None or bool((self.channels == self.channels[:, :1]).all())

    def wiring(self, due: int) -> list[Operation]:
        """What of the pilot's command reaches the motors, as parts of a program: by their channels, and 0 where not armed"""
        wanted, command = self.pilot.command, self.plant.command
        if not self.all_armed:
            machine = _arming_code(self.key.vehicle).machine(len(self.drones))
            into, armed = machine.held[: len(wanted)], machine.held[len(wanted) :]
            armed[:] = self.armed
        else:
            into = command
        if self.channels is None:
            operations = [Operation("copy", due, (wanted, into, len(wanted)))]
        else:
            order = self.channels[:, 0].tolist()
            operations = [
                Operation("copy", due, (wanted[source : source + 1], into[k : k + 1], 1))
                for k, source in enumerate(order)
            ]
        if not self.all_armed:
            operations += [
                Operation("run", due, (machine,)),
                Operation("copy", due, (machine.carry, command, len(command))),
            ]
        return operations

    def show(self, heard: Measuring | Looking) -> None:
        """A picture that was heard, to a pilot that flies by it"""
        if heard is self.eyes and isinstance(self.pilot, CompiledPilot):
            part, n = heard.sensor.about.part, len(self.drones)
            pictures = heard.said.T.reshape(n, *part.shape)
            self.pilot.picture[:] = nearness(pictures, part.farthest).T

    def close(self) -> None:
        """Ends what its controllers have started"""
        for memory in self._going_on().values():
            memory.close()

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


def _listener(
    own: Sequence[Sensor], numbers: np.ndarray, seeds: Sequence[int], axis_us: int, vehicles: Sequence[Vehicle]
) -> Measuring | Looking:
    """What samples a sensor of all drones: `own` and the vehicles are those of the lanes where they differ"""
    if isinstance(own[0].about, Eye):
        require_equal(own)
        return Looking(own[0], numbers, seeds=seeds, axis_us=axis_us)
    return Measuring(own[0], vehicles[0], numbers, seeds=seeds, axis_us=axis_us, lanes=(own, vehicles))


def _pilot(
    keys: Sequence[Key], n: int, period: float, names: tuple[str, ...]
) -> CompiledPilot | PythonPilot | ArrayPilot:
    key, controller = keys[0], as_tuned(keys[0].controller)
    if isinstance(controller, Tuned):
        lanes = [(_named(as_tuned(own.controller), own.known, own.healthy, period), own.known) for own in keys]
        named = lanes[0][0]
        if not hasattr(named.call, "look_ahead"):
            blocks = len(getattr(named.memory, "picture", ()))
            return CompiledPilot(in_lanes(_pilot_code, lanes), key.known, n=n, blocks=blocks)
        controller, memory = named.call, named.memory
    else:
        memory = getattr(controller, "initial_memory", ())
    require_equal([(own.controller, own.known) for own in keys])
    on_arrays = controller.on_arrays(key.known, n) if hasattr(controller, "on_arrays") else None
    if on_arrays is not None:
        return ArrayPilot(on_arrays, key.known, controller.look_ahead, n=n, names=names)
    return PythonPilot(controller, key.known, memory, n=n, names=names, period=period)


def _eyes_of(pilot: Any, measuring: Sequence[Measuring | Looking], names: tuple[str, ...]) -> Looking | None:
    """The first depth camera of a drone whose pilot flies by pictures; ValueError where there is none"""
    if not len(getattr(pilot, "picture", ())):
        return None
    eyes = [own for own in measuring if isinstance(own, Looking) and own.sensor.kind == "depth_camera"]
    if not eyes:
        raise ValueError(
            f"{names[0] if names else 'a drone'}: its policy flies by a depth camera; expected one among its sensors, as "
            '{ part = "d435", width = 64, height = 48 }'
        )
    require_blocks(*eyes[0].eye.part.shape)
    return eyes[0]


@lru_cache(maxsize=CODES)
def _named(controller: Tuned, vehicle: Vehicle, healthy: tuple[bool, ...], period: float) -> Named:
    return controller_named(controller.name, vehicle, healthy, period=period, **controller.chosen)


@lru_cache(maxsize=CODES)
def _pilot_code(named: Named, vehicle: Vehicle) -> CompiledStep:
    return checked_controller(named.call, vehicle, named.memory)


@lru_cache(maxsize=CODES)
def _sum_code(rows: int) -> CompiledStep:
    none = (0.0,) * rows
    return CompiledStep(lambda own, held: tuple(a + b for a, b in zip(*held, strict=True)), none, (none, none))


@lru_cache(maxsize=CODES)
def _arming_code(vehicle: Vehicle) -> CompiledStep:
    """u a: a command where it is armed, else 0"""
    none = empty_command(vehicle)
    return CompiledStep(lambda own, held: tuple(u * held[1] for u in held[0]), none, (none, 0.0))


@lru_cache(maxsize=CODES)
def _estimator_code(estimator: Estimator, vehicle: Vehicle) -> CompiledStep:
    state = at_rest(vehicle)
    draws = tuple(0.0 for _ in range(estimator.normals_needed))
    return CompiledStep(
        lambda own, held: estimator.update(held[0], held[1], own[1], held[2]),
        (state, estimator.initial(state)),
        (state, draws, 0.0),
    )
