"""The picture of a run: what a person wants to see of a flight first, on one page."""

from pathlib import Path
from typing import Any

from samara.sim.run import Run
from samara.view.plots import (
    FEW,
    Flight,
    Panel,
    draw_panel,
    draw_paths,
    flights_of,
    legend_above,
    mark_events,
    marks_of,
    panels_of,
    save,
)
from samara.view.style import COLOURS, INK, plain, samara_style

_PLACES = (0.69, 0.38, 0.07)  # of the bottoms of the three panels, of the figure's height


def draw_run(run: Run, path: str | Path | None = None) -> Any:
    """Position, attitude and motors of one drone, or height, error and motors of several, and all paths in space

    A file (.png, .svg, .pdf) when given a path, else a Matplotlib figure.
    """
    flights, marks = flights_of(run), marks_of(run)
    names = [flight.label for flight in flights]
    with samara_style() as plt:
        figure = plt.figure(figsize=(13, 8))
        first = None
        for k, (bottom, panel) in enumerate(zip(_PLACES, _panels(flights), strict=True)):
            axes = figure.add_axes((0.055, bottom, 0.485, 0.225), sharex=first)
            first = first or axes
            draw_panel(axes, panel, names)
            mark_events(axes, marks, named=k == 1)
            axes.tick_params(labelbottom=k == 2)
            if k == 0 and 1 < len(names) <= FEW:
                for number, name in enumerate(names):
                    axes.plot([], [], color=COLOURS[number], label=plain(name))
                legend_above(axes, len(names))
        assert first is not None
        axes.set_xlabel("time [s]")
        time = run.tracks[0].time
        first.set_xlim(time[0], max(time[-1], time[0] + 1e-3))
        draw_paths(figure.add_axes((0.56, 0.05, 0.41, 0.86), projection="3d"), flights)
        own = run.tracks[0]
        others = f" and {len(names) - 1} more" if len(names) > 1 else ""
        title = f"{run.scenario} · {own.vehicle.name}{others} · {own.controller} control"
        figure.suptitle(plain(title), fontweight="bold", color=INK, y=0.985)
        return figure if path is None else save(figure, path)


def _panels(flights: list[Flight]) -> list[Panel]:
    """Position, attitude and rotor speeds (or thrust); of several drones what can be told apart: height, error, motors"""
    if len(flights) == 1:
        return [panels_of(what, flights)[0] for what in ("position", "attitude", "motors")]
    position = {panel.title: panel for panel in panels_of("position", flights)}
    return [position["Position, z up"], position["Position error"], panels_of("motors", flights)[0]]
