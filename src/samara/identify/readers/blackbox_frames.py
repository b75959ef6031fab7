"""Frames of a blackbox log to tables of whole numbers, by machine code that is compiled once and reads any layout.

    for each byte that begins a frame:
        differences ← its bytes, read by read
        rejected, and looked for anew one byte on, where no frame begins after it
        fields ← differences + predictions
        rejected where time goes back, or leaps

Where a main frame was rejected, or bytes begin no frame, main frames that build on others are dropped until one that does not.
Nothing is read behind the bytes: `SPARE`
of them follow the end, more than one read takes, and each read is checked before the next.
"""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import llvmlite.ir as ir
import numpy as np

from samara.compiler.llvm.codegen import INDEX, engine_of
from samara.core.budget import Budget
from samara.core.types import Array
from samara.identify.readers import blackbox_fields as of
from samara.identify.readers.blackbox_header import MOST_FIELDS, Header

EFFORT = 2
SPARE = 64  # bytes: the longest read is eight numbers of five bytes, and their tag
LEAP_US = 10_000_000  # more than this from one main frame to the next is damage
MAX_NUMBERS = 1 << 25  # of a small file
MAX_NUMBERS_PER_BYTE = 16  # fields that do not change take no bytes; real logs have up to three
FIRST_ROWS = 1024

STATE = (
    *("position", "end", "time_field"),
    *("whole", "started", "last", "before", "resumed"),  # whole: frames can build on the rows `last` and `before`
    *("doubted", "doubtful_time"),  # the time of a frame that leapt: where the next one goes on from it, it was right
    *("home", "ended", "rejected", "dropped"),
)
DONE = -1  # else the table that is full

_BYTE, _NUMBER = ir.IntType(8), ir.IntType(32)
_END = b"End of log"
_SPLIT = {  # (first bit, bits) of three numbers in the four bytes that begin with their tag, and how many bytes they take
    of.TAG2_3S32: (((2, 2), (4, 2), (6, 2), 1), ((4, 4), (8, 4), (12, 4), 2), ((2, 6), (10, 6), (18, 6), 3)),
    of.TAG2_3SVARIABLE: (((2, 2), (4, 2), (6, 2), 1), ((2, 5), (7, 5), (12, 4), 2), ((2, 8), (10, 7), (17, 7), 3)),
}


class Frames(NamedTuple):
    """The fields by name of each table, whether the log says where it ends, and how many frames were rejected and dropped"""

    tables: dict[str, dict[str, Array]]
    ended: bool
    rejected: int
    dropped: int


def with_spare(size: int) -> Array:
    """Room for so many bytes of a file, and for what `frames_in` wants behind them"""
    return np.zeros(size + SPARE, dtype=np.uint8)


def frames_budget(origin: object, size: int) -> Budget:
    """What all logs of a file of `size` bytes may unpack to."""
    return Budget(origin, max_nodes=MAX_NUMBERS + MAX_NUMBERS_PER_BYTE * size)


def frames_in(data: Array, header: Header, budget: Budget | None = None) -> Frames:
    """All frames of one log; `data` is the whole file from `with_spare`"""
    plan = of.plan_of(header)
    if data.dtype != np.uint8 or not data.flags.c_contiguous or len(data) - SPARE < header.end:
        raise ValueError(f"{len(data)} bytes for a log that ends at {header.end}; expected them from with_spare")
    state = np.zeros(len(STATE), dtype=np.int64)
    state[:3] = header.start, header.end, plan.time
    budget = budget or frames_budget("the log", len(data))
    budget.spend_nodes(FIRST_ROWS * int(sum(plan.widths)), "numbers")
    tables = [np.empty((FIRST_ROWS if width else 0, width), dtype=np.int32) for width in plan.widths]
    counts = np.zeros((len(tables), 4), dtype=np.int64)  # address, rows, room, fields
    read, differences = _reader().call, np.empty(MOST_FIELDS + 8, dtype=np.int32)
    arguments = (data, *plan[:5], counts, state, differences)
    while True:
        counts[:, 0] = [own.ctypes.data for own in tables]
        counts[:, 2:] = [own.shape for own in tables]
        full = read(*(own.ctypes.data for own in arguments))
        if full == DONE:
            break
        rows, width = tables[full].shape
        budget.spend_nodes(rows * width, "numbers")
        tables[full] = np.concatenate([tables[full], np.empty((rows, width), dtype=np.int32)])
    named = dict(zip(STATE, state.tolist(), strict=True))
    layouts = {of.TABLES[plan.kinds[plan.letters[ord(own)], 1]]: layout for own, layout in header.layouts.items()}
    found = {
        name: {
            field: table[: int(rows), at].view(np.int32 if signed else np.uint32)
            for at, (field, signed) in enumerate(zip(layouts[name].names, layouts[name].signed, strict=True))
        }
        for name, table, rows in zip(of.TABLES, tables, counts[:, 1], strict=True)
        if name in layouts
    }
    events = tables[-1][: int(counts[-1, 1])]
    found["event"] = {field: events[:, at] for at, field in enumerate(of.EVENT_FIELDS)}
    return Frames(found, bool(named["ended"]), named["rejected"], named["dropped"])


