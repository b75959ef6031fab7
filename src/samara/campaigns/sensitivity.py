"""Which factors a measure depends on: Sobol' indices, the parts of its variance that factors explain alone and in all.

    Sᵢ = V(E(y | xᵢ)) / V(y),   Tᵢ = E(V(y | all but xᵢ)) / V(y)

Sᵢ is what knowing xᵢ would take from the variance, Tᵢ what would be left of it if all others were known; Tᵢ − Sᵢ is what xᵢ
does together with others. They ask for flights of their own, k + 2 for each base point, in which columns are exchanged.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from samara.core.types import Array


class SobolIndices(NamedTuple):
    """(k,) each: the indices, and one standard deviation of them for base points drawn independently"""

    first: Array
    total: Array
    first_error: Array
    total_error: Array


def sobol_rows(points: ArrayLike) -> Array:
    """(n, 2k) base points to (n (k + 2), k) rows: for (a, b) the row a, k times a with one number of b, the row b

    Points are in the unit cube, or through the factors' quantile functions already. The order is that of SALib.
    """
    points = np.asarray(points, dtype=float)
    if points.ndim != 2 or points.shape[1] < 2 or points.shape[1] % 2:
        raise ValueError(f"base points have shape {points.shape}; expected two columns for each factor")
    k = points.shape[1] // 2
    a, b = points[:, None, :k], points[:, None, k:]
    exchanged = np.where(np.eye(k, dtype=bool), b, a)
    return np.concatenate([a, exchanged, b], axis=1).reshape(-1, k)


def sobol_indices(values: ArrayLike, factors: int) -> SobolIndices:
    """Sᵢ = mean((b − μ)(cᵢ − a)) / V,  Tᵢ = mean((a − cᵢ)²) / 2V,  of y at rows a, c₁ … c_k, b

    The estimators of A. Saltelli et al. (2010) and M. J. W. Jansen (1999). An index near 0 may come out a little below it.
    """
    y = np.asarray(values, dtype=float)
    if factors < 1 or y.ndim != 1 or len(y) % (factors + 2) or len(y) < 2 * (factors + 2) or not np.isfinite(y).all():
        raise ValueError(
            f"{y.shape} values for {factors} factors; expected finite ones, {factors + 2} for each base point, of two or more"
        )
    y = y.reshape(-1, factors + 2)
    y = y - y.mean()
    a, c, b = y[:, :1], y[:, 1:-1], y[:, -1:]
    middle = 0.5 * (a + b).mean()
    square = 0.5 * ((a - middle) ** 2 + (b - middle) ** 2)
    variance = float(square.mean())
    if variance == 0.0:
        return SobolIndices(*(np.zeros(factors) for _ in range(4)))
    found = []
    for part in (b * (c - a), 0.5 * (a - c) ** 2):
        index = part.mean(axis=0) / variance
        off = (part - index * square) / variance  # of one point: a quotient of means is off by the mean of these
        found.append((index, off.std(axis=0) / math.sqrt(len(y))))
    (first, first_error), (total, total_error) = found
    return SobolIndices(first, total, first_error, total_error)


MOST_BINS = 32
PER_BIN = 20  # flights


def first_order(values: ArrayLike, measure: ArrayLike) -> float:
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
