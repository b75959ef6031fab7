"""`samara fly` and what goes with it: scenarios, replay, diff, info."""

import os
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from samara.cli.console import console, say, verdict
from samara.cli.interrupts import INTERRUPTED, interrupts
from samara.cli.settings import typed_settings
from samara.cli.view import Browser, Port, Speed, watched
from samara.core.atomic_files import point_to
from samara.core.sanitise import printable
from samara.core.toml import is_file
from samara.core.typed import Typed, typed
from samara.scenario.autopilot_types import AUTOPILOTS, AutopilotType, Executable, autopilot_help, mode_help

if TYPE_CHECKING:
    from samara.record.run import Run
    from samara.scenario.scenario import Scenario

FAILED = 1


def add_to(app: typer.Typer) -> None:
    """Adds these commands to the command line"""
    for command in (fly, scenarios, replay, diff, info):
        app.command()(command)


def fly(
    scenario: Annotated[
        str, typer.Argument(help="A shipped scenario, see `samara scenarios`, or a .toml file.")
    ] = "waypoints",
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Change the scenario: key=value, such as drones.vehicle=iris.")
    ] = None,
    vehicle: Annotated[str | None, typer.Option("--vehicle", help="Fly this vehicle: a name or a .toml file.")] = None,
    controller: Annotated[
        str | None, typer.Option("--controller", help="Fly by this controller: a name, or the folder of a policy.")
    ] = None,
    wind: Annotated[
        float | None,
        typer.Option("--wind", help="A steady wind [m/s] instead of the scenario's, from its direction or the west."),
    ] = None,
    realtime: Annotated[bool, typer.Option("--realtime", help="No faster than the clock.")] = False,
    step_by_step: Annotated[
        bool, typer.Option("--step-by-step", help="From instant to instant, not as one program: the same bits, slower.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="The folder for recording, picture and report; out/<scenario> by default."),
    ] = None,
    autopilot: Annotated[
        str | None,
        typer.Option("--autopilot", help=f"Let an autopilot fly: {autopilot_help()}."),
    ] = None,
    binary: Annotated[Path | None, typer.Option("--binary", help="The autopilot's program, started here.")] = None,
    connect: Annotated[
        bool, typer.Option("--connect", help="Wait for an autopilot that is started elsewhere.")
    ] = False,
    mode: Annotated[
        str | None,
        typer.Option(
            "--mode",
            help=f"Let the autopilot follow the scenario's reference after take-off. {mode_help()}.",
        ),
    ] = None,
    sticks: Annotated[
        str | None,
        typer.Option(
            "--sticks",
            help="Fly by hand, in real time: auto, gamepad, transmitter, a device (/dev/input/js0) or a map (.toml).",
        ),
    ] = None,
    sticks_mode: Annotated[
        str | None,
        typer.Option(
            "--sticks-mode",
            help="What the sticks command: rate, angle or hold. Default: hold; angle with an autopilot.",
        ),
    ] = None,
    with_report: Annotated[
        bool, typer.Option("--report/--no-report", help="Draw the picture and write the report.")
    ] = True,
    watch: Annotated[bool, typer.Option("--view", help="Show the flight in the browser, by the clock.")] = False,
    speed: Speed = 1.0,
    port: Port = 8080,
    browser: Browser = True,
) -> None:
    """Fly a scenario. Leaves a recording, a picture and a report; fails when what the scenario expects does not come true."""
    from samara.record.run import check_expectations
    from samara.scenario.file import load_scenario, steady_wind
    from samara.sim.fly import fly as fly_it

    if step_by_step and watch:
        raise ValueError("--step-by-step with --view: a flight that is watched goes so anyway; expected one of them")
    if speed != 1.0 and not watch:
        raise ValueError(f"--speed {speed:g} is the pace of a flight that is watched; expected --view with it")
    changes = steady_wind(scenario, wind) if wind is not None else {}
    changes |= typed_settings(settings or [])
    changes |= autopilot_changes(scenario, changes, autopilot, binary, connect, mode)
    if vehicle is not None:
        changes["drones.vehicle"] = Typed(Path(vehicle).resolve() if is_file(vehicle) else vehicle)
    if controller is not None:
        changes["drones.controller"] = typed(controller_setting(controller))
    own = load_scenario(scenario, changes)
    if sticks is not None:
        if controller is not None:
            raise ValueError("--controller and --sticks both fly the drone; expected one of them")
        own = flown_by_hand(own, sticks, sticks_mode)
        realtime = True
    elif sticks_mode is not None:
        raise ValueError("--sticks-mode belongs to --sticks; expected it with it")
    _require_packages(own)
    _doubt(scenario, changes, own)
    folder = out if out is not None else Path("out") / own.name
    path = _claimed(folder)
    screen = console()
    clock = Clock()
    with _progress(f"flying {own.name}", own.duration, clock) as progress:
        try:
            if watch:
                run = watched(own, path, speed, port, browser, progress)
            else:
                run = fly_it(
                    own,
                    out=path,
                    overwrite=True,
                    realtime=realtime,
                    step_by_step=step_by_step,
                    progress=progress,
                    tell=say,
                    whole=False,
                )
        except KeyboardInterrupt:
            _point_latest(path)
            say(f"stopped; {path} holds what was flown")
            raise typer.Exit(INTERRUPTED) from None
    checked = check_expectations(run, own.expect)
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
        picture, report = path.with_suffix(".png"), path.with_name(f"report{path.stem.removeprefix('run')}.html")
        by_hand = (sticks, sticks_mode)
        command = typed_command(
            scenario, settings, vehicle, wind, autopilot, binary, connect, controller, mode, by_hand
        )
        with screen.status("drawing"):
            from samara.view.plot.plots import draw_run
            from samara.view.report.report import Flown, write_report

            draw_run(run, picture)
            write_report([Flown(str(path), run, command)], report, checked, picture)
        _point_latest(path, picture, report)
        say(f"picture   {picture}\nreport    {report}")
    if run.problem or not all(expectation.satisfied for expectation in checked):
        raise typer.Exit(FAILED)


