"""Safe display of texts from untrusted files: names, paths and values in messages."""

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple
from unicodedata import category

CONTROL_CATEGORIES = {
    "Cc",
    "Cf",
    "Cs",
    "Zl",
    "Zp",
}  # Unicode categories: control, format, surrogate, line and paragraph separators

MAX_QUOTED_LENGTH = 120  # characters of an untrusted text that an error repeats


def escape_control_characters(text: str) -> str:
    """Escape every character that would control a terminal as in Python source: "\\x1b" for escape."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter in "\n\t" or category(letter) not in CONTROL_CATEGORIES else ascii(letter)[1:-1]
        for letter in text
    )


def quote_key(key: str) -> str:
    """Format a key of a file for an error: bare if it is short and TOML accepts it bare, else as its `repr`."""
    return key if key.replace("-", "_").isidentifier() and len(key) <= MAX_QUOTED_LENGTH else quote_value(key)


def quote_value(value: Any) -> str:
    """Format a value for an error: its `repr`, truncated to one line."""
    try:
        text = " ".join(repr(value).split("\n"))
    except (ValueError, RecursionError):
        return "a number of thousands of digits" if isinstance(value, int) else "a value too long to be written"
    return text if len(text) <= MAX_QUOTED_LENGTH else f"{text[: MAX_QUOTED_LENGTH - 3]}..."


def suggest_closest(name: str, valid_names: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: "; did you mean iris?", or "" if no valid name is similar."""
    closest = get_close_matches(name, list(valid_names), 3)
    return f"; did you mean {' or '.join(closest)}?" if closest else ""


MAX_NESTING_DEPTH = 100  # levels; deeper texts stay unmarked


class UserText(str):
    """Text that the user typed, as opposed to text from a file."""

    __slots__ = ()


class UserTextOnly(NamedTuple):
    """Annotation mark of a parameter, `Annotated[str, UserTextOnly(...)]`, that a file may set only to text that
    `is_harmless`."""

    expected: str
    is_harmless: Callable[[str], bool]

    def accepts(self, text: str) -> bool:
        return isinstance(text, UserText) or self.is_harmless(text)


def mark_user_text(value: Any, depth: int = MAX_NESTING_DEPTH) -> Any:
    """Mark every text in the value's tables and lists as `UserText`."""
    if isinstance(value, str):
        return UserText(value)
    if depth and isinstance(value, Mapping):
        return {key: mark_user_text(inner, depth - 1) for key, inner in value.items()}
    if depth and type(value) in (list, tuple):
        return type(value)(mark_user_text(inner, depth - 1) for inner in value)
    return value
