"""Random numbers with an address as vector code, for many keys at once: bit for bit those of `samara.core.random.words`.

draw = drawing(("uniform", "normal", "normal"))
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
from samara.compiler.thread_pool import shares_of, side_by_side
from samara.core.random import normal_in_lanes, philox, uniform_in_lanes
from samara.core.types import Array

WORK = 600  # vector instructions of a block of four normals
EFFORT = 1


@cache
def drawing(kinds: tuple[str, ...]) -> Callable[[Array, Array], Array]:
    """draw(keys, ticks): a number of each kind, "uniform" or "normal", for each pair of keys and its tick; the drone is 0"""
    width = vector_width("float64")

    def draw(keys: Array, ticks: Array) -> Array:
        n = len(ticks)
        own = np.ascontiguousarray(keys, dtype=np.uint64), np.ascontiguousarray(ticks, dtype=np.uint64)
        if own[0].shape != (2, n):
            raise ValueError(f"keys have shape {own[0].shape}; expected (2, {n}), as there are {n} ticks")
        target = np.empty((len(kinds), n))
        given = own[0].ctypes.data, own[1].ctypes.data, target.ctypes.data
        tiles, whole = n // width, width * (n // width)
        shares = shares_of(tiles * -(-len(kinds) // 4) * WORK)
        cuts = [width * (tiles * i // shares) for i in range(shares + 1)]
        if whole:
            call = _code(kinds, width).call
            side_by_side([partial(call, *given, first, last, n) for first, last in pairwise(cuts)])
        if n > whole:
            _code(kinds, 1).call(*given, whole, n, n)
        return target

    return draw


@cache
def _code(kinds: tuple[str, ...], width: int) -> MachineCode:
    module = new_module()
    builder, arguments = new_function(module, "draw", [INDEX] * 6)
    _emit(builder, arguments, kinds, width)
    return machine_code(module, "draw", EFFORT)


def _emit(builder: ir.IRBuilder, arguments: Sequence[ir.Value], kinds: tuple[str, ...], width: int) -> None:
    """draw(keys, ticks, target, first, last, n): of drones from the first to before the last, so many at a time"""
    keys, ticks, target, first, last, n = arguments
    integers, doubles = (ir.VectorType(element, width) for element in (INDEX, DOUBLE))
    entry, body, after = (builder.block, *(builder.append_basic_block(name) for name in ("drones", "after")))
    builder.cbranch(builder.icmp_signed("<", first, last), body, after)
    builder.position_at_end(body)
    drone = builder.phi(INDEX)
    drone.add_incoming(first, entry)

    def place(base: ir.Value, row: int, kind: ir.Type) -> ir.Value:
        at = builder.add(builder.mul(n, index(row)), drone)
        return builder.inttoptr(builder.add(base, builder.shl(at, index(3))), kind.as_pointer())

    def lanes(base: ir.Value, row: int) -> Vector:
        return Vector(builder, builder.load(place(base, row, integers), align=8))

    key, tick = (lanes(keys, 0), lanes(keys, 1)), lanes(ticks, 0)
    for block in range(-(-len(kinds) // 4)):
        counter = tick.like(block), tick.like(0), tick & 0xFFFFFFFF, tick >> 32
        for row, word in enumerate(philox(counter, key), 4 * block):
            if row < len(kinds):
                number = normal_in_lanes(word) if kinds[row] == "normal" else uniform_in_lanes(word)
                builder.store(number.value, place(target, row, doubles), align=8)
    following = builder.add(drone, index(width))
    drone.add_incoming(following, builder.block)
    builder.cbranch(builder.icmp_signed("<", following, last), body, after)
    builder.position_at_end(after)
    builder.ret_void()
