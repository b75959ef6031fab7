"""Pictures of an identification: its numbers with intervals, what goes together, what is left over, what it predicts."""

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from string import ascii_uppercase

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from samara.core.algebra import Quat, euler_from_quat
from samara.core.atomic_files import atomic_write
from samara.core.types import Array
from samara.identify.equation_error_fit import Residuals
from samara.identify.experiment_design import FlightPlan
from samara.identify.fisher_information import aims_of
from samara.identify.fisher_information import parameters_of as planned_parameters
from samara.identify.identification import Estimate, Product
from samara.identify.parameters import parameters_of
from samara.identify.prediction_error_fit import BASELINES, HORIZON, QUANTITIES, RECORDED, UNITS
from samara.identify.scores import COASTING, Predicted, Score, together
from samara.vehicles.shape import COLOURS, GRID, INK
from samara.view.plot.style import DASHES, Picture, plain, samara_style, save

FAINT = "#9aa5af"
BINS = 12
FEWEST = 8  # rows of a bin that is shown
SHOWN = 6.0  # [s] of a flight that was predicted
NAMES = {
    "k_thrust": "kF, thrust",
    "k_torque": "kM, torque",
    "inertia.xx": "Jxx",
    "inertia.yy": "Jyy",
    "inertia.zz": "Jzz",
    "motor.rise": "motor lag, up",
    "motor.fall": "motor lag, down",
    "drag.linear.x": "drag along x",
    "drag.linear.y": "drag along y",
    "drag.linear.z": "drag along z",
    "drag.isotropic": "drag, quadratic",
    "centre_of_mass.x": "centre of mass, x",
    "centre_of_mass.y": "centre of mass, y",
    "rotor_drag.axial": "thrust lost to climb",
    "airspeed_moment.roll": "moment of airspeed, roll",
    "airspeed_moment.pitch": "moment of airspeed, pitch",
    "damping.tilt": "damping of roll, pitch",
    "damping.yaw": "damping of yaw",
}
"""What people call a number, by its name in a vehicle file"""


def called(name: str) -> str:
    return NAMES.get(name, name)


# Numbers ---------------------------------------------------------------------------------------------------------------


def numbers(products: Sequence[Product]) -> Picture:
    """A row for each number, its 95 % interval as a whisker: one axis for what is positive, in parts of the start's value, one
    for each other number, from its own 0"""
    names = [own.name for own in products[0].estimates]
    positive = [name for name in names if products[0].estimate(name).start > 0.0]
    others = [name for name in names if name not in positive]
    with samara_style() as plt:
        height = 0.9 + 0.4 * max(len(positive), len(others)) + 0.5
        figure, (left, right) = plt.subplots(1, 2, figsize=(11.0, height))
        _relative(left, products, positive)
        _from_zero(right, products, others)
        handles = {own.kind: _mark(COLOURS[k], "os"[k], COLOURS[k]) for k, own in enumerate(products)}
        if not all(each.excited for own in products for each in own.estimates):
            handles["not excited: stays about where it was"] = _mark(FAINT, "o", "white")
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3)
    return figure


def _mark(colour: str, marker: str, fill: str) -> Line2D:
    return Line2D([], [], color=colour, marker=marker, markersize=5, linewidth=1.6, markerfacecolor=fill)


def _whisker(axes: Axes, own: Estimate, y: float, unit: float, k: int) -> None:
    colour = COLOURS[k] if own.excited else FAINT
    axes.plot([own.low / unit, own.high / unit], [y, y], color=colour, linewidth=1.6, solid_capstyle="butt")
    for end in (own.low, own.high):
        axes.plot([end / unit] * 2, [y - 0.09, y + 0.09], color=colour, linewidth=1.2)
    fill = colour if own.excited else "white"
    axes.plot(own.value / unit, y, "os"[k], color=colour, markersize=5, markerfacecolor=fill)


def _rows(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), [called(name) for name in names])
    axes.set_ylim(len(names) - 0.45, -0.55)
    axes.tick_params(axis="y", length=0, labelsize=9)
    axes.grid(axis="y", visible=False)
    axes.spines["left"].set_visible(False)


