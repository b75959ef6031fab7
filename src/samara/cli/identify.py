"""`samara identify`: fit a vehicle to flight logs, and plan informative flights; `samara validate`: compare vehicles with
real flights."""

import math
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from samara.cli.console import FAILED, console, progress_bar, say, table
from samara.cli.options import Columns, Outputs, argument, default_command, option, out_option, vehicle_option
from samara.core.sanitise import escape_control_characters, suggest_closest

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.table import Table

    from samara.identify.flight_log import FlightLog
    from samara.identify.identification import IdentifiedVehicle
    from samara.identify.log_checks import Finding
    from samara.identify.scores import PredictionScore
    from samara.physics.types import Vehicle

LOGS = "logs"
QUESTIONS = {"mass": "Mass, ready to fly, with battery [kg]", "diagonal": "Distance between opposite motors [m]"}
HELD_OUT = "flights held out"
STAGES = {"checking the logs": 0.02, "forces and torques": 0.3, "prediction error": 0.25, HELD_OUT: 0.43}
"""The stages of an identification, and the fraction of the time that each takes."""
VALIDATE_HELP = (
    "Vehicles (shipped or .toml files) and flight logs or folders of them. Default vehicles: the Crazyflies."
)


class ProductType(StrEnum):
    """Type of the vehicle that is written: physical parameters, or fitted for prediction alone."""

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
    vehicle: Annotated[
        str | None, vehicle_option("the one in the recording, or scaled to --mass and --diagonal")
    ] = None,
    mass: Annotated[float | None, option("--mass", "Mass, ready to fly, with battery [kg]; without --vehicle.")] = None,
    diagonal: Annotated[
        float | None, option("--diagonal", "Distance between opposite motors [m]; without --vehicle.")
    ] = None,
    out: Annotated[Path, out_option("File for the identified vehicle (.toml).")] = Path("identified.toml"),
    product: Annotated[ProductType, option("--product", "Vehicle to write to --out.")] = ProductType.PHYSICAL,
    predictor_out: Annotated[
        Path | None, option("--predictor-out", "File for the predictor; default: NAME_predictor.toml.")
    ] = None,
    predictor: Annotated[bool, option("--predictor/--no-predictor", "Fit the predictor as well.")] = True,
    scores: Annotated[
        bool, option("--scores/--no-scores", "Cross-validate: predict each flight without it (slow).")
    ] = True,
    report: Annotated[Path | None, option("--report", "Folder for the report: a page and PNG files.")] = None,
    columns: Columns = None,
    outputs: Outputs = "speed",
) -> None:
    """Identify a vehicle from its flight logs: every parameter with its error, or the manoeuvre that would excite it.

    The fit starts from --vehicle, whose mass is taken as exact. Every result is checked and flown. Exits with status 1 if no
    parameter can be identified, or if a result does not hover.
    """
    from samara import save_vehicle
    from samara.core.atomic_files import require_writable
    from samara.identify.hover_check import hover_problem
    from samara.identify.identification import identify as fit
    from samara.identify.readers.registry import read_logs
    from samara.identify.scores import cross_validate, describe_worse_models, pool_scores
    from samara.vehicles.limits import replace_dc_motors
    from samara.vehicles.plausibility import warnings

    predictor_path = predictor_out or out.with_name(f"{out.stem}_predictor{out.suffix or '.toml'}")
    if product is ProductType.PREDICTOR and not predictor:
        raise ValueError("--product predictor with --no-predictor; expected --predictor, which fits it")
    named = None if vehicle is None else _named_vehicle(vehicle, mass, diagonal)
    for folder in (out.parent, *([predictor_path.parent] if predictor else []), *([report] if report else [])):
        require_writable(folder)
    screen = console()
    skipped: list[str] = []
    with screen.status("reading"):
        flight_logs = read_logs(logs, columns, skipped.append)
    for sentence in skipped:
        screen.print(f"! {sentence}", style="yellow")
    model = named or replace_dc_motors(_start_vehicle(flight_logs, logs, mass, diagonal))
    predictions = []
    with _progress(scores) as show_progress:
        identification = fit(flight_logs, model, outputs=outputs, predictor=predictor, progress=show_progress)
        if scores:
            predictions = cross_validate(
                identification.flights,
                model,
                predictor=predictor,
                progress=lambda fraction: show_progress(HELD_OUT, fraction),
            )
    _show_findings(screen, flight_logs, identification.findings)
    for identified in identification.vehicles:
        screen.print(parameter_table(identified))
    if predictions:
        held_out_score = pool_scores([prediction.score() for prediction in predictions])
        screen.print(ratio_table(held_out_score))
        if len(identification.flights) == 1:
            screen.print("one flight: its halves predict each other; expect larger errors on another day")
        for sentence in describe_worse_models(held_out_score):
            screen.print(f"! {sentence}", style="yellow")
    elif scores:
        screen.print("no flight was predicted: no log records the motion for long enough")
    if not any(estimate.excited for identified in identification.vehicles for estimate in identified.estimates):
        say(_nothing_identified(identification.physical, model))
        raise typer.Exit(FAILED)
    vehicles = {ProductType.PHYSICAL: identification.physical.vehicle}
    if identification.predictor is not None:
        vehicles[ProductType.PREDICTOR] = identification.predictor.vehicle
    if product not in vehicles:
        requirement = "expected logs with velocity, attitude and angular rate"
        raise ValueError(f"{escape_control_characters(str(out))}: there is no predictor; {requirement}")
    written = {out: product}
    if product is ProductType.PHYSICAL and ProductType.PREDICTOR in vehicles:
        written[predictor_path] = ProductType.PREDICTOR
    failures = []
    for path, product_type in written.items():
        named_vehicle = _rename_vehicle(vehicles[product_type], path.stem)
        save_vehicle(named_vehicle, path)
        for warning in warnings(named_vehicle):
            screen.print(f"! {product_type.value}: {warning}", style="yellow")
        if problem := hover_problem(named_vehicle):
            failures.append(f"{escape_control_characters(str(path))}: does not fly: {problem}")
    say("\n".join(f"{product_type.value:9s} {path}" for path, product_type in written.items()))
    if report is not None:
        from samara.view.report.identify import write_identification

        command = shlex.join(["samara", *sys.argv[1:]])
        page, *_ = write_identification(
            identification, predictions, report, command=command, files=[str(path) for path in written]
        )
        say(f"report    {page}")
    if failures:
        say("\n".join(failures))
        raise typer.Exit(FAILED)


