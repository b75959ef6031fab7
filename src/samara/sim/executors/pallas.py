"""The Pallas executor: complete flights in one GPU kernel, through Triton; flights are computed block by block.

Values that change stay in registers from the first tick to the last, and in the nearest cache if they do not fit. Memory is
read at the start and written at the end, and for records.
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
from samara.compiler.jax.folding_scalar import collect_grids, override_grid_loader, unrolled_layers
from samara.core.block_ops import ConstantTable
from samara.core.quantity import Scalar, Tree
from samara.core.tree import flatten
from samara.sim.executors.jax import (
    FlightProgram,
    LoopBody,
    RecordRequest,
    Run,
    Values,
    flight_run,
    gather_leaves,
    replace_leaves,
)

WIDE, NARROW = Launch(256, 8), Launch(128, 4)
MAX_WIDE_BLOCK_LEAVES = 128
"""Number of changing leaves per flight above which narrow blocks are used. On an H200 they are 4 % faster for flights with a
Kalman filter, and 4 % slower for flights without one."""


def compile_flight_pallas(
    program: FlightProgram,
    request: RecordRequest,
    *,
    dtype: str,
    fast: bool = False,
    launch: Launch | None = None,
    interpret: bool | None = None,
) -> Run:
    """Like `compile_flight_jax`, in one kernel; the last block is filled with copies of the last flight.

    `interpret` runs the kernel in JAX, operation by operation, for tests without a GPU; by default if JAX has no GPU.
    """
    changing_leaves = len(program.written)
    block_launch = launch or (NARROW if changing_leaves > MAX_WIDE_BLOCK_LEAVES else WIDE)
    if block_launch.block < 1 or block_launch.block & (block_launch.block - 1):
        raise ValueError(f"a block of {block_launch.block} flights: expected a power of two")
    is_interpreted = platform() == "cpu" if interpret is None else interpret

    def run_flight(values: Values, keys: Tree, tables: Tree) -> Tree:
        return _run_kernel(program, request, dtype, fast, block_launch, is_interpreted, values, keys, tables)

    xla_settings = (
        {"xla_disable_hlo_passes": "fusion"} if is_interpreted else None
    )  # compile time matters more than speed in tests
    return flight_run(run_flight, dtype, lambda _: xla_settings)


def _run_kernel(
    program: FlightProgram,
    request: RecordRequest,
    dtype: str,
    fast: bool,
    launch: Launch,
    is_interpreted: bool,
    values: Values,
    keys: Tree,
    tables: Tree,
) -> Tree:
    rows = [leaf for leaves in values.values() for leaf in leaves if type(leaf) is not float]
    words = [word for pair in keys.values() for word in pair]
    n = max(len(row) for row in rows)
    block = min(launch.block, 1 << (n - 1).bit_length())
    lanes = n + -n % block
    by_flight = [pad_lanes(stack(group), -n % block) for group in (rows, words) if group]
    sizes, written = {name: len(flatten(template)) for name, template in program.templates.items()}, program.written
    shapes: list[tuple[int, ...]] = [(len(written), lanes)]
    records, remainder = divmod(program.ticks, request.every) if request.every else (0, program.ticks)
    if request.every:
        shapes.append((records + 1, sizes[request.slot], lanes))

    grids = _grids(program, dtype, fast, values, keys, sizes)

    def kernel(*references: Tree) -> None:
        operands, stored = references[: -len(shapes)], references[-len(shapes) :]
        row, word = iter(load_rows(operands[0])), iter(load_rows(operands[1]) if words else ())
        start = {
            name: [leaf if type(leaf) is float else next(row) for leaf in slot_leaves]
            for name, slot_leaves in values.items()
        }
        block_keys = {source: (next(word), next(word)) for source in keys}
        constants = operands[len(by_flight) :]
        tables_by_name = dict(zip(tables, constants[: len(tables)], strict=True))
        operands_by_grid = dict(zip(grids, constants[len(tables) :], strict=True))
        body = LoopBody(
            program, dtype, fast, block_keys, lambda name, k: [tables_by_name[name][k, i] for i in range(sizes[name])]
        )

        def tick(k: Scalar, leaves: Tree) -> Tree:
            with unrolled_layers(), override_grid_loader(lambda grid, index: operands_by_grid[grid][index]):
                return gather_leaves(written, body.tick(k, replace_leaves(start, written, leaves)))

        def record(r: Tree, leaves: Tree) -> None:
            store_rows(replace_leaves(start, written, leaves)[request.slot], stored[1], lambda i: (r, i, slice(None)))

        def run_period(r: Tree, leaves: Tree) -> Tree:
            record(r, leaves)
            return repeat(request.every, lambda i, carry: tick(r * np.int32(request.every) + i, carry), leaves)

        leaves = repeat(records, run_period, gather_leaves(written, body.start(start)))
        if request.every:
            record(np.int32(records), leaves)
        leaves = repeat(remainder, lambda i, carry: tick(np.int32(program.ticks - remainder) + i, carry), leaves)
        end = body.finish(replace_leaves(start, written, leaves))
        store_rows(gather_leaves(written, end), stored[0], lambda i: (i, slice(None)))

    entries = [array(grid.values.ravel(), dtype) for grid in grids]
    outputs = call_kernel(
        kernel,
        [*map(Operand, by_flight), *(Operand(x, by_lane=False) for x in (*tables.values(), *entries))],
        shapes,
        dtype=dtype,
        launch=launch._replace(block=block),
        interpret=is_interpreted,
        name="flight",
    )
    return list(outputs[0][:, :n]), outputs[1][..., :n] if request.every else None


def _grids(
    program: FlightProgram, dtype: str, fast: bool, values: Values, keys: Tree, sizes: dict[str, int]
) -> tuple[ConstantTable, ...]:
    """Return the tables of solids and height maps that a tick looks up: a kernel has no constant arrays, only operands."""

    def tick(leaves: Tree) -> Tree:
        body = LoopBody(program, dtype, fast, keys, lambda name, k: [zeros((), dtype)] * sizes[name])
        return gather_leaves(program.written, body.tick(np.int32(0), replace_leaves(values, program.written, leaves)))

    return collect_grids(lambda: trace_shapes(tick, gather_leaves(program.written, values)))
