"""Polynomials piece by piece through given points at given times, with the least jerk or snap.

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
from samara.plan.taylor import Series, composed

_SEARCHED, _REFINED = 8, 5  # samples of a piece for each power of |p⁽ᵏ⁾|², and Newton's steps from each


@dataclass(frozen=True, eq=False)
class Piecewise:
    """p(t) = Σⱼ cᵢⱼ uʲ,  u = (t − tᵢ)/(tᵢ₊₁ − tᵢ), on each piece i: knots (m + 1,) [s], coefficients (m, powers, axes)"""

    knots: Array
    coefficients: Array

    @property
    def duration(self) -> float:
        """From the first knot to the last  [s]"""
        return float(self.knots[-1] - self.knots[0])

    def derivatives(self, time: Scalar, count: int) -> Array:
        """p, ṗ, p̈, … at a time or an array of times: (..., count, axes). Before and after it the end pieces go on."""
        piece = np.clip(np.searchsorted(self.knots, time, side="right") - 1, 0, len(self.coefficients) - 1)
        u = np.asarray((time - self.knots[piece]) / np.diff(self.knots)[piece])[..., None, None]
        table = self.derivative_coefficients[piece, :, :count]
        value: Array = table[..., -1, :, :]
        for power in range(table.shape[-3] - 2, -1, -1):
            value = value * u + table[..., power, :, :]
        return value

    def components(self, time: Scalar, count: int) -> Tree:
        """`derivatives` row by row, axis by axis: of a float floats, of an array arrays, of a symbol symbols

        A symbol's piece is chosen number by number: the last whose knot it has reached. The sums are those of `derivatives`.
        """
        if isinstance(time, (float, np.ndarray)):
            rows = self.derivatives(time, count)
            return rows.tolist() if rows.ndim == 2 else np.moveaxis(rows, (-2, -1), (0, 1))
        knots, spans, table = self.knots.tolist(), np.diff(self.knots), self.derivative_coefficients[:, :, :count]
        _, degrees, count, axes = table.shape
        pieces = np.concatenate([self.knots[:-1, None], spans[:, None], table.reshape(len(spans), -1)], axis=1).tolist()
        start, span, *chosen = pieces[0]
        for knot, (its_start, its_span, *numbers) in zip(knots[1:-1], pieces[1:], strict=True):
            reached = time >= knot
            start, span = where(reached, its_start, start), where(reached, its_span, span)
            chosen = [where(reached, own, before) for own, before in zip(numbers, chosen, strict=True)]
        u = (time - start) / span
        size = count * axes
        value = chosen[(degrees - 1) * size :]
        for power in range(degrees - 2, -1, -1):
            value = [x * u + c for x, c in zip(value, chosen[power * size : (power + 1) * size], strict=True)]
        return [value[row * axes : (row + 1) * axes] for row in range(count)]

    def series(self, time: Series) -> list[Series]:
        """p(s(t)) of every axis as a series in t, from s as one"""
        rows = self.derivatives(time.value, min(len(time), self.coefficients.shape[1]))
        orders = range(rows.shape[-2])
        return [
            composed([rows[..., k, axis] / math.factorial(k) for k in orders], time) for axis in range(rows.shape[-1])
        ]

    @cached_property
    def derivative_coefficients(self) -> Array:
        """The coefficients of every derivative in time, (m, powers, derivatives, axes), so that one Horner sums them all"""
        pieces, count, axes = self.coefficients.shape
        table, stretches = np.zeros((pieces, count, count, axes)), powers(np.diff(self.knots), count)
        for k in range(count):
            falling = np.array([math.perm(j, k) for j in range(k, count)], dtype=float)
            table[:, : count - k, k] = self.coefficients[:, k:] * falling[:, None] / stretches[:, k, None, None]
        return table

    def largest(self, derivative: int) -> float:
        """max |p⁽ᵏ⁾(t)|: at an end of a piece or where d|p⁽ᵏ⁾|²/du = 0"""
        table = self.derivative_coefficients[:, :, derivative]
        square = np.zeros((len(table), 2 * table.shape[1] - 1))
        for j in range(table.shape[1]):
            square[:, j : j + table.shape[1]] += (table[:, j, None] * table).sum(axis=2)
        falling = np.arange(1.0, square.shape[1])
        slope, bend = square[:, 1:] * falling, square[:, 2:] * (falling[1:] * falling[:-1])
        u = np.repeat(np.linspace(0.0, 1.0, _SEARCHED * square.shape[1] + 1)[None], len(table), axis=0)
        best = _horner(square, u).max()
        for _ in range(_REFINED):  # Newton's step from every sample towards the nearest top, where there is one
            steep = _horner(bend, u)
            u = np.clip(np.where(steep < 0.0, u - _horner(slope, u) / np.where(steep < 0.0, steep, 1.0), u), 0.0, 1.0)
            best = max(best, _horner(square, u).max())
        return math.sqrt(best)

    def stretched(self, factor: float) -> "Piecewise":
        """The same curve, flown in `factor` times the time: it stays the one of least jerk or snap"""
        return replace(self, knots=self.knots * factor)


def minimum_derivative(points: ArrayLike, durations: ArrayLike, *, order: int = 4, closed: bool = False) -> Piecewise:
    """min Σ ∫ |p⁽ʳ⁾|² dt through m + 1 points, so long for each of the m pieces [s]; r = 3 is jerk, r = 4 snap

    It starts and ends at rest (all derivatives below r zero), or, closed, repeats itself: p⁽ᵏ⁾ the same at both ends for
    k ≥ 1. The pieces meet with all derivatives below r by construction, to 2r − 2 by optimality.

    The Karush–Kuhn–Tucker conditions of this quadratic programme, its constraints eliminated: with d the Taylor
    coefficients p⁽ᵏ⁾/k!, k < r, at the points, the cost is dᵀK d, and K_ff d_f + K_fg d_g = 0 gives the free from the given.
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
    unit = float(span.mean())  # times near 1 keep the powers of them apart by little
    scales = powers(span / unit, order)
    both = np.concatenate([scales, scales], axis=1)  # at either end of a piece
    hermite, cost = _hermite(order)

    m, n = len(span), len(p) * order
    at = np.arange(n).reshape(len(p), order)
    if closed:
        at[-1, 1:] = at[0, 1:]
    ends = np.concatenate([at[:-1], at[1:]], axis=1)
    stiffness, long = np.zeros((n, n)), powers(span / unit, 2 * order)[:, -1]
    for i in range(m):
        own = cost * both[i][:, None] * both[i] / long[i]
        np.add.at(stiffness, (ends[i][:, None], ends[i]), own)
    free = at[:-1, 1:].reshape(-1) if closed else at[1:-1, 1:].reshape(-1)
    given = at[:, 0]
    d = np.zeros((n, p.shape[1]))
    d[given] = p
    if free.size:
        d[free] = solve(stiffness[np.ix_(free, free)], product(-stiffness[np.ix_(free, given)], p))
    knots = np.concatenate([[0.0], np.cumsum(span)])
    at_ends = both[:, :, None] * d[ends]
    coefficients = np.zeros((m, 2 * order, p.shape[1]))
    for k in range(2 * order):
        coefficients = coefficients + hermite[:, k, None] * at_ends[:, k, None]
    return Piecewise(knots, coefficients)


