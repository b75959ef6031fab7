"""The log: what is recorded of every drone, kept in tables and handed on by the block."""

from functools import lru_cache
from typing import Any

import numpy as np

from samara.backends.llvm_schedule import Operation
from samara.control.named import instants_ahead
from samara.physics.reference import REFERENCE_FIELDS
from samara.physics.types import BODY
from samara.record.block import Block, Sink
from samara.record.format import LogLine
from samara.record.outputs import output_code
from samara.record.streams import STATUS_FIELDS, Rows, event_blocks, load_fields
from samara.scenario.facts import Fact
from samara.scenario.timeline import MICROSECONDS
from samara.sim.calendar import Span
from samara.sim.fleet import Fleet
from samara.sim.group import Group
from samara.sim.looking import Looking
from samara.sim.pilots import CompiledPilot
from samara.sim.references import planned
from samara.sim.stage import Stage
from samara.sim.stages.autopilot import INVALID, require_valid
from samara.sim.stages.touchdown import TOUCHES

HELD = "held"  # commands and surroundings at every logged state: not recorded, but what the outputs are computed from
AROUND = "around"  # the environment after every tick of the wind: what changed is recorded
CHANGES = ("status", "environment")  # have a row where something changed, not at every tick
UNTOLD = (HELD, INVALID, AROUND, TOUCHES)


class SurroundingsStage(Stage):
    """A row of every drone's environment and load whenever one of them has changed: a replay flies under them."""

    def __init__(self) -> None:
        self._told: dict[int, np.ndarray] = {}  # by the first drone of a group: the environment of its last row
        self._looked_us = -1

    def regrouped(self, fleet: Fleet) -> None:
        """What was told of groups that are gone says nothing of the new ones"""
        self._told.clear()

    def operations(self, fleet: Fleet, group: Group) -> list[Operation]:
        """The environment after every tick of the wind: those that changed are picked out afterwards"""
        due, period = fleet.calendar.axis("wind"), fleet.periods["wind"]
        return fleet.put(group, AROUND, self, group.plant.environment, due=due, period=period)

    def visits(self, fleet: Fleet, span: Span, *, python: bool) -> np.ndarray:
        """At once where something has changed already; else whenever Python changes it"""
        found = np.zeros(len(span.times_us), dtype=bool)
        found[0] = fleet.around_changed
        return found

    def collect(self, fleet: Fleet, *, passed: bool) -> None:
        """Rows for the ticks of the wind that changed something, for all drones"""
        if not self._told or AROUND not in fleet.groups[0].tables:
            return
        tables = [group.tables[AROUND] for group in fleet.groups]
        times = tables[0].times[: tables[0].count]
        new = slice(int(np.searchsorted(times, self._looked_us, side="right")), len(times))
        if new.start == new.stop:
            return
        changed = np.zeros(new.stop - new.start, dtype=bool)
        for group, table in zip(fleet.groups, tables, strict=True):
            rows = table.rows[new]
            changed[0] |= (rows[0] != self._told[group.drones[0]]).any()
            changed[1:] |= (rows[1:] != rows[:-1]).any(axis=(1, 2))
        picked = np.flatnonzero(changed) + new.start
        for group, table in zip(fleet.groups, tables, strict=True) if len(picked) else ():
            self._tell(fleet, group, times[picked], table.rows[picked])
        self._looked_us = int(times[-1])

    def update(self, fleet: Fleet) -> None:
        if not fleet.around_changed:
            return
        for group in fleet.groups:
            self._tell(fleet, group, np.array([fleet.time_us]), group.plant.environment[None])
        self._looked_us, fleet.around_changed = fleet.time_us, False

    def _tell(self, fleet: Fleet, group: Group, times_us: np.ndarray, environments: np.ndarray) -> None:
        """Record environments (rows, fields, drones) at increasing times; one at the time of the last row replaces it"""
        table = group.tables.get("environment")
        if table is None:
            return
        if table.count and table.times[table.count - 1] == times_us[0]:
            table.count -= 1
        loads = [fleet.setting.drones[index] for index in group.drones]
        has = len(load_fields(group.key.vehicle))
        rows = [[own.payload.mass, *own.payload.r_B, own.faults.cells_left, own.cable_holds][:has] for own in loads]
        table.extend(times_us, environments, np.array(rows).T[None])
        self._told[group.drones[0]] = environments[-1].copy()


