"""`samara identify`: from flight logs to a vehicle with an error on every parameter, and the flight to fly for it;
`samara validate`: vehicles against real flights."""

import math
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from samara.cli.console import console, progress_bar, say, table
from samara.cli.options import Columns, Outputs, argument, default_command, option, out_option
from samara.core.sanitise import printable

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.table import Table

    from samara.identify.flight_log import FlightLog
    from samara.identify.identification import Product
    from samara.identify.log_checks import Finding
    from samara.identify.scores import Score
    from samara.physics.types import Vehicle

LOGS = "logs"
HELD_OUT = "flights held out"
STAGES = {"checking the logs": 0.02, "forces and torques": 0.3, "prediction error": 0.25, HELD_OUT: 0.43}
"""The stages of an identification, and the fraction of the time that each takes"""
WHAT_HELP = "Vehicles, shipped or .toml files, and flight logs or folders of them. Without a vehicle, the Crazyflies."


class Kind(StrEnum):
    """Which of the two products is written"""

    PHYSICAL = "physical"
    PREDICTOR = "predictor"


app = typer.Typer(
    cls=default_command(LOGS),
    help="Identify a vehicle from its flight logs: samara identify LOG... (short for: samara identify logs LOG...).",
    no_args_is_help=True,
    subcommand_metavar="LOG... | COMMAND [ARGS]...",
)


@app.command(LOGS)
def identify(
    logs: Annotated[list[Path], argument("Flight logs of any format, or folders of them.", "LOG")],
    start: Annotated[str, option("--start", "Vehicle to start from; its mass is taken as true.")] = "crazyflie",
    out: Annotated[Path, out_option("The vehicle to write.")] = Path("identified.toml"),
    kind: Annotated[Kind, option("--kind", "Which of the two products that is.")] = Kind.PHYSICAL,
    predictor_out: Annotated[Path | None, option("--predictor-out", "Default: NAME_predictor.toml.")] = None,
    predictor: Annotated[bool, option("--predictor/--no-predictor", "Fit the predictor as well.")] = True,
    scores: Annotated[bool, option("--scores/--no-scores", "Predict flights held out (slow).")] = True,
    report: Annotated[Path | None, option("--report", "The folder for the report, a page and PNGs.")] = None,
    columns: Columns = None,
    outputs: Outputs = "speed",
) -> None:
    """Identify a vehicle from its flight logs: every parameter with its error, or which manoeuvre would excite it."""
    from samara import save_vehicle
    from samara import vehicle as load
    from samara.core.atomic_files import require_writable
    from samara.identify.identification import identify as fit
    from samara.identify.parameters import require_identifiable
    from samara.identify.readers.registry import read_logs
    from samara.identify.scores import held_out, together
    from samara.vehicles.limits import with_lag_motors

    beside = predictor_out or out.with_name(f"{out.stem}_predictor{out.suffix or '.toml'}")
    if kind is Kind.PREDICTOR and not predictor:
        raise ValueError(
            "--kind predictor with --no-predictor; expected a predictor to be fitted where it is to be written"
        )
    model = with_lag_motors(load(start))
    require_identifiable(model)
    for folder in (out.parent, *([beside.parent] if predictor else []), *([report] if report else [])):
        require_writable(folder)
    screen = console()
    with screen.status("reading"):
        flights = read_logs(logs, columns)
    predicted = []
    with _progress(scores) as show:
        found = fit(flights, model, outputs=outputs, predictor=predictor, progress=show)
        if scores:
            predicted = held_out(found.flights, model, predictor=predictor, progress=lambda part: show(HELD_OUT, part))
    _show_findings(screen, flights, found.findings)
    for product in found.products:
        screen.print(parameter_table(product))
    if predicted:
        screen.print(ratio_table(together([prediction.score() for prediction in predicted])))
    elif scores:
        screen.print("nothing was predicted: no flight says how it moves for long enough")
    vehicles = {Kind.PHYSICAL: found.physical.vehicle}
    if found.predictor is not None:
        vehicles[Kind.PREDICTOR] = found.predictor.vehicle
    if kind not in vehicles:
        lacking = "expected logs with velocity, attitude and rate for it"
        raise ValueError(f"{printable(str(out))}: there is no predictor; {lacking}")
    written = {out: kind}
    if kind is Kind.PHYSICAL and Kind.PREDICTOR in vehicles:
        written[beside] = Kind.PREDICTOR
    for path, which in written.items():
        save_vehicle(_renamed(vehicles[which], path.stem), path)
    say("\n".join(f"{which.value:9s} {path}" for path, which in written.items()))
    if report is not None:
        from samara.view.report.identify import write_identification

        command = shlex.join(["samara", *sys.argv[1:]])
        page, *_ = write_identification(
            found, predicted, report, command=command, files=[str(path) for path in written]
        )
        say(f"report    {page}")


