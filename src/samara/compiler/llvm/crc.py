"""CRC-32, as zlib has it, of much data: folded by carry-less products, which the CPU has an instruction for.

A message is a polynomial over GF(2), its CRC the remainder modulo P. As x^D m ≡ (x^D mod P) m, what stands here can be
multiplied by a constant and added to what stands D bits further on. So the message is folded onto a few registers, some bytes
that have the same CRC, and zlib finishes those. Bits are reflected: the lowest bit of a byte is the highest power of x.
"""

import ctypes
import zlib
from functools import cache
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import llvmlite.ir as ir
import numpy as np

from samara.compiler.llvm.codegen import INDEX, align_stack, engine_of, loop

POLYNOMIAL = 0x1_04C1_1DB7
AT_ONCE = 4  # registers: a product takes longer than to begin the next
WORTH_IT = 1 << 12  # bytes: fewer are zlib's
EFFORT = 1


def crc32(data: memoryview | bytes, begun: int = 0) -> int:
    """zlib.crc32(data, begun)"""
    view, lanes = memoryview(data).cast("B"), lanes_of_host()
    if not lanes or len(view) < WORTH_IT:
        return zlib.crc32(view, begun)
    fold = _code(lanes)
    turns, whole = divmod(len(view), fold.length)
    left = np.empty(fold.length, np.uint8)
    fold.call(np.frombuffer(view, np.uint8).ctypes.data, turns - 1, begun ^ 0xFFFF_FFFF, left.ctypes.data)
    return zlib.crc32(view[len(view) - whole :], zlib.crc32(left.data, 0xFFFF_FFFF))


def power(exponent: int) -> int:
    """x^exponent mod P"""
    found = 1
    for _ in range(exponent):
        found <<= 1
        found ^= POLYNOMIAL * (found >> 32)
    return found


def reflected(remainder: int) -> int:
    """A remainder as a factor: 32 bits in the other order, a place up, as a product of reflected numbers is a place too low"""
    return int(f"{remainder:032b}"[::-1], 2) << 1


class _Code(NamedTuple):
    call: Any
    length: int
    engine: Any


@cache
def lanes_of_host() -> int:
    """How many numbers of 16 bytes an instruction multiplies; 0 where the CPU has no such instruction"""
    has = llvm.get_host_cpu_features().get
    return (4 if has("vpclmulqdq") and has("avx512f") else 1) if has("pclmul") else 0


@cache
def _code(lanes: int) -> _Code:
    """Folds to `length` bytes"""
    module = ir.Module(name="samara")
    module.triple = llvm.get_default_triple()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [INDEX] * 4), "fold")
    align_stack(function)
    _emit(module, function, lanes)
    engine = engine_of(str(module), EFFORT)
    prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)
    return _Code(prototype(engine.get_function_address("fold")), AT_ONCE * 16 * lanes, engine)


def _emit(module: ir.Module, function: ir.Function, lanes: int) -> None:
    """fold(data, turns, begun, left): the first registers from the data, `begun` added; then so many turns further on"""
    data, turns, begun, left = function.args
    builder, kind = ir.IRBuilder(function.append_basic_block("entry")), ir.VectorType(INDEX, 2 * lanes)
    name = "llvm.x86.pclmulqdq" + (".512" if lanes == 4 else "")
    product = ir.Function(module, ir.FunctionType(kind, [kind, kind, ir.IntType(8)]), name)
    size = 16 * lanes
    distance = 8 * size * AT_ONCE
    factors = ir.Constant(kind, [reflected(power(distance + 32)), reflected(power(distance - 32))] * lanes)

    def place(base: Any, number: int) -> Any:
        return builder.inttoptr(builder.add(base, ir.Constant(INDEX, number * size)), kind.as_pointer())

    registers = [builder.alloca(kind) for _ in range(AT_ONCE)]
    for number, register in enumerate(registers):
        own = builder.load(place(data, number), align=1)
        if number == 0:
            head = builder.extract_element(own, ir.Constant(ir.IntType(32), 0))
            own = builder.insert_element(own, builder.xor(head, begun), ir.Constant(ir.IntType(32), 0))
        builder.store(own, register)
    with builder.if_then(builder.icmp_signed(">", turns, ir.Constant(INDEX, 0))), loop(builder, turns) as turn:
        ahead = builder.add(turn, ir.Constant(INDEX, 1))
        base = builder.add(data, builder.mul(ahead, ir.Constant(INDEX, AT_ONCE * size)))
        for number, register in enumerate(registers):
            own, following = builder.load(register), builder.load(place(base, number), align=1)
            low, high = (builder.call(product, [own, factors, ir.Constant(ir.IntType(8), half)]) for half in (0, 0x11))
            builder.store(builder.xor(builder.xor(low, high), following), register)
    for number, register in enumerate(registers):
        builder.store(builder.load(register), place(left, number), align=1)
    builder.ret_void()
