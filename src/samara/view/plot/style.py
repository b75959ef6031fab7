"""Style of all pictures: colours that colour-blind readers can distinguish, units on every axis, no chart junk."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import matplotlib
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from samara.core.atomic_files import atomic_write
from samara.core.sanitise import escape_control_characters
from samara.vehicles.shape import COLOURS, GRID, INK, PAPER

DASHES = (0, (2, 2))
"""Line style of references."""

NOTEBOOK_DPI = 80.0
FORMATS = ("png", "svg", "pdf")
Layout = Literal["constrained"]
LAYOUT: Layout = "constrained"

_SETTINGS: Any = {
    "figure.facecolor": PAPER,
    "axes.facecolor": PAPER,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.titlesize": 11,
    "axes.labelsize": 9,
    "axes.grid": True,
    "axes.formatter.useoffset": False,
    "axes.formatter.limits": (-5, 7),  # beyond them, Matplotlib writes a factor such as 1e-6 over the title
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "lines.linewidth": 1.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "font.family": "DejaVu Sans",
    "savefig.dpi": 130,
    "axes.prop_cycle": cycler(color=COLOURS),
}

NOTEBOOK_STYLE: Any = {
    **_SETTINGS,
    "figure.figsize": (7.5, 2.8),
    "figure.dpi": NOTEBOOK_DPI,
    "figure.constrained_layout.use": True,
}
"""Matplotlib settings of a notebook in the style of all pictures: `plt.style.use(NOTEBOOK_STYLE)`."""


def escape_text(text: str) -> str:
    """Escape text for Matplotlib: a dollar sign does not start a formula, and control characters are shown as
    escapes."""
    return escape_control_characters(text).replace("$", r"\$")


class DetachedFigure(Figure):
    """A figure independent of pyplot's windows and figure list; notebooks display it."""

    def _repr_png_(self) -> bytes:
        data = io.BytesIO()
        with samara_style():
            self.savefig(data, format="png", dpi=NOTEBOOK_DPI)
        return data.getvalue()


def save(figure: Figure, path: str | Path) -> Path:
    """Write a figure in the format of the file's suffix: .png, .svg or .pdf."""
    format_name = Path(path).suffix.removeprefix(".").lower()
    if format_name not in FORMATS:
        raise ValueError(f"{path}: expected a picture with the suffix {', '.join('.' + name for name in FORMATS)}")
    with samara_style(), atomic_write(path) as temporary:
        figure.savefig(temporary, format=format_name)
    return Path(path)


class FigureFactory:
    """Factory of Matplotlib figures without pyplot, which leaves the program's backend and open figures unchanged."""

    def figure(self, *, figsize: tuple[float, float], layout: Layout | None = None) -> DetachedFigure:
        """Create an empty figure."""
        return DetachedFigure(figsize=figsize, layout=layout)

    def subplots(
        self, rows: int = 1, columns: int = 1, *, figsize: tuple[float, float], layout: Layout = LAYOUT, **options: Any
    ) -> tuple[DetachedFigure, Any]:
        """Create a figure with a grid of axes, by default laid out without overlaps."""
        figure = self.figure(figsize=figsize, layout=layout)
        return figure, figure.subplots(rows, columns, **options)

    def subplot_mosaic(
        self, names: list[Any], *, figsize: tuple[float, float], layout: Layout = LAYOUT, **options: Any
    ) -> tuple[DetachedFigure, dict[str, Axes]]:
        """Create a figure with named axes."""
        figure = self.figure(figsize=figsize, layout=layout)
        return figure, figure.subplot_mosaic(names, **options)


@contextmanager
def samara_style() -> Iterator[FigureFactory]:
    """Draw figures in the project's style; no display is needed."""
    with matplotlib.rc_context(_SETTINGS):
        yield FigureFactory()
