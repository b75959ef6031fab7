"""Plots of a run by subject: curves of one drone, of several, or of a hundred; paths in space and from above.

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
from samara.record.run import Run, Track
from samara.scenario.meshes import CONTOUR, drawn, outline
from samara.scenario.world import World, world_inside
from samara.vehicles.shape import COLOURS, INK, PAPER
from samara.view.plot.signals import (
    RECORDED,
    ROUGHLY,
    SEVERAL,
    SUBJECTS,
    Signal,
    hardly_moves,
    in_handy_unit,
    position_off,
)
from samara.view.plot.style import DASHES, FORMATS, Drawing, Picture, plain, samara_style, save
from samara.world.obstacles import HeightMap

PICTURES = ("path", "top")
EVERY = (*SUBJECTS, *PICTURES)

FEW = 8  # more drones than this are drawn as a crowd: thin lines, the median, and the one farthest from it
FRAMES = 14  # body frames drawn along a path
MOST_MARKS = 200  # events that have a line: more would be a grey wall
LABELS = 12  # events that are named under the panels
CLOSEST = 0.05  # of the axis: events nearer than this share a number
LETTERS = 15.5  # of an event's name in an inch
LEAST_SPAN = {"m": 0.02, "cm": 0.1, "mm": 1.0, "m/s": 0.05, "°": 1.0, "°/s": 2.0, "rad/s": 20.0, "1": 0.02} | {
    "V": 0.1, "A": 0.5, "%": 1.0, "N": 0.01, "N m": 1e-4
}  # fmt: skip
"""A panel shows at least so much of a unit: what is smaller is rounding, and looks like a straight line."""
NEAR_LIMIT = 0.15  # of the range of a motor: a limit is in the picture when a curve comes so near
SMALLEST_BOX = 0.2  # [m]: the frame of a path that hardly leaves its place
POINTS = 4000  # of a curve: more than a picture shows
WIDTH, ROW, PAIR = 10.0, 2.2, 1.75  # [in] of a figure, of a panel, and of one among several for many drones
LEFT, RIGHT, TOP, GAP, BOTTOM = 0.78, 0.15, 0.75, 0.42, 0.5  # [in] around and between panels


class Flight(NamedTuple):
    """A track and what it is called in a picture."""

    label: str
    track: Track


class Mark(NamedTuple):
    """Something that happened, at a time [s], and its number in the flight's log."""

    number: int
    time: float
    text: str


class Panel(NamedTuple):
    """One pair of axes: a title, and for each flight its signal; a single flight may have several curves."""

    title: str
    signals: tuple[tuple[str, Signal], ...]


def flights_of(run: Run) -> list[Flight]:
    """All drones of a run by their names"""
    return [Flight(track.name, track) for track in run.tracks]


def marks_of(run: Run) -> list[Mark]:
    """What happened on the way"""
    end = float(run.tracks[0].time[-1])
    marks = (Mark(number, line.time_us / 1e6, line.message) for number, line in enumerate(run.logs, start=1))
    return list(islice((mark for mark in marks if 0.0 < mark.time < end), MOST_MARKS))


def available(flights: Sequence[Flight]) -> list[str]:
    """The subjects these flights have something to show of"""
    return [what for what in EVERY if what not in RECORDED or any(RECORDED[what](track) for _, track in flights)]


def require_subject(what: str) -> str:
    """The subject; ValueError where there is none of that name"""
    if what not in EVERY:
        raise ValueError(f"no plot {what!r}; expected one of {', '.join(EVERY)}")
    return what


def draw(run: Run, what: str, path: str | Path) -> Path:
    """Write one subject of a run to a file: .png, .svg or .pdf."""
    return save(run_figure(run, what), path)


def run_figure(run: Run, what: str) -> Picture:
    """The figure of one subject of a run."""
    figure = figure_of(what, flights_of(run), marks_of(run), run.scenario, world=world_inside(run.attachments))
    if figure is None:
        raise ValueError(
            f"{run.scenario}: nothing was recorded of {what!r}; there is {', '.join(available(flights_of(run)))}"
        )
    return figure


