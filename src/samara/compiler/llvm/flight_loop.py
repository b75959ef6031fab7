"""The loop of a flight in machine code: a schedule of instants, and at each the operations that are due, in order.

    for row in rows:                 # time, count and length of the physics steps that lead to it, due bits
        for operation in operations:
            if operation.due & row.due:
                operation(lane, n, row)

An operation advances the physics, calls a compiled stage on the rows of its slots, draws random numbers, copies a row from or
to a table, or stops the loop if Python is needed. Operations are generic: machine code compiled for a vehicle, a controller or
a filter is called by its address, with the addresses of the rows it reads and writes. So another schedule or another layout of
slots needs no compilation.

Arrays are component-first, (components, n); a call processes the `width` lanes that begin at `lane`.
"""

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple, Protocol, TypeAlias

import llvmlite.ir as ir
import numpy as np

from samara.compiler.compiled_step import STRICT, Machine, Precision
from samara.compiler.llvm.codegen import (
    DOUBLE,
    INDEX,
    INT32,
    align_stack,
    compile_engine,
    element_type,
    load_vector,
    new_module,
    splat,
    store_vector,
)
from samara.compiler.llvm.codegen import index as _number
from samara.compiler.llvm.math import Vector
from samara.core.random import normal_lanes, philox
from samara.core.types import Array

ROW_FIELDS = ("time_us", "steps", "due", "dt", "time")
"""A row of the schedule, eight bytes each: integers, except that the physics step and the time are doubles in seconds."""
OPTIMISATION_LEVEL = 3
DONE = -1


class Operation(NamedTuple):
    """A type of `OPERATION_TYPES`, the bits of the instants at which it is due, and its arguments in the order of the type.

    Arguments are integers and arrays; a `samara.compiler.compiled_step.Machine` supplies the first four arguments of "step".
    Arrays are the memory of the operation and must not move while the loop runs.
    """

    operation_type: str
    due: int
    arguments: "tuple[Argument, ...]"


Block = tuple[Array, int, int]
"""Consecutive rows of an array (rows, n): the array, the first row, and the row count."""


class OperationType(NamedTuple):
    """The argument names of an operation, and the function that emits its body: (emitter) → 1 to stop the loop, else 0."""

    arguments: tuple[str, ...]
    emit: "Callable[[_OperationBody], ir.Value | None]"


class ArrayPrecision:
    """The addresses of arrays of doubles for a loop at some precision: the arrays themselves, or single-precision copies."""

    def __init__(self, precision: Precision = STRICT) -> None:
        self.precision = precision
        self._copies: dict[int, tuple[Array, Array]] = {}  # by address of the base array: it, and its copy

    def address(self, array: Array) -> int:
        """Return the address of a contiguous array; integer arrays are never copied."""
        if not array.flags.c_contiguous:
            raise ValueError(
                f"an array of shape {array.shape} whose rows are not contiguous; expected a contiguous block"
            )
        if self.precision.dtype == "float64" or array.dtype != np.float64:
            return int(array.ctypes.data)
        base_array = array
        while isinstance(base_array.base, np.ndarray):
            base_array = base_array.base
        base_address = int(base_array.ctypes.data)
        if base_address not in self._copies:
            self._copies[base_address] = base_array, base_array.astype(np.float32)
        return int(self._copies[base_address][1].ctypes.data) + (int(array.ctypes.data) - base_address) // 2

    def update_copies(self) -> None:
        """Copy the arrays into their single-precision copies."""
        for array, copy in self._copies.values():
            copy[...] = array

    def write_back(self) -> None:
        """Copy the single-precision copies back into the arrays."""
        for array, copy in self._copies.values():
            array[...] = copy


class RowCode(Protocol):
    """A compiled stage: its code for `width` lanes, and its per-drone constants (`samara.compiler.compiled_step`)."""

    def lane_constants(self, n: int) -> Array: ...

    def row_kernel(self, width: int, precision: Precision) -> int: ...


