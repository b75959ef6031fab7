"""Controllers that Python calls: functions, predictive controllers, and external autopilots.

The first two take the estimate and the reference; an autopilot takes the readings of the sensors. All return a command within
the vehicle's range.
"""

import math
import os
import traceback
import warnings
from collections.abc import Callable, Sequence
from inspect import Parameter, isclass, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from samara.control.depth_observation import require_blocks
from samara.control.registry import DEFAULT_PERIOD
from samara.core.algebra import ZERO
from samara.core.sanitise import quote_value
from samara.core.tree import unpacker
from samara.physics.inputs import command_range
from samara.physics.multirotor import complete_environment, state_at_rest
from samara.physics.types import BODY_STATE_SIZE, Reference, State, Vehicle
from samara.scenario.autopilot_sensors import cell_count, main_battery
from samara.scenario.batteries import battery_status
from samara.scenario.flight_events import OccurrenceType
from samara.scenario.snapshot import require_command, sanitize_command
from samara.scenario.timeline import MICROSECONDS
from samara.sensors.sensor import Sensor
from samara.sim.setup import DroneSetup, LinkedAutopilot
from samara.sim.stage import PythonStage, StageSet
from samara.sim.stages.controller import build_controller, named_controller
from samara.vehicles.limits import command_bounds
from samara.vehicles.trim import scale_to_density

if TYPE_CHECKING:
    from samara.link.sensor_snapshot import PowerModuleReading, Readings
    from samara.sim.fleet import Fleet
    from samara.sim.group import Group
    from samara.sim.plant import Plant

REFERENCE = Reference(ZERO)
NO_INSTANTS = np.empty(0)
NO_PLAN = np.empty((0, 0, 0))
NO_PREDICTED_ROWS = NO_COMMAND_EXCESS = np.empty((0, 0))
STATELESS_ARGUMENTS = 3  # state, reference, vehicle: a fourth is the controller state
EXCESS_TOLERANCE = 1e-6  # of the range: an excess below this is rounding


class ControllerSignature(NamedTuple):
    """Arguments of a controller function: whether it takes a controller state, and which of `time` and `dt` it takes."""

    takes_state: bool = True
    clock: tuple[str, ...] = ()


def controller_signature(controller: Callable[..., Any]) -> ControllerSignature:
    """Return the signature of a controller function; raise ValueError if it cannot be called as a controller."""
    if isclass(controller):
        raise ValueError(
            f"controller {controller.__name__} is a class; expected a function or an instance, as in "
            f"controller = {controller.__name__}()"
        )
    try:
        parameters = signature(controller).parameters
    except (TypeError, ValueError):  # some C functions have no signature
        return ControllerSignature()
    keyword_kinds = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    clock = tuple(name for name in ("time", "dt") if name in parameters and parameters[name].kind in keyword_kinds)
    if any(parameter.kind is Parameter.VAR_POSITIONAL for parameter in parameters.values()):
        return ControllerSignature(True, clock)
    positional_kinds = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    positional = [
        parameter for name, parameter in parameters.items() if parameter.kind in positional_kinds and name not in clock
    ]
    required = [parameter for parameter in positional if parameter.default is Parameter.empty]
    if len(positional) < STATELESS_ARGUMENTS or len(required) > STATELESS_ARGUMENTS + 1:
        name = getattr(controller, "__name__", type(controller).__name__)
        raise ValueError(
            f"controller {name}({', '.join(parameters)}): expected (state, reference, vehicle), "
            "or (state, reference, vehicle, controller_state)"
        )
    return ControllerSignature(len(positional) > STATELESS_ARGUMENTS, clock)


