"""Plots of a run by subject: curves of one drone, of several or of many; paths in space and from above.

draw(run, "attitude", "attitude.png")
draw_all(run, "folder")
"""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter
from mpl_toolkits.mplot3d.axes3d import Axes3D  # type: ignore[import-untyped]

from samara.core.algebra import Quat, Vec3, rotate
from samara.core.types import Array
from samara.record.run import DroneRecord, Run
from samara.scenario.meshes import CONTOUR_COLOUR, drawable_solids, outline
from samara.scenario.world import World, recorded_world
from samara.vehicles.shape import COLOURS, INK, PAPER
from samara.view.plot.moving_obstacles import draw_spheres, recorded_spheres
from samara.view.plot.signals import (
    MANY_DRONE_SUBJECTS,
    SEVERAL_DRONE_SUBJECTS,
    SUBJECTS,
    PlotSignal,
    has_data,
    is_stationary,
    position_deviation,
    scale_length,
)
from samara.view.plot.style import DASHES, FORMATS, DetachedFigure, FigureFactory, escape_text, samara_style, save
from samara.world.obstacles import HeightMap

SPATIAL_SUBJECTS = ("path", "top")
ALL_SUBJECTS = (*SUBJECTS, *SPATIAL_SUBJECTS)

MAX_INDIVIDUAL_FLIGHTS = (
    8  # more flights are drawn as an ensemble: thin lines, the median, and the flight farthest from it
)
BODY_FRAME_COUNT = 14  # body frames drawn along a path
MAX_EVENT_MARKS = 200  # event lines in a panel: more would hide the curves
MAX_EVENT_LABELS = 12  # events described below the panels
MIN_EVENT_SPACING = 0.05  # as a fraction of the time axis: events closer than this share a label
LETTERS_PER_INCH = 15.5  # letters per inch of an event's description
MIN_AXIS_RANGES = {"m": 0.02, "cm": 0.1, "mm": 1.0, "m/s": 0.05, "°": 1.0, "°/s": 2.0, "rad/s": 20.0, "1": 0.02} | {
    "V": 0.1, "A": 0.5, "%": 1.0, "N": 0.01, "N m": 1e-4
}  # fmt: skip
"""Smallest range of an axis by unit: smaller variations are rounding and appear as a straight line."""
NEAR_LIMIT = 0.15  # as a fraction of a motor's range: a limit closer than this to a curve is shown
MIN_BOX_SIZE = 0.2  # [m]: smallest frame of a path that hardly moves
MAX_CURVE_POINTS = 4000  # points per curve: more than a picture resolves
PANEL_WIDTH, PANEL_HEIGHT, SMALL_PANEL_HEIGHT = (
    10.0,
    2.2,
    1.75,
)  # [in]: width of a figure, height of a panel, height of one of many panels
LEFT, RIGHT, TOP, GAP, BOTTOM = 0.78, 0.15, 0.75, 0.42, 0.5  # [in] around and between panels


class LabelledRecord(NamedTuple):
    """The record of one drone, with its label in pictures."""

    label: str
    track: DroneRecord


class Mark(NamedTuple):
    """An event at a time [s], with its number in the log of the flight."""

    number: int
    time: float
    text: str


class Panel(NamedTuple):
    """One pair of axes: a title and a labelled signal per flight; the signal of a single flight may have several curves."""

    title: str
    signals: tuple[tuple[str, PlotSignal], ...]


def run_flights(run: Run) -> list[LabelledRecord]:
    """Return all drones of a run, labelled by name."""
    return [LabelledRecord(track.name, track) for track in run.drone_records]


def event_marks(run: Run) -> list[Mark]:
    """Return the events of a run, at most `MAX_EVENT_MARKS`."""
    end = float(run.drone_records[0].time[-1])
    marks = (Mark(number, line.time_us / 1e6, line.message) for number, line in enumerate(run.logs, start=1))
    return list(islice((mark for mark in marks if 0.0 < mark.time < end), MAX_EVENT_MARKS))


def available_subjects(flights: Sequence[LabelledRecord]) -> list[str]:
    """Return the subjects for which the flights hold data."""
    return [subject for subject in ALL_SUBJECTS if any(has_data(subject, track) for _, track in flights)]


