"""The autopilot of drones that someone outside flies: places, velocities, paths, or commands of the motors, as they come."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from samara.link.autopilot import AutopilotLostError
from samara.scenario.timeline import MICROSECONDS
from samara.sim.fleet import Fleet
from samara.sim.group import Group
from samara.sim.python_controllers import ControllerStage
from samara.sim.schedule import Span
from samara.sim.setpoints import LIFE, YAW, Motors, P, Path, Place, Velocity, Wish
from samara.sim.setup import DroneSetup
from samara.sim.stage import StageSet
from samara.sim.stages.controller import build_controller
from samara.vehicles.limits import command_bounds

Array = np.ndarray[Any, Any]

LEASH = 2.0  # [m] that what is asked may be away from the drone when something new is: it does not run away from one that lags


class Source(Protocol):
    """Where wishes come from"""

    def wishes(self, fleet: Fleet) -> Mapping[int, Wish]:
        """What was asked since the last time, the newest of each drone by its number; `AutopilotLostError` ends the flight"""


class Followed(NamedTuple):
    """A wish, when it came [µs], and the row that was asked then"""

    wish: Place | Velocity | Path
    since_us: int
    anchor: Array

    def at(self, times_us: Array) -> Array:
        """What it asks at some times: (times, fields)"""
        return self.wish.asked(self.anchor, (times_us - self.since_us) / MICROSECONDS)


class SetpointsStage(ControllerStage):
    """In the place of the controller stage: controllers follow what was asked last, and their task until something is."""

    reason = "setpoints from outside"

    def __init__(self, source: Source) -> None:
        super().__init__()
        self._source = source
        self._followed: dict[int, Followed] = {}
        self._motors: dict[int, tuple[Array, int]] = {}

    def build(self, setup: DroneSetup) -> StageSet:
        """Nothing is traced: Python looks at every tick whether a setpoint came"""
        return StageSet(slots=build_controller(setup).slots, python=self.reason)

    def is_due(self, fleet: Fleet, span: Span, *, needed: bool) -> Array:
        """At the controller's ticks; and what is followed is noted for the log"""
        return span.at(fleet.schedule.clock("autopilot") | fleet.schedule.clock("log"))

    def update(self, fleet: Fleet) -> None:
        if fleet.time_us % fleet.periods["autopilot"] == 0:
            try:
                for index, wish in self._source.wishes(fleet).items():
                    self._take(fleet, index, wish)
            except AutopilotLostError as lost:
                fleet.ended = f"the flight ended at {fleet.time:.3f} s: {lost}"
                fleet.say("error", fleet.ended)
            self._expire(fleet)
            super().update(fleet)
        if self._followed and fleet.time_us % fleet.periods["log"] == 0:
            for group in fleet.groups:
                lanes = [lane for lane, index in enumerate(group.drones) if index in self._followed]
                if lanes:
                    rows = [self._followed[group.drones[lane]].at(np.array([fleet.time_us]))[0] for lane in lanes]
                    group.external_references[fleet.time_us] = lanes, np.array(rows).T

    def _take(self, fleet: Fleet, index: int, wish: Wish) -> None:
        """Something new is asked of a drone, from where it was asked to be now"""
        group, lane = fleet.place_of(index)
        if isinstance(wish, Motors):
            if index not in self._motors:
                fleet.say("info", f"{fleet.name_of(index)}: its motors are commanded from outside")
            self._motors[index] = wish.command, fleet.time_us
            return
        now = np.array([fleet.time_us])
        anchor = self._followed[index].at(now)[0] if index in self._followed else group.reference[:, lane].copy()
        if index not in self._followed:
            fleet.say("info", f"{fleet.name_of(index)}: it follows setpoints from outside")
        self._motors.pop(index, None)
        here = group.estimate[P, lane]
        away = anchor[P] - here
        distance = float(np.linalg.norm(away))
        if distance > LEASH:
            anchor[P] = here + away * (LEASH / distance)
        self._followed[index] = Followed(wish, fleet.time_us, anchor)

    def _expire(self, fleet: Fleet) -> None:
        """Commands of motors that nobody repeats end, and the drone is to stay where it is"""
        for index in [
            own for own, (_, since) in self._motors.items() if fleet.time_us - since > round(LIFE * MICROSECONDS)
        ]:
            del self._motors[index]
            group, lane = fleet.place_of(index)
            anchor = group.reference[:, lane].copy()
            anchor[P] = group.estimate[P, lane]
            place = Place(anchor[P].copy(), float(anchor[YAW]))
            self._followed[index] = Followed(place, fleet.time_us, anchor)
            fleet.say(
                "warning", f"{fleet.name_of(index)}: no command of its motors for {LIFE:g} s; it stays where it is"
            )

    def references(self, fleet: Fleet, group: Group) -> tuple[Array, Array]:
        """The tasks' references, and in their place what was asked from outside"""
        now, ahead = super().references(fleet, group)
        followed = [(lane, self._followed[i]) for lane, i in enumerate(group.drones) if i in self._followed]
        if not followed:
            return now, ahead
        now, ahead = now.copy(), ahead.copy()
        later_us = np.round(MICROSECONDS * group.look_ahead) if ahead.size else np.empty(0)
        for lane, own in followed:
            rows = own.at(fleet.time_us + np.append(0.0, later_us))
            now[:, lane] = rows[0]
            if ahead.size:
                ahead[:, :, lane] = rows[1:]
        return now, ahead

    def override(self, fleet: Fleet, group: Group) -> None:
        """Commands of the motors, cut to what they can do, of drones that are armed"""
        for lane, index in enumerate(group.drones):
            if index in self._motors:
                bounds = command_bounds(group.vehicle)
                wanted = self._motors[index][0]
                held = wanted if bounds is None else np.clip(wanted, *np.array(bounds).T)
                group.slots["command"][:, lane] = held * group.slots["armed"][0, lane]