def _relative(axes: Axes, products: Sequence[Product], names: Sequence[str]) -> None:
    ends = [1.0]
    for k, product in enumerate(products):
        for i, name in enumerate(names):
            own = product.estimate(name)
            _whisker(axes, own, i + 0.22 * (k - 0.5 * (len(products) - 1)), own.start, k)
            ends += [max(own.low / own.start, 0.1), own.high / own.start]
    axes.axvline(1.0, color=INK, linewidth=1.0, linestyle=DASHES)
    axes.set_xscale("log")
    low, high = max(min(ends) / 1.1, 0.1), min(max(ends) * 1.1, 10.0)
    axes.set_xlim(low, high)
    ticks = [own for own in (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0) if low <= own <= high]
    axes.set_xticks(ticks, [f"{own:g}" for own in ticks])
    axes.minorticks_off()
    axes.set_xlabel("over the start vehicle's value (dashed), 95 % interval")
    axes.set_title("Numbers the start vehicle has")
    _rows(axes, names)


def _from_zero(axes: Axes, products: Sequence[Product], names: Sequence[str]) -> None:
    """Each row over what was thought possible, or its own largest end: that stands at its right"""
    known = {own.name: own.scale for own in parameters_of(products[0].bare)}
    for i, name in enumerate(names):
        every = [product.estimate(name) for product in products]
        unit = max(known[name], *(max(abs(own.low), abs(own.high), abs(own.start)) for own in every))
        for k, own in enumerate(every):
            _whisker(axes, own, i + 0.22 * (k - 0.5 * (len(products) - 1)), unit, k)
        axes.plot([every[0].start / unit] * 2, [i - 0.35, i + 0.35], color=INK, linewidth=1.0, linestyle=DASHES)
        written = "" if every[0].unit == "1" else f" {every[0].unit}"
        axes.text(1.08, i, f"± {unit:.2g}{written}", va="center", fontsize=8, color=INK)
    axes.axvline(0.0, color=GRID, linewidth=1.2, zorder=0)
    axes.set_xlim(-1.05, 1.05)
    axes.set_xticks([-1.0, 0.0, 1.0], ["−", "0", "+"])
    axes.set_xlabel("of what stands at the right, which is about what was thought possible")
    axes.set_title("Numbers it has at 0")
    _rows(axes, names)


# What goes together ----------------------------------------------------------------------------------------------------


def correlation(product: Product) -> Picture:
    """Of the errors of every two numbers that were told: near ±1 the flights tell a combination of the two and neither alone"""
    at = [i for i, own in enumerate(product.estimates) if own.excited]
    names = [called(product.estimates[i].name) for i in at]
    matrix = product.correlation[np.ix_(at, at)]
    with samara_style() as plt:
        side = 2.6 + 0.42 * max(len(at), 3)
        figure, axes = plt.subplots(figsize=(side + 0.6, side - 0.4))
        shown = np.where(np.tril(np.ones_like(matrix), -1) > 0.0, matrix, np.nan)[1:, :-1]
        colours = axes.imshow(shown, cmap="PuOr", vmin=-1.0, vmax=1.0)
        for i in range(len(at)):
            for j in range(i):
                own = float(matrix[i, j])
                if abs(own) >= 0.095:
                    white = abs(own) > 0.7
                    axes.text(j, i, f"{own:.1f}", ha="center", va="center", fontsize=8, color="white" if white else INK)
        axes.set_xticks(range(len(at) - 1), names[:-1], rotation=40, ha="right", rotation_mode="anchor")
        axes.set_yticks(range(len(at) - 1), names[1:])
        axes.grid(visible=False)
        for edge in ("left", "bottom"):
            axes.spines[edge].set_visible(False)
        axes.tick_params(length=0)
        axes.set_title(f"Correlation of errors, {product.kind}")
        if len(at) > 1:
            figure.colorbar(colours, ax=axes, shrink=0.7, ticks=(-1.0, -0.5, 0.0, 0.5, 1.0))
    return figure


# What is left over -----------------------------------------------------------------------------------------------------


