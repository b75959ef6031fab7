"""Pictures of an identification: parameters with intervals, correlations, residuals, predictions and flight plans."""

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
from samara.identify.fisher_information import experiment_parameters as planned_parameters
from samara.identify.fisher_information import target_errors
from samara.identify.identification import IdentifiedVehicle, ParameterEstimate
from samara.identify.parameters import identifiable_parameters
from samara.identify.prediction_error_fit import BASELINES, HORIZON, QUANTITIES, RECORD_PERIOD, UNITS
from samara.identify.scores import CONSTANT_VELOCITY, FlightPrediction, PredictionScore, pool_scores
from samara.vehicles.shape import COLOURS, GRID, INK
from samara.view.plot.style import DASHES, DetachedFigure, escape_text, samara_style, save

FAINT = "#9aa5af"
BINS = 12
MIN_BIN_SAMPLES = 8  # smallest sample count of a bin that is shown
MIN_BINS = 3  # a quantity that fills fewer bins has no panel
SHOWN_DURATION = 6.0  # [s]: duration of the predicted flight that is shown
DISPLAY_NAMES = {
    "k_thrust": "kF, thrust",
    "k_torque": "kM, torque",
    "inertia.xx": "Jxx",
    "inertia.yy": "Jyy",
    "inertia.zz": "Jzz",
    "motor.time_constant_up": "motor lag, up",
    "motor.time_constant_down": "motor lag, down",
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
"""Display names of parameters, by their keys in a vehicle file."""


def display_name(name: str) -> str:
    """Return the display name of a parameter."""
    return DISPLAY_NAMES.get(name, name)


# Parameters ------------------------------------------------------------------------------------------------------------


def parameter_figure(products: Sequence[IdentifiedVehicle]) -> DetachedFigure:
    """Plot each parameter with its 95 % interval: positive parameters relative to the start vehicle on one axis, the others on
    the second axis, each relative to its own scale."""
    names = [estimate.name for estimate in products[0].estimates]
    positive = [name for name in names if products[0].estimate(name).start > 0.0]
    signed = [name for name in names if name not in positive]
    with samara_style() as plt:
        height = 0.9 + 0.4 * max(len(positive), len(signed)) + 0.5
        figure, (left, right) = plt.subplots(1, 2, figsize=(11.0, height))
        _draw_relative(left, products, positive)
        _draw_signed(right, products, signed)
        handles = {
            product.model_type: _legend_marker(COLOURS[k], "os"[k], COLOURS[k]) for k, product in enumerate(products)
        }
        if not all(estimate.excited for product in products for estimate in product.estimates):
            handles["not excited: stays near its start value"] = _legend_marker(FAINT, "o", "white")
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3)
    return figure


def _legend_marker(colour: str, marker: str, fill: str) -> Line2D:
    return Line2D([], [], color=colour, marker=marker, markersize=5, linewidth=1.6, markerfacecolor=fill)


def _draw_interval(axes: Axes, estimate: ParameterEstimate, y: float, scale: float, k: int) -> None:
    colour = COLOURS[k] if estimate.excited else FAINT
    axes.plot([estimate.low / scale, estimate.high / scale], [y, y], color=colour, linewidth=1.6, solid_capstyle="butt")
    for end in (estimate.low, estimate.high):
        axes.plot([end / scale] * 2, [y - 0.09, y + 0.09], color=colour, linewidth=1.2)
    fill = colour if estimate.excited else "white"
    axes.plot(estimate.value / scale, y, "os"[k], color=colour, markersize=5, markerfacecolor=fill)


def _set_row_labels(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), [display_name(name) for name in names])
    axes.set_ylim(len(names) - 0.45, -0.55)
    axes.tick_params(axis="y", length=0, labelsize=9)
    axes.grid(axis="y", visible=False)
    axes.spines["left"].set_visible(False)


def _draw_relative(axes: Axes, products: Sequence[IdentifiedVehicle], names: Sequence[str]) -> None:
    bounds = [1.0]
    for k, product in enumerate(products):
        for estimate in (estimate for estimate in product.estimates if estimate.name in names):
            y = names.index(estimate.name) + 0.22 * (k - 0.5 * (len(products) - 1))
            _draw_interval(axes, estimate, y, estimate.start, k)
            bounds += [max(estimate.low / estimate.start, 0.1), estimate.high / estimate.start]
    axes.axvline(1.0, color=INK, linewidth=1.0, linestyle=DASHES)
    axes.set_xscale("log")
    low, high = max(min(bounds) / 1.1, 0.1), min(max(bounds) * 1.1, 10.0)
    axes.set_xlim(low, high)
    ticks = [tick for tick in (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0) if low <= tick <= high]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("relative to the start vehicle (dashed), 95 % interval")
    axes.set_title("Parameters of the start vehicle")
    _set_row_labels(axes, names)


