"""Autopilots: each drone's command, from what it knows and what it is asked; and what is wrong with a command."""

import math
import warnings

import numpy as np

from samara.backends.llvm_schedule import Operation
from samara.link.autopilot import AutopilotLostError
from samara.scenario.facts import Fact
from samara.scenario.timeline import MICROSECONDS
from samara.sim.fleet import Fleet
from samara.sim.group import Group
from samara.sim.pilots import CompiledPilot, LinkedPilot
from samara.sim.references import asked_ahead, asked_now, cover, taken
from samara.sim.stage import Stage
from samara.vehicles.limits import command_bounds

INVALID = "invalid"  # how many commands were not numbers, by tick: not recorded, but looked at


class AutopilotStage(Stage):
    """One tick of every controller, of one's own functions and of autopilots at the end of a link."""

    axis = "autopilot"
    in_python = "controller that Python calls"
    looks_back = False

    def __init__(self) -> None:
        self._warned: set[int] = set()  # drones whose commands were out of range

    def operations(self, fleet: Fleet, group: Group) -> list[Operation] | None:
        """What is asked, the controller, and what of its command reaches the motors"""
        pilot, asked, period = group.pilot, group.asked, fleet.periods["autopilot"]
        if self.is_flown_here(group) or not isinstance(pilot, CompiledPilot):
            return None
        due, counts = fleet.calendar.axis("autopilot"), pilot.machine.carry[-1:]
        return [
            *taken(asked, group.reference, due, period),
            *pilot.operations(due, group.estimate, group.reference),
            *group.wiring(due),
            *fleet.put(group, "command", self, group.plant.command, due=due, period=period),
            *(fleet.put(group, INVALID, self, counts, due=due, period=period) if fleet.scenario.strict else ()),
        ]

    def is_flown_here(self, group: Group) -> bool:
        """Whether Python gives its commands, and no program"""
        return not isinstance(group.pilot, CompiledPilot) or not group.is_wired_alike

    def asked(self, fleet: Fleet, group: Group) -> tuple[np.ndarray, np.ndarray]:
        """What its drones are asked now, and ahead where their pilot looks there"""
        return asked_now(fleet, group), asked_ahead(fleet, group)

    def overrule(self, fleet: Fleet, group: Group) -> None:
        """What is done to a command before it reaches the motors: nothing"""

    def prepare(self, fleet: Fleet, until_us: int) -> None:
        """What is asked until then"""
        for group in fleet.groups:
            cover(fleet, group, group.asked, "autopilot", until_us)

    def update(self, fleet: Fleet) -> None:
        now = fleet.time_us
        flown = [(group, *self.asked(fleet, group)) for group in fleet.groups if self.is_flown_here(group)]
        for group, reference, _ in flown:
            if isinstance(group.pilot, LinkedPilot):
                group.pilot.begin(reference, now)
        for group, reference, ahead in flown:
            try:
                group.control(reference, now, ahead)
                self.overrule(fleet, group)
            except AutopilotLostError as lost:
                fleet.ended = f"the flight ended at {fleet.time:.3f} s: {lost}"
                fleet.say("error", fleet.ended)
                for index in group.drones:
                    fleet.note(index, Fact.AUTOPILOT_LOST)
            if fleet.scenario.strict:
                require_valid(fleet, group, fleet.time_us, group.pilot.invalid_count)
            if "excess" in group.tables and group.pilot.excess.any():
                self._out_of_range(fleet, group)
                group.tables["excess"].add(now, group.pilot.excess)
            if "command" in group.tables:  # nobody records those of many flights at once
                group.tables["command"].add(now, group.plant.command)

    def _out_of_range(self, fleet: Fleet, group: Group) -> None:
        """A function of one's own asked for more than its range: an error when strict, else a warning, once for each drone."""
        vehicle = group.key.vehicle
        motors, bounds = len(vehicle.rotors), command_bounds(vehicle)
        for lane in np.flatnonzero(group.pilot.excess.any(axis=0)):
            index, channel = group.drones[lane], int(np.flatnonzero(group.pilot.excess[:, lane])[0])
            asked = group.pilot.command[channel, lane] + group.pilot.excess[channel, lane]
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


def require_valid(fleet: Fleet, group: Group, time_us: int, counts: np.ndarray) -> None:
    """A command that was not a number, of so many by a time: an error when strict, else a warning, once"""
    count = float(counts.max())
    if count == group.seen_invalid:
        return
    index, time = group.drones[int(np.argmax(counts))], time_us / MICROSECONDS
    if not group.seen_invalid:
        fleet.note(index, Fact.COMMAND_NOT_FINITE, time_us=time_us)
    sentence = f"{fleet.name_of(index)}: the controller gave a command that is not a number by {time:.6f} s"
    if fleet.scenario.strict:
        raise FloatingPointError(f"{sentence}; expected finite numbers")
    if not group.seen_invalid:
        fleet.say("warning", f"{sentence}; it was taken as 0", time_us=time_us)
        warnings.warn(f"{sentence}; it was taken as 0", RuntimeWarning, stacklevel=2)
    group.seen_invalid = count
