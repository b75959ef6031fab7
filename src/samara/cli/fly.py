"""`samara fly`, and the commands about scenarios and recordings: scenarios, replay, diff, info."""

import os
import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from samara.cli.console import FAILED, INTERRUPTED, console, progress_bar, say, table, verdict
from samara.cli.options import Browser, Port, Recording, Settings, Speed, argument, option, out_option, parse_settings
from samara.core.atomic_files import point_to
from samara.core.sanitise import Typed, typed
from samara.core.toml import is_file
from samara.scenario.autopilot_types import AUTOPILOTS, AutopilotType, Executable, autopilot_help, mode_help

if TYPE_CHECKING:
    from rich.table import Table

    from samara.record.run import Run
    from samara.scenario.scenario import Scenario

LATEST = "latest"
MOST_COLUMNS = 6  # drones in the summary

STICKS_HELP = "Fly by hand, in real time: auto, gamepad, transmitter, a device (/dev/input/js0) or a map (.toml)."
STICK_MODES_HELP = "What the sticks command: rate, angle or hold. Default: hold; angle with an autopilot."


def fly(
    scenario: Annotated[str, argument("A shipped scenario (`samara scenarios`) or a .toml file.")] = "waypoints",
    settings: Settings = None,
    vehicle: Annotated[str | None, option("--vehicle", "Fly this vehicle: a name or a .toml file.")] = None,
    controller: Annotated[str | None, option("--controller", "A controller's name, or the folder of a policy.")] = None,
    wind: Annotated[
        float | None, option("--wind", "Steady wind [m/s], from the scenario's direction or the west.")
    ] = None,
    realtime: Annotated[bool, option("--realtime", "Fly no faster than real time.")] = False,
    step_by_step: Annotated[
        bool, option("--step-by-step", "Step from Python, not as one program (slower, same bits).")
    ] = False,
    out: Annotated[Path | None, out_option("Folder of the results; out/<scenario> by default.")] = None,
    autopilot: Annotated[str | None, option("--autopilot", f"Let an autopilot fly: {autopilot_help()}.")] = None,
    binary: Annotated[Path | None, option("--binary", "The autopilot's program, started here.")] = None,
    connect: Annotated[bool, option("--connect", "Wait for an autopilot that is started elsewhere.")] = False,
    mode: Annotated[str | None, option("--mode", f"Follow the reference after take-off. {mode_help()}.")] = None,
    sticks: Annotated[str | None, option("--sticks", STICKS_HELP)] = None,
    sticks_mode: Annotated[str | None, option("--sticks-mode", STICK_MODES_HELP)] = None,
    with_report: Annotated[bool, option("--report/--no-report", "Draw the picture and write the report.")] = True,
    watch: Annotated[bool, option("--view", "Show the flight in the browser, in real time.")] = False,
    speed: Speed = 1.0,
    port: Port = 8080,
    browser: Browser = True,
) -> None:
    """Fly a scenario and write a recording, a picture and a report; exits with status 1 if an expectation of the scenario
    fails."""
    from samara.record.run import check_expectations
    from samara.scenario.file import load_scenario, steady_wind
    from samara.sim.fly import fly as fly_it

    if step_by_step and watch:
        raise ValueError("--step-by-step with --view: a flight that is watched goes so anyway; expected one of them")
    if speed != 1.0 and not watch:
        raise ValueError(f"--speed {speed:g} is the pace of a flight that is watched; expected --view with it")
    changes: dict[str, object] = dict(steady_wind(scenario, wind)) if wind is not None else {}
    changes |= parse_settings(settings or [])
    changes |= autopilot_changes(scenario, changes, autopilot, binary, connect, mode)
    if vehicle is not None:
        changes["drones.vehicle"] = Typed(Path(vehicle).resolve() if is_file(vehicle) else vehicle)
    if controller is not None:
        changes["drones.controller"] = typed(controller_setting(controller))
    flown = load_scenario(scenario, changes)
    if sticks is not None:
        if controller is not None:
            raise ValueError("--controller and --sticks both fly the drone; expected one of them")
        flown = fly_by_hand(flown, sticks, sticks_mode)
        realtime = True
    elif sticks_mode is not None:
        raise ValueError("--sticks-mode belongs to --sticks; expected it with it")
    _require_packages(flown)
    _warn_of_implausible_vehicles(scenario, changes, flown)
    path = _claim_recording(out if out is not None else Path("out") / flown.name)
    screen = console()
    clock = Clock()
    with _progress(f"flying {flown.name}", flown.duration, clock) as progress:
        try:
            if watch:
                from samara.cli.view import fly_in_browser

                run = fly_in_browser(flown, path, speed, port, browser, progress)
            else:
                fly_now = partial(fly_it, realtime=realtime, step_by_step=step_by_step, whole=False)
                run = fly_now(flown, out=path, overwrite=True, progress=progress, tell=say)
        except KeyboardInterrupt:
            _point_latest(path)
            say(f"stopped; {path} holds what was flown")
            raise typer.Exit(INTERRUPTED) from None
    checked = check_expectations(run, flown.expect)
    screen.print(_summary(run, clock.last))
    for line in run.logs[:-1]:
        screen.print(f"{line.time_us / 1e6:9.3f} s  {line.level:7s} {line.message}")
    for expectation in checked:
        screen.print(verdict(expectation.satisfied, f"expected: {expectation.text}"))
    if run.problem:  # before what else may go wrong: where a disk is full it is full for the picture too
        screen.print(f"samara: {run.problem}")
    _point_latest(path)
    say(f"recording {path}")
    if with_report:
        from samara.view.plot.plots import draw_run
        from samara.view.report.report import Flown, write_report

        picture, report = path.with_suffix(".png"), path.with_name(f"report{path.stem.removeprefix('run')}.html")
        flags: dict[str, object] = {
            "--vehicle": vehicle,
            "--controller": controller,
            "--wind": wind,
            "--autopilot": autopilot,
        }
        flags |= {"--binary": binary, "--mode": mode, "--sticks": sticks, "--sticks-mode": sticks_mode}
        command = repeat_command(scenario, settings or [], {**flags, "--connect": connect})
        with screen.status("drawing"):
            draw_run(run, picture)
            write_report([Flown(str(path), run, command)], report, checked, picture)
        _point_latest(path, picture, report)
        say(f"picture   {picture}\nreport    {report}")
    if run.problem or not all(expectation.satisfied for expectation in checked):
        raise typer.Exit(FAILED)


