"""Which factors a measure depends on: Sobol' indices, the parts of its variance that factors explain alone and in all.

    Sᵢ = V(E(y | xᵢ)) / V(y),   Tᵢ = E(V(y | all but xᵢ)) / V(y)

Sᵢ is what knowing xᵢ would take from the variance, Tᵢ what would be left of it if all others were known; Tᵢ − Sᵢ is what xᵢ
does together with others. They ask for flights of their own, k + 2 for each base point, in which columns are exchanged.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from samara.core.types import Array


class SobolIndices(NamedTuple):
    """(k,) each: the indices, and one standard deviation of them for base points drawn independently"""

    first: Array
    total: Array
    first_error: Array
    total_error: Array


def sobol_rows(points: Any) -> Array:
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


def sobol_indices(values: Any, factors: int) -> SobolIndices:
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
