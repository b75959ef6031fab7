"""`samara plot`, `samara report`, `samara render`: pictures, pages and films of recordings."""

import math
from pathlib import Path
from typing import Annotated

from samara.cli.console import progress_bar, say
from samara.cli.options import Columns, Flight, Recording, argument, option, out_option, split_words

SUBJECT_HELP = (
    "Subjects, separated by commas: position, velocity, attitude, rates, motors, wind, battery, estimate, spectra, path, top. "
    "Default: all that the recording contains."
)


def plot(
    run: Flight,
    subject: Annotated[str, option("--subject", SUBJECT_HELP)] = "",
    out: Annotated[Path | None, out_option("Folder for the pictures; default: beside the recording.")] = None,
    columns: Columns = None,
) -> None:
    """Draw a recording or a flight log, one PNG file per subject."""
    from samara.identify.log_run import load_flight
    from samara.view.plot.plots import draw_all

    flight = load_flight(run, columns, all_rows=False)
    if not flight.is_simulated:
        for line in flight.logs:
            say(f"! {line.message}")
    folder = run.with_suffix("")
    if folder == run or folder.is_file():  # a log without suffix, or the unpacked file beside a gzipped one
        folder = run.with_name(f"{run.name}_plots")
    for path in draw_all(flight, out or folder, split_words(subject)):
        say(str(path))


def report(
    runs: Annotated[list[Path], argument("Recordings or flight logs: one is described in full, several are compared.")],
    out: Annotated[
        Path | None, out_option("File for the page (.html); default: beside the recording, for several report.html.")
    ] = None,
    columns: Columns = None,
) -> None:
    """Write a report on one flight, or a comparison of several, as one HTML file with its pictures."""
    from samara.view.report.report import report_files

    path = out or (runs[0].with_suffix(".html") if len(runs) == 1 else Path("report.html"))
    with progress_bar("drawing", transient=True) as (_, update):
        report_files(runs, path, update, columns)
    say(str(path))


def render(
    run: Recording,
    out: Annotated[Path, out_option("File for the film (.mp4 or .gif) or the picture (.png).")] = Path("flight.gif"),
    fps: Annotated[float | None, option("--fps", "Frames per second; default: 30, for a GIF 10.")] = None,
    size: Annotated[str | None, option("--size", "Size in pixels; default: 960x720, for a GIF 480x360.")] = None,
    speed: Annotated[
        float | None, option("--speed", "Playback speed; default: 1 (real time), for a GIF as its size allows.")
    ] = None,
    camera: Annotated[
        str | None,
        option(
            "--camera",
            "Camera: chase, fixed, top, onboard, or a recorded sensor such as eye or eye/depth; default: chase, for "
            "pictures and several drones fixed.",
        ),
    ] = None,
    drone: Annotated[str, option("--drone", "Drone to follow; default: the first.")] = "",
    start: Annotated[float, option("--start", "Start time in the flight [s].")] = 0.0,
    stop: Annotated[float, option("--stop", "End time in the flight [s]; default: its end.", show_default=False)] = (
        math.inf
    ),
) -> None:
    """Render a recording as a film or a picture; needs no display."""
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn

    from samara.record.load import load_run
    from samara.view.film.render import default_film
    from samara.view.film.render import render as render_film

    recording = load_run(run)
    film_options = {"fps": fps, "size": None if size is None else parse_size(size), "speed": speed, "camera": camera}
    film_options = {name: value for name, value in film_options.items() if value is not None}
    film = default_film(recording, out, drone=drone, start=start, stop=stop, **film_options)
    columns = (TextColumn("rendering"), BarColumn(), TextColumn("{task.completed:.0f} frames"), TimeRemainingColumn())
    with progress_bar("rendering", *columns, transient=True) as (_, update):
        path = render_film(recording, out, film, update)
    say(str(path))


def parse_size(text: str) -> tuple[int, int]:
    """Parse '960x720' into width and height."""
    width, cross, height = text.lower().partition("x")
    if not (cross and width.isdecimal() and height.isdecimal()):
        raise ValueError(f"--size {text!r}: expected width and height in pixels, such as 960x720")
    return int(width), int(height)