def flights_with(subject: str, flights: Sequence[LabelledRecord]) -> list[LabelledRecord]:
    """Return the flights that hold data for a subject."""
    return [flight for flight in flights if has_data(subject, flight.track)]


def require_subject(subject: str) -> str:
    """Return the subject; raise ValueError if it does not exist."""
    if subject not in ALL_SUBJECTS:
        raise ValueError(f"no plot {subject!r}; expected one of {', '.join(ALL_SUBJECTS)}")
    return subject


def draw(run: Run, subject: str, path: str | Path) -> Path:
    """Draw one subject of a run to a file (.png, .svg or .pdf) and return its path."""
    return save(run_figure(run, subject), path)


def run_figure(run: Run, subject: str) -> DetachedFigure:
    """Create the figure of one subject of a run."""
    figure = subject_figure(
        subject, run_flights(run), event_marks(run), run.scenario, world=recorded_world(run.attachments)
    )
    if figure is None:
        raise ValueError(
            f"{run.scenario}: no data for {subject!r}; expected one of {', '.join(available_subjects(run_flights(run)))}"
        )
    return figure


def draw_all(run: Run, folder: str | Path, requested: Sequence[str] = ()) -> list[Path]:
    """Draw one PNG file per subject, by default all with data, and return their paths."""
    subjects = [require_subject(subject) for subject in requested] or available_subjects(run_flights(run))
    return [draw(run, subject, Path(folder) / f"{subject}.png") for subject in subjects]


def subject_figure(
    subject: str,
    flights: Sequence[LabelledRecord],
    marks: Sequence[Mark] = (),
    title: str = "",
    width: float = PANEL_WIDTH,
    world: World | None = None,
) -> DetachedFigure | None:
    """Create the figure of one subject with a width in inches; None if the flights hold no data for it."""
    require_subject(subject)
    if not (with_data := flights_with(subject, flights)):
        return None
    with samara_style() as plt:
        if subject == "path":
            figure = plt.figure(figsize=(0.8 * width, 0.7 * width))
            draw_paths(figure, (0.02, 0.03, 0.94, 0.9), with_data)
        elif subject == "top":
            figure = plt.figure(figsize=(width, 0.66 * width))
            draw_top(figure.add_axes((LEFT / width, 0.09, 1.0 - (LEFT + 1.35) / width, 0.8)), with_data, world)
        else:
            panels = subject_panels(subject, flights)
            if not panels:
                return None
            figure = _stacked_figure(plt, panels, marks, "frequency" if subject == "spectra" else "time", width)
        if title:
            alignment = {"x": 0.02, "y": 0.995, "ha": "left", "va": "top"}
            figure.suptitle(escape_text(title), fontweight="bold", color=INK, fontsize=11, **alignment)
        return figure


# Curves -----------------------------------------------------------------------------------------------------------------


def subject_panels(subject_name: str, flights: Sequence[LabelledRecord]) -> list[Panel]:
    """One flight: a panel per signal with all its curves. Several flights: a panel per curve with all flights."""
    with_data = flights_with(subject_name, flights)
    if len(flights) == 1:
        if not with_data:
            return []
        label, track = flights[0]
        signals = SUBJECTS[subject_name](track)
        if subject_name == "position":
            position, *errors = signals
            first = position_deviation(track) if is_stationary(track) else position
            signals = [first, *map(scale_length, errors)]
        return [Panel(component.title, ((label, component),)) for component in signals]
    panels: dict[str, list[tuple[str, PlotSignal]]] = {}
    subject = (SEVERAL_DRONE_SUBJECTS if len(flights) <= MAX_INDIVIDUAL_FLIGHTS else MANY_DRONE_SUBJECTS)[subject_name]
    for label, track in with_data:
        for signal in subject(track):
            for component in signal.components():
                panels.setdefault(component.title, []).append((label, component))
    return [Panel(title, tuple(component)) for title, component in panels.items()]