def autopilot_changes(
    scenario: str,
    settings: Mapping[str, object],
    autopilot: str | None,
    binary: Path | None,
    connect: bool,
    mode: str | None = None,
) -> dict[str, object]:
    """The settings that choose the autopilot of every drone, its program, and whether it is started or waited for."""
    from samara.link.process import require_binary
    from samara.scenario.autopilot import Autopilot
    from samara.scenario.file import scenario_document

    if autopilot is not None and autopilot not in AUTOPILOTS:
        raise ValueError(f"--autopilot {autopilot!r}: expected one of {', '.join(AUTOPILOTS)}")
    if binary is not None and connect:
        raise ValueError("--binary starts an autopilot and --connect waits for one; expected one of them")
    drones = scenario_document(scenario, settings).get("drones")
    changes: dict[str, object] = {}
    for i, drone in enumerate(drones if isinstance(drones, list) else ()):
        present = drone.get("autopilot") if isinstance(drone, dict) else None
        if present is None and autopilot is None:
            continue
        entries = present if isinstance(present, dict) else {"kind": present}
        kind = autopilot or entries.get("kind", Autopilot.kind)
        autopilot_type = AUTOPILOTS.get(kind) if isinstance(kind, str) else None  # None: refused with the scenario
        if autopilot is not None:
            changes[f"drones[{i}].autopilot.kind"] = kind
        if mode is not None:
            changes[f"drones[{i}].autopilot.mode"] = mode
        if connect or autopilot_type is None or autopilot_type.executable is None:
            path = Typed()
        elif binary is not None:
            path = Typed(require_binary(binary, autopilot_type.name))
        elif "binary" in entries and entries.get("kind", Autopilot.kind) == kind:
            continue
        else:
            path = _installed_program(autopilot_type, autopilot_type.executable)
        changes[f"drones[{i}].autopilot.binary"] = path
    if not changes and (binary is not None or connect or mode is not None):
        raise ValueError(
            "--binary, --connect, --mode are about an autopilot; expected --autopilot with them, or a scenario that names one"
        )
    return changes


