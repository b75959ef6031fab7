"""`samara validate`: vehicles against real flights."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from samara.cli.console import console, say
from samara.core.sanitise import printable

if TYPE_CHECKING:
    from samara.identify.scores import Score

Columns = Annotated[
    Path | None, typer.Option("--columns", help="A .toml file: what the columns of a CSV, or a bag's topics, are.")
]
Outputs = Annotated[
    str, typer.Option("--outputs", help="What a motor's output is linear in: the rotor's speed, or its thrust.")
]


def validate(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="VEHICLE|LOG",
            help="Vehicles, shipped or .toml files, and flight logs or folders of them. Without a vehicle, the Crazyflies.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for table and picture.")] = Path(
        "out/validation"
    ),
    columns: Columns = None,
    outputs: Outputs = "speed",
) -> None:
    """Replay recorded motor commands open loop from measured states, and say how far vehicles and real flights part."""
    from rich.markup import escape

    from samara.core.atomic_files import write_text
    from samara.identify.readers.registry import read_logs
    from samara.identify.scores import together
    from samara.identify.validation import VEHICLES, table
    from samara.identify.validation import validate as compare
    from samara.vehicles.loader import vehicle_names
    from samara.view.plot.identify import draw_validation

    vehicles = [own for own in what if own in vehicle_names() or own.endswith(".toml")]
    paths = [own for own in what if own not in vehicles]
    if not paths:
        raise ValueError(f"{' '.join(what)}: vehicles alone; expected flight logs, or a folder of them, too")
    screen = console()
    with screen.status("reading") as status:
        logs = read_logs(paths, columns)
        scores = compare(
            logs,
            vehicles or VEHICLES,
            lambda name: status.update(escape(f"replaying {printable(name)}")),
            outputs,
        )
    whole = together(scores)
    screen.print(score_table(whole))
    screen.print(ratio_table(whole))
    written, picture = out / "validation.md", out / "validation.png"
    write_text(written, table(scores))
    draw_validation(scores, picture)
    say(f"table   {written}\npicture {picture}")


def score_table(together: "Score") -> Any:
    """RMS errors of all flights together"""
    from samara.identify.prediction_windows import QUANTITIES, UNITS
    from samara.identify.validation import HORIZONS, at

    horizons = " / ".join(f"{h:g}" for h in HORIZONS)
    shown = _table(f"RMS error after {horizons} s, {together.windows} windows")
    for quantity, unit in zip(QUANTITIES, UNITS, strict=True):
        shown.add_column(f"{quantity} {unit}", no_wrap=True)
    for name in together.rms:
        numbers = [[at(together, name, quantity, h) for h in HORIZONS] for quantity in QUANTITIES]
        shown.add_row(name, *(" / ".join(_short(x) for x in own) for own in numbers))
    return shown


def ratio_table(together: "Score") -> Any:
    """Errors after half a second over those of constant velocity: below 1 a model knows something"""
    from samara.identify.prediction_windows import BASELINES, QUANTITIES
    from samara.identify.scores import COASTING, ratios

    shown = _table(f"After half a second, over the error of {COASTING}")
    for quantity in QUANTITIES:
        shown.add_column(quantity, justify="right")
    for name in together.rms:
        if name not in BASELINES:
            shown.add_row(name, *(f"{own:.2f}" for own in ratios(together, name).values()))
    return shown


def _table(title: str) -> Any:
    from rich import box
    from rich.table import Table

    shown = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left")
    shown.add_column("model")
    return shown


def _short(x: float) -> str:
    """Two figures, and none behind the point from ten on"""
    return f"{x:.0f}" if x >= 10.0 else f"{x:.2g}"
