"""A stage of a flight: a part of the world that is brought up to date at its instants, the plants moving between them.

    class ThermalStage(Stage):
        axis = "wind"

        def update(self, fleet):
            for group in fleet.groups:
                group.around.wind_W[2] = np.exp(-(group.motion.p_W[:2] ** 2).sum(axis=0))
            fleet.around_changed = True

    samara.fly("hover", stages=lambda standard: insert(standard, ThermalStage(), after="wind"))

What a stage remembers between instants is its own. It sees the drones through the fleet's groups, under their names.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from samara.scenario.setting import Setting

if TYPE_CHECKING:
    from samara.sim.fleet import Fleet

EVERY_INSTANT, BETWEEN_INSTANTS = "", "physics"


class Stage:
    """One stage: `axis` is the rate it is due at (scenario, wind, sensor, estimator, autopilot or log), "" at every instant."""

    axis = EVERY_INSTANT

    @property
    def name(self) -> str:
        """What it is called in the line of stages: its class without `Stage`, in small letters"""
        return type(self).__name__.removesuffix("Stage").lower()

    def update(self, fleet: "Fleet") -> None:
        """Brings its part up to date, at the instant the fleet stands at"""
        raise NotImplementedError

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
