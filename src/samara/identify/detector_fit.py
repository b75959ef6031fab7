"""Fit the model of a gate detector to a log of its detections, by maximum likelihood.

    fit = fit_detector(DetectionLog(gate, time, visible, found, false, distance, error, delay))
    fit.part                                   # a samara.sensors.DetectorPart
    fit.intervals["miss_rate"]                 # 95 %

The intervals of rates and times are those of the profile likelihood: {θ : 2 (L̂ − L(θ)) < 3.84}, with L(θ) maximised over the
other parameter of the chain.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from samara.core.types import Array
from samara.sensors.detector import CORNER_NORMALS, DetectorPart

DEVIANCE_95 = 3.841458820694124  # 95 % quantile of χ² with one degree of freedom
NORMAL_95 = 1.959963984540054
GRID = 41  # points of each axis
ZOOMS = 5
SCORING_STEPS = 40
ZOOM_DEVIANCE = 3.0 * DEVIANCE_95
RATE_LOGIT = 14.0  # rates from 1e-6 to 1 − 1e-6


class DetectionLog(NamedTuple):
    """One row per frame and gate, (n,): what was in the image, and what the detector found.

    `gate` is a number, `time` that of the image [s], `visible` whether the gate was in the image. `found` is whether it was
    detected, `false` whether something else was reported as this gate. `distance` [m] and `error` (n, 8), measured minus
    true columns and rows [pixel], count where `found`. `delay` is the time from image to detection [s].
    """

    gate: Array
    time: Array
    visible: Array
    found: Array
    false: Array
    distance: Array
    error: Array
    delay: Array


class DetectorFit(NamedTuple):
    """The fitted parameters, and the 95 % interval of each by name."""

    part: DetectorPart
    intervals: dict[str, tuple[float, float]]


def fit_detector(log: DetectionLog) -> DetectorFit:
    """Estimate the parameters of a detector; raise ValueError if the log does not determine them.

    Misses are counted in frames with the gate in view, false detections in those without a true one. A detector that never
    missed has a `miss_rate` of 0, and its interval ends where that would be unlikely.
    """
    log = _checked(log)
    misses = _fit_chain(log, log.visible, log.visible & ~log.found, "visible")
    imagined = _fit_chain(log, ~log.found, log.false, "without a detection")
    noise = _fit_noise(log)
    delays = log.delay[log.found]
    half_width = NORMAL_95 * float(delays.std(ddof=1)) / math.sqrt(len(delays)) if len(delays) > 1 else 0.0
    delay = float(delays.mean())
    estimates = (*misses, *imagined, *noise, (delay, (delay - half_width, delay + half_width)))
    values, intervals = zip(*estimates, strict=True)
    return DetectorFit(DetectorPart(*values), dict(zip(DetectorPart._fields, intervals, strict=True)))


Estimate = tuple[float, tuple[float, float]]
"""A value, and the ends of its interval."""


def _checked(log: DetectionLog) -> DetectionLog:
    """Return the log in order of gate and time, as arrays; raise ValueError if shapes or values are invalid."""
    rows = len(np.atleast_1d(log.time))
    arrays = {}
    for name, value in log._asdict().items():
        array = np.asarray(value, dtype=bool if name in ("visible", "found", "false") else float)
        shape = (rows, CORNER_NORMALS) if name == "error" else (rows,)
        if array.shape != shape:
            raise ValueError(f"log.{name} has the shape {array.shape}; expected {shape}")
        arrays[name] = array
    order = np.lexsort((arrays["time"], arrays["gate"]))
    ordered = DetectionLog(**{name: array[order] for name, array in arrays.items()})
    if not ordered.found.any():
        raise ValueError("log.found: no detection; expected at least one")
    if (ordered.found & ~ordered.visible).any():
        raise ValueError("log.found: a gate was found that is not visible; expected such a detection in `false`")
    if (ordered.found & ordered.false).any():
        raise ValueError("log.false: a row is both found and false; expected one of them")
    for name in ("gate", "time"):
        if not np.isfinite(getattr(ordered, name)).all():
            raise ValueError(f"log.{name}: a value is not finite; expected numbers")
    for name in ("distance", "error", "delay"):
        if not np.isfinite(getattr(ordered, name)[ordered.found]).all():
            raise ValueError(f"log.{name}: a value of a detection is not finite; expected numbers")
    return ordered


def _fit_chain(log: DetectionLog, observed: Array, active: Array, rows: str) -> tuple[Estimate, Estimate]:
    """L = Π p(s₀) Π P(s' | s, Δt),  P(1 | s, Δt) = p + (s − p) exp(−Δt/T): (p, T) of a chain, over all gaps Δt"""
    gate, time, state = log.gate[observed], log.time[observed], active[observed].astype(int)
    if not len(time):
        raise ValueError(f"log: no row {rows}; expected at least one")
    if not state.any() or state.all():
        rate, bound = float(state[0]), min(1.0, 3.0 / len(state))
        return (rate, (0.0, bound) if rate == 0.0 else (1.0 - bound, 1.0)), (0.0, (0.0, math.inf))
    follows = np.flatnonzero(gate[1:] == gate[:-1])
    gaps = np.round(time[follows + 1] - time[follows], 6)
    if len(gaps) and gaps.min() <= 0.0:
        raise ValueError("log.time: two rows of a gate have the same time; expected one row per frame")
    first = np.flatnonzero(np.r_[True, gate[1:] != gate[:-1]])
    gap_values, gap_index = np.unique(gaps, return_inverse=True)
    counts = np.zeros((2, 2, len(gap_values)))
    np.add.at(counts, (state[follows], state[follows + 1], gap_index), 1.0)
    starts = np.array([np.sum(state[first] == 0), np.sum(state[first] == 1)])

    def log_likelihood(logit: Array, log_time: Array) -> Array:
        p, total = 1.0 / (1.0 + np.exp(-logit)), 0.0
        total = starts[0] * np.log(1.0 - p) + starts[1] * np.log(p)
        for k, gap in enumerate(gap_values):
            gone = -np.expm1(-gap * np.exp(-log_time))  # 1 − exp(−Δt/T)
            for s, q in ((0, p), (1, 1.0 - p)):  # s' differs from s with probability q (1 − exp(−Δt/T))
                total = total + counts[s, 1 - s, k] * np.log(q * gone) + counts[s, s, k] * np.log1p(-q * gone)
        return np.asarray(total)

    shortest, longest = (float(gap_values[0]), float(time.max() - time.min())) if len(gaps) else (1.0, 1.0)
    low, high = np.array([-RATE_LOGIT, math.log(0.1 * shortest)]), np.array([RATE_LOGIT, math.log(10.0 * longest)])
    (logit, logits), (log_time, log_times) = _maximise(log_likelihood, low, high)
    rates = tuple(1.0 / (1.0 + math.exp(-x)) for x in (logit, *logits))
    times = tuple(math.exp(x) for x in (log_time, *log_times))
    return (rates[0], (rates[1], rates[2])), (times[0], (times[1], times[2]))


def _fit_noise(log: DetectionLog) -> tuple[Estimate, Estimate]:
    """L = Π N(e; 0, (σ₀ + σ₁ s)²) over the coordinates of all corners: (σ₀, σ₁), by Fisher scoring

    An interval is ±1.96 standard errors, the inverse of the information, within σ ≥ 0.
    """
    distance, squares = log.distance[log.found], np.sum(log.error[log.found] ** 2, axis=1)
    basis, free = np.stack([np.ones_like(distance), distance]), np.array([True, np.ptp(distance) > 0.0])
    theta = np.array([math.sqrt(squares.mean() / CORNER_NORMALS), 0.0])
    if theta[0] == 0.0:
        return (0.0, (0.0, 0.0)), (0.0, (0.0, 0.0))
    for _ in range(SCORING_STEPS):
        sigma = theta @ basis
        score = basis @ (squares / sigma**3 - CORNER_NORMALS / sigma)
        information = 2.0 * CORNER_NORMALS * (basis / sigma**2) @ basis.T
        at_limit = (theta <= 0.0) & (score < 0.0)
        moves = free & ~at_limit
        step = np.zeros(2)
        step[moves] = np.linalg.solve(information[np.ix_(moves, moves)], score[moves])
        theta = np.maximum(theta + step, 0.1 * theta)
        theta[theta < 1e-9 * theta.max()] = 0.0
    covariance = np.zeros((2, 2))
    covariance[np.ix_(free, free)] = np.linalg.inv(information[np.ix_(free, free)])
    half_widths = NORMAL_95 * np.sqrt(np.diag(covariance))
    first, second = (
        (float(x), (max(float(x - half), 0.0), float(x + half))) for x, half in zip(theta, half_widths, strict=True)
    )
    return first, second


def _maximise(log_likelihood: Callable[[Array, Array], Array], low: Array, high: Array) -> tuple[Estimate, Estimate]:
    """Maximise a function of two parameters on grids that close in on it; an interval ends at a limit if nothing else does."""
    low, high = low.astype(float), high.astype(float)
    for _ in range(ZOOMS):
        axes = [np.linspace(a, b, GRID) for a, b in zip(low, high, strict=True)]
        deviance = 2.0 * log_likelihood(axes[0][:, None], axes[1][None, :])
        deviance = np.nanmax(deviance) - deviance
        for k, axis in enumerate(axes):
            near = np.flatnonzero(np.nanmin(deviance, axis=1 - k) < ZOOM_DEVIANCE)
            low[k] = axis[max(near[0] - 1, 0)]
            high[k] = axis[min(near[-1] + 1, GRID - 1)]
    best = np.unravel_index(np.nanargmin(deviance), deviance.shape)
    estimates = []
    for k, axis in enumerate(axes):
        profile = np.nanmin(deviance, axis=1 - k)
        ends = [_crossing(axis, profile, int(best[k]), step) for step in (-1, 1)]
        estimates.append((_vertex(axis, profile, int(best[k])), (ends[0], ends[1])))
    return estimates[0], estimates[1]


def _crossing(axis: Array, profile: Array, best: int, step: int) -> float:
    """Return where the profile deviance first exceeds its 95 % quantile, from the best point in one direction."""
    k = best
    while 0 <= k + step < len(axis):
        if profile[k + step] > DEVIANCE_95:
            t = (DEVIANCE_95 - profile[k]) / (profile[k + step] - profile[k])
            return float(axis[k] + t * (axis[k + step] - axis[k]))
        k += step
    return float(axis[k])


def _vertex(axis: Array, profile: Array, best: int) -> float:
    """Return the minimum of the parabola through the best point and its neighbours."""
    if not 0 < best < len(axis) - 1:
        return float(axis[best])
    below, middle, above = profile[best - 1 : best + 2]
    curvature = below - 2.0 * middle + above
    shift = 0.5 * (below - above) / curvature if curvature > 0.0 else 0.0
    return float(axis[best] + shift * (axis[1] - axis[0]))
