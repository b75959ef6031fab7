"""Data and widgets of the viewer's plots: height, tilt, position error and rotor speeds over time, live or recorded."""

import threading
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import viser

from samara.core.algebra import Quat, Vec3
from samara.core.types import Array
from samara.physics.quantities import position_error, tilt_deg
from samara.physics.types import Vehicle
from samara.record.run import Run, Track
from samara.vehicles.shape import COLOURS, GRID, INK, reach_of
from samara.view.web.gauges import STYLE
from samara.view.web.snapshot import most_rotors

WINDOW = 20.0  # [s] of a live flight that are plotted
ROWS = 300
HEIGHT, TILT, ERROR, FIRST_ROTOR = range(4)  # column indices


def measured(p_W: Array, q_WB: Array, reference_W: Array, rotor_speed: Array, ground: float) -> Array:
    """Return height above the ground [m], angle between body z and the vertical [°], distance from the reference [m] and rotor
    speeds [rad/s], along the last axis."""
    p, q, reference = (np.moveaxis(values, -1, 0) for values in (p_W, q_WB, reference_W))
    error = position_error(Vec3(*p), Vec3(*reference))
    first = np.stack([p_W[..., 2] - ground, tilt_deg(Quat(*q)), error], axis=-1)
    return np.concatenate([first, rotor_speed], axis=-1)


class History:
    """The last seconds of a flight, for all drones. The simulation's thread appends, the drawing thread reads."""

    def __init__(self) -> None:
        self._rows: deque[tuple[float, Array]] = deque()
        self._using = threading.Lock()

    def clear(self) -> None:
        """Remove all rows."""
        with self._using:
            self._rows.clear()

    def is_due(self, time: float) -> bool:
        """Whether a row at this time would be stored."""
        return not self._rows or time >= self._rows[-1][0] + WINDOW / ROWS - 1e-9

    def add(self, time: float, values: Array) -> None:
        """Append a row (drones, columns) from `measured`, if one is due."""
        if not self.is_due(time):
            return
        with self._using:
            self._rows.append((time, values))
            while self._rows[0][0] < time - WINDOW:
                self._rows.popleft()

    def of(self, drone: int, until: float) -> tuple[Array, Array]:
        """Return times [s] and values (times, columns) of one drone."""
        with self._using:
            rows = list(self._rows)
        return np.array([time for time, _ in rows]), np.array([values[drone] for _, values in rows])


class Recorded:
    """Complete recorded flights, for all drones of several runs."""

    def __init__(self, runs: Sequence[Run], ground: float) -> None:
        tracks = [track for run in runs for track in run.tracks]
        rotors = most_rotors([track.vehicle for track in tracks])
        self._curves = [_curves(track, rotors, ground) for track in tracks]

    def of(self, drone: int, until: float) -> tuple[Array, Array]:
        """Return times [s] and values (times, columns) of one drone, up to a time."""
        times, values = self._curves[drone]
        count = max(int(np.searchsorted(times, until, side="right")), 1)
        return times[:count], values[:count]


def _curves(track: Track, rotors: int, ground: float) -> tuple[Array, Array]:
    rows = np.unique(np.linspace(0, len(track.time) - 1, ROWS).round().astype(int))
    speeds = np.zeros((len(rows), rotors))
    speeds[:, : len(track.vehicle.rotors)] = track.rotor_speed[rows]
    p_W = track.position[rows]
    reference_W = track.reference_position[rows] if "reference" in track.tables else p_W
    return track.time[rows], measured(p_W, track.attitude[rows], reference_W, speeds, ground)


TALL = 66  # [pixels]
FONT = "10px sans-serif"
LEAST_TILT = 5.0  # [°]: smallest range of the axis; smaller variations are noise
LEAST_HEIGHT, LEAST_ERROR = 4.0, 0.4  # smallest ranges of the axes, in radii of the vehicle


class Curve(NamedTuple):
    """One plot: its title, the column it shows, and the smallest upper end of its axis."""

    title: str
    column: int
    least: float


