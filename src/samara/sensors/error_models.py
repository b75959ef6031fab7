"""What sensors do to a true value: noise, saturation, steps, gaps; each a line, with normals as inputs."""

from statistics import NormalDist
from typing import Any

from samara.core.algebra import Vec3
from samara.core.ops import clamp, floor, logical_and, where
from samara.core.quantity import Scalar
from samara.core.random import gauss_markov
from samara.core.tree import flatten, unflatten

ALLAN_FLOOR = 0.6643
"""√(2 ln 2 / π): the Allan deviation of flicker noise of bias instability B is this times B, at every averaging time."""
ALLAN_PEAK = 0.6174
"""The largest Allan deviation of a Gauss–Markov process of deviation 1, found at 1.893 of its time constants."""
ALLAN_PEAK_AT = 1.8926


def drift_sigma(bias_instability: float) -> float:
    """σ = 0.664 B / 0.617: the Gauss–Markov drift whose Allan deviation peaks at the floor of a bias instability B"""
    return bias_instability * ALLAN_FLOOR / ALLAN_PEAK


def vector(normals: Any, first: int) -> Vec3:
    """Three normals, from one on"""
    return Vec3(normals[first], normals[first + 1], normals[first + 2])


def wandered(x: Vec3, normals: Vec3, dt: Scalar, *, sigma: Scalar, tau: Scalar) -> Vec3:
    """x' = α x + σ √(1 − α²) n, axis by axis"""
    return Vec3(*(gauss_markov(own, n, dt, sigma=sigma, tau=tau) for own, n in zip(x, normals, strict=True)))


def saturated(x: Vec3, full_scale: Scalar) -> Vec3:
    """Each axis within ±full_scale"""
    return Vec3(*(clamp(own, -full_scale, full_scale) for own in x))


def quantised(x: Any, step: Scalar) -> Any:
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


def held_where_lost(valid: Scalar, fresh: Any, last: Any) -> Any:
    """The new reading where it arrived, else the last one again; the field `valid` says which"""
    if isinstance(valid, float) and valid == 1.0:
        return fresh
    pairs = zip(flatten(fresh), flatten(last), strict=True)
    said = unflatten(fresh, iter([where(valid > 0.5, new, old) for new, old in pairs]))
    return said._replace(valid=valid)
