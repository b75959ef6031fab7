"""The text at the start of a blackbox log: `H name:value` lines that say what its frames hold and how they are written.

After "Blackbox logging internals" of Betaflight's developer documentation. A file may hold several logs, and other bytes
between them.
"""

import math
import re
import struct
from collections.abc import Iterator
from itertools import islice, pairwise
from typing import NamedTuple

MARKER = b"H Product:Blackbox flight data recorder by Nicholas Sherlock"
DATA_VERSION = "2"
MOST_FIELDS = 256
MOST_LOGS = 1000  # in a file

Buffer = bytes | memoryview

_LINE = re.compile(rb"H ([ -9;-~]{1,64}):([ -~]{0,8192})\r?\n")
_LETTERS = ("I", "P", "S", "G", "H")


class Layout(NamedTuple):
    """The fields of one kind of frame, by name: whether signed, and the numbers of predictor and encoding"""

    names: tuple[str, ...]
    signed: tuple[bool, ...]
    predictors: tuple[int, ...]
    encodings: tuple[int, ...]


class Header(NamedTuple):
    """What the text says, what frames there are by their letter, and where the frames are in the file"""

    values: dict[str, str]
    layouts: dict[str, Layout]
    start: int
    end: int

    def number(self, name: str, default: float | None = None) -> float:
        """A header as a number; floats are written as their bits: 0x3f800000 is 1"""
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
        """A header as whole numbers"""
        return _numbers(name, self.values[name]) if self.values.get(name) else default


def header_spans(data: Buffer) -> Iterator[tuple[int, int]]:
    """(start, end) of every log in a file, header and frames"""
    starts = [own.start() for own in islice(re.finditer(MARKER, data), MOST_LOGS + 1)]
    if len(starts) > MOST_LOGS:
        raise ValueError(f"holds more than {MOST_LOGS} logs; expected less")
    return pairwise([*starts, len(data)])


def parse_header(data: Buffer, start: int, end: int) -> Header:
    """The header that starts here; ValueError where the frames could not be read after it"""
    values: dict[str, str] = {}
    while line := _LINE.match(data, start, end):
        values[line[1].decode("ascii")] = line[2].decode("ascii").strip()
        start = line.end()
    if values.get("Data version") != DATA_VERSION:
        raise ValueError(f"header 'Data version' is {values.get('Data version', '')!r}; expected {DATA_VERSION!r}")
    layouts = {letter: _layout(values, letter) for letter in _LETTERS if f"Field {letter} encoding" in values}
    for letter in ("I", "P"):
        if letter not in layouts:
            raise ValueError(f"header 'Field {letter} encoding' is missing; expected it")
    if "time" not in layouts["I"].names:
        raise ValueError("header 'Field I name' has no field 'time'; expected one")
    return Header(values, layouts, start, end)


def _layout(values: dict[str, str], letter: str) -> Layout:
    own = "I" if letter == "P" else letter  # a P frame has the fields of an I frame
    title = f"Field {own} name"
    names = tuple(name.strip() for name in values.get(title, "").split(","))
    if not all(names) or len(set(names)) != len(names) or len(names) > MOST_FIELDS:
        raise ValueError(f"header {title!r} has {len(names)} names; expected 1 to {MOST_FIELDS}, all different")
    listed = {}
    for what, key in (("signed", own), ("predictor", letter), ("encoding", letter)):
        title = f"Field {key} {what}"
        default = "0," * (len(names) - 1) + "0" if what == "signed" else ""
        listed[what] = _numbers(title, values.get(title, default))
        if len(listed[what]) != len(names):
            raise ValueError(f"header {title!r} has {len(listed[what])} numbers; expected {len(names)}")
    return Layout(names, tuple(map(bool, listed["signed"])), listed["predictor"], listed["encoding"])


def _numbers(name: str, text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(re.fullmatch(r" *-?[0-9]{1,9} *", part) for part in parts):
        raise ValueError(f"header {name!r} is {text[:40]!r}; expected whole numbers")
    return tuple(map(int, parts))