def autopilot_changes(
    scenario: str,
    settings: dict[str, Any],
    autopilot: str | None,
    binary: Path | None,
    connect: bool,
    mode: str | None = None,
) -> dict[str, Any]:
    """The settings that say which autopilot flies, by what, and whether it is started or waited for; the rest stays"""
    from samara.link.process import require_binary
    from samara.scenario.autopilot import Autopilot
    from samara.scenario.file import scenario_document

    if autopilot is not None and autopilot not in AUTOPILOTS:
        raise ValueError(f"--autopilot {autopilot!r}: expected one of {', '.join(AUTOPILOTS)}")
    if binary is not None and connect:
        raise ValueError("--binary starts an autopilot and --connect waits for one; expected one of them")
    drones = scenario_document(scenario, settings).get("drones")
    changes: dict[str, Any] = {}
    for i, drone in enumerate(drones if isinstance(drones, list) else ()):
        own = drone.get("autopilot") if isinstance(drone, dict) else None
        if own is None and autopilot is None:
            continue
        table = own if isinstance(own, dict) else {"kind": own}
        kind = autopilot or table.get("kind", Autopilot.kind)
        autopilot_type = AUTOPILOTS.get(kind) if isinstance(kind, str) else None  # None: refused with the scenario
        if autopilot is not None:
            changes[f"drones[{i}].autopilot.kind"] = kind
        if mode is not None:
            changes[f"drones[{i}].autopilot.mode"] = mode
        if connect or autopilot_type is None or autopilot_type.executable is None:
            path = Typed()
        elif binary is not None:
            path = Typed(require_binary(binary, autopilot_type.name))
        elif "binary" in table and table.get("kind", Autopilot.kind) == kind:
            continue
        else:
            path = _found(autopilot_type, autopilot_type.executable)
        changes[f"drones[{i}].autopilot.binary"] = path
    if not changes and (binary is not None or connect or mode is not None):
        raise ValueError(
            "--binary, --connect, --mode are about an autopilot; expected --autopilot with them, or a scenario that names one"
        )
    return changes


