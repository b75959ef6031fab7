"""Controllers that Python calls: a function of one's own, one that solves a problem over a horizon, or a real autopilot.

The first two take the estimate and the reference; a real autopilot takes the readings of the sensors. All leave a command
within the vehicle's range.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

import numpy as np

from samara.backends.packing import unpacker
from samara.control.named import DEFAULT_PERIOD
from samara.control.sight import require_blocks
from samara.core.algebra import ZERO
from samara.physics.multirotor import at_rest
from samara.physics.reference import Reference
from samara.physics.surroundings import environment_of
from samara.physics.types import BODY, State, Vehicle
from samara.scenario.batteries import battery_status
from samara.scenario.bus import require_command, sanitized
from samara.scenario.facts import Fact
from samara.scenario.supply import battery_of, cells_of
from samara.scenario.timeline import MICROSECONDS
from samara.sensors.sensor import Sensor
from samara.sim.setup import DroneSetup, Linked
from samara.sim.stage import PythonStage, StageSet
from samara.sim.stages.controller import build_controller, named_controller
from samara.vehicles.effective import at_density
from samara.vehicles.limits import command_bounds, command_range

if TYPE_CHECKING:
    from samara.link.readings import Readings, Supply
    from samara.sim.fleet import Fleet
    from samara.sim.group import Group
    from samara.sim.plant import Plant

REFERENCE = Reference(ZERO)
NOWHERE = np.empty(0)
NO_PLAN = np.empty((0, 0, 0))
NO_ROWS = NOTHING_CUT = np.empty((0, 0))
ROUNDING = 1e-6  # of the range: a command out of it by less is within


def clock_parameters(controller: Callable[..., Any]) -> tuple[str, ...]:
    """Which of `time` and `dt` a function of one's own asks for by their names"""
    try:
        known = signature(controller).parameters
    except (TypeError, ValueError):  # some functions of C have no signature
        return ()
    by_name = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    return tuple(name for name in ("time", "dt") if name in known and known[name].kind in by_name)


class CheckedCommand:
    """The commands (channels, n) of functions of one's own, cut to the vehicle's range, and the `excess` that was cut off."""

    def __init__(self, vehicle: Vehicle, n: int, names: Sequence[str] = ()) -> None:
        self._range = command_range(vehicle)
        self._low, self._high = self._range or (-math.inf, math.inf)
        self._rounding = ROUNDING * (self._high - self._low) if self._range else 0.0
        bounds = command_bounds(vehicle) if vehicle.servos else None  # of one range for all, two comparisons do
        self._bounds = None if bounds is None else np.array(bounds, dtype=float).T
        self._names = tuple(names) or tuple(f"drone {k}" for k in range(n))
        self.command = np.zeros((vehicle.command_size, n))
        self.excess = np.zeros_like(self.command)
        self._any_excess = False

    def take(self, drone: int, command: Sequence[float], time_us: int) -> None:
        """One drone's; what is not a number is an error"""
        if self._any_excess:
            self.excess[:, drone] = 0.0
            self._any_excess = bool(self.excess.any())
        if self._bounds is None and (
            math.isfinite(sum(command)) and self._low <= min(command) and max(command) <= self._high
        ):
            self.command[:, drone] = command
            return
        require_command(command, None, f"the controller of {self._names[drone]}", time_us)
        held = sanitized(command, self._range)[0] if self._bounds is None else np.clip(command, *self._bounds)
        cut = np.subtract(command, held)
        self.command[:, drone] = held
        self.excess[:, drone] = np.where(np.abs(cut) > self._rounding, cut, 0.0)
        self._any_excess = bool(self._bounds is None or self.excess.any())