class Curves:
    """The plots of the page."""

    def __init__(self, gui: viser.GuiApi, vehicle: Vehicle) -> None:
        radius = reach_of(vehicle)
        self._curves = [
            Curve("height [m]", HEIGHT, LEAST_HEIGHT * radius),
            Curve("tilt [°]", TILT, LEAST_TILT),
            Curve("position error [m]", ERROR, LEAST_ERROR * radius),
        ]
        self.plots = [_plot(gui, curve.title, curve.least, 1) for curve in self._curves]
        self._rotors = 0
        self.speeds = _plot(gui, "rotor speeds [rad/s] over time [s]", 1.0, 1, bottom=True)
        self._legend = gui.add_html("")

    def show(self, times: Array, values: Array, rotors: int) -> None:
        """Plot curves over time [s] for a drone with this rotor count; (times, columns) as from `measured`."""
        for plot, curve in zip(self.plots, self._curves, strict=True):
            plot.data = (times, np.ascontiguousarray(values[:, curve.column]))
        if rotors != self._rotors:
            self._rotors = rotors
            self.speeds.series = _series(max(rotors, 1))
            self.speeds.visible = rotors > 0
            self._legend.content = _rotor_legend(rotors)
        if rotors:
            self.speeds.data = (times, *(np.ascontiguousarray(values[:, FIRST_ROTOR + k]) for k in range(rotors)))


def _plot(gui: viser.GuiApi, title: str, min_range: float, count: int, bottom: bool = False) -> viser.GuiUplotHandle:
    """Create a plot from 0 to `least`, or further if the curve exceeds it."""
    limits = {"min": {"pad": 0.05, "soft": 0.0, "mode": 1}, "max": {"pad": 0.1, "soft": min_range, "mode": 1}}
    axis_style = {"stroke": INK, "font": FONT, "grid": {"stroke": GRID, "width": 1}, "ticks": {"show": False}, "gap": 3}
    x, y = (
        {**axis_style, "size": 18} if bottom else {**axis_style, "size": 4, "values": ()},
        {**axis_style, "size": 40, "space": 22},
    )
    options: Any = {
        "scales": {"x": {"time": False}, "y": {"range": limits}},
        "axes": (x, y),
        "legend": {"show": False},
        "cursor": {"y": False, "points": {"show": False}},
        "padding": (8, 8, 0, 0),
    }
    empty_data = tuple(np.zeros(1) for _ in range(count + 1))
    return gui.add_uplot(empty_data, _series(count), title=title, height=TALL + (14 if bottom else 0), **options)


def _series(count: int) -> tuple[Any, ...]:
    styles = [{"label": str(k), "stroke": COLOURS[k % len(COLOURS)], "width": 1.5} for k in range(count)]
    return ({"label": "t"}, *({**style, "points": {"show": False}} for style in styles))


def _rotor_legend(rotors: int) -> str:
    names = "".join(
        f'<span style="color:{COLOURS[k % len(COLOURS)]};font-weight:700;padding-right:9px">{k}</span>'
        for k in range(rotors)
    )
    return f'<div style="{STYLE}">rotors {names}</div>' if rotors else ""


POINTS = 24_000  # points of all drones
MOST, LEAST = 1500, 60  # largest and smallest point count of one drone
FIRST_INTERVAL = 0.05  # [s]


class Trail:
    """Positions of n drones, stored at intervals that double when the capacity is reached."""

    def __init__(self, drones: int) -> None:
        self.capacity = int(np.clip(POINTS // max(drones, 1), LEAST, MOST))
        self._places = np.empty((self.capacity, drones, 3), dtype=np.float32)
        self.clear()

    def clear(self) -> None:
        """Remove all points."""
        self.count, self.interval, self._next = 0, FIRST_INTERVAL, -np.inf

    def is_due(self, time: float) -> bool:
        """Whether a position at this time would be stored."""
        return bool(time >= self._next)

    def add(self, time: float, p_W: Array) -> None:
        """Append the position of every drone, (n, 3), if one is due."""
        if not self.is_due(time):
            return
        if self.count == self.capacity:
            self.count = (self.capacity + 1) // 2
            self._places[: self.count] = self._places[::2].copy()
            self.interval *= 2.0
        self._places[self.count] = p_W
        self.count += 1
        self._next = time + self.interval - 1e-9

    def points(self) -> Array:
        """Return a copy of the points, (points, n, 3)."""
        return self._places[: self.count].copy()