class CheckedCommand:
    """Commands (channels, n) of controller functions, clipped to the vehicle's range; `command_excess` is the clipped part."""

    def __init__(self, vehicle: Vehicle, n: int, names: Sequence[str] = ()) -> None:
        self._range = command_range(vehicle)
        self._low, self._high = self._range or (-math.inf, math.inf)
        self._rounding = EXCESS_TOLERANCE * (self._high - self._low) if self._range else 0.0
        bounds = command_bounds(vehicle) if vehicle.servos else None  # without servos all channels have one range
        self._bounds = None if bounds is None else np.array(bounds, dtype=float).T
        self._names = tuple(names) or tuple(f"drone {k}" for k in range(n))
        self.command = np.zeros((vehicle.command_size, n))
        self.command_excess = np.zeros_like(self.command)
        self._has_command_excess = False

    def set_command(self, drone: int, command: Sequence[float], time_us: int) -> None:
        """Set the command of one drone.

        Raises:
            ValueError: the command is not finite.
        """
        if self._has_command_excess:
            self.command_excess[:, drone] = 0.0
            self._has_command_excess = bool(self.command_excess.any())
        try:
            is_finite = math.isfinite(sum(command))
        except TypeError:
            raise ValueError(
                f"the controller of {self._names[drone]} returned {quote_value(command)}; expected {len(self.command)} numbers"
            ) from None
        if self._bounds is None and is_finite and self._low <= min(command) and max(command) <= self._high:
            self.command[:, drone] = command
            return
        require_command(command, None, f"the controller of {self._names[drone]}", time_us)
        limited = sanitize_command(command, self._range)[0] if self._bounds is None else np.clip(command, *self._bounds)
        clipped_part = np.subtract(command, limited)
        self.command[:, drone] = limited
        self.command_excess[:, drone] = np.where(np.abs(clipped_part) > self._rounding, clipped_part, 0.0)
        self._has_command_excess = bool(self._bounds is None or self.command_excess.any())


class PythonController:
    """A controller function in Python, called with floats for each drone; a command that is not finite is an error.

    A function of three arguments has no controller state. A controller with `look_ahead`, m instants from now [s], gets the
    references at those instants: a `Reference` of arrays. If its state has a `prediction` (m, 3), the planned positions,
    `prediction` (n, m, 3) has those of all drones. Parameters named `time` and `dt` receive the flight time and the
    controller's period [s]. Commands are clipped to their range; `command_excess` (channels, n) is the clipped part, 0
    elsewhere.
    """

    def __init__(
        self,
        controller: Callable[..., Any],
        vehicle: Vehicle,
        controller_state: Any,
        *,
        n: int = 1,
        names: Sequence[str] = (),
        period: float = DEFAULT_PERIOD,
    ) -> None:
        self._signature, self._period = controller_signature(controller), period
        self._controller, self._vehicle, self._controller_states = controller, vehicle, [controller_state] * n
        self._checked = CheckedCommand(vehicle, n, names)
        self.command, self.command_excess, self.invalid_count = (
            self._checked.command,
            self._checked.command_excess,
            np.zeros(n),
        )
        self._unpack_state, self._unpack_reference = unpacker(state_at_rest(vehicle)), unpacker(REFERENCE)
        self.look_ahead = np.asarray(getattr(controller, "look_ahead", NO_INSTANTS), dtype=float)
        self.predicted_path, self.prediction = _predicted_path_views(np.full((len(self.look_ahead), 3, n), np.nan))

    @property
    def continuing_states(self) -> dict[int, Any]:
        """By column: states that must survive regrouping, such as those of a running firmware."""
        if not getattr(self._controller, "goes_on", False):
            return {}
        return {column: state for column, state in enumerate(self._controller_states) if state is not None}

    def resume(self, drone: int, state: Any) -> None:
        """Continue from the state of a drone's former controller."""
        self._controller_states[drone] = state

    def close(self) -> None:
        """Close the controllers' states, and the processes they started."""
        for state in self.continuing_states.values():
            state.close()

    def run(self, estimate: np.ndarray, reference: np.ndarray, time_us: int, ahead: np.ndarray = NO_PLAN) -> None:
        """Compute the commands, drone by drone; `ahead` (m, fields, n) has the references over a horizon."""
        clock = {"time": time_us / MICROSECONDS, "dt": self._period}
        clock_arguments = {name: clock[name] for name in self._signature.clock}
        for drone, controller_state in enumerate(self._controller_states):
            state: State = self._unpack_state(estimate[:, drone].tolist())
            row = ahead[:, :, drone].T if ahead.size else reference[:, drone].tolist()
            drone_reference: Reference = self._unpack_reference(row)
            state_arguments = (controller_state,) if self._signature.takes_state else ()
            try:
                answer = self._controller(state, drone_reference, self._vehicle, *state_arguments, **clock_arguments)
            except Exception as error:
                _note_location(error, time_us)
                raise
            command, self._controller_states[drone] = _split_answer(answer, controller_state, len(self.command))
            self._checked.set_command(drone, command, time_us)
            prediction = getattr(self._controller_states[drone], "prediction", None)
            if prediction is not None:
                self.prediction[drone] = prediction


