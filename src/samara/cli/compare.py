"""`samara compare`: controllers side by side; `samara race`: fixed tracks, one scorer."""

from pathlib import Path
from typing import Annotated

from samara.cli.console import console, progress_bar, say, table
from samara.cli.options import Plot, Vehicle, argument, load_controller, option, out_option, split_words

LEVEL_HELP = (
    "0: everything is known; 1: mass, inertia, start and wind are random; 2: gates are also displaced and observed only from "
    "nearby. Default: all three."
)


def compare(
    trajectory: Annotated[str, option("--trajectory", "Trajectory: figure8, circle, helix or lissajous.")] = "figure8",
    controllers: Annotated[
        str, option("--controllers", "Controllers or file.py:function, separated by commas; default: all.")
    ] = "",
    wind: Annotated[str, option("--wind", "Wind speeds [m/s], separated by commas.")] = "0",
    vehicle: Vehicle = "iris",
    speed: Annotated[float, option("--speed", "Peak speed along the trajectory [m/s].")] = 2.0,
    out: Annotated[Path, out_option("Folder for the table and the picture.")] = Path("out/compare"),
) -> None:
    """Fly one trajectory with several controllers in several winds; write one table and one picture."""
    from samara import vehicle as load
    from samara.compare.controllers import HEADINGS, as_markdown, contest, table_rows
    from samara.control.registry import CONTROLLERS
    from samara.core.atomic_files import write_text
    from samara.view.plot.controllers import draw_contest

    contestants = [load_controller(word) for word in split_words(controllers) or CONTROLLERS]
    try:
        winds = [float(word) for word in wind.split(",")]
    except ValueError:
        raise ValueError(f"--wind {wind!r}: expected numbers separated by commas, such as 0,4,8") from None
    model = load(vehicle)
    with progress_bar("flying", total=len(contestants) * len(winds)) as (_, update):
        entries = contest(model, contestants, trajectory_name=trajectory, speed=speed, winds=winds, progress=update)
    console().print(table(HEADINGS, table_rows(entries), right=[name for name in HEADINGS if name != "controller"]))
    title = f"{trajectory} at {speed:g} m/s, {model.name}"
    draw_contest(entries, out / "compare.png", title)
    write_text(out / "compare.md", f"# {title}\n\n{as_markdown(entries)}\n\n![paths and errors](compare.png)\n")
    say(f"table   {out / 'compare.md'}\npicture {out / 'compare.png'}")


def race(
    track: Annotated[str, argument("Track: a shipped one (hall, meadow) or a .toml file.")] = "hall",
    level: Annotated[int | None, option("--level", LEVEL_HELP, min=0, max=2)] = None,
    controller: Annotated[
        str, option("--controller", "Controllers or policy folders, separated by commas.")
    ] = "geometric",
    seeds: Annotated[int, option("--seeds", "Number of flights (seeds 0, 1, …).", min=1, max=100_000)] = 20,
    vehicle: Annotated[str | None, option("--vehicle", "Vehicle to fly; default: the track's.")] = None,
    pace: Annotated[float, option("--pace", "Speed as a fraction of the fastest that the vehicle can fly.")] = 1.0,
    out: Annotated[Path, out_option("Folder for the results and the picture.")] = Path("out/race"),
    plot: Plot = False,
) -> None:
    """Race controllers through the gates of a track with many seeds; report the finish rate and the lap time.

    A race ends at a collision with a frame or a pole, outside the bounds of the track, or at the time limit. Gates count in
    order, passed forwards. The same seeds give the same bits.
    """
    from samara.compare.race import HEADINGS, as_json, table_rows
    from samara.compare.race import race as fly_race
    from samara.core.atomic_files import write_text
    from samara.world.track import LEVELS, load_track

    course = load_track(track)
    contestants = [load_controller(word, "--controller") for word in split_words(controller)]
    if not contestants:
        raise ValueError(f"--controller {controller!r}: expected names or policies' folders, separated by commas")
    races = [
        fly_race(course, level=race_level, controller=contestant, seeds=range(seeds), vehicle=vehicle, pace=pace)
        for contestant in contestants
        for race_level in (LEVELS if level is None else (level,))
    ]
    title = f"{course.name}: {course.description}" if course.description else course.name
    numeric_headings = [name for name in HEADINGS if name not in ("controller", "the others")]
    console().print(table(HEADINGS, table_rows(races), title, right=numeric_headings))
    write_text(out / "race.json", as_json(races))
    say(f"results {out / 'race.json'}")
    if plot:
        from samara.view.plot.controllers import draw_race

        draw_race(races, out / "race.png")
        say(f"picture {out / 'race.png'}")
