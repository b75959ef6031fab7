"""`samara vehicles`: what there is to fly."""

from typing import TYPE_CHECKING, Annotated

import typer

from samara.cli.console import console
from samara.core.sanitise import printable

if TYPE_CHECKING:
    from rich.text import Text

    from samara.physics.types import Vehicle


def list_vehicles(
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

    source = dict(vehicle.structure.sources).get("body.mass", "not given")
    description = vehicle.structure.description
    about = f"{description}; source: {source}" if description else f"source: {source}"
    return Text.assemble((printable(vehicle.name), "bold"), "\n", (printable(about), "dim"))


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