def flown_by_hand(scenario: "Scenario", sticks: str, mode: str | None) -> "Scenario":
    """The scenario with its one drone flown by a person, by the built-in stick modes or an autopilot's radio receiver"""
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


def _found(autopilot_type: AutopilotType, executable: Executable) -> Typed:
    """The program of an autopilot that no option names: an environment variable does, or it is installed."""
    from samara.link.process import default_binary, require_binary

    if path := default_binary(autopilot_type):
        return Typed(require_binary(path, autopilot_type.name))
    raise ValueError(
        f"{autopilot_type.title} not found: expected {executable.install}, --binary PROGRAM, the environment variable "
        f"{executable.variable}, or --connect to wait for one that you start"
    )


def _doubt(scenario: str, changes: dict[str, Any], own: "Scenario") -> None:
    """A line for each vehicle of the user's own whose numbers are far from real ones"""
    from samara.scenario.file import scenario_document
    from samara.vehicles.plausibility import warnings

    files = [str(table["vehicle"]) for table in scenario_document(scenario, changes)["drones"]]
    craft = {drone.vehicle.name: drone.vehicle for drone in own.drones}
    if not any(name.endswith(".toml") for name in files):
        return
    for name, vehicle in craft.items():
        for doubt in warnings(vehicle):
            console().print(verdict(False, f"{name}: {doubt}"))


def _require_packages(scenario: "Scenario") -> None:
    """An error before anything is written, where a package is missing that an autopilot's link or a firmware needs"""
    from samara.control.crazyflie_firmware.names import NAMES, PREFIX
    from samara.control.registry import name_of
    from samara.link.registry import require_packages

    for drone in scenario.drones:
        if drone.autopilot is not None:
            require_packages(drone.autopilot)

    for name in {name_of(own.controller) for own in scenario.drones if own.autopilot is None} & {*NAMES}:
        from samara.control.crazyflie_firmware.process import require_firmware

        require_firmware(name.removeprefix(PREFIX))


def controller_setting(word: str) -> Any:
    """What a scenario would have for a controller that is named here: its name, or a policy's folder"""
    from samara.control.registry import NAMES

    if word in NAMES and word != "policy":
        return word
    if not Path(word).is_dir():
        raise ValueError(f"--controller {word}: expected one of {', '.join(NAMES)}, or the folder of a policy")
    return {"kind": "policy", "file": str(Path(word).resolve())}


def typed_command(
    scenario: str,
    settings: list[str] | None,
    vehicle: str | None,
    wind: float | None,
    autopilot: str | None,
    binary: Path | None,
    connect: bool,
    controller: str | None = None,
    mode: str | None = None,
    by_hand: tuple[str | None, str | None] = (None, None),
) -> str:
    """The command that flies this again."""
    words = ["samara", "fly", scenario, *(word for text in settings or [] for word in ("--set", text))]
    blows = None if wind is None else f"{wind:g}"
    flags = (
        ("--vehicle", vehicle),
        ("--controller", controller),
        ("--wind", blows),
        ("--autopilot", autopilot),
        ("--binary", binary),
        ("--mode", mode),
        ("--sticks", by_hand[0]),
        ("--sticks-mode", by_hand[1]),
    )
    words += [str(word) for flag, value in flags if value is not None for word in (flag, value)]
    return shlex.join([*words, "--connect"] if connect else words)


LATEST = "latest"


def _point_latest(recording: Path, picture: Path | None = None, report: Path | None = None) -> None:
    """The newest flight of a folder under names that never change: latest/run.mcap, run.png and report.html."""
    folder = recording.parent / LATEST
    for name, path in (("run.mcap", recording), ("run.png", picture), ("report.html", report)):
        if path is not None:
            point_to(folder / name, path)
        else:
            (folder / name).unlink(missing_ok=True)