def draw_all(run: Run, folder: str | Path, what: Sequence[str] = ()) -> list[Path]:
    """One PNG for each subject, all that there is something of by default; their paths"""
    wanted = [require_subject(own) for own in what] or available(flights_of(run))
    return [draw(run, own, Path(folder) / f"{own}.png") for own in wanted]


def figure_of(
    what: str,
    flights: Sequence[Flight],
    marks: Sequence[Mark] = (),
    title: str = "",
    width: float = WIDTH,
    world: World | None = None,
) -> Picture | None:
    """The figure of one subject, so wide [in]; None where the flights have nothing to show of it"""
    require_subject(what)
    with samara_style() as plt:
        if what == "path":
            figure = plt.figure(figsize=(0.8 * width, 0.7 * width))
            draw_paths(figure, (0.02, 0.03, 0.94, 0.9), flights)
        elif what == "top":
            figure = plt.figure(figsize=(width, 0.66 * width))
            draw_top(figure.add_axes((LEFT / width, 0.09, 1.0 - (LEFT + 1.35) / width, 0.8)), flights, world)
        else:
            panels = panels_of(what, flights)
            if not panels:
                return None
            figure = _stacked(plt, panels, marks, "frequency" if what == "spectra" else "time", width)
        if title:
            place = {"x": 0.02, "y": 0.995, "ha": "left", "va": "top"}
            figure.suptitle(plain(title), fontweight="bold", color=INK, fontsize=11, **place)
        return figure


# Curves -----------------------------------------------------------------------------------------------------------------


def panels_of(what: str, flights: Sequence[Flight]) -> list[Panel]:
    """One flight: a panel for each signal with all its curves. Several: a panel for each curve with all the flights."""
    if len(flights) == 1:
        label, track = flights[0]
        signals = SUBJECTS[what](track)
        if what == "position":
            moved, error = signals
            signals = [position_off(track) if hardly_moves(track) else moved, in_handy_unit(error)]
        return [Panel(own.title, ((label, own),)) for own in signals]
    panels: dict[str, list[tuple[str, Signal]]] = {}
    subject = (SEVERAL if len(flights) <= FEW else ROUGHLY)[what]
    for label, track in flights:
        for signal in subject(track):
            for own in signal.components():
                panels.setdefault(own.title, []).append((label, own))
    return [Panel(title, tuple(own)) for title, own in panels.items()]


def _stacked(plt: Drawing, panels: Sequence[Panel], marks: Sequence[Mark], over: str, width: float) -> Picture:
    """Panels below each other on one axis. Sizes are in inches, so that a figure of many is as readable as one of two."""
    names = list(dict.fromkeys(label for panel in panels for label, _ in panel.signals))
    legend = 0.3 if 1 < len(names) <= FEW else 0.0
    row = ROW if len(panels) <= 3 else PAIR
    words = event_words(marks, width - LEFT - RIGHT) if over == "time" else []
    below = BOTTOM + 0.16 * len(words)
    height = TOP + legend + len(panels) * row + (len(panels) - 1) * GAP + below
    figure = plt.figure(figsize=(width, height))
    times = [end for panel in panels for _, signal in panel.signals for end in (signal.time[0], signal.time[-1])]
    ends = float(min(times)), float(max(max(times), min(times) + 1e-3))
    size = (1.0 - (LEFT + RIGHT) / width, row / height)
    bottoms = [below + (len(panels) - 1 - k) * (row + GAP) for k in range(len(panels))]
    places = [(LEFT / width, bottom / height, *size) for bottom in bottoms]
    _draw_stack(figure, panels, names, places, marks, ends, over)
    write_events(figure, words, LEFT / width, 0.06 / height, 0.16 / height)
    if legend:
        handles = [Line2D([], [], color=COLOURS[k], label=plain(name), linewidth=2.0) for k, name in enumerate(names)]
        anchor = (LEFT / width - 0.01, 1.0 - 0.3 / height)
        figure.legend(handles=handles, loc="upper left", bbox_to_anchor=anchor, ncols=len(names))
    return figure


