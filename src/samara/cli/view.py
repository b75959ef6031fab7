"""`samara view`: show a flight in the browser, live or recorded."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from samara.cli.console import console, handle_interrupts
from samara.cli.options import (
    Browser,
    Columns,
    Port,
    ScenarioController,
    ScenarioDuration,
    ScenarioSeed,
    ScenarioSensors,
    Settings,
    Speed,
    Wind,
    argument,
    option,
    parse_settings,
    vehicle_option,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from samara.record.run import Run
    from samara.scenario.changes import Changes
    from samara.scenario.scenario import Scenario
    from samara.view.web.live import Live
    from samara.view.web.replay import ReplayViewer
    from samara.view.web.sih import SihView

RECORDING = ".mcap"
SIH_VEHICLE = "iris_documented"  # a quadrotor X, numbered as PX4's sihsim_quadx
SOURCES_HELP = "Scenario to fly (a shipped name or a .toml file), or recordings and flight logs to show side by side."

Wait = Annotated[bool, option("--wait/--no-wait", "Start when the first browser shows the page, or at once.")]


def view(
    sources: Annotated[list[str] | None, argument(SOURCES_HELP)] = None,
    settings: Settings = None,
    vehicle: Annotated[str | None, vehicle_option("the scenario's; with --px4-sih, iris_documented")] = None,
    controller: ScenarioController = None,
    wind: Wind = None,
    sensors: ScenarioSensors = None,
    seed: ScenarioSeed = None,
    duration: ScenarioDuration = None,
    speed: Speed = 1.0,
    port: Port = 8080,
    browser: Browser = True,
    wait: Wait = True,
    px4_sih: Annotated[bool, option("--px4-sih", "Show PX4's built-in simulator (SIH) from UDP 19410.")] = False,
    instances: Annotated[
        int | None, option("--instances", "Number of PX4 instances with --px4-sih: UDP 19410, …")
    ] = None,
    columns: Columns = None,
) -> None:
    """Show a flight in the browser: fly a scenario live, or play recordings. Ctrl-C ends it; the flight is not recorded."""
    from samara.scenario.changes import Changes

    flags = {
        "--set": settings,
        "--vehicle": vehicle,
        "--controller": controller,
        "--wind": wind,
        "--sensors": sensors,
        "--seed": seed,
        "--duration": duration,
    }
    changing = [flag for flag, value in flags.items() if value is not None and value != []]
    if px4_sih and (sources or speed != 1.0 or any(flag != "--vehicle" for flag in changing)):
        raise ValueError(
            "--px4-sih shows PX4's simulation; expected no scenario, recording, --set, --controller, --wind, --sensors, "
            "--seed, --duration or --speed with it"
        )
    if not px4_sih and instances is not None:
        raise ValueError("--instances applies only to --px4-sih; expected it as well")
    names = sources or ["waypoints"]
    recordings = [name for name in names if _is_flight(name)]
    if recordings and len(recordings) < len(names):
        raise ValueError(f"{', '.join(names)}: expected recordings or one scenario, not both")
    if not recordings and len(names) > 1:
        raise ValueError(f"{', '.join(names)}: expected one scenario; only recordings are shown side by side")
    if recordings and changing:
        raise ValueError(f"{', '.join(changing)}: a recording cannot be changed; expected a scenario")
    viewer: Live | ReplayViewer | SihView | None = None
    with handle_interrupts() as interrupt:
        try:
            if px4_sih:
                viewer = _sih(vehicle or SIH_VEHICLE, 1 if instances is None else instances, port)
            elif recordings:
                viewer = _replay(names, port, speed, columns)
            else:
                changes = Changes(vehicle, controller, wind, sensors, seed, duration)
                viewer = _live(names[0], changes, parse_settings(settings or []), port, speed)
            announce(viewer.page.address, browser)
            interrupt.check()
            viewer.run(wait=wait)
        except KeyboardInterrupt:
            console().print("the page is closed")
        finally:
            if viewer is not None:
                viewer.shut_down()


def _live(name: str, changes: "Changes", settings: dict[str, object], port: int, speed: float) -> "Live":
    from samara.scenario.changes import change_scenario

    require_viser()
    from samara.view.web.live import Live, extend_duration

    scenario = change_scenario(name, changes, settings)
    return Live(scenario if changes.duration is not None else extend_duration(scenario), port=port, speed=speed)


def _is_flight(name: str) -> bool:
    """Whether a name is a recording or a flight log rather than a scenario."""
    from samara.scenario.file import scenario_names

    return name.endswith(RECORDING) or not (
        name.endswith(".toml") or name in scenario_names() or not Path(name).exists()
    )


def _replay(names: list[str], port: int, speed: float, columns: "Path | None") -> "ReplayViewer":
    require_viser()
    from samara.view.web.replay import ReplayViewer, load_runs

    runs, labels = load_runs([Path(name) for name in names], columns)
    return ReplayViewer(runs, labels, port=port, speed=speed)


def _sih(vehicle: str, instances: int, port: int) -> "SihView":
    require_viser()
    from samara import vehicle as load
    from samara.view.web.sih import SihView

    return SihView(load(vehicle), instances, port=port)


def require_viser() -> None:
    """Raise a ValueError of one sentence if viser is not installed."""
    try:
        import samara.view.web  # noqa: F401
    except ImportError as error:
        raise ValueError(str(error)) from error


def announce(address: str, browser: bool) -> None:
    """Print the address of the page, and open a browser on it if requested and possible."""
    from samara.view.web.page import show_in_browser

    opened = browser and show_in_browser(address)
    console().print(f"{address}{'' if opened else '   (open it in a browser)'}")


def fly_in_browser(
    scenario: "Scenario", out: Path, speed: float, port: int, browser: bool, progress: "Callable[[float, float], None]"
) -> "Run":
    """Fly a scenario for `samara fly --view`: recorded like any flight, and shown while it runs."""
    require_viser()
    from samara.view.web.live import fly_in_viewer

    return fly_in_viewer(
        scenario, out, port=port, speed=speed, on_open=lambda address: announce(address, browser), progress=progress
    )
