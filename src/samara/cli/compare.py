"""`samara compare`: controllers side by side."""

from pathlib import Path
from typing import Annotated, Any

import typer

from samara.cli.screen import console, say


def compare(
    trajectory: Annotated[str, typer.Option("--trajectory", help="figure8, circle, helix or lissajous.")] = "figure8",
    controllers: Annotated[
        str,
        typer.Option(
            "--controllers",
            help="Names, or functions of your own as file.py:function, separated by commas; all by default.",
        ),
    ] = "",
    wind: Annotated[str, typer.Option("--wind", help="Wind speeds [m/s] separated by commas.")] = "0",
    vehicle: Annotated[str, typer.Option("--vehicle", help="A shipped vehicle or a .toml file.")] = "iris",
    speed: Annotated[float, typer.Option("--speed", help="Peak speed along the trajectory [m/s].")] = 2.0,
    out: Annotated[Path, typer.Option("--out", help="The folder for the table and the picture.")] = Path("out/compare"),
) -> None:
    """Fly one trajectory with several controllers in several winds: one table, one picture."""
    from rich.progress import Progress
    from rich.table import Table

    from samara import vehicle as load
    from samara.compare.contest import HEADINGS, as_markdown, contest, table_rows
    from samara.control.named import CONTROLLERS, NAMES
    from samara.core.files import write_text
    from samara.view.plot.contest import draw_contest

    words = [word.strip() for word in controllers.split(",") if word.strip()] or list(CONTROLLERS)
    flown = [_controller(word, NAMES) for word in words]
    try:
        winds = [float(word) for word in wind.split(",")]
    except ValueError:
        raise ValueError(f"--wind {wind!r}: expected numbers separated by commas, such as 0,4,8") from None
    craft, screen = load(vehicle), console()
    with Progress(console=screen) as bar:
        task = bar.add_task("flying", total=len(flown) * len(winds))
        entries = contest(
            craft,
            flown,
            trajectory_name=trajectory,
            speed=speed,
            winds=winds,
            progress=lambda done, total: bar.update(task, completed=done),
        )
    table = Table()
    for heading in HEADINGS:
        table.add_column(heading, justify="left" if heading == "controller" else "right")
    for row in table_rows(entries):
        table.add_row(*row)
    screen.print(table)
    title = f"{trajectory} at {speed:g} m/s, {craft.name}"
    draw_contest(entries, out / "compare.png", title)
    write_text(out / "compare.md", f"# {title}\n\n{as_markdown(entries)}\n\n![paths and errors](compare.png)\n")
    say(f"table   {out / 'compare.md'}\npicture {out / 'compare.png'}")


def _controller(word: str, names: tuple[str, ...]) -> Any:
    """A name, the policy of a folder, or the function of a Python file: code that is run because its user has named it here"""
    from samara.control.tuning import tuned

    if ".py:" not in word:
        if word in names and word != "policy":
            return word
        if Path(word).is_dir():
            return tuned("policy", file=word)
        raise ValueError(
            f"no controller {word!r}; expected some of {', '.join(names)}, a policy's folder, or a function as file.py:function"
        )
    import sys
    from importlib.util import module_from_spec, spec_from_file_location

    path, _, name = word.rpartition(":")
    if not Path(path).is_file():
        raise ValueError(f"--controllers {word}: there is no file {path}; expected file.py:function")
    spec = spec_from_file_location(Path(path).stem, path)
    assert spec is not None and spec.loader is not None  # a file whose name ends in .py has both
    module = module_from_spec(spec)
    sys.path.insert(0, str(Path(path).resolve().parent))  # as `python file.py` has it
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ValueError(f"--controllers {word}: {path} does not run ({type(error).__name__}: {error})") from None
    if not callable(getattr(module, name, None)):
        own = [key for key, each in vars(module).items() if getattr(each, "__module__", "") == module.__name__]
        raise ValueError(f"--controllers {word}: {path} has no function {name!r}; it has {', '.join(own) or 'none'}")
    return getattr(module, name)
