"""A stage of a flight: a part of the world that is brought up to date at its instants, the plants moving between them.

    class ThermalStage(Stage):
        axis = "wind"

        def update(self, fleet):
            for group in fleet.groups:
                group.around.wind_W[2] = np.exp(-(group.motion.p_W[:2] ** 2).sum(axis=0))
            fleet.around_changed = True

    samara.fly("hover", stages=lambda standard: insert(standard, ThermalStage(), after="wind"))

What a stage remembers between instants is its own. It sees the drones through the fleet's groups, under their names.

A stage that is arithmetic gives its `operations` instead, compiled functions on the arrays of a group: then it is part of the
flight's program (`samara.sim.program`), and Python is not asked at its instants.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from samara.backends.llvm_schedule import Operation
from samara.scenario.setting import Setting
from samara.sim.calendar import Span

if TYPE_CHECKING:
    from samara.sim.fleet import Fleet
    from samara.sim.group import Group

EVERY_INSTANT, BETWEEN_INSTANTS = "", "physics"


class Stage:
    """One stage: `axis` is the rate it is due at (scenario, wind, sensor, estimator, autopilot or log), "" at every instant."""

    axis = EVERY_INSTANT
    in_python = ""  # what `update` does, for whoever asks why a flight is not one program; "": the stage's name says it
    looks_back = True  # at what the program has left in tables and arrays so far: it is gathered before `update`

    @property
    def name(self) -> str:
        """What it is called in the line of stages: its class without `Stage`, in small letters"""
        return type(self).__name__.removesuffix("Stage").lower()

    def update(self, fleet: "Fleet") -> None:
        """Brings its part up to date, at the instant the fleet stands at: for all groups that have no operations of it"""
        raise NotImplementedError

    def operations(self, fleet: "Fleet", group: "Group") -> Sequence[Operation] | None:
        """What it does to a group at its instants, as parts of a program; None: Python does it, in `update`

        Where one of them stops the program, `update` is called, and the program goes on with the next stage.
        """
        return None

    def visits(self, fleet: "Fleet", span: Span, *, python: bool) -> np.ndarray:
        """At which instants of a span `update` is to be called: True or False for each

        `python` tells whether a group has no operations of it: then it is called at all instants of its axis, else at none.
        """
        return span.at((fleet.calendar.axis(self.axis) if self.axis else fleet.calendar.instant) if python else 0)

    def prepare(self, fleet: "Fleet", until_us: int) -> None:
        """Before the program goes on from the instant the fleet stands at, to another: what it will need"""

    def collect(self, fleet: "Fleet", *, passed: bool) -> None:
        """After the program has come to the instant the fleet stands at: what it has left; has it passed this stage there?"""

    def react(self, fleet: "Fleet", before: Setting) -> None:
        """The setting is another one from this instant on: tasks, faults, wind, loads"""

    def regrouped(self, fleet: "Fleet") -> None:
        """The drones were put into groups, for the first time or anew: their arrays are others"""


Stages = tuple[Stage, ...]
Arrange = Callable[[Stages], Sequence[Stage]]
"""From the stages there are to those that are to be: one's own among them."""


def insert(stages: Sequence[Stage], own: Stage, *, after: str) -> Stages:
    """The stages with one's own after that of a name"""
    names = [stage.name for stage in stages]
    if after not in names:
        raise ValueError(f"no stage {after!r}: expected one of {', '.join(names)}")
    at = names.index(after) + 1
    return (*stages[:at], own, *stages[at:])
