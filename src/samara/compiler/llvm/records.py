"""Numbers into records of fixed length that stand in memory already: machine code that lets go of the interpreter.

Record k of drone d begins at byte (d count + k) size. Into it go a counter, first[d] + k modulo 2³², the time t[k] under some
factors, and the doubles rows[k, field, d], each at a byte of its own. Several drones are read at a time, as their numbers lie
side by side, and written to as many records.
"""

import ctypes
from functools import cache
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import llvmlite.ir as ir
import numpy as np

from samara.compiler.llvm.codegen import INDEX, align_stack, engine_of, loop, vector_width
from samara.core.types import Array

EFFORT = 1
WORDS = ("into", "size", "count", "counter", "stamps", "stamped", "places", "fields")
NUMBERS = ("drones", "first", "times", "rows", "row", "field")
_BYTE, _COUNTER = ir.IntType(8), ir.IntType(32)


class Records:
    """Where in `memory` the numbers of some records go; `write` puts them there."""

    def __init__(
        self, memory: Array, size: int, count: int, counter: int, stamps: list[tuple[int, int]], places: list[int]
    ) -> None:
        """`count` records of `size` bytes for each drone: `counter` is the byte of the counter, `stamps` are bytes of the time
        with the factor it has there, `places` those of the doubles"""
        self._kept = memory, np.array(stamps, np.int64), np.array(places, np.int64)
        own, there, fields = (array.ctypes.data for array in self._kept)
        self._fixed = (own, size, count, counter, there, len(stamps), fields, len(places))
        self._shape, self._size, self._call = (count, len(places)), size * count, _code().call
        self._room = memory.nbytes

    def write(self, drone: int, first: Array, times: Array, rows: Array) -> None:
        """The numbers of some drones from one on: counters from first (drones), times (count), rows (count, fields, drones)"""
        drones = len(first)
        if rows.shape != (*self._shape, drones) or times.shape != self._shape[:1] or rows.dtype != np.float64:
            raise ValueError(
                f"rows {rows.shape} of {rows.dtype} at {times.shape} times; expected {self._shape} doubles"
            )
        if (drone + drones) * self._size > self._room:
            raise ValueError(f"records of drones {drone} to {drone + drones - 1} in {self._room} bytes; expected fewer")
        if not self._shape[0]:
            return
        if (rows.strides[2] != 8 and drones > 1) or rows.strides[0] % 8 or rows.strides[1] % 8:
            rows = np.ascontiguousarray(rows)
        first, times = np.ascontiguousarray(first, np.int64), np.ascontiguousarray(times, np.int64)
        into, *fixed = self._fixed
        strides = rows.strides[0] // 8, rows.strides[1] // 8
        numbers = drones, first.ctypes.data, times.ctypes.data, rows.ctypes.data, *strides
        self._call(into + drone * self._size, *fixed, *numbers)


class _Code(NamedTuple):
    call: Any
    engine: Any


@cache
def _code() -> _Code:
    module = ir.Module(name="samara")
    module.triple = llvm.get_default_triple()
    names = (*WORDS, *NUMBERS)
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [INDEX] * len(names)), "write")
    align_stack(function)
    _Emission(function, dict(zip(names, function.args, strict=True))).emit()
    engine = engine_of(str(module), EFFORT)
    prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * len(names))
    return _Code(prototype(engine.get_function_address("write")), engine)


class _Emission:
    """write(…): tiles of drones, then those that are left one by one; of each all records, of each record all numbers"""

    def __init__(self, function: ir.Function, given: dict[str, Any]) -> None:
        self.given, self.builder = given, ir.IRBuilder(function.append_basic_block("entry"))

    def emit(self) -> None:
        builder, width = self.builder, vector_width("float64")
        tiles = builder.sdiv(self.given["drones"], self._index(width))
        whole = builder.mul(tiles, self._index(width))
        self._tiles(tiles, self._index(0), width)
        self._tiles(builder.sub(self.given["drones"], whole), whole, 1)
        builder.ret_void()

    def _tiles(self, count: Any, begin: Any, width: int) -> None:
        builder, given = self.builder, self.given
        with builder.if_then(builder.icmp_signed(">", count, self._index(0))), loop(builder, count) as tile:
            drone = builder.add(begin, builder.mul(tile, self._index(width)))
            lanes = [builder.add(drone, self._index(lane)) for lane in range(width)]
            length = builder.mul(given["count"], given["size"])
            begins = [builder.add(given["into"], builder.mul(lane, length)) for lane in lanes]
            counters = [self._load("first", lane) for lane in lanes]
            with loop(builder, given["count"]) as k:
                ahead = builder.mul(k, given["size"])
                records = [builder.add(own, ahead) for own in begins]
                for record, counter in zip(records, counters, strict=True):
                    number = builder.trunc(builder.add(counter, k), _COUNTER)
                    self._store(number, builder.add(record, given["counter"]))
                self._times(k, records)
                self._doubles(builder.add(builder.mul(k, given["row"]), drone), records, width)

    def _times(self, k: Any, records: list[Any]) -> None:
        builder, time = self.builder, self._load("times", k)
        with loop(builder, self.given["stamped"]) as i:
            pair = builder.mul(i, self._index(2))
            place = self._load("stamps", pair)
            scaled = builder.mul(time, self._load("stamps", builder.add(pair, self._index(1))))
            for record in records:
                self._store(scaled, builder.add(record, place))

    def _doubles(self, row: Any, records: list[Any], width: int) -> None:
        builder, kind = self.builder, ir.VectorType(ir.DoubleType(), width)
        some = builder.icmp_signed(">", self.given["fields"], self._index(0))
        with builder.if_then(some), loop(builder, self.given["fields"]) as field:
            place, at = self._load("places", field), builder.add(row, builder.mul(field, self.given["field"]))
            source = builder.add(self.given["rows"], builder.mul(at, self._index(8)))
            values = builder.load(builder.inttoptr(source, kind.as_pointer()), align=8)
            for lane, record in enumerate(records):
                own = builder.extract_element(values, ir.Constant(ir.IntType(32), lane))
                self._store(own, builder.add(record, place))

    def _load(self, name: str, at: Any) -> Any:
        """A whole number of an array"""
        builder = self.builder
        return builder.load(builder.gep(builder.inttoptr(self.given[name], INDEX.as_pointer()), [at]))

    def _store(self, value: Any, address: Any) -> None:
        """At whatever byte"""
        self.builder.store(value, self.builder.inttoptr(address, value.type.as_pointer()), align=1)

    def _index(self, number: int) -> ir.Constant:
        return ir.Constant(INDEX, number)
