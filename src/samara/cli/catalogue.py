"""List what comes with Samara (vehicles, scenarios, controllers, tasks) and print shipped files to start from."""

import math
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from samara.cli.console import console, say, table
from samara.cli.options import argument, out_option

if TYPE_CHECKING:
    from samara.core.toml import ShippedFiles
    from samara.physics.types import Vehicle

scenario_app = typer.Typer(help="Print a scenario to start from.", no_args_is_help=True)

CopyOut = Annotated[Path | None, out_option("File for the copy; default: print it.")]


def list_vehicles(
    names: Annotated[list[str] | None, argument("Names or .toml files; default: all shipped vehicles.")] = None,
) -> None:
    """List vehicles: mass, rotors, hover speed, thrust-to-weight ratio, type of command, and source of the parameters."""
    from samara import vehicle, vehicle_names

    headings = ("vehicle", "mass", "rotors", "hover\nrad/s", "\nrpm", "thrust/\nweight", "command", "description")
    rows = [(model.name, *_figures(model), _description(model)) for model in map(vehicle, names or vehicle_names())]
    console().print(table(headings, rows, right=headings[1:6]))


def _description(vehicle: "Vehicle") -> str:
    """Return the description and the source of the mass, which stands for the other sources."""
    source = dict(vehicle.structure.sources).get("body.mass", "not given")
    return "; ".join(filter(None, (vehicle.structure.description, f"source: {source}")))


def mass_text(vehicle: "Vehicle") -> str:
    """Format the mass, in g below a kilogram."""
    return f"{1e3 * vehicle.mass:.4g} g" if vehicle.mass < 1.0 else f"{vehicle.mass:.4g} kg"


def _figures(vehicle: "Vehicle") -> tuple[str, ...]:
    """Format mass, rotor count, Ω at hover in rad/s and rpm (slowest and fastest if they differ), thrust-to-weight, command."""
    from samara import hover, thrust_to_weight

    actuation = vehicle.structure.actuation.name
    if not vehicle.rotors:
        return mass_text(vehicle), "0", "-", "-", "-", actuation
    speeds = hover(vehicle)[0].rotor_speed
    slowest, fastest = min(speeds), max(speeds)
    extremes = [slowest, fastest] if fastest - slowest > 1e-3 * fastest else [fastest]
    rad_per_second = "\n".join(f"{speed:.1f}" for speed in extremes)
    rpm = "\n".join(f"{60.0 * speed / (2.0 * math.pi):.0f}" for speed in extremes)
    ratio = f"{thrust_to_weight(vehicle):.2f}"
    return mass_text(vehicle), str(len(vehicle.rotors)), rad_per_second, rpm, ratio, actuation


def list_scenarios() -> None:
    """List the scenarios that come with Samara."""
    from samara.scenario.file import load_scenario, scenario_names

    rows = []
    for name in scenario_names():
        scenario = load_scenario(name)
        vehicles = ", ".join(dict.fromkeys(drone.vehicle.name for drone in scenario.drones))
        rows.append((name, vehicles, str(len(scenario.drones)), f"{scenario.duration:g}", scenario.description))
    right = ("drones", "duration [s]")
    console().print(table(("scenario", "vehicle", "drones", "duration [s]", "description"), rows, right=right))


def list_controllers() -> None:
    """List the controllers that fly by name: their options and what they are."""
    from samara.control.registry import CONTROLLER_TYPES

    rows = [
        (name, controller_type.description, ", ".join(controller_type.option_parsers))
        for name, controller_type in CONTROLLER_TYPES.items()
    ]
    console().print(table(("controller", "description", "options"), rows))


def list_tasks() -> None:
    """List the learning tasks of `samara train`: the length of an episode, the rate of actions, and the goal."""
    from samara.learn.tasks import SHIPPED, load_task

    rows = []
    for name in SHIPPED:
        task = load_task(name)
        docstring = import_module(f"samara.learn.tasks.{name}").__doc__ or ""
        goal = " ".join(docstring.split("\n\n")[0].split()).partition(": ")[2]
        rows.append((name, f"{task.seconds:g}", f"{1.0 / task.period:g}", goal))
    console().print(table(("task", "episode [s]", "rate [Hz]", "goal"), rows, right=("episode [s]", "rate [Hz]")))


def show_vehicle(
    name: Annotated[str, argument("Vehicle: a shipped name (`samara vehicles`).")], out: CopyOut = None
) -> None:
    """Print the file of a shipped vehicle, to start from."""
    from samara.vehicles.loader import VEHICLES

    _show(VEHICLES, name, out)


@scenario_app.command("show")
def show_scenario(
    name: Annotated[str, argument("Scenario: a shipped name (`samara scenarios`).")], out: CopyOut = None
) -> None:
    """Print the file of a shipped scenario, to start from."""
    from samara.scenario.file import SCENARIOS

    _show(SCENARIOS, name, out)


def _show(files: "ShippedFiles", name: str, out: Path | None) -> None:
    """Print a file, or write it to `out` under its new name; an existing file is not replaced."""
    from samara.core.atomic_files import write_text

    text = files.find(name).text
    if out is None:
        say(text.rstrip("\n"))
    elif out.exists():
        raise ValueError(f"--out {out}: the file exists; expected a new name")
    else:
        write_text(out, text)
        say(str(out))