def _named_vehicle(vehicle: str, mass: float | None, diagonal: float | None) -> "Vehicle":
    """Load the vehicle of --vehicle and check that it can be identified."""
    from samara import vehicle as load
    from samara.identify.parameters import require_identifiable
    from samara.vehicles.limits import replace_dc_motors

    if mass is not None or diagonal is not None:
        raise ValueError(f"--vehicle {vehicle} with --mass or --diagonal; expected one or the other")
    model = replace_dc_motors(load(vehicle))
    require_identifiable(model)
    return model


def _start_vehicle(
    flight_logs: "list[FlightLog]", paths: "list[Path]", mass: float | None, diagonal: float | None
) -> "Vehicle":
    """Return the vehicle in the recordings, or one scaled to a mass and size; ask for these in a terminal."""
    from samara.identify.start_vehicle import recorded_vehicle, scaled_vehicle

    if mass is None and diagonal is None and (recorded := recorded_vehicle(flight_logs, paths)) is not None:
        return recorded
    if sys.stdin.isatty() and sys.stdout.isatty():
        mass = mass or float(typer.prompt(QUESTIONS["mass"], type=float))
        diagonal = diagonal or float(typer.prompt(QUESTIONS["diagonal"], type=float))
    if mass is None or diagonal is None:
        raise ValueError(
            "the logs do not say which aircraft flew; expected --vehicle (a name or a file, see `samara vehicle new`),"
            " or --mass [kg] and --diagonal [m]"
        )
    return scaled_vehicle(len(flight_logs[0].command.values), mass=mass, diagonal=diagonal)


def _nothing_identified(physical: "IdentifiedVehicle", model: "Vehicle") -> str:
    """Say that no parameter was identified, and list what to fly for which."""
    manoeuvres: dict[str, list[str]] = {}
    for estimate in physical.estimates:
        manoeuvres.setdefault(estimate.manoeuvre, []).append(estimate.name)
    lines = [f"  {manoeuvre}: for {', '.join(names)}" for manoeuvre, names in manoeuvres.items()]
    return "\n".join(
        [
            "nothing was identified: the flight excites no parameter. Nothing was written. Fly:",
            *lines,
            f"`samara identify plan` plans such a flight for {model.name}.",
        ]
    )


