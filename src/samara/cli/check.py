"""`samara check`: validate scenario and vehicle files."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from samara.cli.console import check_mark, console, say, table
from samara.cli.options import argument

if TYPE_CHECKING:
    from samara.physics.types import Vehicle
    from samara.scenario.scenario import Scenario


def check(
    files: Annotated[list[str], argument("Scenario or vehicle files, or names of shipped ones.")],
) -> None:
    """Validate files and report every error. Lists the stages of a scenario with their rates, and the hover trim and
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
    """Whether `name` is a shipped vehicle, or a file with a table that only vehicles have."""
    from samara import vehicle_names
    from samara.core.budget import read_text
    from samara.core.toml import parse_document

    if not name.endswith(".toml") or not Path(name).is_file():
        return name in vehicle_names()
    try:
        return not {"body", "actuation", "rotors", "rotor"}.isdisjoint(parse_document(read_text(Path(name)), name))
    except (OSError, ValueError):
        return False


def _report_scenario(name: str, scenario: "Scenario") -> None:
    """Print the stages of a flight with their rates, and the reason why a stage runs in Python."""
    from samara.sim.simulation import Simulation, replace_autopilots

    numbers = {"drone": len(scenario.drones), "event": len(scenario.events)}
    counts = ", ".join(f"{number} {noun}{'' if number == 1 else 's'}" for noun, number in numbers.items())
    say(f"{name}: scenario {scenario.name}, {counts}, {scenario.duration:g} s")
    simulation = Simulation(replace_autopilots(scenario))
    try:
        for stage in simulation.sequence():
            rate = f"{stage.rate:g} Hz" if stage.rate else "when due"
            say(
                f"  {stage.name:14s} {rate:>9s}"
                + (f"  in Python: {stage.python_reason}" if stage.python_reason else "")
            )
    finally:
        simulation.close()


def _report_vehicle(name: str, vehicle: "Vehicle") -> None:
    from samara.vehicles.plausibility import AXES, controllable_axes, plausibility_figures, warnings

    say(f"{name}: vehicle {vehicle.name}, {vehicle.mass:g} kg, {len(vehicle.rotors)} rotors")
    if vehicle.rotors:
        rank, free_axes = controllable_axes(vehicle)
        axis_list = "all of force and torque" if len(free_axes) == len(AXES) else ", ".join(free_axes) or "none"
        say(f"  {'allocation':14s} rank {rank}; commanded alone: {axis_list}")
        try:
            _report_hover(vehicle)
        except ValueError:  # the warnings give the reason
            say(f"  {'hover':14s} none")
        _report_controls(vehicle, free_axes)
    if rows := plausibility_figures(vehicle):
        console().print(table(("", "value", "typical"), [(row.name, row.value_text, row.range_text) for row in rows]))
    for warning in warnings(vehicle):
        console().print(check_mark(False, warning))


def _report_hover(vehicle: "Vehicle") -> None:
    """Print command, rotor speed, servo angles and power at hover."""
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
    ideal_power = (
        f"; momentum theory: at least {power.ideal:.3g} W" if power.ideal else "; no radius, no momentum theory"
    )
    say(f"  {'hover power':14s} {power.shaft:.3g} W at the rotors{ideal_power}")


def _report_controls(vehicle: "Vehicle", free_axes: tuple[str, ...]) -> None:
    """Print the axes that can be commanded and the largest accelerations, with all rotors and with one rotor failed."""
    from samara.vehicles.controllability import TORQUES, controllability, describe_controllability, failure_groups

    complete = controllability(vehicle)
    say(f"  {'controls':14s} {_control_authority(vehicle, free_axes)}; {describe_controllability(complete)}")
    if not complete.torques:
        return
    failures = [(f"{rotors} failed", control) for rotors, control in failure_groups(vehicle)]
    for title, control in failures:
        say(f"  {'':14s} {title}: {describe_controllability(control)}")
    rows = []
    for title, control in [("all rotors", complete), *failures]:
        accelerations = {torque.axis: f"{torque.acceleration:.3g}" for torque in control.torques}
        climb = f"{control.climb:.3g}" if control.torques else "-"
        rows.append((title, *(accelerations.get(axis, "-") for axis in TORQUES), climb))
    headings = [f"{axis}\nrad/s²" for axis in TORQUES]
    console().print(table(("maximum\nin hover", *headings, "climb\nm/s²"), rows, right=(*headings, "climb\nm/s²")))


def _control_authority(vehicle: "Vehicle", free_axes: tuple[str, ...]) -> str:
    from samara.vehicles.plausibility import REQUIRED_AXES, is_actuated

    coupled_axes = [name for name in REQUIRED_AXES if name not in free_axes]
    if not coupled_axes:
        return "thrust, roll, pitch and yaw, each alone"
    unreachable = [name for name in coupled_axes if not is_actuated(vehicle, name)]
    coupled = [name for name in coupled_axes if name not in unreachable]
    subject = {1: "one rotor commands", 2: "two rotors command"}.get(len(vehicle.rotors), "the rotors command")
    parts = [f"{', '.join(free_axes)} alone" if free_axes else "no axis alone"]
    parts += [f"{', '.join(coupled)} only together with others"] if coupled else []
    parts += [f"{', '.join(unreachable)} not at all"] if unreachable else []
    return f"{subject} {', '.join(parts)}"
