"""Frames of a blackbox log as tables of integers.

The header of a log defines the fields of each frame type, their encoding as differences, and the predictions to which the
differences are added ("Blackbox logging internals" of Betaflight's developer documentation). Two Python functions are
generated for each type, one that decodes the differences and one that adds the predictions. Generated code contains only
integers of the header. (The library orangebox fails on a truncated log, and takes 3.5 times as long.)

A frame is rejected, and searched for again one byte later, if no frame follows it, or if its time decreases or leaps. After a
rejected main frame, or bytes that begin no frame, main frames that depend on earlier ones are dropped until one that does not.

The format's description omits: TAG2_3SVARIABLE (10), predictor 11 (the least of `motorOutput`), the codes and contents of
events, and that a lone field of TAG8_8SVB has no tag.
"""

import math
import re
import struct
from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import islice, pairwise
from typing import NamedTuple

import numpy as np

from samara.core.budget import Budget
from samara.core.types import Array

MARKER = b"H Product:Blackbox flight data recorder by Nicholas Sherlock"
DATA_VERSION = "2"
MAX_FIELDS = 256
MAX_LOGS = 1000  # in a file
MAX_TIME_STEP_US = 10_000_000  # a longer step between main frames is damage
MAX_NUMBERS = 1 << 25  # numbers in a small file, including those of rejected frames
MAX_NUMBERS_PER_BYTE = 16  # unchanged fields take no bytes; real logs have up to three
HALF, MASK = 1 << 31, (1 << 32) - 1

_LINE = re.compile(rb"H ([ -9;-~]{1,64}):([ -~]{0,8192})\r?\n")
_END = b"\xffEnd of log"

# Header --------------------------------------------------------------------------------------------------------------


class BlackboxFrameLayout(NamedTuple):
    """The fields of one frame type by name: whether signed, and the codes of predictor and encoding."""

    names: tuple[str, ...]
    signed: tuple[bool, ...]
    predictors: tuple[int, ...]
    encodings: tuple[int, ...]


class Header(NamedTuple):
    """The values of the header, the layouts of frames by letter, and the byte range of the frames in the file."""

    values: dict[str, str]
    layouts: dict[str, BlackboxFrameLayout]
    start: int
    end: int

    def number(self, name: str, default: float | None = None) -> float:
        """Return a header as a number; floats are written as their bits: 0x3f800000 is 1."""
        text = self.values.get(name, "")
        if not text and default is not None:
            return default
        try:
            value = struct.unpack("<f", struct.pack("<I", int(text, 16)))[0] if text[:2] == "0x" else float(text)
        except (ValueError, struct.error):
            value = math.nan
        if not math.isfinite(value):
            raise ValueError(f"header {name!r} is {text[:40]!r}; expected a number")
        return float(value)

    def numbers(self, name: str, default: tuple[int, ...] = ()) -> tuple[int, ...]:
        """Return a header as whole numbers."""
        return _numbers(name, self.values[name]) if self.values.get(name) else default


