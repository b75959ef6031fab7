"""Flights of one scenario on the CPU, as many at once in the lanes of one program as may be."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from samara.compiler.compiled_step import Precision
from samara.compiler.llvm.codegen import vector_width
from samara.core.number_tape import UnlikeLanesError
from samara.core.types import Array
from samara.scenario.events import When
from samara.scenario.scenario import Scenario
from samara.scenario.timeline import MICROSECONDS
from samara.sim.cases import Cases, cases_of
from samara.sim.metrics_log import MetricsLog
from samara.sim.simulation import Simulation
from samara.sim.vary import has_winds, varied_drone, varied_wind
from samara.sim.ways import Way

ROW = 34 * 64  # bytes of a number of all flights at once: lines of the cache, so many that rows do not share its sets


class FlyingInLanes:
    """The flights of a scenario, as many at once as may be."""

    def __init__(
        self, scenario: Scenario, seeds: Array, varied: Mapping[str, Array], precision: Precision, every_us: int
    ) -> None:
        self.scenario, self.seeds, self.varied = scenario, seeds, varied
        self.precision, self.every_us = precision, every_us
        alone = bool(varied) and scenario.integrator != "rk4"  # steps of their own choice are taken drone by drone
        self.chunk, self.width = 1 if alone else _at_once(scenario, precision), vector_width(precision.dtype)

    def all(self, progress: Callable[[int, int], None]) -> list[tuple[Any, ...]]:
        """Final states, landed and crashed, measures and kept states, in the order of the flights"""
        n = len(self.seeds)
        told, order = [], []
        for lanes, fly in self._parts():
            for first in range(0, len(lanes), self.chunk):
                own = lanes[first : first + self.chunk]
                fill = -len(own) % self.width if self.chunk > 1 else 0  # whole tiles: the last once more, and not told
                whole = fly(np.concatenate([own, np.repeat(own[-1:], fill)]))
                told.append(tuple(each[..., : len(own)] for each in whole))
                order += own.tolist()
                progress(len(order), n)
        places = np.argsort(order)
        together = (np.concatenate(own, axis=-1)[..., places] for own in zip(*told, strict=True))
        return [tuple(together)]

    def _parts(self) -> list[tuple[Array, Callable[[Array], tuple[Any, ...]]]]:
        """Flights that fly together, and what flies them"""
        everyone = np.arange(len(self.seeds))
        if not self.varied or self.chunk == 1:
            return [(everyone, self._each)]
        cases = cases_of(self.scenario, self.varied)
        with cases.lock:
            found, left = cases.found(self.varied)
        parts = [(lanes, partial(self._together, cases, way)) for way, lanes in found]
        return [*parts, (left, self._each)] if len(left) else list(parts)

    def _together(self, cases: Cases, way: Way, lanes: Array) -> tuple[Any, ...]:
        """Flights that one trace is for"""
        try:
            with cases.lock:
                scenario, states = cases.fed(way, self.varied, lanes)
                told = self._flown(scenario, lanes, states=states)
                way.tape.columns([])  # all took this way to the end
                return told
        except UnlikeLanesError:  # on the way, as where a motor fails
            return self._each(lanes)

    def _each(self, lanes: Array) -> tuple[Any, ...]:
        """Flights that are each traced by themselves, where they differ"""
        own, varied = self.scenario, self.varied
        drones = (
            tuple(varied_drone(own.drones[0], varied, lane) for lane in lanes) if varied else own.drones * len(lanes)
        )
        winds = tuple(varied_wind(own.wind, varied, lane) for lane in lanes) if has_winds(varied) else ()
        return self._flown(replace(own, drones=drones), lanes, winds=winds)

    def _flown(self, scenario: Scenario, lanes: Array, **more: Any) -> tuple[Any, ...]:
        seeds = self.seeds[lanes].tolist()
        return _flown(scenario, self.precision, self.every_us, seeds=seeds, lifts=True, **more)


def fly_one_by_one(
    scenario: Scenario, seeds: Array, precision: Precision, every_us: int, progress: Callable[[int, int], None]
) -> list[tuple[Any, ...]]:
    """Fly the flights of a scenario of several drones one after another; results (..., drones, 1) of each"""
    parts = []
    for seed in seeds.tolist():
        result = _flown(replace(scenario, seed=seed), precision, every_us)
        parts.append(tuple(array[..., None] for array in result))
        progress(len(parts), len(seeds))
    return parts


def _flown(scenario: Scenario, precision: Precision, every_us: int, **more: Any) -> tuple[Any, ...]:
    """Final states, landed and crashed, measures and recorded states, with a column for each drone"""
    measures, n = MetricsLog(every_us), len(scenario.drones)
    simulation = Simulation(scenario, log=measures, precision=precision, **more)
    fleet = simulation.fleet
    simulation.run()
    size = max(len(group.plant.fields) for group in fleet.groups)
    final = np.full((size, n), np.nan)
    for group in fleet.groups:
        final[: len(group.plant.fields), group.indices] = group.plant.state
    states = np.full((scenario_ticks(scenario, every_us), size, n), np.nan)
    for drones, times_us, rows in measures.states:
        states[np.ix_(times_us // every_us, np.arange(rows.shape[1]), drones)] = rows
    return final, fleet.landed.copy(), fleet.crashed.copy(), np.array(measures.metrics(fleet)), states


def scenario_ticks(scenario: Scenario, every_us: int) -> int:
    """How often states are kept in a flight"""
    return round(scenario.duration * MICROSECONDS) // every_us + 1 if every_us else 0


def _at_once(scenario: Scenario, precision: Precision) -> int:
    """How many flights: one where they must not see each other, for conditions that are theirs alone and solids to hit"""
    own = any(isinstance(event.trigger, When) for event in scenario.events)
    own = own or any(drone.battery_failsafe or drone.autopilot for drone in scenario.drones)
    return 1 if own or scenario.world.solids or scenario.world.collisions else ROW // np.dtype(precision.dtype).itemsize