def _renamed(vehicle: "Vehicle", name: str) -> "Vehicle":
    """Name it after its file, so that it is told from the vehicle it started from."""
    from dataclasses import replace

    return replace(vehicle, structure=replace(vehicle.structure, name=name))


@contextmanager
def _progress(scores: bool) -> Iterator[Callable[[str, float], None]]:
    """A bar that never goes back: stages that run twice, as regression may, stay where they were."""
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn

    begins, total = {}, 0.0
    for stage, part in STAGES.items():
        begins[stage] = total
        total += part if scores or stage != HELD_OUT else 0.0
    columns = (TextColumn("{task.description:<18}", markup=False), BarColumn(), TimeElapsedColumn())
    with progress_bar("checking the logs", *columns, total=total) as (_, update):
        furthest = 0.0

        def show(stage: str, part: float) -> None:
            nonlocal furthest
            furthest = max(furthest, begins[stage] + STAGES[stage] * min(part, 1.0))
            update(furthest, description=stage)

        yield show
        update(total, description="done")


def _show_findings(
    screen: "Console", flights: "list[FlightLog]", findings: "Mapping[str, tuple[Finding, ...]]"
) -> None:
    for log in flights:
        for sentence in (*log.notes, *(finding.sentence for finding in findings[log.name])):
            screen.print(f"! {log.name}: {sentence}", style="yellow")


def parameter_table(product: "Product") -> "Group":
    """Value ± error, 95 % interval and the start's value; below it what was not excited, and what to fly."""
    from rich.console import Group
    from rich.text import Text

    headings = ("", "value ± error", "95 % interval", "start", "unit")
    shown = table(headings, title=f"{product.kind} vehicle", right=headings[1:4], no_wrap=True)
    missing: dict[str, list[str]] = {}
    for estimate in product.estimates:
        if not estimate.excited:
            missing.setdefault(estimate.manoeuvre, []).append(estimate.name)
        cells = (
            estimate.name if estimate.excited else f"{estimate.name} *",
            f"{estimate.value:.4g} ± {estimate.error:.2g}",
            f"{estimate.low:.3g} … {estimate.high:.3g}",
            f"{estimate.start:.4g}",
            estimate.unit,
        )
        shown.add_row(*(Text(cell, "" if estimate.excited else "dim") for cell in cells))
    lines = [Text(f"* not excited: {', '.join(names)}; fly {manoeuvre}") for manoeuvre, names in missing.items()]
    return Group(shown, *lines, *([Text("")] if lines else []))


