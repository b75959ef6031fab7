"""Whole flights inside kernels of a GPU, through Pallas and Triton: a program of units, block by block of flights.

A small program is one kernel: all slots of a block stay in registers from the first tick to the last, so that memory is read at
the start and written at the end. A large one, such as with a Kalman filter, has more slots than a thread has registers, and
takes too long to compile as a whole: there every few units are a kernel of their own, and slots are in memory between them.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

from samara.backends.flight_jax import Body, Run, Values, Wanted, both, compiled_by_constants, flown, listed, named
from samara.backends.flight_program import Program, Unit
from samara.backends.pallas import Launch, _array_of, _block, _compiler, _filled, _loop
from samara.core.tree import flatten

REGISTERS = 160
"""Numbers that change in a flight, up to which it is one kernel: a thread has 255 registers, and needs some to compute with"""
IN_ONE, IN_EACH = Launch(128, 4), Launch(128, 4)

Slots = dict[str, Any]
"""By slot: the leaves of it that differ from flight to flight, as rows of one array"""


def compile_flight_pallas(
    program: Program,
    wanted: Wanted,
    *,
    dtype: str,
    fast: bool = False,
    launch: Launch | None = None,
    whole: bool | None = None,
    interpret: bool | None = None,
) -> Run:
    """As `compile_flight_jax`, in kernels: in one, or with `whole` False in one for every few units

    `interpret` runs them in JAX operation by operation, to be tested without a GPU; by default where JAX has none.
    """
    changing = sum(len(flatten(program.slots[name])) for name in program.written)
    simulated = jax.default_backend() == "cpu" if interpret is None else interpret
    in_one = changing <= REGISTERS if whole is None else whole
    make = partial(_in_one if in_one else _in_each, program, wanted, dtype, fast)
    run = partial(make, launch or (IN_ONE if in_one else IN_EACH), simulated)
    return compiled_by_constants(
        run, dtype, lambda platform: {"xla_disable_hlo_passes": "fusion"} if simulated else None
    )


# One kernel ------------------------------------------------------------------------------------------------------------


def _in_one(
    program: Program, wanted: Wanted, dtype: str, fast: bool, launch: Launch, simulated: bool, *given: Any
) -> Any:
    values, keys, tables = given
    cut = _Cut(values, launch)
    sizes = {name: len(flatten(template)) for name, template in program.slots.items()}
    shapes: list[tuple[int, ...]] = [(sum(sizes[name] for name in wanted.results), cut.lanes)]
    if wanted.every:
        shapes.append((program.ticks // wanted.every + 1, sizes[wanted.recorded], cut.lanes))
    operands = _Operands(cut, cut.slots(values), keys, tables)

    def kernel(*references: Any) -> None:
        loaded, stored = operands.loaded(references[: -len(shapes)]), references[-len(shapes) :]
        body, names = Body(program, dtype, fast, loaded.keys, loaded.row), program.written
        start = cut.values(loaded.slots)

        def store(r: Any, leaves: Any) -> None:
            for i, leaf in enumerate(named(names, leaves, start)[wanted.recorded]):
                stored[1][r, i, :] = leaf

        def tick(k: Any, leaves: Any) -> Any:
            return listed(names, body.tick(k, start | named(names, leaves, start)))

        def part(r: Any, leaves: Any) -> Any:
            store(r, leaves)
            return _loop(wanted.every, lambda i, own: tick(r * np.int32(wanted.every) + i, own), leaves)

        leaves, done = listed(names, start), 0
        if wanted.every:
            leaves = _loop(program.ticks // wanted.every, part, leaves)
            store(np.int32(program.ticks // wanted.every), leaves)
            done = program.ticks // wanted.every * wanted.every
        leaves = _loop(program.ticks - done, lambda i, own: tick(np.int32(done) + i, own), leaves)
        end = body.end(start | named(names, leaves, start))
        for i, leaf in enumerate(listed(wanted.results, end)):
            stored[0][i, :] = leaf

    found = pl.pallas_call(
        kernel,
        grid=cut.grid,
        in_specs=operands.specs,
        out_specs=[_block(shape, cut.block) for shape in shapes],
        out_shape=[_array_of(shape, dtype) for shape in shapes],
        interpret=simulated,
        name="flight",
        **_compiler(launch),
    )(*operands.arrays)
    rows = iter(found[0][:, : cut.n])
    final = {name: jnp.stack([next(rows) for _ in range(sizes[name])]) for name in wanted.results}
    return final, found[1][..., : cut.n] if wanted.every else None


# A kernel for every few units ------------------------------------------------------------------------------------------


def _in_each(
    program: Program, wanted: Wanted, dtype: str, fast: bool, launch: Launch, simulated: bool, *given: Any
) -> Any:
    values, keys, tables = given
    cut = _Cut(values, launch)
    everything = cut.slots(values)
    pieces = [*_pieces(program), ()]  # the last is the physics
    calls = [_piece(program, units, dtype, fast, launch, simulated, cut, everything, keys, tables) for units in pieces]
    changing = {name: everything[name] for name in program.written if name in everything}

    def tick(k: Any, slots: Slots) -> Slots:
        for call in calls:
            slots = call(k, slots)
        return slots

    slots, kept = flown(program.ticks, tick, changing, lambda slots: slots[wanted.recorded], wanted.every)

    def row(name: str, k: Any) -> list[Any]:
        return list(tables[name][int(k)])

    whole = cut.values({**everything, **slots})
    end = Body(program, dtype, fast, keys, row).end(whole)
    final = {name: jnp.stack(end[name])[:, : cut.n] for name in wanted.results}
    return final, kept[..., : cut.n] if wanted.every else None


def _pieces(program: Program) -> list[tuple[Unit, ...]]:
    """Consecutive units that are due together; one that may not be needed is alone"""

    def together(unit: Unit) -> Any:
        return unit.name if unit.needed else "", program.every(unit.axis), unit.after_us

    return [tuple(units) for _, units in groupby(program.units, key=together)]


def _piece(
    program: Program,
    units: tuple[Unit, ...],
    dtype: str,
    fast: bool,
    launch: Launch,
    simulated: bool,
    cut: "_Cut",
    everything: Slots,
    keys: Any,
    tables: Any,
) -> Callable[[Any, Slots], Slots]:
    """`call(k, slots) → slots` of a kernel that runs some units, or the physics steps where there are none"""
    parts = units or (program.physics.step,)
    names = {name for unit in parts for name in (*unit.reads, *unit.writes)}
    writes = [name for name in everything if any(name in unit.writes for unit in parts)]
    held = [name for name in everything if name in names]
    sources = {unit.draws.source for unit in parts if unit.draws}
    own_keys = {source: words for source, words in keys.items() if source in sources}
    own_tables = {name: table for name, table in tables.items() if name in names}

    def call(k: Any, slots: Slots) -> Slots:
        now: Slots = {name: slots[name] if name in slots else everything[name] for name in held}
        operands = _Operands(cut, now, own_keys, own_tables, jnp.reshape(k, (1,)).astype(jnp.int32))

        def kernel(*references: Any) -> None:
            stored = dict(zip(writes, references[len(operands.arrays) :], strict=True))
            at = references[0][0]

            def body_and_values() -> tuple[Body, Values]:
                loaded = operands.loaded(references[: len(operands.arrays)])
                return Body(program, dtype, fast, loaded.keys, loaded.row), cut.values(loaded.slots)

            def run() -> None:
                body, values = body_and_values()
                for unit in units:
                    values = values | body.updated(unit, at, values)
                if not units:
                    values = body.steps(at, values)
                for name in writes:
                    for i, leaf in enumerate(values[name]):
                        stored[name][i, :] = leaf

            condition = None
            if units:
                body, values = body_and_values()
                condition = both(body.due(units[0], at), body.needed(units[0], at, values))
            if condition is None:
                run()
            else:
                pl.when(condition)(run)

        found = pl.pallas_call(
            kernel,
            grid=cut.grid,
            in_specs=operands.specs,
            out_specs=[_block(now[name].shape, cut.block) for name in writes],
            out_shape=[_array_of(now[name].shape, dtype) for name in writes],
            input_output_aliases={operands.place[name]: i for i, name in enumerate(writes)},
            interpret=simulated,
            name="_".join(unit.name for unit in parts).replace(" ", "_"),
            **_compiler(launch),
        )(*operands.arrays)
        return slots | dict(zip(writes, found, strict=True))

    return call


# What goes into a kernel -----------------------------------------------------------------------------------------------


class _Cut:
    """How n flights are cut into blocks: the last one is filled up with copies of the last flight."""

    def __init__(self, values: Values, launch: Launch) -> None:
        if launch.block < 1 or launch.block & (launch.block - 1):
            raise ValueError(f"a block of {launch.block} flights: expected a power of two")
        self.n = max(len(leaf) for own in values.values() for leaf in own if type(leaf) is not float)
        self.block = min(launch.block, 1 << (self.n - 1).bit_length())
        self.missing = -self.n % self.block
        self.lanes = self.n + self.missing
        self.grid = (self.lanes // self.block,)
        self._constants = {
            name: [leaf if type(leaf) is float else None for leaf in own] for name, own in values.items()
        }

    def filled(self, rows: Any) -> Any:
        return _filled(rows, self.missing)

    def slots(self, values: Values) -> Slots:
        arrays = {name: [leaf for leaf in own if type(leaf) is not float] for name, own in values.items()}
        return {name: self.filled(jnp.stack(own)) for name, own in arrays.items() if own}

    def values(self, slots: Mapping[str, Any]) -> Values:
        """The leaves of these slots, and of those that have only numbers"""
        found: Values = {}
        for name, own in self._constants.items():
            if name in slots or None not in own:
                rows = iter(slots.get(name, ()))
                found[name] = [next(rows) if leaf is None else leaf for leaf in own]
        return found


class _Loaded:
    """What a kernel has loaded: rows of slots, keys, and rows of tables by number."""

    def __init__(self, slots: Mapping[str, list[Any]], keys: Mapping[str, Any], tables: Mapping[str, Any]) -> None:
        self.slots, self.keys, self._tables = slots, keys, tables

    def row(self, name: str, k: Any) -> list[Any]:
        return [self._tables[name][k, i] for i in range(self._tables[name].shape[1])]


class _Operands:
    """The arrays of a kernel, in their order: what comes first, slots, keys, tables."""

    def __init__(
        self, cut: _Cut, slots: Slots, keys: Mapping[str, Any], tables: Mapping[str, Any], *first: Any
    ) -> None:
        self._first, self._slots, self._keys, self._tables = len(first), list(slots), list(keys), list(tables)
        by_flight = [*slots.values(), *(cut.filled(jnp.stack(words)) for words in keys.values())]
        self.arrays: Sequence[Any] = [*first, *by_flight, *tables.values()]
        self.place = {name: len(first) + i for i, name in enumerate(slots)}
        self.specs = [
            *(_block(x.shape, None) for x in first),
            *(_block(x.shape, cut.block) for x in by_flight),
            *(_block(x.shape, None) for x in tables.values()),
        ]

    def loaded(self, references: Sequence[Any]) -> _Loaded:
        rest = iter(references[self._first :])
        slots = {name: _rows(next(rest)) for name in self._slots}
        keys = {source: tuple(_rows(next(rest))) for source in self._keys}
        return _Loaded(slots, keys, {name: next(rest) for name in self._tables})


def _rows(reference: Any) -> list[Any]:
    return [reference[k, :] for k in range(reference.shape[0])]
