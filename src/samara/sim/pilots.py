"""Who gives the commands: a controller compiled for n drones, a function of one's own, called for each, or an autopilot.

The first two take what the autopilot knows (the estimate) and what it is asked (the reference); a real autopilot takes what the
sensors said. All leave a checked command.
"""

import math
from collections.abc import Callable, Sequence
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

import numpy as np

from samara.backends.llvm_schedule import Operation
from samara.backends.machine import CompiledStep
from samara.backends.packing import unpacker
from samara.control.named import DEFAULT_PERIOD
from samara.core.algebra import ZERO
from samara.core.ops import logical_and, where
from samara.core.tree import flatten
from samara.physics.multirotor import at_rest
from samara.physics.reference import Reference
from samara.physics.surroundings import empty_command
from samara.physics.types import BODY, State, Vehicle
from samara.scenario.bus import require_command, sanitized
from samara.scenario.timeline import MICROSECONDS
from samara.sim.plant import Plant
from samara.vehicles.limits import LARGEST_COMMAND, command_bounds, command_range, within_limits

if TYPE_CHECKING:
    from samara.link.readings import Readings
    from samara.sim.group import Linked

REFERENCE = Reference(ZERO)


def checked_controller(controller: Callable[..., Any], vehicle: Vehicle, memory: Any) -> CompiledStep:
    """A traceable controller(state, reference, vehicle, memory) → command, memory, followed by a look at what it gives

    What is not a number becomes 0 and is counted; a command out of range goes to its end.
    """
    command = empty_command(vehicle)

    def checked(own: Any, held: Any) -> Any:
        wanted, kept = controller(held[0], held[1], vehicle, own[1])
        count, sane = own[2], []
        for u in wanted:
            finite = logical_and(u > -LARGEST_COMMAND, u < LARGEST_COMMAND)
            value = where(finite, u, 0.0)
            count = count + where(finite, 0.0, 1.0)
            sane.append(value)
        return within_limits(sane, vehicle), kept, count

    return CompiledStep(checked, (command, memory, 0.0), (at_rest(vehicle), REFERENCE))


NOWHERE = np.empty(0)
NO_PLAN = np.empty((0, 0, 0))
NO_ROWS = NOTHING_CUT = np.empty((0, 0))
ROUNDING = 1e-6  # of the range: a command out of it by less is within


class CompiledPilot:
    """A checked controller on arrays of n drones."""

    look_ahead = NOWHERE
    plan = NO_ROWS
    prediction = NO_PLAN
    excess = NOTHING_CUT

    def __init__(self, code: CompiledStep, vehicle: Vehicle, *, n: int = 1, blocks: int = 0) -> None:
        """`blocks` of a picture are the last of its memory"""
        self.machine = code.machine(n)
        commands, components = vehicle.command_size, len(flatten(at_rest(vehicle)))
        self.command = self.machine.carry[:commands]
        self.invalid_count = self.machine.carry[-1]
        self.picture = self.machine.carry[-1 - blocks : -1]
        self._estimate, self._reference = self.machine.held[:components], self.machine.held[components:]

    def operations(self, due: int, estimate: np.ndarray, reference: np.ndarray) -> list[Operation]:
        """command ← controller(estimate, reference) for every drone, as parts of a program"""
        return [
            Operation("copy", due, (estimate, self._estimate, len(estimate))),
            Operation("copy", due, (reference, self._reference, len(reference))),
            Operation("run", due, (self.machine,)),
        ]

    def run(self, estimate: np.ndarray, reference: np.ndarray, time_us: int, ahead: np.ndarray = NO_PLAN) -> None:
        """command ← controller(estimate, reference) for every drone"""
        self._estimate[:] = estimate
        self._reference[:] = reference
        self.machine.run(1)


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


class PythonPilot:
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
    def going_on(self) -> dict[int, Any]:
        """Memories, by drone, that are more than numbers: a firmware's, which is not to begin anew in flight"""
        if not getattr(self._controller, "goes_on", False):
            return {}
        return {drone: memory for drone, memory in enumerate(self._memories) if memory is not None}

    def go_on(self, drone: int, memory: Any) -> None:
        """With what another pilot of this drone remembered"""
        self._memories[drone] = memory

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


class ArrayPilot:
    """A controller that looks ahead and works on arrays of n drones; its commands are looked at like a `PythonPilot`'s.

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


class LinkedPilot:
    """An autopilot at the other end of a link, in lockstep: it gets the sensors of this instant, its answer is waited for."""

    look_ahead = NOWHERE
    plan = NO_ROWS
    prediction = NO_PLAN
    excess = NOTHING_CUT

    def __init__(self, linked: "Linked", plant: Plant, measuring: Sequence[Any]) -> None:
        from samara.link.readings import Senses
        from samara.link.thrust import commands_code, outputs_code
        from samara.sim.power import PowerModule

        self._link, self._plant, self._senses, self._power = linked.link, plant, Senses(measuring), PowerModule(plant)
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
