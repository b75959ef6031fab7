"""What a header says of frames, as tables of numbers that the compiled reader walks through.

    kind    of frame: what it means, and its parts of the tables below
    read    how the next bytes become differences: an encoding, and how many fields it fills
    field   what a difference is added to: a predictor and its argument

Predictors of the format that are a number of the header, or a number, are one here. What the format's own text leaves out:
TAG2_3SVARIABLE (10), predictor 11 (the least of `motorOutput`), the numbers and contents of events, and that a lone field of
TAG8_8SVB has no tag.
"""

from typing import Any, NamedTuple

import numpy as np

from samara.core.types import Array
from samara.identify.readers.blackbox_header import Header, Layout

SIGNED_VB, UNSIGNED_VB, NEG_14BIT, TAG8_8SVB, TAG2_3S32, TAG8_4S16, NULL, TAG2_3SVARIABLE = 0, 1, 3, 6, 7, 8, 9, 10
BYTE, WORD = 11, 12  # of events only
TOGETHER = {TAG8_8SVB: 8, TAG2_3S32: 3, TAG8_4S16: 4, TAG2_3SVARIABLE: 3}
"""How many fields in a row share a tag; others are read alone"""
ENCODINGS = (SIGNED_VB, UNSIGNED_VB, NEG_14BIT, *TOGETHER, NULL)

CONSTANT, PREVIOUS, LINE, AVERAGE, OWN, HOME, TIME = range(7)
"""A number; the field in the frame before, and a number more; 2 x₁ − x₂; (x₁ + x₂)/2 towards 0; a field of this frame; of the
last home frame; the time of the last main frame"""
INTRA, INTER, PLAIN, RESUME = range(4)
"""What a frame means: one to start from, one that needs those before it, one of its own, and that logging has been off"""
TABLES = ("main", "slow", "gps", "home", "event")
EVENT_FIELDS = ("event", "first", "second")
SYNC_BEEP, ADJUSTMENT, LOGGING_RESUME, DISARM, FLIGHT_MODE = 0, 13, 14, 15, 30
_EVENTS = (
    (SYNC_BEEP, UNSIGNED_VB, NULL),
    (LOGGING_RESUME, UNSIGNED_VB, UNSIGNED_VB),
    (DISARM, UNSIGNED_VB, NULL),
    (FLIGHT_MODE, UNSIGNED_VB, UNSIGNED_VB),
    (ADJUSTMENT, BYTE, SIGNED_VB),
    (ADJUSTMENT, BYTE, WORD),  # a float, where the byte's highest bit is set: the kind after the other
)
NO_FRAME, AN_EVENT = -1, 1 << 16


class Plan(NamedTuple):
    """The kind of frame by its letter and by an event's number; (meaning, table, first read, reads, first field, fields,
    needs a home) of kinds; (encoding, fields) of reads; (predictor, argument) of fields; fields of each table"""

    letters: Array
    events: Array
    kinds: Array
    reads: Array
    fields: Array
    widths: tuple[int, ...]
    time: int


