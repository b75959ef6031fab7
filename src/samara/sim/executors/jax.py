"""The JAX executor: the stages of one drone as one loop over arrays with one value per flight.

Leaves have the shape (flights,), or (drones, flights) if a flight has several drones.

`samara.sim.executors.pallas` runs the same stages inside GPU kernels.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from samara.compiler.jax.arrays import (
    any_lane,
    array,
    array_shape,
    branch,
    compile_with_constants,
    concatenate,
    convert,
    count_function_operations,
    every_lane,
    fill,
    index_range,
    precision,
    repeat,
    select,
    stack,
    table_row,
    zeros,
)
from samara.compiler.jax.folding_scalar import (
    FoldingScalar,
    OperationCount,
    fold_tree,
    new_trace,
    rk4_in_kernel,
    rk4_loop,
    unfold_leaves,
)
from samara.compiler.jax.random import Words, draw_normals
from samara.compiler.jax.scan import MAX_FUSED_OPERATIONS, xla_options
from samara.compiler.scan import scan
from samara.core.quantity import Scalar, Tree
from samara.core.tree import flatten
from samara.physics.idle_effects import has_idle_conditions
from samara.physics.types import Reference
from samara.sim.stage import RandomInputs, Stage, require_arguments, require_writes, slot_part
from samara.sim.stages.physics import integrate, integrate_quietly, is_busy
from samara.sim.varied import WIND_PREFIX, apply_wind_values
from samara.vehicles.parameters import with_parameters

Values = dict[str, list[Tree]]
"""Leaves by slot name: arrays with one value per flight, or floats common to all flights, which are folded into the code."""
Leaf = tuple[str, int]

SECOND_US = 1_000_000
WIND_STAGES = ("wind", "wind at hubs", "hub wind")
FINAL_STAGES = ("contact", "touchdown speed", "metrics")
"""Stages that also run at the last instant, so that they include the end of the flight."""


@dataclass(frozen=True)
class FlightProgram:
    """The stages of one drone in their order at an instant, the shapes of their slots, and the clocks' periods [µs].

    `vary` names parameters of the vehicle and the wind that are inputs: slots "varied" and "varied wind". `tables` are slots
    with a row for each tick of a clock, equal in all flights except for "goal", which is added to their position. `tick_us`
    divides all periods and `start_us` and `end_us`. A new wind, which "extends" or "replaces" that of the previous segment
    (`new_wind`), acts immediately. With several `drones`, rows of tables are (fields, drones, 1).
    """

    stages: tuple[Stage, ...]
    physics: Stage
    templates: Mapping[str, Tree]
    periods: Mapping[str, int]
    tick_us: int
    start_us: int
    end_us: int
    vary: tuple[str, ...] = ()
    tables: Mapping[str, str] = field(default_factory=dict)
    is_last: bool = True
    new_wind: str = ""
    drones: int = 1

    def __post_init__(self) -> None:
        for stage in self.stages:
            require_arguments(stage)

    def shape(self, n: int) -> tuple[int, ...]:
        """Shape of a leaf of n flights."""
        return (n,) if self.drones == 1 else (self.drones, n)

    @property
    def ticks(self) -> int:
        """Ticks from the start to the end."""
        return (self.end_us - self.start_us) // self.tick_us

    def period_us(self, stage: Stage) -> int:
        """Period between two updates of a stage [µs]."""
        return stage.every * self.periods[stage.rate]

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of all sources of random numbers."""
        return tuple(sorted({stage.normals.source for stage in self.stages if stage.normals}))

    def leaves(self, path: str) -> list[Leaf]:
        """Return the leaves of a slot, or of a part of one."""
        slot, first, template = slot_part(self.templates, path)
        return [(slot, first + k) for k in range(len(flatten(template)))]

    @cached_property
    def written(self) -> tuple[Leaf, ...]:
        """The leaves that change, in the order of the slots."""
        written_leaves = {
            leaf for stage in (*self.stages, self.physics) for path in stage.writes for leaf in self.leaves(path)
        }
        return tuple(leaf for name in self.templates for leaf in self.leaves(name) if leaf in written_leaves)


