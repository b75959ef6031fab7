"""Piecewise polynomials through given points at given times, with minimum jerk or snap.

D. Mellinger, V. Kumar, "Minimum snap trajectory generation and control for quadrotors", ICRA 2011; the unknowns are the
derivatives at the points, as in C. Richter, A. Bry, N. Roy, "Polynomial trajectory planning …", ISRR 2013.
"""

import math
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
from numpy.typing import ArrayLike

from samara.core.ops import where
from samara.core.portable_linalg import powers, product, solve
from samara.core.quantity import Scalar, Tree
from samara.core.types import Array
from samara.plan.taylor import Series, compose_series

_SAMPLES_PER_POWER, _NEWTON_STEPS = 8, 5  # samples of a piece per power of |p⁽ᵏ⁾|², and Newton steps from each


@dataclass(frozen=True, eq=False)
class PiecewisePolynomial:
    """p(t) = Σⱼ cᵢⱼ uʲ,  u = (t − tᵢ)/(tᵢ₊₁ − tᵢ), on each piece i: knots (m + 1,) [s], coefficients (m, powers, axes)"""

    knots: Array
    coefficients: Array

    @property
    def duration(self) -> float:
        """Time from the first knot to the last  [s]"""
        return float(self.knots[-1] - self.knots[0])

    def derivatives(self, time: Scalar, count: int) -> Array:
        """p, ṗ, p̈, … at a time or an array of times: (..., count, axes); the end pieces extrapolate."""
        piece = np.clip(np.searchsorted(self.knots, time, side="right") - 1, 0, len(self.coefficients) - 1)
        u = np.asarray((time - self.knots[piece]) / np.diff(self.knots)[piece])[..., None, None]
        table = self.derivative_coefficients[piece, :, :count]
        value: Array = table[..., -1, :, :]
        for power in range(table.shape[-3] - 2, -1, -1):
            value = value * u + table[..., power, :, :]
        return value

    def components(self, time: Scalar, count: int) -> Tree:
        """`derivatives` by rows and axes: floats for a float, arrays for an array, symbols for a symbol

        For a symbol, the piece is selected value by value: the last piece whose first knot has been reached. The sums
        are those of `derivatives`.
        """
        if isinstance(time, (float, np.ndarray)):
            rows = self.derivatives(time, count)
            return rows.tolist() if rows.ndim == 2 else np.moveaxis(rows, (-2, -1), (0, 1))
        knots, spans, table = self.knots.tolist(), np.diff(self.knots), self.derivative_coefficients[:, :, :count]
        _, degrees, count, axes = table.shape
        pieces = np.concatenate([self.knots[:-1, None], spans[:, None], table.reshape(len(spans), -1)], axis=1).tolist()
        start, span, *coefficients = pieces[0]
        for knot, (piece_start, piece_span, *piece_coefficients) in zip(knots[1:-1], pieces[1:], strict=True):
            is_reached = time >= knot
            start, span = where(is_reached, piece_start, start), where(is_reached, piece_span, span)
            coefficients = [
                where(is_reached, new, old) for new, old in zip(piece_coefficients, coefficients, strict=True)
            ]
        u = (time - start) / span
        size = count * axes
        value = coefficients[(degrees - 1) * size :]
        for power in range(degrees - 2, -1, -1):
            value = [x * u + c for x, c in zip(value, coefficients[power * size : (power + 1) * size], strict=True)]
        return [value[row * axes : (row + 1) * axes] for row in range(count)]

    def series(self, time: Series) -> list[Series]:
        """p(s(t)) of every axis as a series in t, from the series of s"""
        rows = self.derivatives(time.value, min(len(time), self.coefficients.shape[1]))
        orders = range(rows.shape[-2])
        return [
            compose_series([rows[..., k, axis] / math.factorial(k) for k in orders], time)
            for axis in range(rows.shape[-1])
        ]

    @cached_property
    def derivative_coefficients(self) -> Array:
        """Coefficients of every time derivative, (m, powers, derivatives, axes), so that one Horner scheme sums them all."""
        pieces, count, axes = self.coefficients.shape
        table, span_powers = np.zeros((pieces, count, count, axes)), powers(np.diff(self.knots), count)
        for k in range(count):
            factors = np.array([math.perm(j, k) for j in range(k, count)], dtype=float)
            table[:, : count - k, k] = self.coefficients[:, k:] * factors[:, None] / span_powers[:, k, None, None]
        return table

    def max_norm(self, derivative: int) -> float:
        """max |p⁽ᵏ⁾(t)|: at an end of a piece or at d|p⁽ᵏ⁾|²/du = 0"""
        table = self.derivative_coefficients[:, :, derivative]
        square = np.zeros((len(table), 2 * table.shape[1] - 1))
        for j in range(table.shape[1]):
            square[:, j : j + table.shape[1]] += (table[:, j, None] * table).sum(axis=2)
        factors = np.arange(1.0, square.shape[1])
        slope, second_derivative = square[:, 1:] * factors, square[:, 2:] * (factors[1:] * factors[:-1])
        u = np.repeat(np.linspace(0.0, 1.0, _SAMPLES_PER_POWER * square.shape[1] + 1)[None], len(table), axis=0)
        largest_square = _horner(square, u).max()
        for _ in range(_NEWTON_STEPS):  # Newton's step from every sample towards the nearest maximum, if there is one
            curvature = _horner(second_derivative, u)
            u = np.clip(
                np.where(curvature < 0.0, u - _horner(slope, u) / np.where(curvature < 0.0, curvature, 1.0), u),
                0.0,
                1.0,
            )
            largest_square = max(largest_square, _horner(square, u).max())
        return math.sqrt(largest_square)

    def stretch(self, factor: float) -> "PiecewisePolynomial":
        """Return the same curve, flown in `factor` times the time; it still has minimum jerk or snap."""
        return replace(self, knots=self.knots * factor)


