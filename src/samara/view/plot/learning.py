"""How a policy learnt: the mean reward of a step, update by update."""

from typing import Any

import numpy as np

from samara.vehicles.colours import COLOURS
from samara.view.plot.style import Picture, samara_style

SMOOTH = 25  # of the updates, the part that a mean is taken over


def learning_curve(curve: Any, title: str) -> Picture:
    """Each update's reward, faint, and their running mean"""
    rewards = np.asarray(curve, dtype=float)
    width = max(1, len(rewards) // SMOOTH)
    mean = np.convolve(
        np.pad(rewards, (width // 2, width - 1 - width // 2), mode="edge"), np.ones(width) / width, "valid"
    )
    with samara_style() as plt:
        figure, axes = plt.subplots(figsize=(7.0, 3.6), layout="constrained")
        updates = np.arange(1, len(rewards) + 1)
        axes.plot(updates, rewards, color=COLOURS[0], alpha=0.35, linewidth=1.0)
        axes.plot(updates, mean, color=COLOURS[0], linewidth=2.0)
        axes.set_xlabel("update")
        axes.set_ylabel("mean reward of a step")
        axes.set_title(title, loc="left")
        axes.set_xlim(1, max(2, len(rewards)))
        return figure
