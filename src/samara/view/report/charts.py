"""Charts of a report: the curves as numbers for `charts.js`, which draws them in the browser.

Of every curve the page carries a few thousand points at most, the peaks among them, with five digits.
"""

import base64
import hashlib
import json
import math
from collections.abc import Sequence
from functools import cache
from importlib import resources

import numpy as np

from samara.core.types import Array
from samara.scenario.meshes import drawn, outline
from samara.scenario.world import World
from samara.vehicles.shape import COLOURS
from samara.view.plot.plots import FEW, LEAST_SPAN, Flight, Mark, Panel, crowd_of, panels_of, span_of, thinned
from samara.view.plot.signals import Signal
from samara.view.report.page import Html, element
from samara.world.obstacles import HeightMap

POINTS, FEWEST = (
    1500,
    400,
)  # of a curve alone in a chart, and of one among many: more than a page is wide, and enough for it
DIGITS = 5
OVER = {"time": ("time [s]", "s"), "frequency": ("frequency [Hz]", "Hz"), "east": ("x east [m]", "m")}


@cache
def script() -> str:
    """The program of the page"""
    return (resources.files("samara.view.report") / "charts.js").read_text(encoding="utf-8")


@cache
def script_hash() -> str:
    """Its SHA-256, as a page's policy names the one script that may run"""
    return "sha256-" + base64.b64encode(hashlib.sha256(script().encode()).digest()).decode()


class Charts:
    """The charts of one page: `add` gives the element in which one will be drawn, `data` all of them as an element."""

    def __init__(self, marks: Sequence[Mark] = ()) -> None:
        self._marks, self._charts = marks, list[dict[str, object]]()

    def add(self, what: str, flights: Sequence[Flight], world: World | None = None) -> Html | None:
        """A figure with the charts of one subject; None where the flights have nothing to show of it"""
        if what == "top":
            charts = [map_of(flights, world)]
        else:
            over = "frequency" if what == "spectra" else "time"
            names = [flight.label for flight in flights]
            charts = [chart_of(panel, names, over) for panel in panels_of(what, flights)]
        boxes = []
        for own in charts:
            boxes.append(element("div", class_="chart", data_chart=str(len(self._charts))))
            self._charts.append(own)
        return element("figure", boxes) if boxes else None

    def data(self) -> Html:
        """The numbers, in which nothing ends the element: every < > & is written as \\u003c, \\u003e, \\u0026"""
        marks = [{"number": own.number, "time": own.time, "text": own.text} for own in self._marks]
        text = json.dumps({"marks": marks, "charts": self._charts}, allow_nan=False, separators=(",", ":"))
        for letter in "<>&":
            text = text.replace(letter, f"\\u{ord(letter):04x}")
        return element("script", Html(text), type="application/json", id="chart-data")


