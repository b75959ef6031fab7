"""Many flights of one scenario at once: each with its own seed, start, goal and numbers, in the lanes of one program."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from samara.backends.llvm_code import vector_width
from samara.backends.machine import Precision
from samara.backends.parameters import parameter
from samara.backends.stepper import require_backend
from samara.control.named import as_tuned
from samara.control.tuning import Tuned, tuned
from samara.core.algebra import Vec3
from samara.core.tree import unflatten
from samara.physics.multirotor import at_rest
from samara.physics.types import State
from samara.scenario.events import When
from samara.scenario.expecting import Ended, outcomes
from samara.scenario.scenario import Drone, Scenario, ScenarioError
from samara.scenario.scenario_file import load_scenario
from samara.scenario.timeline import MICROSECONDS, microseconds
from samara.sim.flights import Flights
from samara.sim.measures import Measures
from samara.sim.simulation import Simulation
from samara.sim.stages.measures import MeasuresStage

BACKENDS = ("llvm", "jax", "pallas")
DTYPES = ("float64", "float32")
PLACES = ("start_W", "goal_shift")
ROW = 34 * 64  # bytes of a number of all flights at once: lines of the cache, so many that rows do not share its sets
Array = np.ndarray[Any, Any]


def fly_many(
    scenario: str | Path | Scenario,
    n: int | None = None,
    *,
    seeds: Sequence[int] | Array | None = None,
    vary: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    backend: str = "llvm",
    dtype: str | None = None,
    fast: bool | None = None,
    record: float | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
    **launch: Any,
) -> Flights:
    """n independent flights of a scenario of one drone; flight i has `seeds[i]`, by default the scenario's seed + i

    `vary` gives what else differs, by name, with a value for each flight: numbers of the vehicle by their path ("mass",
    "drag.linear", "rotors.k_thrust"), of the controller ("controller.position") and the wind ("wind.sigma_aloft"), where it
    starts ("start_W", "yaw"), and "goal_shift", how far [m] its task is moved. With `record` [s] the states are kept so often.

    On `backend` "llvm" and in double precision, strict IEEE, flight i is what `samara.fly` flies with that seed and those
    numbers, bit for bit, however many fly beside it and on however many threads. "float32" and `fast` are quicker, and agree
    to rounding; so do "jax" and "pallas", for GPUs, which fly in single precision by default.
    """
    require_backend(backend, BACKENDS)
    if isinstance(scenario, Scenario) and settings:
        raise ValueError(
            "settings change a scenario that is a name or a file; this one is a record: use dataclasses.replace"
        )
    if dtype not in (None, *DTYPES):
        raise ValueError(f"dtype {dtype!r}: expected one of {', '.join(DTYPES)}")
    if launch and backend == "llvm":
        raise TypeError(f"fly_many got {', '.join(launch)}; expected only its own arguments on llvm")
    own = scenario if isinstance(scenario, Scenario) else load_scenario(scenario, settings or {})
    numbers = _seeds(own, n, seeds)
    varied = {name: _values(name, value, len(numbers)) for name, value in (vary or {}).items()}
    if len(own.drones) != 1:
        raise ScenarioError(f"{own.name}: {len(own.drones)} drones; expected a scenario of one drone to fly many of")
    if backend != "llvm":
        from samara.sim.batch_jax import fly_batch_jax

        shift = varied.pop("goal_shift", None)
        given = {"dtype": dtype or "float32", "fast": fast is not False, "record": record, **launch}
        return fly_batch_jax(
            own, numbers, vary=varied, goal_shift=None if shift is None else shift.T, backend=backend, **given
        )
    precision = Precision(dtype or "float64", bool(fast) if fast is not None else dtype == "float32")
    every_us = microseconds(record, "record") if record else 0
    if every_us % own.rates.periods()["log"]:
        raise ScenarioError(f"record is {record} s; expected a multiple of the log's {1.0 / own.rates.log:g} s")
    drones = [_varied(own.drones[0], varied, i) for i in range(len(numbers))] if varied else None
    chunk, parts, width = _at_once(own, precision), [], vector_width(precision.dtype)
    for first in range(0, len(numbers), chunk):
        last = min(first + chunk, len(numbers))
        fill = -(last - first) % width if chunk > 1 else 0  # whole tiles: the last flight once more, and not told
        lanes = [*range(first, last), *([last - 1] * fill)]
        flown = tuple(drones[lane] for lane in lanes) if drones else own.drones * len(lanes)
        winds = tuple(_wind(own.wind, varied, lane) for lane in lanes) if _has_winds(varied) else ()
        told = _flown(replace(own, drones=flown), numbers[lanes].tolist(), precision, every_us, winds)
        parts.append(tuple(own[..., : last - first] for own in told))
        progress(last, len(numbers))
    return _together(own, numbers, parts, (record or 0.0))


def _flown(
    scenario: Scenario, seeds: list[int], precision: Precision, every_us: int, winds: tuple[Any, ...] = ()
) -> tuple[Any, ...]:
    """Final states, landed and crashed, measures and kept states of some flights"""
    measures, n = MeasuresStage(every_us), len(seeds)
    simulation = Simulation(scenario, seeds=seeds, log=measures, lifts=True, precision=precision, winds=winds)
    fleet = simulation.fleet
    simulation.run()
    size = max(len(group.plant.fields) for group in fleet.groups)
    final = np.full((size, n), np.nan)
    for group in fleet.groups:
        final[: len(group.plant.fields), group.indices] = group.plant.state
    states = np.full((scenario_ticks(scenario, every_us), size, n), np.nan)
    for drones, times_us, rows in measures.states:
        states[np.ix_(times_us // every_us, np.arange(rows.shape[1]), drones)] = rows
    return final, fleet.landed.copy(), fleet.crashed.copy(), np.array(measures.measures()), states


def scenario_ticks(scenario: Scenario, every_us: int) -> int:
    """How often states are kept in a flight"""
    return round(scenario.duration * MICROSECONDS) // every_us + 1 if every_us else 0


def _together(scenario: Scenario, seeds: Array, parts: list[tuple[Any, ...]], record: float) -> Flights:
    final, landed, crashed, numbers, states = (np.concatenate(own, axis=-1) for own in zip(*parts, strict=True))
    drone, measures = scenario.drones[0], Measures(*numbers)
    state: State = unflatten(at_rest(drone.vehicle), iter(final))
    end = Ended(drone.name, state.p_W, landed, crashed, measures.tilt_deg, measures.worst_error, measures.lowest)
    told = tuple(outcomes(scenario.expect, [end]))
    flights = Flights(seeds, state, landed, crashed, measures, told, np.arange(len(states)) * record, states)
    if flights.lost.any():
        first, count = int(np.flatnonzero(flights.lost)[0]), int(flights.lost.sum())
        warnings.warn(
            f"{count} of {len(flights)} flights ended in a state that is not finite, the first of them flight {first}",
            RuntimeWarning,
            stacklevel=3,
        )
    return flights


def _at_once(scenario: Scenario, precision: Precision) -> int:
    """How many flights: one where they must not see each other, for conditions that are theirs alone and solids to hit"""
    own = any(isinstance(event.trigger, When) for event in scenario.events)
    own = own or any(drone.battery_failsafe or drone.autopilot for drone in scenario.drones)
    return 1 if own or scenario.world.solids or scenario.world.collisions else ROW // np.dtype(precision.dtype).itemsize


def _seeds(scenario: Scenario, n: int | None, seeds: Any) -> Array:
    if seeds is None:
        if n is None or isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise ValueError(f"n is {n!r}; expected how many flights, a whole number of at least 1, or their seeds")
        return scenario.seed + np.arange(n)
    own = np.asarray(seeds)
    if own.ndim != 1 or not len(own) or own.dtype.kind not in "iu" or (n is not None and n != len(own)):
        raise ValueError(f"seeds of shape {own.shape} and type {own.dtype}; expected {n or 'as many'} whole numbers")
    return own


def _values(name: str, value: Any, n: int) -> Array:
    own = np.asarray(value, dtype=float)
    if not own.ndim or len(own) != n or not np.isfinite(own).all():
        raise ValueError(
            f"vary: {name!r} has values of shape {own.shape}; expected finite numbers, one for each of {n} flights"
        )
    if name in PLACES and own.shape != (n, 3):
        raise ValueError(
            f"vary: {name!r} has values of shape {own.shape}; expected three numbers for each of {n} flights"
        )
    return own


def _has_winds(varied: Mapping[str, Array]) -> bool:
    return any(name.startswith("wind.") for name in varied)


def _wind(source: Any, varied: Mapping[str, Array], flight: int) -> Any:
    """The wind of one flight"""
    for name, values in varied.items():
        if name.startswith("wind."):
            source = _replaced(source, name.removeprefix("wind.").split("."), values[flight].tolist(), name)
    return source


def _replaced(source: Any, path: list[str], value: Any, name: str) -> Any:
    known = [own.name for own in fields(source)]
    if path[0] not in known:
        raise ValueError(f"vary: {name!r} is not a parameter of this wind; expected one of {', '.join(known)}")
    before = getattr(source, path[0])
    if len(path) > 1:
        return replace(source, **{path[0]: _replaced(before, path[1:], value, name)})
    return replace(source, **{path[0]: Vec3(*value) if isinstance(before, Vec3) else value})


def _varied(drone: Drone, varied: Mapping[str, Array], flight: int) -> Drone:
    """The drone of one flight"""
    for name, values in varied.items():
        value: Any = values[flight].tolist()
        if name == "start_W":
            drone = replace(drone, start_W=Vec3(*value))
        elif name == "goal_shift":
            drone = replace(drone, task=drone.task.moved(Vec3(*value)))
        elif name.startswith("wind."):
            continue
        elif name == "yaw":
            drone = replace(drone, yaw=value)
        elif name.startswith("controller."):
            controller = as_tuned(drone.controller)
            if not isinstance(controller, Tuned):
                raise ValueError(f"vary: {name!r} of a controller in Python; expected one that has a name")
            chosen = controller.chosen | {name.removeprefix("controller."): value}
            drone = replace(drone, controller=tuned(controller.name, **chosen))
        else:
            path = name.removeprefix("vehicle.")
            before = parameter(drone.vehicle, path)  # a sentence about a path that leads nowhere
            number = Vec3(*value) if isinstance(before, Vec3) else tuple(value) if isinstance(value, list) else value
            drone = replace(drone, vehicle=drone.vehicle.replace({path: number}))
    return drone
