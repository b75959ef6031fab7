"""The simulation loop: run the stages that are due, then integrate the physics to the next instant.

    >>> print(Simulation(load_scenario("hover")))
    events → density 50 Hz → wind 50 Hz → controller 250 Hz → log 100 Hz → physics 1000 Hz → contact 50 Hz

Command, air and faults are constant between two instants and change on step boundaries only. Stages that can be traced, and the
physics between them, are one compiled schedule (`samara.sim.executors.llvm`): it runs from an instant at which Python is needed
to the next. With the backend "python" every stage is called with floats (`samara.sim.executors.python`).
"""

from bisect import insort
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from samara.compiler.compiled_step import STRICT, Precision
from samara.core.types import Array
from samara.physics.types import State, Vehicle
from samara.record.streams import LogLine, Sink
from samara.scenario.events import Event, EventAction, FlightSettings, TimeTrigger
from samara.scenario.scenario import Drone, Scenario
from samara.scenario.snapshot import Bus
from samara.scenario.timeline import CLOCK_ORDER, MICROSECONDS
from samara.sim.executors.llvm import Cursor, GroupProgram, run_programs
from samara.sim.executors.python import PythonProgram
from samara.sim.fleet import BLOCK_US, Fleet
from samara.sim.fleet_snapshot import fleet_bus
from samara.sim.group import Group
from samara.sim.initial_state import drone_initial_state, scenario_timeline
from samara.sim.log import EnvironmentStage, Log, MetricsLog, StatusReport
from samara.sim.references import fill_table
from samara.sim.schedule import Schedule, Span
from samara.sim.sequence import LOG, standard_sequence
from samara.sim.setup import Variation
from samara.sim.stage import (
    CLOCKS,
    EVERY_INSTANT,
    PHYSICS,
    Entry,
    PythonStage,
    Stage,
    StageArrangement,
    StageFactory,
    StageSequence,
    require_stage,
)

RARE_VISITS_HZ = 10  # below this rate of Python stages, blocks have their maximum length


class PythonWork(NamedTuple):
    """A stage that Python runs periodically in a flight: the reason, and its rate  [Hz]."""

    name: str
    reason: str
    rate: float


class StageLine(NamedTuple):
    """A stage of a flight: name, rate [Hz; 0: not periodic], and the reason why Python runs it ("" if compiled)."""

    name: str
    rate: float
    python_reason: str