def _draw_stack(
    figure: Figure,
    panels: Sequence[Panel],
    names: Sequence[str],
    places: Sequence[tuple[float, float, float, float]],
    marks: Sequence[Mark],
    ends: tuple[float, float],
    over: str = "time",
) -> Axes:
    """Draw panels below each other on one axis of time or frequency; return the first."""
    first = None
    for k, (panel, place) in enumerate(zip(panels, places, strict=True)):
        axes = figure.add_axes(place, sharex=first)
        first = first or axes
        draw_panel(axes, panel, names, framed=over == "time")
        if over == "time":
            mark_events(axes, marks, ends, named=k == 0)
        else:
            axes.set(xscale="log", yscale="log")
            axes.yaxis.set_minor_formatter(NullFormatter())
        axes.tick_params(labelbottom=k == len(panels) - 1)
    assert first is not None
    axes.set_xlabel("time [s]" if over == "time" else "frequency [Hz]")
    first.set_xlim(*ends)
    return first


def draw_panel(axes: Axes, panel: Panel, names: Sequence[str], *, framed: bool = True) -> None:
    """The curves of one flight in the colours of their components, or of several flights in their own"""
    signals = panel.signals
    axes.set_title(panel.title, y=1.0)  # a place of its own: finding one takes a third of the drawing
    axes.set_ylabel(f"[{signals[0][1].unit}]")
    if len(names) == 1:
        _draw_components(axes, signals[0][1])
    elif len(names) <= FEW:
        for label, own in signals:
            colour = COLOURS[names.index(label)]
            axes.plot(*thinned(own.time, own.values[:, 0]), color=colour, linewidth=1.3)
            _draw_around(axes, own, 0, colour)
    else:
        _draw_crowd(axes, signals)
    own_signals = [own for _, own in signals]
    ends = span_of(own_signals)
    if framed and ends is not None:
        axes.set_ylim(*ends)
        _draw_limits(axes, own_signals, ends)


def span_of(signals: Sequence[Signal]) -> tuple[float, float] | None:
    """The least and the largest of all curves with a margin, and no less between them than a reader should see"""
    shown = []
    for own in signals:
        rows = slice(None) if own.weighed is None else own.weighed
        shown.append(own.values[rows])
        shown += [] if own.asked is None else [own.asked[1]]
        shown += [] if own.band is None else [own.band[rows], -own.band[rows]]
    finite = [own[np.isfinite(own)] for own in shown]
    if not any(own.size for own in finite):
        return None
    low = min(float(own.min()) for own in finite if own.size)
    high = max(float(own.max()) for own in finite if own.size)
    for limits in {own.limits for own in signals if own.limits is not None}:
        near = NEAR_LIMIT * (limits.high - limits.low)
        low = min(low, limits.low) if low - limits.low < near else low
        high = max(high, limits.high) if limits.high - high < near else high
    least = max(LEAST_SPAN.get(signals[0].unit, 0.0), 1e-9 * max(abs(low), abs(high)), 1e-12)
    middle, half = 0.5 * (low + high), 0.5 * max(high - low, least)
    return middle - 1.08 * half, middle + 1.08 * half


def _draw_components(axes: Axes, own: Signal) -> None:
    width, alpha = (0.8, 0.85) if own.alike else (1.4, None)
    for k, name in enumerate(own.names):
        colour = COLOURS[k % len(COLOURS)]
        axes.plot(*thinned(own.time, own.values[:, k]), color=colour, label=name, linewidth=width, alpha=alpha)
        _draw_around(axes, own, k, colour)
    columns = len(own.names)
    if own.asked is not None:
        axes.plot([], [], color=INK, linestyle=DASHES, linewidth=1.0, label="asked")
        columns += 1
    if own.band is not None:
        axes.fill_between([], [], [], color=INK, alpha=0.15, label="±3σ")
        columns += 1
    if columns > 1:
        legend_above(axes, columns)


def _draw_around(axes: Axes, own: Signal, k: int, colour: str) -> None:
    if own.asked is not None:
        time, values = own.asked
        axes.plot(*thinned(time, values[:, k]), color=colour, linestyle=DASHES, linewidth=1.0, alpha=0.85)
    if own.band is not None:
        time, edge = thinned(own.time, own.band[:, k])
        axes.fill_between(time, -edge, edge, color=colour, alpha=0.12, linewidth=0)


