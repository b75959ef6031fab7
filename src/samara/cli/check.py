"""`samara check`: what is wrong with files, and what a vehicle's numbers say together."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from samara.cli.console import console, say, verdict

if TYPE_CHECKING:
    from samara.physics.types import Vehicle
    from samara.scenario.scenario import Scenario


def check(
    files: Annotated[list[str], typer.Argument(help="Scenario or vehicle files, or shipped names of either.")],
) -> None:
    """Read files and report every error in them. Lists the stages of a scenario with their rates, and the hover and
    implausible parameters of a vehicle."""
    from samara import vehicle
    from samara.scenario.file import load_scenario

    problems = []
    for name in files:
        try:
            if _is_vehicle(name):
                _tell(name, vehicle(name))
            else:
                _report_scenario(name, load_scenario(name))
        except ValueError as error:
            problems.append(str(error))
    if problems:
        raise ValueError("\n".join(problems))


def _report_scenario(name: str, scenario: "Scenario") -> None:
    """The stages of a flight with their rates; those that run in Python, and why"""
    from samara.sim.simulation import Simulation, without_autopilots

    counts = f"{len(scenario.drones)} drones, {len(scenario.events)} events, {scenario.duration:g} s"
    say(f"{name}: scenario {scenario.name}, {counts}")
    simulation = Simulation(without_autopilots(scenario))
    try:
        for stage in simulation.sequence():
            rate = f"{stage.rate:g} Hz" if stage.rate else "when due"
            say(f"  {stage.name:14s} {rate:>9s}" + (f"  in Python: {stage.python}" if stage.python else ""))
    finally:
        simulation.close()


def _is_vehicle(name: str) -> bool:
    """A shipped name that is a vehicle's, or a file with something that only vehicles have"""
    from samara import vehicle_names
    from samara.core.referenced_files import read_text
    from samara.core.toml import document

    if not name.endswith(".toml") or not Path(name).is_file():
        return name in vehicle_names()
    try:
        return not {"body", "actuation", "rotors", "rotor"}.isdisjoint(document(read_text(Path(name)), name))
    except (OSError, ValueError):
        return False


def _tell(name: str, vehicle: "Vehicle") -> None:
    from samara.vehicles.plausibility import AXES, controllable, figures, hover_power, warnings

    say(f"{name}: vehicle {vehicle.name}, {vehicle.mass:g} kg, {len(vehicle.rotors)} rotors")
    screen = console()
    if vehicle.rotors:
        rank, free = controllable(vehicle)
        listed = "all of force and torque" if len(free) == len(AXES) else ", ".join(free) or "none"
        lines = [("allocation", f"rank {rank}; commanded alone: {listed}")]
        try:
            lines += _hovering(vehicle, hover_power(vehicle))
        except ValueError:  # the warnings say why
            lines.append(("hover", "none"))
        for title, text in lines:
            say(f"  {title:14s} {text}")
        _tell_controls(vehicle, free)
    found = figures(vehicle)
    if found:
        screen.print(_table(found))
    for warning in warnings(vehicle):
        screen.print(verdict(False, warning))


def _tell_controls(vehicle: "Vehicle", free: tuple[str, ...]) -> None:
    """Which axes can be commanded and how far, with all rotors and with one of them failed"""
    from rich import box
    from rich.table import Table

    from samara.vehicles.controllability import TORQUES, controllability, failures, in_words

    own = controllability(vehicle)
    say(f"  {'controls':14s} {_commanded(vehicle, free)}; {in_words(own)}")
    if not own.torques:
        return
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("in hover, most", *(f"{axis} N m (rad/s²)" for axis in TORQUES), "climb m/s²", ""):
        table.add_column(heading)
    left = [("all rotors", own), *((f"rotor {which} failed", one) for which, one in failures(vehicle))]
    for title, each in left:
        torques = {torque.axis: f"{torque.shown} ({torque.acceleration:.3g})" for torque in each.torques}
        climb = f"{each.climb:.3g}" if each.torques else "-"
        table.add_row(title, *(torques.get(axis, "-") for axis in TORQUES), climb, in_words(each))
    console().print(table)


def _commanded(vehicle: "Vehicle", free: tuple[str, ...]) -> str:
    from samara.vehicles.plausibility import NEEDED, reached

    bound = [name for name in NEEDED if name not in free]
    if not bound:
        return "thrust, roll, pitch and yaw, each alone"
    none = [name for name in bound if not reached(vehicle, name)]
    mixed = [name for name in bound if name not in none]
    count = {1: "one rotor commands", 2: "two rotors command"}.get(len(vehicle.rotors), "the rotors command")
    parts = [f"{', '.join(free)} alone" if free else "no axis alone"]
    parts += [f"{', '.join(mixed)} only together with others"] if mixed else []
    parts += [f"{', '.join(none)} not at all"] if none else []
    return f"{count} {', '.join(parts)}"


def _hovering(vehicle: "Vehicle", power: Any) -> list[tuple[str, str]]:
    from samara import hover
    from samara.physics.multirotor import tilt_angles

    state, command = hover(vehicle)
    command, servos = command[: len(vehicle.rotors)], tilt_angles(state, vehicle)
    low, high = min(command), max(command)
    each = f"{high:.3g}" if high - low < 1e-3 * high else f"{low:.3g} to {high:.3g}"
    unit = {"speed": " rad/s", "wrench": " N"}.get(vehicle.structure.actuation.name, " of 1")
    lines = [("hover", f"command {each}{unit}, rotors at {max(state.rotor_speed):.0f} rad/s")]
    for i, angle in zip(vehicle.servos, servos, strict=True):
        lines.append(("servo", f"rotor {i} tilted by {math.degrees(angle):.3g} deg in hover"))
    against = f"; momentum theory: at least {power.ideal:.3g} W" if power.ideal else "; no radius, no momentum theory"
    return [*lines, ("hover power", f"{power.shaft:.3g} W at the rotors{against}")]


def _table(found: list[Any]) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("", "value", "typical"):
        table.add_column(heading)
    for own in found:
        table.add_row(own.name, own.shown, own.expected)
    return table
