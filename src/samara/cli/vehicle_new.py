"""`samara vehicle new`: an aircraft of one's own from its parts."""

import inspect
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from samara.cli.console import console, say, verdict
from samara.core.coerce import file_stem
from samara.vehicles.parts.parts_list import KNOWN, Known

if TYPE_CHECKING:
    from samara.physics.types import Vehicle
    from samara.vehicles.parts.performance import PilotFigure

QUESTIONS = {
    "mass": "Mass, ready to fly, with its battery [kg]",
    "diagonal": "Diagonal, from motor to motor across the middle [m]",
    "motors": "Motors, size and Kv (such as 2207 1950KV)",
    "props": "Propellers, diameter x pitch x blades in inches (such as 5.1x4.3x3)",
    "battery": "Battery, cells and mAh (such as 6S1300 or 4S2P5000)",
}


def new(
    name: Annotated[str | None, typer.Argument(help="What the vehicle is called.")] = None,
    parts: Annotated[
        Path | None, typer.Option("--parts", help="A parts list, a short TOML file; flags go before.")
    ] = None,
    mass: Annotated[float | None, typer.Option("--mass", help="Ready to fly, with its battery [kg].")] = None,
    diagonal: Annotated[
        float | None, typer.Option("--diagonal", help="From motor to motor across the middle [m].")
    ] = None,
    arm: Annotated[float | None, typer.Option("--arm", help="From the middle to a motor [m], instead of it.")] = None,
    motors: Annotated[
        str | None, typer.Option("--motors", help="Size and Kv: '2207 1950KV', '0720 17000KV brushed'.")
    ] = None,
    props: Annotated[str | None, typer.Option("--props", help="Diameter x pitch x blades [inch]: 5.1x4.3x3.")] = None,
    battery: Annotated[str | None, typer.Option("--battery", help="Cells and mAh: 6S1300, '4S2P5000 25C'.")] = None,
    layout: Annotated[
        str | None,
        typer.Option(
            "--layout",
            help="quad_x, quad_plus, quad_h, deadcat, hexa_x, hexa_plus, octo_x, octo_plus, x8, y6 or tricopter; quad_x "
            "by default.",
        ),
    ] = None,
    rotor: Annotated[
        list[str] | None,
        typer.Option("--rotor", help="x,y,z,ccw or cw, from the middle [m]; once for each rotor, instead of a layout."),
    ] = None,
    apc: Annotated[Path | None, typer.Option("--apc", help="APC's performance file of the propeller.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The vehicle to write; NAME.toml by default.")] = None,
    picture: Annotated[bool, typer.Option("--picture/--no-picture", help="Draw it to scale, beside the file.")] = True,
    report: Annotated[Path | None, typer.Option("--report", help="A page with all of it, an HTML file.")] = None,
    **known: Any,
) -> None:
    """Make a vehicle from its parts: every number with how it was made and how far it may be off; what you know is given
    instead. Without numbers it asks for them."""
    from samara import save_vehicle
    from samara.core.atomic_files import require_writable
    from samara.vehicles.parts.assemble import assemble
    from samara.vehicles.parts.parts_list import missing, parts_entries, parts_list
    from samara.vehicles.parts.performance import pilot_figures

    entries: dict[str, Any] = parts_entries(parts) if parts else {}
    flags: dict[str, Any] = {
        "name": name,
        "mass": mass,
        "diagonal": diagonal,
        "arm": arm,
        "motors": motors,
        "props": props,
    }
    flags |= {"battery": battery, "layout": layout, "rotors": _rotors(rotor), "apc": str(apc) if apc else None}
    flags |= {key: _numbers(key, own) for key, own in known.items()}
    entries |= {key: own for key, own in flags.items() if own is not None}
    lacking = missing(entries)
    if lacking and sys.stdin.isatty() and sys.stdout.isatty():
        for key in lacking:
            entries[key] = typer.prompt(QUESTIONS[key], type=float if key in ("mass", "diagonal") else str)
    elif lacking:
        raise ValueError(f"{', '.join(f'--{key}' for key in lacking)}: missing; expected them, or a terminal to ask in")
    entries.setdefault("name", out.stem if out else "drone")
    own = parts_list(parts.name if parts else "parts", **entries)
    target = out or Path(f"{file_stem(own.name)}.toml")
    if target.suffix != ".toml":
        raise ValueError(f"{target}: has the ending {target.suffix!r}: expected .toml, or it would not be found again")
    for place in (target.parent, *([report.parent] if report else [])):
        require_writable(place)
    vehicle = assemble(own)
    figures = pilot_figures(vehicle)
    save_vehicle(vehicle, target)
    show(vehicle, figures)
    say(f"vehicle {target}")
    if picture:
        from samara.view.plot.vehicle import draw_vehicle

        drawing = target.with_suffix(".png")
        draw_vehicle(vehicle, drawing)
        say(f"picture {drawing}")
    if report:
        from samara.view.report.html_repr import write_vehicle_page

        write_vehicle_page(vehicle, figures, report, shlex.join(["samara", *sys.argv[1:]]))
        say(f"report  {report}")
    say(f"fly it  samara fly figure8 --vehicle {target}")


def _option(key: str, own: Known) -> inspect.Parameter:
    """The flag of a number that may be given"""
    number: Any = float | None if own.numbers == 1 else str | None
    kind: Any = Annotated[
        number,
        typer.Option(
            f"--{key.replace('_', '-')}",
            help=f"{own.about[0].upper()}{own.about[1:]} [{own.unit}]{'' if own.numbers == 1 else ', as x,y,z'}.",
            rich_help_panel="What is known, instead of estimated",
        ),
    ]
    return inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)


def _with_known_options(command: Any) -> Any:
    """The command with a flag for every entry of `KNOWN`: Typer reads the signature"""
    signature = inspect.signature(command)
    own = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
    more = [_option(key, each) for key, each in KNOWN.items()]
    command.__signature__ = signature.replace(parameters=[*own, *more])
    command.__annotations__ = {each.name: each.annotation for each in (*own, *more)}
    return command


def add_to(app: typer.Typer) -> None:
    """The command `new`"""
    app.command("new")(_with_known_options(new))


def _rotors(texts: list[str] | None) -> list[Any] | None:
    """--rotor 0.1,0.1,0,ccw as a parts list has it, which refuses what is not a number"""
    if not texts:
        return None
    rows: list[Any] = []
    for text in texts:
        *places, spin = [part.strip() for part in text.split(",")]
        rows.append([*(_number(part) for part in places), spin])
    return rows


def _numbers(key: str, value: Any) -> Any:
    """x,y,z of a flag as a list"""
    return [_number(part) for part in value.split(",")] if isinstance(value, str) and KNOWN[key].numbers > 1 else value


def _number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def show(vehicle: "Vehicle", figures: "list[PilotFigure]") -> None:
    """What a pilot knows, as a table, and what is far from real aircraft"""
    from rich import box
    from rich.table import Table

    from samara.vehicles.plausibility import warnings

    screen = console()
    mass = f"{1e3 * vehicle.mass:.4g} g" if vehicle.mass < 1.0 else f"{vehicle.mass:.4g} kg"
    say(f"{vehicle.name}: {mass}, {vehicle.structure.description}")
    table = Table(box=box.SIMPLE_HEAD)
    for heading, side in (("what a pilot knows", "left"), ("", "right"), ("95 of 100 lie within", "left")):
        table.add_column(heading, justify=side)  # type: ignore[arg-type]
    for own in figures:
        table.add_row(own.name, own.shown, own.interval)
    screen.print(table)
    for warning in warnings(vehicle):
        screen.print(verdict(False, warning))
