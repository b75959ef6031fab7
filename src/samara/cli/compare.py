"""`samara compare`: controllers side by side; `samara race`: fixed tracks, one scorer."""

from pathlib import Path
from typing import Annotated

from samara.cli.console import console, progress_bar, say, table
from samara.cli.options import (
    MAX_SEED,
    Plot,
    Vehicle,
    argument,
    controllers_option,
    option,
    out_option,
    split_words,
    vehicle_option,
)

LEVEL_HELP = (
    "0: everything is known; 1: mass, inertia, start and wind are random; 2: gates are also displaced and observed only from "
    "nearby. Default: all three."
)


def compare(
    trajectory: Annotated[str, option("--trajectory", "Trajectory: figure8, circle, helix or lissajous.")] = "figure8",
    controller: Annotated[str, controllers_option("all names")] = "",
    wind: Annotated[str, option("--wind", "Steady winds [m/s], separated by commas.")] = "0",
    vehicle: Vehicle = "iris",
    max_speed: Annotated[float, option("--max-speed", "Maximum speed along the trajectory [m/s].")] = 2.0,
    out: Annotated[Path, out_option("Folder for the table and the picture.")] = Path("out/compare"),
) -> None:
    """Fly one trajectory with several controllers in several winds; write one table and one picture."""
    from samara import vehicle as load
    from samara.compare.controllers import HEADINGS, compare_controllers, format_markdown, table_rows
    from samara.control.registry import CONTROLLERS
    from samara.core.atomic_files import write_text
    from samara.scenario.changes import load_controller
    from samara.view.plot.controllers import draw_contest

    contestants = [load_controller(word) for word in split_words(controller) or CONTROLLERS]
    try:
        winds = [float(word) for word in wind.split(",")]
    except ValueError:
        raise ValueError(f"--wind {wind!r}: expected numbers separated by commas, such as 0,4,8") from None
    model = load(vehicle)
    with progress_bar("flying", total=len(contestants) * len(winds)) as (_, update):
        entries = compare_controllers(
            model, contestants, trajectory_name=trajectory, speed=max_speed, winds=winds, progress=update
        )
    console().print(table(HEADINGS, table_rows(entries), right=[name for name in HEADINGS if name != "controller"]))
    title = f"{trajectory} at {max_speed:g} m/s, {model.name}"
    draw_contest(entries, out / "compare.png", title)
    write_text(out / "compare.md", f"# {title}\n\n{format_markdown(entries)}\n\n![paths and errors](compare.png)\n")
    say(f"table   {out / 'compare.md'}\npicture {out / 'compare.png'}")


def race(
    track: Annotated[str, argument("Track: a shipped one (hall, meadow) or a .toml file.")] = "hall",
    level: Annotated[int | None, option("--level", LEVEL_HELP, min=0, max=2)] = None,
    controller: Annotated[str, controllers_option()] = "geometric",
    flights: Annotated[int, option("--flights", "Number of flights, each with its own seed.", min=1, max=100_000)] = 20,
    vehicle: Annotated[str | None, vehicle_option("the track's")] = None,
    speed_fraction: Annotated[
        float, option("--speed-fraction", "Speed as a fraction of the fastest that the vehicle can fly.")
    ] = 1.0,
    seed: Annotated[
        int, option("--seed", "Seed of the first flight; later flights use the following seeds.", min=0, max=MAX_SEED)
    ] = 0,
    out: Annotated[Path, out_option("Folder for the results and the picture.")] = Path("out/race"),
    plot: Plot = False,
) -> None:
    """Race controllers through the gates of a track with many seeds; report the success rate and the time to the last gate.

    A race ends at a collision with a frame or a pole, outside the bounds of the track, or at the time limit. Gates count in
    order, passed forwards. The same seeds give the same bits.
    """
    from samara.compare.race import HEADINGS, format_json, table_rows
    from samara.compare.race import race as fly_race
    from samara.core.atomic_files import write_text
    from samara.scenario.changes import load_controller
    from samara.world.track import LEVELS, load_track

    if seed + flights - 1 > MAX_SEED:
        raise ValueError(f"--seed {seed} with --flights {flights}: expected seeds up to {MAX_SEED}")
    course = load_track(track)
    contestants = [load_controller(word) for word in split_words(controller)]
    if not contestants:
        raise ValueError(f"--controller {controller!r}: expected names or folders of policies, separated by commas")
    races = [
        fly_race(
            course,
            level=race_level,
            controller=contestant,
            seeds=range(seed, seed + flights),
            vehicle=vehicle,
            speed_fraction=speed_fraction,
        )
        for contestant in contestants
        for race_level in (LEVELS if level is None else (level,))
    ]
    title = f"{course.name}: {course.description}" if course.description else course.name
    numeric_headings = [name for name in HEADINGS if name not in ("controller", "the others")]
    console().print(table(HEADINGS, table_rows(races), title, right=numeric_headings))
    write_text(out / "race.json", format_json(races))
    say(f"results {out / 'race.json'}")
    if plot:
        from samara.view.plot.controllers import draw_race

        draw_race(races, out / "race.png")
        say(f"picture {out / 'race.png'}")
