"""Linear algebra in plain arithmetic: the same bits on every machine.

The libraries behind `@` and `numpy.linalg` choose their kernels by the processor, and each sums in an order of its own. What a
flight is made of (trim, allocation, gains, paths) is computed here instead, with + − × ÷ √ of IEEE 754 in a fixed order. The
matrices are small: 4 × n rotors, 6 × 6 of a body on its feet, 16 × 16 of a regulator. What only decides whether something is
refused may ask `numpy.linalg`.
"""

import math
from typing import NamedTuple

import numpy as np

from samara.core.batch_scalar import scalar_array
from samara.core.types import Array

_EPSILON = float(np.finfo(float).eps)
_SWEEPS = 60  # of Jacobi's method; it converges quadratically, in six or so
_DOUBLINGS = 60  # of a regulator's horizon: 2⁶⁰ steps
_ENDLESS = 1e60  # an error that has grown so much under the best of inputs is not held


def product(first: Array, *others: Array) -> Array:
    """A B C …, from the left; of vectors as `@` has them. Each sum runs over rising k"""
    result: Array = np.asarray(first)
    for other in others:
        left, right = np.atleast_2d(result), np.asarray(other)
        columns = right[:, None] if right.ndim == 1 else right
        if left.shape[1] != len(columns):
            raise ValueError(f"shapes {result.shape} and {right.shape}: expected as many columns as rows")
        total = np.zeros((len(left), columns.shape[1]), dtype=np.result_type(left, columns))
        for k in range(len(columns)):
            total = total + left[:, k, None] * columns[k]
        result = total.reshape(result.shape[:-1] + right.shape[1:])
    return result


def powers(x: Array, count: int) -> Array:
    """xᵏ for k < count, (n, count), each from the one before: NumPy's own power is another of its kernels"""
    rows = [np.ones_like(x)]
    for _ in range(count - 1):
        rows.append(rows[-1] * x)
    return np.stack(rows, axis=1)


def solve(a: Array, b: Array) -> Array:
    """A⁻¹ b, of one right side or of columns of them: Gaussian elimination, the largest of each column as its pivot"""
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


class Singular(NamedTuple):
    """A = U diag(σ) Vᵀ: U (m × k), σ falling, V (n × k), k the smaller of m and n"""

    u: Array
    sigma: Array
    v: Array


def singular_values(a: Array) -> Singular:
    """One-sided Jacobi (M. R. Hestenes, 1958): columns are turned in pairs until all are at right angles

    Small singular values are as accurate, of themselves, as the large ones.
    """
    matrix = np.asarray(a, dtype=float)
    if matrix.shape[0] < matrix.shape[1]:
        other = singular_values(matrix.T)
        return Singular(other.v, other.sigma, other.u)
    count = matrix.shape[1]
    columns: list[list[float]] = matrix.T.tolist()
    turned: list[list[float]] = np.eye(count).tolist()
    nothing = (_EPSILON * _EPSILON * max((_dot(own, own) for own in columns), default=0.0)) * len(matrix)
    for _ in range(_SWEEPS):
        turns = [_turn(columns, turned, p, q, nothing) for p in range(count) for q in range(p + 1, count)]
        if not any(turns):
            break
    sizes = [math.sqrt(_dot(own, own)) for own in columns]
    order = sorted(range(count), key=lambda k: -sizes[k])
    units = [[x / (sizes[k] or 1.0) for x in columns[k]] for k in order]
    return Singular(
        np.array(units).reshape(count, -1).T,
        np.array([sizes[k] for k in order]),
        np.array([turned[k] for k in order]).reshape(count, -1).T,
    )


def _turn(columns: list[list[float]], turned: list[list[float]], p: int, q: int, nothing: float) -> bool:
    """Columns p and q at right angles, by a rotation t = tan θ with t² + 2ζt = 1; False where they already are"""
    a, b, c = (_dot(columns[i], columns[j]) for i, j in ((p, p), (q, q), (p, q)))
    if abs(c) <= _EPSILON * math.sqrt(a * b) or min(a, b) <= nothing:
        return False
    zeta = (b - a) / (2.0 * c)
    t = math.copysign(1.0, zeta) / (abs(zeta) + math.sqrt(1.0 + zeta * zeta))
    cosine = 1.0 / math.sqrt(1.0 + t * t)
    sine = cosine * t
    for own in (columns, turned):
        pairs = list(zip(own[p], own[q], strict=True))
        own[p] = [cosine * x - sine * y for x, y in pairs]
        own[q] = [sine * x + cosine * y for x, y in pairs]
    return True


def _dot(a: list[float], b: list[float]) -> float:
    return math.fsum([x * y for x, y in zip(a, b, strict=True)])


def rank(a: Array) -> int:
    """How many singular values are not zero but for rounding"""
    sigma = singular_values(a).sigma
    return int((sigma > _negligible(a) * sigma.max(initial=0.0)).sum())


