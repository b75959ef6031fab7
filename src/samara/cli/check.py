"""`samara check`: errors in files, and what the parameters of a vehicle say together; `samara vehicles`: vehicles to fly."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from samara.cli.console import console, say, table, verdict
from samara.cli.options import argument
from samara.core.sanitise import printable

if TYPE_CHECKING:
    from rich.text import Text

    from samara.physics.types import Vehicle
    from samara.scenario.scenario import Scenario


def check(
    files: Annotated[list[str], argument("Scenario or vehicle files, or shipped names of either.")],
) -> None:
    """Read files and report every error in them. Lists the stages of a scenario with their rates, and the hover and
    implausible parameters of a vehicle."""
    from samara import vehicle
    from samara.scenario.file import load_scenario

    problems = []
    for name in files:
        try:
            if _is_vehicle(name):
                _report_vehicle(name, vehicle(name))
            else:
                _report_scenario(name, load_scenario(name))
        except ValueError as error:
            problems.append(str(error))
    if problems:
        raise ValueError("\n".join(problems))


def _is_vehicle(name: str) -> bool:
    """Whether a shipped name is a vehicle's, or a file has a table that only vehicles have."""
    from samara import vehicle_names
    from samara.core.budget import read_text
    from samara.core.toml import document

    if not name.endswith(".toml") or not Path(name).is_file():
        return name in vehicle_names()
    try:
        return not {"body", "actuation", "rotors", "rotor"}.isdisjoint(document(read_text(Path(name)), name))
    except (OSError, ValueError):
        return False


def _report_scenario(name: str, scenario: "Scenario") -> None:
    """Print the stages of a flight with their rates; those that run in Python, and why."""
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


def _report_vehicle(name: str, vehicle: "Vehicle") -> None:
    from samara.vehicles.plausibility import AXES, controllable, figures, warnings

    say(f"{name}: vehicle {vehicle.name}, {vehicle.mass:g} kg, {len(vehicle.rotors)} rotors")
    if vehicle.rotors:
        rank, free = controllable(vehicle)
        listed = "all of force and torque" if len(free) == len(AXES) else ", ".join(free) or "none"
        say(f"  {'allocation':14s} rank {rank}; commanded alone: {listed}")
        try:
            _report_hover(vehicle)
        except ValueError:  # the warnings say why
            say(f"  {'hover':14s} none")
        _report_controls(vehicle, free)
    if found := figures(vehicle):
        console().print(table(("", "value", "typical"), [(row.name, row.shown, row.expected) for row in found]))
    for warning in warnings(vehicle):
        console().print(verdict(False, warning))


def _report_hover(vehicle: "Vehicle") -> None:
    """Print command, rotor speed, servo angles and power of the hover."""
    from samara import hover
    from samara.physics.multirotor import tilt_angles
    from samara.vehicles.plausibility import hover_power

    power = hover_power(vehicle)
    state, command = hover(vehicle)
    command, servos = command[: len(vehicle.rotors)], tilt_angles(state, vehicle)
    low, high = min(command), max(command)
    span = f"{high:.3g}" if high - low < 1e-3 * high else f"{low:.3g} to {high:.3g}"
    unit = {"speed": " rad/s", "wrench": " N"}.get(vehicle.structure.actuation.name, " of 1")
    say(f"  {'hover':14s} command {span}{unit}, rotors at {max(state.rotor_speed):.0f} rad/s")
    for i, angle in zip(vehicle.servos, servos, strict=True):
        say(f"  {'servo':14s} rotor {i} tilted by {math.degrees(angle):.3g} deg in hover")
    against = f"; momentum theory: at least {power.ideal:.3g} W" if power.ideal else "; no radius, no momentum theory"
    say(f"  {'hover power':14s} {power.shaft:.3g} W at the rotors{against}")


def _report_controls(vehicle: "Vehicle", free: tuple[str, ...]) -> None:
    """Print which axes can be commanded and how far, with all rotors and with one of them failed."""
    from samara.vehicles.controllability import TORQUES, controllability, failures, in_words

    complete = controllability(vehicle)
    say(f"  {'controls':14s} {_commanded(vehicle, free)}; {in_words(complete)}")
    if not complete.torques:
        return
    rows = []
    failed = [(f"rotor {which} failed", control) for which, control in failures(vehicle)]
    for title, control in [("all rotors", complete), *failed]:
        torques = {torque.axis: f"{torque.shown} ({torque.acceleration:.3g})" for torque in control.torques}
        climb = f"{control.climb:.3g}" if control.torques else "-"
        rows.append((title, *(torques.get(axis, "-") for axis in TORQUES), climb, in_words(control)))
    headings = ("in hover, most", *(f"{axis} N m (rad/s²)" for axis in TORQUES), "climb m/s²", "")
    console().print(table(headings, rows))


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


# samara vehicles --------------------------------------------------------------------------------------------------------


def list_vehicles(
    names: Annotated[list[str] | None, argument("Names or .toml files; all that come with Samara.")] = None,
) -> None:
    """List vehicles: mass, rotors, hover speed, thrust-to-weight, what a command is, and the source of the parameters."""
    from samara import vehicle, vehicle_names

    right = ("mass", "rotors", "hover\nrad/s", "\nrpm", "thrust/\nweight")
    made = table(("vehicle", *right, "command"), right=right)
    made.padding = (0, 1, 1, 0)
    for column in made.columns[1:]:
        column.no_wrap = True
    for listed in map(vehicle, names or vehicle_names()):
        made.add_row(_description(listed), *_figures(listed))
    console().print(made)


def _description(vehicle: "Vehicle") -> "Text":
    """Name, description, and the source of the mass, which speaks for the rest."""
    from rich.text import Text

    source = dict(vehicle.structure.sources).get("body.mass", "not given")
    description = vehicle.structure.description
    about = f"{description}; source: {source}" if description else f"source: {source}"
    return Text.assemble((printable(vehicle.name), "bold"), "\n", (printable(about), "dim"))


def mass_text(vehicle: "Vehicle") -> str:
    """Mass in g below a kilogram."""
    return f"{1e3 * vehicle.mass:.4g} g" if vehicle.mass < 1.0 else f"{vehicle.mass:.4g} kg"


def _figures(vehicle: "Vehicle") -> tuple[str, ...]:
    """Mass, number of rotors, Ω at hover in rad/s and rpm (slowest and fastest where they differ), thrust-to-weight."""
    from samara import hover, thrust_to_weight

    actuation = vehicle.structure.actuation.name
    if not vehicle.rotors:
        return mass_text(vehicle), "0", "-", "-", "-", actuation
    speeds = hover(vehicle)[0].rotor_speed
    slowest, fastest = min(speeds), max(speeds)
    ends = [slowest, fastest] if fastest - slowest > 1e-3 * fastest else [fastest]
    radians = "\n".join(f"{speed:.1f}" for speed in ends)
    rpm = "\n".join(f"{60.0 * speed / (2.0 * math.pi):.0f}" for speed in ends)
    return mass_text(vehicle), str(len(vehicle.rotors)), radians, rpm, f"{thrust_to_weight(vehicle):.2f}", actuation
