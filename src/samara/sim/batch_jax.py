"""Many flights of one scenario on a GPU, or wherever JAX runs: the door that `samara.fly_many` opens for jax and pallas."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import jax.numpy as jnp
import numpy as np

from samara.backends.draws_jax import Words, first_draws, keys_of
from samara.backends.flight_jax import Run, Values, Wanted, compile_flight_jax
from samara.backends.flight_pallas import compile_flight_pallas
from samara.backends.flight_program import Program
from samara.backends.jax_scan import precision
from samara.backends.parameters import parameter
from samara.core.algebra import Vec3, quat_from_euler
from samara.core.tree import flatten, unflatten
from samara.estimate.fusion import Fusion
from samara.estimate.simple import TRUTH
from samara.physics.multirotor import at_rest
from samara.physics.types import State
from samara.scenario.expecting import Ended, outcomes
from samara.scenario.scenario import Drone, Scenario, ScenarioError
from samara.scenario.timeline import MICROSECONDS, microseconds
from samara.sim.batch_units import Status, flight_program
from samara.sim.flights import Flights
from samara.sim.measures import Measures
from samara.sim.start import initial_state, with_charge
from samara.sim.vary import NUMBERS, WIND, wind_number

RESULTS = ("state", "status", "measures")
BEGINS = ("start_W", *NUMBERS)  # what differs in the state at the start alone
PROGRAMS = 8  # compiled flights that are kept

Array = np.ndarray[Any, Any]


def fly_batch_jax(
    scenario: Scenario,
    seeds: Any,
    *,
    vary: Mapping[str, Any] | None = None,
    start: State | None = None,
    goal_shift: Any = None,
    backend: str = "jax",
    dtype: str = "float32",
    fast: bool = True,
    record: float | None = None,
    **launch: Any,
) -> Flights:
    """n flights of a scenario of one drone, one for each seed, in the lanes of one program on `backend` "jax" or "pallas"

    `vary` gives parameters of the vehicle by their path, such as {"mass": array of n}, and of the wind ("wind.sigma_aloft").
    An array for a parameter with components is (n, components), or (n,) if it holds for all of them. Further names are
    "start_W", "yaw" and "start_charge". `start`, a `State` of numbers or arrays of n, replaces the scenario's start;
    `goal_shift`, (3,) or (3, n) [m], is how far their task is moved. With `record` [s] the states are recorded so often.
    The controller gets each flight's own parameters; its gains and limits, and the height it stands at, are those of the
    scenario's vehicle.
    """
    numbers, varied = np.asarray(seeds), dict(vary or {})
    n, drone = len(numbers), scenario.drones[0]
    begins = {name: np.asarray(varied.pop(name), dtype=float) for name in BEGINS if name in varied}
    if begins:
        with precision(dtype):
            start = varied_start(scenario, begins, start)
    program, run, rows = compiled(
        scenario, tuple(varied), backend=backend, dtype=dtype, fast=fast, record=record, **launch
    )
    values, keys = given_to(scenario, program, numbers, varied, start, goal_shift, dtype=dtype)
    result = run(values, keys, rows)
    ended = {name: np.asarray(own) for name, own in result.final.items()}
    state: State = unflatten(at_rest(drone.vehicle), iter(ended["state"]))
    status, measures = Status(*ended["status"] > 0.5), Measures(*ended["measures"])
    kept = np.zeros((0, len(ended["state"]), n)) if result.records is None else np.asarray(result.records)
    end = Ended(drone.name, state.p_W, *status, measures.tilt_deg, measures.worst_error, measures.lowest)
    return Flights(
        numbers,
        state,
        *status,
        measures,
        tuple(outcomes(scenario.expect, [end])),
        np.arange(len(kept)) * (record or 0.0),
        kept,
    )


def compiled(
    scenario: Scenario,
    vary: tuple[str, ...] = (),
    *,
    backend: str,
    dtype: str,
    fast: bool,
    record: float | None = None,
    **launch: Any,
) -> tuple[Program, Run, dict[str, Array]]:
    """The program of a scenario, what runs it, and its tables, made once for each scenario"""
    return _compiled(_Same(scenario), vary, backend, dtype, fast, record, tuple(sorted(launch.items())))


class _Same:
    """A scenario as a key: it holds functions and arrays, and is the same only as itself."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.scenario is self.scenario

    def __hash__(self) -> int:
        return id(self.scenario)


@lru_cache(maxsize=PROGRAMS)
def _compiled(
    key: _Same, vary: tuple[str, ...], backend: str, dtype: str, fast: bool, record: float | None, launch: Any
) -> tuple[Program, Run, dict[str, Array]]:
    program, every = flight_program(key.scenario, vary), 0
    if record is not None:
        every, left = divmod(microseconds(record, "record"), program.tick_us)
        if left or every < 1:
            raise ValueError(f"record is {record:g} s; expected a multiple of {program.tick_us / MICROSECONDS:g} s")
    wanted = Wanted(RESULTS, "state" if every else "", every)
    make = compile_flight_pallas if backend == "pallas" else compile_flight_jax
    return program, make(program, wanted, dtype=dtype, fast=fast, **dict(launch)), tables(key.scenario, program)