def _draw_signed(axes: Axes, products: Sequence[IdentifiedVehicle], names: Sequence[str]) -> None:
    """Plot each row relative to its scale, or to its largest bound if that is larger; the label at the right states it."""
    scales = {parameter.name: parameter.scale for parameter in identifiable_parameters(products[0].bare)}
    for i, name in enumerate(names):
        estimates = [estimate for product in products for estimate in product.estimates if estimate.name == name]
        scale = max(
            scales[name], *(max(abs(estimate.low), abs(estimate.high), abs(estimate.start)) for estimate in estimates)
        )
        for k, estimate in enumerate(estimates):
            _draw_interval(axes, estimate, i + 0.22 * (k - 0.5 * (len(products) - 1)), scale, k)
        axes.plot([estimates[0].start / scale] * 2, [i - 0.35, i + 0.35], color=INK, linewidth=1.0, linestyle=DASHES)
        unit_text = "" if estimates[0].unit == "1" else f" {estimates[0].unit}"
        axes.text(1.08, i, f"± {scale:.2g}{unit_text}", va="center", fontsize=8, color=INK)
    axes.axvline(0.0, color=GRID, linewidth=1.2, zorder=0)
    axes.set_xlim(-1.05, 1.05)
    axes.set_xticks([-1.0, 0.0, 1.0], ["−", "0", "+"])
    axes.set_xlabel("relative to the value at the right, about the largest plausible one")
    axes.set_title("Parameters that are 0 in the start vehicle")
    _set_row_labels(axes, names)


# Correlation -----------------------------------------------------------------------------------------------------------


def correlation_figure(product: IdentifiedVehicle) -> DetachedFigure:
    """Plot the correlation of errors of excited parameters; near ±1 the flights determine only a combination of the two."""
    indices = [i for i, estimate in enumerate(product.estimates) if estimate.excited]
    names = [display_name(product.estimates[i].name) for i in indices]
    matrix = product.correlation[np.ix_(indices, indices)]
    with samara_style() as plt:
        side = 2.6 + 0.42 * max(len(indices), 3)
        figure, axes = plt.subplots(figsize=(side + 0.6, side - 0.4))
        lower_triangle = np.where(np.tril(np.ones_like(matrix), -1) > 0.0, matrix, np.nan)[1:, :-1]
        colours = axes.imshow(lower_triangle, cmap="PuOr", vmin=-1.0, vmax=1.0)
        for i in range(len(indices)):
            for j in range(i):
                value = float(matrix[i, j])
                if abs(value) >= 0.095:
                    white = not -0.75 < value < 0.55  # orange stays light for longer than purple
                    axes.text(
                        j, i - 1, f"{value:.1f}", ha="center", va="center", fontsize=8, color="white" if white else INK
                    )
        axes.set_xticks(range(len(indices) - 1), names[:-1], rotation=40, ha="right", rotation_mode="anchor")
        axes.set_yticks(range(len(indices) - 1), names[1:])
        axes.grid(visible=False)
        for edge in ("left", "bottom"):
            axes.spines[edge].set_visible(False)
        axes.tick_params(length=0)
        axes.set_title(f"Correlation of errors, {product.model_type}")
        if len(indices) > 1:
            figure.colorbar(colours, ax=axes, shrink=0.7, ticks=(-1.0, -0.5, 0.0, 0.5, 1.0))
    return figure


# Residuals -------------------------------------------------------------------------------------------------------------


