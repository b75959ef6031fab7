"""The picture of a contest: paths seen from above, and the errors over time."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from samara.compare.controllers import SETTLE, Entry
from samara.compare.race import Race
from samara.core.types import Array
from samara.vehicles.shape import COLOURS, INK
from samara.view.plot.style import DASHES, Picture, plain, samara_style, save
from samara.world.gates import Gate
from samara.world.track import Track


def magnification(error: float, size: float) -> float:
    """1, 2, 5, 10, … times: the most that keeps the largest error within a tenth of the picture"""
    room = 0.1 * size / max(error, 1e-9)
    steps = [1.0, *(first * 10.0**power for power in range(5) for first in (1.0, 2.0, 5.0))]
    return max(step for step in steps if step <= max(room, 1.0))


def draw_contest(entries: Sequence[Entry], path: str | Path, title: str) -> None:
    """For each wind a row: the paths from above, their errors magnified, and the errors of all controllers over time"""
    winds = list(dict.fromkeys(own.wind for own in entries))
    names = list(dict.fromkeys(own.controller for own in entries))
    with samara_style() as plt:
        figure, grid = plt.subplots(
            len(winds),
            2,
            figsize=(13, 1.0 + 3.6 * len(winds)),
            width_ratios=(1.0, 1.35),
            squeeze=False,
        )
        for (above, errors), wind in zip(grid, winds, strict=True):
            own = [entry for entry in entries if entry.wind == wind]
            asked = own[0].run.reference_position
            above.plot(asked[:, 0], asked[:, 1], color=INK, linestyle=(0, (2, 2)), linewidth=1.2, label="reference")
            stretch = magnification(max(float(entry.run.error.max()) for entry in own), float(np.ptp(asked[:, :2])))
            for entry in own:
                colour = COLOURS[names.index(entry.controller) % len(COLOURS)]
                seen = asked + stretch * (entry.run.position - asked)
                above.plot(seen[:, 0], seen[:, 1], color=colour, linewidth=1.2)
                label = f"{entry.controller} {1e3 * entry.rmse:.3g} mm"
                errors.semilogy(
                    entry.run.time - SETTLE, 1e3 * np.maximum(entry.run.error, 1e-6), color=colour, label=label
                )
            above.set_aspect("equal", adjustable="datalim")
            above.set(xlabel="x east [m]", ylabel="y north [m]")
            above.set_title(f"Wind {wind:g} m/s from the west, errors × {stretch:g}")
            errors.set(xlabel="time [s]", ylabel="error [mm]")
            errors.set_title("Position error, and its RMS")
            errors.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
            errors.set_xlim(0.0, None)
        figure.suptitle(plain(title), fontweight="bold", color=INK)
        save(figure, path)


SMOOTH = 25  # of the updates, the part that a mean is taken over


def learning_curve(curve: Array, title: str) -> Picture:
    """Each update's reward, faint, and their running mean"""
    rewards = np.asarray(curve, dtype=float)
    width = max(1, len(rewards) // SMOOTH)
    mean = np.convolve(
        np.pad(rewards, (width // 2, width - 1 - width // 2), mode="edge"), np.ones(width) / width, "valid"
    )
    with samara_style() as plt:
        figure, axes = plt.subplots(figsize=(7.0, 3.6))
        updates = np.arange(1, len(rewards) + 1)
        axes.plot(updates, rewards, color=COLOURS[0], alpha=0.35, linewidth=1.0)
        axes.plot(updates, mean, color=COLOURS[0], linewidth=2.0)
        axes.set_xlabel("update")
        axes.set_ylabel("mean reward of a step")
        axes.set_title(title, loc="left")
        axes.set_xlim(1, max(2, len(rewards)))
        return figure


THROUGH, STOPPED = COLOURS[0], COLOURS[1]
MARGIN = 0.08  # of the picture, about what is flown


def draw_race(races: Sequence[Race], path: str | Path) -> None:
    """A panel for each race, controllers below each other and levels beside: gates, poles, the plan, and every path"""
    names = list(dict.fromkeys(own.controller for own in races))
    levels = sorted({own.level for own in races})
    track = races[0].track
    with samara_style() as plt:
        wide, high = _span(track)
        figure, grid = plt.subplots(
            len(names),
            len(levels),
            figsize=(1.0 + 4.4 * len(levels), 1.0 + 4.4 * high / wide * len(names)),
            squeeze=False,
            sharex=True,
            sharey=True,
        )
        for own in races:
            _panel(grid[names.index(own.controller), levels.index(own.level)], own)
        for axes in grid[-1]:
            axes.set_xlabel("x [m]")
        for axes in grid[:, 0]:
            axes.set_ylabel("y [m]")
        figure.suptitle(plain(f"{track.name}: {track.description}"), fontweight="bold", color=INK)
        save(figure, path)


def _panel(axes: Axes, own: Race) -> None:
    track, plan = own.track, own.line.trajectory
    asked = plan.path(math.inf, 400)
    axes.plot(asked[:, 0], asked[:, 1], color=INK, linestyle=DASHES, linewidth=1.0, zorder=1)
    for k in range(len(own.seeds)):
        until = own.time <= own.score.time[k]
        x, y = own.p_W.x[until, k], own.p_W.y[until, k]
        through = bool(own.score.finished[k])
        axes.plot(x, y, color=THROUGH if through else STOPPED, linewidth=0.9, alpha=0.7, zorder=2)
        if not through and len(x):
            axes.plot(x[-1], y[-1], marker="x", color=STOPPED, markersize=7, markeredgewidth=2.0, zorder=5)
        course = own.disturbances.course
        for gate in course.gates:
            _gate(axes, Gate(type(gate.p_W)(*(v[k] for v in gate.p_W)), gate.yaw[k]), track, 0.25)
        for pole in course.poles:
            axes.plot(pole.x[k], pole.y[k], marker="o", color=INK, markersize=2.5, alpha=0.4, zorder=3)
    for k, gate in enumerate(track.gates):
        _gate(axes, gate, track, 1.0)
        before = 0.35 * track.sizes.frame[0]
        place = gate.p_W.x - before * math.cos(gate.yaw), gate.p_W.y - before * math.sin(gate.yaw)
        axes.text(*place, str(k + 1), ha="center", va="center", fontsize=9, fontweight="bold", color=INK, zorder=6)
    for pole in track.poles:
        axes.plot(pole.x, pole.y, marker="o", color=INK, markersize=5, zorder=4)
    axes.plot(track.start_W.x, track.start_W.y, marker="s", color=INK, markersize=5, zorder=4)
    axes.set_aspect("equal", adjustable="box")
    _, low, high = _box(track)
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    mean = own.score.mean_time
    told = f"{int(own.score.finished.sum())} of {len(own.seeds)}" + ("" if math.isnan(mean) else f", {mean:.2f} s")
    axes.set_title(plain(f"{own.controller}, level {own.level}: {told}"), fontsize=10)


def _gate(axes: Axes, gate: Gate, track: Track, alpha: float) -> None:
    """Its frame from above: two posts, a gap between them"""
    left = np.array([-math.sin(gate.yaw), math.cos(gate.yaw)])
    inner, outer = 0.5 * track.sizes.opening[0], 0.5 * track.sizes.frame[0]
    for side in (-1.0, 1.0):
        ends = np.array([gate.p_W[:2] + side * own * left for own in (inner, outer)])
        axes.plot(*ends.T, color=COLOURS[2], linewidth=4.0, alpha=alpha, solid_capstyle="butt", zorder=3)


def _box(track: Track) -> tuple[float, Array, Array]:
    """What is flown through, with a margin: its size, and its corners  [m]"""
    places = [track.start_W, *track.poles, *(gate.p_W for gate in track.gates), *(p for via in track.via for p in via)]
    points = np.array([place[:2] for place in places])
    low, high = points.min(axis=0) - track.sizes.frame[0], points.max(axis=0) + track.sizes.frame[0]
    more = MARGIN * float((high - low).max())
    return float((high - low).max()), low - more, high + more


def _span(track: Track) -> tuple[float, float]:
    _, low, high = _box(track)
    return float(high[0] - low[0]), float(high[1] - low[1])
