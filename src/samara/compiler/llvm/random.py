"""Random numbers with an address as vector code, for many keys at once: bit for bit those of `samara.core.random.words`.

draw = drawing(("uniform", "normal", "normal"))
draw(keys, ticks)                                # (2, n) and (n,) of uint64 → (3, n)
"""

import ctypes
from collections.abc import Callable
from functools import cache, partial
from itertools import pairwise
from typing import Any

import llvmlite.binding as llvm
import llvmlite.ir as ir
import numpy as np

from samara.compiler.llvm.blocks import INDEX
from samara.compiler.llvm.codegen import align_stack, engine_of, vector_width
from samara.compiler.thread_pool import shares_of, side_by_side
from samara.core.llvm_math import Lanes
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
            call = _code(kinds, width)[0]
            side_by_side([partial(call, *given, first, last, n) for first, last in pairwise(cuts)])
        if n > whole:
            _code(kinds, 1)[0](*given, whole, n, n)
        return target

    return draw


@cache
def _code(kinds: tuple[str, ...], width: int) -> tuple[Any, Any]:
    module = ir.Module(name="samara")
    module.triple = llvm.get_default_triple()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [INDEX] * 6), "draw")
    align_stack(function)
    _emit(function, kinds, width)
    engine = engine_of(str(module), EFFORT)
    prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 6)
    return prototype(engine.get_function_address("draw")), engine


def _emit(function: ir.Function, kinds: tuple[str, ...], width: int) -> None:
    """draw(keys, ticks, target, first, last, n): of drones from the first to before the last, so many at a time"""
    keys, ticks, target, first, last, n = function.args
    integers, doubles = (ir.VectorType(each, width) for each in (INDEX, ir.DoubleType()))
    entry, body, after = (function.append_basic_block(name) for name in ("entry", "drones", "after"))
    builder = ir.IRBuilder(entry)
    builder.cbranch(builder.icmp_signed("<", first, last), body, after)
    builder = ir.IRBuilder(body)
    drone = builder.phi(INDEX)
    drone.add_incoming(first, entry)

    def place(base: Any, row: int, kind: Any) -> Any:
        index = builder.add(builder.mul(n, ir.Constant(INDEX, row)), drone)
        return builder.inttoptr(builder.add(base, builder.shl(index, ir.Constant(INDEX, 3))), kind.as_pointer())

    def lanes(base: Any, row: int) -> Lanes:
        return Lanes(builder, builder.load(place(base, row, integers), align=8))

    key, tick = (lanes(keys, 0), lanes(keys, 1)), lanes(ticks, 0)
    for block in range(-(-len(kinds) // 4)):
        counter = tick.like(block), tick.like(0), tick & 0xFFFFFFFF, tick >> 32
        for row, word in enumerate(philox(counter, key), 4 * block):
            if row < len(kinds):
                number = normal_in_lanes(word) if kinds[row] == "normal" else uniform_in_lanes(word)
                builder.store(number.value, place(target, row, doubles), align=8)
    following = builder.add(drone, ir.Constant(INDEX, width))
    drone.add_incoming(following, builder.block)
    builder.cbranch(builder.icmp_signed("<", following, last), body, after)
    ir.IRBuilder(after).ret_void()
