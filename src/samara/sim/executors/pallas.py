"""The Pallas executor: whole flights in one kernel of a GPU, through Triton: the stages, block by block of flights.

All that changes in the flights of a block stays in registers from the first tick to the last, and what does not fit in the
nearest cache: memory is read at the start and written at the end, and for records.
"""

import numpy as np

from samara.compiler.jax.arrays import (
    Launch,
    Operand,
    array,
    call_kernel,
    load_rows,
    pad_lanes,
    platform,
    repeat,
    stack,
    store_rows,
    trace_shapes,
    zeros,
)
from samara.compiler.jax.folding_scalar import grids_in, grids_loaded_by, layers_by_products
from samara.core.block_ops import Grid
from samara.core.quantity import Scalar, Tree
from samara.core.tree import flatten
from samara.sim.executors.jax import (
    Body,
    FlightProgram,
    Run,
    Values,
    Wanted,
    flight_run,
    listed,
    with_leaves,
)

WIDE, NARROW = Launch(256, 8), Launch(128, 4)
MANY = 128
"""Numbers that change in a flight, above which narrow blocks are faster: with a Kalman filter by 4 %, without one slower by as
much on an H200"""


def compile_flight_pallas(
    program: FlightProgram,
    wanted: Wanted,
    *,
    dtype: str,
    fast: bool = False,
    launch: Launch | None = None,
    interpret: bool | None = None,
) -> Run:
    """As `compile_flight_jax`, in one kernel; the last block is filled up with copies of the last flight

    `interpret` runs it in JAX operation by operation, to be tested without a GPU; by default where JAX has none.
    """
    changing = len(program.written)
    cut = launch or (NARROW if changing > MANY else WIDE)
    if cut.block < 1 or cut.block & (cut.block - 1):
        raise ValueError(f"a block of {cut.block} flights: expected a power of two")
    simulated = platform() == "cpu" if interpret is None else interpret

    def whole(values: Values, keys: Tree, tables: Tree) -> Tree:
        return _in_kernel(program, wanted, dtype, fast, cut, simulated, values, keys, tables)

    quick = {"xla_disable_hlo_passes": "fusion"} if simulated else None  # here nobody counts speed
    return flight_run(whole, dtype, lambda _: quick)


def _in_kernel(
    program: FlightProgram,
    wanted: Wanted,
    dtype: str,
    fast: bool,
    launch: Launch,
    simulated: bool,
    values: Values,
    keys: Tree,
    tables: Tree,
) -> Tree:
    rows = [leaf for own in values.values() for leaf in own if type(leaf) is not float]
    words = [word for own in keys.values() for word in own]
    n = max(len(row) for row in rows)
    block = min(launch.block, 1 << (n - 1).bit_length())
    lanes = n + -n % block
    by_flight = [pad_lanes(stack(own), -n % block) for own in (rows, words) if own]
    sizes, written = {name: len(flatten(template)) for name, template in program.templates.items()}, program.written
    shapes: list[tuple[int, ...]] = [(len(written), lanes)]
    records, left = divmod(program.ticks, wanted.every) if wanted.every else (0, program.ticks)
    if wanted.every:
        shapes.append((records + 1, sizes[wanted.recorded], lanes))

    grids = _grids(program, dtype, fast, values, keys, sizes)

    def kernel(*references: Tree) -> None:
        operands, stored = references[: -len(shapes)], references[-len(shapes) :]
        row, word = iter(load_rows(operands[0])), iter(load_rows(operands[1]) if words else ())
        start = {name: [leaf if type(leaf) is float else next(row) for leaf in own] for name, own in values.items()}
        own_keys = {source: (next(word), next(word)) for source in keys}
        constants = operands[len(by_flight) :]
        by_name = dict(zip(tables, constants[: len(tables)], strict=True))
        by_grid = dict(zip(grids, constants[len(tables) :], strict=True))
        body = Body(program, dtype, fast, own_keys, lambda name, k: [by_name[name][k, i] for i in range(sizes[name])])

        def tick(k: Scalar, leaves: Tree) -> Tree:
            with layers_by_products(), grids_loaded_by(lambda grid, at: by_grid[grid][at]):
                return listed(written, body.tick(k, with_leaves(start, written, leaves)))

        def keep(r: Tree, leaves: Tree) -> None:
            store_rows(with_leaves(start, written, leaves)[wanted.recorded], stored[1], lambda i: (r, i, slice(None)))

        def part(r: Tree, leaves: Tree) -> Tree:
            keep(r, leaves)
            return repeat(wanted.every, lambda i, own: tick(r * np.int32(wanted.every) + i, own), leaves)

        leaves = repeat(records, part, listed(written, body.begin(start)))
        if wanted.every:
            keep(np.int32(records), leaves)
        leaves = repeat(left, lambda i, own: tick(np.int32(program.ticks - left) + i, own), leaves)
        end = body.end(with_leaves(start, written, leaves))
        store_rows(listed(written, end), stored[0], lambda i: (i, slice(None)))

    entries = [array(grid.values.ravel(), dtype) for grid in grids]
    found = call_kernel(
        kernel,
        [*map(Operand, by_flight), *(Operand(x, by_lane=False) for x in (*tables.values(), *entries))],
        shapes,
        dtype=dtype,
        launch=launch._replace(block=block),
        interpret=simulated,
        name="flight",
    )
    return list(found[0][:, :n]), found[1][..., :n] if wanted.every else None


def _grids(
    program: FlightProgram, dtype: str, fast: bool, values: Values, keys: Tree, sizes: dict[str, int]
) -> tuple[Grid, ...]:
    """The tables of solids and height maps that a tick looks up: a kernel has no constant arrays, and reads them as operands"""

    def tick(leaves: Tree) -> Tree:
        body = Body(program, dtype, fast, keys, lambda name, k: [zeros((), dtype)] * sizes[name])
        return listed(program.written, body.tick(np.int32(0), with_leaves(values, program.written, leaves)))

    return grids_in(lambda: trace_shapes(tick, listed(program.written, values)))
