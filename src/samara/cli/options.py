"""Options and arguments that several commands share, and functions that parse them."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer.core import TyperGroup
from typer.models import ArgumentInfo, OptionInfo

from samara.core.sanitise import UserText, mark_user_text
from samara.core.toml import is_toml_path

if TYPE_CHECKING:
    from typer._click.core import Context

    from samara.control.controller_type import ControllerSpec


def argument(help_text: str, metavar: str | None = None) -> ArgumentInfo:
    """Create a positional argument."""
    info: ArgumentInfo = typer.Argument(help=help_text, metavar=metavar)
    return info


def option(
    flag: str, help_text: str, *, min: float | None = None, max: float | None = None, show_default: bool = True
) -> OptionInfo:
    """Create an option such as `--method` or `--plot/--no-plot`, with the range of its values."""
    info: OptionInfo = typer.Option(flag, help=help_text, min=min, max=max, show_default=show_default)
    return info


def out_option(help_text: str) -> OptionInfo:
    """Create the option `--out`, `-o`, which names the output of a command; the text starts with "File" or "Folder"."""
    info: OptionInfo = typer.Option("--out", "-o", help=help_text)
    return info


def vehicle_option(default: str = "") -> OptionInfo:
    """Create the option `--vehicle`; `default` is the help text for the vehicle used without it."""
    return option("--vehicle", _help_with_default("Vehicle: a shipped name or a .toml file", default))


def controller_option(default: str = "") -> OptionInfo:
    """Create the option `--controller` of one controller; `default` is the help text for the controller used without
    it."""
    return option("--controller", _help_with_default("Controller: a name or the folder of a policy", default))


def controllers_option(default: str = "") -> OptionInfo:
    """Create the option `--controller` of several controllers."""
    help_text = "Controllers, separated by commas: names, folders of policies or file.py:function"
    return option("--controller", _help_with_default(help_text, default))


def seed_option(default: str = "") -> OptionInfo:
    """Create the option `--seed`; `default` is the help text for the seed used without it."""
    return option("--seed", _help_with_default("Seed of all random numbers", default), min=0, max=MAX_SEED)


def _help_with_default(help_text: str, default: str) -> str:
    return f"{help_text}; default: {default}." if default else f"{help_text}."


MAX_SEED = 2**32 - 1
WIND_HELP = "Steady wind [m/s] from the scenario's direction or the west; default: the scenario's wind."

Browser = Annotated[bool, option("--browser/--no-browser", "Open a browser, if there is a display.")]
CampaignFile = Annotated[Path, argument("TOML file of the campaign.")]
Columns = Annotated[Path | None, option("--columns", "TOML file that maps the columns of a CSV or topics of a bag.")]
Outputs = Annotated[str, option("--outputs", "Quantity that is linear in a motor output: speed or thrust.")]
Plot = Annotated[bool, option("--plot/--no-plot", "Draw a picture.")]
PolicyFolder = Annotated[Path, argument("Folder of a policy.")]
Port = Annotated[int, option("--port", "Port of the page, on this machine only; 0: any free port.")]
Recording = Annotated[Path, argument("Recording (run.mcap).")]
Realtime = Annotated[bool, option("--realtime/--no-realtime", "Fly no faster than real time.")]
Require = Annotated[
    str | None, option("--require", "Exit with status 1 unless the flights prove this, such as 'success > 0.99 @ 95%'.")
]
ScenarioArgument = Annotated[str, argument("Scenario: a shipped name (`samara scenarios`) or a .toml file.")]
ScenarioController = Annotated[str | None, controller_option("the scenario's")]
ScenarioSeed = Annotated[int | None, seed_option("the scenario's")]
ScenarioVehicle = Annotated[str | None, vehicle_option("the scenario's")]
Seed = Annotated[int, seed_option()]
Settings = Annotated[list[str] | None, option("--set", "Override a key of the scenario, such as drones.yaw_deg=90.")]
Speed = Annotated[float, option("--speed", "Simulated seconds per wall-clock second; 1 is real time.")]
Vehicle = Annotated[str, vehicle_option()]
VehicleArgument = Annotated[str, argument("Vehicle: a shipped name (`samara vehicles`) or a .toml file.")]
PolicyVehicle = Annotated[str | None, vehicle_option("the trained one")]
Wind = Annotated[float | None, option("--wind", WIND_HELP)]


OutFolder = Annotated[Path, out_option("Folder for the files.")]


def scenario_changes(
    scenario: str | Path,
    settings: Iterable[str] | None,
    *,
    vehicle: str | None = None,
    controller: str | None = None,
    wind: float | None = None,
    seed: int | None = None,
) -> dict[str, object]:
    """Return the changes of a scenario that `--set`, `--vehicle`, `--controller`, `--wind` and `--seed` request.

    `--vehicle`, `--controller` and `--seed` take precedence over `--set`, which takes precedence over `--wind`.
    """
    from samara.scenario.file import steady_wind

    changes: dict[str, object] = dict(steady_wind(scenario, wind)) if wind is not None else {}
    changes |= parse_settings(settings or [])
    if vehicle is not None:
        changes["drones.vehicle"] = UserText(Path(vehicle).resolve() if is_toml_path(vehicle) else vehicle)
    if controller is not None:
        changes["drones.controller"] = mark_user_text(controller_setting(controller))
    if seed is not None:
        changes["seed"] = seed
    return changes


def controller_setting(word: str) -> object:
    """Return a controller as a scenario file states it: a name, or a table with the folder of a policy."""
    from samara.control.registry import NAMES

    if word in NAMES and word != "policy":
        return word
    if not Path(word).is_dir():
        raise ValueError(f"--controller {word}: expected one of {', '.join(NAMES)}, or the folder of a policy")
    return {"type": "policy", "file": str(Path(word).resolve())}


def parse_settings(texts: Iterable[str]) -> dict[str, object]:
    """Parse `--set` options; values typed by the user may name programs, hosts and any file."""
    from samara.scenario.file.overrides import parse_override

    return {key: mark_user_text(value) for key, value in map(parse_override, texts)}


def default_command(name: str) -> type[TyperGroup]:
    """Create a group class that passes unknown first words to the command `name`: `samara identify LOG…` means
    `samara identify logs LOG…`."""

    class Group(TyperGroup):
        default_command = name

        def parse_args(self, ctx: "Context", args: list[str]) -> list[str]:
            if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
                args = [name, *args]
            return super().parse_args(ctx, args)

    return Group


def split_words(text: str) -> list[str]:
    """Split 'a, b,' into ['a', 'b']."""
    return [word.strip() for word in text.split(",") if word.strip()]


def load_controller(word: str, option: str = "--controller") -> "str | ControllerSpec | Callable[..., object]":
    """Load a controller: a registered name, the folder of a policy, or `file.py:function`, whose file is executed."""
    from samara.control.registry import NAMES, controller_spec

    if ".py:" in word:
        return load_function(word, option)
    if word in NAMES and word != "policy":
        return word
    if Path(word).is_dir():
        return controller_spec("policy", file=word)
    raise ValueError(
        f"no controller {word!r}; expected one of {', '.join(NAMES)}, a policy's folder, or a function as file.py:function"
    )


def load_function(word: str, option: str) -> Callable[..., object]:
    """Import `function` from the file of `file.py:function`."""
    import sys
    from importlib.util import module_from_spec, spec_from_file_location

    path, _, name = word.rpartition(":")
    if not Path(path).is_file():
        raise ValueError(f"{option} {word}: there is no file {path}; expected file.py:function")
    spec = spec_from_file_location(Path(path).stem, path)
    assert spec is not None and spec.loader is not None  # always true for a file whose name ends in .py
    module = module_from_spec(spec)
    sys.path.insert(0, str(Path(path).resolve().parent))  # as in `python file.py`
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ValueError(f"{option} {word}: {path} does not run ({type(error).__name__}: {error})") from None
    function: Callable[..., object] | None = getattr(module, name, None)
    if function is None or not callable(function):
        defined = [key for key, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
        raise ValueError(f"{option} {word}: {path} has no function {name!r}; it has {', '.join(defined) or 'none'}")
    return function
