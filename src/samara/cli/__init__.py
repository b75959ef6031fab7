"""The command `samara`. Bad input ends in one sentence on stderr and exit status 2, never in a traceback."""

import sys
from typing import Annotated, Any

import typer

from samara.cli import (
    check,
    compare,
    export,
    fly,
    identify,
    learn,
    plan,
    plot_report_render,
    policy,
    race,
    ros2,
    rotor,
    sticks,
    sweep,
    validate,
    vehicle,
    vehicles,
    view,
)
from samara.cli.console import hang_up, ready_streams
from samara.cli.interrupts import INTERRUPTED, interrupts
from samara.core.optional_dependencies import MissingExtraError
from samara.core.sanitise import printable

app = typer.Typer(
    help="Multirotor physics, simulation and control.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def main() -> None:
    """Run the command line."""
    ready_streams()
    try:
        with interrupts():
            command_line()()
    except (ValueError, OSError, FloatingPointError, MissingExtraError) as error:
        print(printable(f"samara: {error}"), file=sys.stderr)
        sys.exit(2)
    except (SystemExit, KeyboardInterrupt) as end:
        if not isinstance(end, SystemExit) or end.code == INTERRUPTED:  # Typer turns Ctrl-C into this, without a word
            print("samara: stopped", file=sys.stderr)
            sys.exit(INTERRUPTED)
        raise
    finally:
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            hang_up()


def command_line() -> Any:
    """The command with all its own, their help as it is written: Typer would take the unit in `wind [m/s]` for markup"""
    from rich.markup import escape

    whole = typer.main.get_command(app)
    commands: list[Any] = [whole]
    for command in commands:
        commands += getattr(command, "commands", {}).values()
        for each in (command, *command.params):
            if getattr(each, "help", None):
                each.help = escape(each.help)
    return whole


def _print_version(wanted: bool) -> None:
    if wanted:
        from samara.core.version import __version__

        typer.echo(f"samara {__version__}")
        raise typer.Exit()


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Multirotor physics, simulation and control: every equation written once, for every backend."""


app.command("vehicles")(vehicles.list_vehicles)
app.add_typer(vehicle.app, name="vehicle")
app.command("check")(check.check)
fly.add_to(app)
plot_report_render.add_to(app)
app.command("view")(view.view)
app.command("sticks")(sticks.sticks)
app.command("ros2")(ros2.ros2)
app.command("compare")(compare.compare)
app.command("plan")(plan.plan)
app.command("race")(race.race)
app.command("validate")(validate.validate)
app.command("rotor")(rotor.rotor)
app.add_typer(identify.app, name="identify")
app.command("learn")(learn.learn)
app.add_typer(policy.app, name="policy")
app.add_typer(sweep.app, name="sweep")
app.add_typer(export.app, name="export")
