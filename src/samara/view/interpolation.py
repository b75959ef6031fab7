"""Interpolation of recorded rows at any time."""

import numpy as np

from samara.core.algebra import Quat, normalize
from samara.core.types import Array
from samara.scenario.timeline import MICROSECONDS


def find_row(times_us: Array, time: float) -> tuple[int, float]:
    """Return the row at or before a time, and the fraction of the interval to the next row, from 0 to 1."""
    now = time * MICROSECONDS
    row = int(np.clip(np.searchsorted(times_us, now, side="right") - 1, 0, len(times_us) - 1))
    if row == len(times_us) - 1:
        return row, 0.0
    return row, float(np.clip((now - times_us[row]) / (times_us[row + 1] - times_us[row]), 0.0, 1.0))


def interpolate_state(rows: Array, row: int, fraction: float) -> Array:
    """Interpolate linearly between two rows of a state, with the attitude along the shorter arc and normalised."""
    if fraction == 0.0:
        return rows[row]
    first, second = rows[row], rows[row + 1].copy()
    if first[6:10] @ second[6:10] < 0.0:
        second[6:10] *= -1.0
    state: Array = first + fraction * (second - first)
    state[6:10] = normalize(Quat(*state[6:10].tolist()))
    return state
