"""`samara demo`: what the source documents show, drawn."""

from pathlib import Path
from typing import Annotated

import typer

from samara.cli.console import console, say

app = typer.Typer(help="Draw what the source documents demonstrate.", no_args_is_help=True)


@app.callback()
def options() -> None:
    """Draw what the source documents demonstrate."""


@app.command("rigid-body")
def rigid_body(
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for the pictures.")] = Path("out/rigid_body"),
) -> None:
    """Document 002's three pictures: a path with body frames, the gyroscopic effect, rigid body against point mass."""
    from rich.progress import Progress

    from samara.documents.rigid_body.picture import draw_demo

    with Progress(console=console()) as bar:
        task = bar.add_task("drawing", total=None)
        paths = draw_demo(out, progress=lambda done, total: bar.update(task, completed=done, total=total))
    for path in paths:
        say(str(path))
