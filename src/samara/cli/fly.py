"""`samara fly`, and the commands about scenarios and recordings: replay, diff, info."""

import os
import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from samara.cli.console import FAILED, INTERRUPTED, check_mark, command_text, console, progress_bar, say, table
from samara.cli.options import (
    Browser,
    Columns,
    Flight,
    Port,
    Realtime,
    Recording,
    ScenarioArgument,
    ScenarioController,
    ScenarioDuration,
    ScenarioSeed,
    ScenarioSensors,
    ScenarioVehicle,
    Settings,
    Speed,
    Wind,
    argument,
    option,
    out_option,
    parse_settings,
    vehicle_option,
)
from samara.core.atomic_files import replace_link
from samara.core.sanitise import UserText
from samara.scenario.autopilot_types import AUTOPILOTS, AutopilotType, Executable, autopilot_help, mode_help

if TYPE_CHECKING:
    from rich.table import Table

    from samara.record.run import Run
    from samara.scenario.scenario import Scenario

LATEST = "latest"
MAX_SUMMARY_DRONES = 6

STICKS_HELP = "Fly by hand, in real time: auto, gamepad, transmitter, a device (/dev/input/js0) or a map (.toml)."
STICK_MODE_HELP = "Quantity that the sticks command: rate, angle or hold. Default: hold; angle with an autopilot."


def fly(
    scenario: ScenarioArgument = "waypoints",
    settings: Settings = None,
    vehicle: ScenarioVehicle = None,
    controller: ScenarioController = None,
    wind: Wind = None,
    sensors: ScenarioSensors = None,
    seed: ScenarioSeed = None,
    duration: ScenarioDuration = None,
    realtime: Realtime = False,
    step_by_step: Annotated[
        bool,
        option("--step-by-step", "Step from Python instead of running one compiled program (slower, bit-identical)."),
    ] = False,
    out: Annotated[Path | None, out_option("Folder for recording, picture and report; default: out/NAME.")] = None,
    autopilot: Annotated[str | None, option("--autopilot", f"Let an autopilot fly: {autopilot_help()}.")] = None,
    binary: Annotated[Path | None, option("--binary", "Program of the autopilot; Samara starts it.")] = None,
    connect: Annotated[bool, option("--connect", "Wait for an autopilot that you start yourself.")] = False,
    autopilot_mode: Annotated[
        str | None, option("--autopilot-mode", f"Follow the reference after take-off. {mode_help()}.")
    ] = None,
    sticks: Annotated[str | None, option("--sticks", STICKS_HELP)] = None,
    stick_mode: Annotated[str | None, option("--stick-mode", STICK_MODE_HELP)] = None,
    with_report: Annotated[bool, option("--report/--no-report", "Draw the picture and write the report.")] = True,
    watch: Annotated[bool, option("--view", "Show the flight in the browser, in real time.")] = False,
    speed: Speed = 1.0,
    port: Port = 8080,
    browser: Browser = True,
) -> None:
    """Fly a scenario and write a recording, a picture and a report; exits with status 1 if an expectation of the scenario
    fails."""
    from samara.record.run import check_expectations
    from samara.scenario.changes import Changes, change_scenario
    from samara.sim.fly import fly as fly_scenario

    if step_by_step and watch:
        raise ValueError("--step-by-step with --view: a watched flight steps from Python anyway; expected one of them")
    if speed != 1.0 and not watch:
        raise ValueError(f"--speed {speed:g} sets the speed of a watched flight; expected --view with it")
    changed_settings = parse_settings(settings or [])
    changed_settings |= autopilot_changes(scenario, changed_settings, autopilot, binary, connect, autopilot_mode)
    changes = Changes(vehicle, controller, wind, sensors, seed, duration)
    loaded = change_scenario(scenario, changes, changed_settings)
    if sticks is not None:
        if controller is not None:
            raise ValueError("--controller and --sticks both fly the drone; expected one of them")
        loaded = fly_by_hand(loaded, sticks, stick_mode)
        realtime = True
    elif stick_mode is not None:
        raise ValueError("--stick-mode applies only to --sticks; expected both or neither")
    _require_packages(loaded)
    _warn_of_implausible_vehicles(scenario, loaded)
    path = _claim_recording(out if out is not None else Path("out") / loaded.name)
    screen = console()
    real_time_factor = RealTimeFactor()
    with _progress(f"flying {loaded.name}", loaded.duration, real_time_factor) as progress:
        try:
            if watch:
                from samara.cli.view import fly_in_browser

                run = fly_in_browser(loaded, path, speed, port, browser, progress)
            else:
                fly_now = partial(fly_scenario, realtime=realtime, step_by_step=step_by_step, full_resolution=False)
                run = fly_now(loaded, out=path, overwrite=True, progress=progress, on_message=say)
        except KeyboardInterrupt:
            _point_latest(path)
            say(f"stopped; {path} holds the flight up to here")
            raise typer.Exit(INTERRUPTED) from None
        except Exception as error:
            if real_time_factor.value and hasattr(error, "__notes__"):  # the user's controller failed in the air
                _point_latest(path)
                say(f"stopped; {path} holds the flight up to here")
            raise
    expectation_results = check_expectations(run, loaded.expect)
    screen.print(_summary(run, real_time_factor.value))
    for line in run.logs[:-1]:
        screen.print(f"{line.time_us / 1e6:9.3f} s  {line.level:7s} {line.message}")
    for expectation in expectation_results:
        screen.print(check_mark(expectation.satisfied, f"expected: {expectation.text}"))
    if run.problem:  # printed before the picture is drawn: on a full disk the picture fails as well
        screen.print(f"samara: {run.problem}")
    _point_latest(path)
    say(f"recording {path}")
    if with_report:
        from samara.view.plot.plots import draw_run
        from samara.view.report.report import ReportRun, write_report

        picture, report = path.with_suffix(".png"), path.with_name(f"report{path.stem.removeprefix('run')}.html")
        flags: dict[str, object] = {
            "--vehicle": vehicle,
            "--controller": controller,
            "--wind": wind,
            "--sensors": sensors,
            "--seed": seed,
            "--duration": duration,
            "--autopilot": autopilot,
        }
        flags |= {
            "--binary": binary,
            "--autopilot-mode": autopilot_mode,
            "--sticks": sticks,
            "--stick-mode": stick_mode,
        }
        command = repeat_command(scenario, settings or [], {**flags, "--connect": connect})
        with screen.status("drawing"):
            draw_run(run, picture)
            write_report([ReportRun(str(path), run, command)], report, expectation_results, picture)
        _point_latest(path, picture, report)
        say(f"picture   {picture}\nreport    {report}")
        _print_next_commands(scenario, vehicle, controller, path, in_wind=wind is not None)
    if run.problem or not all(expectation.satisfied for expectation in expectation_results):
        raise typer.Exit(FAILED)


