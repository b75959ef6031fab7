"""Where the command line prints: every text as it is written.

Brackets are units and names, never markup, and what would steer the terminal is shown instead of sent to it.
"""

import os
import sys
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any

from samara.core.sanitise import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


def ready_streams() -> None:
    """stdout and stderr that take any text: what a terminal has no letter for is a ?, where one is closed nothing is printed"""
    for name in ("stdout", "stderr"):
        own = getattr(sys, name)
        if own is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 (it is open as long as we run)
        elif isinstance(own, TextIOWrapper) and own.errors == "strict":
            own.reconfigure(errors="replace")


def hang_up() -> None:
    """Nobody reads stdout any more, as after `| head`: what is printed goes nowhere, and the work goes on"""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def console() -> "Console":
    """Where results are printed: as wide as the terminal, and wide enough for a table where there is none."""
    from rich.console import Console

    class Screen(Console):
        def render_str(self, text: str, **style: Any) -> "Text":
            return super().render_str(printable(text), **style)

        def on_broken_pipe(self) -> None:
            hang_up()

    in_terminal = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Screen(width=None if in_terminal else 110, markup=False, emoji=False, highlight=False)


def say(text: str) -> None:
    """One line or several on stdout, of any length"""
    try:
        print(printable(text), flush=True)
    except BrokenPipeError:
        hang_up()


def verdict(true: bool, text: str) -> "Text":
    """✓ or ✗ and what it is about"""
    from rich.text import Text

    return Text.assemble(("✓", "green") if true else ("✗", "red"), f" {printable(text)}")
