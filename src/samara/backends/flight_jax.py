"""Whole flights in JAX: a program of units as one loop over arrays, a number in them for every flight.

`flight_pallas` runs the same inside kernels of a GPU.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from samara.backends.draws_jax import Words, draws
from samara.backends.flight_program import Program, Unit
from samara.backends.folding import Folded, OperationCount, count_operations, folded, new_trace, unfolded
from samara.backends.jax_scan import MANY_OPERATIONS, _as, precision, xla_options
from samara.backends.pallas import _loop
from samara.core.tree import flatten

Values = dict[str, list[Any]]
"""By slot: its leaves, each an array with a number for every flight, or one number of all that is folded into the code"""

SECOND_US = 1_000_000


class Result(NamedTuple):
    """The slots asked for at the end, a row for every leaf; and, where it is recorded, (records, rows, flights)."""

    final: dict[str, Any]
    records: Any


class Wanted(NamedTuple):
    """What is asked of a flight: slots at its end, and one slot before every `every`-th tick, and after the last of them."""

    results: tuple[str, ...]
    recorded: str = ""
    every: int = 0


Run = Callable[[Values, Mapping[str, Words], Mapping[str, Any]], Result]


class Body:
    """The units of a program on arrays of n flights: what every backend is made of."""

    def __init__(
        self, program: Program, dtype: str, fast: bool, keys: Mapping[str, Words], row: Callable[[str, Any], list[Any]]
    ) -> None:
        """`row(table, k)` gives the k-th row of a table."""
        self.program, self.dtype, self.fast, self.keys, self.row = program, jnp.dtype(dtype), fast, keys, row

    def tick(self, k: Any, values: Values) -> Values:
        """The units that are due at a tick, and the steps to the next"""
        for unit in self.program.units:
            values = values | self._if_due(unit, k, values)
        return self.steps(k, values)

    def end(self, values: Values) -> Values:
        """The units that run at the end, too"""
        for unit in self.program.units:
            if unit.name in self.program.last:
                values = values | self.updated(unit, np.int32(self.program.ticks), values)
        return values

    def _if_due(self, unit: Unit, k: Any, values: Values) -> Values:
        return self._choice(
            both(self.due(unit, k), self.needed(unit, k, values)),
            lambda: self.updated(unit, k, values),
            lambda: {name: values[name] for name in unit.writes},
        )

    def due(self, unit: Unit, k: Any) -> Any:
        """Whether a tick is one of the unit's; None: every tick is"""
        every, after = self.program.every(unit.axis), unit.after_us // self.program.tick_us
        condition = None if every == 1 else (k - np.int32(after)) % np.int32(every) == 0
        return both(condition, k >= np.int32(after) if after else None)

    def needed(self, unit: Unit, k: Any, values: Values) -> Any:
        """Whether it would change a flight; None: it may"""
        return None if unit.needed is None else _any(self._called(unit.needed, unit, k, values))

    def updated(self, unit: Unit, k: Any, values: Values) -> Values:
        """What a unit writes at a tick"""
        shape = jnp.broadcast_shapes(*(jnp.shape(leaf) for own in values.values() for leaf in own))
        made = self._called(unit.update, unit, k, values, with_draws=unit.draws is not None)
        return {
            name: [_as(x, shape, self.dtype) for x in unfolded(own)]
            for name, own in zip(unit.writes, made, strict=True)
        }

    def steps(self, k: Any, values: Values) -> Values:
        """The physics from a tick to the next"""
        physics, count = self.program.physics, self.program.tick_us // self.program.periods["physics"]

        def flown(unit: Unit) -> Values:
            def once(_: Any, leaves: Any) -> Any:
                return listed(unit.writes, self.updated(unit, k, values | named(unit.writes, leaves, values)))

            return named(unit.writes, _loop(count, once, listed(unit.writes, values)), values)

        quiet, busy = physics.quiet, physics.busy
        if quiet is None or busy is None:
            return values | flown(physics.step)
        condition = _any(self._called(busy, physics.step, k, values))
        return values | self._choice(condition, lambda: flown(physics.step), lambda: flown(quiet))

    def _choice(self, condition: Any, yes: Callable[[], Values], no: Callable[[], Values]) -> Values:
        if condition is None:
            return yes()
        made: Values = {}

        def branch(of: Callable[[], Values]) -> Callable[[], list[Any]]:
            def leaves() -> list[Any]:
                made.update(of())
                return listed(tuple(made), made)

            return leaves

        chosen = lax.cond(condition, branch(yes), branch(no))
        return named(tuple(made), chosen, made)

    def _called(
        self, function: Callable[..., Any], unit: Unit, k: Any, values: Values, with_draws: bool = False
    ) -> Any:
        trace = new_trace(self.dtype, self.fast)
        given = [self._given(name, unit, k, values, trace) for name in unit.reads]
        if with_draws and unit.draws:
            source, count, axis = unit.draws
            passed = lax.convert_element_type(self._passed(axis or unit.axis, k), jnp.uint32)
            given.append(tuple(Folded(x, trace) for x in draws(self.keys[source], 0, passed, count, self.dtype)))
        return function(*given)

    def _given(self, name: str, unit: Unit, k: Any, values: Values, trace: Any) -> Any:
        program = self.program
        if name == "time":
            return Folded(lax.convert_element_type(k, self.dtype) * (program.tick_us / SECOND_US), trace)
        if name == "dt":
            period = program.periods[unit.axis] / SECOND_US
            if unit.first_dt is None:
                return period
            first, later = (lax.full((), x, self.dtype) for x in (unit.first_dt, period))
            return Folded(lax.select(k == 0, first, later), trace)
        if name in program.tables:
            return folded(program.slots[name], self.row(name, self._passed(program.tables[name], k)), trace)
        return folded(program.slots[name], values[name], trace)

    def _passed(self, axis: str, k: Any) -> Any:
        """How many ticks of an axis have passed"""
        tick_us, period_us = self.program.tick_us, self.program.periods[axis]
        shared = math.gcd(tick_us, period_us)
        return k * np.int32(tick_us // shared) // np.int32(period_us // shared)


def both(a: Any, b: Any) -> Any:
    """a ∧ b, where None holds always"""
    return b if a is None else a if b is None else a & b


def _any(condition: Any) -> Any:
    raw = condition.value if isinstance(condition, Folded) else condition
    return jnp.max(jnp.where(raw, np.int32(1), np.int32(0))) > 0


def listed(names: Sequence[str], values: Values) -> list[Any]:
    """The leaves of some slots in a row"""
    return [leaf for name in names for leaf in values[name]]


def named(names: Sequence[str], leaves: Sequence[Any], like: Values) -> Values:
    """The same leaves by their slots"""
    found = iter(leaves)
    return {name: [next(found) for _ in like[name]] for name in names}


# The loop --------------------------------------------------------------------------------------------------------------


def flown(ticks: int, tick: Callable[[Any, Any], Any], slots: Any, keep: Callable[[Any], Any], every: int) -> Any:
    """All ticks, and what `keep` gives before every `every`-th and after the last of those; nothing is kept with 0"""
    if not every:
        return _loop(ticks, tick, slots), None

    def part(slots: Any, r: Any) -> Any:
        return _loop(every, lambda i, own: tick(r * np.int32(every) + i, own), slots), keep(slots)

    whole, left = divmod(ticks, every)
    slots, kept = lax.scan(part, slots, jnp.arange(whole, dtype=jnp.int32))
    kept = jnp.concatenate([kept, keep(slots)[None]])
    return _loop(left, lambda i, own: tick(np.int32(whole * every) + i, own), slots), kept


def compile_flight_jax(program: Program, wanted: Wanted, *, dtype: str, fast: bool = False) -> Run:
    """`run(values, keys, tables) → Result`: all flights from start to end, in one loop of XLA

    `values` has all slots but tables; leaves that are Python numbers are folded in, so that another number is another program.
    """

    def whole(values: Values, keys: Any, tables: Any) -> Any:
        def row(name: str, k: Any) -> list[Any]:
            return list(lax.dynamic_index_in_dim(tables[name], k, 0, keepdims=False))

        body, names = Body(program, dtype, fast, keys, row), program.written

        def tick(k: Any, leaves: Any) -> Any:
            return listed(names, body.tick(k, values | named(names, leaves, values)))

        def keep(leaves: Any) -> Any:
            return jnp.stack(named(names, leaves, values)[wanted.recorded])

        leaves, kept = flown(program.ticks, tick, listed(names, values), keep, wanted.every)
        end = body.end(values | named(names, leaves, values))
        return {name: jnp.stack(end[name]) for name in wanted.results}, kept

    return compiled_by_constants(whole, dtype, lambda platform: xla_options(MANY_OPERATIONS + 1, platform))


def compiled_by_constants(
    whole: Callable[[Values, Any, Any], Any], dtype: str, options: Callable[[str], dict[str, str] | None]
) -> Run:
    """The function under `jit`, once for every set of numbers among its values"""
    compiled: dict[Any, Any] = {}

    def run(values: Values, keys: Mapping[str, Words], tables: Mapping[str, Any]) -> Result:
        with precision(dtype):
            constants = {name: [leaf if type(leaf) is float else None for leaf in own] for name, own in values.items()}
            pattern = repr(constants)
            if pattern not in compiled:

                def filled(arrays: Any, keys: Any, tables: Any) -> Any:
                    return whole(_with_constants(arrays, constants), keys, tables)

                compiled[pattern] = jax.jit(filled, compiler_options=options(jax.default_backend()))
            arrays = {
                name: [jnp.asarray(leaf, dtype) for leaf in own if type(leaf) is not float]
                for name, own in values.items()
            }
            given = {name: jnp.asarray(table, dtype) for name, table in tables.items()}
            return Result(*compiled[pattern](arrays, dict(keys), given))

    return run


def _with_constants(arrays: Mapping[str, Sequence[Any]], constants: Mapping[str, Sequence[float | None]]) -> Values:
    """The leaves of all slots, numbers and arrays, in their places"""
    values: Values = {}
    for name, own in constants.items():
        found = iter(arrays[name])
        values[name] = [next(found) if leaf is None else leaf for leaf in own]
    return values


def work(program: Program, values: Values, *, dtype: str, fast: bool = False) -> dict[str, OperationCount]:
    """Operations per flight of every unit and of both steps, each time it runs"""
    one: Any = jax.ShapeDtypeStruct((1,), dtype)  # type: ignore[no-untyped-call]
    counted = {}
    with precision(dtype):
        word = jnp.zeros(1, jnp.uint32)
        keys = dict.fromkeys(program.sources, (word, word))
        sizes = {name: len(flatten(program.slots[name])) for name in program.tables}
        body = Body(program, dtype, fast, keys, lambda name, k: [jnp.zeros((), dtype)] * sizes[name])
        for unit in (*program.units, program.physics.step, *(own for own in [program.physics.quiet] if own)):
            names = [name for name in unit.reads if name in values]

            def called(leaves: Any, unit: Unit = unit, names: Sequence[str] = names) -> Any:
                own = {
                    name: [x if type(x) is float else y for x, y in zip(values[name], given, strict=True)]
                    for name, given in zip(names, leaves, strict=True)
                }
                return body.updated(unit, np.int32(1), {"": [jnp.zeros(1, dtype)], **own})

            traced = jax.make_jaxpr(called)([[one] * len(values[name]) for name in names])
            counted[unit.name] = count_operations(traced.jaxpr)
    return counted
