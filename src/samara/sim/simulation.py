"""A flight: stages brought up to date at their instants, the plants moved between them.

At one instant, in this order: touchdown, events, ground, wind, wake, downwash, sensors, estimator, autopilot, and what is
recorded. Then the plants move to the next instant under what they left: command, wind and faults are held, and change on step
boundaries only.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from samara.record.block import Sink
from samara.record.format import LogLine
from samara.scenario.bus import Bus
from samara.scenario.events import Action, At, Event
from samara.scenario.scenario import Scenario
from samara.scenario.setting import Setting
from samara.scenario.timeline import MICROSECONDS, STAGES, Instant
from samara.sim.fleet import BLOCK_US, Fleet
from samara.sim.fleet_bus import bus_of
from samara.sim.group import Group
from samara.sim.stage import BETWEEN_INSTANTS, EVERY_INSTANT, Arrange, Stage, Stages
from samara.sim.stages.autopilot import AutopilotStage
from samara.sim.stages.downwash import DownwashStage
from samara.sim.stages.estimator import EstimatorStage
from samara.sim.stages.events import EventsStage
from samara.sim.stages.ground import GroundStage
from samara.sim.stages.log import LogStage, StatusStage, SurroundingsStage
from samara.sim.stages.sensors import SensorsStage
from samara.sim.stages.strikes import StrikesStage
from samara.sim.stages.touchdown import TouchdownStage
from samara.sim.stages.wake import WakeStage
from samara.sim.stages.wind import WindStage
from samara.sim.start import initial_state, timeline_of

BIT = {axis: 1 << place for place, axis in enumerate(STAGES)} | {BETWEEN_INSTANTS: 0}


class Simulation:
    """A scenario being flown. `run()` flies it to the end; `advance()` to the next instant."""

    def __init__(
        self,
        scenario: Scenario,
        sink: Sink | None = None,
        tell: Callable[[str], None] = lambda sentence: None,
        stages: Arrange = lambda standard: standard,
    ) -> None:
        """`sink` gets what is recorded; `tell` what autopilots have to say, at once: that one is waited for, or lost. `stages`
        makes of the stages there are those that are to be: see `samara.sim.stage`."""
        self.timeline = timeline_of(scenario)
        self._instants: Iterator[Instant] = self.timeline.instants()
        self.fleet = fleet = Fleet(scenario, tell)
        self._strikes, self._status, self._log = StrikesStage(scenario), StatusStage(fleet), LogStage(sink)
        self._surroundings = SurroundingsStage()
        fleet.flush = self.flush
        ground = GroundStage(scenario.world, scenario.environment.ground)
        try:
            fleet.stages = _require_line(tuple(stages(self._standard(ground))))
            below = ground.below if ground.varies else None
            fleet.form(
                {index: initial_state(own, scenario.environment, below) for index, own in enumerate(scenario.drones)}
            )
        except BaseException:
            self.close()
            raise
        self._due_at: dict[int, tuple[Callable[[Fleet], None], ...]] = {}  # by what is due: the stages of it

    def _standard(self, ground: GroundStage) -> Stages:
        scenario, fleet = self.fleet.scenario, self.fleet
        downwash = any(own.vehicle.has("downwash") for own in scenario.drones)
        return (
            self._strikes,
            TouchdownStage(scenario),
            self._status,
            EventsStage(scenario, fleet.periods["physics"]),
            *((ground,) if ground.varies else ()),
            WindStage(),
            WakeStage(fleet),
            *((DownwashStage(),) if downwash else ()),
            *((SensorsStage(),) if any(own.sensors for own in scenario.drones) else ()),
            EstimatorStage(),
            AutopilotStage(),
            self._surroundings,
            self._log,
        )

    def run(self, progress: Callable[[float, float], None] = lambda time, total: None) -> None:
        """To the end; `progress(time, total)` is called once a simulated second"""
        total, shown = self.timeline.end_us / MICROSECONDS, -1
        for instant in self._instants:
            if instant.time_us // BLOCK_US != shown:
                shown = instant.time_us // BLOCK_US
                progress(instant.time_us / MICROSECONDS, total)
            self._to(instant)
            if self.ended:
                break
        self._finish()
        progress(self.time_us / MICROSECONDS if self.ended else total, total)

    def advance(self) -> bool:
        """To the next instant and through its stages; False when there is none left"""
        instant = next(self._instants, None)
        if instant is None or self.ended:
            self._finish()
            return False
        self._to(instant)
        return True

    def _to(self, instant: Instant) -> None:
        fleet, (now, due) = self.fleet, instant
        if now > fleet.time_us and self._strikes.advance(fleet, now):
            self._status.update(fleet)
        fleet.on_scenario_axis = bool(due & BIT["scenario"])
        if due not in self._due_at:
            self._due_at[due] = tuple(
                stage.update for stage in fleet.stages if stage.axis == EVERY_INSTANT or due & BIT[stage.axis]
            )
        for update in self._due_at[due]:
            update(fleet)

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
        self.close()

    def flush(self) -> None:
        """Hands on what was recorded since the last time"""
        self._log.flush(self.fleet)

    def close(self) -> None:
        """Ends the links to autopilots, and those that were started here; the flight cannot go on"""
        self.fleet.links.close()

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


def _require_line(stages: Stages) -> Stages:
    for stage in stages:
        if not isinstance(stage, Stage):
            raise ValueError(f"{stage!r:.80} among the stages; expected only records of `samara.sim.stage.Stage`")
        if stage.axis != EVERY_INSTANT and stage.axis not in BIT:
            raise ValueError(f"stage {stage.name!r}: axis {stage.axis!r}; expected one of {', '.join(STAGES)}, or ''")
    if not any(isinstance(stage, LogStage) for stage in stages):
        raise ValueError("no stage 'log': expected it among the stages, all that is recorded goes through it")
    return stages
