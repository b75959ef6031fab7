"""Four small plots beside the scene: height, tilt, tracking error and rotor speeds of the drone that is looked at."""

from typing import Any, NamedTuple

import numpy as np
import viser

from samara.core.types import Array
from samara.physics.types import Vehicle
from samara.vehicles.colours import COLOURS, GRID, INK
from samara.vehicles.shape import reach_of
from samara.view.web.gauges import STYLE
from samara.view.web.history import ERROR, FIRST_ROTOR, HEIGHT, TILT

TALL = 66  # [pixels]
FONT = "10px sans-serif"
LEAST_TILT = 5.0  # [°] that fills a plot: less is noise
LEAST_HEIGHT, LEAST_ERROR = 4.0, 0.4  # in reaches, likewise


class Curve(NamedTuple):
    """One of the plots: its title, the columns it shows, and the least value its axis goes up to."""

    title: str
    column: int
    least: float


class Curves:
    """The plots, and what they show."""

    def __init__(self, gui: viser.GuiApi, vehicle: Vehicle) -> None:
        reach = reach_of(vehicle)
        self._curves = [
            Curve("height [m]", HEIGHT, LEAST_HEIGHT * reach),
            Curve("tilt [°]", TILT, LEAST_TILT),
            Curve("off its reference [m]", ERROR, LEAST_ERROR * reach),
        ]
        self.plots = [_plot(gui, curve.title, curve.least, 1) for curve in self._curves]
        self._rotors = 0
        self.speeds = _plot(gui, "rotor speeds [rad/s] over time [s]", 1.0, 1, bottom=True)
        self._legend = gui.add_html("")

    def show(self, times: Array, values: Array, rotors: int) -> None:
        """Curves over time [s], of a drone with so many rotors; (times, columns) as `history.measured` has them"""
        for plot, curve in zip(self.plots, self._curves, strict=True):
            plot.data = (times, np.ascontiguousarray(values[:, curve.column]))
        if rotors != self._rotors:
            self._rotors = rotors
            self.speeds.series = _series(max(rotors, 1))
            self.speeds.visible = rotors > 0
            self._legend.content = _rotor_legend(rotors)
        if rotors:
            self.speeds.data = (times, *(np.ascontiguousarray(values[:, FIRST_ROTOR + k]) for k in range(rotors)))


def _plot(gui: viser.GuiApi, title: str, least: float, count: int, bottom: bool = False) -> Any:
    """From 0 to `least` or, where the curve goes beyond, so far"""
    limits = {"min": {"pad": 0.05, "soft": 0.0, "mode": 1}, "max": {"pad": 0.1, "soft": least, "mode": 1}}
    line = {"stroke": INK, "font": FONT, "grid": {"stroke": GRID, "width": 1}, "ticks": {"show": False}, "gap": 3}
    x, y = {**line, "size": 18} if bottom else {**line, "size": 4, "values": ()}, {**line, "size": 40, "space": 22}
    options: Any = {
        "scales": {"x": {"time": False}, "y": {"range": limits}},
        "axes": (x, y),
        "legend": {"show": False},
        "cursor": {"y": False, "points": {"show": False}},
        "padding": (8, 8, 0, 0),
    }
    nothing = tuple(np.zeros(1) for _ in range(count + 1))
    return gui.add_uplot(nothing, _series(count), title=title, height=TALL + (14 if bottom else 0), **options)


def _series(count: int) -> tuple[Any, ...]:
    own = [{"label": str(k), "stroke": COLOURS[k % len(COLOURS)], "width": 1.5} for k in range(count)]
    return ({"label": "t"}, *({**each, "points": {"show": False}} for each in own))


def _rotor_legend(rotors: int) -> str:
    names = "".join(
        f'<span style="color:{COLOURS[k % len(COLOURS)]};font-weight:700;padding-right:9px">{k}</span>'
        for k in range(rotors)
    )
    return f'<div style="{STYLE}">rotors {names}</div>' if rotors else ""
