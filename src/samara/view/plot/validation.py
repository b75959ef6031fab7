"""A picture of how models and real flights part: error over time, model by model."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from samara.core.colours import COLOURS, INK
from samara.core.files import atomic_write
from samara.identify.readers.nanobench import PERIOD
from samara.identify.validation import HORIZONS, Score, all_flights
from samara.identify.windows import QUANTITIES, UNITS
from samara.view.plot.style import samara_style

_DASHED = {"hold the state": ":", "constant velocity": "--"}
_SMALLEST = {"position": 1e-3, "velocity": 1e-2, "attitude": 1.0, "rate": 0.1}


def draw_validation(scores: Sequence[Score], path: str | Path) -> None:
    """RMS error of position, velocity, attitude and rate from 0 to half a second, all flights together, faint ones apart"""
    together = all_flights(scores)
    time = PERIOD * np.arange(1, len(together.rms["hold the state"]["position"]))
    with samara_style() as plt:
        figure, panels = plt.subplots(2, 2, figsize=(10.5, 7.4), layout="constrained", sharex=True)
        for axes, quantity, unit in zip(panels.flat, QUANTITIES, UNITS, strict=True):
            for k, (name, rms) in enumerate(together.rms.items()):
                baseline = name in _DASHED
                colour = INK if baseline else COLOURS[k]
                if not baseline:
                    for own in scores:
                        axes.semilogy(time, own.rms[name][quantity][1:], color=colour, linewidth=0.5, alpha=0.35)
                axes.semilogy(time, rms[quantity][1:], _DASHED.get(name, "-"), color=colour, linewidth=2.2, label=name)
            axes.set(title=f"{quantity} [{unit}]", ylim=(_SMALLEST[quantity], None), xlim=(0.0, HORIZONS[-1]))
            axes.set_xticks((0.0, *HORIZONS))
        for axes in panels[1]:
            axes.set_xlabel("time since the measured state [s]")
        figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
        figure.suptitle(
            f"RMS error of open-loop prediction, {together.windows} windows of {len(scores)} real Crazyflie flights"
            "  (thin: each flight)",
            fontsize=11,
        )
        with atomic_write(path) as temporary:
            figure.savefig(temporary, format="png")
