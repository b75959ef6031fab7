"""Recorded rows at any time: which one is held, and a state between two."""

import numpy as np

from samara.core.algebra import Quat, normalize
from samara.core.types import Array
from samara.scenario.timeline import MICROSECONDS


def row_at(times_us: Array, time: float) -> tuple[int, float]:
    """The row at or before a time, and how far it is on the way to the next, from 0 to 1."""
    now = time * MICROSECONDS
    row = int(np.clip(np.searchsorted(times_us, now, side="right") - 1, 0, len(times_us) - 1))
    if row == len(times_us) - 1:
        return row, 0.0
    return row, float(np.clip((now - times_us[row]) / (times_us[row + 1] - times_us[row]), 0.0, 1.0))


def state_between(rows: Array, row: int, share: float) -> Array:
    """A state between two: in proportion, the attitude the shorter way round and of length 1."""
    if share == 0.0:
        return rows[row]
    before, after = rows[row], rows[row + 1].copy()
    if before[6:10] @ after[6:10] < 0.0:
        after[6:10] *= -1.0
    here: Array = before + share * (after - before)
    here[6:10] = normalize(Quat(*here[6:10].tolist()))
    return here
