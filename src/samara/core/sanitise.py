"""Texts of strangers made fit to be shown: names and paths come from files that others wrote."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from unicodedata import category

STEERING = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # Unicode's control, format and half characters, and its other line ends

LINE = 120  # letters of a stranger's text that an error repeats


def printable(text: str) -> str:
    """The text with every character that would steer a terminal written as Python writes it: "\\x1b" for escape."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter in "\n\t" or category(letter) not in STEERING else ascii(letter)[1:-1] for letter in text
    )


def shown_key(key: str) -> str:
    """A key of a file as an error names it: bare where TOML takes it bare and it is short, else as Python writes it"""
    return key if key.replace("-", "_").isidentifier() and len(key) <= LINE else shown(key)


def shown(value: Any) -> str:
    """A value as an error quotes it: as Python writes it, and never longer than a line"""
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        return "a number of thousands of digits" if isinstance(value, int) else "a value too long to be written"
    return text if len(text) <= LINE else f"{text[: LINE - 3]}..."


DEEPEST = 100  # levels of nesting; deeper text stays plain


class Typed(str):
    """Text the user typed."""

    __slots__ = ()


class OnlyTyped(NamedTuple):
    """Mark of a parameter, `Annotated[str, OnlyTyped(...)]`, which a file may set only to text that `is_harmless`."""

    expected: str
    is_harmless: Callable[[str], bool]

    def accepts(self, text: str) -> bool:
        return isinstance(text, Typed) or self.is_harmless(text)


def typed(value: Any, depth: int = DEEPEST) -> Any:
    """Return the value with every text in its tables and lists marked as `Typed`."""
    if isinstance(value, str):
        return Typed(value)
    if depth and isinstance(value, Mapping):
        return {key: typed(inner, depth - 1) for key, inner in value.items()}
    if depth and type(value) in (list, tuple):
        return type(value)(typed(inner, depth - 1) for inner in value)
    return value
