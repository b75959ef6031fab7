"""Charts of a report: curve data for `charts.js`, which draws them in the browser.

The page holds at most a few thousand points per curve, with five digits; decimation preserves peaks.
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
from samara.scenario.meshes import drawable_solids, outline
from samara.scenario.world import World
from samara.vehicles.shape import COLOURS
from samara.view.plot.plots import (
    MAX_INDIVIDUAL_FLIGHTS,
    MIN_AXIS_RANGES,
    LabelledRecord,
    Mark,
    Panel,
    decimate,
    flight_ensemble,
    flights_with,
    signal_range,
    subject_panels,
)
from samara.view.plot.signals import PlotSignal
from samara.view.report.page import Html, element
from samara.world.obstacles import HeightMap

MAX_POINTS, MIN_POINTS = (1500, 400)  # points of a single curve, and minimum per curve in a chart with several
DIGITS = 5
ABSCISSAE = {"time": ("time [s]", "s"), "frequency": ("frequency [Hz]", "Hz"), "east": ("x east [m]", "m")}


@cache
def script() -> str:
    """Read the script of the page."""
    return (resources.files("samara.view.report") / "charts.js").read_text(encoding="utf-8")


@cache
def script_hash() -> str:
    """SHA-256 of the script, as the content security policy of a page needs it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script().encode()).digest()).decode()


class Charts:
    """The charts of one page: `add` returns the element for one subject, `data` returns the data of all charts."""

    def __init__(self, marks: Sequence[Mark] = ()) -> None:
        self._marks, self._charts = marks, list[dict[str, object]]()

    def add(self, subject: str, flights: Sequence[LabelledRecord], world: World | None = None) -> Html | None:
        """Create a figure with the charts of one subject; None if the flights hold no data for it."""
        if subject == "top":
            with_path = flights_with(subject, flights)
            charts = [path_map(with_path, world)] if with_path else []
        else:
            over = "frequency" if subject == "spectra" else "time"
            names = [flight.label for flight in flights]
            charts = [panel_chart(panel, names, over) for panel in subject_panels(subject, flights)]
        containers = []
        for chart in charts:
            containers.append(element("div", class_="chart", data_chart=str(len(self._charts))))
            self._charts.append(chart)
        return element("figure", containers) if containers else None

    def data(self) -> Html:
        """Serialise the charts as JSON, with < > & escaped as \\u003c, \\u003e, \\u0026 so that no text closes the element."""
        marks = [{"number": mark.number, "time": mark.time, "text": mark.text} for mark in self._marks]
        text = json.dumps({"marks": marks, "charts": self._charts}, allow_nan=False, separators=(",", ":"))
        for letter in "<>&":
            text = text.replace(letter, f"\\u{ord(letter):04x}")
        return element("script", Html(text), type="application/json", id="chart-data")


