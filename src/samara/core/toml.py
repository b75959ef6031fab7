"""Strict tables of a TOML file: a key is taken by whoever knows it, and what is left over is refused.

What is wrong is one sentence: the file, the key with the tables it stands in, its value, what was expected. Every format has
its own class of error, which its `File` knows; a file that gathers them goes on reading, and says all that is wrong at once.
"""

import json
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, time
from difflib import get_close_matches
from functools import partial
from importlib import resources
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, NamedTuple, Self, get_type_hints

from samara.core.algebra import Vec3
from samara.core.atomic_files import TOO_DEEP
from samara.core.budget import Budget, read_text
from samara.core.coerce import UnfitError, argument, is_number, radians, wanted
from samara.core.sanitise import shown, shown_key
from samara.core.units import SPELLINGS, converted, fields_of, units_for

MAX_TOML_BYTES = 1 << 23
MAX_TOML_NODES = 300_000  # parts of keys, values, tables: tomllib takes up to 1 kB for each
MAX_KEY_PARTS = 32  # tomllib's memory grows with the square of it
_OPAQUE = re.compile(
    r'"""(?:[^"\\]++|\\.|"(?!""))*+(?:""")?|'
    r"'''(?:[^']++|'(?!''))*+(?:''')?|"
    r'"(?:[^"\\\n]++|\\.)*+"?|'
    r"'[^'\n]*+'?|#[^\n]*+",
    re.DOTALL,
)  # strings and comments; one that is not closed ends with the line or the text, and nothing is tried twice: linear
_SEPARATOR = re.compile(r"[=,\[\]{}\n]")
MANY = 16  # keys that one sentence lists; of more, those most like the one that was found come first


@dataclass(frozen=True)
class File:
    """What errors call a file, and their class; all that is wrong, where that is gathered; (key, source) and (key, spread) of
    its values."""

    origin: str
    error: type[ValueError]
    problems: list[str] | None = None
    sources: list[tuple[str, str]] = field(default_factory=list)
    spreads: list[tuple[str, float]] = field(default_factory=list)

    def note(self, problem: ValueError) -> None:
        """Gathered, or raised at once"""
        if self.problems is None:
            raise problem
        self.problems.append(str(problem))


def document(text: str, origin: str, error: type[ValueError] = ValueError) -> dict[str, Any]:
    """The tables of a text as they are written"""
    _require_affordable(text, Budget(origin, error, max_bytes=MAX_TOML_BYTES, max_nodes=MAX_TOML_NODES))
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise error(f"{origin}: is not TOML ({TOO_DEEP})") from None
    except ValueError as reason:  # tomllib's own, and Python's on endless digits
        raise error(f"{origin}: is not TOML ({reason})") from None


def _require_affordable(text: str, budget: Budget) -> None:
    """Count keys and values before tomllib allocates for them; refuse dotted keys of too many parts."""
    budget.spend_bytes(len(text))
    bare = _OPAQUE.sub('"', text)
    budget.spend_nodes(sum(map(bare.count, "=,[{.")), "keys and values")
    dots = max(piece.count(".") for piece in _SEPARATOR.split(bare))
    if dots >= MAX_KEY_PARTS:
        raise budget.overrun(f"has a dotted key of {dots + 1} parts", str(MAX_KEY_PARTS))