class RowCall:
    """A compiled stage and the rows it works on: `inputs` and `outputs` are lists of (array, first row, rows) in its order."""

    def __init__(self, code: RowCode, inputs: Sequence[Block], outputs: Sequence[Block]) -> None:
        self.code, self.inputs, self.outputs = code, tuple(inputs), tuple(outputs)
        self.constants = code.lane_constants(inputs[0][0].shape[-1] if inputs else outputs[0][0].shape[-1])
        self._tables: list[Array] = []  # address tables, which must live as long as the call

    def words(self, width: int, memory: ArrayPrecision) -> tuple[int, int]:
        """Return the address of the code for `width` lanes, and of its table of rows."""
        blocks = [*self.inputs, (self.constants, 0, len(self.constants)), *self.outputs]
        table = np.array([address for block in blocks for address in _row_addresses(block, memory)], dtype=np.int64)
        self._tables.append(table)
        return self.code.row_kernel(width, memory.precision), int(table.ctypes.data)


def _row_addresses(block: Block, memory: ArrayPrecision) -> range:
    array, first, rows = block
    if not rows:
        return range(0)
    start, stride = memory.address(array), array.shape[-1] * (8 if memory.precision.dtype == "float64" else 4)
    return range(start + first * stride, start + (first + rows) * stride, stride)


Argument: TypeAlias = int | Array | Machine | RowCall
"""An argument of an operation: a number, memory, or code with its memory."""


class FlightLoop:
    """Operations with their arguments in memory, ready to run at one vector width."""

    def __init__(self, operations: tuple[Operation, ...], width: int, memory: ArrayPrecision) -> None:
        self.code = _code(memory.precision.dtype, width)
        self.arguments = [
            np.array([word for value in operation.arguments for word in _words(value, width, memory)], dtype=np.int64)
            for operation in operations
        ]
        self._references = [
            value for operation in operations for value in operation.arguments if not isinstance(value, int)
        ]
        for operation, words in zip(operations, self.arguments, strict=True):
            if len(words) != len(OPERATION_TYPES[operation.operation_type].arguments):
                raise ValueError(
                    f"{operation.operation_type}: {len(words)} arguments; "
                    f"expected {', '.join(OPERATION_TYPES[operation.operation_type].arguments)}"
                )
        table = [
            (self.code.address[operation.operation_type], words.ctypes.data, operation.due)
            for operation, words in zip(operations, self.arguments, strict=True)
        ]
        self.table = np.array(table, dtype=np.int64).reshape(-1, 3)
        self._table_address = self.table.ctypes.data

    def run(
        self,
        rows: int,
        start: tuple[int, int],
        end: tuple[int, int],
        lanes: tuple[int, int],
        n: int,
        *,
        holds_lock: bool,
        tile_counter: int = 0,
    ) -> int:
        """Run from one (row, operation) to before another.

        Returns `DONE`, or row × operations + operation of the operation that stopped the loop.

        Args:
            rows: address of the schedule.
            start: first (row, operation).
            end: (row, operation) after the last.
            lanes: first of the n drones and the one after the last, processed tile by tile; a stop ends the loop.
            n: drone count of the arrays.
            holds_lock: hold the interpreter lock during the call.
            tile_counter: address of a counter that starts at the first lane, from which several threads take tiles; 0: none.
        """
        call = self.code.call_with_lock if holds_lock else self.code.call
        return int(call(self._table_address, len(self.table), rows, *start, *end, *lanes, n, tile_counter))


def _words(value: Argument, width: int, memory: ArrayPrecision) -> tuple[int, ...]:
    if isinstance(value, RowCall):
        return value.words(width, memory)
    if isinstance(value, Machine):
        carry, held_inputs = memory.address(value.carry), memory.address(value.held_inputs)
        return value.scan(width, memory.precision), carry, held_inputs * (value.n == 1), held_inputs * (value.n > 1)
    return (memory.address(value) if isinstance(value, np.ndarray) else int(value),)


class _FlightLoopCode(NamedTuple):
    call: Callable[..., int]
    call_with_lock: Callable[..., int]
    address: dict[str, int]
    engine: object