def residual_figure(flight_residuals: Sequence[Residuals], weight: float, arm: float) -> DetachedFigure:
    """Plot force and torque that the physical vehicle does not explain against airspeed, rotor speed, voltage and height: means
    and standard deviations of bins, relative to the weight and to weight times arm. A quantity that hardly varies has no
    panel."""
    recorded = [residual for residual in flight_residuals if len(residual.time)]
    abscissae: list[tuple[str, list[Array]]] = [
        ("forward airspeed [m/s]", [residual.airspeed[0] for residual in recorded]),
        ("airspeed to the left [m/s]", [residual.airspeed[1] for residual in recorded]),
        ("climb through the air [m/s]", [residual.airspeed[2] for residual in recorded]),
        ("mean rotor speed [rad/s]", [residual.rotor_speed for residual in recorded]),
        ("height [m]", [residual.height for residual in recorded]),
    ]
    if all(residual.voltage is not None for residual in recorded):
        abscissae.append(("battery [V]", [residual.voltage for residual in recorded if residual.voltage is not None]))
    series = [(label, np.concatenate(values)) for label, values in abscissae]
    varying = [(label, x) for label, x in series if _filled_bins(x) >= MIN_BINS] or series[:1]
    force = np.concatenate([residual.force for residual in recorded], axis=1) * 100.0 / weight
    torque = np.concatenate([residual.torque for residual in recorded], axis=1) * 100.0 / (weight * arm)
    with samara_style() as plt:
        figure, panels = plt.subplots(
            2, len(varying), figsize=(2.45 * max(len(varying), 2), 5.4), sharey="row", sharex="col", squeeze=False
        )
        for column, (label, x) in enumerate(varying):
            for row, rows in enumerate((force, torque)):
                _plot_bins(panels[row, column], x, rows)
            panels[1, column].set_xlabel(label)
        panels[0, 0].set_ylabel("residual force [% of weight]")
        panels[1, 0].set_ylabel("residual torque [% of weight × arm]")
        for row, rows in enumerate((force, torque)):
            limit = 1.3 * float(np.percentile(np.abs(rows), 90.0))
            panels[row, 0].set_ylim(-limit, limit)
        figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _plot_bins(axes: Axes, x: Array, rows: Array) -> None:
    """Plot means of bins between the 1st and the 99th percentile, with a band of one standard deviation."""
    edges, bin_indices = _bin_indices(x)
    axes.axhline(0.0, color=INK, linewidth=0.8)
    if not edges[-1] > edges[0]:
        return
    for k, (name, residual) in enumerate(zip(("x", "y", "z"), rows, strict=True)):
        centres, bin_means, deviations = [], [], []
        for b in range(BINS):
            in_bin = residual[bin_indices == b]
            if len(in_bin) >= MIN_BIN_SAMPLES:
                centres.append(0.5 * (edges[b] + edges[b + 1]))
                bin_means.append(float(in_bin.mean()))
                deviations.append(float(in_bin.std()))
        means, deviation = np.array(bin_means), np.array(deviations)
        axes.fill_between(centres, means - deviation, means + deviation, color=COLOURS[k], alpha=0.12, linewidth=0.0)
        axes.plot(centres, means, "o-", color=COLOURS[k], markersize=3, linewidth=1.4, label=f"along {name}")
    axes.set_xlim(edges[0], edges[-1])


def _filled_bins(x: Array) -> int:
    """Count the bins with enough samples for a mean."""
    _, indices = _bin_indices(x)
    return int((np.bincount(indices[(indices >= 0) & (indices < BINS)], minlength=BINS) >= MIN_BIN_SAMPLES).sum())


def _bin_indices(x: Array) -> tuple[Array, Array]:
    """Return the edges of equal bins between the 1st and the 99th percentile, and the bin of each value inside them.

    Values that vary by less than rounding are in one bin.
    """
    low, high = np.percentile(x, (1.0, 99.0))
    edges = np.linspace(low, high, BINS + 1)
    if not high - low > 1e-9:
        return np.zeros(2), np.zeros(len(x), dtype=int)
    indices = np.digitize(x, edges) - 1
    return edges, indices


# Prediction -----------------------------------------------------------------------------------------------------------


