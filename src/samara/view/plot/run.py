"""The picture of a run: what a person wants to see of a flight first, on one page."""

from pathlib import Path
from typing import Any

from samara.record.run import Run
from samara.scenario.world import world_inside
from samara.vehicles.colours import COLOURS, INK
from samara.view.plot.plots import (
    FEW,
    FORMATS,
    Flight,
    Panel,
    draw,
    draw_panel,
    draw_paths,
    draw_top,
    event_words,
    flights_of,
    is_flat,
    legend_above,
    mark_events,
    marks_of,
    panels_of,
    require_subject,
    save,
    write_events,
)
from samara.view.plot.style import plain, samara_style

WIDTH, HEIGHT = 13.0, 8.0  # [in]
LINE = 0.16  # [in] of words about events


def plot_run(run: Run, what: str | Path | None, path: str | Path | None) -> Any:
    """`Run.plot`: the overview, or one subject such as "attitude"; `what` may be the file of the overview"""
    if what is None or str(what).lower().endswith(tuple(f".{kind}" for kind in FORMATS)):
        return draw_run(run, path if what is None else what)
    return draw(run, require_subject(str(what)), path)


def draw_run(run: Run, path: str | Path | None = None) -> Any:
    """Position, attitude and motors of one drone, or height, error and motors of several, and all paths in space

    A file (.png, .svg, .pdf) when given a path, else a Matplotlib figure.
    """
    flights, marks = flights_of(run), marks_of(run)
    names = [flight.label for flight in flights]
    words = event_words(marks, 0.5 * WIDTH)
    below = (0.5 + LINE * len(words)) / HEIGHT
    step = (0.985 - below) / 3.0
    time = run.tracks[0].time
    ends = float(time[0]), float(max(time[-1], time[0] + 1e-3))
    with samara_style() as plt:
        figure = plt.figure(figsize=(WIDTH, HEIGHT))
        first = None
        for k, panel in enumerate(_panels(flights)):
            place = (0.055, below + (2 - k) * step, 0.485, step - 0.06)
            axes = figure.add_axes(place, sharex=first)
            first = first or axes
            draw_panel(axes, panel, names)
            mark_events(axes, marks, ends, named=k == 0)
            axes.tick_params(labelbottom=k == 2)
            if k == 0 and 1 < len(names) <= FEW:
                for number, name in enumerate(names):
                    axes.plot([], [], color=COLOURS[number], label=plain(name))
                legend_above(axes, len(names))
        assert first is not None
        axes.set_xlabel("time [s]")
        first.set_xlim(*ends)
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
        return figure if path is None else save(figure, path)


def _panels(flights: list[Flight]) -> list[Panel]:
    """Position, attitude and rotor speeds (or thrust); of several drones what can be told apart: height, error, motors"""
    if len(flights) == 1:
        return [panels_of(what, flights)[0] for what in ("position", "attitude", "motors")]
    _, _, height, error, *_ = panels_of("position", flights)
    return [height, error, panels_of("motors", flights)[0]]