@cache
def _code(dtype: str, width: int) -> _FlightLoopCode:
    module = new_module()
    for name, operation_type in OPERATION_TYPES.items():
        _emit_operation(module, name, operation_type, dtype, width)
    _emit_tiles(module, _emit_walk(module), width)
    engine = compile_engine(str(module), OPTIMISATION_LEVEL)
    types = [ctypes.c_int64] * 12
    address = engine.get_function_address("tiles")
    addresses = {name: engine.get_function_address(name) for name in OPERATION_TYPES}
    return _FlightLoopCode(ctypes.CFUNCTYPE(*types)(address), ctypes.PYFUNCTYPE(*types)(address), addresses, engine)


# The loop over rows and operations ----------------------------------------------------------------------------------

_POINTER = INDEX.as_pointer()
_OPERATION = ir.FunctionType(INDEX, [_POINTER, INDEX, INDEX, _POINTER])
"""operation(arguments, lane, n, row) → 0, or 1 to stop."""


def _emit_tiles(module: ir.Module, walk: ir.Function, width: int) -> None:
    """Emit tiles(…, first lane, last lane, n, counter): the loop for every tile, until one stops.

    If there is a shared counter, threads take the next tile from it, so that no thread waits for a slow one.
    """
    function = ir.Function(module, ir.FunctionType(INDEX, [_POINTER, INDEX, _POINTER] + [INDEX] * 8), "tiles")
    *arguments, first, last, n, shared = function.args
    entry, next_tile, tile, done = map(function.append_basic_block, ("entry", "next", "tile", "done"))
    builder = ir.IRBuilder(entry)
    local_counter = builder.alloca(INDEX)
    builder.store(first, local_counter)
    is_shared = builder.icmp_signed("!=", shared, _number(0))
    counter = builder.select(is_shared, builder.inttoptr(shared, _POINTER), local_counter)
    builder.branch(next_tile)
    builder = ir.IRBuilder(next_tile)
    lane = builder.atomic_rmw("add", counter, _number(width), "monotonic")
    builder.cbranch(builder.icmp_signed("<", lane, last), tile, done)
    builder = ir.IRBuilder(tile)
    status = builder.call(walk, [*arguments, lane, n])
    builder.cbranch(builder.icmp_signed("==", status, _number(DONE)), next_tile, done)
    builder = ir.IRBuilder(done)
    result = builder.phi(INDEX)
    for value, block in ((_number(DONE), next_tile), (status, tile)):
        result.add_incoming(value, block)
    builder.ret(result)


def _emit_walk(module: ir.Module) -> ir.Function:
    """Emit walk(table, operations, rows, first row, first operation, last row, last operation, lane, n) → its stop, or −1."""
    function = ir.Function(module, ir.FunctionType(INDEX, [_POINTER, INDEX, _POINTER] + [INDEX] * 6), "walk")
    align_stack(function)
    table, count, rows, first_row, first, last_row, last, lane, n = function.args
    blocks = {
        name: function.append_basic_block(name) for name in ("entry", "row", "each", "look", "call", "next", "on")
    }
    stopped, done = function.append_basic_block("stopped"), function.append_basic_block("done")
    builder = ir.IRBuilder(blocks["entry"])
    builder.branch(blocks["row"])

    builder = ir.IRBuilder(blocks["row"])
    row, begin = builder.phi(INDEX), builder.phi(INDEX)
    row.add_incoming(first_row, blocks["entry"])
    begin.add_incoming(first, blocks["entry"])
    row_pointer = builder.gep(rows, [builder.mul(row, _number(len(ROW_FIELDS)))])
    due = builder.load(builder.gep(row_pointer, [_number(ROW_FIELDS.index("due"))]))
    is_last = builder.icmp_signed("==", row, last_row)
    end = builder.select(is_last, last, count)
    builder.cbranch(builder.icmp_signed(">", row, last_row), done, blocks["each"])

    builder = ir.IRBuilder(blocks["each"])
    operation_index = builder.phi(INDEX)
    operation_index.add_incoming(begin, blocks["row"])
    builder.cbranch(builder.icmp_signed("<", operation_index, end), blocks["look"], blocks["on"])

    builder = ir.IRBuilder(blocks["look"])
    entry = builder.gep(table, [builder.mul(operation_index, _number(3))])
    is_due = builder.and_(builder.load(builder.gep(entry, [_number(2)])), due)
    builder.cbranch(builder.icmp_signed("==", is_due, _number(0)), blocks["next"], blocks["call"])

    builder = ir.IRBuilder(blocks["call"])
    operation = builder.inttoptr(builder.load(entry), _OPERATION.as_pointer())
    arguments = builder.inttoptr(builder.load(builder.gep(entry, [_number(1)])), _POINTER)
    status = builder.call(operation, [arguments, lane, n, row_pointer])
    builder.cbranch(builder.icmp_signed("==", status, _number(0)), blocks["next"], stopped)

    builder = ir.IRBuilder(blocks["next"])
    next_operation = builder.add(operation_index, _number(1))
    operation_index.add_incoming(next_operation, blocks["next"])
    builder.branch(blocks["each"])

    builder = ir.IRBuilder(blocks["on"])
    next_row = builder.add(row, _number(1))
    row.add_incoming(next_row, blocks["on"])
    begin.add_incoming(_number(0), blocks["on"])
    builder.branch(blocks["row"])

    builder = ir.IRBuilder(stopped)
    builder.ret(builder.add(builder.mul(row, count), operation_index))
    ir.IRBuilder(done).ret(_number(DONE))
    return function


