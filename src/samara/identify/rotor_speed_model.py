"""Rotor speeds from motor commands: the first-order lag of `Lag`, driven by the commands of a log."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from samara.compiler.scan import CompiledScan, Templates
from samara.compiler.stepper import Scan, compile_scan
from samara.core.quantity import Scalar
from samara.core.types import Array
from samara.physics.rotors.actuator import Lag, lag_step, lag_target

CORRELATION_TIME_S = 1.0  # [s]: residuals further apart are independent
MAX_STEPS, DIFFERENCE_STEP, STEP_TOLERANCE = 30, 1e-3, 1e-4


def simulate_lag(commanded: Array, time_constant_up: Scalar, time_constant_down: Scalar, period: float) -> Array:
    """Ω(t + T) = lag(Ω, Ω_cmd, T): speeds (rotors, n) at every sample; commands (rotors, n) are held for a period  [rad/s].

    For several lags at once, `time_constant_up` and `time_constant_down` (m,), the speeds are (m, rotors, n).
    """
    is_single = np.ndim(time_constant_up) == 0 and np.ndim(time_constant_down) == 0
    up, down = np.broadcast_arrays(*np.atleast_1d(time_constant_up, time_constant_down))
    rotors, n = commanded.shape
    lanes = rotors * len(up)
    start = np.tile(commanded[:, 0], len(up))[None]
    constants = [period, np.repeat(up, rotors).astype(float), np.repeat(down, rotors).astype(float)]
    inputs = np.ascontiguousarray(np.broadcast_to(np.tile(commanded.T[:-1], len(up))[:, None, :], (n - 1, 1, lanes)))
    _, speeds_after = _compile_lag()(start.copy(), constants, inputs, n - 1, 1)
    speeds = np.concatenate([start, np.asarray(speeds_after)[:, 0]]).T.reshape(len(up), rotors, n)
    return speeds[0] if is_single else speeds


@lru_cache(maxsize=1)
def _compile_lag() -> CompiledScan:
    """Compile the first-order lag as a scan over commands."""

    def body(carry: Scalar, constants: Scalar, inputs: Scalar) -> Scalar:
        dt, time_constant_up, time_constant_down = constants
        speed = lag_step(carry[0], inputs[0], dt, Lag(0.0, 1.0, time_constant_up, time_constant_down))
        return (speed,), (speed,)

    return compile_scan("llvm", Scan(body, Templates((0.0,), (0.01, 0.1, 0.2), (0.0,))))


class LagEstimate(NamedTuple):
    """Time constants of a motor [s], the standard errors of their logarithms, and the delay of the commands [s]."""

    time_constant_up: float
    time_constant_down: float
    error_up: float
    error_down: float
    delay: float


def estimate_lag(
    commanded: Array, measured: Array, period: float, time_constant_up: float, time_constant_down: float
) -> LagEstimate:
    """Estimate the lag of motors from commanded and measured speeds, (rotors, n) both, by least squares.

        Ωᵢ(t) = aᵢ + bᵢ lag(Ω_cmd,i(t − d); τ_up, τ_down)

    aᵢ and bᵢ are fitted per rotor, because the speed of a command varies with the battery. Consecutive residuals are
    correlated: the errors are those of sums over `CORRELATION_TIME_S`. Commands that change as much between samples as in
    the whole flight are not resolved: the fraction of the speeds that is not explained, times that ratio, is an error too.
    """
    x = np.array([np.log(time_constant_up), np.log(time_constant_down), 0.0])
    group_length = max(round(CORRELATION_TIME_S / period), 1)
    for _ in range(MAX_STEPS):
        rows = [x, *(x + DIFFERENCE_STEP * (np.arange(3) == j) * (1.0, 1.0, period)[j] for j in range(3))]
        responses = [
            delay_signal(simulate_lag(commanded, np.exp(trial[0]), np.exp(trial[1]), period), trial[2] / period)
            for trial in rows
        ]
        residuals = [_line_residuals(response, measured) for response in responses]
        slopes = np.stack([(residual - residuals[0]) / DIFFERENCE_STEP for residual in residuals[1:]]).reshape(3, -1)
        matrix = slopes @ slopes.T
        step = -np.linalg.solve(matrix + 1e-12 * np.trace(matrix) * np.eye(3), slopes @ residuals[0].ravel())
        x = x + np.clip(step, -0.5, 0.5) * (1.0, 1.0, period)
        if np.abs(step).max() < STEP_TOLERANCE:
            break
    scores = slopes.reshape(3, *residuals[0].shape) * residuals[0]
    length = scores.shape[2] // group_length * group_length
    groups = scores[:, :, :length].reshape(3, -1, group_length).sum(axis=2)
    inverse = np.linalg.pinv(matrix)
    covariance = inverse @ (groups @ groups.T) @ inverse
    unexplained = np.sqrt(np.mean(residuals[0] ** 2) / np.mean(measured.var(axis=1)))
    unresolved = np.sqrt(np.mean(np.diff(commanded, axis=1) ** 2) / np.mean(commanded.var(axis=1)))
    error = np.hypot(np.sqrt(np.diag(covariance)), unexplained * unresolved)
    return LagEstimate(float(np.exp(x[0])), float(np.exp(x[1])), float(error[0]), float(error[1]), float(x[2]))


def spin_up_commands(speeds: Array, time_constant_up: float, time_constant_down: float, period: float) -> Array:
    """Ω_cmd = Ω + τ Ω̇: the commands at which motors accelerate as these speeds (rotors, n) do  [rad/s]."""
    motor = Lag(0.0, 1.0, time_constant_up, time_constant_down)
    return np.asarray(lag_target(speeds, np.gradient(speeds, period, axis=1), motor))


def _line_residuals(response: Array, measured: Array) -> Array:
    """Return the residuals of the best straight line of each rotor, (rotors, n)."""
    x, y = (speeds - speeds.mean(axis=1, keepdims=True) for speeds in (response, measured))
    slope = (x * y).sum(axis=1, keepdims=True) / np.maximum((x * x).sum(axis=1, keepdims=True), 1e-300)
    return np.asarray(y - slope * x)


def delay_signal(rows: Array, periods: float) -> Array:
    """x(t − d): shift rows by `periods`, whole or fractional, with linear interpolation; the ends are held."""
    n = rows.shape[1]
    position = np.clip(np.arange(n) - periods, 0.0, n - 1.0)
    k = np.minimum(position.astype(int), n - 2)
    fraction = position - k
    return np.asarray(rows[:, k] * (1.0 - fraction) + rows[:, k + 1] * fraction)