class ArrayController:
    """A predictive controller that works on arrays of n drones; its commands are checked like those of `PythonController`.

    It has `run(estimate, ahead, time)`, `command` (channels, n) and `prediction` (m, 3, n): see `samara.control.mpc.flight`.
    """

    def __init__(
        self, controller: Any, vehicle: Vehicle, look_ahead: np.ndarray, *, n: int = 1, names: Sequence[str] = ()
    ) -> None:
        self._controller, self._unchecked_command = controller, controller.command.T
        self._checked = CheckedCommand(vehicle, n, names)
        self.command, self.command_excess, self.invalid_count = (
            self._checked.command,
            self._checked.command_excess,
            np.zeros(n),
        )
        self.look_ahead, (self.predicted_path, self.prediction) = (
            look_ahead,
            _predicted_path_views(controller.prediction),
        )

    def run(self, estimate: np.ndarray, reference: np.ndarray, time_us: int, ahead: np.ndarray = NO_PLAN) -> None:
        """Compute the commands of all drones at once."""
        self._controller.run(estimate, ahead, time_us / MICROSECONDS)
        for drone, drone_command in enumerate(self._unchecked_command.tolist()):
            self._checked.set_command(drone, drone_command, time_us)

    def close(self) -> None:
        """Do nothing: no processes were started."""


class AutopilotController:
    """An external autopilot in lockstep: it receives the sensor readings of this instant, and its answer is awaited."""

    look_ahead = NO_INSTANTS
    predicted_path = NO_PREDICTED_ROWS
    prediction = NO_PLAN
    command_excess = NO_COMMAND_EXCESS

    def __init__(self, linked: LinkedAutopilot, group: "Group") -> None:
        from samara.link.motor_outputs import compile_motor_outputs, compile_thrust_outputs
        from samara.link.sensor_snapshot import SensorReader

        plant = group.plant
        self._link, self._plant = linked.link, plant
        self._senses, self._power = SensorReader(group.sensors), PowerModule(plant)
        vehicle = plant.vehicle
        code = (
            compile_motor_outputs(vehicle)
            if linked.commands_motors
            else compile_thrust_outputs(vehicle, linked.hover_output)
        )
        self._machine = code.machine()
        self.command = self._machine.carry
        self.invalid_count = np.zeros(1)
        self._readings: Readings | None = None

    def begin(self, reference: np.ndarray, time_us: int) -> None:
        """Send the sensor readings; `run` awaits the answer, so that several autopilots compute in parallel."""
        p_v_q_omega = self._plant.state[:BODY_STATE_SIZE, 0].tolist()
        readings = self._senses.read(time_us, p_v_q_omega, reference[:, 0].tolist())
        speeds = tuple(
            self._plant.state[BODY_STATE_SIZE : BODY_STATE_SIZE + len(self._plant.vehicle.rotors), 0].tolist()
        )
        supply = self._power.read(time_us)
        self._readings = readings._replace(supply=supply, rotor_speed=speeds)
        self._link.begin(self._readings)

    def run(self, estimate: np.ndarray, reference: np.ndarray, time_us: int, ahead: np.ndarray = NO_PLAN) -> None:
        """Convert the autopilot's outputs to the vehicle's command."""
        if self._readings is None or self._readings.time_us != time_us:
            self.begin(reference, time_us)
        self._machine.held_inputs[:, 0] = self._link.exchange(self._readings)
        self._readings = None
        self._machine.run()

    def close(self) -> None:
        """Do nothing: the fleet closes its links."""


