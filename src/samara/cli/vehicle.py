"""`samara vehicle`: a vehicle from its parts, from the files of other programs, and out to them."""

import inspect
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from samara.cli.check import mass_text
from samara.cli.console import console, say, table, verdict
from samara.cli.options import VehicleArgument, argument, option, out_option
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
LAYOUT_HELP = (
    "quad_x, quad_plus, quad_h, deadcat, hexa_x, hexa_plus, octo_x, octo_plus, x8, y6 or tricopter; quad_x by default."
)

app = typer.Typer(
    help="A vehicle of your own: from its parts, from the files of other programs, and out to them.",
    no_args_is_help=True,
)


def _option(key: str, known: Known) -> inspect.Parameter:
    """The option of a parameter that replaces an estimate."""
    help_text = f"{known.about[0].upper()}{known.about[1:]} [{known.unit}]{'' if known.numbers == 1 else ', as x,y,z'}."
    option = typer.Option(
        f"--{key.replace('_', '-')}", help=help_text, rich_help_panel="What is known, instead of estimated"
    )
    annotation = Annotated[float | None if known.numbers == 1 else str | None, option]  # type: ignore[valid-type]
    return inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _with_known_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with an option for every entry of `KNOWN`: Typer reads the signature."""
    signature = inspect.signature(command)
    plain = [entry for entry in signature.parameters.values() if entry.kind is not inspect.Parameter.VAR_KEYWORD]
    parameters = [*plain, *(_option(key, known) for key, known in KNOWN.items())]
    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {entry.name: entry.annotation for entry in parameters}
    return command


def _values(text: str) -> list[float | str]:
    """'0.1,0.1,0,ccw' as a list; the parts list refuses words where it expects numbers."""
    values: list[float | str] = []
    for part in map(str.strip, text.split(",")):
        try:
            values.append(float(part))
        except ValueError:
            values.append(part)
    return values


def _show(vehicle: "Vehicle", figures: "Sequence[PilotFigure]") -> None:
    """Print what a pilot knows, as a table, and what is far from real aircraft."""
    from samara.vehicles.plausibility import warnings

    say(f"{vehicle.name}: {mass_text(vehicle)}, {vehicle.structure.description}")
    rows = ((figure.name, figure.shown, figure.interval) for figure in figures)
    console().print(table(("what a pilot knows", "", "95 of 100 lie within"), rows, right=("",)))
    for warning in warnings(vehicle):
        console().print(verdict(False, warning))


@app.command("new")
@_with_known_options
def new(
    name: Annotated[str | None, argument("What the vehicle is called.")] = None,
    parts: Annotated[Path | None, option("--parts", "A parts list (TOML); flags take precedence.")] = None,
    mass: Annotated[float | None, option("--mass", "Ready to fly, with its battery [kg].")] = None,
    diagonal: Annotated[float | None, option("--diagonal", "From motor to motor, diagonally [m].")] = None,
    arm: Annotated[float | None, option("--arm", "From the middle to a motor [m], instead of it.")] = None,
    motors: Annotated[str | None, option("--motors", "'2207 1950KV', '0720 17000KV brushed'.")] = None,
    props: Annotated[str | None, option("--props", "Diameter x pitch x blades [inch]: 5.1x4.3x3.")] = None,
    battery: Annotated[str | None, option("--battery", "Cells and mAh: 6S1300, '4S2P5000 25C'.")] = None,
    layout: Annotated[str | None, option("--layout", LAYOUT_HELP)] = None,
    rotor: Annotated[list[str] | None, option("--rotor", "x,y,z,ccw or cw [m]; once per rotor, no layout.")] = None,
    apc: Annotated[Path | None, option("--apc", "APC's performance file of the propeller.")] = None,
    out: Annotated[Path | None, out_option("The vehicle to write; NAME.toml by default.")] = None,
    picture: Annotated[bool, option("--picture/--no-picture", "Draw it to scale, beside the file.")] = True,
    report: Annotated[Path | None, option("--report", "A page with all of it, an HTML file.")] = None,
    **known: float | str | None,
) -> None:
    """Make a vehicle from its parts, every parameter with its derivation and uncertainty; parameters you know replace
    estimates. Asks for missing ones in a terminal."""
    from samara import save_vehicle
    from samara.core.atomic_files import require_writable
    from samara.vehicles.parts.assemble import assemble
    from samara.vehicles.parts.parts_list import missing, parts_entries, parts_list
    from samara.vehicles.parts.performance import pilot_figures

    entries: dict[str, object] = dict(parts_entries(parts)) if parts else {}
    flags: dict[str, object] = {"name": name, "mass": mass, "diagonal": diagonal, "arm": arm, "motors": motors}
    flags |= {"props": props, "battery": battery, "layout": layout, "apc": str(apc) if apc else None}
    flags |= {"rotors": [_values(text) for text in rotor] if rotor else None}
    flags |= {key: _values(value) if isinstance(value, str) else value for key, value in known.items()}
    entries |= {key: value for key, value in flags.items() if value is not None}
    lacking = missing(entries)
    if lacking and sys.stdin.isatty() and sys.stdout.isatty():
        for key in lacking:
            entries[key] = typer.prompt(QUESTIONS[key], type=float if key in ("mass", "diagonal") else str)
    elif lacking:
        raise ValueError(f"{', '.join(f'--{key}' for key in lacking)}: missing; expected them, or a terminal to ask in")
    entries.setdefault("name", out.stem if out else "drone")
    listed = parts_list(parts.name if parts else "parts", **entries)
    target = out or Path(f"{file_stem(listed.name)}.toml")
    if target.suffix != ".toml":
        raise ValueError(f"{target}: has the ending {target.suffix!r}: expected .toml, or it would not be found again")
    for folder in (target.parent, *([report.parent] if report else [])):
        require_writable(folder)
    vehicle = assemble(listed)
    figures = pilot_figures(vehicle)
    save_vehicle(vehicle, target)
    _show(vehicle, figures)
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


@app.command("import")
def import_vehicle(
    file: Annotated[Path, argument("The file of another program, such as a Gazebo model.sdf.")],
    out: Annotated[Path | None, out_option("The vehicle file to write; NAME.toml here by default.")] = None,
    name: Annotated[str | None, option("--name", "What to call it; by default as the file does.")] = None,
    like: Annotated[str | None, option("--like", "A vehicle (name or .toml) with what the file lacks.")] = None,
    diagonal: Annotated[float | None, option("--diagonal", "Motor to motor [m], for a file without sizes.")] = None,
    mass: Annotated[float | None, option("--mass", "Mass [kg], for a file that has none.")] = None,
    motors: Annotated[str | None, option("--motors", "'2207 1950KV': estimate what the file lacks.")] = None,
    props: Annotated[str | None, option("--props", "Its propellers, such as 5.1x4.3x3 inches.")] = None,
    battery: Annotated[str | None, option("--battery", "Its battery, such as 6S1300.")] = None,
    layout: Annotated[str | None, option("--layout", "quad_x, x8, … if a frame file places no motors.")] = None,
    drone: Annotated[str | None, option("--drone", "Which one, if the file has several.")] = None,
    leave_out_missing: Annotated[bool, option("--leave-out-missing", "Ignore missing included models.")] = False,
) -> None:
    """Read an aircraft from a file of another program and write it as a vehicle file, every parameter with the field it came
    from; what the file cannot say comes from --like, or from the parts that are named."""
    from dataclasses import replace

    from samara import vehicle as load
    from samara.vehicles.exchange.formats import estimated_from_parts, read_aircraft
    from samara.vehicles.exchange.imported_vehicle import built, sized
    from samara.vehicles.parts.uncertain import given
    from samara.vehicles.writer import save_vehicle

    read = read_aircraft(file, leave_out_missing, layout, drone)
    if name:
        read = replace(read, name=name)
    if mass is not None and read.mass is None:
        read = replace(read, mass=given(mass, "given with --mass"))
    if diagonal is not None:
        read = sized(read, given(0.5 * diagonal, "half of --diagonal"))
    estimated = load(like) if like else None
    if motors or props or battery:
        if like:
            raise ValueError("--like and parts are both given; expected one of them to say what the file cannot")
        estimated = estimated_from_parts(read, motors, props, battery)
    made = built(read, estimated)
    target = out or Path(f"{file_stem(made.name)}.toml")
    save_vehicle(made, target)
    say(f"{read.origin}: {read.format}, {made.name}: {made.mass:.4g} kg, {len(made.rotors)} rotors")
    for note in read.notes:
        say(f"  note: {note}")
    for lacking in read.lacking:
        say(f"  not in the file: {lacking}")
    say(f"vehicle {target}")


@app.command("export")
def export_vehicle(
    vehicle: VehicleArgument,
    sdf: Annotated[bool, option("--sdf", "A Gazebo model: a folder, or a file if --out ends in .sdf.")] = False,
    px4: Annotated[bool, option("--px4", "PX4's parameters, NAME.params.")] = False,
    ardupilot: Annotated[bool, option("--ardupilot", "ArduPilot frame and parameters: NAME.json, NAME.parm.")] = False,
    betaflight: Annotated[bool, option("--betaflight", "Lines for Betaflight's CLI, NAME.txt.")] = False,
    out: Annotated[Path | None, out_option("What to write; named after the vehicle by default.")] = None,
) -> None:
    """Write the vehicle for another program; lists what that format cannot express."""
    from samara import vehicle as load
    from samara.vehicles.exchange import ardupilot as ardupilot_files
    from samara.vehicles.exchange import betaflight as betaflight_files
    from samara.vehicles.exchange import px4 as px4_files
    from samara.vehicles.exchange import sdf_write

    writers = {
        "sdf": (sdf, sdf_write.write_sdf, sdf_write.left_out),
        "px4": (px4, px4_files.write_px4, px4_files.px4_left_out),
        "ardupilot": (ardupilot, ardupilot_files.write_ardupilot, ardupilot_files.ardupilot_left_out),
        "betaflight": (betaflight, betaflight_files.write_betaflight, betaflight_files.betaflight_left_out),
    }
    chosen = [name for name, (requested, _, _) in writers.items() if requested]
    if not chosen:
        raise ValueError(f"samara vehicle export: no format is named; expected --{', --'.join(writers)}")
    model = load(vehicle)
    target = out or Path(file_stem(model.name))
    for name in chosen:
        _, write, left_out = writers[name]
        for path in write(model, target):
            say(str(path))
        for sentence in left_out(model):
            say(f"  left out: {sentence}")
