"""What sensors do to a true value: noise, saturation, steps, gaps; normals are inputs. And their Allan deviation."""

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
"""The largest Allan deviation of a Gauss–Markov process of deviation 1, found at 1.893 of its time constants."""
ALLAN_PEAK_AT = 1.8926


def drift_sigma(bias_instability: float) -> float:
    """σ = 0.664 B / 0.617: the Gauss–Markov drift whose Allan deviation peaks at the floor of a bias instability B"""
    return bias_instability * ALLAN_FLOOR / ALLAN_PEAK


def vector(normals: Sequence[Scalar], first: int) -> Vec3:
    """Three normals, from one on"""
    return Vec3(normals[first], normals[first + 1], normals[first + 2])


def wandered(x: Vec3, normals: Vec3, dt: Scalar, *, sigma: Scalar, tau: Scalar) -> Vec3:
    """x' = α x + σ √(1 − α²) n, axis by axis"""
    return Vec3(*(gauss_markov(own, n, dt, sigma=sigma, tau=tau) for own, n in zip(x, normals, strict=True)))


def saturated(x: Vec3, full_scale: Scalar) -> Vec3:
    """Each axis within ±full_scale"""
    return Vec3(*(clamp(own, -full_scale, full_scale) for own in x))


def quantised(x: Scalar, step: Scalar) -> Scalar:
    """Δ ⌊x/Δ + ½⌋: the nearest step; Δ = 0 leaves it as it is"""
    if step == 0.0:
        return x
    if isinstance(x, Vec3):
        return Vec3(*(quantised(own, step) for own in x))
    return step * floor(x / step + 0.5)


def heard(normal: Scalar, time: Scalar, *, lost: float, outages: tuple[tuple[float, float], ...]) -> Scalar:
    """1 when a sample arrives, 0 when it is lost: at random with probability `lost`, and always from start to end of an
    outage [s]"""
    valid: Scalar = 1.0
    if lost > 0.0:
        valid = where(normal < NormalDist().inv_cdf(min(lost, 1.0 - 1e-12)), 0.0, valid)
    for start, end in outages:
        valid = where(logical_and(time >= start, time < end), 0.0, valid)
    return valid


def held_where_lost(valid: Scalar, fresh: Tree, last: Tree) -> Tree:
    """The new reading where it arrived, else the last one again; the field `valid` says which"""
    if isinstance(valid, float) and valid == 1.0:
        return fresh
    pairs = zip(flatten(fresh), flatten(last), strict=True)
    said = unflatten(fresh, iter([where(valid > 0.5, new, old) for new, old in pairs]))
    return said._replace(valid=valid)


def allan_deviation(samples: ArrayLike, dt: float, times: Sequence[float]) -> Array:
    """σ²(τ) = ⟨(θ(t+2τ) − 2θ(t+τ) + θ(t))²⟩ / 2τ²,  θ = ∫ y dt, over all t: one for each τ [s], in the unit of the samples

    `samples` are evenly spaced by dt [s] along their first axis; what is along the others is kept apart. White noise of
    density N gives N/√τ, a constant bias gives 0, bias instability B a floor of 0.664 B.
    """
    y = np.asarray(samples, dtype=float)
    theta = np.concatenate([np.zeros((1, *y.shape[1:])), np.cumsum(y - y.mean(axis=0), axis=0) * dt])
    found = []
    for tau in times:
        m = round(tau / dt)
        if m < 1 or 2 * m > len(y):
            longest = len(y) // 2 * dt
            raise ValueError(f"an averaging time is {tau:g} s; expected one from {dt:g} s to {longest:g} s")
        second = theta[2 * m :] - 2.0 * theta[m:-m] + theta[: -2 * m]
        found.append(np.sqrt((second**2).mean(axis=0) / (2.0 * (m * dt) ** 2)))
    return np.array(found)
