"""`samara vehicle`: an aircraft of one's own."""

import typer

from samara.cli import vehicle_files, vehicle_new

app = typer.Typer(
    help="An aircraft of your own: from its parts, from the files of other programs, and out to them.",
    no_args_is_help=True,
)
vehicle_new.add_to(app)
vehicle_files.add_to(app)
