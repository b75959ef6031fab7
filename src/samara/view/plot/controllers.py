"""The picture of a contest: paths seen from above, and the errors over time."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from samara.compare.controllers import SETTLE, Entry
from samara.core.atomic_files import atomic_write
from samara.vehicles.colours import COLOURS, INK
from samara.view.plot.style import plain, samara_style


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
            layout="constrained",
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
        with atomic_write(path) as temporary:
            figure.savefig(temporary, format="png")