def _stacked_figure(
    plt: FigureFactory, panels: Sequence[Panel], marks: Sequence[Mark], over: str, width: float
) -> DetachedFigure:
    """Stack panels on one axis. Sizes are in inches, so that panels are equally readable in every figure."""
    names = list(dict.fromkeys(label for panel in panels for label, _ in panel.signals))
    legend = 0.3 if 1 < len(names) <= MAX_INDIVIDUAL_FLIGHTS else 0.0
    row = PANEL_HEIGHT if len(panels) <= 3 else SMALL_PANEL_HEIGHT
    descriptions = describe_events(marks, width - LEFT - RIGHT) if over == "time" else []
    bottom_margin = BOTTOM + 0.16 * len(descriptions)
    height = TOP + legend + len(panels) * row + (len(panels) - 1) * GAP + bottom_margin
    figure = plt.figure(figsize=(width, height))
    times = [end for panel in panels for _, signal in panel.signals for end in (signal.time[0], signal.time[-1])]
    time_range = float(min(times)), float(max(max(times), min(times) + 1e-3))
    size = (1.0 - (LEFT + RIGHT) / width, row / height)
    bottoms = [bottom_margin + (len(panels) - 1 - k) * (row + GAP) for k in range(len(panels))]
    rectangles = [(LEFT / width, bottom / height, *size) for bottom in bottoms]
    _draw_stack(figure, panels, names, rectangles, marks, time_range, over)
    write_events(figure, descriptions, LEFT / width, 0.06 / height, 0.16 / height)
    if legend:
        handles = [
            Line2D([], [], color=COLOURS[k], label=escape_text(name), linewidth=2.0) for k, name in enumerate(names)
        ]
        anchor = (LEFT / width - 0.01, 1.0 - 0.3 / height)
        figure.legend(handles=handles, loc="upper left", bbox_to_anchor=anchor, ncols=len(names))
    return figure


def _draw_stack(
    figure: Figure,
    panels: Sequence[Panel],
    names: Sequence[str],
    rectangles: Sequence[tuple[float, float, float, float]],
    marks: Sequence[Mark],
    time_range: tuple[float, float],
    over: str = "time",
) -> Axes:
    """Draw panels below each other on a common axis of time or frequency; return the first."""
    first = None
    for k, (panel, rectangle) in enumerate(zip(panels, rectangles, strict=True)):
        axes = figure.add_axes(rectangle, sharex=first)
        first = first or axes
        draw_panel(axes, panel, names, framed=over == "time")
        if over == "time":
            mark_events(axes, marks, time_range, named=k == 0)
        else:
            axes.set(xscale="log", yscale="log")
            axes.yaxis.set_minor_formatter(NullFormatter())
        axes.tick_params(labelbottom=k == len(panels) - 1)
    assert first is not None
    axes.set_xlabel("time [s]" if over == "time" else "frequency [Hz]")
    first.set_xlim(*time_range)
    return first


def draw_panel(axes: Axes, panel: Panel, names: Sequence[str], *, framed: bool = True) -> None:
    """Draw the curves of one flight, coloured by component, or of several flights, coloured by flight."""
    signals = panel.signals
    axes.set_title(panel.title, y=1.0)  # a fixed position: finding one takes a third of the drawing time
    axes.set_ylabel(f"[{signals[0][1].unit}]")
    if len(names) == 1:
        _draw_components(axes, signals[0][1])
    elif len(names) <= MAX_INDIVIDUAL_FLIGHTS:
        for label, signal in signals:
            colour = COLOURS[names.index(label)]
            axes.plot(*decimate(signal.time, signal.values[:, 0]), color=colour, linewidth=1.3)
            _draw_reference_and_band(axes, signal, 0, colour)
    else:
        _draw_ensemble(axes, signals)
    all_signals = [signal for _, signal in signals]
    value_range = signal_range(all_signals)
    if framed and value_range is not None:
        axes.set_ylim(*value_range)
        _draw_limits(axes, all_signals, value_range)