def _print_next_commands(
    scenario: str, vehicle: str | None, controller: str | None, recording: Path, *, in_wind: bool
) -> None:
    """Print three commands to continue with: see the flight, make it harder, fly another aircraft."""
    say(f"view it   {command_text('view', recording)}")
    with_vehicle = ("--vehicle", vehicle) if vehicle else ()
    if in_wind:
        contestants = ("--controller", f"geometric,{controller}") if controller and controller != "geometric" else ()
        say(f"compare   {command_text('compare', *with_vehicle, *contestants, '--wind', '0,6')}")
    else:
        with_controller = ("--controller", controller) if controller else ()
        say(f"in wind   {command_text('fly', scenario, *with_vehicle, *with_controller, '--wind', 6)}")
    say(f"your own  {command_text('vehicle', 'new')}")


def autopilot_changes(
    scenario: str,
    settings: Mapping[str, object],
    autopilot: str | None,
    binary: Path | None,
    connect: bool,
    mode: str | None = None,
) -> dict[str, object]:
    """Return settings that choose the autopilot of every drone and its program, which is started or waited for."""
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
        current = drone.get("autopilot") if isinstance(drone, dict) else None
        if current is None and autopilot is None:
            continue
        entries = current if isinstance(current, dict) else {"type": current}
        kind = autopilot or entries.get("type", Autopilot.type)
        autopilot_type = AUTOPILOTS.get(kind) if isinstance(kind, str) else None  # None: the scenario reader rejects it
        if autopilot is not None:
            changes[f"drones[{i}].autopilot.type"] = kind
        if mode is not None:
            changes[f"drones[{i}].autopilot.mode"] = mode
        if connect or autopilot_type is None or autopilot_type.executable is None:
            path = UserText()
        elif binary is not None:
            path = UserText(require_binary(binary, autopilot_type.name))
        elif "binary" in entries and entries.get("type", Autopilot.type) == kind:
            continue
        else:
            path = _installed_program(autopilot_type, autopilot_type.executable)
        changes[f"drones[{i}].autopilot.binary"] = path
    if not changes and (binary is not None or connect or mode is not None):
        raise ValueError(
            "--binary, --connect and --autopilot-mode apply to an autopilot; expected --autopilot, or a scenario that names one"
        )
    return changes