def prediction_figure(prediction: FlightPrediction, model: str) -> DetachedFigure:
    """Plot a few seconds of a flight, and a model's open-loop predictions from a measured state every 0.5 s."""
    samples, length = prediction.samples, prediction.windows.samples * prediction.windows.period
    first = _most_tilted_window(prediction)
    start_time = float(samples.time[prediction.windows.starts[first]])
    windows, next_start = [], start_time
    for i in range(first, len(prediction.windows.starts)):
        start = float(samples.time[prediction.windows.starts[i]])
        if start - start_time + length > SHOWN_DURATION + 1e-6:
            break
        if start >= next_start - 1e-6:
            windows.append(i)
            next_start = start + length
    visible = (samples.time >= start_time) & (samples.time <= start_time + SHOWN_DURATION)
    time_offsets = prediction.recorded_windows.period * np.arange(prediction.recorded_windows.samples + 1)
    with samara_style() as plt:
        figure, panels = plt.subplots(2, 2, figsize=(11.0, 6.0), sharex=True)
        titles = ("position about its mean [m]", "velocity [m/s]", "roll and pitch [°]", "rate [rad/s]")
        curve_names = (("x", "y", "z"), ("x", "y", "z"), ("roll", "pitch"), ("x", "y", "z"))
        middle = samples.body[:3, visible].mean(axis=1)[:, None]
        measured = _panel_curves(samples.body[:, visible], middle)
        for panel, title, names, rows in zip(panels.flat, titles, curve_names, measured, strict=True):
            for k, (name, row) in enumerate(zip(names, rows, strict=True)):
                panel.plot(
                    samples.time[visible] - start_time, row, color=COLOURS[k], linewidth=3.2, alpha=0.28, label=name
                )
            panel.set_title(title)
        for i in windows:
            start = int(prediction.windows.starts[i])
            predicted = np.concatenate([samples.body[:, start, None], prediction.predictions[model][:, :, i].T], axis=1)
            time = float(samples.time[start]) - start_time + time_offsets
            for panel, rows in zip(panels.flat, _panel_curves(predicted, middle), strict=True):
                for k, row in enumerate(rows):
                    panel.plot(time, row, color=COLOURS[k], linewidth=1.5)
                    panel.plot(time[0], row[0], "o", color=COLOURS[k], markersize=3.2)
        for panel in panels.flat:
            panel.set_xlim(0.0, SHOWN_DURATION)
            panel.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.1, ncols=3, handlelength=1.2)
        for panel in panels[1]:
            panel.set_xlabel(f"time [s] after {start_time:.1f} s")
        figure.suptitle(
            escape_text(f"{samples.name}: measured (broad), and predicted 0.5 s ahead from each dot ({model})"),
            fontsize=11,
        )
    return figure


def _most_tilted_window(prediction: FlightPrediction) -> int:
    """Return the first window of the few seconds with the largest tilt."""
    starts = prediction.windows.starts
    q = Quat(*prediction.samples.body[6:10, starts])
    tilt_measure = np.array(q.x**2 + q.y**2)
    window_count = max(round(SHOWN_DURATION / 0.05), 1)
    if len(tilt_measure) <= window_count:
        return 0
    total = np.concatenate([[0.0], np.cumsum(tilt_measure)])
    return int(np.argmax(total[window_count:] - total[:-window_count]))


def _panel_curves(body: Array, middle: Array) -> tuple[Array, Array, Array, Array]:
    euler = euler_from_quat(Quat(*body[6:10]))
    return body[:3] - middle, body[3:6], np.degrees(np.stack([euler.roll, euler.pitch])), body[10:13]


def draw_flight_plan(plan: FlightPlan, path: str | Path) -> None:
    """Plot the reference position over time by manoeuvre, and the expected errors."""
    time = np.linspace(0.0, plan.duration, 4000)
    p = np.stack([np.broadcast_to(coordinate, time.shape) for coordinate in plan.trajectory.evaluate(time).p_W])
    with samara_style() as plt:
        figure, panels = plt.subplot_mosaic(
            [["way", "way"], ["names", "errors"]],
            figsize=(11.0, 7.0),
            height_ratios=(1.0, 1.1),
            width_ratios=(1.0, 1.2),
        )
        _draw_manoeuvres(panels["way"], panels["names"], plan, time, p)
        _draw_expected_errors(panels["errors"], plan)
        figure.suptitle(
            escape_text(f"{plan.vehicle.name}: {len(plan.manoeuvres)} manoeuvres in {plan.duration:.0f} s"), fontsize=12
        )
        save(figure, path)


def _draw_manoeuvres(axes: Axes, names: Axes, plan: FlightPlan, time: Array, p: Array) -> None:
    """Plot the reference position with a letter over every manoeuvre, and the meaning of the letters in another panel."""
    for k, (name, row) in enumerate(zip(("x", "y", "z"), p, strict=True)):
        axes.plot(time, row, color=COLOURS[k], label=name, linewidth=1.3)
    durations = {candidate.manoeuvre.name: candidate.duration for candidate in plan.candidates}
    order = list(dict.fromkeys(manoeuvre.name for manoeuvre in plan.manoeuvres))
    start = 0.0
    for name, repetitions in groupby(manoeuvre.name for manoeuvre in plan.manoeuvres):
        end = start + len(list(repetitions)) * durations[name]
        axes.axvline(end, color=INK, linewidth=0.6, alpha=0.5)
        middle = 0.5 * (start + end)
        axes.annotate(
            ascii_uppercase[order.index(name) % 26],
            (middle, 1.02),
            xycoords=("data", "axes fraction"),
            ha="center",
            fontsize=9,
        )
        start = end
    axes.set(xlabel="time [s]", ylabel="reference position [m]", xlim=(0.0, plan.duration))
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.07), borderaxespad=0.1, ncols=3)  # above the letters
    counts = Counter(manoeuvre.name for manoeuvre in plan.manoeuvres)
    lines = [
        f"{ascii_uppercase[k % 26]}  {name}" + (f", {counts[name]} times" if counts[name] > 1 else "")
        for k, name in enumerate(order)
    ]
    names.text(0.0, 1.0, escape_text("\n".join(lines)), va="top", fontsize=8.5, linespacing=1.6)
    names.set_title("Manoeuvres")
    names.set_axis_off()


