"""Picture of the package: every folder of src/samara in its layer, and the folders that three example runs use.

The layers are those that test_layers.py checks; the text in a box is the folder's docstring. The runs are executed here: a
folder belongs to a run if any of its functions is called.
`PYTHONPATH=docs python -m figures.architecture docs/images` draws it.
"""

import ast
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

from samara.core.atomic_files import atomic_write
from samara.vehicles.shape import COLOURS, INK
from samara.view.plot.style import samara_style

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCE = REPOSITORY / "src" / "samara"
ROW, COLUMN, MARGIN, BOX = 0.74, 1.98, 0.55, (1.72, 0.56)  # [in]


def layers() -> list[list[str]]:
    """Return the layers from the lowest to the highest, as the test states them."""
    return [names.split() for names in _table("LAYERS")]


def siblings() -> list[tuple[str, str]]:
    """Return pairs (importer, imported) of folders in one layer that may import each other."""
    return sorted(_table("SIBLINGS"))


def _table(name: str) -> Any:
    (test,) = (REPOSITORY / "tests").rglob("test_layers.py")
    tree = ast.parse(test.read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == name:
            return ast.literal_eval(node.value)
    raise LookupError(f"{test} has no {name}")


def folder_summary(folder: str) -> str:
    """Return the beginning of a folder's docstring."""
    text = ast.get_docstring(ast.parse((SOURCE / folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    before_colon, _, after_colon = text.splitlines()[0].replace("`", "").partition(":")
    summary = after_colon.strip() if before_colon.lower() == folder else before_colon
    for separator in ".,":
        summary = summary.partition(separator)[0]
    return "\n".join(textwrap.wrap(summary[:1].upper() + summary[1:], 28)[:2])


# Example runs --------------------------------------------------------------------------------------------------------


def a_flight() -> None:
    import samara

    samara.fly("hover", settings={"duration": 0.1})


def a_compiled_rollout() -> None:
    import samara

    vehicle = samara.vehicle("crazyflie")
    state, command = samara.hover(vehicle)
    samara.compile(vehicle, backend="llvm").rollout(state, [command] * 10, dt=1e-3)


def an_mpc_solution() -> None:
    import samara
    from samara.control import MPC

    vehicle = samara.vehicle("crazyflie")
    MPC(vehicle).solve(samara.hover(vehicle)[0], (1.0, 0.0, 1.5))


RUNS: dict[str, Callable[[], None]] = {
    "a flight": a_flight,
    "a compiled rollout": a_compiled_rollout,
    "an MPC solution": an_mpc_solution,
}


def called_folders(run: Callable[[], None]) -> set[str]:
    """Return the folders whose functions a run calls."""
    folders: set[str] = set()
    prefix = f"{SOURCE}/"

    def on_event(frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_code.co_filename
        if event == "call" and frame.f_code.co_name != "<module>" and name.startswith(prefix):
            folders.add(name[len(prefix) :].partition("/")[0])

    sys.setprofile(on_event)
    try:
        run()
    finally:
        sys.setprofile(None)
    return {name for name in folders if not name.endswith(".py")}


# The picture ---------------------------------------------------------------------------------------------------------


def draw_architecture(path: str | Path) -> None:
    """Draw architecture.png."""
    rows = layers()
    width, height = MARGIN + COLUMN * max(map(len, rows)) + 0.1, ROW * len(rows) + 0.4
    middle = MARGIN + 0.5 * (width - MARGIN)
    position = {
        name: (middle + COLUMN * (k - 0.5 * (len(names) - 1)), ROW * (level + 0.5))
        for level, names in enumerate(rows)
        for k, name in enumerate(names)
    }
    with samara_style():
        figure = Figure(figsize=(width, height))
        figure.set_layout_engine("none")
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0), xlim=(0.0, width), ylim=(0.0, height))
        axes.set_axis_off()
        for level in range(0, len(rows), 2):
            axes.add_patch(Rectangle((MARGIN, ROW * level), width, ROW, fc="#f4f6f8", ec="none", zorder=0))
        for name, (x, y) in position.items():
            axes.add_patch(_box(x, y))
            axes.text(x, y + 0.14, name, ha="center", va="center", weight="bold", size=9.5)
            axes.text(x, y - 0.11, folder_summary(name), ha="center", va="center", size=6.5, linespacing=1.1)
        for importer, imported in siblings():
            axes.add_patch(_arrow(position[importer], position[imported]))
        handles = []
        for k, (title, run) in enumerate(RUNS.items()):
            for name in called_folders(run) & set(position):
                x, y = position[name]
                axes.plot(x + 0.5 * BOX[0] - 0.1 - 0.13 * (2 - k), y + 0.17, "o", color=COLOURS[k], ms=6, zorder=3)
            handles.append(Line2D([], [], color=COLOURS[k], marker="o", ls="", label=f"used by {title}"))
        axes.legend(handles=handles, loc="upper right", ncols=3, frameon=False, fontsize=8, borderaxespad=0.2)
        _margin(axes, ROW * len(rows))
        with atomic_write(path) as temporary:
            metadata = {"Description": f"the folders of Samara by layer: {' < '.join(map(' '.join, rows))}"}
            figure.savefig(temporary, format="png", dpi=110, metadata=metadata)


def _box(x: float, y: float) -> Any:
    corner = (x - 0.5 * BOX[0], y - 0.5 * BOX[1])
    return FancyBboxPatch(
        corner, *BOX, boxstyle="round,pad=0,rounding_size=0.07", fc="#ffffff", ec=INK, lw=0.8, zorder=2
    )


def _arrow(start: tuple[float, float], end: tuple[float, float]) -> Any:
    """Draw an arrow between neighbours of one layer."""
    (x0, y), (x1, _) = start, end
    side = 0.5 * BOX[0] if x1 > x0 else -0.5 * BOX[0]
    return FancyArrowPatch(
        (x0 + side, y), (x1 - side, y), arrowstyle="-|>", mutation_scale=8, color=INK, lw=1.0, shrinkA=0, shrinkB=0
    )


def _margin(axes: Any, top: float) -> None:
    """Draw the direction of imports."""
    axes.annotate(
        "",
        (0.36, 0.2),
        (0.36, top - 0.2),
        arrowprops={"arrowstyle": "-|>", "color": INK, "lw": 1.2, "mutation_scale": 12},
    )
    axes.text(0.2, 0.5 * top, "imports, downwards only", rotation=90, ha="center", va="center", size=8)


if __name__ == "__main__":
    draw_architecture(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images") / "architecture.png")
