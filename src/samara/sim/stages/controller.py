"""The controller of one drone: its command, brought into the vehicle's range, through to the motors."""

import math
import warnings
from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from samara.control.named import Named, controller_named
from samara.control.sight import require_blocks
from samara.control.tuning import Tuned
from samara.core.algebra import ZERO
from samara.core.ops import logical_and, where
from samara.core.quantity import Scalar
from samara.physics.reference import Reference
from samara.physics.rotors.rotor import SEA_LEVEL_DENSITY
from samara.physics.types import Command, State, Vehicle
from samara.scenario.facts import Fact
from samara.sensors.sensor import Sensor
from samara.sim.setup import DroneSetup
from samara.sim.stage import PythonStage, Stage, StageSet
from samara.sim.stages.estimator import estimate_slot
from samara.vehicles.effective import at_density
from samara.vehicles.limits import LARGEST_COMMAND, command_bounds, within_limits

if TYPE_CHECKING:
    from samara.sim.fleet import Fleet
    from samara.sim.group import Group

CODES = 64
REFERENCES_AHEAD = "references_ahead"


def control(
    estimate: State,
    reference: Reference,
    controller_state: Any,
    invalid_commands: Scalar,
    armed: Scalar,
    *,
    controller: Callable[..., Any],
    density: float = SEA_LEVEL_DENSITY,
    motor_map: tuple[int, ...] = (),
    vehicle: Vehicle | None = None,
    model: Vehicle | None = None,
) -> tuple[Command, Any, Scalar]:
    """u = controller(x̂, r) for each motor: 0 where it is no number, which is counted, or not armed, and else within its range

    The controller knows the vehicle, or `model` in its place, at the density of the air at home.
    """
    known = at_density(vehicle if model is None else model, density)  # type: ignore[arg-type]
    command, controller_state = controller(estimate, reference, known, controller_state)
    finite_command = []
    for u in command:
        finite = logical_and(u > -LARGEST_COMMAND, u < LARGEST_COMMAND)
        finite_command.append(where(finite, u, 0.0))
        invalid_commands = invalid_commands + where(finite, 0.0, 1.0)
    limited = within_limits(finite_command, known)
    if motor_map:
        limited = tuple(limited[channel] for channel in motor_map)
    return tuple(u * armed for u in limited), controller_state, invalid_commands


def build_controller(setup: DroneSetup) -> StageSet:
    """The stage of a controller with a name; Python calls functions and what looks ahead"""
    slots: dict[str, Any] = {"armed": 1.0, "reference": Reference(ZERO)}
    named = named_controller(setup)
    if named is None:
        return StageSet(slots=slots, python="controller in Python")
    if hasattr(named.call, "look_ahead"):
        reason = f"{named.name} solves a problem over its horizon"
        return StageSet(slots=slots, python=reason, on_arrays=partial(_predictive, setup, named))
    slots |= {"controller_state": named.memory, "invalid_commands": 0.0}
    return StageSet((_stage(setup, named.call, "reference"),), slots)


def _stage(setup: DroneSetup, controller: Callable[..., Any], reference: str) -> Stage:
    reads = (estimate_slot(setup), reference, "controller_state", "invalid_commands", "armed")
    writes = ("command", "controller_state", "invalid_commands")
    known = ("vehicle", setup.vehicle) if setup.model is None else ("model", setup.model)
    density = setup.flight.environment.air_density
    parameters = (("controller", controller), ("density", density), ("motor_map", setup.motor_map), known)
    return Stage("controller", "autopilot", control, reads, writes, parameters)


def _predictive(setup: DroneSetup, named: Named) -> StageSet:
    """A controller that takes the references of its horizon, on arrays of JAX"""
    from samara.control.ilqr.jax import flight_controller

    controller = flight_controller(named.call, at_density(setup.known_vehicle, setup.flight.environment.air_density))
    ahead = (Reference(ZERO),) * len(named.call.look_ahead)
    slots = {"armed": 1.0, "invalid_commands": 0.0, "controller_state": controller.start, REFERENCES_AHEAD: ahead}
    reason = f"{named.name} plans over a horizon, for which a kernel has no arrays"
    return StageSet((_stage(setup, controller, REFERENCES_AHEAD),), slots, xla_only=reason)


def named_controller(setup: DroneSetup) -> Named | None:
    """A drone's controller, made for the vehicle at the density of the air at home; None for a function or an autopilot"""
    if setup.tuned is None:
        return None
    known = at_density(setup.known_vehicle, setup.flight.environment.air_density)
    return _named(setup.tuned, known, setup.healthy, setup.flight.period("autopilot"))


@lru_cache(maxsize=CODES)
def _named(controller: Tuned, vehicle: Vehicle, healthy: tuple[bool, ...], period: float) -> Named:
    return controller_named(controller.name, vehicle, healthy, period=period, **controller.chosen)


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
        from samara.sim.python_controllers import make_controller

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
                from samara.sim.python_controllers import require_valid

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
