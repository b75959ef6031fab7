"""`samara vehicle`: create a vehicle from its parts, import it from other programs, export it to them."""

import inspect
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from samara.cli.catalogue import mass_text, show_vehicle
from samara.cli.console import check_mark, command_text, console, say, table
from samara.cli.options import Plot, VehicleArgument, argument, option, out_option
from samara.core.coerce import file_stem
from samara.vehicles.parts.parts_list import OPTIONAL_KEYS, OptionalKey

if TYPE_CHECKING:
    from samara.physics.types import Vehicle
    from samara.vehicles.exchange.imported_vehicle import ImportedVehicle
    from samara.vehicles.parts.performance import PerformanceFigure

QUESTIONS = {
    "mass": "Mass, ready to fly, with battery [kg]",
    "diagonal": "Diagonal, from motor to motor across the centre [m]",
    "motors": "Motors, size and Kv (such as 2207 1950KV)",
    "props": "Propellers, diameter x pitch x blades in inches (such as 5.1x4.3x3 or 51433)",
    "battery": "Battery, cells and mAh (such as 6S1300 or 4S2P5000)",
}
LAYOUT_HELP = (
    "Layout: quad_x, quad_plus, quad_h, deadcat, hexa_x, hexa_plus, octo_x, octo_plus, x8, y6 or tricopter; "
    "default: quad_x."
)

app = typer.Typer(
    help="Create a vehicle from its parts, print a shipped one, or exchange files with other programs.",
    no_args_is_help=True,
)
app.command("show")(show_vehicle)


def _option(key: str, parameter: OptionalKey) -> inspect.Parameter:
    """Create the option of a parameter that replaces an estimate."""
    size = "" if parameter.length == 1 else ", as x,y,z"
    help_text = f"{parameter.description[0].upper()}{parameter.description[1:]} [{parameter.unit}]{size}."
    option = typer.Option(
        f"--{key.replace('_', '-')}", help=help_text, rich_help_panel="Known parameters, instead of estimates"
    )
    annotation = Annotated[float | None if parameter.length == 1 else str | None, option]  # type: ignore[valid-type]
    return inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _add_parameter_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add an option for every entry of `OPTIONAL_KEYS` to the command's signature, which Typer reads."""
    signature = inspect.signature(command)
    declared = [entry for entry in signature.parameters.values() if entry.kind is not inspect.Parameter.VAR_KEYWORD]
    parameters = [*declared, *(_option(key, parameter) for key, parameter in OPTIONAL_KEYS.items())]
    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {entry.name: entry.annotation for entry in parameters}
    return command


def _values(text: str) -> list[float | str]:
    """Parse '0.1,0.1,0,ccw' into a list; the parts list refuses words in place of numbers."""
    values: list[float | str] = []
    for part in map(str.strip, text.split(",")):
        try:
            values.append(float(part))
        except ValueError:
            values.append(part)
    return values


def _print_performance(vehicle: "Vehicle", figures: "Sequence[PerformanceFigure]") -> None:
    """Print the flight performance as a table, and warnings about implausible parameters."""
    from samara.vehicles.plausibility import warnings

    say(f"{vehicle.name}: {mass_text(vehicle)}, {vehicle.structure.description}")
    rows = ((figure.name, figure.value_text, figure.interval) for figure in figures)
    console().print(table(("flight performance", "", "95 % interval"), rows, right=("",)))
    for warning in warnings(vehicle):
        console().print(check_mark(False, warning))


