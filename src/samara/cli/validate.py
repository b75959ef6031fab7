"""`samara validate`: models against real flights."""

from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from samara.cli.screen import console, say
from samara.core.printable import printable

if TYPE_CHECKING:
    from samara.identify.validation import Score


def validate(
    folder: Annotated[Path, typer.Argument(help="A folder of NanoBench flights, .csv or .csv.gz.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for table and picture.")] = Path(
        "out/validation"
    ),
) -> None:
    """Replay recorded motor commands open loop from measured states, and say how far models and real flights part."""
    from rich.markup import escape

    from samara.core.files import write_text
    from samara.identify.validation import all_flights, table
    from samara.identify.validation import validate as compare
    from samara.view.plot.validation import draw_validation

    screen = console()
    with screen.status("replaying") as status:
        scores = compare(folder, progress=lambda name: status.update(escape(f"replaying {printable(name)}")))
    screen.print(score_table(all_flights(scores)))
    written, picture = out / "validation.md", out / "validation.png"
    write_text(written, table(scores))
    draw_validation(scores, picture)
    say(f"table   {written}\npicture {picture}")


def score_table(together: "Score") -> Any:
    from rich import box
    from rich.table import Table

    from samara.identify.readers.nanobench import PERIOD
    from samara.identify.validation import HORIZONS
    from samara.identify.windows import QUANTITIES, UNITS

    horizons = " / ".join(f"{h:g}" for h in HORIZONS)
    title = f"RMS error after {horizons} s, {together.windows} windows"
    shown = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left")
    shown.add_column("model")
    for quantity, unit in zip(QUANTITIES, UNITS, strict=True):
        shown.add_column(f"{quantity} {unit}", no_wrap=True)
    for name, rms in together.rms.items():
        numbers = [[rms[quantity][round(h / PERIOD)] for h in HORIZONS] for quantity in QUANTITIES]
        shown.add_row(name, *("–" if isnan(own[0]) else " / ".join(_short(x) for x in own) for own in numbers))
    return shown


def _short(x: float) -> str:
    """Two figures, and none behind the point from ten on"""
    return f"{x:.0f}" if x >= 10.0 else f"{x:.2g}"