def _rename_vehicle(vehicle: "Vehicle", name: str) -> "Vehicle":
    """Return the vehicle named after its file, which distinguishes it from the vehicle the fit started from."""
    from dataclasses import replace

    return replace(vehicle, structure=replace(vehicle.structure, name=name))


@contextmanager
def _progress(scores: bool) -> Iterator[Callable[[str, float], None]]:
    """Show a bar that never moves backwards, although stages such as the regression may run twice."""
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn

    stage_starts, total = {}, 0.0
    for stage, fraction in STAGES.items():
        stage_starts[stage] = total
        total += fraction if scores or stage != HELD_OUT else 0.0
    columns = (TextColumn("{task.description:<18}", markup=False), BarColumn(), TimeElapsedColumn())
    with progress_bar("checking the logs", *columns, total=total) as (_, update):
        max_completed = 0.0

        def show_progress(stage: str, fraction: float) -> None:
            nonlocal max_completed
            max_completed = max(max_completed, stage_starts[stage] + STAGES[stage] * min(fraction, 1.0))
            update(max_completed, description=stage)

        yield show_progress
        update(total, description="done")


def _show_findings(
    screen: "Console", flights: "list[FlightLog]", findings: "Mapping[str, tuple[Finding, ...]]"
) -> None:
    for log in flights:
        sentences = [f"{'skipped: ' * (found.severity == 'error')}{found.sentence}" for found in findings[log.name]]
        for sentence in (*log.notes, *sentences):
            screen.print(f"! {log.name}: {sentence}", style="yellow")


def parameter_table(product: "IdentifiedVehicle") -> "Group":
    """Tabulate value ± error, 95 % interval and initial value; list parameters that no log excites and what to fly for them."""
    from rich.console import Group
    from rich.text import Text

    headings = ("", "value ± error", "95 % interval", "start", "unit")
    parameters = table(headings, title=f"{product.model_type} vehicle", right=headings[1:4])
    unexcited: dict[str, list[str]] = {}
    for estimate in product.estimates:
        if not estimate.excited:
            unexcited.setdefault(estimate.manoeuvre, []).append(estimate.name)
        cells = (
            estimate.name if estimate.excited else f"{estimate.name} *",
            f"{estimate.value:.4g} ± {estimate.error:.2g}",
            f"{estimate.low:.3g} … {estimate.high:.3g}",
            f"{estimate.start:.4g}",
            estimate.unit,
        )
        parameters.add_row(*(Text(cell, "" if estimate.excited else "dim") for cell in cells))
    lines = [Text(f"* not excited: {', '.join(names)}; fly {manoeuvre}") for manoeuvre, names in unexcited.items()]
    return Group(parameters, *lines, *([Text("")] if lines else []))


@app.command("plan")
def plan(
    vehicle: Annotated[str, argument("Best available model of the vehicle: a shipped name or a .toml file.")],
    duration: Annotated[float, option("--duration", "Total duration of the manoeuvres [s].")] = 120.0,
    half_width: Annotated[float, option("--half-width", "Maximum distance from the centre along x and y [m].")] = 4.0,
    min_height: Annotated[float, option("--min-height", "Minimum height [m].")] = 0.5,
    max_height: Annotated[float, option("--max-height", "Maximum height [m].")] = 4.0,
    max_speed: Annotated[float, option("--max-speed", "Maximum speed [m/s].")] = 5.0,
    max_tilt: Annotated[float, option("--max-tilt", "Maximum tilt [deg].")] = 35.0,
    max_thrust: Annotated[float, option("--max-thrust", "Maximum fraction of the full thrust.")] = 0.9,
    wind: Annotated[float, option("--wind", "Maximum wind in which the flight must be safe [m/s].")] = 0.0,
    out: Annotated[Path, out_option("Folder for the scenario, the waypoints and the picture.")] = Path("out/identify"),
) -> None:
    """Plan the most informative flight for identifying a vehicle; write it as a scenario, as waypoints and as a picture."""
    from collections import Counter

    from rich.markup import escape

    from samara import vehicle as load
    from samara.core.atomic_files import require_writable
    from samara.identify.experiment_design import plan_flight, write_plan
    from samara.identify.manoeuvres import FlightVolume
    from samara.view.plot.identify import draw_flight_plan

    model = load(vehicle)
    require_writable(out)
    screen = console()
    room = FlightVolume(half_width, min_height, max_height, max_speed, math.radians(max_tilt), max_thrust, wind)
    with screen.status("planning") as status:
        flight_plan = plan_flight(model, duration, room, lambda sentence: status.update(escape(sentence)))
    counts = Counter(manoeuvre.name for manoeuvre in flight_plan.manoeuvres)
    title = f"{flight_plan.duration:.0f} s of manoeuvres, from hover to hover"
    rows = ((name, str(count)) for name, count in counts.items())
    screen.print(table(("manoeuvre", "count"), rows, title, right=("count",)))
    name = str(Path(vehicle).resolve()) if vehicle.endswith(".toml") else vehicle
    scenario, waypoints = write_plan(flight_plan, out, name)
    picture = scenario.with_suffix(".png")
    draw_flight_plan(flight_plan, picture)
    say(f"scenario  {scenario}\nwaypoints {waypoints}\npicture   {picture}")