# Operations ---------------------------------------------------------------------------------------------------------


def _emit_operation(module: ir.Module, name: str, operation_type: OperationType, dtype: str, width: int) -> None:
    function = ir.Function(module, _OPERATION, name)
    align_stack(function)
    body = _OperationBody(function, operation_type.arguments, dtype, width)
    status = operation_type.emit(body)
    body.builder.ret(status if status is not None else _number(0))


class _OperationBody:
    """The function of an operation while it is emitted: arguments by name, lane, n, and helpers to load, store and loop."""

    def __init__(self, function: ir.Function, names: tuple[str, ...], dtype: str, width: int) -> None:
        self.function, self.names, self.width = function, names, width
        self.element = element_type(dtype)
        self.vector = ir.VectorType(self.element, width)
        self.arguments, self.lane, self.n, self.row = function.args
        self.builder = ir.IRBuilder(function.append_basic_block("entry"))

    def __getitem__(self, name: str) -> ir.Value:
        """Load an argument as an integer."""
        return self.builder.load(self.builder.gep(self.arguments, [_number(self.names.index(name))]))

    def row_field(self, name: str) -> ir.Value:
        """Load a field of the current row of the schedule."""
        word = self.builder.load(self.builder.gep(self.row, [_number(ROW_FIELDS.index(name))]))
        return self.builder.bitcast(word, DOUBLE) if name in ("dt", "time") else word

    def array(self, name: str) -> ir.Value:
        return self.builder.inttoptr(self[name], self.element.as_pointer())

    def load(self, base: ir.Value, offset: ir.Value) -> ir.Value:
        return load_vector(self.builder, base, offset, self.vector)

    def store(self, value: ir.Value, base: ir.Value, offset: ir.Value) -> None:
        store_vector(self.builder, value, base, offset)

    def splat(self, scalar: ir.Value) -> ir.Value:
        return splat(self.builder, scalar, self.width)

    def any(self, condition: ir.Value) -> ir.Value:
        """Emit 1 if a condition holds in any of the lanes, else 0."""
        builder, is_any = self.builder, None
        for lane in range(self.width):
            in_lane = builder.extract_element(condition, ir.Constant(INT32, lane))
            is_any = in_lane if is_any is None else builder.or_(is_any, in_lane)
        return builder.zext(is_any, INDEX)

    def range_loop(self, count: ir.Value, body: Callable[[ir.Value], None]) -> None:
        """Emit body(k) for k = 0 … count − 1."""
        entry, loop_block, after = (self.builder.block, *map(self.function.append_basic_block, ("turn", "after")))
        self.builder.cbranch(self.builder.icmp_signed(">", count, _number(0)), loop_block, after)
        self.builder = ir.IRBuilder(loop_block)
        k = self.builder.phi(INDEX)
        k.add_incoming(_number(0), entry)
        body(k)
        next_k = self.builder.add(k, _number(1))
        k.add_incoming(next_k, self.builder.block)
        self.builder.cbranch(self.builder.icmp_signed("<", next_k, count), loop_block, after)
        self.builder = ir.IRBuilder(after)

    def if_then(self, condition: ir.Value, body: Callable[[], None]) -> None:
        """Emit body() under a condition."""
        then, after = map(self.function.append_basic_block, ("then", "else"))
        self.builder.cbranch(condition, then, after)
        self.builder = ir.IRBuilder(then)
        body()
        self.builder.branch(after)
        self.builder = ir.IRBuilder(after)

    def row_offset(self, k: ir.Value) -> ir.Value:
        """Return the offset of row k of an array at this lane."""
        return self.builder.add(self.builder.mul(k, self.n), self.lane)

    def tick(self) -> ir.Value:
        """⌊(t − offset) / period⌋ − first."""
        builder = self.builder
        count = builder.sdiv(builder.sub(self.row_field("time_us"), self["offset"]), self["period"])
        return builder.sub(count, builder.load(builder.inttoptr(self["first"], _POINTER)))


