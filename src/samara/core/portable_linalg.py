"""Linear algebra in plain arithmetic, bit-identical on every machine.

The libraries behind `@` and `numpy.linalg` choose their kernels by the processor, and their summation orders differ. The inputs
of a flight (trim, allocation, gains, paths) are computed here instead, with + − × ÷ √ of IEEE 754 in a fixed order. Matrices
are small: 4 × n for rotors, 6 × 6 for a body on its feet, 16 × 16 for a regulator. Checks that only accept or refuse a value
may use `numpy.linalg`.
"""

import math
from typing import NamedTuple

import numpy as np

from samara.core.batch_scalar import scalar_array
from samara.core.types import Array

_EPSILON = float(np.finfo(float).eps)
_MAX_SWEEPS = 60  # limit for Jacobi's method, which converges in about six sweeps
_MAX_DOUBLINGS = 60  # doublings of a regulator's horizon, to 2⁶⁰ steps
_MAX_GROWTH = 1e60  # if the transition matrix grows beyond it, the system cannot be stabilised


def product(matrix: Array, *factors: Array) -> Array:
    """A B C …, from the left; vectors as in `@`. Each sum runs over increasing k."""
    result: Array = np.asarray(matrix)
    for factor in factors:
        left, right = np.atleast_2d(result), np.asarray(factor)
        columns = right[:, None] if right.ndim == 1 else right
        if left.shape[1] != len(columns):
            raise ValueError(f"shapes {result.shape} and {right.shape}: expected as many columns as rows")
        total = np.zeros((len(left), columns.shape[1]), dtype=np.result_type(left, columns))
        for k in range(len(columns)):
            total = total + left[:, k, None] * columns[k]
        result = total.reshape(result.shape[:-1] + right.shape[1:])
    return result


def powers(x: Array, count: int) -> Array:
    """xᵏ for k < count, (n, count), by repeated multiplication: NumPy's power depends on the processor."""
    rows = [np.ones_like(x)]
    for _ in range(count - 1):
        rows.append(rows[-1] * x)
    return np.stack(rows, axis=1)


def solve(a: Array, b: Array) -> Array:
    """A⁻¹ b, for a vector or for columns b: Gaussian elimination with partial pivoting."""
    right = scalar_array(b)
    size = len(a)
    rows = np.concatenate([np.asarray(a, dtype=float), right.reshape(size, -1)], axis=1)
    for k in range(size):
        pivot = k + int(np.abs(rows[k:, k]).argmax())
        if not abs(rows[pivot, k]) > 0.0:
            raise np.linalg.LinAlgError("singular matrix")
        if pivot != k:
            rows[[k, pivot]] = rows[[pivot, k]]
        below = k + 1 + np.flatnonzero(rows[k + 1 :, k])
        rows[below, k:] -= (rows[below, k] / rows[k, k])[:, None] * rows[k, k:]
    x = rows[:, size:]
    for k in range(size - 1, -1, -1):
        x[k] /= rows[k, k]
        above = np.flatnonzero(rows[:k, k])
        x[above] -= rows[above, k, None] * x[k]
    return x.reshape(right.shape)


# Singular values --------------------------------------------------------------------------------------------------------


class SingularDecomposition(NamedTuple):
    """A = U diag(σ) Vᵀ: U (m × k), σ decreasing, V (n × k), k the smaller of m and n."""

    u: Array
    sigma: Array
    v: Array


def svd(a: Array) -> SingularDecomposition:
    """Compute the SVD by one-sided Jacobi (M. R. Hestenes, 1958): rotate pairs of columns until all are orthogonal.

    Small singular values have the same relative accuracy as the large ones.
    """
    matrix = np.asarray(a, dtype=float)
    if matrix.shape[0] < matrix.shape[1]:
        transposed = svd(matrix.T)
        return SingularDecomposition(transposed.v, transposed.sigma, transposed.u)
    count = matrix.shape[1]
    columns: list[list[float]] = matrix.T.tolist()
    v_columns: list[list[float]] = np.eye(count).tolist()
    threshold = (_EPSILON * _EPSILON * max((_dot(column, column) for column in columns), default=0.0)) * len(matrix)
    for _ in range(_MAX_SWEEPS):
        rotations = [
            _orthogonalise(columns, v_columns, p, q, threshold) for p in range(count) for q in range(p + 1, count)
        ]
        if not any(rotations):
            break
    norms = [math.sqrt(_dot(column, column)) for column in columns]
    order = sorted(range(count), key=lambda k: -norms[k])
    units = [[x / (norms[k] or 1.0) for x in columns[k]] for k in order]
    return SingularDecomposition(
        np.array(units).reshape(count, -1).T,
        np.array([norms[k] for k in order]),
        np.array([v_columns[k] for k in order]).reshape(count, -1).T,
    )


def _orthogonalise(columns: list[list[float]], v_columns: list[list[float]], p: int, q: int, threshold: float) -> bool:
    """Orthogonalise columns p and q by a rotation t = tan θ with t² + 2ζt = 1; False if they already are orthogonal."""
    a, b, c = (_dot(columns[i], columns[j]) for i, j in ((p, p), (q, q), (p, q)))
    if abs(c) <= _EPSILON * math.sqrt(a * b) or min(a, b) <= threshold:
        return False
    zeta = (b - a) / (2.0 * c)
    t = math.copysign(1.0, zeta) / (abs(zeta) + math.sqrt(1.0 + zeta * zeta))
    cosine = 1.0 / math.sqrt(1.0 + t * t)
    sine = cosine * t
    for matrix in (columns, v_columns):
        pairs = list(zip(matrix[p], matrix[q], strict=True))
        matrix[p] = [cosine * x - sine * y for x, y in pairs]
        matrix[q] = [sine * x + cosine * y for x, y in pairs]
    return True


