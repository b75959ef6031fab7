"""Counter-based random numbers as vector code, for many keys at once: bit-identical to `samara.core.random.words`.

draw = compile_draw(("uniform", "normal", "normal"))
draw(keys, ticks)                                # (2, n) and (n,) of uint64 → (3, n)
"""

from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import pairwise

import llvmlite.ir as ir
import numpy as np

from samara.compiler.llvm.codegen import (
    DOUBLE,
    INDEX,
    MachineCode,
    index,
    machine_code,
    new_function,
    new_module,
    vector_width,
)
from samara.compiler.llvm.math import Vector
from samara.compiler.thread_pool import parallel_task_count, run_parallel
from samara.core.random import normal_lanes, philox, uniform_lanes
from samara.core.types import Array

INSTRUCTIONS_PER_BLOCK = 600  # vector instructions of a block of four normals
OPTIMISATION_LEVEL = 1


@cache
def compile_draw(distributions: tuple[str, ...]) -> Callable[[Array, Array], Array]:
    """Return draw(keys, ticks): one number of each distribution, "uniform" or "normal", per pair of keys and tick; drone 0."""
    width = vector_width("float64")

    def draw(keys: Array, ticks: Array) -> Array:
        n = len(ticks)
        arrays = np.ascontiguousarray(keys, dtype=np.uint64), np.ascontiguousarray(ticks, dtype=np.uint64)
        if arrays[0].shape != (2, n):
            raise ValueError(f"keys have shape {arrays[0].shape}; expected (2, {n}), as there are {n} ticks")
        target = np.empty((len(distributions), n))
        addresses = arrays[0].ctypes.data, arrays[1].ctypes.data, target.ctypes.data
        tiles, tiled_count = n // width, width * (n // width)
        shares = parallel_task_count(tiles * -(-len(distributions) // 4) * INSTRUCTIONS_PER_BLOCK)
        cuts = [width * (tiles * i // shares) for i in range(shares + 1)]
        if tiled_count:
            call = _code(distributions, width).call
            run_parallel([partial(call, *addresses, first, last, n) for first, last in pairwise(cuts)])
        if n > tiled_count:
            _code(distributions, 1).call(*addresses, tiled_count, n, n)
        return target

    return draw


@cache
def _code(distributions: tuple[str, ...], width: int) -> MachineCode:
    module = new_module()
    builder, arguments = new_function(module, "draw", [INDEX] * 6)
    _emit(builder, arguments, distributions, width)
    return machine_code(module, "draw", OPTIMISATION_LEVEL)


def _emit(builder: ir.IRBuilder, arguments: Sequence[ir.Value], distributions: tuple[str, ...], width: int) -> None:
    """Emit draw(keys, ticks, target, first, last, n): for the drones from `first` to before `last`, `width` at a time."""
    keys, ticks, target, first, last, n = arguments
    integers, doubles = (ir.VectorType(element, width) for element in (INDEX, DOUBLE))
    entry, body, after = (builder.block, *(builder.append_basic_block(name) for name in ("drones", "after")))
    builder.cbranch(builder.icmp_signed("<", first, last), body, after)
    builder.position_at_end(body)
    drone = builder.phi(INDEX)
    drone.add_incoming(first, entry)

    def row_pointer(base: ir.Value, row: int, vector_type: ir.Type) -> ir.Value:
        offset = builder.add(builder.mul(n, index(row)), drone)
        return builder.inttoptr(builder.add(base, builder.shl(offset, index(3))), vector_type.as_pointer())

    def load_row(base: ir.Value, row: int) -> Vector:
        return Vector(builder, builder.load(row_pointer(base, row, integers), align=8))

    key, tick = (load_row(keys, 0), load_row(keys, 1)), load_row(ticks, 0)
    for block in range(-(-len(distributions) // 4)):
        counter = tick.broadcast(block), tick.broadcast(0), tick & 0xFFFFFFFF, tick >> 32
        for row, word in enumerate(philox(counter, key), 4 * block):
            if row < len(distributions):
                number = normal_lanes(word) if distributions[row] == "normal" else uniform_lanes(word)
                builder.store(number.value, row_pointer(target, row, doubles), align=8)
    next_drone = builder.add(drone, index(width))
    drone.add_incoming(next_drone, builder.block)
    builder.cbranch(builder.icmp_signed("<", next_drone, last), body, after)
    builder.position_at_end(after)
    builder.ret_void()