class Table:
    """A table of the file that knows its name, what it was asked for, and what is left."""

    def __init__(self, entries: Any, file: File, path: str = "") -> None:
        if not isinstance(entries, dict):
            raise file.error(f"{file.origin}: {path} = {shown(entries)}: expected a table")
        self.entries, self.file, self.path = dict(entries), file, path
        self.asked: dict[str, None] = {}

    def __contains__(self, key: str) -> bool:
        self.asked[key] = None
        return key in self.entries

    # What is wrong

    def name(self, key: str) -> str:
        """The key with the tables it stands in"""
        return f"{self.path}.{shown_key(key)}" if self.path else shown_key(key)

    def wrong(self, text: str, key: str = "") -> ValueError:
        """An error about this table, or about a key of it"""
        return self.file.error(f"{self.file.origin}: {self.name(key) if key else self.path}{text}")

    def error(self, key: str, value: Any, expected: str) -> ValueError:
        return self.wrong(f" = {shown(value)}: expected {expected}", key)

    def missing(self, key: str, expected: str) -> ValueError:
        return self.wrong(f" is missing: expected {expected}", key)

    @contextmanager
    def at(self, key: str = "") -> Iterator[None]:
        """A ValueError within is said to be of this table, or of a key of it; what names its own place stays as it is"""
        try:
            yield
        except self.file.error:
            raise
        except (ValueError, TypeError, ArithmeticError) as error:
            raise self.wrong(f": {error}" if key or self.path else str(error), key) from None

    def finish(self) -> None:
        """Refuses what nobody took"""
        self._refuse(list(self.entries))

    def only(self, known: Iterable[str]) -> None:
        """Refuses what is none of these keys, nor was asked for before"""
        self.asked |= dict.fromkeys(known)
        self._refuse([key for key in self.entries if key not in self.asked])

    def _refuse(self, keys: list[str]) -> None:
        for key in keys:
            near = get_close_matches(key, self.asked, 3) if len(self.asked) > MANY else []
            known = [*near, *(each for each in self.asked if each not in near)]
            listed = ", ".join(known if len(known) <= MANY else [*known[:MANY], "..."]) or "none"
            self.file.note(self.error(key, self.entries[key], f"only the keys {listed} here"))

    # What is there

    def take(self, key: str, expected: str, default: Any = None) -> Any:
        if key in self:
            return self.entries.pop(key)
        if default is None:
            raise self.missing(key, expected)
        return default

    def schema(self, newest: int, default: int | None = None) -> None:
        """The version of the format, the only one there is"""
        value = self.take("schema", str(newest), default)
        if isinstance(value, bool) or value != newest:
            newer = isinstance(value, int) and value > newest
            raise self.error("schema", value, f"{newest}; a newer Samara wrote it" if newer else str(newest))

    def text(self, key: str, default: str | None = None, choices: Iterable[str] = ()) -> str:
        known = tuple(choices)
        expected = f"one of {', '.join(known)}" if known else "a text"
        value = self.take(key, expected, default)
        if not isinstance(value, str) or (known and value not in known):
            raise self.error(key, value, expected)
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self.take(key, "true or false", default)
        if not isinstance(value, bool):
            raise self.error(key, value, "true or false")
        return value

    def number(
        self, key: str, default: float | None = None, *, above: float = -math.inf, upto: float = math.inf
    ) -> float:
        limits = [f"above {above:g}"] * (above > -math.inf) + [f"up to {upto:g}"] * (upto < math.inf)
        expected = f"a number {' and '.join(limits)}" if limits else "a finite number"
        value = self.take(key, expected, default)
        if not is_number(value) or not above < value <= upto:
            raise self.error(key, value, expected)
        return float(value)

    def given_numbers(self, keys: Iterable[str], *, above: float = -math.inf) -> dict[str, float]:
        """Those of these numbers that the table has"""
        return {key: self.number(key, above=above) for key in keys if key in self}

    def whole(self, key: str, default: int, *, low: int, high: int) -> int:
        value = self.take(key, "a whole number", default)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.error(key, value, f"a whole number from {low} to {high}")
        return value

    def vector(self, key: str, default: Any = None) -> Vec3:
        return self.three(key, self.take(key, "three finite numbers", default))

    def three(self, key: str, value: Any, index: int | None = None) -> Vec3:
        """The value of a key, or one of its list, as a vector"""
        try:
            return argument(value, Vec3)
        except UnfitError as error:
            which = "" if index is None else f"[{index}]"
            raise self.wrong(f"{which} = {shown(value)}: expected {error}", key) from None

    def numbers(self, key: str) -> tuple[float, ...]:
        value = self.take(key, "a list of numbers")
        if not isinstance(value, list):
            raise self.error(key, value, "a list of numbers")
        for each in value:
            if not is_number(each):
                raise self.error(key, each, "a finite number")
        return tuple(map(float, value))

    def table(self, key: str) -> Self:
        return type(self)(self.take(key, "a table"), self.file, self.name(key))

    def optional_table(self, key: str) -> Self | None:
        return self.table(key) if key in self else None

    def tables(self, key: str) -> list[Self]:
        value = self.take(key, "a list of tables", [])
        if not isinstance(value, list):
            raise self.error(key, value, "a list of tables")
        return [type(self)(each, self.file, f"{self.name(key)}[{i}]") for i, each in enumerate(value)]

    def kind_table(self, key: str) -> Self:
        """A table, or the text that would be its `kind`"""
        if isinstance(self.entries.get(key), str):
            self.entries[key] = {"kind": self.entries[key]}
        return self.table(key)

    def call(self, function: Callable[..., Any], **given: Any) -> Any:
        """function(**the rest of the table), every value as the annotation of its parameter asks for it

        A key that ends in `_deg` is the angle without that ending, in degrees.
        """
        hints = get_type_hints(function, include_extras=True)
        parameters = {key: own for key, own in signature(function).parameters.items() if key not in given}
        in_degrees = [key for key in self.entries if key.removesuffix("_deg") in parameters]
        self.asked |= dict.fromkeys(parameters)
        self._refuse([key for key in self.entries if key not in in_degrees])
        keywords: dict[str, Any] = dict(given)
        for key in in_degrees:
            plain, value = key.removesuffix("_deg"), self.entries.pop(key)
            try:
                keywords[plain] = argument(radians(value) if key != plain else value, hints.get(plain))
            except UnfitError as error:
                raise self.error(key, value, str(error)) from None
        for key, own in parameters.items():
            if own.default is Parameter.empty and key not in keywords:
                raise self.missing(key, wanted(hints.get(key)))
        with self.at():
            return function(**keywords)


