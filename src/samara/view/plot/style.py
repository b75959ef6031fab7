"""One look for every picture: colours a colour-blind reader can tell apart, units on every axis, no chart junk."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib
from cycler import cycler
from matplotlib.figure import Figure

from samara.core.sanitise import printable
from samara.vehicles.shape import COLOURS, GRID, INK, PAPER

DASHES = (0, (2, 2))
"""The line of what was asked."""

NOTEBOOK_DPI = 80.0

_SETTINGS: dict[str, Any] = {
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
    "axes.formatter.limits": (-5, 7),  # outside them a factor such as 1e-6 is written where the title is
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
}


def plain(text: str) -> str:
    """Text as Matplotlib draws it letter by letter: a dollar begins no formula, a control character is written out."""
    return printable(text).replace("$", r"\$")


class Picture(Figure):
    """A figure that belongs to no window and no list of open ones; a notebook shows it."""

    def _repr_png_(self) -> bytes:
        data = io.BytesIO()
        with samara_style():
            self.savefig(data, format="png", dpi=NOTEBOOK_DPI)
        return data.getvalue()


class Drawing:
    """What of Matplotlib makes figures, without pyplot: a program's own backend and open figures stay as they are."""

    def figure(self, **options: Any) -> Picture:
        return Picture(**options)

    def subplots(
        self, rows: int = 1, columns: int = 1, *, figsize: Any = None, layout: Any = None, **more: Any
    ) -> tuple[Picture, Any]:
        figure = Picture(figsize=figsize, layout=layout)
        return figure, figure.subplots(rows, columns, **more)

    def subplot_mosaic(self, places: Any, *, figsize: Any = None, layout: Any = None, **more: Any) -> Any:
        figure = Picture(figsize=figsize, layout=layout)
        return figure, figure.subplot_mosaic(places, **more)


@contextmanager
def samara_style() -> Iterator[Drawing]:
    """Figures in the project's style: no display needed"""
    settings: Any = {**_SETTINGS, "axes.prop_cycle": cycler(color=COLOURS)}
    with matplotlib.rc_context(settings):
        yield Drawing()
