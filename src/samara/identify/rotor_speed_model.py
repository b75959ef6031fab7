"""Rotor speeds from motor commands: the first-order lag of `Lag`, driven by the commands of a log."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from samara.compiler.scan import Run, Templates
from samara.compiler.stepper import Scan, compile_scan
from samara.core.quantity import Scalar
from samara.core.types import Array
from samara.physics.rotors.actuator import Lag, lag_step

ALIKE_FOR = 1.0  # [s]: residuals further apart are independent
MOST_STEPS, STEP, SETTLED = 30, 1e-3, 1e-4


def followed(commanded: Array, rise: Scalar, fall: Scalar, period: float) -> Array:
    """Ω(t + T) = lag(Ω, Ω_cmd, T): speeds (rotors, n) at every sample; commands (rotors, n) are held for a period  [rad/s].

    For several lags at once, `rise` and `fall` (m,), the speeds are (m, rotors, n).
    """
    is_single = np.ndim(rise) == 0 and np.ndim(fall) == 0
    up, down = np.broadcast_arrays(*np.atleast_1d(rise, fall))
    rotors, n = commanded.shape
    lanes = rotors * len(up)
    start = np.tile(commanded[:, 0], len(up))[None]
    constants = [period, np.repeat(up, rotors).astype(float), np.repeat(down, rotors).astype(float)]
    inputs = np.ascontiguousarray(np.broadcast_to(np.tile(commanded.T[:-1], len(up))[:, None, :], (n - 1, 1, lanes)))
    _, speeds_after = _compile_lag()(start.copy(), constants, inputs, n - 1, 1)
    speeds = np.concatenate([start, np.asarray(speeds_after)[:, 0]]).T.reshape(len(up), rotors, n)
    return speeds[0] if is_single else speeds


@lru_cache(maxsize=1)
def _compile_lag() -> Run:
    """Compile the first-order lag as a scan over commands."""

    def body(carry: Scalar, constants: Scalar, inputs: Scalar) -> Scalar:
        dt, rise, fall = constants
        speed = lag_step(carry[0], inputs[0], dt, Lag(0.0, 1.0, rise, fall))
        return (speed,), (speed,)

    return compile_scan("llvm", Scan(body, Templates((0.0,), (0.01, 0.1, 0.2), (0.0,))))


class LagFound(NamedTuple):
    """Time constants of a motor [s], the standard errors of their logarithms, and the delay of the commands [s]."""

    rise: float
    fall: float
    error_rise: float
    error_fall: float
    delay: float


def lag_of_speeds(commanded: Array, measured: Array, period: float, rise: float, fall: float) -> LagFound:
    """Estimate the lag of motors from commanded and measured speeds, (rotors, n) both, by least squares.

        Ωᵢ(t) = aᵢ + bᵢ lag(Ω_cmd,i(t − d); τ_rise, τ_fall)

    aᵢ and bᵢ are fitted per rotor, because the speed of a command varies with the battery. Consecutive residuals are
    correlated: the errors are those of sums over `ALIKE_FOR`.
    """
    x = np.array([np.log(rise), np.log(fall), 0.0])
    group_length = max(round(ALIKE_FOR / period), 1)
    for _ in range(MOST_STEPS):
        rows = [x, *(x + STEP * (np.arange(3) == j) * (1.0, 1.0, period)[j] for j in range(3))]
        responses = [
            late(followed(commanded, np.exp(trial[0]), np.exp(trial[1]), period), trial[2] / period) for trial in rows
        ]
        residuals = [_left(response, measured) for response in responses]
        slopes = np.stack([(residual - residuals[0]) / STEP for residual in residuals[1:]]).reshape(3, -1)
        matrix = slopes @ slopes.T
        step = -np.linalg.solve(matrix + 1e-12 * np.trace(matrix) * np.eye(3), slopes @ residuals[0].ravel())
        x = x + np.clip(step, -0.5, 0.5) * (1.0, 1.0, period)
        if np.abs(step).max() < SETTLED:
            break
    scores = slopes.reshape(3, *residuals[0].shape) * residuals[0]
    length = scores.shape[2] // group_length * group_length
    groups = scores[:, :, :length].reshape(3, -1, group_length).sum(axis=2)
    inverse = np.linalg.pinv(matrix)
    covariance = inverse @ (groups @ groups.T) @ inverse
    error = np.sqrt(np.diag(covariance))
    return LagFound(float(np.exp(x[0])), float(np.exp(x[1])), float(error[0]), float(error[1]), float(x[2]))


def _left(response: Array, measured: Array) -> Array:
    """Return the residuals of the best straight line of each rotor, (rotors, n)."""
    x, y = (speeds - speeds.mean(axis=1, keepdims=True) for speeds in (response, measured))
    slope = (x * y).sum(axis=1, keepdims=True) / np.maximum((x * x).sum(axis=1, keepdims=True), 1e-300)
    return np.asarray(y - slope * x)


def late(rows: Array, periods: float) -> Array:
    """x(t − d): shift rows by `periods`, whole or fractional, with linear interpolation; the ends are held."""
    n = rows.shape[1]
    position = np.clip(np.arange(n) - periods, 0.0, n - 1.0)
    k = np.minimum(position.astype(int), n - 2)
    fraction = position - k
    return np.asarray(rows[:, k] * (1.0 - fraction) + rows[:, k + 1] * fraction)
