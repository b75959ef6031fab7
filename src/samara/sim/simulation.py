"""The simulation loop: run the stages that are due, then integrate the physics to the next instant.

    >>> print(Simulation(load_scenario("hover")))
    events → density 50 Hz → wind 50 Hz → controller 250 Hz → log 100 Hz → physics 1000 Hz → contact 50 Hz

Command, air and faults are held between two instants, and change on step boundaries only. Stages that can be traced, and the
physics between them, are one compiled schedule (`samara.sim.executors.llvm`): it runs from an instant at which Python is needed
to the next. With the backend "python" every stage is called with floats (`samara.sim.executors.python`).
"""

from bisect import insort
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

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
from samara.sim.executors.llvm import Position, Program, walk
from samara.sim.executors.python import PythonProgram
from samara.sim.fleet import BLOCK_US, Fleet
from samara.sim.group import Group
from samara.sim.log import EnvironmentStage, Log, StatusReport
from samara.sim.metrics_log import MetricsLog
from samara.sim.references import cover
from samara.sim.schedule import Schedule, Span
from samara.sim.sequence import LOG, standard_sequence
from samara.sim.snapshot import bus_of
from samara.sim.stage import (
    EVERY_INSTANT,
    PHYSICS,
    Arrange,
    Entry,
    PythonStage,
    Stage,
    StageFactory,
    StageSequence,
)
from samara.sim.start import state_at_start, timeline_of
from samara.wind.sources import WindSource

SELDOM = 10  # visits of Python a second, below which blocks are as long as they may be


class PythonWork(NamedTuple):
    """A stage that Python runs again and again in a flight: why, and how often  [Hz]."""

    name: str
    reason: str
    rate: float


class StageLine(NamedTuple):
    """A stage of a flight: its name, its rate [Hz; 0: when something is due], and why Python runs it, "" where it does not."""

    name: str
    rate: float
    python: str


