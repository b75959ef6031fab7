"""The picture and the report of a run."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from samara.algebra import Quat, Vec3, rotate
from samara.files import write_text, written_whole
from samara.sim.run import Judged, Run, Track
from samara.view.style import COLOURS, INK, samara_style

FRAMES = 14  # body frames drawn along a path
SPINNING = 720.0  # [°]: a yaw that turns further is drawn within ±180°
LABEL = 26  # letters of an event's name that fit beside its line
PATHS = 8  # more drones than this are drawn as thin lines, without body frames


def draw_run(run: Run, path: str | Path | None = None) -> Any:
    """Position against reference, attitude and motors of the first drone, and all paths; a PNG, or a figure without a path"""
    with samara_style() as plt:
        figure = plt.figure(figsize=(13, 8), layout="constrained")
        grid = figure.add_gridspec(3, 2, width_ratios=(1.25, 1.0))
        position, attitude, motors = (figure.add_subplot(grid[row, 0]) for row in range(3))
        track = run.tracks[0]
        _draw_position(position, track)
        _draw_attitude(attitude, track)
        _draw_motors(motors, track)
        _draw_paths(figure.add_subplot(grid[:, 1], projection="3d"), run)
        for axes in (position, attitude, motors):
            axes.set_xlim(track.time[0], max(track.time[-1], track.time[0] + 1e-3))
            _mark_events(axes, run, named=axes is attitude)
        motors.set_xlabel("time [s]")
        others = f" and {len(run.tracks) - 1} more" if len(run.tracks) > 1 else ""
        figure.suptitle(
            f"{run.scenario} · {track.vehicle.name}{others} · {track.controller} control",
            fontweight="bold",
            color=INK,
        )
        if path is None:
            return figure
        with written_whole(path) as temporary:
            figure.savefig(temporary, format="png")
        plt.close(figure)
    return Path(path)


def _draw_position(axes: Any, track: Track) -> None:
    for k, name in enumerate(("x east", "y north", "z up")):
        axes.plot(track.time, track.position[:, k], color=COLOURS[k], label=name)
        asked = {"color": COLOURS[k], "linestyle": (0, (2, 2)), "linewidth": 1.0, "alpha": 0.8}
        axes.plot(track.time, track.reference_position[:, k], **asked)
    axes.plot([], [], color=INK, linestyle=(0, (2, 2)), linewidth=1.0, label="reference")
    axes.set_title("Position")
    axes.set_ylabel("[m]")
    _legend_above(axes, 4)


def _draw_attitude(axes: Any, track: Track) -> None:
    angles = np.degrees(np.unwrap(track.euler, axis=0))
    start = round(float(angles[0, 2]))
    for k, name in enumerate(("roll", "pitch")):
        axes.plot(track.time, angles[:, k], color=COLOURS[k], label=name)
    if np.ptp(angles[:, 2]) > SPINNING:
        axes.plot(track.time, np.degrees(track.euler[:, 2]), ".", color=COLOURS[2], markersize=1.5, label="yaw")
    else:
        yaw = f"yaw − {start}°" if start else "yaw"
        axes.plot(track.time, angles[:, 2] - start, color=COLOURS[2], label=yaw)
    axes.set_title("Attitude")
    axes.set_ylabel("[°]")
    _legend_above(axes, 3)


def _draw_motors(axes: Any, track: Track) -> None:
    if not track.vehicle.rotors:
        axes.plot(track.command_time, track.command[:, 0], color=COLOURS[0], label="thrust")
        axes.set_title("Thrust")
        axes.set_ylabel("[N]")
        return
    for k, rotor in enumerate(track.vehicle.rotors):
        label, colour = f"{k} {'ccw' if rotor.spin > 0 else 'cw'}", COLOURS[k % len(COLOURS)]
        axes.plot(track.time, track.rotor_speed[:, k], color=colour, label=label, linewidth=1.1)
    axes.set_title("Rotor speeds")
    axes.set_ylabel("[rad/s]")
    _legend_above(axes, len(track.vehicle.rotors))


def _legend_above(axes: Any, columns: int) -> None:
    """On the line of the title, where no curve can run through it."""
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.99), ncols=columns, borderaxespad=0.2, handlelength=1.5)


def _mark_events(axes: Any, run: Run, *, named: bool) -> None:
    end = run.tracks[0].time[-1]
    for k, line in enumerate(own for own in run.logs if 0.0 < own.time_us / 1e6 < end):
        time = line.time_us / 1e6
        axes.axvline(time, color=INK, linewidth=0.8, alpha=0.35)
        if named and k < 8:
            spot = {"fontsize": 7, "style": "italic", "rotation": 90, "va": "bottom", "ha": "right"}
            words = line.message if len(line.message) <= LABEL else f"{line.message[:LABEL].rstrip()}…"
            axes.text(time, 0.03, words, transform=axes.get_xaxis_transform(), **spot)


def _draw_paths(axes: Any, run: Run) -> None:
    few = len(run.tracks) <= PATHS
    points = np.concatenate([track.position for track in run.tracks])
    low, high = points.min(axis=0), points.max(axis=0)
    middle, half = 0.5 * (low + high), 0.55 * float(max((high - low).max(), 1.0))
    for k, track in enumerate(run.tracks):
        colour, p = COLOURS[k % len(COLOURS)], track.position
        if few:
            asked = {"color": INK, "linestyle": (0, (2, 2)), "linewidth": 1.0}
            axes.plot(*track.reference_position.T, label="reference" if k == 0 else None, **asked)
            axes.plot(p[:, 0], p[:, 1], np.full(len(p), min(low[2], 0.0)), color=INK, alpha=0.2, linewidth=1.0)
            _draw_frames(axes, track, 0.14 * half)
        label = track.name if few else None
        axes.plot(*p.T, color=colour, linewidth=2.0 if few else 0.8, label=label)
    axes.set(xlabel="x east [m]", ylabel="y north [m]", zlabel="z up [m]")
    axes.set_xlim(middle[0] - half, middle[0] + half)
    axes.set_ylim(middle[1] - half, middle[1] + half)
    bottom = min(float(low[2]), 0.0)
    axes.set_zlim(bottom, bottom + 2.0 * half)
    axes.set_box_aspect((1.0, 1.0, 1.0), zoom=0.9)
    axes.view_init(elev=18.0, azim=-62.0)
    axes.set_title("Path, with body axes (x forward, y left, z up)" if few else f"Paths of {len(run.tracks)} drones")
    if few:
        axes.legend(loc="upper left")


def _draw_frames(axes: Any, track: Track, size: float) -> None:
    for row in range(0, len(track.time), max(1, len(track.time) // FRAMES)):
        here, q_WB = track.position[row], Quat(*track.attitude[row].tolist())
        for k, axis in enumerate((Vec3(1.0, 0.0, 0.0), Vec3(0.0, 1.0, 0.0), Vec3(0.0, 0.0, 1.0))):
            tip = here + np.array(rotate(q_WB, axis), dtype=float) * size
            axes.plot(*np.stack([here, tip]).T, color=COLOURS[k], linewidth=1.3)


def write_report(run: Run, judged: Sequence[Judged], path: str | Path, picture: str, recording: str) -> None:
    """A page of Markdown: what was flown, how it went, how to repeat it"""
    tables = []
    for track in run.tracks[:6]:
        rows = "\n".join(f"| {name} | {value} |" for name, value in track.summary().items())
        tables.append(f"## {track.name}\n\n| | |\n|---|---|\n{rows}")
    more = [f"And {len(run.tracks) - 6} drones more."] if len(run.tracks) > 6 else []
    lines = [f"| {line.time_us / 1e6:.3f} | {line.level} | {line.message} |" for line in run.logs]
    expected = [f"- {'✓' if each.true else '✗'} {each.text}" for each in judged]
    parts = [
        f"# {run.scenario}",
        run.metadata.get("description", ""),
        f"![position, attitude, motors and path]({picture})",
        *tables,
        *more,
        "## Expected\n\n" + "\n".join(expected) if expected else "",
        "## What happened\n\n| time [s] | | |\n|---|---|---|\n" + "\n".join(lines) if lines else "",
        f"Seed {run.metadata.get('seed', '0')}. Repeat it with `samara fly {run.scenario}`, or bit for bit from the recording "
        f"with `samara replay {recording}`.",
    ]
    write_text(path, "\n\n".join(part for part in parts if part) + "\n")
