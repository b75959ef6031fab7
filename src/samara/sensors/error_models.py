"""Sensor errors: noise, drift, saturation, quantisation and dropouts, with normal numbers as inputs; the Allan deviation."""

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from samara.core.algebra import Vec3
from samara.core.ops import clamp, floor, logical_and, where
from samara.core.quantity import Scalar, Tree
from samara.core.random import gauss_markov
from samara.core.tree import flatten, unflatten
from samara.core.types import Array

ALLAN_FLOOR = 0.6643
"""√(2 ln 2 / π): the Allan deviation of flicker noise of bias instability B is this times B, at every averaging time."""
ALLAN_PEAK = 0.6174
"""The largest Allan deviation of a Gauss–Markov process of deviation 1, at 1.893 time constants."""
ALLAN_PEAK_TIME_RATIO = 1.8926


def drift_sigma(bias_instability: float) -> float:
    """σ = 0.664 B / 0.617: the Gauss–Markov drift whose Allan deviation peaks at the floor of a bias instability B"""
    return bias_instability * ALLAN_FLOOR / ALLAN_PEAK


def normal_vector(normals: Sequence[Scalar], first: int) -> Vec3:
    """Return three consecutive normals, starting at index `first`."""
    return Vec3(normals[first], normals[first + 1], normals[first + 2])


def gauss_markov_vector(x: Vec3, normals: Vec3, dt: Scalar, *, sigma: Scalar, tau: Scalar) -> Vec3:
    """x' = α x + σ √(1 − α²) n, axis by axis"""
    return Vec3(*(gauss_markov(value, n, dt, sigma=sigma, tau=tau) for value, n in zip(x, normals, strict=True)))


def saturate(x: Vec3, full_scale: Scalar) -> Vec3:
    """Limit each axis to ±full_scale."""
    return Vec3(*(clamp(value, -full_scale, full_scale) for value in x))


def quantise(x: Scalar, step: Scalar) -> Scalar:
    """Δ ⌊x/Δ + ½⌋: the nearest multiple of Δ; unchanged for Δ = 0"""
    if step == 0.0:
        return x
    if isinstance(x, Vec3):
        return Vec3(*(quantise(component, step) for component in x))
    return step * floor(x / step + 0.5)


def sample_validity(
    normal: Scalar, time: Scalar, *, dropout_rate: float, outages: tuple[tuple[float, float], ...]
) -> Scalar:
    """Return 1 if a sample arrives and 0 if it is lost: at random with probability `dropout_rate`, and during outages.

    `outages` are pairs of start and end times [s].
    """
    valid: Scalar = 1.0
    if dropout_rate > 0.0:
        valid = where(normal < NormalDist().inv_cdf(min(dropout_rate, 1.0 - 1e-12)), 0.0, valid)
    for start, end in outages:
        valid = where(logical_and(time >= start, time < end), 0.0, valid)
    return valid


def hold_last_valid(valid: Scalar, fresh: Tree, last: Tree) -> Tree:
    """Return the new reading if it arrived, else the last one; its field `valid` distinguishes them."""
    if isinstance(valid, float) and valid == 1.0:
        return fresh
    pairs = zip(flatten(fresh), flatten(last), strict=True)
    reading = unflatten(fresh, iter([where(valid > 0.5, new, old) for new, old in pairs]))
    return reading._replace(valid=valid)


def allan_deviation(samples: ArrayLike, dt: float, times: Sequence[float] | Array) -> Array:
    """σ²(τ) = ⟨(θ(t+2τ) − 2θ(t+τ) + θ(t))²⟩ / 2τ²,  θ = ∫ y dt, over all t: one for each τ [s], in the unit of the samples

    `samples` are evenly spaced by dt [s] along their first axis; further axes are independent series. White noise of
    density N gives N/√τ, a constant bias gives 0, bias instability B a floor of 0.664 B.
    """
    y = np.asarray(samples, dtype=float)
    theta = np.concatenate([np.zeros((1, *y.shape[1:])), np.cumsum(y - y.mean(axis=0), axis=0) * dt])
    deviations = []
    for tau in times:
        m = round(tau / dt)
        if m < 1 or 2 * m > len(y):
            max_time = len(y) // 2 * dt
            raise ValueError(f"an averaging time is {tau:g} s; expected one from {dt:g} s to {max_time:g} s")
        second_difference = theta[2 * m :] - 2.0 * theta[m:-m] + theta[: -2 * m]
        deviations.append(np.sqrt((second_difference**2).mean(axis=0) / (2.0 * (m * dt) ** 2)))
    return np.array(deviations)
