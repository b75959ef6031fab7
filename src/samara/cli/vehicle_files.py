"""`samara vehicle import` and `samara vehicle export`: vehicle files of other programs, in and out."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from samara.cli.console import say
from samara.core.coerce import file_stem

if TYPE_CHECKING:
    from samara.physics.types import Vehicle
    from samara.vehicles.exchange.imported_vehicle import Imported


def add_to(app: typer.Typer) -> None:
    """Both commands"""
    app.command("import")(import_vehicle)
    app.command("export")(export_vehicle)


def import_vehicle(
    file: Annotated[Path, typer.Argument(help="The file of another program, such as a Gazebo model.sdf.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The vehicle file to write; NAME.toml here by default.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="What to call it; by default as the file does.")] = None,
    like: Annotated[
        str | None,
        typer.Option("--like", help="A vehicle, by name or .toml, that has what the file cannot say."),
    ] = None,
    diagonal: Annotated[
        float | None,
        typer.Option("--diagonal", help="From motor to motor across the middle [m], for a file without sizes."),
    ] = None,
    mass: Annotated[float | None, typer.Option("--mass", help="Mass [kg], for a file that has none.")] = None,
    motors: Annotated[
        str | None,
        typer.Option(
            "--motors", help="Size and Kv, such as '2207 1950KV': estimate from parts what the file cannot say."
        ),
    ] = None,
    props: Annotated[str | None, typer.Option("--props", help="Its propellers, such as 5.1x4.3x3 inches.")] = None,
    battery: Annotated[str | None, typer.Option("--battery", help="Its battery, such as 6S1300.")] = None,
    layout: Annotated[
        str | None,
        typer.Option("--layout", help="quad_x, hexa_x, x8, …, for an ArduPilot frame file that places no motors."),
    ] = None,
    drone: Annotated[
        str | None, typer.Option("--drone", help="Which one, of a parameter file of drone-models that has several.")
    ] = None,
    leave_out_missing: Annotated[
        bool, typer.Option("--leave-out-missing", help="Go on without included models that are not there.")
    ] = False,
) -> None:
    """Read an aircraft from a file of another program and write it as a vehicle file: every number with the field it came
    from, what the file cannot say from --like, or from the parts that are named."""
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
    _tell(read, made)
    say(f"vehicle {target}")


def _tell(read: "Imported", made: "Vehicle") -> None:
    say(f"{read.origin}: {read.format}, {made.name}: {made.mass:.4g} kg, {len(made.rotors)} rotors")
    for note in read.notes:
        say(f"  note: {note}")
    for lacking in read.lacking:
        say(f"  not in the file: {lacking}")


def export_vehicle(
    vehicle: Annotated[str, typer.Argument(help="A shipped vehicle or a .toml file.")],
    sdf: Annotated[
        bool, typer.Option("--sdf", help="A model of Gazebo: a folder, or a file if --out ends in .sdf.")
    ] = False,
    px4: Annotated[bool, typer.Option("--px4", help="PX4's parameters, NAME.params.")] = False,
    ardupilot: Annotated[
        bool, typer.Option("--ardupilot", help="A frame of ArduPilot's simulator and parameters: NAME.json, NAME.parm.")
    ] = False,
    betaflight: Annotated[bool, typer.Option("--betaflight", help="Lines for Betaflight's CLI, NAME.txt.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="What to write; named after the vehicle by default.")
    ] = None,
) -> None:
    """Write what another program needs to fly the same aircraft, and say what its format has no word for."""
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
    chosen = [name for name, (wanted, _, _) in writers.items() if wanted]
    if not chosen:
        raise ValueError(f"samara vehicle export: no format is named; expected --{', --'.join(writers)}")
    own = load(vehicle)
    target = out or Path(file_stem(own.name))
    for name in chosen:
        _, write, left_out = writers[name]
        for path in write(own, target):
            say(str(path))
        for each in left_out(own):
            say(f"  left out: {each}")