def _predicted_path_views(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return two views of positions (m, 3, n): rows (3 m, n) to record, and (n, m, 3)."""
    return positions.reshape(-1, positions.shape[-1]), positions.transpose(2, 0, 1) if positions.size else NO_PLAN


def _split_answer(answer: Any, controller_state: Any, size: int) -> tuple[Any, Any]:
    """Split a controller's return value, (command, state) or only the command if it has no state."""
    if isinstance(answer, tuple) and len(answer) == 2 and _is_vector(answer[0], size):
        return answer
    if _is_vector(answer, size):
        return answer, controller_state
    raise ValueError(
        f"the controller returned {quote_value(answer)}; expected {size} numbers, or ({size} numbers, its state)"
    )


def _note_location(error: Exception, time_us: int) -> None:
    """Add a note to an error of the user's controller: the time of the flight, and the file and line."""
    frames = traceback.extract_tb(error.__traceback__)[1:]
    if frames and frames[0].filename.startswith(PACKAGE_FOLDER):
        return  # its messages are complete
    lines = [frame.lineno for frame in frames if frame.filename == frames[0].filename]
    location = f" ({Path(frames[0].filename).name}, line {lines[-1]})" if frames else ""
    error.add_note(f"raised by the controller at {time_us / MICROSECONDS:g} s of the flight{location}")


def _is_vector(value: Any, size: int) -> bool:
    try:
        return np.ndim(value) == 1 and len(value) == size
    except ValueError:  # sequences of different lengths
        return False


BATTERY_PERIOD_US = 100_000
PACKAGE_FOLDER = f"{Path(__file__).parents[1]}{os.sep}"


class PowerModule:
    """Measures a plant's battery every `BATTERY_PERIOD_US`."""

    def __init__(self, plant: "Plant") -> None:
        self._plant, self._battery, self._next_us = plant, main_battery(plant.vehicle), 0
        self._unpack_state = unpacker(state_at_rest(plant.vehicle))
        self._unpack_environment = unpacker(complete_environment(plant.vehicle))

    def read(self, time_us: int) -> "PowerModuleReading | None":
        """Return the supply; None between two readings, and for a vehicle without a battery."""
        if self._battery is None or time_us < self._next_us:
            return None
        self._next_us = time_us + BATTERY_PERIOD_US
        state = self._unpack_state(self._plant.state[:, 0].tolist())
        environment = self._unpack_environment(self._plant.environment[:, 0].tolist())
        command = tuple(self._plant.command[:, 0].tolist())
        batteries = battery_status(state, command, self._plant.vehicle, environment)
        current = sum(battery.current for battery in batteries)
        from samara.link.sensor_snapshot import PowerModuleReading

        return PowerModuleReading(
            batteries[0].voltage,
            current,
            batteries[0].charge,
            cell_count(self._battery),
            float(self._battery.capacity) * len(batteries),
        )


def create_controller(group: "Group") -> PythonController | ArrayController | AutopilotController:
    """Create the Python controller of a group's drones."""
    setup, n = group.setup, len(group)
    if isinstance(setup.controller, LinkedAutopilot):
        return AutopilotController(setup.controller, group)
    named = named_controller(setup)
    controller: Any = setup.controller if named is None else named.call
    state = None if named is None else named.initial_state
    if named is None:
        state = getattr(controller, "initial_state", ())
    vehicle = scale_to_density(setup.controller_vehicle, setup.flight.environment.air_density)
    array_controller = controller.batch_controller(vehicle, n) if hasattr(controller, "batch_controller") else None
    if array_controller is not None:
        return ArrayController(array_controller, vehicle, controller.look_ahead, n=n, names=group.names)
    period = setup.flight.period("control")
    return PythonController(controller, vehicle, state, n=n, names=group.names, period=period)


def require_valid(fleet: "Fleet", group: "Group", time_us: int, counts: np.ndarray) -> None:
    """Require finite commands, given the `counts` of invalid ones up to a time: raise an error if strict, else warn once."""
    count = float(counts.max())
    if count == group.invalid_reported:
        return
    index, time = group.drones[int(np.argmax(counts))], time_us / MICROSECONDS
    if not group.invalid_reported:
        fleet.record_occurrence(index, OccurrenceType.COMMAND_NOT_FINITE, time_us=time_us)
    message = f"{fleet.drone_name(index)}: the controller returned a command that is not finite, at {time:.6f} s at the latest"
    if fleet.scenario.strict:
        raise FloatingPointError(f"{message}; expected finite numbers")
    if not group.invalid_reported:
        fleet.log_message("warning", f"{message}; it was replaced by 0", time_us=time_us)
        warnings.warn(f"{message}; it was replaced by 0", RuntimeWarning, stacklevel=2)
    group.invalid_reported = count


class ControllerStage(PythonStage):
    """The controllers of all drones; Python calls functions, predictive controllers and external autopilots."""

    rate = "control"
    reason = "controller in Python"
    needs_tables = False

    @property
    def name(self) -> str:
        """The name in the sequence, also of subclasses."""
        return "controller"

    def __init__(self) -> None:
        self._warned: set[int] = set()  # drones whose commands were out of range
        self._groups: list[Group] = []

    def build(self, setup: DroneSetup) -> StageSet:
        """Build the controller of one drone, if it can be traced."""
        return build_controller(setup)

    def runs_in_python(self, group: "Group") -> bool:
        """Whether Python computes the commands of a group."""
        return bool(group.sets[self.name][0].python_reason)

    def references(self, fleet: "Fleet", group: "Group") -> tuple[np.ndarray, np.ndarray]:
        """Return the references of a group's drones, now and over the controllers' horizon."""
        return fleet.current_references(group), fleet.references_ahead(group)

    def override(self, fleet: "Fleet", group: "Group") -> None:
        """Replace the command of a group's drones before it reaches the motors."""

    def prepare(self, fleet: "Fleet") -> None:
        """Create the controllers of new groups."""
        if self._groups is fleet.groups:
            return
        self._groups = fleet.groups
        for group in fleet.groups:
            if not group.sets[self.name][0].python_reason:
                require_camera(group)
                continue
            group.controller = create_controller(group)
            for column, index in enumerate(group.drones):
                if index in fleet.controller_states and hasattr(group.controller, "resume"):
                    group.controller.resume(column, fleet.controller_states.pop(index))
            if len(group.controller.predicted_path):
                group.slots["predicted_path"] = group.controller.predicted_path
                group.templates["predicted_path"] = (0.0,) * len(group.controller.predicted_path)

    def update(self, fleet: "Fleet") -> None:
        time_us = fleet.time_us
        python_groups = [
            (group, *self.references(fleet, group)) for group in fleet.groups if self.runs_in_python(group)
        ]
        for group, reference, _ in python_groups:
            if hasattr(group.controller, "begin"):
                group.controller.begin(reference, time_us)
        for group, reference, ahead in python_groups:
            try:
                self._control(group, reference, ahead, time_us)
                self.override(fleet, group)
            except fleet.links.lost_error as error:
                fleet.end_reason = f"the flight ended at {fleet.time:.3f} s: {error}"
                fleet.log_message("error", fleet.end_reason)
                for index in group.drones:
                    fleet.record_occurrence(index, OccurrenceType.AUTOPILOT_LOST)
            if fleet.scenario.strict:
                require_valid(fleet, group, fleet.time_us, group.controller.invalid_count)
            if "command_excess" in group.tables and group.controller.command_excess.any():
                self._report_excess(fleet, group)
                group.tables["command_excess"].add(time_us, group.controller.command_excess)
            if "command" in group.tables:  # batches without recordings have no such table
                group.tables["command"].add(time_us, group.slots["command"])

    def _control(self, group: "Group", reference: np.ndarray, ahead: np.ndarray, time_us: int) -> None:
        group.reference[:] = reference
        group.controller.run(group.estimate, group.reference, time_us, ahead)
        command = group.controller.command
        if group.setup.motor_map:
            command = command[list(group.setup.motor_map)]
        np.multiply(command, group.slots["armed"], out=group.slots["command"])

    def _report_excess(self, fleet: "Fleet", group: "Group") -> None:
        """Report commands out of range: an error if strict, else one warning for each drone."""
        motors, bounds, excess = (
            len(group.vehicle.rotors),
            command_bounds(group.vehicle),
            group.controller.command_excess,
        )
        for column in np.flatnonzero(excess.any(axis=0)):
            index, channel = group.drones[column], int(np.flatnonzero(excess[:, column])[0])
            requested = group.controller.command[channel, column] + excess[channel, column]
            low, high = (-math.inf, math.inf) if bounds is None else bounds[channel]
            actuator = f"motor {channel}" if not motors or channel < motors else f"servo {channel - motors}"
            message = (
                f"{fleet.drone_name(index)}: the controller's command of {actuator} is {requested:.6g} "
                f"at {fleet.time:.6f} s; expected a number within [{low:g}, {high:g}]"
            )
            if index not in self._warned:
                fleet.record_occurrence(
                    index, OccurrenceType.COMMAND_OUT_OF_RANGE, part_index=channel, value=float(requested)
                )
            if fleet.scenario.strict:
                fleet.log_message("error", message)
                raise ValueError(message)
            if index not in self._warned:
                self._warned.add(index)
                fleet.log_message("warning", f"{message}; it is clipped to that range")
                warnings.warn(f"{message}; it is clipped to that range", RuntimeWarning, stacklevel=2)


def require_camera(group: "Group") -> Sensor | None:
    """Return the depth camera that a policy needs; None for other controllers.

    Raises:
        ValueError: the drone has no depth camera, or one that the policy cannot use.
    """
    if not len(getattr(group.templates.get("controller_state"), "depth_blocks", ())):
        return None
    cameras = [sensor for sensor in group.setup.sensors if sensor.type_name == "depth_camera"]
    if not cameras:
        raise ValueError(
            f"{group.names[0]}: its policy uses a depth camera; expected one among its sensors, as "
            '{ part = "d435", width = 64, height = 48 }'
        )
    require_blocks(*cameras[0].model.part.shape)
    return cameras[0]
