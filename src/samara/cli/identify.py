"""`samara identify`: from flight logs to a vehicle with an error on every number; `samara identify plan`: the flight to fly."""

import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from samara.cli.console import console, say
from samara.cli.default_command import default_command
from samara.cli.interrupts import interrupts
from samara.cli.validate import Columns, Outputs, ratio_table
from samara.core.sanitise import printable

if TYPE_CHECKING:
    from samara.identify.flight_log import FlightLog
    from samara.identify.identification import Product
    from samara.identify.log_checks import Finding
    from samara.physics.types import Vehicle

LOGS = "logs"
STAGES = {"checking the logs": 0.02, "forces and torques": 0.3, "prediction error": 0.25, "flights held out": 0.43}
"""What identifying goes through, and the part of the time that each takes"""


class Kind(StrEnum):
    """What is written"""

    PHYSICAL = "physical"
    PREDICTOR = "predictor"


app = typer.Typer(
    cls=default_command(LOGS),
    help="Find a vehicle from its flight logs: samara identify LOG... (short for: samara identify logs LOG...).",
    no_args_is_help=True,
    subcommand_metavar="LOG... | COMMAND [ARGS]...",
)


@app.command(LOGS)
def identify(
    logs: Annotated[list[Path], typer.Argument(metavar="LOG", help="Flight logs of any kind, or folders of them.")],
    start: Annotated[
        str, typer.Option("--start", help="What is known before: a shipped vehicle or a .toml file, its mass true.")
    ] = "crazyflie",
    out: Annotated[Path, typer.Option("--out", "-o", help="The vehicle to write.")] = Path("identified.toml"),
    kind: Annotated[Kind, typer.Option("--kind", help="Which of the two products that is.")] = Kind.PHYSICAL,
    predictor_out: Annotated[
        Path | None, typer.Option("--predictor-out", help="Where the predictor goes; NAME_predictor.toml by default.")
    ] = None,
    predictor: Annotated[
        bool, typer.Option("--predictor/--no-predictor", help="Whether to fit the predictor as well.")
    ] = True,
    scores: Annotated[
        bool, typer.Option("--scores/--no-scores", help="Whether to predict flights held out, which takes longest.")
    ] = True,
    report: Annotated[Path | None, typer.Option("--report", help="The folder for the report, a page and PNGs.")] = None,
    columns: Columns = None,
    outputs: Outputs = "speed",
) -> None:
    """Find a vehicle from its flight logs: every number with its error, or that no flight told it, and what to fly then."""
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
    craft = with_lag_motors(load(start))
    require_identifiable(craft)
    for place in (out.parent, *([beside.parent] if predictor else []), *([report] if report else [])):
        require_writable(place)
    screen = console()
    with screen.status("reading"):
        flights = read_logs(logs, columns)
    with _progress(screen, scores) as tell:
        found = fit(flights, craft, outputs=outputs, predictor=predictor, progress=tell)
        predicted = (
            held_out(
                found.flights,
                craft,
                predictor=predictor,
                progress=lambda share: tell("flights held out", share),
            )
            if scores
            else []
        )
    _show_findings(screen, flights, found.findings)
    for own in found.products:
        screen.print(number_table(own))
    if predicted:
        screen.print(ratio_table(together([own.score() for own in predicted])))
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
        save_vehicle(_named(vehicles[which], path.stem), path)
    say("\n".join(f"{which.value:9s} {path}" for path, which in written.items()))
    if report is not None:
        from samara.view.report.identify import write_identification

        command = shlex.join(["samara", *sys.argv[1:]])
        page, *_ = write_identification(found, predicted, report, command=command, files=[str(own) for own in written])
        say(f"report    {page}")


def _named(vehicle: "Vehicle", name: str) -> "Vehicle":
    """By its file, so that it is told from the vehicle it began with"""
    from dataclasses import replace

    return replace(vehicle, structure=replace(vehicle.structure, name=name))


@contextmanager
def _progress(screen: Any, scores: bool) -> Iterator[Callable[[str, float], None]]:
    """A bar that never goes back: stages that are gone through twice, as regression may be, stay where they were"""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    begins, at = {}, 0.0
    for stage, part in STAGES.items():
        begins[stage] = at
        at += part if scores or stage != "flights held out" else 0.0
    columns = (TextColumn("{task.description:<18}", markup=False), BarColumn(), TimeElapsedColumn())
    with interrupts() as asked, Progress(*columns, console=screen) as bar:
        task = bar.add_task("checking the logs", total=at)
        furthest = 0.0

        def tell(stage: str, share: float) -> None:
            nonlocal furthest
            asked.check()
            furthest = max(furthest, begins[stage] + STAGES[stage] * min(share, 1.0))
            bar.update(task, completed=furthest, description=stage)

        yield tell
        bar.update(task, completed=at, description="done")


