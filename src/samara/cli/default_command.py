"""A command with commands of its own, one of which need not be named."""

from typing import Any

from typer.core import TyperGroup


def default_command(name: str) -> type[TyperGroup]:
    """`samara identify LOG…` is `samara identify logs LOG…`: what names no command is an argument, or an option, of that one"""

    class Group(TyperGroup):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
                args = [name, *args]
            return super().parse_args(ctx, args)

    return Group