def signal_range(signals: Sequence[PlotSignal]) -> tuple[float, float] | None:
    """Return the range of all curves with a margin, at least the smallest range of the unit; None without data."""
    visible = []
    for signal in signals:
        rows = slice(None) if signal.scale_rows is None else signal.scale_rows
        visible.append(signal.values[rows])
        visible += [] if signal.reference is None else [signal.reference[1]]
        visible += [] if signal.band is None else [signal.band[rows], -signal.band[rows]]
    finite = [signal[np.isfinite(signal)] for signal in visible]
    if not any(signal.size for signal in finite):
        return None
    low = min(float(signal.min()) for signal in finite if signal.size)
    high = max(float(signal.max()) for signal in finite if signal.size)
    for limits in {signal.limits for signal in signals if signal.limits is not None}:
        margin = NEAR_LIMIT * (limits.high - limits.low)
        low = min(low, limits.low) if low - limits.low < margin else low
        high = max(high, limits.high) if limits.high - high < margin else high
    min_span = max(MIN_AXIS_RANGES.get(signals[0].unit, 0.0), 1e-9 * max(abs(low), abs(high)), 1e-12)
    middle, half = 0.5 * (low + high), 0.5 * max(high - low, min_span)
    return middle - 1.08 * half, middle + 1.08 * half


def _draw_components(axes: Axes, signal: PlotSignal) -> None:
    width, alpha = (0.8, 0.85) if signal.homogeneous else (1.4, None)
    for k, name in enumerate(signal.names):
        colour = COLOURS[k % len(COLOURS)]
        axes.plot(*decimate(signal.time, signal.values[:, k]), color=colour, label=name, linewidth=width, alpha=alpha)
        _draw_reference_and_band(axes, signal, k, colour)
    columns = len(signal.names)
    if signal.reference is not None:
        axes.plot([], [], color=INK, linestyle=DASHES, linewidth=1.0, label="reference")
        columns += 1
    if signal.band is not None:
        axes.fill_between([], [], [], color=INK, alpha=0.15, label="±3σ")
        columns += 1
    if columns > 1:
        legend_above(axes, columns)


def _draw_reference_and_band(axes: Axes, signal: PlotSignal, k: int, colour: str) -> None:
    if signal.reference is not None:
        time, values = signal.reference
        axes.plot(*decimate(time, values[:, k]), color=colour, linestyle=DASHES, linewidth=1.0, alpha=0.85)
    if signal.band is not None:
        time, edge = decimate(signal.time, signal.band[:, k])
        axes.fill_between(time, -edge, edge, color=colour, alpha=0.12, linewidth=0)


def _draw_ensemble(axes: Axes, signals: Sequence[tuple[str, PlotSignal]]) -> None:
    """Draw every drone as a thin line, the median of all, and the labelled drone that departs farthest from it."""
    ensemble = flight_ensemble(signals)
    if ensemble is None:
        return
    time, values = ensemble.time, ensemble.values
    for curve in values:
        axes.plot(*decimate(time, curve), color=COLOURS[0], alpha=max(0.08, min(0.5, 8.0 / len(values))), linewidth=0.7)
    farthest = f"farthest: {escape_text(signals[ensemble.farthest][0])}"
    axes.plot(*decimate(time, values[ensemble.farthest]), color=COLOURS[1], linewidth=1.2, label=farthest)
    axes.plot(*decimate(time, ensemble.median), color=INK, linewidth=1.6, label=f"median of {len(values)}")
    legend_above(axes, 2)


class FlightEnsemble(NamedTuple):
    """Curves of many flights at common times, (flights, times), their median, and the flight that departs farthest from it."""

    time: Array
    values: Array
    median: Array
    farthest: int


def flight_ensemble(signals: Sequence[tuple[str, PlotSignal]]) -> FlightEnsemble | None:
    """Resample the curves at the times of the first curve at which any is finite; None without such times."""
    time = signals[0][1].time
    values = np.stack([np.interp(time, signal.time, signal.values[:, 0]) for _, signal in signals])
    has_data = np.isfinite(values).any(axis=0)
    if not has_data.any():
        return None
    values = values[:, has_data]
    median = np.nanmedian(values, axis=0)
    farthest = int(np.nan_to_num(np.abs(values - median)).max(axis=1).argmax())
    return FlightEnsemble(time[has_data], values, median, farthest)