class PythonController:
    """A function of one's own with the same arguments, called with floats for each drone; NaN in its answer is an error.

    A controller with `look_ahead`, m instants from now [s], gets the references of those instants instead of one: a `Reference`
    of arrays. Where its memory has a `prediction` (m, 3), positions it plans to be at, `prediction` (n, m, 3) has them. With
    parameters called `time` or `dt` it gets the time of the flight and of a period in them [s]. A command out of range goes to
    its end; `excess` (channels, n) is what was cut off, 0 of all else.
    """

    def __init__(
        self,
        controller: Callable[..., Any],
        vehicle: Vehicle,
        memory: Any,
        *,
        n: int = 1,
        names: Sequence[str] = (),
        period: float = DEFAULT_PERIOD,
    ) -> None:
        self._clock, self._period = clock_parameters(controller), period
        self._controller, self._vehicle, self._memories = controller, vehicle, [memory] * n
        self._checked = CheckedCommand(vehicle, n, names)
        self.command, self.excess, self.invalid_count = self._checked.command, self._checked.excess, np.zeros(n)
        self._state_of, self._reference_of = unpacker(at_rest(vehicle)), unpacker(REFERENCE)
        self.look_ahead = np.asarray(getattr(controller, "look_ahead", NOWHERE), dtype=float)
        self.plan, self.prediction = _plan_of(np.full((len(self.look_ahead), 3, n), np.nan))

    @property
    def continuing_states(self) -> dict[int, Any]:
        """By lane: states that are more than numbers, such as a firmware's, which is not to begin anew in flight"""
        if not getattr(self._controller, "goes_on", False):
            return {}
        return {drone: memory for drone, memory in enumerate(self._memories) if memory is not None}

    def resume(self, drone: int, state: Any) -> None:
        """Go on from the state another controller of this drone had"""
        self._memories[drone] = state

    def close(self) -> None:
        """End what the controllers have started"""
        for state in self.continuing_states.values():
            state.close()

    def run(self, estimate: np.ndarray, reference: np.ndarray, time_us: int, ahead: np.ndarray = NO_PLAN) -> None:
        """The same, drone by drone; `ahead` (m, fields, n) for one that looks ahead"""
        clock = {"time": time_us / MICROSECONDS, "dt": self._period}
        told = {name: clock[name] for name in self._clock}
        for drone, memory in enumerate(self._memories):
            state: State = self._state_of(estimate[:, drone].tolist())
            asked = ahead[:, :, drone].T if ahead.size else reference[:, drone].tolist()
            wanted: Reference = self._reference_of(asked)
            answer = self._controller(state, wanted, self._vehicle, memory, **told)
            command, self._memories[drone] = _command_and_memory(answer, memory, len(self.command))
            self._checked.take(drone, command, time_us)
            planned = getattr(self._memories[drone], "prediction", None)
            if planned is not None:
                self.prediction[drone] = planned


class ArrayController:
    """A controller that looks ahead and works on arrays of n drones; its commands are looked at like a `PythonController`'s.

    It has `run(estimate, ahead)`, `command` (channels, n) and `prediction` (m, 3, n): see `samara.control.ilqr.arrays`.
    """

    def __init__(
        self, controller: Any, vehicle: Vehicle, look_ahead: np.ndarray, *, n: int = 1, names: Sequence[str] = ()
    ) -> None:
        self._controller, self._wanted, self._checked = (
            controller,
            controller.command.T,
            CheckedCommand(vehicle, n, names),
        )
        self.command, self.excess, self.invalid_count = self._checked.command, self._checked.excess, np.zeros(n)
        self.look_ahead, (self.plan, self.prediction) = look_ahead, _plan_of(controller.prediction)

    def run(self, estimate: np.ndarray, reference: np.ndarray, time_us: int, ahead: np.ndarray = NO_PLAN) -> None:
        """The same, all drones at once"""
        self._controller.run(estimate, ahead)
        for drone, wanted in enumerate(self._wanted.tolist()):
            self._checked.take(drone, wanted, time_us)

    def close(self) -> None:
        """Nothing to end"""


class AutopilotController:
    """An autopilot at the other end of a link, in lockstep: it gets the sensors of this instant, its answer is waited for."""

    look_ahead = NOWHERE
    plan = NO_ROWS
    prediction = NO_PLAN
    excess = NOTHING_CUT

    def __init__(self, linked: Linked, group: "Group") -> None:
        from samara.link.readings import Senses
        from samara.link.thrust import commands_code, outputs_code

        plant = group.plant
        self._link, self._plant, self._senses, self._power = (
            linked.link,
            plant,
            Senses(group.sensors),
            PowerModule(plant),
        )
        own = plant.vehicle
        code = commands_code(own) if linked.commands_motors else outputs_code(own, linked.hover_output)
        self._machine = code.machine()
        self.command = self._machine.carry
        self.invalid_count = np.zeros(1)
        self._readings: Readings | None = None

    def begin(self, reference: np.ndarray, time_us: int) -> None:
        """Read the sensors and start the exchange, which `run` completes: several autopilots compute at the same time"""
        p_v_q_omega = self._plant.state[:BODY, 0].tolist()
        readings = self._senses.read(time_us, p_v_q_omega, reference[:, 0].tolist())
        speeds = tuple(self._plant.state[BODY : BODY + len(self._plant.vehicle.rotors), 0].tolist())
        supply = self._power.read(time_us)
        self._readings = readings._replace(supply=supply, rotor_speed=speeds)
        self._link.begin(self._readings)

    def run(self, estimate: np.ndarray, reference: np.ndarray, time_us: int, ahead: np.ndarray = NO_PLAN) -> None:
        """command ← the vehicle's, for the thrusts the autopilot asks of its rotors"""
        if self._readings is None or self._readings.time_us != time_us:
            self.begin(reference, time_us)
        self._machine.held[:, 0] = self._link.exchange(self._readings)
        self._readings = None
        self._machine.run()

    def close(self) -> None:
        """Nothing to end: the fleet closes its links"""