def residuals(found: Sequence[Residuals], weight: float, arm: float) -> Picture:
    """Force and torque that the physical vehicle does not explain, against airspeed, rotor speed, voltage and height: means of
    bins and their spread, in the weight and weight times arm"""
    whole = [own for own in found if len(own.time)]
    against: list[tuple[str, list[Array]]] = [
        ("forward airspeed [m/s]", [own.airspeed[0] for own in whole]),
        ("airspeed to the left [m/s]", [own.airspeed[1] for own in whole]),
        ("climb through the air [m/s]", [own.airspeed[2] for own in whole]),
        ("mean rotor speed [rad/s]", [own.rotor_speed for own in whole]),
        ("height [m]", [own.height for own in whole]),
    ]
    if all(own.voltage is not None for own in whole):
        against.append(("battery [V]", [own.voltage for own in whole if own.voltage is not None]))
    force = np.concatenate([own.force for own in whole], axis=1) * 100.0 / weight
    torque = np.concatenate([own.torque for own in whole], axis=1) * 100.0 / (weight * arm)
    with samara_style() as plt:
        figure, panels = plt.subplots(2, len(against), figsize=(2.45 * len(against), 5.4), sharey="row", sharex="col")
        for column, (label, values) in enumerate(against):
            x = np.concatenate(values)
            for row, rows in enumerate((force, torque)):
                _binned(panels[row, column], x, rows)
            panels[1, column].set_xlabel(label)
        panels[0, 0].set_ylabel("force left over [% of weight]")
        panels[1, 0].set_ylabel("torque left over [% of weight × arm]")
        for row, rows in enumerate((force, torque)):
            far = 1.3 * float(np.percentile(np.abs(rows), 90.0))
            panels[row, 0].set_ylim(-far, far)
        figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _binned(axes: Axes, x: Array, rows: Array) -> None:
    """Means of bins between the 1st and the 99th percentile, and a band of one standard deviation"""
    low, high = np.percentile(x, (1.0, 99.0))
    axes.axhline(0.0, color=INK, linewidth=0.8)
    if not high - low > 1e-9:
        return
    edges = np.linspace(low, high, BINS + 1)
    which = np.digitize(x, edges) - 1
    for k, (name, own) in enumerate(zip(("x", "y", "z"), rows, strict=True)):
        at, mean, spread = [], [], []
        for b in range(BINS):
            inside = own[which == b]
            if len(inside) >= FEWEST:
                at.append(0.5 * (edges[b] + edges[b + 1]))
                mean.append(float(inside.mean()))
                spread.append(float(inside.std()))
        middle, wide = np.array(mean), np.array(spread)
        axes.fill_between(at, middle - wide, middle + wide, color=COLOURS[k], alpha=0.12, linewidth=0.0)
        axes.plot(at, middle, "o-", color=COLOURS[k], markersize=3, linewidth=1.4, label=f"along {name}")
    axes.set_xlim(low, high)


# What it predicts -----------------------------------------------------------------------------------------------------


def flown_and_predicted(own: Predicted, model: str) -> Picture:
    """A few seconds of a flight, and what a model said from a measured state every half second, given the motors alone"""
    samples, length = own.samples, own.windows.samples * own.windows.period
    first = _liveliest(own)
    begin = float(samples.time[own.windows.starts[first]])
    chosen, after = [], begin
    for i in range(first, len(own.windows.starts)):
        start = float(samples.time[own.windows.starts[i]])
        if start - begin + length > SHOWN + 1e-6:
            break
        if start >= after - 1e-6:
            chosen.append(i)
            after = start + length
    shown = (samples.time >= begin) & (samples.time <= begin + SHOWN)
    since = own.records.period * np.arange(own.records.samples + 1)
    with samara_style() as plt:
        figure, panels = plt.subplots(2, 2, figsize=(11.0, 6.0), sharex=True)
        titles = ("position from the middle [m]", "velocity [m/s]", "roll and pitch [°]", "rate [rad/s]")
        letters = (("x", "y", "z"), ("x", "y", "z"), ("roll", "pitch"), ("x", "y", "z"))
        middle = samples.body[:3, shown].mean(axis=1)[:, None]
        flown = _curves(samples.body[:, shown], middle)
        for panel, title, names, rows in zip(panels.flat, titles, letters, flown, strict=True):
            for k, (name, row) in enumerate(zip(names, rows, strict=True)):
                panel.plot(samples.time[shown] - begin, row, color=COLOURS[k], linewidth=3.2, alpha=0.28, label=name)
            panel.set_title(title)
        for i in chosen:
            start = int(own.windows.starts[i])
            said = np.concatenate([samples.body[:, start, None], own.said[model][:, :, i].T], axis=1)
            time = float(samples.time[start]) - begin + since
            for panel, rows in zip(panels.flat, _curves(said, middle), strict=True):
                for k, row in enumerate(rows):
                    panel.plot(time, row, color=COLOURS[k], linewidth=1.5)
                    panel.plot(time[0], row[0], "o", color=COLOURS[k], markersize=3.2)
        for panel in panels.flat:
            panel.set_xlim(0.0, SHOWN)
            panel.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.1, ncols=3, handlelength=1.2)
        for panel in panels[1]:
            panel.set_xlabel(f"time [s] after {begin:.1f} s")
        figure.suptitle(
            plain(f"{samples.name}: flown (broad), and predicted half a second ahead from the dots on ({model})"),
            fontsize=11,
        )
    return figure


