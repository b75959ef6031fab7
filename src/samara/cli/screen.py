"""Where the command line prints: every text as it is written.

Brackets are units and names, never markup, and what would steer the terminal is shown instead of sent to it.
"""

import os
import sys
from typing import TYPE_CHECKING, Any

from samara.printable import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


def console() -> "Console":
    """Where results are printed: as wide as the terminal, and wide enough for a table where there is none."""
    from rich.console import Console

    class Screen(Console):
        def render_str(self, text: str, **style: Any) -> "Text":
            return super().render_str(printable(text), **style)

    in_terminal = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Screen(width=None if in_terminal else 110, markup=False, emoji=False, highlight=False)


def say(text: str) -> None:
    """One line or several on stdout, of any length"""
    print(printable(text))


def verdict(true: bool, text: str) -> "Text":
    """✓ or ✗ and what it is about"""
    from rich.text import Text

    return Text.assemble(("✓", "green") if true else ("✗", "red"), f" {printable(text)}")