class Reader(NamedTuple):
    """Machine code that reads frames, and what keeps it alive"""

    call: Any
    engine: Any


@cache
def _reader() -> Reader:
    module = ir.Module(name="samara")
    module.triple = llvm.get_default_triple()
    pointers = [_BYTE.as_pointer(), *[INDEX.as_pointer()] * 7, _NUMBER.as_pointer()]
    function = ir.Function(module, ir.FunctionType(INDEX, pointers), "read")
    _Emission(function, _emit_variable(module)).emit()
    engine = engine_of(str(module), EFFORT)
    prototype = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * len(pointers))
    return Reader(prototype(engine.get_function_address("read")), engine)


def _index(value: int) -> ir.Constant:
    return ir.Constant(INDEX, value)


def _number(value: int) -> ir.Constant:
    return ir.Constant(_NUMBER, value)


@contextmanager
def _loop(builder: ir.IRBuilder, count: Any) -> Iterator[tuple[Any, Any]]:
    """for i < count: (i, the block that leaves the loop)"""
    before = builder.block
    test, body, after = map(builder.append_basic_block, ("test", "body", "after"))
    builder.branch(test)
    builder.position_at_end(test)
    i = builder.phi(INDEX)
    i.add_incoming(_index(0), before)
    builder.cbranch(builder.icmp_signed("<", i, count), body, after)
    builder.position_at_end(body)
    yield i, after
    i.add_incoming(builder.add(i, _index(1)), builder.block)
    builder.branch(test)
    builder.position_at_end(after)


def _emit_variable(module: ir.Module) -> ir.Function:
    """variable(data, at, bad) → seven bits of each byte, the lowest first, as long as the eighth is set; five bytes at most"""
    kinds = [_BYTE.as_pointer(), INDEX.as_pointer(), INDEX.as_pointer()]
    function = ir.Function(module, ir.FunctionType(_NUMBER, kinds), "variable")
    function.linkage = "internal"
    function.attributes.add("alwaysinline")
    data, at, bad = function.args
    blocks = [function.append_basic_block(f"byte{i}") for i in range(5)]
    done = function.append_basic_block("done")
    builder = ir.IRBuilder(blocks[0])
    first = builder.load(at)
    value: Any = _number(0)
    found = []
    for i, block in enumerate(blocks):
        builder.position_at_end(block)
        byte = builder.zext(builder.load(builder.gep(data, [builder.add(first, _index(i))])), _NUMBER)
        value = builder.or_(value, builder.shl(builder.and_(byte, _number(127)), _number(7 * i)))
        more = builder.icmp_unsigned(">=", byte, _number(128))
        found.append((value, _index(i + 1), block))
        if i < len(blocks) - 1:
            builder.cbranch(more, blocks[i + 1], done)
        else:
            builder.store(builder.or_(builder.load(bad), builder.zext(more, INDEX)), bad)
            builder.branch(done)
    builder.position_at_end(done)
    result, length = builder.phi(_NUMBER), builder.phi(INDEX)
    for own, taken, block in found:
        result.add_incoming(own, block)
        length.add_incoming(taken, block)
    builder.store(builder.add(first, length), at)
    builder.ret(result)
    return function


