"""The picture of a flight that is planned to identify a vehicle: where it goes, what comes when, and what it would tell."""

from collections import Counter
from itertools import groupby
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import numpy as np

from samara.core.atomic_files import atomic_write
from samara.identify.experiment_design import FlightPlan
from samara.identify.fisher_information import aims_of, parameters_of
from samara.vehicles.colours import COLOURS, INK
from samara.view.plot.identify import called
from samara.view.plot.style import plain, samara_style


def draw_flight_plan(plan: FlightPlan, path: str | Path) -> None:
    """The position asked for over time, manoeuvre by manoeuvre, and the errors to expect"""
    time = np.linspace(0.0, plan.duration, 4000)
    p = np.stack([np.broadcast_to(own, time.shape) for own in plan.trajectory.at(time).p_W])
    with samara_style() as plt:
        figure, panels = plt.subplot_mosaic(
            [["way", "way"], ["names", "errors"]],
            figsize=(11.0, 7.0),
            layout="constrained",
            height_ratios=(1.0, 1.1),
            width_ratios=(1.0, 1.2),
        )
        _over_time(panels["way"], panels["names"], plan, time, p)
        _errors(panels["errors"], plan)
        figure.suptitle(
            plain(f"{plan.vehicle.name}: {len(plan.manoeuvres)} manoeuvres in {plan.duration:.0f} s"), fontsize=12
        )
        with atomic_write(path) as temporary:
            figure.savefig(temporary, format="png")


def _over_time(axes: Any, names: Any, plan: FlightPlan, time: Any, p: Any) -> None:
    """The way with a letter over every manoeuvre, and in another panel what the letters mean"""
    for k, (name, row) in enumerate(zip(("x", "y", "z"), p, strict=True)):
        axes.plot(time, row, color=COLOURS[k], label=name, linewidth=1.3)
    lasting = {own.manoeuvre.name: own.duration for own in plan.candidates}
    order = list(dict.fromkeys(own.name for own in plan.manoeuvres))
    at = 0.0
    for name, each in groupby(own.name for own in plan.manoeuvres):
        end = at + len(list(each)) * lasting[name]
        axes.axvline(end, color=INK, linewidth=0.6, alpha=0.5)
        middle = 0.5 * (at + end)
        axes.annotate(
            ascii_uppercase[order.index(name) % 26],
            (middle, 1.02),
            xycoords=("data", "axes fraction"),
            ha="center",
            fontsize=9,
        )
        at = end
    axes.set(xlabel="time [s]", ylabel="position asked for [m]", xlim=(0.0, plan.duration))
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), borderaxespad=0.1, ncols=3)
    times = Counter(own.name for own in plan.manoeuvres)
    lines = [
        f"{ascii_uppercase[k % 26]}  {name}" + (f", {times[name]} times" if times[name] > 1 else "")
        for k, name in enumerate(order)
    ]
    names.text(0.0, 1.0, plain("\n".join(lines)), va="top", fontsize=8.5, linespacing=1.6)
    names.set_title("Manoeuvres")
    names.set_axis_off()


def _errors(axes: Any, plan: FlightPlan) -> None:
    parameters = parameters_of(plan.vehicle)
    aims = dict(zip((own.name for own in parameters), aims_of(parameters), strict=True))
    names = list(plan.errors)
    for i, name in enumerate(names):
        axes.plot([0.0, 100.0 * plan.errors[name]], [i, i], color=COLOURS[0], linewidth=4.0, solid_capstyle="butt")
        axes.plot([100.0 * aims[name]] * 2, [i - 0.35, i + 0.35], color=COLOURS[1], linewidth=1.6)
    axes.plot([], [], color=COLOURS[0], linewidth=4.0, label="expected")
    axes.plot([], [], color=COLOURS[1], linewidth=1.6, label="aimed at")
    axes.set_yticks(range(len(names)), [called(name) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set(title="Standard errors [%]", xlim=(0.0, None))
    axes.grid(axis="y", visible=False)
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.1, ncols=2)