def minimum_derivative(
    points: ArrayLike, durations: ArrayLike, *, order: int = 4, closed: bool = False
) -> PiecewisePolynomial:
    """min Σ ∫ |p⁽ʳ⁾|² dt through m + 1 points with given durations of the m pieces [s]; r = 3 is jerk, r = 4 snap

    The curve starts and ends at rest (all derivatives below r are zero) or, if closed, is periodic: p⁽ᵏ⁾ is the same at
    both ends for k ≥ 1. At the joints, the derivatives below r are continuous by construction, those up to 2r − 2 by
    optimality. The solution satisfies the Karush–Kuhn–Tucker conditions of this quadratic programme, with its
    constraints eliminated: with d the Taylor coefficients p⁽ᵏ⁾/k!, k < r, at the points, the cost is dᵀK d, and K_ff
    d_f + K_fg d_g = 0 gives the free d from the given.
    """
    p = np.asarray(points, dtype=float)
    span = np.asarray(durations, dtype=float)
    if p.ndim != 2 or len(p) < 2 or span.shape != (len(p) - 1,):
        raise ValueError(
            f"points have shape {p.shape} and durations {span.shape}; expected (m + 1, axes) and (m,), m at least 1"
        )
    if not (np.isfinite(p).all() and np.isfinite(span).all() and (span > 0.0).all()):
        raise ValueError("points and durations: expected finite numbers, and durations that are positive")
    if order < 2:
        raise ValueError(f"order is {order}; expected 2 (acceleration), 3 (jerk), 4 (snap) or more")
    unit = float(span.mean())  # times near 1 keep the matrix well conditioned
    scales = powers(span / unit, order)
    end_scales = np.concatenate([scales, scales], axis=1)  # at either end of a piece
    hermite, cost = _hermite_basis(order)

    m, n = len(span), len(p) * order
    indices = np.arange(n).reshape(len(p), order)
    if closed:
        indices[-1, 1:] = indices[0, 1:]
    ends = np.concatenate([indices[:-1], indices[1:]], axis=1)
    stiffness, span_power = np.zeros((n, n)), powers(span / unit, 2 * order)[:, -1]
    for i in range(m):
        piece_stiffness = cost * end_scales[i][:, None] * end_scales[i] / span_power[i]
        np.add.at(stiffness, (ends[i][:, None], ends[i]), piece_stiffness)
    free = indices[:-1, 1:].reshape(-1) if closed else indices[1:-1, 1:].reshape(-1)
    fixed = indices[:, 0]
    d = np.zeros((n, p.shape[1]))
    d[fixed] = p
    if free.size:
        d[free] = solve(stiffness[np.ix_(free, free)], product(-stiffness[np.ix_(free, fixed)], p))
    knots = np.concatenate([[0.0], np.cumsum(span)])
    end_values = end_scales[:, :, None] * d[ends]
    coefficients = np.zeros((m, 2 * order, p.shape[1]))
    for k in range(2 * order):
        coefficients = coefficients + hermite[:, k, None] * end_values[:, k, None]
    return PiecewisePolynomial(knots, coefficients)


def hermite_polynomial(start: ArrayLike, end: ArrayLike, duration: float) -> PiecewisePolynomial:
    """p⁽ᵏ⁾(0) = startₖ and p⁽ᵏ⁾(T) = endₖ for k < r, (r, axes) each: the unique polynomial of degree 2r − 1, T in s"""
    start_values, end_values = np.asarray(start, dtype=float), np.asarray(end, dtype=float)
    if start_values.ndim != 2 or start_values.shape != end_values.shape or not len(start_values):
        raise ValueError(
            f"start has shape {start_values.shape} and end {end_values.shape}; expected (r, axes) for both"
        )
    if not (np.isfinite(start_values).all() and np.isfinite(end_values).all() and 0.0 < duration < math.inf):
        raise ValueError(
            f"start, end and duration ({duration!r}): expected finite numbers, and a duration that is positive"
        )
    order = len(start_values)
    taylor = np.array([duration**k / math.factorial(k) for k in range(order)])[:, None]
    coefficients = product(_hermite_basis(order)[0], np.concatenate([taylor * start_values, taylor * end_values]))
    return PiecewisePolynomial(np.array([0.0, duration]), coefficients[None])


def _horner(coefficients: Array, u: Array) -> Array:
    """Σⱼ cᵢⱼ uᵢʲ for every piece i at its values of u, (m, samples)"""
    value: Array = np.zeros_like(u)
    for column in coefficients.T[::-1]:
        value = value * u + column[:, None]
    return value


@cache
def _hermite_basis(order: int) -> tuple[Array, Array]:
    """c = B (Taylor coefficients at u = 0 and u = 1), B of integers, and the cost Bᵀ ∫ φφᵀ du B of one piece, φⱼ = (uʲ)⁽ʳ⁾"""
    degrees = range(2 * order)
    ends = np.array(
        [[float(j == k) for j in degrees] for k in range(order)]
        + [[float(math.comb(j, k)) for j in degrees] for k in range(order)]
    )
    hermite = np.rint(solve(ends, np.eye(2 * order)))
    factors = np.array([float(math.perm(j, order)) for j in degrees])
    power_sum = np.maximum(np.add.outer(degrees, degrees) - 2 * order + 1, 1)
    return hermite, product(hermite.T, np.outer(factors, factors) / power_sum, hermite)