def _dot(a: list[float], b: list[float]) -> float:
    return math.fsum([x * y for x, y in zip(a, b, strict=True)])


def rank(a: Array) -> int:
    """Count the singular values that are not zero up to rounding."""
    sigma = svd(a).sigma
    return int((sigma > _rank_tolerance(a) * sigma.max(initial=0.0)).sum())


def pseudoinverse(a: Array) -> Array:
    """A⁺ of Moore and Penrose: x = A⁺b is the shortest x that minimises |A x − b|."""
    u, sigma, v = svd(a)
    is_nonzero = sigma > _rank_tolerance(a) * sigma.max(initial=0.0)
    return product(v[:, is_nonzero] / sigma[is_nonzero], u[:, is_nonzero].T)


def least_squares(a: Array, b: Array, relative_tolerance: float | None = None) -> Array:
    """Return the shortest x that minimises |A x − b|; singular values up to `relative_tolerance` times the largest count
    as zero.

    A tall matrix is first made square: A = Q R, and R x = Qᵀb. One step of iterative refinement removes the rounding errors of
    the singular vectors.
    """
    matrix, b_reduced = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    tolerance = _rank_tolerance(matrix) if relative_tolerance is None else relative_tolerance
    if len(matrix) > 2 * matrix.shape[1]:
        matrix, b_reduced = _triangularise(matrix, b_reduced)
    u, sigma, v = svd(matrix)
    is_nonzero = sigma > tolerance * sigma.max(initial=0.0)

    def shortest_solution(rhs: Array) -> Array:
        projection = product(u[:, is_nonzero].T, rhs)
        return product(v[:, is_nonzero], (projection.T / sigma[is_nonzero]).T)

    solution = shortest_solution(b_reduced)
    return solution + shortest_solution(b_reduced - product(matrix, solution))


def _triangularise(a: Array, b: Array) -> tuple[Array, Array]:
    """Return R and the first rows of Qᵀb, by Householder reflections."""
    count = a.shape[1]
    rows = np.concatenate([a, b.reshape(len(a), -1)], axis=1)
    for k in range(count):
        reflector = rows[k:, k].copy()
        norm = math.sqrt(math.fsum((reflector * reflector).tolist()))
        reflector[0] += math.copysign(norm, reflector[0])
        square = math.fsum((reflector * reflector).tolist())
        if square > 0.0:
            for j in range(k, rows.shape[1]):
                projection = math.fsum((reflector * rows[k:, j]).tolist())
                rows[k:, j] -= (2.0 * projection / square) * reflector
    return np.triu(rows[:count, :count]), rows[:count, count:].reshape(count, *b.shape[1:])


def _rank_tolerance(a: Array) -> float:
    """Tolerance, relative to the largest singular value, below which a singular value is a rounding error."""
    return max(np.shape(a)) * _EPSILON


# Symmetric matrices -----------------------------------------------------------------------------------------------------


def generalised_eigenvalues(stiffness: Array, mass: Array) -> Array:
    """λ with K x = λ M x, increasing; K symmetric positive semidefinite, M symmetric positive definite.

    With M = L Lᵀ they are the eigenvalues of L⁻¹K L⁻ᵀ, which is symmetric positive semidefinite too: its singular values.
    """
    lower = cholesky(mass)
    left_reduced = solve(lower, np.asarray(stiffness, dtype=float))
    reduced = solve(lower, left_reduced.T)
    return svd(0.5 * (reduced + reduced.T)).sigma[::-1]


def cholesky(a: Array) -> Array:
    """L of A = L Lᵀ, A symmetric positive definite."""
    size = len(a)
    lower = np.zeros((size, size))
    for j in range(size):
        column = np.asarray(a, dtype=float)[j:, j].copy()
        for k in range(j):
            column = column - lower[j:, k] * lower[j, k]
        if not column[0] > 0.0:
            raise np.linalg.LinAlgError("matrix is not positive definite")
        lower[j:, j] = column / math.sqrt(float(column[0]))
    return lower


# The regulator ----------------------------------------------------------------------------------------------------------


def solve_riccati(a: Array, b: Array, q: Array, r: Array) -> Array:
    """P = Q + AᵀP(1 + G P)⁻¹A,  G = B R⁻¹Bᵀ: the cost to go of the regulator over an infinite horizon.

    By doubling the horizon until the cost converges. E. K.-W. Chu, H.-Y. Fan,
    W.-W. Lin, C.-S. Wang, "Structure-preserving algorithms for periodic discrete-time algebraic Riccati equations", 2004.
    """
    transition, gain, cost = np.asarray(a, dtype=float), product(b, solve(r, b.T)), np.asarray(q, dtype=float)
    identity = np.eye(len(transition))
    for _ in range(_MAX_DOUBLINGS):
        solution = solve(identity + product(gain, cost), np.concatenate([transition, gain], axis=1))
        forward, backward = solution[:, : len(identity)], solution[:, len(identity) :]
        increment = product(transition.T, cost, forward)
        gain = _symmetric(gain + product(transition, backward, transition.T))
        cost = _symmetric(cost + increment)
        transition = product(transition, forward)
        if not np.abs(transition).max() < _MAX_GROWTH:
            break
        if np.abs(increment).max() <= _EPSILON * np.abs(cost).max():
            return cost
    raise np.linalg.LinAlgError("Riccati's equation has no solution that stabilises")


def _symmetric(a: Array) -> Array:
    return 0.5 * (a + a.T)
