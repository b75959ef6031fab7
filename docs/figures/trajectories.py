"""One trajectory of each type, coloured by speed: trajectories.png."""

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize

from samara.core.types import Array
from samara.plan.trajectory import (
    Trajectory,
    circle,
    figure8,
    helix,
    hover,
    land,
    line,
    lissajous,
    race,
    sequence,
    take_off,
    waypoints,
)
from samara.view.plot.plan import draw_trajectory
from samara.view.plot.style import samara_style, save

GATES = ((0.0, 0.0, 1.0), (5.0, 2.0, 2.0), (9.0, -1.0, 3.0), (6.0, -6.0, 1.5), (1.0, -4.0, 1.0))
EXAMPLES = {
    "take_off, line, hover, land": sequence(
        take_off((0.0, 0.0, 0.0), height=3.0),
        line((0.0, 0.0, 3.0), (6.0, 2.0, 3.0), speed=2.0),
        hover((6.0, 2.0, 3.0), duration=1.0),
        land((6.0, 2.0, 3.0)),
    ),
    "waypoints": waypoints(
        ((0.0, 0.0, 1.0), (4.0, 0.0, 1.5), (4.0, 3.0, 3.0), (0.0, 3.0, 1.0)), speed=3.0, hold_time=0.5
    ),
    "circle": circle((0.0, 0.0, 2.0), radius=2.0, speed=3.0, laps=2.0),
    "helix": helix((0.0, 0.0, 0.5), radius=1.5, height_per_turn=0.8, turns=4.0, speed=2.0),
    "figure8": figure8((0.0, 0.0, 2.0), half_length=3.0, speed=4.0),
    "lissajous": lissajous((0.0, 0.0, 2.0), amplitude=(3.0, 2.0, 0.8), frequency=(3, 2, 1), speed=4.0),
    "race": race(GATES, speed=6.0),
    "race, closed": race(GATES, speed=6.0, closed=True, laps=2.0),
}


def draw_trajectories(trajectories: Mapping[str, Trajectory], path: str | Path, columns: int = 4) -> None:
    """Draw one panel per trajectory, with a common speed scale; endless trajectories for a minute."""
    rows = math.ceil(len(trajectories) / columns)
    samples = {name: _sample_trajectory(trajectory) for name, trajectory in trajectories.items()}
    max_speed = max(float(speed.max()) for _, speed in samples.values())
    with samara_style() as plt:
        figure = plt.figure(figsize=(3.5 * columns, 3.3 * rows), layout="constrained")
        scale = ScalarMappable(Normalize(0.0, max_speed), "viridis_r")
        panels = []
        for index, (name, (p, speed)) in enumerate(samples.items(), start=1):
            axes = figure.add_subplot(rows, columns, index, projection="3d")
            draw_trajectory(axes, p, scale.to_rgba(speed), trajectories[name])
            duration = trajectories[name].duration
            duration_text = f"{duration:.1f} s" if math.isfinite(duration) else "endless"
            axes.text2D(0.02, 0.93, name, fontsize=11, fontweight="bold", transform=axes.transAxes)
            axes.text2D(0.02, 0.875, duration_text, fontsize=8.5, transform=axes.transAxes)
            panels.append(axes)
        figure.colorbar(scale, ax=panels, label="speed [m/s]", shrink=0.6, pad=0.03)
        save(figure, path)


def _sample_trajectory(trajectory: Trajectory) -> tuple[Array, Array]:
    """Return positions (n, 3) and speeds (n,) at equal time steps."""
    reference = trajectory.evaluate(np.linspace(0.0, min(trajectory.duration, 60.0), 500))
    return np.stack(reference.p_W, axis=1), np.linalg.norm(np.stack(reference.v_W, axis=1), axis=1)
