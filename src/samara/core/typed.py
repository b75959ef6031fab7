"""Text the user typed: options of the command line, environment variables and arguments of Python calls.

Only such text may name a program to start, a host to reach or a file outside the folder of the file that is being read. The
trust is part of the type: all text from a TOML, JSON or MCAP file is a plain `str`, and code that needs typed text checks
`isinstance(text, Typed)`. `typed` is called where a user's words enter, in `samara.cli` and in public functions that
take `settings`, and nowhere else (tests/repository/test_trust.py).
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

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
