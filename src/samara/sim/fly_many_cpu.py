"""Flights of one scenario on the CPU, computed together in the SIMD lanes of one program as far as their structure permits."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from samara.compiler.batch_parameters import DifferentProgramsError
from samara.compiler.compiled_step import Precision
from samara.compiler.llvm.codegen import vector_width
from samara.core.batch_scalar import BatchScalar, BranchError, batch_columns
from samara.core.tree import flatten, unflatten
from samara.core.types import Array
from samara.scenario.events import ConditionTrigger
from samara.scenario.scenario import Drone, Scenario
from samara.scenario.timeline import MICROSECONDS
from samara.sim.initial_state import drone_initial_state
from samara.sim.log import MetricsLog
from samara.sim.setup import Variation, drone_setup, flight_setup, initial_setting
from samara.sim.simulation import Simulation
from samara.sim.stages.controller import build_controller
from samara.sim.varied import (
    POSITION_PARAMETERS,
    SCALAR_START_PARAMETERS,
    apply_values,
    apply_wind_values,
    has_wind_parameters,
    reference_flights,
    varied_drone,
    varied_wind,
)
from samara.wind.sources import WindSource

MAX_PLANNED_FLIGHTS = 4096  # set up together to find the branches they take
ROW_BYTES = (
    34 * 64
)  # bytes of one leaf of all flights: a count of cache lines that keeps rows out of each other's cache sets


class BatchFlights:
    """The flights of a scenario of one drone, flown in batches of as many as possible."""

    def __init__(
        self, scenario: Scenario, seeds: Array, varied: Mapping[str, Array], precision: Precision, every_us: int
    ) -> None:
        self.scenario, self.seeds, self.varied = scenario, seeds, varied
        self.precision, self.every_us = precision, every_us
        self.references = reference_flights(scenario, varied) if varied else ()
        is_single = bool(varied) and scenario.integrator != "rk4"  # adaptive steps are taken drone by drone
        self.chunk, self.width = 1 if is_single else _batch_size(scenario, precision), vector_width(precision.dtype)

    def fly(self, progress: Callable[[int, int], None]) -> tuple[Array, ...]:
        """Return final states, landed, crashed, metrics and recorded states, with a column for each flight."""
        n, results, order = len(self.seeds), [], list[int]()
        for flights in self._classes(np.arange(n)):
            for first in range(0, len(flights), self.chunk):
                batch = flights[first : first + self.chunk]
                results.append(self._fly_batch(batch))
                order += batch.tolist()
                progress(len(order), n)
        positions = np.argsort(order)
        return tuple(np.concatenate(columns, axis=-1)[..., positions] for columns in zip(*results, strict=True))

    def _classes(self, flights: Array) -> list[Array]:
        """Partition flights by the branches that Python takes to set them up."""
        if not self.varied or self.chunk == 1:
            return [flights]
        if len(flights) > MAX_PLANNED_FLIGHTS:
            blocks = [flights[k : k + MAX_PLANNED_FLIGHTS] for k in range(0, len(flights), MAX_PLANNED_FLIGHTS)]
            return [part for block in blocks for part in self._classes(block)]
        try:
            drone, wind = self._drone_and_wind(flights)
            scenario = replace(self.scenario, drones=(drone,), wind=wind)
            setting = initial_setting(scenario)
            flight = flight_setup(scenario, setting, scenario.rates.periods(), can_interrupt=False)
            build_controller(drone_setup(scenario, drone, setting.drones[0], flight))
            drone_initial_state(scenario, drone)
        except BranchError as branch:
            return [*self._classes(flights[branch.mask]), *self._classes(flights[~branch.mask])]
        except TypeError:  # some setup code accepts only floats
            pass
        return [flights]

    def _drone_and_wind(self, flights: Array) -> tuple[Drone, WindSource]:
        """Return the drone and the wind of a batch, with BatchScalars for the parameters that vary."""
        columns = {name: values[flights] for name, values in self.varied.items()}
        values = {
            name: BatchScalar(rows) if rows.ndim == 1 else [BatchScalar(row) for row in rows.T.copy()]
            for name, rows in columns.items()
        }
        return apply_values(self.scenario.drones[0], values), apply_wind_values(self.scenario.wind, values)

    def _fly_batch(self, flights: Array) -> tuple[Array, ...]:
        """Fly flights together if one program serves all of them, else in parts."""
        padding = -len(flights) % self.width if len(flights) > 1 else 0  # repeat the last flight up to a whole tile
        padded_flights = np.concatenate([flights, np.repeat(flights[-1:], padding)])
        try:
            results = (
                self._fly_shared_setup(padded_flights)
                if self.varied and len(padded_flights) > 1
                else self._fly_separate_setups(padded_flights)
            )
        except BranchError as branch:  # a branch during the flight, as after an event
            return self._fly_parts(flights, [branch.mask[: len(flights)], ~branch.mask[: len(flights)]])
        except DifferentProgramsError as difference:
            if len(flights) == 1:
                raise
            classes = [[k for k in columns if k < len(flights)] for columns in difference.classes]
            if len([columns for columns in classes if columns]) < 2:
                classes = [[k] for k in range(len(flights))]
            return self._fly_parts(flights, classes)
        except TypeError:  # some setup code accepts only floats
            if not (self.varied and len(padded_flights) > 1):
                raise
            results = self._fly_separate_setups(padded_flights)
        return tuple(columns[..., : len(flights)] for columns in results)

    def _fly_parts(self, flights: Array, parts: Sequence[Array | list[int]]) -> tuple[Array, ...]:
        indices = [np.arange(len(flights))[part] for part in parts if len(np.arange(len(flights))[part])]
        results = [self._fly_batch(flights[part]) for part in indices]
        positions = np.argsort(np.concatenate(indices))
        return tuple(np.concatenate(columns, axis=-1)[..., positions] for columns in zip(*results, strict=True))

    def _fly_shared_setup(self, flights: Array) -> tuple[Array, ...]:
        """Fly flights that are set up together."""
        drone, wind = self._drone_and_wind(flights)
        state = drone_initial_state(self.scenario, drone)
        columns = batch_columns(flatten(state), len(flights)).T.tolist()
        states = [unflatten(state, iter(column)) for column in columns]
        first = self.scenario.drones[0]
        base = replace(first, vehicle=drone.vehicle, controller=drone.controller)
        start_values = {
            name: self.varied[name][flights].tolist()
            for name in self.varied
            if name in (*POSITION_PARAMETERS, *SCALAR_START_PARAMETERS)
        }
        drones = tuple(
            apply_values(base, {name: values[k] for name, values in start_values.items()}) for k in range(len(flights))
        )
        scenario = replace(self.scenario, drones=drones, wind=wind)
        return self._fly(scenario, flights, variation=Variation((), self.references, is_batch=True), states=states)

    def _fly_separate_setups(self, flights: Array) -> tuple[Array, ...]:
        """Fly flights that are set up one by one."""
        scenario, varied, drones, variation = self.scenario, self.varied, self.scenario.drones * len(flights), None
        if varied:
            drones = tuple(varied_drone(scenario.drones[0], varied, flight) for flight in flights)
            winds = (
                tuple(varied_wind(scenario.wind, varied, flight) for flight in flights)
                if has_wind_parameters(varied)
                else ()
            )
            variation = Variation(winds, self.references)
        return self._fly(replace(scenario, drones=drones), flights, variation=variation)

    def _fly(self, scenario: Scenario, flights: Array, **options: Any) -> tuple[Array, ...]:
        return _fly(scenario, self.precision, self.every_us, seeds=self.seeds[flights].tolist(), **options)


def fly_one_by_one(
    scenario: Scenario, seeds: Array, precision: Precision, every_us: int, progress: Callable[[int, int], None]
) -> list[tuple[Array, ...]]:
    """Fly the flights of a scenario of several drones one after another; return the results of each, (..., drones, 1)."""
    parts = []
    for seed in seeds.tolist():
        result = _fly(replace(scenario, seed=seed), precision, every_us)
        parts.append(tuple(array[..., None] for array in result))
        progress(len(parts), len(seeds))
    return parts


def _fly(scenario: Scenario, precision: Precision, every_us: int, **options: Any) -> tuple[Array, ...]:
    """Return final states, landed, crashed, metrics and recorded states, with a column for each drone."""
    metrics_log, n = MetricsLog(every_us), len(scenario.drones)
    simulation = Simulation(scenario, log=metrics_log, precision=precision, **options)
    fleet = simulation.fleet
    simulation.run()
    size = max(len(group.plant.fields) for group in fleet.groups)
    final = np.full((size, n), np.nan)
    for group in fleet.groups:
        final[: len(group.plant.fields), group.indices] = group.plant.state
    states = np.full((recorded_state_count(scenario, every_us), size, n), np.nan)
    for drones, times_us, rows in metrics_log.states:
        states[np.ix_(times_us // every_us, np.arange(rows.shape[1]), drones)] = rows
    return final, fleet.landed.copy(), fleet.crashed.copy(), np.array(metrics_log.metrics(fleet)), states


def recorded_state_count(scenario: Scenario, every_us: int) -> int:
    """Return the count of recorded states of a flight."""
    return round(scenario.duration * MICROSECONDS) // every_us + 1 if every_us else 0


def _batch_size(scenario: Scenario, precision: Precision) -> int:
    """Return the flights per batch: 1 if events depend on a drone's state, or if there are solids to collide with."""
    is_single = any(isinstance(event.trigger, ConditionTrigger) for event in scenario.events)
    is_single = is_single or any(drone.battery_failsafe or drone.autopilot for drone in scenario.drones)
    return (
        1
        if is_single or scenario.world.obstacles or scenario.world.collisions
        else ROW_BYTES // np.dtype(precision.dtype).itemsize
    )