def pseudoinverse(a: Array) -> Array:
    """A⁺ of Moore and Penrose: x = A⁺b is the smallest of all x with the least |A x − b|"""
    u, sigma, v = singular_values(a)
    kept = sigma > _negligible(a) * sigma.max(initial=0.0)
    return product(v[:, kept] / sigma[kept], u[:, kept].T)


def least_squares(a: Array, b: Array, negligible: float | None = None) -> Array:
    """The smallest of all x with the least |A x − b|, singular values up to `negligible` of the largest taken for zero

    A tall matrix is first made square: A = Q R, and R x = Qᵀb. What is left of b is solved for once more, which takes the
    rounding of the singular vectors out.
    """
    matrix, right = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    share = _negligible(matrix) if negligible is None else negligible
    if len(matrix) > 2 * matrix.shape[1]:
        matrix, right = _triangular(matrix, right)
    u, sigma, v = singular_values(matrix)
    kept = sigma > share * sigma.max(initial=0.0)

    def smallest(rest: Array) -> Array:
        along = product(u[:, kept].T, rest)
        return product(v[:, kept], (along.T / sigma[kept]).T)

    found = smallest(right)
    return found + smallest(right - product(matrix, found))


def _triangular(a: Array, b: Array) -> tuple[Array, Array]:
    """R and the first rows of Qᵀb, by Householder's reflections"""
    count = a.shape[1]
    rows = np.concatenate([a, b.reshape(len(a), -1)], axis=1)
    for k in range(count):
        mirror = rows[k:, k].copy()
        size = math.sqrt(math.fsum((mirror * mirror).tolist()))
        mirror[0] += math.copysign(size, mirror[0])
        square = math.fsum((mirror * mirror).tolist())
        if square > 0.0:
            for j in range(k, rows.shape[1]):
                along = math.fsum((mirror * rows[k:, j]).tolist())
                rows[k:, j] -= (2.0 * along / square) * mirror
    return np.triu(rows[:count, :count]), rows[:count, count:].reshape(count, *b.shape[1:])


def _negligible(a: Array) -> float:
    """Of the largest singular value: what rounding leaves of a zero"""
    return max(np.shape(a)) * _EPSILON


# Symmetric matrices -----------------------------------------------------------------------------------------------------


def relative_modes(stiffness: Array, mass: Array) -> Array:
    """λ with K x = λ M x, K symmetric and not negative, M symmetric and positive: rising

    With M = L Lᵀ they are the eigenvalues of L⁻¹K L⁻ᵀ, which is symmetric and not negative too: its singular values.
    """
    lower = cholesky(mass)
    half = solve(lower, np.asarray(stiffness, dtype=float))
    whole = solve(lower, half.T)
    return singular_values(0.5 * (whole + whole.T)).sigma[::-1]


def cholesky(a: Array) -> Array:
    """L of A = L Lᵀ, A symmetric and positive"""
    size = len(a)
    lower = np.zeros((size, size))
    for j in range(size):
        rest = np.asarray(a, dtype=float)[j:, j].copy()
        for k in range(j):
            rest = rest - lower[j:, k] * lower[j, k]
        if not rest[0] > 0.0:
            raise np.linalg.LinAlgError("matrix is not positive definite")
        lower[j:, j] = rest / math.sqrt(float(rest[0]))
    return lower


# The regulator ----------------------------------------------------------------------------------------------------------


def riccati(a: Array, b: Array, q: Array, r: Array) -> Array:
    """P = Q + AᵀP(1 + G P)⁻¹A,  G = B R⁻¹Bᵀ: the cost to go of the regulator over an endless horizon

    By doubling: from the cost over a horizon to that over twice as much, until it no longer grows. E. K.-W. Chu, H.-Y. Fan,
    W.-W. Lin, C.-S. Wang, "Structure-preserving algorithms for periodic discrete-time algebraic Riccati equations", 2004.
    """
    moves, reach, cost = np.asarray(a, dtype=float), product(b, solve(r, b.T)), np.asarray(q, dtype=float)
    one = np.eye(len(moves))
    for _ in range(_DOUBLINGS):
        each = solve(one + product(reach, cost), np.concatenate([moves, reach], axis=1))
        forward, back = each[:, : len(one)], each[:, len(one) :]
        grown = product(moves.T, cost, forward)
        reach = _symmetric(reach + product(moves, back, moves.T))
        cost = _symmetric(cost + grown)
        moves = product(moves, forward)
        if not np.abs(moves).max() < _ENDLESS:
            break
        if np.abs(grown).max() <= _EPSILON * np.abs(cost).max():
            return cost
    raise np.linalg.LinAlgError("Riccati's equation has no solution that stabilises")


def _symmetric(a: Array) -> Array:
    return 0.5 * (a + a.T)
