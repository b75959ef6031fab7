"""Pictures of controller comparisons, training and races."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from samara.comparison.controllers import Comparison
from samara.comparison.race import Race
from samara.core.types import Array
from samara.vehicles.shape import COLOURS, INK
from samara.view.plot.style import DASHES, DetachedFigure, escape_text, samara_style, save
from samara.world.gates import Gate
from samara.world.track import Track


def magnification(error: float, size: float) -> float:
    """Return 1, 2, 5, 10, …: the largest factor that keeps the largest error within a tenth of the picture."""
    max_factor = 0.1 * size / max(error, 1e-9)
    steps = [1.0, *(mantissa * 10.0**power for power in range(5) for mantissa in (1.0, 2.0, 5.0))]
    return max(step for step in steps if step <= max(max_factor, 1.0))


def draw_comparison(comparison: Comparison, path: str | Path | None = None) -> DetachedFigure | Path:
    """Plot one row per wind: paths from above with magnified errors, and the errors of all controllers over time."""
    entries = comparison.rows
    winds = list(dict.fromkeys(entry.wind for entry in entries))
    names = list(dict.fromkeys(entry.controller for entry in entries))
    with samara_style() as plt:
        figure, grid = plt.subplots(
            len(winds),
            2,
            figsize=(13, 1.0 + 3.6 * len(winds)),
            width_ratios=(1.0, 1.35),
            squeeze=False,
        )
        for (top_view, errors), wind in zip(grid, winds, strict=True):
            wind_entries = [entry for entry in entries if entry.wind == wind]
            reference = wind_entries[0].run.reference_position
            top_view.plot(
                reference[:, 0], reference[:, 1], color=INK, linestyle=(0, (2, 2)), linewidth=1.2, label="reference"
            )
            factor = magnification(
                max(float(entry.run.error.max()) for entry in wind_entries), float(np.ptp(reference[:, :2]))
            )
            for entry in wind_entries:
                colour = COLOURS[names.index(entry.controller) % len(COLOURS)]
                magnified = reference + factor * (entry.run.position - reference)
                top_view.plot(magnified[:, 0], magnified[:, 1], color=colour, linewidth=1.2)
                errors.semilogy(
                    entry.run.time - comparison.error_start,
                    1e3 * np.maximum(entry.run.error, 1e-6),
                    color=colour,
                    label=f"{entry.controller} {entry.rmse_text}",
                )
            top_view.set_aspect("equal", adjustable="datalim")
            top_view.set(xlabel="x east [m]", ylabel="y north [m]")
            top_view.set_title(f"Wind {wind}, errors × {factor:g}")
            errors.set(xlabel="time [s]", ylabel="error [mm]")
            errors.set_title("Position error, and its RMS [mm]")
            errors.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
            errors.set_xlim(0.0, None)
        figure.suptitle(escape_text(comparison.title), fontweight="bold", color=INK)
        return figure if path is None else save(figure, path)


SMOOTHING_DIVISOR = 25  # the running mean covers this fraction (1/25) of the updates


def learning_curve(curve: Array, title: str) -> DetachedFigure:
    """Plot the reward of each update, faint, and the running mean."""
    rewards = np.asarray(curve, dtype=float)
    width = max(1, len(rewards) // SMOOTHING_DIVISOR)
    mean = np.convolve(
        np.pad(rewards, (width // 2, width - 1 - width // 2), mode="edge"), np.ones(width) / width, "valid"
    )
    with samara_style() as plt:
        figure, axes = plt.subplots(figsize=(7.0, 3.6))
        updates = np.arange(1, len(rewards) + 1)
        axes.plot(updates, rewards, color=COLOURS[0], alpha=0.35, linewidth=1.0)
        axes.plot(updates, mean, color=COLOURS[0], linewidth=2.0)
        axes.set_xlabel("update")
        axes.set_ylabel("mean reward per step")
        axes.set_title(title, loc="left")
        axes.set_xlim(1, max(2, len(rewards)))
        return figure


FINISHED_COLOUR, STOPPED_COLOUR = COLOURS[0], COLOURS[1]
MARGIN = 0.08  # as a fraction of the course's size


def draw_race(races: Sequence[Race], path: str | Path) -> None:
    """Plot one panel per race, controllers in rows and levels in columns: gates, poles, the plan and every path."""
    names = list(dict.fromkeys(race.controller for race in races))
    levels = sorted({race.level for race in races})
    track = races[0].track
    with samara_style() as plt:
        width, height = _course_size(track)
        figure, grid = plt.subplots(
            len(names),
            len(levels),
            figsize=(1.0 + 4.4 * len(levels), 1.0 + 4.4 * height / width * len(names)),
            squeeze=False,
            sharex=True,
            sharey=True,
        )
        for race in races:
            _draw_race_panel(grid[names.index(race.controller), levels.index(race.level)], race)
        for axes in grid[-1]:
            axes.set_xlabel("x [m]")
        for axes in grid[:, 0]:
            axes.set_ylabel("y [m]")
        figure.suptitle(escape_text(f"{track.name}: {track.description}"), fontweight="bold", color=INK)
        save(figure, path)


def _draw_race_panel(axes: Axes, race: Race) -> None:
    track, plan = race.track, race.line.trajectory
    reference = plan.sample_path(math.inf, 400)
    axes.plot(reference[:, 0], reference[:, 1], color=INK, linestyle=DASHES, linewidth=1.0, zorder=1)
    for k in range(len(race.seeds)):
        in_race = race.time <= race.score.time[k]
        x, y = race.p_W.x[in_race, k], race.p_W.y[in_race, k]
        finished = bool(race.score.is_finished[k])
        axes.plot(x, y, color=FINISHED_COLOUR if finished else STOPPED_COLOUR, linewidth=0.9, alpha=0.7, zorder=2)
        if not finished and len(x):
            axes.plot(x[-1], y[-1], marker="x", color=STOPPED_COLOUR, markersize=7, markeredgewidth=2.0, zorder=5)
        course = race.disturbances.course
        for gate in course.gates:
            _draw_gate(axes, Gate(type(gate.p_W)(*(v[k] for v in gate.p_W)), gate.yaw[k]), track, 0.25)
        for pole in course.poles:
            axes.plot(pole.x[k], pole.y[k], marker="o", color=INK, markersize=2.5, alpha=0.4, zorder=3)
    for k, gate in enumerate(track.gates):
        _draw_gate(axes, gate, track, 1.0)
        label_offset = 0.35 * track.sizes.frame_size[0]
        label_position = gate.p_W.x - label_offset * math.cos(gate.yaw), gate.p_W.y - label_offset * math.sin(gate.yaw)
        axes.text(
            *label_position, str(k + 1), ha="center", va="center", fontsize=9, fontweight="bold", color=INK, zorder=6
        )
    for pole in track.poles:
        axes.plot(pole.x, pole.y, marker="o", color=INK, markersize=5, zorder=4)
    axes.plot(track.start_W.x, track.start_W.y, marker="s", color=INK, markersize=5, zorder=4)
    axes.set_aspect("equal", adjustable="box")
    _, low, high = _course_bounds(track)
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    mean = race.score.mean_time
    result = f"{int(race.score.is_finished.sum())} of {len(race.seeds)}" + (
        "" if math.isnan(mean) else f", {mean:.2f} s"
    )
    axes.set_title(escape_text(f"{race.controller}, level {race.level}: {result}"), fontsize=10)


def _draw_gate(axes: Axes, gate: Gate, track: Track, alpha: float) -> None:
    """Draw the frame of a gate from above: two posts with a gap between them."""
    left = np.array([-math.sin(gate.yaw), math.cos(gate.yaw)])
    inner, outer = 0.5 * track.sizes.opening_size[0], 0.5 * track.sizes.frame_size[0]
    for side in (-1.0, 1.0):
        ends = np.array([gate.p_W[:2] + side * half_width * left for half_width in (inner, outer)])
        axes.plot(*ends.T, color=COLOURS[2], linewidth=4.0, alpha=alpha, solid_capstyle="butt", zorder=3)


def _course_bounds(track: Track) -> tuple[float, Array, Array]:
    """Return the size of the course with a margin, and its corners [m]."""
    positions = [
        track.start_W,
        *track.poles,
        *(gate.p_W for gate in track.gates),
        *(p for via in track.via for p in via),
    ]
    points = np.array([position[:2] for position in positions])
    low, high = points.min(axis=0) - track.sizes.frame_size[0], points.max(axis=0) + track.sizes.frame_size[0]
    margin = MARGIN * float((high - low).max())
    return float((high - low).max()), low - margin, high + margin


def _course_size(track: Track) -> tuple[float, float]:
    _, low, high = _course_bounds(track)
    return float(high[0] - low[0]), float(high[1] - low[1])