class LogStage(Stage):
    """States, references and estimates at the rate of the log; every block all tables go to the sink."""

    axis = "log"

    def __init__(self, sink: Sink | None) -> None:
        self._sink, self._flushed_us, self._end_logged = sink, 0, False
        self._waiting: list[tuple[list[Block], list[LogLine]]] = []  # for the sink to have taken them

    def next_flush_us(self, fleet: Fleet) -> int:
        """The tick of the log at which tables are handed on"""
        period = fleet.periods["log"]
        return -(-(self._flushed_us + fleet.block_us) // period) * period

    def regrouped(self, fleet: Fleet) -> None:
        """Empty tables for the groups that are new"""
        for group in fleet.groups:
            group.tables = _empty_tables(fleet, group)

    def operations(self, fleet: Fleet, group: Group) -> list[Operation]:
        """A row of every table that has one at each tick"""
        due, period = fleet.calendar.axis("log"), fleet.periods["log"]

        def put(name: str, source: Any, skip: int = 0) -> list[Operation]:
            return fleet.put(group, name, self, source, due=due, period=period, skip=skip)

        plant, operations = group.plant, put("state", group.plant.state)
        operations += [*put(HELD, plant.command), *put(HELD, plant.environment, len(plant.command))]
        if group.estimate is not plant.state:
            operations += put("estimate", group.estimate[:BODY])
        if group.fusing:
            operations += put("covariance", group.fusing.variances)
        if "plan" in group.tables:
            operations += put("plan", group.pilot.plan)
        if isinstance(group.pilot, CompiledPilot) and not fleet.scenario.strict:
            operations += put(INVALID, group.pilot.machine.carry[-1:])
        return operations

    def collect(self, fleet: Fleet, *, passed: bool) -> None:
        """What was asked at the ticks since; and whether all that was put into tables is sound"""
        lost = [own for group in fleet.groups if (own := _first_lost(group))]
        first = min(lost, key=lambda own: own[0], default=None)
        self._look_at_commands(fleet, first[0] if first else fleet.time_us + 1)
        if first:
            self._end(fleet, *first)
        _ask(fleet)
        if passed and fleet.time_us - self._flushed_us >= fleet.block_us:
            self.flush(fleet)

    def _look_at_commands(self, fleet: Fleet, until_us: int) -> None:
        """Those given before a time, in their order; where one ends the flight, what the program flew after it is forgotten"""
        found = []
        for place, group in enumerate(fleet.groups):
            counts = group.tables[INVALID]
            new = (counts.rows[: counts.count, 0] != group.seen_invalid).any(axis=1)
            found += [(int(counts.times[k]), place, k) for k in np.flatnonzero(new).tolist()]
        for time_us, place, k in sorted(own for own in found if own[0] < until_us):
            group = fleet.groups[place]
            try:
                require_valid(fleet, group, time_us, group.tables[INVALID].rows[k, 0])
            except FloatingPointError:
                _forget_after(fleet, time_us, len(fleet.stages))
                _ask(fleet)
                raise

    def update(self, fleet: Fleet) -> None:
        self.collect(fleet, passed=True)

    def _end(self, fleet: Fleet, time_us: int, group: Group, rows: np.ndarray) -> None:
        """A state that is none: the flight ends there, and what the program flew after it is not recorded."""
        _forget_after(fleet, time_us, fleet.stages.index(self))
        _ask(fleet)
        row, lane = (int(i) for i in np.argwhere(~np.isfinite(rows))[0])
        sentence = (
            f"{fleet.name_of(group.drones[lane])}: {group.plant.fields[row]} is {rows[row, lane]} "
            f"at {time_us / MICROSECONDS:.6f} s; expected a finite number"
        )
        fleet.note(group.drones[lane], Fact.STATE_NOT_FINITE)
        fleet.say("error", sentence)
        self.flush(fleet)
        raise FloatingPointError(sentence)

    def log_end(self, fleet: Fleet) -> None:
        """Record the last state of a flight that ends between two ticks of the log"""
        if self._end_logged or fleet.time_us % fleet.periods["log"] == 0:
            return
        self._end_logged = True
        for group in fleet.groups:
            plant, tables = group.plant, group.tables
            tables["state"].add(fleet.time_us, plant.state)
            tables[HELD].add(fleet.time_us, plant.command, plant.environment)
            if group.estimate is not plant.state:
                tables["estimate"].add(fleet.time_us, group.estimate[:BODY])
            if "covariance" in tables and group.fusing:
                tables["covariance"].add(fleet.time_us, group.fusing.variances)
            if "plan" in tables:
                tables["plan"].add(fleet.time_us, group.pilot.plan)
        self.collect(fleet, passed=False)
        self.flush(fleet)

    def flush(self, fleet: Fleet) -> None:
        """Hands on what was recorded since the last time"""
        for kept in fleet.kept.values():
            kept.first[0] += kept.table.count
        if self._sink is not None:
            blocks = [block for group in fleet.groups for block in _handed_on(group)]
            self._waiting.append(([*blocks, *event_blocks(fleet.facts, fleet.scenario.drones)], fleet.logs))
        fleet.logs, fleet.facts = [], []
        for group in fleet.groups:
            for table in group.tables.values():
                table.count = 0
        for kept in fleet.kept.values():
            kept.found()
        self._flushed_us = fleet.time_us
        while self._sink is not None and self._waiting:
            self._sink(*self._waiting[0])
            del self._waiting[0]  # not before: Ctrl-C may have come in between


def _first_lost(group: Group) -> tuple[int, Group, np.ndarray] | None:
    """The first state since the last look that is not finite: when it was, and its numbers"""
    state = group.tables["state"]
    new = slice(group.tables["reference"].count, state.count)
    bad = np.flatnonzero(~np.isfinite(state.rows[new].sum(axis=(1, 2))))
    if not len(bad):
        return None
    at = new.start + int(bad[0])
    return int(state.times[at]), group, state.rows[at].copy()


def _ask(fleet: Fleet) -> None:
    """What was asked of the drones wherever their state is known by now"""
    for group in fleet.groups:
        state, asked = group.tables["state"], group.tables["reference"]
        new = slice(asked.count, state.count)
        if new.start < new.stop:
            asked.times[new] = state.times[new]
            planned(fleet.settings_of(group), state.times[new], over=asked.rows[new])
            for k in range(new.start, new.stop) if group.followed else ():
                lanes, rows = group.followed.pop(int(state.times[k]), ([], 0.0))
                asked.rows[k, :, lanes] = np.transpose(rows)
            asked.count = state.count


def _forget_after(fleet: Fleet, time_us: int, passed: int) -> None:
    """The fleet stands at an earlier time again, as far as it is recorded, when so many stages had been passed"""
    for kept in fleet.kept.values():
        kept.counted(time_us, passed)
    for group in fleet.groups:
        for table in (group.tables[name] for name in CHANGES if name in group.tables):
            table.count = int(np.searchsorted(table.times[: table.count], time_us, side="right"))
    fleet.facts = [own for own in fleet.facts if own.time_us <= time_us]
    fleet.logs = [own for own in fleet.logs if own.time_us <= time_us]
    fleet.time_us, fleet.passed = time_us, passed


def _empty_tables(fleet: Fleet, group: Group) -> dict[str, Rows]:
    sizes = {
        "state": (len(group.plant.fields), "log"),
        "command": (len(group.plant.command), "autopilot"),
        "reference": (len(REFERENCE_FIELDS), "log"),
        "estimate": (BODY, "log"),
        "environment": (len(group.plant.environment) + len(load_fields(group.key.vehicle)), "wind"),
        "status": (len(STATUS_FIELDS), "scenario"),
        HELD: (len(group.plant.command) + len(group.plant.environment), "log"),
        INVALID: (1, "autopilot"),
        TOUCHES: (4, "scenario"),
        AROUND: (len(group.plant.environment), "wind"),
    }
    ahead = {instants_ahead(fleet.scenario.drones[index].controller) for index in group.drones}
    if ahead == {len(group.pilot.look_ahead)} != {0}:  # what it was not to be recorded with is not recorded
        sizes["plan"] = (3 * len(group.pilot.look_ahead), "log")
    if group.fusing and len(group.fusing.variances):
        sizes["covariance"] = (len(group.fusing.variances), "log")
    if callable(group.key.controller):
        sizes["excess"] = (len(group.plant.command), "autopilot")
    sizes |= {own.sensor.name: (len(own.sensor.fields), "sensor") for own in group.measuring}
    eyes = {own.sensor.name: own.period_us for own in group.measuring if isinstance(own, Looking)}
    drones = [fleet.name_of(index) for index in group.drones]
    longest = fleet.longest_us + fleet.periods["log"]  # a block ends at a tick of the log
    return {
        name: Rows(
            tuple(f"/{drone}/{name}" for drone in drones), fields, longest // eyes.get(name, fleet.periods[axis]) + 2
        )
        for name, (fields, axis) in sizes.items()
    }


def _handed_on(group: Group) -> list[Block]:
    """What was recorded of a group, and what follows from it"""
    held = group.tables[HELD]
    told = {key: table.handed_on() for key, table in group.tables.items() if table.count and key not in UNTOLD}
    return [*told.values(), *([_outputs(group, told["state"], held)] if "state" in told else [])]


def _outputs(group: Group, state: Block, held: Rows) -> Block:
    """Supply and airspeed of all logged states, by the equations that flew them."""
    commands = len(group.plant.command)
    whole = min(len(state.times_us), held.count)  # Ctrl-C may come between the two
    rows, around = state.rows[:whole], held.rows[:whole]
    told = output_code(*group.vehicles).rows(rows, around[:, :commands], around[:, commands:])
    return Block(_output_topics(state.topics), state.times_us[:whole], told)


@lru_cache(maxsize=64)
def _output_topics(states: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(topic.removesuffix("state") + "outputs" for topic in states)
