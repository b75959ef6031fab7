"""Plots of a run by subject: curves of one drone, of several, or of a hundred; paths in space and from above.

draw(run, "attitude", "attitude.png")
draw_all(run, "folder")
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from samara.algebra import Quat, Vec3, rotate
from samara.files import written_whole
from samara.obstacles import HeightMap
from samara.sim.run import Run, Track
from samara.sim.world import World, world_inside
from samara.view.signals import RECORDED, ROUGHLY, SUBJECTS, Signal
from samara.view.solids import CONTOUR, drawn, outline
from samara.view.style import COLOURS, DASHES, INK, plain, samara_style

PICTURES = ("path", "top")
EVERY = (*SUBJECTS, *PICTURES)
FORMATS = ("png", "svg", "pdf")

FEW = 8  # more drones than this are drawn as a crowd: thin lines, the median, and the one farthest from it
FRAMES = 14  # body frames drawn along a path
LABEL = 26  # letters of an event's name that fit beside its line
LABELS = 8  # names of events that fit beside each other
CLOSEST = 0.02  # of the axis: names of events nearer than this would overlap
POINTS = 4000  # of a curve: more than a picture shows
WIDTH, ROW, PAIR = 10.0, 2.2, 1.75  # [in] of a figure, of a panel, and of one among several for many drones
LEFT, RIGHT, TOP, GAP, BOTTOM = 0.78, 0.15, 0.75, 0.42, 0.5  # [in] around and between panels


class Flight(NamedTuple):
    """A track and what it is called in a picture."""

    label: str
    track: Track


class Mark(NamedTuple):
    """Something that happened, at a time [s]."""

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
    return [Mark(line.time_us / 1e6, line.message) for line in run.logs if 0.0 < line.time_us / 1e6 < end]


def available(flights: Sequence[Flight]) -> list[str]:
    """The subjects these flights have something to show of"""
    return [what for what in EVERY if what not in RECORDED or any(RECORDED[what](track) for _, track in flights)]


def require_subject(what: str) -> str:
    """The subject; ValueError where there is none of that name"""
    if what not in EVERY:
        raise ValueError(f"no plot {what!r}; expected one of {', '.join(EVERY)}")
    return what


def draw(run: Run, what: str, path: str | Path | None = None) -> Any:
    """One subject of a run, to a file when given a path (.png, .svg, .pdf), else as a Matplotlib figure"""
    figure = figure_of(what, flights_of(run), marks_of(run), run.scenario, world=world_inside(run.attachments))
    if figure is None:
        raise ValueError(
            f"{run.scenario}: nothing was recorded of {what!r}; there is {', '.join(available(flights_of(run)))}"
        )
    return figure if path is None else save(figure, path)


def draw_all(run: Run, folder: str | Path, what: Sequence[str] = ()) -> list[Path]:
    """One PNG for each subject, all that there is something of unless told; their paths"""
    wanted = [require_subject(own) for own in what] or available(flights_of(run))
    return [draw(run, own, Path(folder) / f"{own}.png") for own in wanted]


def save(figure: Any, path: str | Path) -> Path:
    """The figure as a file of the kind its name says; closed afterwards"""
    kind = Path(path).suffix.removeprefix(".").lower()
    if kind not in FORMATS:
        raise ValueError(f"{path}: a picture is written as {', '.join('.' + own for own in FORMATS)}")
    with samara_style() as plt, written_whole(path) as temporary:
        figure.savefig(temporary, format=kind)
        plt.close(figure)
    return Path(path)


def figure_of(
    what: str,
    flights: Sequence[Flight],
    marks: Sequence[Mark] = (),
    title: str = "",
    width: float = WIDTH,
    world: World | None = None,
) -> Any:
    """The figure of one subject, so wide [in]; None where the flights have nothing to show of it"""
    require_subject(what)
    with samara_style() as plt:
        if what == "path":
            figure = plt.figure(figsize=(0.8 * width, 0.7 * width))
            draw_paths(figure.add_axes((0.02, 0.03, 0.9, 0.88), projection="3d"), flights)
        elif what == "top":
            figure = plt.figure(figsize=(width, 0.66 * width))
            draw_top(figure.add_axes((LEFT / width, 0.09, 1.0 - (LEFT + 1.35) / width, 0.8)), flights, world)
        else:
            panels = panels_of(what, flights)
            if not panels:
                return None
            figure = _stacked(plt, panels, marks, "frequency" if what == "spectra" else "time", width)
        if title:
            figure.suptitle(
                plain(title), fontweight="bold", color=INK, x=0.02, y=0.995, ha="left", va="top", fontsize=11
            )
        return figure


# Curves -----------------------------------------------------------------------------------------------------------------


def panels_of(what: str, flights: Sequence[Flight]) -> list[Panel]:
    """One flight: a panel for each signal with all its curves. Several: a panel for each curve with all the flights."""
    if len(flights) == 1:
        label, track = flights[0]
        return [Panel(own.title, ((label, own),)) for own in SUBJECTS[what](track)]
    panels: dict[str, list[tuple[str, Signal]]] = {}
    signals = (SUBJECTS if len(flights) <= FEW else ROUGHLY)[what]
    for label, track in flights:
        for signal in signals(track):
            for own in signal.components():
                panels.setdefault(own.title, []).append((label, own))
    return [Panel(title, tuple(own)) for title, own in panels.items()]


def _stacked(plt: Any, panels: Sequence[Panel], marks: Sequence[Mark], over: str, width: float) -> Any:
    """Panels below each other on one axis. Sizes are in inches, so that a figure of many is as readable as one of two."""
    names = list(dict.fromkeys(label for panel in panels for label, _ in panel.signals))
    legend = 0.3 if 1 < len(names) <= FEW else 0.0
    row = ROW if len(panels) <= 3 else PAIR
    height = TOP + legend + len(panels) * row + (len(panels) - 1) * GAP + BOTTOM
    figure = plt.figure(figsize=(width, height))
    first = None
    for k, panel in enumerate(panels):
        bottom = BOTTOM + (len(panels) - 1 - k) * (row + GAP)
        place = (LEFT / width, bottom / height, 1.0 - (LEFT + RIGHT) / width, row / height)
        axes = figure.add_axes(place, sharex=first)
        first = first or axes
        draw_panel(axes, panel, names)
        if over == "time":
            mark_events(axes, marks, named=k == 0)
        else:
            axes.set(xscale="log", yscale="log")
            axes.yaxis.set_minor_formatter(plt.NullFormatter())
        if k < len(panels) - 1:
            axes.tick_params(labelbottom=False)
        else:
            axes.set_xlabel("time [s]" if over == "time" else "frequency [Hz]")
    assert first is not None
    ends = [end for panel in panels for _, own in panel.signals for end in (own.time[0], own.time[-1])]
    first.set_xlim(min(ends), max(max(ends), min(ends) + 1e-3))
    if legend:
        handles = [
            plt.Line2D([], [], color=COLOURS[k], label=plain(name), linewidth=2.0) for k, name in enumerate(names)
        ]
        figure.legend(
            handles=handles,
            loc="upper left",
            bbox_to_anchor=(LEFT / width - 0.01, 1.0 - 0.3 / height),
            ncols=len(names),
        )
    return figure


def draw_panel(axes: Any, panel: Panel, names: Sequence[str]) -> None:
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
    _draw_limits(axes, [own for _, own in signals])


def _draw_components(axes: Any, own: Signal) -> None:
    look = {"linewidth": 0.8, "alpha": 0.85} if own.alike else {"linewidth": 1.4}
    for k, name in enumerate(own.names):
        colour = COLOURS[k % len(COLOURS)]
        axes.plot(*thinned(own.time, own.values[:, k]), color=colour, label=name, **look)
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


def _draw_around(axes: Any, own: Signal, k: int, colour: str) -> None:
    if own.asked is not None:
        time, values = own.asked
        axes.plot(*thinned(time, values[:, k]), color=colour, linestyle=DASHES, linewidth=1.0, alpha=0.85)
    if own.band is not None:
        time, edge = thinned(own.time, own.band[:, k])
        axes.fill_between(time, -edge, edge, color=colour, alpha=0.12, linewidth=0)


def _draw_crowd(axes: Any, signals: Sequence[tuple[str, Signal]]) -> None:
    """Every drone a thin line, the median of all, and by name the drone that is ever farthest from it"""
    time = signals[0][1].time
    values = np.stack([np.interp(time, own.time, own.values[:, 0]) for _, own in signals])
    middle = np.median(values, axis=0)
    worst = int(np.abs(values - middle).max(axis=1).argmax())
    for own in values:
        axes.plot(*thinned(time, own), color=COLOURS[0], alpha=max(0.08, min(0.5, 8.0 / len(values))), linewidth=0.7)
    axes.plot(
        *thinned(time, values[worst]), color=COLOURS[1], linewidth=1.2, label=f"farthest: {plain(signals[worst][0])}"
    )
    axes.plot(*thinned(time, middle), color=INK, linewidth=1.6, label=f"median of {len(values)}")
    legend_above(axes, 2)


def _draw_limits(axes: Any, signals: Sequence[Signal]) -> None:
    """Lines at the least and the most the motors can do"""
    for name, value in sorted({own for signal in signals if signal.limits for own in signal.limits._asdict().items()}):
        axes.axhline(value, color=INK, linestyle="-.", linewidth=0.9, alpha=0.8)
        below = name == "high"
        axes.annotate(
            "most" if below else "least",
            (1.0, value),
            xycoords=axes.get_yaxis_transform(),
            xytext=(-3, -2 if below else 2),
            textcoords="offset points",
            ha="right",
            va="top" if below else "bottom",
            fontsize=7,
            style="italic",
        )


def thinned(time: Any, values: Any) -> tuple[Any, Any]:
    """Of a long curve the least and the largest value of each piece, in their order: nothing that sticks out is lost"""
    size = 2 * (len(values) // POINTS)
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


def legend_above(axes: Any, columns: int) -> None:
    """On the line of the title, where no curve can run through it."""
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.99), ncols=columns, borderaxespad=0.2, handlelength=1.5)


def mark_events(axes: Any, marks: Sequence[Mark], *, named: bool) -> None:
    """A line for everything that happened; names beside them where there is room"""
    span = max((mark.time for mark in marks), default=1.0)
    last, shown = -np.inf, 0
    for mark in marks:
        axes.axvline(mark.time, color=INK, linewidth=0.8, alpha=0.35)
        if named and shown < LABELS and mark.time - last >= CLOSEST * span:
            last, shown = mark.time, shown + 1
            words = mark.text if len(mark.text) <= LABEL else f"{mark.text[:LABEL].rstrip()}…"
            spot = {"fontsize": 7, "style": "italic", "rotation": 90, "va": "bottom", "ha": "right"}
            axes.text(mark.time, 0.03, plain(words), transform=axes.get_xaxis_transform(), **spot)


# Paths ------------------------------------------------------------------------------------------------------------------


def draw_paths(axes: Any, flights: Sequence[Flight]) -> None:
    """Paths in space over their shadows, with body axes where there is room for them"""
    few = len(flights) <= FEW
    points = np.concatenate([track.position for _, track in flights])
    low, high = points.min(axis=0), points.max(axis=0)
    bottom = min(float(low[2]), 0.0)
    wide = max(float((high - low)[:2].max()), 0.7 * float(high[2] - bottom), 1.0)
    middle, half = 0.5 * (low + high), 0.55 * wide
    for k, (label, track) in enumerate(flights):
        colour, p = COLOURS[k % len(COLOURS)], track.position[:: max(1, len(track.time) // 2000)]
        if few:
            asked = {"color": INK, "linestyle": DASHES, "linewidth": 1.0}
            axes.plot(*track.reference_position.T, label="reference" if k == 0 else None, **asked)
            axes.plot(p[:, 0], p[:, 1], np.full(len(p), bottom), color=INK, alpha=0.2, linewidth=1.0)
            if len(flights) <= 3:
                _draw_frames(axes, track, 0.14 * half)
        axes.plot(*p.T, color=colour, linewidth=1.8 if few else 0.8, label=plain(label) if few else None)
    axes.set(xlabel="x east [m]", ylabel="y north [m]", zlabel="z up [m]")
    axes.set_xlim(middle[0] - half, middle[0] + half)
    axes.set_ylim(middle[1] - half, middle[1] + half)
    tall = max(1.2 * float(high[2] - bottom), 0.8 * half)
    axes.set_zlim(bottom, bottom + tall)
    axes.set_box_aspect((2.0 * half, 2.0 * half, tall), zoom=0.95)
    axes.locator_params(axis="z", nbins=max(3, round(6 * tall / (2.0 * half))))
    axes.view_init(elev=18.0, azim=-62.0)
    axes.set_title(
        "Path, with body axes (x forward, y left, z up)" if len(flights) <= 3 else f"Paths of {len(flights)} drones"
    )
    if few:
        axes.legend(loc="upper left", bbox_to_anchor=(0.0, 0.97))


def _draw_frames(axes: Any, track: Track, size: float) -> None:
    from mpl_toolkits.mplot3d.art3d import Line3DCollection  # type: ignore[import-untyped]

    rows = np.arange(0, len(track.time), max(1, len(track.time) // FRAMES))
    here, q_WB = track.position[rows], Quat(*track.attitude[rows].T)
    for k, axis in enumerate((Vec3(1.0, 0.0, 0.0), Vec3(0.0, 1.0, 0.0), Vec3(0.0, 0.0, 1.0))):
        along = np.stack(np.broadcast_arrays(*rotate(q_WB, axis)), axis=1)
        lines = np.stack([here, here + size * along], axis=1)
        axes.add_collection(Line3DCollection(lines, colors=COLOURS[k], linewidths=1.3))


def draw_top(axes: Any, flights: Sequence[Flight], world: World | None = None) -> None:
    """From above, north up: paths with the reference, where they begin and end, which way the nose points, and the wind"""
    few = len(flights) <= FEW
    points = np.concatenate([track.position[:, :2] for _, track in flights])
    size = max(float(np.ptp(points, axis=0).max()), 1.0)
    for k, (label, track) in enumerate(flights):
        colour, p = COLOURS[k % len(COLOURS)], track.position
        if few:
            asked = track.reference_position
            axes.plot(
                asked[:, 0],
                asked[:, 1],
                color=INK,
                linestyle=DASHES,
                linewidth=1.0,
                label="reference" if k == 0 else None,
            )
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
    axes.set(
        xlabel="x east [m]", ylabel="y north [m]", title="From above, arrows along the nose" if few else "From above"
    )
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.08 if size > 1.0 else 0.4)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _draw_solids(axes: Any, world: World) -> None:
    """Solids as they are from above, with their names; of a height map the lines of equal height"""
    for name, solid, colour in drawn(world):
        if isinstance(solid, HeightMap):
            lines = axes.contour(solid.x, solid.y, solid.z.T, levels=6, colors=CONTOUR, linewidths=0.8, zorder=1)
            axes.clabel(lines, fontsize=6, fmt="%.1f m")
        elif (shape := outline(solid)) is not None:
            axes.fill(*shape.T, facecolor=colour, edgecolor=INK, linewidth=0.6, alpha=0.6, zorder=1.5)
            if len(world.solids) <= FEW:
                axes.annotate(plain(name), shape.mean(axis=0), fontsize=7, ha="center", va="center", zorder=5)


def _draw_mean_wind(axes: Any, track: Track) -> None:
    mean = track.wind.mean(axis=0)
    speed = float(np.hypot(mean[0], mean[1]))
    if speed < 0.05:
        return
    tip = 0.055 * mean[:2] / speed
    axes.annotate(
        "",
        (0.08 + tip[0], 0.1 + tip[1]),
        xytext=(0.08 - tip[0], 0.1 - tip[1]),
        xycoords="axes fraction",
        arrowprops={"arrowstyle": "-|>", "color": COLOURS[5], "linewidth": 2.5},
    )
    axes.text(0.08, 0.025, f"wind {speed:.1f} m/s", transform=axes.transAxes, ha="center", fontsize=8, color=COLOURS[5])


__all__ = ["EVERY", "Flight", "available", "draw", "draw_all", "figure_of"]
