"""One look for every picture: colours a colour-blind reader can tell apart, units on every axis, no chart junk."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib
from cycler import cycler

from samara.printable import printable

INK, GRID, PAPER = "#22313f", "#d9dee3", "#ffffff"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#332288")
"""Okabe and Ito's colours, in the order x, y, z and rotor 0, 1, 2, …"""
DASHES = (0, (2, 2))
"""The line of what was asked."""

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


@contextmanager
def samara_style() -> Iterator[Any]:
    """matplotlib.pyplot in the project's style, drawing to files: no display needed."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    settings: Any = {**_SETTINGS, "axes.prop_cycle": cycler(color=COLOURS)}
    with plt.rc_context(settings):
        yield plt