def _installed_program(autopilot_type: AutopilotType, executable: Executable) -> UserText:
    """Find the program of an autopilot without `--binary`: by its environment variable, or as an installed program."""
    from samara.link.process import default_binary, require_binary

    if path := default_binary(autopilot_type):
        return UserText(require_binary(path, autopilot_type.name))
    raise ValueError(
        f"{autopilot_type.title} not found: expected {executable.install}, --binary PROGRAM, the environment variable "
        f"{executable.variable}, or --connect to wait for one that you start"
    )


def fly_by_hand(scenario: "Scenario", sticks: str, mode: str | None) -> "Scenario":
    """Return the scenario with its only drone flown by hand, by the built-in stick modes or an autopilot's radio receiver."""
    from dataclasses import replace

    from samara.link.joystick import open_stick_input
    from samara.link.stick_controller import StickController

    if len(scenario.drones) != 1:
        raise ValueError(f"--sticks flies one drone, and the scenario has {len(scenario.drones)}; expected one")
    (drone,) = scenario.drones
    if drone.autopilot is not None and not drone.autopilot.registered_type.takes_sticks:
        with_sticks = " or ".join(entry.name for entry in AUTOPILOTS.values() if entry.takes_sticks)
        raise ValueError(
            f"--sticks does not reach {drone.autopilot.type}: use a ground station; expected {with_sticks}, or no autopilot"
        )
    stick_device = open_stick_input(sticks)
    layout = "a throttle that springs back" if stick_device.stick_map.springs else "an absolute throttle"
    say(f"sticks    {stick_device.joystick.name or stick_device.joystick.path}, read as a device with {layout}")
    stick_controller = StickController(
        stick_device, mode or ("hold" if drone.autopilot is None else "angle"), log_message=say
    )
    return replace(scenario, drones=(replace(drone, controller=stick_controller),))


def _warn_of_implausible_vehicles(scenario: str, loaded: "Scenario") -> None:
    """Print a line for each implausible parameter if the scenario uses the user's vehicle files."""
    from samara.scenario.file import scenario_document
    from samara.vehicles.plausibility import warnings

    if not any(
        str(drone["vehicle"]).endswith(".toml") for drone in scenario_document(scenario, loaded.settings)["drones"]
    ):
        return
    for name, vehicle in {drone.vehicle.name: drone.vehicle for drone in loaded.drones}.items():
        for warning in warnings(vehicle):
            console().print(check_mark(False, f"{name}: {warning}"))


def _require_packages(scenario: "Scenario") -> None:
    """Raise an error before any file is written if an autopilot's link or a firmware needs a missing package."""
    from samara.control.crazyflie_firmware.motors import NAMES, PREFIX
    from samara.control.registry import controller_name

    for drone in scenario.drones:
        if drone.autopilot is not None:
            from samara.link.registry import require_packages

            require_packages(drone.autopilot)
    for name in {controller_name(drone.controller) for drone in scenario.drones if drone.autopilot is None} & {*NAMES}:
        from samara.control.crazyflie_firmware.controller import require_firmware

        require_firmware(name.removeprefix(PREFIX))


def repeat_command(scenario: str, settings: list[str], flags: Mapping[str, object]) -> str:
    """Format the command that repeats a flight; flags that are None or False are left out."""
    words = ["samara", "fly", scenario, *(word for text in settings for word in ("--set", text))]
    for flag, value in flags.items():
        if value is not None and value is not False:
            words += [flag] if value is True else [flag, f"{value:g}" if isinstance(value, float) else str(value)]
    return shlex.join(words)


def _point_latest(recording: Path, picture: Path | None = None, report: Path | None = None) -> None:
    """Link the newest flight of a folder as latest/run.mcap, latest/run.png and latest/report.html."""
    folder = recording.parent / LATEST
    for name, path in (("run.mcap", recording), ("run.png", picture), ("report.html", report)):
        if path is not None:
            replace_link(folder / name, path)
        else:
            (folder / name).unlink(missing_ok=True)