def _draw_limits(axes: Axes, signals: Sequence[PlotSignal], value_range: tuple[float, float]) -> None:
    """Draw lines at the motor limits that lie in the visible range."""
    for name, value in sorted(
        {limit for signal in signals if signal.limits for limit in signal.limits._asdict().items()}
    ):
        if not value_range[0] <= value <= value_range[1]:
            continue
        axes.axhline(value, color=INK, linestyle="-.", linewidth=0.9, alpha=0.8)
        is_upper = name == "high"
        text, offset, side = ("max", (-3, -2), "top") if is_upper else ("min", (-3, 2), "bottom")
        anchor = ((1.0, value), offset, axes.get_yaxis_transform(), "offset points")
        axes.annotate(text, *anchor, ha="right", va=side, fontsize=7, style="italic")


def decimate(time: Array, values: Array, points: int = MAX_CURVE_POINTS) -> tuple[Array, Array]:
    """Decimate a long curve to the minimum and maximum of each segment, in order, so that every peak is preserved."""
    size = 2 * (len(values) // points)
    if size < 4:
        return time, values
    segmented_length = len(values) // size * size
    segments = values[:segmented_length].reshape(-1, size)
    filled = np.where(np.isnan(segments), np.inf, segments), np.where(np.isnan(segments), -np.inf, segments)
    extremes = np.sort(np.stack([filled[0].argmin(axis=1), filled[1].argmax(axis=1)], axis=1), axis=1)
    rows = np.unique(
        np.concatenate(
            [(extremes + size * np.arange(len(segments))[:, None]).ravel(), np.arange(segmented_length, len(values))]
        )
    )
    return time[rows], values[rows]


def legend_above(axes: Axes, columns: int) -> None:
    """Place the legend on the line of the title, away from the curves."""
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.99), ncols=columns, borderaxespad=0.2, handlelength=1.5)


def mark_events(axes: Axes, marks: Sequence[Mark], time_range: tuple[float, float], *, named: bool) -> None:
    """Draw a line at every event; with `named`, label them at the lower edge: 1, 2–4, …"""
    for mark in marks:
        axes.axvline(mark.time, color=INK, linewidth=0.8, alpha=0.35)
    if not named:
        return
    groups: list[list[Mark]] = []
    for mark in sorted(marks, key=lambda event: event.time):
        if groups and mark.time - groups[-1][0].time < MIN_EVENT_SPACING * (time_range[1] - time_range[0]):
            groups[-1].append(mark)
        else:
            groups.append([mark])
    for group in groups:
        text = "–".join(dict.fromkeys(str(mark.number) for mark in (group[0], group[-1])))
        box = {"boxstyle": "round,pad=0.25,rounding_size=0.7", "facecolor": PAPER, "edgecolor": INK, "linewidth": 0.6}
        transform = axes.get_xaxis_transform()
        axes.text(
            group[0].time,
            0.0,
            text,
            None,
            transform=transform,
            fontsize=6.5,
            ha="center",
            va="center",
            zorder=5,
            bbox=box,
        )


def describe_events(marks: Sequence[Mark], width: float) -> list[str]:
    """Describe the numbered events in lines of a width in inches."""
    descriptions = [f"{mark.number}: {mark.text}, {mark.time:.2f} s" for mark in marks[:MAX_EVENT_LABELS]]
    descriptions += [f"and {len(marks) - MAX_EVENT_LABELS} more"] if len(marks) > MAX_EVENT_LABELS else []
    lines: list[str] = []
    for description in (
        f"{description[:120]}…" if len(description) > 120 else description for description in descriptions
    ):
        if lines and len(lines[-1]) + len(description) + 5 <= LETTERS_PER_INCH * width:
            lines[-1] += f"     {description}"
        else:
            lines.append(description)
    return lines


def write_events(figure: Figure, lines: Sequence[str], x: float, y: float, step: float) -> None:
    """Write lines above each other, the last at `y`; coordinates are fractions of the figure."""
    for k, line in enumerate(reversed(lines)):
        figure.text(x, y + k * step, escape_text(line), fontsize=7.5, style="italic", ha="left", va="bottom")


# Paths ------------------------------------------------------------------------------------------------------------------


