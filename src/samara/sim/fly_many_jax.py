"""Batches of flights of one scenario on a GPU, or wherever JAX runs: `samara.fly_many` on the backends jax and pallas.

A flight is a sequence of segments, each a compiled program of the scenario's stages: from the start to the first event at a
fixed time, from there to the next, and so on. All flights pass through the segments together. Stages that run in Python cannot
be part of a segment; a scenario with such stages is rejected (`require_traceable`).
"""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from samara.compiler.jax.arrays import array, fill, precision, stack
from samara.compiler.jax.random import derive_keys, draw_initial_normals
from samara.core.algebra import ZERO, Vec3, quat_from_euler
from samara.core.quantity import Tree
from samara.core.tree import flatten, unflatten
from samara.core.types import Array
from samara.physics.multirotor import complete_environment, state_at_rest, zero_command
from samara.physics.types import State
from samara.record.metrics import FlightMetrics
from samara.scenario.actuators import ActuatorCommand
from samara.scenario.events import FlightSettings
from samara.scenario.scenario import Scenario, ScenarioError
from samara.scenario.snapshot import AutopilotCommand, Bus, DroneBus
from samara.scenario.timeline import MICROSECONDS, microseconds
from samara.sim.batch_result import Flights, evaluate_flights
from samara.sim.executors.jax import FlightProgram, RecordRequest, Run, Values, compile_flight_jax
from samara.sim.executors.pallas import compile_flight_pallas
from samara.sim.initial_state import drone_initial_state, set_charge, timed_events
from samara.sim.sequence import standard_sequence
from samara.sim.setup import DroneSetup, FlightSetup, drone_setup, flight_setup, initial_setting, setting_values
from samara.sim.stage import PHYSICS, RESTARTED_SLOTS, StageSequence, StageSet, build, slot_part
from samara.sim.stages.air import is_extension
from samara.sim.stages.controller import REFERENCES_AHEAD, named_controller
from samara.sim.stages.metrics import LOG_REFERENCE
from samara.sim.stages.physics import Status
from samara.sim.varied import SCALAR_START_PARAMETERS, WIND_PREFIX, require_one_drone, wind_parameter
from samara.vehicles.parameters import parameter
from samara.vehicles.payload import centre_shift, shift_centre_of_mass

RESULT_SLOTS = ("state", "status", "metrics")
START_PARAMETERS = ("start_W", *SCALAR_START_PARAMETERS)  # varied parameters that change only the initial state
TABLE_CLOCKS = {"reference": "control", REFERENCES_AHEAD: "control", LOG_REFERENCE: "log"}
MAX_CACHED_PROGRAMS = 8  # compiled flights to cache


class Segment(NamedTuple):
    """A flight from one event to the next: its program, setup, setting, stages and reference tables."""

    program: FlightProgram
    setup: DroneSetup
    setting: FlightSettings
    sets: Mapping[str, StageSet]
    tables: Mapping[str, Array]


