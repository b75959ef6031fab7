"""Setpoints stage: controllers that follow external setpoints: positions, velocities, paths or motor commands."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np

from samara.core.types import Array
from samara.link.link import AutopilotLostError
from samara.scenario.timeline import MICROSECONDS
from samara.sim.external_setpoints import SETPOINT_TIMEOUT, YAW, Motors, P, Position, Setpoint, TimedWaypoints, Velocity
from samara.sim.fleet import Fleet
from samara.sim.group import Group
from samara.sim.python_controllers import ControllerStage
from samara.sim.schedule import Span
from samara.sim.setup import DroneSetup
from samara.sim.stage import StageSet
from samara.sim.stages.controller import build_controller
from samara.vehicles.limits import command_bounds

MAX_ANCHOR_DISTANCE = 2.0  # [m] from a lagging drone to the start of a new setpoint


class SetpointSource(Protocol):
    """A source of setpoints."""

    def new_setpoints(self, fleet: Fleet) -> Mapping[int, Setpoint]:
        """Return the newest setpoints since the last call, by drone index; `AutopilotLostError` ends the flight."""


class ActiveSetpoint(NamedTuple):
    """A setpoint, its time of arrival [µs], and the reference at that time."""

    setpoint: Position | Velocity | TimedWaypoints
    since_us: int
    anchor: Array

    def references(self, times_us: Array) -> Array:
        """Return the references at given flight times: (times, fields)."""
        return self.setpoint.references(self.anchor, (times_us - self.since_us) / MICROSECONDS)


class SetpointsStage(ControllerStage):
    """Replaces the controller stage: controllers follow the last setpoint, and their task before the first."""

    reason = "external setpoints"

    def __init__(self, source: SetpointSource) -> None:
        super().__init__()
        self._source = source
        self._active: dict[int, ActiveSetpoint] = {}
        self._motors: dict[int, tuple[Array, int]] = {}

    def build(self, setup: DroneSetup) -> StageSet:
        """Build no traced stage: Python polls for setpoints at every tick."""
        return StageSet(slots=build_controller(setup).slots, python_reason=self.reason)

    def is_due(self, fleet: Fleet, span: Span, *, needed: bool) -> Array:
        """Mark the ticks of the controller, and of the log, which records the followed references."""
        return span.due_rows(fleet.schedule.clock("control") | fleet.schedule.clock("log"))

    def update(self, fleet: Fleet) -> None:
        if fleet.time_us % fleet.periods["control"] == 0:
            try:
                for index, setpoint in self._source.new_setpoints(fleet).items():
                    self._start_setpoint(fleet, index, setpoint)
            except AutopilotLostError as error:
                fleet.end_reason = f"the flight ended at {fleet.time:.3f} s: {error}"
                fleet.log_message("error", fleet.end_reason)
            self._expire(fleet)
            super().update(fleet)
        if self._active and fleet.time_us % fleet.periods["log"] == 0:
            for group in fleet.groups:
                columns = [column for column, index in enumerate(group.drones) if index in self._active]
                if columns:
                    rows = [
                        self._active[group.drones[column]].references(np.array([fleet.time_us]))[0]
                        for column in columns
                    ]
                    group.external_references[fleet.time_us] = columns, np.array(rows).T

    def _start_setpoint(self, fleet: Fleet, index: int, setpoint: Setpoint) -> None:
        """Start a new setpoint of a drone from its present reference."""
        group, column = fleet.locate(index)
        if isinstance(setpoint, Motors):
            if index not in self._motors:
                fleet.log_message("info", f"{fleet.drone_name(index)}: its motors follow external commands")
            self._motors[index] = setpoint.command, fleet.time_us
            return
        times_us = np.array([fleet.time_us])
        anchor = (
            self._active[index].references(times_us)[0] if index in self._active else group.reference[:, column].copy()
        )
        if index not in self._active:
            fleet.log_message("info", f"{fleet.drone_name(index)}: it follows external setpoints")
        self._motors.pop(index, None)
        position = group.estimate[P, column]
        offset = anchor[P] - position
        distance = float(np.linalg.norm(offset))
        if distance > MAX_ANCHOR_DISTANCE:
            anchor[P] = position + offset * (MAX_ANCHOR_DISTANCE / distance)
        self._active[index] = ActiveSetpoint(setpoint, fleet.time_us, anchor)

    def _expire(self, fleet: Fleet) -> None:
        """End motor commands that were not repeated; the drone then holds its position."""
        for index in [
            drone
            for drone, (_, since) in self._motors.items()
            if fleet.time_us - since > round(SETPOINT_TIMEOUT * MICROSECONDS)
        ]:
            del self._motors[index]
            group, column = fleet.locate(index)
            anchor = group.reference[:, column].copy()
            anchor[P] = group.estimate[P, column]
            setpoint = Position(anchor[P].copy(), float(anchor[YAW]))
            self._active[index] = ActiveSetpoint(setpoint, fleet.time_us, anchor)
            fleet.log_message(
                "warning",
                f"{fleet.drone_name(index)}: no motor command for {SETPOINT_TIMEOUT:g} s; it holds its position",
            )

    def references(self, fleet: Fleet, group: Group) -> tuple[Array, Array]:
        """Return the references of the tasks, replaced by those of active setpoints."""
        current, ahead = super().references(fleet, group)
        active_columns = [
            (column, self._active[index]) for column, index in enumerate(group.drones) if index in self._active
        ]
        if not active_columns:
            return current, ahead
        current, ahead = current.copy(), ahead.copy()
        offsets_us = np.round(MICROSECONDS * group.look_ahead) if ahead.size else np.empty(0)
        for column, setpoint in active_columns:
            rows = setpoint.references(fleet.time_us + np.append(0.0, offsets_us))
            current[:, column] = rows[0]
            if ahead.size:
                ahead[:, :, column] = rows[1:]
        return current, ahead

    def override(self, fleet: Fleet, group: Group) -> None:
        """Apply external motor commands, clipped to their range, to armed drones."""
        for column, index in enumerate(group.drones):
            if index in self._motors:
                bounds = command_bounds(group.vehicle)
                requested = self._motors[index][0]
                command = requested if bounds is None else np.clip(requested, *np.array(bounds).T)
                group.slots["command"][:, column] = command * group.slots["armed"][0, column]