class JaxResult(NamedTuple):
    """The leaves that changed, at the end, in the order of `written`; and records (times, rows, *shape of a leaf) or None."""

    final: Sequence[Tree]
    records: Tree


class RecordRequest(NamedTuple):
    """A slot to record: before every `every`-th tick, and after the last of these; "" and 0 record nothing."""

    slot: str = ""
    every: int = 0


Run = Callable[[Values, Mapping[str, Words], Mapping[str, Tree]], JaxResult]


class LoopBody:
    """The stages of a program on arrays of n flights: the body of the XLA loop and of the GPU kernel."""

    def __init__(
        self,
        program: FlightProgram,
        dtype: str,
        fast: bool,
        keys: Mapping[str, Words],
        row: Callable[[str, Tree], list[Tree]],
    ) -> None:
        """Prepare the stages; `row(table, k)` returns the k-th row of a table."""
        self.program, self.dtype, self.fast, self.keys, self.row = program, np.dtype(dtype), fast, keys, row

    def tick(self, k: Scalar, values: Values) -> Values:
        """Run the stages that are due at a tick, and the physics steps to the next."""
        for stage in self.program.stages:
            values = self._if_due(stage, k, values)
        return self.run_physics(k, values)

    def start(self, values: Values) -> Values:
        """Sample a new wind immediately: with `initial_dt` if it replaces the old one, after its period if it extends it."""
        program = self.program
        for stage in program.stages if program.new_wind else ():
            if stage.name in WIND_STAGES:
                period = program.period_us(stage) / SECOND_US
                initial_dt = period if program.new_wind == "extends" else stage.initial_dt
                values = self.run_stage(stage._replace(rate="start", initial_dt=initial_dt), np.int32(0), values)
        return values

    def finish(self, values: Values) -> Values:
        """Run the stages that also run at the end of a flight."""
        program = self.program
        for stage in program.stages if program.is_last else ():
            if stage.name in FINAL_STAGES and program.end_us % program.period_us(stage) == 0:
                values = self.run_stage(stage, np.int32(program.ticks), values)
        return values

    def _if_due(self, stage: Stage, k: Scalar, values: Values) -> Values:
        leaves = [leaf for path in stage.writes for leaf in self.program.leaves(path)]
        return self._select_values(
            combine_conditions(self.is_due(stage, k), self.is_needed(stage, k, values)),
            leaves,
            values,
            lambda: self.run_stage(stage, k, values),
            lambda: values,
        )

    def is_due(self, stage: Stage, k: Scalar) -> Tree:
        """Return whether a stage is due at a tick; None if it is due at every tick."""
        program = self.program
        start_tick, tick_us = program.start_us // program.tick_us, program.tick_us
        every, delay_ticks = program.period_us(stage) // tick_us, stage.delay * program.periods[stage.rate] // tick_us
        condition = None if every == 1 else (k + np.int32(start_tick - delay_ticks)) % np.int32(every) == 0
        return combine_conditions(
            condition, k + np.int32(start_tick) >= np.int32(delay_ticks) if delay_ticks > start_tick else None
        )

    def is_needed(self, stage: Stage, k: Scalar, values: Values) -> Tree:
        """Return whether a stage would change at least one flight; None if that is unknown."""
        if stage.skip_when is None:
            return None
        skip = stage.skip_when
        is_skipped = self._call_function(lambda *inputs, **parameters: skip(*inputs), stage, k, values)
        return ~every_lane(_raw(is_skipped))

    def run_stage(self, stage: Stage, k: Scalar, values: Values, update: Callable[..., Tree] | None = None) -> Values:
        """Return the values after a stage, or after another function of the stage's inputs."""
        shape = np.broadcast_shapes(*(np.shape(leaf) for leaves in values.values() for leaf in leaves))
        outputs = self._call_function(update or stage.update, stage, k, values, with_normals=stage.normals is not None)
        new_values, parts = dict(values), [slot_part(self.program.templates, path) for path in stage.writes]
        outputs = require_writes(stage, outputs, [template for _, _, template in parts])
        for (slot, first, _), tree in zip(parts, outputs, strict=True):
            new_leaves = [fill(x, shape, self.dtype) for x in unfold_leaves(tree)]
            new_values[slot] = [*new_values[slot][:first], *new_leaves, *new_values[slot][first + len(new_leaves) :]]
        return new_values

    def run_physics(self, k: Scalar, values: Values) -> Values:
        """Integrate the physics from a tick to the next."""
        stage, program = self.program.physics, self.program
        count = program.tick_us // program.periods["physics"]
        vehicle = dict(stage.parameters)["vehicle"]
        leaves = [leaf for path in stage.writes for leaf in program.leaves(path)]

        def run_steps(update: Callable[..., Tree]) -> Values:
            def step(_: Tree, carry: Tree) -> Tree:
                return gather_leaves(leaves, self.run_stage(stage, k, replace_leaves(values, leaves, carry), update))

            return replace_leaves(values, leaves, repeat(count, step, gather_leaves(leaves, values)))

        if stage.update is not integrate or not has_idle_conditions(vehicle):
            return run_steps(stage.update)
        ahead = program.tick_us / SECOND_US

        def check_busy(
            state: Tree, contact: Tree, command: Tree, environment: Tree, dt: Tree, **parameters: Tree
        ) -> Tree:
            return is_busy(state, environment, vehicle=parameters["vehicle"], ahead=ahead)

        condition = any_lane(_raw(self._call_function(check_busy, stage, k, values)))
        return self._select_values(
            condition, leaves, values, lambda: run_steps(stage.update), lambda: run_steps(integrate_quietly)
        )

    def _select_values(
        self,
        condition: Tree,
        leaves: Sequence[Leaf],
        values: Values,
        if_true: Callable[[], Values],
        if_false: Callable[[], Values],
    ) -> Values:
        """Return the values of one of two branches, which differ in the given leaves."""
        if condition is None:
            return if_true()
        chosen = branch(condition, lambda: gather_leaves(leaves, if_true()), lambda: gather_leaves(leaves, if_false()))
        return replace_leaves(values, leaves, chosen)

    def _call_function(
        self, function: Callable[..., Tree], stage: Stage, k: Scalar, values: Values, with_normals: bool = False
    ) -> Tree:
        trace = new_trace(self.dtype, self.fast)
        inputs = [self._input(path, stage, k, values, trace) for path in stage.reads]
        if with_normals and stage.normals:
            clock = "wind" if stage.rate == "start" else stage.rate
            elapsed = convert(self._elapsed_ticks(clock, k), np.uint32)
            inputs.append(tuple(FoldingScalar(x, trace) for x in self._normals(stage.normals, elapsed)))
        return function(*inputs, **self._parameters(stage, values, trace, is_quiet=function is integrate_quietly))

    def _normals(self, inputs: RandomInputs, tick: Tree) -> list[Tree]:
        """Draw the normals of every drone and flight; shared ones are those of drone 0."""
        keys, drones = self.keys[inputs.source], self.program.drones
        if drones == 1:
            return draw_normals(keys, 0, tick, inputs.size, self.dtype)
        low, high = (fill(word, (drones, *np.shape(word)), np.uint32) for word in keys)
        normals = draw_normals((low, high), index_range(drones, np.uint32)[:, None], tick, inputs.size, self.dtype)
        shared = inputs.shared or (False,) * inputs.size
        return [fill(x[:1], x.shape, x.dtype) if is_shared else x for x, is_shared in zip(normals, shared, strict=True)]

    def _parameters(self, stage: Stage, values: Values, trace: Tree, *, is_quiet: bool) -> dict[str, Tree]:
        """Return a stage's parameters: varied ones as inputs, and integrators as loops if that is faster."""
        parameters, vary = dict(stage.parameters), self.program.vary
        winds = tuple(name for name in vary if name.startswith(WIND_PREFIX))
        vehicle_names = tuple(name for name in vary if name not in winds)
        if vehicle_names and parameters.get("vehicle") is not None:
            varied = fold_tree(self.program.templates["varied"], values["varied"], trace)
            parameters["vehicle"] = with_parameters(parameters["vehicle"], vehicle_names, varied)
        if winds and "source" in parameters:
            varied = fold_tree(self.program.templates["varied wind"], values["varied wind"], trace)
            parameters["source"] = apply_wind_values(parameters["source"], dict(zip(winds, varied, strict=True)))
        if parameters.get("integrator") == "rk4":
            is_long = has_idle_conditions(parameters["vehicle"]) and not is_quiet
            parameters["integrator"] = rk4_loop if is_long else rk4_in_kernel
        return parameters

    def _input(self, path: str, stage: Stage, k: Scalar, values: Values, trace: Tree) -> Tree:
        program = self.program
        if path == "time":
            time: Tree = convert(k + np.int32(program.start_us // program.tick_us), self.dtype)
            return FoldingScalar(time * (program.tick_us / SECOND_US), trace)
        if path == "dt":
            if stage.rate == "start":
                return stage.initial_dt
            period = program.period_us(stage) / SECOND_US
            if stage.initial_dt is None or program.start_us:
                return period
            first_dt, later_dt = (fill(x, (), self.dtype) for x in (stage.initial_dt, period))
            return FoldingScalar(select(k == 0, first_dt, later_dt), trace)
        if path in program.tables:
            row = fold_tree(program.templates[path], self.row(path, self._row(program.tables[path], k)), trace)
            goal = fold_tree(program.templates["goal"], values["goal"], trace)
            if isinstance(row, Reference):
                return row._replace(p_W=row.p_W + goal)
            return tuple(reference._replace(p_W=reference.p_W + goal) for reference in row)
        slot, first, template = slot_part(program.templates, path)
        return fold_tree(template, values[slot][first : first + len(flatten(template))], trace)

    def _elapsed_ticks(self, clock: str, k: Scalar) -> Tree:
        """Return the ticks of a clock since the start of the flight."""
        tick_us, period_us = self.program.tick_us, self.program.periods[clock]
        divisor, start_tick = math.gcd(tick_us, period_us), self.program.start_us // tick_us
        return (k + np.int32(start_tick)) * np.int32(tick_us // divisor) // np.int32(period_us // divisor)

    def _row(self, clock: str, k: Scalar) -> Tree:
        """Return the row of a table at a tick; row 0 is that of the clock's first tick in the segment."""
        return self._elapsed_ticks(clock, k) - np.int32(-(-self.program.start_us // self.program.periods[clock]))


def combine_conditions(a: Tree, b: Tree) -> Tree:
    """a ∧ b; None stands for a condition that is always true."""
    return b if a is None else a if b is None else a & b


def _raw(condition: Tree) -> Tree:
    return condition.value if isinstance(condition, FoldingScalar) else condition


def gather_leaves(leaves: Sequence[Leaf], values: Values) -> list[Tree]:
    """Gather leaves into a list."""
    return [values[slot][k] for slot, k in leaves]


def replace_leaves(values: Values, leaves: Sequence[Leaf], new_leaves: Sequence[Tree]) -> Values:
    """Return the values with given leaves replaced."""
    new_values = {name: list(slot_leaves) for name, slot_leaves in values.items()}
    for (slot, k), leaf in zip(leaves, new_leaves, strict=True):
        new_values[slot][k] = leaf
    return new_values


# The loop --------------------------------------------------------------------------------------------------------------


def run_ticks(
    ticks: int, tick: Callable[[Tree, Tree], Tree], slots: Tree, record: Callable[[Tree], Tree], every: int
) -> Tree:
    """Run all ticks; call `record` before every `every`-th tick and after the last full period; 0 records nothing."""
    if not every:
        return repeat(ticks, tick, slots), None

    def run_period(slots: Tree, r: Tree) -> Tree:
        return repeat(every, lambda i, carry: tick(r * np.int32(every) + i, carry), slots), record(slots)

    full_periods, remainder = divmod(ticks, every)
    slots, records = scan(run_period, slots, index_range(full_periods))
    records = concatenate([records, record(slots)[None]])
    return repeat(remainder, lambda i, carry: tick(np.int32(full_periods * every) + i, carry), slots), records


def compile_flight_jax(program: FlightProgram, request: RecordRequest, *, dtype: str, fast: bool = False) -> Run:
    """`run(values, keys, tables) → JaxResult`: all flights from start to end, in one XLA loop.

    `values` has all slots except tables; leaves that are Python floats are folded in, so that each such value is a new program.
    """

    def run_flight(values: Values, keys: Tree, tables: Tree) -> Tree:
        body, written = (
            LoopBody(program, dtype, fast, keys, lambda name, k: table_row(tables[name], k)),
            program.written,
        )

        def tick(k: Scalar, leaves: Tree) -> Tree:
            return gather_leaves(written, body.tick(k, replace_leaves(values, written, leaves)))

        def record(leaves: Tree) -> Tree:
            return stack(replace_leaves(values, written, leaves)[request.slot])

        leaves, records = run_ticks(
            program.ticks, tick, gather_leaves(written, body.start(values)), record, request.every
        )
        return gather_leaves(written, body.finish(replace_leaves(values, written, leaves))), records

    return flight_run(run_flight, dtype, lambda platform: xla_options(MAX_FUSED_OPERATIONS + 1, platform))


def flight_run(
    run_flight: Callable[[Values, Tree, Tree], Tree], dtype: str, options: Callable[[str], dict[str, str] | None]
) -> Run:
    """Compile a function of values, keys and tables; floats among the values are folded in."""
    compiled = compile_with_constants(run_flight, dtype=dtype, options=options)

    def run(values: Values, keys: Mapping[str, Words], tables: Mapping[str, Tree]) -> JaxResult:
        with precision(dtype):
            rows = {name: array(table, dtype) for name, table in tables.items()}
        return JaxResult(*compiled(values, dict(keys), rows))

    return run


def operation_counts(
    program: FlightProgram, values: Values, *, dtype: str, fast: bool = False
) -> dict[str, OperationCount]:
    """Count the operations per flight of every stage and of both physics steps, each time it runs."""
    leaf_shape = array_shape((1,), dtype)
    counts = {}
    with precision(dtype):
        word = zeros((1,), np.uint32)
        keys = dict.fromkeys(program.sources, (word, word))
        sizes = {name: len(flatten(program.templates[name])) for name in program.tables}
        body = LoopBody(program, dtype, fast, keys, lambda name, k: [zeros((), dtype)] * sizes[name])
        quiet = program.physics._replace(name="quiet physics", update=integrate_quietly)
        names = list(values)
        has_quiet = program.physics.update is integrate and has_idle_conditions(_vehicle(program))
        for stage in (*program.stages, program.physics, *((quiet,) if has_quiet else ())):

            def update_leaves(leaves: Tree, stage: Stage = stage) -> Tree:
                stage_values = {
                    name: [x if type(x) is float else y for x, y in zip(values[name], slot_leaves, strict=True)]
                    for name, slot_leaves in zip(names, leaves, strict=True)
                }
                new_values = body.run_stage(stage, np.int32(1), {"": [zeros((1,), dtype)], **stage_values})
                return [new_values[slot][k] for path in stage.writes for slot, k in program.leaves(path)]

            counts[stage.name] = count_function_operations(
                update_leaves, [[leaf_shape] * len(values[name]) for name in names]
            )
    return counts


def _vehicle(program: FlightProgram) -> Tree:
    return dict(program.physics.parameters)["vehicle"]