class Simulation:
    """A scenario in flight. `run()` flies it to the end; `advance()` flies to the next instant; `str()` lists its stages."""

    def __init__(
        self,
        scenario: Scenario,
        sink: Sink | None = None,
        on_message: Callable[[str], None] = lambda sentence: None,
        stages: StageArrangement = lambda standard: standard,
        *,
        seeds: Sequence[int] = (),
        log: Log | None = None,
        precision: Precision = STRICT,
        variation: Variation | None = None,
        states: Sequence[State] = (),
    ) -> None:
        """Prepare a flight of a scenario.

        Args:
            scenario: the scenario to fly.
            sink: receives the recorded blocks.
            on_message: receives messages of external autopilots as they arrive.
            stages: maps the standard sequence to the one to fly, see `samara.sim.stage`.
            seeds: one for each drone, which then is a separate flight.
            log: replaces the recording log.
            precision: precision of the compiled code.
            variation: parameters that differ between drones, see `Fleet`.
            states: initial states of the drones; computed from the scenario if empty.
        """
        self.timeline = scenario_timeline(scenario)
        self.schedule = Schedule(self.timeline)
        self.fleet = fleet = Fleet(scenario, self.schedule, on_message, seeds, precision=precision, variation=variation)
        self._programs: list[GroupProgram | PythonProgram] = []
        self._linked_revision, self._started = -1, False  # the fleet revision of the programs
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
                initial_states: dict[tuple[object, ...], State] = {}  # computed once for drones with equal starts
                for drone in scenario.drones:
                    if _start_key(drone) not in initial_states:
                        initial_states[_start_key(drone)] = drone_initial_state(scenario, drone)
                states = [initial_states[_start_key(drone)] for drone in scenario.drones]
            fleet.form_groups(dict(enumerate(states)))
        except BaseException:
            self.close()
            raise

    def __str__(self) -> str:
        return " → ".join(line.name + (f" {line.rate:g} Hz" if line.rate else "") for line in self.sequence())

    def sequence(self) -> list[StageLine]:
        """List the stages that are active in this flight, in the order in which they run."""
        order = sorted(self.fleet.stages, key=lambda entry: entry.name in ("physics", "contact"))
        lines = []
        for entry in (entry for entry in order if entry is not self._environment):
            sets = [stage_set for group in self.groups for stage_set in group.sets[entry.name]]
            is_shown = entry is LOG or (entry.name == "events" and self.scenario.events)
            if is_shown or any(stage_set.stages or stage_set.python_reason for stage_set in sets):
                rate = MICROSECONDS / self.fleet.periods[entry.rate] if entry.rate else 0.0
                reasons = sorted({stage_set.python_reason for stage_set in sets if stage_set.python_reason})
                lines.append(StageLine(entry.name, rate, "; ".join(reasons)))
        return lines

    def run(
        self, progress: Callable[[float, float], None] = lambda time, total: None, *, step_by_step: bool = False
    ) -> None:
        """Fly to the end; `progress(time, total)` is called at the end of each block that ends on a full second.

        With `step_by_step`, fly from instant to instant as `advance` does, instead of by the block (slower, bit-identical).
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
        progress(self.time_us / MICROSECONDS if self.end_reason else total, total)

    def advance(self) -> bool:
        """Fly to the next instant and run its stages; return False if the flight is over."""
        if self._is_over:
            self._finish()
            return False
        self._fly(self.schedule.next_us(self.time_us) if self._started else 0)
        return True

    @property
    def _is_over(self) -> bool:
        return bool(self.end_reason) or (self._started and self.time_us >= self.timeline.end_us)

    # The loop --------------------------------------------------------------------------------------------------------

    def _fly(self, until_us: int) -> None:
        """Fly to `until_us`, including the stages of that instant."""
        until_us = min(until_us, self.timeline.end_us)
        next_entry, again = 0, not self._started
        self._started = True
        while next_entry >= 0 and not self.end_reason:
            next_entry, again = self._fly_until_change(until_us, next_entry, again), True
            if next_entry >= 0:  # the new reference tables may be shorter
                until_us = max(self.time_us, min(until_us, self._log.next_flush_us(self.fleet)))

    def _fly_until_change(self, until_us: int, first_entry: int, again: bool) -> int:
        """Continue until the groups change; return the entry to continue with at the instant reached, −1 at `until_us`."""
        fleet = self.fleet
        self._link()
        self._prepare(until_us)
        span, cursor = self.schedule.span(fleet.time_us, until_us, include_start=again), Cursor(0, first_entry)
        end = Cursor(len(span.rows) - 1, len(fleet.stages))
        visits = [visit for visit in self._python_visits(span) if visit >= cursor]
        while True:
            visit = visits.pop(0) if visits else end
            reached = run_programs(self._programs, span, cursor, Cursor(*visit).next_entry if visit != end else end)
            entry = fleet.stages[reached.entry - 1]
            if reached == end and visit == end:
                self._arrive(span, end)
                return -1
            assert isinstance(entry, PythonStage), entry.name
            self._arrive(span, reached, collect=entry.needs_tables)
            entry.update(fleet)
            cursor = reached
            if self.end_reason:  # the remaining stages of this instant still run
                end = Cursor(reached.row, len(fleet.stages))
                visits = [visit for visit in visits if visit.row == reached.row]
            if fleet.revision != self._linked_revision:
                return reached.entry
            recording_visit = Cursor(reached.row, fleet.stages.index(self._environment))
            if fleet.environment_changed and recording_visit >= cursor and recording_visit not in visits[:1]:
                insort(visits, recording_visit)

    def _link(self) -> None:
        """Create programs for the present groups."""
        fleet = self.fleet
        if self._linked_revision == fleet.revision:
            return
        fleet.stream_tables.clear()
        fleet.link()
        fleet.prepare()
        in_python = fleet.scenario.backend == "python"
        self._programs = [(PythonProgram if in_python else GroupProgram)(fleet, group) for group in fleet.groups]
        self._linked_revision = fleet.revision
        self._choose_block_length()

    def _prepare(self, until_us: int) -> None:
        """Prepare the programs' references, and the dt of their stages, for the flight to `until_us`."""
        for group in self.fleet.groups:
            fill_table(self.fleet, group, group.reference_table, until_us)
        self._log.prepare(self.fleet, until_us)
        for program in self._programs:
            program.set_clocks()

    def _choose_block_length(self) -> None:
        """Choose the block length: the maximum if Python stages rarely run, else 1 s, so that progress is visible and a killed
        process loses little.
        """
        fleet = self.fleet
        span = self.schedule.span(
            fleet.time_us, min(fleet.time_us + BLOCK_US, self.timeline.end_us), include_start=True
        )
        visits = sum(int(self._is_due(stage, span).sum()) for stage in fleet.stages)
        fleet.block_us = fleet.max_block_us if visits < RARE_VISITS_HZ else min(fleet.max_block_us, BLOCK_US)

    def _python_visits(self, span: Span) -> list[Cursor]:
        """List the rows and entries at which Python runs a stage, in order."""
        due = []
        for entry_index, entry in enumerate(self.fleet.stages):
            due += [Cursor(row, entry_index) for row in np.flatnonzero(self._is_due(entry, span)).tolist()]
        return sorted(due)

    def _is_due(self, entry: Entry, span: Span) -> Array:
        """Mark the instants of a span at which Python runs an entry."""
        if not isinstance(entry, PythonStage):
            return np.zeros(len(span.times_us), dtype=bool)
        needed = any(entry in program.python for program in self._programs)
        return entry.is_due(self.fleet, span, needed=needed)

    def python_work(self, until_us: int = MICROSECONDS) -> tuple[PythonWork, ...]:
        """List the stages that Python runs at every tick of a clock up to `until_us`; empty if all are compiled.

        Single calls, such as those of timed events, do not count.
        """
        self._link()
        span = self.schedule.span(self.time_us, min(until_us, self.timeline.end_us))
        seconds, work = int(span.times_us[-1]) / MICROSECONDS, []
        for entry in self.fleet.stages:
            rows = self._is_due(entry, span)
            bits = [self.schedule.instant_bit, *(self.schedule.clock(name) for name in CLOCK_ORDER)]
            ticks = [int(due.sum()) for due in map(span.due_rows, bits) if due.any() and rows[due].all()]
            if ticks and isinstance(entry, PythonStage):
                sets = [stage_set for group in self.groups for stage_set in group.sets[entry.name]]
                reasons = sorted({stage_set.python_reason for stage_set in sets if stage_set.python_reason})
                reason = "; ".join(reasons) or entry.reason
                work.append(PythonWork(entry.name, reason, max(ticks) / seconds))
        return tuple(work)

    def _arrive(self, span: Span, reached: Cursor, *, collect: bool = True) -> None:
        """Set the fleet's time and the count of entries that have run at it."""
        fleet = self.fleet
        fleet.time_us, fleet.entries_run = int(span.times_us[reached.row]), reached.entry
        fleet.on_scenario_clock = bool(span.due[reached.row] & self.schedule.clock("scenario"))
        for group in fleet.groups:
            group.mark_entries_run(fleet.entries_run)
        if collect:
            self._collect()

    def _collect(self) -> None:
        """Collect the rows that the programs have written up to the present instant."""
        fleet = self.fleet
        for table in fleet.stream_tables.values():
            table.count_rows(fleet.time_us, fleet.entries_run)
        self._status.collect(fleet)
        self._environment.collect(fleet)
        self._log.collect(fleet, log_has_run=fleet.entry_index("log") < fleet.entries_run)

    def apply_action(self, action: EventAction, name: str = "") -> None:
        """Apply an action at the present instant, and log it as an event."""
        event = Event(TimeTrigger(self.time_us), action, name)
        new_setting = event.action(self.setting, self.bus())
        self.fleet.log_message("info", event.name)
        if new_setting is not self.setting:
            self.fleet.apply_setting(new_setting)
            self._environment.update(self.fleet)  # a replay must apply it at the same instant

    def _finish(self) -> None:
        self.fleet.end_reason = self.fleet.links.finish(self.fleet.end_reason)
        self.flush()
        try:
            self._log.log_end(self.fleet)
        finally:
            self.close()

    def flush(self) -> None:
        """Pass the rows recorded since the last flush to the sink."""
        if self.fleet.groups:
            with suppress(FloatingPointError):  # raised before, when it ended the flight
                self._collect()
        self._log.flush(self.fleet)

    def close(self) -> None:
        """Close links and controllers, and end the autopilots started by them; the flight cannot continue."""
        self.fleet.links.close()
        for group in self.fleet.groups:
            group.close()

    def bus(self) -> Bus:
        """Return the state of the flight at this instant as a frozen record."""
        return fleet_bus(self.fleet)

    # Attributes of the fleet -----------------------------------------------------------------------------------------

    @property
    def scenario(self) -> Scenario:
        """The scenario flown."""
        return self.fleet.scenario

    @property
    def time_us(self) -> int:
        """Flight time [µs]."""
        return self.fleet.time_us

    @property
    def setting(self) -> FlightSettings:
        """The drones' present tasks and faults, and the wind."""
        return self.fleet.setting

    @property
    def groups(self) -> list[Group]:
        """Groups of drones computed together."""
        return self.fleet.groups

    @property
    def landed(self) -> Array:
        """Whether each drone has landed."""
        return self.fleet.landed

    @property
    def crashed(self) -> Array:
        """Whether each drone has crashed."""
        return self.fleet.crashed

    @property
    def logs(self) -> list[LogLine]:
        """Lines of the log since the last flush."""
        return self.fleet.logs

    @property
    def end_reason(self) -> str:
        """Why the flight ended early; "" if it did not."""
        return self.fleet.end_reason


