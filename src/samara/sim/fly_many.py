"""Fly a batch of flights of one scenario, which differ in seed, start, goal and parameters."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from samara.compiler.stepper import require_backend
from samara.core.tree import leaf_names, unflatten
from samara.core.types import Array
from samara.physics.multirotor import state_at_rest
from samara.physics.types import State
from samara.record.metrics import FlightMetrics
from samara.scenario.changes import (
    Changes,
    ControllerChoice,
    SensorChoice,
    VehicleChoice,
    WindChoice,
    change_scenario,
)
from samara.scenario.scenario import Scenario, ScenarioError
from samara.scenario.timeline import microseconds
from samara.sim.batch_result import Flights, evaluate_flights
from samara.sim.varied import require_one_drone, vary_values

BACKENDS = ("llvm", "jax", "pallas")
DTYPES = ("float64", "float32")


def fly_many(
    scenario: str | Path | Scenario,
    n: int | None = None,
    *,
    vehicle: VehicleChoice | None = None,
    controller: ControllerChoice | None = None,
    wind: WindChoice | None = None,
    sensors: SensorChoice | None = None,
    seed: int | None = None,
    duration: float | None = None,
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
    """Fly n independent flights of a scenario.

    On the backend "llvm" in double precision (strict IEEE), flight i equals bit for bit the flight that `samara.fly` computes
    with the same seed and parameters, for every batch size and thread count. "float32" and `fast` are faster and agree to
    rounding; so do "jax" and "pallas", for GPUs, which use single precision by default.

    Args:
        scenario: name of a shipped scenario, path of a TOML file, or a `Scenario`.
        n: flights to fly; may be omitted with `seeds`.
        vehicle, controller, wind, sensors, seed, duration: changes of the scenario, as in `samara.fly`.
        seeds: seed of each flight; by default flight i has the scenario's seed + i.
        vary: one value per flight, by name: parameters of the vehicle by their path ("mass", "drag.linear",
            "rotors.k_thrust"), of the controller ("controller.position") and of the wind ("wind.sigma_aloft"), the start
            ("start_W", "yaw", "initial_charge") and the displacement of the task ("goal_shift") [m]. For one drone.
        settings: changes of other keys of a scenario given by name or path, such as {"drones.yaw_deg": 90.0}.
        backend: "llvm" (default), "jax" or "pallas".
        dtype: "float64" or "float32"; by default "float64" on llvm and "float32" on jax and pallas.
        fast: permit floating-point reordering; by default only in single precision, and on jax and pallas.
        record: period at which states are recorded [s]; None records none.
        progress: called as `progress(done, total)` with the counts of completed and of all flights (llvm).
        launch: further options of the backends jax and pallas.

    Returns:
        The flights; their arrays have the shape (n,), or (D, n) for a scenario of D drones.
    """
    require_backend(backend, BACKENDS)
    if dtype not in (None, *DTYPES):
        raise ValueError(f"dtype {dtype!r}: expected one of {', '.join(DTYPES)}")
    if launch and backend == "llvm":
        raise TypeError(f"fly_many got {', '.join(launch)}; expected no launch options for the backend llvm")
    changes = Changes(vehicle, controller, wind, sensors, seed, duration)
    flown_scenario = change_scenario(scenario, changes, settings)
    flight_seeds = _flight_seeds(flown_scenario, n, seeds)
    varied = {name: vary_values(name, value, len(flight_seeds)) for name, value in (vary or {}).items()}
    if varied:
        require_one_drone(flown_scenario)
    _require_equal_states(flown_scenario)
    if backend != "llvm":
        from samara.sim.fly_many_jax import fly_batch_jax

        shift = varied.pop("goal_shift", None)
        options = {"dtype": dtype or "float32", "fast": fast is not False, "record": record, **launch}
        return fly_batch_jax(
            flown_scenario,
            flight_seeds,
            vary=varied,
            goal_shift=None if shift is None else shift.T,
            backend=backend,
            **options,
        )
    record_period_us = microseconds(record, "record") if record else 0
    if record_period_us % flown_scenario.rates.periods()["log"]:
        raise ScenarioError(
            f"record is {record} s; expected a multiple of the log's {1.0 / flown_scenario.rates.log:g} s"
        )
    from samara.compiler.compiled_step import Precision
    from samara.sim.fly_many_cpu import BatchFlights, fly_one_by_one

    precision = Precision(dtype or "float64", bool(fast) if fast is not None else dtype == "float32")
    batch = (
        BatchFlights(flown_scenario, flight_seeds, varied, precision, record_period_us)
        if len(flown_scenario.drones) == 1
        else None
    )
    parts = (
        [batch.fly(progress)]
        if batch
        else fly_one_by_one(flown_scenario, flight_seeds, precision, record_period_us, progress)
    )
    return _combine_parts(flown_scenario, flight_seeds, parts, (record or 0.0))


def _combine_parts(scenario: Scenario, seeds: Array, parts: list[tuple[Array, ...]], record: float) -> Flights:
    final, landed, crashed, metrics, states = (np.concatenate(columns, axis=-1) for columns in zip(*parts, strict=True))
    state: State = unflatten(state_at_rest(scenario.drones[0].vehicle), iter(final))
    flights = evaluate_flights(scenario, seeds, state, landed, crashed, FlightMetrics(*metrics), states, record)
    lost = flights.lost.reshape(-1, len(seeds)).any(axis=0)
    if lost.any():
        first, count = int(np.flatnonzero(lost)[0]), int(lost.sum())
        warnings.warn(
            f"{count} of {len(flights)} flights ended in a state that is not finite; the first is flight {first}",
            RuntimeWarning,
            stacklevel=3,
        )
    return flights


def _require_equal_states(scenario: Scenario) -> None:
    """Check that the states of all drones have the same components, so that they fit into one array."""
    first = scenario.drones[0]
    for drone in scenario.drones[1:]:
        if leaf_names(state_at_rest(drone.vehicle)) != leaf_names(state_at_rest(first.vehicle)):
            raise ScenarioError(
                f"{scenario.name}: the states of drones {first.name!r} and {drone.name!r} have different components: "
                "expected vehicles of the same structure for fly_many"
            )


def _flight_seeds(scenario: Scenario, n: int | None, seeds: Sequence[int] | Array | None) -> Array:
    if seeds is None:
        if n is None or isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise ValueError(f"n is {n!r}; expected a whole number of flights of at least 1, or their seeds")
        return scenario.seed + np.arange(n)
    flight_seeds = np.asarray(seeds)
    if (
        flight_seeds.ndim != 1
        or not len(flight_seeds)
        or flight_seeds.dtype.kind not in "iu"
        or (n is not None and n != len(flight_seeds))
    ):
        raise ValueError(
            f"seeds of shape {flight_seeds.shape} and type {flight_seeds.dtype}; expected {n or 'as many'} whole numbers"
        )
    return flight_seeds