# samara validate --------------------------------------------------------------------------------------------------------


def validate(
    targets: Annotated[list[str], argument(VALIDATE_HELP, "VEHICLE|LOG")],
    out: Annotated[Path, out_option("Folder for the table and the picture.")] = Path("out/validation"),
    columns: Columns = None,
    outputs: Outputs = "speed",
) -> None:
    """Replay recorded motor commands open loop from measured states; report the errors between vehicles and real flights."""
    from rich.markup import escape

    from samara.core.atomic_files import write_text
    from samara.identify.readers.registry import read_logs
    from samara.identify.scores import VEHICLES, pool_scores
    from samara.identify.scores import score_table as markdown_table
    from samara.identify.scores import validate as compare
    from samara.vehicles.loader import vehicle_names
    from samara.view.plot.identify import draw_validation

    vehicles = [name for name in targets if name in vehicle_names() or name.endswith(".toml")]
    paths = [name for name in targets if name not in vehicles]
    if not paths:
        raise ValueError(f"{' '.join(targets)}: only vehicles; expected flight logs, or a folder of them, too")
    for path in paths:
        if not Path(path).exists():
            hint = suggest_closest(path, vehicle_names())
            raise ValueError(f"{escape_control_characters(path)}: is neither a vehicle nor a flight log{hint}")
    screen = console()
    with screen.status("reading") as status:
        skipped: list[str] = []
        logs = read_logs(paths, columns, skipped.append)

        def show(name: str) -> None:
            status.update(escape(f"replaying {escape_control_characters(name)}"))

        scores = compare(logs, vehicles or VEHICLES, show, outputs, skipped.append)
    for sentence in skipped:
        screen.print(f"! {sentence}", style="yellow")
    total = pool_scores(scores)
    screen.print(score_table(total))
    screen.print(ratio_table(total))
    written, picture = out / "validation.md", out / "validation.png"
    write_text(written, markdown_table(scores))
    draw_validation(scores, picture)
    say(f"table   {written}\npicture {picture}")


def score_table(score: "PredictionScore") -> "Table":
    """Tabulate the RMS errors over all flights."""
    from samara.identify.prediction_error_fit import QUANTITIES, UNITS
    from samara.identify.scores import HORIZONS, rms_error

    headings = ("model", *(f"{quantity} {unit}" for quantity, unit in zip(QUANTITIES, UNITS, strict=True)))
    horizons = " / ".join(f"{h:g}" for h in HORIZONS)
    errors_table = table(headings, title=f"RMS error after {horizons} s, {score.windows} windows")
    for name in score.rms:
        errors = ((rms_error(score, name, quantity, h) for h in HORIZONS) for quantity in QUANTITIES)
        errors_table.add_row(
            name, *(" / ".join(f"{x:.0f}" if x >= 10.0 else f"{x:.2g}" for x in row) for row in errors)
        )
    return errors_table


def ratio_table(score: "PredictionScore") -> "Table":
    """Tabulate the errors after 0.5 s relative to constant velocity; a model with a ratio below 1 predicts better."""
    from samara.identify.prediction_error_fit import BASELINES, QUANTITIES
    from samara.identify.scores import CONSTANT_VELOCITY, error_ratios

    models = (name for name in score.rms if name not in BASELINES)
    rows = ((name, *(f"{ratio:.2f}" for ratio in error_ratios(score, name).values())) for name in models)
    return table(
        ("model", *QUANTITIES), rows, f"After half a second, over the error of {CONSTANT_VELOCITY}", right=QUANTITIES
    )