QUANTITY = "{ value, unit, source }"  # what most files have; a spread may stand beside them


class DataSheet(Table):
    """A table of values with their units, which notes their sources."""

    def noted(self, read: Callable[[], Any], otherwise: Any) -> Any:
        """What is read; or what is wrong noted, and reading goes on with something else"""
        try:
            return read()
        except self.file.error as error:
            self.file.note(error)
            return otherwise

    def quantity(self, key: str, unit: str) -> tuple[Any, str]:
        """The bare value and the unit it is given in: the one asked for or a convertible one"""
        whole = self.take(key, QUANTITY)
        if not isinstance(whole, dict):
            raise self.error(key, whole, QUANTITY)
        entry = Table(whole, self.file, self.name(key))
        value, given, source = entry.take("value", "a number or numbers"), entry.text("unit"), entry.text("source", "")
        if "spread" in entry:
            self.file.spreads.append((self.name(key), entry.number("spread", above=0.0)))
        entry.finish()
        given = SPELLINGS.get(given, given)
        if source:
            self.file.sources.append((self.name(key), source))
        if given not in units_for(unit):
            known = " or ".join(repr(each) for each in units_for(unit))
            raise self.wrong(f" has the unit {shown(given)}: expected {known}", key)
        return value, given

    def converted(self, key: str, value: Any, given: str, quantity: Any) -> float:
        """A number of a key's value, in SI units"""
        try:
            return converted(value, given, quantity)
        except UnfitError as error:
            unit = "" if given == "1" else f" {given}"
            raise self.wrong(f" = {shown(value)}{unit}: expected {error}", key) from None

    def value(self, key: str, quantity: Any) -> float:
        return self.converted(key, *self.quantity(key, quantity.unit), quantity)

    def values(self, key: str, quantity: Any, count: int | None = None) -> tuple[float, ...]:
        value, given = self.quantity(key, quantity.unit)
        if not isinstance(value, list) or (count is not None and len(value) != count):
            raise self.error(key, value, f"{count if count is not None else 'a list of'} numbers")
        return tuple(self.converted(key, each, given, quantity) for each in value)

    def three_values(self, key: str, quantity: Any) -> Vec3:
        return Vec3(*self.values(key, quantity, 3))

    def record(self, kind: type[Any]) -> Any:
        """A named tuple whose fields are the table's keys, each with the unit and sign its annotation declares"""
        values = self.fields(kind)
        self.finish()
        return kind(**values)

    def fields(self, kind: type[Any], lacking: bool = False) -> dict[str, Any]:
        """The fields of a record that the table has; the others must have defaults, unless some may be lacking"""
        values: dict[str, Any] = {}
        for key, own in fields_of(kind).items():
            if key not in self and (lacking or key in kind._field_defaults):
                continue
            read: Callable[..., Any] = (
                self.three_values if own.numbers == 3 else self.value if own.numbers else self.values
            )
            values[key] = self.noted(partial(read, key, own.quantity), None)
        return values


def is_file(name: str | Path) -> bool:
    """Whether a name is that of a file and not of something shipped; "x.toml/" and "x.toml/." are files as well."""
    return Path(name).suffix == ".toml"


class Found(NamedTuple):
    """The text of a file, what errors call it, and its folder, in which it may name others; a shipped one has none."""

    text: str
    origin: str
    folder: Path | None = None


class Shipped(NamedTuple):
    """All files of one kind: what it is called, the folder they lie in as a package, the class of its errors."""

    kind: str
    package: str
    error: type[ValueError]

    def names(self) -> list[str]:
        entries = resources.files(self.package).iterdir()
        return sorted(entry.name[:-5] for entry in entries if entry.name.endswith(".toml"))

    def find(self, name_or_path: str | Path) -> Found:
        """A shipped file by its name, or any other by its path"""
        path, name = Path(name_or_path), str(name_or_path)
        if is_file(name_or_path):
            try:
                return Found(read_text(path), path.name, path.parent)
            except (OSError, UnicodeDecodeError) as error:
                raise self.error(f"{path}: cannot be read ({error}); expected a {self.kind} file") from None
        if name not in self.names():
            known = ", ".join(self.names())
            raise self.error(f"no {self.kind} {shown(name)}; expected a .toml file or one of {known}")
        entry = resources.files(self.package).joinpath(f"{name}.toml")
        return Found(entry.read_text(encoding="utf-8"), f"{name}.toml")


def toml_value(value: Any) -> str:
    """Write a text, number, flag, date, list or table so that `tomllib` reads the same value back."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):  # TOML's strings are JSON's, but DEL is escaped and letters beyond U+FFFF are not
        return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{toml_value(str(key))} = {toml_value(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(toml_value, value))}]"
    return repr(value) if isinstance(value, int) else repr(float(value))