def _installed_program(autopilot_type: AutopilotType, executable: Executable) -> Typed:
    """The program of an autopilot that no option names: an environment variable does, or it is installed."""
    from samara.link.process import default_binary, require_binary

    if path := default_binary(autopilot_type):
        return Typed(require_binary(path, autopilot_type.name))
    raise ValueError(
        f"{autopilot_type.title} not found: expected {executable.install}, --binary PROGRAM, the environment variable "
        f"{executable.variable}, or --connect to wait for one that you start"
    )


def fly_by_hand(scenario: "Scenario", sticks: str, mode: str | None) -> "Scenario":
    """The scenario with its one drone flown by a person, with the built-in stick modes or an autopilot's radio receiver."""
    from dataclasses import replace

    from samara.link.joystick import open_hands
    from samara.link.stick_controller import StickController

    if len(scenario.drones) != 1:
        raise ValueError(f"--sticks flies one drone, and the scenario has {len(scenario.drones)}; expected one")
    (drone,) = scenario.drones
    if drone.autopilot is not None and not drone.autopilot.type.takes_sticks:
        with_sticks = " or ".join(entry.name for entry in AUTOPILOTS.values() if entry.takes_sticks)
        raise ValueError(
            f"--sticks does not reach {drone.autopilot.kind}: a ground station does; expected {with_sticks}, or no autopilot"
        )
    hands = open_hands(sticks)
    layout = "a throttle that springs back" if hands.stick_map.springs else "an absolute throttle"
    say(f"sticks    {hands.joystick.name or hands.joystick.path}, read as one with {layout}")
    person = StickController(hands, mode or ("hold" if drone.autopilot is None else "angle"), tell=say)
    return replace(scenario, drones=(replace(drone, controller=person),))


def _warn_of_implausible_vehicles(scenario: str, changes: Mapping[str, object], flown: "Scenario") -> None:
    """Print a line for each implausible parameter, if the scenario uses vehicle files of the user."""
    from samara.scenario.file import scenario_document
    from samara.vehicles.plausibility import warnings

    if not any(str(drone["vehicle"]).endswith(".toml") for drone in scenario_document(scenario, changes)["drones"]):
        return
    for name, vehicle in {drone.vehicle.name: drone.vehicle for drone in flown.drones}.items():
        for warning in warnings(vehicle):
            console().print(verdict(False, f"{name}: {warning}"))


def _require_packages(scenario: "Scenario") -> None:
    """Raise before anything is written where a package is missing that an autopilot's link or a firmware needs."""
    from samara.control.crazyflie_firmware.motors import NAMES, PREFIX
    from samara.control.registry import name_of

    for drone in scenario.drones:
        if drone.autopilot is not None:
            from samara.link.registry import require_packages

            require_packages(drone.autopilot)
    for name in {name_of(drone.controller) for drone in scenario.drones if drone.autopilot is None} & {*NAMES}:
        from samara.control.crazyflie_firmware.controller import require_firmware

        require_firmware(name.removeprefix(PREFIX))


def controller_setting(word: str) -> object:
    """A controller as a scenario writes it: its name, or a table with a policy's folder."""
    from samara.control.registry import NAMES

    if word in NAMES and word != "policy":
        return word
    if not Path(word).is_dir():
        raise ValueError(f"--controller {word}: expected one of {', '.join(NAMES)}, or the folder of a policy")
    return {"kind": "policy", "file": str(Path(word).resolve())}


def repeat_command(scenario: str, settings: list[str], flags: Mapping[str, object]) -> str:
    """The command that flies this again; flags that are None or False are left out."""
    words = ["samara", "fly", scenario, *(word for text in settings for word in ("--set", text))]
    for flag, value in flags.items():
        if value is not None and value is not False:
            words += [flag] if value is True else [flag, f"{value:g}" if isinstance(value, float) else str(value)]
    return shlex.join(words)


def _point_latest(recording: Path, picture: Path | None = None, report: Path | None = None) -> None:
    """The newest flight of a folder under names that never change: latest/run.mcap, run.png and report.html."""
    folder = recording.parent / LATEST
    for name, path in (("run.mcap", recording), ("run.png", picture), ("report.html", report)):
        if path is not None:
            point_to(folder / name, path)
        else:
            (folder / name).unlink(missing_ok=True)


