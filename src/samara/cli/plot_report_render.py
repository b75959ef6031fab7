"""`samara plot`, `samara report`, `samara render`: recordings to look at."""

from pathlib import Path
from typing import Annotated

import typer

from samara.cli.console import console, say


def add_to(app: typer.Typer) -> None:
    """Adds these commands to the command line"""
    for command in (plot, report, render):
        app.command()(command)


def plot(
    run: Annotated[Path, typer.Argument(help="A recording, run.mcap.")],
    what: Annotated[
        str,
        typer.Option(
            "--what",
            help="position, velocity, attitude, rates, motors, wind, battery, estimate, spectra, path, top; "
            "separated by commas. All there is by default.",
        ),
    ] = "",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The folder; beside the recording by default.")
    ] = None,
) -> None:
    """Draw a recording, one PNG for each subject."""
    from samara.record.load import load_run
    from samara.view.plot.plots import draw_all

    wanted = [own.strip() for own in what.split(",") if own.strip()]
    for path in draw_all(load_run(run, whole=False), out or run.with_suffix(""), wanted):
        say(str(path))


def report(
    runs: Annotated[list[Path], typer.Argument(help="Recordings: one is told in full, several are compared.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The page; beside one recording, or report.html, by default.")
    ] = None,
) -> None:
    """Write a page about a recording, or about several side by side: one HTML file, pictures inside."""
    from rich.progress import Progress

    from samara.view.report.report import report_files

    path = out or (runs[0].with_suffix(".html") if len(runs) == 1 else Path("report.html"))
    with Progress(console=console(), transient=True) as bar:
        task = bar.add_task("drawing", total=None)
        report_files(runs, path, lambda done, total: bar.update(task, completed=done, total=total))
    say(str(path))


def render(
    run: Annotated[Path, typer.Argument(help="A recording, run.mcap.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="A film, .mp4 or .gif, or a picture, .png.")] = Path(
        "flight.gif"
    ),
    fps: Annotated[float | None, typer.Option("--fps", help="Frames a second; 30, of a GIF 10.")] = None,
    size: Annotated[
        str | None, typer.Option("--size", help="Width and height in pixels; 960x720, of a GIF 480x360.")
    ] = None,
    speed: Annotated[
        float | None,
        typer.Option("--speed", help="2 is twice as fast as the clock; 1, of a GIF as much as keeps it under 5 MB."),
    ] = None,
    camera: Annotated[
        str | None,
        typer.Option("--camera", help="chase, fixed, top or onboard; chase, for a picture or many drones fixed."),
    ] = None,
    drone: Annotated[str, typer.Option("--drone", help="Whom to follow; the first by default.")] = "",
    start: Annotated[float, typer.Option("--start", help="From this second of the flight.")] = 0.0,
    stop: Annotated[float | None, typer.Option("--stop", help="To this second; to the end by default.")] = None,
) -> None:
    """Film a recording without a display: lines, discs and numbers."""
    import math

    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from samara.record.load import load_run
    from samara.view.film.render import default_film
    from samara.view.film.render import render as film_it

    own = load_run(run)
    told = {
        "fps": fps,
        "size": pixels(size) if size is not None else None,
        "speed": speed,
        "camera": camera,
        "drone": drone,
        "start": start,
        "stop": math.inf if stop is None else stop,
    }
    film = default_film(own, out, **{name: value for name, value in told.items() if value is not None})
    columns = (TextColumn("rendering"), BarColumn(), TextColumn("{task.completed:.0f} frames"), TimeRemainingColumn())
    with Progress(*columns, console=console(), transient=True) as bar:
        task = bar.add_task("rendering", total=None)
        path = film_it(own, out, film, lambda done, total: bar.update(task, completed=done, total=total))
    say(str(path))


def pixels(text: str) -> tuple[int, int]:
    """'960x720' as two whole numbers"""
    width, cross, height = text.lower().partition("x")
    if not (cross and width.isdecimal() and height.isdecimal()):
        raise ValueError(f"--size {text!r}: expected width and height in pixels, such as 960x720")
    return int(width), int(height)
