"""A picture of how models and real flights part: error over time, model by model."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from samara.core.atomic_files import atomic_write
from samara.identify.prediction_error_fit import HORIZON, RECORDED
from samara.identify.prediction_windows import BASELINES, QUANTITIES, UNITS
from samara.identify.scores import COASTING, Score, together
from samara.vehicles.colours import COLOURS, INK
from samara.view.plot.style import Picture, plain, samara_style

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
        figure, panels = plt.subplots(2, 2, figsize=(10.5, 6.8), layout="constrained", sharex=True)
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


def _decades(axes: Any) -> None:
    """Numbers as people write them at 1, 2 and 5 of every decade"""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