def fly_batch_jax(
    scenario: Scenario,
    seeds: Any,
    *,
    vary: Mapping[str, Tree] | None = None,
    start: State | None = None,
    goal_shift: Any = None,
    backend: str = "jax",
    dtype: str = "float32",
    fast: bool = True,
    record: float | None = None,
    **launch: object,
) -> Flights:
    """Fly n flights of a scenario, one for each seed, on the backend "jax" or "pallas".

    Args:
        scenario: the scenario to fly.
        seeds: seed of each flight.
        vary: parameters of the vehicle by their path, such as {"mass": array of n}, and of the wind ("wind.sigma_aloft"). An
            array for a parameter with components is (n, components), or (n,) if it holds for all of them. Further names are
            "start_W", "yaw" and "initial_charge".
        start: a `State` of numbers or arrays of n that replaces the scenario's start.
        goal_shift: displacement of the task, (3,) or (3, n) [m].
        backend: "jax" or "pallas".
        dtype: "float32" or "float64".
        fast: permit floating-point reordering.
        record: period at which states are recorded [s].
        launch: further options of the backend.

    `vary`, `start` and `goal_shift` are for scenarios of one drone.

    The controller gets each flight's parameters; its gains and limits, and its standing height, are those of the scenario's
    vehicle.
    """
    flight_seeds, varied = np.asarray(seeds), dict(vary or {})
    n = len(flight_seeds)
    if varied or start is not None or goal_shift is not None:
        require_one_drone(scenario)
    start_parameters = {name: np.asarray(varied.pop(name), dtype=float) for name in START_PARAMETERS if name in varied}
    if start_parameters:
        with precision(dtype):
            start = varied_initial_state(scenario, start_parameters, start)
    flight = compile_segments(scenario, tuple(varied), backend=backend, dtype=dtype, fast=fast, record=record, **launch)
    if (
        goal_shift is not None
        and len(flight) > 1
        and len({id(segment.setting.drones[0].task) for segment, _ in flight}) > 1
    ):
        raise ScenarioError(
            f"{scenario.name}: an event changes the task, and goals are shifted: expected one of the two on jax and pallas"
        )
    values, records = start_values(scenario, flight[0][0], flight_seeds, varied, start, goal_shift, dtype), []
    for k, (segment, run) in enumerate(flight):
        if k:
            values = next_values(scenario, flight[k - 1][0], segment, values, n, dtype)
        keys = {source: derive_keys(flight_seeds, source) for source in segment.program.sources}
        result = run(values, keys, segment.tables)
        records += [] if result.records is None else [result.records if k == len(flight) - 1 else result.records[:-1]]
        written = dict(zip(segment.program.written, result.final, strict=True))
        values = {
            name: [written.get((name, i), leaf) for i, leaf in enumerate(leaves)] for name, leaves in values.items()
        }
    program = flight[-1][0].program
    shape = program.shape(n)
    final_leaves = {name: [np.broadcast_to(np.asarray(leaf), shape) for leaf in values[name]] for name in RESULT_SLOTS}
    state: State = unflatten(program.templates["state"], iter(final_leaves["state"]))
    status, metrics = Status(*np.array(final_leaves["status"]) > 0.5), FlightMetrics(*final_leaves["metrics"])
    size = len(final_leaves["state"])
    states = np.concatenate([np.asarray(block) for block in records]) if records else np.zeros((0, size, *shape))
    return evaluate_flights(scenario, flight_seeds, state, *status, metrics, states, record or 0.0)


def require_traceable(scenario: Scenario, vary: Sequence[str] = ()) -> None:
    """Check that jax and pallas can fly a scenario.

    Raises:
        ScenarioError: its drones differ in more than start and task, or parameters vary and there are several; it has events
            with conditions, or a stage that only Python can run.
    """
    _segments(scenario, tuple(vary), 1)


# Programs --------------------------------------------------------------------------------------------------------------


def compile_segments(
    scenario: Scenario,
    vary: tuple[str, ...] = (),
    *,
    backend: str,
    dtype: str,
    fast: bool,
    record: float | None = None,
    **launch: object,
) -> list[tuple[Segment, Run]]:
    """Compile the segments of a scenario's flight, once per scenario and options."""
    return _compile_segments(_IdentityKey(scenario), vary, backend, dtype, fast, record, tuple(sorted(launch.items())))