@app.command("plan")
def plan(
    vehicle: Annotated[str, argument("The vehicle as far as it is known: shipped or a .toml file.")],
    duration: Annotated[float, option("--duration", "Total duration of the manoeuvres [s].")] = 120.0,
    reach: Annotated[float, option("--reach", "Largest distance from the middle along x and y [m].")] = 4.0,
    low: Annotated[float, option("--low", "Smallest height [m].")] = 0.5,
    high: Annotated[float, option("--high", "Largest height [m].")] = 4.0,
    speed: Annotated[float, option("--speed", "Largest speed [m/s].")] = 5.0,
    tilt: Annotated[float, option("--tilt", "Largest tilt [deg].")] = 35.0,
    thrust: Annotated[float, option("--thrust", "Largest fraction of the full thrust.")] = 0.9,
    wind: Annotated[float, option("--wind", "The wind in which it has to be safe [m/s].")] = 0.0,
    out: Annotated[Path, out_option("The folder for scenario, waypoints and picture.")] = Path("out/identify"),
) -> None:
    """Plan the most informative flight for identifying a vehicle: a scenario, the same as waypoints, and a picture."""
    from collections import Counter

    from rich.markup import escape

    from samara import vehicle as load
    from samara.core.atomic_files import require_writable
    from samara.identify.experiment_design import plan_flight, write_plan
    from samara.identify.manoeuvres import Room
    from samara.view.plot.identify import draw_flight_plan

    model = load(vehicle)
    require_writable(out)
    screen = console()
    room = Room(reach, low, high, speed, math.radians(tilt), thrust, wind)
    with screen.status("planning") as status:
        planned = plan_flight(model, duration, room, lambda sentence: status.update(escape(sentence)))
    counts = Counter(manoeuvre.name for manoeuvre in planned.manoeuvres)
    title = f"{planned.duration:.0f} s of manoeuvres, from hover to hover"
    rows = ((name, str(count)) for name, count in counts.items())
    screen.print(table(("manoeuvre", "times"), rows, title, right=("times",)))
    name = str(Path(vehicle).resolve()) if vehicle.endswith(".toml") else vehicle
    scenario, waypoints = write_plan(planned, out, name)
    picture = scenario.with_suffix(".png")
    draw_flight_plan(planned, picture)
    say(f"scenario  {scenario}\nwaypoints {waypoints}\npicture   {picture}")


# samara validate --------------------------------------------------------------------------------------------------------


def validate(
    what: Annotated[list[str], argument(WHAT_HELP, "VEHICLE|LOG")],
    out: Annotated[Path, out_option("The folder for table and picture.")] = Path("out/validation"),
    columns: Columns = None,
    outputs: Outputs = "speed",
) -> None:
    """Replay recorded motor commands open loop from measured states, and report how far vehicles and real flights diverge."""
    from rich.markup import escape

    from samara.core.atomic_files import write_text
    from samara.identify.readers.registry import read_logs
    from samara.identify.scores import VEHICLES, together
    from samara.identify.scores import table as markdown_table
    from samara.identify.scores import validate as compare
    from samara.vehicles.loader import vehicle_names
    from samara.view.plot.identify import draw_validation

    vehicles = [name for name in what if name in vehicle_names() or name.endswith(".toml")]
    paths = [name for name in what if name not in vehicles]
    if not paths:
        raise ValueError(f"{' '.join(what)}: vehicles alone; expected flight logs, or a folder of them, too")
    screen = console()
    with screen.status("reading") as status:
        logs = read_logs(paths, columns)

        def show(name: str) -> None:
            status.update(escape(f"replaying {printable(name)}"))

        scores = compare(logs, vehicles or VEHICLES, show, outputs)
    total = together(scores)
    screen.print(score_table(total))
    screen.print(ratio_table(total))
    written, picture = out / "validation.md", out / "validation.png"
    write_text(written, markdown_table(scores))
    draw_validation(scores, picture)
    say(f"table   {written}\npicture {picture}")


def score_table(score: "Score") -> "Table":
    """RMS errors of all flights together"""
    from samara.identify.prediction_error_fit import QUANTITIES, UNITS
    from samara.identify.scores import HORIZONS, at

    headings = ("model", *(f"{quantity} {unit}" for quantity, unit in zip(QUANTITIES, UNITS, strict=True)))
    horizons = " / ".join(f"{h:g}" for h in HORIZONS)
    shown = table(headings, title=f"RMS error after {horizons} s, {score.windows} windows")
    for column in shown.columns[1:]:
        column.no_wrap = True
    for name in score.rms:
        errors = ((at(score, name, quantity, h) for h in HORIZONS) for quantity in QUANTITIES)
        shown.add_row(name, *(" / ".join(f"{x:.0f}" if x >= 10.0 else f"{x:.2g}" for x in row) for row in errors))
    return shown


def ratio_table(score: "Score") -> "Table":
    """Errors after half a second over those of constant velocity: below 1 a model predicts better than that."""
    from samara.identify.prediction_error_fit import BASELINES, QUANTITIES
    from samara.identify.scores import COASTING, ratios

    models = (name for name in score.rms if name not in BASELINES)
    rows = ((name, *(f"{ratio:.2f}" for ratio in ratios(score, name).values())) for name in models)
    return table(("model", *QUANTITIES), rows, f"After half a second, over the error of {COASTING}", right=QUANTITIES)
