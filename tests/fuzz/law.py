"""What may happen when a reader is given something: the law that every case is judged by."""

import linecache
import math
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

import samara

SOURCE, HERE = Path(samara.__file__).parent, Path(__file__).parent
LONGEST = 2000  # letters of a sentence


class Case(NamedTuple):
    """What a reader is given, and what was made wrong in it"""

    given: Any
    told: tuple[str, ...] = ()


class Reader(NamedTuple):
    """Something that reads: inputs that it should take, inputs that are almost so, and how it is asked

    `errors` are those it may raise, each by a `raise` of our own, and `pythons` those that may be Python's: for an argument
    of a wrong type these are as good. `lines` says whether its errors may have more than one line, `strangers` whether its
    inputs are somebody else's: then what a sentence quotes of them is short and printable.
    """

    name: str
    seeds: Callable[[], Iterable[Case]]
    make: Callable[[Random], Case]
    read: Callable[[Any, Path], Any]
    errors: tuple[type[Exception], ...]
    lines: bool = False
    pythons: tuple[type[Exception], ...] = ()
    strangers: bool = True
    share: int = 1


def wrong_with_error(reader: Reader, error: BaseException) -> str:
    """What is wrong with an error as an answer; nothing where it is the reader's own, in one sentence"""
    kind = type(error).__name__
    if isinstance(error, reader.pythons):
        return ""
    if not isinstance(error, reader.errors):
        return f"{kind}: {_first_line(error)}"
    if not _deliberate(error.__traceback__):
        return f"{kind} that nobody raised: {_first_line(error)}"
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    sentences = text.split("\n")
    if len(sentences) > 1 and not reader.lines:
        return f"{kind} of {len(sentences)} lines: {text[:200]!r}"
    if not all(line.strip() for line in sentences):
        return f"{kind} with an empty line: {text[:200]!r}"
    if not reader.strangers:
        return ""
    if max(map(len, sentences)) > LONGEST:
        return f"{kind} of {max(map(len, sentences))} letters: {text[:200]!r}"
    raw = [letter for letter in text if letter != "\n" and unicodedata.category(letter) in ("Cc", "Zl", "Zp", "Cs")]
    return f"{kind} with the letter {raw[0]!r} in it: {text[:200]!r}" if raw else ""


def _first_line(error: BaseException) -> str:
    try:
        return (str(error).splitlines() or [""])[0][:200]
    except Exception as other:
        return f"no text ({type(other).__name__})"


def _deliberate(trace: TracebackType | None) -> bool:
    """Whether the innermost frame is a `raise` of Samara's, or the call itself did not fit the function"""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return False
    file = Path(trace.tb_frame.f_code.co_filename)
    if file.parent == HERE:
        return True
    return file.is_relative_to(SOURCE) and "raise" in linecache.getline(str(file), trace.tb_lineno)


def not_numbers(thing: Any) -> str:
    """Where in an object there is a NaN; nothing where there is none"""
    return next((path or "the result" for path, value in _numbers(thing, "", set()) if math.isnan(value)), "")


def _numbers(thing: Any, path: str, seen: set[int]) -> Iterator[tuple[str, float]]:
    if isinstance(thing, float):
        yield path, thing
        return
    if thing is None or isinstance(thing, (str, bytes, int, type)) or id(thing) in seen:
        return
    seen.add(id(thing))
    if isinstance(thing, np.ndarray):
        if thing.dtype.kind == "f" and thing.size:
            yield path, float(np.sum(thing * 0.0)) if np.isnan(thing).any() else 0.0
    elif isinstance(thing, dict):
        for key, value in thing.items():
            yield from _numbers(value, f"{path}[{key!r:.40}]", seen)
    elif isinstance(thing, (list, tuple, set, frozenset)):
        names = getattr(thing, "_fields", None)
        for k, value in enumerate(thing):
            yield from _numbers(value, f"{path}.{names[k]}" if names else f"{path}[{k}]", seen)
    elif hasattr(thing, "__dataclass_fields__"):
        for name in thing.__dataclass_fields__:
            yield from _numbers(getattr(thing, name, None), f"{path}.{name}", seen)