def _liveliest(own: Predicted) -> int:
    """The window at which the few seconds with the most tilt begin"""
    starts = own.windows.starts
    q = Quat(*own.samples.body[6:10, starts])
    lean = np.array(q.x**2 + q.y**2)
    span = max(round(SHOWN / 0.05), 1)
    if len(lean) <= span:
        return 0
    total = np.concatenate([[0.0], np.cumsum(lean)])
    return int(np.argmax(total[span:] - total[:-span]))


def _curves(body: Array, middle: Array) -> tuple[Array, Array, Array, Array]:
    euler = euler_from_quat(Quat(*body[6:10]))
    return body[:3] - middle, body[3:6], np.degrees(np.stack([euler.roll, euler.pitch])), body[10:13]


def draw_flight_plan(plan: FlightPlan, path: str | Path) -> None:
    """The position asked for over time, manoeuvre by manoeuvre, and the errors to expect"""
    time = np.linspace(0.0, plan.duration, 4000)
    p = np.stack([np.broadcast_to(own, time.shape) for own in plan.trajectory.at(time).p_W])
    with samara_style() as plt:
        figure, panels = plt.subplot_mosaic(
            [["way", "way"], ["names", "errors"]],
            figsize=(11.0, 7.0),
            height_ratios=(1.0, 1.1),
            width_ratios=(1.0, 1.2),
        )
        _over_time(panels["way"], panels["names"], plan, time, p)
        _errors(panels["errors"], plan)
        figure.suptitle(
            plain(f"{plan.vehicle.name}: {len(plan.manoeuvres)} manoeuvres in {plan.duration:.0f} s"), fontsize=12
        )
        save(figure, path)


def _over_time(axes: Axes, names: Axes, plan: FlightPlan, time: Array, p: Array) -> None:
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


def _errors(axes: Axes, plan: FlightPlan) -> None:
    parameters = planned_parameters(plan.vehicle)
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


LEAST = 1e-3  # of what constant velocity errs by in the end: less is not worth the paper
_DASHED = dict(zip(BASELINES, (":", "--"), strict=True))


def draw_validation(scores: Sequence[Score], path: str | Path, title: str = "") -> None:
    """RMS error of position, velocity, attitude and rate from 0 to half a second, all flights together, faint ones apart"""
    with atomic_write(path) as temporary, samara_style():
        errors_over_time(scores, title).savefig(temporary, format="png")


def errors_over_time(scores: Sequence[Score], title: str = "") -> Picture:
    whole = together(scores)
    models = [name for name in whole.rms if name not in BASELINES]
    time = RECORDED * np.arange(1, round(HORIZON / RECORDED) + 1)
    with samara_style() as plt:
        figure, panels = plt.subplots(2, 2, figsize=(10.5, 6.8), sharex=True)
        for axes, quantity, unit in zip(panels.flat, QUANTITIES, UNITS, strict=True):
            for name, rms in whole.rms.items():
                colour = INK if name in BASELINES else COLOURS[models.index(name) % len(COLOURS)]
                if name in models and len(scores) > 1:
                    for own in scores:
                        axes.semilogy(time, own.rms[name][quantity], color=colour, linewidth=0.5, alpha=0.35)
                axes.semilogy(
                    time, rms[quantity], _DASHED.get(name, "-"), color=colour, linewidth=2.0, label=plain(name)
                )
            axes.set(title=f"{quantity} [{unit}]", xlim=(0.0, HORIZON))
            _decades(axes)
            least = min(float(own[quantity].min()) for own in whole.rms.values())
            axes.set_ylim(max(0.7 * least, LEAST * float(whole.rms[COASTING][quantity][-1])), None)
        for axes in panels[1]:
            axes.set_xlabel("time since the measured state [s]")
        figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
        counted = f"{whole.windows} windows of {len(scores)} flight{'s' if len(scores) > 1 else ''}"
        thin = "  (thin: each flight)" if len(scores) > 1 else ""
        figure.suptitle(plain(title) or f"RMS error of open-loop prediction, {counted}{thin}", fontsize=11)
    return figure


def _decades(axes: Axes) -> None:
    """Numbers as people write them at 1, 2 and 5 of every decade"""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
