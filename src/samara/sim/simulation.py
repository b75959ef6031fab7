"""A flight: stages brought up to date at their instants, the plants moved between them.

At one instant, in this order: touchdown, events, ground, density, wind, wake, downwash, sensors, estimator, autopilot, and
what is recorded. Then the plants move to the next instant under what they left: command, air and faults are held, and change
on step boundaries only.

Stages that are arithmetic, and the physics between them, are one program (`samara.sim.program`): it runs from an instant at
which Python is needed to the next.
"""

from bisect import insort
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from samara.backends.machine import STRICT, Precision
from samara.physics.types import State
from samara.record.block import Sink
from samara.record.format import LogLine
from samara.scenario.bus import Bus
from samara.scenario.events import Action, At, Event
from samara.scenario.scenario import Drone, Scenario
from samara.scenario.setting import Setting
from samara.scenario.timeline import MICROSECONDS, STAGES
from samara.sim.calendar import Calendar, Span
from samara.sim.fleet import BLOCK_US, Fleet
from samara.sim.fleet_bus import bus_of
from samara.sim.group import Group
from samara.sim.program import Position, Program, walk
from samara.sim.stage import BETWEEN_INSTANTS, EVERY_INSTANT, Arrange, Stage, Stages
from samara.sim.stages.autopilot import AutopilotStage
from samara.sim.stages.density import DensityStage
from samara.sim.stages.downwash import DownwashStage
from samara.sim.stages.estimator import EstimatorStage
from samara.sim.stages.events import EventsStage
from samara.sim.stages.ground import GroundStage
from samara.sim.stages.log import LogStage, SurroundingsStage
from samara.sim.stages.sensors import SensorsStage
from samara.sim.stages.status import StatusStage
from samara.sim.stages.strikes import StrikesStage
from samara.sim.stages.touchdown import TouchdownStage
from samara.sim.stages.wake import WakeStage
from samara.sim.stages.wind import WindStage
from samara.sim.start import initial_state, timeline_of
from samara.wind.sources import WindSource

OFTEN = 10  # times a second
AXES = (EVERY_INSTANT, BETWEEN_INSTANTS, *STAGES)