def header_spans(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of every log in a file, header and frames."""
    starts = [match.start() for match in islice(re.finditer(MARKER, data), MAX_LOGS + 1)]
    if len(starts) > MAX_LOGS:
        raise ValueError(f"holds more than {MAX_LOGS} logs; expected fewer")
    return pairwise([*starts, len(data)])


def parse_header(data: bytes, start: int, end: int) -> Header:
    """Parse the header at `start`; raise ValueError if the frames after it could not be read."""
    values: dict[str, str] = {}
    while line := _LINE.match(data, start, end):
        values[line[1].decode("ascii")] = line[2].decode("ascii").strip()
        start = line.end()
    if values.get("Data version") != DATA_VERSION:
        raise ValueError(f"header 'Data version' is {values.get('Data version', '')!r}; expected {DATA_VERSION!r}")
    layouts = {letter: _layout(values, letter) for letter in "IPSGH" if f"Field {letter} encoding" in values}
    for letter in ("I", "P"):
        if letter not in layouts:
            raise ValueError(f"header 'Field {letter} encoding' is missing; expected it")
    if "time" not in layouts["I"].names:
        raise ValueError("header 'Field I name' has no field 'time'; expected one")
    return Header(values, layouts, start, end)


def _layout(values: dict[str, str], letter: str) -> BlackboxFrameLayout:
    fields = "I" if letter == "P" else letter  # a P frame has the fields of an I frame
    title = f"Field {fields} name"
    names = tuple(name.strip() for name in values.get(title, "").split(","))
    if not all(names) or len(set(names)) != len(names) or len(names) > MAX_FIELDS:
        raise ValueError(f"header {title!r} has {len(names)} names; expected 1 to {MAX_FIELDS}, all different")
    codes = {}
    for attribute, key in (("signed", fields), ("predictor", letter), ("encoding", letter)):
        title = f"Field {key} {attribute}"
        default = ",".join("0" * len(names)) if attribute == "signed" else ""
        codes[attribute] = _numbers(title, values.get(title, default))
        if len(codes[attribute]) != len(names):
            raise ValueError(f"header {title!r} has {len(codes[attribute])} numbers; expected {len(names)}")
    return BlackboxFrameLayout(names, tuple(map(bool, codes["signed"])), codes["predictor"], codes["encoding"])


def _numbers(name: str, text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(re.fullmatch(r" *-?[0-9]{1,9} *", part) for part in parts):
        raise ValueError(f"header {name!r} is {text[:40]!r}; expected whole numbers")
    return tuple(map(int, parts))


# Encodings: each decoder returns the values and the offset after them --------------------------------------------------

SIGNED_VB, UNSIGNED_VB, NEG_14BIT, TAG8_8SVB, TAG2_3S32, TAG8_4S16, NULL, TAG2_3SVARIABLE = 0, 1, 3, 6, 7, 8, 9, 10
BYTE, WORD = 11, 12  # of events only
GROUPS = {TAG8_8SVB: 8, TAG2_3S32: 3, TAG8_4S16: 4, TAG2_3SVARIABLE: 3}  # consecutive fields that share a tag
ENCODINGS = (SIGNED_VB, UNSIGNED_VB, NEG_14BIT, *GROUPS, NULL)
_SPLIT = {  # (first bit, bits) of three values in the four bytes that begin with their tag, and the bytes they take
    TAG2_3S32: ((((2, 2), (4, 2), (6, 2)), 1), (((4, 4), (8, 4), (12, 4)), 2), (((2, 6), (10, 6), (18, 6)), 3)),
    TAG2_3SVARIABLE: ((((2, 2), (4, 2), (6, 2)), 1), (((2, 5), (7, 5), (12, 4)), 2), (((2, 8), (10, 7), (17, 7)), 3)),
}


def _long_number(data: bytes, at: int, value: int) -> tuple[int, int]:
    """Continue a value of seven bits per byte, the lowest first, whose first byte was `value`; five bytes at most."""
    value &= 127
    for shift in (7, 14, 21, 28):
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & MASK, at
    raise ValueError("a number of more than five bytes")


def _bits(word: int, first: int, bits: int) -> int:
    """Return some bits of 32, counted from the highest, as a signed number."""
    value = word >> 32 - first - bits & (1 << bits) - 1
    return value - (value >> bits - 1 << bits)


def _high_first(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4].ljust(4, b"\0"), "big")


def _decode_flagged(data: bytes, at: int, count: int) -> tuple[list[int], int]:
    """Decode one bit for each nonzero field, the lowest for the first, then those fields as signed values."""
    tag, values = data[at], [0] * count
    at += 1
    for i in range(count):
        if tag >> i & 1:
            value = data[at]
            at += 1
            if value > 127:
                value, at = _long_number(data, at, value)
            values[i] = value >> 1 ^ -(value & 1)
    return values, at


def _nibbles(data: bytes, at: int, count: int) -> tuple[list[int], int]:
    """Decode two bits for each of four values, the lowest for the first: of 0, 4, 8 or 16 bits, packed side by side."""
    tag, nibble, values = data[at], 2 * at + 2, []
    for i in range(4):
        length = (0, 1, 2, 4)[tag >> 2 * i & 3]
        values.append(_bits(_high_first(data, nibble // 2), 4 * (nibble % 2), 4 * length) if length else 0)
        nibble += length
    return values[:count], (nibble + 1) // 2


def _three(data: bytes, at: int, count: int, encoding: int) -> tuple[list[int], int]:
    """Decode three values in the layout given by two bits; layout 3 has one to four bytes each, the lowest first."""
    word = _high_first(data, at)
    layout = word >> 30
    if layout < 3:
        parts, length = _SPLIT[encoding][layout]
        return [_bits(word, first, bits) for first, bits in parts[:count]], at + length
    values, tag = [], word >> 24
    at += 1
    for i in range(3):
        length = (tag >> 2 * i & 3) + 1
        values.append(int.from_bytes(data[at : at + length], "little", signed=True))
        at += length
    return values[:count], at


def _decoder_lines(encoding: int, first: int, count: int) -> list[str]:
    """Return Python statements that set d<first>, d<first + 1> … from the bytes at `at`."""
    if encoding in GROUPS:
        call = {TAG8_8SVB: "_decode_flagged(data, at, {})", TAG8_4S16: "_nibbles(data, at, {})"}.get(
            encoding, f"_three(data, at, {{}}, {encoding})"
        )
        return [f"({''.join(f'd{first + i}, ' for i in range(count))}), at = {call.format(count)}"]
    if encoding == NULL:
        return [f"d{first} = 0"]
    if encoding == WORD:
        return [f"d{first} = int.from_bytes(data[at : at + 4], 'little', signed=True)", "at += 4"]
    lines = ["x = data[at]", "at += 1"]
    if encoding != BYTE:
        lines.append("if x > 127: x, at = _long_number(data, at, x)")
    meaning = {SIGNED_VB: "x >> 1 ^ -(x & 1)", NEG_14BIT: "(x & 0x2000) - (x & 0x1FFF)"}
    return [*lines, f"d{first} = {meaning.get(encoding, 'x')}"]


# Frames --------------------------------------------------------------------------------------------------------------

Row = tuple[int, ...]
TABLES = ("main", "slow", "gps", "home", "event")
_TABLE = {"I": "main", "P": "main", "S": "slow", "G": "gps", "H": "home", "E": "event"}
EVENT_FIELDS = ("event", "first", "second")
SYNC_BEEP, ADJUSTMENT, LOGGING_RESUME, DISARM, FLIGHT_MODE = 0, 13, 14, 15, 30
_EVENTS = {
    SYNC_BEEP: (UNSIGNED_VB, NULL),
    LOGGING_RESUME: (UNSIGNED_VB, UNSIGNED_VB),
    DISARM: (UNSIGNED_VB, NULL),
    FLIGHT_MODE: (UNSIGNED_VB, UNSIGNED_VB),
    ADJUSTMENT: (BYTE, SIGNED_VB),
    ADJUSTMENT | 256: (BYTE, WORD),  # a float, if the highest bit of the byte is set
}


class FrameType(NamedTuple):
    """A frame type: its letter, its table, the generated functions that decode and predict it, and its requirements."""

    letter: str
    table: str
    decode: Callable[[bytes, int], tuple[Row, int]]
    predict: Callable[[Row, Row, Row, Row, int], Row]  # differences, last, second to last, home, time
    width: int
    needs_home: bool = False


class BlackboxTables(NamedTuple):
    """The fields by name of each table, whether the log has an end marker, and the counts of rejected and dropped frames."""

    tables: dict[str, dict[str, Array]]
    ended: bool
    rejected: int
    dropped: int


def _compile_function(arguments: str, lines: Sequence[str]) -> Callable[..., tuple[object, ...]]:
    """Compile a function; `lines` consist of integers and of names defined in this module."""
    scope: dict[str, Callable[..., tuple[object, ...]]] = {}
    exec(f"def generated({arguments}):\n    " + "\n    ".join(lines), globals(), scope)
    return scope["generated"]


@lru_cache(maxsize=64)
def _frame_type(
    letter: str, groups: tuple[tuple[int, int], ...], predictions: tuple[str, ...], needs_home: bool = False
) -> FrameType:
    """Generate the functions of a type from its (encoding, field count) and its predictions."""
    lines, first = [], 0
    for encoding, count in groups:
        lines += _decoder_lines(encoding, first, count)
        first += count
    names = "".join(f"d{i}, " for i in range(first))
    decode = _compile_function("data, at", [*lines, f"return ({names}), at"])
    sums = [f"x{i} = {prediction}" for i, prediction in enumerate(predictions)]
    predict = _compile_function(
        "d, last, before, home, time",
        [f"{names}= d", *sums, f"return {''.join(f'x{i}, ' for i in range(first))}"],
    )
    return FrameType(letter, _TABLE[letter], decode, predict, first, needs_home)  # type: ignore[arg-type]


def frame_types(header: Header) -> tuple[dict[int, FrameType], dict[int, FrameType]]:
    """Return the frame types by letter and by event code; raise ValueError naming a field that cannot be read."""
    by_letter = {}
    for letter, layout in header.layouts.items():
        predictions = _predictions(letter, layout, header)
        needs_home = any("home" in prediction for prediction in predictions)
        by_letter[ord(letter)] = _frame_type(letter, _groups(letter, layout), predictions, needs_home)
    events = {
        number: _frame_type("E", ((NULL, 1), (first, 1), (second, 1)), (f"{number & 255}", "d1", "d2"))
        for number, (first, second) in _EVENTS.items()
    }
    return by_letter, events


def _groups(letter: str, layout: BlackboxFrameLayout) -> tuple[tuple[int, int], ...]:
    """Return (encoding, field count): consecutive fields with the same tagged encoding are read at once."""
    groups: list[tuple[int, int]] = []
    for name, encoding in zip(layout.names, layout.encodings, strict=True):
        if encoding not in ENCODINGS:
            supported = ", ".join(map(str, ENCODINGS))
            raise ValueError(f"field {name!r} of {letter} frames has encoding {encoding}; expected one of {supported}")
        if groups and groups[-1][0] == encoding and groups[-1][1] < GROUPS.get(encoding, 1):
            groups[-1] = encoding, groups[-1][1] + 1
        else:
            groups.append((encoding, 1))
    return tuple((SIGNED_VB, 1) if group == (TAG8_8SVB, 1) else group for group in groups)


def _predictions(letter: str, layout: BlackboxFrameLayout, header: Header) -> tuple[str, ...]:
    """Return for each field the expression of its value: its difference plus its prediction, in 32 bits."""
    expressions: list[str] = []
    homes = 0
    for index, (name, predictor) in enumerate(zip(layout.names, layout.predictors, strict=True)):
        try:
            expressions.append(f"d{index}{_prediction(predictor, index, layout, header, homes)}")
        except ValueError as error:
            raise ValueError(f"field {name!r} of {letter} frames has predictor {predictor}: {error}") from None
        if predictor in (1, 2, 3, 6) and letter != "P":
            raise ValueError(
                f"field {name!r} of {letter} frames has predictor {predictor}; expected it in P frames only"
            )
        if predictor == 5 and layout.names.index("motor[0]") >= index:
            raise ValueError(f"field {name!r} of {letter} frames comes before 'motor[0]'; expected it after")
        homes += predictor == 7
        if header.layouts["P"].predictors[index : index + 1] in ((2,), (3,)) and letter in "IP":
            expressions[-1] = f"({expressions[-1]} + {HALF} & {MASK}) - {HALF}"
    return tuple(expressions)


def _prediction(number: int, index: int, layout: BlackboxFrameLayout, header: Header, homes: int) -> str:
    """Return the predictor as a summand. Predictor 6 counts the logged frames, not the loops between them."""
    if number in (0, 1, 2, 3, 6, 8, 10):
        average = f" + int((last[{index}] + before[{index}]) / 2)"
        return {
            0: "", 1: f" + last[{index}]", 2: f" + 2 * last[{index}] - before[{index}]", 3: average, 6: f" + last[{index}] + 1",
            8: " + 1500", 10: " + time",
        }[number]  # fmt: skip
    if number in (4, 9):
        name = {4: "minthrottle", 9: "vbatref"}[number]
        if not header.values.get(name):
            raise ValueError(f"header {name!r} is missing; expected it")
        return f" + {header.numbers(name)[0]}"
    if number == 5:
        if "motor[0]" not in layout.names:
            raise ValueError("there is no field 'motor[0]'; expected one")
        return f" + x{layout.names.index('motor[0]')}"
    if number == 7:
        if "H" not in header.layouts or homes >= len(header.layouts["H"].names):
            raise ValueError("home frames have no such field; expected as many as use it")
        return f" + home[{homes}]"
    if number == 11:
        return f" + {header.numbers('motorOutput', (0,))[0]}"
    raise ValueError("expected 0 to 11")


def frames_budget(origin: object, size: int) -> Budget:
    """Return the limit of the values in all logs of a file of `size` bytes."""
    return Budget(origin, max_nodes=MAX_NUMBERS + MAX_NUMBERS_PER_BYTE * size)


def decode_frames(file: bytes, header: Header, budget: Budget | None = None) -> BlackboxTables:
    """Decode all frames of one log."""
    data = file[header.start : header.end]
    decoder = _FrameDecoder(header, budget or frames_budget("the log", len(file)))
    decoder.read(data)
    layouts = {_TABLE[letter]: layout for letter, layout in header.layouts.items()}
    tables = {}
    for name, layout in layouts.items():
        columns = decoder.columns(name, len(layout.names))
        tables[name] = {
            field: columns[:, column].view(np.int32 if signed else np.uint32)
            for column, (field, signed) in enumerate(zip(layout.names, layout.signed, strict=True))
        }
    events = decoder.columns("event", len(EVENT_FIELDS))
    tables["event"] = {field: events[:, column] for column, field in enumerate(EVENT_FIELDS)}
    return BlackboxTables(tables, decoder.ended, decoder.rejected, decoder.dropped)


class _FrameDecoder:
    """The state between frames: the basis of the next prediction, and the rows read."""

    def __init__(self, header: Header, budget: Budget) -> None:
        self._by_letter, self._events = frame_types(header)
        self._budget, self._spent = budget, 0
        self._rows = {name: array("q") for name in TABLES}
        self._time_field = header.layouts["I"].names.index("time")
        self._last: Row | None = None  # the main frame that the next can build on
        self._before: Row = ()
        self._home: Row = ()
        self._time: int | None = None  # of the last main frame  [µs]
        self._doubtful_time: int | None = None  # of a frame that leapt: if the next one agrees, it was right
        self._resumed = self.ended = False
        self.rejected = self.dropped = 0

    def columns(self, table: str, width: int) -> Array:
        """Return the rows of a table, in 32 bits."""
        return np.frombuffer(self._rows[table], np.int64).astype(np.int32).reshape(-1, width)

    def read(self, data: bytes) -> None:
        """Read all frames."""
        at, end = 0, len(data)
        while at < end and not self.ended:
            start, frame = at, self._by_letter.get(data[at])
            at += 1
            if data[start] == ord("E"):
                frame = self._event(data, at)
                at += 1
            if self.ended:
                break
            if frame is None:
                self._reject(lost=True)
                at = start + 1
                continue
            self._spend(frame.width)
            try:
                differences, at = frame.decode(data, at)
                valid = at == end or (at < end and (data[at] in self._by_letter or data[at] == ord("E")))
            except (IndexError, ValueError):  # it reads beyond the end, or a value has too many bytes
                valid = False
            if valid:
                self._take(frame, differences)
            else:  # after lost bytes, the byte after a frame is rarely a frame letter
                self._reject(lost=frame.table == "main")
                at = start + 1
        self._budget.spend_nodes(self._spent, "numbers")

    def _event(self, data: bytes, at: int) -> FrameType | None:
        """Return the type of the event whose code is at `at`; note the end of the log."""
        self.ended = data.startswith(_END, at)
        number, highest = data[at : at + 1], data[at + 1 : at + 2] >= b"\x80"
        key = number[0] if number else -1
        return self._events.get(key | 256 if key == ADJUSTMENT and highest else key)

    def _spend(self, numbers: int) -> None:
        self._spent += numbers
        if self._spent > 1 << 16:
            self._budget.spend_nodes(self._spent, "numbers")
            self._spent = 0

    def _reject(self, lost: bool) -> None:
        self.rejected += 1
        if lost:
            self._last = None

    def _take(self, frame: FrameType, differences: Row) -> None:
        """Add the predictions to a frame and append it to its table, unless it depends on a missing one."""
        if (frame.letter == "P" and self._last is None) or (frame.needs_home and not self._home):
            self.dropped += 1
            return
        row = frame.predict(differences, self._last or (), self._before, self._home, self._time or 0)
        if frame.table == "main":
            time = row[self._time_field]
            if self._time is not None and not self._is_later(time, self._time):
                self._reject(lost=True)
                self._doubtful_time = time
                return
            self._before = self._last if frame.letter == "P" and self._last is not None else row
            self._last, self._time, self._doubtful_time, self._resumed = row, time, None, False
        elif frame.table == "home":
            self._home = row
        elif row[0] == LOGGING_RESUME and frame.table == "event":
            self._resumed = True
        self._rows[frame.table].extend(row)

    def _is_later(self, time: int, last: int) -> bool:
        """Return whether a time is later, and not by more than `MAX_TIME_STEP_US` unless logging resumed or two frames
        agree."""
        ahead = _wrap_32_bits(time - last)  # the clock wraps after 71 minutes
        if ahead <= MAX_TIME_STEP_US or self._resumed:
            return ahead > 0
        return self._doubtful_time is not None and 0 < _wrap_32_bits(time - self._doubtful_time) <= MAX_TIME_STEP_US


def _wrap_32_bits(value: int) -> int:
    return (value + HALF & MASK) - HALF
