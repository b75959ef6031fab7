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
from samara.record.run import DroneRecord, Run
from samara.vehicles.shape import COLOURS, GRID, INK, outer_frame_radius
from samara.view.web.gauges import STYLE
from samara.view.web.snapshot import max_rotor_count

WINDOW = 20.0  # [s] of a live flight that are plotted
MAX_ROWS = 300
HEIGHT, TILT, ERROR, FIRST_ROTOR = range(4)  # column indices


def plot_quantities(p_W: Array, q_WB: Array, reference_W: Array, rotor_speed: Array, ground: float) -> Array:
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
        self._lock = threading.Lock()

    def clear(self) -> None:
        """Remove all rows."""
        with self._lock:
            self._rows.clear()

    def is_due(self, time: float) -> bool:
        """Whether a row at this time would be stored."""
        return not self._rows or time >= self._rows[-1][0] + WINDOW / MAX_ROWS - 1e-9

    def add(self, time: float, values: Array) -> None:
        """Append a row (drones, columns) from `plot_quantities`, if one is due."""
        if not self.is_due(time):
            return
        with self._lock:
            self._rows.append((time, values))
            while self._rows[0][0] < time - WINDOW:
                self._rows.popleft()

    def drone_history(self, drone: int, until: float) -> tuple[Array, Array]:
        """Return times [s] and values (times, columns) of one drone."""
        with self._lock:
            rows = list(self._rows)
        return np.array([time for time, _ in rows]), np.array([values[drone] for _, values in rows])


class RecordedHistory:
    """Complete recorded flights, for all drones of several runs."""

    def __init__(self, runs: Sequence[Run], ground: float) -> None:
        tracks = [track for run in runs for track in run.drone_records]
        rotors = max_rotor_count([track.vehicle for track in tracks])
        self._curves = [_curves(track, rotors, ground) for track in tracks]

    def drone_history(self, drone: int, until: float) -> tuple[Array, Array]:
        """Return times [s] and values (times, columns) of one drone, up to a time."""
        times, values = self._curves[drone]
        count = max(int(np.searchsorted(times, until, side="right")), 1)
        return times[:count], values[:count]


def _curves(track: DroneRecord, rotors: int, ground: float) -> tuple[Array, Array]:
    rows = np.unique(np.linspace(0, len(track.time) - 1, MAX_ROWS).round().astype(int))
    speeds = np.zeros((len(rows), rotors))
    speeds[:, : len(track.vehicle.rotors)] = track.rotor_speed[rows]
    p_W = track.position[rows]
    reference_W = track.reference_position[rows] if "reference" in track.tables else p_W
    return track.time[rows], plot_quantities(p_W, track.attitude[rows], reference_W, speeds, ground)


PLOT_HEIGHT = 66  # [pixels]
FONT = "10px sans-serif"
MIN_TILT_RANGE = 5.0  # [°]: smallest range of the axis; smaller variations are noise
MIN_HEIGHT_RANGE, MIN_ERROR_RANGE = 4.0, 0.4  # smallest ranges of the axes, in radii of the vehicle


class HistoryPlot(NamedTuple):
    """One plot: its title, the column it shows, and the smallest upper end of its axis."""

    title: str
    column: int
    min_range: float


class Curves:
    """The plots of the page."""

    def __init__(self, gui: viser.GuiApi, vehicle: Vehicle) -> None:
        radius = outer_frame_radius(vehicle)
        self._curves = [
            HistoryPlot("height [m]", HEIGHT, MIN_HEIGHT_RANGE * radius),
            HistoryPlot("tilt [°]", TILT, MIN_TILT_RANGE),
            HistoryPlot("position error [m]", ERROR, MIN_ERROR_RANGE * radius),
        ]
        self.plots = [_plot(gui, curve.title, curve.min_range, 1) for curve in self._curves]
        self._rotors = 0
        self.speeds = _plot(gui, "rotor speeds [rad/s] over time [s]", 1.0, 1, is_bottom=True)
        self._legend = gui.add_html("")

    def show(self, times: Array, values: Array, rotors: int) -> None:
        """Plot curves over time [s] for a drone with this rotor count; (times, columns) as from `plot_quantities`."""
        for plot, curve in zip(self.plots, self._curves, strict=True):
            plot.data = (times, np.ascontiguousarray(values[:, curve.column]))
        if rotors != self._rotors:
            self._rotors = rotors
            self.speeds.series = _series(max(rotors, 1))
            self.speeds.visible = rotors > 0
            self._legend.content = _rotor_legend(rotors)
        if rotors:
            self.speeds.data = (times, *(np.ascontiguousarray(values[:, FIRST_ROTOR + k]) for k in range(rotors)))


def _plot(gui: viser.GuiApi, title: str, min_range: float, count: int, is_bottom: bool = False) -> viser.GuiUplotHandle:
    """Create a plot from 0 to `min_range`, or further if the curve exceeds it."""
    limits = {"min": {"pad": 0.05, "soft": 0.0, "mode": 1}, "max": {"pad": 0.1, "soft": min_range, "mode": 1}}
    axis_style = {"stroke": INK, "font": FONT, "grid": {"stroke": GRID, "width": 1}, "ticks": {"show": False}, "gap": 3}
    x, y = (
        {**axis_style, "size": 18} if is_bottom else {**axis_style, "size": 4, "values": ()},
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
    return gui.add_uplot(
        empty_data, _series(count), title=title, height=PLOT_HEIGHT + (14 if is_bottom else 0), **options
    )


def _series(count: int) -> tuple[Any, ...]:
    styles = [{"label": str(k), "stroke": COLOURS[k % len(COLOURS)], "width": 1.5} for k in range(count)]
    return ({"label": "t"}, *({**style, "points": {"show": False}} for style in styles))


def _rotor_legend(rotors: int) -> str:
    names = "".join(
        f'<span style="color:{COLOURS[k % len(COLOURS)]};font-weight:700;padding-right:9px">{k}</span>'
        for k in range(rotors)
    )
    return f'<div style="{STYLE}">rotors {names}</div>' if rotors else ""


MAX_TRAIL_POINTS = 24_000  # points of all drones
MAX_DRONE_POINTS, MIN_DRONE_POINTS = 1500, 60  # largest and smallest point count of one drone
FIRST_INTERVAL = 0.05  # [s]


class Trail:
    """Positions of n drones, stored at intervals that double when the capacity is reached."""

    def __init__(self, drones: int) -> None:
        self.capacity = int(np.clip(MAX_TRAIL_POINTS // max(drones, 1), MIN_DRONE_POINTS, MAX_DRONE_POINTS))
        self._positions = np.empty((self.capacity, drones, 3), dtype=np.float32)
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
            self._positions[: self.count] = self._positions[::2].copy()
            self.interval *= 2.0
        self._positions[self.count] = p_W
        self.count += 1
        self._next = time + self.interval - 1e-9

    def points(self) -> Array:
        """Return a copy of the points, (points, n, 3)."""
        return self._positions[: self.count].copy()
