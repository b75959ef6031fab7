"""Pictures of a campaign: failure rates over factors, distributions of metrics, and a fan of trajectories."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.ticker import MaxNLocator

from samara.campaigns.confidence import clopper_pearson
from samara.campaigns.failure_curve import FailureCurve
from samara.campaigns.outcome import DEGRADED, FAIL, INVALID, PASS
from samara.campaigns.sensitivity import assign_bins
from samara.core.types import Array
from samara.record.metrics import METRICS
from samara.vehicles.shape import COLOURS, INK
from samara.view.plot.style import DetachedFigure, escape_text, samara_style

OUTCOME_COLOURS = {PASS: COLOURS[0], DEGRADED: COLOURS[4], FAIL: COLOURS[1], INVALID: "#000000"}
OUTCOME_MARKERS = {PASS: "o", DEGRADED: "D", FAIL: "X", INVALID: "s"}
MARKER_SIZES = {PASS: 7.0, DEGRADED: 11.0, FAIL: 22.0, INVALID: 20.0}
DRAWING_ORDER = (PASS, DEGRADED, FAIL, INVALID)  # drawing order: failures on top
MAX_POINTS = 3000  # points per outcome in a map
RATE_BINS = 10
FIGURE_WIDTH = 11.0  # [inch]


def failure_rates(factors: Mapping[str, Array], failed: Array, curves: Mapping[str, FailureCurve]) -> DetachedFigure:
    """Plot the failure rate over each factor: bins of equal size with exact 95 % intervals, and the fitted curve."""
    columns = min(len(factors), 4)
    rows = math.ceil(len(factors) / columns)
    with samara_style() as plt:
        figure, panels = plt.subplots(
            rows, columns, figsize=(FIGURE_WIDTH, 0.5 + 2.5 * rows), sharey=True, squeeze=False
        )
        max_rate = 0.0
        for axes, (name, x) in zip(panels.flat, factors.items(), strict=False):
            bin_indices = assign_bins(x, RATE_BINS)
            for bin_index in range(int(bin_indices.max()) + 1):
                in_bin = bin_indices == bin_index
                count, n = int(failed[in_bin].sum()), int(in_bin.sum())
                low, high = clopper_pearson(count, n)
                bin_mean = float(x[in_bin].mean())
                axes.vlines(bin_mean, 100 * low, 100 * high, color=COLOURS[0], linewidth=1.2)
                axes.plot(bin_mean, 100 * count / n, "o", color=COLOURS[0], markersize=4)
                max_rate = max(max_rate, 100 * high)
            if name in curves:
                abscissae = np.linspace(float(x.min()), float(x.max()), 100)
                low_band, high_band = curves[name].band(abscissae)
                axes.fill_between(abscissae, 100 * low_band, 100 * high_band, color=COLOURS[1], alpha=0.15, linewidth=0)
                axes.plot(abscissae, 100 * curves[name].rate(abscissae), color=COLOURS[1])
            axes.set(xlabel=escape_text(name))
            if float(np.abs(x).max()) < 1e-3:  # Matplotlib would write the exponent over the label
                axes.xaxis.set_major_locator(MaxNLocator(3))
                axes.xaxis.set_major_formatter("{x:.3g}")
        for axes in list(panels.flat)[len(factors) :]:
            axes.set_visible(False)
        for axes in panels[:, 0]:
            axes.set(ylabel="failed flights [%]", ylim=(0.0, min(100.0, 1.05 * max_rate)))
    return figure


def failure_map(factors: Mapping[str, Array], outcome: Array) -> DetachedFigure:
    """Plot every pair of factors, one point per flight, coloured by outcome."""
    names = list(factors)
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    columns = min(len(pairs), 3)
    rows = math.ceil(len(pairs) / columns)
    with samara_style() as plt:
        figure, panels = plt.subplots(rows, columns, figsize=(FIGURE_WIDTH, 0.6 + 3.2 * rows), squeeze=False)
        for axes, (a, b) in zip(panels.flat, pairs, strict=False):
            for outcome_name in DRAWING_ORDER:
                indices = np.flatnonzero(outcome == outcome_name)
                indices = indices[:: max(1, math.ceil(len(indices) / MAX_POINTS))]
                axes.scatter(
                    factors[a][indices],
                    factors[b][indices],
                    s=MARKER_SIZES[outcome_name],
                    marker=OUTCOME_MARKERS[outcome_name],
                    color=OUTCOME_COLOURS[outcome_name],
                    alpha=0.35 if outcome_name == PASS else 0.85,
                    linewidths=0.0,
                    label=outcome_name if len(indices) else None,
                )
            axes.set(xlabel=escape_text(a), ylabel=escape_text(b))
        for axes in list(panels.flat)[len(pairs) :]:
            axes.set_visible(False)
        handles, labels = panels[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=len(DRAWING_ORDER), markerscale=1.6)
    return figure


def bad_quantile(metric: str) -> float:
    """Return the quantile at the bad end of a metric: 99 % of flights are better."""
    return 0.01 if METRICS[metric].lower_is_worse else 0.99


def distributions(
    metrics: Mapping[str, Array], units: Mapping[str, str], limits: Mapping[str, float]
) -> DetachedFigure:
    """Plot histograms with the median and the `bad_quantile` of each metric; dashed, the limit of degraded flights."""
    columns = min(len(metrics), 3)
    rows = math.ceil(len(metrics) / columns)
    with samara_style() as plt:
        figure, panels = plt.subplots(rows, columns, figsize=(FIGURE_WIDTH, 0.3 + 2.3 * rows), squeeze=False)
        for axes, (name, values) in zip(panels.flat, metrics.items(), strict=False):
            axes.hist(values, bins=min(60, max(10, len(values) // 15)), color=COLOURS[5], linewidth=0)
            for q, style in ((0.5, "-"), (bad_quantile(name), ":")):
                quantile_value = float(np.quantile(values, q))
                axes.axvline(quantile_value, color=INK, linewidth=1.1, linestyle=style)
            if name in limits and values.min() <= limits[name] <= values.max():
                axes.axvline(limits[name], color=COLOURS[1], linewidth=1.3, linestyle="--")
            axes.set(xlabel=f"{escape_text(name)}{f' [{units[name]}]' if units.get(name) else ''}")
            axes.grid(visible=False, axis="x")
            axes.locator_params(axis="x", nbins=4)
            axes.locator_params(axis="y", nbins=5, integer=True)
        for axes in list(panels.flat)[len(metrics) :]:
            axes.set_visible(False)
        for axes in panels[:, 0]:
            axes.set(ylabel="flights")
    return figure


def trajectory_fan(paths: Sequence[tuple[str, Array, Array]]) -> DetachedFigure:
    """Plot paths from above, height over time, and distance from the median of passed flights; (outcome, times, p_W) each."""
    passed = [p_W for outcome, _, p_W in paths if outcome in (PASS, DEGRADED)]
    median_path = np.nanmedian(np.stack(passed or [p_W for _, _, p_W in paths]), axis=0)
    with samara_style() as plt:
        figure, (top_view, height, distance) = plt.subplots(1, 3, figsize=(FIGURE_WIDTH, 3.9))
        labelled: set[str] = set()
        for outcome, time, p_W in sorted(paths, key=lambda path: DRAWING_ORDER.index(path[0])):
            is_failure = outcome in (FAIL, INVALID)
            style = {
                "color": OUTCOME_COLOURS[outcome],
                "linewidth": 0.9 if is_failure else 0.8,
                "alpha": 0.7 if is_failure else 0.4,
            }
            top_view.plot(p_W[:, 0], p_W[:, 1], label=None if outcome in labelled else outcome, **style)
            height.plot(time, p_W[:, 2], **style)
            distance.plot(time, np.sqrt(((p_W - median_path) ** 2).sum(axis=1)), **style)
            labelled.add(outcome)
        top_view.set(xlabel="x east [m]", ylabel="y north [m]", title="from above")
        top_view.set_aspect("equal", adjustable="datalim")
        height.set(xlabel="time [s]", ylabel="z [m]", title="height")
        distance.set(xlabel="time [s]", ylabel="[m]", title="distance from the median flight", ylim=(0.0, None))
        legend = figure.legend(
            *top_view.get_legend_handles_labels(), loc="outside upper right", ncols=len(DRAWING_ORDER)
        )
        for line in legend.get_lines():
            line.set(alpha=1.0, linewidth=2.0)
    return figure