def _scan(body: _OperationBody, steps: ir.Value) -> None:
    builder, pointer = body.builder, body.element.as_pointer()
    scan_type = ir.FunctionType(ir.VoidType(), [pointer] * 5 + [INDEX] * 5).as_pointer()
    null, end = ir.Constant(pointer, None), builder.add(body.lane, _number(body.width))
    arrays = [body.array("carry"), body.array("uniform"), body.array("varying"), null, null]
    never_record = builder.add(steps, _number(1))
    builder.call(builder.inttoptr(body["scan"], scan_type), [*arrays, body.lane, end, body.n, steps, never_record])


def _step(body: _OperationBody) -> None:
    """Run the physics steps of the row, with its step length."""
    builder, dt = body.builder, body.row_field("dt")
    if body.element != DOUBLE:
        dt = builder.fptrunc(dt, body.element)
    body.store(body.splat(dt), body.array("dt"), body.lane)
    _scan(body, body.row_field("steps"))


def _call(body: _OperationBody) -> None:
    """outputs ← stage(inputs), on the rows of its table."""
    stage_type = ir.FunctionType(ir.VoidType(), [_POINTER, INDEX]).as_pointer()
    rows = body.builder.inttoptr(body["rows"], _POINTER)
    body.builder.call(body.builder.inttoptr(body["function"], stage_type), [rows, body.lane])


def _emit_copy(body: _OperationBody, source: ir.Value, target: ir.Value) -> None:
    body.range_loop(
        body["fields"], lambda k: body.store(body.load(source, body.row_offset(k)), target, body.row_offset(k))
    )


def _copy(body: _OperationBody) -> None:
    """target ← source."""
    _emit_copy(body, body.array("source"), body.array("target"))


def _add(body: _OperationBody) -> None:
    """target ← target + source."""
    source, target = body.array("source"), body.array("target")

    def add_row(k: ir.Value) -> None:
        offset = body.row_offset(k)
        body.store(body.builder.fadd(body.load(target, offset), body.load(source, offset)), target, offset)

    body.range_loop(body["fields"], add_row)


def _clock(body: _OperationBody) -> None:
    """target ← time  [s]."""
    time = body.row_field("time")
    if body.element != DOUBLE:
        time = body.builder.fptrunc(time, body.element)
    body.store(body.splat(time), body.array("target"), body.lane)


def _take(body: _OperationBody) -> None:
    """target ← table[tick], (ticks, fields, n)."""
    row = body.builder.mul(body.builder.mul(body.tick(), body["fields"]), body.n)
    _emit_copy(body, body.builder.gep(body.array("table"), [row]), body.array("target"))