class _IdentityKey:
    """A cache key for a scenario by identity, because its functions and arrays cannot be compared."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _IdentityKey) and other.scenario is self.scenario

    def __hash__(self) -> int:
        return id(self.scenario)


@lru_cache(maxsize=MAX_CACHED_PROGRAMS)
def _compile_segments(
    key: _IdentityKey, vary: tuple[str, ...], backend: str, dtype: str, fast: bool, record: float | None, launch: Any
) -> list[tuple[Segment, Run]]:
    record_period_us = 0 if record is None else microseconds(record, "record")
    compile_flight, flight = compile_flight_pallas if backend == "pallas" else compile_flight_jax, []
    for segment in _segments(key.scenario, vary, record_period_us or 1):
        reasons = [stage_set.xla_only_reason for stage_set in segment.sets.values() if stage_set.xla_only_reason]
        if segment.program.drones > 1:
            reasons.append(f"{segment.program.drones} drones, whose arrays a kernel would have to hold in one block")
        if reasons and backend == "pallas":
            raise ScenarioError(f"{key.scenario.name}: {reasons[0]}: expected the backend jax for it")
        tick_us = segment.program.tick_us
        if record_period_us % tick_us or (record is not None and record_period_us < 1):
            raise ValueError(f"record is {record} s; expected a multiple of {tick_us / MICROSECONDS:g} s")
        record_request = RecordRequest("state" if record_period_us else "", record_period_us // tick_us)
        flight.append(
            (segment, compile_flight(segment.program, record_request, dtype=dtype, fast=fast, **dict(launch)))
        )
    return flight


def _segments(scenario: Scenario, vary: tuple[str, ...], record_period_us: int) -> list[Segment]:
    if vary:
        require_one_drone(scenario)
    for drone in scenario.drones:
        if drone.autopilot is not None:
            raise _unsupported_error(
                scenario, f"an autopilot controls {drone.name!r}", "controllers that can be traced"
            )
    periods = scenario.rates.periods()
    entries = standard_sequence(scenario, periods["physics"], with_metrics=True)
    events, setting, end_us = timed_events(scenario, periods["physics"]), initial_setting(scenario), _end_us(scenario)
    times = sorted({time_us for time_us, _ in events if 0 < time_us < end_us})
    if record_period_us > 1 and any(time_us % record_period_us for time_us in times):
        raise _unsupported_error(
            scenario, f"an event between two records of {record_period_us / MICROSECONDS:g} s", "it at one of them"
        )
    previous_setting, segments = setting, []
    for start_us, stop_us in zip([0, *times], [*times, end_us], strict=True):
        while events and events[-1][0] <= start_us:
            setting = _apply_event(scenario, setting, events.pop()[1], start_us, periods)
        new_wind = ""
        if start_us and setting.wind is not previous_setting.wind:
            new_wind = "extends" if is_extension(setting.wind, previous_setting.wind) else "replaces"
        segments.append(
            _segment(scenario, setting, entries, periods, (start_us, stop_us, end_us), times, vary, new_wind)
        )
        previous_setting = setting
    return segments


def _segment(
    scenario: Scenario,
    setting: FlightSettings,
    entries: StageSequence,
    periods: dict[str, int],
    span_us: tuple[int, int, int],
    event_times_us: Sequence[int],
    vary: tuple[str, ...],
    new_wind: str,
) -> Segment:
    setup = _common_setup(scenario, setting, flight_setup(scenario, setting, periods))
    sets = {entry.name: build(entry, setup) for entry in entries}
    for name, stage_set in list(sets.items()):
        if any(stage.interrupts for stage in stage_set.stages) or (name == "events" and stage_set.python_reason):
            raise _unsupported_error(
                scenario, "conditions of events, which each flight meets at its own time", "fixed times"
            )
        if stage_set.python_reason and stage_set.array_stages is not None:
            stage_set = sets[name] = stage_set.array_stages()
        if stage_set.python_reason:
            raise _unsupported_error(
                scenario, f"the stage {name!r} runs in Python: {stage_set.python_reason}", "stages that can be traced"
            )
    drone = scenario.drones[0]
    winds = tuple(name for name in vary if name.startswith(WIND_PREFIX))
    templates: dict[str, Tree] = {
        "state": state_at_rest(setup.vehicle),
        "environment": complete_environment(setup.vehicle, scenario.environment)._replace(wind_W=ZERO),
        "command": zero_command(setup.vehicle),
        "goal": ZERO,
        "drone": 0.0,
        "varied": tuple(parameter(drone.vehicle, name) for name in vary if name not in winds),
        "varied wind": tuple(wind_parameter(scenario.wind, name) for name in winds),
    }
    for stage_set in sets.values():
        for slot, value in stage_set.slots.items():
            template = value(templates["state"], lambda source, count: (0.0,) * count) if callable(value) else value
            templates[slot] = template
    stages = tuple(stage for stage_set in sets.values() for stage in stage_set.stages if stage.rate != PHYSICS)
    (physics,) = sets["physics"].stages
    due = [math.gcd(stage.every, stage.delay) * periods[stage.rate] for stage in stages]
    start_us, stop_us, end_us = span_us
    tick_us = math.gcd(*due, *event_times_us)
    if end_us % tick_us or tick_us % periods["physics"]:
        raise ValueError(
            f"a flight of {end_us} µs with ticks every {tick_us} µs and physics every {periods['physics']} µs: "
            "expected each to be a multiple of the next"
        )
    is_last = stop_us == end_us
    tables = {name: clock for name, clock in TABLE_CLOCKS.items() if name in templates}
    program = FlightProgram(
        *(stages, physics, templates, periods, tick_us, start_us, stop_us, vary, tables, is_last, new_wind),
        drones=len(scenario.drones),
    )
    return Segment(program, setup, setting, sets, _tables(setting, setup, program))


def _common_setup(scenario: Scenario, setting: FlightSettings, flight: FlightSetup) -> DroneSetup:
    """Return the setup that all drones of a flight share, because the same stages compute all of them."""
    setups = [drone_setup(scenario, *pair, flight) for pair in zip(scenario.drones, setting.drones, strict=True)]
    first = setups[0]
    for drone, setup in zip(scenario.drones, setups, strict=True):
        if setup[:-1] != first[:-1]:
            field = next(name for name in first._fields if getattr(setup, name) != getattr(first, name))
            difference = "motors fail" if field == "healthy" else field.replace("_", " ")
            raise _unsupported_error(
                scenario,
                f"drones {scenario.drones[0].name!r} and {drone.name!r} differ: {difference}",
                "drones that differ in start and task alone",
            )
    return first


def _unsupported_error(scenario: Scenario, problem: str, expected: str) -> ScenarioError:
    return ScenarioError(f"{scenario.name}: {problem}: expected {expected} for jax and pallas")


def _end_us(scenario: Scenario) -> int:
    return microseconds(scenario.duration, "duration")


def _tables(setting: FlightSettings, setup: DroneSetup, program: FlightProgram) -> dict[str, Array]:
    """Tabulate the references at the clock ticks of the segment: (ticks, fields), or (ticks, fields, drones, 1)."""
    tables = {}
    for name, clock in program.tables.items():
        period = program.periods[clock]
        ticks = np.arange(-(-program.start_us // period), program.end_us // period + 1)
        offsets_us: Array = np.zeros(1)
        if name == REFERENCES_AHEAD:
            controller: Any = named_controller(setup)
            offsets_us = np.round(MICROSECONDS * np.asarray(controller.call.look_ahead))
        times_us = np.add.outer(period * ticks, offsets_us)
        by_drone = []
        for drone in setting.drones:
            times = np.unique(times_us).tolist()
            rows = {t: flatten(drone.task.evaluate_unchecked((t - drone.since_us) / MICROSECONDS)) for t in times}
            by_drone.append(np.array([[x for t in row for x in rows[t]] for row in times_us.tolist()], dtype=float))
        tables[name] = by_drone[0] if program.drones == 1 else np.stack(by_drone, axis=-1)[..., None]
    return tables


def _apply_event(
    scenario: Scenario, setting: FlightSettings, event: Any, time_us: int, periods: Mapping[str, int]
) -> FlightSettings:
    """Return the setting after an event at a fixed time; the event may depend on the reference, but not on a flight's state."""
    period = periods["control"]
    last_tick_us = max(-(-time_us // period) - 1, 0) * period  # the controller's last tick
    unknown: Any = _UnknownValue(scenario.name, event.name)
    is_flat = not (scenario.world.obstacles or scenario.world.terrain is not None)
    environment = scenario.environment if is_flat else unknown
    buses = []
    for drone, drone_setting in zip(scenario.drones, setting.drones, strict=True):
        reference = drone_setting.task.evaluate_unchecked((last_tick_us - drone_setting.since_us) / MICROSECONDS)
        state = State(unknown, unknown, unknown, unknown, (), state_at_rest(drone.vehicle).effects)
        command, pilot = (
            ActuatorCommand(()),
            AutopilotCommand(drone_setting.armed, drone_setting.task.name, drone_setting.since_us),
        )
        bus = DroneBus(
            drone.name, state, state, reference, command, pilot, drone_setting.faults, unknown, unknown, environment
        )
        buses.append(bus)
    new_setting: FlightSettings = event.action(setting, Bus(time_us, tuple(buses), unknown, setting.wind_disturbance_W))
    return new_setting


class _UnknownValue:
    """A value that differs between flights: every use of it raises a `ScenarioError`."""

    def __init__(self, scenario: str, event: str) -> None:
        self._about = scenario, event

    def __getattr__(self, name: str) -> Any:
        scenario, event = self.__dict__["_about"]
        raise ScenarioError(
            f"{scenario}: the event {event!r} depends on the state of each flight: expected fixed numbers for jax and pallas"
        )

    __bool__ = __float__ = __iter__ = __len__ = lambda self: self.state


# Values ----------------------------------------------------------------------------------------------------------------


def start_values(
    scenario: Scenario,
    segment: Segment,
    seeds: Array,
    varied: Mapping[str, Tree],
    start: State | None,
    goal_shift: Any,
    dtype: str,
) -> Values:
    """Return the leaves of all slots at the start: arrays, or scalars for leaves that are constant and equal in all flights."""
    n, drone = len(seeds), scenario.drones[0]
    with precision(dtype):
        drones = scenario.drones
        states = [start or drone_initial_state(scenario, member) for member in drones]
        values: Values = {
            name: flatten(tree) for name, tree in segment.program.templates.items() if name not in TABLE_CLOCKS
        }
        values["state"] = _stack_drones(states)

        def normals(drone: int, source: str, count: int) -> tuple[Tree, ...]:
            return tuple(draw_initial_normals(derive_keys(seeds, source), drone, count, dtype)) if count else ()

        for stage_set in segment.sets.values():
            for slot, value in stage_set.slots.items():
                if callable(value):
                    values[slot] = _stack_drones([value(state, partial(normals, k)) for k, state in enumerate(states)])
        values["status"] = _stack_drones([Status(landed=float(not member.airborne)) for member in drones])
        values["drone"] = _stack_drones([(float(k),) for k in range(len(drones))])
        if goal_shift is not None:
            values["goal"] = list(np.broadcast_to(np.asarray(goal_shift, dtype=float).reshape(3, -1), (3, n)))
        for slot, is_wind in (("varied", False), ("varied wind", True)):
            chosen = {name: value for name, value in varied.items() if name.startswith(WIND_PREFIX) == is_wind}
            nominal = {
                name: wind_parameter(scenario.wind, name) if is_wind else parameter(drone.vehicle, name)
                for name in chosen
            }
            values[slot] = [
                leaf for name, value in chosen.items() for leaf in _parameter_columns(nominal[name], name, value, n)
            ]
        return _expand_leaves(_apply_setting(segment, values), segment.program, n, dtype)


def next_values(scenario: Scenario, previous: Segment, segment: Segment, values: Values, n: int, dtype: str) -> Values:
    """Return the leaves of all slots after an event has changed the setting; slots it does not affect keep their values."""
    program, same_setup = segment.program, previous.setup[:-1] == segment.setup[:-1]
    with precision(dtype):
        fresh: Values = {name: flatten(tree) for name, tree in program.templates.items() if name not in TABLE_CLOCKS}
        state = unflatten(previous.program.templates["state"], iter(values["state"]))
        for stage_set in segment.sets.values():
            for slot, value in stage_set.slots.items():
                if callable(value) and (slot not in values or len(values[slot]) != len(fresh[slot])):
                    fresh[slot] = flatten(value(state, lambda source, count: (0.0,) * count))
        for name, leaves in values.items():
            restarts = (name in RESTARTED_SLOTS and not same_setup) or (name == "wind_state" and program.new_wind)
            if name in fresh and len(fresh[name]) == len(leaves) and not restarts:
                fresh[name] = list(leaves)
        if program.new_wind == "extends":
            fresh["wind_state"] = [*values["wind_state"], *fresh["wind_state"][len(values["wind_state"]) :]]
        if not same_setup:
            vehicle, loads = (
                scenario.drones[0].vehicle,
                [member.setting.drones[0].payload for member in (previous, segment)],
            )
            shift = centre_shift(vehicle, loads[1]) - centre_shift(vehicle, loads[0])
            fresh["state"] = flatten(shift_centre_of_mass(state, shift))
        return _expand_leaves(_apply_setting(segment, fresh), program, n, dtype)


def _apply_setting(segment: Segment, values: Values) -> Values:
    """Write arming, faults and the wind disturbance of the setting into the values."""
    drones = [setting_values(segment.setup, drone) for drone in segment.setting.drones]
    settings = {path: _stack_drones([values[path] for values in drones]) for path in drones[0]}
    settings["wind_disturbance"] = list(segment.setting.wind_disturbance_W)
    for path, leaves in settings.items():
        slot, first, _ = slot_part(segment.program.templates, path)
        values[slot] = [*values[slot][:first], *leaves, *values[slot][first + len(leaves) :]]
    return values


def _stack_drones(trees: Sequence[Tree]) -> list[Tree]:
    """Combine the leaves of all drones: (drones, 1) or (drones, n); a leaf that all drones share stays a number."""
    if len(trees) == 1:
        return flatten(trees[0])
    combined: list[Tree] = []
    for leaves in zip(*map(flatten, trees), strict=True):
        is_common = all(np.ndim(leaf) == 0 and leaf == leaves[0] for leaf in leaves)
        combined.append(leaves[0] if is_common else stack([array(leaf).reshape(-1) for leaf in leaves]))
    return combined


def _expand_leaves(values: Values, program: FlightProgram, n: int, dtype: str) -> Values:
    """Convert leaves that change or differ between flights to arrays, others to floats."""
    written, shape = set(program.written), program.shape(n)
    return {
        name: [
            fill(leaf, shape, dtype) if (name, k) in written or np.ndim(leaf) else float(leaf)
            for k, leaf in enumerate(leaves)
        ]
        for name, leaves in values.items()
        if name in program.templates
    }


def varied_initial_state(
    scenario: Scenario, start_parameters: Mapping[str, Array], start: State | None = None
) -> State:
    """Return the initial states, on level ground or in the air, displaced and rotated from the scenario's start."""
    drone = scenario.drones[0]
    state = start or drone_initial_state(scenario, drone)
    if drone.vehicle.has("slung_load"):
        raise ScenarioError(f"{scenario.name}: a load on a cable: expected none where starts differ on jax and pallas")
    if "start_W" in start_parameters:
        state = state._replace(p_W=state.p_W + Vec3(*start_parameters["start_W"].T) - drone.start_W)
    if "yaw" in start_parameters:
        state = state._replace(q_WB=quat_from_euler(0.0, 0.0, array(start_parameters["yaw"]) - drone.yaw) * state.q_WB)
    return (
        set_charge(state, drone.vehicle, start_parameters["initial_charge"])
        if "initial_charge" in start_parameters
        else state
    )


def _parameter_columns(nominal: Tree, path: str, values: Tree, n: int) -> list[Tree]:
    """Return the components of a parameter as arrays of n flights, from a tuple of them or from rows (n, components).

    Rows of one value (n,) hold for all components.
    """
    count = len(flatten(nominal))
    rows = np.asarray(flatten(values), dtype=float).T if isinstance(values, tuple) else np.asarray(values, dtype=float)
    if rows.shape == (n,):
        return [rows] * count
    if rows.shape == (n, count):
        return list(rows.T)
    raise ValueError(f"vary[{path!r}] has the shape {rows.shape}; expected ({n},) or ({n}, {count})")