class Simulation:
    """A scenario being flown. `run()` flies it to the end; `advance()` to the next instant."""

    def __init__(
        self,
        scenario: Scenario,
        sink: Sink | None = None,
        tell: Callable[[str], None] = lambda sentence: None,
        stages: Arrange = lambda standard: standard,
        *,
        seeds: Sequence[int] = (),
        log: LogStage | None = None,
        lifts: bool = False,
        precision: Precision = STRICT,
        winds: tuple[WindSource, ...] = (),
        states: Sequence[State] = (),
    ) -> None:
        """`sink` gets what is recorded; `tell` what autopilots have to say, at once: that one is waited for, or lost. `stages`
        makes of the stages there are those that are to be: see `samara.sim.stage`. With `seeds` every drone flies a flight of
        its own; `log` is what is kept of them, in the place of recordings. `lifts` and `winds`: see `Fleet`. They start in
        their `states`, where these are known."""
        self.timeline = timeline_of(scenario)
        self.calendar = Calendar(self.timeline)
        self.fleet = fleet = Fleet(scenario, self.calendar, tell, seeds, lifts=lifts, winds=winds, precision=precision)
        self._programs: list[Program] = []
        self._linked, self._started = -1, False  # the revision of the fleet that the programs are for
        self._status, self._log = StatusStage(len(scenario.drones)), log or LogStage(sink)
        self._strikes = StrikesStage(scenario, self._status)
        self._surroundings = SurroundingsStage()
        fleet.flush = self.flush
        ground = GroundStage(scenario.world, scenario.environment.ground)
        try:
            fleet.stages = _require_line(tuple(stages(self._standard(ground))))
            below = ground.below if ground.varies else None
            if not states:
                known: dict[Any, State] = {}  # of drones that are alike, once
                for own in scenario.drones:
                    if _start(own) not in known:
                        known[_start(own)] = initial_state(own, scenario.environment_at(own.start_W.z), below)
                states = [known[_start(own)] for own in scenario.drones]
            fleet.form(dict(enumerate(states)))
        except BaseException:
            self.close()
            raise

    def _standard(self, ground: GroundStage) -> Stages:
        scenario, fleet = self.fleet.scenario, self.fleet
        downwash = any(own.vehicle.has("downwash") for own in scenario.drones)
        return (
            self._strikes,
            TouchdownStage(self._status),
            self._status,
            EventsStage(scenario, fleet.periods["physics"]),
            *((ground,) if ground.varies else ()),
            DensityStage(),
            WindStage(),
            WakeStage(),
            *((DownwashStage(),) if downwash else ()),
            *((SensorsStage(),) if any(own.sensors for own in scenario.drones) else ()),
            EstimatorStage(),
            AutopilotStage(),
            self._surroundings,
            self._log,
        )

    def run(
        self, progress: Callable[[float, float], None] = lambda time, total: None, *, step_by_step: bool = False
    ) -> None:
        """To the end; `progress(time, total)` is called once a simulated second, or every few where no Python flies

        `step_by_step` goes from instant to instant, as `advance` does, where a program would go on: the same bits.
        """
        total = self.timeline.end_us / MICROSECONDS
        progress(0.0, total)
        while not self._is_over:
            if step_by_step:
                self.advance()
            else:
                self._fly(self._log.next_flush_us(self.fleet) if self._started else 0)
            if self.time_us % MICROSECONDS == 0:
                progress(self.time_us / MICROSECONDS, total)
        self._finish()
        progress(self.time_us / MICROSECONDS if self.ended else total, total)

    def advance(self) -> bool:
        """To the next instant and through its stages; False when there is none left"""
        if self._is_over:
            self._finish()
            return False
        self._fly(self.calendar.next_us(self.time_us) if self._started else 0)
        return True

    @property
    def _is_over(self) -> bool:
        return bool(self.ended) or (self._started and self.time_us >= self.timeline.end_us)

    # From one visit of Python to the next ----------------------------------------------------------------------------

    def _fly(self, until_us: int) -> None:
        """Through all instants up to one, and it too"""
        until_us = min(until_us, self.timeline.end_us)
        begin, again = 0, not self._started
        self._started = True
        while begin >= 0 and not self.ended:
            begin, again = self._part(until_us, begin, again), True
            if begin >= 0:  # tables of what is asked may be others now, and shorter
                until_us = max(self.time_us, min(until_us, self._log.next_flush_us(self.fleet)))

    def _part(self, until_us: int, begin: int, again: bool) -> int:
        """On until what is flown changes: then the stage to go on with at the instant that was come to, else −1"""
        fleet = self.fleet
        self._link()
        for stage in fleet.stages:
            stage.prepare(fleet, until_us)
        span, at = self.calendar.span(fleet.time_us, until_us, again=again), Position(0, begin)
        end = Position(len(span.rows) - 1, len(fleet.stages))
        visits = [own for own in self._visits(span) if own >= at]
        while True:
            visit = visits.pop(0) if visits else end
            reached = walk(self._programs, span, at, Position(*visit).after if visit != end else end)
            stage = fleet.stages[reached.stage - 1]
            if reached == end and visit == end:
                self._come_to(span, end)
                return -1
            self._come_to(span, reached, look_back=stage.looks_back)
            stage.update(fleet)
            at = reached
            if self.ended:  # the instant is gone through all the same
                end = Position(reached.row, len(fleet.stages))
                visits = [own for own in visits if own.row == reached.row]
            if fleet.revision != self._linked:
                return reached.stage
            told = Position(reached.row, fleet.stages.index(self._surroundings))
            if fleet.around_changed and told >= at and told not in visits[:1]:
                insort(visits, told)

    def _link(self) -> None:
        """Programs for the groups as they are"""
        if self._linked != self.fleet.revision:
            self.fleet.kept.clear()
            self._programs = [Program(self.fleet, group, self.fleet.stages) for group in self.fleet.groups]
            self._linked = self.fleet.revision
            self._choose_block()

    def _choose_block(self) -> None:
        """As long as may be where Python is hardly needed; else a second: whoever waits for it sees it go on, and a process
        that is killed loses no more"""
        fleet = self.fleet
        span = self.calendar.span(fleet.time_us, min(fleet.time_us + BLOCK_US, self.timeline.end_us), again=True)
        visits = sum(int(self._asked(stage, span).sum()) for stage in fleet.stages)
        fleet.block_us = fleet.longest_us if visits < OFTEN else min(fleet.longest_us, BLOCK_US)

    def _visits(self, span: Span) -> list[Position]:
        """Where Python is to run a stage, in their order"""
        asked = []
        for place, stage in enumerate(self.fleet.stages):
            asked += [Position(row, place) for row in np.flatnonzero(self._asked(stage, span)).tolist()]
        return sorted(asked)

    def _asked(self, stage: Stage, span: Span) -> np.ndarray[Any, Any]:
        """At which instants of a span Python is to run a stage"""
        return stage.visits(self.fleet, span, python=any(stage in program.python for program in self._programs))

    def visits(self, until_us: int) -> dict[Stage, tuple[Span, np.ndarray[Any, Any]]]:
        """For every stage the instants from here to a time, and at which of them Python would run it"""
        self._link()
        span = self.calendar.span(self.time_us, min(until_us, self.timeline.end_us))
        return {stage: (span, self._asked(stage, span)) for stage in self.fleet.stages}

    def _come_to(self, span: Span, reached: Position, *, look_back: bool = True) -> None:
        """The fleet stands at an instant, all stages before one have been through it"""
        fleet = self.fleet
        fleet.time_us, fleet.passed = int(span.times_us[reached.row]), reached.stage
        fleet.on_scenario_axis = bool(span.due[reached.row] & self.calendar.axis("scenario"))
        if look_back:
            self._collect()

    def _collect(self) -> None:
        """What the program has left, up to where the fleet stands"""
        fleet = self.fleet
        for kept in fleet.kept.values():
            kept.counted(fleet.time_us, fleet.passed)
        for place, stage in enumerate(fleet.stages):
            stage.collect(fleet, passed=place < fleet.passed)

    def act(self, action: Action, name: str = "") -> None:
        """An action from outside, at the instant the simulation stands at: applied and logged as an event's is"""
        event = Event(At(self.time_us), action, name)
        after = event.action(self.setting, self.bus())
        self.fleet.say("info", event.name)
        if after is not self.setting:
            self.fleet.apply(after)
            self._surroundings.update(self.fleet)  # the plants go on from here under it, and so must a replay

    def _finish(self) -> None:
        self.fleet.ended = self.fleet.links.part(self.fleet.ended)
        self.flush()
        try:
            self._log.log_end(self.fleet)
        finally:
            self.close()

    def flush(self) -> None:
        """Hands on what was recorded since the last time"""
        if self.fleet.groups:
            with suppress(FloatingPointError):  # which was raised already, where it ended the flight
                self._collect()
        self._log.flush(self.fleet)

    def close(self) -> None:
        """Ends the links to autopilots, and those that were started here; the flight cannot go on"""
        self.fleet.links.close()
        for group in self.fleet.groups:
            group.close()

    def bus(self) -> Bus:
        """The world at this instant, as a frozen record"""
        return bus_of(self.fleet)

    # The fleet's own -------------------------------------------------------------------------------------------------

    @property
    def scenario(self) -> Scenario:
        """What is flown"""
        return self.fleet.scenario

    @property
    def time_us(self) -> int:
        """The instant it stands at  [µs]"""
        return self.fleet.time_us

    @property
    def setting(self) -> Setting:
        """What the drones are to do now, and what is wrong with them"""
        return self.fleet.setting

    @property
    def groups(self) -> list[Group]:
        """The drones that are computed together"""
        return self.fleet.groups

    @property
    def landed(self) -> np.ndarray[Any, Any]:
        """Who stands on the ground, by drone"""
        return self.fleet.landed

    @property
    def crashed(self) -> np.ndarray[Any, Any]:
        """Who has crashed, by drone"""
        return self.fleet.crashed

    @property
    def logs(self) -> list[LogLine]:
        """Lines of log that were not yet handed on"""
        return self.fleet.logs

    @property
    def ended(self) -> str:
        """Why it ended before its time; "" where it did not"""
        return self.fleet.ended


def _start(drone: Drone) -> tuple[Any, ...]:
    return id(drone.vehicle), drone.start_W, drone.yaw, drone.airborne, drone.start_charge


def _require_line(stages: Stages) -> Stages:
    for stage in stages:
        if not isinstance(stage, Stage):
            raise ValueError(f"{stage!r:.80} among the stages; expected only records of `samara.sim.stage.Stage`")
        if stage.axis not in AXES:
            raise ValueError(f"stage {stage.name!r}: axis {stage.axis!r}; expected one of {', '.join(STAGES)}, or ''")
    if not any(isinstance(stage, LogStage) for stage in stages):
        raise ValueError("no stage 'log': expected it among the stages, all that is recorded goes through it")
    return stages