def chart_of(panel: Panel, names: Sequence[str], over: str) -> dict[str, object]:
    """One flight: its components. Several: a curve for each. Many: their least, median and largest, and who is farthest."""
    signals = [own for _, own in panel.signals]
    log = over == "frequency"
    chart = _Chart(log, max(FEWEST, POINTS // len(names)) if len(names) <= FEW else POINTS)
    if len(names) == 1:
        own = signals[0]
        for k, name in enumerate(own.names):
            chart.add_signal(own, k, name, COLOURS[k % len(COLOURS)])
    elif len(names) <= FEW:
        for label, own in panel.signals:
            chart.add_signal(own, 0, label, COLOURS[names.index(label)])
    else:
        _add_crowd(chart, panel)
    ends = (span_of(signals) if not log else chart.extent()) or (0.0, 1.0)
    times = [float(f(own.time)) for own in signals for f in (np.min, np.max)]
    low, high = (min(times), max(max(times), min(times) + 1e-3)) if not log else (math.log10(x) for x in _span(times))
    limits = {own for signal in signals if signal.limits for own in signal.limits._asdict().items()}
    shown = [
        {"name": "most" if name == "high" else "least", "value": float(value)}
        for name, value in sorted(limits)
        if not log and ends[0] <= value <= ends[1]
    ]
    least = LEAST_SPAN.get(signals[0].unit, 1e-9) if not log else 0.5
    frame = {"title": panel.title, "unit": signals[0].unit, "log": log, "x": [low, high], "y": list(ends)}
    return chart.contents(over, frame | {"least": least, "limits": shown})


def _span(times: Sequence[float]) -> tuple[float, float]:
    return max(min(times), 1e-9), max(max(times), 1.001 * max(min(times), 1e-9))


def _add_crowd(chart: "_Chart", panel: Panel) -> None:
    crowd = crowd_of(panel.signals)
    if crowd is None:
        return
    time, values = crowd.time, crowd.values
    chart.add("least", "#7f7f7f", time, np.nanmin(values, axis=0))
    chart.add("largest", "#7f7f7f", time, np.nanmax(values, axis=0))
    chart.add(f"farthest: {panel.signals[crowd.farthest][0]}", COLOURS[1], time, values[crowd.farthest])
    chart.add(f"median of {len(values)}", COLOURS[0], time, crowd.median)


def map_of(flights: Sequence[Flight], world: World | None) -> dict[str, object]:
    """The paths from above, the reference dashed, over the solids"""
    chart = _Chart()
    points = np.concatenate([track.position[:, :2] for _, track in flights])
    for k, (label, track) in enumerate(flights):
        rows = np.arange(0, len(track.time), max(1, len(track.time) * len(flights) // (4 * POINTS)))
        colour = COLOURS[k % len(COLOURS)]
        if len(flights) <= FEW:
            asked = track.reference_position[rows]
            chart.add(f"{label}, reference", colour, asked[:, 0], asked[:, 1], "dash", "reference", track.time[rows])
        group = label if len(flights) <= FEW else f"{len(flights)} drones"
        chart.add(label, colour, track.position[rows, 0], track.position[rows, 1], "line", group, track.time[rows])
    shapes = []
    for _, solid, colour in drawn(world) if world is not None else ():
        if not isinstance(solid, HeightMap) and (shape := outline(solid)) is not None:
            shapes.append({"colour": colour, "points": np.round(shape, 3).tolist()})
    low, high = points.min(axis=0), points.max(axis=0)
    pad = 0.08 * max(float((high - low).max()), 1.0)
    x, y = ([float(low[k] - pad), float(high[k] + pad)] for k in (0, 1))
    frame = {"title": "From above", "unit": "m north", "equal": True, "x": x, "y": y, "least": 0.01, "shapes": shapes}
    return chart.contents("east", frame)


class _Chart:
    """Curves of one chart; those over the same times share them."""

    def __init__(self, log: bool = False, points: int = POINTS) -> None:
        self._log, self._points = log, points
        self._xs, self._known = list[list[float | None]](), dict[bytes, int]()
        self._curves, self._extent = list[dict[str, object]](), list[float]()

    def add_signal(self, own: Signal, k: int, name: str, colour: str) -> None:
        """A component with what was asked and its band"""
        if own.band is not None:
            self.add(f"{name}, ±3σ", colour, own.time, own.band[:, k], "band", "±3σ")
        self.add(name, colour, own.time, own.values[:, k])
        if own.asked is not None:
            self.add(f"{name}, asked", colour, own.asked[0], own.asked[1][:, k], "dash", "asked")

    def add(
        self, name: str, colour: str, x: Array, y: Array, style: str = "line", group: str = "", t: Array | None = None
    ) -> None:
        """A curve under a name; those of one group are hidden together"""
        if t is None:
            x, y = thinned(x, y, self._points)
        if self._log:
            x, y = np.log10(x), np.log10(y)
        heights = rounded(y)
        curve: dict[str, object] = {
            "name": name,
            "group": group or name,
            "colour": colour,
            "style": style,
            "x": self._place(x),
            "y": heights,
        }
        self._curves.append(curve if t is None else {**curve, "t": self._place(t)})
        self._extent += [own for own in heights if own is not None]

    def _place(self, values: Array) -> int:
        key = np.ascontiguousarray(values).tobytes()
        if key not in self._known:
            self._known[key] = len(self._xs)
            self._xs.append(rounded(values, digits=7))
        return self._known[key]

    def extent(self) -> tuple[float, float] | None:
        """The least and the largest of all curves"""
        return (min(self._extent) - 0.1, max(self._extent) + 0.1) if self._extent else None

    def contents(self, over: str, frame: dict[str, object]) -> dict[str, object]:
        """The chart as `charts.js` reads it; `frame` has its title, axes, limits and shapes."""
        name, unit = OVER[over]
        curves: dict[str, object] = {"xs": self._xs, "curves": self._curves, "title": "", "unit": ""}
        curves |= {"over": over, "xname": name, "xunit": unit, "log": False, "equal": False, "x": [], "y": []}
        return {**curves, "least": 0.0, "limits": [], "shapes": [], **frame}


def rounded(values: Array, digits: int = DIGITS) -> list[float | None]:
    """Numbers with so many digits of the largest; None where there is none"""
    finite = np.isfinite(values)
    largest = float(np.abs(values[finite]).max(initial=0.0))
    decimals = digits - 1 - math.floor(math.log10(largest)) if largest > 0.0 else 0
    told: list[float | None] = np.round(values, min(max(decimals, 0), 15)).tolist()
    return told if finite.all() else [own if known else None for own, known in zip(told, finite, strict=True)]