def between(start: ArrayLike, end: ArrayLike, duration: float) -> Piecewise:
    """p⁽ᵏ⁾(0) = startₖ and p⁽ᵏ⁾(T) = endₖ for k < r, (r, axes) each: the one polynomial of degree 2r − 1 that does, T in s"""
    first, last = np.asarray(start, dtype=float), np.asarray(end, dtype=float)
    if first.ndim != 2 or first.shape != last.shape or not len(first):
        raise ValueError(f"start has shape {first.shape} and end {last.shape}; expected (r, axes) for both")
    if not (np.isfinite(first).all() and np.isfinite(last).all() and 0.0 < duration < math.inf):
        raise ValueError(
            f"start, end and duration ({duration!r}): expected finite numbers, and a duration that is positive"
        )
    order = len(first)
    taylor = np.array([duration**k / math.factorial(k) for k in range(order)])[:, None]
    coefficients = product(_hermite(order)[0], np.concatenate([taylor * first, taylor * last]))
    return Piecewise(np.array([0.0, duration]), coefficients[None])


def _horner(coefficients: Array, u: Array) -> Array:
    """Σⱼ cᵢⱼ uᵢʲ for every piece i at its own u, (m, samples)"""
    value: Array = np.zeros_like(u)
    for column in coefficients.T[::-1]:
        value = value * u + column[:, None]
    return value


@cache
def _hermite(order: int) -> tuple[Array, Array]:
    """c = B (Taylor coefficients at u = 0 and u = 1), B of integers, and the cost Bᵀ ∫ φφᵀ du B of one piece, φⱼ = (uʲ)⁽ʳ⁾"""
    each = range(2 * order)
    ends = np.array(
        [[float(j == k) for j in each] for k in range(order)]
        + [[float(math.comb(j, k)) for j in each] for k in range(order)]
    )
    hermite = np.rint(solve(ends, np.eye(2 * order)))
    falling = np.array([float(math.perm(j, order)) for j in each])
    power_sum = np.maximum(np.add.outer(each, each) - 2 * order + 1, 1)
    return hermite, product(hermite.T, np.outer(falling, falling) / power_sum, hermite)
