"""Pictures of a campaign: where it fails, how its metrics are distributed, and a fan of its trajectories."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from samara.campaigns.confidence import clopper_pearson
from samara.campaigns.failure_curve import FailureCurve
from samara.campaigns.outcome import DEGRADED, FAIL, INVALID, PASS
from samara.campaigns.sensitivity import bins_of
from samara.core.types import Array
from samara.record.metrics import METRICS
from samara.vehicles.shape import COLOURS, INK
from samara.view.plot.style import Picture, plain, samara_style

COLOUR = {PASS: COLOURS[0], DEGRADED: COLOURS[4], FAIL: COLOURS[1], INVALID: "#000000"}
MARK = {PASS: "o", DEGRADED: "D", FAIL: "X", INVALID: "s"}
SIZE = {PASS: 7.0, DEGRADED: 11.0, FAIL: 22.0, INVALID: 20.0}
DRAWN = (PASS, DEGRADED, FAIL, INVALID)  # what failed lies above what passed
MOST_POINTS = 3000  # of an outcome in a map
RATE_BINS = 10
WIDE = 11.0  # [inch]


def failure_rates(factors: Mapping[str, Array], failed: Array, curves: Mapping[str, FailureCurve]) -> Picture:
    """The share of failures over each factor: in bins of as many flights, with exact 95 % intervals, and a smooth curve"""
    columns = min(len(factors), 4)
    rows = math.ceil(len(factors) / columns)
    with samara_style() as plt:
        figure, panels = plt.subplots(rows, columns, figsize=(WIDE, 0.5 + 2.5 * rows), sharey=True, squeeze=False)
        top = 0.0
        for axes, (name, x) in zip(panels.flat, factors.items(), strict=False):
            label = bins_of(x, RATE_BINS)
            for own in range(int(label.max()) + 1):
                inside = label == own
                count, n = int(failed[inside].sum()), int(inside.sum())
                low, high = clopper_pearson(count, n)
                middle = float(x[inside].mean())
                axes.vlines(middle, 100 * low, 100 * high, color=COLOURS[0], linewidth=1.2)
                axes.plot(middle, 100 * count / n, "o", color=COLOURS[0], markersize=4)
                top = max(top, 100 * high)
            if name in curves:
                along = np.linspace(float(x.min()), float(x.max()), 100)
                low_band, high_band = curves[name].band(along)
                axes.fill_between(along, 100 * low_band, 100 * high_band, color=COLOURS[1], alpha=0.15, linewidth=0)
                axes.plot(along, 100 * curves[name].rate(along), color=COLOURS[1])
            axes.set(xlabel=plain(name))
        for axes in list(panels.flat)[len(factors) :]:
            axes.set_visible(False)
        for axes in panels[:, 0]:
            axes.set(ylabel="flights that fail [%]", ylim=(0.0, min(100.0, 1.05 * top)))
    return figure


def failure_map(factors: Mapping[str, Array], outcome: Array) -> Picture:
    """Every pair of factors, a point for each flight, coloured by what came of it"""
    names = list(factors)
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    columns = min(len(pairs), 3)
    rows = math.ceil(len(pairs) / columns)
    with samara_style() as plt:
        figure, panels = plt.subplots(rows, columns, figsize=(WIDE, 0.6 + 3.2 * rows), squeeze=False)
        for axes, (a, b) in zip(panels.flat, pairs, strict=False):
            for own in DRAWN:
                which = np.flatnonzero(outcome == own)
                which = which[:: max(1, math.ceil(len(which) / MOST_POINTS))]
                axes.scatter(
                    factors[a][which],
                    factors[b][which],
                    s=SIZE[own],
                    marker=MARK[own],
                    color=COLOUR[own],
                    alpha=0.35 if own == PASS else 0.85,
                    linewidths=0.0,
                    label=own if len(which) else None,
                )
            axes.set(xlabel=plain(a), ylabel=plain(b))
        for axes in list(panels.flat)[len(pairs) :]:
            axes.set_visible(False)
        handles, labels = panels[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=len(DRAWN), markerscale=1.6)
    return figure


def bad_quantile(metric: str) -> float:
    """The quantile that 99 of 100 flights are better than"""
    return 0.01 if METRICS[metric].lower_is_worse else 0.99


def distributions(metrics: Mapping[str, Array], units: Mapping[str, str], limits: Mapping[str, float]) -> Picture:
    """Histograms with the median and the value that 99 of 100 are better than; dashed, the limit of what is still whole"""
    columns = min(len(metrics), 3)
    rows = math.ceil(len(metrics) / columns)
    with samara_style() as plt:
        figure, panels = plt.subplots(rows, columns, figsize=(WIDE, 0.3 + 2.3 * rows), squeeze=False)
        for axes, (name, values) in zip(panels.flat, metrics.items(), strict=False):
            axes.hist(values, bins=min(60, max(10, len(values) // 15)), color=COLOURS[5], linewidth=0)
            for q, style in ((0.5, "-"), (bad_quantile(name), ":")):
                at = float(np.quantile(values, q))
                axes.axvline(at, color=INK, linewidth=1.1, linestyle=style)
            if name in limits and values.min() <= limits[name] <= values.max():
                axes.axvline(limits[name], color=COLOURS[1], linewidth=1.3, linestyle="--")
            axes.set(xlabel=f"{plain(name)}{f' [{units[name]}]' if units.get(name) else ''}")
            axes.grid(visible=False, axis="x")
        for axes in list(panels.flat)[len(metrics) :]:
            axes.set_visible(False)
        for axes in panels[:, 0]:
            axes.set(ylabel="flights")
    return figure


def fan(paths: Sequence[tuple[str, Array, Array]]) -> Picture:
    """From above, height over time, and distance from the median of those that pass: (outcome, times, places) of each flight"""
    good = [p_W for outcome, _, p_W in paths if outcome in (PASS, DEGRADED)]
    middle = np.nanmedian(np.stack(good or [p_W for _, _, p_W in paths]), axis=0)
    with samara_style() as plt:
        figure, (above, height, apart) = plt.subplots(1, 3, figsize=(WIDE, 3.9))
        seen: set[str] = set()
        for outcome, time, p_W in sorted(paths, key=lambda own: DRAWN.index(own[0])):
            bad = outcome in (FAIL, INVALID)
            style = {"color": COLOUR[outcome], "linewidth": 0.9 if bad else 0.8, "alpha": 0.7 if bad else 0.4}
            above.plot(p_W[:, 0], p_W[:, 1], label=None if outcome in seen else outcome, **style)
            height.plot(time, p_W[:, 2], **style)
            apart.plot(time, np.sqrt(((p_W - middle) ** 2).sum(axis=1)), **style)
            seen.add(outcome)
        above.set(xlabel="x east [m]", ylabel="y north [m]", title="from above")
        above.set_aspect("equal", adjustable="datalim")
        height.set(xlabel="time [s]", ylabel="z [m]", title="height")
        apart.set(xlabel="time [s]", ylabel="[m]", title="distance from the median flight", ylim=(0.0, None))
        legend = figure.legend(*above.get_legend_handles_labels(), loc="outside upper right", ncols=len(DRAWN))
        for line in legend.get_lines():
            line.set(alpha=1.0, linewidth=2.0)
    return figure
