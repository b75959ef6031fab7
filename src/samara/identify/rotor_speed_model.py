"""Rotor speeds from what motors were told: the first-order lag of `Lag`, driven by a log's commands."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from samara.compiler.scan import Run, Templates
from samara.compiler.stepper import Scan, compile_scan
from samara.core.quantity import Scalar
from samara.core.types import Array
from samara.physics.rotors.actuator import Lag, lag_step

ALIKE_FOR = 1.0  # [s]
MOST_STEPS, STEP, SETTLED = 30, 1e-3, 1e-4


def followed(commanded: Array, rise: Scalar, fall: Scalar, period: float) -> Array:
    """Ω(t + T) = lag(Ω, Ω_cmd, T): speeds (rotors, n) at every sample, commands (rotors, n) held from each to the next  [rad/s]

    Of several lags at once, `rise` and `fall` (m,), the speeds are (m, rotors, n).
    """
    alone = np.ndim(rise) == 0 and np.ndim(fall) == 0
    up, down = np.broadcast_arrays(*np.atleast_1d(rise, fall))
    rotors, n = commanded.shape
    lanes = rotors * len(up)
    start = np.tile(commanded[:, 0], len(up))[None]
    held = [period, np.repeat(up, rotors).astype(float), np.repeat(down, rotors).astype(float)]
    inputs = np.ascontiguousarray(np.broadcast_to(np.tile(commanded.T[:-1], len(up))[:, None, :], (n - 1, 1, lanes)))
    _, after = _lagging()(start.copy(), held, inputs, n - 1, 1)
    speeds = np.concatenate([start, np.asarray(after)[:, 0]]).T.reshape(len(up), rotors, n)
    return speeds[0] if alone else speeds


@lru_cache(maxsize=1)
def _lagging() -> Run:
    def body(carry: Scalar, held: Scalar, inputs: Scalar) -> Scalar:
        dt, rise, fall = held
        after = lag_step(carry[0], inputs[0], dt, Lag(0.0, 1.0, rise, fall))
        return (after,), (after,)

    return compile_scan("llvm", Scan(body, Templates((0.0,), (0.01, 0.1, 0.2), (0.0,))))


class LagFound(NamedTuple):
    """A motor's lag [s], the standard errors of its logarithms, and how late commands are heard [s]"""

    rise: float
    fall: float
    error_rise: float
    error_fall: float
    delay: float


def lag_of_speeds(commanded: Array, measured: Array, period: float, rise: float, fall: float) -> LagFound:
    """The lag with which motors went from commands to the speeds that were measured, (rotors, n) both, by least squares

        Ωᵢ(t) = aᵢ + bᵢ lag(Ω_cmd,i(t − d); τ_rise, τ_fall)

    aᵢ and bᵢ are each rotor's own, for what a command comes to moves with the battery. Residuals that follow each other are
    alike: the errors are of sums over a while.
    """
    x = np.array([np.log(rise), np.log(fall), 0.0])
    alike = max(round(ALIKE_FOR / period), 1)
    for _ in range(MOST_STEPS):
        rows = [x, *(x + STEP * (np.arange(3) == j) * (1.0, 1.0, period)[j] for j in range(3))]
        followers = [late(followed(commanded, np.exp(own[0]), np.exp(own[1]), period), own[2] / period) for own in rows]
        left = [_left(each, measured) for each in followers]
        slopes = np.stack([(own - left[0]) / STEP for own in left[1:]]).reshape(3, -1)
        matrix = slopes @ slopes.T
        step = -np.linalg.solve(matrix + 1e-12 * np.trace(matrix) * np.eye(3), slopes @ left[0].ravel())
        x = x + np.clip(step, -0.5, 0.5) * (1.0, 1.0, period)
        if np.abs(step).max() < SETTLED:
            break
    scores = slopes.reshape(3, *left[0].shape) * left[0]
    whole = scores.shape[2] // alike * alike
    groups = scores[:, :, :whole].reshape(3, -1, alike).sum(axis=2)
    inverse = np.linalg.pinv(matrix)
    covariance = inverse @ (groups @ groups.T) @ inverse
    error = np.sqrt(np.diag(covariance))
    return LagFound(float(np.exp(x[0])), float(np.exp(x[1])), float(error[0]), float(error[1]), float(x[2]))


def _left(follower: Array, measured: Array) -> Array:
    """What the best straight line of each rotor leaves, (rotors, n)"""
    x, y = (own - own.mean(axis=1, keepdims=True) for own in (follower, measured))
    slope = (x * y).sum(axis=1, keepdims=True) / np.maximum((x * x).sum(axis=1, keepdims=True), 1e-300)
    return np.asarray(y - slope * x)


def late(rows: Array, periods: float) -> Array:
    """x(t − d): rows shifted by a number of periods, whole or not, straight lines between samples, the ends held"""
    n = rows.shape[1]
    at = np.clip(np.arange(n) - periods, 0.0, n - 1.0)
    k = np.minimum(at.astype(int), n - 2)
    part = at - k
    return np.asarray(rows[:, k] * (1.0 - part) + rows[:, k + 1] * part)
