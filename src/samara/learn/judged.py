"""What a policy is judged by: flights from starts that it was not trained on, to the end of the episode."""

from typing import Any, NamedTuple

import numpy as np

from samara.core.tree import unflatten
from samara.learn.episode import Setting, is_success, templates

UNSEEN = 0x5EED  # the seed of the starts that policies are judged by


class Judged(NamedTuple):
    """How many flights there were, and how many of them did what the task calls success at its end"""

    flights: int
    successes: int
    states: Any  # (components, flights) at the end

    @property
    def success(self) -> float:
        return self.successes / self.flights


def successes(setting: Setting, rows: Any) -> Any:
    """Of episodes (size, N) at their end, which have succeeded"""
    template = templates(setting)[0]
    episode = unflatten(template, iter(np.asarray(rows, dtype=float)))
    return np.asarray(is_success(episode, setting)) & np.isfinite(np.asarray(rows)).all(0)