def given_to(
    scenario: Scenario,
    program: Program,
    seeds: Array,
    varied: Mapping[str, Any] | None = None,
    start: State | None = None,
    goal_shift: Any = None,
    *,
    dtype: str,
) -> tuple[Values, dict[str, Words]]:
    """What the flights begin with, and the keys of all they draw"""
    with precision(dtype):
        values = start_values(scenario, program, seeds, dict(varied or {}), start, goal_shift, dtype)
    return values, {source: keys_of(seeds, source) for source in program.sources}


def tables(scenario: Scenario, program: Program) -> dict[str, Array]:
    """What the drone is asked at every tick of an axis, up to the end: (ticks, fields)"""
    task = scenario.drones[0].task
    found = {}
    for name, axis in program.tables.items():
        period = program.periods[axis]
        ticks = range(program.duration_us // period + 1)
        found[name] = np.array([flatten(task.placed(k * period / MICROSECONDS)) for k in ticks], dtype=float)
    return found


def start_values(
    scenario: Scenario,
    program: Program,
    seeds: Array,
    varied: Mapping[str, Any],
    start: State | None,
    goal_shift: Any,
    dtype: str,
) -> Values:
    """The leaves of all slots at the start: arrays of n, and numbers for what is the same in all flights and stays so"""
    n, drone = len(seeds), scenario.drones[0]
    begun = start or initial_state(drone, scenario.environment_at(drone.start_W.z))
    values: Values = {name: flatten(template) for name, template in program.slots.items() if name not in program.tables}
    values["state"] = flatten(begun)
    values["status"] = flatten(Status(landed=float(not drone.airborne)))
    if goal_shift is not None:
        values["goal"] = list(np.broadcast_to(np.asarray(goal_shift, dtype=float).reshape(3, -1), (3, n)))
    numbers = {name: wind_number(scenario.wind, name) for name in varied if name.startswith(WIND)}
    numbers |= {name: parameter(drone.vehicle, name) for name in varied if name not in numbers}
    for slot, winds in (("varied", False), ("varied wind", True)):
        chosen = {name: own for name, own in varied.items() if name.startswith(WIND) == winds}
        values[slot] = [leaf for path, given in chosen.items() for leaf in _varied(numbers[path], path, given, n)]
    values |= _remembered(drone, begun, seeds, dtype)
    written = set(program.written)
    return {
        name: [
            jnp.broadcast_to(jnp.asarray(leaf, dtype), (n,)) if name in written or np.ndim(leaf) else float(leaf)
            for leaf in own
        ]
        for name, own in values.items()
    }


def varied_start(scenario: Scenario, begins: Mapping[str, Array], start: State | None = None) -> State:
    """Where they begin: on level ground, or in the air, moved and turned from where the scenario has them"""
    drone = scenario.drones[0]
    begun = start or initial_state(drone, scenario.environment_at(drone.start_W.z))
    if drone.vehicle.has("slung_load"):
        raise ScenarioError(f"{scenario.name}: a load on a cable: expected none where starts differ on jax and pallas")
    if "start_W" in begins:
        begun = begun._replace(p_W=begun.p_W + Vec3(*begins["start_W"].T) - drone.start_W)
    if "yaw" in begins:
        begun = begun._replace(q_WB=quat_from_euler(0.0, 0.0, jnp.asarray(begins["yaw"]) - drone.yaw) * begun.q_WB)
    return with_charge(begun, drone.vehicle, begins["start_charge"]) if "start_charge" in begins else begun


def _varied(before: Any, path: str, given: Any, n: int) -> list[Any]:
    """The components of a parameter in each flight, as arrays of n, from a tuple of them or from rows (n, components)

    Rows of one number (n,) hold for all components.
    """
    count = len(flatten(before))
    rows = np.asarray(flatten(given), dtype=float).T if isinstance(given, tuple) else np.asarray(given, dtype=float)
    if rows.shape == (n,):
        return [rows] * count
    if rows.shape == (n, count):
        return list(rows.T)
    raise ValueError(f"vary[{path!r}] has the shape {rows.shape}; expected ({n},) or ({n}, {count})")


def _remembered(drone: Drone, state: State, seeds: Array, dtype: str) -> Values:
    """What sensors and estimators begin with: each flight its own"""
    found: Values = {}

    def drawn(source: str, count: int) -> list[Any]:
        return list(first_draws(keys_of(seeds, source), 0, count, dtype)) if count else []

    for sensor in drone.sensors:
        if sensor.initial is not None:
            normals = drawn(f"sensor {sensor.name} start", sensor.start_normals)
            found[f"{sensor.name} memory"] = flatten(sensor.initial(drone.vehicle, normals))
    if isinstance(drone.estimator, Fusion):
        memory = drone.estimator.initial(state, drawn("estimator start", drone.estimator.start_normals))
        found["filter"], found["estimate"] = flatten(memory), flatten(state)
    elif drone.estimator != TRUTH:
        found["estimator"], found["estimate"] = flatten(drone.estimator.initial(state)), flatten(state)
    return found
