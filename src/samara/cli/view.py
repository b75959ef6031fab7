"""`samara view`: show a flight in the browser, live or recorded."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from samara.cli.console import console, interrupts
from samara.cli.options import Browser, Port, Settings, Speed, argument, option, parse_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from samara.record.run import Run
    from samara.scenario.scenario import Scenario
    from samara.view.web.live import Live
    from samara.view.web.replay import Replay
    from samara.view.web.sih import SihView

RECORDING = ".mcap"
SIH_VEHICLE = "iris_documented"  # a quadrotor X, numbered as PX4's sihsim_quadx
SOURCES_HELP = "Scenario to fly (a shipped name or a .toml file), or recordings (run.mcap) to show side by side."

Wait = Annotated[bool, option("--wait/--no-wait", "Start when the first browser shows the page, or at once.")]


def view(
    what: Annotated[list[str] | None, argument(SOURCES_HELP)] = None,
    settings: Settings = None,
    speed: Speed = 1.0,
    port: Port = 8080,
    browser: Browser = True,
    wait: Wait = True,
    px4_sih: Annotated[bool, option("--px4-sih", "Show PX4's built-in simulator (SIH) from UDP 19410.")] = False,
    vehicle: Annotated[
        str | None, option("--vehicle", "Vehicle to draw with --px4-sih; default: iris_documented.")
    ] = None,
    instances: Annotated[
        int | None, option("--instances", "Number of PX4 instances with --px4-sih: UDP 19410, …")
    ] = None,
) -> None:
    """Show a flight in the browser: fly a scenario live, or play recordings. Ctrl-C ends it; the flight is not recorded."""
    if px4_sih and (what or settings or speed != 1.0):
        raise ValueError("--px4-sih shows PX4's simulation; expected no scenario, recording, --set or --speed with it")
    if not px4_sih and (vehicle is not None or instances is not None):
        raise ValueError("--vehicle and --instances apply only to --px4-sih; expected it with them")
    names = what or ["waypoints"]
    recordings = [name for name in names if name.endswith(RECORDING)]
    if recordings and len(recordings) < len(names):
        raise ValueError(f"{', '.join(names)}: expected recordings (.mcap) or one scenario, not both")
    if not recordings and len(names) > 1:
        raise ValueError(f"{', '.join(names)}: expected one scenario; only recordings are shown side by side")
    if recordings and settings:
        raise ValueError(f"--set {settings[0]}: a recording cannot be changed; expected a scenario")
    viewer: Live | Replay | SihView | None = None
    with interrupts() as interrupt:
        try:
            if px4_sih:
                viewer = _sih(vehicle or SIH_VEHICLE, 1 if instances is None else instances, port)
            else:
                viewer = _replay(names, port, speed) if recordings else _live(names[0], settings or [], port, speed)
            announce(viewer.page.address, browser)
            interrupt.check()
            viewer.run(wait=wait)
        except KeyboardInterrupt:
            console().print("the page is closed")
        finally:
            if viewer is not None:
                viewer.take_down()


def _live(name: str, settings: list[str], port: int, speed: float) -> "Live":
    from samara.scenario.file import load_scenario

    require_viser()
    from samara.view.web.live import Live, endless

    return Live(endless(load_scenario(name, parse_settings(settings))), port=port, speed=speed)


def _replay(names: list[str], port: int, speed: float) -> "Replay":
    require_viser()
    from samara.view.web.replay import Replay, load_runs

    runs, labels = load_runs([Path(name) for name in names])
    return Replay(runs, labels, port=port, speed=speed)


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
    from samara.view.web.live import fly_watched

    return fly_watched(
        scenario, out, port=port, speed=speed, opened=lambda address: announce(address, browser), progress=progress
    )
