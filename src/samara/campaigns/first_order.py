"""How much of a measure's variance one factor explains alone, told by flights that were flown anyway.

    Sᵢ = V(E(y | xᵢ)) / V(y) ≈ 1 − (Σ (y − ȳ_bin)² / (n − bins)) / (Σ (y − ȳ)² / (n − 1))

Means over bins of xᵢ that hold as many flights each; the divisors make it 0 on average where xᵢ does not matter (T. L. Kelley,
1935). For what factors do together, and for errors, `samara.campaigns.sensitivity` asks for flights of its own.
"""

from typing import Any

import numpy as np

from samara.core.types import Array

MOST_BINS = 32
PER_BIN = 20  # flights


def first_order(values: Any, measure: Any) -> float:
    """Sᵢ of one factor, from 0 to 1; a little below 0 where chance has it so, nan where there is nothing to explain"""
    x, y = np.asarray(values, dtype=float), np.asarray(measure, dtype=float)
    if x.ndim != 1 or x.shape != y.shape:
        raise ValueError(f"{x.shape} values of a factor, {y.shape} of a measure; expected one of each for every flight")
    told = np.isfinite(x) & np.isfinite(y)
    x, y = x[told], y[told]
    label = bins_of(x)
    count = np.bincount(label) if len(x) else np.zeros(0, dtype=int)
    n, bins = len(x), len(count)
    if n <= bins or n < 2 or not np.ptp(y) > 0.0:
        return float("nan")
    y = y - y.mean()
    mean = np.bincount(label, weights=y) / count
    within = float(((y - mean[label]) ** 2).sum()) / (n - bins)
    return 1.0 - within * (n - 1) / float((y**2).sum())


def bins_of(x: Array, most: int = MOST_BINS, per_bin: int = PER_BIN) -> Array:
    """(n,) which bin each flight is in: bins of as many flights each, or one for each value where there are few of them"""
    different, label = np.unique(x, return_inverse=True)
    bins = min(most, max(len(x) // per_bin, 1))
    if len(different) <= bins:
        return np.asarray(label)
    first = np.searchsorted(np.sort(x), different)  # equal values stay together
    return np.unique((first * bins // len(x))[label], return_inverse=True)[1]
