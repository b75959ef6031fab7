"""`samara compare`: controllers side by side; `samara race`: fixed tracks, one scorer."""

from pathlib import Path
from typing import Annotated

from samara.cli.console import console, progress_bar, say, table
from samara.cli.options import (
    MAX_SEED,
    Plot,
    ScenarioDuration,
    ScenarioSeed,
    ScenarioSensors,
    Settings,
    argument,
    controllers_option,
    option,
    out_option,
    parse_settings,
    split_words,
    vehicle_option,
)

DEFAULT_VEHICLE = "iris"
SCENARIO_HELP = "Scenario: a shipped name or a .toml file; default: the trajectory of --trajectory."
WINDS_HELP = (
    "Winds, separated by commas: speeds [m/s], steady from the scenario's direction or the west; models and their mean "
    "speeds, such as dryden:6; or none; default: the scenario's."
)
RACE_WIND_HELP = "Wind: a speed [m/s], steady from the west; a model, such as dryden:6; or none; default: the level's."
LEVEL_HELP = (
    "0: everything is known; 1: mass, inertia, start and wind are random; 2: gates are also displaced and observed only from "
    "nearby. Default: all three."
)


def compare(
    scenario: Annotated[str | None, argument(SCENARIO_HELP)] = None,
    settings: Settings = None,
    vehicle: Annotated[
        str | None, vehicle_option("that of the policies, else the scenario's; iris on a trajectory")
    ] = None,
    controller: Annotated[str, controllers_option("all names")] = "",
    wind: Annotated[str | None, option("--wind", WINDS_HELP)] = None,
    sensors: ScenarioSensors = None,
    seed: ScenarioSeed = None,
    duration: ScenarioDuration = None,
    trajectory: Annotated[str, option("--trajectory", "Trajectory: figure8, circle, helix or lissajous.")] = "figure8",
    max_speed: Annotated[float, option("--max-speed", "Maximum speed along the trajectory [m/s].")] = 2.0,
    out: Annotated[Path, out_option("Folder for the table and the picture.")] = Path("out/compare"),
) -> None:
    """Fly a scenario, or a trajectory, with several controllers in several winds; write one table and one picture."""
    from samara.comparison.controllers import HEADINGS, common_vehicle, compare_on_trajectory, table_rows
    from samara.comparison.controllers import compare as compare_on_scenario
    from samara.control.registry import CONTROLLERS
    from samara.core.atomic_files import write_text
    from samara.scenario.changes import load_controller, resolve_vehicle

    controllers = [load_controller(word) for word in split_words(controller) or CONTROLLERS]
    winds = split_words(wind or "")
    with progress_bar("flying", total=len(controllers) * max(1, len(winds))) as (_, update):
        if scenario is None:
            scenario_flags = {"--set": settings or None, "--sensors": sensors, "--seed": seed, "--duration": duration}
            if given := [flag for flag, value in scenario_flags.items() if value is not None]:
                raise ValueError(f"{', '.join(given)}: a trajectory has none; expected a SCENARIO as well")
            result = compare_on_trajectory(
                resolve_vehicle(vehicle or common_vehicle(controllers) or DEFAULT_VEHICLE),
                controllers,
                trajectory_name=trajectory,
                speed=max_speed,
                winds=[_number(word) for word in winds] or [0.0],
                progress=update,
            )
        else:
            result = compare_on_scenario(
                scenario,
                controllers,
                vehicle=vehicle,
                winds=winds,
                sensors=sensors,
                seed=seed,
                duration=duration,
                settings=parse_settings(settings or []),
                progress=update,
            )
    console().print(table(HEADINGS, table_rows(result.rows), right=HEADINGS[2:]))
    result.plot(out / "compare.png")
    text = f"# {result.title}\n\n{result.to_markdown()}\n\n![paths and errors](compare.png)\n"
    write_text(out / "compare.md", text)
    say(f"table   {out / 'compare.md'}\npicture {out / 'compare.png'}")


def _number(word: str) -> "float | str":
    """Return a wind as a speed [m/s] if it is one."""
    try:
        return float(word)
    except ValueError:
        return word


def race(
    track: Annotated[str, argument("Track: a shipped one (hall, meadow) or a .toml file.")] = "hall",
    level: Annotated[int | None, option("--level", LEVEL_HELP, min=0, max=2)] = None,
    controller: Annotated[str, controllers_option()] = "geometric",
    flights: Annotated[int, option("--flights", "Number of flights, each with its own seed.", min=1, max=100_000)] = 20,
    vehicle: Annotated[str | None, vehicle_option("the track's")] = None,
    wind: Annotated[str | None, option("--wind", RACE_WIND_HELP)] = None,
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
    from samara.comparison.race import HEADINGS, format_json, table_rows
    from samara.comparison.race import race as fly_race
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
            wind=wind,
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
