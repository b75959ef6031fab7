"""The command `samara`. Bad input ends in one sentence on stderr and exit status 2, never in a traceback."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from samara.physics.multirotor import Vehicle

INTERRUPTED = 130

app = typer.Typer(
    help="Multirotor physics, simulation and control.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
export = typer.Typer(help="Write a vehicle's equations out for other programs.", no_args_is_help=True)
app.add_typer(export, name="export")


def main() -> None:
    """Run the command line."""
    try:
        app()
    except (ValueError, OSError, FloatingPointError) as error:
        print(f"samara: {error}", file=sys.stderr)
        sys.exit(2)
    except SystemExit as end:
        if end.code == INTERRUPTED:  # Typer turns Ctrl-C into this, without a word
            print("samara: stopped", file=sys.stderr)
        raise


def _print_version(wanted: bool) -> None:
    if wanted:
        from samara import __version__

        typer.echo(f"samara {__version__}")
        raise typer.Exit()


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Multirotor physics, simulation and control: every equation written once, for every backend."""


@app.command()
def vehicles(
    names: Annotated[list[str] | None, typer.Argument(help="Names or .toml files; all that come with Samara.")] = None,
) -> None:
    """List vehicles: mass, rotors, hover speed, thrust-to-weight, what a command is, and where the numbers are from."""
    from rich import box
    from rich.table import Table

    from samara import vehicle, vehicle_names

    listed = [vehicle(name) for name in names or vehicle_names()]
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 1, 0))
    table.add_column("vehicle")
    for heading in ("mass", "rotors", "hover\nrad/s", "\nrpm", "thrust/\nweight"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("command", no_wrap=True)
    for each in listed:
        table.add_row(_about(each), *_figures(each))
    console().print(table)


def _about(vehicle: "Vehicle") -> "Text":
    """Name, description, and the source of the mass, which speaks for the rest."""
    from rich.text import Text

    source = dict(vehicle.structure.sources).get("body.mass", "built in Python")
    description = vehicle.structure.description
    about = f"{description}; source: {source}" if description else f"source: {source}"
    return Text.assemble((vehicle.name, "bold"), "\n", (about, "dim"))


def _figures(vehicle: "Vehicle") -> tuple[str, ...]:
    """Mass, number of rotors, Ω at hover in rad/s and rpm (slowest and fastest where they differ), thrust-to-weight."""
    from math import pi

    from samara import hover, thrust_to_weight

    mass = f"{1e3 * vehicle.mass:.4g} g" if vehicle.mass < 1.0 else f"{vehicle.mass:.4g} kg"
    actuation = vehicle.structure.actuation.name
    if not vehicle.rotors:
        return mass, "0", "-", "-", "-", actuation
    speeds = hover(vehicle)[0].rotor_speed
    slowest, fastest = min(speeds), max(speeds)
    ends = [slowest, fastest] if fastest - slowest > 1e-3 * fastest else [fastest]
    radians = "\n".join(f"{speed:.1f}" for speed in ends)
    turns = "\n".join(f"{60.0 * speed / (2.0 * pi):.0f}" for speed in ends)
    return mass, str(len(vehicle.rotors)), radians, turns, f"{thrust_to_weight(vehicle):.2f}", actuation


@app.command()
def fly(
    vehicle: Annotated[str, typer.Option("--vehicle", help="A shipped vehicle or a .toml file.")] = "hakoniwa",
    out: Annotated[Path, typer.Option("--out", help="The folder for picture and report.")] = Path("out/flight"),
) -> None:
    """Fly: lift off, hover at 10 m, move 10 m to the right. Leaves a picture and a report."""
    from rich import box
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.table import Table

    from samara import vehicle as load
    from samara.mission import MISSION, fly_mission
    from samara.view.flight import draw_flight, write_report

    craft = load(vehicle)
    screen = console()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:4.1f} s flown"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=screen) as bar:
        task = bar.add_task(f"flying {craft.name}", total=sum(leg.travel + leg.rest for leg in MISSION))
        flight = fly_mission(craft, progress=lambda time, total: bar.update(task, completed=time))
    table = Table(box=box.SIMPLE_HEAD, show_header=False)
    for name, value in flight.summary().items():
        table.add_row(name, value)
    screen.print(table)
    draw_flight(flight, out / "flight.png")
    write_report(flight, out / "report.md", "flight.png")
    screen.print(f"picture {out / 'flight.png'}\nreport  {out / 'report.md'}")


@export.command("c")
def export_c(
    vehicle: Annotated[str, typer.Option("--vehicle", help="A shipped vehicle or a .toml file.")] = "hakoniwa",
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for the header and the source.")] = Path("out"),
) -> None:
    """Write C99 that needs no library: derivative, RK4 step, its exact Jacobian, hover. One header, one source."""
    from samara import vehicle as load
    from samara.backends.c import write_c

    header, source = write_c(load(vehicle), out)
    typer.echo(f"header {header}\nsource {source}")


@export.command("drone-physics")
def export_drone_physics(
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for the library.")] = Path("out/drone_physics"),
) -> None:
    """Write document 004's library: drone_physics_c.h and .c, drone_physics.hpp, examples, self-tests, CMakeLists.txt."""
    from samara.drone_physics.c_library import write_library

    for path in write_library(out):
        typer.echo(str(path))


def console(**options: Any) -> "Console":
    """Where results are printed: as wide as the terminal, and wide enough for a table where there is none."""
    from rich.console import Console

    in_terminal = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(width=None if in_terminal else 110, **options)