@app.command("new")
@_add_parameter_options
def new(
    name: Annotated[str | None, argument("Name of the vehicle.")] = None,
    parts: Annotated[Path | None, option("--parts", "Parts list (TOML); options take precedence over it.")] = None,
    mass: Annotated[float | None, option("--mass", "Mass, ready to fly, with battery [kg].")] = None,
    diagonal: Annotated[float | None, option("--diagonal", "Distance from motor to motor, diagonally [m].")] = None,
    arm: Annotated[
        float | None, option("--arm", "Distance from the centre to a motor [m], instead of --diagonal.")
    ] = None,
    motors: Annotated[str | None, option("--motors", "Motors: '2207 1950KV', '0720 17000KV brushed'.")] = None,
    props: Annotated[
        str | None, option("--props", "Propellers: diameter x pitch x blades [inch]: 5.1x4.3x3, 5143x3 or 51433.")
    ] = None,
    battery: Annotated[
        str | None, option("--battery", "Battery: cells and mAh, such as 6S1300 or '4S2P5000 25C'.")
    ] = None,
    layout: Annotated[str | None, option("--layout", LAYOUT_HELP)] = None,
    rotor: Annotated[
        list[str] | None, option("--rotor", "Rotor: x,y,z,ccw or cw [m]; repeat per rotor, instead of --layout.")
    ] = None,
    apc: Annotated[Path | None, option("--apc", "APC performance file of the propeller.")] = None,
    out: Annotated[Path | None, out_option("File for the vehicle; default: NAME.toml.")] = None,
    plot: Plot = True,
    report: Annotated[
        Path | None, option("--report", "File for a page with all parameters (.html); default: none.")
    ] = None,
    **overrides: float | str | None,
) -> None:
    """Create a vehicle from its parts, every parameter with its derivation and uncertainty; parameters that you know replace
    estimates. Prompts for missing parts in a terminal."""
    from samara import save_vehicle
    from samara.core.atomic_files import require_writable
    from samara.vehicles.parts.assemble import assemble
    from samara.vehicles.parts.parts_list import missing_keys, parts_entries, parts_list
    from samara.vehicles.parts.performance import performance_figures

    entries: dict[str, object] = dict(parts_entries(parts)) if parts else {}
    flags: dict[str, object] = {"name": name, "mass": mass, "diagonal": diagonal, "arm": arm, "motors": motors}
    flags |= {"props": props, "battery": battery, "layout": layout, "apc": str(apc) if apc else None}
    flags |= {"rotors": [_values(text) for text in rotor] if rotor else None}
    flags |= {key: _values(value) if isinstance(value, str) else value for key, value in overrides.items()}
    entries |= {key: value for key, value in flags.items() if value is not None}
    missing_parts = missing_keys(entries)
    if missing_parts and sys.stdin.isatty() and sys.stdout.isatty():
        for key in missing_parts:
            entries[key] = typer.prompt(QUESTIONS[key], type=float if key in ("mass", "diagonal") else str)
    elif missing_parts:
        raise ValueError(
            f"{', '.join(f'--{key}' for key in missing_parts)}: missing; expected them, or a terminal to prompt in"
        )
    entries.setdefault("name", out.stem if out else "drone")
    part_list = parts_list(parts.name if parts else "parts", **entries)
    target = out or Path(f"{file_stem(part_list.name)}.toml")
    if target.suffix != ".toml":
        raise ValueError(f"{target}: has the ending {target.suffix!r}: expected .toml, which marks vehicle files")
    for folder in (target.parent, *([report.parent] if report else [])):
        require_writable(folder)
    vehicle = assemble(part_list)
    figures = performance_figures(vehicle)
    save_vehicle(vehicle, target)
    _print_performance(vehicle, figures)
    say(f"vehicle {target}")
    if plot:
        from samara.view.plot.vehicle import draw_vehicle

        drawing = target.with_suffix(".png")
        draw_vehicle(vehicle, drawing)
        say(f"picture {drawing}")
    if report:
        from samara.view.report.html_repr import write_vehicle_page

        write_vehicle_page(vehicle, figures, report, shlex.join(["samara", *sys.argv[1:]]))
        say(f"report  {report}")
    say(f"fly it  {command_text('fly', 'figure8', '--vehicle', target)}")


@app.command("import")
def import_vehicle(
    file: Annotated[Path, argument("File of another program, such as a Gazebo model.sdf.")],
    out: Annotated[Path | None, out_option("File for the vehicle; default: NAME.toml.")] = None,
    name: Annotated[str | None, option("--name", "Name of the vehicle; default: the name in the file.")] = None,
    defaults_from: Annotated[
        str | None,
        option("--defaults-from", "Vehicle (a shipped name or a .toml file) that supplies missing parameters."),
    ] = None,
    diagonal: Annotated[
        float | None, option("--diagonal", "Distance from motor to motor [m], for a file without sizes.")
    ] = None,
    mass: Annotated[float | None, option("--mass", "Mass [kg], for a file without one.")] = None,
    motors: Annotated[
        str | None, option("--motors", "Motors such as '2207 1950KV', to estimate missing parameters.")
    ] = None,
    props: Annotated[str | None, option("--props", "Propellers such as 5.1x4.3x3 or 51433 [inch].")] = None,
    battery: Annotated[str | None, option("--battery", "Battery such as 6S1300.")] = None,
    layout: Annotated[
        str | None, option("--layout", "Layout such as quad_x or x8, for a frame file without motor positions.")
    ] = None,
    drone: Annotated[str | None, option("--drone", "Drone to import from a file with several.")] = None,
    ignore_missing: Annotated[bool, option("--ignore-missing", "Ignore included models that are missing.")] = False,
) -> None:
    """Import an aircraft from a file of another program as a vehicle file; each parameter states the field it came from.
    Parameters missing in the file come from --defaults-from, or are estimated from the parts."""
    from dataclasses import replace

    from samara import vehicle as load
    from samara.core.atomic_files import write_text
    from samara.vehicles.exchange.formats import estimate_from_parts, read_aircraft
    from samara.vehicles.exchange.imported_vehicle import build_imported, scale_positions
    from samara.vehicles.parts.uncertain import exact_value
    from samara.vehicles.writer import save_vehicle

    aircraft = read_aircraft(file, ignore_missing, layout, drone)
    if name:
        aircraft = replace(aircraft, name=name)
    if mass is not None and aircraft.mass is None:
        aircraft = replace(aircraft, mass=exact_value(mass, "given with --mass"))
    if diagonal is not None:
        aircraft = scale_positions(aircraft, exact_value(0.5 * diagonal, "half of --diagonal"))
    template = load(defaults_from) if defaults_from else None
    if motors or props or battery:
        if defaults_from:
            raise ValueError(
                "--defaults-from and parts are both given; expected one of them to supply missing parameters"
            )
        template = estimate_from_parts(aircraft, motors, props, battery)
    vehicle = build_imported(aircraft, template)
    target = out or Path(f"{file_stem(vehicle.name)}.toml")
    save_vehicle(vehicle, target)
    say(f"{aircraft.origin}: {aircraft.format}, {vehicle.name}: {vehicle.mass:.4g} kg, {len(vehicle.rotors)} rotors")
    for note in aircraft.notes:
        say(f"  note: {note}")
    for parameter in aircraft.missing_fields:
        say(f"  not in the file: {parameter}")
    say(f"vehicle {target}")
    if aircraft.autopilot_parameters:
        scenario = target.with_name(f"{target.stem}_{aircraft.autopilot}.toml")
        write_text(scenario, autopilot_scenario(aircraft, target.name))
        say(f"tuning  {scenario} ({len(aircraft.autopilot_parameters)} parameters)")
        say(f"fly it  {command_text('fly', scenario)}")


