"""Global sensitivity: Sobol' indices, the fractions of a metric's variance that single parameters explain, alone and in total.

    Sᵢ = V(E(y | xᵢ)) / V(y),   Tᵢ = E(V(y | all but xᵢ)) / V(y)

Sᵢ is the reduction of the variance if xᵢ were fixed, Tᵢ the variance that would remain if all others were fixed; Tᵢ − Sᵢ are
the interactions of xᵢ. They need dedicated flights, k + 2 per base point, in which columns are exchanged.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from samara.core.types import Array


class SobolIndices(NamedTuple):
    """Arrays (k,): the indices, and their standard errors for independent base points."""

    first: Array
    total: Array
    first_error: Array
    total_error: Array


def sobol_rows(points: ArrayLike) -> Array:
    """Expand (n, 2k) base points (a, b) into (n (k + 2), k) rows: a, then a with each component of b in turn, then b.

    Points are in the unit cube, or already mapped by the quantile functions. The order is that of SALib.
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

    The estimators of A. Saltelli et al. (2010) and M. J. W. Jansen (1999). Estimates near 0 can be slightly negative.
    """
    y = np.asarray(values, dtype=float)
    if factors < 1 or y.ndim != 1 or len(y) % (factors + 2) or len(y) < 2 * (factors + 2) or not np.isfinite(y).all():
        raise ValueError(
            f"{y.shape} values for {factors} factors; expected finite ones, {factors + 2} for each base point, of two or more"
        )
    y = y.reshape(-1, factors + 2)
    y = y - y.mean()
    a, c, b = y[:, :1], y[:, 1:-1], y[:, -1:]
    centre = 0.5 * (a + b).mean()
    squared_deviation = 0.5 * ((a - centre) ** 2 + (b - centre) ** 2)
    variance = float(squared_deviation.mean())
    if variance == 0.0:
        return SobolIndices(*(np.zeros(factors) for _ in range(4)))
    estimates = []
    for part in (b * (c - a), 0.5 * (a - c) ** 2):
        index = part.mean(axis=0) / variance
        influence = (part - index * squared_deviation) / variance  # influence of one point on the ratio of means
        estimates.append((index, influence.std(axis=0) / math.sqrt(len(y))))
    (first, first_error), (total, total_error) = estimates
    return SobolIndices(first, total, first_error, total_error)


MAX_BINS = 32
FLIGHTS_PER_BIN = 20  # flights


def first_order_index(values: ArrayLike, measure: ArrayLike) -> float:
    """Estimate Sᵢ of one parameter, from 0 to 1; chance can make it slightly negative; nan without variance to explain."""
    x, y = np.asarray(values, dtype=float), np.asarray(measure, dtype=float)
    if x.ndim != 1 or x.shape != y.shape:
        raise ValueError(f"{x.shape} values of a factor, {y.shape} of a measure; expected one of each for every flight")
    finite = np.isfinite(x) & np.isfinite(y)
    x, y = x[finite], y[finite]
    bin_index = assign_bins(x)
    count = np.bincount(bin_index) if len(x) else np.zeros(0, dtype=int)
    n, bins = len(x), len(count)
    if n <= bins or n < 2 or not np.ptp(y) > 0.0:
        return float("nan")
    y = y - y.mean()
    mean = np.bincount(bin_index, weights=y) / count
    within = float(((y - mean[bin_index]) ** 2).sum()) / (n - bins)
    return 1.0 - within * (n - 1) / float((y**2).sum())


def assign_bins(x: Array, max_bins: int = MAX_BINS, flights_per_bin: int = FLIGHTS_PER_BIN) -> Array:
    """Return the bin of each flight (n,): bins of equal counts, or one per distinct value if there are few."""
    distinct, inverse = np.unique(x, return_inverse=True)
    bins = min(max_bins, max(len(x) // flights_per_bin, 1))
    if len(distinct) <= bins:
        return np.asarray(inverse)
    first = np.searchsorted(np.sort(x), distinct)  # equal values stay together
    return np.unique((first * bins // len(x))[inverse], return_inverse=True)[1]