def _plan_of(predicted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of positions (m, 3, n) the rows (3 m, n) that are recorded, and the same memory as (n, m, 3)"""
    return predicted.reshape(-1, predicted.shape[-1]), predicted.transpose(2, 0, 1) if predicted.size else NO_PLAN


def _command_and_memory(answer: Any, memory: Any, size: int) -> tuple[Any, Any]:
    """What a controller returns: (command, memory), or the command alone when it keeps nothing."""
    if isinstance(answer, tuple) and len(answer) == 2 and np.ndim(answer[0]) == 1 and len(answer[0]) == size:
        return answer
    if np.ndim(answer) == 1 and len(answer) == size:
        return answer, memory
    raise ValueError(f"the controller returned {answer!r}; expected {size} numbers, or (those, its memory)")


BATTERY_PERIOD_US = 100_000


class PowerModule:
    """Looks at a plant's battery once in a while."""

    def __init__(self, plant: "Plant") -> None:
        self._plant, self._battery, self._next_us = plant, battery_of(plant.vehicle), 0
        self._state_of = unpacker(at_rest(plant.vehicle))
        self._around_of = unpacker(environment_of(plant.vehicle))

    def read(self, time_us: int) -> "Supply | None":
        """What it says now; None between two readings, and where no battery empties"""
        if self._battery is None or time_us < self._next_us:
            return None
        self._next_us = time_us + BATTERY_PERIOD_US
        state, around = self._state_of(self._plant.state[:, 0].tolist()), self._plant.environment[:, 0].tolist()
        command = tuple(self._plant.command[:, 0].tolist())
        told = battery_status(state, command, self._plant.vehicle, self._around_of(around))
        current = sum(each.current for each in told)
        from samara.link.readings import Supply

        return Supply(
            told[0].voltage, current, told[0].charge, cells_of(self._battery), float(self._battery.capacity) * len(told)
        )


def make_controller(group: "Group") -> PythonController | ArrayController | AutopilotController:
    """The controller in Python of a group's drones"""
    setup, n = group.setup, len(group)
    if isinstance(setup.controller, Linked):
        return AutopilotController(setup.controller, group)
    named = named_controller(setup)
    controller: Any = setup.controller if named is None else named.call
    state = None if named is None else named.memory
    if named is None:
        state = getattr(controller, "initial_memory", ())
    known = at_density(setup.known_vehicle, setup.flight.environment.air_density)
    on_arrays = controller.on_arrays(known, n) if hasattr(controller, "on_arrays") else None
    if on_arrays is not None:
        return ArrayController(on_arrays, known, controller.look_ahead, n=n, names=group.names)
    period = setup.flight.period("autopilot")
    return PythonController(controller, known, state, n=n, names=group.names, period=period)


def require_valid(fleet: "Fleet", group: "Group", time_us: int, counts: np.ndarray) -> None:
    """A command that was not a number, of so many by a time: an error when strict, else a warning, once"""
    count = float(counts.max())
    if count == group.invalid_reported:
        return
    index, time = group.drones[int(np.argmax(counts))], time_us / MICROSECONDS
    if not group.invalid_reported:
        fleet.note(index, Fact.COMMAND_NOT_FINITE, time_us=time_us)
    sentence = f"{fleet.name_of(index)}: the controller gave a command that is not a number by {time:.6f} s"
    if fleet.scenario.strict:
        raise FloatingPointError(f"{sentence}; expected finite numbers")
    if not group.invalid_reported:
        fleet.say("warning", f"{sentence}; it was taken as 0", time_us=time_us)
        warnings.warn(f"{sentence}; it was taken as 0", RuntimeWarning, stacklevel=2)
    group.invalid_reported = count


class ControllerStage(PythonStage):
    """The command of every drone; Python calls functions, what looks ahead, and autopilots at the end of a link."""

    rate = "autopilot"
    reason = "controller in Python"
    needs_tables = False

    @property
    def name(self) -> str:
        """That of whatever stands in its place, too"""
        return "controller"

    def __init__(self) -> None:
        self._warned: set[int] = set()  # drones whose commands were out of range
        self._groups: list[Group] = []

    def build(self, setup: DroneSetup) -> StageSet:
        """The controller of one drone, where it can be traced"""
        return build_controller(setup)

    def is_flown_here(self, group: "Group") -> bool:
        """Whether Python gives the commands of a group"""
        return bool(group.sets[self.name][0].python)

    def references(self, fleet: "Fleet", group: "Group") -> tuple[np.ndarray, np.ndarray]:
        """What is asked of a group's drones now, and ahead where their controller looks there"""
        from samara.sim.references import asked_ahead, asked_now

        return asked_now(fleet, group), asked_ahead(fleet, group)

    def override(self, fleet: "Fleet", group: "Group") -> None:
        """Replace the command of a group's drones before it reaches the motors"""

    def prepare(self, fleet: "Fleet") -> None:
        """Controllers for the groups that are new"""
        if self._groups is fleet.groups:
            return
        self._groups = fleet.groups
        for group in fleet.groups:
            if not group.sets[self.name][0].python:
                require_camera(group)
                continue
            group.controller = make_controller(group)
            for lane, index in enumerate(group.drones):
                if index in fleet.controller_states and hasattr(group.controller, "resume"):
                    group.controller.resume(lane, fleet.controller_states.pop(index))
            if len(group.controller.plan):
                group.slots["plan"], group.templates["plan"] = (
                    group.controller.plan,
                    (0.0,) * len(group.controller.plan),
                )

    def update(self, fleet: "Fleet") -> None:
        from samara.link.autopilot import AutopilotLostError

        now = fleet.time_us
        flown = [(group, *self.references(fleet, group)) for group in fleet.groups if self.is_flown_here(group)]
        for group, reference, _ in flown:
            if hasattr(group.controller, "begin"):
                group.controller.begin(reference, now)
        for group, reference, ahead in flown:
            try:
                self._control(group, reference, ahead, now)
                self.override(fleet, group)
            except AutopilotLostError as lost:
                fleet.ended = f"the flight ended at {fleet.time:.3f} s: {lost}"
                fleet.say("error", fleet.ended)
                for index in group.drones:
                    fleet.note(index, Fact.AUTOPILOT_LOST)
            if fleet.scenario.strict:
                require_valid(fleet, group, fleet.time_us, group.controller.invalid_count)
            if "excess" in group.tables and group.controller.excess.any():
                self._out_of_range(fleet, group)
                group.tables["excess"].add(now, group.controller.excess)
            if "command" in group.tables:  # nobody records those of many flights at once
                group.tables["command"].add(now, group.slots["command"])

    def _control(self, group: "Group", reference: np.ndarray, ahead: np.ndarray, time_us: int) -> None:
        group.reference[:] = reference
        group.controller.run(group.estimate, group.reference, time_us, ahead)
        command = group.controller.command
        if group.setup.motor_map:
            command = command[list(group.setup.motor_map)]
        np.multiply(command, group.slots["armed"], out=group.slots["command"])

    def _out_of_range(self, fleet: "Fleet", group: "Group") -> None:
        """A function of one's own asked for more than its range: an error when strict, else a warning, once for each drone."""
        motors, bounds, excess = len(group.vehicle.rotors), command_bounds(group.vehicle), group.controller.excess
        for lane in np.flatnonzero(excess.any(axis=0)):
            index, channel = group.drones[lane], int(np.flatnonzero(excess[:, lane])[0])
            asked = group.controller.command[channel, lane] + excess[channel, lane]
            low, high = (-math.inf, math.inf) if bounds is None else bounds[channel]
            what = f"motor {channel}" if not motors or channel < motors else f"servo {channel - motors}"
            sentence = (
                f"{fleet.name_of(index)}: the controller's command of {what} is {asked:.6g} "
                f"at {fleet.time:.6f} s; expected a number within [{low:g}, {high:g}]"
            )
            if index not in self._warned:
                fleet.note(index, Fact.COMMAND_OUT_OF_RANGE, number=channel, value=float(asked))
            if fleet.scenario.strict:
                fleet.say("error", sentence)
                raise ValueError(sentence)
            if index not in self._warned:
                self._warned.add(index)
                fleet.say("warning", f"{sentence}, and it was cut to that")
                warnings.warn(f"{sentence}, and it was cut to that", RuntimeWarning, stacklevel=2)


def require_camera(group: "Group") -> Sensor | None:
    """The depth camera that a policy flies by; None for a controller that needs none

    Raises:
        ValueError: the drone has no depth camera, or one that the policy cannot use.
    """
    if not len(getattr(group.templates.get("controller_state"), "picture", ())):
        return None
    cameras = [sensor for sensor in group.setup.sensors if sensor.kind == "depth_camera"]
    if not cameras:
        raise ValueError(
            f"{group.names[0]}: its policy flies by a depth camera; expected one among its sensors, as "
            '{ part = "d435", width = 64, height = 48 }'
        )
    require_blocks(*cameras[0].about.part.shape)
    return cameras[0]
