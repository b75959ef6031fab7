"""Output of the command line, its progress bars, and the signals that interrupt it.

Texts are printed literally: brackets are units and names, never markup, and control characters are shown instead of sent to
the terminal.
"""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from samara.core.sanitise import escape_control_characters

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import Progress, ProgressColumn
    from rich.table import Table
    from rich.text import Text

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
INTERRUPTED = 130  # the exit status that shells give a program ended by Ctrl-C
FAILED = 1  # the exit status of a failed expectation, requirement or comparison


def prepare_streams() -> None:
    """Make stdout and stderr accept any text: unencodable characters become '?', closed streams discard everything."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 (open until the process ends)
        elif isinstance(stream, TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")


def discard_stdout() -> None:
    """Redirect stdout to the null device: its reader is gone, as after `| head`."""
    null_device = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null_device, sys.stdout.fileno())
    os.close(null_device)


def console() -> "Console":
    """Create the console for results: as wide as the terminal, or 110 columns without one."""
    from rich.console import Console

    class SafeConsole(Console):
        def render_str(self, text: str, **style: object) -> "Text":
            return super().render_str(escape_control_characters(text), **style)  # type: ignore[arg-type]

        def on_broken_pipe(self) -> None:
            discard_stdout()

    in_terminal = sys.stdout.isatty() or "COLUMNS" in os.environ
    return SafeConsole(width=None if in_terminal else 110, markup=False, emoji=False, highlight=False)


def say(text: str) -> None:
    """Print lines of any length on stdout."""
    try:
        print(escape_control_characters(text), flush=True)
    except BrokenPipeError:
        discard_stdout()


def command_text(*words: object) -> str:
    """Format a command of Samara as the user can type it here: with the path of the program if `samara` is not on the PATH."""
    program, on_path = Path(sys.argv[0]), shutil.which("samara")
    if program.stem != "samara" or not program.is_file() or (on_path and program.samefile(on_path)):
        program = Path("samara")
    elif program.is_absolute() and program.is_relative_to(Path.cwd()):
        program = program.relative_to(Path.cwd())
    line = [str(program), *map(str, words)]
    return subprocess.list2cmdline(line) if sys.platform == "win32" else shlex.join(line)


def check_mark(passed: bool, text: str) -> "Text":
    """Format ✓ or ✗ followed by `text`."""
    from rich.text import Text

    return Text.assemble(("✓", "green") if passed else ("✗", "red"), f" {escape_control_characters(text)}")


MIN_TEXT_WIDTH = 32  # a narrower column breaks sentences into single words


def table(
    headings: Sequence[str],
    rows: "Iterable[Iterable[RenderableType]]" = (),
    title: str | None = None,
    *,
    right: Sequence[str] = (),
) -> "Table":
    """Create a table with a line below its headings; columns whose heading is in `right` are aligned to the right.

    In a terminal that is too narrow for it, each row becomes a block: its first cell, its figures, and its texts.
    """
    from rich import box
    from rich.cells import cell_len
    from rich.console import ConsoleOptions
    from rich.console import RenderResult as RichResult
    from rich.padding import Padding
    from rich.table import Table

    class ResultTable(Table):
        def __rich_console__(self, console: "Console", options: ConsoleOptions) -> RichResult:
            columns = [[column.header, *column.cells] for column in self.columns]
            widths = [max((_natural_width(cell) for cell in cells), default=0) for cells in columns]
            for column, width in zip(self.columns, widths, strict=True):
                column.no_wrap = width <= MIN_TEXT_WIDTH
            needed = sum(min(width, MIN_TEXT_WIDTH) + 3 for width in widths)
            fits = needed <= options.max_width
            yield from super().__rich_console__(console, options) if fits else self._blocks(console)

        def _blocks(self, console: "Console") -> RichResult:
            if self.title:
                yield console.render_str(str(self.title), style="italic")
            names = [str(column.header).replace("/\n", "/").replace("\n", " ").strip() for column in self.columns[1:]]
            for first, *others in zip(*(column.cells for column in self.columns), strict=True):
                yield console.render_str(first, style="bold") if isinstance(first, str) else first
                cells = [
                    (f"{name} {cell}".strip(), column)
                    for name, cell, column in zip(names, others, self.columns[1:], strict=True)
                    if str(cell)
                ]
                figures = ", ".join(text.replace("\n", " to ") for text, column in cells if column.no_wrap)
                for text in filter(None, (figures, *(text for text, column in cells if not column.no_wrap))):
                    yield Padding(console.render_str(text), (0, 0, 0, 2))

    def _natural_width(cell: "RenderableType") -> int:
        return max(map(cell_len, str(cell).split("\n")))

    result = ResultTable(box=box.SIMPLE_HEAD, title=title, title_justify="left")
    for heading in headings:
        result.add_column(heading, justify="right" if heading in right else "left")
    for row in rows:
        result.add_row(*row)
    return result


@contextmanager
def progress_bar(
    description: str, *columns: "ProgressColumn", total: float | None = None, transient: bool = False, **fields: object
) -> "Iterator[tuple[Progress, Callable[..., None]]]":
    """Show a progress bar; yields it and a function that updates it, which raises KeyboardInterrupt after a signal."""
    from rich.progress import Progress

    with handle_interrupts() as interrupt, Progress(*columns, console=console(), transient=transient) as bar:
        task = bar.add_task(escape_control_characters(description), total=total, **fields)  # type: ignore[arg-type]

        def update(completed: float, total: float | None = None, **changes: object) -> None:
            interrupt.check()
            bar.update(task, completed=completed, total=total, **changes)  # type: ignore[arg-type]

        yield bar, update


# Signals ----------------------------------------------------------------------------------------------------------------


class Interrupts:
    """Handler that records the arrival of a signal and raises KeyboardInterrupt."""

    received = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        self.received = True
        raise KeyboardInterrupt

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal has arrived: LLVM's callbacks swallow exceptions raised in them."""
        if self.received:
            raise KeyboardInterrupt


@contextmanager
def handle_interrupts() -> Iterator[Interrupts]:
    """Raise KeyboardInterrupt when one of `SIGNALS` arrives; an ignored signal, as under nohup, stays ignored.

    Nested contexts share their state, so the inner context also reports an interrupt that was swallowed in the outer one.
    """
    if threading.current_thread() is not threading.main_thread():  # only the main thread receives signals
        yield Interrupts()
        return
    signals = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    outer = (handler for number in signals if isinstance(handler := signal.getsignal(number), Interrupts))
    state = next(outer, Interrupts())
    previous_handlers = {number: signal.signal(number, state) for number in signals}
    report_unraisable = sys.unraisablehook

    def ignore_interrupts(error: "sys.UnraisableHookArgs") -> None:
        if not isinstance(
            error.exc_value, KeyboardInterrupt
        ):  # `check` raises a swallowed interrupt again, without a traceback
            report_unraisable(error)

    sys.unraisablehook = ignore_interrupts
    try:
        yield state
    finally:
        sys.unraisablehook = report_unraisable
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)
