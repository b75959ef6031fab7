"""`samara compare`: controllers side by side."""

from pathlib import Path
from typing import Annotated

import typer

from samara.cli.console import console, say
from samara.cli.controller_argument import controller_of


def compare(
    trajectory: Annotated[str, typer.Option("--trajectory", help="figure8, circle, helix or lissajous.")] = "figure8",
    controllers: Annotated[
        str,
        typer.Option(
            "--controllers",
            help="Names, or functions of your own as file.py:function, separated by commas; all by default.",
        ),
    ] = "",
    wind: Annotated[str, typer.Option("--wind", help="Wind speeds [m/s] separated by commas.")] = "0",
    vehicle: Annotated[str, typer.Option("--vehicle", help="A shipped vehicle or a .toml file.")] = "iris",
    speed: Annotated[float, typer.Option("--speed", help="Peak speed along the trajectory [m/s].")] = 2.0,
    out: Annotated[Path, typer.Option("--out", help="The folder for the table and the picture.")] = Path("out/compare"),
) -> None:
    """Fly one trajectory with several controllers in several winds: one table, one picture."""
    from rich.progress import Progress
    from rich.table import Table

    from samara import vehicle as load
    from samara.compare.controllers import HEADINGS, as_markdown, contest, table_rows
    from samara.control.registry import CONTROLLERS
    from samara.core.atomic_files import write_text
    from samara.view.plot.controllers import draw_contest

    words = [word.strip() for word in controllers.split(",") if word.strip()] or list(CONTROLLERS)
    flown = [controller_of(word) for word in words]
    try:
        winds = [float(word) for word in wind.split(",")]
    except ValueError:
        raise ValueError(f"--wind {wind!r}: expected numbers separated by commas, such as 0,4,8") from None
    craft, screen = load(vehicle), console()
    with Progress(console=screen) as bar:
        task = bar.add_task("flying", total=len(flown) * len(winds))
        entries = contest(
            craft,
            flown,
            trajectory_name=trajectory,
            speed=speed,
            winds=winds,
            progress=lambda done, total: bar.update(task, completed=done),
        )
    table = Table()
    for heading in HEADINGS:
        table.add_column(heading, justify="left" if heading == "controller" else "right")
    for row in table_rows(entries):
        table.add_row(*row)
    screen.print(table)
    title = f"{trajectory} at {speed:g} m/s, {craft.name}"
    draw_contest(entries, out / "compare.png", title)
    write_text(out / "compare.md", f"# {title}\n\n{as_markdown(entries)}\n\n![paths and errors](compare.png)\n")
    say(f"table   {out / 'compare.md'}\npicture {out / 'compare.png'}")