def _start_key(drone: Drone) -> tuple[object, ...]:
    return id(drone.vehicle), drone.start_W, drone.yaw, drone.airborne, drone.initial_charge


def _require_sequence(stages: StageSequence) -> StageSequence:
    names: set[str] = set()
    for entry in stages:
        if not isinstance(entry, (Stage, StageFactory, PythonStage)):
            raise ValueError(f"{entry!r:.80} among the stages; expected records of `samara.sim.stage`")
        if isinstance(entry, Stage):
            require_stage(entry)
        if entry.rate not in (EVERY_INSTANT, PHYSICS, *CLOCKS):
            raise ValueError(f"stage {entry.name!r}: rate {entry.rate!r}; expected one of {', '.join(CLOCKS)}, or ''")
        if entry.name in names:
            raise ValueError(f"two stages {entry.name!r}: expected stages of different names")
        names.add(entry.name)
    if "log" not in names:
        raise ValueError("no stage 'log': expected it among the stages, as it records the flight")
    return stages


def replace_autopilots(scenario: Scenario) -> Scenario:
    """Return the scenario with a Python function in place of every external autopilot, so that no link is opened."""
    return replace(scenario, drones=tuple(map(_replace_autopilot, scenario.drones)))


def _replace_autopilot(drone: Drone) -> Drone:
    return drone if drone.autopilot is None else replace(drone, autopilot=None, controller=_zero_command)


def _zero_command(state: object, reference: object, vehicle: Vehicle, controller_state: object) -> tuple[float, ...]:
    return (0.0,) * vehicle.command_size