def _show_findings(screen: Any, flights: "list[FlightLog]", findings: "Mapping[str, tuple[Finding, ...]]") -> None:
    for log in flights:
        for sentence in (*log.notes, *(own.sentence for own in findings[log.name])):
            screen.print(f"! {log.name}: {sentence}", style="yellow")


def number_table(product: "Product") -> Any:
    """Value ± error, 95 % interval and the start's value; below it what was not excited, and what to fly"""
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=box.SIMPLE_HEAD, title=f"{product.kind} vehicle", title_justify="left")
    for heading in ("", "value ± error", "95 % interval", "start", "unit"):
        shown.add_column(heading, justify="left" if heading in ("", "unit") else "right", no_wrap=True)
    for own in product.estimates:
        cells = (
            own.name if own.excited else f"{own.name} *",
            f"{own.value:.4g} ± {own.error:.2g}",
            f"{own.low:.3g} … {own.high:.3g}",
            f"{own.start:.4g}",
            own.unit,
        )
        shown.add_row(*(Text(cell, "" if own.excited else "dim") for cell in cells))
    lines = [Text(f"* not excited: {', '.join(names)}; fly {way}") for way, names in not_excited(product).items()]
    return Group(shown, *lines, *([Text("")] if lines else []))


def not_excited(product: "Product") -> dict[str, list[str]]:
    """The numbers that no flight told, by the manoeuvre that would"""
    found: dict[str, list[str]] = {}
    for own in product.estimates:
        if not own.excited:
            found.setdefault(own.manoeuvre, []).append(own.name)
    return found


@app.command("plan")
def plan(
    vehicle: Annotated[str, typer.Argument(help="What is known of it: a shipped vehicle or a .toml file.")],
    duration: Annotated[
        float, typer.Option("--duration", help="How long the manoeuvres may take together [s].")
    ] = 120.0,
    reach: Annotated[float, typer.Option("--reach", help="How far it may go from the middle along x and y [m].")] = 4.0,
    low: Annotated[float, typer.Option("--low", help="Its least height [m].")] = 0.5,
    high: Annotated[float, typer.Option("--high", help="Its greatest height [m].")] = 4.0,
    speed: Annotated[float, typer.Option("--speed", help="Its greatest speed [m/s].")] = 5.0,
    tilt: Annotated[float, typer.Option("--tilt", help="How far it may lean [deg].")] = 35.0,
    thrust: Annotated[float, typer.Option("--thrust", help="The part of all its thrust it may use.")] = 0.9,
    wind: Annotated[float, typer.Option("--wind", help="The wind it has to be safe in [m/s].")] = 0.0,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for scenario, waypoints and picture.")] = Path(
        "out/identify"
    ),
) -> None:
    """Plan the flight that would tell most about a vehicle: a scenario, the same as waypoints, and a picture."""
    import math

    from rich.markup import escape

    from samara import vehicle as load
    from samara.core.atomic_files import require_writable
    from samara.identify.experiment_design import plan_flight, write_plan
    from samara.identify.manoeuvres import Room
    from samara.view.plot.identify import draw_flight_plan

    craft = load(vehicle)
    require_writable(out)
    screen = console()
    room = Room(reach, low, high, speed, math.radians(tilt), thrust, wind)
    with screen.status("planning") as status:
        found = plan_flight(craft, duration, room, lambda sentence: status.update(escape(sentence)))
    screen.print(_plan_table(found))
    own_file = Path(vehicle).resolve() if vehicle.endswith(".toml") else None
    scenario, waypoints = write_plan(found, out, str(own_file) if own_file else vehicle)
    picture = scenario.with_suffix(".png")
    draw_flight_plan(found, picture)
    say(f"scenario  {scenario}\nwaypoints {waypoints}\npicture   {picture}")


def _plan_table(found: Any) -> Any:
    from collections import Counter

    from rich import box
    from rich.table import Table

    title = f"{found.duration:.0f} s of manoeuvres, from hover to hover"
    shown = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left")
    shown.add_column("manoeuvre")
    shown.add_column("times", justify="right")
    for name, times in Counter(own.name for own in found.manoeuvres).items():
        shown.add_row(name, str(times))
    return shown