def _claimed(folder: Path) -> Path:
    """A name in the folder that no other run has: run.mcap, run-2.mcap, …; taken by making the file."""
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
    """A bar with the simulated time and how much faster than the clock it runs; at every update an interrupt is heard."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.completed:6.1f} s flown"),
        TextColumn("{task.fields[factor]:5.0f}× real time"),
        TimeRemainingColumn(),
    )
    with interrupts() as asked, Progress(*columns, console=console()) as bar:
        task = bar.add_task(printable(what), total=total, factor=0.0)

        def update(now: float, _: float) -> None:
            asked.check()
            bar.update(task, completed=now, factor=clock.factor(now))

        yield update


def _summary(run: "Run", factor: float) -> Any:
    from rich import box
    from rich.table import Table

    from samara.record.metrics import summary_table

    table = Table(box=box.SIMPLE_HEAD, show_header=len(run.tracks) > 1)
    shown = run.tracks[:6]
    table.add_column("")
    for track in shown:
        table.add_column(track.name)
    for row in summary_table(track.summary() for track in shown):
        table.add_row(*row)
    table.add_row("real-time factor", f"{factor:.3g}×")
    if len(run.tracks) > len(shown):
        table.caption = f"and {len(run.tracks) - len(shown)} drones more"
    return table


def scenarios() -> None:
    """List the scenarios that come with Samara."""
    from rich import box
    from rich.table import Table

    from samara.scenario.file import load_scenario, scenario_names

    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("scenario", "what happens", "vehicle", "drones", "seconds"):
        table.add_column(heading)
    for name in scenario_names():
        own = load_scenario(name)
        kinds = ", ".join(dict.fromkeys(drone.vehicle.name for drone in own.drones))
        table.add_row(name, own.description, kinds, str(len(own.drones)), f"{own.duration:g}")
    console().print(table)


def replay(
    run: Annotated[Path, typer.Argument(help="A recording, run.mcap.")],
    plant: Annotated[str | None, typer.Option("--plant", help="Another vehicle for the same inputs.")] = None,
    integrator: Annotated[str | None, typer.Option("--integrator", help="rk4 or rk45.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Record the replay to this file.")] = None,
) -> None:
    """Fly the recorded commands, wind and faults again: bit for bit the same, or on another plant, and how far apart."""
    from samara import vehicle
    from samara.record.diff import distances, first_difference
    from samara.record.load import load_run
    from samara.record.recorded_policies import changed_policies
    from samara.sim.replay import replay as fly_again

    own = load_run(run)
    with _progress(f"replaying {run.name}", float(own.time[-1]), Clock()) as progress:
        again = fly_again(own, vehicle=vehicle(plant) if plant else None, integrator=integrator, progress=progress)
    if out is not None:
        say(str(again.save(out)))
    if own.problem:
        say(f"the recording: {own.problem}")
    for sentence in changed_policies(own, run.parent):
        say(sentence)
    if plant is None and integrator is None:
        different = first_difference(own, again)
        if different is None:
            say("the same, bit for bit")
            return
        say(f"different: {different}")
        raise typer.Exit(FAILED)
    for each in distances(own, again):
        say(
            f"{each.drone}: position {each.position_rms:.4g} m RMS, {each.position_max:.4g} m at most; "
            f"attitude {each.attitude_max_deg:.4g}° at most"
        )


def diff(
    first: Annotated[Path, typer.Argument(help="A recording.")],
    second: Annotated[Path, typer.Argument(help="Another.")],
) -> None:
    """Say when and where two runs first differ; status 1 when they do."""
    from samara.record.diff import different_vehicles, first_difference
    from samara.record.load import load_run

    one, two = load_run(first), load_run(second)
    if vehicles := different_vehicles(one, two):
        say(f"different vehicles: {vehicles}")
    different = first_difference(one, two)
    if different is None:
        say("the same, bit for bit")
        return
    say(f"different: {different}")
    raise typer.Exit(FAILED)


def info(run: Annotated[Path, typer.Argument(help="A recording, run.mcap.")]) -> None:
    """Say what a recording holds: scenario, vehicles, versions, streams, and whether it is whole."""
    from samara.record.recording import describe, read_recording

    for name, text in describe(read_recording(run)):
        say(f"{name:24s} {text}")
