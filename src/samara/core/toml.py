"""Strict tables of a TOML file: readers take the keys they support, and remaining keys are refused.

A problem is one sentence: the file, the key with its parent tables, its value, the expectation. Every format has an error
class, stored in its `TomlFile`; a file with a `problems` list collects all problems, and reading continues after each.
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
from samara.core.atomic_files import NESTING_ERROR
from samara.core.budget import Budget, read_text
from samara.core.coerce import InvalidValueError, coerce_argument, describe_expected, is_number, radians
from samara.core.sanitise import quote_key, quote_value, suggest_closest
from samara.core.units import SPELLINGS, accepted_units, convert_to_si, record_fields

MAX_TOML_BYTES = 1 << 23
MAX_TOML_NODES = 300_000  # key parts, values and tables: tomllib needs up to 1 kB for each
MAX_KEY_PARTS = 32  # tomllib's memory grows with the square of this number
_OPAQUE = re.compile(
    r'"""(?:[^"\\]++|\\.|"(?!""))*+(?:""")?|'
    r"'''(?:[^']++|'(?!''))*+(?:''')?|"
    r'"(?:[^"\\\n]++|\\.)*+"?|'
    r"'[^'\n]*+'?|#[^\n]*+",
    re.DOTALL,
)  # strings and comments; an unclosed one ends with the line or the text; possessive quantifiers keep the scan linear
_SEPARATOR = re.compile(r"[=,\[\]{}\n]")
MAX_LISTED_KEYS = 16  # keys listed in a message; those most similar to the refused one come first


@dataclass(frozen=True)
class TomlFile:
    """The name of a file in errors, its error class, the collected problems (None: raise at once), and the (key, source) and
    (key, spread) pairs of its values."""

    origin: str
    error: type[ValueError]
    problems: list[str] | None = None
    sources: list[tuple[str, str]] = field(default_factory=list)
    spreads: list[tuple[str, float]] = field(default_factory=list)

    def report(self, problem: ValueError) -> None:
        """Append the problem to the collected ones, or raise it if problems are not collected."""
        if self.problems is None:
            raise problem
        self.problems.append(str(problem))


def parse_document(text: str, origin: str, error: type[ValueError] = ValueError) -> dict[str, Any]:
    """Parse a text into plain tables."""
    _require_affordable(text, Budget(origin, error, max_bytes=MAX_TOML_BYTES, max_nodes=MAX_TOML_NODES))
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))  # the byte order mark of Windows editors
    except RecursionError:
        raise error(f"{origin}: is not TOML ({NESTING_ERROR})") from None
    except ValueError as reason:  # from tomllib, and from Python for integers with too many digits
        raise error(f"{origin}: is not TOML ({reason})") from None


def _require_affordable(text: str, budget: Budget) -> None:
    """Count keys and values before tomllib allocates memory for them; refuse dotted keys with too many parts."""
    budget.spend_bytes(len(text))
    bare = _OPAQUE.sub('"', text)
    budget.spend_nodes(sum(map(bare.count, "=,[{.")), "keys and values")
    dots = max(piece.count(".") for piece in _SEPARATOR.split(bare))
    if dots >= MAX_KEY_PARTS:
        raise budget.overrun(f"has a dotted key of {dots + 1} parts", str(MAX_KEY_PARTS))


class TomlTable:
    """A table of the file with its path, its requested keys and its remaining entries."""

    def __init__(self, entries: Any, file: TomlFile, path: str = "") -> None:
        if not isinstance(entries, dict):
            raise file.error(f"{file.origin}: {path} = {quote_value(entries)}: expected a table")
        self.entries, self.file, self.path = dict(entries), file, path
        self.requested_keys: dict[str, None] = {}

    def __contains__(self, key: str) -> bool:
        self.requested_keys[key] = None
        return key in self.entries

    # Errors

    def name(self, key: str) -> str:
        """Return the key with its parent tables."""
        return f"{self.path}.{quote_key(key)}" if self.path else quote_key(key)

    def make_error(self, text: str, key: str = "") -> ValueError:
        """Create an error about this table, or about a key of it."""
        return self.file.error(f"{self.file.origin}: {self.name(key) if key else self.path}{text}")

    def error(self, key: str, value: Any, expected: str) -> ValueError:
        return self.make_error(f" = {quote_value(value)}: expected {expected}", key)

    def missing_error(self, key: str, expected: str) -> ValueError:
        return self.make_error(f" is missing: expected {expected}", key)

    @contextmanager
    def error_context(self, key: str = "") -> Iterator[None]:
        """Attribute a ValueError raised inside to this table, or to a key of it; errors of the file's class pass unchanged."""
        try:
            yield
        except self.file.error:
            raise
        except (ValueError, TypeError, ArithmeticError) as error:
            raise self.make_error(f": {error}" if key or self.path else str(error), key) from None

    def finish(self) -> None:
        """Refuse the keys that were not taken."""
        self._refuse(list(self.entries))

    def refuse_unknown_keys(self, keys: Iterable[str]) -> None:
        """Refuse all keys except these and those requested earlier."""
        self.requested_keys |= dict.fromkeys(keys)
        self._refuse([key for key in self.entries if key not in self.requested_keys])

    def _refuse(self, keys: list[str]) -> None:
        for key in keys:
            similar_keys = (
                get_close_matches(key, self.requested_keys, 3) if len(self.requested_keys) > MAX_LISTED_KEYS else []
            )
            accepted_keys = [
                *similar_keys,
                *(accepted for accepted in self.requested_keys if accepted not in similar_keys),
            ]
            listed = (
                ", ".join(
                    accepted_keys
                    if len(accepted_keys) <= MAX_LISTED_KEYS
                    else [*accepted_keys[:MAX_LISTED_KEYS], "..."]
                )
                or "none"
            )
            self.file.report(self.error(key, self.entries[key], f"only the keys {listed} here"))

    # Values

    def take(self, key: str, expected: str, default: Any = None) -> Any:
        if key in self:
            return self.entries.pop(key)
        if default is None:
            raise self.missing_error(key, expected)
        return default

    def schema(self, newest: int, default: int | None = None) -> None:
        """Check the version of the format; only one is supported."""
        value = self.take("schema", str(newest), default)
        if isinstance(value, bool) or value != newest:
            newer = isinstance(value, int) and value > newest
            raise self.error("schema", value, f"{newest}; a newer Samara wrote it" if newer else str(newest))

    def text(self, key: str, default: str | None = None, choices: Iterable[str] = ()) -> str:
        accepted = tuple(choices)
        expected = f"one of {', '.join(accepted)}" if accepted else "a text"
        value = self.take(key, expected, default)
        if not isinstance(value, str) or (accepted and value not in accepted):
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

    def present_numbers(self, keys: Iterable[str], *, above: float = -math.inf) -> dict[str, float]:
        """Return those of these numbers that the table contains."""
        return {key: self.number(key, above=above) for key in keys if key in self}

    def integer(self, key: str, default: int, *, low: int, high: int) -> int:
        value = self.take(key, "a whole number", default)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.error(key, value, f"a whole number from {low} to {high}")
        return value

    def vector(self, key: str, default: Any = None) -> Vec3:
        return self.parse_vector(key, self.take(key, "three finite numbers", default))

    def parse_vector(self, key: str, value: Any, index: int | None = None) -> Vec3:
        """Convert the value of a key, or an element of its list, to a vector."""
        try:
            return coerce_argument(value, Vec3)
        except InvalidValueError as error:
            suffix = "" if index is None else f"[{index}]"
            raise self.make_error(f"{suffix} = {quote_value(value)}: expected {error}", key) from None

    def numbers(self, key: str) -> tuple[float, ...]:
        value = self.take(key, "a list of numbers")
        if not isinstance(value, list):
            raise self.error(key, value, "a list of numbers")
        for number in value:
            if not is_number(number):
                raise self.error(key, number, "a finite number")
        return tuple(map(float, value))

    def table(self, key: str) -> Self:
        return type(self)(self.take(key, "a table"), self.file, self.name(key))

    def optional_table(self, key: str) -> Self | None:
        return self.table(key) if key in self else None

    def tables(self, key: str) -> list[Self]:
        value = self.take(key, "a list of tables", [])
        if not isinstance(value, list):
            raise self.error(key, value, "a list of tables")
        return [type(self)(entries, self.file, f"{self.name(key)}[{i}]") for i, entries in enumerate(value)]

    def type_table(self, key: str) -> Self:
        """Return a table; a text stands for a table with only that `type`."""
        if isinstance(self.entries.get(key), str):
            self.entries[key] = {"type": self.entries[key]}
        return self.table(key)

    def call(self, function: Callable[..., Any], **fixed: Any) -> Any:
        """Call function(**remaining entries), each value converted as the annotation of its parameter declares.

        A key that ends in `_deg` sets the parameter without that suffix, in degrees. `fixed` are keyword arguments from code.
        """
        hints = get_type_hints(function, include_extras=True)
        parameters = {key: parameter for key, parameter in signature(function).parameters.items() if key not in fixed}
        parameter_keys = [key for key in self.entries if key.removesuffix("_deg") in parameters]
        self.requested_keys |= dict.fromkeys(parameters)
        self._refuse([key for key in self.entries if key not in parameter_keys])
        keywords: dict[str, Any] = dict(fixed)
        for key in parameter_keys:
            parameter_name, value = key.removesuffix("_deg"), self.entries.pop(key)
            try:
                keywords[parameter_name] = coerce_argument(
                    radians(value) if key != parameter_name else value, hints.get(parameter_name)
                )
            except InvalidValueError as error:
                raise self.error(key, value, str(error)) from None
        for key, parameter in parameters.items():
            if parameter.default is Parameter.empty and key not in keywords:
                raise self.missing_error(key, describe_expected(hints.get(key)))
        with self.error_context():
            return function(**keywords)


QUANTITY = "{ value, unit, source }"  # the usual keys; `spread` is optional


class DataSheet(TomlTable):
    """A table of values with units, which records their sources."""

    def read_or_report(self, read: Callable[[], Any], fallback: Any) -> Any:
        """Return read(); on an error, report it and return `fallback`, so that reading continues."""
        try:
            return read()
        except self.file.error as error:
            self.file.report(error)
            return fallback

    def quantity(self, key: str, unit: str) -> tuple[Any, str]:
        """Return the bare value of a key and its unit, which is `unit` or convertible to it."""
        fields = self.take(key, QUANTITY)
        if not isinstance(fields, dict):
            raise self.error(key, fields, QUANTITY)
        entry = TomlTable(fields, self.file, self.name(key))
        value, written_unit, source = (
            entry.take("value", "a number or numbers"),
            entry.text("unit"),
            entry.text("source", ""),
        )
        if "spread" in entry:
            self.file.spreads.append((self.name(key), entry.number("spread", above=0.0)))
        entry.finish()
        written_unit = SPELLINGS.get(written_unit, written_unit)
        if source:
            self.file.sources.append((self.name(key), source))
        if written_unit not in accepted_units(unit):
            expected_units = " or ".join(repr(accepted) for accepted in accepted_units(unit))
            raise self.make_error(f" has the unit {quote_value(written_unit)}: expected {expected_units}", key)
        return value, written_unit

    def convert(self, key: str, value: Any, written_unit: str, quantity: Any) -> float:
        """Convert an element of a key's value to SI units."""
        try:
            return convert_to_si(value, written_unit, quantity)
        except InvalidValueError as error:
            unit = "" if written_unit == "1" else f" {written_unit}"
            raise self.make_error(f" = {quote_value(value)}{unit}: expected {error}", key) from None

    def value(self, key: str, quantity: Any) -> float:
        return self.convert(key, *self.quantity(key, quantity.unit), quantity)

    def values(self, key: str, quantity: Any, count: int | None = None) -> tuple[float, ...]:
        value, written_unit = self.quantity(key, quantity.unit)
        if not isinstance(value, list) or (count is not None and len(value) != count):
            raise self.error(key, value, f"{count if count is not None else 'a list of'} numbers")
        return tuple(self.convert(key, element, written_unit, quantity) for element in value)

    def three_values(self, key: str, quantity: Any) -> Vec3:
        return Vec3(*self.values(key, quantity, 3))

    def record(self, record_type: type[Any]) -> Any:
        """Read a named tuple whose fields are the table's keys, each with the unit and sign its annotation declares."""
        values = self.fields(record_type)
        self.finish()
        return record_type(**values)

    def fields(self, record_type: type[Any], allow_missing: bool = False) -> dict[str, Any]:
        """Read the fields of a record that the table contains; absent ones need a default, unless `allow_missing` is set."""
        values: dict[str, Any] = {}
        for name, record_field in record_fields(record_type).items():
            key = record_field.key
            if key not in self and (allow_missing or name in record_type._field_defaults):
                continue
            read: Callable[..., Any] = (
                self.three_values if record_field.length == 3 else self.value if record_field.length else self.values
            )
            values[name] = self.read_or_report(partial(read, key, record_field.quantity), None)
        return values


def is_toml_path(name: str | Path) -> bool:
    """Whether a name is a file path rather than a shipped name; "x.toml/" and "x.toml/." are paths as well."""
    return Path(name).suffix == ".toml"


class TomlText(NamedTuple):
    """The text of a file, its name in errors, and its folder, to which relative paths refer; None for a shipped file."""

    text: str
    origin: str
    folder: Path | None = None


class ShippedFiles(NamedTuple):
    """The shipped files of one format: its name in messages, the package that contains them, its error class."""

    format_name: str
    package: str
    error: type[ValueError]

    def names(self) -> list[str]:
        entries = resources.files(self.package).iterdir()
        return sorted(entry.name[:-5] for entry in entries if entry.name.endswith(".toml"))

    def find(self, name_or_path: str | Path) -> TomlText:
        """Read a shipped file by its name, or any other file by its path."""
        if not isinstance(name_or_path, str | Path):
            expected = f"the name of a shipped {self.format_name}, or the path of a .toml file"
            raise self.error(f"{self.format_name} = {quote_value(name_or_path)}: expected {expected}")
        path, name = Path(name_or_path), str(name_or_path)
        if is_toml_path(name_or_path):
            try:
                return TomlText(read_text(path), path.name, path.parent)
            except OSError as error:
                raise self.error(
                    f"{path}: cannot be read ({error.strerror or error}); expected a {self.format_name} file"
                ) from None
        if name not in self.names():
            raise self.error(
                f"no {self.format_name} {quote_value(name)}; expected a .toml file or one of {', '.join(self.names())}"
                f"{suggest_closest(name, self.names())}"
            )
        entry = resources.files(self.package).joinpath(f"{name}.toml")
        return TomlText(entry.read_text(encoding="utf-8"), f"{name}.toml")


def toml_key(key: str) -> str:
    """Write a key, quoted only if TOML requires it."""
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else toml_value(key)


def toml_value(value: Any) -> str:
    """Write a text, number, flag, date, list or table so that `tomllib` reads the same value back."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):  # TOML's strings are JSON's, but DEL is escaped and characters beyond U+FFFF are not
        return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{toml_key(str(key))} = {toml_value(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(toml_value, value))}]"
    return repr(value) if isinstance(value, int) else repr(float(value))
