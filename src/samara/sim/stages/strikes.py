"""The plants from one instant to the next, and what drones strike on the way: solids and each other."""

import numpy as np

from samara.backends.llvm_schedule import Operation
from samara.scenario.events import disarm, fail_motor
from samara.scenario.facts import Fact, PartKind
from samara.scenario.landing import CRASH_SPEED
from samara.scenario.scenario import Scenario
from samara.scenario.timeline import MICROSECONDS
from samara.sim.calendar import Span
from samara.sim.collide.collisions import Colliding, Strike
from samara.sim.fleet import Fleet
from samara.sim.fleet_bus import bus_of
from samara.sim.group import Group
from samara.sim.stage import BETWEEN_INSTANTS, Stage
from samara.sim.stages.status import StatusStage

QUIET_US = MICROSECONDS // 2  # a part that touches the same thing again sooner is not reported again


class StrikesStage(Stage):
    """Moves the plants; a hard touch, and that of a propeller, is a crash, and may break the propeller."""

    axis = BETWEEN_INSTANTS

    def __init__(self, scenario: Scenario, status: StatusStage) -> None:
        self._status = status
        self._is_crowded = bool(scenario.world.solids or scenario.world.collisions)
        self.in_python = "collisions" if self._is_crowded else "physics of another integrator or backend"
        self._colliding: Colliding | None = None
        self._struck_us: dict[tuple[int, ...], int] = {}
        self._moved_us = 0

    def operations(self, fleet: Fleet, group: Group) -> list[Operation] | None:
        """The physics steps that lead to an instant"""
        return None if self._is_crowded else group.plant.operations(fleet.calendar.moving)

    def prepare(self, fleet: Fleet, until_us: int) -> None:
        """The plants stand where the fleet does"""
        self._moved_us = fleet.time_us

    def visits(self, fleet: Fleet, span: Span, *, python: bool) -> np.ndarray:
        """Wherever a step leads to"""
        return span.at(fleet.calendar.instant if python else 0) & (span.times_us > self._moved_us)

    def regrouped(self, fleet: Fleet) -> None:
        """The solids and the plants that are new"""
        if self._is_crowded:
            drones = [group.drones for group in fleet.groups]
            self._colliding = Colliding(fleet.scenario.world, [group.plant for group in fleet.groups], drones)

    def update(self, fleet: Fleet) -> None:
        """The plants to this instant, and what was struck on the way"""
        before, self._moved_us = self._moved_us, fleet.time_us
        strikes: list[Strike] = []
        if self._colliding is not None:
            strikes = self._colliding.advance(before, fleet.time_us)
        else:
            for group in fleet.groups:
                group.plant.advance(before, fleet.time_us)
        if strikes:
            self._apply_strikes(fleet, strikes)
            self._status.update(fleet)

    def _apply_strikes(self, fleet: Fleet, strikes: list[Strike]) -> None:
        world, after = fleet.scenario.world, fleet.setting
        for strike in strikes:
            index, part = strike.drone, strike.part
            touch = (index, part.kind, part.number, strike.solid, strike.other)
            before, self._struck_us[touch] = self._struck_us.get(touch, -QUIET_US), fleet.time_us
            if fleet.time_us - before < QUIET_US:
                continue
            for drone, own in strike.touches.items():
                struck = fleet.note(drone, Fact.STRUCK, **own._asdict())
                if drone == index:
                    fleet.warn(struck)
            propeller = part.kind is PartKind.PROPELLER
            for hurt, own in strike.touches.items() if propeller or strike.speed > CRASH_SPEED else ():
                if not fleet.crashed[hurt]:
                    fleet.warn(fleet.note(hurt, Fact.CRASHED, **own._asdict()))
                    fleet.wreck(hurt)
            if propeller and world.propeller_strike == "break":
                left = sum(power > 0.0 for power in after.drones[index].faults.motor_power)
                name = fleet.name_of(index)
                broken = fail_motor(part.number, name) if left > 1 else disarm(name)
                after = broken(after, bus_of(fleet))  # with its last propeller gone nobody steers it
        if after is not fleet.setting:
            fleet.apply(after)
