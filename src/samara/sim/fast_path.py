"""Whether a flight is one program, or what makes Python run in between: the stages themselves are asked.

python_work(load_scenario("stack"))    # (Work("downwash of all on all", 50.0),)
fast_path(load_scenario("stack"))      # "calls of 20 ms: downwash of all on all (50 Hz)"
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from samara.scenario.scenario import Scenario
from samara.scenario.timeline import MICROSECONDS, STAGES
from samara.sim.simulation import Simulation
from samara.sim.stage import Arrange

LOOKED_AT = MICROSECONDS  # the first second of a flight


class Work(NamedTuple):
    """What Python does again and again in a flight, and how often  [Hz]."""

    what: str
    rate: float


def python_work(scenario: Scenario, stages: Arrange = lambda standard: standard) -> tuple[Work, ...]:
    """What Python does at every tick of an axis; none: the flight is one program

    What happens once, such as an event at its time, only ends a call. Links to autopilots are not opened.
    """
    simulation = Simulation(replace(scenario, drones=tuple(map(_unlinked, scenario.drones))), stages=stages)
    try:
        visits = simulation.visits(LOOKED_AT)
    finally:
        simulation.close()
    calendar, found = simulation.calendar, []
    for stage, (span, rows) in visits.items():
        bits = [calendar.instant, *(calendar.axis(name) for name in STAGES)]
        ticks = [int(due.sum()) for due in map(span.at, bits) if due.any() and rows[due].all()]
        if ticks:
            seconds = int(span.times_us[-1]) / MICROSECONDS
            found.append(Work(stage.in_python or f"stage {stage.name!r}", max(ticks) / seconds))
    return tuple(found)


def fast_path(scenario: Scenario, stages: Arrange = lambda standard: standard) -> str:
    """One line: that a flight is one program, or how long its calls are, and what ends them"""
    work = python_work(scenario, stages)
    if not work:
        return "one program"
    longest = 1e3 / max(own.rate for own in work)
    return f"calls of {longest:.3g} ms: " + ", ".join(f"{own.what} ({own.rate:.4g} Hz)" for own in work)


def _unlinked(drone: Any) -> Any:
    """A drone with a function of Python's in the place of an autopilot at the end of a link"""
    return drone if drone.autopilot is None else replace(drone, autopilot=None, controller=_anything)


def _anything(state: Any, reference: Any, vehicle: Any, memory: Any) -> Any:
    return tuple(np.zeros(vehicle.command_size))
