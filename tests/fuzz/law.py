"""The law that every case is checked against: the permitted results of a reader."""

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
MAX_SENTENCE_LENGTH = 2000  # characters of a sentence


class Case(NamedTuple):
    """The input of a reader, and the errors that were put into it."""

    given: Any
    told: tuple[str, ...] = ()


class Reader(NamedTuple):
    """A reader under test: inputs that it should accept, inputs that are almost right, and the function that reads one.

    `errors` are those it may raise by a `raise` in Samara, and `pythons` those that Python may raise: for an argument of a
    wrong type these are as good. `lines` permits errors of more than one line; `strangers` marks untrusted inputs, of which a
    sentence must quote only short and printable parts.
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


def describe_wrong_error(reader: Reader, error: BaseException) -> str:
    """Describe the defect of an error; "" if it is an error of the reader in one sentence."""
    kind = type(error).__name__
    if isinstance(error, reader.pythons):
        return ""
    if not isinstance(error, reader.errors):
        return f"{kind}: {_first_line(error)}"
    if not _is_deliberate(error.__traceback__):
        return f"{kind} that nobody raised: {_first_line(error)}"
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    sentences = text.split("\n")
    if len(sentences) > 1 and not reader.lines:
        return f"{kind} of {len(sentences)} lines: {text[:200]!r}"
    if not all(line.strip() for line in sentences):
        return f"{kind} with an empty line: {text[:200]!r}"
    if not reader.strangers:
        return ""
    if max(map(len, sentences)) > MAX_SENTENCE_LENGTH:
        return f"{kind} of {max(map(len, sentences))} letters: {text[:200]!r}"
    raw = [letter for letter in text if letter != "\n" and unicodedata.category(letter) in ("Cc", "Zl", "Zp", "Cs")]
    return f"{kind} with the letter {raw[0]!r} in it: {text[:200]!r}" if raw else ""


def _first_line(error: BaseException) -> str:
    try:
        return (str(error).splitlines() or [""])[0][:200]
    except Exception as other:
        return f"no text ({type(other).__name__})"


def _is_deliberate(trace: TracebackType | None) -> bool:
    """Whether the innermost frame is a `raise` in Samara, or the arguments did not fit the function."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return False
    file = Path(trace.tb_frame.f_code.co_filename)
    if file.parent == HERE:
        return True
    return file.is_relative_to(SOURCE) and "raise" in linecache.getline(str(file), trace.tb_lineno)


def find_nan(thing: Any) -> str:
    """Return the path of a NaN in an object; "" if there is none."""
    return next((path or "the result" for path, value in _numbers(thing, "", set()) if math.isnan(value)), "")


def _numbers(thing: Any, path: str, visited_ids: set[int]) -> Iterator[tuple[str, float]]:
    if isinstance(thing, float):
        yield path, thing
        return
    if thing is None or isinstance(thing, (str, bytes, int, type)) or id(thing) in visited_ids:
        return
    visited_ids.add(id(thing))
    if isinstance(thing, np.ndarray):
        if thing.dtype.kind == "f" and thing.size:
            yield path, float(np.sum(thing * 0.0)) if np.isnan(thing).any() else 0.0
    elif isinstance(thing, dict):
        for key, value in thing.items():
            yield from _numbers(value, f"{path}[{key!r:.40}]", visited_ids)
    elif isinstance(thing, (list, tuple, set, frozenset)):
        names = getattr(thing, "_fields", None)
        for k, value in enumerate(thing):
            yield from _numbers(value, f"{path}.{names[k]}" if names else f"{path}[{k}]", visited_ids)
    elif hasattr(thing, "__dataclass_fields__"):
        for name in thing.__dataclass_fields__:
            yield from _numbers(getattr(thing, name, None), f"{path}.{name}", visited_ids)