class _Emission:
    """read(data, letters, events, kinds, reads, fields, tables, state, differences) → DONE, or the table that is full"""

    def __init__(self, function: ir.Function, variable: ir.Function) -> None:
        names = ("data", "letters", "events", "kinds", "reads", "fields", "tables", "state", "differences")
        self.given = dict(zip(names, function.args, strict=True))
        self.data, self.variable = self.given["data"], variable
        self.builder = builder = ir.IRBuilder(function.append_basic_block("entry"))
        self.at, self.bad = builder.alloca(INDEX), builder.alloca(INDEX)
        self.following = function.append_basic_block("following")

    # Memory ----------------------------------------------------------------------------------------------------------

    def place(self, name: str) -> Any:
        return self.builder.gep(self.given["state"], [_index(STATE.index(name))])

    def now(self, name: str) -> Any:
        return self.builder.load(self.place(name))

    def keep(self, **values: Any) -> None:
        for name, value in values.items():
            self.builder.store(_index(value) if isinstance(value, int) else value, self.place(name))

    def count(self, name: str) -> None:
        self.keep(**{name: self.builder.add(self.now(name), _index(1))})

    def row(self, name: str, at: Any, width: int) -> list[Any]:
        """The words of a row of one of the tables that were given"""
        first = self.builder.mul(at, _index(width))
        return [self.word(name, self.builder.add(first, _index(i))) for i in range(width)]

    def word(self, name: str, at: Any) -> Any:
        return self.builder.load(self.builder.gep(self.given[name], [at]))

    def byte(self, at: Any) -> Any:
        return self.builder.zext(self.builder.load(self.builder.gep(self.data, [at])), INDEX)

    def four_bytes(self, at: Any) -> Any:
        """The lowest first"""
        address = self.builder.bitcast(self.builder.gep(self.data, [at]), _NUMBER.as_pointer())
        return self.builder.load(address, align=1)

    def move(self, count: Any) -> None:
        count = _index(count) if isinstance(count, int) else count
        self.builder.store(self.builder.add(self.builder.load(self.at), count), self.at)

    def put(self, i: Any, value: Any) -> None:
        self.builder.store(value, self.builder.gep(self.given["differences"], [i]))

    @contextmanager
    def when(self, condition: Any) -> Iterator[None]:
        with self.builder.if_then(condition):
            yield

    def go_on(self) -> None:
        """To the next frame; what is emitted after this is never reached"""
        self.builder.branch(self.following)
        self.builder.position_at_end(self.builder.append_basic_block("never"))

    def cases(self, value: Any, cases: dict[int, Callable[[], None]]) -> None:
        """One of them; none where the value is none of theirs"""
        after = self.builder.append_basic_block("after")
        choice = self.builder.switch(value, after)
        for number, emit in cases.items():
            block = self.builder.append_basic_block(f"case{number}")
            choice.add_case(ir.Constant(value.type, number), block)
            self.builder.position_at_end(block)
            emit()
            self.builder.branch(after)
        self.builder.position_at_end(after)

    # Frames ----------------------------------------------------------------------------------------------------------

    def emit(self) -> None:
        builder = self.builder
        builder.branch(self.following)
        builder.position_at_end(self.following)
        start = self.now("position")
        with self.when(builder.icmp_signed(">=", start, self.now("end"))):
            builder.ret(_index(DONE))
            builder.position_at_end(builder.append_basic_block("never"))
        kind = self._kind(start)
        meaning, table, first_read, reads, first_field, fields, needs_home = self.row("kinds", kind, 7)
        address, rows, room, _ = self.row("tables", table, 4)
        with self.when(builder.icmp_signed(">=", rows, room)):
            builder.ret(table)
            builder.position_at_end(builder.append_basic_block("never"))
        self._differences(first_read, reads)
        self._require_frame_after(start, meaning)
        is_inter = builder.icmp_signed("==", meaning, _index(of.INTER))
        lost = builder.and_(is_inter, builder.icmp_signed("==", self.now("whole"), _index(0)))
        homeless = builder.icmp_signed(">", needs_home, self.now("home"))
        with self.when(builder.or_(lost, homeless)):
            self.count("dropped")
            self.go_on()
        numbers = builder.inttoptr(address, _NUMBER.as_pointer())
        into = builder.gep(numbers, [builder.mul(rows, fields)])
        self._add_predictions(into, first_field, fields)
        with self.when(builder.icmp_signed("<=", meaning, _index(of.INTER))):
            self._require_time(into)
            self.keep(before=builder.select(is_inter, self.now("last"), rows), last=rows, whole=1, started=1)
            self.keep(resumed=0, doubted=0)
        with self.when(builder.icmp_signed("==", meaning, _index(of.RESUME))):
            self.keep(resumed=1)
        with self.when(builder.icmp_signed("==", table, _index(of.TABLES.index("home")))):
            self.keep(home=1)
        counted = builder.gep(self.given["tables"], [builder.add(builder.mul(table, _index(4)), _index(1))])
        builder.store(builder.add(rows, _index(1)), counted)
        builder.branch(self.following)

    def _kind(self, start: Any) -> Any:
        """What begins here, `at` set behind its letter; what begins no frame is passed over"""
        builder = self.builder
        kind = builder.alloca(INDEX)
        builder.store(self.word("letters", self.byte(start)), kind)
        builder.store(builder.add(start, _index(1)), self.at)
        builder.store(_index(0), self.bad)
        with self.when(builder.icmp_signed("==", builder.load(kind), _index(of.AN_EVENT))):
            number = self.byte(builder.add(start, _index(1)))
            is_end = self._same(builder.add(start, _index(1)), b"\xff" + _END)
            with self.when(is_end):
                self.keep(ended=1, position=self.now("end"))
                self.go_on()
            of_event = self.word("events", number)
            highest = builder.lshr(self.byte(builder.add(start, _index(2))), _index(7))
            adjusts = builder.zext(builder.icmp_signed("==", number, _index(of.ADJUSTMENT)), INDEX)
            builder.store(builder.add(of_event, builder.mul(highest, adjusts)), kind)
            self.move(1)
        with self.when(builder.icmp_signed("<", builder.load(kind), _index(0))):
            self._reject(start, _index(0))
        return builder.load(kind)

    def _same(self, at: Any, words: bytes) -> Any:
        """Whether these bytes are here, before the end"""
        builder = self.builder
        same = builder.icmp_signed("<=", builder.add(at, _index(len(words))), self.now("end"))
        for i, letter in enumerate(words):
            own = self.byte(builder.add(at, _index(i)))
            same = builder.and_(same, builder.icmp_signed("==", own, _index(letter)))
        return same

    def _reject(self, start: Any, whole: Any) -> None:
        """No frame: one is looked for from the next byte on"""
        self.count("rejected")
        self.keep(whole=whole, position=self.builder.add(start, _index(1)))
        self.go_on()

    def _require_frame_after(self, start: Any, meaning: Any) -> None:
        """Where bytes were lost, what follows a frame is most likely no letter of one"""
        builder, at = self.builder, self.builder.load(self.at)
        end = self.now("end")
        follows = builder.icmp_signed(">=", self.word("letters", self.byte(at)), _index(0))
        fine = builder.and_(
            builder.icmp_signed("==", builder.load(self.bad), _index(0)),
            builder.or_(builder.icmp_signed("==", at, end), builder.and_(builder.icmp_signed("<", at, end), follows)),
        )
        with self.when(builder.not_(fine)):
            is_main = builder.icmp_signed("<=", meaning, _index(of.INTER))
            self._reject(start, builder.select(is_main, _index(0), self.now("whole")))
        self.keep(position=at)

    def _require_time(self, into: Any) -> None:
        """Later than the last main frame, and not by more than `LEAP_US` unless it says so, or two agree"""
        builder = self.builder
        time = builder.load(builder.gep(into, [self.now("time_field")]))
        ahead = builder.sub(time, self._last_time())  # by 32 bits: the clock starts again after 71 minutes
        leap = builder.icmp_signed(">", ahead, _number(LEAP_US))
        doubtful = builder.trunc(self.now("doubtful_time"), _NUMBER)
        since = builder.sub(time, doubtful)
        agree = builder.and_(
            builder.icmp_signed("!=", self.now("doubted"), _index(0)),
            builder.and_(
                builder.icmp_signed(">", since, _number(0)), builder.icmp_signed("<=", since, _number(LEAP_US))
            ),
        )
        said = builder.icmp_signed("!=", self.now("resumed"), _index(0))
        wrong = builder.or_(
            builder.icmp_signed("<=", ahead, _number(0)), builder.and_(leap, builder.not_(builder.or_(said, agree)))
        )
        started = builder.icmp_signed("!=", self.now("started"), _index(0))
        with self.when(builder.and_(started, wrong)):
            self.count("rejected")
            self.keep(whole=0, doubted=1, doubtful_time=builder.zext(time, INDEX))
            self.go_on()

    def _last_time(self) -> Any:
        """Of the last main frame; 0 before there is one"""
        builder = self.builder
        started = builder.icmp_signed("!=", self.now("started"), _index(0))
        with builder.if_else(started) as (then, otherwise):
            with then:
                known = builder.load(builder.gep(self._main("last"), [self.now("time_field")]))
                first = builder.block
            with otherwise:
                second = builder.block
        time = builder.phi(_NUMBER)
        time.add_incoming(known, first)
        time.add_incoming(_number(0), second)
        return time

    def _main(self, name: str) -> Any:
        """A row of the main table"""
        return self._row_of("main", self.now(name))

    def _row_of(self, table: str, at: Any) -> Any:
        address, _, _, width = self.row("tables", _index(of.TABLES.index(table)), 4)
        numbers = self.builder.inttoptr(address, _NUMBER.as_pointer())
        return self.builder.gep(numbers, [self.builder.mul(at, width)])

    # Fields ----------------------------------------------------------------------------------------------------------

    def _add_predictions(self, into: Any, first: Any, count: Any) -> None:
        """field ← difference + prediction, by 32 bits"""
        builder = self.builder
        last, before, time = self._main("last"), self._main("before"), self._last_time()
        homes = self.row("tables", _index(of.TABLES.index("home")), 4)[1]
        home = self._row_of("home", builder.sub(homes, _index(1)))
        result = builder.alloca(_NUMBER)
        with _loop(builder, count) as (i, _):
            predictor, argument = self.row("fields", builder.add(first, i), 2)
            number = builder.trunc(argument, _NUMBER)

            def field(row: Any, at: Any) -> Any:
                return builder.load(builder.gep(row, [at]))

            def give(value: Callable[[], Any]) -> Callable[[], None]:
                return lambda: builder.store(value(), result)

            def line() -> Any:
                return builder.sub(builder.mul(field(last, i), _number(2)), field(before, i))

            def average() -> Any:
                both = builder.add(builder.sext(field(last, i), INDEX), builder.sext(field(before, i), INDEX))
                return builder.trunc(builder.sdiv(both, _index(2)), _NUMBER)

            self.cases(
                predictor,
                {
                    of.CONSTANT: give(lambda: number),
                    of.PREVIOUS: give(lambda: builder.add(field(last, i), number)),
                    of.LINE: give(line),
                    of.AVERAGE: give(average),
                    of.OWN: give(lambda: field(into, argument)),
                    of.HOME: give(lambda: field(home, argument)),
                    of.TIME: give(lambda: time),
                },
            )
            value = builder.add(field(self.given["differences"], i), builder.load(result))
            builder.store(value, builder.gep(into, [i]))

    def _differences(self, first: Any, count: Any) -> None:
        """All of a frame, read by read; none begins behind the end"""
        builder = self.builder
        field = builder.alloca(INDEX)
        builder.store(_index(0), field)
        with _loop(builder, count) as (i, leave):
            encoding, fields = self.row("reads", builder.add(first, i), 2)
            at = builder.load(field)

            def lone(read: Callable[[], Any]) -> Callable[[], None]:
                return lambda: self.put(at, read())

            self.cases(
                encoding,
                {
                    of.SIGNED_VB: lone(self._signed),
                    of.UNSIGNED_VB: lone(self._unsigned),
                    of.NEG_14BIT: lone(self._negative),
                    of.NULL: lone(lambda: _number(0)),
                    of.BYTE: lone(self._byte),
                    of.WORD: lone(self._word),
                    of.TAG8_8SVB: lambda: self._flagged(at, fields),
                    of.TAG8_4S16: lambda: self._nibbles(at),
                    of.TAG2_3S32: lambda: self._three(at, of.TAG2_3S32),
                    of.TAG2_3SVARIABLE: lambda: self._three(at, of.TAG2_3SVARIABLE),
                },
            )
            builder.store(builder.add(at, fields), field)
            beyond = builder.icmp_signed(">", builder.load(self.at), self.now("end"))
            with self.when(beyond):
                builder.store(_index(1), self.bad)
                builder.branch(leave)
                builder.position_at_end(builder.append_basic_block("never"))

    # Encodings -------------------------------------------------------------------------------------------------------

    def _unsigned(self) -> Any:
        return self.builder.call(self.variable, [self.data, self.at, self.bad])

    def _signed(self) -> Any:
        """0, −1, 1, −2 … from 0, 1, 2, 3 …"""
        value = self._unsigned()
        sign = self.builder.neg(self.builder.and_(value, _number(1)))
        return self.builder.xor(self.builder.lshr(value, _number(1)), sign)

    def _negative(self) -> Any:
        """−x of 14 bits"""
        return self.builder.neg(self._part(self._unsigned(), _number(18), _number(14)))

    def _byte(self) -> Any:
        value = self.builder.trunc(self.byte(self.builder.load(self.at)), _NUMBER)
        self.move(1)
        return value

    def _word(self) -> Any:
        value = self.four_bytes(self.builder.load(self.at))
        self.move(4)
        return value

    def _part(self, word: Any, first: Any, bits: Any) -> Any:
        """Some bits of 32, counted from the highest, as a signed number; 1 bit at least"""
        left = self.builder.shl(word, first)
        return self.builder.ashr(left, self.builder.sub(_number(32), bits))

    def _high_first(self, at: Any) -> Any:
        return self.builder.bswap(self.four_bytes(at))

    def _flagged(self, at: Any, fields: Any) -> None:
        """A bit for each of the fields that is not 0, the lowest for the first, and those"""
        builder = self.builder
        tag = self._byte()
        with _loop(builder, fields) as (i, _):
            place = builder.add(at, i)
            self.put(place, _number(0))
            bit = builder.and_(builder.lshr(tag, builder.trunc(i, _NUMBER)), _number(1))
            with self.when(builder.icmp_unsigned("!=", bit, _number(0))):
                self.put(place, self._signed())

    def _nibbles(self, at: Any) -> None:
        """Two bits for each of four numbers, the lowest for the first: of 0, 4, 8 or 16 bits, and those side by side"""
        builder = self.builder
        tag = self._byte()
        start = builder.load(self.at)
        nibble: Any = _index(0)
        for i in range(4):
            size = builder.and_(builder.lshr(tag, _number(2 * i)), _number(3))
            length = builder.lshr(builder.shl(_number(1), size), _number(1))  # 0, 1, 2, 4
            word = self._high_first(builder.add(start, builder.lshr(nibble, _index(1))))
            odd = builder.shl(builder.trunc(builder.and_(nibble, _index(1)), _NUMBER), _number(2))
            none = builder.icmp_unsigned("==", length, _number(0))
            bits = builder.select(none, _number(1), builder.shl(length, _number(2)))
            self.put(builder.add(at, _index(i)), builder.select(none, _number(0), self._part(word, odd, bits)))
            nibble = builder.add(nibble, builder.zext(length, INDEX))
        self.move(builder.lshr(builder.add(nibble, _index(1)), _index(1)))

    def _three(self, at: Any, encoding: int) -> None:
        """Two bits say how three numbers share the bytes; the last way is one to four bytes each, the lowest first"""
        builder = self.builder
        start = builder.load(self.at)
        word = self._high_first(start)

        def split(parts: Any) -> Callable[[], None]:
            def emit() -> None:
                for i, (first, bits) in enumerate(parts[:3]):
                    self.put(builder.add(at, _index(i)), self._part(word, _number(first), _number(bits)))
                self.move(parts[3])

            return emit

        def whole_bytes() -> None:
            self.move(1)
            for i in range(3):
                size = builder.and_(builder.lshr(word, _number(24 + 2 * i)), _number(3))
                bits = builder.shl(builder.add(size, _number(1)), _number(3))
                value = self.four_bytes(builder.load(self.at))
                self.put(builder.add(at, _index(i)), self._part(value, builder.sub(_number(32), bits), bits))
                self.move(builder.zext(builder.add(size, _number(1)), INDEX))

        ways = {i: split(parts) for i, parts in enumerate(_SPLIT[encoding])}
        self.cases(builder.lshr(word, _number(30)), {**ways, 3: whole_bytes})
