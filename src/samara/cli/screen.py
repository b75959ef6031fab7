"""Where the command line prints."""

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


def console(**options: Any) -> "Console":
    """Where results are printed: as wide as the terminal, and wide enough for a table where there is none."""
    from rich.console import Console

    in_terminal = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(width=None if in_terminal else 110, **options)
