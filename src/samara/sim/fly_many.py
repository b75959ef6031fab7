"""Many flights of one scenario at once: each with its own seed, start, goal and numbers, in the lanes of one program."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from samara.compiler.stepper import require_backend
from samara.core.tree import leaf_names, unflatten
from samara.core.types import Array
from samara.physics.multirotor import at_rest
from samara.physics.types import State
from samara.record.metrics import FlightMetrics
from samara.scenario.load import load_scenario
from samara.scenario.scenario import Scenario, ScenarioError
from samara.scenario.timeline import microseconds
from samara.sim.batch_result import Flights, flights_of
from samara.sim.varied import require_one_drone, vary_values

BACKENDS = ("llvm", "jax", "pallas")
DTYPES = ("float64", "float32")


def fly_many(
    scenario: str | Path | Scenario,
    n: int | None = None,
    *,
    seeds: Sequence[int] | Array | None = None,
    vary: Mapping[str, object] | None = None,
    settings: Mapping[str, object] | None = None,
    backend: str = "llvm",
    dtype: str | None = None,
    fast: bool | None = None,
    record: float | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
    **launch: Any,
) -> Flights:
    """n independent flights of a scenario; flight i has `seeds[i]`, by default the scenario's seed + i

    `vary` gives what else differs, by name, with a value for each flight: numbers of the vehicle by their path ("mass",
    "drag.linear", "rotors.k_thrust"), of the controller ("controller.position") and the wind ("wind.sigma_aloft"), where it
    starts ("start_W", "yaw", and "start_charge" of its batteries), and "goal_shift", how far [m] its task is moved. With
    `record` [s] the states are kept so often. Results of a scenario of D drones have the shape (D, n), those of one drone (n,);
    `vary` takes one drone.

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
    varied = {name: vary_values(name, value, len(numbers)) for name, value in (vary or {}).items()}
    if varied:
        require_one_drone(own)
    _require_equal_states(own)
    if backend != "llvm":
        from samara.sim.fly_many_jax import fly_batch_jax

        shift = varied.pop("goal_shift", None)
        given = {"dtype": dtype or "float32", "fast": fast is not False, "record": record, **launch}
        return fly_batch_jax(
            own, numbers, vary=varied, goal_shift=None if shift is None else shift.T, backend=backend, **given
        )
    every_us = microseconds(record, "record") if record else 0
    if every_us % own.rates.periods()["log"]:
        raise ScenarioError(f"record is {record} s; expected a multiple of the log's {1.0 / own.rates.log:g} s")
    from samara.compiler.compiled_step import Precision
    from samara.sim.fly_many_cpu import BatchFlights, fly_one_by_one

    precision = Precision(dtype or "float64", bool(fast) if fast is not None else dtype == "float32")
    batch = BatchFlights(own, numbers, varied, precision, every_us) if len(own.drones) == 1 else None
    parts = [batch.fly(progress)] if batch else fly_one_by_one(own, numbers, precision, every_us, progress)
    return _together(own, numbers, parts, (record or 0.0))


def _together(scenario: Scenario, seeds: Array, parts: list[tuple[Array, ...]], record: float) -> Flights:
    final, landed, crashed, numbers, states = (np.concatenate(own, axis=-1) for own in zip(*parts, strict=True))
    state: State = unflatten(at_rest(scenario.drones[0].vehicle), iter(final))
    flights = flights_of(scenario, seeds, state, landed, crashed, FlightMetrics(*numbers), states, record)
    lost = flights.lost.reshape(-1, len(seeds)).any(axis=0)
    if lost.any():
        first, count = int(np.flatnonzero(lost)[0]), int(lost.sum())
        warnings.warn(
            f"{count} of {len(flights)} flights ended in a state that is not finite, the first of them flight {first}",
            RuntimeWarning,
            stacklevel=3,
        )
    return flights


def _require_equal_states(scenario: Scenario) -> None:
    """Check that the states of all drones have the same components, so that they fit into one array"""
    first = scenario.drones[0]
    for drone in scenario.drones[1:]:
        if leaf_names(at_rest(drone.vehicle)) != leaf_names(at_rest(first.vehicle)):
            raise ScenarioError(
                f"{scenario.name}: the states of drones {first.name!r} and {drone.name!r} have different components: "
                "expected vehicles of one structure to fly many of"
            )


def _seeds(scenario: Scenario, n: int | None, seeds: Sequence[int] | Array | None) -> Array:
    if seeds is None:
        if n is None or isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise ValueError(f"n is {n!r}; expected how many flights, a whole number of at least 1, or their seeds")
        return scenario.seed + np.arange(n)
    own = np.asarray(seeds)
    if own.ndim != 1 or not len(own) or own.dtype.kind not in "iu" or (n is not None and n != len(own)):
        raise ValueError(f"seeds of shape {own.shape} and type {own.dtype}; expected {n or 'as many'} whole numbers")
    return own