def _draw_crowd(axes: Axes, signals: Sequence[tuple[str, Signal]]) -> None:
    """Every drone a thin line, the median of all, and by name the drone that is ever farthest from it"""
    crowd = crowd_of(signals)
    if crowd is None:
        return
    time, values = crowd.time, crowd.values
    for own in values:
        axes.plot(*thinned(time, own), color=COLOURS[0], alpha=max(0.08, min(0.5, 8.0 / len(values))), linewidth=0.7)
    farthest = f"farthest: {plain(signals[crowd.farthest][0])}"
    axes.plot(*thinned(time, values[crowd.farthest]), color=COLOURS[1], linewidth=1.2, label=farthest)
    axes.plot(*thinned(time, crowd.median), color=INK, linewidth=1.6, label=f"median of {len(values)}")
    legend_above(axes, 2)


class Crowd(NamedTuple):
    """Curves of many flights at common times, (flights, times), their median, and the flight ever farthest from it."""

    time: Array
    values: Array
    median: Array
    farthest: int


def crowd_of(signals: Sequence[tuple[str, Signal]]) -> Crowd | None:
    """The curves at the times of the first at which some are known; None if there is no such time."""
    time = signals[0][1].time
    values = np.stack([np.interp(time, signal.time, signal.values[:, 0]) for _, signal in signals])
    known = np.isfinite(values).any(axis=0)
    if not known.any():
        return None
    values = values[:, known]
    median = np.nanmedian(values, axis=0)
    farthest = int(np.nan_to_num(np.abs(values - median)).max(axis=1).argmax())
    return Crowd(time[known], values, median, farthest)


def _draw_limits(axes: Axes, signals: Sequence[Signal], ends: tuple[float, float]) -> None:
    """Lines at the least and the most the motors can do, where they are in the picture"""
    for name, value in sorted({own for signal in signals if signal.limits for own in signal.limits._asdict().items()}):
        if not ends[0] <= value <= ends[1]:
            continue
        axes.axhline(value, color=INK, linestyle="-.", linewidth=0.9, alpha=0.8)
        below = name == "high"
        text, offset, side = ("most", (-3, -2), "top") if below else ("least", (-3, 2), "bottom")
        place = ((1.0, value), offset, axes.get_yaxis_transform(), "offset points")
        axes.annotate(text, *place, ha="right", va=side, fontsize=7, style="italic")


def thinned(time: Array, values: Array, points: int = POINTS) -> tuple[Array, Array]:
    """Of a long curve the least and the largest value of each piece, in their order: nothing that sticks out is lost"""
    size = 2 * (len(values) // points)
    if size < 4:
        return time, values
    whole = len(values) // size * size
    pieces = values[:whole].reshape(-1, size)
    filled = np.where(np.isnan(pieces), np.inf, pieces), np.where(np.isnan(pieces), -np.inf, pieces)
    ends = np.sort(np.stack([filled[0].argmin(axis=1), filled[1].argmax(axis=1)], axis=1), axis=1)
    rows = np.unique(
        np.concatenate([(ends + size * np.arange(len(pieces))[:, None]).ravel(), np.arange(whole, len(values))])
    )
    return time[rows], values[rows]


def legend_above(axes: Axes, columns: int) -> None:
    """On the line of the title, where no curve can run through it."""
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.99), ncols=columns, borderaxespad=0.2, handlelength=1.5)


def mark_events(axes: Axes, marks: Sequence[Mark], ends: tuple[float, float], *, named: bool) -> None:
    """A line for everything that happened; on the lower edge their numbers, off every curve: 1, 2–4, …"""
    for mark in marks:
        axes.axvline(mark.time, color=INK, linewidth=0.8, alpha=0.35)
    if not named:
        return
    groups: list[list[Mark]] = []
    for mark in sorted(marks, key=lambda own: own.time):
        if groups and mark.time - groups[-1][0].time < CLOSEST * (ends[1] - ends[0]):
            groups[-1].append(mark)
        else:
            groups.append([mark])
    for group in groups:
        text = "–".join(dict.fromkeys(str(mark.number) for mark in (group[0], group[-1])))
        box = {"boxstyle": "round,pad=0.25,rounding_size=0.7", "facecolor": PAPER, "edgecolor": INK, "linewidth": 0.6}
        where = axes.get_xaxis_transform()
        axes.text(
            group[0].time, 0.0, text, None, transform=where, fontsize=6.5, ha="center", va="center", zorder=5, bbox=box
        )