def draw_paths(
    figure: Figure, rectangle: tuple[float, float, float, float], flights: Sequence[LabelledRecord], spread: float = 0.0
) -> Axes3D:
    """Draw paths in space over their projection on the ground, with body axes for up to three flights, in a rectangle.

    Matplotlib draws into a square, of which a flat box fills only the middle; `spread` extends the axes beyond the rectangle.
    """
    left, bottom, width, height = rectangle
    axes: Axes3D = figure.add_axes((left, bottom - spread, width, height + 2.0 * spread), projection="3d")
    axes.patch.set_visible(False)
    individual = len(flights) <= MAX_INDIVIDUAL_FLIGHTS
    corners = bounding_box([track.position for _, track in flights])
    for k, (label, track) in enumerate(flights):
        colour, p = COLOURS[k % len(COLOURS)], track.position[:: max(1, len(track.time) // 2000)]
        if individual:
            if "reference" in track.tables:
                reference = _mask_outside(track.reference_position[:: max(1, len(track.time) // 2000)], corners)
                reference_label = "reference" if k == 0 else None
                axes.plot(*reference.T, label=reference_label, color=INK, linestyle=DASHES, linewidth=1.0)
            axes.plot(p[:, 0], p[:, 1], np.full(len(p), corners[0][2]), color=INK, alpha=0.2, linewidth=1.0)
            if len(flights) <= 3 and has_data("attitude", track):
                _draw_frames(axes, track, 0.07 * float((corners[1] - corners[0]).max()))
        axes.plot(
            *p.T, color=colour, linewidth=1.8 if individual else 0.8, label=escape_text(label) if individual else None
        )
    axes.set(xlabel="x east [m]", ylabel="y north [m]", zlabel="z up [m]")
    axes.set(
        xlim=(corners[0][0], corners[1][0]), ylim=(corners[0][1], corners[1][1]), zlim=(corners[0][2], corners[1][2])
    )
    size = corners[1] - corners[0]
    flat = float(size[2] / size[:2].max())  # a flat box appears wider, and its labels are beside it
    axes.set_box_aspect(tuple(size), zoom=1.0 if flat >= 1.0 else 0.88 - 0.3 * max(0.0, flat - 0.4) * (spread > 0.0))
    for axis, length in zip("xyz", size, strict=True):
        axes.locator_params(axis=axis, nbins=max(2, round(6 * float(length / size.max()))))
    axes.view_init(elev=18.0, azim=-62.0)
    title = "Path, with body axes" if len(flights) <= 3 else f"Paths of {len(flights)} drones"
    figure.text(left, bottom + height, title, fontsize=11, fontweight="bold", color=INK, va="bottom")
    if individual:
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(handles, labels, loc="upper left", bbox_to_anchor=(left - 0.008, bottom + height), ncols=4)
    return axes


def is_flat(flights: Sequence[LabelledRecord]) -> bool:
    """Whether the box around the paths is much wider than high."""
    low, high = bounding_box([track.position for _, track in flights])
    return bool((high - low)[2] < 0.7 * (high - low)[:2].max())


def bounding_box(paths: Sequence[Array]) -> tuple[Array, Array]:
    """Return the lower and upper corner of a box around paths; the box stands on the ground if that is near."""
    points = np.concatenate(paths)
    low, high = points.min(axis=0), points.max(axis=0)
    max_size = max(float((high - low).max()), MIN_BOX_SIZE)
    half = np.maximum(0.55 * (high - low), (0.3 * max_size, 0.3 * max_size, 0.2 * max_size))
    middle = 0.5 * (low + high)
    low, high = middle - half, middle + half
    if abs(low[2]) < 0.4 * max_size:
        low[2], high[2] = min(0.0, float(points[:, 2].min())), max(float(high[2]), 0.4 * max_size)
    return low, high


def _mask_outside(path: Array, corners: tuple[Array, Array]) -> Array:
    """Replace points outside the box by NaN, because Matplotlib would draw them."""
    outside = ((path < corners[0]) | (path > corners[1])).any(axis=1, keepdims=True)
    return np.where(outside, np.nan, path)


def _draw_frames(axes: Axes3D, track: DroneRecord, size: float) -> None:
    from mpl_toolkits.mplot3d.art3d import Line3DCollection  # type: ignore[import-untyped]

    rows = np.arange(0, len(track.time), max(1, len(track.time) // BODY_FRAME_COUNT))
    positions, q_WB = track.position[rows], Quat(*track.attitude[rows].T)
    for k, axis in enumerate((Vec3(1.0, 0.0, 0.0), Vec3(0.0, 1.0, 0.0), Vec3(0.0, 0.0, 1.0))):
        directions = np.stack(np.broadcast_arrays(*rotate(q_WB, axis)), axis=1)
        lines = np.stack([positions, positions + size * directions], axis=1)
        axes.add_collection(Line3DCollection(lines, colors=COLOURS[k], linewidths=1.3))


def draw_top(axes: Axes, flights: Sequence[LabelledRecord], world: World | None = None, *, legend: bool = True) -> None:
    """Draw paths from above, north up, with references, start and end points, heading arrows and the mean wind."""
    individual = len(flights) <= MAX_INDIVIDUAL_FLIGHTS
    points = np.concatenate([track.position[:, :2] for _, track in flights])
    size = max(float(np.ptp(points, axis=0).max()), 1.0)
    for k, (label, track) in enumerate(flights):
        colour, p = COLOURS[k % len(COLOURS)], track.position
        if individual:
            if "reference" in track.tables:
                reference = track.reference_position
                reference_label = "reference" if k == 0 else None
                axes.plot(
                    reference[:, 0], reference[:, 1], color=INK, linestyle=DASHES, linewidth=1.0, label=reference_label
                )
            if has_data("attitude", track):
                rows = np.arange(0, len(p), max(1, len(p) // BODY_FRAME_COUNT))
                nose = np.stack([np.cos(track.euler[rows, 2]), np.sin(track.euler[rows, 2])])
                axes.quiver(*p[rows, :2].T, *nose, color=colour, width=0.003, scale=28, headwidth=4, zorder=3)
        axes.plot(
            p[:, 0],
            p[:, 1],
            color=colour,
            linewidth=1.6 if individual else 0.7,
            label=escape_text(label) if individual else None,
        )
        axes.plot(*p[0, :2], "o", color=colour, markersize=6 if individual else 2.5, markerfacecolor="white", zorder=4)
        axes.plot(*p[-1, :2], "s", color=colour, markersize=6 if individual else 2.5, markeredgecolor="white", zorder=4)
    axes.plot([], [], "o", color=INK, markerfacecolor="white", label="start")
    axes.plot([], [], "s", color=INK, markersize=5, label="end")
    _draw_mean_wind(axes, flights[0].track)
    if world is not None:
        _draw_solids(axes, world)
    title = "From above, arrows along the nose" if individual else "From above"
    axes.set(xlabel="x east [m]", ylabel="y north [m]", title=title)
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.08 if size > 1.0 else 0.4)
    if legend:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _draw_solids(axes: Axes, world: World) -> None:
    """Draw obstacles from above with their names; a height map by its contour lines."""
    for name, solid, colour in drawable_solids(world):
        if isinstance(solid, HeightMap):
            lines = axes.contour(solid.x, solid.y, solid.z.T, levels=6, colors=CONTOUR_COLOUR, linewidths=0.8, zorder=1)
            axes.clabel(lines, fontsize=6, fmt="%.1f m")
        elif (shape := outline(solid)) is not None:
            axes.fill(*shape.T, facecolor=colour, edgecolor=INK, linewidth=0.6, alpha=0.6, zorder=1.5)
            if len(world.obstacles) <= MAX_INDIVIDUAL_FLIGHTS:
                axes.annotate(escape_text(name), shape.mean(axis=0), fontsize=7, ha="center", va="center", zorder=5)


def _draw_mean_wind(axes: Axes, track: DroneRecord) -> None:
    if not track.is_simulated:
        return
    mean = np.asarray(track.metrics.wind_W.mean)
    speed = float(np.hypot(mean[0], mean[1]))
    if speed < 0.05:
        return
    tip = 0.055 * mean[:2] / speed
    arrow = {"arrowstyle": "-|>", "color": COLOURS[5], "linewidth": 2.5}
    start, end = (0.08 - tip[0], 0.1 - tip[1]), (0.08 + tip[0], 0.1 + tip[1])
    axes.annotate("", end, xytext=start, xycoords="axes fraction", arrowprops=arrow)
    axes.text(0.08, 0.025, f"wind {speed:.1f} m/s", transform=axes.transAxes, ha="center", fontsize=8, color=COLOURS[5])


__all__ = ["ALL_SUBJECTS", "LabelledRecord", "available_subjects", "draw", "draw_all", "subject_figure"]


WIDTH, HEIGHT = 13.0, 8.0  # [in]
OVERVIEW_PANELS = 3
TEXT_LINE_HEIGHT = 0.16  # [in]: height of a line of event descriptions


def plot_run(run: Run, subject: str | Path | None, path: str | Path | None) -> DetachedFigure | Path:
    """Implement `Run.plot`: the overview, or one subject such as "attitude"; `subject` may also be the file of the
    overview."""
    if subject is not None and str(subject).lower().endswith(tuple(f".{name}" for name in FORMATS)):
        return draw_run(run, subject)
    figure = overview(run) if subject is None else run_figure(run, require_subject(str(subject)))
    return figure if path is None else save(figure, path)


def draw_run(run: Run, path: str | Path) -> Path:
    """Draw the overview of a run to a file (.png, .svg or .pdf) and return its path."""
    return save(overview(run), path)


def overview(run: Run) -> DetachedFigure:
    """Create the overview: position, attitude and motors of one drone, or height, error and motors of several; and paths."""
    flights, marks = run_flights(run), event_marks(run)
    names = [flight.label for flight in flights]
    descriptions = describe_events(marks, 0.5 * WIDTH)
    bottom = (0.5 + TEXT_LINE_HEIGHT * len(descriptions)) / HEIGHT
    step = (0.985 - bottom) / 3.0
    time = run.drone_records[0].time
    time_range = float(time[0]), float(max(time[-1], time[0] + 1e-3))
    with samara_style() as plt:
        figure = plt.figure(figsize=(WIDTH, HEIGHT))
        panels, with_path = _overview_panels(flights), flights_with("path", flights)
        step *= 3.0 / len(panels)
        width = 0.485 if with_path else 0.93
        rectangles = [(0.055, bottom + (len(panels) - 1 - k) * step, width, step - 0.06) for k in range(len(panels))]
        first = _draw_stack(figure, panels, names, rectangles, marks, time_range)
        if 1 < len(names) <= MAX_INDIVIDUAL_FLIGHTS:
            for number, name in enumerate(names):
                first.plot([], [], color=COLOURS[number], label=escape_text(name))
            legend_above(first, len(names))
        write_events(figure, descriptions, 0.055, 0.06 / HEIGHT, TEXT_LINE_HEIGHT / HEIGHT)
        if not with_path:
            pass
        elif is_flat(flights):  # the free space shows the paths from above
            draw_paths(figure, (0.555, 0.42, 0.41, 0.505), flights, spread=0.1)
            top = figure.add_axes((0.605, 0.065, 0.37, 0.345))
            draw_top(top, flights, recorded_world(run.attachments), legend=False)
            if len(flights) == 1:
                draw_spheres(top, recorded_spheres(run), flights[0].track)
        else:
            draw_paths(figure, (0.56, 0.02, 0.43, 0.905), flights)
        first_record = run.drone_records[0]
        suffix = f" and {len(names) - 1} more" if len(names) > 1 else ""
        title = f"{run.scenario} · {first_record.vehicle.name}{suffix} · {first_record.controller} control"
        if not run.is_simulated:
            title = f"{run.scenario} · {run.metadata['description']}"
        figure.suptitle(escape_text(title), fontweight="bold", color=INK, y=0.985)
        return figure


def _overview_panels(flights: list[LabelledRecord]) -> list[Panel]:
    """Return position, attitude and motors; for several drones the distinguishable curves: height, error and motors."""
    if len(flights) == 1:
        subjects = [name for name in ("position", "attitude", "rates", "motors") if flights_with(name, flights)]
        if len(subjects) > OVERVIEW_PANELS:
            subjects.remove("rates")
        return [subject_panels(subject, flights)[0] for subject in subjects]
    _, _, height, error, *_ = subject_panels("position", flights)
    return [height, error, subject_panels("motors", flights)[0]]
