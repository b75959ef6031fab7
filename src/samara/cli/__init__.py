"""The command `samara`. Bad input ends in one sentence on stderr and exit status 2, never in a traceback."""

import re
import sys
import warnings
from collections.abc import Iterable, Iterator
from copy import copy
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer

from samara.cli.console import INTERRUPTED, discard_stdout, handle_interrupts, prepare_streams
from samara.cli.examples import EXAMPLES, FIRST_STEPS
from samara.core.extras import MissingExtraError
from samara.core.sanitise import escape_control_characters
from samara.core.traced_scalar import TraceError

if TYPE_CHECKING:
    app: typer.Typer

GROUPS = {
    "Fly": {
        "fly": "fly.fly",
        "view": "view.view",
        "compare": "compare.compare",
        "race": "compare.race",
        "plan": "plan.plan",
        "sweep": "sweep.app",
        "ros2": "link.ros2",
        "sticks": "link.sticks",
    },
    "Look at flights": {
        "info": "fly.info",
        "plot": "presentation.plot",
        "report": "presentation.report",
        "render": "presentation.render",
        "replay": "fly.replay",
        "diff": "fly.diff",
        "export": "export.app",
    },
    "Aircraft": {
        "vehicle": "vehicle.app",
        "identify": "identify.app",
        "validate": "identify.validate",
        "rotor": "rotor.rotor",
        "check": "check.check",
    },
    "Learning": {"train": "train.train", "policy": "policy.app"},
    "What there is": {
        "scenarios": "catalogue.list_scenarios",
        "scenario": "catalogue.scenario_app",
        "vehicles": "catalogue.list_vehicles",
        "controllers": "catalogue.list_controllers",
        "tasks": "catalogue.list_tasks",
    },
}
"""The module and function (or group) of every command, by the panel of `samara --help`."""
COMMANDS = {name: member for commands in GROUPS.values() for name, member in commands.items()}
"""The module and function (or group) of every command; only the module of the called command is imported."""
INPUT_ERRORS = (ValueError, OSError, FloatingPointError, MissingExtraError, TraceError)
"""Errors that bad input causes; others are errors of Samara and keep their traceback."""
LINE_BREAK = re.compile(r"(?<!\n)\n[ ]*(?!\n)")
"""A line break within a paragraph."""


def main() -> None:
    """Run the command line."""
    prepare_streams()
    warnings.formatwarning = lambda message, *place: f"samara: {escape_control_characters(str(message))}\n"
    name = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    try:
        with handle_interrupts():
            command_line([name] if name in COMMANDS else COMMANDS)()
    except Exception as error:
        if not (text := error_text(error)):
            raise
        print(escape_control_characters(f"samara: {text}"), file=sys.stderr)
        sys.exit(2)
    except (SystemExit, KeyboardInterrupt) as end:
        if not isinstance(end, SystemExit) or end.code == INTERRUPTED:  # Typer turns Ctrl-C into this status silently
            print("samara: stopped", file=sys.stderr)
            sys.exit(INTERRUPTED)
        raise
    finally:
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            discard_stdout()


def error_text(error: Exception) -> str:
    """Return the sentence for an error of bad input or of the user's own file; "" for an error of Samara."""
    if notes := getattr(error, "__notes__", ()):  # of the user's controller in flight
        return "; ".join([f"{type(error).__name__}: {error}", *notes])
    if place := user_code_location(error):
        return f"{place}: {type(error).__name__}: {error}"
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error) if isinstance(error, INPUT_ERRORS) else ""


def user_code_location(error: Exception) -> str:
    """Return file, line and function of an error that the user's file raised; "" if Samara or a library raised it."""
    import sysconfig
    from pathlib import Path
    from traceback import extract_tb

    *_, innermost = extract_tb(error.__traceback__)
    file = Path(innermost.filename)
    paths = sysconfig.get_paths()
    libraries = (Path(__file__).parents[1], paths["stdlib"], paths["purelib"], paths["platlib"])
    if not file.is_file() or any(file.is_relative_to(library) for library in libraries):
        return ""
    return f"{file}:{innermost.lineno}, in {innermost.name}"


def build_app(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """Create the application with the commands `names`."""
    application = typer.Typer(
        help="Multirotor physics, simulation and control.",
        invoke_without_command=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    application.callback()(version_option)
    panels = {name: panel for panel, commands in GROUPS.items() for name in commands}
    for name in names:
        module, member = COMMANDS[name].split(".")
        command = getattr(import_module(f"samara.cli.{module}"), member)
        if isinstance(command, typer.Typer):
            application.add_typer(command, name=name, rich_help_panel=panels[name])
        else:
            application.command(name, rich_help_panel=panels[name])(command)
    return application


def __getattr__(name: str) -> typer.Typer:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return build_app()


def command_line(names: Iterable[str] = COMMANDS) -> typer.core.TyperGroup:
    """Create the root command.

    Commands are in the order of `GROUPS`, and their help ends with their examples. Help texts are escaped, because Typer reads
    the unit in `wind [m/s]` as markup, and their paragraphs become single lines, because it keeps the line breaks of
    docstrings in lists of commands.
    """
    from rich.markup import escape

    root = typer.main.get_command(build_app(names))
    assert isinstance(root, typer.core.TyperGroup)
    root.commands = {name: root.commands[name] for name in COMMANDS if name in root.commands}
    commands = {"": root}
    for path, command in walk_commands(root):
        commands[path] = command
        if examples := EXAMPLES.get(path):
            command.epilog = escape("\n\n".join(["Examples:", *(f"  {example}" for example in examples)]))
    for command in commands.values():
        setattr(command, "format_help", partial(print_help, command))  # noqa: B010 (a method, of one command)
        for described in (command, *command.params):
            if text := getattr(described, "help", None):
                setattr(described, "help", escape(LINE_BREAK.sub(" ", text)))  # noqa: B010 (arguments and options declare it, their base does not)
    return root


def print_help(command: Any, context: Any, formatter: object) -> None:
    """Print the help of a command, its options described by `option_for_help`."""
    described = copy(command)
    described.get_params = lambda _: [
        option_for_help(parameter) if parameter.param_type_name == "option" else parameter
        for parameter in command.get_params(context)
    ]
    type(command).format_help(described, context, formatter)


def option_for_help(option: Any) -> Any:
    """Return an option with all its names in one column and without its range, so that 72 columns suffice for its help."""
    described = copy(option)
    names = [*sorted(option.opts, key=len, reverse=True), *option.secondary_opts]
    described.opts, described.secondary_opts = [("\n" if option.secondary_opts else ", ").join(names)], []
    described.min = described.max = None
    if option.multiple:
        described.metavar = "<str>"
    if option.is_flag:
        described.metavar, described.show_default = "", False
        if option.secondary_opts:
            described.help = f"{option.help} Default: {names[0] if option.default else names[1]}."
    return described


def walk_commands(group: typer.core.TyperGroup, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every command below a group with its path, such as "vehicle new"."""
    for name, command in group.commands.items():
        yield f"{prefix}{name}", command
        if isinstance(command, typer.core.TyperGroup):
            yield from walk_commands(command, f"{prefix}{name} ")


def _print_version(requested: bool) -> None:
    if requested:
        from samara.core.version import __version__

        typer.echo(f"samara {__version__}")
        raise typer.Exit()


def version_option(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Multirotor physics, simulation and control: every equation written once, for every backend."""
    if context.invoked_subcommand is None:
        print(FIRST_STEPS)
