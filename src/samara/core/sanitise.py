"""Safe display of texts from untrusted files: names, paths and values in messages."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from unicodedata import category

STEERING = {
    "Cc",
    "Cf",
    "Cs",
    "Zl",
    "Zp",
}  # Unicode categories: control, format, surrogate, line and paragraph separators

LINE = 120  # characters of an untrusted text that an error repeats


def printable(text: str) -> str:
    """Escape every character that would control a terminal as in Python source: "\\x1b" for escape."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter in "\n\t" or category(letter) not in STEERING else ascii(letter)[1:-1] for letter in text
    )


def shown_key(key: str) -> str:
    """Format a key of a file for an error: bare if it is short and TOML accepts it bare, else as its `repr`."""
    return key if key.replace("-", "_").isidentifier() and len(key) <= LINE else shown(key)


def shown(value: Any) -> str:
    """Format a value for an error: its `repr`, truncated to one line."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        return "a number of thousands of digits" if isinstance(value, int) else "a value too long to be written"
    return text if len(text) <= LINE else f"{text[: LINE - 3]}..."


DEEPEST = 100  # levels; deeper texts stay unmarked


class Typed(str):
    """Text that the user typed, as opposed to text from a file."""

    __slots__ = ()


class OnlyTyped(NamedTuple):
    """Annotation mark of a parameter, `Annotated[str, OnlyTyped(...)]`, that a file may set only to text that `is_harmless`."""

    expected: str
    is_harmless: Callable[[str], bool]

    def accepts(self, text: str) -> bool:
        return isinstance(text, Typed) or self.is_harmless(text)


def typed(value: Any, depth: int = DEEPEST) -> Any:
    """Mark every text in the value's tables and lists as `Typed`."""
    if isinstance(value, str):
        return Typed(value)
    if depth and isinstance(value, Mapping):
        return {key: typed(inner, depth - 1) for key, inner in value.items()}
    if depth and type(value) in (list, tuple):
        return type(value)(typed(inner, depth - 1) for inner in value)
    return value
