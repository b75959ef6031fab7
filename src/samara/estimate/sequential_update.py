"""A covariance moved on and narrowed, one scalar at a time: straight-line code, whatever the scalar.

Matrices are lists of rows, and both halves of a symmetric one hold the same objects. The rows of what multiplies them are
dictionaries {column: coefficient}: what is not there is never multiplied.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from samara.core.quantity import Scalar

Matrix = list[list[Any]]
Row = Mapping[int, Any]


def packed(P: Matrix) -> tuple[Scalar, ...]:
    """The upper triangle by rows"""
    return tuple(P[i][j] for i in range(len(P)) for j in range(i, len(P)))


def unpacked(upper: Sequence[Scalar], n: int) -> Matrix:
    """The matrix an upper triangle was taken from"""
    P: Matrix = [[0.0] * n for _ in range(n)]
    leaves = iter(upper)
    for i in range(n):
        for j in range(i, n):
            P[i][j] = P[j][i] = next(leaves)
    return P


def diagonal_matrix(variances: Sequence[Scalar]) -> Matrix:
    """diag(σ²)"""
    return [[own if i == j else 0.0 for j in range(len(variances))] for i, own in enumerate(variances)]


def _along(row: Row, values: Sequence[Any]) -> Any:
    """Σ cₖ xₖ"""
    total: Any = 0.0
    for k, c in row.items():
        total = total + (values[k] if isinstance(c, float) and c == 1.0 else c * values[k])
    return total


def propagated(P: Matrix, F: Sequence[Row], noise: Sequence[Scalar]) -> Matrix:
    """F P Fᵀ + diag(q)"""
    n = len(P)
    half = [[_along(F[i], P[j]) for j in range(n)] for i in range(n)]  # F P, for P[j] is also its column j
    moved: Matrix = [[0.0] * n for _ in range(n)]
    for i in range(n):
        for j in range(i, n):
            moved[i][j] = moved[j][i] = _along(F[j], half[i])
        moved[i][i] = moved[i][i] + noise[i]
    return moved


def updated(
    P: Matrix, error: Sequence[Any], row: Row, residual: Scalar, variance: Scalar, fresh: Scalar
) -> tuple[Matrix, list[Any]]:
    """s = h P hᵀ + r,  k = P hᵀ / s,  x' = x + k (z − h x),  P' = P − k s kᵀ; nothing where fresh = 0

    This is Joseph's form for the gain k: its other terms cancel. Symmetric to the last bit, since each pair is computed once.
    """
    n = len(P)
    across = [_along(row, P[i]) for i in range(n)]
    gain = fresh / (_along(row, across) + variance)
    missing = (residual - _along(row, error)) * gain
    scaled = [own * gain for own in across]
    narrowed: Matrix = [[0.0] * n for _ in range(n)]
    for i in range(n):
        for j in range(i, n):
            narrowed[i][j] = narrowed[j][i] = P[i][j] - scaled[i] * across[j]
    return narrowed, [own + k * missing for own, k in zip(error, across, strict=True)]