def plan_of(header: Header) -> Plan:
    """The tables of a log; ValueError naming a field that cannot be read"""
    letters, events = np.full((2, 256), NO_FRAME, dtype=np.int64)
    kinds: list[tuple[int, ...]] = []
    reads: list[tuple[int, int]] = []
    fields: list[tuple[int, int]] = []

    def add(meaning: int, table: int, own_reads: Any, own_fields: Any) -> int:
        needs_home = any(predictor == HOME for predictor, _ in own_fields)
        kinds.append((meaning, table, len(reads), len(own_reads), len(fields), len(own_fields), needs_home))
        reads.extend(own_reads)
        fields.extend(own_fields)
        return len(kinds) - 1

    widths = [0] * len(TABLES)
    for letter, layout in header.layouts.items():
        meaning = {"I": INTRA, "P": INTER}.get(letter, PLAIN)
        table = {"I": 0, "P": 0, "S": 1, "G": 2, "H": 3}[letter]
        widths[table] = len(layout.names)
        letters[ord(letter)] = add(meaning, table, _reads(letter, layout), _fields(letter, layout, header))
    letters[ord("E")] = AN_EVENT
    widths[-1] = len(EVENT_FIELDS)
    for number, first, second in _EVENTS:
        own = [(CONSTANT, number), (CONSTANT, 0), (CONSTANT, 0)]
        meaning = RESUME if number == LOGGING_RESUME else PLAIN
        kind = add(meaning, len(TABLES) - 1, [(NULL, 1), (first, 1), (second, 1)], own)
        events[number] = kind if second != WORD else kind - 1
    rows = {"kinds": kinds, "reads": reads, "fields": fields}
    tables = {name: np.array(own, dtype=np.int64) for name, own in rows.items()}
    return Plan(letters, events, **tables, widths=tuple(widths), time=header.layouts["I"].names.index("time"))


def _reads(letter: str, layout: Layout) -> list[tuple[int, int]]:
    """Fields in a row with the same tagged encoding are read at once"""
    reads: list[tuple[int, int]] = []
    for name, encoding in zip(layout.names, layout.encodings, strict=True):
        if encoding not in ENCODINGS:
            known = ", ".join(map(str, ENCODINGS))
            raise ValueError(f"field {name!r} of {letter} frames has encoding {encoding}; expected one of {known}")
        if reads and reads[-1][0] == encoding and reads[-1][1] < TOGETHER.get(encoding, 1):
            reads[-1] = encoding, reads[-1][1] + 1
        else:
            reads.append((encoding, 1))
    return [(SIGNED_VB if own == (TAG8_8SVB, 1) else own[0], own[1]) for own in reads]


def _fields(letter: str, layout: Layout, header: Header) -> list[tuple[int, int]]:
    found = []
    homes = 0
    for at, (name, predictor) in enumerate(zip(layout.names, layout.predictors, strict=True)):
        try:
            meaning, argument = _predictor(predictor, layout, header, homes)
        except ValueError as error:
            raise ValueError(f"field {name!r} of {letter} frames has predictor {predictor}: {error}") from None
        if meaning in (PREVIOUS, LINE, AVERAGE) and letter != "P":
            raise ValueError(
                f"field {name!r} of {letter} frames has predictor {predictor}; expected it in P frames only"
            )
        if meaning == OWN and argument >= at:
            raise ValueError(f"field {name!r} of {letter} frames comes before 'motor[0]'; expected it after")
        homes += meaning == HOME
        found.append((meaning, argument))
    return found


def _predictor(number: int, layout: Layout, header: Header, homes: int) -> tuple[int, int]:
    """What the format calls by this number. Number 6 counts the frames that were logged, not the loops between them."""
    if number in (0, 8):
        return CONSTANT, {0: 0, 8: 1500}[number]
    if number in (1, 2, 3, 6):
        return {1: PREVIOUS, 2: LINE, 3: AVERAGE, 6: PREVIOUS}[number], int(number == 6)
    if number in (4, 9):
        name = {4: "minthrottle", 9: "vbatref"}[number]
        if not header.values.get(name):
            raise ValueError(f"header {name!r} is missing; expected it")
        return CONSTANT, header.numbers(name)[0]
    if number == 5:
        if "motor[0]" not in layout.names:
            raise ValueError("there is no field 'motor[0]'; expected one")
        return OWN, layout.names.index("motor[0]")
    if number == 7:
        if "H" not in header.layouts or homes >= len(header.layouts["H"].names):
            raise ValueError("home frames have no such field; expected as many as use it")
        return HOME, homes
    if number == 10:
        return TIME, 0
    if number == 11:
        return CONSTANT, header.numbers("motorOutput", (0,))[0]
    raise ValueError("expected 0 to 11")