def _take_shared(body: _OperationBody) -> None:
    """target ← table[tick], (ticks, fields): one value for all lanes."""
    row = body.builder.gep(body.array("table"), [body.builder.mul(body.tick(), body["fields"])])

    def copy_row(k: ir.Value) -> None:
        scalar = body.builder.load(body.builder.gep(row, [k]))
        body.store(body.splat(scalar), body.array("target"), body.row_offset(k))

    body.range_loop(body["fields"], copy_row)


def _put(body: _OperationBody) -> None:
    """table[tick, skipped:] ← source; `place` is the address of the table's address."""
    builder = body.builder
    row = builder.add(builder.mul(body.tick(), body["row_fields"]), body["skipped"])
    table_address = builder.load(builder.inttoptr(body["place"], _POINTER))
    target = builder.gep(builder.inttoptr(table_address, body.element.as_pointer()), [builder.mul(row, body.n)])
    _emit_copy(body, body.array("source"), target)


def _draw(body: _OperationBody) -> None:
    """target ← standard normals of this tick, bit-identical to `samara.core.random.normals`."""
    tick = body.builder.sdiv(body.row_field("time_us"), body["period"])
    integers = ir.VectorType(INDEX, body.width)

    def load_integers(name: str, row: int) -> Vector:
        index = body.builder.add(body.builder.mul(_number(row), body.n), body.lane)
        pointer = body.builder.gep(body.builder.inttoptr(body[name], _POINTER), [index])
        return Vector(body.builder, body.builder.load(body.builder.bitcast(pointer, integers.as_pointer()), align=8))

    def block(k: ir.Value) -> None:
        key, drone = (load_integers("keys", 0), load_integers("keys", 1)), load_integers("numbers", 0)
        builder = body.builder
        low, high = builder.and_(tick, _number(0xFFFFFFFF)), builder.lshr(tick, _number(32))
        block_word, low_word, high_word = (Vector(builder, body.splat(word)) for word in (k, low, high))
        words = philox((block_word, drone, low_word, high_word), key)
        for word_index, word in enumerate(words):
            row = body.builder.add(body.builder.mul(k, _number(4)), _number(word_index))

            def store_normal(word: Vector = word, row: ir.Value = row) -> None:
                word.builder = body.builder
                normal = normal_lanes(word).value
                if body.element != DOUBLE:
                    normal = body.builder.fptrunc(normal, body.vector)
                body.store(normal, body.array("target"), body.row_offset(row))

            body.if_then(body.builder.icmp_signed("<", row, body["count"]), store_normal)

    blocks = body.builder.sdiv(body.builder.add(body["count"], _number(3)), _number(4))
    body.range_loop(blocks, block)


def _watch(body: _OperationBody) -> ir.Value:
    """Stop if a number is not 0."""
    value, zero = body.load(body.array("array"), body.lane), ir.Constant(body.vector, [0.0] * body.width)
    return body.any(body.builder.fcmp_unordered("!=", value, zero))


_SCAN = ("scan", "carry", "uniform", "varying")
_TICK = ("period", "offset", "first")
OPERATION_TYPES = {
    "step": OperationType((*_SCAN, "dt"), _step),
    "call": OperationType(("function", "rows"), _call),
    "clock": OperationType(("target",), _clock),
    "copy": OperationType(("source", "target", "fields"), _copy),
    "add": OperationType(("source", "target", "fields"), _add),
    "take": OperationType(("table", "target", "fields", *_TICK), _take),
    "take_shared": OperationType(("table", "target", "fields", *_TICK), _take_shared),
    "put": OperationType(("source", "place", "fields", "row_fields", "skipped", *_TICK), _put),
    "draw": OperationType(("keys", "numbers", "target", "count", "period"), _draw),
    "watch": OperationType(("array",), _watch),
}
"""The operations of a schedule. Arrays are (fields, n) of the loop's type, `keys` (2, n) and `numbers` (n) of 64-bit integers.

`place` is an array of one element with the address of a table. The row of a table is ⌊(t − offset)/period⌋ − `first`, where
`first` is an array of one element.
"""