def _draw_expected_errors(axes: Axes, plan: FlightPlan) -> None:
    parameters = planned_parameters(plan.vehicle)
    targets = dict(zip((parameter.name for parameter in parameters), target_errors(parameters), strict=True))
    names = list(plan.errors)
    for i, name in enumerate(names):
        axes.plot([0.0, 100.0 * plan.errors[name]], [i, i], color=COLOURS[0], linewidth=4.0, solid_capstyle="butt")
        axes.plot([100.0 * targets[name]] * 2, [i - 0.35, i + 0.35], color=COLOURS[1], linewidth=1.6)
    axes.plot([], [], color=COLOURS[0], linewidth=4.0, label="expected")
    axes.plot([], [], color=COLOURS[1], linewidth=1.6, label="target")
    axes.set_yticks(range(len(names)), [display_name(name) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set(title="Standard errors [%]", xlim=(0.0, None))
    axes.grid(axis="y", visible=False)
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.1, ncols=2)


MIN_ERROR_FRACTION = 1e-3  # lower end of an error axis, relative to the final error of constant velocity
_BASELINE_STYLES = dict(zip(BASELINES, (":", "--"), strict=True))


def draw_validation(scores: Sequence[PredictionScore], path: str | Path, title: str = "") -> None:
    """Draw the RMS errors of position, velocity, attitude and rate over 0.5 s, of all flights and, faint, of each flight."""
    with atomic_write(path) as temporary, samara_style():
        prediction_error_figure(scores, title).savefig(temporary, format="png")


def prediction_error_figure(scores: Sequence[PredictionScore], title: str = "") -> DetachedFigure:
    """Plot the RMS prediction errors over the horizon; see `draw_validation`."""
    total_score = pool_scores(scores)
    models = [name for name in total_score.rms if name not in BASELINES]
    time = RECORD_PERIOD * np.arange(1, round(HORIZON / RECORD_PERIOD) + 1)
    with samara_style() as plt:
        figure, panels = plt.subplots(2, 2, figsize=(10.5, 6.8), sharex=True)
        for axes, quantity, unit in zip(panels.flat, QUANTITIES, UNITS, strict=True):
            for name, rms in total_score.rms.items():
                colour = INK if name in BASELINES else COLOURS[models.index(name) % len(COLOURS)]
                if name in models and len(scores) > 1:
                    for score in scores:
                        axes.semilogy(time, score.rms[name][quantity], color=colour, linewidth=0.5, alpha=0.35)
                axes.semilogy(
                    time,
                    rms[quantity],
                    _BASELINE_STYLES.get(name, "-"),
                    color=colour,
                    linewidth=2.0,
                    label=escape_text(name),
                )
            axes.set(title=f"{quantity} [{unit}]", xlim=(0.0, HORIZON))
            _label_decades(axes)
            min_error = min(float(score[quantity].min()) for score in total_score.rms.values())
            axes.set_ylim(
                max(0.7 * min_error, MIN_ERROR_FRACTION * float(total_score.rms[CONSTANT_VELOCITY][quantity][-1])), None
            )
        for axes in panels[1]:
            axes.set_xlabel("time since the measured state [s]")
        figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
        window_text = f"{total_score.windows} windows of {len(scores)} flight{'s' if len(scores) > 1 else ''}"
        note = "  (thin: each flight)" if len(scores) > 1 else ""
        figure.suptitle(escape_text(title) or f"RMS error of open-loop prediction, {window_text}{note}", fontsize=11)
    return figure


def _label_decades(axes: Axes) -> None:
    """Label the axis at 1, 2 and 5 of every decade, without powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
