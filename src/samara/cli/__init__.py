"""The command `samara`. Bad input ends in one sentence on stderr and exit status 2, never in a traceback."""

import sys
from typing import Annotated

import typer

from samara.cli import (
    check,
    compare,
    export,
    fly,
    identify,
    learn,
    link,
    plan,
    plot_report_render,
    policy,
    rotor,
    sweep,
    vehicle,
    view,
)
from samara.cli.console import INTERRUPTED, discard_stdout, interrupts, prepare_streams
from samara.core.lazy_import import MissingExtraError
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
    prepare_streams()
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
            discard_stdout()


def command_line() -> typer.core.TyperGroup:
    """The command with all its subcommands; help texts are escaped, since Typer takes the unit in `wind [m/s]` for markup."""
    from rich.markup import escape

    root = typer.main.get_command(app)
    assert isinstance(root, typer.core.TyperGroup)
    commands = [root]
    for command in commands:
        commands += getattr(command, "commands", {}).values()
        for part in (command, *command.params):
            if text := getattr(part, "help", None):
                setattr(part, "help", escape(text))  # noqa: B010 (arguments and options declare it, their base does not)
    return root


def _print_version(requested: bool) -> None:
    if requested:
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


app.command("vehicles")(check.list_vehicles)
app.add_typer(vehicle.app, name="vehicle")
app.command()(check.check)
fly.add_to(app)
plot_report_render.add_to(app)
for command in (
    view.view,
    link.sticks,
    link.ros2,
    compare.compare,
    plan.plan,
    compare.race,
    identify.validate,
    rotor.rotor,
):
    app.command()(command)
app.add_typer(identify.app, name="identify")
app.command()(learn.learn)
app.add_typer(policy.app, name="policy")
app.add_typer(sweep.app, name="sweep")
app.add_typer(export.app, name="export")
