"""The loop of a flight in machine code: a schedule of instants, and at each the operations that are due, in their order.

    for row in rows:                 # time, how many physics steps lead to it and how long they are, what is due
        for operation in operations:
            if operation.due & row.due:
                operation(lane, n, row)

An operation moves the physics, calls a compiled stage on the rows of its slots, draws random numbers, takes a row from a table
or puts one into it, or stops the loop where Python is needed. None of them knows what it computes: machine code that was
compiled for a vehicle, a controller or a filter is called by its address, with the addresses of the rows it reads and writes.
So nothing is compiled anew for another schedule or another layout of slots.

Arrays are component-first, (components, n); a call works on the `width` lanes that begin at `lane`.
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
    element_type,
    engine_of,
    load_vector,
    new_module,
    splat,
    store_vector,
)
from samara.compiler.llvm.codegen import index as _number
from samara.compiler.llvm.math import Vector
from samara.core.random import normal_in_lanes, philox
from samara.core.types import Array

ROW = ("time_us", "steps", "due", "dt", "time")
"""A row of the schedule, eight bytes each: integers, but for the length of a physics step and the time, doubles in seconds."""
EFFORT = 3
DONE = -1


class Operation(NamedTuple):
    """A kind of `KINDS`, the bits of what it is due with, and its arguments in the kind's order: whole numbers and arrays

    A `samara.compiler.compiled_step.Machine` stands for the first four of what runs one. Arrays stay where they are
    as long as the
    operation is walked through: they are its memory.
    """

    kind: str
    due: int
    arguments: "tuple[Argument, ...]"


Block = tuple[Array, int, int]
"""Some rows of an array (rows, n): the array, the first of them, and how many."""


class Kind(NamedTuple):
    """What an operation takes, by name, and what emits its body: (emitter) → 1 where the loop is to stop, else 0."""

    arguments: tuple[str, ...]
    emit: "Callable[[_Body], ir.Value | None]"


class Memory:
    """Where arrays of doubles are for a walk of some precision: in their place, or copies of them in single precision."""

    def __init__(self, precision: Precision = STRICT) -> None:
        self.precision = precision
        self._copies: dict[int, tuple[Array, Array]] = {}  # by address of the whole array: it, and its copy

    def address(self, array: Array) -> int:
        """Of an array that is a block; integers stay where they are"""
        if not array.flags.c_contiguous:
            raise ValueError(
                f"an array of shape {array.shape} whose rows are not side by side; expected one that is a block"
            )
        if self.precision.dtype == "float64" or array.dtype != np.float64:
            return int(array.ctypes.data)
        whole = array
        while isinstance(whole.base, np.ndarray):
            whole = whole.base
        at = int(whole.ctypes.data)
        if at not in self._copies:
            self._copies[at] = whole, whole.astype(np.float32)
        return int(self._copies[at][1].ctypes.data) + (int(array.ctypes.data) - at) // 2

    def fill(self) -> None:
        """The copies from what they are of"""
        for whole, copy in self._copies.values():
            copy[...] = whole

    def give_back(self) -> None:
        """What has become of the copies"""
        for whole, copy in self._copies.values():
            whole[...] = copy


class RowCode(Protocol):
    """A compiled stage: its code for so many lanes, and the constants of its lanes (`samara.compiler.compiled_step`)"""

    def lane_constants(self, n: int) -> Array: ...

    def row_kernel(self, width: int, precision: Precision) -> int: ...


class RowCall:
    """A compiled stage and the rows it works on: `inputs` and `outputs` are lists of (array, first row, rows) in its order."""

    def __init__(self, code: RowCode, inputs: Sequence[Block], outputs: Sequence[Block]) -> None:
        self.code, self.inputs, self.outputs = code, tuple(inputs), tuple(outputs)
        self.constants = code.lane_constants(inputs[0][0].shape[-1] if inputs else outputs[0][0].shape[-1])
        self._tables: list[Array] = []  # of addresses; they live as long as the call

    def words(self, width: int, memory: Memory) -> tuple[int, int]:
        """The address of the code for so many lanes, and of its table of rows"""
        blocks = [*self.inputs, (self.constants, 0, len(self.constants)), *self.outputs]
        table = np.array([at for block in blocks for at in _row_addresses(block, memory)], dtype=np.int64)
        self._tables.append(table)
        return self.code.row_kernel(width, memory.precision), int(table.ctypes.data)


def _row_addresses(block: Block, memory: Memory) -> range:
    array, first, rows = block
    if not rows:
        return range(0)
    start, stride = memory.address(array), array.shape[-1] * (8 if memory.precision.dtype == "float64" else 4)
    return range(start + first * stride, start + (first + rows) * stride, stride)


Argument: TypeAlias = int | Array | Machine | RowCall
"""Of an operation: a number, memory, or code with its memory"""


class Walk:
    """Operations with their arguments in memory, ready to be walked through at one width."""

    def __init__(self, operations: tuple[Operation, ...], width: int, memory: Memory) -> None:
        self.code = _code(memory.precision.dtype, width)
        self.arguments = [
            np.array([word for value in own.arguments for word in _words(value, width, memory)], dtype=np.int64)
            for own in operations
        ]
        self._kept = [value for own in operations for value in own.arguments if not isinstance(value, int)]
        for own, words in zip(operations, self.arguments, strict=True):
            if len(words) != len(KINDS[own.kind].arguments):
                raise ValueError(f"{own.kind}: {len(words)} arguments; expected {', '.join(KINDS[own.kind].arguments)}")
        table = [
            (self.code.address[own.kind], words.ctypes.data, own.due)
            for own, words in zip(operations, self.arguments, strict=True)
        ]
        self.table = np.array(table, dtype=np.int64).reshape(-1, 3)
        self._at = self.table.ctypes.data

    def run(
        self,
        rows: int,
        start: tuple[int, int],
        end: tuple[int, int],
        lanes: tuple[int, int],
        n: int,
        *,
        briefly: bool,
        shared: int = 0,
    ) -> int:
        """From one (row, operation) to before another; where an operation stopped it, row × operations + operation

        `rows` is the address of the schedule, `lanes` the first of n and the one after the last: tile after tile, and none
        after one that was stopped. Else `DONE`. Several threads that are given the address of a `shared` number, which begins
        as the first lane, share the tiles among them.
        """
        call = self.code.briefly if briefly else self.code.call
        return int(call(self._at, len(self.table), rows, *start, *end, *lanes, n, shared))


def _words(value: Argument, width: int, memory: Memory) -> tuple[int, ...]:
    if isinstance(value, RowCall):
        return value.words(width, memory)
    if isinstance(value, Machine):
        carry, held = memory.address(value.carry), memory.address(value.held)
        return value.scan(width, memory.precision), carry, held * (value.n == 1), held * (value.n > 1)
    return (memory.address(value) if isinstance(value, np.ndarray) else int(value),)


class _Code(NamedTuple):
    call: Callable[..., int]
    briefly: Callable[..., int]
    address: dict[str, int]
    engine: object


@cache
def _code(dtype: str, width: int) -> _Code:
    module = new_module()
    for name, kind in KINDS.items():
        _emit_operation(module, name, kind, dtype, width)
    _emit_tiles(module, _emit_walk(module), width)
    engine = engine_of(str(module), EFFORT)
    types = [ctypes.c_int64] * 12
    address = engine.get_function_address("tiles")
    addresses = {name: engine.get_function_address(name) for name in KINDS}
    return _Code(ctypes.CFUNCTYPE(*types)(address), ctypes.PYFUNCTYPE(*types)(address), addresses, engine)


# The walk -----------------------------------------------------------------------------------------------------------

_POINTER = INDEX.as_pointer()
_OPERATION = ir.FunctionType(INDEX, [_POINTER, INDEX, INDEX, _POINTER])
"""operation(arguments, lane, n, row) → 0, or 1 to stop"""


def _emit_tiles(module: ir.Module, walk: ir.Function, width: int) -> None:
    """tiles(…, first lane, last lane, n, counter): the walk of every tile, until one is stopped

    Where there is a counter, threads take the next tile from it, one after the other, and nobody waits for a slow one.
    """
    function = ir.Function(module, ir.FunctionType(INDEX, [_POINTER, INDEX, _POINTER] + [INDEX] * 8), "tiles")
    *given, first, last, n, shared = function.args
    entry, following, tile, done = map(function.append_basic_block, ("entry", "next", "tile", "done"))
    builder = ir.IRBuilder(entry)
    own = builder.alloca(INDEX)
    builder.store(first, own)
    is_shared = builder.icmp_signed("!=", shared, _number(0))
    counter = builder.select(is_shared, builder.inttoptr(shared, _POINTER), own)
    builder.branch(following)
    builder = ir.IRBuilder(following)
    lane = builder.atomic_rmw("add", counter, _number(width), "monotonic")
    builder.cbranch(builder.icmp_signed("<", lane, last), tile, done)
    builder = ir.IRBuilder(tile)
    answer = builder.call(walk, [*given, lane, n])
    builder.cbranch(builder.icmp_signed("==", answer, _number(DONE)), following, done)
    builder = ir.IRBuilder(done)
    told = builder.phi(INDEX)
    for value, block in ((_number(DONE), following), (answer, tile)):
        told.add_incoming(value, block)
    builder.ret(told)


def _emit_walk(module: ir.Module) -> ir.Function:
    """walk(table, operations, rows, first row, first operation, last row, last operation, lane, n) → where it stopped, or −1"""
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
    here = builder.gep(rows, [builder.mul(row, _number(len(ROW)))])
    due = builder.load(builder.gep(here, [_number(ROW.index("due"))]))
    is_last = builder.icmp_signed("==", row, last_row)
    end = builder.select(is_last, last, count)
    builder.cbranch(builder.icmp_signed(">", row, last_row), done, blocks["each"])

    builder = ir.IRBuilder(blocks["each"])
    at = builder.phi(INDEX)
    at.add_incoming(begin, blocks["row"])
    builder.cbranch(builder.icmp_signed("<", at, end), blocks["look"], blocks["on"])

    builder = ir.IRBuilder(blocks["look"])
    own = builder.gep(table, [builder.mul(at, _number(3))])
    wanted = builder.and_(builder.load(builder.gep(own, [_number(2)])), due)
    builder.cbranch(builder.icmp_signed("==", wanted, _number(0)), blocks["next"], blocks["call"])

    builder = ir.IRBuilder(blocks["call"])
    operation = builder.inttoptr(builder.load(own), _OPERATION.as_pointer())
    arguments = builder.inttoptr(builder.load(builder.gep(own, [_number(1)])), _POINTER)
    answer = builder.call(operation, [arguments, lane, n, here])
    builder.cbranch(builder.icmp_signed("==", answer, _number(0)), blocks["next"], stopped)

    builder = ir.IRBuilder(blocks["next"])
    following = builder.add(at, _number(1))
    at.add_incoming(following, blocks["next"])
    builder.branch(blocks["each"])

    builder = ir.IRBuilder(blocks["on"])
    next_row = builder.add(row, _number(1))
    row.add_incoming(next_row, blocks["on"])
    begin.add_incoming(_number(0), blocks["on"])
    builder.branch(blocks["row"])

    builder = ir.IRBuilder(stopped)
    builder.ret(builder.add(builder.mul(row, count), at))
    ir.IRBuilder(done).ret(_number(DONE))
    return function


# Operations ---------------------------------------------------------------------------------------------------------


def _emit_operation(module: ir.Module, name: str, kind: Kind, dtype: str, width: int) -> None:
    function = ir.Function(module, _OPERATION, name)
    align_stack(function)
    body = _Body(function, kind.arguments, dtype, width)
    answer = kind.emit(body)
    body.builder.ret(answer if answer is not None else _number(0))


class _Body:
    """Where an operation is emitted: its arguments by name, the lane, n, and what it needs to load, store and loop."""

    def __init__(self, function: ir.Function, names: tuple[str, ...], dtype: str, width: int) -> None:
        self.function, self.names, self.width = function, names, width
        self.element = element_type(dtype)
        self.vector = ir.VectorType(self.element, width)
        self.arguments, self.lane, self.n, self.row = function.args
        self.builder = ir.IRBuilder(function.append_basic_block("entry"))

    def __getitem__(self, name: str) -> ir.Value:
        """An argument, as an integer"""
        return self.builder.load(self.builder.gep(self.arguments, [_number(self.names.index(name))]))

    def now(self, name: str) -> ir.Value:
        """What the row says of this instant"""
        word = self.builder.load(self.builder.gep(self.row, [_number(ROW.index(name))]))
        return self.builder.bitcast(word, DOUBLE) if name in ("dt", "time") else word

    def array(self, name: str) -> ir.Value:
        return self.builder.inttoptr(self[name], self.element.as_pointer())

    def load(self, base: ir.Value, at: ir.Value) -> ir.Value:
        return load_vector(self.builder, base, at, self.vector)

    def store(self, value: ir.Value, base: ir.Value, at: ir.Value) -> None:
        store_vector(self.builder, value, base, at)

    def splat(self, scalar: ir.Value) -> ir.Value:
        return splat(self.builder, scalar, self.width)

    def any(self, condition: ir.Value) -> ir.Value:
        """Whether a condition holds in one of the lanes, 1 or 0"""
        builder, found = self.builder, None
        for lane in range(self.width):
            own = builder.extract_element(condition, ir.Constant(INT32, lane))
            found = own if found is None else builder.or_(found, own)
        return builder.zext(found, INDEX)

    def each(self, count: ir.Value, body: Callable[[ir.Value], None]) -> None:
        """body(k) for k = 0 … count − 1"""
        before, turn, after = (self.builder.block, *map(self.function.append_basic_block, ("turn", "after")))
        self.builder.cbranch(self.builder.icmp_signed(">", count, _number(0)), turn, after)
        self.builder = ir.IRBuilder(turn)
        k = self.builder.phi(INDEX)
        k.add_incoming(_number(0), before)
        body(k)
        following = self.builder.add(k, _number(1))
        k.add_incoming(following, self.builder.block)
        self.builder.cbranch(self.builder.icmp_signed("<", following, count), turn, after)
        self.builder = ir.IRBuilder(after)

    def only(self, condition: ir.Value, body: Callable[[], None]) -> None:
        """body() where a condition holds"""
        then, after = map(self.function.append_basic_block, ("then", "else"))
        self.builder.cbranch(condition, then, after)
        self.builder = ir.IRBuilder(then)
        body()
        self.builder.branch(after)
        self.builder = ir.IRBuilder(after)

    def element_of(self, k: ir.Value) -> ir.Value:
        """The place of row k of an array at this lane"""
        return self.builder.add(self.builder.mul(k, self.n), self.lane)

    def tick(self) -> ir.Value:
        """⌊(t − offset) / period⌋ − first"""
        builder = self.builder
        count = builder.sdiv(builder.sub(self.now("time_us"), self["offset"]), self["period"])
        return builder.sub(count, builder.load(builder.inttoptr(self["first"], _POINTER)))


def _scan(body: _Body, steps: ir.Value) -> None:
    builder, pointer = body.builder, body.element.as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [pointer] * 5 + [INDEX] * 5).as_pointer()
    nowhere, end = ir.Constant(pointer, None), builder.add(body.lane, _number(body.width))
    arrays = [body.array("carry"), body.array("uniform"), body.array("varying"), nowhere, nowhere]
    past = builder.add(steps, _number(1))
    builder.call(builder.inttoptr(body["scan"], kind), [*arrays, body.lane, end, body.n, steps, past])


def _step(body: _Body) -> None:
    """So many physics steps as the row says, of its length"""
    builder, dt = body.builder, body.now("dt")
    if body.element != DOUBLE:
        dt = builder.fptrunc(dt, body.element)
    body.store(body.splat(dt), body.array("dt"), body.lane)
    _scan(body, body.now("steps"))


def _call(body: _Body) -> None:
    """outputs ← stage(inputs), on the rows of its table"""
    kind = ir.FunctionType(ir.VoidType(), [_POINTER, INDEX]).as_pointer()
    rows = body.builder.inttoptr(body["rows"], _POINTER)
    body.builder.call(body.builder.inttoptr(body["function"], kind), [rows, body.lane])


def _copied(body: _Body, source: ir.Value, into: ir.Value) -> None:
    body.each(body["fields"], lambda k: body.store(body.load(source, body.element_of(k)), into, body.element_of(k)))


def _copy(body: _Body) -> None:
    """target ← source"""
    _copied(body, body.array("source"), body.array("target"))


def _add(body: _Body) -> None:
    """target ← target + source"""
    source, target = body.array("source"), body.array("target")

    def one(k: ir.Value) -> None:
        at = body.element_of(k)
        body.store(body.builder.fadd(body.load(target, at), body.load(source, at)), target, at)

    body.each(body["fields"], one)


def _clock(body: _Body) -> None:
    """target ← the time  [s]"""
    time = body.now("time")
    if body.element != DOUBLE:
        time = body.builder.fptrunc(time, body.element)
    body.store(body.splat(time), body.array("target"), body.lane)


def _take(body: _Body) -> None:
    """target ← table[tick], (ticks, fields, n)"""
    row = body.builder.mul(body.builder.mul(body.tick(), body["fields"]), body.n)
    _copied(body, body.builder.gep(body.array("table"), [row]), body.array("target"))


def _take_shared(body: _Body) -> None:
    """target ← table[tick], (ticks, fields): one number for all lanes"""
    row = body.builder.gep(body.array("table"), [body.builder.mul(body.tick(), body["fields"])])

    def one(k: ir.Value) -> None:
        alone = body.builder.load(body.builder.gep(row, [k]))
        body.store(body.splat(alone), body.array("target"), body.element_of(k))

    body.each(body["fields"], one)


def _put(body: _Body) -> None:
    """table[tick, skipped:] ← source, the table being where `place` says"""
    builder = body.builder
    row = builder.add(builder.mul(body.tick(), body["row_fields"]), body["skipped"])
    place = builder.load(builder.inttoptr(body["place"], _POINTER))
    into = builder.gep(builder.inttoptr(place, body.element.as_pointer()), [builder.mul(row, body.n)])
    _copied(body, body.array("source"), into)


def _draw(body: _Body) -> None:
    """target ← standard normals of this tick: those of `samara.core.random.normals`, bit for bit"""
    tick = body.builder.sdiv(body.now("time_us"), body["period"])
    integers = ir.VectorType(INDEX, body.width)

    def whole(name: str, row: int) -> Vector:
        index = body.builder.add(body.builder.mul(_number(row), body.n), body.lane)
        at = body.builder.gep(body.builder.inttoptr(body[name], _POINTER), [index])
        return Vector(body.builder, body.builder.load(body.builder.bitcast(at, integers.as_pointer()), align=8))

    def block(k: ir.Value) -> None:
        key, drone = (whole("keys", 0), whole("keys", 1)), whole("numbers", 0)
        builder = body.builder
        low, high = builder.and_(tick, _number(0xFFFFFFFF)), builder.lshr(tick, _number(32))
        own, below, above = (Vector(builder, body.splat(word)) for word in (k, low, high))
        words = philox((own, drone, below, above), key)
        for place, word in enumerate(words):
            row = body.builder.add(body.builder.mul(k, _number(4)), _number(place))

            def keep(word: Vector = word, row: ir.Value = row) -> None:
                word.builder = body.builder
                normal = normal_in_lanes(word).value
                if body.element != DOUBLE:
                    normal = body.builder.fptrunc(normal, body.vector)
                body.store(normal, body.array("target"), body.element_of(row))

            body.only(body.builder.icmp_signed("<", row, body["count"]), keep)

    blocks = body.builder.sdiv(body.builder.add(body["count"], _number(3)), _number(4))
    body.each(blocks, block)


def _watch(body: _Body) -> ir.Value:
    """Stops where a number is not 0"""
    value, zero = body.load(body.array("array"), body.lane), ir.Constant(body.vector, [0.0] * body.width)
    return body.any(body.builder.fcmp_unordered("!=", value, zero))


_SCAN = ("scan", "carry", "uniform", "varying")
_TICK = ("period", "offset", "first")
KINDS = {
    "step": Kind((*_SCAN, "dt"), _step),
    "call": Kind(("function", "rows"), _call),
    "clock": Kind(("target",), _clock),
    "copy": Kind(("source", "target", "fields"), _copy),
    "add": Kind(("source", "target", "fields"), _add),
    "take": Kind(("table", "target", "fields", *_TICK), _take),
    "take_shared": Kind(("table", "target", "fields", *_TICK), _take_shared),
    "put": Kind(("source", "place", "fields", "row_fields", "skipped", *_TICK), _put),
    "draw": Kind(("keys", "numbers", "target", "count", "period"), _draw),
    "watch": Kind(("array",), _watch),
}
"""What a schedule can do. Arrays are (fields, n) of the walk's type, `keys` (2, n) and `numbers` (n) of 64-bit integers.

`place` is the address of a table, as the number in an array of one. A table's row is that of ⌊(t − offset)/period⌋ − `first`,
the number in an array of one.
"""