def autopilot_scenario(aircraft: "ImportedVehicle", vehicle_file: str) -> str:
    """Return a scenario in which the simulated autopilot flies the vehicle with its parameters: up, 5 m ahead, down."""
    from samara.core.toml import toml_value

    lines = [
        f"# The tuning in {Path(aircraft.origin).name}: PIDs, filters and rates. Rates apply with --sticks only.",
        *("schema = 1", f"name = {toml_value(f'{aircraft.name}_{aircraft.autopilot}')}", "duration = 30.0"),
        *("", "[[drones]]", 'name = "drone"', f"vehicle = {toml_value(vehicle_file)}"),
        *("", "[drones.autopilot]", f"type = {toml_value(aircraft.autopilot)}"),
        *("", "[drones.autopilot.parameters]"),
        *(f"{name} = {toml_value(value)}" for name, value in aircraft.autopilot_parameters.items()),
        *("", "[[events]]", "at = 0.0", 'do = "take_off"', "height = 3.0"),
        *("", "[[events]]", 'when = "height > 2.5"', 'do = "go_to"', "p_W = [5, 0, 3]", "speed = 2.0"),
        *("", "[[events]]", 'when = "x > 4.5"', 'do = "land"'),
    ]
    return "\n".join(lines) + "\n"


@app.command("export")
def export_vehicle(
    vehicle: VehicleArgument,
    sdf: Annotated[bool, option("--sdf", "Write a Gazebo model: a folder, or a file if --out ends in .sdf.")] = False,
    px4: Annotated[bool, option("--px4", "Write PX4 parameters: NAME.params.")] = False,
    ardupilot: Annotated[
        bool, option("--ardupilot", "Write ArduPilot frame and parameters: NAME.json, NAME.parm.")
    ] = False,
    betaflight: Annotated[bool, option("--betaflight", "Write lines for Betaflight's CLI: NAME.txt.")] = False,
    out: Annotated[
        Path | None, out_option("Folder or file, as the format has it; default: named after the vehicle.")
    ] = None,
) -> None:
    """Write the vehicle for another program; lists what that format cannot express."""
    from samara import vehicle as load
    from samara.vehicles.exchange import ardupilot as ardupilot_files
    from samara.vehicles.exchange import betaflight as betaflight_files
    from samara.vehicles.exchange import px4 as px4_files
    from samara.vehicles.exchange import sdf_write

    writers = {
        "sdf": (sdf, sdf_write.write_sdf, sdf_write.sdf_omissions),
        "px4": (px4, px4_files.write_px4, px4_files.px4_omissions),
        "ardupilot": (ardupilot, ardupilot_files.write_ardupilot, ardupilot_files.ardupilot_omissions),
        "betaflight": (betaflight, betaflight_files.write_betaflight, betaflight_files.betaflight_omissions),
    }
    chosen = [name for name, (requested, _, _) in writers.items() if requested]
    if not chosen:
        raise ValueError(f"samara vehicle export: no format; expected --{', --'.join(writers)}")
    model = load(vehicle)
    target = out or Path(file_stem(model.name))
    for name in chosen:
        _, write, left_out = writers[name]
        for path in write(model, target):
            say(str(path))
        for sentence in left_out(model):
            say(f"  left out: {sentence}")