def _claim_recording(folder: Path) -> Path:
    """Create the first of run.mcap, run-2.mcap, … that does not exist, so that no concurrent run takes the same name."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"--out {folder}: {error.strerror}; expected a folder") from None
    for number in range(1, 100_000):
        path = folder / ("run.mcap" if number == 1 else f"run-{number}.mcap")
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        except FileExistsError:
            continue
        return path
    raise OSError(f"{folder}: contains 99,999 runs; expected an unused name up to run-99999.mcap")


class RealTimeFactor:
    """The simulated time over the wall-clock time since the first instant; compilation before it does not count."""

    def __init__(self) -> None:
        self._started: float | None = None
        self.value = 0.0

    def update(self, now: float) -> float:
        """Update the factor at the simulated time `now` [s]."""
        if self._started is None:
            self._started = time.perf_counter()
        self.value = now / max(time.perf_counter() - self._started, 1e-9)
        return self.value


@contextmanager
def _progress(
    description: str, total: float, real_time_factor: RealTimeFactor
) -> Iterator[Callable[[float, float], None]]:
    """Show a bar with the simulated time and the real-time factor."""
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.completed:6.1f} s flown"),
        TextColumn("{task.fields[factor]:5.0f}× real time"),
        TimeRemainingColumn(),
    )
    with progress_bar(description, *columns, total=total, factor=0.0) as (_, update):
        yield lambda now, _: update(now, factor=real_time_factor.update(now))


def _summary(run: "Run", factor: float) -> "Table":
    from samara.record.metrics import summary_table

    records = run.drone_records[:MAX_SUMMARY_DRONES]
    summary = table(("", *(track.name for track in records)), summary_table(track.summary() for track in records))
    summary.show_header = len(run.drone_records) > 1
    summary.add_row("real-time factor", f"{factor:.3g}×")
    if len(run.drone_records) > len(records):
        summary.caption = f"and {len(run.drone_records) - len(records)} more drones"
    return summary


def replay(
    run: Recording,
    vehicle: Annotated[str | None, vehicle_option("the recorded one")] = None,
    integrator: Annotated[str | None, option("--integrator", "Integrator: rk4 or rk45.")] = None,
    out: Annotated[Path | None, out_option("File for a recording of the replay; default: none.")] = None,
) -> None:
    """Replay the recorded commands, wind and faults bit for bit; or with another vehicle or integrator, and report the
    deviation."""
    from samara.record.diff import distances, first_difference
    from samara.record.load import load_run
    from samara.record.run import report_changed_policies
    from samara.sim.replay import replay as fly_again

    recording = load_run(run)
    with _progress(f"replaying {run.name}", float(recording.time[-1]), RealTimeFactor()) as progress:
        replayed = fly_again(recording, vehicle=vehicle, integrator=integrator, progress=progress)
    if out is not None:
        say(str(replayed.save(out)))
    if recording.problem:
        say(f"the recording: {recording.problem}")
    for sentence in report_changed_policies(recording, run.parent):
        say(sentence)
    if vehicle is None and integrator is None:
        return _report_difference(first_difference(recording, replayed))
    for drone in distances(recording, replayed):
        say(
            f"{drone.drone}: position error {drone.position_rms:.4g} m RMS, {drone.position_max:.4g} m maximum; "
            f"attitude error {drone.attitude_max_deg:.4g}° maximum"
        )


def _report_difference(difference: object | None) -> None:
    if difference is not None:
        say(f"different: {difference}")
        raise typer.Exit(FAILED)
    say("the same, bit for bit")


def diff(
    first: Annotated[Path, argument("First recording.")],
    second: Annotated[Path, argument("Second recording.")],
) -> None:
    """Report the first difference between two recordings; exits with status 1 if they differ."""
    from samara.record.diff import describe_vehicle_differences, first_difference
    from samara.record.load import load_run

    first_run, second_run = load_run(first), load_run(second)
    if vehicles := describe_vehicle_differences(first_run, second_run):
        say(f"different vehicles: {vehicles}")
    _report_difference(first_difference(first_run, second_run))


def info(run: Flight, columns: Columns = None) -> None:
    """Show the contents of a recording, or the flights of a log: format, duration, and signals with rates and units."""
    from samara.identify.log_run import describe_log, is_recording
    from samara.identify.readers.registry import read_log
    from samara.record.recording import describe, read_recording

    if is_recording(run, columns):
        lines = describe(read_recording(run))
    else:
        lines = [line for log in read_log(run, columns) for line in describe_log(log)]
    for name, text in lines:
        say(f"{name:24s} {text}")
