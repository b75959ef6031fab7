"""`samara race`: fixed tracks, one scorer."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from samara.cli.console import console, say
from samara.cli.controller_argument import controller_of

if TYPE_CHECKING:
    from samara.compare.race.race import Race


def race(
    track: Annotated[str, typer.Argument(help="A shipped track (hall, meadow) or a .toml file.")] = "hall",
    level: Annotated[
        int | None,
        typer.Option(
            "--level",
            min=0,
            max=2,
            help="0: all is known; 1: mass, inertia, start and wind are drawn; 2: gates are not where they were said to be "
            "either, and seen only from near by. All three by default.",
        ),
    ] = None,
    controller: Annotated[
        str, typer.Option("--controller", help="Names or policies' folders, separated by commas.")
    ] = "geometric",
    seeds: Annotated[
        int, typer.Option("--seeds", min=1, max=100_000, help="How many flights, of seeds 0, 1, 2, …")
    ] = 20,
    vehicle: Annotated[str | None, typer.Option("--vehicle", help="Another than the track's own.")] = None,
    pace: Annotated[
        float, typer.Option("--pace", help="How fast the plan is flown, of the fastest that the vehicle can fly.")
    ] = 1.0,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for the results and the picture.")] = Path(
        "out/race"
    ),
    plot: Annotated[bool, typer.Option("--plot/--no-plot", help="Draw the paths through the gates.")] = False,
) -> None:
    """Race a controller through a track's gates with many seeds: how often it comes through, and how fast.

    A race is over when a frame or a pole is struck, the hall is left, or the time is up; gates count in their order, flown
    through forwards. The same seeds give the same bits.
    """
    from rich.table import Table

    from samara.compare.race.race import as_json, race
    from samara.compare.race.table import HEADINGS, table_rows
    from samara.core.atomic_files import write_text
    from samara.world.track import LEVELS, load_track

    own = load_track(track)
    flown = [controller_of(word, "--controller") for word in map(str.strip, controller.split(",")) if word]
    if not flown:
        raise ValueError(f"--controller {controller!r}: expected names or policies' folders, separated by commas")
    levels = LEVELS if level is None else (level,)
    races: list[Race] = []
    for each in flown:
        for at in levels:
            races.append(race(own, level=at, controller=each, seeds=range(seeds), vehicle=vehicle, pace=pace))
    table = Table(title=f"{own.name}: {own.description}" if own.description else own.name)
    for heading in HEADINGS:
        table.add_column(heading, justify="left" if heading in ("controller", "the others") else "right")
    for row in table_rows(races):
        table.add_row(*row)
    console().print(table)
    write_text(out / "race.json", as_json(races))
    say(f"results {out / 'race.json'}")
    if plot:
        from samara.view.plot.controllers import draw_race

        draw_race(races, out / "race.png")
        say(f"picture {out / 'race.png'}")