class Simulation:
    """A scenario in flight. `run()` flies it to the end; `advance()` to the next instant. It prints as its stages."""

    def __init__(
        self,
        scenario: Scenario,
        sink: Sink | None = None,
        tell: Callable[[str], None] = lambda sentence: None,
        stages: Arrange = lambda standard: standard,
        *,
        seeds: Sequence[int] = (),
        log: Log | None = None,
        lifts: bool = False,
        precision: Precision = STRICT,
        winds: tuple[WindSource, ...] = (),
        states: Sequence[State] = (),
    ) -> None:
        """Prepare a flight of a scenario.

        Args:
            sink: gets what is recorded, block by block.
            tell: gets what autopilots report, at once.
            stages: makes the sequence to fly from the standard one, see `samara.sim.stage`.
            seeds: one for each drone, which then flies a flight of its own.
            log: what is kept of the flights, in place of recordings.
            lifts: see `Fleet`; `winds` and `precision` likewise.
            states: where the drones start, if known.
        """
        self.timeline = timeline_of(scenario)
        self.schedule = Schedule(self.timeline)
        self.fleet = fleet = Fleet(scenario, self.schedule, tell, seeds, lifts=lifts, winds=winds, precision=precision)
        self._programs: list[Program | PythonProgram] = []
        self._linked, self._started = -1, False  # the revision of the fleet that the programs are for
        self._status, self._environment = StatusReport(len(scenario.drones)), EnvironmentStage()
        fleet.log = self._log = log or Log(sink)
        fleet.flush = self.flush
        try:
            standard = standard_sequence(
                scenario,
                fleet.periods["physics"],
                status=self._status,
                recording=(self._environment,),
                with_metrics=isinstance(self._log, MetricsLog),
            )
            fleet.stages = _require_sequence(tuple(stages(standard)))
            if not states:
                known: dict[Any, State] = {}  # of drones that start alike, once
                for drone in scenario.drones:
                    if _start(drone) not in known:
                        known[_start(drone)] = state_at_start(scenario, drone)
                states = [known[_start(drone)] for drone in scenario.drones]
            fleet.form(dict(enumerate(states)))
        except BaseException:
            self.close()
            raise

    def __str__(self) -> str:
        return " → ".join(line.name + (f" {line.rate:g} Hz" if line.rate else "") for line in self.sequence())

    def sequence(self) -> list[StageLine]:
        """The stages that do something in this flight, in their order from one instant to the next"""
        order = sorted(self.fleet.stages, key=lambda entry: entry.name in ("physics", "contact"))
        lines = []
        for entry in (entry for entry in order if entry is not self._environment):
            sets = [own for group in self.groups for own in group.sets[entry.name]]
            is_shown = entry is LOG or (entry.name == "events" and self.scenario.events)
            if is_shown or any(own.stages or own.python for own in sets):
                rate = MICROSECONDS / self.fleet.periods[entry.rate] if entry.rate else 0.0
                lines.append(StageLine(entry.name, rate, "; ".join(sorted({own.python for own in sets if own.python}))))
        return lines

    def run(
        self, progress: Callable[[float, float], None] = lambda time, total: None, *, step_by_step: bool = False
    ) -> None:
        """Fly to the end; `progress(time, total)` is called once a simulated second, or every few where no Python flies

        `step_by_step` goes from instant to instant, as `advance` does, where a compiled schedule would go on: the same bits.
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
        """Fly to the next instant and through its stages; False when there is none left"""
        if self._is_over:
            self._finish()
            return False
        self._fly(self.schedule.next_us(self.time_us) if self._started else 0)
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
            if begin >= 0:  # tables of references may be others now, and shorter
                until_us = max(self.time_us, min(until_us, self._log.next_flush_us(self.fleet)))

    def _part(self, until_us: int, begin: int, again: bool) -> int:
        """On until what is flown changes: then the entry to go on with at the instant that was reached, else −1"""
        fleet = self.fleet
        self._link()
        self._prepare(until_us)
        span, at = self.schedule.span(fleet.time_us, until_us, again=again), Position(0, begin)
        end = Position(len(span.rows) - 1, len(fleet.stages))
        visits = [own for own in self._visits(span) if own >= at]
        while True:
            visit = visits.pop(0) if visits else end
            reached = walk(self._programs, span, at, Position(*visit).after if visit != end else end)
            entry = fleet.stages[reached.entry - 1]
            if reached == end and visit == end:
                self._come_to(span, end)
                return -1
            assert isinstance(entry, PythonStage), entry.name
            self._come_to(span, reached, collect=entry.needs_tables)
            entry.update(fleet)
            at = reached
            if self.ended:  # the instant is gone through all the same
                end = Position(reached.row, len(fleet.stages))
                visits = [own for own in visits if own.row == reached.row]
            if fleet.revision != self._linked:
                return reached.entry
            record = Position(reached.row, fleet.stages.index(self._environment))
            if fleet.environment_changed and record >= at and record not in visits[:1]:
                insort(visits, record)

    def _link(self) -> None:
        """Programs for the groups as they are"""
        fleet = self.fleet
        if self._linked == fleet.revision:
            return
        fleet.stream_tables.clear()
        fleet.link()
        fleet.prepare()
        in_python = fleet.scenario.backend == "python"
        self._programs = [(PythonProgram if in_python else Program)(fleet, group) for group in fleet.groups]
        self._linked = fleet.revision
        self._choose_block()

    def _prepare(self, until_us: int) -> None:
        """What the programs need to go on to a time: references, and the clocks of their stages"""
        for group in self.fleet.groups:
            cover(self.fleet, group, group.reference_table, until_us)
        self._log.prepare(self.fleet, until_us)
        for program in self._programs:
            program.set_clocks()

    def _choose_block(self) -> None:
        """As long as may be where Python is hardly needed; else a second: whoever waits for it sees it go on, and a process
        that is killed loses no more"""
        fleet = self.fleet
        span = self.schedule.span(fleet.time_us, min(fleet.time_us + BLOCK_US, self.timeline.end_us), again=True)
        visits = sum(int(self._is_due(stage, span).sum()) for stage in fleet.stages)
        fleet.block_us = fleet.longest_us if visits < SELDOM else min(fleet.longest_us, BLOCK_US)

    def _visits(self, span: Span) -> list[Position]:
        """Where Python is to run a stage, in their order"""
        due = []
        for place, entry in enumerate(self.fleet.stages):
            due += [Position(row, place) for row in np.flatnonzero(self._is_due(entry, span)).tolist()]
        return sorted(due)

    def _is_due(self, entry: Entry, span: Span) -> np.ndarray[Any, Any]:
        """At which instants of a span Python is to run an entry"""
        if not isinstance(entry, PythonStage):
            return np.zeros(len(span.times_us), dtype=bool)
        needed = any(entry in program.python for program in self._programs)
        return entry.is_due(self.fleet, span, needed=needed)

    def python_work(self, until_us: int = MICROSECONDS) -> tuple[PythonWork, ...]:
        """What Python does at every tick of a clock, by a look at the first second; none: the flight is one compiled program

        What happens once, such as an event at its time, only ends a call.
        """
        self._link()
        span = self.schedule.span(self.time_us, min(until_us, self.timeline.end_us))
        seconds, found = int(span.times_us[-1]) / MICROSECONDS, []
        for entry in self.fleet.stages:
            rows = self._is_due(entry, span)
            bits = [self.schedule.instant, *(self.schedule.clock(name) for name in STAGES)]
            ticks = [int(due.sum()) for due in map(span.at, bits) if due.any() and rows[due].all()]
            if ticks and isinstance(entry, PythonStage):
                reasons = {own.python for group in self.groups for own in group.sets[entry.name] if own.python}
                reason = "; ".join(sorted(reasons)) or entry.reason
                found.append(PythonWork(entry.name, reason, max(ticks) / seconds))
        return tuple(found)

    def _come_to(self, span: Span, reached: Position, *, collect: bool = True) -> None:
        """The fleet is at an instant, all entries before one have been through it"""
        fleet = self.fleet
        fleet.time_us, fleet.passed = int(span.times_us[reached.row]), reached.entry
        fleet.on_scenario_clock = bool(span.due[reached.row] & self.schedule.clock("scenario"))
        for group in fleet.groups:
            group.note_passed(fleet.passed)
        if collect:
            self._collect()

    def _collect(self) -> None:
        """What the programs have left in tables, up to where the fleet is"""
        fleet = self.fleet
        for table in fleet.stream_tables.values():
            table.count_rows(fleet.time_us, fleet.passed)
        self._status.collect(fleet)
        self._environment.collect(fleet)
        self._log.collect(fleet, passed=fleet.index_of("log") < fleet.passed)

    def act(self, action: Action, name: str = "") -> None:
        """An action from outside, at the instant the simulation is at: applied and logged as an event's is"""
        event = Event(At(self.time_us), action, name)
        after = event.action(self.setting, self.bus())
        self.fleet.say("info", event.name)
        if after is not self.setting:
            self.fleet.apply(after)
            self._environment.update(self.fleet)  # the drones go on from here under it, and so must a replay

    def _finish(self) -> None:
        self.fleet.ended = self.fleet.links.part(self.fleet.ended)
        self.flush()
        try:
            self._log.log_end(self.fleet)
        finally:
            self.close()

    def flush(self) -> None:
        """Hand on what was recorded since the last time"""
        if self.fleet.groups:
            with suppress(FloatingPointError):  # which was raised already, where it ended the flight
                self._collect()
        self._log.flush(self.fleet)

    def close(self) -> None:
        """End the links to autopilots, and those that were started here; the flight cannot go on"""
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
        """The instant it is at  [µs]"""
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


def _require_sequence(stages: StageSequence) -> StageSequence:
    clocks = (EVERY_INSTANT, PHYSICS, *STAGES)
    for entry in stages:
        if not isinstance(entry, (Stage, StageFactory, PythonStage)):
            raise ValueError(f"{entry!r:.80} among the stages; expected records of `samara.sim.stage`")
        if entry.rate not in clocks:
            raise ValueError(f"stage {entry.name!r}: rate {entry.rate!r}; expected one of {', '.join(STAGES)}, or ''")
    if not any(entry.name == "log" for entry in stages):
        raise ValueError("no stage 'log': expected it among the stages, all that is recorded goes through it")
    return stages


def without_autopilots(scenario: Scenario) -> Scenario:
    """The scenario with a function in Python in place of every autopilot at the end of a link: nothing is opened"""
    return replace(scenario, drones=tuple(map(_unlinked, scenario.drones)))


def _unlinked(drone: Drone) -> Drone:
    return drone if drone.autopilot is None else replace(drone, autopilot=None, controller=_no_command)


def _no_command(state: Any, reference: Any, vehicle: Any, controller_state: Any) -> Any:
    return (0.0,) * vehicle.command_size
