"""The log: what is recorded of every drone, kept in tables and handed on by the block."""

import math

import numpy as np

from samara.control.named import instants_ahead
from samara.physics.reference import REFERENCE_FIELDS
from samara.physics.types import BODY
from samara.record.block import Block, Sink
from samara.record.format import LogLine
from samara.record.outputs import output_code
from samara.record.streams import STATUS_FIELDS, Rows, event_blocks, load_fields
from samara.scenario.facts import Fact, status_change
from samara.sim.fleet import Fleet
from samara.sim.group import Group
from samara.sim.references import asked_now
from samara.sim.stage import Stage
from samara.sim.stages.autopilot import require_valid

HELD = "held"  # commands and surroundings at every logged state: not recorded, but what the outputs are computed from


class StatusStage(Stage):
    """A row whenever somebody lands, takes off or crashes; and that it landed or took off as a fact."""

    axis = "scenario"

    def __init__(self, fleet: Fleet) -> None:
        self._told = np.full((len(STATUS_FIELDS), len(fleet.scenario.drones)), np.nan)

    def update(self, fleet: Fleet) -> None:
        now = np.array([fleet.landed, fleet.crashed], dtype=float)
        if not np.array_equal(now, self._told):
            before, self._told = self._told, now
            for index in np.flatnonzero((before != now).any(axis=0) & np.isfinite(before[0])).tolist():
                fact = status_change(before[:, index].tolist(), now[:, index].tolist())
                if fact and fact is not Fact.CRASHED:  # noted when it was, with what it touched
                    fleet.note(index, fact)
            for group in fleet.groups:
                group.tables["status"].add(fleet.time_us, now[:, group.indices])


class SurroundingsStage(Stage):
    """A row of every drone's environment and load whenever one of them has changed: a replay flies under them."""

    def update(self, fleet: Fleet) -> None:
        if not fleet.around_changed:
            return
        for group in fleet.groups:
            loads = [fleet.setting.drones[index] for index in group.drones]
            has = len(load_fields(group.key.vehicle))
            rows = [[own.payload.mass, *own.payload.r_B, own.faults.cells_left, own.cable_holds][:has] for own in loads]
            group.tables["environment"].add(fleet.time_us, group.plant.environment, np.array(rows).T)
        fleet.around_changed = False


class LogStage(Stage):
    """States, references and estimates at the rate of the log; every block all tables go to the sink."""

    axis = "log"

    def __init__(self, sink: Sink | None) -> None:
        self._sink, self._flushed_us = sink, 0
        self._waiting: list[tuple[list[Block], list[LogLine]]] = []  # for the sink to have taken them

    def regrouped(self, fleet: Fleet) -> None:
        """Empty tables for the groups that are new"""
        for group in fleet.groups:
            group.tables = _empty_tables(fleet, group)

    def update(self, fleet: Fleet) -> None:
        now = fleet.time_us
        for group in fleet.groups:
            state, tables = group.plant.state, group.tables
            if not math.isfinite(state.sum()):
                _lost(fleet, group)
            require_valid(fleet, group)
            tables["state"].add(now, state)
            tables[HELD].add(now, group.plant.command, group.plant.environment)
            tables["reference"].add(now, asked_now(fleet, group, "log"))
            if group.estimate is not state:
                tables["estimate"].add(now, group.estimate[:BODY])
            if "covariance" in tables and group.fusing:
                tables["covariance"].add(now, group.fusing.variances)
            if "plan" in tables:
                tables["plan"].add(now, group.pilot.prediction.reshape(len(group.drones), -1).T)
        if now - self._flushed_us >= fleet.block_us:
            self.flush(fleet)

    def flush(self, fleet: Fleet) -> None:
        """Hands on what was recorded since the last time"""
        if self._sink is not None:
            blocks = [block for group in fleet.groups for block in _handed_on(group)]
            self._waiting.append(([*blocks, *event_blocks(fleet.facts, fleet.scenario.drones)], fleet.logs))
        fleet.logs, fleet.facts = [], []
        for group in fleet.groups:
            for table in group.tables.values():
                table.count = 0
        self._flushed_us = fleet.time_us
        while self._sink is not None and self._waiting:
            self._sink(*self._waiting[0])
            del self._waiting[0]  # not before: Ctrl-C may have come in between


def _empty_tables(fleet: Fleet, group: Group) -> dict[str, Rows]:
    sizes = {
        "state": (len(group.plant.fields), "log"),
        "command": (len(group.plant.command), "autopilot"),
        "reference": (len(REFERENCE_FIELDS), "log"),
        "estimate": (BODY, "log"),
        "environment": (len(group.plant.environment) + len(load_fields(group.key.vehicle)), "wind"),
        "status": (len(STATUS_FIELDS), "scenario"),
        HELD: (len(group.plant.command) + len(group.plant.environment), "log"),
    }
    ahead = {instants_ahead(fleet.scenario.drones[index].controller) for index in group.drones}
    if ahead == {len(group.pilot.look_ahead)} != {0}:  # what it was not to be recorded with is not recorded
        sizes["plan"] = (3 * len(group.pilot.look_ahead), "log")
    if group.fusing and len(group.fusing.variances):
        sizes["covariance"] = (len(group.fusing.variances), "log")
    if callable(group.key.controller):
        sizes["excess"] = (len(group.plant.command), "autopilot")
    sizes |= {own.sensor.name: (len(own.sensor.fields), "sensor") for own in group.measuring}
    drones = [fleet.name_of(index) for index in group.drones]
    return {
        name: Rows(tuple(f"/{drone}/{name}" for drone in drones), fields, fleet.block_us // fleet.periods[axis] + 2)
        for name, (fields, axis) in sizes.items()
    }


def _handed_on(group: Group) -> list[Block]:
    """What was recorded of a group, and what follows from it"""
    held = group.tables[HELD]
    told = {key: table.handed_on() for key, table in group.tables.items() if table.count and table is not held}
    return [*told.values(), *([_outputs(group, told["state"], held)] if "state" in told else [])]


def _outputs(group: Group, state: Block, held: Rows) -> Block:
    """Supply and airspeed of all logged states, by the equations that flew them."""
    commands = len(group.plant.command)
    whole = min(len(state.times_us), held.count)  # Ctrl-C may come between the two
    rows, around = state.rows[:whole], held.rows[:whole]
    told = output_code(group.key.vehicle).rows(rows, around[:, :commands], around[:, commands:])
    topics = tuple(topic.removesuffix("state") + "outputs" for topic in state.topics)
    return Block(topics, state.times_us[:whole], told)


def _lost(fleet: Fleet, group: Group) -> None:
    row, lane = (int(i) for i in np.argwhere(~np.isfinite(group.plant.state))[0])
    sentence = (
        f"{fleet.name_of(group.drones[lane])}: {group.plant.fields[row]} is {group.plant.state[row, lane]} "
        f"at {fleet.time:.6f} s; expected a finite number"
    )
    fleet.note(group.drones[lane], Fact.STATE_NOT_FINITE)
    fleet.say("error", sentence)
    fleet.flush()
    raise FloatingPointError(sentence)