def _claim_recording(folder: Path) -> Path:
    """Create the first of run.mcap, run-2.mcap, … that does not exist, so that no other run takes its name."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(1, 100_000):
        path = folder / ("run.mcap" if number == 1 else f"run-{number}.mcap")
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        except FileExistsError:
            continue
        return path
    raise OSError(f"{folder}: is full of runs; expected room for another")


class Clock:
    """How much faster than real time a flight runs, from its first instant on: compiling before it does not count."""

    def __init__(self) -> None:
        self._started: float | None = None
        self.last = 0.0

    def factor(self, now: float) -> float:
        if self._started is None:
            self._started = time.perf_counter()
        self.last = now / max(time.perf_counter() - self._started, 1e-9)
        return self.last


@contextmanager
def _progress(what: str, total: float, clock: Clock) -> Iterator[Callable[[float, float], None]]:
    """A bar with the simulated time and how much faster than real time it passes."""
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.completed:6.1f} s flown"),
        TextColumn("{task.fields[factor]:5.0f}× real time"),
        TimeRemainingColumn(),
    )
    with progress_bar(what, *columns, total=total, factor=0.0) as (_, update):
        yield lambda now, _: update(now, factor=clock.factor(now))


def _summary(run: "Run", factor: float) -> "Table":
    from samara.record.metrics import summary_table

    shown = run.tracks[:MOST_COLUMNS]
    made = table(("", *(track.name for track in shown)), summary_table(track.summary() for track in shown))
    made.show_header = len(run.tracks) > 1
    made.add_row("real-time factor", f"{factor:.3g}×")
    if len(run.tracks) > len(shown):
        made.caption = f"and {len(run.tracks) - len(shown)} drones more"
    return made


def scenarios() -> None:
    """List the scenarios that come with Samara."""
    from samara.scenario.file import load_scenario, scenario_names

    rows = []
    for name in scenario_names():
        scenario = load_scenario(name)
        vehicles = ", ".join(dict.fromkeys(drone.vehicle.name for drone in scenario.drones))
        rows.append((name, scenario.description, vehicles, str(len(scenario.drones)), f"{scenario.duration:g}"))
    console().print(table(("scenario", "what happens", "vehicle", "drones", "seconds"), rows))


def replay(
    run: Recording,
    plant: Annotated[str | None, option("--plant", "Another vehicle for the same inputs.")] = None,
    integrator: Annotated[str | None, option("--integrator", "rk4 or rk45.")] = None,
    out: Annotated[Path | None, out_option("Record the replay to this file.")] = None,
) -> None:
    """Fly the recorded commands, wind and faults again: bit for bit the same, or on another plant, and how far apart."""
    from samara import vehicle
    from samara.record.diff import distances, first_difference
    from samara.record.load import load_run
    from samara.record.run import changed_policies
    from samara.sim.replay import replay as fly_again

    recorded = load_run(run)
    with _progress(f"replaying {run.name}", float(recorded.time[-1]), Clock()) as progress:
        other = vehicle(plant) if plant else None
        again = fly_again(recorded, vehicle=other, integrator=integrator, progress=progress)
    if out is not None:
        say(str(again.save(out)))
    if recorded.problem:
        say(f"the recording: {recorded.problem}")
    for sentence in changed_policies(recorded, run.parent):
        say(sentence)
    if plant is None and integrator is None:
        return _report_difference(first_difference(recorded, again))
    for drone in distances(recorded, again):
        say(
            f"{drone.drone}: position {drone.position_rms:.4g} m RMS, {drone.position_max:.4g} m at most; "
            f"attitude {drone.attitude_max_deg:.4g}° at most"
        )


def _report_difference(different: object | None) -> None:
    if different is not None:
        say(f"different: {different}")
        raise typer.Exit(FAILED)
    say("the same, bit for bit")


def diff(
    first: Annotated[Path, argument("A recording.")],
    second: Annotated[Path, argument("Another.")],
) -> None:
    """Report when and where two runs first differ; exits with status 1 if they do."""
    from samara.record.diff import different_vehicles, first_difference
    from samara.record.load import load_run

    one, two = load_run(first), load_run(second)
    if vehicles := different_vehicles(one, two):
        say(f"different vehicles: {vehicles}")
    _report_difference(first_difference(one, two))


def info(run: Recording) -> None:
    """Show what a recording holds: scenario, vehicles, versions, streams, and whether it is complete."""
    from samara.record.recording import describe, read_recording

    for name, text in describe(read_recording(run)):
        say(f"{name:24s} {text}")
