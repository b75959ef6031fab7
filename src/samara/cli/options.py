"""Options and arguments that several commands share, and functions that parse them."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer.core import TyperGroup
from typer.models import ArgumentInfo, OptionInfo

from samara.core.sanitise import mark_user_text

if TYPE_CHECKING:
    from typer._click.core import Context


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
    return option(
        "--controller", _help_with_default("Controller: a name, the folder of a policy or file.py:function", default)
    )


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
DURATION_HELP = "Duration of the flight [s]; default: the scenario's."
SENSORS_HELP = "Sensors, separated by commas: names or .toml files; none: no sensors; default: the scenario's."
WIND_HELP = (
    "Wind: a speed [m/s], steady from the scenario's direction or the west; a model and its mean speed, such as dryden:6; "
    "or none; default: the scenario's."
)

Browser = Annotated[bool, option("--browser/--no-browser", "Open a browser, if there is a display.")]
CampaignFile = Annotated[Path, argument("TOML file of the campaign.")]
Columns = Annotated[Path | None, option("--columns", "TOML file that maps the columns of a CSV or topics of a bag.")]
Outputs = Annotated[str, option("--outputs", "Quantity that is linear in a motor output: speed or thrust.")]
Plot = Annotated[bool, option("--plot/--no-plot", "Draw a picture.")]
PolicyFolder = Annotated[Path, argument("Folder of a policy.")]
Port = Annotated[int, option("--port", "Port of the page, on this machine only; 0: any free port.")]
Flight = Annotated[Path, argument("Recording (run.mcap) or flight log.")]
Recording = Annotated[Path, argument("Recording (run.mcap).")]
Realtime = Annotated[bool, option("--realtime/--no-realtime", "Fly no faster than real time.")]
Require = Annotated[
    str | None, option("--require", "Exit with status 1 unless the flights prove this, such as 'success > 0.99 @ 95%'.")
]
ScenarioArgument = Annotated[str, argument("Scenario: a shipped name (`samara scenarios`) or a .toml file.")]
ScenarioDuration = Annotated[float | None, option("--duration", DURATION_HELP)]
ScenarioSensors = Annotated[str | None, option("--sensors", SENSORS_HELP)]
ScenarioController = Annotated[str | None, controller_option("the scenario's")]
ScenarioSeed = Annotated[int | None, seed_option("the scenario's")]
ScenarioVehicle = Annotated[str | None, vehicle_option("the scenario's")]
Seed = Annotated[int, seed_option()]
Settings = Annotated[list[str] | None, option("--set", "Override a key of the scenario, such as drones.yaw_deg=90.")]
Speed = Annotated[float, option("--speed", "Simulated seconds per wall-clock second; 1 is real time.")]
Vehicle = Annotated[str, vehicle_option()]
VehicleArgument = Annotated[str, argument("Vehicle: a shipped name (`samara vehicles`) or a .toml file.")]
PolicyVehicle = Annotated[str | None, vehicle_option("the trained one")]
Wind = Annotated[str | None, option("--wind", WIND_HELP)]
SteadyWind = Annotated[
    float | None,
    option("--wind", "Steady wind [m/s] from the scenario's direction or the west; default: the scenario's wind."),
]


OutFolder = Annotated[Path, out_option("Folder for the files.")]


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
