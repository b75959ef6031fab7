"""Failure probability over one varied parameter: a logistic curve, fitted to flights that passed or failed.

    P(fail | x) = 1/(1 + e^−(β₀ + β₁ z + β₂ (z² − 1))),   z = (x − mean)/deviation

The square term allows failures at both ends. β maximises the likelihood times Jeffreys' prior (D. Firth, 1993): without it,
failures at one end only would give a step of infinite slope, and few failures a curve that is too steep.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from samara.core.types import Array

_MAX_NEWTON_STEPS = 100


class FailureCurve(NamedTuple):
    """The failure probability P(fail | x) over one varied parameter."""

    mean: float
    deviation: float
    beta: Array
    """(1 + terms,): β₀, β₁, β₂, as many as the distinct values of the parameter determine"""
    covariance: Array
    p_value: float
    """p-value of a likelihood-ratio test against a constant failure rate"""

    def rate(self, x: ArrayLike) -> Array:
        """P(fail | x)"""
        return _logistic(_terms(np.asarray(x, dtype=float), self) @ self.beta)

    def band(self, x: ArrayLike) -> tuple[Array, Array]:
        """Return the 95 % confidence interval of the rate at each x, by the curvature of the likelihood."""
        terms = _terms(np.asarray(x, dtype=float), self)
        half_width = 1.959963984540054 * np.sqrt(np.einsum("...i,ij,...j->...", terms, self.covariance, terms))
        centre = terms @ self.beta
        return _logistic(centre - half_width), _logistic(centre + half_width)


def failure_curve(values: ArrayLike, failed: ArrayLike) -> FailureCurve:
    """Fit the curve of one parameter from its value and the failure flag of each flight."""
    x, y = np.asarray(values, dtype=float), np.asarray(failed, dtype=float)
    if x.ndim != 1 or x.shape != y.shape or not len(x) or not np.isfinite(x).all():
        expected = "expected one finite number and one outcome a flight"
        raise ValueError(f"{x.shape} values of a factor, {y.shape} outcomes; {expected}")
    distinct = len(np.unique(x))
    deviation = float(x.std()) if distinct > 1 else 1.0
    flat = FailureCurve(float(x.mean()), deviation, np.zeros(min(distinct, 3)), np.empty((0, 0)), 1.0)
    terms = _terms(x, flat)
    beta, covariance, likelihood = _fit(terms, y)
    ratio = max(0.0, 2.0 * (likelihood - _constant_likelihood(terms, y)))
    p_value = {0: 1.0, 1: math.erfc(math.sqrt(0.5 * ratio)), 2: math.exp(-0.5 * ratio)}[len(beta) - 1]
    return flat._replace(beta=beta, covariance=covariance, p_value=p_value)


def _terms(x: Array, curve: FailureCurve) -> Array:
    """(…, 1 + terms): 1, z, z² − 1"""
    z = (x - curve.mean) / curve.deviation
    return np.stack([np.ones_like(z), z, z * z - 1.0][: len(curve.beta)], axis=-1)


def _fit(terms: Array, y: Array) -> tuple[Array, Array, float]:
    """β with Σ (y − p + h (½ − p)) x = 0, by Newton's method; its covariance, and the penalised log-likelihood"""
    beta = np.zeros(terms.shape[1])
    likelihood = _penalised_likelihood(terms, y, beta)
    for _ in range(_MAX_NEWTON_STEPS):
        p = _logistic(terms @ beta)
        weighted = terms * (p * (1.0 - p))[:, None]
        covariance = np.linalg.inv(terms.T @ weighted)
        leverage = np.einsum("ni,ij,nj->n", weighted, covariance, terms)
        step = covariance @ (terms.T @ (y - p + leverage * (0.5 - p)))
        candidate = _penalised_likelihood(terms, y, beta + step)
        while candidate < likelihood - 1e-12 * abs(likelihood) and np.abs(step).max() > 1e-9:
            step = 0.5 * step
            candidate = _penalised_likelihood(terms, y, beta + step)
        beta, likelihood = beta + step, candidate
        if np.abs(step).max() <= 1e-9:
            break
    return beta, covariance, likelihood


def _penalised_likelihood(terms: Array, y: Array, beta: Array) -> float:
    """ln L + ½ ln |Xᵀ W X|"""
    eta = terms @ beta
    p = _logistic(eta)
    _, determinant = np.linalg.slogdet(terms.T @ (terms * (p * (1.0 - p))[:, None]))
    return float((y * eta - np.logaddexp(0.0, eta)).sum() + 0.5 * determinant)


def _constant_likelihood(terms: Array, y: Array) -> float:
    """The penalised log-likelihood of the best constant rate: with q terms its p is (m + q/2)/(n + q)"""
    n, q = terms.shape
    p = (float(y.sum()) + 0.5 * q) / (n + q)
    return _penalised_likelihood(terms, y, np.array([math.log(p / (1.0 - p))] + [0.0] * (q - 1)))


def _logistic(eta: Array) -> Array:
    """1/(1 + e^−η)"""
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * eta)))