def event_words(marks: Sequence[Mark], width: float) -> list[str]:
    """What the numbers mean, in lines so wide [in]"""
    told = [f"{mark.number}: {mark.text}, {mark.time:.2f} s" for mark in marks[:LABELS]]
    told += [f"and {len(marks) - LABELS} more"] if len(marks) > LABELS else []
    lines: list[str] = []
    for own in (f"{own[:120]}…" if len(own) > 120 else own for own in told):
        if lines and len(lines[-1]) + len(own) + 5 <= LETTERS * width:
            lines[-1] += f"     {own}"
        else:
            lines.append(own)
    return lines


def write_events(figure: Figure, lines: Sequence[str], x: float, y: float, step: float) -> None:
    """The lines above each other, the last at y; in shares of the figure"""
    for k, own in enumerate(reversed(lines)):
        figure.text(x, y + k * step, plain(own), fontsize=7.5, style="italic", ha="left", va="bottom")


# Paths ------------------------------------------------------------------------------------------------------------------


def draw_paths(
    figure: Figure, place: tuple[float, float, float, float], flights: Sequence[Flight], spread: float = 0.0
) -> Axes3D:
    """Paths in space over their shadows, with body axes where there is room for them, in a place of a figure

    Matplotlib draws in a square, of which a flat box fills only the middle: it may be higher than its place, by `spread`.
    """
    left, below, wide, high = place
    axes: Axes3D = figure.add_axes((left, below - spread, wide, high + 2.0 * spread), projection="3d")
    axes.patch.set_visible(False)
    few = len(flights) <= FEW
    ends = framed([track.position for _, track in flights])
    for k, (label, track) in enumerate(flights):
        colour, p = COLOURS[k % len(COLOURS)], track.position[:: max(1, len(track.time) // 2000)]
        if few:
            asked = _within(track.reference_position[:: max(1, len(track.time) // 2000)], ends)
            axes.plot(*asked.T, label="reference" if k == 0 else None, color=INK, linestyle=DASHES, linewidth=1.0)
            axes.plot(p[:, 0], p[:, 1], np.full(len(p), ends[0][2]), color=INK, alpha=0.2, linewidth=1.0)
            if len(flights) <= 3:
                _draw_frames(axes, track, 0.07 * float((ends[1] - ends[0]).max()))
        axes.plot(*p.T, color=colour, linewidth=1.8 if few else 0.8, label=plain(label) if few else None)
    axes.set(xlabel="x east [m]", ylabel="y north [m]", zlabel="z up [m]")
    axes.set(xlim=(ends[0][0], ends[1][0]), ylim=(ends[0][1], ends[1][1]), zlim=(ends[0][2], ends[1][2]))
    size = ends[1] - ends[0]
    flat = float(size[2] / size[:2].max())  # a flat box looks wider, and its labels stand beside it
    axes.set_box_aspect(tuple(size), zoom=1.0 if flat >= 1.0 else 0.88 - 0.3 * max(0.0, flat - 0.4) * (spread > 0.0))
    for axis, length in zip("xyz", size, strict=True):
        axes.locator_params(axis=axis, nbins=max(2, round(6 * float(length / size.max()))))
    axes.view_init(elev=18.0, azim=-62.0)
    title = "Path, with body axes" if len(flights) <= 3 else f"Paths of {len(flights)} drones"
    figure.text(left, below + high, title, fontsize=11, fontweight="bold", color=INK, va="bottom")
    if few:
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(handles, labels, loc="upper left", bbox_to_anchor=(left - 0.008, below + high), ncols=4)
    return axes


def is_flat(flights: Sequence[Flight]) -> bool:
    """Whether the box around the paths is much wider than high"""
    low, high = framed([track.position for _, track in flights])
    return bool((high - low)[2] < 0.7 * (high - low)[:2].max())


def framed(paths: Sequence[Array]) -> tuple[Array, Array]:
    """The least and the largest corner of a box around paths; it stands on the ground where that is near"""
    points = np.concatenate(paths)
    low, high = points.min(axis=0), points.max(axis=0)
    largest = max(float((high - low).max()), SMALLEST_BOX)
    half = np.maximum(0.55 * (high - low), (0.3 * largest, 0.3 * largest, 0.2 * largest))
    middle = 0.5 * (low + high)
    low, high = middle - half, middle + half
    if abs(low[2]) < 0.4 * largest:
        low[2], high[2] = min(0.0, float(points[:, 2].min())), max(float(high[2]), 0.4 * largest)
    return low, high


def _within(path: Array, ends: tuple[Array, Array]) -> Array:
    """The path, with gaps where it is outside the box: Matplotlib would draw it there."""
    outside = ((path < ends[0]) | (path > ends[1])).any(axis=1, keepdims=True)
    return np.where(outside, np.nan, path)


def _draw_frames(axes: Axes3D, track: Track, size: float) -> None:
    from mpl_toolkits.mplot3d.art3d import Line3DCollection  # type: ignore[import-untyped]

    rows = np.arange(0, len(track.time), max(1, len(track.time) // FRAMES))
    here, q_WB = track.position[rows], Quat(*track.attitude[rows].T)
    for k, axis in enumerate((Vec3(1.0, 0.0, 0.0), Vec3(0.0, 1.0, 0.0), Vec3(0.0, 0.0, 1.0))):
        along = np.stack(np.broadcast_arrays(*rotate(q_WB, axis)), axis=1)
        lines = np.stack([here, here + size * along], axis=1)
        axes.add_collection(Line3DCollection(lines, colors=COLOURS[k], linewidths=1.3))


def draw_top(axes: Axes, flights: Sequence[Flight], world: World | None = None, *, legend: bool = True) -> None:
    """From above, north up: paths with the reference, where they begin and end, which way the nose points, and the wind"""
    few = len(flights) <= FEW
    points = np.concatenate([track.position[:, :2] for _, track in flights])
    size = max(float(np.ptp(points, axis=0).max()), 1.0)
    for k, (label, track) in enumerate(flights):
        colour, p = COLOURS[k % len(COLOURS)], track.position
        if few:
            asked = track.reference_position
            label_once = "reference" if k == 0 else None
            axes.plot(asked[:, 0], asked[:, 1], color=INK, linestyle=DASHES, linewidth=1.0, label=label_once)
            rows = np.arange(0, len(p), max(1, len(p) // FRAMES))
            nose = np.stack([np.cos(track.euler[rows, 2]), np.sin(track.euler[rows, 2])])
            axes.quiver(*p[rows, :2].T, *nose, color=colour, width=0.003, scale=28, headwidth=4, zorder=3)
        axes.plot(p[:, 0], p[:, 1], color=colour, linewidth=1.6 if few else 0.7, label=plain(label) if few else None)
        axes.plot(*p[0, :2], "o", color=colour, markersize=6 if few else 2.5, markerfacecolor="white", zorder=4)
        axes.plot(*p[-1, :2], "s", color=colour, markersize=6 if few else 2.5, markeredgecolor="white", zorder=4)
    axes.plot([], [], "o", color=INK, markerfacecolor="white", label="start")
    axes.plot([], [], "s", color=INK, markersize=5, label="end")
    _draw_mean_wind(axes, flights[0].track)
    if world is not None:
        _draw_solids(axes, world)
    title = "From above, arrows along the nose" if few else "From above"
    axes.set(xlabel="x east [m]", ylabel="y north [m]", title=title)
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.08 if size > 1.0 else 0.4)
    if legend:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _draw_solids(axes: Axes, world: World) -> None:
    """Solids as they are from above, with their names; of a height map the lines of equal height"""
    for name, solid, colour in drawn(world):
        if isinstance(solid, HeightMap):
            lines = axes.contour(solid.x, solid.y, solid.z.T, levels=6, colors=CONTOUR, linewidths=0.8, zorder=1)
            axes.clabel(lines, fontsize=6, fmt="%.1f m")
        elif (shape := outline(solid)) is not None:
            axes.fill(*shape.T, facecolor=colour, edgecolor=INK, linewidth=0.6, alpha=0.6, zorder=1.5)
            if len(world.solids) <= FEW:
                axes.annotate(plain(name), shape.mean(axis=0), fontsize=7, ha="center", va="center", zorder=5)


def _draw_mean_wind(axes: Axes, track: Track) -> None:
    mean = np.asarray(track.metrics.wind_W.mean)
    speed = float(np.hypot(mean[0], mean[1]))
    if speed < 0.05:
        return
    tip = 0.055 * mean[:2] / speed
    arrow = {"arrowstyle": "-|>", "color": COLOURS[5], "linewidth": 2.5}
    start, end = (0.08 - tip[0], 0.1 - tip[1]), (0.08 + tip[0], 0.1 + tip[1])
    axes.annotate("", end, xytext=start, xycoords="axes fraction", arrowprops=arrow)
    axes.text(0.08, 0.025, f"wind {speed:.1f} m/s", transform=axes.transAxes, ha="center", fontsize=8, color=COLOURS[5])


__all__ = ["EVERY", "Flight", "available", "draw", "draw_all", "figure_of"]


WIDTH, HEIGHT = 13.0, 8.0  # [in]
LINE = 0.16  # [in] of words about events


def plot_run(run: Run, what: str | Path | None, path: str | Path | None) -> Picture | Path:
    """`Run.plot`: the overview, or one subject such as "attitude"; `what` may be the file of the overview"""
    if what is not None and str(what).lower().endswith(tuple(f".{name}" for name in FORMATS)):
        return draw_run(run, what)
    figure = overview(run) if what is None else run_figure(run, require_subject(str(what)))
    return figure if path is None else save(figure, path)


def draw_run(run: Run, path: str | Path) -> Path:
    """Write the overview of a run to a file: .png, .svg or .pdf."""
    return save(overview(run), path)


def overview(run: Run) -> Picture:
    """Position, attitude and motors of one drone, or height, error and motors of several, and all paths in space."""
    flights, marks = flights_of(run), marks_of(run)
    names = [flight.label for flight in flights]
    words = event_words(marks, 0.5 * WIDTH)
    below = (0.5 + LINE * len(words)) / HEIGHT
    step = (0.985 - below) / 3.0
    time = run.tracks[0].time
    ends = float(time[0]), float(max(time[-1], time[0] + 1e-3))
    with samara_style() as plt:
        figure = plt.figure(figsize=(WIDTH, HEIGHT))
        places = [(0.055, below + (2 - k) * step, 0.485, step - 0.06) for k in range(3)]
        first = _draw_stack(figure, _panels(flights), names, places, marks, ends)
        if 1 < len(names) <= FEW:
            for number, name in enumerate(names):
                first.plot([], [], color=COLOURS[number], label=plain(name))
            legend_above(first, len(names))
        write_events(figure, words, 0.055, 0.06 / HEIGHT, LINE / HEIGHT)
        if is_flat(flights):  # what it leaves free shows it from above
            draw_paths(figure, (0.555, 0.42, 0.41, 0.505), flights, spread=0.1)
            draw_top(figure.add_axes((0.605, 0.065, 0.37, 0.345)), flights, world_inside(run.attachments), legend=False)
        else:
            draw_paths(figure, (0.56, 0.02, 0.43, 0.905), flights)
        own = run.tracks[0]
        others = f" and {len(names) - 1} more" if len(names) > 1 else ""
        title = f"{run.scenario} · {own.vehicle.name}{others} · {own.controller} control"
        figure.suptitle(plain(title), fontweight="bold", color=INK, y=0.985)
        return figure


def _panels(flights: list[Flight]) -> list[Panel]:
    """Position, attitude and rotor speeds (or thrust); of several drones what can be told apart: height, error, motors"""
    if len(flights) == 1:
        return [panels_of(what, flights)[0] for what in ("position", "attitude", "motors")]
    _, _, height, error, *_ = panels_of("position", flights)
    return [height, error, panels_of("motors", flights)[0]]