def panel_chart(panel: Panel, names: Sequence[str], over: str) -> dict[str, object]:
    """Chart one flight by its components, several by one curve each, many by minimum, median, maximum and farthest flight."""
    signals = [signal for _, signal in panel.signals]
    log = over == "frequency"
    chart = _Chart(
        log, max(MIN_POINTS, MAX_POINTS // len(names)) if len(names) <= MAX_INDIVIDUAL_FLIGHTS else MAX_POINTS
    )
    if len(names) == 1:
        shown_signal = signals[0]
        for k, name in enumerate(shown_signal.names):
            chart.add_signal(shown_signal, k, name, COLOURS[k % len(COLOURS)])
    elif len(names) <= MAX_INDIVIDUAL_FLIGHTS:
        for label, shown_signal in panel.signals:
            chart.add_signal(shown_signal, 0, label, COLOURS[names.index(label)])
    else:
        _add_ensemble(chart, panel)
    value_range = (signal_range(signals) if not log else chart.extent()) or (0.0, 1.0)
    times = [float(f(signal.time)) for signal in signals for f in (np.min, np.max)]
    low, high = (min(times), max(max(times), min(times) + 1e-3)) if not log else (math.log10(x) for x in _span(times))
    limits = {limit for signal in signals if signal.limits for limit in signal.limits._asdict().items()}
    visible_limits = [
        {"name": "max" if name == "high" else "min", "value": float(value)}
        for name, value in sorted(limits)
        if not log and value_range[0] <= value <= value_range[1]
    ]
    min_span = MIN_AXIS_RANGES.get(signals[0].unit, 1e-9) if not log else 0.5
    frame = {"title": panel.title, "unit": signals[0].unit, "log": log, "x": [low, high], "y": list(value_range)}
    return chart.contents(over, frame | {"minSpan": min_span, "limits": visible_limits})


def _span(times: Sequence[float]) -> tuple[float, float]:
    return max(min(times), 1e-9), max(max(times), 1.001 * max(min(times), 1e-9))


def _add_ensemble(chart: "_Chart", panel: Panel) -> None:
    crowd = flight_ensemble(panel.signals)
    if crowd is None:
        return
    time, values = crowd.time, crowd.values
    chart.add("minimum", "#7f7f7f", time, np.nanmin(values, axis=0))
    chart.add("maximum", "#7f7f7f", time, np.nanmax(values, axis=0))
    chart.add(f"farthest: {panel.signals[crowd.farthest][0]}", COLOURS[1], time, values[crowd.farthest])
    chart.add(f"median of {len(values)}", COLOURS[0], time, crowd.median)


def path_map(flights: Sequence[LabelledRecord], world: World | None) -> dict[str, object]:
    """Chart the paths from above over the obstacles, with dashed references."""
    chart = _Chart()
    points = np.concatenate([track.position[:, :2] for _, track in flights])
    for k, (label, track) in enumerate(flights):
        rows = np.arange(0, len(track.time), max(1, len(track.time) * len(flights) // (4 * MAX_POINTS)))
        colour = COLOURS[k % len(COLOURS)]
        if len(flights) <= MAX_INDIVIDUAL_FLIGHTS and "reference" in track.tables:
            reference = track.reference_position[rows]
            chart.add(
                f"{label}, reference", colour, reference[:, 0], reference[:, 1], "dash", "reference", track.time[rows]
            )
        group = label if len(flights) <= MAX_INDIVIDUAL_FLIGHTS else f"{len(flights)} drones"
        chart.add(label, colour, track.position[rows, 0], track.position[rows, 1], "line", group, track.time[rows])
    shapes = []
    for _, solid, colour in drawable_solids(world) if world is not None else ():
        if not isinstance(solid, HeightMap) and (shape := outline(solid)) is not None:
            shapes.append({"colour": colour, "points": np.round(shape, 3).tolist()})
    low, high = points.min(axis=0), points.max(axis=0)
    pad = 0.08 * max(float((high - low).max()), 1.0)
    x, y = ([float(low[k] - pad), float(high[k] + pad)] for k in (0, 1))
    labels = {"title": "From above", "unit": "m", "axis": "y north [m]"}
    frame = {**labels, "equal": True, "x": x, "y": y, "minSpan": 0.01, "shapes": shapes}
    return chart.contents("east", frame)


class _Chart:
    """Curves of one chart; curves over the same times share the time array."""

    def __init__(self, log: bool = False, points: int = MAX_POINTS) -> None:
        self._log, self._points = log, points
        self._xs, self._indices = list[list[float | None]](), dict[bytes, int]()
        self._curves, self._extent = list[dict[str, object]](), list[float]()

    def add_signal(self, signal: PlotSignal, k: int, name: str, colour: str) -> None:
        """Add a component with its reference and its band."""
        if signal.band is not None:
            self.add(f"{name}, ±3σ", colour, signal.time, signal.band[:, k], "band", "±3σ")
        self.add(name, colour, signal.time, signal.values[:, k])
        if signal.reference is not None:
            self.add(f"{name}, reference", colour, signal.reference[0], signal.reference[1][:, k], "dash", "reference")

    def add(
        self, name: str, colour: str, x: Array, y: Array, style: str = "line", group: str = "", t: Array | None = None
    ) -> None:
        """Add a curve; curves of one group are hidden together."""
        if t is None:
            x, y = decimate(x, y, self._points)
        if self._log:
            x, y = np.log10(x), np.log10(y)
        heights = round_values(y)
        curve: dict[str, object] = {
            "name": name,
            "group": group or name,
            "colour": colour,
            "style": style,
            "x": self._abscissa_index(x),
            "y": heights,
        }
        self._curves.append(curve if t is None else {**curve, "t": self._abscissa_index(t)})
        self._extent += [value for value in heights if value is not None]

    def _abscissa_index(self, values: Array) -> int:
        """Return the index of a shared array of abscissae; add it if it is new."""
        key = np.ascontiguousarray(values).tobytes()
        if key not in self._indices:
            self._indices[key] = len(self._xs)
            self._xs.append(round_values(values, digits=7))
        return self._indices[key]

    def extent(self) -> tuple[float, float] | None:
        """Range of the values of all curves, with a margin."""
        return (min(self._extent) - 0.1, max(self._extent) + 0.1) if self._extent else None

    def contents(self, over: str, frame: dict[str, object]) -> dict[str, object]:
        """Return the chart as `charts.js` reads it; `frame` has title, axes, limits and shapes."""
        name, unit = ABSCISSAE[over]
        curves: dict[str, object] = {"xs": self._xs, "curves": self._curves, "title": "", "unit": ""}
        curves |= {"over": over, "xname": name, "xunit": unit, "log": False, "equal": False, "x": [], "y": []}
        return {**curves, "minSpan": 0.0, "limits": [], "shapes": [], **frame}


def round_values(values: Array, digits: int = DIGITS) -> list[float | None]:
    """Round values to `digits` digits of the largest; None in place of non-finite values."""
    finite = np.isfinite(values)
    largest = float(np.abs(values[finite]).max(initial=0.0))
    decimals = digits - 1 - math.floor(math.log10(largest)) if largest > 0.0 else 0
    rounded_values: list[float | None] = np.round(values, min(max(decimals, 0), 15)).tolist()
    return (
        rounded_values
        if finite.all()
        else [value if is_finite else None for value, is_finite in zip(rounded_values, finite, strict=True)]
    )
