"""`samara plot`, `samara report`, `samara render`: recordings to look at."""

import math
from pathlib import Path
from typing import Annotated

from samara.cli.console import progress_bar, say
from samara.cli.options import Recording, argument, option, out_option, split_words

SUBJECTS_HELP = (
    "position, velocity, attitude, rates, motors, wind, battery, estimate, spectra, path, top; separated by commas. All there "
    "is by default."
)


def plot(
    run: Recording,
    what: Annotated[str, option("--what", SUBJECTS_HELP)] = "",
    out: Annotated[Path | None, out_option("The folder; beside the recording by default.")] = None,
) -> None:
    """Draw a recording, one PNG for each subject."""
    from samara.record.load import load_run
    from samara.view.plot.plots import draw_all

    for path in draw_all(load_run(run, whole=False), out or run.with_suffix(""), split_words(what)):
        say(str(path))


def report(
    runs: Annotated[list[Path], argument("Recordings: one is described in full, several are compared.")],
    out: Annotated[Path | None, out_option("The page; beside one recording, or report.html, by default.")] = None,
) -> None:
    """Write a page about a recording, or about several side by side: one HTML file, pictures inside."""
    from samara.view.report.report import report_files

    path = out or (runs[0].with_suffix(".html") if len(runs) == 1 else Path("report.html"))
    with progress_bar("drawing", transient=True) as (_, update):
        report_files(runs, path, update)
    say(str(path))


def render(
    run: Recording,
    out: Annotated[Path, out_option("A film, .mp4 or .gif, or a picture, .png.")] = Path("flight.gif"),
    fps: Annotated[float | None, option("--fps", "Frames a second; 30, of a GIF 10.")] = None,
    size: Annotated[str | None, option("--size", "Pixels; 960x720, of a GIF 480x360.")] = None,
    speed: Annotated[float | None, option("--speed", "2 is twice real time; 1, of a GIF what keeps it small.")] = None,
    camera: Annotated[
        str | None, option("--camera", "chase, fixed (pictures, several drones), top or onboard.")
    ] = None,
    drone: Annotated[str, option("--drone", "The drone to follow; the first by default.")] = "",
    start: Annotated[float, option("--start", "From this second of the flight.")] = 0.0,
    stop: Annotated[float, option("--stop", "To this second; to the end by default.", show_default=False)] = (math.inf),
) -> None:
    """Film a recording without a display: lines, discs and numbers."""
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn

    from samara.record.load import load_run
    from samara.view.film.render import default_film
    from samara.view.film.render import render as film_it

    recorded = load_run(run)
    chosen = {"fps": fps, "size": None if size is None else pixels(size), "speed": speed, "camera": camera}
    chosen = {name: value for name, value in chosen.items() if value is not None}
    film = default_film(recorded, out, drone=drone, start=start, stop=stop, **chosen)
    columns = (TextColumn("rendering"), BarColumn(), TextColumn("{task.completed:.0f} frames"), TimeRemainingColumn())
    with progress_bar("rendering", *columns, transient=True) as (_, update):
        path = film_it(recorded, out, film, update)
    say(str(path))


def pixels(text: str) -> tuple[int, int]:
    """'960x720' as two whole numbers."""
    width, cross, height = text.lower().partition("x")
    if not (cross and width.isdecimal() and height.isdecimal()):
        raise ValueError(f"--size {text!r}: expected width and height in pixels, such as 960x720")
    return int(width), int(height)
